//! Completions that wait to be reaped, oldest first.

use std::mem;

use super::buffer::Buffers;
use super::outcome::{Completion, Failure, Outcome};

/// A queue whose slots are written field by field: a completion that is put together elsewhere and copied
/// in as a whole costs more than the rest of a short read.
#[derive(Default)]
pub struct Done {
    /// As many as there were ever at once, rounded up to a power of two.
    slots: Vec<Completion>,
    first: usize,
    len: usize,
}

impl Done {
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[expect(
        clippy::inline_always,
        reason = "what is pushed goes to its fields straight from registers"
    )]
    #[inline(always)]
    pub fn push(
        &mut self,
        token: u64,
        result: Result<Outcome, Failure>,
        buffers: Buffers,
        is_last: bool,
    ) {
        if self.len == self.slots.len() {
            self.grow();
        }
        let index = (self.first + self.len) & (self.slots.len() - 1);
        let slot = &mut self.slots[index];
        slot.token = token;
        slot.result = result;
        slot.buffers = buffers;
        slot.is_last = is_last;
        self.len += 1;
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        self.len = self.len.checked_sub(1)?;
        let mask = self.slots.len() - 1;
        let slot = &mut self.slots[self.first];
        self.first = (self.first + 1) & mask;
        Some(Completion {
            token: slot.token,
            result: mem::replace(&mut slot.result, NONE),
            buffers: mem::take(&mut slot.buffers),
            is_last: slot.is_last,
        })
    }

    #[cold]
    fn grow(&mut self) {
        self.slots.rotate_left(self.first);
        self.first = 0;
        let slots = (2 * self.slots.len()).max(FEWEST_SLOTS);
        self.slots.resize_with(slots, || Completion {
            token: 0,
            result: NONE,
            buffers: Buffers::None,
            is_last: false,
        });
    }
}

const FEWEST_SLOTS: usize = 16;

/// In slots that are free.
const NONE: Result<Outcome, Failure> = Ok(Outcome::Bytes(0));

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn first_in_first_out(
            pushes in prop::collection::vec(prop::option::weighted(0.6, any::<u64>()), 0..500)
        ) {
            let (mut done, mut expected) = (Done::default(), VecDeque::new());
            for token in pushes {
                if let Some(token) = token {
                    let buffers = Buffers::One(token.to_ne_bytes().to_vec().into());
                    let moved = Ok(Outcome::Bytes(token as usize));
                    done.push(token, moved, buffers, token % 2 == 0);
                    expected.push_back(token);
                } else {
                    let popped = done.pop();
                    let token = expected.pop_front();
                    prop_assert_eq!(popped.as_ref().map(|of| of.token), token);
                    if let (Some(popped), Some(token)) = (popped, token) {
                        prop_assert_eq!(popped.result.unwrap(), Outcome::Bytes(token as usize));
                        prop_assert_eq!(popped.buffers.into_first(), token.to_ne_bytes());
                        prop_assert_eq!(popped.is_last, token % 2 == 0);
                    }
                }
                prop_assert_eq!(done.len(), expected.len());
                prop_assert_eq!(done.is_empty(), expected.is_empty());
            }
        }
    }
}
