//! Webhooks: events of the change feed as signed requests to addresses of the operator's choice
//! (Standard Webhooks 1.0, standardwebhooks.com).
//!
//! `signing.rs` signs, with the secrets of `current.rs`; `sender.rs` sends one message; `round.rs`
//! several. `delivery/` follows the feed for them.

mod current;
mod round;
mod sender;
mod signing;

use std::sync::Arc;

use ::feed::{Change, Event, ObjectKind};
use bytes::Bytes;
use door_ldp::Site;
use futures::FutureExt;
use futures::future::BoxFuture;
use heads::ResourcePath;
use library::Library;
use serde_json::json;
use store::UnixMillis;

use crate::config::{Config, WebhookConfig};
use crate::delivery::{self, Deliveries, Failure, Kind, Named, Pacing, Receiver, Sent};
use crate::error::ServerError;
use crate::feed::activity::{rfc3339, with_context};
use crate::telemetry;

pub(crate) use sender::Destination;
pub(crate) use signing::Secrets;

use current::CurrentSecrets;
use round::Round;
use sender::Sender;

/// Webhooks among receivers.
static KIND: Kind = Kind {
    word: "webhook",
    plural: "webhooks",
    setting: "feed.webhooks",
    row_prefix: "",
    metrics: telemetry::OF_WEBHOOKS,
};

/// One webhook.
struct Webhook {
    name: String,
    site: Site,
    sender: Sender,
}

/// Those of a configuration that was checked. It reads the files of secrets.
pub(crate) fn open(config: &Config, library: Library, pacing: Pacing) -> Result<Arc<Deliveries>, ServerError> {
    let networks = config.feed.networks()?;
    let open = |hook: &WebhookConfig| {
        let why = |reason: String| ServerError::Webhook { name: hook.name.clone(), reason };
        let secrets = CurrentSecrets::read(hook).map_err(why)?;
        let destination = Destination::parse(&hook.url, networks.clone()).map_err(why)?;
        let path = ResourcePath::parse(&hook.path).map_err(|error| why(error.to_string()))?;
        let sender = Sender::new(destination, secrets, pacing.attempt_max).map_err(|error| why(error.to_string()))?;
        let webhook = Webhook { name: hook.name.clone(), site: delivery::site(config)?, sender };
        Ok(Named::new(&hook.name, path, webhook))
    };
    let webhooks = config.feed.webhooks.iter().map(open).collect::<Result<_, ServerError>>()?;
    Ok(Deliveries::new(&KIND, library, webhooks, pacing))
}

impl Receiver for Webhook {
    /// The path may be confidential.
    fn origin(&self) -> String {
        self.sender.destination().origin()
    }

    fn send<'a>(
        &'a self,
        events: Vec<&'a Event>,
        now: &'a (dyn Fn() -> UnixMillis + Send + Sync),
    ) -> BoxFuture<'a, Sent> {
        async move {
            self.sender.refresh().await;
            Round::of(events).send(self, now).await
        }
        .boxed()
    }

    fn test(&self, id: String, now: UnixMillis) -> BoxFuture<'_, Result<(), Failure>> {
        let body = json!({ "type": "webhook.test", "timestamp": rfc3339(now), "data": { "webhook": self.name } });
        async move {
            self.sender.refresh().await;
            self.sender.send(&id, now, Bytes::from(body.to_string())).await
        }
        .boxed()
    }
}

impl Webhook {
    /// Sends an event, once.
    async fn send_one(&self, event: &Event, now: UnixMillis) -> Result<(), Failure> {
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
        self.sender.send(&event.cursor.to_string(), now, Bytes::from(body.to_string())).await
    }
}

#[cfg(test)]
mod tests;
