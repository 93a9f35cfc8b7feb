//! The settings of the server, in sections, with defaults. Where the store is, and the settings of
//! its engine, are not among them: the program that opens the store adds those, and reads all of
//! them from files, environment and flags.
//!
//! The comment of a field is what the reference of the configuration says of it
//! (`docs/configuration.md`, which `cargo xtask configuration` writes): it explains the setting to
//! an administrator. One of a setting that is newer than version 0.1.0 ends with its version:
//! "Since 0.2.0."

mod address;
mod audit;
mod auth;
mod bridges;
mod check;
mod data;
mod described;
mod feed;
mod fixity;
mod history;
mod http;
mod ldp;
mod limits;
mod listen;
mod log;
mod receivers;
mod records;
mod search;
mod store;
mod telemetry;
mod text;
mod webhooks;

use budget::usable_memory;
use documented::DocumentedFields;
use heads::{History, LibraryOptions};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use address::ListenAddress;
pub use audit::{AuditConfig, AuditMode};
pub use auth::{Access, AuthConfig};
pub use bridges::BridgeConfig;
pub use data::{DataConfig, OnDamage};
pub use described::{Described, described};
pub use feed::FeedConfig;
pub use fixity::FixityConfig;
pub use history::{HistoryConfig, TreeConfig};
pub use http::{Hsts, HttpConfig};
pub use ldp::{DefaultModel, LdpConfig};
pub use limits::LimitsConfig;
pub use listen::ListenConfig;
pub(crate) use listen::is_loopback;
pub use log::{LogConfig, LogFormat};
pub use records::{RecordsConfig, RecordsDurability, Warm};
pub use search::SearchConfig;
pub use store::StoreConfig;
pub use telemetry::TelemetryConfig;
pub use webhooks::WebhookConfig;

pub use crate::proxies::ProxyFields;

/// All settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Where the data is, and how long superseded data is kept.
    pub store: StoreConfig,
    /// Which superseded versions are kept.
    pub history: HistoryConfig,
    /// Where the server listens.
    pub listen: ListenConfig,
    /// The server's names, and the origins that may use it.
    pub http: HttpConfig,
    /// Who may do what.
    pub auth: AuthConfig,
    /// The data door.
    pub data: DataConfig,
    /// The repository door.
    pub ldp: LdpConfig,
    /// The change feed.
    pub feed: FeedConfig,
    /// The search.
    pub search: SearchConfig,
    /// The records door.
    pub records: RecordsConfig,
    /// The audit.
    pub audit: AuditConfig,
    /// The fixity auditor.
    pub fixity: FixityConfig,
    /// Log lines.
    pub log: LogConfig,
    /// Traces and metrics for a collector.
    pub telemetry: TelemetryConfig,
    /// What clients may take of the server.
    pub limits: LimitsConfig,
}

/// Why settings are refused: each value is valid, but together they are not allowed.
#[derive(Debug, Error)]
#[error("configuration: {0}")]
pub struct ConfigError(String);

impl Config {
    /// The options of the domain.
    pub fn library_options(&self) -> LibraryOptions {
        LibraryOptions {
            grace: self.store.grace,
            history: History { resources: self.history.resources, volumes: self.history.volumes },
            // They were checked.
            history_trees: self.history.trees().unwrap_or_default(),
            plan_life: self.store.plan_life,
            clock_skew_max: self.store.clock_skew_max,
            call_timeout: self.store.call_timeout,
            frame_level: self.store.frame_level,
            selection_life: self.data.selection_life,
            selection_life_max: self.data.selection_life_max,
            memory_bytes: self.limits.memory_bytes(usable_memory()),
            read_ahead_bytes: usize::try_from(self.data.read_ahead).unwrap_or(usize::MAX),
            bulk_requests_max: self.data.bulk_requests_max,
            audit_max_lag: self.audit.max_lag,
            audit_keep: self.audit.keep,
            feed_keep: self.feed.keep,
            feed_actors: self.feed.actors,
            transaction_timeout: self.ldp.transaction_timeout,
            transaction_operations_max: self.ldp.transaction_operations_max,
            transaction_bytes_max: self.ldp.transaction_bytes_max,
            transactions_max: self.ldp.transactions_max,
            transactions_of_one_max: self.ldp.transactions_per_client,
            ..LibraryOptions::default()
        }
    }
}

fn refused(reason: impl Into<String>) -> ConfigError {
    ConfigError(reason.into())
}
