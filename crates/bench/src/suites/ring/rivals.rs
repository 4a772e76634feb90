//! Who completes: our ring, `io_uring`, epoll. Each has pipes, and reads and writes them by number.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, ensure};
use io_uring::{IoUring, opcode, squeue, types::Fd};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::pipe::{PipeFlags, pipe_with};
use standpipe::completion::{Buffer, EndId, Operation, Outcome, Ring};

use crate::record::Engine;

/// All of them.
pub const RIVALS: [Engine; 4] = [
    Engine::IoUring,
    Engine::IoUringWorker,
    Engine::Epoll,
    Engine::Standpipe,
];

/// A read and a write at most are under way on each pipe.
pub trait Rival {
    /// Begins a read.
    fn read(&mut self, pipe: usize) -> anyhow::Result<()>;
    /// Begins a write of as many bytes, all of them `letter`.
    fn write(&mut self, pipe: usize, letter: u8) -> anyhow::Result<()>;
    /// What was begun is begun indeed.
    fn submit(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
    /// What waits by now is armed.
    fn settle(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
    /// Waits until so many reads and as many writes are complete, and checks what was read.
    fn finish(&mut self, reads: usize) -> anyhow::Result<()>;
}

/// What a load does with a rival, whichever it is.
pub trait Load {
    /// What comes of it.
    type Outcome;
    /// Runs it.
    fn run(&self, rival: &mut impl Rival) -> anyhow::Result<Self::Outcome>;
}

/// Has `engine` do it, with so many pipes, and so many bytes in a read or write.
pub fn run<L: Load>(
    engine: Engine,
    pipes: usize,
    bytes: usize,
    load: &L,
) -> anyhow::Result<L::Outcome> {
    match engine {
        Engine::IoUring => load.run(&mut Kernel::new(pipes, bytes, squeue::Flags::empty())?),
        Engine::IoUringWorker => load.run(&mut Kernel::new(pipes, bytes, squeue::Flags::ASYNC)?),
        Engine::Epoll => load.run(&mut Readiness::new(pipes, bytes)?),
        _ => load.run(&mut Ours::new(pipes, bytes)?),
    }
}

/// What arrived in each pipe is what was written to it last. Each byte of a buffer is the same: its ends
/// tell.
#[derive(Default)]
struct Letters(Vec<u8>);

impl Letters {
    fn new(pipes: usize) -> Self {
        Self(vec![0; pipes])
    }

    fn check(&self, pipe: usize, buffer: &[u8]) -> anyhow::Result<()> {
        let expected = Some(&self.0[pipe]);
        ensure!(
            buffer.first() == expected && buffer.last() == expected,
            "pipe {pipe}: its bytes were changed"
        );
        Ok(())
    }
}

/// Our ring on our pipes.
struct Ours {
    ring: Ring,
    ends: Vec<(EndId, EndId)>,
    /// Of reads, then of writes, as they came back.
    buffers: Vec<Buffer>,
    letters: Letters,
}

impl Ours {
    fn new(pipes: usize, bytes: usize) -> anyhow::Result<Self> {
        let mut ring = Ring::new(2 * pipes)?;
        let mut ends = Vec::new();
        for _ in 0..pipes {
            let (reader, writer) = standpipe::pipe::pipe().context("cannot make a standpipe")?;
            ends.push((ring.attach(reader), ring.attach(writer)));
        }
        let buffers = (0..2 * pipes).map(|_| vec![0; bytes].into()).collect();
        Ok(Self {
            ring,
            ends,
            buffers,
            letters: Letters::new(pipes),
        })
    }
}

impl Rival for Ours {
    fn read(&mut self, pipe: usize) -> anyhow::Result<()> {
        let buffer = std::mem::take(&mut self.buffers[pipe]);
        let read = Operation::read(self.ends[pipe].0, buffer);
        Ok(self.ring.submit(pipe as u64, read)?)
    }

    fn write(&mut self, pipe: usize, letter: u8) -> anyhow::Result<()> {
        let token = self.ends.len() + pipe;
        let mut buffer = std::mem::take(&mut self.buffers[token]);
        buffer.fill(letter);
        self.letters.0[pipe] = letter;
        let write = Operation::write(self.ends[pipe].1, buffer);
        Ok(self.ring.submit(token as u64, write)?)
    }

    /// Who finds nothing complete has everything armed, a thousand ends or so at a time.
    fn settle(&mut self) -> anyhow::Result<()> {
        for _ in 0..=self.ends.len() / 256 {
            let completions = self.ring.reap()?.count();
            ensure!(completions == 0, "{completions} reads of empty pipes");
        }
        Ok(())
    }

    fn finish(&mut self, reads: usize) -> anyhow::Result<()> {
        let pipes = self.ends.len();
        let mut left = 2 * reads;
        while left > 0 {
            for completion in self.ring.wait(None)? {
                let index = completion.token as usize;
                let buffer = completion.buffers.into_first();
                let moved = completion.result?;
                ensure!(
                    moved == Outcome::Bytes(buffer.len()),
                    "{moved:?} were moved"
                );
                if index < pipes {
                    self.letters.check(index, &buffer)?;
                }
                self.buffers[index] = buffer;
                left -= 1;
            }
        }
        Ok(())
    }
}

/// Pipes of the kernel.
fn kernel_pipes(count: usize, flags: PipeFlags) -> anyhow::Result<Vec<(OwnedFd, OwnedFd)>> {
    let pipe = |_| pipe_with(PipeFlags::CLOEXEC | flags).context("cannot make a pipe");
    (0..count).map(pipe).collect()
}

/// `io_uring` on kernel pipes.
struct Kernel {
    // dropped, and all it has under way ended, before the buffers are
    ring: IoUring,
    flags: squeue::Flags,
    pipes: Vec<(OwnedFd, OwnedFd)>,
    reads: Vec<Vec<u8>>,
    writes: Vec<Vec<u8>>,
    letters: Letters,
}

impl Kernel {
    fn new(pipes: usize, bytes: usize, flags: squeue::Flags) -> anyhow::Result<Self> {
        let ring = IoUring::new(2 * pipes as u32);
        Ok(Self {
            ring: ring.context("cannot have io_uring (kernel.io_uring_disabled?)")?,
            flags,
            pipes: kernel_pipes(pipes, PipeFlags::empty())?,
            reads: vec![vec![0; bytes]; pipes],
            writes: vec![vec![0; bytes]; pipes],
            letters: Letters::new(pipes),
        })
    }

    fn push(&mut self, entry: squeue::Entry, token: usize) -> anyhow::Result<()> {
        let entry = entry.user_data(token as u64).flags(self.flags);
        // SAFETY: its buffer is one of `reads` or `writes`, which are neither moved nor looked at until
        // `finish` has reaped it, and outlive the ring.
        unsafe { self.ring.submission().push(&entry) }.context("the submission queue is full")
    }
}

impl Rival for Kernel {
    fn read(&mut self, pipe: usize) -> anyhow::Result<()> {
        let fd = Fd(self.pipes[pipe].0.as_raw_fd());
        let buffer = &mut self.reads[pipe];
        let entry = opcode::Read::new(fd, buffer.as_mut_ptr(), buffer.len() as u32);
        self.push(entry.build(), pipe)
    }

    fn write(&mut self, pipe: usize, letter: u8) -> anyhow::Result<()> {
        let fd = Fd(self.pipes[pipe].1.as_raw_fd());
        let buffer = &mut self.writes[pipe];
        buffer.fill(letter);
        self.letters.0[pipe] = letter;
        let entry = opcode::Write::new(fd, buffer.as_ptr(), buffer.len() as u32);
        self.push(entry.build(), self.pipes.len() + pipe)
    }

    fn submit(&mut self) -> anyhow::Result<()> {
        self.ring.submit()?;
        Ok(())
    }

    fn finish(&mut self, reads: usize) -> anyhow::Result<()> {
        let pipes = self.pipes.len();
        let mut left = 2 * reads;
        self.ring.submit_and_wait(left)?;
        for entry in self.ring.completion() {
            let index = entry.user_data() as usize;
            let buffer = if index < pipes {
                self.letters.check(index, &self.reads[index])?;
                &self.reads[index]
            } else {
                &self.writes[index - pipes]
            };
            ensure!(
                usize::try_from(entry.result()) == Ok(buffer.len()),
                "{} for {} bytes",
                entry.result(),
                buffer.len()
            );
            left -= 1;
        }
        ensure!(left == 0, "{left} completions are missing");
        Ok(())
    }
}

/// epoll on kernel pipes that do not block.
struct Readiness {
    set: OwnedFd,
    pipes: Vec<(File, File)>,
    buffers: Vec<Vec<u8>>,
    /// Which reads wait.
    waiting: Vec<bool>,
    complete: usize,
    events: Vec<epoll::Event>,
    message: Vec<u8>,
    letters: Letters,
}

impl Readiness {
    fn new(pipes: usize, bytes: usize) -> anyhow::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut ends = Vec::new();
        let made = kernel_pipes(pipes, PipeFlags::NONBLOCK)?;
        for (pipe, (reader, writer)) in made.into_iter().enumerate() {
            let data = epoll::EventData::new_u64(pipe as u64);
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&set, &reader, data, flags)?;
            ends.push((reader.into(), writer.into()));
        }
        Ok(Self {
            set,
            pipes: ends,
            buffers: vec![vec![0; bytes]; pipes],
            waiting: vec![false; pipes],
            complete: 0,
            events: Vec::with_capacity(pipes.min(1024)),
            message: vec![0; bytes],
            letters: Letters::new(pipes),
        })
    }
}

impl Rival for Readiness {
    fn read(&mut self, pipe: usize) -> anyhow::Result<()> {
        match self.pipes[pipe].0.read(&mut self.buffers[pipe]) {
            Ok(bytes) => {
                ensure!(bytes == self.buffers[pipe].len(), "{bytes} bytes");
                self.letters.check(pipe, &self.buffers[pipe])?;
                self.waiting[pipe] = false;
                self.complete += 1;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.waiting[pipe] = true,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn write(&mut self, pipe: usize, letter: u8) -> anyhow::Result<()> {
        self.message.fill(letter);
        self.letters.0[pipe] = letter;
        self.pipes[pipe].1.write_all(&self.message)?;
        Ok(())
    }

    fn finish(&mut self, reads: usize) -> anyhow::Result<()> {
        while self.complete < reads {
            self.events.clear();
            epoll::wait(&self.set, spare_capacity(&mut self.events), None)?;
            for index in 0..self.events.len() {
                let pipe = self.events[index].data.u64() as usize;
                if self.waiting[pipe] {
                    self.read(pipe)?;
                }
            }
        }
        self.complete -= reads;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The canary: what one pipe has, another has not.
    #[test]
    fn bytes_of_another_pipe_or_round_are_an_error() {
        let letters = Letters(vec![3, 5]);
        letters.check(0, &[3; 4]).unwrap();
        letters.check(1, &[3; 4]).unwrap_err();
        letters.check(0, &[3, 3, 5]).unwrap_err();
        letters.check(0, &[]).unwrap_err();
    }
}
