//! Objects of S3, Google Cloud Storage, Azure, and HTTP servers, through the `object_store` crate.
//!
//! Each read is one or more ranged `GET`s at the same time. Each of them is conditional on the object being
//! the one that was opened, and each answer is looked at again: what is read is of one state of the object, or
//! an error ([`StoreError::Changed`]). What is cut short, stalls, or is answered by a server that is busy or
//! ill (5xx, 429) is tried again, with growing delays, from where it broke off; then it is an error.
//!
//! A server that gives no strong entity tag is asked by time, or if there is none, compared by length only:
//! [`access`](Store::access) tells.
//!
//! Credentials come from the environment: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`,
//! `AWS_ENDPOINT`…, `GOOGLE_SERVICE_ACCOUNT`…, `AZURE_STORAGE_ACCOUNT_NAME`…; where there are none, from the
//! machine's own identity in the cloud.

use std::sync::Arc;

use standpipe_core::readahead::Speed;
use standpipe_core::size::PAGE_BYTES;

use super::{Options, Read, Store, StoreError, Version};

mod address;
mod failure;
mod fetch;
mod identity;
mod net;
mod part;

pub use address::memory;

pub(super) use address::path_of;

use address::Address;
use fetch::Asker;
use identity::Identity;
use net::Net;

/// An object on a server, in the state that it was opened in.
pub struct Object {
    address: Address,
    options: Arc<Options>,
    identity: Identity,
    version: Version,
}

impl Object {
    /// Looks for an object, by its URL. Blocks.
    ///
    /// # Errors
    /// It can't be found, or reached.
    pub fn open(url: &str, options: &Options) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        let options = Arc::new(options.clone());
        let identity = look(&address, &options)?;
        Ok(Self {
            version: identity.version(),
            address,
            options,
            identity,
        })
    }

    /// What is to be read at an offset: nothing behind the end.
    fn wanted(&self, read: &Read) -> usize {
        let behind = self.length_bytes().saturating_sub(read.offset_bytes);
        let wanted = read.len_bytes.min(read.lease.len_bytes());
        wanted.min(usize::try_from(behind).unwrap_or(usize::MAX))
    }
}

impl Store for Object {
    fn name(&self) -> &str {
        self.address.name()
    }

    fn access(&self) -> &'static str {
        self.identity.access()
    }

    fn version(&self) -> &Version {
        &self.version
    }

    fn length_bytes(&self) -> u64 {
        self.identity.length_bytes()
    }

    fn refresh(&self) -> Result<u64, StoreError> {
        let now = look(&self.address, &self.options)?;
        if self.identity.is(now.meta()) {
            return Ok(now.length_bytes());
        }
        Err(StoreError::Changed {
            name: self.name().to_owned(),
            was: self.identity.describe(),
            is: now.describe(),
        })
    }

    fn has_fixed_length(&self) -> bool {
        true
    }

    fn transfer_bytes(&self) -> usize {
        self.options.part_bytes
    }

    /// Far away, and wide.
    fn speed(&self) -> Speed {
        Speed {
            latency_ns: 30_000_000,
            bytes_per_s: 1 << 30,
        }
    }

    fn start(&self, read: Read) {
        debug_assert!(read.offset_bytes.is_multiple_of(PAGE_BYTES as u64));
        let wanted = self.wanted(&read);
        let asker = asker(&self.address, &self.options);
        let (net, asker) = match asker {
            Ok(asker) => asker,
            Err(error) => return (read.done)(read.lease, Err(error)),
        };
        let identity = self.identity.clone();
        net.spawn(async move {
            let mut lease = read.lease;
            let fetched = asker
                .fetch(&identity, &mut lease, read.offset_bytes, wanted)
                .await;
            if fetched.is_ok() {
                lease.zero_from(wanted);
            }
            (read.done)(lease, fetched.map(|()| wanted));
        });
    }
}

/// What this process asks by. A forked child asks by connections of its own.
fn asker(address: &Address, options: &Arc<Options>) -> Result<(&'static Net, Asker), StoreError> {
    let net = Net::get(address.name())?;
    let asker = Asker {
        name: address.name().to_owned(),
        client: net.client(address, options)?,
        path: address.path().clone(),
        options: Arc::clone(options),
    };
    Ok((net, asker))
}

fn look(address: &Address, options: &Arc<Options>) -> Result<Identity, StoreError> {
    let (net, asker) = asker(address, options)?;
    net.wait(async move { asker.look().await })
}

#[cfg(test)]
mod tests;
