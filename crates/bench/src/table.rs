//! Results for people: a row for each case and metric, with the ratio of the rivals.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use crate::record::{Engine, Metric, Record};
use crate::stats::{geometric_mean, ratio, spread};

/// Ours and its rival in one case and metric.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The rival's.
    pub rival: &'a Record,
    /// Ours.
    pub ours: &'a Record,
}

impl Pair<'_> {
    /// How many times better ours is.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        ratio(self.ours.metric, &self.ours.runs, &self.rival.runs)
    }
}

/// Ours with each of its rivals, in the order of the records.
#[must_use]
pub fn pairs(records: &[Record]) -> Vec<Pair<'_>> {
    let same = |a: &Record, b: &Record| {
        a.suite == b.suite && a.case == b.case && a.metric == b.metric && a.cpus == b.cpus
    };
    let ours = records.iter().filter(|r| r.engine.is_ours());
    ours.flat_map(|ours| {
        let rivals = records
            .iter()
            .filter(move |r| !r.engine.is_ours() && same(r, ours));
        rivals.map(move |rival| Pair { rival, ours })
    })
    .collect()
}

/// The geometric mean of the ratios of each metric of `pairs`, metrics in order of appearance.
#[must_use]
pub fn means(pairs: &[Pair<'_>]) -> Vec<(Metric, f64)> {
    let mut metrics = Vec::new();
    for pair in pairs {
        if !metrics.contains(&pair.ours.metric) {
            metrics.push(pair.ours.metric);
        }
    }
    let mean = |metric| {
        let ratios = pairs
            .iter()
            .filter(|p| p.ours.metric == metric)
            .map(Pair::ratio);
        (metric, geometric_mean(&ratios.collect::<Vec<_>>()))
    };
    metrics.into_iter().map(mean).collect()
}

/// The table of one suite's records.
#[must_use]
pub fn render(records: &[Record]) -> String {
    let pairs = pairs(records);
    let rival = rival_of_all(&pairs);
    let ours = pairs
        .first()
        .map_or(Engine::Standpipe, |pair| pair.ours.engine)
        .to_string();
    let mut table = Table::new();
    let line = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(line).bottom_border(line));
    table.set_header(
        [
            "case",
            "metric",
            &rival,
            "(min..max)",
            &ours,
            "(min..max)",
            "ratio",
        ]
        .iter()
        .enumerate()
        .map(|(column, title)| aligned(column, title)),
    );
    for pair in &pairs {
        let record = pair.ours;
        let metric = format!("{} [{}]", record.metric, record.unit);
        let ratio = format!("{:.2}", pair.ratio());
        let [theirs, ours] = [pair.rival, pair.ours].map(|r| (figure(r.value), range(r)));
        let row = [
            case_of(pair, &pairs),
            metric,
            theirs.0,
            theirs.1,
            ours.0,
            ours.1,
            ratio,
        ];
        table.add_row(
            row.iter()
                .enumerate()
                .map(|(column, text)| aligned(column, text)),
        );
    }
    for (metric, mean) in means(&pairs) {
        let row = [
            "geometric mean",
            metric.name(),
            "",
            "",
            "",
            "",
            &format!("{mean:.2}"),
        ];
        table.add_row(
            row.iter()
                .enumerate()
                .map(|(column, text)| aligned(column, text)),
        );
    }
    let suite = records.first().map_or("", |record| record.suite.as_str());
    format!("{suite} (medians; ratio: how many times better than the {rival}, run by run)\n{table}")
}

/// The case, and the rival where there are several in it.
fn case_of(pair: &Pair<'_>, pairs: &[Pair<'_>]) -> String {
    let case = &pair.ours.case;
    let mut rivals = pairs.iter().filter(|other| other.ours.case == *case);
    if rivals.all(|other| other.rival.engine == pair.rival.engine) {
        case.clone()
    } else {
        format!("{case}, {}", pair.rival.engine)
    }
}

/// The rival's name; several have none in common.
fn rival_of_all(pairs: &[Pair<'_>]) -> String {
    let mut engines = pairs.iter().map(|pair| pair.rival.engine);
    let first = engines.next().unwrap_or(Engine::Kernel);
    if engines.all(|engine| engine == first) {
        first.to_string()
    } else {
        "rival".to_owned()
    }
}

/// Names to the left, figures to the right.
fn aligned(column: usize, text: &str) -> Cell {
    let alignment = if column < 2 {
        CellAlignment::Left
    } else {
        CellAlignment::Right
    };
    Cell::new(text).set_alignment(alignment)
}

fn range(record: &Record) -> String {
    let (min, max) = spread(&record.runs);
    format!("{}..{}", figure(min), figure(max))
}

/// `value` with three or more significant digits.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(engine: Engine, case: &str, runs: &[f64]) -> Record {
        Record {
            suite: "pipe".into(),
            case: case.into(),
            engine,
            metric: Metric::MbPerS,
            unit: "MB/s".into(),
            value: crate::stats::median(runs),
            runs: runs.into(),
            cpus: None,
        }
    }

    #[test]
    fn each_case_has_its_ratio_and_the_metric_its_mean() {
        let records = [
            record(Engine::Kernel, "1x1", &[1000.0, 1100.0, 900.0]),
            record(Engine::Standpipe, "1x1", &[2000.0, 2200.0, 1800.0]),
            record(Engine::Kernel, "1x5", &[10.0]),
            record(Engine::Standpipe, "1x5", &[80.0]),
        ];
        let text = render(&records);
        let row = |name: &str| {
            text.lines()
                .find(|line| line.contains(name))
                .unwrap()
                .to_owned()
        };
        assert!(row("1x1").trim_end().ends_with("2.00"), "{text}");
        assert!(
            row("1x1").contains("1000") && row("1x1").contains("1800..2200"),
            "{text}"
        );
        assert!(row("1x5").trim_end().ends_with("8.00"), "{text}");
        assert!(row("geometric mean").trim_end().ends_with("4.00"), "{text}");
    }

    #[test]
    fn several_rivals_of_a_case_have_a_row_each() {
        let records = [
            record(Engine::Kernel, "cold", &[10.0]),
            record(Engine::Fio, "cold", &[40.0]),
            record(Engine::Standpipe, "cold", &[20.0]),
        ];
        let text = render(&records);
        let row = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
        assert!(row("cold, kernel").trim_end().ends_with("2.00"), "{text}");
        assert!(row("cold, fio").trim_end().ends_with("0.50"), "{text}");
    }

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!(
            [1234.5, 12.34, 1.234, 0.1234].map(figure),
            ["1234", "12.3", "1.23", "0.123"]
        );
    }

    #[test]
    fn confined_and_free_runs_are_not_compared() {
        let confined = Record {
            cpus: Some(1),
            ..record(Engine::Kernel, "1x1", &[1.0])
        };
        assert!(pairs(&[confined, record(Engine::Standpipe, "1x1", &[2.0])]).is_empty());
    }
}
