//! A store in memory that runs lists step by step, as an engine without transactions does, and does at chosen steps what real
//! engines will not do on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use objects::keys;
use parking_lot::Mutex;
use store::{
    Call, ContentHeader, ContentId, ContentState, ContentStream, Direction, Guard, Health, Limits, Outcome, Removal,
    Row, Rows, Scan, Step, Store, StoreError, StoreResult, Strength, Table, UnixMillis, WalkPage,
};

pub use super::fault::*;
use super::turns::Turns;

type Key = (Table, Bytes, Bytes);
type AllRows = BTreeMap<Key, (Bytes, Option<Guard>)>;

type Trigger = Box<dyn Fn(usize, &Step) -> bool + Send>;

#[derive(Default)]
struct State {
    rows: AllRows,
    armed: Vec<(Trigger, Fault)>,
    /// Steps on their way, with how many further steps come before them.
    late: Vec<(usize, Step)>,
    broken: Option<Fault>,
    /// Rows that weak reads find as they were, with what that is.
    stale: Vec<(Key, Option<Row>)>,
    /// Rows that all reads find as they were, until a serial read of the partition.
    undecided: Vec<(Key, Option<Row>)>,
    contents: BTreeMap<ContentId, (ContentHeader, Bytes)>,
    /// Partitions whose pages cannot be read.
    broken_pages: BTreeSet<(Table, Bytes)>,
    /// The partitions that were scanned since this was taken last.
    scanned: Vec<(Table, Bytes)>,
    /// The most rows that one step removed.
    largest_removal: usize,
    /// What stood when this was begun with and after each change since; `None`: nobody wants to know.
    moments: Option<Vec<AllRows>>,
}

#[derive(Default)]
pub struct Memory {
    state: Mutex<State>,
    steps: AtomicUsize,
    turns: Mutex<Option<Arc<Turns>>>,
    /// Where heads are switched, if not here: what is put here is put there too, and what is put there is seen here when it is brought.
    home: Option<Arc<Memory>>,
}

/// Whether a step changes the head of a volume.
pub fn switches_a_volume(step: &Step) -> bool {
    matches!(step, Step::CompareAndWrite { partition, .. } if partition.starts_with(b"v/"))
}

impl Memory {
    /// Does `fault` at the first step for which `trigger` holds; it is given the number of steps run since this call.
    pub fn arm(&self, fault: Fault, trigger: impl Fn(usize, &Step) -> bool + Send + 'static) {
        self.steps.store(0, Ordering::SeqCst);
        self.state.lock().armed.push((Box::new(trigger), fault));
    }

    /// Steps run since the last call of `arm`.
    pub fn steps(&self) -> usize {
        self.steps.load(Ordering::SeqCst)
    }

    /// Everything works again, as for a process that is started anew; what is late arrives now.
    pub fn recover(&self) {
        let mut state = self.state.lock();
        state.armed.clear();
        state.broken = None;
        state.deliver(usize::MAX);
    }

    /// A process is started anew; what is late is still on its way.
    pub fn restart(&self) {
        let mut state = self.state.lock();
        state.armed.clear();
        state.broken = None;
    }

    /// What is late arrives now.
    pub fn deliver(&self) {
        self.state.lock().deliver(usize::MAX);
    }

    /// Keeps what stands now and after each change from now on.
    pub fn watch(&self) {
        let mut state = self.state.lock();
        state.moments = Some(vec![state.rows.clone()]);
    }

    /// How many moments were kept.
    pub fn moments_so_far(&self) -> usize {
        self.state.lock().moments.as_ref().map_or(0, Vec::len)
    }

    /// The moments that were kept since they were taken last, each as a store of its own; the last one is kept as the first of the next ones.
    pub fn take_moments(&self) -> Vec<Arc<Self>> {
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

    /// What begins from now on waits for no turn; what waits for one still does.
    pub fn end_turns(&self) {
        *self.turns.lock() = None;
    }

    /// From now on weak reads find a row as it is now, whatever becomes of it: the replica that they ask is behind.
    pub fn leave_behind(&self, table: Table, partition: Bytes, sort: Bytes) {
        let mut state = self.state.lock();
        let key = (table, partition, sort);
        let row = state.row(&key);
        state.stale.push((key, row));
    }

    /// From now on reads find a row as it is now, whatever becomes of it, until a serial read of its partition: a compare-and-write that
    /// changes it is decided, but has not arrived everywhere.
    pub fn leave_undecided(&self, table: Table, partition: Bytes, sort: Bytes) {
        let mut state = self.state.lock();
        let key = (table, partition, sort);
        let row = state.row(&key);
        state.undecided.push((key, row));
    }

    /// Another data center, where heads are not switched. It has seen what stands now.
    pub fn away(self: &Arc<Self>) -> Arc<Self> {
        let away = Self { home: Some(self.clone()), ..Self::default() };
        away.catch_up(|_| true);
        Arc::new(away)
    }

    /// The rows of these tables arrive here as they stand at home.
    pub fn catch_up(&self, tables: impl Fn(Table) -> bool) {
        let home = self.home.as_ref().unwrap().state.lock();
        let mut state = self.state.lock();
        state.rows.retain(|(table, _, _), _| !tables(*table));
        let arrived = home.rows.iter().filter(|((table, _, _), _)| tables(*table));
        state.rows.extend(arrived.map(|(key, row)| (key.clone(), row.clone())));
    }

    /// Waits until it is its turn; answers what happens then.
    async fn turn(&self) -> Option<Fault> {
        let turns = self.turns.lock().clone()?;
        turns.wait().await
    }

    /// The most rows that one step removed.
    pub fn largest_removal(&self) -> usize {
        self.state.lock().largest_removal
    }

    /// Changes values of rows behind everybody's back.
    pub fn tamper(&self, mut change: impl FnMut(Table, &[u8], Bytes) -> Option<Bytes>) {
        self.state.lock().rows.retain(|(table, _, sort), (value, _)| match change(*table, sort, value.clone()) {
            Some(changed) => {
                *value = changed;
                true
            }
            None => false,
        });
    }

    /// Has each page of a partition be damaged, as a broken block makes it.
    pub fn break_pages(&self, table: Table, partition: Bytes) {
        self.state.lock().broken_pages.insert((table, partition));
    }

    /// The value at a key.
    pub fn row(&self, table: Table, partition: &Bytes, sort: &Bytes) -> Option<Bytes> {
        let row = self.state.lock().row(&(table, partition.clone(), sort.clone()));
        row.map(|row| row.value)
    }

    /// The sort keys in a partition.
    pub fn sorts(&self, table: Table, partition: &Bytes) -> Vec<Bytes> {
        let state = self.state.lock();
        let of_partition = state.rows.keys().filter(|(t, p, _)| *t == table && p == partition);
        of_partition.map(|(_, _, sort)| sort.clone()).collect()
    }

    /// The partitions of a table that hold rows.
    pub fn partitions(&self, table: Table) -> Vec<Bytes> {
        let state = self.state.lock();
        let mut partitions: Vec<_> = state.rows.keys().filter(|key| key.0 == table).map(|key| key.1.clone()).collect();
        partitions.dedup();
        partitions
    }

    /// The records of a queue, wherever they are.
    pub fn records(&self, queue: objects::Queue) -> usize {
        let partitions = self.partitions(Table::Work).into_iter();
        let of_queue = partitions.filter(|partition| keys::queue_bucket(partition, queue.name()).is_some());
        of_queue.map(|partition| self.sorts(Table::Work, &partition).len()).sum()
    }

    /// The partitions that were scanned since this was asked last.
    pub fn take_scanned(&self) -> Vec<(Table, Bytes)> {
        std::mem::take(&mut self.state.lock().scanned)
    }

    fn check(&self) -> StoreResult<()> {
        match self.state.lock().broken {
            Some(Fault::Crash) => Err(StoreError::Poisoned("the process has died".to_owned())),
            _ => Ok(()),
        }
    }

    /// Runs one step; `Ok(None)`: it was applied.
    async fn step(&self, index: usize, step: Step) -> StoreResult<Option<Outcome>> {
        let drawn = self.turn().await;
        let number = self.steps.fetch_add(1, Ordering::SeqCst);
        let fault = {
            let mut state = self.state.lock();
            state.deliver(1);
            let armed = state.armed.iter().position(|(trigger, _)| trigger(number, &step));
            armed.map(|at| state.armed.remove(at).1).or(drawn)
        };
        let unknown = || Some(Outcome::Unknown { reason: "no answer".to_owned() });
        match fault {
            None => {}
            Some(Fault::Hold(gate)) => gate.wait().await,
            Some(Fault::HoldUnknown(gate)) => {
                self.state.lock().apply(index, &step);
                gate.wait().await;
                return Ok(unknown());
            }
            Some(Fault::UnknownApplied) => {
                self.state.lock().apply(index, &step);
                return Ok(unknown());
            }
            Some(Fault::UnknownLost) => return Ok(unknown()),
            Some(Fault::UnknownLate(further)) => {
                self.state.lock().late.push((further, step));
                return Ok(unknown());
            }
            Some(Fault::Overloaded) => return Err(StoreError::Overloaded("for the moment".to_owned())),
            Some(Fault::Refused) => return Ok(Some(Outcome::Refused { step: index, stands: None })),
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
        Ok(self.state.lock().apply(index, &step))
    }
}

impl State {
    fn check_page(&self, table: Table, partition: &Bytes) -> StoreResult<()> {
        match self.broken_pages.contains(&(table, partition.clone())) {
            true => Err(StoreError::Corrupt { table, detail: "a broken block".to_owned() }),
            false => Ok(()),
        }
    }

    /// Lets pass so many steps: what was to come after them arrives.
    fn deliver(&mut self, steps: usize) {
        for (further, step) in std::mem::take(&mut self.late) {
            match further.checked_sub(steps) {
                Some(further) if further > 0 => self.late.push((further, step)),
                _ => _ = self.apply(0, &step),
            }
        }
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
                    assert!(before.is_none_or(|(value, _)| value == row.value), "an immutable row was changed");
                }
            }
            Step::Require { sort, condition, .. } => {
                let stands = self.row(&key(sort));
                if !condition.holds(stands.as_ref()) {
                    return Some(Outcome::Refused { step: index, stands });
                }
            }
            Step::CompareAndWrite { sort, expect, guard, value, rows, .. } => {
                let stands = self.row(&key(sort));
                if !expect.holds(stands.as_ref()) {
                    return Some(Outcome::Refused { step: index, stands });
                }
                self.rows.insert(key(sort), (value.clone(), Some(guard.clone())));
                for row in rows {
                    let before = self.rows.insert(key(&row.sort), (row.value.clone(), None));
                    assert!(before.is_none(), "a row that appears with a head was there before");
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
        let mut state = self.state.lock();
        if call.strength == Strength::Serial {
            state.undecided.retain(|((of, undecided, _), _)| *of != table || undecided != partition);
        }
        state.check_page(table, partition)?;
        let key = (table, partition.clone(), sort.clone());
        let stale = state.stale.iter().filter(|_| call.strength == Strength::Usual);
        let before = state.undecided.iter().chain(stale).find(|(of, _)| *of == key);
        Ok(before.map_or_else(|| state.row(&key), |(_, row)| row.clone()))
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        let mut rows = Vec::new();
        for (partition, sort) in keys {
            rows.push(self.get(call, table, &partition, &sort).await?);
        }
        Ok(rows)
    }

    async fn scan(&self, _: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        self.turn().await;
        self.check()?;
        let mut state = self.state.lock();
        state.check_page(table, partition)?;
        state.scanned.push((table, partition.clone()));
        let state = &mut *state;
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
                // Where a range ends is exclusive.
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

    async fn run(&self, _: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        Step::lane_of(&steps)?;
        assert!(steps.len() <= Limits::default().steps, "a list of {} steps", steps.len());
        if steps.iter().any(|step| matches!(step, Step::CompareAndWrite { .. })) {
            self.check_home()?;
        }
        for (index, step) in steps.into_iter().enumerate() {
            match self.step(index, step).await {
                Ok(None) => {}
                Ok(Some(outcome)) => return Ok(outcome),
                // An error means that nothing was applied; here something was.
                Err(error) if index > 0 => return Ok(Outcome::Unknown { reason: error.to_string() }),
                Err(error) => return Err(error),
            }
        }
        Ok(Outcome::Applied)
    }

    async fn walk(&self, _: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        self.turn().await;
        self.check()?;
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
        _: Call,
        id: ContentId,
        owner: Bytes,
        mut content: ContentStream,
    ) -> StoreResult<()> {
        self.check()?;
        self.check_home()?;
        let mut bytes = BytesMut::new();
        while let Some(piece) = content.next().await {
            bytes.extend_from_slice(&piece?);
        }
        let lease_until = UnixMillis::default();
        let header = ContentHeader { state: ContentState::Sealed, owner, len: bytes.len() as u64, lease_until };
        self.state.lock().contents.insert(id, (header, bytes.freeze()));
        Ok(())
    }

    async fn content_header(&self, _: Call, id: ContentId) -> StoreResult<Option<ContentHeader>> {
        self.check()?;
        Ok(self.state.lock().contents.get(&id).map(|(header, _)| header.clone()))
    }

    async fn read_content(&self, _: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        self.check()?;
        let state = self.state.lock();
        let Some((_, bytes)) = state.contents.get(&id).filter(|(header, _)| header.state == ContentState::Sealed)
        else {
            return Ok(None);
        };
        let clip = |at: u64| usize::try_from(at).unwrap().min(bytes.len());
        let piece = bytes.slice(clip(range.start)..clip(range.end));
        Ok(Some(futures::stream::iter([Ok(piece)]).boxed()))
    }

    async fn condemn_content(&self, _: Call, id: ContentId) -> StoreResult<bool> {
        self.check()?;
        self.check_home()?;
        if let Some((header, _)) = self.state.lock().contents.get_mut(&id) {
            header.state = ContentState::Condemned;
        }
        Ok(true)
    }

    async fn delete_content(&self, _: Call, id: ContentId) -> StoreResult<bool> {
        self.check()?;
        self.check_home()?;
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

    async fn health(&self) -> Health {
        Health::default()
    }
}
