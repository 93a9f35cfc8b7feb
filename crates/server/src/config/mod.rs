//! The settings of the server, in sections, with defaults. Where the store is, and the settings of
//! its engine, are not among them: the program that opens the store adds those, and reads all of
//! them from files, environment and flags. `docs/configuration.md` lists them.

mod address;
mod history;
mod records;
mod text;
mod webhooks;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use door_data::DataSettings;
use door_ldp::{ExternalPrefix, LdpSettings, SearchSettings};
use fixity::FixityOptions;
use heads::{History, LibraryOptions};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::cors::Origins;
use crate::hosts::Hosts;
use crate::proxies::Proxies;

pub use address::ListenAddress;
pub use history::{HistoryConfig, TreeConfig};
pub use records::{RecordsDurability, Warm};
pub use webhooks::WebhookConfig;

pub use crate::proxies::ProxyFields;

/// All settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// How the store is used, and how long superseded data is kept.
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

/// `[store]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreConfig {
    /// How long condemned data is kept; longer than `plan_life` and `clock_skew_max` together.
    #[serde(with = "humantime_serde")]
    pub grace: Duration,
    /// How long a bulk response may read the revisions that it began with.
    #[serde(with = "humantime_serde")]
    pub plan_life: Duration,
    /// The greatest difference between two servers' clocks.
    #[serde(with = "humantime_serde")]
    pub clock_skew_max: Duration,
    /// Deadline of one call of the store.
    #[serde(with = "humantime_serde")]
    pub call_timeout: Duration,
    /// DEFLATE level of the frames that an import makes, 1 to 9.
    pub frame_level: u8,
    /// Time between passes that collect superseded data and sweep ended selections.
    #[serde(with = "humantime_serde")]
    pub sweep_interval: Duration,
}

impl Default for StoreConfig {
    fn default() -> Self {
        let library = LibraryOptions::default();
        Self {
            grace: library.grace,
            plan_life: library.plan_life,
            clock_skew_max: library.clock_skew_max,
            call_timeout: library.call_timeout,
            frame_level: library.frame_level,
            sweep_interval: Duration::from_secs(60),
        }
    }
}

/// `[listen]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenConfig {
    /// Address or Unix socket (`unix:PATH`) of plain HTTP (HTTP/1.1 and HTTP/2), or `off`.
    #[serde(with = "text::address")]
    pub http: Option<ListenAddress>,
    /// Who may open that socket: the mode of its file.
    #[serde(with = "text::mode")]
    pub http_mode: u32,
    /// Whether connections to `http` begin with the PROXY protocol.
    pub http_proxy_protocol: bool,
    /// Address of HTTPS, or `off`.
    #[serde(with = "text::address")]
    pub tls: Option<SocketAddr>,
    /// Whether connections to `tls` and `redirect` begin with the PROXY protocol.
    pub tls_proxy_protocol: bool,
    /// Address at which HTTP is redirected to HTTPS, or `off`.
    #[serde(with = "text::address")]
    pub redirect: Option<SocketAddr>,
    /// The certificate chain, PEM. By default the server makes a certificate for loopback and keeps
    /// it in the data folder. Without a folder it makes one at each start.
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    pub tls_key: Option<PathBuf>,
}

impl Default for ListenConfig {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            http: Some(loopback(8080).into()),
            http_mode: 0o660,
            http_proxy_protocol: false,
            tls: Some(loopback(8443)),
            tls_proxy_protocol: false,
            redirect: None,
            tls_cert: None,
            tls_key: None,
        }
    }
}

/// `[http]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpConfig {
    /// The names that `Host` may carry, with a port (only at that one) or without (at each); `*`:
    /// any. On loopback addresses the server also answers loopback's own names, and only those by
    /// default. On other addresses the default is any name.
    pub hosts: Vec<String>,
    /// The origins (`https://reader.example.org`) whose pages may use the server from a browser;
    /// `*`: any, for reading. By default only its own.
    pub cors_origins: Vec<String>,
    /// The proxies whose word counts on who asks: addresses and networks (`10.0.0.0/8`), and `unix`
    /// for all that connect to a Unix socket.
    pub trusted_proxies: Vec<String>,
    /// The fields that those proxies write: `x-forwarded` or `forwarded`.
    pub proxy_fields: ProxyFields,
    /// The path below which all routes are; empty: `/`.
    pub base_path: String,
    /// For how long browsers use HTTPS only (HTTP Strict Transport Security).
    pub hsts: Hsts,
}

/// For how long a browser that came by HTTPS uses nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hsts {
    /// Half a year where `listen.redirect` is set, and otherwise not at all.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// For this time after each response.
    For(Duration),
}

/// Who has a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Everyone.
    Open,
    /// Clients with a token.
    Token,
}

/// `[auth]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuthConfig {
    /// Who may read: `open` or `token`.
    pub read: Access,
    /// Who may change: `open` or `token`.
    pub write: Access,
    /// Allows open reading beyond loopback addresses.
    pub read_open_anywhere: bool,
    /// Allows open changes beyond loopback addresses.
    pub write_open_anywhere: bool,
    /// The names of tokens with which `penates copy --follow` may read the whole store over a
    /// network. It includes the audit and the hashes of tokens.
    pub copy: Vec<String>,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            read: Access::Open,
            write: Access::Token,
            read_open_anywhere: false,
            write_open_anywhere: false,
            copy: Vec::new(),
        }
    }
}

/// What a bulk response does about damage found while it streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDamage {
    /// It ends visibly broken, because its length was promised. The next request gets a whole
    /// archive, with `ERROR.err`.
    Break,
    /// It promises no length, leaves out what is damaged, and names it in `ERROR.err`.
    Report,
}

/// `[data]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DataConfig {
    /// A second path of the data door, besides `/`; empty: none.
    pub prefix: String,
    /// Most volumes of one request; 0: no limit.
    pub max_volumes: u64,
    /// Most pages of one request; 0: no limit.
    pub max_pages: u64,
    /// Most pages of one volume in one request; 0: no limit.
    pub max_pages_per_volume: u64,
    /// Most volumes, and pages by number, that one request may name, existing or not, because each
    /// takes memory; 0: no limit.
    pub ids_max: u64,
    /// Whether a bulk POST creates a selection, through which it can be resumed.
    pub post_selection: bool,
    /// What to do about damage found while streaming.
    pub on_damage: OnDamage,
    /// Most bytes of a form or a list of ids.
    #[serde(with = "text::size")]
    pub form_max: u64,
    /// Most bytes of an imported volume's ZIP.
    #[serde(with = "text::size")]
    pub import_max: u64,
    /// Most selections of one token, or one address without a token; 0: no limit.
    pub selections_max: u64,
    /// Default lifetime of a selection.
    #[serde(with = "humantime_serde")]
    pub selection_life: Duration,
    /// Longest lifetime of a selection.
    #[serde(with = "humantime_serde")]
    pub selection_life_max: Duration,
    /// Bytes that all bulk responses together may read ahead of their clients.
    #[serde(with = "text::size")]
    pub read_ahead: u64,
    /// Concurrent bulk responses; further requests get 503.
    pub bulk_requests_max: usize,
}

impl DataConfig {
    /// What the door needs to know.
    pub(crate) fn settings(&self) -> DataSettings {
        DataSettings {
            max_volumes: self.max_volumes,
            max_pages: self.max_pages,
            max_pages_per_volume: self.max_pages_per_volume,
            ids_max: self.ids_max,
            post_selection: self.post_selection,
            on_damage: match self.on_damage {
                OnDamage::Break => volumes::OnDamage::Break,
                OnDamage::Report => volumes::OnDamage::Report,
            },
            form_bytes_max: self.form_max,
            import_bytes_max: self.import_max,
            selections_per_requester_max: self.selections_max,
        }
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        let (library, door) = (LibraryOptions::default(), DataSettings::default());
        Self {
            prefix: "/data-api".to_owned(),
            max_volumes: door.max_volumes,
            max_pages: door.max_pages,
            max_pages_per_volume: door.max_pages_per_volume,
            ids_max: door.ids_max,
            post_selection: door.post_selection,
            on_damage: OnDamage::Break,
            form_max: door.form_bytes_max,
            import_max: door.import_bytes_max,
            selections_max: door.selections_per_requester_max,
            selection_life: library.selection_life,
            selection_life_max: library.selection_life_max,
            read_ahead: library.read_ahead_bytes as u64,
            bulk_requests_max: library.bulk_requests_max,
        }
    }
}

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

/// `[ldp]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LdpConfig {
    /// Path of the repository.
    pub base: String,
    /// Scheme and authority under which clients see this server, such as `https://example.org`;
    /// empty: those of each request.
    pub origin: String,
    /// The default model of a graph: `container` or `rdf-source`.
    pub default_model: DefaultModel,
    /// Whether unconditional replacement is refused (428), including pages and METS of volumes.
    pub require_condition: bool,
    /// Whether versions of a deleted resource can be read, and those of an earlier one with the
    /// same path.
    pub deleted_versions: bool,
    /// Most bytes of a graph or an update.
    #[serde(with = "text::size")]
    pub rdf_max: u64,
    /// Most statements of a graph.
    pub triples_max: usize,
    /// Most bytes of a content; 0: no limit.
    #[serde(with = "text::size")]
    pub binary_max: u64,
    /// How long a transaction lasts after it was begun or renewed.
    #[serde(with = "humantime_serde")]
    pub transaction_timeout: Duration,
    /// Most operations of a transaction.
    pub transaction_operations_max: usize,
    /// Most bytes of descriptions and of small contents that a transaction stages.
    #[serde(with = "text::size")]
    pub transaction_bytes_max: u64,
    /// Most transactions that are open at once, about.
    pub transactions_max: u64,
    /// Most of them that one client has open, about.
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
            rdf_bytes_max: usize::try_from(self.rdf_max).unwrap_or(usize::MAX),
            triples_max: self.triples_max,
            binary_bytes_max: self.binary_max,
            search: SearchSettings::default(),
        })
    }

    fn check(&self, data_prefix: &str) -> Result<(), ConfigError> {
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
        let first = base.split('/').nth(1).unwrap_or_default();
        if first.is_empty() || ROUTES.contains(&first) || base == data_prefix {
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
            rdf_max: door.rdf_bytes_max as u64,
            triples_max: door.triples_max,
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

/// `[feed]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FeedConfig {
    /// How long changes are kept; zero: none are recorded.
    #[serde(with = "humantime_serde")]
    pub keep: Duration,
    /// Consumers that may follow at the same time; a party may have as many as it leaves free.
    pub consumers_max: usize,
    /// Whether events name the token with which a change was made. Needs level 7.
    pub actors: bool,
    /// Webhooks that get events.
    pub webhooks: Vec<WebhookConfig>,
    /// Networks (`10.0.0.0/8`) that webhooks may be sent to besides the public Internet, also
    /// without TLS.
    pub webhooks_networks: Vec<String>,
}

impl Default for FeedConfig {
    fn default() -> Self {
        let keep = LibraryOptions::default().feed_keep;
        Self { keep, consumers_max: 1_000, actors: false, webhooks: Vec::new(), webhooks_networks: Vec::new() }
    }
}

/// `[search]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchConfig {
    /// Whether this server keeps the search index up to date. One of several servers does it.
    pub index: bool,
    /// Most rows of the index that one search reads, about.
    pub rows_max: usize,
    /// The time after which a search ends with what it has.
    #[serde(with = "humantime_serde")]
    pub time_max: Duration,
    /// Most results of one page.
    pub results_max: usize,
}

impl Default for SearchConfig {
    fn default() -> Self {
        let SearchSettings { rows_max, time_max, results_max } = SearchSettings::default();
        Self { index: true, rows_max, time_max, results_max }
    }
}

impl SearchConfig {
    /// What the door needs to know.
    pub(crate) fn settings(&self) -> SearchSettings {
        let Self { rows_max, time_max, results_max, .. } = *self;
        SearchSettings { rows_max, time_max, results_max }
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.rows_max == 0 || self.results_max == 0 || self.time_max.is_zero() {
            return Err(refused("search.rows_max, search.results_max and search.time_max must be greater than 0"));
        }
        Ok(())
    }
}

/// `[records]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordsConfig {
    /// Address of the Redis protocol, or `off`.
    #[serde(with = "text::address")]
    pub listen: Option<SocketAddr>,
    /// Whether the server goes on without that port if another program has it. It is no setting.
    #[serde(skip)]
    pub gives_way: bool,
    /// Whether that address speaks TLS, with the certificate of HTTPS.
    pub tls: bool,
    /// Whether connections begin with the PROXY protocol.
    pub proxy_protocol: bool,
    /// How records change.
    pub mode: ::records::Mode,
    /// What an acknowledged change survives.
    pub durability: RecordsDurability,
    /// What is read after a start, before the server is ready.
    pub warm: Warm,
    /// The longest time that this may take.
    #[serde(with = "humantime_serde")]
    pub warm_max: Duration,
    /// How long a command may take, unless its connection asks for another time.
    #[serde(with = "humantime_serde")]
    pub deadline: Duration,
    /// The longest time that a connection may ask for.
    #[serde(with = "humantime_serde")]
    pub deadline_max: Duration,
    /// How long a client may be silent.
    #[serde(with = "humantime_serde")]
    pub silence_max: Duration,
    /// Bytes of one request; also what one connection may make the server hold.
    #[serde(with = "text::size")]
    pub request_max: u64,
}

impl Default for RecordsConfig {
    fn default() -> Self {
        Self {
            listen: None,
            gives_way: false,
            tls: false,
            proxy_protocol: false,
            mode: ::records::Mode::Atomic,
            durability: RecordsDurability::Sync,
            warm: Warm::Off,
            warm_max: Duration::from_secs(60),
            deadline: Duration::from_secs(1),
            deadline_max: Duration::from_secs(60),
            silence_max: Duration::from_secs(3_600),
            request_max: 1 << 20,
        }
    }
}

/// `[audit]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditConfig {
    /// How far the audit may lag before requests are refused.
    #[serde(with = "humantime_serde")]
    pub max_lag: Duration,
    /// Whether changes and refusals are recorded, and whether the answer to a change waits for its
    /// record.
    pub changes: AuditMode,
    /// Likewise for reads of resources of the repository. (Requests for text are always recorded.)
    pub resource_reads: AuditMode,
    /// How long records are kept, or `forever`.
    #[serde(with = "text::keep")]
    pub keep: Option<Duration>,
}

/// Whether something is recorded in the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditMode {
    /// It is not.
    Off,
    /// It is, soon after the answer: an answer may be known of which the record was lost.
    Queued,
    /// It is, before the answer.
    Awaited,
}

impl Default for AuditConfig {
    fn default() -> Self {
        let LibraryOptions { audit_max_lag: max_lag, audit_keep: keep, .. } = LibraryOptions::default();
        Self { max_lag, changes: AuditMode::Awaited, resource_reads: AuditMode::Off, keep }
    }
}

/// `[fixity]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FixityConfig {
    /// Time from the beginning of a pass, which reads everything, to that of the next one, or
    /// `off`.
    #[serde(with = "text::period")]
    pub every: Option<Duration>,
    /// Most bytes per second that this server reads in a pass; 0: no limit.
    #[serde(with = "text::size")]
    pub rate: u64,
}

impl Default for FixityConfig {
    fn default() -> Self {
        let options = FixityOptions::default();
        Self { every: Some(options.every), rate: options.bytes_per_second }
    }
}

impl FixityConfig {
    /// What the auditor needs to know.
    pub(crate) fn options(&self) -> FixityOptions {
        let default = FixityOptions::default();
        FixityOptions { every: self.every.unwrap_or(default.every), bytes_per_second: self.rate, ..default }
    }
}

/// `[telemetry]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TelemetryConfig {
    /// Address of a collector that takes OTLP over HTTP, without `/v1/traces`. By default nothing
    /// is sent.
    pub otlp: Option<String>,
    /// How often metrics are sent.
    #[serde(with = "humantime_serde")]
    pub every: Duration,
    /// One of so many requests is traced, if its client does not say whether it traces it.
    pub sample_one_of: u32,
    /// The name of the service in traces and metrics.
    pub service: String,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { otlp: None, every: Duration::from_secs(60), sample_one_of: 1, service: "penates".to_owned() }
    }
}

impl TelemetryConfig {
    fn check(&self) -> Result<(), ConfigError> {
        if self.every.is_zero() || self.sample_one_of == 0 {
            return Err(refused("telemetry.every and telemetry.sample_one_of must be at least 1"));
        }
        let Some(address) = &self.otlp else { return Ok(()) };
        if address.contains('@') {
            // The message must not repeat a password.
            return Err(refused("telemetry.otlp must not name a user or a password"));
        }
        let is_address = address.parse::<http::Uri>().is_ok_and(|uri| {
            let scheme = uri.scheme_str().unwrap_or_default();
            ["http", "https"].contains(&scheme) && uri.query().is_none()
        });
        match is_address {
            true => Ok(()),
            false => Err(refused(format!("telemetry.otlp `{address}` must be http:// or https:// with a host"))),
        }
    }
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogConfig {
    /// Format of lines.
    pub format: LogFormat,
    /// What is logged: a level, or directives of `tracing-subscriber` such as `info,server=debug`.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info,fjall=warn,lsm_tree=warn".to_owned() }
    }
}

impl LogConfig {
    /// The filter of the log. A directive without `=` must be a level: the filter would take any
    /// other word for the name of a target, and log nothing else.
    pub(crate) fn filter(&self) -> Result<EnvFilter, ConfigError> {
        let invalid = |what: String| refused(format!("log.level `{}`: {what}", self.level));
        let directives = self.level.split(',').map(str::trim).filter(|directive| !directive.is_empty());
        for word in directives.filter(|directive| !directive.contains(['=', '[', ']', '{', '}'])) {
            let _: LevelFilter = word.parse().map_err(|_| {
                invalid(format!("`{word}` is no level: write trace, debug, info, warn, error or off, or TARGET=LEVEL"))
            })?;
        }
        EnvFilter::try_new(&self.level).map_err(|error| invalid(error.to_string()))
    }
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsConfig {
    /// Concurrent connections, if the limit of descriptors allows them; further ones wait.
    pub connections: usize,
    /// Concurrent streams of one HTTP/2 connection.
    pub http2_streams: u32,
    /// Longest time for a TLS handshake, for the head of a request, and between requests.
    #[serde(with = "humantime_serde")]
    pub header_time: Duration,
    /// Longest pause within the body of a request.
    #[serde(with = "humantime_serde")]
    pub body_pause: Duration,
    /// Least bytes per second of a body, averaged over each `body_pause` in which the server waits
    /// for it; 0: any.
    #[serde(with = "text::size")]
    pub body_rate: u64,
    /// Requests per second of one token or address, in the long run; 0: any.
    pub request_rate: u32,
    /// How many requests of one token or address may come at once, before `request_rate` counts.
    pub request_burst: u32,
    /// Requests of one token or address at once, until their responses end; 0: any.
    pub requests_at_once: u32,
    /// Bytes of responses that one token or address gets in a day; 0: any.
    #[serde(with = "text::size")]
    pub bytes_per_day: u64,
    /// Memory that clients together may take with bodies, lists of ids, plans and graphs; a request
    /// that finds too little waits a while and is then asked to retry. No token and no address
    /// has more of it than it leaves free.
    #[serde(with = "text::size")]
    pub memory: u64,
    /// How long a client may take nothing of a response before the response ends.
    #[serde(with = "humantime_serde")]
    pub stall: Duration,
    /// How long `/readyz` says no before the server stops accepting, if somebody asks it.
    #[serde(with = "humantime_serde")]
    pub drain: Duration,
    /// How long responses may continue after a stop signal.
    #[serde(with = "humantime_serde")]
    pub shutdown_time: Duration,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            connections: 16_384,
            http2_streams: 32,
            header_time: Duration::from_secs(30),
            body_pause: Duration::from_secs(30),
            body_rate: 1 << 10,
            request_rate: 0,
            request_burst: 1_000,
            requests_at_once: 0,
            bytes_per_day: 0,
            memory: LibraryOptions::default().memory_bytes,
            stall: Duration::from_secs(60),
            drain: Duration::from_secs(5),
            shutdown_time: Duration::from_secs(30),
        }
    }
}

/// Why settings are refused: each value is valid, but together they are not allowed.
#[derive(Debug, Error)]
#[error("configuration: {0}")]
pub struct ConfigError(String);

impl Config {
    /// Refuses what would break a promise: listening beyond loopback without authentication, a
    /// grace that is too short.
    pub fn check(&self) -> Result<(), ConfigError> {
        let http = self.listen.http.as_ref().and_then(ListenAddress::tcp);
        self.check_addresses([http, self.listen.tls].into_iter().flatten())?;
        self.check_proxies()?;
        self.log.filter()?;
        self.telemetry.check()?;
        self.search.check()?;
        self.hosts()?;
        self.origins()?;
        if self.listen.tls_cert.is_some() != self.listen.tls_key.is_some() {
            return Err(refused("listen.tls_cert and listen.tls_key belong together: set both or none"));
        }
        if self.limits.connections == 0 || self.limits.http2_streams == 0 {
            return Err(refused("limits.connections and limits.http2_streams must be at least 1"));
        }
        if self.limits.request_burst == 0 {
            return Err(refused("limits.request_burst must be at least 1; limits.request_rate = 0 allows any rate"));
        }
        self.check_memory()?;
        if !self.data.prefix.is_empty() {
            check_path("data.prefix", &self.data.prefix)?;
        }
        self.check_base_path()?;
        self.ldp.check(&self.data.prefix)?;
        self.feed.check(&self.ldp.origin)?;
        self.history.trees()?;
        self.library_options().check().map_err(|error| refused(error.to_string()))
    }

    /// Refuses a base path that clients write in several ways, or that begins like a route: the
    /// administrator's commands name routes without it.
    fn check_base_path(&self) -> Result<(), ConfigError> {
        let path = &self.http.base_path;
        if path.is_empty() {
            return Ok(());
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        let is_segment = |name: &str| !["", ".", ".."].contains(&name) && name.chars().all(is_plain);
        let names: Vec<_> = path.split('/').collect();
        if !names[0].is_empty() || names.len() < 2 || !names[1..].iter().all(|name| is_segment(name)) {
            let what = "must be like `/penates`: names of letters, digits and `-._~`, each after a `/`";
            return Err(refused(format!("http.base_path `{path}` {what}")));
        }
        let begin = |path: &str| path.split('/').nth(1).map(str::to_owned);
        let own = [&self.data.prefix, &self.ldp.base].into_iter().filter_map(|path| begin(path));
        let taken: Vec<_> = ROUTES.iter().map(|name| (*name).to_owned()).chain(own).collect();
        match names[1..].iter().find(|name| taken.iter().any(|route| route == *name)) {
            Some(name) => {
                Err(refused(format!("http.base_path `{path}` has `{name}`, which begins routes of the server")))
            }
            None => Ok(()),
        }
    }

    /// Refuses what only a proxy makes possible if there is none, and a redirect to nowhere.
    fn check_proxies(&self) -> Result<(), ConfigError> {
        let proxies = self.proxies()?;
        let ListenConfig { http, http_proxy_protocol, tls, tls_proxy_protocol, redirect, .. } = &self.listen;
        let announces = *http_proxy_protocol || *tls_proxy_protocol || self.records.proxy_protocol;
        if announces && !proxies.have_addresses() {
            let what =
                "the PROXY protocol is spoken by trusted proxies only: set their addresses in http.trusted_proxies";
            return Err(refused(what));
        }
        if *http_proxy_protocol && matches!(http, Some(ListenAddress::Unix(_))) {
            let what = "listen.http_proxy_protocol is for an address: at a Unix socket a proxy has to write fields";
            return Err(refused(what));
        }
        if redirect.is_some() && tls.is_none() {
            return Err(refused("listen.redirect needs listen.tls: there is no HTTPS to redirect to"));
        }
        Ok(())
    }

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
            memory_bytes: self.limits.memory,
            read_ahead_bytes: usize::try_from(self.data.read_ahead).unwrap_or(usize::MAX),
            bulk_requests_max: self.data.bulk_requests_max,
            audit_max_lag: self.audit.max_lag,
            audit_keep: self.audit.keep,
            feed_keep: self.feed.keep,
            transaction_timeout: self.ldp.transaction_timeout,
            transaction_operations_max: self.ldp.transaction_operations_max,
            transaction_bytes_max: self.ldp.transaction_bytes_max,
            transactions_max: self.ldp.transactions_max,
            transactions_of_one_max: self.ldp.transactions_per_client,
            ..LibraryOptions::default()
        }
    }

    /// Refuses a budget that the largest request does not fit into twice.
    fn check_memory(&self) -> Result<(), ConfigError> {
        let settings = [self.data.settings().memory_bytes_max(), self.ldp.settings("")?.memory_bytes_max()];
        let largest = settings.into_iter().max().unwrap_or_default();
        let least = largest.saturating_mul(2);
        if budget::Memory::largest_share(self.limits.memory) >= least {
            return Ok(());
        }
        Err(refused(format!(
            "limits.memory ({}) must be at least {} for the largest allowed request: raise it, or lower data.ids_max, \
             data.form_max and ldp.rdf_max",
            text::size::format(self.limits.memory),
            text::size::format((least + least / 7 + 1).next_multiple_of(1 << 20)),
        )))
    }

    /// The server's names.
    pub(crate) fn hosts(&self) -> Result<Hosts, ConfigError> {
        Hosts::of(&self.http.hosts, &self.ldp.origin).map_err(|error| refused(format!("http.hosts: {error}")))
    }

    /// The origins that may use it.
    pub(crate) fn origins(&self) -> Result<Origins, ConfigError> {
        Origins::parse(&self.http.cors_origins).map_err(|error| refused(format!("http.cors_origins: {error}")))
    }

    /// The proxies that it trusts.
    pub(crate) fn proxies(&self) -> Result<Proxies, ConfigError> {
        Proxies::of(&self.http).map_err(|error| refused(format!("http.trusted_proxies: {error}")))
    }

    /// Refuses addresses of HTTP that more clients can reach than those that may.
    pub(crate) fn check_addresses(&self, mut addresses: impl Iterator<Item = SocketAddr>) -> Result<(), ConfigError> {
        let AuthConfig { read, write, read_open_anywhere, write_open_anywhere, .. } = self.auth;
        let beyond = addresses.find(|address| !is_loopback(*address));
        let Some(address) = beyond else { return Ok(()) };
        if write == Access::Open && !write_open_anywhere {
            return Err(refused(format!(
                "on {address}, which is not a loopback address, anybody could change the data: set auth.write = \"token\", \
                 or auth.write_open_anywhere = true if that is what you want"
            )));
        }
        if read == Access::Open && !read_open_anywhere {
            return Err(refused(format!(
                "on {address}, which is not a loopback address, anybody could read the data: set auth.read = \"token\", \
                 or auth.read_open_anywhere = true if that is what you want"
            )));
        }
        Ok(())
    }
}

/// Whether only this machine can reach an address, also where IPv4 is written as IPv6.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// How paths of the server's own routes begin.
const ROUTES: [&str; 17] = [
    "admin",
    "assets",
    "feed",
    "fixity",
    "healthz",
    "metrics",
    "openapi",
    "openapi.json",
    "pages",
    "readyz",
    "records",
    "selections",
    "sign-in",
    "sign-out",
    "stat",
    "tokencount",
    "volumes",
];

/// Refuses a path that cannot be a prefix of others.
fn check_path(key: &str, path: &str) -> Result<(), ConfigError> {
    if path.starts_with('/') && !path.ends_with('/') && !path.contains(['{', '}', '*']) {
        return Ok(());
    }
    Err(refused(format!("{key} `{path}` must begin with `/`, not end with it, and have none of `{{}}*`")))
}

fn refused(reason: impl Into<String>) -> ConfigError {
    ConfigError(reason.into())
}
