//! Traces as CSV.

use std::io;

use anyhow::{Context as _, bail};
use csv::StringRecord;
pub use standpipe::file::trace::HEAD;

use super::accesses::Accesses;

/// Whether a text begins as a trace in columns does.
pub fn is_csv(text: &str) -> bool {
    text.lines().next().is_some_and(is_head)
}

fn is_head(line: &str) -> bool {
    line.replace(' ', "").trim() == HEAD
}

/// Several processes may have written the head each.
pub fn read(text: &str) -> anyhow::Result<Accesses> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut accesses = Accesses::default();
    for row in reader.records() {
        let row = row?;
        if row.iter().eq(HEAD.split(',')) {
            continue;
        }
        let line = row.position().map_or(0, csv::Position::line);
        add(&mut accesses, &row).with_context(|| format!("line {line}"))?;
    }
    Ok(accesses)
}

fn add(accesses: &mut Accesses, row: &StringRecord) -> anyhow::Result<()> {
    let number = |column: usize| -> anyhow::Result<u64> {
        let name = HEAD.split(',').nth(column).unwrap_or_default();
        let text = row.get(column).unwrap_or_default();
        match text.parse() {
            Ok(number) => Ok(number),
            Err(_) => bail!("{name} is {text:?}, expected a number from 0 on"),
        }
    };
    let (time_ns, offset, length) = (number(0)?, number(3)?, number(4)?);
    let (stream, object) = (row.get(1), row.get(2));
    let (stream, object) = stream.zip(object).context("expected five columns")?;
    accesses.add(time_ns, stream, object, offset, length);
    Ok(())
}

pub fn write(accesses: &Accesses, to: impl io::Write) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(to);
    writer.write_record(HEAD.split(','))?;
    for access in &accesses.all {
        writer.write_record([
            &access.time_ns.to_string(),
            &accesses.streams[access.stream].name,
            &accesses.object_of(access).name,
            &access.offset.to_string(),
            &access.length.to_string(),
        ])?;
    }
    writer.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut accesses = Accesses::default();
        accesses.add(0, "1.1", "/a, \"b\"", 0, 4096);
        accesses.add(5, "1.2", "/c", 10, 0);
        accesses.add(5, "1.1", "/c", 10, 20);
        let mut text = Vec::new();
        write(&accesses, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(is_csv(&text), "{text}");
        let again = text.replace("\n5,1.2", &format!("\n{HEAD}\n5,1.2"));
        assert_eq!(read(&again).unwrap(), accesses);
        assert_eq!(accesses.objects[1].bytes, 30);
        assert_eq!((accesses.streams.len(), accesses.objects.len()), (3, 2));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (row, expected) in [
            ("1,a,b,0,-1", "line 3: length is \"-1\""),
            ("x,a,b,0,1", "line 3: time_ns is \"x\""),
            ("1,a,b,1e3,1", "line 3: offset is \"1e3\""),
        ] {
            let error = read(&format!("{HEAD}\n0,a,b,0,1\n{row}\n")).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(read(&format!("{HEAD}\n0,a,b,0\n")).is_err());
        assert!(!is_csv("123 read(3, \"\", 0) = 0\n"));
    }
}
