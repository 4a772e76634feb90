//! Suites whose cases are a grid of transfer sizes and pipe sizes: lines of throughput, and tables
//! of ratios coloured by what they say.

use std::collections::BTreeSet;

use maud::{Markup, PreEscaped, html};

use super::plot::{self, Mark, Series};
use super::published;
use super::section::ratio_cell;
use crate::record::{Engine, Record};
use crate::table::{Pair, pairs};

/// Case names of the wake-ups.
const VARIANTS: [&str; 2] = ["A", "A+B"];

/// Where a case is in the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    transfer_kib: usize,
    pipe_kib: usize,
    variant: &'a str,
}

impl<'a> Place<'a> {
    /// The place that a case such as `ts8k-pipe32k-A+B` names.
    #[must_use]
    pub fn of(case: &'a str) -> Option<Self> {
        let (transfer, rest) = case.strip_prefix("ts")?.split_once("k-pipe")?;
        let (pipe, variant) = rest.split_once("k-")?;
        Some(Self {
            transfer_kib: transfer.parse().ok()?,
            pipe_kib: pipe.parse().ok()?,
            variant,
        })
    }
}

/// The grid of `records`, which are of one suite; nothing if it has none.
#[must_use]
pub fn render(suite: &str, cpus: Option<usize>, records: &[Record]) -> Option<Markup> {
    let places = records
        .iter()
        .filter_map(|r| Place::of(&r.case))
        .collect::<Vec<_>>();
    let transfers = places
        .iter()
        .map(|p| p.transfer_kib)
        .collect::<BTreeSet<_>>();
    let pipes = places.iter().map(|p| p.pipe_kib).collect::<BTreeSet<_>>();
    let (transfers, pipes) = (Vec::from_iter(transfers), Vec::from_iter(pipes));
    if places.is_empty() {
        return None;
    }
    let plots = pipes.iter().map(|&pipe| {
        let title = format!("pipe of {pipe} KiB, MB/s");
        plot::lines(
            &title,
            "KiB a transfer",
            &transfers,
            &series(records, &transfers, pipe),
        )
    });
    let pairs = pairs(records);
    let at = |case: &str, place: Place<'_>| Place::of(case) == Some(place);
    let measured = |place: Place<'_>| {
        pairs
            .iter()
            .find(|pair| at(&pair.ours.case, place))
            .map(Pair::ratio)
    };
    let value = |is_meant: fn(Engine) -> bool, place: Place<'_>| {
        records
            .iter()
            .find(|r| is_meant(r.engine) && at(&r.case, place))
            .map(|r| r.value)
    };
    let one_page = |place: Place<'_>| {
        let base = value(
            |engine| !engine.is_ours(),
            Place {
                pipe_kib: 4,
                ..place
            },
        )?;
        Some(value(Engine::is_ours, place)? / base)
    };
    let figures = published::larger_pipes(suite, cpus);
    let then = |place: Place<'_>| {
        let same = |f: &&published::LargerPipes| {
            f.transfer_kib == Some(place.transfer_kib)
                && (f.pipe_kib, f.variant.as_str()) == (place.pipe_kib, place.variant)
        };
        figures.iter().find(same).map(published::LargerPipes::ratio)
    };
    Some(html! {
        div.plots { @for svg in plots { figure { (PreEscaped(svg)) } } }
        h3 { "Times the kernel's throughput at equal capacity" }
        div.tables {
            @for variant in VARIANTS { (heat(variant, &transfers, &pipes, measured)) }
        }
        h3 { "Beside the published figures" }
        p {
            "The figures of October 2001 are ratios to that kernel's pipe of one page. The same of "
            "ours: ratios to today's kernel with a pipe of 4 KiB."
        }
        div.tables {
            @for variant in VARIANTS {
                (heat(&format!("{variant}, measured"), &transfers, &pipes, |place| {
                    one_page(Place { variant, ..place })
                }))
                (heat(&format!("{variant}, published"), &transfers, &pipes, |place| {
                    then(Place { variant, ..place })
                }))
            }
        }
    })
}

/// The throughput of each engine and variant with pipes of one size.
fn series(records: &[Record], transfers: &[usize], pipe_kib: usize) -> Vec<Series> {
    let of = |name: &str, colour, ours: bool, variant| {
        let mark = |&transfer_kib: &usize| {
            let place = Some(Place {
                transfer_kib,
                pipe_kib,
                variant,
            });
            let found = records
                .iter()
                .find(|r| r.engine.is_ours() == ours && Place::of(&r.case) == place);
            found.map(|record| Mark {
                value: record.value,
                spread: None,
            })
        };
        Series {
            name: name.into(),
            colour,
            marks: transfers.iter().map(mark).collect(),
        }
    };
    vec![
        of("kernel", plot::THEIRS, false, "A+B"),
        of("standpipe A", plot::OURS, true, "A"),
        of("standpipe A+B", plot::OURS_TOO, true, "A+B"),
    ]
}

/// A table of ratios: transfers down, pipes across.
fn heat<'a>(
    variant: &'a str,
    transfers: &[usize],
    pipes: &[usize],
    ratio: impl Fn(Place<'a>) -> Option<f64>,
) -> Markup {
    html! {
        table.heat {
            caption { (variant) }
            thead {
                tr { th { "transfer" } @for pipe in pipes { th { (pipe) " KiB" } } }
            }
            tbody {
                @for &transfer_kib in transfers {
                    tr {
                        th { (transfer_kib) " KiB" }
                        @for &pipe_kib in pipes {
                            (ratio_cell(ratio(Place { transfer_kib, pipe_kib, variant })))
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_names_its_place() {
        let place = Place {
            transfer_kib: 8,
            pipe_kib: 32,
            variant: "A+B",
        };
        assert_eq!(Place::of("ts8k-pipe32k-A+B"), Some(place));
        for other in ["1x1", "ts8k", "tsxk-pipe4k-A", "aware-cat"] {
            assert_eq!(Place::of(other), None, "{other}");
        }
    }
}
