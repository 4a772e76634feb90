//! Which object it is, and in which state.

use object_store::{GetOptions, ObjectMeta};

use super::failure::Failure;
use crate::store::Version;
use crate::store::unique::unique;

/// What a server tells of an object, by which another state of it is known.
///
/// By a strong entity tag, which each request is made conditional on (`If-Match`). Servers that give none, or
/// a weak one (which no `If-Match` ever matches, as the bytes may differ), are asked for an object that was
/// not modified since; where there is no time either, only the length can be compared. In these cases the
/// object shares pages with nobody who opens it again: times are in whole seconds.
#[derive(Clone, Debug)]
pub struct Identity(ObjectMeta);

impl Identity {
    pub fn new(meta: ObjectMeta) -> Self {
        Self(meta)
    }

    pub fn meta(&self) -> &ObjectMeta {
        &self.0
    }

    pub fn length_bytes(&self) -> u64 {
        self.0.size
    }

    fn strong_tag(&self) -> Option<&str> {
        let tag = self.0.e_tag.as_deref();
        tag.filter(|tag| !tag.starts_with("W/"))
    }

    fn has_time(&self) -> bool {
        has_time(&self.0)
    }

    pub fn access(&self) -> &'static str {
        match (self.strong_tag(), self.has_time()) {
            (Some(_), _) => "ranged GET, if-match",
            (None, true) => "ranged GET, if-unmodified-since",
            (None, false) => "ranged GET, unconditional",
        }
    }

    pub fn version(&self) -> Version {
        if self.strong_tag().is_some() {
            Version(self.describe())
        } else {
            unique(&self.describe())
        }
    }

    /// Options of a request that fails if the object is another.
    pub fn conditions(&self) -> GetOptions {
        let tag = self.strong_tag();
        let is_by_time = tag.is_none() && self.has_time();
        GetOptions {
            if_match: tag.map(str::to_owned),
            if_unmodified_since: is_by_time.then_some(self.0.last_modified),
            ..GetOptions::default()
        }
    }

    /// For people.
    pub fn describe(&self) -> String {
        describe(&self.0)
    }

    /// That an answer is of the object that was opened.
    pub fn check(&self, other: &ObjectMeta) -> Result<(), Failure> {
        if self.is(other) {
            return Ok(());
        }
        Err(Failure::Changed {
            was: self.describe(),
            is: describe(other),
        })
    }

    /// Whether an answer, or part of it, is of the same object in the same state. Servers that don't know of
    /// conditions ignore them, so each answer is looked at.
    pub fn is(&self, other: &ObjectMeta) -> bool {
        if self.0.size != other.size {
            return false;
        }
        match (&self.0.e_tag, &other.e_tag) {
            (Some(mine), Some(theirs)) => mine == theirs,
            // A tag that comes and goes: the servers behind one name differ in their ways.
            _ if self.has_time() && has_time(other) => self.0.last_modified == other.last_modified,
            (None, None) => true,
            _ => self.strong_tag().is_some(),
        }
    }
}

/// A server that gave no time has the beginning of all time.
fn has_time(meta: &ObjectMeta) -> bool {
    meta.last_modified.timestamp() != 0
}

fn describe(meta: &ObjectMeta) -> String {
    let tag = meta.e_tag.as_deref().map(|tag| format!("ETag {tag}, "));
    let time = has_time(meta).then(|| format!("modified {}, ", meta.last_modified.to_rfc3339()));
    let (tag, time) = (tag.unwrap_or_default(), time.unwrap_or_default());
    format!("{tag}{time}{} bytes", meta.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(e_tag: Option<&str>, modified: &str, size: u64) -> ObjectMeta {
        ObjectMeta {
            location: "x".into(),
            last_modified: modified.parse().unwrap(),
            size,
            e_tag: e_tag.map(str::to_owned),
            version: None,
        }
    }

    const NEVER: &str = "1970-01-01T00:00:00Z";
    const ONE: &str = "2026-01-01T00:00:01Z";
    const TWO: &str = "2026-01-01T00:00:02Z";

    #[test]
    fn by_tag() {
        let identity = Identity::new(meta(Some("\"a\""), ONE, 7));
        assert!(identity.is(&meta(Some("\"a\""), TWO, 7)));
        assert!(!identity.is(&meta(Some("\"b\""), ONE, 7)));
        assert!(!identity.is(&meta(Some("\"a\""), ONE, 8)));
        assert!(!identity.is(&meta(None, TWO, 7)));
        let conditions = identity.conditions();
        assert_eq!(conditions.if_match.as_deref(), Some("\"a\""));
        assert_eq!(conditions.if_unmodified_since, None);
        assert_eq!(identity.version(), identity.version());
        assert_eq!(identity.access(), "ranged GET, if-match");
    }

    #[test]
    fn a_weak_tag_is_compared_and_never_asked_for() {
        let identity = Identity::new(meta(Some("W/\"a\""), ONE, 7));
        assert!(!identity.is(&meta(Some("W/\"b\""), ONE, 7)));
        assert_eq!(identity.conditions().if_match, None);
        assert!(identity.conditions().if_unmodified_since.is_some());
        assert_ne!(identity.version(), identity.version());
    }

    #[test]
    fn by_time() {
        let identity = Identity::new(meta(None, ONE, 7));
        assert!(identity.is(&meta(None, ONE, 7)));
        assert!(!identity.is(&meta(None, TWO, 7)));
        assert_ne!(identity.version(), identity.version());
        assert_eq!(identity.access(), "ranged GET, if-unmodified-since");
    }

    #[test]
    fn by_length_only() {
        let identity = Identity::new(meta(None, NEVER, 7));
        assert!(identity.is(&meta(None, NEVER, 7)));
        assert!(!identity.is(&meta(None, NEVER, 8)));
        assert_eq!(identity.conditions().if_unmodified_since, None);
        assert_eq!(identity.access(), "ranged GET, unconditional");
    }
}
