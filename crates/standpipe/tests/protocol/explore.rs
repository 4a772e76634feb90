//! Every order of steps, breadth first: the first flaw found has a shortest trace.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use crate::scenario::Scenario;
use crate::steps::{Flaw, Step, steps, verdict};
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

/// From where each state was reached first.
type Seen = HashMap<u64, u64, BuildHasherDefault<Same>>;

/// Looks at all states that can be reached, or at the first `limit`.
pub fn explore(scenario: &Scenario, limit: usize) -> Found {
    let start = scenario.start();
    let mut seen = Seen::default();
    let mut queue = VecDeque::from([start]);
    seen.insert(fingerprint(&start), 0);
    let mut next = Vec::new();
    while let Some(world) = queue.pop_front() {
        next.clear();
        steps(scenario, &world, &mut next);
        let flaw = verdict(scenario, &world, &next);
        if let Some(flaw) = flaw {
            let steps = path(scenario, &seen, &world);
            return Found {
                states: seen.len(),
                flaw: Some(Trace { flaw, steps }),
            };
        }
        for (step, outcome) in next.drain(..) {
            match outcome {
                Ok(reached) => {
                    let print = fingerprint(&reached);
                    if let std::collections::hash_map::Entry::Vacant(place) = seen.entry(print) {
                        place.insert(fingerprint(&world));
                        queue.push_back(reached);
                    }
                }
                Err((flaw, last)) => {
                    let mut steps = path(scenario, &seen, &world);
                    steps.push((step, last));
                    return Found {
                        states: seen.len(),
                        flaw: Some(Trace { flaw, steps }),
                    };
                }
            }
        }
        if seen.len() >= limit {
            break;
        }
    }
    Found {
        states: seen.len(),
        flaw: None,
    }
}

/// The steps from the start: states are not kept, so they are taken again.
fn path(scenario: &Scenario, seen: &Seen, last: &World) -> Vec<(Step, World)> {
    let mut prints = vec![fingerprint(last)];
    while let Some(&before) = seen.get(prints.last().expect("begins with one")) {
        if before == 0 {
            break;
        }
        prints.push(before);
    }
    let mut world = scenario.start();
    let mut path = Vec::new();
    for print in prints.iter().rev().skip(1) {
        let mut next = Vec::new();
        steps(scenario, &world, &mut next);
        let (step, reached) = next
            .into_iter()
            .find_map(|(step, outcome)| {
                outcome
                    .ok()
                    .filter(|reached| fingerprint(reached) == *print)
                    .map(|w| (step, w))
            })
            .expect("steps are the same each time");
        path.push((step, reached));
        world = reached;
    }
    path
}
