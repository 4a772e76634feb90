//! What this process has for talking to servers: a runtime, and a client for each of them.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

use object_store::ObjectStore;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use super::address::Address;
use crate::store::process::PerProcess;
use crate::store::{Options, StoreError};

/// Requests are mostly waiting, and copying; two processors carry more than a network brings.
const THREADS: usize = 2;

pub struct Net {
    runtime: Runtime,
    /// By server, and how much may be asked of it at once.
    clients: Mutex<HashMap<(String, usize), Client>>,
}

/// A server, with its connections.
#[derive(Clone)]
pub struct Client {
    pub store: Arc<dyn ObjectStore>,
    /// One for each request that may be under way.
    pub permits: Arc<Semaphore>,
}

static NET: PerProcess<OnceLock<Net>> = PerProcess::new();

impl Net {
    /// This process's.
    pub fn get(name: &str) -> Result<&'static Self, StoreError> {
        let slot = NET.get();
        if let Some(net) = slot.get() {
            return Ok(net);
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("standpipe-net")
            .enable_all()
            .build()
            .map_err(|error| StoreError::io(name, 0, error))?;
        // Of TLS. If the program has chosen one already, that's fine too.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let net = Self {
            runtime,
            clients: Mutex::default(),
        };
        if let Err(late) = slot.set(net) {
            // Not dropped in place: that is forbidden inside somebody else's runtime.
            late.runtime.shutdown_background();
        }
        Ok(slot.get().expect("set above"))
    }

    /// The client for a server, and its connections, is shared by all that is read from there.
    pub fn client(&self, address: &Address, options: &Options) -> Result<Client, StoreError> {
        let key = (address.server().to_owned(), options.parallelism);
        let clients = || self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients().get(&key) {
            return Ok(client.clone());
        }
        let client = Client {
            store: address.connect()?,
            permits: Arc::new(Semaphore::new(options.parallelism.max(1))),
        };
        Ok(clients().entry(key).or_insert(client).clone())
    }

    /// Starts work, and doesn't wait for it.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Waits for work, also inside somebody else's runtime (where this is as rude as any blocking call).
    pub fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (tell, told) = mpsc::sync_channel(1);
        self.spawn(async move {
            let _ = tell.send(work.await);
        });
        told.recv().expect("the work ends by telling")
    }
}
