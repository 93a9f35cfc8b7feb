//! Consumers of the change feed: they follow it on any server, stop, and resume at their cursors.
//! At the end each has seen what happened to each object, all of it, once and in order, and each
//! version that was surely removed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::feed::{Change, Cursor, Event, Page, Subject};
use bytes::Bytes;
use heads::{ObjectState, RevisionId, keys};
use store::Clock;

use super::Run;
use super::hold::Suspension;
use crate::model::Version;
use crate::setup::Setup;
use crate::work::{VOLUMES, Work, volume_id};

/// Consumers of a run.
const CONSUMERS: usize = 3;

/// Of a thousand operations, so many read the feed.
const FOLLOWING: u64 = 200;

/// A consumer. What it has seen and its cursor change together.
pub(super) struct Consumer {
    cursor: Cursor,
    seen: Vec<Event>,
    /// The removed versions of which it has learned.
    removed: BTreeSet<(Bytes, RevisionId)>,
}

/// The consumers of a world.
pub(super) fn consumers(setup: &Setup) -> Vec<Consumer> {
    let consumer = |_| Consumer { cursor: Cursor::BEGINNING, seen: Vec::new(), removed: BTreeSet::new() };
    (0..CONSUMERS).filter(|_| setup.announces()).map(consumer).collect()
}

impl Consumer {
    /// Takes a page, unless another one was faster.
    pub(super) fn takes(&mut self, from: Cursor, page: Page) {
        if self.cursor == from {
            self.seen.extend(page.events);
            self.removed.extend(page.removed.into_iter().map(|removed| (removed.object, removed.revision)));
            self.cursor = page.end.unwrap_or(from);
        }
    }
}

impl Run {
    /// Whether a consumer reads next.
    pub(super) fn follows(&mut self) -> Option<Work> {
        if !self.setup.announces() || !self.workload.permille(FOLLOWING) {
            return None;
        }
        let consumer = self.workload.place(CONSUMERS);
        let max = self.workload.place(4) + 1;
        Some(Work::Follow { consumer, from: self.consumers[consumer].cursor, max })
    }

    /// A writer is suspended before it announces its change, for longer than consumers wait for it.
    /// They read on meanwhile.
    pub(super) async fn suspend_a_writer(&mut self) {
        if !self.setup.announces() || self.servers[0].library.is_none() {
            return;
        }
        let import = Work::Import { volume: volume_id(VOLUMES[0]), token: format!("t{}", self.operations) };
        self.ask(0, import);
        self.suspension = Suspension::Wanted;
        while self.suspension == Suspension::Wanted && !self.running.is_empty() && !self.is_over() {
            self.turn().await;
        }
        if std::mem::take(&mut self.suspension) == Suspension::Begun {
            self.note("a writer is suspended");
            self.beyond_the_horizons().await;
            for consumer in 0..self.consumers.len() {
                self.ask(0, Work::Follow { consumer, from: self.consumers[consumer].cursor, max: 50 });
            }
            while self.running.len() > 1 && !self.is_over() {
                self.turn().await;
            }
            self.note("the writer goes on");
        }
        self.until_idle().await;
    }

    /// Time passes until no writer that has begun tries any more, by any clock.
    async fn beyond_the_horizons(&self) {
        let options = &self.setup.options;
        let until = options.switch_within + options.call_timeout + 2 * options.clock_skew_max;
        tokio::time::sleep(until + Duration::from_secs(1)).await;
    }

    /// All consumers read to the end, and are compared with what happened.
    pub(super) async fn followed(&mut self) {
        if !self.setup.announces() {
            return;
        }
        self.beyond_the_horizons().await;
        for consumer in 0..self.consumers.len() {
            loop {
                let from = self.consumers[consumer].cursor;
                let seen = self.consumers[consumer].seen.len();
                self.ask(0, Work::Follow { consumer, from, max: 50 });
                self.until_idle().await;
                let now = self.servers[0].clock.now();
                self.world.lock().heal(now);
                if self.is_over() {
                    return;
                }
                if self.consumers[consumer].seen.len() == seen {
                    break;
                }
            }
        }
        let wrong: Vec<String> = {
            let world = self.world.lock();
            let compared = |(number, consumer): (usize, &Consumer)| {
                let seen = by_object(&consumer.seen);
                let objects = world
                    .model
                    .versions
                    .iter()
                    .filter(|(object, _)| object.starts_with(b"r/") || object.starts_with(b"v/"));
                let differs = |(object, versions): (&Bytes, &Vec<Version>)| {
                    let (seen, made) = (seen.get(object).cloned().unwrap_or_default(), changes(versions));
                    (seen != made).then(|| {
                        format!(
                            "consumer {number} has seen {seen:?} of {}, and made was {made:?}",
                            object.escape_ascii()
                        )
                    })
                };
                // That a received version is removed is announced without saying which one.
                let removals =
                    world.model.removals().filter(|(object, revision)| !world.model.is_received(object, *revision));
                let unknown = removals.filter(|version| !consumer.removed.contains(*version));
                let unknown = unknown.map(|(object, revision)| {
                    format!("consumer {number} has not learned that {revision} of {} is removed", object.escape_ascii())
                });
                objects.filter_map(differs).chain(unknown).collect::<Vec<_>>()
            };
            self.consumers.iter().enumerate().flat_map(compared).collect()
        };
        wrong.into_iter().for_each(|wrong| self.wrong(wrong));
    }
}

fn by_object(events: &[Event]) -> BTreeMap<Bytes, Vec<(Change, RevisionId)>> {
    let mut seen: BTreeMap<Bytes, Vec<_>> = BTreeMap::new();
    for event in events {
        let object = match &event.subject {
            Subject::Resource(path) => keys::resource_partition(path),
            Subject::Volume(id) => keys::volume_partition(id),
        };
        seen.entry(object).or_default().push((event.change, event.revision));
    }
    seen
}

/// What happened to an object, by the heads that were decided.
fn changes(versions: &[Version]) -> Vec<(Change, RevisionId)> {
    let (mut changes, mut before) = (Vec::new(), (RevisionId::ZERO, false));
    for Version { head, .. } in versions {
        let (revision, was_live) = before;
        let is_live = head.state == ObjectState::Live;
        let change = match (was_live, is_live) {
            _ if head.revision == revision => None,
            (false, true) => Some(Change::Created),
            (true, true) => Some(Change::Updated),
            (true, false) => Some(Change::Deleted),
            (false, false) => None,
        };
        changes.extend(change.map(|change| (change, head.revision)));
        before = (head.revision, is_live);
    }
    changes
}
