//! Refuses settings of which each is valid, but which are not allowed together.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Access, AuthConfig, Config, ConfigError, ListenAddress, ListenConfig, is_loopback, refused, text};
use crate::cors::Origins;
use crate::hosts::Hosts;
use crate::proxies::Proxies;

impl Config {
    /// Refuses what would break a promise: listening beyond loopback without authentication, a
    /// grace that is too short.
    pub fn check(&self) -> Result<(), ConfigError> {
        let http = self.listen.http.as_ref().and_then(ListenAddress::tcp);
        self.check_addresses([http, self.listen.tls, self.records.listen].into_iter().flatten())?;
        self.check_proxies()?;
        self.check_times()?;
        self.log.filter()?;
        self.telemetry.check()?;
        self.search.check()?;
        self.hosts()?;
        self.origins()?;
        if let Some(ListenAddress::Tcp(address)) = self.listen.admin {
            let what = "whoever reaches it has all rights, so it is a Unix socket: write `unix:` and a path";
            return Err(refused(format!("listen.admin ({address}): {what}")));
        }
        if self.listen.tls_cert.is_some() != self.listen.tls_key.is_some() {
            return Err(refused("listen.tls_cert and listen.tls_key belong together: set both or none"));
        }
        if self.limits.connections == Some(0) || self.limits.http2_streams == 0 {
            return Err(refused("limits.connections and limits.http2_streams must be at least 1"));
        }
        if self.limits.request_burst == 0 {
            return Err(refused("limits.request_burst must be at least 1; limits.request_rate = 0 allows any rate"));
        }
        if self.limits.command_burst == 0 {
            return Err(refused("limits.command_burst must be at least 1; limits.command_rate = 0 allows any rate"));
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

    /// Refuses times that would end everything at once, and those that nobody waits for: sums with
    /// them would overflow.
    fn check_times(&self) -> Result<(), ConfigError> {
        let Self { store, limits, records, audit, data, .. } = self;
        let (moment, any) = (Duration::from_millis(1), Duration::from_nanos(1));
        let times = [
            ("store.call_timeout", store.call_timeout, moment, WAIT_MAX),
            ("store.sweep_interval", store.sweep_interval, moment, WAIT_MAX),
            ("limits.header_time", limits.header_time, moment, WAIT_MAX),
            ("limits.body_pause", limits.body_pause, moment, WAIT_MAX),
            ("limits.stall", limits.stall, moment, WAIT_MAX),
            ("records.deadline", records.deadline, any, WAIT_MAX),
            ("records.deadline_max", records.deadline_max, any, WAIT_MAX),
            ("records.silence_max", records.silence_max, any, WAIT_MAX),
            ("audit.max_lag", audit.max_lag, moment, WAIT_MAX),
            ("data.selection_life", data.selection_life, moment, KEEP_MAX),
            ("data.selection_life_max", data.selection_life_max, moment, KEEP_MAX),
            ("limits.drain", limits.drain, Duration::ZERO, WAIT_MAX),
            ("limits.shutdown_time", limits.shutdown_time, Duration::ZERO, WAIT_MAX),
            ("store.grace", store.grace, Duration::ZERO, KEEP_MAX),
            ("store.plan_life", store.plan_life, Duration::ZERO, KEEP_MAX),
            ("store.clock_skew_max", store.clock_skew_max, Duration::ZERO, KEEP_MAX),
        ];
        let wrong = times.into_iter().find(|(_, time, least, most)| time < least || time > most);
        let Some((key, time, least, most)) = wrong else { return Ok(()) };
        let bound = match time < least {
            true => format!("at least {}", humantime::format_duration(least)),
            false => format!("at most {} days", most.as_secs() / DAY_S),
        };
        Err(refused(format!("{key} ({}) must be {bound}", humantime::format_duration(time))))
    }

    /// Refuses a budget that the largest request does not fit into. Of `auto` the most that it can be
    /// counts: where it is less, requests have to be smaller ([`Config::allow_more_than`]).
    fn check_memory(&self) -> Result<(), ConfigError> {
        let memory = self.limits.memory_bytes(None);
        let Some((largest, keys)) = self.allow_more_than(memory)? else { return Ok(()) };
        let least = largest.saturating_mul(2);
        let least = least.saturating_add(least / 7 + 1).checked_next_multiple_of(1 << 20);
        Err(refused(format!(
            "limits.memory ({}) must be at least {} for the largest allowed request: raise it, or lower {keys}",
            text::size::format(memory),
            text::size::format(least.unwrap_or(u64::MAX)),
        )))
    }

    /// The most memory that a request of each kind takes, and the settings that allow it.
    fn request_bytes(&self) -> Result<[(u64, &'static str); 4], ConfigError> {
        Ok([
            (self.data.settings().memory_bytes_max(), "data.ids_max, data.form_max"),
            (self.ldp.settings("")?.memory_bytes_max(), "ldp.rdf_max, ldp.triples_max"),
            (self.search.settings().memory_bytes_max(), "search.results_max"),
            (self.records.request_limits().memory_bytes_max(), "records.request_max"),
        ])
    }

    /// If settings allow requests that do not fit into a `limits.memory` of so many bytes: what the
    /// largest one takes, and the keys of those settings.
    pub(crate) fn allow_more_than(&self, memory_bytes: u64) -> Result<Option<(u64, String)>, ConfigError> {
        let most = budget::Memory::largest_request(memory_bytes);
        let larger = self.request_bytes()?.into_iter().filter(|(bytes, _)| *bytes > most);
        let (bytes, keys): (Vec<_>, Vec<_>) = larger.unzip();
        Ok(bytes.into_iter().max().map(|largest| (largest, keys.join(", "))))
    }

    /// The bytes of `ldp.update_memory`, if that is more than one request gets of a `limits.memory` of so
    /// many bytes: an update gets no more than that either.
    pub(crate) fn update_memory_beyond(&self, memory_bytes: u64) -> Option<u64> {
        self.ldp.update_memory.filter(|bytes| *bytes > budget::Memory::largest_request(memory_bytes))
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

    /// Refuses addresses that more clients can reach than those that may.
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

/// Seconds of a day.
const DAY_S: u64 = 24 * 3_600;

/// The longest time that something is waited for.
const WAIT_MAX: Duration = Duration::from_secs(366 * DAY_S);

/// The longest time that something is kept: a century.
const KEEP_MAX: Duration = Duration::from_secs(36_525 * DAY_S);

/// How paths of the server's own routes begin.
pub(super) const ROUTES: [&str; 18] = [
    "admin",
    "assets",
    "audit",
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
pub(super) fn check_path(key: &str, path: &str) -> Result<(), ConfigError> {
    if path.starts_with('/') && !path.ends_with('/') && !path.contains(['{', '}', '*']) {
        return Ok(());
    }
    Err(refused(format!("{key} `{path}` must begin with `/`, not end with it, and have none of `{{}}*`")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Why a configuration is refused that was changed in this way.
    fn refusal(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn a_time_of_zero_that_would_break_the_server_is_refused_by_name() {
        let zero = Duration::ZERO;
        for (key, refused) in [
            ("store.call_timeout", refusal(|config| config.store.call_timeout = zero)),
            ("store.sweep_interval", refusal(|config| config.store.sweep_interval = zero)),
            ("limits.header_time", refusal(|config| config.limits.header_time = zero)),
            ("limits.body_pause", refusal(|config| config.limits.body_pause = zero)),
            ("limits.stall", refusal(|config| config.limits.stall = zero)),
            ("records.deadline", refusal(|config| config.records.deadline = zero)),
            ("records.deadline_max", refusal(|config| config.records.deadline_max = zero)),
            ("records.silence_max", refusal(|config| config.records.silence_max = zero)),
            ("audit.max_lag", refusal(|config| config.audit.max_lag = zero)),
            ("data.selection_life", refusal(|config| config.data.selection_life = zero)),
        ] {
            assert!(refused.contains(&format!("{key} (0s) must be at least 1")), "{refused}");
        }
        let mut config = Config::default();
        (config.limits.drain, config.limits.shutdown_time) = (zero, zero);
        config.limits.stall = Duration::from_millis(1);
        config.check().unwrap();
    }

    #[test]
    fn a_time_that_nobody_waits_for_is_refused_by_name() {
        let refused = refusal(|config| config.store.call_timeout = Duration::MAX);
        assert!(refused.contains("store.call_timeout (") && refused.contains("must be at most 366 days"), "{refused}");
        // Their sum would overflow.
        let refused = refusal(|config| {
            (config.store.plan_life, config.store.clock_skew_max) = (Duration::MAX, Duration::MAX);
        });
        assert!(refused.contains("store.plan_life ("), "{refused}");
        let refused = refusal(|config| config.audit.max_lag = Duration::MAX);
        assert!(refused.contains("audit.max_lag (") && refused.contains("must be at most 366 days"), "{refused}");
        let refused = refusal(|config| config.data.selection_life_max = Duration::MAX);
        assert!(refused.contains("data.selection_life_max (") && refused.contains("at most 36525 days"), "{refused}");
        let mut config = Config::default();
        (config.limits.stall, config.store.grace) = (WAIT_MAX, KEEP_MAX);
        (config.audit.max_lag, config.data.selection_life_max) = (WAIT_MAX, KEEP_MAX);
        config.check().unwrap();
    }

    #[test]
    fn an_administrator_has_a_socket_and_no_port() {
        let refused = refusal(|config| config.listen.admin = Some("127.0.0.1:8081".parse().unwrap()));
        assert!(refused.contains("listen.admin (127.0.0.1:8081)") && refused.contains("`unix:`"), "{refused}");
        let mut config = Config::default();
        config.listen.admin = Some("unix:/run/penates/admin.sock".parse().unwrap());
        config.check().unwrap();
    }

    #[test]
    fn an_update_gets_at_least_a_mebibyte() {
        let refused = refusal(|config| config.ldp.update_memory = Some(0));
        assert!(refused.contains("ldp.update_memory is at least 1MiB"), "{refused}");
        let mut config = Config::default();
        config.ldp.update_memory = Some(1 << 20);
        config.check().unwrap();
    }

    #[test]
    fn more_memory_for_an_update_than_one_request_gets_is_found_out() {
        let mut config = Config::default();
        let beyond = |config: &Config| config.update_memory_beyond(512 << 20);
        assert_eq!(beyond(&config), None);
        config.ldp.update_memory = Some(224 << 20);
        assert_eq!(beyond(&config), None);
        config.ldp.update_memory = Some(225 << 20);
        assert_eq!(beyond(&config), Some(225 << 20));
        config.check().unwrap();
    }

    #[test]
    fn a_request_that_no_memory_suffices_for_is_refused_by_the_setting_that_allows_it() {
        let refused = refusal(|config| config.records.request_max = 1 << 30);
        assert!(refused.contains("limits.memory (512MiB) must be at least "), "{refused}");
        assert!(refused.ends_with("raise it, or lower records.request_max"), "{refused}");
        let refused = refusal(|config| config.search.results_max = 100_000);
        assert!(refused.ends_with("raise it, or lower search.results_max"), "{refused}");
        let refused = refusal(|config| {
            (config.records.request_max, config.data.form_max) = (u64::MAX, u64::MAX);
        });
        assert!(refused.ends_with("lower data.ids_max, data.form_max, records.request_max"), "{refused}");
        let mut config = Config::default();
        config.records.request_max = 32 << 20;
        config.check().unwrap();
    }

    #[test]
    fn a_search_may_not_take_longer_than_a_replaced_index_is_kept() {
        let refused = refusal(|config| config.search.time_max = search::TIME_MAX + Duration::from_secs(1));
        assert!(refused.contains("search.time_max (10m 1s) must be at most 10m"), "{refused}");
        let mut config = Config::default();
        config.search.time_max = search::TIME_MAX;
        config.check().unwrap();
    }

    #[test]
    fn the_repository_has_no_path_of_another_route() {
        for base in ROUTES.map(|name| format!("/{name}/")) {
            let refused = refusal(|config| config.ldp.base.clone_from(&base));
            assert!(refused.contains("is the path of another route"), "{base}: {refused}");
        }
        for base in ["/records:batchGet/", "/audit/x", "/data/volumes"] {
            let refused = refusal(|config| {
                config.ldp.base = base.to_owned();
                config.data.prefix = "/data".to_owned();
            });
            assert!(refused.contains("is the path of another route"), "{base}: {refused}");
        }
        let mut config = Config::default();
        (config.ldp.base, config.data.prefix) = ("/data/rest/".to_owned(), "/data".to_owned());
        config.check().unwrap();
    }
}
