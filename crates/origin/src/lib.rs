//! An HTTP server of one object, as slow and faulty as it is told to be: for tests and benchmarks.
//!
//! It answers `GET` and `HEAD` of any path with the object, whole or in part, knows entity tags and times, and
//! keeps connections open. What it does wrong is in its [`Manners`].

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

mod answer;
mod manners;
mod request;

pub use manners::{Cut, Manners, Tag};
pub use request::Request;

/// A server, and its threads: one that accepts, and one for each connection.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// The states of the object, of which one is served. The last one stays.
    contents: Vec<Vec<u8>>,
    state: Mutex<State>,
}

struct State {
    manners: Manners,
    requests: Vec<Request>,
    is_over: bool,
    /// Which of the contents is served.
    content: usize,
    /// Requests that wait for their answers, now and at most.
    busy: usize,
    most_busy: usize,
}

impl Origin {
    /// Serves `content` on a port of this machine that the kernel chooses.
    ///
    /// # Errors
    /// As `bind(2)` and `listen(2)`.
    pub fn start(content: Vec<u8>, manners: Manners) -> io::Result<Self> {
        Self::start_with(vec![content], manners)
    }

    /// Serves the first of `contents`, until it [changes](Manners::change_after).
    ///
    /// # Errors
    /// As `bind(2)` and `listen(2)`.
    ///
    /// # Panics
    /// If there are none.
    pub fn start_with(contents: Vec<Vec<u8>>, manners: Manners) -> io::Result<Self> {
        assert!(!contents.is_empty(), "a server without an object");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            contents,
            state: Mutex::new(State {
                manners,
                requests: Vec::new(),
                is_over: false,
                content: 0,
                busy: 0,
                most_busy: 0,
            }),
        });
        let accepting = Arc::clone(&shared);
        thread::Builder::new()
            .name("origin".into())
            .spawn(move || accept(&listener, &accepting))?;
        Ok(Self { address, shared })
    }

    /// Where it listens: `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The object's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/object", self.address)
    }

    /// What it was asked so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// How many requests were waiting for their answers at once, at most.
    #[must_use]
    pub fn most_busy(&self) -> usize {
        self.shared.lock().most_busy
    }

    /// Behaves otherwise from the next request on.
    pub fn behave(&self, manners: Manners) {
        self.shared.lock().manners = manners;
    }

    /// Serves the next of its contents, if there is one.
    pub fn change(&self) {
        let mut state = self.shared.lock();
        state.content = (state.content + 1).min(self.shared.contents.len() - 1);
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.lock().is_over {
            return;
        }
        let Ok(stream) = stream else {
            continue;
        };
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new().name("origin".into());
        // A client that goes away in the middle is none of our business.
        let _ = thread.spawn(move || answer::serve(&stream, &shared));
    }
}
