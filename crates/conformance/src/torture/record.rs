//! Records: numbered, checksummed, of a payload that follows from whose and which it is.

/// Bytes before the payload.
pub(super) const HEADER_BYTES: usize = 32;

const MAGIC: u32 = 0x5374_5069;

/// Whose record, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) round: u64,
    pub(super) writer: u32,
    pub(super) number: u64,
    pub(super) bytes: u32,
}

// magic 0..4, bytes 4..8, round 8..16, number 16..24, writer 24..28, checksum 28..32, payload
impl Record {
    /// Writes the record to `buf`, which is as long as the record.
    pub(super) fn encode(self, buf: &mut [u8]) {
        let (header, payload) = buf.split_at_mut(HEADER_BYTES);
        header[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        header[8..16].copy_from_slice(&self.round.to_le_bytes());
        header[16..24].copy_from_slice(&self.number.to_le_bytes());
        header[24..28].copy_from_slice(&self.writer.to_le_bytes());
        self.fill(payload);
        let checksum = checksum(buf);
        buf[28..32].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The size that a header claims, if it is the header of a record of this round.
    pub(super) fn claimed_bytes(header: &[u8], round: u64) -> Result<usize, String> {
        let bytes = word(header, 4) as usize;
        if word(header, 0) != MAGIC || bytes < HEADER_BYTES || long(header, 8) != round {
            return Err(format!(
                "torn: no record starts with {:?}",
                &header[..HEADER_BYTES]
            ));
        }
        Ok(bytes)
    }

    /// The record that `buf` is.
    pub(super) fn decode(buf: &[u8], round: u64) -> Result<Self, String> {
        let bytes = Self::claimed_bytes(buf, round)?;
        let record = Self {
            round,
            writer: word(buf, 24),
            number: long(buf, 16),
            bytes: bytes as u32,
        };
        if bytes != buf.len() || word(buf, 28) != checksum(buf) {
            return Err(format!(
                "torn: wrong checksum in {record:?}, {} bytes read{}",
                buf.len(),
                record.difference(buf)
            ));
        }
        let mut expected = vec![0; bytes];
        record.encode(&mut expected);
        if buf != expected {
            return Err(format!("torn: wrong payload in {record:?}"));
        }
        Ok(record)
    }

    /// Where `found` differs from the record, and what stands there: a hint at where it came from.
    fn difference(self, found: &[u8]) -> String {
        let mut expected = vec![0; found.len()];
        self.encode(&mut expected);
        let differs = |at: &usize| found[*at] != expected[*at];
        let (Some(first), Some(last)) = (
            (0..found.len()).find(differs),
            (0..found.len()).rfind(differs),
        ) else {
            return String::new();
        };
        let part = &found[first..=last];
        let starts = part.windows(HEADER_BYTES).enumerate();
        let records = starts
            .filter(|(_, header)| word(header, 0) == MAGIC)
            .map(|(at, header)| {
                let (writer, number) = (word(header, 24), long(header, 16));
                let bytes = word(header, 4);
                format!(
                    "; at {} record {number} of {writer}, {bytes} bytes",
                    first + at
                )
            });
        format!(
            ", not as written from {first} to {last}{}",
            records.collect::<String>()
        )
    }

    /// The payload: splitmix64 from all that names the record.
    fn fill(self, payload: &mut [u8]) {
        let mut state = (self.round << 40) ^ (u64::from(self.writer) << 32) ^ self.number;
        for chunk in payload.chunks_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            chunk.copy_from_slice(&(mixed ^ (mixed >> 27)).to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Of everything but the place of the checksum.
fn checksum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[..28]);
    hasher.update(&record[HEADER_BYTES..]);
    hasher.finalize()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_is_noticed() {
        let record = Record {
            round: 7,
            writer: 2,
            number: 11,
            bytes: 100,
        };
        let mut buf = vec![0; 100];
        record.encode(&mut buf);
        assert_eq!(Record::decode(&buf, 7), Ok(record));
        for bit in 0..800 {
            buf[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(&buf, 7).is_err(), "bit {bit}");
            buf[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(Record::decode(&buf, 8).is_err(), "of another round");
    }
}
