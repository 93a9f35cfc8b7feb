//! Reads the configuration again while the server runs, on SIGHUP or for the administrator. Some
//! settings take effect at once; those that need a restart are named.

use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use door_http::Reason;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::task::AbortOnDropHandle;

use crate::config::{Config, LimitsConfig};
use crate::live::Live;
use crate::systemd::{self, State as Phase};
use crate::{logging, problem};

/// The settings that take effect at once. Limits count for connections and bodies that begin
/// afterwards. See [`How::is_live`] for exceptions.
const LIVE: [&str; 16] = [
    CERTIFICATE[0],
    CERTIFICATE[1],
    "log.level",
    "limits.http2_streams",
    "limits.header_time",
    "limits.body_pause",
    "limits.body_rate",
    "limits.request_rate",
    "limits.request_burst",
    "limits.command_rate",
    "limits.command_burst",
    "limits.requests_at_once",
    "limits.bytes_per_day",
    STALL,
    "limits.drain",
    "limits.shutdown_time",
];

const CERTIFICATE: [&str; 2] = ["listen.tls_cert", "listen.tls_key"];
const STALL: &str = "limits.stall";

/// A configuration that was read again.
#[derive(Clone, Debug)]
pub struct Reread {
    /// The settings of the server.
    pub config: Config,
    /// All values by section and name, with those that the server does not know itself.
    pub values: Map<String, Value>,
}

/// Reads the configuration again; an error says what is wrong with it.
pub type ReadAgain = Box<dyn Fn() -> Result<Reread, String> + Send + Sync>;

/// The hang-up signals (SIGHUP) of this process. They no longer kill it, unless it belongs to a
/// terminal: one that is closed sends such a signal too.
#[derive(Debug)]
pub struct HangUps(Option<Signal>);

impl HangUps {
    /// Catches them from now on. What is caught before a server runs is not lost.
    pub fn catch() -> io::Result<Self> {
        let is_in_terminal = io::stdin().is_terminal();
        Ok(Self(if is_in_terminal { None } else { Some(signal(SignalKind::hangup())?) }))
    }

    async fn next(&mut self) {
        let caught = match &mut self.0 {
            Some(signal) => signal.recv().await,
            None => None,
        };
        if caught.is_none() {
            std::future::pending().await
        }
    }
}

/// When and how a server reads its configuration again.
pub struct Reload {
    /// The signals to do so.
    pub hang_ups: HangUps,
    /// The values with which the server starts.
    pub values: Map<String, Value>,
    /// Reads it.
    pub read: ReadAgain,
}

/// What a reload did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// Settings with new values that are in force.
    pub changed: Vec<String>,
    /// Settings with new values that need a restart.
    pub restart: Vec<String>,
    /// Whether the files of the certificate were read again.
    pub certificate: bool,
}

/// Reloads the configuration of a server.
pub(crate) struct Reloading {
    live: Arc<Live>,
    how: OnceLock<How>,
    /// The values in force; one reload at a time.
    known: Arc<Mutex<Known>>,
}

struct How {
    read: ReadAgain,
    /// Whether the Redis protocol is spoken.
    serves_records: bool,
}

struct Known {
    config: Config,
    values: Map<String, Value>,
}

impl Reloading {
    pub(crate) fn new(config: &Config, live: Arc<Live>) -> Arc<Self> {
        let known = Arc::new(Mutex::new(Known { config: config.clone(), values: Map::new() }));
        Arc::new(Self { live, how: OnceLock::new(), known })
    }

    /// Reloads at each hang-up signal until the handle is dropped, and from now on for the
    /// administrator.
    pub(crate) async fn start(self: &Arc<Self>, reload: Reload, serves_records: bool) -> AbortOnDropHandle<()> {
        let Reload { mut hang_ups, values, read } = reload;
        self.known.lock().await.values = values;
        let _ = self.how.set(How { read, serves_records });
        let reloading = self.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                hang_ups.next().await;
                // What it did is logged.
                let _ = reloading.reload().await;
            }
        }))
    }

    /// Reloads. Either all that can change does, or nothing.
    pub(crate) async fn reload(self: &Arc<Self>) -> Result<Reloaded, String> {
        let (reloading, known) = (self.clone(), self.known.clone().lock_owned().await);
        // Files may be on a slow disk.
        let reloaded = tokio::task::spawn_blocking(move || reloading.reload_blocking(known)).await;
        reloaded.unwrap_or_else(|panicked| Err(panicked.to_string()))
    }

    fn reload_blocking(&self, mut known: OwnedMutexGuard<Known>) -> Result<Reloaded, String> {
        let Some(how) = self.how.get() else { return Err("this process has no configuration to read".to_owned()) };
        systemd::notify(Phase::Reloading);
        let reloaded = self.change(&mut known, how);
        systemd::notify(Phase::Ready);
        match &reloaded {
            Ok(Reloaded { changed, restart, certificate }) => {
                tracing::info!(?changed, ?restart, certificate, "the configuration was read again");
            }
            Err(error) => tracing::error!(error, "the configuration was not read again; the earlier one stays"),
        }
        reloaded
    }

    fn change(&self, known: &mut Known, how: &How) -> Result<Reloaded, String> {
        let Reread { config, values } = (how.read)()?;
        config.check().map_err(|error| error.to_string())?;
        let certificate = self.live.certificate();
        if let Some(served) = &certificate {
            served.reload(&config.listen).map_err(|error| error.to_string())?;
        }
        logging::set_level(&config.log).map_err(|error| error.to_string())?;
        let limits = &config.limits;
        let (connections, memory) = (known.config.limits.connections, known.config.limits.memory);
        self.live.set_limits(LimitsConfig { connections, memory, ..limits.clone() });
        let differing = differing(&known.values, &values);
        let (changed, restart): (Vec<_>, Vec<_>) = differing.into_iter().partition(|key| how.is_live(key, &config));
        // What needs a restart is named again until it was restarted.
        take(&mut known.values, &values, &changed);
        Ok(Reloaded { changed, restart, certificate: certificate.is_some() })
    }
}

impl How {
    /// Whether a setting takes effect at once.
    fn is_live(&self, key: &str, config: &Config) -> bool {
        // The Redis protocol has the limit of the start. A server that is left without a
        // certificate keeps the one that it has.
        let needs_restart =
            key == STALL && self.serves_records || CERTIFICATE.contains(&key) && config.listen.tls_cert.is_none();
        LIVE.contains(&key) && !needs_restart
    }
}

/// The names of the values that differ.
fn differing(before: &Map<String, Value>, now: &Map<String, Value>) -> Vec<String> {
    let names = now.iter().flat_map(|(section, values)| {
        let values = values.as_object().into_iter().flatten();
        values.map(move |(name, value)| (section, name, value))
    });
    let new = names.filter(|(section, name, value)| before.get(*section).and_then(|of| of.get(*name)) != Some(*value));
    new.map(|(section, name, _)| format!("{section}.{name}")).collect()
}

/// Takes over the values with these names.
fn take(before: &mut Map<String, Value>, now: &Map<String, Value>, keys: &[String]) {
    for (section, name) in keys.iter().filter_map(|key| key.split_once('.')) {
        let new = now.get(section).and_then(|values| values.get(name));
        if let (Some(new), Some(values)) = (new, before.get_mut(section).and_then(Value::as_object_mut)) {
            values.insert(name.to_owned(), new.clone());
        }
    }
}

pub(crate) fn routes(reloading: Arc<Reloading>) -> Router {
    let routes = Router::new().route("/admin/reload", post(reload)).route("/admin/config", get(in_force));
    routes.with_state(reloading)
}

/// `GET /admin/config`: the values in force, by section and name. They name files of secrets, and
/// have no secrets.
async fn in_force(State(reloading): State<Arc<Reloading>>) -> Json<Map<String, Value>> {
    Json(reloading.known.lock().await.values.clone())
}

/// `POST /admin/reload`
async fn reload(State(reloading): State<Arc<Reloading>>) -> Result<Json<Reloaded>, Response> {
    reloading.reload().await.map(Json).map_err(|error| problem::respond(Reason::CONFLICT, &error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    fn reread(config: Config) -> Reread {
        let Value::Object(values) = serde_json::to_value(&config).unwrap() else { panic!("no sections") };
        Reread { config, values }
    }

    /// What two reloads do if the configuration changes from one to another before them.
    async fn reloaded(before: Config, after: Config, serves_records: bool) -> [Reloaded; 2] {
        let reloading = Reloading::new(&before, Live::new(&before.limits));
        let (values, read) = (reread(before).values, Box::new(move || Ok(reread(after.clone()))));
        let started = reloading.start(Reload { hang_ups: HangUps(None), values, read }, serves_records).await;
        let reloaded = [reloading.reload().await.unwrap(), reloading.reload().await.unwrap()];
        drop(started);
        reloaded
    }

    #[tokio::test]
    async fn the_limit_of_stalls_needs_a_restart_where_records_are_served() {
        let mut after = Config::default();
        after.limits.stall = Duration::from_secs(77);
        let [first, second] = reloaded(Config::default(), after.clone(), false).await;
        assert_eq!((first.changed, first.restart), (vec![STALL.to_owned()], Vec::new()));
        assert_eq!((second.changed, second.restart), (Vec::new(), Vec::new()));
        for reloaded in reloaded(Config::default(), after, true).await {
            assert_eq!((reloaded.changed, reloaded.restart), (Vec::new(), vec![STALL.to_owned()]));
        }
    }

    #[tokio::test]
    async fn memory_and_connections_stay_as_they_are_until_a_restart() {
        let mut after = Config::default();
        (after.limits.memory, after.limits.connections) = (Some(1 << 30), Some(5));
        let names = vec!["limits.connections".to_owned(), "limits.memory".to_owned()];
        for reloaded in reloaded(Config::default(), after, false).await {
            assert_eq!((reloaded.changed, reloaded.restart), (Vec::new(), names.clone()));
        }
    }

    #[tokio::test]
    async fn a_certificate_that_is_no_longer_configured_is_kept_until_a_restart() {
        let mut before = Config::default();
        before.listen.tls_cert = Some(PathBuf::from("cert.pem"));
        before.listen.tls_key = Some(PathBuf::from("key.pem"));
        for reloaded in reloaded(before, Config::default(), false).await {
            assert_eq!((reloaded.changed, reloaded.restart), (Vec::new(), CERTIFICATE.map(str::to_owned).to_vec()));
        }
    }
}
