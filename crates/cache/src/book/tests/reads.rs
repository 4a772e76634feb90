//! Touches, reads, failures.

use super::*;

#[test]
fn a_page_is_read_once_for_all_who_want_it() {
    let mut book = book(16);
    let object = book.add_object(100, SPEED);
    let readers = [0; 3].map(|_| book.open(object, PolicyKind::Off, 8));
    for reader in readers {
        assert!(matches!(
            book.touch(reader, 5, 1, true, 0),
            Step::Pending(_)
        ));
    }
    let ios = start(&mut book);
    assert_eq!(ios.len(), 1);
    assert_eq!(
        (ios[0].object, ios[0].index, ios[0].pages, ios[0].is_ahead),
        (object, 5, 1, false)
    );
    finish(&mut book, &ios[0]);
    for reader in readers {
        assert_eq!(
            book.touch(reader, 5, 1, true, 0),
            Step::Ready(&Rc::new((object, 5)))
        );
    }
    let accounts = book.accounts();
    assert_eq!(
        (
            accounts.reads,
            accounts.misses,
            accounts.waits,
            accounts.hits
        ),
        (1, 1, 2, 0)
    );
    book.audit().unwrap();
}

#[test]
fn touching_again_after_a_wait_is_the_same_touch() {
    let mut book = book(64);
    let object = book.add_object(100, SPEED);
    let reader = book.open(object, PolicyKind::OnDemand, 8);
    for _ in 0..3 {
        assert!(matches!(
            book.touch(reader, 0, 1, true, 0),
            Step::Pending(_)
        ));
    }
    let accounts = book.accounts();
    assert_eq!((accounts.misses, accounts.readahead_calls), (1, 1));
    // the first window of a one-page read
    let ios = serve(&mut book);
    assert_eq!(
        ios.iter()
            .map(|io| (io.index, io.pages))
            .collect::<Vec<_>>(),
        [(0, 2)]
    );
    assert!(matches!(book.touch(reader, 0, 1, true, 0), Step::Ready(_)));
    assert_eq!(book.accounts().hits, 0);
}

#[test]
fn a_failed_page_is_told_once_to_each_who_waited_and_read_again_by_the_next() {
    let mut book = book(16);
    let object = book.add_object(100, SPEED);
    let [a, b, c] = [0; 3].map(|_| book.open(object, PolicyKind::Off, 8));
    assert!(matches!(book.touch(a, 5, 4, true, 0), Step::Pending(_)));
    assert!(matches!(book.touch(b, 7, 1, true, 0), Step::Pending(_)));
    let ios = start(&mut book);
    assert_eq!((ios.len(), ios[0].index, ios[0].pages), (1, 5, 4));
    // pages 5 and 6 came, 7 and 8 did not
    book.finish(ios[0].id, leaves(&ios[0], 2), true, 0);
    book.audit().unwrap();
    assert!(matches!(book.touch(a, 5, 4, true, 0), Step::Ready(_)));
    assert!(matches!(book.touch(a, 6, 3, false, 0), Step::Ready(_)));
    assert_eq!(book.touch(b, 7, 1, true, 0), Step::Failed);
    // who did not wait for it is not told, and makes it be read again
    assert!(matches!(book.touch(c, 7, 1, true, 0), Step::Pending(_)));
    assert!(matches!(book.touch(b, 7, 1, true, 0), Step::Pending(_)));
    assert_eq!(serve(&mut book).len(), 1);
    assert!(matches!(book.touch(b, 7, 1, true, 0), Step::Ready(_)));
    assert_eq!(book.accounts().failed, 2);
}

#[test]
fn a_short_read_is_no_failure_and_leaves_no_page() {
    let mut book = book(16);
    let object = book.add_object(100, SPEED);
    let reader = book.open(object, PolicyKind::Off, 8);
    assert!(matches!(
        book.touch(reader, 5, 1, true, 0),
        Step::Pending(_)
    ));
    let ios = start(&mut book);
    book.set_end(object, 5);
    book.finish(ios[0].id, Vec::new(), false, 0);
    assert_eq!(book.touch(reader, 5, 1, true, 0), Step::End);
    assert_eq!(book.taken_pages(), 0);
    book.audit().unwrap();
}

#[test]
fn who_is_waited_for_goes_first() {
    let mut book = book(64);
    let object = book.add_object(100, SPEED);
    let [ahead, waiting] = [0; 2].map(|_| book.open(object, PolicyKind::Off, 8));
    book.advise(ahead, Advice::WillNeed, 0..4);
    book.advise(ahead, Advice::WillNeed, 20..24);
    assert!(matches!(
        book.touch(waiting, 21, 1, true, 0),
        Step::Pending(_)
    ));
    let ios = start(&mut book);
    let ios: Vec<_> = ios
        .iter()
        .map(|io| (io.index, io.pages, io.is_ahead))
        .collect();
    assert_eq!(ios, [(20, 4, false), (0, 4, true)]);
    let accounts = book.reader_accounts(ahead);
    assert_eq!(
        (accounts.late, accounts.reads, accounts.read_pages),
        (1, 2, 8)
    );
}

#[test]
fn a_late_page_is_told_to_nobody_twice() {
    let mut book = book(64);
    let object = book.add_object(100, SPEED);
    let [ahead, first, second] = [0; 3].map(|_| book.open(object, PolicyKind::Off, 8));
    book.advise(ahead, Advice::WillNeed, 0..4);
    for reader in [first, second] {
        assert!(matches!(
            book.touch(reader, 0, 1, true, 0),
            Step::Pending(_)
        ));
    }
    serve(&mut book);
    for reader in [first, second] {
        assert!(matches!(book.touch(reader, 0, 1, true, 0), Step::Ready(_)));
    }
    let accounts = book.accounts();
    assert_eq!(
        (accounts.late, accounts.used, accounts.prefetched),
        (1, 1, 4)
    );
    book.audit().unwrap();
}

#[test]
fn a_sequential_reader_misses_once_and_never_waits_for_an_idle_store() {
    let mut book = book(256);
    let object = book.add_object(1000, SPEED);
    let reader = book.open(object, PolicyKind::OnDemand, 32);
    for index in 0..1000 {
        read(&mut book, reader, index);
        serve(&mut book);
    }
    let accounts = book.accounts();
    assert_eq!(
        (accounts.misses, accounts.waits, accounts.hits),
        (1, 0, 999)
    );
    assert_eq!(
        (accounts.read_pages, accounts.prefetched, accounts.used),
        (1000, 999, 999)
    );
    assert_eq!((accounts.late, accounts.wasted), (0, 0));
}

#[test]
fn a_cached_file_causes_no_readahead_call() {
    let mut book = book(256);
    let object = book.add_object(16, SPEED);
    let first = book.open(object, PolicyKind::OnDemand, 32);
    for index in 0..16 {
        read(&mut book, first, index);
    }
    book.close(first);
    for kind in PolicyKind::ALL {
        let again = book.open(object, kind, 32);
        for index in 0..16 {
            assert!(matches!(
                book.touch(again, index, 16 - index, index == 0, 0),
                Step::Ready(_)
            ));
        }
        let accounts = book.reader_accounts(again);
        assert_eq!((accounts.readahead_calls, accounts.hits), (0, 16), "{kind}");
        assert_eq!(book.next_io(), None);
        book.close(again);
    }
}

#[test]
fn a_closed_reader_takes_back_what_nobody_waits_for() {
    let mut book = book(64);
    let object = book.add_object(100, SPEED);
    let [gone, waiting] = [0; 2].map(|_| book.open(object, PolicyKind::Off, 8));
    book.advise(gone, Advice::WillNeed, 0..4);
    book.advise(gone, Advice::WillNeed, 20..24);
    assert!(matches!(
        book.touch(waiting, 2, 1, true, 0),
        Step::Pending(_)
    ));
    book.close(gone);
    book.audit().unwrap();
    assert_eq!(book.taken_pages(), 4);
    assert_eq!(serve(&mut book).len(), 1);
    assert!(matches!(book.touch(waiting, 2, 1, true, 0), Step::Ready(_)));
    book.audit().unwrap();
    assert_eq!(book.reader_accounts(gone), Accounts::default());
}

#[test]
fn a_seek_takes_back_unless_it_stays_in_what_is_there() {
    let mut book = book(64);
    let object = book.add_object(100, SPEED);
    let reader = book.open(object, PolicyKind::Off, 8);
    book.advise(reader, Advice::WillNeed, 0..4);
    book.seek(reader, 3);
    assert_eq!(book.taken_pages(), 4);
    book.seek(reader, 50);
    assert_eq!((book.taken_pages(), book.next_io()), (0, None));
    book.audit().unwrap();
}

#[test]
fn what_is_forgotten_is_dropped_when_it_arrives() {
    let mut book = book(64);
    let object = book.add_object(100, SPEED);
    let reader = book.open(object, PolicyKind::Off, 8);
    let held = read(&mut book, reader, 50);
    assert!(matches!(
        book.touch(reader, 5, 4, true, 0),
        Step::Pending(_)
    ));
    let ios = start(&mut book);
    book.advise(reader, Advice::WillNeed, 20..24);
    book.forget(object);
    book.audit().unwrap();
    // the four being read, and the one that is held, take their room until they are gone
    assert_eq!((book.taken_pages(), book.next_io()), (5, None));
    assert_eq!(book.touch(reader, 5, 4, true, 0), Step::End);
    finish(&mut book, &ios[0]);
    assert_eq!((book.taken_pages(), book.room().held_pages), (1, 1));
    drop(held);
    book.close(reader);
    book.audit().unwrap();
    assert_eq!(book.end(object), 0);
}

#[test]
fn the_last_page_of_the_shorter_is_read_again() {
    for (end, dropped) in [(10, 9), (5, 4), (20, 9)] {
        let mut book = book(64);
        let object = book.add_object(10, SPEED);
        let reader = book.open(object, PolicyKind::Off, 16);
        for index in 0..10 {
            read(&mut book, reader, index);
        }
        book.set_end(object, end);
        book.audit().unwrap();
        let there: Vec<u64> = (0..20)
            .filter(|&index| book.is_cached(object, index))
            .collect();
        assert_eq!(there, (0..dropped).collect::<Vec<_>>(), "to {end}");
    }
}

#[test]
fn a_page_read_again_after_a_truncation_is_not_filled_by_the_older_read() {
    let mut book = book(64);
    let object = book.add_object(10, SPEED);
    let reader = book.open(object, PolicyKind::Off, 16);
    assert!(matches!(
        book.touch(reader, 4, 6, true, 0),
        Step::Pending(_)
    ));
    let older = start(&mut book);
    book.set_end(object, 6);
    book.set_end(object, 10);
    assert!(matches!(
        book.touch(reader, 8, 1, true, 0),
        Step::Pending(_)
    ));
    let newer = start(&mut book);
    assert_eq!(newer.len(), 1);
    book.audit().unwrap();
    finish(&mut book, &older[0]);
    book.audit().unwrap();
    assert!(matches!(
        book.touch(reader, 8, 1, true, 0),
        Step::Pending(_)
    ));
    finish(&mut book, &newer[0]);
    assert!(matches!(book.touch(reader, 8, 1, true, 0), Step::Ready(_)));
    let there: Vec<u64> = (0..10)
        .filter(|&index| book.is_cached(object, index))
        .collect();
    assert_eq!(there, [4, 8]);
}

#[test]
fn advice_of_random_order_stops_reading_ahead_until_it_is_taken_back() {
    let mut book = book(64);
    let object = book.add_object(100, SPEED);
    let reader = book.open(object, PolicyKind::OnDemand, 8);
    book.advise(reader, Advice::Random, 0..0);
    read(&mut book, reader, 0);
    assert_eq!(book.accounts().read_pages, 1);
    book.advise(reader, Advice::Normal, 0..0);
    read(&mut book, reader, 1);
    read(&mut book, reader, 2);
    assert!(book.accounts().read_pages > 3);
}

#[test]
fn what_is_not_needed_is_dropped() {
    let mut book = book(64);
    let object = book.add_object(100, SPEED);
    let reader = book.open(object, PolicyKind::Off, 8);
    book.advise(reader, Advice::WillNeed, 0..8);
    serve(&mut book);
    book.advise(reader, Advice::DontNeed, 2..u64::MAX);
    book.audit().unwrap();
    assert_eq!((book.taken_pages(), book.accounts().wasted), (2, 6));
}
