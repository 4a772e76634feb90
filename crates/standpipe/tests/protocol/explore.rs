//! Every order of steps, breadth first: the first flaw found has a shortest trace.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use crate::scenario::Scenario;
use crate::steps::{Flaw, Next, Step, steps, verdict};
use crate::world::World;

/// What an exploration gave.
pub struct Found {
    pub states: usize,
    pub flaw: Option<Trace>,
}

/// How it came to a flaw.
pub struct Trace {
    pub flaw: Flaw,
    pub steps: Vec<(Step, World)>,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (step, world)) in self.steps.iter().enumerate() {
            writeln!(f, "{:3} {step:40} {}", n + 1, Shared(world))?;
        }
        write!(f, "    {:?}", self.flaw)
    }
}

/// The shared part of a state, in a line.
struct Shared<'a>(&'a World);

impl fmt::Display for Shared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let world = self.0;
        write!(
            f,
            "kernel {:?} stage {:?} lane {:?}",
            world.kernel, world.stage, world.lane
        )?;
        if let Some(mark) = world.mark {
            write!(f, " mark {mark:+}")?;
        }
        let flags = [
            (world.is_inside, "inside"),
            (world.is_serving, "serving"),
            (world.is_retired, "retired"),
            (world.has_unaware_writers, "unaware_writers"),
            (world.is_reader_present(), "present"),
        ];
        for (_, name) in flags.iter().filter(|(is_set, _)| *is_set) {
            write!(f, " {name}")?;
        }
        if world.due > 0 {
            write!(f, " due {}", world.due)?;
        }
        Ok(())
    }
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Fingerprints are hashes already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are kept");
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

/// Where the start was reached from.
const START: u64 = 0;

/// From where each state was reached first.
type Seen = HashMap<u64, u64, BuildHasherDefault<Same>>;

/// Looks at all states that can be reached, or at the first `limit`.
pub fn explore(scenario: &Scenario, limit: usize) -> Found {
    let start = scenario.start();
    let mut seen = Seen::default();
    let mut queue = VecDeque::from([start]);
    seen.insert(fingerprint(&start), START);
    while let Some(world) = queue.pop_front()
        && seen.len() < limit
    {
        let next = steps(scenario, &world);
        if let Some(trace) = find_flaw(scenario, &seen, &world, &next) {
            return Found {
                states: seen.len(),
                flaw: Some(trace),
            };
        }
        for Next { world: reached, .. } in next {
            if let Entry::Vacant(place) = seen.entry(fingerprint(&reached)) {
                place.insert(fingerprint(&world));
                queue.push_back(reached);
            }
        }
    }
    Found {
        states: seen.len(),
        flaw: None,
    }
}

fn find_flaw(scenario: &Scenario, seen: &Seen, world: &World, next: &[Next]) -> Option<Trace> {
    let trace = |flaw| Trace {
        flaw,
        steps: path(scenario, seen, world),
    };
    if let Some(flaw) = verdict(scenario, world, next) {
        return Some(trace(flaw));
    }
    let wrong = next.iter().find(|next| next.flaw.is_some())?;
    let mut trace = trace(wrong.flaw?);
    trace.steps.push((wrong.step, wrong.world));
    Some(trace)
}

/// The steps from the start: states are not kept, so they are taken again.
fn path(scenario: &Scenario, seen: &Seen, last: &World) -> Vec<(Step, World)> {
    let mut prints = vec![fingerprint(last)];
    while let Some(&before) = seen.get(&prints[prints.len() - 1])
        && before != START
    {
        prints.push(before);
    }
    let mut world = scenario.start();
    let step_to = |print: &u64| {
        let next = steps(scenario, &world);
        let step = next
            .into_iter()
            .find(|next| fingerprint(&next.world) == *print);
        let Next {
            step,
            world: reached,
            ..
        } = step.expect("steps are the same each time");
        world = reached;
        (step, reached)
    };
    prints.iter().rev().skip(1).map(step_to).collect()
}
