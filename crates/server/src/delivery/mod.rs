//! Delivers events of the change feed to receivers that the operator names: webhooks, and brokers of
//! messages.
//!
//! `following.rs` is the loop that follows the feed for one receiver, sends, and stores how far it
//! came (`progress.rs`). `retries.rs` says when it is sent again, `networks.rs` which addresses may
//! be connected to. `reading.rs` reads files of secrets again. `routes.rs` shows and changes it for
//! the administrator. How events are sent is the receiver's: `webhooks/`, `bridges/`.

mod following;
mod networks;
mod progress;
mod reading;
mod retries;
mod routes;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ::feed::{Cursor, Event, FeedError, Subject};
use door_http::Reason;
use door_ldp::Site;
use futures::FutureExt;
use futures::future::BoxFuture;
use heads::guarded::Known;
use heads::{ObjectsError, ResourcePath};
use http::{Extensions, HeaderMap, Uri};
use library::Library;
use metrics::counter;
use store::UnixMillis;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::config::Config;
use crate::error::ServerError;
use crate::feed::Refused;
use crate::telemetry::{self, ReceiverMetrics};

pub(crate) use networks::{Allowed, AllowedResolver};
pub(crate) use progress::Progress;
pub(crate) use reading::Reading;
pub(crate) use retries::Schedule;
pub(crate) use routes::routes;

/// Tries to change what other servers change too.
const TRIES_MAX: usize = 3;

/// After this time a round begins no further message. With the longest attempt it is shorter than a
/// lease.
pub(crate) const ROUND: Duration = Duration::from_secs(15);

/// A kind of receivers.
#[derive(Debug)]
pub(crate) struct Kind {
    /// One of them, in log lines and errors.
    pub(crate) word: &'static str,
    /// What a command and a route name them by.
    pub(crate) plural: &'static str,
    /// The setting that has them.
    pub(crate) setting: &'static str,
    /// What the names of their rows begin with.
    pub(crate) row_prefix: &'static str,
    /// Their metrics.
    pub(crate) metrics: ReceiverMetrics,
}

/// How fast messages are sent.
#[derive(Clone, Debug)]
pub(crate) struct Pacing {
    /// The longest time of one attempt.
    pub(crate) attempt_max: Duration,
    /// The pauses after each failure of a message.
    pub(crate) schedule: Schedule,
    /// How often a server looks at a receiver to which it does not deliver.
    pub(crate) look_every: Duration,
}

impl Pacing {
    pub(crate) fn with(schedule: Schedule) -> Self {
        Self { attempt_max: Duration::from_secs(20), schedule, look_every: Duration::from_secs(5) }
    }
}

/// Where events go.
pub(crate) trait Receiver: Send + Sync {
    /// Scheme, host and port.
    fn origin(&self) -> String;

    /// Sends some events, those of one object in their order. It begins no further one after
    /// [`ROUND`].
    fn send<'a>(
        &'a self,
        events: Vec<&'a Event>,
        now: &'a (dyn Fn() -> UnixMillis + Send + Sync),
    ) -> BoxFuture<'a, Sent>;

    /// Finds out whether the receiver takes messages from this server.
    fn test(&self, id: String, now: UnixMillis) -> BoxFuture<'_, Result<(), Failure>>;

    /// Completes when nothing is on its way any more of a [`Receiver::send`] that was dropped.
    fn stop(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// What came of some events.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Those that were accepted.
    pub(crate) accepted: HashSet<Cursor>,
    /// The first event that was not.
    pub(crate) failed: Option<(Event, Failure)>,
}

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// In words, without anything confidential.
    pub(crate) why: String,
    /// Whether the receiver wants no further messages.
    pub(crate) is_final: bool,
    /// How long the receiver asks to wait.
    pub(crate) asks_to_wait: Option<Duration>,
}

impl Failure {
    pub(crate) fn passing(why: String) -> Self {
        Self { why, is_final: false, asks_to_wait: None }
    }
}

/// A receiver with its name.
pub(crate) struct Named {
    pub(crate) name: String,
    /// Events of what is here or below are delivered.
    pub(crate) path: ResourcePath,
    pub(crate) receiver: Box<dyn Receiver>,
    /// An operator has changed it.
    changed: Notify,
}

impl Named {
    pub(crate) fn new(name: &str, path: ResourcePath, receiver: impl Receiver + 'static) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), path, receiver: Box::new(receiver), changed: Notify::new() })
    }

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
}

/// The receivers of one kind, as one server delivers to them.
pub(crate) struct Deliveries {
    kind: &'static Kind,
    library: Library,
    /// The number of this server.
    pub(crate) server: [u8; 16],
    receivers: Vec<Arc<Named>>,
    pacing: Pacing,
}

impl Deliveries {
    pub(crate) fn new(kind: &'static Kind, library: Library, receivers: Vec<Arc<Named>>, pacing: Pacing) -> Arc<Self> {
        receivers.iter().for_each(|named| kind.metrics.begin(&named.name));
        let server = library.heads.surroundings().random.bytes();
        Arc::new(Self { kind, library, server, receivers, pacing })
    }

    /// Delivers until the handle is dropped. Once `stopping` is cancelled, the tasks give their
    /// receivers back to other servers, and end.
    pub(crate) fn start(self: &Arc<Self>, stopping: &CancellationToken) -> Delivering {
        let tracker = TaskTracker::new();
        let deliver = |named: &Arc<Named>| {
            let following = following::Following::new(self.clone(), named.clone());
            AbortOnDropHandle::new(tokio::spawn(tracker.track_future(following.run(stopping.clone()))))
        };
        let tasks = self.receivers.iter().map(deliver).collect();
        tracker.close();
        Delivering { kind: self.kind, _tasks: tasks, tracker }
    }

    /// Refuses if nothing can be delivered or changed from here.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.library.store().check_home().map_err(|error| ObjectsError::from(error).into())
    }

    /// Whether nothing comes behind a place, whatever happens now, because it lies in the future.
    async fn is_in_the_future(&self, place: Cursor) -> Result<bool, FeedError> {
        let Library { heads, feed, .. } = &self.library;
        let skew = self.library.options().clock_skew_max;
        if place.time() <= heads.now().plus(skew) {
            return Ok(false);
        }
        // Events may be of a clock that was ahead. A process whose clock was set back still announces
        // above all that it has announced.
        let until = feed.now().await?.time().max(heads.announced_until().await?.time());
        Ok(place.time() > until.plus(skew))
    }

    /// Changes how far a receiver is: `change` gets what is stored.
    async fn change(
        &self,
        named: &Named,
        change: impl Fn(Known<Progress>) -> Result<Progress, Refused>,
    ) -> Result<(), Refused> {
        for _ in 0..TRIES_MAX {
            let known = self.read(&named.name).await?;
            let expect = known.expect;
            let changed = change(known)?;
            let written = self.write(&named.name, &changed, expect).await.map_err(|error| match error {
                // What is too much is in the store: the request has no body.
                ObjectsError::OverLimit(_) => Refused(Reason::CONFLICT, error.to_string()),
                error => error.into(),
            });
            if written?.is_some() {
                named.changed.notify_one();
                return Ok(());
            }
        }
        Err(ObjectsError::Conflict(format!("{} `{}` is being changed; try again", self.kind.word, named.name)).into())
    }

    /// Sends some events, and counts them.
    async fn send(&self, named: &Named, events: Vec<&Event>) -> Sent {
        let now = || self.library.heads.now();
        let sent = named.receiver.send(events, &now).await;
        let count = |outcome: &'static str, count: usize| {
            let labels = [(self.kind.metrics.label, named.name.clone()), ("outcome", outcome.to_owned())];
            counter!(self.kind.metrics.messages, &labels).increment(count as u64);
        };
        count(telemetry::ACCEPTED, sent.accepted.len());
        count(telemetry::FAILED, usize::from(sent.failed.is_some()));
        sent
    }
}

/// The addresses in events that are sent: clients that ask for none have no address of their own.
pub(crate) fn site(config: &Config) -> Result<Site, ServerError> {
    let settings = config.ldp.settings(&config.http.base_path)?;
    let site = Site::of(&settings, &Uri::default(), &HeaderMap::new(), &Extensions::new());
    site.map_err(|error| ServerError::Door { door: "the change feed", reason: error.to_string() })
}

/// The tasks that deliver.
pub(crate) struct Delivering {
    kind: &'static Kind,
    _tasks: Vec<AbortOnDropHandle<()>>,
    tracker: TaskTracker,
}

impl Delivering {
    /// Waits until all tasks have ended, for at most `patience`.
    pub(crate) async fn ended(&self, patience: Duration) {
        if tokio::time::timeout(patience, self.tracker.wait()).await.is_err() {
            let receivers = self.kind.plural;
            tracing::warn!(
                receivers,
                "receivers were not given back; other servers wait until they count this one as dead"
            );
        }
    }
}
