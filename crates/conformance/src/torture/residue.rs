//! What a process holds: descriptors and shared memory (rule 7).

use std::fs;
use std::io;

/// What this process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Residue {
    pub(super) descriptors: usize,
    pub(super) shared_mappings: usize,
    pub(super) shared_bytes: u64,
}

impl Residue {
    pub(super) fn now() -> io::Result<Self> {
        let descriptors = fs::read_dir("/proc/self/fd")?.count();
        let maps = fs::read_to_string("/proc/self/maps")?;
        let shared: Vec<u64> = maps.lines().filter_map(shared_bytes).collect();
        let shared_bytes = shared.iter().sum();
        Ok(Self {
            descriptors,
            shared_mappings: shared.len(),
            shared_bytes,
        })
    }
}

/// The size of a mapping, if it is shared: `7f00-7f10 rw-s 00000000 00:01 1 /memfd:x`.
fn shared_bytes(line: &str) -> Option<u64> {
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let is_shared = words.next()?.ends_with('s');
    let address = |text| u64::from_str_radix(text, 16).ok();
    is_shared.then_some(address(end)? - address(start)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::board::Board;

    #[test]
    fn a_shared_mapping_is_seen() {
        let _board = Board::new().unwrap();
        let now = Residue::now().unwrap();
        assert!(
            now.shared_mappings >= 1 && now.shared_bytes >= 1 << 20,
            "{now:?}"
        );
        assert_eq!(
            shared_bytes("1000-3000 rw-s 0 00:01 7 /memfd:x (deleted)"),
            Some(0x2000)
        );
        assert_eq!(shared_bytes("1000-3000 rw-p 0 00:00 0 [heap]"), None);
    }
}
