//! The slots of pages, and lists of them.

use std::ops::{Index, IndexMut};

use super::{IoId, ObjectId, ReaderId};

/// No slot.
const NONE: u32 = u32::MAX;

/// On which list a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On none: the page is on its way.
    Nowhere,
    /// The list of what was read for its owner, and not yet touched.
    Unread,
    /// Never going to be used.
    Hopeless,
    /// Read ahead, and used.
    Spent,
    /// Asked for, and used. With two lists: all that is not kept.
    Recent,
    /// Used again.
    Kept,
}

/// A page that is present or on its way.
#[allow(clippy::struct_excessive_bools)] // each stands alone; together they would be a riddle
pub(super) struct Slot<P> {
    /// None while the page is on its way.
    pub body: Option<P>,
    pub object: ObjectId,
    pub index: u64,
    /// For whom it was read.
    pub owner: ReaderId,
    /// The read that brings it, or brought it.
    pub io: IoId,
    /// Which of all slots there ever were; tells one page from the next in the same slot.
    pub born: u64,
    /// When it was used first, in slots made by then.
    pub used_at: u64,
    /// How many pages its owner had touched when it was asked for.
    pub asked_at: u64,
    /// How many readers wait for it.
    pub waiters: u32,
    /// Carries the mark of the policy.
    pub is_marked: bool,
    /// Nobody touched it yet.
    pub is_unread: bool,
    /// It was not asked for when it was planned.
    pub is_ahead: bool,
    /// Somebody had to wait for it though it was read ahead.
    pub is_late: bool,
    /// It counts against its owner's share.
    pub is_claimed: bool,
    /// It was used again, or came back: not to be evicted at the next opportunity.
    pub is_reused: bool,
    pub place: Place,
    previous: u32,
    next: u32,
}

/// A list of slots, threaded through them.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
    len: u64,
}

impl Default for List {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            len: 0,
        }
    }
}

impl List {
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub fn tail(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }
}

/// All slots.
pub(super) struct Slots<P> {
    all: Vec<Option<Slot<P>>>,
    free: Vec<u32>,
    born: u64,
}

/// What a new slot is for.
pub(super) struct Birth {
    pub object: ObjectId,
    pub index: u64,
    pub owner: ReaderId,
    pub asked_at: u64,
    pub is_ahead: bool,
    pub is_reused: bool,
}

impl<P> Slots<P> {
    pub fn new() -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
            born: 0,
        }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        (self.all.len() - self.free.len()) as u64
    }

    /// How many there ever were.
    pub fn born(&self) -> u64 {
        self.born
    }

    /// A slot for a page that is going to be read.
    pub fn make(&mut self, birth: &Birth) -> u32 {
        self.born += 1;
        let slot = Slot {
            body: None,
            object: birth.object,
            index: birth.index,
            owner: birth.owner,
            io: IoId::default(),
            born: self.born,
            used_at: 0,
            asked_at: birth.asked_at,
            waiters: 0,
            is_marked: false,
            is_unread: true,
            is_ahead: birth.is_ahead,
            is_late: false,
            is_claimed: true,
            is_reused: birth.is_reused,
            place: Place::Nowhere,
            previous: NONE,
            next: NONE,
        };
        if let Some(id) = self.free.pop() {
            self.all[id as usize] = Some(slot);
            return id;
        }
        self.all.push(Some(slot));
        (self.all.len() - 1) as u32
    }

    /// Takes out a slot that is on no list.
    pub fn free(&mut self, id: u32) -> Slot<P> {
        let slot = self.all[id as usize].take().expect("a slot is freed once");
        debug_assert_eq!(slot.place, Place::Nowhere);
        self.free.push(id);
        slot
    }

    pub fn get(&self, id: u32) -> Option<&Slot<P>> {
        self.all.get(id as usize)?.as_ref()
    }

    pub fn push_back(&mut self, list: &mut List, id: u32, place: Place) {
        let tail = list.tail;
        let slot = &mut self[id];
        debug_assert_eq!(slot.place, Place::Nowhere);
        (slot.place, slot.previous, slot.next) = (place, tail, NONE);
        if tail == NONE {
            list.head = id;
        } else {
            self[tail].next = id;
        }
        list.tail = id;
        list.len += 1;
    }

    pub fn remove(&mut self, list: &mut List, id: u32) {
        let slot = &mut self[id];
        debug_assert_ne!(slot.place, Place::Nowhere);
        slot.place = Place::Nowhere;
        let (previous, next) = (slot.previous, slot.next);
        if previous == NONE {
            list.head = next;
        } else {
            self[previous].next = next;
        }
        if next == NONE {
            list.tail = previous;
        } else {
            self[next].previous = previous;
        }
        list.len -= 1;
    }

    /// The slots of a list, from its head.
    pub fn walk(&self, list: &List) -> impl Iterator<Item = u32> {
        std::iter::successors(list.head(), |&id| {
            let next = self[id].next;
            (next != NONE).then_some(next)
        })
    }

    /// The slots of a list, from its tail.
    pub fn walk_back(&self, list: &List) -> impl Iterator<Item = u32> {
        std::iter::successors(list.tail(), |&id| {
            let previous = self[id].previous;
            (previous != NONE).then_some(previous)
        })
    }

    /// All slots.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Slot<P>)> {
        let all = self.all.iter().zip(0..);
        all.filter_map(|(slot, id)| Some((id, slot.as_ref()?)))
    }
}

impl<P> Index<u32> for Slots<P> {
    type Output = Slot<P>;

    fn index(&self, id: u32) -> &Slot<P> {
        self.all[id as usize].as_ref().expect("the slot is in use")
    }
}

impl<P> IndexMut<u32> for Slots<P> {
    fn index_mut(&mut self, id: u32) -> &mut Slot<P> {
        self.all[id as usize].as_mut().expect("the slot is in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn birth(index: u64) -> Birth {
        Birth {
            object: ObjectId::default(),
            index,
            owner: ReaderId::default(),
            asked_at: 0,
            is_ahead: false,
            is_reused: false,
        }
    }

    #[test]
    fn a_list_keeps_its_order_through_removals() {
        let mut slots = Slots::<()>::new();
        let mut list = List::default();
        let ids: Vec<u32> = (0..5).map(|index| slots.make(&birth(index))).collect();
        for &id in &ids {
            slots.push_back(&mut list, id, Place::Recent);
        }
        for &id in &[ids[2], ids[0], ids[4]] {
            slots.remove(&mut list, id);
        }
        assert_eq!(slots.walk(&list).collect::<Vec<_>>(), [ids[1], ids[3]]);
        assert_eq!(
            (list.head(), list.tail(), list.len()),
            (Some(ids[1]), Some(ids[3]), 2)
        );
        slots.remove(&mut list, ids[1]);
        slots.remove(&mut list, ids[3]);
        assert_eq!((list.head(), list.tail(), list.len()), (None, None, 0));
    }

    #[test]
    fn slots_are_used_again_under_another_birth() {
        let mut slots = Slots::<()>::new();
        let first = slots.make(&birth(1));
        let born = slots[first].born;
        slots.free(first);
        let second = slots.make(&birth(2));
        assert_eq!((first, slots.len()), (second, 1));
        assert_ne!(born, slots[second].born);
    }
}
