//! Results as one page of HTML that needs nothing else: plots, tables, published figures beside.

mod grid;
mod plot;
mod published;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::record::{Engine, Metric, Record};
use crate::stats::spread;
use crate::suites;
use crate::table::{Pair, figure, means, pairs};
use plot::{Mark, Series};

const STYLE: &str = include_str!("style.css");

/// The page that shows `records`.
#[must_use]
pub fn render(records: &[Record]) -> String {
    let sections = sections(records);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "standpipe: benchmarks" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "standpipe: benchmarks" }
                p {
                    "Pipes in shared memory against the kernel's pipes, and pipelines under "
                    code { "standpipe run" } " against the plain shell. The rivals of a case ran in "
                    "turn, in one session; all bytes were checked on arrival. Figures are medians, "
                    "whiskers reach from the least to the greatest run. A " b { "ratio" }
                    " says how many times better standpipe did, run by run: above 1 it won."
                }
                (summary(&sections))
                @for section in &sections { (section.render()) }
                @if sections.is_empty() {
                    p { "No results were given. " code { "standpipe bench all --json results.json" }
                        " measures, " code { "standpipe bench report results.json" } " shows." }
                }
                footer { p { "Rendered " (machine()) "." } }
            }
        }
    };
    page.into_string()
}

/// Where the page was made, which is where it was measured unless the results came from elsewhere.
fn machine() -> String {
    let system = rustix::system::uname();
    let processors = crate::processors::allowed().map_or(0, |cpus| cpus.len());
    format!(
        "on {} {}, {}, with {processors} processors",
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy(),
        system.machine().to_string_lossy()
    )
}

/// The results of one suite, all on the same processors.
struct Section {
    suite: String,
    cpus: Option<usize>,
    records: Vec<Record>,
}

/// One section for each suite and number of processors: the suites in the order of their list,
/// those that it lacks at the end.
fn sections(records: &[Record]) -> Vec<Section> {
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
        suites::ALL
            .iter()
            .position(|(name, _)| *name == suite)
            .unwrap_or(suites::ALL.len())
    };
    sections.sort_by_key(|section| (rank(&section.suite), section.cpus));
    sections
}

/// A line for each suite and metric, with its mean, worst and best case.
fn summary(sections: &[Section]) -> Markup {
    html! {
        div.scroll { table.glance {
            caption { "At a glance: ratios" }
            thead { tr {
                th { "suite" } th { "geometric mean" } th { "worst case" } th { "best case" }
            } }
            tbody { @for section in sections { (section.summary()) } }
        } }
    }
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

    fn summary(&self) -> Markup {
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

    fn render(&self) -> Markup {
        let description = suites::ALL.iter().find(|(name, _)| *name == self.suite);
        html! {
            h2 id=(self.anchor()) { (self.suite) " " small { (self.processors()) } }
            @if let Some((_, text)) = description { p { (text) "." } }
            @match grid::render(&self.suite, self.cpus, &self.records) {
                Some(grid) => (grid),
                None => {
                    div.plots { @for svg in self.plots() { figure { (PreEscaped(svg)) } } }
                    (self.published_pipe_bench())
                    (self.published_grep())
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
                let colour = if engine == Engine::Standpipe {
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
fn ratio_cell(ratio: Option<f64>) -> Markup {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(suite: &str, case: &str, engine: Engine, metric: Metric, value: f64) -> Record {
        Record {
            suite: suite.into(),
            case: case.into(),
            engine,
            metric,
            unit: metric.unit().into(),
            value,
            runs: vec![value * 0.9, value, value * 1.1],
            cpus: None,
        }
    }

    fn both(suite: &str, case: &str, metric: Metric, theirs: f64, ours: f64) -> [Record; 2] {
        let rival = if metric == Metric::WallS {
            Engine::Shell
        } else {
            Engine::Kernel
        };
        [
            record(suite, case, rival, metric, theirs),
            record(suite, case, Engine::Standpipe, metric, ours),
        ]
    }

    #[test]
    fn the_page_has_every_suite_case_and_figure() {
        let records = [
            both("pipe", "1x1", Metric::MbPerS, 1011.0, 5022.0),
            both("pipe", "5x10", Metric::P99Ns, 20311.0, 3044.0),
            both(
                "pipe-memory-pressure",
                "2x5",
                Metric::AvgNs,
                40511.0,
                4066.0,
            ),
            both("bw", "ts8k-pipe32k-A+B", Metric::MbPerS, 2077.0, 3088.0),
            both("pipeflex", "ts2k-pipe4k-A", Metric::MbPerS, 30.1, 30.9),
            both("grep", "aware-cat", Metric::WallS, 0.111, 0.122),
            both("small", "64", Metric::AvgNs, 217.0, 41.3),
            both("latency", "free", Metric::P50Ns, 45123.0, 251.0),
            both("create", "1kib", Metric::AvgNs, 5512.0, 7513.0),
            both("run", "cat-wc", Metric::WallS, 0.514, 0.115),
            both("a suite of tomorrow", "<case>", Metric::WallS, 0.616, 0.317),
        ]
        .concat();
        let page = render(&records);
        for record in &records {
            let [suite, case] =
                [&record.suite, &record.case].map(|s| s.replace('<', "&lt;").replace('>', "&gt;"));
            let cell = format!("<td>{case}</td>");
            assert!(page.contains(&format!("<h2 id=\"{suite}\">")), "{suite}");
            assert!(page.contains(&cell), "{case}");
            assert!(
                page.contains(&format!("<td>{}</td>", figure(record.value))),
                "{record:?}"
            );
        }
        assert!(!page.contains("<case>"), "names are escaped");
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = render(&both("pipe", "1x1", Metric::MbPerS, 1.0, 2.0));
        for outside in ["<link", "<script", "src=", "url(", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn published_figures_stand_beside_the_measured_ones() {
        let page = render(&both("pipe", "1x1", Metric::MbPerS, 1000.0, 5000.0));
        assert!(
            page.contains("1119") && page.contains("1354"),
            "throughput as published"
        );
        let page = render(&both(
            "bw",
            "ts8k-pipe32k-A+B",
            Metric::MbPerS,
            1000.0,
            5000.0,
        ));
        assert!(page.contains(">1.75<"), "the published gain of 75.27 %");
        let page = render(&both("grep", "run", Metric::WallS, 1.0, 0.5));
        assert!(page.contains(">2.65<"), "the published gain of 165.25 %");
    }

    #[test]
    fn runs_on_one_processor_have_their_own_section() {
        let [kernel, ours] = both("bw", "ts8k-pipe32k-A", Metric::MbPerS, 1000.0, 1000.0);
        let confined = [kernel, ours].map(|record| Record {
            cpus: Some(1),
            ..record
        });
        let free = both("bw", "ts8k-pipe32k-A", Metric::MbPerS, 1000.0, 3000.0);
        let page = render(&[free, confined].concat());
        assert!(page.contains("id=\"bw\"") && page.contains("id=\"bw-cpus1\""));
        assert!(
            page.contains(">0.70<"),
            "the published loss of 30.19 % on one processor"
        );
    }

    #[test]
    fn no_results_give_a_page_that_says_so() {
        assert!(render(&[]).contains("No results were given"));
    }
}
