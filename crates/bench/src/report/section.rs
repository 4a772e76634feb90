//! One suite's part of the page.

use maud::{Markup, PreEscaped, html};

use super::plot::{self, Mark, Series};
use super::{grid, policies, published};
use crate::record::{Engine, Metric, Record};
use crate::stats::{geometric_mean, spread};
use crate::suites;
use crate::table::{Pair, figure, means, pairs};

/// The results of one suite, all on the same processors.
pub struct Section {
    suite: String,
    cpus: Option<usize>,
    records: Vec<Record>,
}

/// One section for each suite and number of processors: the suites in the order of their list,
/// those that it lacks at the end.
pub fn sections(records: &[Record]) -> Vec<Section> {
    let mut sections = Vec::<Section>::new();
    for record in records {
        let same = |s: &&mut Section| s.suite == record.suite && s.cpus == record.cpus;
        match sections.iter_mut().find(same) {
            Some(section) => section.records.push(record.clone()),
            None => sections.push(Section {
                suite: record.suite.clone(),
                cpus: record.cpus,
                records: vec![record.clone()],
            }),
        }
    }
    let rank = |suite: &str| {
        let suite = suites::without_face(suite);
        suites::ALL
            .iter()
            .position(|(name, _)| *name == suite)
            .unwrap_or(suites::ALL.len())
    };
    sections.sort_by_key(|s| (rank(&s.suite), s.suite.len(), s.cpus));
    sections
}

impl Section {
    fn anchor(&self) -> String {
        self.cpus
            .map_or_else(|| self.suite.clone(), |n| format!("{}-cpus{n}", self.suite))
    }

    fn processors(&self) -> &'static str {
        match self.cpus {
            None => "",
            Some(1) => "on one processor",
            Some(_) => "on some processors",
        }
    }

    fn face(&self) -> &'static str {
        if self.suite.ends_with(suites::C_ABI) {
            "; ours through the C ABI"
        } else {
            ""
        }
    }

    /// Its lines in the summary: one for each metric.
    pub fn summary(&self) -> Markup {
        let pairs = pairs(&self.records);
        let extremes = |metric| {
            let of = pairs.iter().filter(|pair| pair.ours.metric == metric);
            let mut ratios = of
                .map(|pair| (pair.ratio(), &pair.ours.case))
                .collect::<Vec<_>>();
            ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
            (ratios[0], ratios[ratios.len() - 1])
        };
        html! {
            @for (metric, mean) in means(&pairs) {
                @let (worst, best) = extremes(metric);
                tr {
                    td {
                        a href={ "#" (self.anchor()) } { (self.suite) }
                        br; small { (metric) " " (self.processors()) }
                    }
                    (ratio_cell_of(Some(mean), ""))
                    (ratio_cell_of(Some(worst.0), worst.1))
                    (ratio_cell_of(Some(best.0), best.1))
                }
            }
        }
    }

    /// Its part of the page.
    pub fn render(&self) -> Markup {
        let description = suites::ALL
            .iter()
            .find(|(name, _)| *name == suites::without_face(&self.suite));
        html! {
            h2 id=(self.anchor()) { (self.suite) " " small { (self.processors()) } }
            @if let Some((_, text)) = description { p { (text) (self.face()) "." } }
            @match grid::render(&self.suite, self.cpus, &self.records) {
                Some(grid) => (grid),
                None => {
                    div.plots { @for svg in self.plots() { figure { (PreEscaped(svg)) } } }
                    (self.published_pipe_bench())
                    (self.published_grep())
                    (self.published_fifo())
                    (self.published_no_wait())
                    (policies::render(&self.records))
                }
            }
            (self.figures())
        }
    }

    fn metrics(&self) -> Vec<Metric> {
        distinct(self.records.iter().map(|record| record.metric))
    }

    fn cases(&self) -> Vec<&str> {
        distinct(self.records.iter().map(|record| record.case.as_str()))
    }

    fn find(&self, case: &str, metric: Metric, engine: Engine) -> Option<&Record> {
        let same = |r: &&Record| r.case == case && r.metric == metric && r.engine == engine;
        self.records.iter().find(same)
    }

    /// Bars for each metric, and for what was published of it.
    fn plots(&self) -> Vec<String> {
        let cases = self.cases();
        let engines = distinct(self.records.iter().map(|record| record.engine));
        let mut plots = Vec::new();
        for metric in self.metrics() {
            let series = |&engine: &Engine| {
                let colour = if engine.is_ours() {
                    plot::OURS
                } else {
                    plot::THEIRS
                };
                let mark = |case: &&str| {
                    let record = self.find(case, metric, engine)?;
                    Some(Mark {
                        value: record.value,
                        spread: Some(spread(&record.runs)),
                    })
                };
                let marks = cases.iter().map(mark).collect();
                Series {
                    name: engine.to_string(),
                    colour,
                    marks,
                }
            };
            let series = engines.iter().map(series).collect::<Vec<_>>();
            plots.push(plot::bars(&title(metric), &cases, &series));
        }
        if let Some((throughput, latency)) = self.published_plots(&cases) {
            plots.insert(1.min(plots.len()), throughput);
            plots.insert(3.min(plots.len()), latency);
        }
        plots
    }

    /// The published `pipe_bench`: throughput and average write latency.
    fn published_plots(&self, cases: &[&str]) -> Option<(String, String)> {
        let rows = published::pipe_bench(&self.suite);
        if rows.is_empty() {
            return None;
        }
        let series = |name: &str, colour, value: fn(&published::PipeBench) -> f64| {
            let mark = |case: &&str| {
                let row = rows.iter().find(|row| row.case() == **case)?;
                Some(Mark {
                    value: value(row),
                    spread: None,
                })
            };
            Series {
                name: name.into(),
                colour,
                marks: cases.iter().map(mark).collect(),
            }
        };
        let pair = |title: &str, before, after| {
            let series = [
                series("kernel", plot::BEFORE, before),
                series("with preallocation", plot::AFTER, after),
            ];
            plot::bars(&format!("published 2026: {title}"), cases, &series)
        };
        Some((
            pair("throughput, MB/s", |r| r.baseline_mb_s, |r| r.patched_mb_s),
            pair(
                "average, ns",
                |r| r.baseline_avg_write_ns,
                |r| r.patched_avg_write_ns,
            ),
        ))
    }

    fn published_pipe_bench(&self) -> Markup {
        let rows = published::pipe_bench(&self.suite);
        let pairs = pairs(&self.records);
        let ours = |case: &str, metric| {
            let mut of = pairs
                .iter()
                .filter(|p| p.ours.case == case && p.ours.metric == metric);
            of.next().map(Pair::ratio)
        };
        html! {
            @if !rows.is_empty() {
                h3 { "Ratios beside the published ones" }
                p { "Published in May 2026 for preallocation of pages inside the kernel: its gain "
                    "over the kernel before. Measured: standpipe over this machine's kernel." }
                div.scroll { table {
                    thead { tr { th { "writers x readers" }
                        th { "throughput, measured" } th { "published" }
                        th { "average write, measured" } th { "published" } } }
                    tbody { @for row in &rows { tr {
                        td { (row.case()) }
                        (ratio_cell(ours(&row.case(), Metric::MbPerS)))
                        (ratio_cell(Some(row.patched_mb_s / row.baseline_mb_s)))
                        (ratio_cell(ours(&row.case(), Metric::AvgNs)))
                        (ratio_cell(Some(row.baseline_avg_write_ns / row.patched_avg_write_ns)))
                    } } }
                } }
            }
        }
    }

    fn published_grep(&self) -> Markup {
        let rows = published::larger_pipes(&self.suite, self.cpus);
        let cell = |variant: &str, pipe_kib| {
            rows.iter()
                .find(|row| row.variant == variant && row.pipe_kib == pipe_kib)
        };
        let pipes = distinct(rows.iter().map(|row| row.pipe_kib));
        html! {
            @if !rows.is_empty() {
                h3 { "Beside the published figures" }
                p { "Ratios of October 2001: larger pipes and segments to that kernel's pipe of one "
                    "page." }
                div.scroll { table.heat {
                    thead { tr { th { "variant" }
                        @for pipe in &pipes { th { "pipe of " (pipe) " KiB" } } } }
                    tbody { @for variant in ["A", "A+B"] { tr {
                        th { (variant) }
                        @for &pipe in &pipes {
                            (ratio_cell(cell(variant, pipe).map(published::LargerPipes::ratio)))
                        }
                    } } }
                } }
            }
        }
    }

    fn published_fifo(&self) -> Markup {
        let rows = published::fifo_merge(&self.suite);
        let pairs = pairs(&self.records);
        let mean = |prefix: &str| {
            let of = |pair: &&Pair<'_>| {
                let sizes = pair.ours.case.strip_prefix(prefix);
                let is_size =
                    sizes.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_digit()));
                is_size && pair.ours.metric == Metric::MbPerS
            };
            let ratios = pairs.iter().filter(of).map(Pair::ratio).collect::<Vec<_>>();
            (!ratios.is_empty()).then(|| geometric_mean(&ratios))
        };
        html! {
            @if !rows.is_empty() {
                h3 { "Beside the published figure" }
                p { "Published in January 2012 for FIFOs served by the code of pipes, inside a "
                    "kernel: its gain, at least, over the FIFOs before. Measured: standpipe over "
                    "this machine's kernel, whose FIFOs are its pipes; geometric means over the "
                    "sizes." }
                div.scroll { table {
                    thead { tr { th { "benchmark" } th { "published" }
                        th { "measured, repeated" } th { "measured, first 1000" } } }
                    tbody { @for row in &rows { tr {
                        td { (row.case) }
                        (ratio_cell(Some(row.ratio())))
                        (ratio_cell(mean("")))
                        (ratio_cell(mean("cold-")))
                    } } }
                } }
            }
        }
    }

    fn published_no_wait(&self) -> Markup {
        let rows = published::no_wait(&self.suite);
        let ms = |case: &str, engine| {
            let record = self.find(case, Metric::WallMs, engine);
            record.map(|record| record.value)
        };
        let gain = |case: &str, before, after| Some(ms(case, before)? / ms(case, after)?);
        html! {
            @if !rows.is_empty() {
                h3 { "Beside the published figures" }
                p { "Published in 2023 for Linux 6.4: io_uring on pipes that are tried without "
                    "waiting, over the same with worker threads; 128 pipes, 256 rounds, one byte. "
                    "Measured: the same two on this machine's kernel, and standpipe over either." }
                div.scroll { table {
                    thead { tr { th { "case" } th { "published" } th { "this kernel" }
                        th { "standpipe, to workers" } th { "standpipe, to no workers" } } }
                    tbody { @for row in &rows { tr {
                        td { (row.case) }
                        (ratio_cell(Some(row.gain())))
                        (ratio_cell(gain(row.case, Engine::IoUringWorker, Engine::IoUring)))
                        (ratio_cell(gain(row.case, Engine::IoUringWorker, Engine::Standpipe)))
                        (ratio_cell(gain(row.case, Engine::IoUring, Engine::Standpipe)))
                    } } }
                } }
            }
        }
    }

    /// All figures.
    fn figures(&self) -> Markup {
        let engines = distinct(self.records.iter().map(|record| record.engine));
        let pairs = pairs(&self.records);
        let ratio = |case: &str, metric| {
            let mut of = pairs
                .iter()
                .filter(|p| p.ours.case == case && p.ours.metric == metric);
            of.next().map(Pair::ratio)
        };
        html! {
            details {
                summary { "All figures" }
                div.scroll { table {
                    thead { tr { th { "case" } th.left { "metric" }
                        @for engine in &engines { th { (engine) } th { "min to max" } th { "runs" } }
                        th { "ratio" } } }
                    tbody { @for case in self.cases() { @for metric in self.metrics() { tr {
                        td { (case) }
                        td.left { (metric) }
                        @for &engine in &engines { (cells(self.find(case, metric, engine))) }
                        (ratio_cell(ratio(case, metric)))
                    } } } }
                } }
            }
        }
    }
}

/// Value, spread and number of runs.
fn cells(record: Option<&Record>) -> Markup {
    let Some(record) = record else {
        return html! { td {} td {} td {} };
    };
    let (min, max) = spread(&record.runs);
    html! {
        td { (figure(record.value)) }
        td.soft { (figure(min)) " to " (figure(max)) }
        td.soft { (record.runs.len()) }
    }
}

/// A ratio on a ground that says how good it is: the deeper the green, the better; red is worse.
pub fn ratio_cell(ratio: Option<f64>) -> Markup {
    ratio_cell_of(ratio, "")
}

/// The same, with the case whose ratio it is.
fn ratio_cell_of(ratio: Option<f64>, case: &str) -> Markup {
    let Some(ratio) = ratio.filter(|ratio| ratio.is_finite()) else {
        return html! { td {} };
    };
    let strength = (ratio.log2().abs() / 3.0).min(1.0);
    let hue = if ratio >= 1.0 { 140 } else { 8 };
    let style = format!("background:hsl({hue} 60% {:.0}%)", 97.0 - 27.0 * strength);
    html! {
        td style=(style) {
            (format!("{ratio:.2}"))
            @if !case.is_empty() { br; small { (case) } }
        }
    }
}

fn title(metric: Metric) -> String {
    let what = match metric {
        Metric::MbPerS => "throughput",
        Metric::P50Ns => "median",
        Metric::P99Ns => "99th percentile",
        Metric::AvgNs => "average",
        Metric::WallS => "from start to exit",
        Metric::WallMs => "from start to end",
        Metric::BytesEach => "memory of each",
        Metric::AvgIoKib => "average size of a read",
    };
    let better = if metric.more_is_better() {
        "more"
    } else {
        "less"
    };
    format!("{what}, {} ({better} is better)", metric.unit())
}

/// The different ones among `items`, in order of appearance.
fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}
