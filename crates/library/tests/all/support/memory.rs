//! A store that runs lists step by step, like an engine without transactions, and injects at chosen
//! steps the faults that real engines do not produce on demand. Its rows are in memory, or in a
//! real engine below it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use heads::keys;
use parking_lot::Mutex;
use store::{
    Call, Capabilities, Class, ContentHeader, ContentId, ContentState, ContentStream, Deadline, Direction, Expect,
    Guard, Health, Limits, NewRow, Outcome, PlainRows, PlainValue, Removal, Row, Rows, Scan, Step, Store, StoreError,
    StoreResult, Strength, Table, UnixMillis, WalkPage,
};

pub use super::fault::*;
use tokio::runtime::Handle;

use super::turns::Turns;

type Key = (Table, Bytes, Bytes);
type AllRows = BTreeMap<Key, (Bytes, Option<Guard>)>;

type Trigger = Box<dyn Fn(usize, &Step) -> bool + Send>;

#[derive(Default)]
struct State {
    rows: AllRows,
    armed: Vec<(Trigger, Fault)>,
    /// Late steps, with the number of further steps before they arrive.
    late: Vec<(usize, Step)>,
    broken: Option<Fault>,
    /// Rows that weak reads find in an old state, with that state.
    stale: Vec<(Key, Option<Row>)>,
    /// Rows that all reads find in an old state, until a serial read of the partition.
    undecided: Vec<(Key, Option<Row>)>,
    contents: BTreeMap<ContentId, (ContentHeader, Bytes)>,
    /// Partitions whose pages cannot be read.
    broken_pages: BTreeSet<(Table, Bytes)>,
    /// The partitions that were scanned since this was last taken.
    scanned: Vec<(Table, Bytes)>,
    /// The most rows that one step removed.
    largest_removal: usize,
    /// All rows at the beginning of `watch` and after each change since; `None` if moments are not
    /// kept.
    moments: Option<Vec<AllRows>>,
}

#[derive(Default)]
pub struct Memory {
    state: Mutex<State>,
    steps: AtomicUsize,
    turns: Mutex<Option<Arc<Turns>>>,
    /// The store where heads are switched, if not here. Rows that are put here are also put there.
    /// Rows that are put there are visible here once they are brought.
    home: Option<Arc<Memory>>,
    /// The engine with the rows and contents; `None` if they are in memory.
    engine: Option<Arc<dyn Store>>,
}

/// Whether a step changes the head of a volume.
pub fn switches_a_volume(step: &Step) -> bool {
    matches!(step, Step::CompareAndWrite { partition, .. } if partition.starts_with(b"v/"))
}

/// A call that reads the present rows, or changes them unnoticed.
fn call() -> Call {
    Call::new(Class::Description, Deadline::within(Duration::from_secs(60)))
}

/// Blocks on a thread of a runtime that has others: a test that reads an engine must declare
/// `flavor = "multi_thread"`.
fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| Handle::current().block_on(work))
}

impl Memory {
    /// Over an engine.
    pub fn over(engine: Arc<dyn Store>) -> Self {
        Self { engine: Some(engine), ..Self::default() }
    }

    /// Injects `fault` at the first step for which `trigger` holds. `trigger` gets the number of
    /// steps since this call.
    pub fn arm(&self, fault: Fault, trigger: impl Fn(usize, &Step) -> bool + Send + 'static) {
        self.steps.store(0, Ordering::SeqCst);
        self.state.lock().armed.push((Box::new(trigger), fault));
    }

    /// The number of steps since the last call of `arm`.
    pub fn steps(&self) -> usize {
        self.steps.load(Ordering::SeqCst)
    }

    /// Removes all faults, as for a process that is started again. Late steps arrive now.
    pub fn recover(&self) {
        self.restart();
        self.deliver();
    }

    /// A process is started again. Late steps are still on their way.
    pub fn restart(&self) {
        let mut state = self.state.lock();
        state.armed.clear();
        state.broken = None;
    }

    /// Late steps arrive now.
    pub fn deliver(&self) {
        // Not in the head of the loop, which would hold the lock until its end.
        let due = self.state.lock().due(usize::MAX);
        for step in due {
            match self.engine {
                None => _ = self.state.lock().apply(0, &step),
                Some(_) => _ = wait(self.apply(call(), 0, &step)),
            }
        }
    }

    /// Keeps the present rows, and those after each change from now on, if they are in memory. For
    /// an engine no moments are kept.
    pub fn watch(&self) {
        if self.engine.is_some() {
            return;
        }
        let mut state = self.state.lock();
        state.moments = Some(vec![state.rows.clone()]);
    }

    /// The number of kept moments.
    pub fn moments_so_far(&self) -> usize {
        self.state.lock().moments.as_ref().map_or(0, Vec::len)
    }

    /// Takes the moments since the last call, each as a store of its own. The latest moment becomes
    /// the first of the next ones.
    pub fn take_moments(&self) -> Vec<Arc<Self>> {
        if self.engine.is_some() {
            return Vec::new();
        }
        let mut state = self.state.lock();
        let latest = state.rows.clone();
        let moments = state.moments.replace(vec![latest]).unwrap_or_default();
        let store = |rows| Arc::new(Self { state: Mutex::new(State { rows, ..State::default() }), ..Self::default() });
        moments.into_iter().map(store).collect()
    }

    /// From now on each read and each step waits for its turn.
    pub fn take_turns(&self) -> Arc<Turns> {
        self.turns.lock().insert(Arc::default()).clone()
    }

    /// Calls that begin from now on do not wait for turns; waiting ones still do.
    pub fn end_turns(&self) {
        *self.turns.lock() = None;
    }

    /// From now on weak reads find a row in its present state, whatever happens to it: their
    /// replica lags.
    pub fn leave_behind(&self, table: Table, partition: Bytes, sort: Bytes) {
        let row = self.current(table, &partition, &sort);
        self.state.lock().stale.push(((table, partition, sort), row));
    }

    /// From now on reads find a row in its present state, whatever happens to it, until a serial
    /// read of its partition: a compare-and-write that changes it is decided, but has not arrived
    /// everywhere.
    pub fn leave_undecided(&self, table: Table, partition: Bytes, sort: Bytes) {
        let row = self.current(table, &partition, &sort);
        self.state.lock().undecided.push(((table, partition, sort), row));
    }

    /// Another data center, where heads are not switched. It has all present rows. Only a store in
    /// memory has one.
    pub fn away(self: &Arc<Self>) -> Arc<Self> {
        assert!(self.engine.is_none());
        let away = Self { home: Some(self.clone()), ..Self::default() };
        away.catch_up(|_| true);
        Arc::new(away)
    }

    /// The rows of these tables arrive here in their present state at home, and contents if theirs
    /// is one of the tables.
    pub fn catch_up(&self, tables: impl Fn(Table) -> bool) {
        let home = self.home.as_ref().unwrap().state.lock();
        let mut state = self.state.lock();
        state.rows.retain(|(table, _, _), _| !tables(*table));
        let arrived = home.rows.iter().filter(|((table, _, _), _)| tables(*table));
        state.rows.extend(arrived.map(|(key, row)| (key.clone(), row.clone())));
        if tables(Table::Contents) {
            state.contents.clone_from(&home.contents);
        }
    }

    /// Waits for its turn, and returns the fault to inject then.
    async fn turn(&self) -> Option<Fault> {
        let turns = self.turns.lock().clone()?;
        turns.wait().await
    }

    /// The most rows that one step removed.
    pub fn largest_removal(&self) -> usize {
        self.state.lock().largest_removal
    }

    /// Changes values of rows unnoticed.
    pub fn tamper(&self, mut change: impl FnMut(Table, &[u8], Bytes) -> Option<Bytes>) {
        if self.engine.is_some() {
            let all = Table::ALL.into_iter().filter(|table| *table != Table::Contents);
            let all = all.flat_map(|table| self.partitions(table).into_iter().map(move |partition| (table, partition)));
            for (table, partition) in all {
                for row in self.rows(table, &partition) {
                    let changed = change(table, &row.sort, row.value.clone());
                    if changed.as_ref() != Some(&row.value) {
                        self.replace(table, &partition, row, changed);
                    }
                }
            }
            return;
        }
        self.state.lock().rows.retain(|(table, _, sort), (value, _)| match change(*table, sort, value.clone()) {
            Some(changed) => {
                *value = changed;
                true
            }
            None => false,
        });
    }

    /// Damages each page of a partition, like a broken block.
    pub fn break_pages(&self, table: Table, partition: Bytes) {
        self.state.lock().broken_pages.insert((table, partition));
    }

    /// Puts another value into the engine, or deletes the row. A guard stays the same.
    fn replace(&self, table: Table, partition: &Bytes, row: Row, value: Option<Bytes>) {
        let (partition, sort) = (partition.clone(), row.sort);
        let step = match (row.guard, value) {
            (Some(guard), Some(value)) => {
                let expect = Expect::Stamp(guard.stamp);
                Step::CompareAndWrite { table, partition, sort, expect, guard, value }
            }
            (Some(_), None) => panic!("no engine takes a guarded row away"),
            (None, Some(value)) => Step::Put { table, partition, rows: vec![NewRow::new(sort, value)] },
            (None, None) => Step::Remove { table, partition, rows: Removal::Rows(vec![sort]) },
        };
        assert!(wait(self.apply(call(), 0, &step)).unwrap().is_none());
    }

    /// The present row at a key, whatever readers see.
    fn current(&self, table: Table, partition: &Bytes, sort: &Bytes) -> Option<Row> {
        match &self.engine {
            None => self.state.lock().row(&(table, partition.clone(), sort.clone())),
            Some(engine) => wait(engine.get(call().strong(), table, partition, sort)).unwrap(),
        }
    }

    /// The rows of a partition of the engine.
    fn rows(&self, table: Table, partition: &Bytes) -> Vec<Row> {
        let engine = self.engine.as_ref().unwrap();
        let (mut rows, mut scan) = (Vec::new(), Some(Scan::prefix(Bytes::new(), 1 << 20)));
        while let Some(next) = scan {
            let page = wait(engine.scan(call().strong(), table, partition, next.clone())).unwrap();
            rows.extend(page.rows);
            scan = next.resumed(page.next);
        }
        rows
    }

    /// The value at a key.
    pub fn row(&self, table: Table, partition: &Bytes, sort: &Bytes) -> Option<Bytes> {
        self.current(table, partition, sort).map(|row| row.value)
    }

    /// The sort keys in a partition.
    pub fn sorts(&self, table: Table, partition: &Bytes) -> Vec<Bytes> {
        if self.engine.is_some() {
            return self.rows(table, partition).into_iter().map(|row| row.sort).collect();
        }
        let state = self.state.lock();
        let of_partition = state.rows.keys().filter(|(t, p, _)| *t == table && p == partition);
        of_partition.map(|(_, _, sort)| sort.clone()).collect()
    }

    /// The partitions of a table that have rows, in the order of their keys, whatever the order of
    /// an engine.
    pub fn partitions(&self, table: Table) -> Vec<Bytes> {
        if let Some(engine) = &self.engine {
            let (mut partitions, mut from) = (Vec::new(), None);
            loop {
                let page = wait(engine.walk(call(), table, from, 1_000)).unwrap();
                partitions.extend(page.partitions);
                from = page.next;
                if from.is_none() {
                    partitions.sort();
                    return partitions;
                }
            }
        }
        let state = self.state.lock();
        let mut partitions: Vec<_> = state.rows.keys().filter(|key| key.0 == table).map(|key| key.1.clone()).collect();
        partitions.dedup();
        partitions
    }

    /// The number of records of a queue, in all partitions.
    pub fn records(&self, queue: heads::Queue) -> usize {
        let partitions = self.partitions(Table::Work).into_iter();
        let of_queue = partitions.filter(|partition| keys::queue_bucket(partition, queue.name()).is_some());
        of_queue.map(|partition| self.sorts(Table::Work, &partition).len()).sum()
    }

    /// The partitions that were scanned since the last call.
    pub fn take_scanned(&self) -> Vec<(Table, Bytes)> {
        std::mem::take(&mut self.state.lock().scanned)
    }

    fn check(&self) -> StoreResult<()> {
        match self.state.lock().broken {
            Some(Fault::Crash) => Err(StoreError::Poisoned("the process has died".to_owned())),
            _ => Ok(()),
        }
    }

    /// Runs one step; returns `Ok(None)` if it was applied.
    async fn step(&self, call: Call, index: usize, step: Step) -> StoreResult<Option<Outcome>> {
        let drawn = self.turn().await;
        let number = self.steps.fetch_add(1, Ordering::SeqCst);
        let due = self.state.lock().due(1);
        for late in due {
            _ = self.apply(call, 0, &late).await;
        }
        let fault = {
            let mut state = self.state.lock();
            let armed = state.armed.iter().position(|(trigger, _)| trigger(number, &step));
            armed.map(|at| state.armed.remove(at).1).or(drawn)
        };
        let unknown = || Some(Outcome::Unknown { reason: "no answer".to_owned() });
        match fault {
            None => {}
            Some(Fault::Hold(gate)) => gate.wait().await,
            Some(Fault::HoldUnknown(gate)) => {
                self.apply(call, index, &step).await?;
                gate.wait().await;
                return Ok(unknown());
            }
            Some(Fault::UnknownApplied) => {
                self.apply(call, index, &step).await?;
                return Ok(unknown());
            }
            Some(Fault::UnknownLost) => return Ok(unknown()),
            Some(Fault::UnknownLate(further)) => {
                self.state.lock().late.push((further, step));
                return Ok(unknown());
            }
            Some(Fault::Overloaded) => return Err(StoreError::Overloaded("for the moment".to_owned())),
            Some(Fault::Refused) => return Ok(Some(Outcome::Refused { step: index, current: None })),
            Some(fault @ (Fault::Crash | Fault::Full)) => self.state.lock().broken = Some(fault),
        }
        self.check()?;
        if matches!(self.state.lock().broken, Some(Fault::Full)) {
            return Err(StoreError::Full("no room".to_owned()));
        }
        if let Step::CompareAndWrite { table, partition, .. } = &step {
            self.state.lock().check_page(*table, partition)?;
        }
        if let Some(home) = &self.home {
            home.state.lock().apply(index, &step);
        }
        self.apply(call, index, &step).await
    }

    /// Applies one step to the rows; returns `None` if it was applied.
    async fn apply(&self, call: Call, index: usize, step: &Step) -> StoreResult<Option<Outcome>> {
        let Some(engine) = &self.engine else { return Ok(self.state.lock().apply(index, step)) };
        if let Step::Remove { table, partition, rows: Removal::Range(from, to) } = step {
            let is_within = |row: &Row| row.sort >= *from && to.as_ref().is_none_or(|to| row.sort < *to);
            let scan = Scan { from: from.clone(), to: to.clone(), ..Scan::prefix(Bytes::new(), usize::MAX) };
            let removed = engine.scan(call, *table, partition, scan).await?.rows.into_iter().filter(is_within).count();
            let mut state = self.state.lock();
            state.largest_removal = state.largest_removal.max(removed);
        }
        Ok(match engine.run(call, vec![step.clone()]).await? {
            Outcome::Applied => None,
            Outcome::Refused { current, .. } => Some(Outcome::Refused { step: index, current }),
            unknown @ Outcome::Unknown { .. } => Some(unknown),
        })
    }
}

impl State {
    fn check_page(&self, table: Table, partition: &Bytes) -> StoreResult<()> {
        match self.broken_pages.contains(&(table, partition.clone())) {
            true => Err(StoreError::Corrupt { table, detail: "a broken block".to_owned() }),
            false => Ok(()),
        }
    }

    /// Counts `steps` further steps, and returns the late steps that are due after them.
    fn due(&mut self, steps: usize) -> Vec<Step> {
        let mut due = Vec::new();
        for (further, step) in std::mem::take(&mut self.late) {
            match further.checked_sub(steps) {
                Some(further) if further > 0 => self.late.push((further, step)),
                _ => due.push(step),
            }
        }
        due
    }

    fn row(&self, key: &Key) -> Option<Row> {
        let (value, guard) = self.rows.get(key)?;
        Some(Row { sort: key.2.clone(), value: value.clone(), guard: guard.clone(), expires_at: None })
    }

    fn apply(&mut self, index: usize, step: &Step) -> Option<Outcome> {
        let refused = self.change(index, step);
        if let (None, Some(moments)) = (&refused, &mut self.moments)
            && !matches!(step, Step::Require { .. })
        {
            moments.push(self.rows.clone());
        }
        refused
    }

    fn change(&mut self, index: usize, step: &Step) -> Option<Outcome> {
        let (table, partition) = (step.table(), step.partition().clone());
        let key = |sort: &Bytes| (table, partition.clone(), sort.clone());
        match step {
            Step::Put { rows, .. } => {
                for row in rows {
                    let before = self.rows.insert(key(&row.sort), (row.value.clone(), None));
                    let is_same = before.is_none_or(|(value, _)| value == row.value);
                    let may_change = table.info().plain_rows == PlainRows::Replaced;
                    assert!(is_same || may_change, "a row that is written once was changed");
                }
            }
            Step::Require { sort, condition, .. } => {
                let current = self.row(&key(sort));
                if !condition.holds(current.as_ref()) {
                    return Some(Outcome::Refused { step: index, current });
                }
            }
            Step::CompareAndWrite { sort, expect, guard, value, .. } => {
                let current = self.row(&key(sort));
                if !expect.holds(current.as_ref()) {
                    return Some(Outcome::Refused { step: index, current });
                }
                self.rows.insert(key(sort), (value.clone(), Some(guard.clone())));
            }
            Step::Replace { sort, expect, then, .. } => {
                let current = self.row(&key(sort));
                if current.as_ref().map(PlainValue::of) != *expect {
                    return Some(Outcome::Refused { step: index, current });
                }
                match then {
                    Some(then) => _ = self.rows.insert(key(sort), (then.value.clone(), None)),
                    None => _ = self.rows.remove(&key(sort)),
                }
            }
            Step::Remove { rows: Removal::Rows(sorts), .. } => {
                for sort in sorts {
                    self.rows.remove(&key(sort));
                }
            }
            Step::Remove { rows: Removal::Range(from, to), .. } => {
                let within = |(t, p, s): &Key| {
                    *t == table && *p == partition && s >= from && to.as_ref().is_none_or(|to| s < to)
                };
                let before = self.rows.len();
                self.rows.retain(|key, _| !within(key));
                self.largest_removal = self.largest_removal.max(before - self.rows.len());
            }
        }
        None
    }
}

#[async_trait]
impl Store for Memory {
    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        self.turn().await;
        self.check()?;
        let key = (table, partition.clone(), sort.clone());
        {
            let mut state = self.state.lock();
            if call.strength == Strength::Serial {
                state.undecided.retain(|((of, undecided, _), _)| *of != table || undecided != partition);
            }
            state.check_page(table, partition)?;
            let stale = state.stale.iter().filter(|_| call.strength == Strength::Usual);
            if let Some((_, before)) = state.undecided.iter().chain(stale).find(|(of, _)| *of == key) {
                return Ok(before.clone());
            }
        }
        match &self.engine {
            None => Ok(self.state.lock().row(&key)),
            Some(engine) => engine.get(call, table, partition, sort).await,
        }
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        let mut rows = Vec::new();
        for (partition, sort) in keys {
            rows.push(self.get(call, table, &partition, &sort).await?);
        }
        Ok(rows)
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        self.turn().await;
        self.check()?;
        self.state.lock().check_page(table, partition)?;
        self.state.lock().scanned.push((table, partition.clone()));
        if let Some(engine) = &self.engine {
            return engine.scan(call, table, partition, scan).await;
        }
        let state = self.state.lock();
        let within = |key: &Key| {
            key.0 == table && key.1 == *partition && key.2 >= scan.from && scan.to.as_ref().is_none_or(|to| key.2 < *to)
        };
        let from = (table, partition.clone(), scan.from.clone());
        let range = state.rows.range(from..).take_while(|(key, _)| key.0 == table && key.1 == *partition);
        let mut range: Vec<_> = range.filter(|(key, _)| within(key)).collect();
        if scan.direction == Direction::Backward {
            range.reverse();
        }
        let mut page = Rows::default();
        let mut bytes = 0;
        for (key, (value, guard)) in range {
            if bytes >= scan.max_bytes {
                // The end of a range is exclusive.
                page.next = match scan.direction {
                    Direction::Forward => Some(key.2.clone()),
                    Direction::Backward => page.rows.last().map(|row: &Row| row.sort.clone()),
                };
                break;
            }
            bytes += key.2.len() + value.len();
            page.rows.push(Row { sort: key.2.clone(), value: value.clone(), guard: guard.clone(), expires_at: None });
        }
        Ok(page)
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        Step::lane_of(&steps)?;
        assert!(steps.len() <= Limits::default().steps, "a list of {} steps", steps.len());
        if steps.iter().any(|step| matches!(step, Step::CompareAndWrite { .. })) {
            self.check_home()?;
        }
        for (index, step) in steps.into_iter().enumerate() {
            match self.step(call, index, step).await {
                Ok(None) => {}
                Ok(Some(outcome)) => return Ok(outcome),
                // An error means that nothing was applied; here something was.
                Err(error) if index > 0 => return Ok(Outcome::Unknown { reason: error.to_string() }),
                Err(error) => return Err(error),
            }
        }
        Ok(Outcome::Applied)
    }

    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        self.turn().await;
        self.check()?;
        if let Some(engine) = &self.engine {
            return engine.walk(call, table, from, max).await;
        }
        let state = self.state.lock();
        let mut partitions: Vec<Bytes> = match table {
            Table::Contents => state.contents.keys().map(|id| Bytes::copy_from_slice(&id.0)).collect(),
            _ => {
                state.rows.keys().filter(|(of, _, _)| *of == table).map(|(_, partition, _)| partition.clone()).collect()
            }
        };
        partitions.dedup();
        partitions.retain(|partition| from.as_ref().is_none_or(|from| partition >= from));
        let next = partitions.get(max).cloned();
        partitions.truncate(max);
        Ok(WalkPage { partitions, next })
    }

    async fn put_content_as(
        &self,
        call: Call,
        id: ContentId,
        owner: Bytes,
        mut content: ContentStream,
    ) -> StoreResult<()> {
        self.check()?;
        self.check_home()?;
        if let Some(engine) = &self.engine {
            return engine.put_content_as(call, id, owner, content).await;
        }
        let mut bytes = BytesMut::new();
        while let Some(piece) = content.next().await {
            bytes.extend_from_slice(&piece?);
        }
        let lease_until = UnixMillis::default();
        let header = ContentHeader { state: ContentState::Sealed, owner, len: bytes.len() as u64, lease_until };
        self.state.lock().contents.insert(id, (header, bytes.freeze()));
        Ok(())
    }

    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>> {
        self.check()?;
        if let Some(engine) = &self.engine {
            return engine.content_header(call, id).await;
        }
        Ok(self.state.lock().contents.get(&id).map(|(header, _)| header.clone()))
    }

    async fn read_content(&self, call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        self.check()?;
        if let Some(engine) = &self.engine {
            return engine.read_content(call, id, range).await;
        }
        let state = self.state.lock();
        let Some((_, bytes)) = state.contents.get(&id).filter(|(header, _)| header.state == ContentState::Sealed)
        else {
            return Ok(None);
        };
        let clip = |at: u64| usize::try_from(at).unwrap().min(bytes.len());
        let piece = bytes.slice(clip(range.start)..clip(range.end));
        Ok(Some(futures::stream::iter([Ok(piece)]).boxed()))
    }

    async fn condemn_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.check()?;
        self.check_home()?;
        if let Some(engine) = &self.engine {
            return engine.condemn_content(call, id).await;
        }
        if let Some((header, _)) = self.state.lock().contents.get_mut(&id) {
            header.state = ContentState::Condemned;
        }
        Ok(true)
    }

    async fn delete_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.check()?;
        self.check_home()?;
        if let Some(engine) = &self.engine {
            return engine.delete_content(call, id).await;
        }
        let mut state = self.state.lock();
        let is_condemned = state.contents.get(&id).is_none_or(|(header, _)| header.state == ContentState::Condemned);
        if is_condemned {
            state.contents.remove(&id);
        }
        Ok(is_condemned)
    }

    fn check_home(&self) -> StoreResult<()> {
        match &self.home {
            Some(_) => Err(StoreError::ReadOnly("heads are switched elsewhere".to_owned())),
            None => Ok(()),
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { is_shared: true, has_atomic_lists: false, delays_syncs: false, folder: None }
    }

    async fn health(&self) -> Health {
        Health::default()
    }
}
