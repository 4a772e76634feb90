//! Results of suites in which readahead policies compete: side by side, and beside what was
//! published of two of them.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use crate::record::{Engine, Metric, Record};
use crate::report::published::{self, Readahead};
use crate::stats::ratio;
use crate::table::figure;

/// Who competes, in the order of their columns.
pub const ENGINES: [Engine; 4] = [
    Engine::Legacy,
    Engine::OnDemand,
    Engine::Context,
    Engine::Standpipe,
];

/// A case and metric.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The case.
    pub case: &'a str,
    /// The metric.
    pub metric: Metric,
    /// What was published.
    pub published: Option<Readahead>,
    records: [Option<&'a Record>; 4],
}

impl<'a> Row<'a> {
    /// The figure of each engine.
    #[must_use]
    pub fn figures(&self) -> [Option<f64>; 4] {
        self.records.map(|record| record.map(|record| record.value))
    }

    /// How many times better one engine is than another, if both ran.
    #[must_use]
    pub fn gain(&self, of: Engine, over: Engine) -> Option<f64> {
        let find = |engine| ENGINES.iter().position(|&other| other == engine);
        let record = |engine| self.records[find(engine)?];
        Some(ratio(self.metric, &record(of)?.runs, &record(over)?.runs))
    }

    fn of(records: &'a [Record], record: &'a Record, published: &[Readahead]) -> Self {
        let same = |other: &&Record| other.case == record.case && other.metric == record.metric;
        let of = |engine| {
            records
                .iter()
                .filter(same)
                .find(|other| other.engine == engine)
        };
        let published = published
            .iter()
            .find(|row| (row.case.as_str(), row.metric) == (record.case.as_str(), record.metric));
        Self {
            case: &record.case,
            metric: record.metric,
            published: published.cloned(),
            records: ENGINES.map(of),
        }
    }
}

/// The rows of a suite's records; none if it is not one of policies.
#[must_use]
pub fn rows(records: &[Record]) -> Vec<Row<'_>> {
    let suite = records.first().map_or("", |record| record.suite.as_str());
    let published = published::readahead(suite);
    let legacy = records
        .iter()
        .filter(|record| record.engine == Engine::Legacy);
    legacy
        .map(|record| Row::of(records, record, &published))
        .collect()
}

/// The names of the columns.
pub const COLUMNS: [&str; 11] = [
    "case",
    "metric",
    "legacy",
    "on-demand",
    "context",
    "standpipe",
    "legacy",
    "on-demand",
    "od/legacy",
    "published",
    "ours/od",
];

/// The cells of a row, under [`COLUMNS`].
#[must_use]
pub fn cells(row: &Row<'_>) -> [String; 11] {
    let shown = |value: Option<f64>| value.map(figure).unwrap_or_default();
    let gain = |value: Option<f64>| value.map(|gain| format!("{gain:.3}")).unwrap_or_default();
    let published = row.published.as_ref();
    let [legacy, on_demand, context, ours] = row.figures().map(shown);
    [
        row.case.to_owned(),
        format!("{} [{}]", row.metric, row.metric.unit()),
        legacy,
        on_demand,
        context,
        ours,
        shown(published.map(|row| row.legacy)),
        shown(published.map(|row| row.on_demand)),
        gain(row.gain(Engine::OnDemand, Engine::Legacy)),
        gain(published.map(Readahead::gain)),
        gain(row.gain(Engine::Standpipe, Engine::OnDemand)),
    ]
}

/// The table of one suite's records, if policies compete in it.
#[must_use]
pub fn render(records: &[Record]) -> Option<String> {
    let rows = rows(records);
    let suite = &records.first()?.suite;
    if rows.is_empty() {
        return None;
    }
    let mut table = Table::new();
    let line = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(line).bottom_border(line));
    table.set_header(aligned(COLUMNS.map(str::to_owned)));
    for row in &rows {
        table.add_row(aligned(cells(row)));
    }
    Some(format!(
        "{suite} (simulated disk, medians over seeds; then as published in 2007; then how many times \
         better\non-demand is than legacy, here and published, and standpipe than on-demand)\n{table}"
    ))
}

/// Names to the left, figures to the right.
fn aligned(cells: [String; 11]) -> Vec<Cell> {
    let cells = cells.into_iter().enumerate();
    let cell = |(column, text): (usize, String)| {
        Cell::new(text).set_alignment(if column < 2 {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        })
    };
    cells.map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(engine: Engine, suite: &str, case: &str, value: f64) -> Record {
        Record {
            suite: suite.into(),
            case: case.into(),
            engine,
            metric: Metric::WallS,
            unit: "s".into(),
            value,
            runs: vec![value],
            cpus: None,
        }
    }

    #[test]
    fn measured_and_published_gains_stand_side_by_side() {
        let values = [40.0, 20.0, 30.0, 10.0];
        let records: Vec<Record> = (ENGINES.into_iter().zip(values))
            .map(|(engine, value)| record(engine, "readahead", "aio-sequential", value))
            .collect();
        let rows = rows(&records);
        assert_eq!(rows.len(), 1);
        let expected = [
            "aio-sequential",
            "wall_s [s]",
            "40.0",
            "20.0",
            "30.0",
            "10.0",
            "92.6",
            "92.5",
            "2.000",
            "1.000",
            "2.000",
        ];
        assert_eq!(cells(&rows[0]), expected);
        let text = render(&records).unwrap();
        assert!(
            text.contains("aio-sequential") && text.contains("92.6"),
            "{text}"
        );
    }

    #[test]
    fn other_suites_have_other_tables() {
        assert!(render(&[record(Engine::Kernel, "pipe", "1x1", 1.0)]).is_none());
        assert!(render(&[]).is_none());
    }
}
