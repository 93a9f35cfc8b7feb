//! `[ldp]`

use std::ops::RangeInclusive;
use std::time::Duration;

use documented::DocumentedFields;
use door_ldp::{ExternalPrefix, LdpSettings, SearchSettings};
use heads::LibraryOptions;
use serde::{Deserialize, Serialize};

use super::check::{ROUTES, check_path};
use super::{ConfigError, refused, text};
use crate::cors::Origins;

/// The default model of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DefaultModel {
    /// A Basic Container, as clients of Fedora expect.
    Container,
    /// A plain RDF source.
    RdfSource,
}

/// What `ldp.transaction_timeout` may be.
const TRANSACTION_TIMEOUTS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3_600);

/// Less would refuse small updates of small graphs.
const UPDATE_MEMORY_MIN: u64 = 1 << 20;

/// `[ldp]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct LdpConfig {
    /// Path of the repository.
    pub base: String,
    /// Scheme and authority under which clients see this server (`https://example.org`); empty:
    /// those of each request.
    pub origin: String,
    /// The default model of a graph: `container` or `rdf-source`.
    pub default_model: DefaultModel,
    /// Whether unconditional replacement is refused (428), including pages and METS of volumes.
    pub require_condition: bool,
    /// Whether versions of deleted resources can be read.
    pub deleted_versions: bool,
    /// Whether a client that may write may also delete a single earlier version.
    pub delete_versions: bool,
    /// Whether a client that may write may also add a version with a time in the past (`POST` to
    /// `fcr:versions` with `Memento-Datetime`).
    pub receive_versions: bool,
    /// Most bytes of a graph or an update.
    #[serde(with = "text::size")]
    pub rdf_max: u64,
    /// Most statements of a graph.
    pub triples_max: usize,
    /// Most memory that an update may take while it is computed, `1MiB` or more; `auto`: seven
    /// sixteenths of `limits.memory`. An update with a `WHERE` takes about 1 KiB for each statement
    /// of its graph.
    #[serde(with = "text::size_or_auto")]
    pub update_memory: Option<u64>,
    /// Most bytes of a content; 0: no limit.
    #[serde(with = "text::size")]
    pub binary_max: u64,
    /// How long a transaction lasts after it was begun or renewed, `1s` to `1day`.
    #[serde(with = "humantime_serde")]
    pub transaction_timeout: Duration,
    /// Most operations of a transaction.
    pub transaction_operations_max: usize,
    /// Most bytes of descriptions and of contents up to 16 KiB that a transaction stages.
    #[serde(with = "text::size")]
    pub transaction_bytes_max: u64,
    /// Most transactions that are open at once, about.
    pub transactions_max: u64,
    /// Most of them that one token or address has open, about.
    pub transactions_per_client: u64,
    /// Prefixes of addresses (`https://example.org/scans/`, `file:///srv/scans/`) whose content may
    /// be stored elsewhere; none: it may not.
    pub external: Vec<String>,
}

impl LdpConfig {
    /// What the door needs to know.
    pub(crate) fn settings(&self, base_path: &str) -> Result<LdpSettings, ConfigError> {
        let external = self.external.iter().map(|prefix| ExternalPrefix::parse(prefix));
        let invalid = |error: door_ldp::InvalidPrefix| refused(format!("ldp.external: {error}"));
        let at_most = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(LdpSettings {
            external: external.collect::<Result<_, _>>().map_err(invalid)?,
            mount: base_path.trim_end_matches('/').to_owned(),
            base: self.base.trim_end_matches('/').to_owned(),
            origin: (!self.origin.is_empty()).then(|| self.origin.trim_end_matches('/').to_owned()),
            default_model: match self.default_model {
                DefaultModel::Container => door_ldp::DefaultModel::Container,
                DefaultModel::RdfSource => door_ldp::DefaultModel::RdfSource,
            },
            require_condition: self.require_condition,
            deleted_versions: self.deleted_versions,
            delete_versions: self.delete_versions,
            receive_versions: self.receive_versions,
            rdf_bytes_max: at_most(self.rdf_max),
            triples_max: self.triples_max,
            update_bytes_max: self.update_memory.map_or(usize::MAX, at_most),
            held: None,
            binary_bytes_max: self.binary_max,
            search: SearchSettings::default(),
        })
    }

    pub(super) fn check(&self, data_prefix: &str) -> Result<(), ConfigError> {
        let base = self.base.trim_end_matches('/');
        check_path("ldp.base", base)?;
        let origin = self.origin.trim_end_matches('/');
        if !origin.is_empty() && (origin == "*" || Origins::parse(&[origin.to_owned()]).is_err()) {
            let what = "is no scheme and host such as `https://books.example.org`";
            return Err(refused(format!("ldp.origin `{}` {what}", self.origin)));
        }
        self.settings("")?;
        if !TRANSACTION_TIMEOUTS.contains(&self.transaction_timeout) {
            return Err(refused("ldp.transaction_timeout is a time from one second to one day"));
        }
        if self.update_memory.is_some_and(|bytes| bytes < UPDATE_MEMORY_MIN) {
            return Err(refused("ldp.update_memory is at least 1MiB"));
        }
        // `/records:batchGet` is a route too.
        let begins_route = |path: &str| {
            let first = path.split('/').nth(1).and_then(|name| name.split(':').next()).unwrap_or_default();
            first.is_empty() || ROUTES.contains(&first)
        };
        // The data door has its routes there too.
        let below = base.strip_prefix(data_prefix).filter(|below| !data_prefix.is_empty() && below.starts_with('/'));
        if begins_route(base) || below.is_some_and(begins_route) || base == data_prefix {
            return Err(refused(format!("ldp.base `{base}` is the path of another route")));
        }
        Ok(())
    }
}

impl Default for LdpConfig {
    fn default() -> Self {
        let (library, door) = (LibraryOptions::default(), LdpSettings::default());
        Self {
            base: format!("{}/", door.base),
            origin: String::new(),
            default_model: DefaultModel::Container,
            require_condition: door.require_condition,
            deleted_versions: door.deleted_versions,
            delete_versions: door.delete_versions,
            receive_versions: door.receive_versions,
            rdf_max: door.rdf_bytes_max as u64,
            triples_max: door.triples_max,
            update_memory: None,
            binary_max: door.binary_bytes_max,
            transaction_timeout: library.transaction_timeout,
            transaction_operations_max: library.transaction_operations_max,
            transaction_bytes_max: library.transaction_bytes_max,
            transactions_max: library.transactions_max,
            transactions_per_client: library.transactions_of_one_max,
            external: Vec::new(),
        }
    }
}
