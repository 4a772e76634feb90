//! The live view: a few lines at the bottom of the terminal.
//!
//! The lines are reserved with a scrolling region, so that whatever the stages print goes on
//! scrolling above them. A stage that takes the terminal over (a pager, an editor) is recognised
//! by its leaving the line mode, and the view goes away for good.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use crossterm::cursor::{MoveTo, RestorePosition, SavePosition};
use crossterm::queue;
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{Clear, ClearType};
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp, tcgetwinsize};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::sample::State;
use super::tally::{Exit, Tally};
use crate::units;

/// What is over sooner needs no view.
const PATIENCE: Duration = Duration::from_millis(300);

/// Lines of the terminal that always remain the stages' own.
const MIN_LINES_LEFT: u16 = 4;

/// The narrowest terminal that gets a view.
const MIN_COLUMNS: u16 = 50;

/// Cells of a bar.
const BAR_CELLS: usize = 10;

/// The view of one pipeline.
pub struct View {
    commands: Vec<String>,
    shown: Option<Shown>,
    before: Option<(Instant, Vec<Before>)>,
    given_up: bool,
}

/// What the terminal was when the lines were reserved.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shown {
    rows: u16,
    columns: u16,
    lines: u16,
}

/// The counts of a stage at the last draw, for its rates.
#[derive(Clone, Copy)]
struct Before {
    bytes: u64,
    cpu_s: f64,
}

impl View {
    pub fn new(commands: Vec<String>) -> Self {
        Self {
            commands,
            shown: None,
            before: None,
            given_up: false,
        }
    }

    /// Draws what is known, if the terminal is ours to draw on.
    pub fn draw(&mut self, tally: &Tally) {
        if self.given_up || tally.started.elapsed() < PATIENCE || !in_foreground() {
            return;
        }
        if taken_over() {
            self.clear();
            self.given_up = true;
            return;
        }
        let mut out = Vec::new();
        let Some(place) = self.reserve(&mut out) else {
            return;
        };
        let lines = self.lines(tally, place);
        let _ = queue!(out, SavePosition);
        for (line, row) in lines.into_iter().zip(place.rows - place.lines..place.rows) {
            let _ = queue!(out, MoveTo(0, row), Clear(ClearType::CurrentLine));
            let _ = line.print(&mut out, usize::from(place.columns) - 1);
        }
        let _ = queue!(out, RestorePosition);
        self.remember(tally);
        to_terminal(&out);
    }

    /// Gives the lines back.
    pub fn clear(&mut self) {
        let Some(shown) = self.shown.take() else {
            return;
        };
        let mut out = Vec::new();
        give_back(&mut out, shown);
        to_terminal(&out);
    }

    /// Reserves lines at the bottom, anew if the terminal's size has changed.
    fn reserve(&mut self, out: &mut Vec<u8>) -> Option<Shown> {
        let size = tcgetwinsize(io::stderr()).ok()?;
        let wanted = self.commands.len() as u16 + 1;
        let lines = wanted.min(size.ws_row.saturating_sub(MIN_LINES_LEFT));
        if lines < 2 || size.ws_col < MIN_COLUMNS {
            self.clear();
            return None;
        }
        let place = Shown {
            rows: size.ws_row,
            columns: size.ws_col,
            lines,
        };
        if self.shown != Some(place) {
            if let Some(old) = self.shown {
                give_back(
                    out,
                    Shown {
                        rows: place.rows,
                        ..old
                    },
                );
            }
            // room first (an index keeps the column), then the region, which moves the cursor
            let _ = queue!(
                out,
                Print("\x1bD".repeat(lines.into())),
                Print(format!("\x1b[{lines}A"))
            );
            let _ = queue!(
                out,
                SavePosition,
                Print(format!("\x1b[1;{}r", place.rows - lines))
            );
            let _ = queue!(out, RestorePosition);
            self.shown = Some(place);
        }
        Some(place)
    }

    fn lines(&self, tally: &Tally, place: Shown) -> Vec<Line> {
        let bottleneck = tally.bottleneck_now();
        let room = usize::from(place.lines) - 1;
        let mut lines = vec![self.headline(tally, bottleneck)];
        let stages = self.commands.len();
        // where the terminal is low, the bottleneck and what surrounds it are what counts
        let first = bottleneck
            .map_or(0, |b| b.saturating_sub(room / 2))
            .min(stages - room);
        for index in first..first + room {
            lines.push(self.stage_line(tally, index, bottleneck == Some(index), place));
        }
        lines
    }

    fn headline(&self, tally: &Tally, bottleneck: Option<usize>) -> Line {
        let mut line = Line::default();
        let elapsed_s = tally.started.elapsed().as_secs();
        line.push(Style::Bold, "standpipe ".to_owned());
        line.push(
            Style::Plain,
            format!("{}:{:02}", elapsed_s / 60, elapsed_s % 60),
        );
        if let Some(index) = bottleneck {
            line.push(Style::Plain, "  bottleneck: ".to_owned());
            line.push(
                Style::Hot,
                format!("{} {}", index + 1, self.commands[index]),
            );
        }
        line
    }

    fn stage_line(&self, tally: &Tally, index: usize, hot: bool, place: Shown) -> Line {
        let stage = &tally.stages[index];
        let (rate, cpu) = self.rates(tally, index);
        let numbers = format!("{:>9}/s {:>4.0} % CPU  ", units::amount(rate), cpu * 100.0);
        let (style, doing) = match stage.ended.map(|ended| ended.exit) {
            Some(Exit::Status(0)) => (Style::Dim, "done".to_owned()),
            Some(Exit::Status(status)) => (Style::Dim, format!("exited {status}")),
            Some(Exit::Signal(signal)) => (Style::Dim, format!("killed by {signal}")),
            None => state_words(stage.last.state),
        };
        let fill = tally
            .pipes
            .get(index)
            .map_or(0.0, super::tally::PipeTally::fill);
        let bar = if index < tally.pipes.len() {
            bar(fill)
        } else {
            String::new()
        };
        let fixed = 3 + 2 + numbers.width() + 17 + BAR_CELLS + 2;
        let room = usize::from(place.columns).saturating_sub(fixed + 1).max(8);
        let mut line = Line::default();
        line.push(
            if hot { Style::Hot } else { Style::Plain },
            format!("{:>2} ", index + 1),
        );
        let command = fit(&self.commands[index], room);
        line.push(
            if hot { Style::Hot } else { Style::Plain },
            format!("{command}  "),
        );
        line.push(Style::Plain, numbers);
        line.push(style, format!("{doing:<17}"));
        line.push(Style::Plain, bar);
        line
    }

    /// Bytes and processor seconds per second since the last draw.
    fn rates(&self, tally: &Tally, index: usize) -> (f64, f64) {
        let Some((when, before)) = &self.before else {
            return (0.0, 0.0);
        };
        let seconds = when.elapsed().as_secs_f64().max(1e-3);
        let now = counts(tally, index);
        let bytes = now.bytes.saturating_sub(before[index].bytes) as f64;
        (
            bytes / seconds,
            ((now.cpu_s - before[index].cpu_s) / seconds).max(0.0),
        )
    }

    fn remember(&mut self, tally: &Tally) {
        let counts = (0..self.commands.len())
            .map(|index| counts(tally, index))
            .collect();
        self.before = Some((Instant::now(), counts));
    }
}

/// A stage's rate is that of its input; the first stage's is that of its output.
fn counts(tally: &Tally, index: usize) -> Before {
    let bytes = match index {
        0 if !tally.pipes.is_empty() => tally.bytes_out(0),
        _ => tally.bytes_in(index),
    };
    Before {
        bytes,
        cpu_s: tally.cpu_s(index),
    }
}

fn state_words(state: State) -> (Style, String) {
    let (style, words) = match state {
        State::Running => (Style::Good, "running"),
        State::WaitingToRead => (Style::Dim, "waiting to read"),
        State::WaitingToWrite => (Style::Dim, "waiting to write"),
        State::WaitingForDisk => (Style::Plain, "waiting for disk"),
        State::Elsewhere => (Style::Plain, "waiting"),
    };
    (style, words.to_owned())
}

fn bar(fill: f64) -> String {
    const EIGHTHS: [&str; 8] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (fill.clamp(0.0, 1.0) * (BAR_CELLS * 8) as f64).round() as isize;
    let eighths = eighths.unsigned_abs();
    let mut bar = "█".repeat(eighths / 8);
    if eighths < BAR_CELLS * 8 {
        bar.push_str(EIGHTHS[eighths % 8]);
    }
    let blanks = BAR_CELLS.saturating_sub(bar.width());
    format!("▕{bar}{}▏", " ".repeat(blanks))
}

/// The text in exactly `columns`, cut with an ellipsis or filled with blanks.
pub fn fit(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return format!("{text}{}", " ".repeat(columns - text.width()));
    }
    let mut cut = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        cut.push(c);
    }
    let blanks = columns.saturating_sub(cut.width() + 1);
    format!("{cut}…{}", " ".repeat(blanks))
}

fn give_back(out: &mut Vec<u8>, shown: Shown) {
    let _ = queue!(out, SavePosition, Print("\x1b[r"));
    for row in shown.rows.saturating_sub(shown.lines)..shown.rows {
        let _ = queue!(out, MoveTo(0, row), Clear(ClearType::CurrentLine));
    }
    let _ = queue!(out, RestorePosition);
}

/// One write, which the terminal does not mix with those of others.
fn to_terminal(out: &[u8]) {
    let _ = io::stderr().write_all(out);
}

/// A job in the background does not draw.
fn in_foreground() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// A program that reads keys, not lines, has the terminal.
fn taken_over() -> bool {
    tcgetattr(io::stderr()).is_ok_and(|modes| !modes.local_modes.contains(LocalModes::ICANON))
}

/// A line of styled pieces.
#[derive(Default)]
struct Line(Vec<(Style, String)>);

#[derive(Clone, Copy)]
enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Hot,
}

impl Line {
    fn push(&mut self, style: Style, text: String) {
        self.0.push((style, text));
    }

    fn print(self, out: &mut Vec<u8>, columns: usize) -> io::Result<()> {
        let mut left = columns;
        for (style, text) in self.0 {
            let text = if text.width() > left {
                fit(&text, left)
            } else {
                text
            };
            left -= text.width();
            match style {
                Style::Plain => {}
                Style::Bold => queue!(out, SetAttribute(Attribute::Bold))?,
                Style::Dim => queue!(out, SetAttribute(Attribute::Dim))?,
                Style::Good => queue!(out, SetForegroundColor(Color::Green))?,
                Style::Hot => {
                    queue!(
                        out,
                        SetForegroundColor(Color::Yellow),
                        SetAttribute(Attribute::Bold)
                    )?;
                }
            }
            queue!(out, Print(text), ResetColor, SetAttribute(Attribute::Reset))?;
            if left == 0 {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_their_columns() {
        assert_eq!(fit("abc", 5), "abc  ");
        assert_eq!(fit("abcdef", 5), "abcd…");
        assert_eq!(fit("日本語", 5).width(), 5);
        assert_eq!(fit("日本語", 6), "日本語");
    }

    #[test]
    fn bars_are_of_one_width() {
        for percent in 0..=100 {
            assert_eq!(
                bar(f64::from(percent) / 100.0).width(),
                BAR_CELLS + 2,
                "{percent} %"
            );
        }
        assert!(bar(1.0).contains(&"█".repeat(BAR_CELLS)));
        assert!(!bar(0.0).contains('█'));
    }
}
