//! When both rings have nothing more to say: what is still under way has a reason to be.

use standpipe::completion::PollFlags;

use crate::model::{Op, Pipe, What};
use crate::run::Run;

impl Run {
    /// Reaps until there is nothing, and looks at what is left.
    pub fn quiesce(&mut self) {
        let mut quiet = 0;
        while quiet < 2 {
            let reaped = self.reap(0, usize::MAX) + self.reap(1, usize::MAX);
            quiet = if reaped == 0 { quiet + 1 } else { 0 };
        }
        for op in self.under_way.values().filter(|op| self.has_begun(op)) {
            assert!(self.waits_rightly(op), "nothing to wait for: {op:?}");
        }
        for ring in 0..2 {
            let under_way = self.under_way.keys().filter(|(at, _)| *at == ring);
            assert_eq!(self.rings[ring].in_flight(), under_way.count());
        }
    }

    fn waits_rightly(&self, op: &Op) -> bool {
        match op.what {
            What::Read { pipe } | What::Shots { pipe } => self.has_nothing(pipe),
            // A pipe with a write under way is not empty, so a read of it is not.
            What::Write { pipe, .. } => !self.pipes[pipe].reader.is_closed(),
            What::Poll {
                pipe,
                reads: true,
                events,
            } => {
                let may_wait = !events.contains(PollFlags::IN) || self.has_nothing(pipe);
                may_wait && !self.pipes[pipe].writer.is_closed()
            }
            What::Poll { pipe, events, .. } => {
                let of: &Pipe = &self.pipes[pipe];
                let is_empty = of.is_all_read() && !self.is_written(pipe);
                let may_wait = !events.contains(PollFlags::OUT) || !is_empty;
                may_wait && !of.reader.is_closed()
            }
            What::Never => true,
            What::AtOnce | What::Cancel { .. } => false,
        }
    }

    /// No bytes, and no end.
    fn has_nothing(&self, pipe: usize) -> bool {
        let of = &self.pipes[pipe];
        of.is_all_read() && !of.writer.is_closed() && !self.is_written(pipe)
    }
}
