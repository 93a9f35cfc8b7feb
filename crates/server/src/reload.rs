//! Reads the configuration again while the server runs, on SIGHUP or for the administrator. Some
//! settings take effect at once; those that need a restart are named.

use std::sync::{Arc, OnceLock};

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use door_http::Reason;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::config::Config;
use crate::live::Live;
use crate::systemd::{self, State as Phase};
use crate::{logging, problem};

/// The settings that take effect at once. Limits count for connections and bodies that begin
/// afterwards.
const LIVE: [&str; 10] = [
    "listen.tls_cert",
    "listen.tls_key",
    "log.level",
    "limits.http2_streams",
    "limits.header_time",
    "limits.body_pause",
    "limits.body_rate",
    "limits.stall",
    "limits.drain",
    "limits.shutdown_time",
];

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
    read: OnceLock<ReadAgain>,
    /// The values in force; one reload at a time.
    known: Mutex<Known>,
}

struct Known {
    config: Config,
    values: Option<Map<String, Value>>,
}

impl Reloading {
    pub(crate) fn new(config: &Config, live: Arc<Live>) -> Arc<Self> {
        let known = Mutex::new(Known { config: config.clone(), values: None });
        Arc::new(Self { live, read: OnceLock::new(), known })
    }

    /// Says how the configuration is read again.
    pub(crate) async fn read_by(&self, read: ReadAgain) {
        self.known.lock().await.values = read().ok().map(|first| first.values);
        let _ = self.read.set(read);
    }

    /// Reloads. Either all that can change does, or nothing.
    pub(crate) async fn reload(&self) -> Result<Reloaded, String> {
        let mut known = self.known.lock().await;
        let Some(read) = self.read.get() else { return Err("this process has no configuration to read".to_owned()) };
        systemd::tell(Phase::Reloading);
        let reloaded = self.change(&mut known, read);
        systemd::tell(Phase::Ready);
        match &reloaded {
            Ok(Reloaded { changed, restart, certificate }) => {
                tracing::info!(?changed, ?restart, certificate, "the configuration was read again");
            }
            Err(error) => tracing::error!(error, "the configuration was not read again; the earlier one stays"),
        }
        reloaded
    }

    fn change(&self, known: &mut Known, read: &ReadAgain) -> Result<Reloaded, String> {
        let Reread { config, values } = read()?;
        config.check().map_err(|error| error.to_string())?;
        let certificate = self.live.certificate();
        if let Some(served) = &certificate {
            served.reload(&config.listen).map_err(|error| error.to_string())?;
        }
        logging::set_level(&config.log).map_err(|error| error.to_string())?;
        let limits = &config.limits;
        let (connections, memory) = (known.config.limits.connections, known.config.limits.memory);
        self.live.set_limits(crate::config::LimitsConfig { connections, memory, ..limits.clone() });
        let differing = known.values.as_ref().map_or_else(Vec::new, |before| differing(before, &values));
        let (changed, restart) = differing.into_iter().partition(|key| LIVE.contains(&key.as_str()));
        // What needs a restart is named again until it was restarted.
        if let Some(before) = &mut known.values {
            take(before, &values, &LIVE);
        }
        Ok(Reloaded { changed, restart, certificate: certificate.is_some() })
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
fn take(before: &mut Map<String, Value>, now: &Map<String, Value>, keys: &[&str]) {
    for (section, name) in keys.iter().filter_map(|key| key.split_once('.')) {
        let new = now.get(section).and_then(|values| values.get(name));
        if let (Some(new), Some(values)) = (new, before.get_mut(section).and_then(Value::as_object_mut)) {
            values.insert(name.to_owned(), new.clone());
        }
    }
}

pub(crate) fn routes(reloading: Arc<Reloading>) -> Router {
    Router::new().route("/admin/reload", post(reload)).with_state(reloading)
}

/// `POST /admin/reload`
async fn reload(State(reloading): State<Arc<Reloading>>) -> Result<Json<Reloaded>, Response> {
    reloading.reload().await.map(Json).map_err(|error| problem::respond(Reason::CONFLICT, &error))
}
