//! Lines of strace, as calls.

use std::borrow::Cow;
use std::collections::HashMap;

/// A call that returned.
#[derive(Debug, PartialEq)]
pub struct Call<'a> {
    /// Or thread; 0 where it is not said.
    pub process: u32,
    /// When it began; 0 where it is not said.
    pub time_ns: u64,
    pub name: &'a str,
    pub arguments: Cow<'a, str>,
    result: &'a str,
}

/// The calls of a text.
pub struct Lines<'a> {
    lines: std::str::Lines<'a>,
    /// Calls that have not returned: one in each thread.
    unfinished: HashMap<u32, (u64, &'a str)>,
}

const UNFINISHED: &str = "<unfinished ...>";

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines(),
            unfinished: HashMap::new(),
        }
    }

    fn call(&mut self, line: &'a str) -> Option<Call<'a>> {
        let (process, line) = process_of(line.trim());
        let (time_ns, line) = time_of(line);
        if let Some(begun) = line.strip_suffix(UNFINISHED) {
            self.unfinished.insert(process, (time_ns, begun));
            return None;
        }
        let Some(resumed) = line.strip_prefix("<... ") else {
            let (name, rest) = line.split_once('(')?;
            let (arguments, result) = rest.rsplit_once(" = ").map(closed)?;
            return Some(Call {
                process,
                time_ns,
                name,
                arguments: arguments.into(),
                result,
            });
        };
        let (time_ns, begun) = self.unfinished.remove(&process)?;
        let (name, first) = begun.split_once('(')?;
        let (_, second) = resumed.split_once(" resumed>")?;
        let (second, result) = second.rsplit_once(" = ").map(closed)?;
        Some(Call {
            process,
            time_ns,
            name,
            arguments: format!("{first}{second}").into(),
            result,
        })
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Call<'a>;

    fn next(&mut self) -> Option<Call<'a>> {
        loop {
            let line = self.lines.next()?;
            if let Some(call) = self.call(line) {
                return Some(call);
            }
        }
    }
}

/// Without the bracket behind the arguments, which stand in front of spaces.
fn closed<'a>((arguments, result): (&'a str, &'a str)) -> (&'a str, &'a str) {
    let arguments = arguments.trim_end();
    (arguments.strip_suffix(')').unwrap_or(arguments), result)
}

/// `[pid 12] `, or `12 ` as in files.
fn process_of(line: &str) -> (u32, &str) {
    let (number, rest) = match line.strip_prefix("[pid") {
        Some(rest) => rest.split_once(']').unwrap_or(("", rest)),
        None => line.split_once(' ').unwrap_or(("", line)),
    };
    match number.trim().parse() {
        Ok(process) => (process, rest.trim_start()),
        Err(_) => (0, line),
    }
}

/// `1700000000.123456 `, `12:34:56.789 `, `12:34:56 `.
fn time_of(line: &str) -> (u64, &str) {
    let Some((time, rest)) = line.split_once(' ') else {
        return (0, line);
    };
    let mut seconds = 0_u64;
    let (whole, fraction) = time.split_once('.').unwrap_or((time, ""));
    for part in whole.split(':') {
        let Ok(part) = part.parse::<u32>() else {
            return (0, line);
        };
        seconds = seconds * 60 + u64::from(part);
    }
    let fraction: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    match fraction.parse::<u64>() {
        Ok(ns) => (
            seconds.saturating_mul(1_000_000_000).saturating_add(ns),
            rest.trim_start(),
        ),
        Err(_) => (0, line),
    }
}

impl Call<'_> {
    /// What it returned, unless it failed.
    pub fn result(&self) -> Option<u64> {
        number(self.result)
    }

    /// What the descriptor is that it returned.
    pub fn result_path(&self) -> Option<String> {
        path(self.result)
    }

    /// The first argument in quotes.
    pub fn quoted_path(&self) -> Option<String> {
        let (_, rest) = self.arguments.split_once('"')?;
        let mut text = String::new();
        let mut chars = rest.chars();
        loop {
            match chars.next()? {
                '"' => return Some(text),
                '\\' => text.push(chars.next()?),
                char => text.push(char),
            }
        }
    }

    /// An argument before which there is no text and no structure.
    pub fn argument(&self, number: usize) -> Option<&str> {
        self.arguments.split(", ").nth(number)
    }

    /// An argument behind which there is no text and no structure, counted from the last.
    pub fn last_argument(&self, number: usize) -> Option<&str> {
        self.arguments.rsplit(", ").nth(number)
    }

    /// A descriptor, and what it is, if that is said.
    pub fn descriptor(&self, number: usize) -> Option<(u32, Option<String>)> {
        // what is said may have commas
        let mut rest = &*self.arguments;
        for _ in 0..number {
            let end = rest.find(['<', ',']).unwrap_or(rest.len());
            let from = if rest[end..].starts_with('<') {
                end + rest[end..].find('>')?
            } else {
                end
            };
            rest = rest[from..].split_once(", ")?.1;
        }
        let descriptor = u32::try_from(self::number(rest)?).ok()?;
        Some((descriptor, path(rest)))
    }

    /// An argument that is NULL or points to an offset: `[30]`.
    pub fn offset(&self, number: usize) -> Option<u64> {
        let argument = self.argument(number)?;
        self::number(argument.strip_prefix('[')?)
    }
}

/// The digits that a text begins with.
fn number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

/// What stands between the brackets behind a number: strace escapes those within.
fn path(text: &str) -> Option<String> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix('<')?;
    let end = rest.find(['<', '>'])?;
    Some(rest[..end].to_owned())
}
