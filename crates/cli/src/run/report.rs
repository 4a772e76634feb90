//! The report at the end: a table for people, JSON for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::launch::{Launched, ServedBy};
use super::tally::{Exit, Shares, Tally};
use super::view::fit;
use crate::units;

/// What a pipeline did.
#[derive(Debug, Serialize)]
pub struct Report {
    pub pipeline: String,
    pub wall_s: f64,
    /// What `standpipe run` exits with.
    pub exit_status: u8,
    /// Why the whole text was given to the shell, if it was.
    pub handed_to_shell: Option<String>,
    pub stages: Vec<StageReport>,
    pub pipes: Vec<PipeReport>,
    pub bottleneck: Option<Bottleneck>,
    pub notes: Vec<String>,
}

/// What a stage did. Fractions are of its own life and add up to 1.
#[derive(Debug, Serialize)]
pub struct StageReport {
    pub command: String,
    pub pid: Option<i32>,
    pub served_by: Option<ServedBy>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub mb_per_s: f64,
    pub wall_s: f64,
    pub user_s: f64,
    pub system_s: f64,
    pub running: f64,
    pub waiting_to_read: f64,
    pub waiting_to_write: f64,
    pub waiting_for_processor: f64,
    pub waiting_elsewhere: f64,
    pub status: Option<i32>,
    pub signal: Option<i32>,
}

/// What a pipe carried.
#[derive(Debug, Serialize)]
pub struct PipeReport {
    pub capacity_bytes: usize,
    pub bytes: u64,
    pub mean_fill: Option<f64>,
}

/// The stage that the others waited for.
#[derive(Debug, Serialize)]
pub struct Bottleneck {
    /// Counted from 1.
    pub stage: usize,
    pub command: String,
    pub sentence: String,
}

/// What is known besides the tally.
pub struct Context<'a> {
    pub pipeline: &'a str,
    pub commands: &'a [String],
    pub launched: &'a Launched,
    pub wall_s: f64,
    pub exit_status: u8,
    pub wanted_bytes: usize,
    pub handed_to_shell: Option<String>,
}

impl Report {
    pub fn new(tally: &Tally, context: Context<'_>) -> Self {
        let stages: Vec<StageReport> = (0..tally.stages.len())
            .map(|index| stage_report(tally, index, &context))
            .collect();
        let pipes = tally
            .pipes
            .iter()
            .enumerate()
            .map(|(index, pipe)| PipeReport {
                capacity_bytes: pipe.pipe.capacity_bytes,
                bytes: tally.pipe_bytes(index),
                mean_fill: pipe.mean_fill(),
            });
        let mut notes: Vec<String> = smaller_pipes(&context).into_iter().collect();
        if let Some(reason) = &context.handed_to_shell {
            notes.push(format!(
                "handed whole to the shell, since {reason}; its pipes are its own"
            ));
        }
        Self {
            pipeline: context.pipeline.to_owned(),
            wall_s: context.wall_s,
            exit_status: context.exit_status,
            pipes: pipes.collect(),
            bottleneck: tally.bottleneck().map(|index| bottleneck(index, &stages)),
            handed_to_shell: context.handed_to_shell,
            stages,
            notes,
        }
    }

    /// For people, `columns` wide.
    pub fn table(&self, columns: usize) -> String {
        let mut text = String::new();
        let failures = self.stages.iter().any(|stage| stage.status != Some(0));
        let beside = NUMBERS_COLUMNS + if failures { FAILURE_COLUMNS } else { 0 };
        let room = columns.saturating_sub(beside + 1).clamp(10, 60);
        let longest = self
            .stages
            .iter()
            .map(|stage| stage.command.chars().count())
            .max();
        let room = room.min(longest.unwrap_or(0).max(5));
        let _ = writeln!(text, "\n{:1$}", "", room + NUMBERS_COLUMNS - 23);
        text.pop();
        let _ = writeln!(text, "waiting, % of its time");
        let _ = writeln!(
            text,
            "    {}       in      out     rate   CPU s  run%  read  write  cpu  other",
            fit("stage", room),
        );
        for (index, stage) in self.stages.iter().enumerate() {
            let _ = writeln!(text, "{}", table_row(index, stage, room));
        }
        let status = self.exit_status;
        let _ = write!(
            text,
            "\n{}, exit status {status}",
            units::duration(self.wall_s)
        );
        if let Some(pipe) = self.pipes.first() {
            let _ = write!(text, ", pipes of {}", units::binary(pipe.capacity_bytes));
        }
        text.push('\n');
        if let Some(bottleneck) = &self.bottleneck {
            let _ = writeln!(text, "{}", bottleneck.sentence);
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }
}

/// The columns of the table besides the command.
const NUMBERS_COLUMNS: usize = 4 + 9 + 9 + 9 + 8 + 6 + 6 + 7 + 5 + 7;

/// `  exited 127`, at the end of the row of a stage that failed.
const FAILURE_COLUMNS: usize = 12;

fn table_row(index: usize, stage: &StageReport, room: usize) -> String {
    let percent = |fraction: f64| format!("{:.0}", fraction * 100.0);
    let mut row = format!(
        "{:>3} {}{:>9}{:>9}{:>9}{:>8.2}{:>6}{:>6}{:>7}{:>5}{:>7}",
        index + 1,
        fit(&stage.command, room),
        units::amount(stage.bytes_in as f64),
        units::amount(stage.bytes_out as f64),
        format!("{}/s", units::amount(stage.mb_per_s * 1e6).replace(' ', "")),
        stage.user_s + stage.system_s,
        percent(stage.running),
        percent(stage.waiting_to_read),
        percent(stage.waiting_to_write),
        percent(stage.waiting_for_processor),
        percent(stage.waiting_elsewhere),
    );
    if let Some(signal) = stage.signal {
        let _ = write!(row, "  {}", signal_name(signal));
    } else if let Some(status @ 1..) = stage.status {
        let _ = write!(row, "  exited {status}");
    }
    row
}

/// `SIGKILL` and the like.
pub fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal)
        .map_or_else(|| format!("signal {signal}"), str::to_owned)
}

fn stage_report(tally: &Tally, index: usize, context: &Context<'_>) -> StageReport {
    let Shares {
        running,
        to_read,
        to_write,
        for_processor,
        elsewhere,
    } = tally.shares(index);
    let process = context.launched.processes[index].as_ref();
    let ended = tally.stages[index].ended;
    let wall_s = ended.map_or(context.wall_s, |ended| ended.after_s);
    let (bytes_in, bytes_out) = (tally.bytes_in(index), tally.bytes_out(index));
    let exit = ended.map(|ended| ended.exit);
    StageReport {
        command: context.commands[index].clone(),
        pid: process.map(|process| process.pid.as_raw_nonzero().get()),
        served_by: process.map(|process| process.served_by),
        bytes_in,
        bytes_out,
        mb_per_s: bytes_in.max(bytes_out) as f64 / wall_s.max(1e-9) / 1e6,
        wall_s,
        user_s: ended.map_or(0.0, |ended| ended.user_s),
        system_s: ended.map_or(0.0, |ended| ended.system_s),
        running,
        waiting_to_read: to_read,
        waiting_to_write: to_write,
        waiting_for_processor: for_processor,
        waiting_elsewhere: elsewhere,
        status: exit.and_then(|exit| {
            if let Exit::Status(status) = exit {
                Some(status)
            } else {
                None
            }
        }),
        signal: exit.and_then(|exit| {
            if let Exit::Signal(signal) = exit {
                Some(signal)
            } else {
                None
            }
        }),
    }
}

/// One sentence on who waited for whom.
fn bottleneck(index: usize, stages: &[StageReport]) -> Bottleneck {
    let stage = &stages[index];
    let percent = |fraction: f64| format!("{:.0} %", fraction * 100.0);
    let mut sentence = format!(
        "Bottleneck: stage {}, {}: ",
        index + 1,
        fit_short(&stage.command)
    );
    if stage.running.max(stage.waiting_for_processor) >= stage.waiting_elsewhere {
        let _ = write!(sentence, "running {} of its time", percent(stage.running));
        if stage.waiting_for_processor > 0.1 {
            let ready = percent(stage.waiting_for_processor);
            let _ = write!(sentence, " and ready for a processor another {ready}");
        }
    } else {
        let waits = percent(stage.waiting_elsewhere);
        let _ = write!(
            sentence,
            "waiting {waits} of its time for something outside the pipeline"
        );
    }
    if let Some(before) = index.checked_sub(1).map(|before| &stages[before]) {
        let waited = percent(before.waiting_to_write);
        let _ = write!(sentence, "; stage {index} waited {waited} to write to it");
    }
    if let Some(after) = stages.get(index + 1) {
        let waited = percent(after.waiting_to_read);
        let _ = write!(
            sentence,
            "; stage {} waited {waited} to read from it",
            index + 2
        );
    }
    sentence.push('.');
    Bottleneck {
        stage: index + 1,
        command: stage.command.clone(),
        sentence,
    }
}

fn fit_short(command: &str) -> String {
    fit(command, 40).trim_end().to_owned()
}

fn smaller_pipes(context: &Context<'_>) -> Option<String> {
    let given = context
        .launched
        .pipes
        .iter()
        .map(|pipe| pipe.capacity_bytes)
        .min()?;
    (given < context.wanted_bytes).then(|| {
        format!(
            "pipes got {} instead of {}: the limits are in /proc/sys/fs/pipe-max-size and \
             pipe-user-pages-soft",
            units::binary(given),
            units::binary(context.wanted_bytes),
        )
    })
}
