//! Requests, tried until they are answered, or there is no use.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStoreExt};
use standpipe_shm::arena::Lease;
use tokio::time::{sleep, timeout};

use super::failure::{Attempted, Failure};
use super::identity::Identity;
use super::net::Client;
use super::part::Part;
use crate::store::{Options, StoreError};

/// No wait before another try is longer.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// What is asked, of whom, and how.
#[derive(Clone)]
pub struct Asker {
    pub name: String,
    pub client: Client,
    pub path: Path,
    pub options: Arc<Options>,
}

impl Asker {
    /// What the object is now.
    pub async fn look(&self) -> Result<Identity, StoreError> {
        let mut tries = Tries::new(&self.options);
        loop {
            let failure = match self.in_time(self.meta()).await {
                Ok(Ok(meta)) => return Ok(Identity::new(meta)),
                Ok(Err(error)) => error.into(),
                Err(failure) => failure,
            };
            if let Err(failure) = tries.again(failure).await {
                return Err(failure.into_error(&self.attempted(0, 0, 0, tries.made)));
            }
        }
    }

    /// By a `HEAD`; or, where that is not answered (a signature may be good for a `GET` only) by a `GET` of
    /// one byte.
    async fn meta(&self) -> object_store::Result<ObjectMeta> {
        let store = &self.client.store;
        let error = match store.head(&self.path).await {
            Ok(meta) => return Ok(meta),
            Err(error @ object_store::Error::NotFound { .. }) => return Err(error),
            Err(error) => error,
        };
        let options = GetOptions {
            range: Some(GetRange::Bounded(0..1)),
            ..GetOptions::default()
        };
        let got = store.get_opts(&self.path, options).await;
        got.map(|got| got.meta).map_err(|_| error)
    }

    /// Fills a lease with the bytes of an object from an offset on.
    pub async fn fetch(
        &self,
        identity: &Identity,
        lease: &mut Lease,
        offset_bytes: u64,
        len_bytes: usize,
    ) -> Result<(), StoreError> {
        let range = offset_bytes..offset_bytes + len_bytes as u64;
        let parts = Part::divide(lease, range, self.options.part_bytes.max(1));
        let fetches = parts
            .into_iter()
            .map(|part| self.fetch_part(identity, part));
        // Made here, and not by the stream, whose closures can't say which lease they borrow.
        let fetches = fetches.collect::<Vec<_>>();
        let fetches = stream::iter(fetches).buffer_unordered(self.options.parallelism.max(1));
        fetches.try_collect::<()>().await
    }

    async fn fetch_part(&self, identity: &Identity, mut part: Part<'_>) -> Result<(), StoreError> {
        let mut tries = Tries::new(&self.options);
        let failure = loop {
            let Err(failure) = self.try_part(identity, &mut part).await else {
                return Ok(());
            };
            if let Err(failure) = tries.again(failure).await {
                break failure;
            }
        };
        let wanted = part.whole().end - part.whole().start;
        let attempted = self.attempted(
            part.whole().start,
            wanted as usize,
            part.filled(),
            tries.made,
        );
        if failure.may_be_change()
            && let Ok(now) = self.look().await
            && let Err(changed) = identity.check(now.meta())
        {
            return Err(changed.into_error(&attempted));
        }
        Err(failure.into_error(&attempted))
    }

    /// One request for what is missing of a part.
    async fn try_part(&self, identity: &Identity, part: &mut Part<'_>) -> Result<(), Failure> {
        let is_all = part.whole() == (0..identity.length_bytes());
        if is_all {
            part.restart();
        }
        let range = part.rest();
        let options = GetOptions {
            // All of an object is to be had of every server, also of those that know of no ranges.
            range: (!is_all).then(|| GetRange::Bounded(range.clone())),
            ..identity.conditions()
        };
        let _permit = self.client.permits.acquire().await;
        let got = self.client.store.get_opts(&self.path, options);
        let got = self.in_time(got).await??;
        identity.check(&got.meta)?;
        if got.range != range {
            let (got, wanted) = (got.range, range);
            return Err(Failure::Unasked(format!(
                "bytes {got:?} came, expected {wanted:?}"
            )));
        }
        let mut body = got.into_stream();
        while let Some(bytes) = self.in_time(body.next()).await? {
            // However the connection broke.
            let bytes = bytes.map_err(|_| Failure::Truncated)?;
            part.fill(&bytes).map_err(|_| {
                Failure::Unasked(format!(
                    "more came than the bytes {range:?} that were wanted"
                ))
            })?;
        }
        if part.rest().is_empty() {
            Ok(())
        } else {
            Err(Failure::Truncated)
        }
    }

    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let done = timeout(self.options.stall, work).await;
        done.map_err(|_| Failure::Stalled)
    }

    fn attempted(&self, offset_bytes: u64, wanted: usize, got: usize, tries: u32) -> Attempted<'_> {
        Attempted {
            name: &self.name,
            offset_bytes,
            wanted,
            got,
            tries,
            stall: self.options.stall,
        }
    }
}

/// How often something was tried, and when it is tried again.
struct Tries<'a> {
    made: u32,
    delay: Duration,
    options: &'a Options,
}

impl<'a> Tries<'a> {
    fn new(options: &'a Options) -> Self {
        Self {
            made: 0,
            delay: options.delay,
            options,
        }
    }

    /// Waits for the next try; or gives the failure back, if another try is of no use, or it was enough.
    async fn again(&mut self, failure: Failure) -> Result<(), Failure> {
        self.made += 1;
        if self.made >= self.options.tries || failure.is_final() {
            return Err(failure);
        }
        // By chance, so that those who failed together don't come back together.
        sleep(self.delay.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        self.delay = (self.delay * 2).min(LONGEST_DELAY);
        Ok(())
    }
}
