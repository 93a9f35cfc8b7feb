//! Delivers events to one webhook: those of one object in their order, those of different objects at
//! the same time.
//!
//! The loop reads how far the webhook is, follows the feed from there, sends what it can, and writes
//! how far it came. A server that dies in between sends some events again: each is delivered at
//! least once. What is stored is the only truth: if it is not what this server wrote last, another
//! server or an operator has changed it, and everything that was held here is forgotten.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::feed::{Consumer, Cursor, Event, Events, FeedError, Subject};
use futures::{StreamExt, stream};
use heads::ObjectsResult;
use metrics::gauge;
use store::{Expect, UnixMillis};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::progress::{self, Failing, LEASE, Progress, shortened};
use super::retries;
use super::sender::Failure;
use super::{Webhook, Webhooks};
use crate::feed::Refused;
use crate::telemetry;

/// Events that are held at once.
const HELD_MAX: usize = 64;

/// Messages that are on their way to one webhook at once.
const AT_ONCE: usize = 4;

/// After this time a round begins no further message. With the longest attempt it is shorter than a
/// lease.
const ROUND: Duration = Duration::from_secs(15);

/// How often it is written that events passed which the webhook does not get.
const IDLE_SAVE: Duration = Duration::from_secs(30);

/// The pause after an error, and while nothing can be delivered.
const ERROR_PAUSE: Duration = Duration::from_secs(30);

/// The task of one webhook on one server.
pub(super) struct Delivery {
    webhooks: Arc<Webhooks>,
    hook: Arc<Webhook>,
    held: Option<Held>,
    /// When it was last known that nothing is late.
    known_at: UnixMillis,
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
    /// Everything up to here is delivered, waits, or is not for this webhook.
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

impl Delivery {
    pub(super) fn new(webhooks: Arc<Webhooks>, hook: Arc<Webhook>) -> Self {
        let known_at = webhooks.library.heads.now();
        Self { webhooks, hook, held: None, known_at, prevented_by: None }
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
                    let webhook = &self.hook.name;
                    tracing::warn!(webhook, %error, "a webhook could not be looked after; it is tried again");
                    self.held = None;
                    self.show_lag(Some(self.known_at));
                    ERROR_PAUSE
                }
            };
            tokio::select! {
                () = stopping.cancelled() => return self.release().await,
                () = self.hook.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does what there is to do now. It may be dropped at any point.
    async fn turn(&mut self) -> Result<Turn, FeedError> {
        let prevented_by = self.webhooks.check().err().map(|Refused(_, why)| why);
        if let Some(why) = &prevented_by {
            if prevented_by != self.prevented_by {
                tracing::warn!(webhook = self.hook.name, why, "a webhook is not delivered by this server");
            }
            self.prevented_by = prevented_by;
            return Ok(Turn::Rests(ERROR_PAUSE));
        }
        self.prevented_by = None;
        let known = progress::read(&self.webhooks.library.heads, &self.hook.name).await?;
        let Some(mut progress) = known.value.clone() else {
            self.begin(known.is_damaged(), known.expect).await?;
            return Ok(Turn::Worked);
        };
        let now = self.now();
        let is_parked = progress.parked.is_some();
        gauge!(telemetry::WEBHOOK_PARKED, "webhook" => self.hook.name.clone()).set(f64::from(u8::from(is_parked)));
        let is_free = progress.server == self.webhooks.server || !self.may_be_alive(&progress, now);
        if is_parked || !is_free {
            self.held = None;
            self.show_lag(progress.failing.as_ref().map(|failing| failing.at));
            return Ok(Turn::Rests(self.webhooks.pacing.look_every));
        }
        let mut held = match self.held.take().filter(|held| held.expect == known.expect) {
            Some(held) => held,
            None => match self.webhooks.library.feed.follow(progress.cursor).await {
                Ok(consumer) => Held::behind(consumer, known.expect),
                Err(error @ FeedError::Dropped { .. }) => {
                    return self.park(progress, known.expect, &error.to_string()).await;
                }
                Err(error) => return Err(error),
            },
        };
        let is_own = progress.server == self.webhooks.server && !self.must_renew(&progress, now);
        if !is_own && !self.save(&mut held, &mut progress).await? {
            return Ok(Turn::Worked);
        }
        if let Some(failing) = progress.failing.as_ref().filter(|failing| failing.next_try > now) {
            self.show_lag(Some(failing.at));
            self.held = Some(held);
            return Ok(Turn::Rests(failing.next_try.since(now).min(self.webhooks.pacing.look_every)));
        }
        self.deliver(held, progress).await
    }

    fn now(&self) -> UnixMillis {
        self.webhooks.library.heads.now()
    }

    /// Whether the server that has a lease may still deliver. Where only one process has the store,
    /// every other one is dead.
    fn may_be_alive(&self, progress: &Progress, now: UnixMillis) -> bool {
        let library = &self.webhooks.library;
        library.store().capabilities().is_shared && now <= progress.leased_until.plus(library.options().clock_skew_max)
    }

    fn must_renew(&self, progress: &Progress, now: UnixMillis) -> bool {
        self.webhooks.library.store().capabilities().is_shared && progress.leased_until.since(now) < LEASE * 3 / 4
    }

    /// Begins with what happens from now on.
    async fn begin(&self, is_damaged: bool, expect: Expect) -> Result<(), FeedError> {
        let mut progress = Progress::behind(self.webhooks.library.feed.now().await?);
        let webhook = &self.hook.name;
        if is_damaged {
            tracing::error!(webhook, "how far a webhook is cannot be read; it is parked");
            let why = "how far it was is lost: resume it from a cursor or a time";
            progress = progress.parked(self.now(), why);
        } else {
            tracing::info!(webhook, cursor = %progress.cursor, "a new webhook gets what happens from now on");
        }
        progress::write(&self.webhooks.library.heads, webhook, &progress, expect).await?;
        Ok(())
    }

    /// Sends nothing more until an operator resumes.
    async fn park(&self, progress: Progress, expect: Expect, why: &str) -> Result<Turn, FeedError> {
        let webhook = &self.hook.name;
        tracing::error!(webhook, why, "a webhook is parked: nothing is sent until `penates webhooks resume`");
        let parked = progress.parked(self.now(), why);
        progress::write(&self.webhooks.library.heads, webhook, &parked, expect).await?;
        Ok(Turn::Worked)
    }

    /// Writes how far it came, and renews the lease. `false`: another server or an operator has
    /// changed it.
    async fn save(&self, held: &mut Held, progress: &mut Progress) -> Result<bool, FeedError> {
        progress.cursor = held.done();
        (progress.server, progress.leased_until) = (self.webhooks.server, self.now().plus(LEASE));
        if progress.skipped.is_some_and(|skipped| skipped <= progress.cursor) {
            progress.skipped = None;
        }
        let written = progress::write(&self.webhooks.library.heads, &self.hook.name, progress, held.expect).await?;
        if let Some(expect) = written {
            (held.expect, held.saved) = (expect, Instant::now());
        }
        Ok(written.is_some())
    }

    /// Waits for events and sends them. It keeps what it holds unless somebody else has changed how
    /// far the webhook is.
    async fn deliver(&mut self, mut held: Held, mut progress: Progress) -> Result<Turn, FeedError> {
        match held.fill(&self.hook, progress.skipped).await {
            Err(error @ FeedError::Dropped { .. }) => {
                return self.park(progress, held.expect, &error.to_string()).await;
            }
            filled => filled?,
        }
        self.known_at = self.now();
        self.show_lag(held.waiting.front().map(|(_, event)| event.at));
        // An event that failed may not have been read again yet, or may not be for this webhook any
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
        let Sent { accepted, failed } = Round::of(&held.waiting, alone).send(&self.webhooks, &self.hook).await;
        held.waiting.retain(|(_, event)| !accepted.contains(&event.cursor));
        let now = self.now();
        if !accepted.is_empty() {
            progress.delivered = Some(now);
        }
        let Some((event, failure)) = failed else {
            if alone.is_some() {
                tracing::info!(webhook = self.hook.name, "a webhook accepts messages again");
            } else {
                progress.failing = failing;
            }
            if self.save(&mut held, &mut progress).await? {
                self.held = Some(held);
            }
            return Ok(Turn::Worked);
        };
        let tries = 1 + failing.filter(|failing| failing.event == event.cursor).map_or(0, |failing| failing.tries);
        let chance = f64::from(self.webhooks.library.heads.surroundings().random.bytes::<1>()[0]) / 255.0;
        let pause = retries::pause(&self.webhooks.pacing.schedule, tries, failure.asks_to_wait, chance);
        let pause = pause.filter(|_| !failure.is_final);
        let next_try = now.plus(pause.unwrap_or_default());
        let (webhook, why) = (&self.hook.name, shortened(&failure.why));
        tracing::warn!(webhook, event = %event.cursor, tries, why, "a webhook did not accept a message");
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

    /// Sets the gauge to the age of what waits since `since`.
    fn show_lag(&self, since: Option<UnixMillis>) {
        let lag = since.map(|since| self.now().since(since)).unwrap_or_default();
        gauge!(telemetry::WEBHOOK_LAG, "webhook" => self.hook.name.clone()).set(lag.as_secs_f64());
    }

    /// Lets another server deliver at once.
    async fn release(&self) {
        let heads = &self.webhooks.library.heads;
        if self.webhooks.check().is_err() || !self.webhooks.library.store().capabilities().is_shared {
            return;
        }
        let released = async {
            let known = progress::read(heads, &self.hook.name).await?;
            if let Some(progress) = known.value.filter(|progress| progress.server == self.webhooks.server) {
                let released = Progress { leased_until: UnixMillis(0), server: [0; 16], ..progress };
                progress::write(heads, &self.hook.name, &released, known.expect).await?;
            }
            ObjectsResult::Ok(())
        };
        if let Err(error) = released.await {
            tracing::warn!(webhook = self.hook.name, %error, "a webhook was not given back");
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

    /// Up to where everything is delivered, or not for this webhook.
    fn done(&self) -> Cursor {
        self.waiting.front().map_or(self.passed, |(behind, _)| *behind)
    }

    /// Waits for events if none waits; after some seconds there may still be none. It may be dropped
    /// at any point.
    async fn fill(&mut self, hook: &Webhook, skipped: Option<Cursor>) -> Result<(), FeedError> {
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
            if hook.wants(event) && Some(event.cursor) != skipped {
                self.waiting.push_back((self.passed, event.clone()));
            }
            self.passed = event.cursor;
        }
        Ok(())
    }
}

/// Events that are sent together.
struct Round<'a> {
    /// The events of each object, in order.
    chains: Vec<Vec<&'a Event>>,
}

/// What came of a round.
#[derive(Default)]
struct Sent {
    accepted: HashSet<Cursor>,
    /// The first event that was not.
    failed: Option<(Event, Failure)>,
}

impl<'a> Round<'a> {
    /// All that wait, or one alone.
    fn of(waiting: &'a VecDeque<(Cursor, Event)>, alone: Option<Cursor>) -> Self {
        let mut chains: Vec<(&Subject, Vec<&Event>)> = Vec::new();
        let events = waiting.iter().map(|(_, event)| event);
        for event in events.filter(|event| alone.is_none_or(|alone| event.cursor == alone)) {
            match chains.iter_mut().find(|(subject, _)| **subject == event.subject) {
                Some((_, chain)) => chain.push(event),
                None => chains.push((&event.subject, vec![event])),
            }
        }
        Self { chains: chains.into_iter().map(|(_, chain)| chain).collect() }
    }

    /// Sends until a message is not accepted, or the round has taken long enough.
    async fn send(self, webhooks: &Webhooks, hook: &Webhook) -> Sent {
        let (begun, has_failed) = (Instant::now(), AtomicBool::new(false));
        let send = async |chain: Vec<&Event>| {
            let mut sent = Sent::default();
            for event in chain {
                if has_failed.load(Ordering::Relaxed) || begun.elapsed() >= ROUND {
                    break;
                }
                match hook.send(event, webhooks.library.heads.now()).await {
                    Ok(()) => _ = sent.accepted.insert(event.cursor),
                    Err(failure) => {
                        has_failed.store(true, Ordering::Relaxed);
                        sent.failed = Some((event.clone(), failure));
                    }
                }
            }
            sent
        };
        let mut sending = std::pin::pin!(stream::iter(self.chains.into_iter().map(send)).buffer_unordered(AT_ONCE));
        let mut all = Sent::default();
        while let Some(sent) = sending.next().await {
            all.accepted.extend(sent.accepted);
            let earlier = |one: (Event, Failure), other: (Event, Failure)| match one.0.cursor < other.0.cursor {
                true => one,
                false => other,
            };
            all.failed = match (all.failed.take(), sent.failed) {
                (Some(one), Some(other)) => Some(earlier(one, other)),
                (one, other) => one.or(other),
            };
        }
        all
    }
}
