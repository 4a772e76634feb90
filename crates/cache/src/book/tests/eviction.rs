//! Which page goes.

use super::*;

/// The pages of an object that are there.
fn there(book: &Book<Leaf>, object: ObjectId) -> Vec<u64> {
    (0..book.end(object))
        .filter(|&index| book.is_cached(object, index))
        .collect()
}

#[test]
fn the_budget_holds_whatever_is_planned() {
    for budget in [1, 2, 3, 8] {
        let mut book = book(budget);
        let object = book.add_object(1000, SPEED);
        let reader = book.open(object, PolicyKind::OnDemand, 32);
        for index in 0..100 {
            read(&mut book, reader, index);
            assert!(book.taken_pages() <= budget);
        }
    }
}

#[test]
fn a_held_page_stays_and_a_full_house_says_so() {
    let mut book = book(2);
    let object = book.add_object(100, SPEED);
    let reader = book.open(object, PolicyKind::Off, 8);
    let one = read(&mut book, reader, 1);
    let two = read(&mut book, reader, 2);
    assert_eq!(book.touch(reader, 3, 1, true, 0), Step::NoRoom);
    assert_eq!(book.touch(reader, 3, 1, true, 0), Step::NoRoom);
    drop(one);
    assert!(matches!(
        book.touch(reader, 3, 1, true, 0),
        Step::Pending(_)
    ));
    book.audit().unwrap();
    serve(&mut book);
    assert_eq!(there(&book, object), [2, 3]);
    assert_eq!(book.accounts().misses, 3);
    drop(two);
}

#[test]
fn what_sequential_readers_used_goes_before_what_was_asked_for() {
    let mut book = book(16);
    let object = book.add_object(1000, SPEED);
    let random = book.open(object, PolicyKind::Off, 8);
    for index in [900, 800, 700] {
        read(&mut book, random, index);
    }
    let sequential = book.open(object, PolicyKind::OnDemand, 4);
    for index in 0..100 {
        read(&mut book, sequential, index);
    }
    let there = there(&book, object);
    assert!(
        [700, 800, 900].iter().all(|index| there.contains(index)),
        "{there:?}"
    );
}

#[test]
fn what_is_read_again_survives_a_scan() {
    let mut book = book(64);
    let object = book.add_object(10_000, SPEED);
    let [hot, scan] = [0; 2].map(|_| book.open(object, PolicyKind::Off, 1));
    for round in 0..20 {
        for index in 0..8 {
            read(&mut book, hot, index);
        }
        for index in 0..20 {
            read(&mut book, scan, 1000 + round * 20 + index);
        }
    }
    let misses = book.reader_accounts(hot).misses;
    for index in 0..400 {
        read(&mut book, scan, 5000 + index);
    }
    for index in 0..8 {
        read(&mut book, hot, index);
    }
    assert_eq!(book.reader_accounts(hot).misses, misses);
}

#[test]
fn a_page_that_comes_back_is_a_refault_and_kept() {
    let mut book = book(16);
    let object = book.add_object(10_000, SPEED);
    let reader = book.open(object, PolicyKind::Off, 1);
    read(&mut book, reader, 0);
    for index in 100..116 {
        read(&mut book, reader, index);
    }
    assert!(!book.is_cached(object, 0));
    read(&mut book, reader, 0);
    assert_eq!(book.accounts().refaults, 1);
    for index in 200..240 {
        read(&mut book, reader, index);
    }
    assert!(book.is_cached(object, 0));
    assert!(!book.is_cached(object, 200));
}

#[test]
fn many_small_reads_of_a_page_are_one_use() {
    let mut book = book(16);
    let object = book.add_object(10_000, SPEED);
    let [small, other] = [0; 2].map(|_| book.open(object, PolicyKind::Off, 1));
    for index in 0..8 {
        read(&mut book, small, 0);
        read(&mut book, other, 100 + index);
    }
    for index in 200..216 {
        read(&mut book, other, index);
    }
    assert!(!book.is_cached(object, 0));
}

#[test]
fn readers_side_by_side_use_a_page_once() {
    let mut book = book(32);
    let object = book.add_object(10_000, SPEED);
    let pair = [0; 2].map(|_| book.open(object, PolicyKind::Off, 1));
    for index in 0..100 {
        for reader in pair {
            read(&mut book, reader, index);
        }
    }
    assert_eq!(book.shelves.kept.len(), 0);
}

#[test]
fn the_touched_page_does_not_go_for_what_is_read_ahead() {
    let mut book = Book::new(Options {
        budget_pages: 2,
        eviction: Eviction::TwoLists,
    });
    let object = book.add_object(1000, SPEED);
    let reader = book.open(object, PolicyKind::OnDemand, 8);
    read(&mut book, reader, 0);
    assert!(matches!(book.touch(reader, 1, 1, true, 0), Step::Ready(_)));
    let ios = start(&mut book);
    assert_eq!(
        ios.iter()
            .map(|io| (io.index, io.pages))
            .collect::<Vec<_>>(),
        [(2, 1)]
    );
}

#[test]
fn a_page_that_is_asked_for_takes_the_place_of_the_one_farthest_from_use() {
    let mut book = book(8);
    let object = book.add_object(1000, SPEED);
    let [ahead, other] = [0; 2].map(|_| book.open(object, PolicyKind::Off, 1));
    book.advise(ahead, Advice::WillNeed, 0..8);
    serve(&mut book);
    read(&mut book, other, 500);
    assert_eq!(there(&book, object), [0, 1, 2, 3, 4, 5, 6, 500]);
}

#[test]
fn a_window_larger_than_the_share_takes_nothing_from_streams_within_theirs() {
    let mut book = book(64);
    let object = book.add_object(1000, SPEED);
    let [slow, fast] = [0; 2].map(|_| book.open(object, PolicyKind::OnDemand, 64));
    book.advise(slow, Advice::WillNeed, 500..532);
    serve(&mut book);
    assert!(matches!(book.touch(fast, 0, 60, true, 0), Step::Pending(_)));
    book.audit().unwrap();
    assert_eq!(
        there(&book, object),
        (0..32).chain(500..532).collect::<Vec<_>>()
    );
}

#[test]
fn even_within_its_share_a_stream_takes_nothing_from_others_within_theirs() {
    let mut book = book(64);
    let object = book.add_object(1000, SPEED);
    let [holder, slow, fast] = [0; 3].map(|_| book.open(object, PolicyKind::OnDemand, 64));
    book.advise(holder, Advice::Random, 0..0);
    let held: Vec<Leaf> = (900..924)
        .map(|index| read(&mut book, holder, index))
        .collect();
    book.advise(slow, Advice::WillNeed, 500..520);
    serve(&mut book);
    assert!(matches!(book.touch(fast, 0, 60, true, 0), Step::Pending(_)));
    book.audit().unwrap();
    let expected = (0..20).chain(500..520).chain(900..924);
    assert_eq!(there(&book, object), expected.collect::<Vec<_>>());
    drop(held);
}

#[test]
fn beyond_its_share_a_stream_takes_nothing_that_is_used_again_and_again() {
    let mut book = book(64);
    let object = book.add_object(10_000, SPEED);
    let [hot, scan, slow, fast] = [0; 4].map(|_| book.open(object, PolicyKind::OnDemand, 64));
    book.advise(hot, Advice::Random, 0..0);
    book.advise(scan, Advice::Random, 0..0);
    for round in 0..10 {
        for index in 0..40 {
            read(&mut book, hot, 5000 + index);
        }
        for index in 0..30 {
            read(&mut book, scan, 7000 + round * 30 + index);
        }
    }
    let kept = book.shelves.kept.len();
    assert!(kept >= 36, "{kept}");
    // what is used once goes first: there is room for what is not kept
    book.advise(slow, Advice::WillNeed, 0..1);
    serve(&mut book);
    assert!(matches!(
        book.touch(fast, 1000, 60, true, 0),
        Step::Pending(_)
    ));
    book.audit().unwrap();
    let own = (1000..1060)
        .filter(|&index| book.is_cached(object, index))
        .count();
    assert_eq!(own, 32, "of {}", book.shelves.kept.len());
}

#[test]
fn what_was_read_ahead_stays_within_the_share_until_it_is_used() {
    let mut book = book(64);
    let slow_object = book.add_object(1000, SPEED);
    let fast_object = book.add_object(10_000, SPEED);
    let slow = book.open(slow_object, PolicyKind::Off, 8);
    let fast = book.open(fast_object, PolicyKind::OnDemand, 32);
    read_of(&mut book, slow, 0, 1, 0);
    book.advise(slow, Advice::WillNeed, 1..32);
    serve(&mut book);
    for index in 0..5000 {
        read(&mut book, fast, index);
        serve(&mut book);
    }
    assert_eq!(book.reader_accounts(slow).wasted, 0);
    for index in 1..32 {
        assert!(book.is_cached(slow_object, index), "{index}");
    }
    assert_eq!(book.reader_accounts(fast).evicted_unread, 0);
}

#[test]
fn beyond_the_share_the_farthest_page_goes_first() {
    let mut book = book(64);
    let object = book.add_object(1000, SPEED);
    let rich = book.open(object, PolicyKind::Off, 8);
    book.advise(rich, Advice::WillNeed, 0..64);
    serve(&mut book);
    assert_eq!(book.room().unread_pages, 64);
    let other = book.open(object, PolicyKind::Off, 8);
    book.advise(other, Advice::WillNeed, 500..520);
    serve(&mut book);
    book.audit().unwrap();
    let expected: Vec<u64> = (0..44).chain(500..520).collect();
    assert_eq!(there(&book, object), expected);
    assert_eq!(book.reader_accounts(rich).evicted_unread, 20);
}

#[test]
fn a_reader_that_sleeps_for_long_is_no_stream_any_more() {
    let mut book = book(64);
    let object = book.add_object(10_000, SPEED);
    let [asleep, awake] = [0; 2].map(|_| book.open(object, PolicyKind::OnDemand, 16));
    read_of(&mut book, asleep, 0, 1, 0);
    read_of(&mut book, awake, 5000, 1, 0);
    read_of(&mut book, awake, 5001, 1, 0);
    assert_eq!(book.room().streams, 2);
    for index in 5002..5100 {
        read_of(&mut book, awake, index, 1, STREAM_NS + 2);
    }
    assert_eq!(book.room().streams, 1);
    let accounts = book.reader_accounts(asleep);
    assert_eq!(accounts.wasted, accounts.prefetched);
}

#[test]
fn what_a_reader_left_behind_goes_when_it_has_read_on_elsewhere() {
    let mut book = book(512);
    let object = book.add_object(100_000, SPEED);
    let reader = book.open(object, PolicyKind::OnDemand, 32);
    book.advise(reader, Advice::WillNeed, 50_000..50_032);
    serve(&mut book);
    for index in 0..1000 {
        read(&mut book, reader, index);
    }
    assert!(!book.is_cached(object, 50_000));
    assert_eq!(book.accounts().wasted, 32);
}

#[test]
fn two_lists_evict_in_the_order_of_arrival_but_for_what_was_used_twice() {
    let mut book = Book::new(Options {
        budget_pages: 4,
        eviction: Eviction::TwoLists,
    });
    let object = book.add_object(1000, SPEED);
    let reader = book.open(object, PolicyKind::Off, 8);
    book.advise(reader, Advice::WillNeed, 0..4);
    serve(&mut book);
    read(&mut book, reader, 0);
    read(&mut book, reader, 1);
    read(&mut book, reader, 0);
    read(&mut book, reader, 10);
    assert_eq!(there(&book, object), [0, 2, 3, 10]);
    read(&mut book, reader, 11);
    assert_eq!(there(&book, object), [0, 3, 10, 11]);
    assert_eq!(book.accounts().evicted_unread, 1);
}

/// Readers that all go on at once in turns of the store: with a page for each of them and one more,
/// each has another page every few turns, whatever is read ahead for the others.
#[test]
fn every_stream_moves_on_in_the_least_memory() {
    const READERS: u64 = 20;
    for kind in PolicyKind::ALL {
        for eviction in [Eviction::Streaming, Eviction::TwoLists] {
            for budget_pages in [READERS + 1, READERS * 2, READERS * 5] {
                let mut book = Book::new(Options {
                    budget_pages,
                    eviction,
                });
                let object = book.add_object(READERS * 1000, SPEED);
                let readers: Vec<_> = (0..READERS).map(|_| book.open(object, kind, 32)).collect();
                let mut next: Vec<u64> = (0..READERS).map(|reader| reader * 1000).collect();
                for _ in 0..20 {
                    let before = next.clone();
                    for _ in 0..4 {
                        for (&reader, next) in readers.iter().zip(&mut next) {
                            if let Step::Ready(_) = book.touch(reader, *next, 1, true, 0) {
                                *next += 1;
                            }
                        }
                        book.audit().unwrap();
                        serve(&mut book);
                    }
                    let stuck = before
                        .iter()
                        .zip(&next)
                        .position(|(before, next)| before == next);
                    assert_eq!(stuck, None, "{kind}, {eviction:?}, {budget_pages} pages");
                }
            }
        }
    }
}

#[test]
fn who_finds_no_room_and_does_not_come_back_holds_nobody_up_for_long() {
    let mut book = book(16);
    let object = book.add_object(10_000, SPEED);
    let [holder, lost, stream] = [0; 3].map(|_| book.open(object, PolicyKind::OnDemand, 8));
    book.advise(holder, Advice::Random, 0..0);
    let held: Vec<Leaf> = (0..16)
        .map(|index| read(&mut book, holder, index))
        .collect();
    assert_eq!(book.touch(lost, 5000, 1, true, 0), Step::NoRoom);
    drop(held);
    let ahead = |book: &mut Book<Leaf>, index: u64, now_ns: u64| {
        let before = book.reader_accounts(stream).read_pages;
        read_of(book, stream, index, 1, now_ns);
        book.reader_accounts(stream).read_pages - before > 1
    };
    assert!(!ahead(&mut book, 0x1000, 0));
    assert!(!ahead(&mut book, 0x1001, 0));
    read_of(&mut book, stream, 0x1002, 1, 3_000_000_000);
    assert!(ahead(&mut book, 0x2000, 3_000_000_000) || ahead(&mut book, 0x2001, 3_000_000_000));
}
