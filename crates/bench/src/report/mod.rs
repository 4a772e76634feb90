//! Results as one page of HTML that needs nothing else: plots, tables, published figures beside.

mod grid;
mod plot;
mod policies;
pub(crate) mod published;
mod section;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::record::Record;
use section::{Section, sections};

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
                    "turn, in one run; all bytes were checked on arrival. Figures are medians, "
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Engine, Metric};
    use crate::table::figure;

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
            both("create", "memory", Metric::BytesEach, 1877.0, 2444.0),
            both("fifo", "cold-64", Metric::MbPerS, 97.1, 364.0),
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
        let warm = both("fifo", "64", Metric::MbPerS, 1000.0, 4321.0);
        let cold = both("fifo", "cold-64", Metric::MbPerS, 1000.0, 2345.0);
        let page = render(&[warm, cold].concat());
        for cell in [">1.15<", ">4.32<", ">2.35<"] {
            assert!(page.contains(&format!("{cell}/td>")), "{cell}");
        }
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
