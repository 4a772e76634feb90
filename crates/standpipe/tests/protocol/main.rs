//! The lane protocol (docs/LANE_PROTOCOL.md), explored.

mod explore;
mod scenario;
mod steps;
mod world;

use explore::explore;
use scenario::{Role, Rules, Scenario};

const LIMIT: usize = 8_000_000;

fn holds(name: &str, scenario: &Scenario) {
    let found = explore(scenario, LIMIT);
    println!(
        "{name}: {} states{}",
        found.states,
        if found.states >= LIMIT {
            " (limit)"
        } else {
            ""
        }
    );
    if let Some(trace) = found.flaw {
        let t = format!("{trace}");
        let l: Vec<_> = t.lines().collect();
        println!(
            "FLAW {name}:\n{}",
            l[l.len().saturating_sub(24)..].join("\n")
        );
    }
}

#[test]
fn all() {
    let w = Role::writer;
    let r = Role::reader();

    let _ = (w, r);
    for (n, s) in [
        ("1 2 r", Scenario::new(&[w(1), w(2), r]).baton(1, 1, 0, 1)),
        ("2 2 r", Scenario::new(&[w(2), w(2), r]).baton(1, 1, 0, 1)),
        ("2 2 r", Scenario::new(&[w(2), w(2), r]).baton(1, 1, 0, 2)),
        (
            "2 2 r1 r",
            Scenario::new(&[w(1), w(2), r.leaving_after(1), r]).baton(1, 1, 0, 1),
        ),
    ] {
        holds(&format!("sound {n}"), &s);
        holds(
            &format!("unlocked outside {n}"),
            &s.breaking(|r| r.sets_outside_locked = false),
        );
    }
}
