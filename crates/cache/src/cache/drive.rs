//! Reads: from the book to the stores, and back.

use std::sync::Arc;
use std::sync::{MutexGuard, PoisonError};

use standpipe_core::size::PAGE_BYTES;
use standpipe_shm::arena::{Lease, Page};

use super::object::{Look, Source};
use super::{Shared, State};
use crate::book::Io;
use crate::store::{Read, Store, StoreError};

/// More reads under way than this, and those that can wait should not be asked for.
const CONGESTED_READS: u64 = 64;

/// A read that is to be begun.
pub struct Wanted {
    io: Io,
    source: Arc<Source>,
    store: Arc<dyn Store>,
}

/// That it will be told what came of a read, of so many bytes: also by a store that drops it, as the task
/// of one does that panics. Whoever waits would wait for ever.
struct Promise(Option<(Arc<Shared>, Wanted, usize)>);

impl Promise {
    fn keep(mut self, lease: Lease, result: Result<usize, StoreError>) {
        if let Some((shared, wanted, wanted_bytes)) = self.0.take() {
            shared.done(&wanted, lease, result, wanted_bytes);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some((shared, wanted, wanted_bytes)) = self.0.take()
            && !shared.is_forked()
        {
            let error = StoreError::Io {
                name: wanted.store.name().to_owned(),
                offset_bytes: wanted.io.index * PAGE_BYTES as u64,
                error: Arc::new(std::io::Error::other("the store dropped the read")),
            };
            shared.finish(&wanted, Vec::new(), Err(error), wanted_bytes);
        }
    }
}

/// As many reads are under way at once, but for those that somebody waits for. What is behind them stays in
/// the book, where it is cancelled when nobody wants it any more.
const MOST_UNDER_WAY: usize = 32;

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// What the book wants to be read, to be [begun](Shared::begin) without the lock.
    pub fn wanted(&self, state: &mut State) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        while (state.started.len() < MOST_UNDER_WAY || state.book.has_urgent())
            && let Some(io) = state.book.next_io()
        {
            let at_ns = self.now_ns();
            let source = state.objects.by_id(io.object);
            let source = source.expect("the book reads from objects that it was given");
            let mut meter = source.meter.lock().unwrap_or_else(PoisonError::into_inner);
            meter.start(at_ns);
            let is_congested = meter.under_way() > CONGESTED_READS;
            drop(meter);
            state.book.set_congested(io.object, is_congested);
            state.started.insert(io.id, at_ns);
            let store = source.store();
            let store = store.expect("who asked for it reads it still");
            wanted.push(Wanted { io, source, store });
        }
        wanted
    }

    /// Starts reads.
    pub fn begin(self: &Arc<Self>, wanted: Vec<Wanted>) {
        for wanted in wanted {
            self.begin_one(wanted);
        }
    }

    fn begin_one(self: &Arc<Self>, wanted: Wanted) {
        let Wanted { io, source, store } = &wanted;
        let offset_bytes = io.index * PAGE_BYTES as u64;
        let wanted_bytes = source.length_bytes().saturating_sub(offset_bytes);
        let len_bytes = wanted_bytes.min(io.pages * PAGE_BYTES as u64) as usize;
        let lease = match self.arena.take(len_bytes.div_ceil(PAGE_BYTES)) {
            Ok(lease) if len_bytes > 0 => lease,
            // It was truncated in between.
            Ok(_) => return self.finish(&wanted, Vec::new(), Ok(0), 0),
            Err(error) => {
                let error = StoreError::Io {
                    name: store.name().to_owned(),
                    offset_bytes,
                    error: Arc::new(std::io::Error::other(error)),
                };
                return self.finish(&wanted, Vec::new(), Err(error), len_bytes);
            }
        };
        let store = Arc::clone(store);
        let promise = Promise(Some((Arc::clone(self), wanted, len_bytes)));
        let done = Box::new(move |lease, result| promise.keep(lease, result));
        store.start(Read {
            offset_bytes,
            len_bytes,
            lease,
            done,
        });
    }

    /// A store is done with a read.
    fn done(
        self: &Arc<Self>,
        wanted: &Wanted,
        mut lease: Lease,
        result: Result<usize, StoreError>,
        wanted_bytes: usize,
    ) {
        let bytes = *result.as_ref().unwrap_or(&0);
        lease.truncate(bytes.div_ceil(PAGE_BYTES));
        self.finish(wanted, lease.freeze(), result, wanted_bytes);
    }

    fn finish(
        self: &Arc<Self>,
        wanted: &Wanted,
        pages: Vec<Page>,
        result: Result<usize, StoreError>,
        wanted_bytes: usize,
    ) {
        let Wanted { io, source, store } = wanted;
        // Where less came than was to be had, the object ends earlier now.
        let is_short = matches!(result, Ok(bytes) if bytes < wanted_bytes);
        let look = source.look();
        let new_length = is_short.then(|| store.refresh());
        let bytes = *result.as_ref().unwrap_or(&0) as u64;
        let end = io.index * PAGE_BYTES as u64 + bytes;
        let failure = result.err().or_else(|| match &new_length {
            Some(Err(error)) => Some(error.clone()),
            // There is more, and yet it does not come: trying again would go on for ever.
            Some(Ok(length)) if *length == source.length_bytes() && end < *length => {
                Some(StoreError::Truncated {
                    name: store.name().to_owned(),
                    offset_bytes: io.index * PAGE_BYTES as u64,
                    tries: 1,
                    wanted: wanted_bytes,
                    got: bytes as usize,
                })
            }
            _ => None,
        });
        let mut state = self.lock();
        // Under the lock, so that times are noted in their order.
        let now_ns = self.now_ns();
        if let Some(began_ns) = state.started.remove(&io.id) {
            let mut meter = source.meter.lock().unwrap_or_else(PoisonError::into_inner);
            meter.finish(bytes, began_ns, now_ns);
            let (speed, is_congested) = (meter.speed(), meter.under_way() > CONGESTED_READS);
            drop(meter);
            state.book.set_speed(io.object, speed);
            state.book.set_congested(io.object, is_congested);
        }
        state.book.finish(io.id, pages, failure.is_some(), now_ns);
        if let Some(Ok(length_bytes)) = new_length {
            state.set_length(source, look, length_bytes);
        }
        state.bells.done(io.id, failure);
        let wanted = self.wanted(&mut state);
        state.tell(now_ns, 0);
        drop(state);
        self.begin(wanted);
    }
}

impl State {
    /// The object was seen to be this long.
    pub fn set_length(&mut self, source: &Source, look: Look, length_bytes: u64) {
        if source.note_length(look, length_bytes) {
            let end = length_bytes.div_ceil(PAGE_BYTES as u64);
            self.book.set_end(source.id, end);
        }
    }
}
