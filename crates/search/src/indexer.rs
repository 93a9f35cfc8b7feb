//! Keeps the index up to date: follows the change feed, and makes a new generation where one is
//! needed.
//!
//! One server writes; the others wait until its lease ends. Nothing depends on that: two servers
//! that write do the same work twice. The cursor is saved after what it stands for was written, so
//! a server that takes over applies some changes again, which changes nothing.
//!
//! A new generation is made while the present one answers. From its beginning on every change is
//! written to both. Beside that, a walk over everything writes to the new one what is there. The
//! order of the two does not matter, because the highest revision counts. When the walk has ended
//! and the feed has been read to its end, the new generation answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use feed::{Consumer, Cursor, Event, Feed, FeedError, Subject};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use heads::{Heads, ObjectsResult, ResourcePath};
use parking_lot::Mutex;
use repository::Repository;
use store::{Expect, Table, UnixMillis, boxed};

use crate::apply::apply;
use crate::cursors;
use crate::describe::{Change, OwnTypes, describe};
use crate::find::TIME_MAX;
use crate::state::{self, Building, Generation, State};

/// Resources that are read together: their heads, and those descriptions that have one row each.
const READ_TOGETHER: usize = 32;

/// Groups of resources that are read at the same time.
const GROUPS_AT_ONCE: usize = 4;

/// The most events of a page that is read while a generation is built.
const PAGE_EVENTS: usize = 500;

/// How long a server that saves nothing keeps the index.
const LEASE: Duration = Duration::from_secs(60);

/// How long a generation is kept after it was replaced. Searches of any server that began before
/// have ended by then, also those that end their last reads after their time.
const REPLACED_KEPT: Duration = TIME_MAX.saturating_add(Duration::from_secs(120));

/// Rows of replaced generations that are deleted in one turn.
const DELETED_AT_ONCE: u64 = 20_000;

/// How long a replaced generation is left alone after it could not be deleted: its rows may be
/// unreadable until the store has compacted them.
const DELETED_AGAIN: Duration = Duration::from_secs(600);

/// How often how far the index is is saved while nothing changes.
const IDLE_SAVE: Duration = Duration::from_secs(30);

/// How long a generation is not begun again because the feed cannot be followed.
const BEGUN_AGAIN: Duration = Duration::from_secs(600);

/// How often things are done.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// How often how far the index is is saved while something changes, at least.
    pub save_every: Duration,
    /// How often a server looks at an index that another one writes.
    pub look_every: Duration,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { save_every: Duration::from_secs(1), look_every: Duration::from_secs(5) }
    }
}

/// Why a turn failed.
enum Failure {
    /// The feed cannot be read on from the cursor, and waiting does not help.
    Lost(FeedError),
    /// A later turn tries again.
    Other(FeedError),
}

impl Failure {
    fn of_feed(error: FeedError) -> Self {
        match &error {
            FeedError::Dropped { .. } => Self::Lost(error),
            FeedError::Objects(cause) if cause.is_damage() => Self::Lost(error),
            _ => Self::Other(error),
        }
    }
}

impl<E: Into<FeedError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// What a turn did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There may be more to do.
    Worked,
    /// There is nothing to do now.
    Idle,
    /// Another server writes. There is nothing to do for so long.
    Waits(Duration),
    /// The index cannot be written from here.
    Prevented(String),
}

/// What monitors see of a server's work on the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Whether this server writes the index.
    pub is_writing: bool,
    /// Changes that it has read and written.
    pub changes: u64,
    /// The age of the oldest change that may be missing in the index, if this server writes it, or
    /// should.
    pub lag: Duration,
    /// Whether a complete generation answers.
    pub is_complete: bool,
    /// Whether a new generation is being built.
    pub is_building: bool,
    /// About how many resources are in the index.
    pub resources: u64,
    /// Whether the last attempt to write the index failed: changes may be missing until one
    /// succeeds.
    pub is_failing: bool,
}

/// Writes the index.
pub struct Indexer {
    heads: Heads,
    repository: Repository,
    feed: Feed,
    own_types: OwnTypes,
    pacing: Pacing,
    server: [u8; 16],
    held: Option<Held>,
    measures: Arc<Mutex<Measures>>,
    /// Up to when changes are in the index, as far as this server knows.
    until: Mutex<Option<UnixMillis>>,
    /// When a replaced generation could last not be deleted.
    not_deleted: Option<UnixMillis>,
}

/// What a server that writes has in memory.
struct Held {
    state: State,
    expect: Expect,
    saved: UnixMillis,
    /// Whether more than the cursor is not saved, or the cursor has passed an event since.
    is_changed: bool,
    /// Whether the cursor is not saved. It moves with the clock, even if nothing changes.
    is_moved: bool,
    consumer: Option<Consumer>,
}

impl Held {
    fn new(state: State, expect: Expect, now: UnixMillis) -> Self {
        Self { state, expect, saved: now, is_changed: false, is_moved: false, consumer: None }
    }
}

impl Indexer {
    /// The writer of a store's index, whose searches look at `measures`.
    pub(crate) fn new(
        heads: Heads,
        repository: Repository,
        feed: Feed,
        own_types: OwnTypes,
        pacing: Pacing,
        measures: Arc<Mutex<Measures>>,
    ) -> Self {
        let server = heads.surroundings().random.bytes();
        let until = Mutex::default();
        Self { heads, repository, feed, own_types, pacing, server, held: None, measures, until, not_deleted: None }
    }

    /// What monitors see of it.
    pub fn measures(&self) -> Arc<Mutex<Measures>> {
        self.measures.clone()
    }

    fn now(&self) -> UnixMillis {
        self.heads.now()
    }

    /// Why the index cannot be written from here.
    fn prevented(&self) -> Option<String> {
        if !self.heads.announces() {
            return Some("the change feed is off (feed.keep)".to_owned());
        }
        self.heads.store().check_home().err().map(|error| error.to_string())
    }

    /// Does what there is to do now, and waits some seconds for changes if there are none. It may
    /// be dropped at any point.
    ///
    /// Errors: those of the store and of the feed. A later turn tries again.
    pub fn turn(&mut self) -> BoxFuture<'_, Result<Turn, FeedError>> {
        async {
            let turn = self.step(true).await;
            self.show_lag(&turn);
            turn
        }
        .boxed()
    }

    /// Works until everything that the feed has by now is in the index, or this server must not
    /// write it.
    ///
    /// Errors: as of [`Indexer::turn`].
    #[boxed]
    pub async fn catch_up(&mut self) -> Result<Turn, FeedError> {
        loop {
            match self.step(false).await? {
                Turn::Worked => {}
                turn => return Ok(turn),
            }
        }
    }

    /// Where the index does not move, its lag grows. Another server that writes shows its own.
    fn show_lag(&self, turn: &Result<Turn, FeedError>) {
        let is_stuck = matches!(turn, Ok(Turn::Prevented(_)) | Err(_));
        let until = self.until.lock().filter(|_| is_stuck);
        let is_elsewhere = matches!(turn, Ok(Turn::Waits(_)));
        match until {
            Some(until) => self.show(|measures| measures.lag = self.now().since(until)),
            None if is_elsewhere => self.show(|measures| measures.lag = Duration::ZERO),
            None => {}
        }
    }

    async fn step(&mut self, waits: bool) -> Result<Turn, FeedError> {
        let turn = self.try_step(waits).await;
        self.show(|measures| measures.is_failing = turn.is_err());
        turn
    }

    async fn try_step(&mut self, waits: bool) -> Result<Turn, FeedError> {
        if let Some(why) = self.prevented() {
            self.held = None;
            self.show(|measures| measures.is_writing = false);
            return Ok(Turn::Prevented(why));
        }
        let known = state::read(&self.heads).await?;
        let mut held = match self.held.take().filter(|held| held.expect == known.expect) {
            Some(held) => held,
            None => {
                if known.is_damaged() {
                    tracing::error!("the state of the search index is damaged; the index is made anew");
                }
                cursors::provide(&self.heads).await?;
                let state = known.value.unwrap_or_else(|| self.anew());
                *self.until.lock() = state.cursor.map(Cursor::time);
                Held::new(state, known.expect, self.now())
            }
        };
        if held.state.server != self.server && self.may_be_alive(&held.state) {
            self.show(|measures| measures.is_writing = false);
            return Ok(Turn::Waits(self.pacing.look_every));
        }
        if self.must_renew(&held.state) && !self.save(&mut held).await? {
            return Ok(Turn::Worked);
        }
        match self.work(&mut held, waits).await {
            Ok(turn) => {
                self.show_state(&held.state);
                if !self.must_save(&held) || self.save(&mut held).await? {
                    self.held = Some(held);
                }
                Ok(turn)
            }
            Err(Failure::Lost(error)) => {
                // What is damaged may lie so near that reading from now on meets it again.
                let is_new = |building: &Building| self.now().since(building.begun) < BEGUN_AGAIN;
                if held.state.building.as_ref().is_some_and(is_new) {
                    return Err(error);
                }
                tracing::warn!(%error, "the search index cannot follow the change feed from here; it is made anew");
                self.begin_from_now(&mut held, "the change feed could not be followed".to_owned()).await?;
                self.save(&mut held).await?;
                Ok(Turn::Worked)
            }
            Err(Failure::Other(error)) => Err(error),
        }
    }

    /// Lets other servers write at once, also after a turn that was dropped.
    pub fn release(&mut self) -> BoxFuture<'_, Result<(), FeedError>> {
        async move {
            let held = self.held.take();
            if !self.is_shared() || self.prevented().is_some() {
                return Ok(());
            }
            // A turn takes what is held, and one that was dropped has lost it. The store has the
            // lease all the same.
            let known = state::read(&self.heads).await?;
            let held = held.filter(|held| held.expect == known.expect).map(|held| held.state);
            let own = held.or(known.value).filter(|state| state.server == self.server);
            if let Some(mut state) = own {
                (state.server, state.leased_until) = ([0; 16], UnixMillis(0));
                state::write(&self.heads, &state, known.expect).await?;
            }
            Ok(())
        }
        .boxed()
    }

    /// A state of which nothing is known. Its generations have numbers that no earlier one has.
    fn anew(&self) -> State {
        let newest = u32::try_from(self.now().0 / 1_000).unwrap_or(0);
        State { newest, ..State::default() }
    }

    fn is_shared(&self) -> bool {
        self.heads.store().capabilities().is_shared
    }

    /// Whether the server that has a lease may still write. Where only one process has the store,
    /// every other one is dead.
    fn may_be_alive(&self, state: &State) -> bool {
        self.is_shared() && self.now() <= state.leased_until.plus(self.heads.options().clock_skew_max)
    }

    fn must_renew(&self, state: &State) -> bool {
        state.server != self.server || (self.is_shared() && state.leased_until.since(self.now()) < LEASE * 3 / 4)
    }

    fn must_save(&self, held: &Held) -> bool {
        let now = self.now();
        // A clock that was set back must not keep it from being saved.
        let has_passed = |pause| now < held.saved || now.since(held.saved) >= pause;
        (held.is_changed && has_passed(self.pacing.save_every)) || (held.is_moved && has_passed(IDLE_SAVE))
    }

    /// Writes how far it came, and renews the lease. `false`: somebody else has changed it.
    async fn save(&self, held: &mut Held) -> ObjectsResult<bool> {
        (held.state.server, held.state.leased_until) = (self.server, self.now().plus(LEASE));
        let Some(expect) = state::write(&self.heads, &held.state, held.expect).await? else { return Ok(false) };
        (held.expect, held.saved) = (expect, self.now());
        (held.is_changed, held.is_moved) = (false, false);
        Ok(true)
    }

    /// Does some work. What it changes is saved later, but for what others must know at once.
    async fn work(&mut self, held: &mut Held, waits: bool) -> Result<Turn, Failure> {
        self.delete_replaced(held).await;
        let outgrown = || held.state.live.is_some_and(Generation::is_outgrown).then(|| "it has grown".to_owned());
        let first = || held.state.live.is_none().then(|| "there was none".to_owned());
        let wanted = held.state.wanted.clone();
        let is_free = wanted.is_some() || held.state.building.is_none();
        if let Some(why) = wanted.or_else(first).or_else(outgrown).filter(|_| is_free) {
            self.begin(held, why).await?;
            if !self.save(held).await? {
                return Ok(Turn::Worked);
            }
        }
        let Some(cursor) = held.state.cursor else { return Ok(Turn::Worked) };
        if held.state.building.is_some() || !waits {
            held.consumer = None;
            let page = self.feed.after(cursor, PAGE_EVENTS).await.map_err(Failure::of_feed)?;
            self.follow(held, &page.events, page.end.unwrap_or(cursor), page.is_last).await?;
            if held.state.building.is_none() {
                return Ok(if page.is_last { Turn::Idle } else { Turn::Worked });
            }
            self.walk(held).await?;
            let is_walked = held.state.building.as_ref().is_some_and(|building| building.is_walked);
            if is_walked && page.is_last {
                held.state.switch(self.now());
                tracing::info!("a new search index answers");
                self.save(held).await?;
            }
            return Ok(Turn::Worked);
        }
        let consumer = match &mut held.consumer {
            Some(consumer) => consumer,
            None => held.consumer.insert(self.feed.follow(cursor).await.map_err(Failure::of_feed)?),
        };
        let events = consumer.next().await.map_err(Failure::of_feed)?;
        let end = consumer.cursor();
        // What came last was made just now, if there is no more.
        let followed = self.follow(held, events.as_slice(), end, events.as_slice().is_empty()).await;
        if followed.is_err() {
            // The consumer has passed these events.
            held.consumer = None;
        }
        followed?;
        Ok(Turn::Idle)
    }

    /// Begins to build a generation, if changes can be followed from where the present one is.
    async fn begin(&self, held: &mut Held, why: String) -> Result<(), Failure> {
        match held.state.cursor {
            Some(cursor) => _ = self.feed.after(cursor, 1).await.map_err(Failure::of_feed)?,
            None => held.state.cursor = Some(self.feed.since(self.now()).await?),
        }
        tracing::info!(why, "a new search index is being built");
        held.state.begin_building(self.now(), why);
        held.is_changed = true;
        held.consumer = None;
        Ok(())
    }

    /// Begins to build a generation with the changes from now on. The present one lacks those
    /// before.
    async fn begin_from_now(&self, held: &mut Held, why: String) -> Result<(), FeedError> {
        held.state.cursor = None;
        held.state.misses_changes = held.state.live.is_some();
        self.begin(held, why).await.map_err(|failure| match failure {
            Failure::Lost(error) | Failure::Other(error) => error,
        })
    }

    /// Applies events, and moves the cursor behind them.
    async fn follow(&self, held: &mut Held, events: &[Event], end: Cursor, is_last: bool) -> Result<(), FeedError> {
        if let Some(first) = events.first() {
            self.show(|measures| measures.lag = self.now().since(first.at));
        }
        let mut seen = HashSet::new();
        let paths = events.iter().filter_map(|event| match &event.subject {
            Subject::Resource(path) => seen.insert(path.clone()).then(|| path.clone()),
            Subject::Volume(_) => None,
        });
        let changes = self.read(paths.collect()).await?;
        if let Some(live) = &mut held.state.live {
            live.grow(apply(&self.heads, *live, &changes).await?);
        }
        if let Some(Building { generation, .. }) = &mut held.state.building {
            generation.grow(apply(&self.heads, *generation, &changes).await?);
        }
        held.is_changed |= !events.is_empty();
        held.is_moved |= held.state.cursor != Some(end);
        held.state.cursor = Some(end);
        *self.until.lock() = Some(end.time());
        // Where others write too, the feed has nothing that is newer than its horizon.
        let until = match events.last().filter(|_| !is_last) {
            Some(event) => event.at,
            None if self.is_shared() => self.heads.horizon().max(end.time()),
            None => self.now(),
        };
        self.show(|measures| {
            measures.changes += changes.len() as u64;
            measures.lag = self.now().since(until);
        });
        Ok(())
    }

    /// Goes on with the walk over everything.
    async fn walk(&self, held: &mut Held) -> Result<(), FeedError> {
        let Some(building) = held.state.building.as_mut().filter(|building| !building.is_walked) else { return Ok(()) };
        let page = self.repository.resources(building.walk.clone()).await?;
        let changes = self.read(page.paths).await?;
        building.generation.grow(apply(&self.heads, building.generation, &changes).await?);
        building.is_walked = page.next.is_none();
        building.walk = page.next;
        held.is_changed = true;
        Ok(())
    }

    /// Reads what is to be in the index of paths.
    async fn read(&self, paths: Vec<ResourcePath>) -> ObjectsResult<Vec<Change>> {
        let mut reading: Vec<BoxFuture<'_, ObjectsResult<Vec<Change>>>> = Vec::new();
        for paths in paths.chunks(READ_TOGETHER) {
            reading.push(describe(&self.repository, &self.heads, self.own_types, paths).boxed());
        }
        let changes: Vec<_> = stream::iter(reading).buffer_unordered(GROUPS_AT_ONCE).try_collect().await?;
        Ok(changes.into_iter().flatten().collect())
    }

    /// Deletes generations that no search reads any more. Nothing waits for that: what fails is tried
    /// again later.
    async fn delete_replaced(&mut self, held: &mut Held) {
        let (now, patience) = (self.now(), REPLACED_KEPT + self.heads.options().clock_skew_max);
        // Nor does a clock that was set back keep anything from being deleted.
        if self.not_deleted.is_some_and(|since| since <= now && now.since(since) < DELETED_AGAIN) {
            return;
        }
        let replaced = &mut held.state.replaced;
        let is_due = |(_, since): &(Generation, UnixMillis)| now.since(*since) >= patience;
        let Some(at) = replaced.iter().position(is_due) else { return };
        let deleted = self.delete_generation(replaced[at].0).await;
        self.not_deleted = deleted.is_err().then_some(now);
        match deleted {
            Ok(false) => {}
            Ok(true) => {
                replaced.remove(at);
                held.is_changed = true;
            }
            Err(error) => {
                tracing::warn!(%error, "a replaced search index could not be deleted; it is tried again later");
                // Another one may be readable.
                let failed = replaced.remove(at);
                replaced.push(failed);
            }
        }
    }

    /// Deletes some rows of a generation. Returns whether nothing is left.
    async fn delete_generation(&self, generation: Generation) -> ObjectsResult<bool> {
        let mut rows_left = DELETED_AT_ONCE;
        for partition in generation.partitions() {
            if !self.heads.remove_all(Table::Work, &partition, &mut rows_left).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn show(&self, change: impl FnOnce(&mut Measures)) {
        change(&mut self.measures.lock());
    }

    fn show_state(&self, state: &State) {
        let (answering, is_complete) = state.answering().unwrap_or_default();
        self.show(|measures| {
            measures.is_writing = true;
            measures.is_complete = is_complete;
            measures.is_building = state.building.is_some();
            measures.resources = answering.resources;
        });
    }
}
