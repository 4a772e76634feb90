//! The lane protocol (`docs/LANE_PROTOCOL.md`), explored: every order of steps, with processes that know
//! nothing of the lane, and with deaths before each step. No process is made: see `world.rs` for what
//! there is, `steps/` for what may happen, `scenario.rs` for the rules and who takes part.
//!
//! What is checked, of each byte that is read: it comes once, after all that its writer wrote before it,
//! and after whatever other writers had written before its write began, where the scenario has one wait
//! for the other. At the end: nothing is left, nobody waits.
//!
//! ```sh
//! cargo test --release -p standpipe --test protocol -- --ignored --nocapture   # `make model`
//! ```

mod explore;
mod scenario;
mod steps;
mod world;

use explore::{Found, explore};
use scenario::{Keeps, Role, Rules, Scenario};
use steps::Flaw;

/// Far more than any of the scenarios has.
const ALL_STATES: usize = 50_000_000;

const READER: Role = Role::reader();
const UNAWARE_READER: Role = Role::reader().unaware();

const fn writer(bytes: u8) -> Role {
    Role::writer(bytes)
}

fn of(roles: &[Role]) -> Scenario {
    Scenario::new(roles)
}

/// One writer waits for the other.
fn two_writers_in_turn() -> Scenario {
    of(&[writer(2), writer(1), READER])
        .baton(1, 0, 0, 1)
        .baton(0, 1, 1, 1)
}

/// A program writes between the writes of who started it.
fn program_in_between(writes: u8) -> Scenario {
    let parent = writer(writes + 1).spawning(1, 1, Keeps::ItsEnd);
    let child = writer(writes).unaware().child();
    let roles = of(&[parent, child, READER]).kernel_capacity(8);
    (0..writes).fold(roles, |s, n| {
        s.baton(1, n, 0, n + 1).baton(0, n + 1, 1, n + 1)
    })
}

/// A program writes after a writer has left whose bytes fit the kernel pipe.
fn program_after() -> Scenario {
    of(&[writer(3), writer(1).unaware(), READER])
        .after_end(1, 0)
        .kernel_capacity(3)
}

/// A reader that starts a program, which goes on reading.
fn reading_program(parent: Role, keeps: Keeps) -> Scenario {
    of(&[parent, READER.spawning(2, 1, keeps), UNAWARE_READER.child()]).kernel_capacity(4)
}

/// A writer and a reader of one process: the reader leaves.
fn process_that_stops_reading() -> Scenario {
    of(&[writer(3).beside(1), READER.leaving_after(1)])
}

/// Small enough for each test run.
fn small() -> Vec<(&'static str, Scenario)> {
    vec![
        ("a writer and a reader", of(&[writer(3), READER])),
        (
            "a small kernel pipe",
            of(&[writer(3), READER]).kernel_capacity(1),
        ),
        ("two writers in turn", two_writers_in_turn()),
        ("a program in between", program_in_between(2)),
        (
            "a reading program",
            reading_program(writer(3), Keeps::Nothing),
        ),
        (
            "a reading program, forked",
            reading_program(writer(2), Keeps::ItsEnd),
        ),
        (
            "a reading program beside",
            reading_program(writer(3), Keeps::RetiredEnd),
        ),
        (
            "it waits",
            reading_program(writer(3).staying(), Keeps::Nothing),
        ),
        ("an idle writer", of(&[writer(3).staying(), READER])),
        ("a reader joins", of(&[writer(2), READER.joining()])),
        (
            "an unaware reader",
            of(&[writer(3), READER, UNAWARE_READER]).kernel_capacity(4),
        ),
        (
            "an unaware writer",
            of(&[writer(2), writer(1).unaware(), READER]),
        ),
        ("a process with both ends", process_that_stops_reading()),
        (
            "... and a reader elsewhere",
            of(&[writer(2).beside(1), READER.leaving_after(1), READER]),
        ),
        (
            "... that starts a reading program",
            reading_program(writer(3).staying().beside(1), Keeps::Nothing),
        ),
        (
            "... or forks one",
            reading_program(writer(2).beside(1), Keeps::ItsEnd),
        ),
    ]
}

/// Minutes.
fn large() -> Vec<(&'static str, Scenario)> {
    let leaver = READER.leaving_after(1);
    vec![
        ("two writers", of(&[writer(2), writer(2), READER])),
        ("two readers", of(&[writer(3), READER, READER])),
        ("a reader leaves", of(&[writer(3), leaver, READER])),
        (
            "... by a small kernel pipe",
            of(&[writer(3), leaver, READER]).kernel_capacity(1),
        ),
        (
            "two writers in turn, a reader leaves",
            of(&[writer(2), writer(1), leaver, READER])
                .baton(1, 0, 0, 1)
                .baton(0, 1, 1, 1),
        ),
        (
            "an unaware writer, two readers",
            of(&[writer(2), writer(1).unaware(), READER, READER]),
        ),
        (
            "a writer joins",
            of(&[writer(2).joining(), writer(1), READER]),
        ),
        (
            "a reader joins another",
            of(&[writer(2), READER.joining(), READER]),
        ),
        (
            "two writers, a reading program",
            of(&[
                writer(2),
                writer(1),
                READER.spawning(3, 1, Keeps::Nothing),
                UNAWARE_READER.child(),
            ])
            .kernel_capacity(4),
        ),
        (
            "one of them unaware",
            of(&[
                writer(2),
                writer(1).unaware(),
                READER.spawning(3, 1, Keeps::RetiredEnd),
                UNAWARE_READER.child(),
            ])
            .kernel_capacity(4),
        ),
        ("a longer program in between", program_in_between(3)),
    ]
}

fn assert_holds(name: &str, scenario: &Scenario) {
    let Found { states, flaw } = explore(scenario, ALL_STATES);
    println!("{states:>9} states, {} deaths: {name}", scenario.deaths);
    if let Some(trace) = flaw {
        panic!("{name}:\n{trace}");
    }
    assert!(states < ALL_STATES, "{name} was not explored to its end");
}

#[test]
fn every_byte_is_read_once_and_in_order() {
    for (name, scenario) in small() {
        assert_holds(name, &scenario);
    }
    assert_holds("a program after a writer", &program_after());
}

#[test]
fn and_so_it_is_when_somebody_dies() {
    for (name, scenario) in small() {
        assert_holds(name, &scenario.deaths(1));
    }
}

#[test]
#[ignore = "takes minutes: make model"]
fn larger_scenarios() {
    for (name, scenario) in small() {
        assert_holds(name, &scenario.deaths(2));
    }
    for (name, scenario) in large() {
        assert_holds(name, &scenario.clone());
        assert_holds(name, &scenario.deaths(1));
    }
}

/// A rule, where it is missed, and by how many deaths.
type Needed = (&'static str, fn(&mut Rules), Scenario, u8);

fn rules() -> Vec<Needed> {
    let pair = || of(&[writer(3), READER]);
    let two_writers = || of(&[writer(2), writer(2), READER]);
    let second_waits = || of(&[writer(1), writer(2), READER]).baton(1, 1, 0, 1);
    let two_readers = || of(&[writer(3), READER, READER]);
    let waits = || reading_program(writer(3).staying(), Keeps::Nothing);
    vec![
        ("marks", |r| r.marks = false, pair(), 0),
        ("marks_first", |r| r.marks_first = false, pair(), 0),
        (
            "serves_passed_marks",
            |r| r.serves_passed_marks = false,
            pair(),
            1,
        ),
        (
            "goes_inside_first",
            |r| r.goes_inside_first = false,
            second_waits(),
            0,
        ),
        (
            "repairs_inside",
            |r| r.repairs_inside = false,
            two_writers(),
            1,
        ),
        (
            "takes_off_first",
            |r| r.takes_off_first = false,
            second_waits(),
            0,
        ),
        (
            "notes_serving",
            |r| r.notes_serving = false,
            two_readers(),
            1,
        ),
        ("notes_staged", |r| r.notes_staged = false, pair(), 1),
        ("reads_stage", |r| r.reads_stage = false, pair(), 1),
        (
            "marks_while_emptying",
            |r| r.marks_while_emptying = false,
            pair(),
            1,
        ),
        (
            "closes_presence_first",
            |r| r.closes_presence_first = false,
            waits(),
            0,
        ),
        (
            "passes_write_lock",
            |r| r.passes_write_lock = false,
            waits(),
            0,
        ),
        ("looks_for_news", |r| r.looks_for_news = false, waits(), 0),
        ("empties_first", |r| r.empties_first = false, waits(), 0),
        (
            "empties_before_hand_over",
            |r| r.empties_before_hand_over = false,
            program_in_between(1),
            0,
        ),
        (
            "unaware_writers_retire",
            |r| r.unaware_writers_retire = false,
            program_in_between(2),
            0,
        ),
        (
            "forgets_first",
            |r| r.forgets_first = false,
            process_that_stops_reading(),
            0,
        ),
    ]
}

#[test]
fn no_rule_can_be_left_out() {
    for (rule, break_rule, scenario, deaths) in rules() {
        let scenario = scenario.deaths(deaths);
        let found = explore(&scenario.breaking(break_rule), ALL_STATES);
        let trace = found.flaw.unwrap_or_else(|| panic!("{rule}: not missed"));
        println!("{rule}: {} steps to {:?}", trace.steps.len(), trace.flaw);
    }
}

fn flaw_of(scenario: &Scenario) -> Flaw {
    explore(scenario, ALL_STATES)
        .flaw
        .expect("a limit of the protocol")
        .flaw
}

/// The limits that the protocol's text names.
#[test]
fn limits() {
    // More than the kernel pipe holds stays in the lane, where a program does not find it.
    let too_small = reading_program(writer(3), Keeps::Nothing).kernel_capacity(1);
    assert_eq!(flaw_of(&too_small), Flaw::EndedEarly { party: 2 });
    // Nobody is awake who would hand on what a killed reader left.
    let idle_writer = of(&[writer(3).staying(), READER, UNAWARE_READER]);
    assert_eq!(
        flaw_of(&idle_writer.kernel_capacity(4).deaths(1)),
        Flaw::Stuck { party: 2 }
    );
    // Of a writer that leaves not all fits: a program that is started then comes in between, or if the
    // writer is killed while it leaves.
    let leaver = READER.leaving_after(1);
    let too_late = of(&[writer(3), writer(1).unaware(), leaver, READER]).after_end(1, 0);
    assert!(matches!(flaw_of(&too_late), Flaw::Unordered { .. }));
    assert!(matches!(
        flaw_of(&program_after().deaths(1)),
        Flaw::Unordered { .. }
    ));
}
