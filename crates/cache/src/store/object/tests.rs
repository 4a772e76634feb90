use std::process::Command;
use std::time::Duration;

use object_store::ObjectStoreExt as _;
use standpipe_origin::{Cut, Manners, Origin, Tag};
use standpipe_shm::arena::Arena;

use super::*;
use crate::book::PolicyKind;
use crate::cache::{Ahead, Cache, Options as CacheOptions, Wait};
use crate::store::open;
use crate::store::testing::{assert_reads, bytes, in_a_fork, read, try_read};

/// Quick to try again, and in no hurry otherwise.
fn options() -> Options {
    Options {
        parallelism: 4,
        part_bytes: 64 << 10,
        tries: 4,
        delay: Duration::from_millis(1),
        stall: Duration::from_secs(60),
        ..Options::default()
    }
}

/// An object in two states of the same length.
fn two() -> Vec<Vec<u8>> {
    let one = bytes(300_000);
    let mut two = one.clone();
    two.reverse();
    vec![one, two]
}

fn origin(manners: Manners) -> (Origin, Vec<u8>) {
    let contents = two();
    let one = contents[0].clone();
    (Origin::start_with(contents, manners).unwrap(), one)
}

/// What becomes of a read of everything.
fn outcome(origin: &Origin, options: &Options) -> Result<(usize, Vec<u8>), StoreError> {
    let store = Object::open(&origin.url(), options)?;
    let arena = Arena::new(128).unwrap();
    try_read(&store, &arena, 0, 300_000)
}

#[track_caller]
fn assert_changed(outcome: Result<(usize, Vec<u8>), StoreError>) {
    match outcome {
        Err(StoreError::Changed { was, is, .. }) => assert_ne!(was, is),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was read"),
    }
}

#[test]
fn parts_are_asked_for_at_once_and_only_of_what_was_opened() {
    let content = bytes(1_000_003);
    let slow = Manners {
        latency: Duration::from_millis(20),
        ..Manners::default()
    };
    let origin = Origin::start(content.clone(), slow).unwrap();
    let store = Object::open(&origin.url(), &options()).unwrap();
    assert_eq!(store.access(), "ranged GET, if-match");
    assert_reads(&store, &content);
    assert_eq!(origin.most_busy(), 4, "as many as the options say");
    let requests = origin.requests();
    assert_eq!(requests.len(), 1 + 1_000_003_usize.div_ceil(64 << 10));
    assert!(requests[0].is_head);
    for request in &requests[1..] {
        assert_eq!(request.if_match.as_deref(), Some("\"content-0\""));
        assert!(request.range.is_some());
    }

    let arena = Arena::new(64).unwrap();
    let (got, page) = read(&store, &arena, 999_424, 4096);
    assert_eq!((got, &page[..got]), (579, &content[999_424..]));
    assert!(page[got..].iter().all(|&byte| byte == 0));
    assert_eq!(read(&store, &arena, 1 << 20, 4096).0, 0, "behind the end");
}

#[test]
fn reads_at_once_share_what_may_be_asked_at_once() {
    let slow = Manners {
        latency: Duration::from_millis(20),
        ..Manners::default()
    };
    let (origin, content) = origin(slow);
    let open = || Object::open(&origin.url(), &options()).unwrap();
    let stores = [open(), open(), open()];
    std::thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| assert_reads(store, &content));
        }
    });
    assert_eq!(origin.most_busy(), 4);
}

#[test]
fn what_is_empty_is_read() {
    let origin = Origin::start(Vec::new(), Manners::default()).unwrap();
    assert_reads(&Object::open(&origin.url(), &options()).unwrap(), b"");
}

#[test]
fn a_busy_server_is_asked_again() {
    let (origin, content) = origin(Manners {
        busy_for: 3,
        ..Manners::default()
    });
    let store = Object::open(&origin.url(), &options()).unwrap();
    assert_reads(&store, &content);

    origin.behave(Manners {
        busy_for: u32::MAX,
        ..Manners::default()
    });
    let error = outcome(&origin, &options()).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Status {
                status: 503,
                tries: 4,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_body_that_was_cut_is_gone_on_with() {
    let cut = |times| Manners {
        truncate: Some(Cut {
            after_bytes: 10_000,
            times,
        }),
        ..Manners::default()
    };
    let (origin, content) = origin(cut(3));
    let options = Options {
        parallelism: 1,
        ..options()
    };
    let store = Object::open(&origin.url(), &options).unwrap();
    assert_reads(&store, &content);
    let requests = origin.requests();
    let ranges = requests
        .iter()
        .filter_map(|request| request.range.as_deref());
    assert_eq!(
        ranges.take(5).collect::<Vec<_>>(),
        [
            "bytes=0-65535",
            "bytes=10000-65535",
            "bytes=20000-65535",
            "bytes=30000-65535",
            "bytes=65536-131071"
        ]
    );

    origin.behave(cut(u32::MAX));
    let error = outcome(&origin, &options).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Truncated {
                offset_bytes: 0,
                wanted: 65536,
                got: 40000,
                tries: 4,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_server_that_stalls_is_not_waited_for_for_ever() {
    let stall = |times| Manners {
        stall: Some(Cut {
            after_bytes: 10_000,
            times,
        }),
        ..Manners::default()
    };
    let (origin, content) = origin(stall(1));
    let options = Options {
        stall: Duration::from_millis(500),
        ..options()
    };
    let store = Object::open(&origin.url(), &options).unwrap();
    assert_reads(&store, &content);

    origin.behave(stall(u32::MAX));
    let error = outcome(&origin, &options).unwrap_err();
    assert!(
        matches!(error, StoreError::Stalled { tries: 4, .. }),
        "{error}"
    );
}

#[test]
fn an_object_that_changes_is_an_error() {
    for tag in [Tag::Strong, Tag::Weak, Tag::Absent] {
        for ignores_conditions in [false, true] {
            // Between the parts of one read, and after an answer was cut.
            for truncate in [None, Some((10_000, 1))] {
                let (origin, _) = origin(Manners {
                    tag,
                    ignores_conditions,
                    change_after: Some(1),
                    truncate: truncate.map(|(after_bytes, times)| Cut { after_bytes, times }),
                    ..Manners::default()
                });
                assert_changed(outcome(&origin, &options()));
            }
        }
    }
}

#[test]
fn an_object_that_shrinks_is_an_error() {
    let contents = vec![bytes(300_000), bytes(1000)];
    for ignores_conditions in [false, true] {
        let manners = Manners {
            ignores_conditions,
            ..Manners::default()
        };
        let origin = Origin::start_with(contents.clone(), manners).unwrap();
        let store = Object::open(&origin.url(), &options()).unwrap();
        origin.change();
        let arena = Arena::new(8).unwrap();
        assert_changed(try_read(&store, &arena, 131_072, 4096));
        assert!(matches!(store.refresh(), Err(StoreError::Changed { .. })));
    }
}

#[test]
fn refreshing_tells_of_a_change() {
    let (origin, _) = origin(Manners::default());
    let store = Object::open(&origin.url(), &options()).unwrap();
    assert_eq!(store.refresh().unwrap(), 300_000);
    let again = Object::open(&origin.url(), &options()).unwrap();
    assert_eq!(again.version(), store.version());
    origin.change();
    assert!(matches!(store.refresh(), Err(StoreError::Changed { .. })));
    let new = Object::open(&origin.url(), &options()).unwrap();
    assert_ne!(new.version(), store.version());
}

#[test]
fn without_a_strong_tag_nobody_shares() {
    for (tag, has_no_time, access) in [
        (Tag::Weak, false, "ranged GET, if-unmodified-since"),
        (Tag::Absent, false, "ranged GET, if-unmodified-since"),
        (Tag::Absent, true, "ranged GET, unconditional"),
    ] {
        let (origin, content) = origin(Manners {
            tag,
            has_no_time,
            ..Manners::default()
        });
        let open = || Object::open(&origin.url(), &options()).unwrap();
        let store = open();
        assert_eq!(store.access(), access);
        assert_reads(&store, &content);
        assert_eq!(store.refresh().unwrap(), 300_000);
        assert_ne!(store.version(), open().version());
    }
}

#[test]
fn a_server_that_ignores_ranges_is_read_whole_or_not_at_all() {
    let (origin, content) = origin(Manners {
        ignores_ranges: true,
        ..Manners::default()
    });
    let whole = Options {
        part_bytes: 300_000,
        ..options()
    };
    let store = Object::open(&origin.url(), &whole).unwrap();
    assert_reads(&store, &content);
    let error = outcome(&origin, &options()).unwrap_err();
    assert!(matches!(error, StoreError::NoRanges { .. }), "{error}");
    let asked = origin.requests().len();
    assert!(
        asked <= 3 + 4,
        "once for each part under way, not again: {asked}"
    );
}

#[test]
fn a_whole_body_that_was_cut_begins_again() {
    let (origin, content) = origin(Manners {
        ignores_ranges: true,
        truncate: Some(Cut {
            after_bytes: 100_000,
            times: 2,
        }),
        ..Manners::default()
    });
    let whole = Options {
        part_bytes: 300_000,
        ..options()
    };
    assert_reads(&Object::open(&origin.url(), &whole).unwrap(), &content);
}

#[test]
fn other_bytes_than_were_asked_for_are_an_error() {
    let (origin, _) = origin(Manners {
        shifts_ranges: true,
        ..Manners::default()
    });
    let error = outcome(&origin, &options()).unwrap_err();
    assert!(matches!(error, StoreError::Remote { .. }), "{error}");
}

#[test]
fn opens_where_only_get_is_allowed() {
    let (origin, content) = origin(Manners {
        refuses_head: true,
        ..Manners::default()
    });
    let store = Object::open(&origin.url(), &options()).unwrap();
    assert_reads(&store, &content);
}

#[test]
fn what_follows_the_path_is_sent() {
    let (origin, content) = origin(Manners::default());
    let url = format!("{}?signature=a%20b", origin.url());
    assert_reads(&Object::open(&url, &options()).unwrap(), &content);
    let requests = origin.requests();
    let is_signed = |target: &str| target == "/object?signature=a%20b";
    assert!(requests.iter().all(|request| is_signed(&request.target)));
}

#[test]
fn what_is_not_there_is_named() {
    let (origin, _) = origin(Manners {
        has_nothing: true,
        ..Manners::default()
    });
    let url = origin.url();
    let error = Object::open(&url, &options()).err().unwrap();
    assert_eq!(error.to_string(), format!("{url}: no such file or object"));
    assert_eq!(origin.requests().len(), 1, "asked once");

    drop(origin);
    let error = Object::open("memory:///nothing", &options()).err().unwrap();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    // Nobody listens there.
    let error = Object::open("http://127.0.0.1:1/x", &options())
        .err()
        .unwrap();
    let text = error.to_string();
    assert!(
        text.starts_with("http://127.0.0.1:1/x, at offset 0, tried 4 times: "),
        "{text}"
    );
}

#[test]
fn a_forked_child_asks_by_connections_of_its_own() {
    let (origin, content) = origin(Manners::default());
    let store = Object::open(&origin.url(), &options()).unwrap();
    assert_reads(&store, &content);
    assert!(in_a_fork(|| assert_reads(&store, &content)));
    assert_reads(&store, &content);
}

#[test]
fn can_be_called_inside_a_runtime() {
    let (origin, content) = origin(Manners::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        assert_reads(&Object::open(&origin.url(), &options()).unwrap(), &content);
    });
}

#[test]
fn in_memory_and_as_a_file() {
    let content = bytes(200_000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let path = object_store::path::Path::from("dir/object");
    let put = memory();
    let put = put.put(&path, content.clone().into());
    runtime.block_on(put).unwrap();
    let store = open("memory:///dir/object", &options()).unwrap();
    assert_eq!(store.name(), "memory:///dir/object");
    assert_reads(&*store, &content);

    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("a file");
    std::fs::write(&path, &content).unwrap();
    let url = url::Url::from_file_path(&path).unwrap();
    let store = open(url.as_str(), &options()).unwrap();
    assert_eq!(store.name(), url.as_str());
    assert_reads(&*store, &content);
    assert_reads(
        &*open(path.to_str().unwrap(), &options()).unwrap(),
        &content,
    );
    let error = open("file://elsewhere/x", &options()).err().unwrap();
    assert!(matches!(error, StoreError::BadName { .. }), "{error}");
}

/// Runs `test` of this program once more, with these variables.
fn with_environment(test: &str, variables: &[(&str, &str)]) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", test])
        .envs(variables.iter().copied())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn credentials_come_from_the_environment() {
    let (origin, _) = origin(Manners::default());
    let server = format!("http://{}", origin.address());
    let service_account = format!(
        r#"{{"gcs_base_url": "{server}", "disable_oauth": true, "client_email": "", "private_key": "",
        "private_key_id": ""}}"#
    );
    with_environment(
        "store::object::tests::in_clouds",
        &[
            ("AWS_ENDPOINT", &server),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "me-myself"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "moon-1"),
            ("GOOGLE_SERVICE_ACCOUNT_KEY", &service_account),
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            ("AZURE_STORAGE_ENDPOINT", &server),
            ("AZURE_STORAGE_TOKEN", "token-of-mine"),
            ("AZURE_ALLOW_HTTP", "true"),
        ],
    );
    let requests = origin.requests();
    let is_asked = |target: &str, who: &str| {
        requests.iter().any(|request| {
            let authorization = request.authorization.as_deref().unwrap_or_default();
            request.target.starts_with(target) && authorization.contains(who)
        })
    };
    assert!(is_asked("/bucket/key", "me-myself/"), "{requests:?}");
    assert!(is_asked("/bucket/google", ""), "{requests:?}");
    assert!(is_asked("/container/key", "token-of-mine"), "{requests:?}");
}

#[test]
fn clouds_that_ignore_ranges_are_told_of() {
    let (origin, _) = origin(Manners {
        ignores_ranges: true,
        ..Manners::default()
    });
    let server = format!("http://{}", origin.address());
    with_environment(
        "store::object::tests::in_a_cloud_that_ignores_ranges",
        &[
            ("AWS_ENDPOINT", &server),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_SKIP_SIGNATURE", "true"),
        ],
    );
    assert!(origin.requests().len() <= 1 + 4, "asked once for each part");
}

#[test]
#[ignore = "run by clouds_that_ignore_ranges_are_told_of, with its variables"]
fn in_a_cloud_that_ignores_ranges() {
    let store = Object::open("s3://bucket/key", &options()).unwrap();
    let arena = Arena::new(128).unwrap();
    let error = try_read(&store, &arena, 0, 300_000).unwrap_err();
    assert!(matches!(error, StoreError::NoRanges { .. }), "{error}");
}

#[test]
#[ignore = "run by credentials_come_from_the_environment, with its variables"]
fn in_clouds() {
    let content = &two()[0];
    for url in [
        "s3://bucket/key",
        "gs://bucket/google",
        "az://container/key",
    ] {
        let store = Object::open(url, &options()).unwrap();
        assert_reads(&store, content);
    }
}

/// Reads that go beyond the end, as most last ones do, don't look for it again: an object of one version has
/// one length, and a read that must not wait would wait for the answer.
#[test]
fn the_end_of_an_object_is_asked_for_once() {
    let (origin, content) = origin(Manners::default());
    let store = Object::open(&origin.url(), &options()).unwrap();
    let cache = Cache::new(CacheOptions::default()).unwrap();
    let ahead = Ahead {
        policy: PolicyKind::Off,
        max_bytes: 0,
    };
    let reader = cache.open(Arc::new(store), ahead);
    let mut bytes = vec![0; 400_000];
    let mut read = |wait| reader.read_at(&mut bytes, 0, wait).unwrap();
    assert_eq!(read(Wait::UntilThere), content.len());
    let requests = origin.requests().len();
    assert_eq!(read(Wait::Never), content.len());
    assert_eq!(origin.requests().len(), requests);
}
