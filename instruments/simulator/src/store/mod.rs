//! The simulated store as one server sees it. Each step waits for its turn, which decides its fate.

mod by_clock;
pub(crate) mod contents;
pub(crate) mod replica;
pub(crate) mod world;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use heads::Mark;
use heads::{Rule, keys};
use parking_lot::{Mutex, MutexGuard};
use store::{
    Call, Capabilities, Clock, ContentHeader, ContentId, ContentStream, Direction, Health, Limits, NewRow, Outcome,
    Row, Rows, Scan, Step, Store, StoreError, StoreResult, Strength, Table, WalkPage,
};

use crate::clock::SimClock;
use crate::setup::{Engine, Pace};
use crate::store::replica::Mutation;
use crate::store::world::{Decided, Proposal, Replacement, World};
use crate::trace::Op;
use crate::turns::{Fate, Kind, Turns};

/// The operation of each task.
pub(crate) type Tasks = Mutex<std::collections::BTreeMap<tokio::task::Id, Op>>;

/// One server's access to the store.
pub(crate) struct SimStore {
    pub(crate) world: Arc<Mutex<World>>,
    pub(crate) turns: Arc<Turns>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) clock: SimClock,
    pub(crate) random: Arc<dyn store::Random>,
    pub(crate) server: usize,
    pub(crate) center: usize,
    /// The time of the last plain write.
    pub(crate) last_write: AtomicI64,
    /// Whether the server has died. Tasks that it left do nothing any more.
    pub(crate) is_dead: AtomicBool,
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.to_owned())
}

fn unknown(why: &str) -> Outcome {
    Outcome::Unknown { reason: why.to_owned() }
}

/// A key in a short, readable form.
fn readable(key: &[u8]) -> String {
    let hash = key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    let head: String = key.iter().take(20).copied().flat_map(std::ascii::escape_default).map(char::from).collect();
    if key.len() <= 20 { head } else { format!("{head}~{hash:08x}") }
}

/// The kind of a change of plain rows.
fn kind_of(mutation: &Mutation) -> Kind {
    let marks = || mutation.puts.iter().filter_map(|(sort, _)| Some(keys::child_of(sort)?.2));
    match mutation.place.0 {
        Table::Pins => Kind::Pin,
        Table::Work if mutation.place.1.starts_with(b"feed\0c") => Kind::Announcement,
        Table::Children if marks().any(|mark| mark == Mark::Confirmed) && marks().count() == 1 => Kind::Confirmation,
        _ => Kind::Write,
    }
}

impl SimStore {
    fn op(&self) -> Option<Op> {
        tokio::task::try_id().and_then(|task| self.tasks.lock().get(&task).copied())
    }

    async fn turn(&self, kind: Kind, what: String) -> Fate {
        let fate = self.turns.wait(self.op(), kind, format!("s{} {what}", self.server)).await;
        if self.is_dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        fate
    }

    /// Whether the next element of a joint read is read by itself, so that other turns may come in
    /// between.
    fn is_apart(&self, permille: impl FnOnce(&Pace) -> u64) -> bool {
        let mut world = self.world.lock();
        let permille = permille(&world.setup.pace);
        permille >= 1_000 || world.chance.permille(permille)
    }

    /// A write time later than all before.
    fn write_time(&self) -> i64 {
        let now = i64::try_from(self.clock.now().0.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let last = self.last_write.load(Ordering::SeqCst);
        let next = now.max(last + 1);
        self.last_write.store(next, Ordering::SeqCst);
        next
    }

    async fn read_turn(&self, what: String) -> StoreResult<()> {
        self.turn_to_read(Kind::Read, what).await
    }

    async fn turn_to_read(&self, kind: Kind, what: String) -> StoreResult<()> {
        match self.turn(kind, what).await {
            Fate::Go => Ok(()),
            _ => Err(unavailable("a read was not answered")),
        }
    }

    /// A row as it is now.
    fn row(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        let mut world = self.world.lock();
        if call.strength == Strength::Serial && world.setup.is_home(self.center) {
            // Pending decisions on the partition's guarded rows are finished first.
            if !world.finish_partition(table, partition, self.center) {
                return Err(unavailable("too few replicas"));
            }
        }
        let reach = world.setup.read_reach(call);
        let end = Bytes::from([&sort[..], &[0]].concat());
        let read = world.read(self.center, reach, &(table, partition.clone()), sort, Some(&end));
        Ok(read.ok_or_else(|| unavailable("too few replicas"))?.row(sort, self.clock.now()))
    }

    /// Waits for the turn of a step that the replicas decide together, if they can be reached then.
    async fn turn_to_decide(&self, kind: Kind, what: String) -> Result<(Fate, MutexGuard<'_, World>), StepEnded> {
        let fate = self.turn(kind, what).await;
        let world = self.world.lock();
        if !world.setup.is_home(self.center) {
            return Err(StepEnded::NotDone(StoreError::ReadOnly("heads have their home elsewhere".to_owned())));
        }
        if !world.can_decide(self.center) {
            return Err(StepEnded::NotDone(unavailable("too few replicas")));
        }
        Ok((fate, world))
    }

    /// Replaces a plain row.
    async fn replace(&self, replacement: Replacement, what: String) -> Result<Decided, StepEnded> {
        let (fate, mut world) = self.turn_to_decide(Kind::Record, what).await?;
        match fate {
            Fate::Go => Ok(world.replace(&replacement, self.center, true)),
            Fate::Fail => Err(StepEnded::NotDone(unavailable("it was not taken"))),
            Fate::UnknownApplied => {
                world.replace(&replacement, self.center, false);
                Err(StepEnded::Unknown)
            }
            Fate::UnknownLate(after) => {
                world.replace_late(replacement, after);
                Err(StepEnded::Unknown)
            }
            Fate::UnknownLost => Err(StepEnded::Unknown),
        }
    }

    /// Changes a guarded row.
    async fn compare_and_write(&self, proposal: Proposal, what: String) -> Result<Decided, StepEnded> {
        let (fate, mut world) = self.turn_to_decide(Kind::Head, what).await?;
        match fate {
            Fate::Go => Ok(world.decide(&proposal, self.center, true)),
            Fate::Fail => Err(StepEnded::NotDone(unavailable("it was not taken"))),
            Fate::UnknownApplied => {
                world.decide(&proposal, self.center, false);
                Err(StepEnded::Unknown)
            }
            Fate::UnknownLate(after) => {
                world.decide_late(proposal, after);
                Err(StepEnded::Unknown)
            }
            Fate::UnknownLost => Err(StepEnded::Unknown),
        }
    }

    /// Changes plain rows.
    async fn change(&self, call: Call, mutation: Mutation, what: String) -> Result<(), StepEnded> {
        let fate = self.turn(kind_of(&mutation), what).await;
        let mut world = self.world.lock();
        let reach = world.setup.write_reach(call.class);
        match fate {
            Fate::Go => match world.change(mutation, self.center, reach, true) {
                true => Ok(()),
                false => Err(StepEnded::NotDone(unavailable("too few replicas"))),
            },
            Fate::Fail => Err(StepEnded::NotDone(unavailable("it was not taken"))),
            Fate::UnknownApplied => {
                world.change(mutation, self.center, reach, false);
                Err(StepEnded::Unknown)
            }
            Fate::UnknownLate(after) => {
                world.change_late(mutation, after);
                Err(StepEnded::Unknown)
            }
            Fate::UnknownLost => Err(StepEnded::Unknown),
        }
    }

    /// Runs a step. `with` is decided together with it, if it is a compare-and-write.
    async fn step(&self, call: Call, step: &Step, with: Option<Mutation>) -> Result<Decided, StepEnded> {
        match step {
            Step::Put { table, partition, rows } => {
                let sorts: Vec<String> = rows.iter().map(|row| readable(&row.sort)).collect();
                let mutation = Mutation::put((*table, partition.clone()), rows, self.write_time());
                self.world.lock().model.put(*table, partition, rows);
                let what = format!("put {table} {} {}", readable(partition), sorts.join(" "));
                self.change(call, mutation, what).await.map(|()| Decided::Applied)
            }
            Step::Require { table, partition, sort, condition } => {
                let read = self.read_turn(format!("require {table} {}", readable(partition))).await;
                let current = read.and_then(|()| self.row(call.strong(), *table, partition, sort));
                let current = current.map_err(StepEnded::NotDone)?;
                Ok(if condition.holds(current.as_ref()) { Decided::Applied } else { Decided::Refused(current) })
            }
            Step::CompareAndWrite { table, partition, .. } => {
                let Some(proposal) = Proposal::of(step, self.op(), self.write_time()) else {
                    return Err(StepEnded::NotDone(unavailable("it is none")));
                };
                let proposal = Proposal { with, ..proposal };
                self.compare_and_write(proposal, format!("head {table} {}", readable(partition))).await
            }
            Step::Replace { partition, .. } => {
                let Some(replacement) = Replacement::of(step, self.clock.now()) else {
                    return Err(StepEnded::NotDone(unavailable("it is none")));
                };
                self.replace(replacement, format!("replace {}", readable(partition))).await
            }
            Step::Remove { table, partition, rows } => {
                let what = format!("remove {table} {}", readable(partition));
                self.read_turn(what.clone()).await.map_err(StepEnded::NotDone)?;
                let seen = self.world.lock().removal(&(*table, partition.clone()), rows, self.center, call.class);
                match seen {
                    None => Err(StepEnded::NotDone(unavailable("too few replicas"))),
                    Some(None) => Ok(Decided::Applied),
                    Some(Some(mutation)) => self.change(call, mutation, what).await.map(|()| Decided::Applied),
                }
            }
        }
    }

    async fn run_step_by_step(&self, call: Call, steps: &[Step]) -> StoreResult<Outcome> {
        let switches = steps.iter().any(is_switch);
        if switches && !self.world.lock().setup.is_home(self.center) {
            return Err(StoreError::ReadOnly("heads have their home elsewhere".to_owned()));
        }
        let mut something_applied = false;
        let left_out = self.world.lock().setup.left_out;
        let mut entry = None;
        for (index, step) in steps.iter().enumerate() {
            // Each row of a list has the class of its table, whatever the class of the list.
            let call = if left_out == Some(Rule::RowClass) { call } else { call.of(step.table().class()) };
            // Before outcomes were read serially, the entry of the head log was decided together
            // with the head that replaced the logged one.
            if left_out == Some(Rule::LookSerially)
                && let Some(put) = log_entry(step)
            {
                entry = Some(Mutation::put((Table::Objects, step.partition().clone()), put, self.write_time()));
                continue;
            }
            match self.step(call, step, entry.take_if(|_| is_switch(step))).await {
                Ok(Decided::Applied) => something_applied |= !matches!(step, Step::Require { .. }),
                Ok(Decided::Refused(current)) => return Ok(Outcome::Refused { step: index, current }),
                Err(StepEnded::NotDone(error)) if !something_applied => return Err(error),
                Err(StepEnded::NotDone(_) | StepEnded::Unknown) => return Ok(unknown("a step was not answered")),
            }
        }
        Ok(Outcome::Applied)
    }

    async fn run_as_one(&self, steps: Vec<Step>) -> StoreResult<Outcome> {
        let what: Vec<String> =
            steps.iter().map(|step| format!("{} {}", step.table(), readable(step.partition()))).collect();
        let (by, time) = (self.op(), self.write_time());
        let of_records = steps.iter().any(|step| step.table() == Table::Records);
        let kind = if of_records { Kind::Record } else { Kind::Write };
        let fate = self.turn(kind, format!("commit {}", what.join(", "))).await;
        let mut world = self.world.lock();
        world.finish_lists(self.clock.now());
        Ok(match fate {
            Fate::Go => world.commit(&steps, by, self.clock.now(), time),
            Fate::Fail => return Err(unavailable("it was not taken")),
            Fate::UnknownApplied => {
                // Whether it was refused or applied, no client learns it.
                world.commit(&steps, by, self.clock.now(), time);
                unknown("the sync was not answered")
            }
            Fate::UnknownLate(after) => {
                world.commit_late(steps, by, time, after);
                unknown("the sync was not answered")
            }
            Fate::UnknownLost => unknown("the sync was not answered"),
        })
    }

    /// A page of a range as it is now.
    fn page(&self, call: Call, table: Table, partition: &Bytes, scan: &Scan) -> StoreResult<Rows> {
        if scan.to.as_ref().is_some_and(|to| *to <= scan.from) {
            return Ok(Rows::default());
        }
        let mut world = self.world.lock();
        let reach = world.setup.read_reach(call);
        let read = world.read(self.center, reach, &(table, partition.clone()), &scan.from, scan.to.as_ref());
        let read = read.ok_or_else(|| unavailable("too few replicas"))?;
        let mut sorts = read.sorts(&scan.from, scan.to.as_ref());
        if scan.direction == Direction::Backward {
            sorts.reverse();
        }
        let mut page = Rows::default();
        let mut bytes = 0;
        for row in sorts.iter().filter_map(|sort| read.row(sort, self.clock.now())) {
            if !page.rows.is_empty() && bytes >= scan.max_bytes {
                page.next = match scan.direction {
                    Direction::Forward => Some(row.sort),
                    Direction::Backward => page.rows.last().map(|last: &Row| last.sort.clone()),
                };
                break;
            }
            bytes += row.sort.len() + row.value.len();
            page.rows.push(row);
        }
        Ok(page)
    }
}

fn is_switch(step: &Step) -> bool {
    matches!(step, Step::CompareAndWrite { .. })
}

/// The entries of the head log that a step puts, if it puts any.
fn log_entry(step: &Step) -> Option<&[NewRow]> {
    match step {
        Step::Put { table: Table::Objects, rows, .. } => {
            rows.iter().all(|row| row.sort.starts_with(&keys::log_prefix())).then_some(rows)
        }
        _ => None,
    }
}

/// Why a step did not succeed.
enum StepEnded {
    /// It certainly was not applied.
    NotDone(StoreError),
    Unknown,
}

#[async_trait]
impl Store for SimStore {
    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        self.read_turn(format!("get {table} {} {}", readable(partition), readable(sort))).await?;
        self.row(call.of(table.class()), table, partition, sort)
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        let mut rows = Vec::with_capacity(keys.len());
        for (index, (partition, sort)) in keys.iter().enumerate() {
            // They are read at the same time or one after another, with other turns in between.
            if index == 0 || self.is_apart(|pace| pace.rows_apart) {
                let what = format!("get_many {table} {} {}", readable(partition), readable(sort));
                self.turn_to_read(Kind::ReadTogether, what).await?;
            }
            rows.push(self.row(call.of(table.class()), table, partition, sort)?);
        }
        Ok(rows)
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        self.read_turn(format!("scan {table} {} {}", readable(partition), readable(&scan.from))).await?;
        self.page(call.of(table.class()), table, partition, &scan)
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        let mut pages = Vec::with_capacity(scans.len());
        for (index, (table, partition, scan)) in scans.iter().enumerate() {
            if index == 0 || self.is_apart(|pace| pace.ranges_apart) {
                self.read_turn(format!("scan {table} {} {}", readable(partition), readable(&scan.from))).await?;
            }
            pages.push(self.page(call.of(table.class()), *table, partition, scan)?);
        }
        Ok(pages)
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        Step::lane_of(&steps)?;
        let engine = self.world.lock().setup.engine;
        match engine {
            Engine::OneCommit => self.run_as_one(steps).await,
            Engine::Replicated { .. } if call.is_by_clock => self.run_by_clock(call, &steps).await,
            Engine::Replicated { .. } => self.run_step_by_step(call, &steps).await,
        }
    }

    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        self.read_turn(format!("walk {table}")).await?;
        let mut world = self.world.lock();
        let reach = world.setup.read_reach(call);
        let all = world.partitions(self.center, reach, table, self.clock.now());
        let all = all.ok_or_else(|| unavailable("too few replicas"))?;
        let mut rest = all.into_iter().filter(|partition| from.as_ref().is_none_or(|from| partition > from));
        let partitions: Vec<Bytes> = rest.by_ref().take(max).collect();
        let next = rest.next().and(partitions.last().cloned());
        Ok(WalkPage { partitions, next })
    }

    fn fresh_content_id(&self) -> ContentId {
        ContentId::drawn(&*self.random)
    }

    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        self.upload(call, id, owner, content).await
    }

    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>> {
        Ok(self.header(call, id).await?.map(|(_, header)| header))
    }

    async fn read_content(&self, call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        self.download(call, id, range).await
    }

    async fn condemn_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.condemn(call, id).await
    }

    async fn delete_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.delete(call, id).await
    }

    async fn sweep(&self, call: Call) -> StoreResult<u64> {
        self.sweep_contents(call).await
    }

    fn check_home(&self) -> StoreResult<()> {
        match self.world.lock().setup.is_home(self.center) {
            true => Ok(()),
            false => Err(StoreError::ReadOnly("heads have their home elsewhere".to_owned())),
        }
    }

    fn limits(&self) -> Limits {
        Limits { step_bytes: self.world.lock().setup.step_bytes, ..Limits::default() }
    }

    async fn health(&self) -> Health {
        Health::default()
    }

    fn capabilities(&self) -> Capabilities {
        let has_atomic_lists = matches!(self.world.lock().setup.engine, Engine::OneCommit);
        let is_shared = !has_atomic_lists || !self.world.lock().setup.keeps_records;
        Capabilities { is_shared, has_atomic_lists, delays_syncs: false, folder: None }
    }
}
