//! Where an object is, from its URL and the environment.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreScheme, Result, RetryConfig,
};
use url::{Position, Url};

use crate::store::StoreError;

/// Where an object is.
#[derive(Clone, Debug)]
pub struct Address {
    name: String,
    url: Url,
    scheme: ObjectStoreScheme,
    path: Path,
    server: String,
}

impl Address {
    /// From a URL. The credentials come from the environment, as `object_store` takes them: `AWS_…`,
    /// `GOOGLE_…` (and `SERVICE_ACCOUNT`), `AZURE_…`.
    pub fn parse(name: &str) -> Result<Self, StoreError> {
        let bad = |reason: String| StoreError::BadName {
            name: name.to_owned(),
            reason,
        };
        let url = Url::parse(name).map_err(|error| bad(format!("not a URL ({error})")))?;
        let (scheme, path) = ObjectStoreScheme::parse(&url).map_err(|error| {
            let what = format!("a URL of {}, which can't be read", url.scheme());
            bad(
                if matches!(url.scheme(), "s3" | "gs" | "az" | "http" | "https") {
                    error.to_string()
                } else {
                    what
                },
            )
        })?;
        let server = match scheme {
            // What follows the path (a signature, maybe) belongs to each request.
            ObjectStoreScheme::Http => {
                let server = &url[..Position::BeforePath];
                let query = url.query().map(|query| format!("/?{query}"));
                format!("{server}{}", query.unwrap_or_default())
            }
            // Some of their URLs have the bucket in the path.
            ObjectStoreScheme::AmazonS3
            | ObjectStoreScheme::GoogleCloudStorage
            | ObjectStoreScheme::MicrosoftAzure => {
                let whole = url[..Position::AfterPath].trim_end_matches('/');
                let bucket = whole.strip_suffix(path.as_ref()).unwrap_or(whole);
                bucket.to_owned()
            }
            _ => url.scheme().to_owned(),
        };
        Ok(Self {
            name: name.to_owned(),
            url,
            scheme,
            path,
            server,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Objects with the same have a client in common.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// A client for the server. Nothing is sent yet.
    pub fn connect(&self) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let store = match self.scheme {
            ObjectStoreScheme::Memory => Ok(memory() as Arc<dyn ObjectStore>),
            ObjectStoreScheme::AmazonS3 => self.s3(),
            ObjectStoreScheme::GoogleCloudStorage => self.google(),
            ObjectStoreScheme::MicrosoftAzure => self.azure(),
            _ => self.http(),
        };
        store.map_err(|error| StoreError::Remote {
            name: self.name.clone(),
            offset_bytes: 0,
            reason: error.to_string(),
            tries: 0,
        })
    }

    fn s3(&self) -> Result<Arc<dyn ObjectStore>> {
        let mut builder = AmazonS3Builder::from_env().with_url(self.url.as_str());
        let key = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
        if !is_set("AWS_TIMEOUT") {
            builder = builder.with_config(key, FOREVER);
        }
        Ok(Arc::new(builder.with_retry(once()).build()?))
    }

    fn google(&self) -> Result<Arc<dyn ObjectStore>> {
        let mut builder = GoogleCloudStorageBuilder::from_env().with_url(self.url.as_str());
        let key = GoogleConfigKey::Client(ClientConfigKey::Timeout);
        if !is_set("GOOGLE_TIMEOUT") {
            builder = builder.with_config(key, FOREVER);
        }
        Ok(Arc::new(builder.with_retry(once()).build()?))
    }

    fn azure(&self) -> Result<Arc<dyn ObjectStore>> {
        let mut builder = MicrosoftAzureBuilder::from_env().with_url(self.url.as_str());
        let key = AzureConfigKey::Client(ClientConfigKey::Timeout);
        if !is_set("AZURE_TIMEOUT") {
            builder = builder.with_config(key, FOREVER);
        }
        Ok(Arc::new(builder.with_retry(once()).build()?))
    }

    fn http(&self) -> Result<Arc<dyn ObjectStore>> {
        let options = ClientOptions::new()
            .with_allow_http(self.url.scheme() == "http")
            .with_timeout_disabled();
        let builder = HttpBuilder::new()
            .with_url(&self.server)
            .with_client_options(options)
            .with_retry(once());
        Ok(Arc::new(builder.build()?))
    }
}

/// Of a whole request. A slow one is fine as long as something comes: see [`Options::stall`].
///
/// [`Options::stall`]: crate::store::Options::stall
const FOREVER: &str = "1day";

fn is_set(variable: &str) -> bool {
    std::env::vars_os().any(|(name, _)| name.eq_ignore_ascii_case(variable))
}

/// Trying again is up to us: the library goes on in the middle of a body without telling.
fn once() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

/// The path of a `file:` URL.
pub fn path_of(name: &str) -> Result<PathBuf, StoreError> {
    let path = Url::parse(name)
        .ok()
        .and_then(|url| url.to_file_path().ok());
    path.ok_or_else(|| StoreError::BadName {
        name: name.to_owned(),
        reason: "not a URL of a file of this machine (file:///path)".to_owned(),
    })
}

/// The objects of `memory:///…`, which are this process's own: put them there.
#[must_use]
pub fn memory() -> Arc<InMemory> {
    static MEMORY: OnceLock<Arc<InMemory>> = OnceLock::new();
    Arc::clone(MEMORY.get_or_init(Arc::default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_apart_and_shared() {
        let of = |url: &str| {
            let address = Address::parse(url).unwrap();
            (address.server().to_owned(), address.path().to_string())
        };
        let pair = |server: &str, path: &str| (server.to_owned(), path.to_owned());
        assert_eq!(of("s3://bucket/a/b"), pair("s3://bucket/", "a/b"));
        assert_eq!(of("gs://bucket/a"), pair("gs://bucket/", "a"));
        assert_eq!(of("az://container/a"), pair("az://container/", "a"));
        assert_eq!(
            of("https://s3.eu-west-1.amazonaws.com/bucket/a"),
            pair("https://s3.eu-west-1.amazonaws.com/bucket/", "a")
        );
        assert_eq!(of("http://host:81/a/b"), pair("http://host:81", "a/b"));
        assert_eq!(
            of("https://host/a?sign=x"),
            pair("https://host/?sign=x", "a")
        );
        assert_eq!(of("memory:///a"), pair("memory", "a"));
    }

    #[test]
    fn a_bad_name_says_what_is_expected() {
        let error = |url| Address::parse(url).unwrap_err().to_string();
        assert_eq!(
            error("ftp://host/file"),
            "ftp://host/file: a URL of ftp, which can't be read, expected a path or a URL of \
             s3, gs, az, http, https, file, memory"
        );
        assert!(error("http://").starts_with("http://: not a URL (empty host)"));
    }
}
