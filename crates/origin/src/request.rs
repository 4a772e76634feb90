//! Requests, as far as they matter here.

use std::io::{self, BufRead};
use std::ops::Range;

/// A request, understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whether only the header is wanted.
    pub is_head: bool,
    /// The path, and what follows it.
    pub target: String,
    /// What of the object is wanted, as it was written.
    pub range: Option<String>,
    /// The tag that the object must have.
    pub if_match: Option<String>,
    /// The time that the object must not be modified since.
    pub if_unmodified_since: Option<String>,
    /// Who asks.
    pub authorization: Option<String>,
}

impl Request {
    /// The next one of a connection. None if there is no more.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(first) = line(from)? else {
            return Ok(None);
        };
        let mut words = first.split(' ');
        let mut request = Self {
            is_head: words.next() == Some("HEAD"),
            target: words.next().unwrap_or_default().to_owned(),
            ..Self::default()
        };
        while let Some(line) = line(from)?.filter(|line| !line.is_empty()) {
            if let Some((name, value)) = line.split_once(':') {
                let value = || Some(value.trim().to_owned());
                match name.to_ascii_lowercase().as_str() {
                    "range" => request.range = value(),
                    "if-match" => request.if_match = value(),
                    "if-unmodified-since" => request.if_unmodified_since = value(),
                    "authorization" => request.authorization = value(),
                    _ => (),
                }
            }
        }
        Ok(Some(request))
    }

    /// The bytes that are wanted of an object of this length. None if it has no such bytes.
    pub(crate) fn bytes(&self, length: usize) -> Option<Range<usize>> {
        let Some(range) = &self.range else {
            return Some(0..length);
        };
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        let range = match (first.parse(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => first..length.min(last + 1),
            (Ok(first), Err(_)) => first..length,
            (Err(_), Ok(most)) => length.saturating_sub(most)..length,
            _ => return None,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// A line without its end. None at the end of all.
fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let bytes = from.read_line(&mut line)?;
    Ok((bytes > 0).then(|| line.trim_end().to_owned()))
}
