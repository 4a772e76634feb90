//! The rules of the book, one by one, and all of them under random operations.

mod eviction;
mod model;
mod reads;

use std::rc::Rc;

use super::*;

/// What tests take a page's memory to be: which page it is. Held as long as there is another clone.
type Leaf = Rc<(ObjectId, u64)>;

impl Body for Leaf {
    fn is_held(&self) -> bool {
        Rc::strong_count(self) > 1
    }
}

const SPEED: Speed = Speed {
    latency_ns: 8_000_000,
    bytes_per_s: 60_000_000,
};

fn book(budget_pages: u64) -> Book<Leaf> {
    Book::new(Options {
        budget_pages,
        eviction: Eviction::Streaming,
    })
}

/// Starts all that is queued.
fn start(book: &mut Book<Leaf>) -> Vec<Io> {
    std::iter::from_fn(|| book.next_io()).collect()
}

/// The pages of a read, the first so many.
fn leaves(io: &Io, arrived: u64) -> Vec<Leaf> {
    let pages = io.index..io.index + arrived.min(io.pages);
    pages.map(|index| Rc::new((io.object, index))).collect()
}

fn finish(book: &mut Book<Leaf>, io: &Io) {
    book.finish(io.id, leaves(io, io.pages), false, 0);
}

/// Starts and finishes all that is queued.
fn serve(book: &mut Book<Leaf>) -> Vec<Io> {
    let ios = start(book);
    for io in &ios {
        finish(book, io);
    }
    ios
}

/// Reads one page to the end.
fn read(book: &mut Book<Leaf>, reader: ReaderId, index: u64) -> Leaf {
    read_of(book, reader, index, 1, 0)
}

fn read_of(book: &mut Book<Leaf>, reader: ReaderId, index: u64, count: u64, now_ns: u64) -> Leaf {
    for _ in 0..3 {
        if let Step::Ready(page) = book.touch(reader, index, count, true, now_ns) {
            let page = Rc::clone(page);
            book.audit().unwrap();
            return page;
        }
        serve(book);
    }
    panic!("page {index} does not come: {book:?}");
}
