//! Readahead policies side by side, and beside what was published.

use maud::{Markup, html};

use super::published::Readahead;
use super::section::ratio_cell;
use crate::policies::{cells, rows};
use crate::record::{Engine, Record};

/// The table, if policies compete in the records.
pub fn render(records: &[Record]) -> Markup {
    let rows = rows(records);
    html! {
        @if !rows.is_empty() {
            h3 { "Beside the published figures" }
            p { "Simulated, on a disk of 7200 turns a minute and 60 MB/s: the same on every run. "
                "Published in 2007: Linux 2.6.20, and the on-demand readahead that came with "
                "2.6.23. Ratios above 1 are in favour of the first." }
            div.scroll { table {
                thead {
                    tr { th {} th {} th colspan="4" { "simulated" } th colspan="2" { "published" }
                        th colspan="2" { "on-demand to legacy" } th { "standpipe" } }
                    tr { th { "case" } th.left { "metric" }
                        th { "legacy" } th { "on-demand" } th { "context" } th { "standpipe" }
                        th { "legacy" } th { "on-demand" }
                        th { "simulated" } th { "published" } th { "to on-demand" } }
                }
                tbody { @for row in &rows { tr {
                    @for (column, text) in cells(row).iter().take(8).enumerate() {
                        @if column == 1 { td.left { (text) } } @else { td { (text) } }
                    }
                    (ratio_cell(row.gain(Engine::OnDemand, Engine::Legacy)))
                    (ratio_cell(row.published.as_ref().map(Readahead::gain)))
                    (ratio_cell(row.gain(Engine::Standpipe, Engine::OnDemand)))
                } } }
            } }
        }
    }
}
