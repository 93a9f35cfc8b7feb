//! Bridges: events of the change feed as messages to a broker (STOMP 1.2, AMQP 1.0), in the form
//! that Fedora 6 gives its messages.
//!
//! `form.rs` writes an event as messages; `dialling.rs` connects; the crate `broker` sends.
//! `delivery/` follows the feed for them.

mod dialling;
mod form;

use std::sync::Arc;

use ::broker::{Address, Connection, Login, SendError, Settings};
use ::feed::Event;
use door_ldp::Site;
use futures::FutureExt;
use futures::future::BoxFuture;
use heads::ResourcePath;
use library::Library;
use store::{Hidden, UnixMillis};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::config::{BridgeConfig, Config};
use crate::delivery::{self, Deliveries, Failure, Kind, Named, Pacing, ROUND, Receiver, Sent};
use crate::error::ServerError;
use crate::telemetry;

pub(crate) use dialling::{SETTING as NETWORKS_SETTING, allowed, roots};

use dialling::Dialling;

/// Bridges among receivers.
static KIND: Kind = Kind {
    word: "bridge",
    plural: "bridges",
    setting: "feed.bridges",
    // No name of a webhook has a slash.
    row_prefix: "bridge/",
    metrics: telemetry::OF_BRIDGES,
};

/// Most characters of a failure.
const WHY_CHARS_MAX: usize = 300;

/// One bridge.
struct Bridge {
    site: Site,
    dialling: Dialling,
    settings: Settings,
    /// The connection of this server, if it has one.
    connection: Mutex<Option<Connection>>,
}

/// Those of a configuration that was checked. It reads the files of passwords and certificates.
pub(crate) fn open(config: &Config, library: Library, pacing: Pacing) -> Result<Arc<Deliveries>, ServerError> {
    let networks = config.feed.bridges_networks()?;
    let open = |bridge: &BridgeConfig| {
        let why = |reason: String| ServerError::Bridge { name: bridge.name.clone(), reason };
        let address = Address::parse(&bridge.url).map_err(why)?;
        let settings = Settings {
            protocol: address.protocol,
            host: address.host.clone(),
            client: String::new(),
            destination: bridge.destination(&address).to_owned(),
            login: bridge.login().map_err(why)?,
            attempt_max: pacing.attempt_max,
            heart_beat: dialling::HEART_BEAT,
            tasks: TaskTracker::new(),
        };
        let path = ResourcePath::parse(&bridge.path).map_err(|error| why(error.to_string()))?;
        let dialling = Dialling::new(address, networks.clone(), bridge.ca_file.as_deref()).map_err(why)?;
        let site = delivery::site(config)?;
        let receiver = Bridge { site, dialling, settings, connection: Mutex::default() };
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
        async { self.connect().await.map(drop).map_err(|error| self.failure(&error)) }.boxed()
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        async {
            self.connection.lock().await.take();
            self.settings.tasks.close();
            self.settings.tasks.wait().await;
        }
        .boxed()
    }
}

impl Bridge {
    async fn connect(&self) -> Result<Connection, SendError> {
        let attempt_max = self.settings.attempt_max;
        // A broker may refuse a second client of the same name, and forgets one that died only later.
        let client = format!("penates-{:016x}", rand::random::<u64>());
        let settings = Settings { client, ..self.settings.clone() };
        let connecting = self.dialling.connect(settings);
        tokio::time::timeout(attempt_max, connecting).await.unwrap_or(Err(SendError::TimedOut(attempt_max)))
    }

    async fn send_all(&self, events: Vec<&Event>) -> Sent {
        let begun = Instant::now();
        let mut kept = self.connection.lock().await;
        let connection = match kept.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => match self.connect().await {
                Ok(connection) => connection,
                Err(error) => {
                    let failed = events.first().map(|event| ((*event).clone(), self.failure(&error)));
                    return Sent { failed, ..Sent::default() };
                }
            },
        };
        let (mut messages, mut owners) = (Vec::new(), Vec::new());
        for (index, event) in events.iter().enumerate() {
            messages.extend(form::messages(event, &self.site));
            owners.resize(messages.len(), index);
        }
        // What connecting took is not added to what the lease allows.
        let sent = connection.send(messages, ROUND.saturating_sub(begun.elapsed())).await;
        if connection.is_open() {
            *kept = Some(connection);
        }
        let mut accepted = vec![true; events.len()];
        for (owner, confirmed) in owners.iter().zip(&sent.confirmed) {
            accepted[*owner] &= confirmed;
        }
        let failed = sent.failed.and_then(|(index, error)| {
            let event = *events.get(*owners.get(index)?)?;
            Some((event.clone(), self.failure(&error)))
        });
        let accepted = events.iter().zip(accepted).filter(|(_, accepted)| *accepted).map(|(event, _)| event.cursor);
        Sent { accepted: accepted.collect(), failed }
    }

    /// A failure in words, as many as are of use. A broker may repeat what it was sent.
    fn failure(&self, error: &SendError) -> Failure {
        let why = error.to_string();
        let password = self.settings.login.as_ref().map(|Login { password, .. }| Hidden::reveal(password));
        let why = match password.filter(|password| !password.is_empty()) {
            Some(password) => why.replace(password, "(hidden)"),
            None => why,
        };
        // Only now: a part of the password would not be found.
        Failure::passing(why.chars().take(WHY_CHARS_MAX).collect())
    }
}

#[cfg(test)]
mod tests;
