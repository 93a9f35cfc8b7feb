//! Bridges: events of the change feed as messages to a broker (STOMP 1.2, AMQP 1.0), in the form
//! that Fedora 6 gives its messages.
//!
//! `form.rs` writes an event as messages; `dialling.rs` connects; the crate `broker` sends.
//! `reading.rs` reads the files of secrets, those of webhooks too. `delivery/` follows the feed for
//! them.

mod dialling;
mod form;

use std::sync::Arc;
use std::time::Duration;

use ::broker::{Address, Connection, Login, SendError, Settings};
use ::feed::{Change, Event, Subject};
use door_ldp::{Changed, Site};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use heads::{ObjectsResult, ResourcePath};
use library::Library;
use store::{Hidden, UnixMillis};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use crate::config::{BridgeConfig, Config};
use crate::delivery::{self, Deliveries, Failure, Kind, Named, Pacing, ROUND, Reading, Receiver, Sent};
use crate::error::ServerError;
use crate::telemetry;

pub(crate) use dialling::{SETTING as NETWORKS_SETTING, allowed, roots};

use dialling::Dialling;

/// Bridges among receivers.
pub(crate) static KIND: Kind = Kind {
    word: "bridge",
    plural: "bridges",
    setting: "feed.bridges",
    // No name of a webhook has a slash.
    row_prefix: "bridge/",
    metrics: telemetry::OF_BRIDGES,
};

/// Most characters of a failure.
const WHY_CHARS_MAX: usize = 300;

/// Resources that are read at the same time, so that at most 1 MB of descriptions is held.
const READ_AT_ONCE: usize = 4;

/// How long a round reads what its events changed.
const READING: Duration = Duration::from_secs(5);

/// One bridge.
struct Bridge {
    config: Arc<BridgeConfig>,
    site: Site,
    library: Library,
    dialling: Dialling,
    /// Those of each connection, but for the client and the login.
    settings: Settings,
    /// Reads the file of the password.
    logins: Reading<Option<Login>>,
    /// The connection of this server, if it has one.
    kept: Mutex<Option<Connected>>,
}

/// A connection to the broker.
struct Connected {
    connection: Connection,
    /// With which it logged in: the broker may repeat it.
    password: Option<Hidden>,
}

/// Those of a configuration that was checked. It reads the files of certificates, and checks that
/// those of passwords can be read.
pub(crate) fn open(config: &Config, library: Library, pacing: Pacing) -> Result<Arc<Deliveries>, ServerError> {
    let networks = config.feed.bridges_networks()?;
    let open = |bridge: &BridgeConfig| {
        let why = |reason: String| ServerError::Bridge { name: bridge.name.clone(), reason };
        let address = Address::parse(&bridge.url).map_err(why)?;
        bridge.login().map_err(why)?;
        let settings = Settings {
            protocol: address.protocol,
            host: address.host.clone(),
            client: String::new(),
            destination: bridge.destination(&address).to_owned(),
            login: None,
            attempt_max: pacing.attempt_max,
            heart_beat: dialling::HEART_BEAT,
            tasks: TaskTracker::new(),
        };
        let path = ResourcePath::parse(&bridge.path).map_err(|error| why(error.to_string()))?;
        let dialling = Dialling::new(address, networks.clone(), bridge.ca_file.as_deref()).map_err(why)?;
        let site = delivery::site(config)?;
        let (config, library) = (Arc::new(bridge.clone()), library.clone());
        let (logins, kept) = (Reading::default(), Mutex::default());
        let receiver = Bridge { config, site, library, dialling, settings, logins, kept };
        Ok(Named::new(&bridge.name, path, receiver))
    };
    let bridges = config.feed.bridges.iter().map(open).collect::<Result<_, ServerError>>()?;
    Ok(Deliveries::new(&KIND, library, bridges, pacing))
}

impl Receiver for Bridge {
    fn origin(&self) -> String {
        self.dialling.address.origin()
    }

    fn send<'a>(
        &'a self,
        events: Vec<&'a Event>,
        _: &'a (dyn Fn() -> UnixMillis + Send + Sync),
    ) -> BoxFuture<'a, Sent> {
        self.send_all(events).boxed()
    }

    /// Connects and logs in. It sends nothing, because a consumer would take it for a change.
    fn test(&self, _: String, _: UnixMillis) -> BoxFuture<'_, Result<(), Failure>> {
        async { self.connect().await.map(drop) }.boxed()
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        async {
            self.kept.lock().await.take();
            self.settings.tasks.close();
            self.settings.tasks.wait().await;
        }
        .boxed()
    }
}

impl Bridge {
    async fn connect(&self) -> Result<Connected, Failure> {
        let attempt_max = self.settings.attempt_max;
        let late = |_| Err(failure(&SendError::TimedOut(attempt_max), None));
        tokio::time::timeout(attempt_max, self.log_in()).await.unwrap_or_else(late)
    }

    /// Connects with the password that its file has now, so that a new one needs no restart.
    async fn log_in(&self) -> Result<Connected, Failure> {
        let config = self.config.clone();
        let login = self.logins.read(move || config.login()).await.map_err(Failure::passing)?;
        let password = login.as_ref().map(|login| login.password.clone());
        // A broker may refuse a second client of the same name, and forgets one that died only later.
        let client = format!("penates-{:016x}", rand::random::<u64>());
        let settings = Settings { client, login, ..self.settings.clone() };
        match self.dialling.connect(settings).await {
            Ok(connection) => Ok(Connected { connection, password }),
            Err(error) => Err(failure(&error, password.as_ref())),
        }
    }

    async fn send_all(&self, events: Vec<&Event>) -> Sent {
        let begun = Instant::now();
        let changed = match self.changed(&events, begun + READING).await {
            Ok(changed) => changed,
            Err(failure) => {
                let failed = events.first().map(|event| ((*event).clone(), failure));
                return Sent { failed, ..Sent::default() };
            }
        };
        let mut kept = self.kept.lock().await;
        let connected = match kept.take().filter(|connected| connected.connection.is_open()) {
            Some(connected) => connected,
            None => match self.connect().await {
                Ok(connected) => connected,
                Err(failure) => {
                    let failed = events.first().map(|event| ((*event).clone(), failure));
                    return Sent { failed, ..Sent::default() };
                }
            },
        };
        let (mut messages, mut owners) = (Vec::new(), Vec::new());
        for (index, (event, changed)) in events.iter().zip(&changed).enumerate() {
            messages.extend(form::messages(event, changed, &self.site));
            owners.resize(messages.len(), index);
        }
        // What connecting took is not added to what the lease allows.
        let sent = connected.connection.send(messages, ROUND.saturating_sub(begun.elapsed())).await;
        // Those that were not read in time are sent in another round.
        let mut accepted = vec![true; changed.len()];
        for (owner, confirmed) in owners.iter().zip(&sent.confirmed) {
            accepted[*owner] &= confirmed;
        }
        let failed = sent.failed.and_then(|(index, error)| {
            let event = *events.get(*owners.get(index)?)?;
            Some((event.clone(), failure(&error, connected.password.as_ref())))
        });
        if connected.connection.is_open() {
            *kept = Some(connected);
        }
        let accepted = events.iter().zip(accepted).filter(|(_, accepted)| *accepted).map(|(event, _)| event.cursor);
        Sent { accepted: accepted.collect(), failed }
    }

    /// What some events changed: of the first ones, as many as can be read until a time.
    async fn changed(&self, events: &[&Event], until: Instant) -> Result<Vec<Changed>, Failure> {
        let reading: Vec<BoxFuture<'_, _>> = events.iter().map(|event| self.changed_by(event).boxed()).collect();
        let mut reading = stream::iter(reading).buffered(READ_AT_ONCE);
        let mut changed = Vec::with_capacity(events.len());
        while changed.len() < events.len() {
            let why = match timeout_at(until, reading.next()).await {
                Ok(Some(Ok(read))) => {
                    changed.push(read);
                    continue;
                }
                Ok(Some(Err(error))) => error.to_string(),
                Ok(None) => break,
                Err(_) => format!("it takes more than {} s", READING.as_secs()),
            };
            if changed.is_empty() {
                let why = format!("what was changed cannot be read: {why}");
                return Err(Failure::passing(why.chars().take(WHY_CHARS_MAX).collect()));
            }
            break;
        }
        Ok(changed)
    }

    async fn changed_by(&self, event: &Event) -> ObjectsResult<Changed> {
        match (&event.subject, event.change) {
            (Subject::Resource(path), Change::Created | Change::Updated) => {
                Changed::read(&self.library, &self.site, path, event.revision).await
            }
            _ => Ok(Changed::default()),
        }
    }
}

/// A failure in words, as many as are of use. A broker may repeat what it was sent, such as the
/// password.
fn failure(error: &SendError, password: Option<&Hidden>) -> Failure {
    let why = error.to_string();
    let why = match password.map(Hidden::reveal).filter(|password| !password.is_empty()) {
        Some(password) => why.replace(password, "(hidden)"),
        None => why,
    };
    // Only now: a part of the password would not be found.
    Failure::passing(why.chars().take(WHY_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests;
