//! The store itself: sends each call to a thread that may block, or to the committer, and keeps its
//! deadline.

use std::collections::HashSet;
use std::future::poll_fn;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use store::{
    Call, Capabilities, Clock, ContentHeader, ContentId, ContentStream, Cut, Deadline, Durability, FormatLevel, Health,
    Lane, Measure, Outcome, Row, RowPage, Rows, Scan, Step, Store, StoreError, StoreResult, Table, UnixMillis,
    WalkPage,
};
use tokio::task::coop::{consume_budget, has_budget_remaining};
use tokio::time::{Instant, timeout_at};

use crate::blocking::Readers;
use crate::committer::poisoned;
use crate::database::{Database, Lanes};
use crate::files::io_error;
use crate::folder::Folder;
use crate::measures;
use crate::options::EmbeddedOptions;
use crate::plan::Plan;
use crate::prompt::{Place, Promptness};
use crate::read::{self, Wanted};
use crate::room::{self, Room, Use};
use crate::swept::{SweepPosition, UnknownFiles};
use crate::tables::{Tables, View};
use crate::writer::Writer;

/// Lists with a step of this size or more are paced: they wait for flushes outside the committer, where they
/// delay nobody.
const BULK_BYTES: usize = 128 << 10;

/// Bulk lists wait while more memtables of a table than this are waiting to be flushed. fjall
/// stalls every writer at four.
const BULK_UNFLUSHED_MEMTABLES: u64 = 2;

/// How often a paced list checks again.
const PACE: Duration = Duration::from_millis(5);

/// How long closing waits for a merge of files with deleted records, for the queue, for a last
/// flush, and for calls that are still reading.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

/// A call that reads at most this number of rows reads them on the caller's thread while they are
/// cached, if there is a place for it ([`Promptness`]). A list of steps that compares or writes no
/// more looks them up there too. Creating a resource needs half as many, and commands of the
/// records door that run as one at most as many.
const ROWS_READ_HERE_MAX: usize = 32;

/// A call that reads at most this number of rows looks them up in the cache of whole rows first, on
/// the caller's thread, and waits for nothing if all are there. Each takes less than a microsecond.
const ROWS_LOOKED_UP_MAX: usize = 256;

/// A run of scans that is not larger is read there too: about half a millisecond of work. When
/// streaming volumes, sending each batch to another thread and back took a fifth of all CPU time,
/// most of it to wake cores.
const RUN_BYTES_READ_HERE_MAX: usize = 1 << 20;

/// The most that acknowledged writes survive. A group is synced before its lists are acknowledged,
/// unless all of them let it wait ([`Call::sync_delay`], [`EmbeddedOptions::sync_delay`]).
const GIVEN: Durability = Durability::Synced;

/// The embedded engine over one data folder. See the head of the crate.
pub struct EmbeddedStore {
    /// Dropped first: committers end before the lock on the folder is released.
    writers: Arc<Lanes<Writer>>,
    /// The data folder, as it was named when the store was opened.
    folder: PathBuf,
    /// `None` after it is closed.
    database: RwLock<Option<Arc<Database>>>,
    room: Arc<Room>,
    /// Of reads of few rows, on their callers' threads.
    prompt: Promptness,
    /// Of all other reads of rows.
    readers: Readers,
    /// Where the next sweep of contents continues, and what it has found so far.
    pub(crate) sweep_position: Mutex<SweepPosition>,
    pub(crate) unknown_files: Mutex<UnknownFiles>,
    /// Contents that this process is uploading.
    pub(crate) uploads: Arc<Mutex<HashSet<ContentId>>>,
    /// How long ago the records had expired that the last sweep found, at most.
    pub(crate) reclaim_lag: Mutex<Option<Duration>>,
    /// The thread that merges files with deleted records, if there was one.
    pub(crate) merging: Mutex<Option<JoinHandle<()>>>,
    /// Whether the store was closed.
    pub(crate) is_closed: Arc<AtomicBool>,
    /// Held for reading while files of contents are removed.
    pub(crate) removals: Arc<tokio::sync::RwLock<()>>,
    level: FormatLevel,
    clock: Arc<dyn Clock>,
    options: EmbeddedOptions,
}

impl EmbeddedStore {
    /// Opens the store in `folder`, and makes one if the folder has none. `clock` decides expiries
    /// and leases.
    ///
    /// Errors: [`StoreError::Held`] if another process has it open; [`StoreError::Format`] if it
    /// has another format (the folder is not changed then); [`StoreError::Unreadable`] if it is too
    /// damaged to open (no lane is changed if the checks of one refuse it); [`StoreError::Full`] or
    /// [`StoreError::Io`] if the operating system refuses something.
    ///
    /// Open it in the runtime that reads from it. Tasks read few rows on their own threads, but
    /// never on all workers of that runtime at once, if it has several.
    pub fn open(folder: &Path, options: EmbeddedOptions, clock: Arc<dyn Clock>) -> StoreResult<Arc<Self>> {
        let make = |database: &Path, lane| Tables::make(database, lane, &options.of_lane(lane));
        let mut folder = Folder::hold(folder, options.newest_level, make)?;
        let level = folder.level();
        // All of them first: a lane that is refused leaves the others as they are.
        let checked =
            Lanes::try_new_at_once(|lane| Tables::check(&folder.database(lane), lane, folder.last_use().lane(lane)))?;
        room::provide_for_opening(folder.path());
        // Opening changes files, also where that of another lane fails.
        folder.note_open()?;
        let tables = checked.try_map_at_once(|lane, checked| Ok(Arc::new(checked.open(&options.of_lane(lane))?)))?;
        let room = Arc::new(Room::new(folder.path().to_path_buf(), options.headroom_bytes));
        let writers = Lanes::try_new(|lane| {
            Writer::start(lane, tables.of(lane).clone(), room.clone(), clock.clone(), &options)
                .map_err(|source| io_error("starting the committers of", folder.path(), source))
        })?;
        let prompt = Promptness::start(folder.path())
            .map_err(|source| io_error("starting the watch over reads of", folder.path(), source))?;
        Ok(Arc::new(Self {
            folder: folder.path().to_path_buf(),
            database: RwLock::new(Some(Arc::new(Database { tables, folder }))),
            writers: Arc::new(writers),
            room,
            prompt,
            readers: Readers::new(),
            sweep_position: Mutex::default(),
            unknown_files: Mutex::default(),
            uploads: Arc::default(),
            reclaim_lag: Mutex::default(),
            merging: Mutex::default(),
            is_closed: Arc::default(),
            removals: Arc::default(),
            level,
            clock,
            options,
        }))
    }

    /// Raises the level of the store in `folder` by one, unless it is the newest that this program
    /// knows. Returns the level before and after. Afterwards earlier programs refuse the store.
    ///
    /// Errors: as of [`EmbeddedStore::open`], before anything is changed;
    /// [`StoreError::Unreadable`] if there is no store.
    pub fn raise_level(folder: &Path, options: &EmbeddedOptions) -> StoreResult<[FormatLevel; 2]> {
        let mut folder = Folder::hold_made(folder, options.newest_level)?;
        let before = folder.level();
        if before < options.newest_level {
            folder.raise()?;
        }
        Ok([before, folder.level()])
    }

    /// The level of the store in `folder`, which another process may hold.
    ///
    /// Errors: [`StoreError::Format`] if this program does not know it; [`StoreError::Unreadable`]
    /// if there is no store.
    pub fn level_of(folder: &Path, options: &EmbeddedOptions) -> StoreResult<FormatLevel> {
        Folder::look_at_level(folder, options.newest_level)
    }

    pub(crate) fn now(&self) -> UnixMillis {
        self.clock.now()
    }

    pub(crate) fn options(&self) -> &EmbeddedOptions {
        &self.options
    }

    pub(crate) fn database(&self) -> StoreResult<Arc<Database>> {
        self.database.read().clone().ok_or_else(|| StoreError::Unavailable("the store is closed".to_owned()))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// Refuses uses of the headroom on the disk outside the committer.
    pub(crate) fn check_room(&self, bytes: u64) -> StoreResult<()> {
        self.room.check(self.room.free_bytes(), bytes, Use::Adds)
    }

    /// Reads from a consistent view of a lane, on a thread that may block.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        deadline: Deadline,
        lane: Lane,
        read: impl FnOnce(&View<'_>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let database = self.database()?;
        self.readers.read(deadline, move || read(&database.tables.of(lane).view())).await
    }

    /// Reads for a call from a consistent view of a lane, on a thread that may block.
    pub(crate) async fn read_of<T: Send + 'static>(
        &self,
        call: Call,
        lane: Lane,
        read: impl FnOnce(&View<'_>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let database = self.database()?;
        self.readers.read(call.deadline, move || read(&database.tables.of(lane).view_of(call.is_once))).await
    }

    /// Reads few rows, or more of at most `bytes_max` bytes, from a consistent view of a lane: on
    /// the caller's thread if that is advisable, or else on one that may block.
    async fn read_few<T: Send + 'static>(
        &self,
        deadline: Deadline,
        lane: Lane,
        bytes_max: usize,
        read: impl FnOnce(&View<'_>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        match self.place().await {
            Some(place) => place.timed_of(bytes_max, || self.read_here(deadline, lane, read)),
            None => self.read(deadline, lane, read).await,
        }
    }

    /// A place for a read of few rows on the caller's thread, if that is advisable.
    ///
    /// If others have the places, it looks once more after other tasks had their turn. Places are
    /// given back within microseconds, and to send the read to another thread takes longer.
    async fn place(&self) -> Option<Place<'_>> {
        take_turn().await;
        if let Some(place) = self.prompt.place() {
            return Some(place);
        }
        if !self.prompt.is_prompt() {
            return None;
        }
        after_others().await;
        self.prompt.place()
    }

    /// Reads from a consistent view of a lane on the caller's thread, for few rows. Measured on two
    /// cores: a row takes 1.2 µs from the engine's cache and 16 µs from the operating system's.
    /// Sending the read to a blocking thread and back takes 12 to 30 µs, and as much CPU time.
    fn read_here<T>(
        &self,
        deadline: Deadline,
        lane: Lane,
        read: impl FnOnce(&View<'_>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        if deadline.passed() {
            return Err(StoreError::DeadlinePassed);
        }
        let database = self.database()?;
        catch_unwind(AssertUnwindSafe(|| read(&database.tables.of(lane).view())))
            .unwrap_or_else(|_| Err(StoreError::Unavailable("a read failed, see the log".to_owned())))
    }

    /// Sends a plan to the committer of its lane, which applies it, or applies it here.
    pub(crate) async fn submit(&self, deadline: Deadline, plan: Plan) -> StoreResult<Outcome> {
        let writer = self.writers.of(plan.lane);
        writer.check_poison()?;
        let plan = self.touched(deadline, plan).await.map_err(not_begun)?;
        self.pace(deadline, &plan).await?;
        let sync_delay = plan.sync_delay.max(self.options.sync_delay);
        let plan = plan.synced_within(sync_delay);
        match self.commit_here(writer, deadline, &plan).await? {
            Some(outcome) => Ok(outcome),
            None => writer.submit(deadline, plan).await,
        }
    }

    /// Applies a small plan on the caller's thread, if nothing has to be waited for: in a store that
    /// lets all syncs wait, and for the audit and records whose sync may wait. Sending it to the
    /// committer and back takes longer than to write it, and a caller that writes one list after the
    /// other, as the audit does, has nothing else to do meanwhile.
    async fn commit_here(&self, writer: &Writer, deadline: Deadline, plan: &Plan) -> StoreResult<Option<Outcome>> {
        let is_small = plan.rows_touched() <= ROWS_READ_HERE_MAX && plan.bytes < BULK_BYTES;
        let is_alone = !self.options.sync_delay.is_zero() || plan.use_ == Use::Audits || plan.lane == Lane::Records;
        if plan.sync_delay.is_zero() || !is_alone || !is_small {
            return Ok(None);
        }
        // A change of a record follows the one before it, and must not begin after the next one. So it
        // does not wait for a place.
        let place = if plan.lane == Lane::Records { self.prompt.place() } else { self.place().await };
        let Some(place) = place else { return Ok(None) };
        // The folder is released after the write.
        let _open = self.database()?;
        let write = || writer.commit_here(deadline, plan);
        match self.options.sync_delay.is_zero() {
            true => place.untimed(write).transpose(),
            false => place.timed_write(write).transpose(),
        }
    }

    /// Reads the rows that the committer will need, so that it finds them in memory. Few rows are
    /// read on the caller's thread.
    async fn touched(&self, deadline: Deadline, plan: Plan) -> StoreResult<Plan> {
        if !plan.needs_touch() {
            return Ok(plan);
        }
        let (lane, now) = (plan.lane, self.now());
        let is_few = plan.rows_touched() <= ROWS_READ_HERE_MAX;
        let touch = move |view: &View<'_>| plan.touch(view, now).map(|()| plan);
        if is_few {
            return self.read_few(deadline, lane, 0, touch).await;
        }
        self.read(deadline, lane, touch).await
    }

    /// Delays bulk lists while the tables that they write to have much to flush. Many small changes
    /// are no bulk.
    async fn pace(&self, deadline: Deadline, plan: &Plan) -> StoreResult<()> {
        if plan.largest_change_bytes() < BULK_BYTES {
            return Ok(());
        }
        loop {
            let tables = self.database()?.tables.of(plan.lane).clone();
            let bound = BULK_UNFLUSHED_MEMTABLES * tables.memtable_bytes();
            let mut is_behind = false;
            for table in plan.written_tables() {
                is_behind |= tables.unflushed_bytes(table)? >= bound;
            }
            if !is_behind {
                return Ok(());
            }
            drop(tables);
            if deadline.passed() {
                return Err(StoreError::Overloaded("data arrives faster than the disk can write it".to_owned()));
            }
            tokio::time::sleep(PACE.min(deadline.remaining())).await;
        }
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        let now = self.now();
        if call.is_once {
            let (partition, sort) = (partition.clone(), sort.clone());
            let get = move |view: &View<'_>| read::get(view, table, &partition, &sort, now);
            return self.read_of(call, table.lane(), get).await;
        }
        let wanted = Wanted::look_up(self.database()?.tables.of(table.lane()), table, partition, sort);
        let Some(wanted) = wanted else { return Ok(None) };
        if let Some(row) = wanted.cached(table, now) {
            return without_wait(call.deadline, row).await;
        }
        if let Some(place) = self.place().await {
            let here = || self.read_here(call.deadline, table.lane(), |view| wanted.get(view, table, now));
            return place.timed(here);
        }
        self.read(call.deadline, table.lane(), move |view| wanted.get(view, table, now)).await
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        let (now, deadline, lane) = (self.now(), call.deadline, table.lane());
        if keys.len() > ROWS_LOOKED_UP_MAX || call.is_once {
            let get = move |view: &View<'_>| {
                until(deadline, &keys, |(partition, sort)| read::get(view, table, partition, sort, now))
            };
            return self.read_of(call, lane, get).await;
        }
        let (wanted, cached) = {
            let database = self.database()?;
            let tables = database.tables.of(lane);
            let look_up = |(partition, sort): &(Bytes, Bytes)| Wanted::look_up(tables, table, partition, sort);
            let wanted: Vec<Option<Wanted>> = keys.iter().map(look_up).collect();
            let cached = read::all_cached(tables, table, &wanted, now);
            (wanted, cached)
        };
        if let Some(rows) = cached {
            return without_wait(deadline, rows).await;
        }
        let is_few = wanted.len() <= ROWS_READ_HERE_MAX;
        let get = move |view: &View<'_>| get_each(view, table, &wanted, now, deadline);
        if is_few {
            return self.read_few(deadline, lane, 0, get).await;
        }
        self.read(deadline, lane, get).await
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        let now = self.now();
        if scan.max_bytes <= Scan::FEW_BYTES
            && !call.is_once
            && let Some(place) = self.place().await
        {
            let here = || {
                self.read_here(call.deadline, table.lane(), |view| {
                    read::scan(view, table, partition, &scan, now, call.deadline)
                })
            };
            return place.timed(here);
        }
        let partition = partition.clone();
        let scan = move |view: &View<'_>| read::scan(view, table, &partition, &scan, now, call.deadline);
        self.read_of(call, table.lane(), scan).await
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        let now = self.now();
        let Some(lane) = scans.first().map(|(table, _, _)| table.lane()) else { return Ok(Vec::new()) };
        let bytes_max = scans.iter().fold(0, |sum: usize, (_, _, scan)| sum.saturating_add(scan.max_bytes));
        let scan = move |view: &View<'_>| {
            let pages = scans.iter();
            pages
                .map(|(table, partition, scan)| read::scan(view, *table, partition, scan, now, call.deadline))
                .collect()
        };
        if bytes_max <= RUN_BYTES_READ_HERE_MAX && !call.is_once {
            return self.read_few(call.deadline, lane, bytes_max, scan).await;
        }
        self.read_of(call, lane, scan).await
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        let wanted = steps.iter().map(|step| call.wanted_of(step.table())).fold(call.durability, Durability::max);
        wanted.require(GIVEN)?;
        let sync_delay = if wanted < Durability::Synced { call.sync_delay } else { Duration::ZERO };
        self.submit(call.deadline, Plan::new(steps)?.of_call(call).synced_within(sync_delay)).await
    }

    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        let now = self.now();
        self.read_of(call, table.lane(), move |view| read::walk(view, table, from, max, now, call.deadline)).await
    }

    async fn walk_rows(
        &self,
        call: Call,
        table: Table,
        from: Option<Bytes>,
        max: usize,
        max_bytes: usize,
    ) -> StoreResult<RowPage> {
        let (now, most) = (self.now(), (max, max_bytes));
        let walk = move |view: &View<'_>| read::walk_rows(view, table, from, most, now, call.deadline);
        self.read_of(call, table.lane(), walk).await
    }

    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        call.wanted_of(Table::Contents).require(GIVEN)?;
        self.upload(call, id, owner, content).await
    }

    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>> {
        Ok(self.header_of(call, id).await?.map(|(_, header)| header))
    }

    async fn read_content(&self, call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        self.download(call, id, range).await
    }

    async fn condemn_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.condemn(call.deadline, id).await
    }

    async fn delete_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.delete(call.deadline, id).await
    }

    async fn sweep(&self, call: Call) -> StoreResult<u64> {
        self.database()?.tables.iter().for_each(|(_, tables)| tables.release_once());
        self.reclaim(call.deadline).await
    }

    async fn cut(&self, call: Call) -> StoreResult<Cut> {
        self.make_cut(call.deadline).await
    }

    fn level(&self) -> FormatLevel {
        self.level
    }

    async fn health(&self) -> Health {
        let free_bytes = self.room.free_bytes();
        let (writers, database, room) = (self.writers.clone(), self.database(), self.room.clone());
        // On a thread of its own, because the databases may be in the middle of a sync.
        let asked = tokio::task::spawn_blocking(move || {
            let refusal = |lane: Lane, writer: &Writer| match (writer.poison(), &database) {
                (Some(reason), _) => Some(reason.to_owned()),
                (None, Err(closed)) => Some(closed.to_string()),
                (None, Ok(database)) => match room.check(free_bytes, 0, least_use(lane)) {
                    Err(full) => Some(full.to_string()),
                    Ok(()) => database.tables.of(lane).refusal(),
                },
            };
            writers.iter().filter_map(|(lane, writer)| Some((lane, refusal(lane, writer)?))).collect()
        });
        let refusing_writes =
            asked.await.unwrap_or_else(|error| Lane::ALL.map(|lane| (lane, error.to_string())).into());
        let unknown_contents = self.unknown_files.lock().count();
        let reclaim_lag = *self.reclaim_lag.lock();
        let expiring = self.database().map(|database| database.tables.of(Lane::Records).expiring(self.now()));
        let no_room = self.room.refused(free_bytes);
        let expiring = expiring.unwrap_or_default();
        Health { refusing_writes, free_bytes, no_room, unknown_contents, reclaim_lag, expiring, ..Health::default() }
    }

    fn measures(&self) -> Vec<Measure> {
        let database = self.database().ok();
        let tables = |lane| database.as_ref().map(|database| database.tables.of(lane));
        let lanes = self.writers.iter().flat_map(|(lane, writer)| {
            let of_tables = tables(lane).map(|tables| measures::of_tables(&tables.activity()));
            let of_lane = measures::of_writer(writer).into_iter().chain(of_tables.into_iter().flatten());
            of_lane.map(move |measure| measure.of("lane", lane.name()))
        });
        measures::of_room(&self.room).into_iter().chain(lanes).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { is_shared: false, has_atomic_lists: true, delays_syncs: true, folder: Some(self.folder.clone()) }
    }

    async fn close(&self) -> StoreResult<()> {
        let Some(database) = self.database.write().take() else { return Ok(()) };
        self.is_closed.store(true, Ordering::Release);
        let (writers, mut merging) = (self.writers.clone(), self.merging.lock().take());
        let still_open = Arc::downgrade(&database);
        let closing = tokio::task::spawn_blocking(move || {
            let begin = |(lane, writer): (Lane, &Writer)| {
                writer.end();
                let tables = database.tables.of(lane);
                // All acknowledged rows are in the journal, but files need no replay and are better
                // protected.
                let may_flush = writer.poison().is_none() && tables.refusal().is_none();
                may_flush.then(|| tables.begin_flush())
            };
            // The lanes write their files at the same time.
            let begun: Vec<Option<fjall::Result<()>>> = writers.iter().map(begin).collect();
            // One lane is closed even if the other fails. That of records comes last: files of it
            // may be merged.
            let close = |((lane, writer), begun): ((Lane, &Writer), Option<fjall::Result<()>>)| {
                let tables = database.tables.of(lane);
                let merging = merging.take_if(|_| lane == Lane::Records);
                if merging.is_some_and(|thread| thread.join().is_err()) {
                    tracing::error!("the thread that merges files with deleted records panicked");
                }
                if let Some(begun) = begun {
                    let flushed = begun.and_then(|()| tables.flush());
                    flushed.map_err(|error| StoreError::Unavailable(format!("flushing {lane}: {error}")))?;
                }
                // Their sync was allowed to wait, and failed. Nobody else learns of it.
                if tables.lacks_sync() {
                    return Err(unsynced(lane, writer.poison().unwrap_or("see the log")));
                }
                Ok(())
            };
            let closed: Vec<StoreResult<()>> = writers.iter().zip(begun).map(close).collect();
            closed.into_iter().collect()
        });
        let give_up = Instant::now() + CLOSE_WAIT;
        let closed = timeout_at(give_up, closing)
            .await
            .map_err(|_| StoreError::Unavailable(format!("the store did not close within {CLOSE_WAIT:?}")))?;
        // Calls that still read hold the engine; the folder is released with the last of them.
        while still_open.strong_count() > 0 && Instant::now() < give_up {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        closed.unwrap_or_else(|error| Err(StoreError::Unavailable(format!("closing: {error}"))))
    }
}

/// The error of closing a lane with acknowledged writes that could not be synced.
fn unsynced(lane: Lane, reason: &str) -> StoreError {
    poisoned(lane, &format!("acknowledged writes are not synced, and a power failure may undo them: {reason}"))
}

/// The least demanding write of a lane, as far as disk space goes. For the service lane that is the
/// audit, since nothing is served without an audit.
fn least_use(lane: Lane) -> Use {
    match lane {
        Lane::Text | Lane::Records => Use::Adds,
        Lane::Service => Use::Audits,
    }
}

/// Rows of a table that are wanted, until the deadline.
fn get_each(
    view: &View<'_>,
    table: Table,
    wanted: &[Option<Wanted>],
    now: UnixMillis,
    deadline: Deadline,
) -> StoreResult<Vec<Option<Row>>> {
    let get = |wanted: &Option<Wanted>| match wanted {
        Some(wanted) => wanted.get(view, table, now),
        None => Ok(None),
    };
    until(deadline, wanted, get)
}

/// Gets one thing after the other until the deadline: each of them may have to wait for the disk.
fn until<K, T>(deadline: Deadline, keys: &[K], get: impl Fn(&K) -> StoreResult<T>) -> StoreResult<Vec<T>> {
    let get = |key| match deadline.passed() {
        true => Err(StoreError::DeadlinePassed),
        false => get(key),
    };
    keys.iter().map(get).collect()
}

/// The answer of a read that waited for nothing.
async fn without_wait<T>(deadline: Deadline, answer: StoreResult<T>) -> StoreResult<T> {
    take_turn().await;
    if deadline.passed() { Err(StoreError::DeadlinePassed) } else { answer }
}

/// Gives others their turn now and then: a caller that reads in a loop, and never waits, would keep
/// its thread for itself.
async fn take_turn() {
    if !has_budget_remaining() {
        after_others().await;
    }
    consume_budget().await;
}

/// Gives other tasks their turn. Tokio's `yield_now` would keep this task on its thread until the
/// tasks that wait there had theirs, although one of them may read from a disk that stalls. Here
/// other workers may take it.
async fn after_others() {
    let mut is_woken = false;
    poll_fn(|context| {
        if is_woken {
            return Poll::Ready(());
        }
        is_woken = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A write whose deadline passed before it was queued was certainly not applied.
fn not_begun(error: StoreError) -> StoreError {
    match error {
        StoreError::DeadlinePassed => {
            StoreError::Overloaded("the deadline passed before the write could begin".to_owned())
        }
        error => error,
    }
}

#[cfg(test)]
mod tests;
