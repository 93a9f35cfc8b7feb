//! Webhooks: events of the change feed as signed requests to addresses of the operator's choice
//! (Standard Webhooks 1.0, standardwebhooks.com).
//!
//! `signing.rs` signs; `networks.rs` says which addresses may be connected to; `sender.rs` sends one
//! message; `retries.rs` says when it is sent again. `progress.rs` is what is stored of a webhook,
//! `delivery.rs` the loop that delivers, and `routes.rs` shows and changes it for the administrator.

mod delivery;
mod networks;
mod progress;
mod retries;
mod routes;
mod sender;
mod signing;

use std::sync::Arc;
use std::time::Duration;

use ::feed::{Change, Event, ObjectKind, Subject};
use bytes::Bytes;
use door_http::Reason;
use door_ldp::Site;
use heads::guarded::Known;
use heads::{ObjectsError, ResourcePath};
use http::{Extensions, HeaderMap, Uri};
use library::Library;
use metrics::counter;
use serde_json::json;
use store::{FormatLevel, UnixMillis};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::config::{Config, WebhookConfig};
use crate::error::ServerError;
use crate::feed::Refused;
use crate::feed::activity::{rfc3339, with_context};
use crate::telemetry;

pub(crate) use routes::routes;
pub(crate) use sender::Destination;
pub(crate) use signing::Secrets;

use progress::Progress;
use sender::{Failure, Sender};

/// Tries to change what other servers change too.
const TRIES_MAX: usize = 3;

/// How fast webhooks are sent.
#[derive(Clone, Debug)]
pub(crate) struct Pacing {
    /// The longest time of one attempt ("Deliverability and reliability": 15 to 30 seconds).
    pub(crate) attempt_max: Duration,
    /// The pauses after each failure of a message.
    pub(crate) schedule: Vec<Duration>,
    /// How often a server looks at a webhook to which it does not deliver.
    pub(crate) look_every: Duration,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            attempt_max: Duration::from_secs(20),
            schedule: retries::SCHEDULE.to_vec(),
            look_every: Duration::from_secs(5),
        }
    }
}

/// The webhooks of a server.
pub(crate) struct Webhooks {
    library: Library,
    /// The number of this server.
    server: [u8; 16],
    hooks: Vec<Arc<Webhook>>,
    pacing: Pacing,
}

/// One webhook.
struct Webhook {
    name: String,
    /// Events of what is here or below are delivered.
    path: ResourcePath,
    site: Site,
    sender: Sender,
    /// An operator has changed it.
    changed: Notify,
}

impl Webhooks {
    /// Those of a configuration that was checked. It reads the files of secrets.
    pub(crate) fn open(config: &Config, library: Library, pacing: Pacing) -> Result<Arc<Self>, ServerError> {
        let networks = config.feed.networks()?;
        let open = |hook: &WebhookConfig| {
            let why = |reason: String| ServerError::Webhook { name: hook.name.clone(), reason };
            let secrets = hook.secrets().map_err(why)?;
            let destination = Destination::parse(&hook.url, networks.clone()).map_err(why)?;
            let site = Site::of(
                &config.ldp.settings(&config.http.base_path)?,
                &Uri::default(),
                &HeaderMap::new(),
                &Extensions::new(),
            );
            telemetry::begin_webhook(&hook.name);
            Ok(Arc::new(Webhook {
                name: hook.name.clone(),
                path: ResourcePath::parse(&hook.path).map_err(|error| why(error.to_string()))?,
                site: site.map_err(|error| why(error.to_string()))?,
                sender: Sender::new(destination, secrets, pacing.attempt_max)
                    .map_err(|error| why(error.to_string()))?,
                changed: Notify::new(),
            }))
        };
        let hooks = config.feed.webhooks.iter().map(open).collect::<Result<_, ServerError>>()?;
        let server = library.heads.surroundings().random.bytes();
        Ok(Arc::new(Self { library, server, hooks, pacing }))
    }

    /// Delivers until the handle is dropped. Once `stopping` is cancelled, the tasks give their
    /// webhooks back to other servers, and end.
    pub(crate) fn start(self: &Arc<Self>, stopping: &CancellationToken) -> Delivering {
        let tracker = TaskTracker::new();
        let deliver = |hook: &Arc<Webhook>| {
            let delivery = delivery::Delivery::new(self.clone(), hook.clone());
            AbortOnDropHandle::new(tokio::spawn(tracker.track_future(delivery.run(stopping.clone()))))
        };
        let tasks = self.hooks.iter().map(deliver).collect();
        tracker.close();
        Delivering { _tasks: tasks, tracker }
    }

    /// Refuses if nothing can be delivered or changed from here.
    fn check(&self) -> Result<(), Refused> {
        let (level, needed) = (self.library.store().level(), FormatLevel::WEBHOOKS);
        if level < needed {
            let why = format!("the store has level {level}, and webhooks need level {needed}: run `penates upgrade`");
            return Err(Refused(Reason::NEEDS_UPGRADE, why));
        }
        self.library.store().check_home().map_err(|error| ObjectsError::from(error).into())
    }

    fn hook(&self, name: &str) -> Option<&Arc<Webhook>> {
        self.hooks.iter().find(|hook| hook.name == name)
    }

    /// Changes how far a webhook is: `change` gets what is stored.
    async fn change(
        &self,
        hook: &Webhook,
        change: impl Fn(Known<Progress>) -> Result<Progress, Refused>,
    ) -> Result<(), Refused> {
        for _ in 0..TRIES_MAX {
            let known = progress::read(&self.library.heads, &hook.name).await?;
            let expect = known.expect;
            let changed = change(known)?;
            if progress::write(&self.library.heads, &hook.name, &changed, expect).await?.is_some() {
                hook.changed.notify_one();
                return Ok(());
            }
        }
        Err(ObjectsError::Conflict(format!("webhook `{}` is being changed; try again", hook.name)).into())
    }
}

/// The tasks that deliver.
pub(crate) struct Delivering {
    _tasks: Vec<AbortOnDropHandle<()>>,
    tracker: TaskTracker,
}

impl Delivering {
    /// Waits until all tasks have ended, for at most `patience`.
    pub(crate) async fn ended(&self, patience: Duration) {
        if tokio::time::timeout(patience, self.tracker.wait()).await.is_err() {
            tracing::warn!("webhooks were not given back; other servers wait until they count this one as dead");
        }
    }
}

impl Webhook {
    /// Whether it gets an event.
    fn wants(&self, event: &Event) -> bool {
        match &event.subject {
            Subject::Resource(path) => path.is_within(&self.path),
            Subject::Volume(id) => {
                let path = ResourcePath::of_names([heads::VOLUMES, &id.cleaned().to_string()]);
                path.is_ok_and(|path| path.is_within(&self.path))
            }
        }
    }

    /// Sends an event, once.
    async fn send(&self, event: &Event, now: UnixMillis) -> Result<(), Failure> {
        let kind = match event.kind {
            ObjectKind::Volume => "volume",
            _ => "resource",
        };
        let change = match event.change {
            Change::Created => "created",
            Change::Updated => "updated",
            Change::Deleted => "deleted",
        };
        // "Payload structure": `type`, `timestamp` (when it happened) and `data`.
        let body = json!({
            "type": format!("{kind}.{change}"),
            "timestamp": rfc3339(event.at),
            "data": with_context(event, &self.site),
        });
        self.send_counted(&event.cursor.to_string(), &body, now).await
    }

    /// Sends a message that is no event, once.
    async fn send_test(&self, id: &str, now: UnixMillis) -> Result<(), Failure> {
        let body = json!({ "type": "webhook.test", "timestamp": rfc3339(now), "data": { "webhook": self.name } });
        self.send_counted(id, &body, now).await
    }

    async fn send_counted(&self, id: &str, body: &serde_json::Value, now: UnixMillis) -> Result<(), Failure> {
        let sent = self.sender.send(id, now, Bytes::from(body.to_string())).await;
        let outcome = if sent.is_ok() { "accepted" } else { "failed" };
        counter!(telemetry::WEBHOOK_MESSAGES, "webhook" => self.name.clone(), "outcome" => outcome).increment(1);
        sent
    }
}

#[cfg(test)]
mod tests;
