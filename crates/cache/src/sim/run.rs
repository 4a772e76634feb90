//! The events of a scenario, one after the other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;
use rustc_hash::FxHashMap;
use standpipe_core::size::PAGE_BYTES;

use super::device::{Device, Request, transfer_ns};
use super::{Outcome, Read, Reader, Sample, Scenario};
use crate::book::{Accounts, Book, IoId, ObjectId, Options, ReaderId, Step};

const PAGE: u64 = PAGE_BYTES as u64;

/// What happens at a time. In the order of their time, and then of their making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A reader goes on.
    Go(usize),
    /// A read of the store is done.
    Done(usize),
}

struct Client {
    id: ReaderId,
    reads: Box<dyn Iterator<Item = Read>>,
    /// The read that it is at, and how many of its pages it has.
    read: Option<(Read, u64)>,
    /// When it may read next, by its rate.
    due_ns: u64,
    has_waited: bool,
    /// Reads until it is measured.
    warm_up: u64,
}

struct World<'a> {
    scenario: &'a Scenario,
    book: Book<()>,
    /// Where the objects begin on the store.
    starts: FxHashMap<ObjectId, u64>,
    clients: Vec<Client>,
    device: Device,
    is_congested: bool,
    /// The reads of the store that are being done, by the number of their event.
    doing: FxHashMap<usize, Request>,
    ios: FxHashMap<IoId, u64>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    made: u64,
    waiting: FxHashMap<IoId, Vec<usize>>,
    no_room: Vec<usize>,
    /// Who begins when which reader is done.
    followers: FxHashMap<Option<usize>, Vec<usize>>,
    now_ns: u64,
    outcome: Outcome,
    /// Clients that are not yet to be measured.
    cold: usize,
    /// From when on, and what came before.
    measured_from_ns: u64,
    before: Accounts,
}

impl Scenario {
    /// Plays it.
    ///
    /// # Panics
    /// If a reader's file is not among the files.
    #[must_use]
    pub fn run(&self) -> Outcome {
        let mut world = World::new(self);
        while let Some(Reverse((now_ns, _, event))) = world.events.pop() {
            world.now_ns = now_ns;
            match event {
                Event::Go(client) => world.go(client),
                Event::Done(number) => world.done(number),
            }
        }
        world.outcome()
    }
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let mut book = Book::new(Options {
            budget_pages: scenario.memory_bytes / PAGE,
            eviction: scenario.setup.eviction,
        });
        let speed = scenario.store.speed();
        let files = scenario.files.iter();
        let objects: Vec<ObjectId> = files
            .map(|file| book.add_object(file.bytes.div_ceil(PAGE), speed))
            .collect();
        let starts = scenario.files.iter().map(|file| file.start_bytes);
        let mut seeds = Rng::with_seed(scenario.seed);
        let readers = scenario.readers.iter();
        let clients: Vec<Client> = readers
            .map(|reader| {
                let object = objects[reader.file];
                let rng = Rng::with_seed(seeds.u64(..));
                Client {
                    id: book.open(
                        object,
                        scenario.setup.policy,
                        scenario.setup.max_ahead_bytes / PAGE,
                    ),
                    reads: reader.pattern.reads(book.end(object), rng),
                    read: None,
                    due_ns: reader.start_ns,
                    has_waited: false,
                    warm_up: reader.warm_up_reads,
                }
            })
            .collect();
        let mut world = Self {
            scenario,
            book,
            starts: objects.into_iter().zip(starts).collect(),
            device: Device::new(scenario.store),
            is_congested: false,
            doing: FxHashMap::default(),
            ios: FxHashMap::default(),
            events: BinaryHeap::new(),
            made: 0,
            waiting: FxHashMap::default(),
            no_room: Vec::new(),
            followers: followers(&scenario.readers),
            now_ns: 0,
            outcome: Outcome::default(),
            cold: clients.iter().filter(|client| client.warm_up > 0).count(),
            measured_from_ns: 0,
            before: Accounts::default(),
            clients,
        };
        world.begin_after(None);
        world
    }

    /// The readers that have waited for this one begin; those that wait for none, if it is `None`.
    fn begin_after(&mut self, number: Option<usize>) {
        for client in self.followers.remove(&number).unwrap_or_default() {
            let due_ns = &mut self.clients[client].due_ns;
            *due_ns = self.now_ns.max(*due_ns);
            let at_ns = *due_ns;
            self.at(at_ns, Event::Go(client));
        }
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.made += 1;
        self.events.push(Reverse((at_ns, self.made, event)));
    }

    /// A reader goes on with its read, or with the next.
    fn go(&mut self, number: usize) {
        let reader = &self.scenario.readers[number];
        if reader.stop_ns.is_some_and(|stop_ns| self.now_ns >= stop_ns) {
            return self.leave(number);
        }
        let client = &mut self.clients[number];
        let Some((read, done)) = client.read.or_else(|| Some((client.reads.next()?, 0))) else {
            return self.leave(number);
        };
        client.read = Some((read, done));
        for page in done..read.pages {
            if !self.touch(number, read, page) {
                return;
            }
        }
        self.end_read(number, read);
    }

    /// Whether the reader has the page.
    fn touch(&mut self, number: usize, read: Read, page: u64) -> bool {
        let (id, now_ns) = (self.clients[number].id, self.now_ns);
        let index = read.index + page;
        let step = self
            .book
            .touch(id, index, read.pages - page, page == 0, now_ns);
        let wait = match step {
            Step::Ready(()) => None,
            Step::Pending(io) => Some(Some(io)),
            Step::NoRoom => Some(None),
            Step::Failed | Step::End => unreachable!("the simulated store has every page"),
        };
        self.start_ios();
        let client = &mut self.clients[number];
        client.read = Some((read, page));
        match wait {
            None => {}
            Some(Some(io)) => self.waiting.entry(io).or_default().push(number),
            Some(None) => self.no_room.push(number),
        }
        client.has_waited |= wait.is_some();
        wait.is_none()
    }

    fn end_read(&mut self, number: usize, read: Read) {
        let client = &mut self.clients[number];
        client.read = None;
        let has_waited = std::mem::take(&mut client.has_waited);
        let bytes = read.pages * PAGE;
        let busy_ns = read.think_ns + read.pages * self.scenario.page_ns;
        let pace_ns = self.scenario.readers[number]
            .bytes_per_s
            .map_or(0, |bytes_per_s| transfer_ns(bytes, bytes_per_s));
        client.due_ns = (self.now_ns + busy_ns).max(client.due_ns + pace_ns);
        let due_ns = client.due_ns;
        if client.warm_up > 0 {
            client.warm_up -= 1;
            if client.warm_up == 0 {
                self.cold -= 1;
                self.begin_measuring();
            }
        } else if self.cold == 0 {
            self.outcome.reads += 1;
            self.outcome.waits += u64::from(has_waited);
            self.outcome.total.read_bytes += bytes;
        }
        self.sample().read_bytes += bytes;
        self.at(due_ns, Event::Go(number));
    }

    fn begin_measuring(&mut self) {
        if self.cold > 0 {
            return;
        }
        self.measured_from_ns = self.now_ns;
        self.before = self.book.accounts();
        self.outcome.total = Sample::default();
    }

    fn leave(&mut self, number: usize) {
        self.book.close(self.clients[number].id);
        self.start_ios();
        self.begin_after(Some(number));
    }

    /// Hands what the book wants to be read to the store.
    fn start_ios(&mut self) {
        while let Some(io) = self.book.next_io() {
            let start = self.starts[&io.object] + io.index * PAGE;
            self.ios.insert(io.id, io.pages);
            self.device.push(io.id, start, io.pages * PAGE, self.now_ns);
        }
        while let Some((request, done_ns)) = self.device.start(self.now_ns) {
            let sample = self.sample();
            sample.ios += 1;
            sample.io_bytes += request.bytes;
            if self.cold == 0 {
                self.outcome.total.ios += 1;
                self.outcome.total.io_bytes += request.bytes;
            }
            let number = self.made as usize;
            self.doing.insert(number, request);
            self.at(done_ns, Event::Done(number));
        }
        self.outcome.most_pages = self.outcome.most_pages.max(self.book.taken_pages());
        self.tell_congestion();
    }

    fn tell_congestion(&mut self) {
        let is_congested = self.device.is_congested();
        if is_congested == self.is_congested {
            return;
        }
        self.is_congested = is_congested;
        for &object in self.starts.keys() {
            self.book.set_congested(object, is_congested);
        }
    }

    fn done(&mut self, number: usize) {
        self.device.finish();
        let request = self.doing.remove(&number);
        for io in request.into_iter().flat_map(|request| request.ios) {
            let pages = self.ios.remove(&io).unwrap_or(0);
            self.book
                .finish(io, vec![(); pages as usize], false, self.now_ns);
            for client in self.waiting.remove(&io).unwrap_or_default() {
                self.at(self.now_ns, Event::Go(client));
            }
        }
        for client in std::mem::take(&mut self.no_room) {
            self.at(self.now_ns, Event::Go(client));
        }
        self.start_ios();
    }

    /// The sample that it is time for.
    fn sample(&mut self) -> &mut Sample {
        let number = (self.now_ns / self.scenario.sample_ns) as usize;
        let samples = &mut self.outcome.samples;
        if samples.len() <= number {
            let empty = Sample {
                elapsed_ns: self.scenario.sample_ns,
                ..Sample::default()
            };
            samples.resize(number + 1, empty);
        }
        &mut samples[number]
    }

    fn outcome(mut self) -> Outcome {
        self.outcome.total.elapsed_ns = self.now_ns - self.measured_from_ns;
        // the last one was not over
        self.outcome.samples.pop();
        self.outcome.accounts = self.book.accounts().since(&self.before);
        self.outcome
    }
}

fn followers(readers: &[Reader]) -> FxHashMap<Option<usize>, Vec<usize>> {
    let mut followers: FxHashMap<_, Vec<usize>> = FxHashMap::default();
    for (number, reader) in readers.iter().enumerate() {
        followers.entry(reader.after).or_default().push(number);
    }
    followers
}
