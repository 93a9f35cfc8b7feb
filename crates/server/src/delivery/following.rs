//! Delivers events to one receiver: those of one object in their order, those of different objects at
//! the same time.
//!
//! The loop reads how far the receiver is, follows the feed from there, sends what it can, and writes
//! how far it came. A server that dies in between sends some events again: each is delivered at
//! least once. What is stored is the only truth: if it is not what this server wrote last, another
//! server or an operator has changed it, and everything that was held here is forgotten.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ::feed::{Consumer, Cursor, Event, Events, FeedError};
use heads::ObjectsResult;
use metrics::gauge;
use store::{Expect, UnixMillis};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::progress::{Failing, LEASE, Progress, shortened};
use super::{Deliveries, Named, Sent};
use crate::feed::Refused;

/// Events that are held at once.
const HELD_MAX: usize = 64;

/// How often it is written that events passed which the receiver does not get.
const IDLE_SAVE: Duration = Duration::from_secs(30);

/// The pause after an error, and while nothing can be delivered.
const ERROR_PAUSE: Duration = Duration::from_secs(30);

/// The task of one receiver on one server.
pub(super) struct Following {
    deliveries: Arc<Deliveries>,
    named: Arc<Named>,
    held: Option<Held>,
    /// When it was last known that nothing is late.
    known_at: UnixMillis,
    /// Whether how far the receiver is lay in the future in the last turn.
    is_ahead: bool,
    prevented_by: Option<String>,
}

/// What the server that delivers holds.
struct Held {
    /// The stored row, as this server wrote or read it last.
    expect: Expect,
    consumer: Consumer,
    /// Read, and not looked at.
    read: Option<Events>,
    /// To be delivered, in order, each with the cursor that it comes behind.
    waiting: VecDeque<(Cursor, Event)>,
    /// Everything up to here is delivered, waits, or is not for this receiver.
    passed: Cursor,
    saved: Instant,
}

/// What a turn did.
enum Turn {
    /// There may be more to do.
    Worked,
    /// There is nothing to do for so long.
    Rests(Duration),
}

impl Following {
    pub(super) fn new(deliveries: Arc<Deliveries>, named: Arc<Named>) -> Self {
        let known_at = deliveries.library.heads.now();
        Self { deliveries, named, held: None, known_at, is_ahead: false, prevented_by: None }
    }

    /// Delivers until it is asked to stop. Then other servers need not wait for the end of its
    /// lease.
    pub(super) async fn run(mut self, stopping: CancellationToken) {
        loop {
            let turn = tokio::select! {
                () = stopping.cancelled() => return self.release().await,
                turn = self.turn() => turn,
            };
            let pause = match turn {
                Ok(Turn::Worked) => continue,
                Ok(Turn::Rests(pause)) => pause,
                Err(error) => {
                    let (kind, name) = self.called();
                    tracing::warn!(kind, name, %error, "a receiver could not be looked after; it is tried again");
                    self.held = None;
                    self.show_lag(Some(self.known_at));
                    ERROR_PAUSE
                }
            };
            tokio::select! {
                () = stopping.cancelled() => return self.release().await,
                () = self.named.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does what there is to do now. It may be dropped at any point.
    async fn turn(&mut self) -> Result<Turn, FeedError> {
        let prevented_by = self.deliveries.check().err().map(|Refused(_, why)| why);
        if let Some(why) = &prevented_by {
            if prevented_by != self.prevented_by {
                let (kind, name) = self.called();
                tracing::warn!(kind, name, why, "this server does not deliver to a receiver");
            }
            self.prevented_by = prevented_by;
            return Ok(Turn::Rests(ERROR_PAUSE));
        }
        self.prevented_by = None;
        let known = self.deliveries.read(&self.named.name).await?;
        let Some(mut progress) = known.value.clone() else {
            self.begin(known.is_damaged(), known.expect).await?;
            return Ok(Turn::Worked);
        };
        let now = self.now();
        let is_parked = progress.parked.is_some();
        let metrics = &self.deliveries.kind.metrics;
        gauge!(metrics.parked, metrics.label => self.named.name.clone()).set(f64::from(u8::from(is_parked)));
        let is_free = progress.server == self.deliveries.server || !self.may_be_alive(&progress, now);
        if is_parked || !is_free {
            self.held = None;
            self.show_lag(progress.failing.as_ref().map(|failing| failing.at));
            return Ok(Turn::Rests(self.deliveries.pacing.look_every));
        }
        let mut held = match self.held.take().filter(|held| held.expect == known.expect) {
            Some(held) => held,
            None => match self.deliveries.library.feed.follow(progress.cursor).await {
                Ok(consumer) => Held::behind(consumer, known.expect),
                Err(error @ FeedError::Dropped { .. }) => {
                    return self.park(progress, known.expect, &error.to_string()).await;
                }
                Err(error) => return Err(error),
            },
        };
        let is_own = progress.server == self.deliveries.server && !self.must_renew(&progress, now);
        if !is_own && !self.save(&mut held, &mut progress).await? {
            return Ok(Turn::Worked);
        }
        if let Some(failing) = progress.failing.as_ref().filter(|failing| failing.next_try > now) {
            self.show_lag(Some(failing.at));
            self.held = Some(held);
            return Ok(Turn::Rests(failing.next_try.since(now).min(self.deliveries.pacing.look_every)));
        }
        self.deliver(held, progress).await
    }

    /// The kind and the name of the receiver.
    fn called(&self) -> (&'static str, &str) {
        (self.deliveries.kind.word, &self.named.name)
    }

    fn now(&self) -> UnixMillis {
        self.deliveries.library.heads.now()
    }

    /// Whether the server that has a lease may still deliver. Where only one process has the store,
    /// every other one is dead.
    fn may_be_alive(&self, progress: &Progress, now: UnixMillis) -> bool {
        let library = &self.deliveries.library;
        library.store().capabilities().is_shared && now <= progress.leased_until.plus(library.options().clock_skew_max)
    }

    fn must_renew(&self, progress: &Progress, now: UnixMillis) -> bool {
        self.deliveries.library.store().capabilities().is_shared && progress.leased_until.since(now) < LEASE * 3 / 4
    }

    /// Begins with what happens from now on.
    async fn begin(&self, is_damaged: bool, expect: Expect) -> Result<(), FeedError> {
        let mut progress = Progress::behind(self.deliveries.library.feed.now().await?);
        let (kind, name) = self.called();
        if is_damaged {
            tracing::error!(kind, name, "how far a receiver is cannot be read; it is parked");
            let why = "how far it was is lost: resume it from a cursor or a time";
            progress = progress.parked(self.now(), why);
        } else {
            tracing::info!(kind, name, cursor = %progress.cursor, "a new receiver gets what happens from now on");
        }
        self.deliveries.write(&self.named.name, &progress, expect).await?;
        Ok(())
    }

    /// Sends nothing more until an operator resumes.
    async fn park(&self, progress: Progress, expect: Expect, why: &str) -> Result<Turn, FeedError> {
        let ((kind, name), receivers) = (self.called(), self.deliveries.kind.plural);
        tracing::error!(kind, name, why, "a receiver is parked: nothing is sent until `penates {receivers} resume`");
        let parked = progress.parked(self.now(), why);
        self.deliveries.write(&self.named.name, &parked, expect).await?;
        Ok(Turn::Worked)
    }

    /// Writes how far it came, and renews the lease. `false`: another server or an operator has
    /// changed it.
    async fn save(&self, held: &mut Held, progress: &mut Progress) -> Result<bool, FeedError> {
        progress.cursor = held.done();
        (progress.server, progress.leased_until) = (self.deliveries.server, self.now().plus(LEASE));
        progress.skipped.retain(|skipped| *skipped > progress.cursor);
        let written = self.deliveries.write(&self.named.name, progress, held.expect).await?;
        if let Some(expect) = written {
            (held.expect, held.saved) = (expect, Instant::now());
        }
        Ok(written.is_some())
    }

    /// Waits for events and sends them. It keeps what it holds unless somebody else has changed how
    /// far the receiver is.
    async fn deliver(&mut self, mut held: Held, mut progress: Progress) -> Result<Turn, FeedError> {
        match held.fill(&self.named, &progress.skipped).await {
            Err(error @ FeedError::Dropped { .. }) => {
                return self.park(progress, held.expect, &error.to_string()).await;
            }
            filled => filled?,
        }
        let is_ahead = held.waiting.is_empty() && self.deliveries.is_in_the_future(held.done()).await?;
        self.note_ahead(is_ahead, held.done());
        if is_ahead {
            // What happens is not sent, so nobody knows whether anything is late. The clock may have
            // been ahead when that was known.
            self.known_at = self.known_at.min(self.now());
            self.show_lag(Some(self.known_at));
        } else {
            self.known_at = self.now();
            self.show_lag(held.waiting.front().map(|(_, event)| event.at));
        }
        // An event that failed may not have been read again yet, or may not be for this receiver any
        // more.
        let failing = progress.failing.take().filter(|failing| failing.event > held.passed || held.has(failing.event));
        if held.waiting.is_empty() {
            let is_due = failing.is_none() && held.done() != progress.cursor && held.saved.elapsed() >= IDLE_SAVE;
            if !is_due || self.save(&mut held, &mut progress).await? {
                self.held = Some(held);
            }
            return Ok(Turn::Worked);
        }
        // While one event fails, no other is sent: mostly all would.
        let alone = failing.as_ref().map(|failing| failing.event).filter(|event| held.has(*event));
        let waiting = held.waiting.iter().map(|(_, event)| event);
        let events = waiting.filter(|event| alone.is_none_or(|alone| event.cursor == alone)).collect();
        let Sent { accepted, failed } = self.deliveries.send(&self.named, events).await;
        held.waiting.retain(|(_, event)| !accepted.contains(&event.cursor));
        let now = self.now();
        if !accepted.is_empty() {
            progress.delivered = Some(now);
        }
        let Some((event, failure)) = failed else {
            // A round may end before anything is sent: a broker took long to be connected to.
            if alone.is_some_and(|alone| accepted.contains(&alone)) {
                let (kind, name) = self.called();
                tracing::info!(kind, name, "a receiver accepts messages again");
            } else {
                progress.failing = failing;
            }
            if self.save(&mut held, &mut progress).await? {
                self.held = Some(held);
            }
            return Ok(Turn::Worked);
        };
        let tries = 1 + failing.filter(|failing| failing.event == event.cursor).map_or(0, |failing| failing.tries);
        let chance = f64::from(self.deliveries.library.heads.surroundings().random.bytes::<1>()[0]) / 255.0;
        let pause = self.deliveries.pacing.schedule.pause(tries, failure.asks_to_wait, chance);
        let pause = pause.filter(|_| !failure.is_final);
        let next_try = now.plus(pause.unwrap_or_default());
        let ((kind, name), why) = (self.called(), shortened(&failure.why));
        tracing::warn!(kind, name, event = %event.cursor, tries, why, "a receiver did not accept a message");
        progress.failing = Some(Failing { event: event.cursor, at: event.at, tries, next_try, why: why.clone() });
        if !self.save(&mut held, &mut progress).await? {
            return Ok(Turn::Worked);
        }
        if pause.is_some() {
            self.held = Some(held);
            return Ok(Turn::Worked);
        }
        let why = match failure.is_final {
            true => why,
            false => format!("a message was not accepted {tries} times; the last time {why}"),
        };
        self.park(progress, held.expect, &why).await
    }

    /// Says once that what happens until a place is not sent.
    fn note_ahead(&mut self, is_ahead: bool, place: Cursor) {
        if is_ahead && !self.is_ahead {
            let ((kind, name), receivers) = (self.called(), self.deliveries.kind.plural);
            tracing::error!(
                kind,
                name,
                cursor = %place,
                "how far a receiver is lies in the future: nothing is sent to it until then, or until \
                 `penates {receivers} resume --from`"
            );
        }
        self.is_ahead = is_ahead;
    }

    /// Sets the gauge to the age of what waits since `since`.
    fn show_lag(&self, since: Option<UnixMillis>) {
        let lag = since.map(|since| self.now().since(since)).unwrap_or_default();
        let metrics = &self.deliveries.kind.metrics;
        gauge!(metrics.lag, metrics.label => self.named.name.clone()).set(lag.as_secs_f64());
    }

    /// Lets another server deliver at once, as soon as nothing of this one is on its way.
    async fn release(&self) {
        self.named.receiver.stop().await;
        if self.deliveries.check().is_err() || !self.deliveries.library.store().capabilities().is_shared {
            return;
        }
        let released = async {
            let known = self.deliveries.read(&self.named.name).await?;
            if let Some(progress) = known.value.filter(|progress| progress.server == self.deliveries.server) {
                let released = Progress { leased_until: UnixMillis(0), server: [0; 16], ..progress };
                self.deliveries.write(&self.named.name, &released, known.expect).await?;
            }
            ObjectsResult::Ok(())
        };
        if let Err(error) = released.await {
            let (kind, name) = self.called();
            tracing::warn!(kind, name, %error, "a receiver was not given back");
        }
    }
}

impl Held {
    fn behind(consumer: Consumer, expect: Expect) -> Self {
        let passed = consumer.cursor();
        Self { expect, consumer, read: None, waiting: VecDeque::new(), passed, saved: Instant::now() }
    }

    /// Whether an event waits.
    fn has(&self, event: Cursor) -> bool {
        self.waiting.iter().any(|(_, waiting)| waiting.cursor == event)
    }

    /// Up to where everything is delivered, or not for this receiver.
    fn done(&self) -> Cursor {
        self.waiting.front().map_or(self.passed, |(behind, _)| *behind)
    }

    /// Waits for events if none waits; after some seconds there may still be none. It may be dropped
    /// at any point.
    async fn fill(&mut self, named: &Named, skipped: &[Cursor]) -> Result<(), FeedError> {
        if !self.waiting.is_empty() {
            return Ok(());
        }
        let events = match &mut self.read {
            Some(events) => events,
            None => self.read.insert(self.consumer.next().await?),
        };
        while self.waiting.len() < HELD_MAX {
            let Some(event) = events.take_next() else {
                self.read = None;
                self.passed = self.consumer.cursor().max(self.passed);
                break;
            };
            if named.wants(event) && !skipped.contains(&event.cursor) {
                self.waiting.push_back((self.passed, event.clone()));
            }
            self.passed = event.cursor;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::body::Body;
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use heads::ResourcePath;
    use http::{Method, Request, header};
    use parking_lot::Mutex;
    use store::SystemClock;
    use store_embedded::{EmbeddedOptions, EmbeddedStore};
    use tower::ServiceExt;

    use super::*;
    use crate::access::Via;
    use crate::app::App;
    use crate::bridges::KIND;
    use crate::config::{Access, Config};
    use crate::delivery::{Failure, Pacing, Receiver, Schedule, routes};

    /// A receiver that accepts nothing, and in its second round gets nothing.
    struct Unwilling {
        rounds: Arc<AtomicUsize>,
    }

    impl Receiver for Unwilling {
        fn origin(&self) -> String {
            "amqp://broker.test".to_owned()
        }

        fn send<'a>(
            &'a self,
            events: Vec<&'a Event>,
            _: &'a (dyn Fn() -> UnixMillis + Send + Sync),
        ) -> BoxFuture<'a, Sent> {
            let is_late = self.rounds.fetch_add(1, Ordering::SeqCst) == 1;
            let event = events.first().filter(|_| !is_late).map(|event| (*event).clone());
            let failed = event.map(|event| (event, Failure::passing("it does not want it".to_owned())));
            std::future::ready(Sent { failed, ..Sent::default() }).boxed()
        }

        fn test(&self, _: String, _: UnixMillis) -> BoxFuture<'_, Result<(), Failure>> {
            std::future::ready(Ok(())).boxed()
        }
    }

    /// A receiver that accepts nothing, and refuses the last event that it gets.
    struct Backwards {
        /// The events of each round.
        rounds: Arc<Mutex<Vec<Vec<Cursor>>>>,
    }

    impl Receiver for Backwards {
        fn origin(&self) -> String {
            "amqp://broker.test".to_owned()
        }

        fn send<'a>(
            &'a self,
            events: Vec<&'a Event>,
            _: &'a (dyn Fn() -> UnixMillis + Send + Sync),
        ) -> BoxFuture<'a, Sent> {
            self.rounds.lock().push(events.iter().map(|event| event.cursor).collect());
            let failed = events.last().map(|event| ((*event).clone(), Failure::passing("not this one".to_owned())));
            std::future::ready(Sent { failed, ..Sent::default() }).boxed()
        }

        fn test(&self, _: String, _: UnixMillis) -> BoxFuture<'_, Result<(), Failure>> {
            std::future::ready(Ok(())).boxed()
        }
    }

    /// A server whose receiver `slow` gets what happens from now on.
    async fn begun(receiver: impl Receiver + 'static) -> (tempfile::TempDir, App, Arc<Deliveries>, Following) {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
        let mut config = Config::default();
        config.auth.write = Access::Open;
        config.ldp.origin = "http://books.test".to_owned();
        let app = App::open(config, store).await.unwrap();
        let named = Named::new("slow", ResourcePath::root(), receiver);
        let schedule = Schedule { pauses: vec![Duration::from_millis(1)], is_endless: true };
        let receivers = vec![named.clone()];
        let deliveries = Deliveries::new(&KIND, app.library().clone(), receivers, Pacing::with(schedule));
        let mut following = Following::new(deliveries.clone(), named);
        following.turn().await.unwrap();
        (folder, app, deliveries, following)
    }

    async fn put(app: &App, path: &str) {
        let uri = format!("/rest/{path}");
        let put = Request::builder().method(Method::PUT).uri(uri).header(header::HOST, "books.test");
        let put = put.header(header::CONTENT_TYPE, "text/turtle").body(Body::empty()).unwrap();
        assert!(app.router(Via::Network).oneshot(put).await.unwrap().status().is_success());
    }

    #[tokio::test]
    async fn each_event_that_an_operator_skips_is_left_out_although_one_before_it_was_not_accepted() {
        let rounds = Arc::<Mutex<Vec<Vec<Cursor>>>>::default();
        let (_folder, app, deliveries, mut following) = begun(Backwards { rounds: rounds.clone() }).await;
        let skip = async || {
            let uri = "/admin/bridges/slow/resume?skip=true";
            let skip = Request::builder().method(Method::POST).uri(uri).body(Body::empty()).unwrap();
            let response = routes(deliveries.clone()).oneshot(skip).await.unwrap();
            assert!(response.status().is_success(), "{}", response.status());
        };
        put(&app, "a").await;
        put(&app, "b").await;
        following.turn().await.unwrap();
        skip().await;
        following.turn().await.unwrap();
        put(&app, "c").await;
        skip().await;
        following.turn().await.unwrap();

        let rounds = rounds.lock().clone();
        assert_eq!(rounds.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1], "{rounds:?}");
        assert_eq!(rounds[1][0], rounds[0][0], "the second event was skipped");
        assert!(rounds[2][0] > rounds[0][1], "both were skipped");
        let progress = deliveries.read("slow").await.unwrap().value.unwrap();
        assert_eq!(progress.skipped, [], "all of them are passed");
    }

    #[tokio::test]
    async fn a_round_in_which_nothing_was_sent_does_not_forget_what_failed_before() {
        let rounds = Arc::<AtomicUsize>::default();
        let (_folder, app, deliveries, mut following) = begun(Unwilling { rounds: rounds.clone() }).await;
        put(&app, "a").await;

        let begun = Instant::now();
        while rounds.load(Ordering::SeqCst) < 3 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is not sent again");
            if let Turn::Rests(pause) = following.turn().await.unwrap() {
                tokio::time::sleep(pause).await;
            }
        }
        let progress = deliveries.read("slow").await.unwrap().value.unwrap();
        assert_eq!(progress.failing.unwrap().tries, 2);
    }
}
