//! A store that drops a read, as one does whose task panics.

mod common;

use std::sync::Arc;

use common::{OFF, PAGE, cache};
use standpipe_cache::cache::Wait;
use standpipe_cache::store::{Read, Store, StoreError, Version};

struct Careless(Version);

impl Store for Careless {
    fn name(&self) -> &'static str {
        "careless"
    }

    fn access(&self) -> &'static str {
        "not at all"
    }

    fn version(&self) -> &Version {
        &self.0
    }

    fn length_bytes(&self) -> u64 {
        10 * PAGE as u64
    }

    fn refresh(&self) -> Result<u64, StoreError> {
        Ok(self.length_bytes())
    }

    fn start(&self, read: Read) {
        drop(read);
    }
}

#[test]
fn a_read_that_a_store_drops_has_failed() {
    let cache = cache(2);
    let reader = cache.open(Arc::new(Careless(Version("1".to_owned()))), OFF);
    for page in 0..4 {
        let result = reader.read_at(&mut [0; PAGE], page * PAGE as u64, Wait::Never);
        // The first says that it has begun: it did not wait for what was over at once.
        let result = match result.unwrap_err().to_string() {
            text if text == "the page is not there yet" => {
                reader.read_at(&mut [0; PAGE], page * PAGE as u64, Wait::Never)
            }
            text => panic!("{text}"),
        };
        let offset = page * PAGE as u64;
        assert_eq!(
            result.unwrap_err().to_string(),
            format!("careless, at offset {offset}: the store dropped the read")
        );
    }
    assert_eq!(cache.stat().room.in_flight_pages, 0);
}
