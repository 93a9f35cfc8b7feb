//! Injects what real engines do not do on demand: errors, delays, unknown outcomes, crashes between
//! any two steps, a full disk, damaged and lost rows. With nothing injected it behaves like the
//! inner store.
//!
//! A test sets up faults, then runs the code under test:
//!
//! - [`Faults::next`] makes the next call of a kind meet a fault, once;
//! - [`Faults::crash_after_steps`] lets a number of steps through and then fails every call until
//!   [`Faults::revive`]. Run for all numbers from 0 to [`Faults::steps_seen`], it crashes a
//!   protocol between any two of its steps;
//! - [`Faults::set_full`], [`Faults::set_poisoned`], [`Faults::damage`] and
//!   [`Faults::damage_content`] hold until they are revoked;
//! - [`Faults::set_rates`] draws faults from a seed.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{
    AtOnce, Call, Capabilities, ContentHeader, ContentId, ContentStream, Cut, Health, Lane, Limits, Measure, Outcome,
    Row, RowPage, Rows, Scan, Step, Store, StoreError, StoreResult, Strength, Table, WalkPage, Wrapper,
};

/// The reason that a poisoned lane gives.
const POISONED: &str = "a failed write was injected";

/// Kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// get, get_many, scan, scan_many, walk, walk_rows, content_header, read_content.
    Read,
    /// run.
    Run,
    /// put_content, condemn_content, delete_content, sweep.
    ChangeContent,
}

/// A fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with [`StoreError::Unavailable`] and does nothing. A second try may succeed.
    Unavailable,
    /// The call fails with [`StoreError::Overloaded`] and does nothing.
    Overloaded,
    /// A read fails with [`StoreError::DeadlinePassed`]; a write is refused as overload and does
    /// nothing.
    DeadlinePassed,
    /// The call runs after this delay.
    Delay(Duration),
    /// A list of steps is applied (or refused), and the outcome is unknown.
    UnknownApplied,
    /// A list of steps is not applied, and the outcome is unknown.
    UnknownNotApplied,
}

/// How often faults are drawn, each as a probability from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Of [`Fault::Unavailable`], for every kind of call.
    pub unavailable: f64,
    /// Of [`Fault::UnknownApplied`], for lists of steps.
    pub unknown_applied: f64,
    /// Of [`Fault::UnknownNotApplied`], for lists of steps.
    pub unknown_not_applied: f64,
    /// Of a delay, for every kind of call.
    pub delay: f64,
    /// The longest delay.
    pub max_delay: Duration,
}

/// The harm done to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// One bit of its value is flipped (the first bit of its last byte). An empty value does not
    /// change.
    FlippedBit,
    /// It is not found.
    Lost,
}

/// A row that reads differently from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The table.
    pub table: Table,
    /// The partition.
    pub partition: Bytes,
    /// The row; `None`: every row of the partition.
    pub sort: Option<Bytes>,
    /// The harm.
    pub harm: Harm,
    /// Whether reads stronger than [`Strength::Usual`] find it whole, as if only one of several
    /// replicas were damaged.
    pub strong_reads_are_whole: bool,
}

/// A store that injects faults. See the head of the module.
pub struct Faults {
    inner: Arc<dyn Store>,
    state: Mutex<State>,
    delayed: AtomicUsize,
}

struct State {
    scripted: VecDeque<(Kind, Fault)>,
    rates: Rates,
    random: StdRng,
    crashed: bool,
    /// Steps that are still let through; `None`: all.
    steps_left: Option<usize>,
    steps_seen: usize,
    full: bool,
    poisoned: BTreeSet<Lane>,
    damages: Vec<Damage>,
    damaged_contents: Vec<ContentId>,
}

impl Faults {
    /// Wraps `inner`, with no faults yet.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        let state = State {
            scripted: VecDeque::new(),
            rates: Rates::default(),
            random: StdRng::seed_from_u64(0),
            crashed: false,
            steps_left: None,
            steps_seen: 0,
            full: false,
            poisoned: BTreeSet::new(),
            damages: Vec::new(),
            damaged_contents: Vec::new(),
        };
        Self { inner, state: Mutex::new(state), delayed: AtomicUsize::new(0) }
    }

    /// Whether a fault that [`Faults::next`] set has not been met yet.
    pub fn is_scripted(&self) -> bool {
        !self.state.lock().scripted.is_empty()
    }

    /// The number of calls that a delay holds up now, without calls whose caller gave up.
    pub fn delayed(&self) -> usize {
        self.delayed.load(Ordering::SeqCst)
    }

    /// Makes the next call of this kind meet this fault. Faults are met in the order in which they
    /// are set.
    pub fn next(&self, kind: Kind, fault: Fault) {
        self.state.lock().scripted.push_back((kind, fault));
    }

    /// Draws faults at these rates from now on. The same seed and the same calls draw the same
    /// faults.
    pub fn set_rates(&self, seed: u64, rates: Rates) {
        let mut state = self.state.lock();
        state.rates = rates;
        state.random = StdRng::seed_from_u64(seed);
    }

    /// Lets this number of steps through and then crashes. The list under way ends after its steps
    /// so far, even on an engine that would run it as one, since no protocol may rely on that.
    /// Every later call fails until [`Faults::revive`]. An upload counts as two steps and breaks
    /// off after the first; condemning, deleting and sweeping count as one.
    pub fn crash_after_steps(&self, steps: usize) {
        self.state.lock().steps_left = Some(steps);
    }

    /// Whether a fault set for the next call of this kind has not been met yet.
    pub fn has_next(&self, kind: Kind) -> bool {
        self.state.lock().scripted.iter().any(|(scripted, _)| *scripted == kind)
    }

    /// Ends a crash: calls reach the store again, which holds what the steps before the crash
    /// wrote.
    pub fn revive(&self) {
        let mut state = self.state.lock();
        state.crashed = false;
        state.steps_left = None;
    }

    /// Whether it is crashed.
    pub fn is_crashed(&self) -> bool {
        self.state.lock().crashed
    }

    /// Steps that were let through so far.
    pub fn steps_seen(&self) -> usize {
        self.state.lock().steps_seen
    }

    /// Makes the disk full: writes are refused with [`StoreError::Full`], reads go on.
    pub fn set_full(&self, full: bool) {
        self.state.lock().full = full;
    }

    /// Makes a lane refuse its lists of steps with [`StoreError::Poisoned`]; reads go on.
    pub fn set_poisoned(&self, lane: Lane, poisoned: bool) {
        let mut state = self.state.lock();
        if poisoned {
            state.poisoned.insert(lane)
        } else {
            state.poisoned.remove(&lane)
        };
    }

    /// Damages a row, until [`Faults::heal`].
    pub fn damage(&self, damage: Damage) {
        self.state.lock().damages.push(damage);
    }

    /// Flips a bit in each piece of a content that is read, until [`Faults::heal`].
    pub fn damage_content(&self, id: ContentId) {
        self.state.lock().damaged_contents.push(id);
    }

    /// Revokes all damage.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.damages.clear();
        state.damaged_contents.clear();
    }

    /// Applies the fault of a call: returns its error, or the fault that changes the outcome.
    async fn meet(&self, kind: Kind) -> StoreResult<Option<Fault>> {
        let fault = {
            let mut state = self.state.lock();
            if state.crashed {
                return Err(crashed());
            }
            if state.full && kind != Kind::Read {
                return Err(StoreError::Full("a full disk was injected".to_owned()));
            }
            state.draw(kind)
        };
        match fault {
            Some(Fault::Unavailable) => Err(StoreError::Unavailable("a passing failure was injected".to_owned())),
            Some(Fault::DeadlinePassed) if kind == Kind::Read => Err(StoreError::DeadlinePassed),
            Some(Fault::Overloaded | Fault::DeadlinePassed) => {
                Err(StoreError::Overloaded("overload was injected".to_owned()))
            }
            Some(Fault::Delay(delay)) => {
                let _held_up = HeldUp::begin(&self.delayed);
                tokio::time::sleep(delay).await;
                Ok(None)
            }
            fault => Ok(fault),
        }
    }

    /// Lets up to `wanted` steps through, and crashes if those are fewer.
    fn pass(&self, wanted: usize) -> usize {
        let mut state = self.state.lock();
        let passed = wanted.min(state.steps_left.unwrap_or(wanted));
        state.steps_seen += passed;
        state.steps_left = state.steps_left.map(|left| left - passed);
        state.crashed |= passed < wanted;
        passed
    }

    fn harm(&self, call: Call, table: Table, partition: &Bytes, row: Row) -> Option<Row> {
        let state = self.state.lock();
        let harm = state
            .damages
            .iter()
            .find(|damage| damage.hits(call, table, partition, &row.sort))
            .map(|damage| damage.harm);
        match harm {
            None => Some(row),
            Some(Harm::FlippedBit) => Some(Row { value: flip(&row.value), ..row }),
            Some(Harm::Lost) => None,
        }
    }

    fn harm_page(&self, call: Call, table: Table, partition: &Bytes, page: Rows) -> Rows {
        let rows = page.rows.into_iter().filter_map(|row| self.harm(call, table, partition, row)).collect();
        Rows { rows, next: page.next }
    }
}

impl State {
    fn draw(&mut self, kind: Kind) -> Option<Fault> {
        if let Some(at) = self.scripted.iter().position(|(scripted, _)| *scripted == kind) {
            return self.scripted.remove(at).map(|(_, fault)| fault);
        }
        let rates = self.rates;
        if self.random.random_bool(rates.unavailable) {
            return Some(Fault::Unavailable);
        }
        if kind == Kind::Run && self.random.random_bool(rates.unknown_applied) {
            return Some(Fault::UnknownApplied);
        }
        if kind == Kind::Run && self.random.random_bool(rates.unknown_not_applied) {
            return Some(Fault::UnknownNotApplied);
        }
        if self.random.random_bool(rates.delay) {
            return Some(Fault::Delay(rates.max_delay.mul_f64(self.random.random())));
        }
        None
    }
}

/// A call that is being delayed.
struct HeldUp<'a>(&'a AtomicUsize);

impl<'a> HeldUp<'a> {
    fn begin(delayed: &'a AtomicUsize) -> Self {
        delayed.fetch_add(1, Ordering::SeqCst);
        Self(delayed)
    }
}

impl Drop for HeldUp<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Damage {
    fn hits(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> bool {
        let is_read_whole = self.strong_reads_are_whole && call.strength != Strength::Usual;
        let names_row = self.sort.as_ref().is_none_or(|damaged| damaged == sort);
        self.table == table && self.partition == *partition && names_row && !is_read_whole
    }
}

fn flip(value: &Bytes) -> Bytes {
    let mut flipped = BytesMut::from(&value[..]);
    if let Some(last) = flipped.last_mut() {
        *last ^= 0x80;
    }
    flipped.freeze()
}

fn crashed() -> StoreError {
    StoreError::Unavailable("a crash was injected".to_owned())
}

fn unknown(reason: &str) -> Outcome {
    Outcome::Unknown { reason: reason.to_owned() }
}

/// The beginning of a stream that then breaks off.
fn broken_off(content: ContentStream) -> ContentStream {
    content.take(1).chain(stream::iter([Err(crashed())])).boxed()
}

// A method that is merely passed on would meet no fault, so each one is stated.
#[deny(clippy::missing_trait_methods)]
impl Wrapper for Faults {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        self.meet(Kind::Read).await?;
        let row = self.inner.get(call, table, partition, sort).await?;
        Ok(row.and_then(|row| self.harm(call, table, partition, row)))
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        self.meet(Kind::Read).await?;
        let rows = self.inner.get_many(call, table, keys.clone()).await?;
        let harmed = rows.into_iter().zip(&keys);
        Ok(harmed.map(|(row, (partition, _))| row.and_then(|row| self.harm(call, table, partition, row))).collect())
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        self.meet(Kind::Read).await?;
        let page = self.inner.scan(call, table, partition, scan).await?;
        Ok(self.harm_page(call, table, partition, page))
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        self.meet(Kind::Read).await?;
        let pages = self.inner.scan_many(call, scans.clone()).await?;
        let scanned = pages.into_iter().zip(&scans);
        Ok(scanned.map(|(page, (table, partition, _))| self.harm_page(call, *table, partition, page)).collect())
    }

    async fn run(&self, call: Call, mut steps: Vec<Step>) -> StoreResult<Outcome> {
        let fault = self.meet(Kind::Run).await?;
        if Step::lane_of(&steps)?.is_some_and(|lane| self.state.lock().poisoned.contains(&lane)) {
            return Err(StoreError::Poisoned(POISONED.to_owned()));
        }
        if fault == Some(Fault::UnknownNotApplied) {
            return Ok(unknown("an unknown outcome was injected"));
        }
        let wanted = steps.len();
        let passed = self.pass(wanted);
        if passed < wanted {
            if passed == 0 {
                return Err(crashed());
            }
            steps.truncate(passed);
            self.inner.run(call, steps).await?;
            return Ok(unknown("a crash was injected"));
        }
        let outcome = self.inner.run(call, steps).await?;
        Ok(if fault == Some(Fault::UnknownApplied) { unknown("an unknown outcome was injected") } else { outcome })
    }

    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        self.meet(Kind::Read).await?;
        self.inner.walk(call, table, from, max).await
    }

    async fn walk_rows(
        &self,
        call: Call,
        table: Table,
        from: Option<Bytes>,
        max: usize,
        max_bytes: usize,
    ) -> StoreResult<RowPage> {
        self.meet(Kind::Read).await?;
        let page = self.inner.walk_rows(call, table, from, max, max_bytes).await?;
        let rows = page.rows.into_iter().filter_map(|(partition, row)| {
            let row = self.harm(call, table, &partition, row)?;
            Some((partition, row))
        });
        Ok(RowPage { rows: rows.collect(), next: page.next })
    }

    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        self.meet(Kind::ChangeContent).await?;
        match self.pass(2) {
            0 => Err(crashed()),
            1 => self.inner.put_content_as(call, id, owner, broken_off(content)).await,
            _ => self.inner.put_content_as(call, id, owner, content).await,
        }
    }

    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>> {
        self.meet(Kind::Read).await?;
        self.inner.content_header(call, id).await
    }

    async fn read_content(&self, call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        self.meet(Kind::Read).await?;
        let Some(content) = self.inner.read_content(call, id, range).await? else { return Ok(None) };
        if !self.state.lock().damaged_contents.contains(&id) {
            return Ok(Some(content));
        }
        Ok(Some(content.map(|piece| piece.map(|piece| flip(&piece))).boxed()))
    }

    async fn condemn_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.meet(Kind::ChangeContent).await?;
        if self.pass(1) == 0 { Err(crashed()) } else { self.inner.condemn_content(call, id).await }
    }

    async fn delete_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.meet(Kind::ChangeContent).await?;
        if self.pass(1) == 0 { Err(crashed()) } else { self.inner.delete_content(call, id).await }
    }

    async fn cut(&self, call: Call) -> StoreResult<Cut> {
        self.inner.cut(call).await
    }

    async fn sweep(&self, call: Call) -> StoreResult<u64> {
        self.meet(Kind::ChangeContent).await?;
        if self.pass(1) == 0 { Err(crashed()) } else { self.inner.sweep(call).await }
    }

    fn fresh_content_id(&self) -> ContentId {
        self.inner.fresh_content_id()
    }

    fn check_home(&self) -> StoreResult<()> {
        self.inner.check_home()
    }

    fn clock_correction_ms(&self) -> i64 {
        self.inner.clock_correction_ms()
    }

    fn level(&self) -> crate::FormatLevel {
        self.inner.level()
    }

    async fn health(&self) -> Health {
        let health = self.inner.health().await;
        let state = self.state.lock();
        let injected = match (state.crashed, state.full) {
            (true, _) => Some("a crash was injected".to_owned()),
            (_, true) => Some("a full disk was injected".to_owned()),
            _ => None,
        };
        match injected {
            Some(reason) => Health { refusing_writes: Lane::ALL.map(|lane| (lane, reason.clone())).into(), ..health },
            None => {
                let poisoned = state.poisoned.iter().map(|lane| (*lane, POISONED.to_owned()));
                Health { refusing_writes: health.refusing_writes.into_iter().chain(poisoned).collect(), ..health }
            }
        }
    }

    fn measures(&self) -> Vec<Measure> {
        self.inner.measures()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn at_once(&self) -> AtOnce {
        self.inner.at_once()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn close(&self) -> StoreResult<()> {
        self.inner.close().await
    }
}
