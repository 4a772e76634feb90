//! Answers.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use super::manners::Cut;
use super::{Manners, Request, Shared, Tag};

/// What is written at once, and then waited for if the connection is to be slow.
const CHUNK_BYTES: usize = 64 << 10;

/// Answers the requests of a connection, until it is closed or was cut.
pub fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream.try_clone()?);
    while let Some(request) = Request::read(&mut requests)? {
        let plan = shared.plan(&request);
        thread::sleep(plan.latency);
        // Before the client can know, and ask for more.
        shared.lock().busy -= 1;
        if !plan.carry_out(stream, &mut requests, shared)? {
            break;
        }
    }
    Ok(())
}

/// What an answer will be, decided when its request comes.
struct Plan {
    header: String,
    /// Which of the contents, and what of it.
    content: usize,
    bytes: Range<usize>,
    latency: Duration,
    bytes_per_s: Option<u64>,
    /// How much is sent before the connection is closed.
    truncate: Option<usize>,
    /// How much is sent before nothing more is.
    stall: Option<usize>,
}

impl Shared {
    fn plan(&self, request: &Request) -> Plan {
        let mut state = self.lock();
        state.requests.push(request.clone());
        state.busy += 1;
        state.most_busy = state.most_busy.max(state.busy);
        if !request.is_head && count_down(&mut state.manners.change_after) {
            state.content = (state.content + 1).min(self.contents.len() - 1);
        }
        let content = state.content;
        let length = self.contents[content].len();
        let manners = &mut state.manners;
        let (header, bytes) = answer(request, manners, content, length);
        let has_body = !bytes.is_empty() && !request.is_head;
        Plan {
            truncate: has_body.then(|| Cut::next(&mut manners.truncate)).flatten(),
            stall: has_body.then(|| Cut::next(&mut manners.stall)).flatten(),
            header,
            content,
            bytes: if has_body { bytes } else { 0..0 },
            latency: manners.latency,
            bytes_per_s: manners.bytes_per_s,
        }
    }
}

/// Whether it was zero already, or absent: then it is absent from now on.
fn count_down(count: &mut Option<u32>) -> bool {
    match count {
        None => false,
        Some(0) => {
            *count = None;
            true
        }
        Some(left) => {
            *left -= 1;
            false
        }
    }
}

/// The header, and what of the object follows it.
fn answer(
    request: &Request,
    manners: &mut Manners,
    content: usize,
    length: usize,
) -> (String, Range<usize>) {
    if request.is_head && manners.refuses_head {
        return refuse("403 Forbidden");
    }
    if manners.has_nothing {
        return refuse("404 Not Found");
    }
    if !request.is_head && manners.busy_for > 0 {
        manners.busy_for -= 1;
        return refuse("503 Service Unavailable");
    }
    let (tag, time) = (tag(content, manners.tag), time(content));
    if !manners.ignores_conditions && is_other(request, tag.as_deref(), &time) {
        return refuse("412 Precondition Failed");
    }
    let tag = tag
        .map(|tag| format!("ETag: {tag}\r\n"))
        .unwrap_or_default();
    let time = if manners.has_no_time {
        String::new()
    } else {
        format!("Last-Modified: {time}\r\n")
    };
    let about = format!("{tag}{time}");
    if request.range.is_none() || manners.ignores_ranges {
        return (header("200 OK", &about, length), 0..length);
    }
    let Some(mut bytes) = request.bytes(length) else {
        let range = format!("Content-Range: bytes */{length}\r\n");
        return (header("416 Range Not Satisfiable", &range, 0), 0..0);
    };
    if manners.shifts_ranges {
        bytes = bytes.start + 1..(bytes.end + 1).min(length);
    }
    let range = format!(
        "Content-Range: bytes {}-{}/{length}\r\n",
        bytes.start,
        bytes.end - 1
    );
    let header = header("206 Partial Content", &(about + &range), bytes.len());
    (header, bytes)
}

fn refuse(status: &str) -> (String, Range<usize>) {
    (header(status, "", 0), 0..0)
}

fn header(status: &str, about: &str, length: usize) -> String {
    format!("HTTP/1.1 {status}\r\nAccept-Ranges: bytes\r\n{about}Content-Length: {length}\r\n\r\n")
}

fn tag(content: usize, tag: Tag) -> Option<String> {
    match tag {
        Tag::Strong => Some(format!("\"content-{content}\"")),
        Tag::Weak => Some(format!("W/\"content-{content}\"")),
        Tag::Absent => None,
    }
}

/// A minute later for each state.
fn time(content: usize) -> String {
    format!("Thu, 01 Jan 2026 00:{content:02}:00 GMT")
}

/// Whether a condition of the request is not met. A weak tag never matches.
fn is_other(request: &Request, tag: Option<&str>, time: &str) -> bool {
    let strong = tag.filter(|tag| !tag.starts_with("W/"));
    match (&request.if_match, &request.if_unmodified_since) {
        (Some(wanted), _) => strong != Some(wanted),
        (None, Some(since)) => since != time,
        (None, None) => false,
    }
}

impl Plan {
    /// Whether the connection is good for another request.
    fn carry_out(
        &self,
        mut stream: &TcpStream,
        requests: &mut impl Read,
        shared: &Shared,
    ) -> io::Result<bool> {
        let body = &shared.contents[self.content][self.bytes.clone()];
        let cut = self.truncate.into_iter().chain(self.stall).min();
        let sent = &body[..cut.unwrap_or(body.len()).min(body.len())];
        stream.write_all(self.header.as_bytes())?;
        self.send(stream, sent)?;
        if self.stall == Some(sent.len()) {
            // Until the client gives up.
            let _ = requests.read(&mut [0])?;
            return Ok(false);
        }
        if sent.len() < body.len() {
            stream.shutdown(Shutdown::Both)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Sends as fast as the connection is to be.
    fn send(&self, mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        let start = Instant::now();
        let mut sent = 0_usize;
        for chunk in bytes.chunks(CHUNK_BYTES) {
            stream.write_all(chunk)?;
            sent += chunk.len();
            if let Some(bytes_per_s) = self.bytes_per_s {
                let due = Duration::from_secs_f64(sent as f64 / bytes_per_s as f64);
                thread::sleep(due.saturating_sub(start.elapsed()));
            }
        }
        Ok(())
    }
}
