use std::os::fd::AsFd;

use super::*;

fn filled(arena: &Arc<Arena>, pages: usize, byte: u8) -> Vec<Page> {
    let mut lease = arena.take(pages).unwrap();
    for slice in &mut lease.slices_mut() {
        slice.fill(byte);
    }
    lease.freeze()
}

#[test]
fn pages_are_given_back_by_the_last_reference() {
    let arena = Arena::new(8).unwrap();
    let pages = filled(&arena, 3, 7);
    let clone = pages[1].clone();
    assert!(clone.is_shared());
    drop(pages);
    assert!(!clone.is_shared());
    assert!(clone.iter().all(|&byte| byte == 7));
    let census = Census {
        free: 7,
        home: 1,
        lent: 0,
    };
    assert_eq!(arena.audit(), Ok(census));
    drop(clone);
    assert_eq!(arena.free_pages(), 8);
}

#[test]
fn all_are_taken_or_none() {
    let arena = Arena::new(8).unwrap();
    let lease = arena.take(6).unwrap();
    let error = arena.take(3).err().unwrap().to_string();
    assert_eq!(error, "3 pages were wanted, 2 of the arena's 8 are free");
    drop(lease);
    assert_eq!(arena.take(8).unwrap().len_bytes(), 8 * PAGE_BYTES);
    assert_eq!(arena.free_pages(), 8);
}

#[test]
fn a_lease_keeps_its_first_pages() {
    let arena = Arena::new(600).unwrap();
    let spread: Vec<Page> = arena.take(600).unwrap().freeze();
    // Every second page is free: a lease of runs of one page each.
    let kept: Vec<Page> = spread
        .into_iter()
        .filter(|page| page.number() % 2 == 1)
        .collect();
    let mut lease = arena.take(4).unwrap();
    assert_eq!(lease.slices_mut().len(), 4);
    for (at, slice) in (0..).zip(&mut lease.slices_mut()) {
        slice.fill(at);
    }
    lease.zero_from(PAGE_BYTES + 1);
    lease.truncate(3);
    let pages = lease.freeze();
    assert_eq!(pages.len(), 3);
    assert_eq!(pages[1][..2], [1, 0]);
    assert!(pages[2].iter().all(|&byte| byte == 0));
    assert_eq!(arena.audit().unwrap().home, kept.len() + 3);
}

/// What another process would get.
fn guest_of(arena: &Arena, owner: OwnerId) -> Guest {
    let (pages, ledger) = arena.for_owner();
    let (pages, ledger) = (pages.try_clone_to_owned(), ledger.try_clone_to_owned());
    Guest::attach(pages.unwrap(), ledger.unwrap(), owner).unwrap()
}

#[test]
fn a_page_that_is_lent_is_free_when_it_is_given_back() {
    let arena = Arena::new(2).unwrap();
    let owner = arena.admit(rustix::process::getpid()).unwrap();
    let guest = guest_of(&arena, owner);
    let page = filled(&arena, 1, 9).remove(0);
    assert!(page.lend(owner));
    assert!(!page.lend(owner), "it has it already");
    let number = page.number();
    drop(page);
    assert_eq!(arena.audit().unwrap().lent, 1);
    assert!(arena.take(2).is_err());
    let mut bytes = [0; PAGE_BYTES];
    guest.copy_out(number, &mut bytes).unwrap();
    assert_eq!(bytes, [9; PAGE_BYTES]);
    assert!(guest.give_back(number).unwrap());
    assert!(!guest.give_back(number).unwrap());
    assert!(arena.take(2).is_ok());
}

#[test]
fn what_a_dead_process_was_lent_is_taken_back() {
    let arena = Arena::new(4).unwrap();
    let mut child = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&child);
    let owner = arena.admit(pid).unwrap();
    let me = arena.admit(rustix::process::getpid()).unwrap();
    let pages = filled(&arena, 3, 1);
    assert!(pages.iter().all(|page| page.lend(owner)));
    assert!(pages[0].lend(me));
    drop(pages);
    assert_eq!(arena.take_back(), 0, "it lives");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(arena.take_back(), 3);
    let census = Census {
        free: 3,
        home: 0,
        lent: 1,
    };
    assert_eq!(arena.audit(), Ok(census));
    assert!(arena.admit(pid).is_err(), "there is no such process");
}

#[test]
fn nobody_else_gets_a_mapping_that_can_be_written() {
    let arena = Arena::new(2).unwrap();
    let (pages, _) = arena.for_owner();
    let mapping = Mapping::reserve(PAGE_BYTES).unwrap();
    let file = PrivateFd::from(pages.try_clone_to_owned().unwrap());
    assert!(mapping.map(&file, 0, 0, PAGE_BYTES).is_err());
    assert!(rustix::fs::ftruncate(&file, 0).is_err());
    assert!(rustix::io::write(file.as_fd(), b"x").is_err());
}

#[test]
fn a_guest_takes_no_file_that_could_become_shorter() {
    let file = |len_bytes| {
        let file = rustix::fs::memfd_create("short", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, len_bytes).unwrap();
        file
    };
    let owner = OwnerId::from_number(0).unwrap();
    let error = Guest::attach(file(4096), file(8), owner).err().unwrap();
    assert_eq!(
        error.to_string(),
        "an arena: a file that could become shorter"
    );
    let (pages, ledger) = (file(4096), file(16));
    seal(&pages, SealFlags::SHRINK).unwrap();
    seal(&ledger, SealFlags::SHRINK).unwrap();
    let error = Guest::attach(pages, ledger, owner).err().unwrap();
    assert_eq!(error.to_string(), "an arena: a ledger of other pages");
}

#[test]
fn books_that_do_not_agree_are_found() {
    let arena = Arena::new(2).unwrap();
    let page = filled(&arena, 1, 0).remove(0);
    arena.counts[0].store(0, Ordering::Relaxed);
    let error = arena.audit().unwrap_err();
    assert_eq!((error.page, error.references), (0, 0));
    arena.counts[0].store(1, Ordering::Relaxed);
    drop(page);
    assert_eq!(arena.audit().unwrap().free, 2);
}

#[test]
fn threads_that_clone_and_drop_lose_no_page() {
    let arena = Arena::new(64).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..2000 {
                    let Ok(lease) = arena.take(1 + round % 20) else {
                        continue;
                    };
                    let pages = lease.freeze();
                    let clones: Vec<Page> = pages.iter().step_by(2).cloned().collect();
                    drop(pages);
                    arena.audit().unwrap();
                    drop(clones);
                }
            });
        }
    });
    assert_eq!(arena.free_pages(), 64);
}

/// What another process can write.
fn ledger_of(arena: &Arena) -> Ledger {
    let (_, ledger) = arena.for_owner();
    Ledger::over(ledger.try_clone_to_owned().unwrap().into(), arena.pages()).unwrap()
}

#[test]
fn a_hostile_owner_keeps_nothing_that_was_not_lent() {
    let arena = Arena::new(4).unwrap();
    let mut child = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let owner = arena.admit(Pid::from_child(&child)).unwrap();
    let pages = filled(&arena, 4, 1);
    assert!(pages[0].lend(owner));
    let ledger = ledger_of(&arena);
    for page in 0..4 {
        for bit in 0..64 {
            ledger.set(page, OwnerId::from_number(bit).unwrap());
        }
    }
    drop(pages);
    let census = arena.audit().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((census.free, census.lent), (3, 1));
    assert_eq!(arena.take_back(), 1);
    assert_eq!(arena.take(4).unwrap().len_pages(), 4);
}

#[test]
fn what_is_lent_to_an_owner_that_was_forgotten_comes_back() {
    let arena = Arena::new(1).unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let owner = arena.admit(Pid::from_child(&child)).unwrap();
    child.wait().unwrap();
    assert_eq!(arena.take_back(), 0);
    let page = filled(&arena, 1, 1).remove(0);
    // Who lends had not heard of it yet.
    assert!(page.lend(owner));
    drop(page);
    assert_eq!(arena.take_back(), 1);
    assert_eq!(arena.audit().unwrap().free, 1);
}
