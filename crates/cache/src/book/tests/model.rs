//! Random operations against what must always be so.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// What may happen. Readers, objects, reads and held pages are picked by number, modulo how many
/// there are.
#[derive(Clone, Debug)]
enum Op {
    Open(usize, PolicyKind, u64),
    Close(usize),
    Touch {
        reader: usize,
        index: u64,
        count: u64,
    },
    /// Touches what it waits for, or the next page.
    Go {
        reader: usize,
        count: u64,
        hold: bool,
    },
    Start,
    Finish {
        io: usize,
        arrived: u64,
        fails: bool,
    },
    Seek(usize, u64),
    Advise(usize, usize, u64, u64),
    SetEnd(usize, u64),
    Forget(usize),
    Release(usize),
    Sleep(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let n = 0usize..16;
    let index = prop_oneof![3 => 0u64..60, 1 => 0u64..400];
    let kind = prop::sample::select(PolicyKind::ALL.to_vec());
    let op = prop_oneof![
        2 => (n.clone(), kind, 1u64..40).prop_map(|(o, kind, max)| Op::Open(o, kind, max)),
        1 => n.clone().prop_map(Op::Close),
        4 => (n.clone(), index.clone(), 1u64..20)
            .prop_map(|(reader, index, count)| Op::Touch { reader, index, count }),
        20 => (n.clone(), 1u64..8, prop::bool::weighted(0.1))
            .prop_map(|(reader, count, hold)| Op::Go { reader, count, hold }),
        8 => Just(Op::Start),
        12 => (n.clone(), 0u64..40, prop::bool::weighted(0.2))
            .prop_map(|(io, arrived, fails)| Op::Finish { io, arrived, fails }),
        1 => (n.clone(), index.clone()).prop_map(|(reader, index)| Op::Seek(reader, index)),
        2 => (n.clone(), 0usize..5, index.clone(), 0u64..50)
            .prop_map(|(reader, which, from, len)| Op::Advise(reader, which, from, len)),
        1 => (n.clone(), index).prop_map(|(object, end)| Op::SetEnd(object, end)),
        1 => n.clone().prop_map(Op::Forget),
        4 => n.prop_map(Op::Release),
        1 => (0..STREAM_NS * 2).prop_map(Op::Sleep),
    ];
    proptest::collection::vec(op, 1..250)
}

struct Client {
    id: ReaderId,
    next: u64,
    /// What it was told to wait for.
    waits: Option<(IoId, u64)>,
    must_fail: bool,
}

struct World {
    book: Book<Leaf>,
    objects: Vec<ObjectId>,
    readers: Vec<(Client, ObjectId)>,
    started: Vec<Io>,
    /// Which read brings a page that somebody may still want.
    bringing: HashMap<(ObjectId, u64), IoId>,
    held: Vec<Leaf>,
    touches: u64,
    now_ns: u64,
}

impl World {
    fn new(options: Options) -> Self {
        let mut book = Book::new(options);
        let objects = [100, 300].map(|end| book.add_object(end, SPEED)).to_vec();
        Self {
            book,
            objects,
            readers: Vec::new(),
            started: Vec::new(),
            bringing: HashMap::new(),
            held: Vec::new(),
            touches: 0,
            now_ns: 0,
        }
    }

    fn act(&mut self, op: &Op) {
        self.now_ns += 1_000_000;
        let objects = self.objects.len();
        let readers = self.readers.len().max(1);
        match *op {
            Op::Open(object, kind, max) => {
                let object = self.objects[object % objects];
                let id = self.book.open(object, kind, max);
                let client = Client {
                    id,
                    next: 0,
                    waits: None,
                    must_fail: false,
                };
                self.readers.push((client, object));
            }
            Op::Start => self.start(),
            Op::Finish { .. } if self.started.is_empty() => {}
            Op::Finish { io, arrived, fails } => {
                let io = self.started.swap_remove(io % self.started.len());
                self.finish(&io, arrived, fails);
            }
            Op::SetEnd(object, end) => {
                let object = self.objects[object % objects];
                let from = end.min(self.book.end(object)).saturating_sub(1);
                self.book.set_end(object, end);
                self.unbring(object, from);
            }
            Op::Forget(object) => {
                let old = std::mem::replace(
                    &mut self.objects[object % objects],
                    self.book.add_object(200, SPEED),
                );
                self.book.forget(old);
                self.unbring(old, 0);
            }
            Op::Release(held) if !self.held.is_empty() => {
                self.held.swap_remove(held % self.held.len());
            }
            Op::Release(_) => {}
            Op::Sleep(ns) => self.now_ns += ns,
            _ if self.readers.is_empty() => {}
            Op::Close(reader) => {
                let (client, _) = self.readers.swap_remove(reader % readers);
                self.book.close(client.id);
            }
            Op::Touch {
                reader,
                index,
                count,
            } => {
                self.touch(reader % readers, index, count, false);
            }
            Op::Go {
                reader,
                count,
                hold,
            } => {
                let next = self.readers[reader % readers].0.next;
                self.touch(reader % readers, next, count, hold);
            }
            Op::Seek(reader, index) => {
                let (client, object) = &mut self.readers[reader % readers];
                if !self.book.is_cached(*object, index) {
                    client.waits = None;
                    client.must_fail = false;
                }
                client.next = index;
                self.book.seek(client.id, index);
            }
            Op::Advise(reader, which, from, len) => {
                let advice = [
                    Advice::Normal,
                    Advice::Sequential,
                    Advice::Random,
                    Advice::WillNeed,
                    Advice::DontNeed,
                ][which];
                let id = self.readers[reader % readers].0.id;
                self.book.advise(id, advice, from..from + len);
            }
        }
    }

    fn touch(&mut self, reader: usize, index: u64, count: u64, hold: bool) {
        let (client, object) = &mut self.readers[reader];
        let is_again = client.waits.is_some_and(|(_, waited)| waited == index);
        let must_fail = std::mem::take(&mut client.must_fail) && is_again;
        client.next = index;
        let step = self.book.touch(client.id, index, count, true, self.now_ns);
        let is_counted = !is_again && step != Step::End;
        self.touches += u64::from(is_counted);
        if step != Step::End {
            assert_eq!(
                step == Step::Failed,
                must_fail,
                "page {index}: told of a failure"
            );
        }
        client.waits = None;
        match step {
            Step::Ready(page) => {
                assert_eq!(**page, (*object, index), "another page's memory");
                client.next = index + 1;
                if hold {
                    self.held.push(Rc::clone(page));
                }
            }
            Step::Pending(io) => client.waits = Some((io, index)),
            Step::NoRoom => client.waits = Some((IoId::default(), index)),
            Step::Failed => {}
            Step::End => client.next = 0,
        }
    }

    fn start(&mut self) {
        while let Some(io) = self.book.next_io() {
            for index in io.index..io.index + io.pages {
                let other = self.bringing.insert((io.object, index), io.id);
                assert_eq!(other, None, "page {index} is in two reads");
            }
            self.started.push(io);
        }
    }

    fn finish(&mut self, io: &Io, arrived: u64, fails: bool) {
        let arrived = if fails {
            arrived.min(io.pages - 1)
        } else {
            io.pages
        };
        let pages = leaves(io, arrived);
        for index in io.index + arrived..io.index + io.pages {
            let is_wanted = self.bringing.get(&(io.object, index)) == Some(&io.id);
            for (client, _) in &mut self.readers {
                client.must_fail |= is_wanted && client.waits == Some((io.id, index));
            }
        }
        self.bringing.retain(|_, bringing| *bringing != io.id);
        self.book.finish(io.id, pages, fails, self.now_ns);
    }

    fn unbring(&mut self, object: ObjectId, from: u64) {
        self.bringing
            .retain(|(other, index), _| *other != object || *index < from);
    }

    fn check(&self) {
        self.book.audit().unwrap();
        let sums = self.book.accounts();
        assert_eq!(
            sums.hits + sums.misses + sums.waits,
            self.touches,
            "{sums:?}"
        );
    }

    /// Everybody who waits gets the page, all at once, once nothing is held and the store works.
    fn settle(&mut self) {
        self.held.clear();
        for _ in 0..self.readers.len() * 2 + 4 {
            self.start();
            for io in std::mem::take(&mut self.started) {
                self.finish(&io, io.pages, false);
            }
            for reader in 0..self.readers.len() {
                if let Some((_, index)) = self.readers[reader].0.waits {
                    self.touch(reader, index, 1, false);
                }
            }
            self.check();
        }
        let waiting = self
            .readers
            .iter()
            .filter(|(client, _)| client.waits.is_some());
        assert_eq!(
            waiting.count(),
            0,
            "somebody waits for ever: {:?}",
            self.book
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn whatever_happens(
        budget_pages in prop_oneof![1u64..6, 6u64..200],
        is_streaming: bool,
        ops in ops(),
    ) {
        let eviction = if is_streaming { Eviction::Streaming } else { Eviction::TwoLists };
        let mut world = World::new(Options { budget_pages, eviction });
        for op in &ops {
            world.act(op);
            world.check();
        }
        world.settle();
    }
}
