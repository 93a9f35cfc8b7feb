//! Worlds whose store is copied into another one while servers work. Copies fail and die at any
//! step, and are begun again. In the end a last copy lacks nothing, and servers over it serve what
//! the source did.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use store::copying::{Copier, CopyError, Pass, Patience};
use store::{Clock, ContentState, Row, StoreError, Table, UnixMillis};
use tokio_util::task::AbortOnDropHandle;

use super::Run;
use crate::chance::{Chance, Purpose, SeededRandom};
use crate::clock::SimClock;
use crate::store::world::World;
use crate::store::{SimStore, contents};
use crate::trace::Op;
use crate::work::{CONTAINERS, IDS, RecordChange, RecordWork, VOLUMES, Work, parsed, volume_id};

/// The name of the source.
const ORIGIN: &str = "the source";

/// How often a call of a copy is tried: seldom, so that copies fail and are begun again.
const PATIENCE: Patience = Patience { tries: 2 };

/// Turns in a thousand at which a copy begins, if none runs.
const BEGINS_PERMILLE: u64 = 20;

/// The most passes over a source at rest: the rest of an interrupted one, a whole one, and one that
/// finds nothing more.
const PASSES_MAX: usize = 3;

/// Operations of copies are numbered from here on, apart from those of clients.
const FIRST_OP: Op = 1 << 32;

/// The number of the process that copies, among those of the servers.
const COPYING_SERVER: usize = 15;

/// What a process that copies does before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Pass,
    Verify,
    End,
}

/// The copy of a run's store.
pub(super) struct Copying {
    target: Arc<Mutex<World>>,
    clock: SimClock,
    /// The number of its starts.
    starts: u64,
    running: Option<Process>,
    /// The result of the last one that ended by itself. Only a pass has something to report.
    ended: Option<Result<Pass, CopyError>>,
    /// Whether the servers are over the copy.
    has_taken_over: bool,
}

/// A process that copies.
struct Process {
    stage: Stage,
    source: Arc<SimStore>,
    target: Arc<SimStore>,
    task: AbortOnDropHandle<Result<Pass, CopyError>>,
}

impl Copying {
    /// The copy of a run, if its store is copied.
    pub(super) fn of(run: &Run) -> Option<Self> {
        run.options.copies.then(|| {
            let setup = run.setup.of_copy(run.options.seed);
            let mut target = World::new(run.options.seed, setup, run.began);
            // Not the draws of the source.
            target.chance = Chance::nth(run.options.seed, Purpose::Copying, 1);
            Self {
                target: Arc::new(Mutex::new(target)),
                clock: SimClock::new(run.began, 0, 0),
                starts: 0,
                running: None,
                ended: None,
                has_taken_over: false,
            }
        })
    }

    /// The store over which servers are, once the copy has taken over.
    pub(super) fn taken_over(&self) -> Option<&Arc<Mutex<World>>> {
        self.has_taken_over.then_some(&self.target)
    }

    /// A step of the run has passed: what is due arrives in the target.
    pub(super) fn arrivals(&self, step: u64) {
        let mut target = self.target.lock();
        target.step = step;
        target.arrivals(self.clock.now(), false);
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

impl Run {
    /// Draws whether a copy begins or dies.
    pub(super) fn events_of_copies(&mut self) {
        let Some(copying) = &self.copying else { return };
        match copying.is_running() {
            false if self.faults.permille(BEGINS_PERMILLE) => self.begin_copy(Stage::Pass),
            true if self.faults.below(10_000) < self.setup.weather.deaths => self.kill_copy(),
            _ => {}
        }
    }

    fn begin_copy(&mut self, stage: Stage) {
        let Some(copying) = &mut self.copying else { return };
        copying.starts += 1;
        let of = copying.starts * 16 + COPYING_SERVER as u64;
        let random = SeededRandom::new(Chance::nth(self.options.seed, Purpose::Servers, of));
        let (random, starts, clock) = (Arc::new(random), copying.starts, copying.clock);
        let way = |world: &Arc<Mutex<World>>| {
            Arc::new(SimStore {
                world: world.clone(),
                turns: self.turns.clone(),
                tasks: self.tasks.clone(),
                clock,
                random: random.clone(),
                server: COPYING_SERVER,
                center: 0,
                last_write: AtomicI64::new(0),
                is_dead: AtomicBool::new(false),
            })
        };
        let (source, target) = (way(&self.world), way(&copying.target));
        let (from, to) = (source.clone(), target.clone());
        let task = tokio::spawn(async move {
            let copier = Copier::begin(from, to, ORIGIN, PATIENCE).await?;
            match stage {
                Stage::Pass => copier.pass().await,
                Stage::Verify => copier.verify().await.map(|_| Pass::default()),
                Stage::End => copier.end().await.map(|()| Pass::default()),
            }
        });
        let op = FIRST_OP + starts;
        self.tasks.lock().insert(task.id(), op);
        copying.running = Some(Process { stage, source, target, task: AbortOnDropHandle::new(task) });
        self.note(&format!("copy {op} begins: {stage:?}"));
    }

    fn kill_copy(&mut self) {
        let Some(Process { source, target, .. }) = self.copying.as_mut().and_then(|copying| copying.running.take())
        else {
            return;
        };
        self.note("the copy dies");
        [source, target].iter().for_each(|store| store.is_dead.store(true, Ordering::SeqCst));
    }

    /// Handles a copy that has ended.
    pub(super) async fn check_copy(&mut self) {
        let Some(copying) = &mut self.copying else { return };
        let Some(Process { stage, task, .. }) = copying.running.take_if(|process| process.task.is_finished()) else {
            return;
        };
        match task.await {
            Ok(ended) => {
                let said = format!("the copy ended: {stage:?}, {ended:?}");
                let is_expected = ended.as_ref().err().is_none_or(may_happen);
                copying.ended = Some(ended);
                self.note(&said);
                if !is_expected {
                    self.wrong(said);
                }
            }
            Err(error) => self.wrong(format!("a copy ended with {error}")),
        }
    }

    /// The end of a run, when everything is at rest: a last copy lacks nothing, and servers over it
    /// serve what the source did.
    pub(super) async fn copied(&mut self) {
        if self.copying.is_none() || self.is_over() {
            return;
        }
        for server in 0..self.servers.len() {
            self.kill(server);
        }
        self.until_idle().await;
        self.heal_both();
        if self.pass_until_nothing_changes().await.is_none() {
            return;
        }
        // A pass looks at packs only where one of the rows beside them differs. So this must hold
        // before the comparison, which looks at all of them and repairs what differs.
        self.check_copied(&[Table::Packs]);
        if self.copy_to_the_end(Stage::Verify).await.is_none() {
            return;
        }
        self.check_copied(&[]);
        if self.copy_to_the_end(Stage::End).await.is_none() {
            return;
        }
        self.take_over().await;
    }

    fn heal_both(&mut self) {
        let now = self.servers[0].clock.now();
        self.world.lock().heal(now);
        if let Some(copying) = &self.copying {
            copying.target.lock().heal(copying.clock.now());
        }
    }

    /// Runs one stage to its end, with nothing that hinders it. Returns `None` after a failure,
    /// which is a violation.
    async fn copy_to_the_end(&mut self, stage: Stage) -> Option<Pass> {
        self.begin_copy(stage);
        self.until_idle().await;
        self.heal_both();
        let ended = self.copying.as_mut().and_then(|copying| copying.ended.take());
        match ended {
            Some(Ok(pass)) if !self.is_over() => Some(pass),
            Some(Ok(_)) => None,
            ended => {
                self.wrong(format!("a copy of a source at rest failed: {stage:?}, {ended:?}"));
                None
            }
        }
    }

    /// Returns `None` after a failure, which is a violation.
    async fn pass_until_nothing_changes(&mut self) -> Option<()> {
        for _ in 0..PASSES_MAX {
            if self.copy_to_the_end(Stage::Pass).await?.found_nothing() {
                return Some(());
            }
        }
        self.wrong(format!("{PASSES_MAX} passes over a source at rest find changes"));
        None
    }

    /// Compares all rows and contents of both stores, without the code that copies. The copy may have
    /// more in the tables `with_more`.
    fn check_copied(&self, with_more: &[Table]) {
        let Some(copying) = &self.copying else { return };
        let now = copying.clock.now();
        let (source, target) = (self.world.lock(), copying.target.lock());
        let mut wrong = Vec::new();
        for table in Table::ALL {
            let (wanted, there) = (rows_of(&source, table, now), rows_of(&target, table, now));
            for row in &wanted {
                if !there.contains(row) {
                    wrong.push(format!("the copy lacks {table} {}", named(row)));
                }
            }
            if !with_more.contains(&table) {
                let more = there.iter().filter(|row| !wanted.contains(row));
                wrong.extend(more.map(|row| format!("the copy has {table} {}, which its source has not", named(row))));
            }
        }
        drop((source, target));
        wrong.extend(self.wrong_in_target());
        wrong.into_iter().for_each(|wrong| self.wrong(wrong));
    }

    /// Servers begin over the copy, and clients read all of it.
    async fn take_over(&mut self) {
        if let Some(copying) = &mut self.copying {
            copying.has_taken_over = true;
        }
        self.setup = self.setup.of_copy(self.options.seed);
        self.note("the copy takes over");
        self.start(0);
        self.until_idle().await;
        if self.servers[0].library.is_none() {
            return self.wrong("no server begins over the copy".to_owned());
        }
        let containers = CONTAINERS.into_iter().map(parsed);
        let reads = containers.clone().map(|path| Work::Read { path });
        let lists = containers.map(|container| Work::List { container, page: 3 });
        let volumes = VOLUMES.map(volume_id).to_vec();
        let of_volumes = [Work::ListVolumes { page: 2 }, Work::ReadVolumes { volumes, pause: Duration::ZERO }];
        // One after the other, so that none lacks the time to end.
        for work in reads.chain(lists).chain(of_volumes) {
            self.ask(0, work);
            self.until_idle().await;
        }
        match self.setup.keeps_records {
            false => self.remembered().await,
            true => {
                for id in IDS {
                    let (ids, what) = (vec![Bytes::from_static(id.as_bytes())], RecordChange::Read);
                    self.ask(0, Work::Records(RecordWork { ids, what, within: Duration::from_secs(20) }));
                    self.until_idle().await;
                }
            }
        }
        self.wrong_in_target().into_iter().for_each(|wrong| self.wrong(wrong));
    }

    /// What the model of the copy has found: that a row was written again with other bytes, say. It
    /// knows no requests, so it cannot judge versions that clients sent.
    fn wrong_in_target(&self) -> Option<String> {
        let copying = self.copying.as_ref().filter(|_| !self.setup.has_versions)?;
        copying.target.lock().model.violation.clone()
    }
}

/// Draws one of the steps that wait, of which these are the operations. All steps of a copy together
/// have the chance of one, so that requests take no longer than the protocols assume.
pub(super) fn place(schedule: &mut Chance, ops: &[Option<Op>]) -> usize {
    let of_copy = |at: &usize| ops[*at].is_some_and(|op| op > FIRST_OP);
    let (copies, others): (Vec<usize>, Vec<usize>) = (0..ops.len()).partition(of_copy);
    let place = schedule.place(others.len() + usize::from(!copies.is_empty()));
    others.get(place).copied().unwrap_or_else(|| copies[schedule.place(copies.len())])
}

/// Whether a copy may end with an error while steps fail. A head or a content that a dead copy has
/// sent may arrive late, and then this one does not find what it expects.
fn may_happen(error: &CopyError) -> bool {
    match error {
        CopyError::Store(StoreError::Invalid(why)) => why.ends_with(" exists already"),
        CopyError::Store(error) => error.is_passing(),
        CopyError::Differs { .. } => true,
        CopyError::NotVacant { .. } | CopyError::Finished { .. } => false,
    }
}

/// A row, or the bytes of a content, with the partition in which it is.
type Stored = (Bytes, Row);

/// Whether a partition of [`Table::Work`] is not copied: whether the store is read-only, how far a
/// copy has come, and what was checked of the store.
fn is_about_one_store(partition: &Bytes) -> bool {
    *partition == store::read_only::PARTITION || partition == "copying" || partition.starts_with(b"local/")
}

fn named((partition, row): &Stored) -> String {
    format!("{} {}", partition.escape_ascii(), row.sort.escape_ascii())
}

/// All that a copy must have of a table, in order: rows as readers see them, and sealed contents
/// without the stamps of their headers, which each store draws.
fn rows_of(world: &World, table: Table, now: UnixMillis) -> Vec<Stored> {
    let mut rows = Vec::new();
    for partition in world.all_partitions(table, now) {
        if table == Table::Work && is_about_one_store(&partition) {
            continue;
        }
        let stored = world.all_of(table, &partition);
        let mut found: Vec<Row> =
            stored.sorts(&Bytes::new(), None).iter().filter_map(|sort| stored.row(sort, now)).collect();
        if table == Table::Contents {
            let header = found.iter().filter(|row| row.guard.is_some()).find_map(|row| contents::decode(&row.value));
            let Some(header) = header.filter(|header| header.state == ContentState::Sealed) else { continue };
            let chunks = found.iter().filter(|row| row.guard.is_none());
            let bytes: Vec<u8> = chunks.flat_map(|row| row.value.to_vec()).collect();
            let value = Bytes::from([&header.owner[..], &header.len.to_be_bytes(), &bytes].concat());
            found = vec![Row { sort: Bytes::new(), value, guard: None, expires_at: None }];
        }
        rows.extend(found.into_iter().map(|row| (partition.clone(), row)));
    }
    rows
}
