//! The database of a lane's rows: one fjall keyspace per table, one that lists rows by expiry, and
//! one for the mark of the last group.

use std::any::Any;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use fjall::AbstractTree;
use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, CompressionPolicy, PartitioningPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvPair, PersistMode, Readable, Snapshot};
use parking_lot::{Mutex, MutexGuard};
use store::{Deadline, Lane, StoreError, StoreResult, Table, UnixMillis};

use crate::expiry;
use crate::files::{io_error, sync_folder};
use crate::forecast::{self, Counted, Forecast, HOURS, Moved, hour_of};
use crate::key::KeyRange;
use crate::last_use::{LaneEnd, MIXED_COPY};
use crate::once_rows::OnceRows;
use crate::opening::engine_lock::EngineLock;
use crate::opening::record::{DatabaseId, Mark, Record, RecordFile, Synced};
use crate::opening::versions::{self, Known, List};
use crate::opening::{self, Found};
use crate::options::LaneOptions;
use crate::priority;
use crate::recorder::{Engine, Memtable, Recorder, Seen};
use crate::replaced::Replaced;
use crate::row_cache::{Lookup, RowActivity, RowCache};
use crate::space::Space;
use crate::value::{self, Value};

/// An item of a group takes less than this in the journal, without its value and (except for the
/// mark) its key.
const ITEM_FRAME_BYTES_MAX: u64 = 64;

/// Entries that are counted between two looks at the deadline.
const ENTRIES_PER_DEADLINE_CHECK: u64 = 1_000;

/// No more entries of one hour are counted, so that each sweep counts some hours to the end.
const ENTRIES_COUNTED_MAX: u64 = 5_000_000;

/// How often a flush checks whether its files are written.
const FLUSH_POLL: Duration = Duration::from_millis(1);

/// A group waits while so many memtables of a table wait to be written to files. With one more, the
/// engine halts the writer for a tenth of a second at a time.
const UNFLUSHED_MEMTABLES_MAX: usize = 3;

/// How often it checks that.
const HALT_POLL: Duration = Duration::from_millis(1);

/// So many runs of files that wait to be merged let fjall delay a batch that writes to their table.
const DELAYED_FROM_RUNS: usize = 20;

/// The table with a cache of whole rows. Its rows are looked up one by one, and change.
const CACHED: Table = Table::Records;

/// The open database of a lane.
pub(crate) struct Tables {
    /// Ends before the database closes.
    _replaced: Replaced,
    lane: Lane,
    database: Database,
    /// In the order of [`Space::all`].
    keyspaces: Vec<(Space, Keyspace)>,
    /// Of [`CACHED`], if the lane has it.
    row_cache: Option<RowCache>,
    once_rows: OnceRows,
    recorder: Mutex<Recorder>,
    forecast: Forecast,
    memtable_bytes: u64,
}

/// A database that was found sound. Nobody else can open it as long as the value exists.
pub(crate) struct Checked {
    lane: Lane,
    folder: PathBuf,
    unused: EngineLock,
    found: Found,
    file: RecordFile,
    record: Record,
}

impl Checked {
    /// Opens the database. Any file of it may be damaged, so a panic of fjall is returned as an error
    /// too.
    pub(crate) fn open(self, options: &LaneOptions) -> StoreResult<Tables> {
        let Self { lane, folder, unused, found, file, record } = self;
        let folder = folder.as_path();
        opening::cut_torn_end(&found).map_err(|source| io_error("cutting off a torn group in", folder, source))?;
        // Before the engine makes a file with an id that an older one had.
        let known = opening::known_path(folder);
        if Known::read(&known) != found.known {
            found.known.write(&known).map_err(|source| io_error("writing", &known, source))?;
        }
        drop(unused);
        let (database, keyspaces) = match open_with_workers(folder, lane, options)? {
            Ok(opened) => opened.map_err(|error| open_error(folder, error))?,
            Err(_) => return Err(unreadable(folder, "its recovery failed, see the log".to_owned())),
        };
        check_names(folder, &keyspaces)?;
        // What is seen from now on must not be lost in a power failure: the process may have died
        // before it synced its last groups.
        database.persist(PersistMode::SyncAll).map_err(|error| open_error(folder, error))?;
        let group = last_group(folder, &keyspaces[0].1, &record, &found)?;
        let replayed = keyspaces.iter().filter_map(|(_, keyspace)| {
            let memtable = keyspace.tree.active_memtable();
            (!memtable.is_empty()).then(|| (keyspace.id(), memtable.id()))
        });
        let recorder = Mutex::new(Recorder::new(folder, file, record, found, group, replayed));
        let forecast = Forecast::default();
        let row_cache = (lane == CACHED.lane()).then(|| RowCache::new(options.row_cache_bytes));
        let memtable_bytes = options.memtable_bytes;
        let trees = keyspaces.iter().map(|(_, keyspace)| keyspace.tree.clone());
        let _replaced = Replaced::start(lane, trees)
            .map_err(|source| io_error("starting the thread that deletes replaced files in", folder, source))?;
        let once_rows = OnceRows::new();
        Ok(Tables { _replaced, lane, database, keyspaces, row_cache, once_rows, recorder, forecast, memtable_bytes })
    }
}

impl Tables {
    /// Makes an empty database with all keyspaces and its record. All of it is durable, except for
    /// the names in the parent folder. If this fails or the process dies, what it made must be
    /// deleted.
    pub(crate) fn make(folder: &Path, lane: Lane, options: &LaneOptions) -> StoreResult<()> {
        let making = |source| io_error("making the database in", folder, source);
        make_keyspaces(folder, lane, options).map_err(|error| open_error(folder, error))?;
        let database = DatabaseId::fresh();
        let mut versions = Vec::new();
        for id in 0..Space::count(lane) {
            let keyspace = versions::keyspace(folder, id);
            versions::write_owner(&keyspace, database, id).map_err(making)?;
            let list = List::current(&keyspace).map_err(|problem| unreadable(folder, problem.to_string()))?;
            versions.push(list.version);
        }
        sync_folder(&versions::keyspaces(folder))?;
        sync_folder(folder)?;
        let first = Record {
            database,
            group: 0,
            sequence: Record::UNKNOWN,
            written_to: 0,
            needed_from: vec![Record::NONE_NEEDED; versions.len()],
            versions,
        };
        RecordFile::make(&opening::record_path(folder), &first).map_err(making)
    }

    /// Checks a database that nobody has open, and changes nothing. Fails if a part of it is missing,
    /// foreign, truncated or older than the rest, or if it is not as it was at its `end`.
    pub(crate) fn check(folder: &Path, lane: Lane, end: Option<&LaneEnd>) -> StoreResult<Checked> {
        // Before anything is cut off a journal: a process may be writing to it.
        let unused = EngineLock::take(folder)?;
        let found = opening::inspect(folder, Space::count(lane));
        refuse_unsound(folder, &found)?;
        if end.is_some_and(|end| !end.is(&found)) {
            let what = format!(
                "{MIXED_COPY}: a process opened that while it was copied, the parts are of different copies, or an \
                 earlier version of Penates used the original last, which does not note what it leaves. Restore a \
                 backup (penates backup). Or open the original once with this version (penates stat), stop every \
                 process that has it open, and copy again. If nothing can have opened it while it was copied, and all \
                 parts are of one copy, delete the file `lock` in the copy"
            );
            return Err(unreadable(folder, what));
        }
        let path = opening::record_path(folder);
        let opened = RecordFile::open(&path).map_err(|source| io_error("opening", &path, source))?;
        let (file, record) = opened.ok_or_else(|| unreadable(folder, format!("{} is damaged", path.display())))?;
        Ok(Checked { lane, folder: folder.to_path_buf(), unused, found, file, record })
    }

    fn keyspace(&self, space: Space) -> StoreResult<&Keyspace> {
        let found = self.keyspaces.iter().find(|(found, _)| *found == space).map(|(_, keyspace)| keyspace);
        found.ok_or_else(|| StoreError::Invalid(format!("{} is not a table of lane {}", space.name(), self.lane)))
    }

    fn marks(&self) -> &Keyspace {
        &self.keyspaces[0].1
    }

    /// A consistent view of what is committed now. All reads go through one: fjall's plain reads
    /// may see the first rows of a batch before its last.
    pub(crate) fn view(&self) -> View<'_> {
        View { tables: self, snapshot: self.database.snapshot(), lists: None }
    }

    /// The same. If its reader reads everything once, the engine's cache of blocks stays as it is.
    pub(crate) fn view_of(&self, is_once: bool) -> View<'_> {
        // Before the view is opened: see `once_rows.rs`.
        let list = |(space, keyspace): &(Space, Keyspace)| (*space, keyspace.tree.current_version().id());
        let lists = is_once.then(|| self.keyspaces.iter().map(list).collect());
        View { lists, ..self.view() }
    }

    /// Closes the files that only readers have open that read everything once.
    pub(crate) fn release_once(&self) {
        self.once_rows.release();
    }

    /// The cache of whole rows of a keyspace, if it has one.
    fn row_cache(&self, space: Space) -> Option<&RowCache> {
        self.row_cache.as_ref().filter(|_| space == Space::Rows(CACHED))
    }

    /// What is cached of a row. This comes before the view from which it is read otherwise.
    pub(crate) fn find(&self, table: Table, key: &[u8]) -> Lookup {
        self.row_cache(Space::Rows(table)).map_or(Lookup::Miss(None), |cache| cache.find(key))
    }

    /// Whether a row was found that is still the visible one.
    pub(crate) fn is_current(&self, table: Table, key: &[u8], found: &Lookup) -> bool {
        match (found, self.row_cache(Space::Rows(table))) {
            (Lookup::Hit(_, seen), Some(cache)) => cache.is_current(key, *seen),
            _ => false,
        }
    }

    /// Writes all changes as one group. They are visible when this returns. Before that they and
    /// all earlier groups are synced, or the kernel has them.
    pub(crate) fn commit(
        &self,
        changes: impl Iterator<Item = (Space, Bytes, Option<Bytes>)>,
        moved: &Moved,
        syncs: bool,
    ) -> StoreResult<()> {
        let mut recorder = self.recorder.lock();
        // The engine may write rows to a file together with those of a memtable that waits for
        // that. A file must not be ahead of the journal.
        let syncs = syncs || self.is_flushing();
        let persist = if syncs { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.database.batch().durability(Some(persist));
        batch.insert(self.marks(), Mark::KEY, recorder.next_mark().encode());
        if let Some(synced) = recorder.synced_before_next(syncs) {
            batch.insert(self.marks(), Synced::KEY, synced.encode());
        }
        let mut bytes = 2 * ITEM_FRAME_BYTES_MAX + (Mark::BYTES + Synced::BYTES) as u64;
        let mut written = BTreeSet::from([self.marks().id()]);
        let mut rows = self.row_cache.as_ref().map(RowCache::begin);
        for (space, key, value) in changes {
            if let Some(rows) = rows.as_mut().filter(|_| space == Space::Rows(CACHED)) {
                rows.add(&key, value.as_ref());
            }
            bytes += ITEM_FRAME_BYTES_MAX + (key.len() + value.as_ref().map_or(0, Bytes::len)) as u64;
            let keyspace = self.keyspace(space)?;
            written.insert(keyspace.id());
            match value {
                Some(value) => batch.insert(keyspace, key, value),
                None => batch.remove(keyspace, key),
            }
        }
        // Before the batch is committed, so that its rows are in none before these.
        let memtable = |(_, keyspace): &(Space, Keyspace)| (keyspace.id(), keyspace.tree.active_memtable().id());
        let memtables: Vec<Memtable> =
            self.keyspaces.iter().map(memtable).filter(|(keyspace, _)| written.contains(keyspace)).collect();
        batch.commit().map_err(|error| StoreError::Io {
            context: "committing a batch".to_owned(),
            source: io::Error::other(error),
        })?;
        if let Some(rows) = rows {
            rows.visible();
        }
        recorder.written(bytes, memtables.into_iter());
        self.forecast.add(moved);
        if syncs {
            self.note_synced(&mut recorder)?;
        }
        recorder.acknowledged();
        Ok(())
    }

    /// Whether memtables wait to be written to files.
    pub(crate) fn is_flushing(&self) -> bool {
        self.keyspaces.iter().any(|(_, keyspace)| keyspace.sealed_memtable_count() > 0)
    }

    /// Waits until the engine would not halt a group that writes to these tables, unless it cannot
    /// write memtables to files any more.
    pub(crate) fn wait_for_flushes(&self, written: &BTreeSet<Table>) {
        let is_written = |space: Space| match space {
            Space::Rows(table) => written.contains(&table),
            Space::Marks | Space::Expiries => true,
        };
        let is_behind = |(space, keyspace): &(Space, Keyspace)| {
            is_written(*space) && keyspace.sealed_memtable_count() >= UNFLUSHED_MEMTABLES_MAX
        };
        while self.keyspaces.iter().any(is_behind) && self.refusal().is_none() {
            thread::sleep(HALT_POLL);
        }
    }

    /// Notes that all groups are synced, unless a sync has failed meanwhile: the system reports
    /// that once, perhaps to another thread, which the engine knows now.
    fn note_synced(&self, recorder: &mut Recorder) -> StoreResult<()> {
        self.database.persist(PersistMode::Buffer).map_err(sync_error)?;
        recorder.synced(self.database.visible_seqno(), self);
        Ok(())
    }

    /// Syncs all groups.
    pub(crate) fn sync(&self) -> StoreResult<()> {
        self.sync_held(&mut self.hold())
    }

    /// No group is committed while the value exists.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock()
    }

    /// Whether a group that is committed now would wait, because of [`Tables::hold`] or of another one.
    pub(crate) fn is_held(&self) -> bool {
        self.recorder.is_locked()
    }

    /// Whether so many files wait to be merged that the engine delays those who write.
    pub(crate) fn is_behind(&self) -> bool {
        self.keyspaces.iter().any(|(_, keyspace)| keyspace.tree.l0_run_count() >= DELAYED_FROM_RUNS)
    }

    /// Syncs all groups while none is committed.
    pub(crate) fn sync_held(&self, held: &mut MutexGuard<'_, Recorder>) -> StoreResult<()> {
        self.database.persist(PersistMode::SyncData).map_err(sync_error)?;
        self.note_synced(held)
    }

    /// Whether groups were acknowledged that are not synced: a power failure may undo them.
    pub(crate) fn lacks_sync(&self) -> bool {
        self.recorder.lock().lacks_sync()
    }

    /// The lane.
    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// The version of the list of files of a keyspace that is read now, and a value while which
    /// exists none of its files is deleted. `None` for the engine's own keyspace, whose list does
    /// not change.
    pub(crate) fn version_of(&self, number: u64) -> Option<(u64, Box<dyn Any + Send>)> {
        let place = usize::try_from(number.checked_sub(1)?).ok()?;
        let version = self.keyspaces.get(place)?.1.tree.current_version();
        Some((version.id(), Box::new(version)))
    }

    /// How many rows of the lane expire in the hour of a time and in each after it, as far as they
    /// are counted.
    pub(crate) fn expiring(&self, now: UnixMillis) -> Vec<u64> {
        self.forecast.from(hour_of(now))
    }

    /// Counts the coming hours that are not counted yet, and then those that were counted in part
    /// and have to be counted again. At the deadline it ends; the next call continues.
    pub(crate) fn count_expiring(&self, now: UnixMillis, deadline: Deadline) -> StoreResult<()> {
        let first = hour_of(now);
        self.forecast.forget_before(first);
        let hours = first..first + HOURS;
        let all = hours.clone().map(|hour| (hour, false)).chain(hours.map(|hour| (hour, true)));
        let mut is_first = true;
        for (hour, is_again) in all {
            let view = {
                // No group is committed meanwhile.
                let _recorder = self.recorder.lock();
                let begins = if is_again { self.forecast.begin_again(hour) } else { self.forecast.begin(hour) };
                if !begins {
                    continue;
                }
                self.view()
            };
            let counted = count_hour(&view, hour, deadline);
            let is_over = deadline.passed();
            // Earlier hours took a part of the time: the next call has all of it for this one.
            let is_cut = |counted: &Counted| counted.is_part && counted.entries < ENTRIES_COUNTED_MAX && !is_first;
            self.forecast.found(hour, counted.as_ref().ok().filter(|counted| !is_cut(counted)).copied());
            counted?;
            if is_over {
                return Ok(());
            }
            is_first = false;
        }
        Ok(())
    }

    /// Bytes of a table that wait to be written to files, without the memtable in use. Commits
    /// stall when they grow.
    pub(crate) fn unflushed_bytes(&self, table: Table) -> StoreResult<u64> {
        Ok(self.keyspace(Space::Rows(table))?.sealed_memtable_count() as u64 * self.memtable_bytes)
    }

    /// Bytes that a table gathers in memory before they are written to a file.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes
    }

    /// What the engine reports of its database now.
    pub(crate) fn activity(&self) -> Activity {
        let of_each = |of: fn(&Keyspace) -> u64| self.keyspaces.iter().map(|(_, keyspace)| of(keyspace)).sum::<u64>();
        let once = self.once_rows.metrics();
        Activity {
            table_bytes: of_each(Keyspace::disk_space),
            unflushed_memtables: of_each(|keyspace| keyspace.sealed_memtable_count() as u64),
            blocks_from_cache: of_each(|keyspace| keyspace.metrics().block_load_cached_count() as u64)
                + once.block_load_cached_count() as u64,
            blocks_from_files: of_each(|keyspace| keyspace.metrics().block_load_io_count() as u64)
                + once.block_load_io_count() as u64,
            journals: self.database.journal_count() as u64,
            cache_bytes: self.database.cache_size(),
            cache_bytes_max: self.database.cache_capacity(),
            compactions_at_work: self.database.active_compactions() as u64,
            compactions: self.database.compactions_completed() as u64,
            compacting: self.database.time_compacting(),
            rows: self.row_cache.as_ref().map(RowCache::activity),
        }
    }

    /// Why the database refuses writes; `None`: it does not.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.database.persist(PersistMode::Buffer).err().map(|error| error.to_string())
    }

    /// Begins to write to files what is only in memory and in the journal. The engine's threads do it
    /// side by side. The marks are left for [`Tables::flush`].
    pub(crate) fn begin_flush(&self) -> fjall::Result<()> {
        self.keyspaces.iter().skip(1).try_for_each(|(_, keyspace)| keyspace.rotate_memtable().map(drop))
    }

    /// Writes to files what is only in memory and in the journal, so that the next start replays
    /// nothing. The marks come last, because each journal has some: as long as they are in the
    /// journals alone, all of these are needed. Fails if a file cannot be written; the journal then
    /// still holds what is in no file.
    pub(crate) fn flush(&self) -> fjall::Result<()> {
        self.begin_flush()?;
        self.wait_until_flushed()?;
        self.marks().rotate_memtable()?;
        self.wait_until_flushed()?;
        let mut recorder = self.recorder.lock();
        self.database.persist(PersistMode::SyncAll)?;
        recorder.end(self.database.visible_seqno(), self);
        Ok(())
    }

    /// Waits until no memtable waits to be written. fjall's own wait never ends after the thread that
    /// writes the file has failed.
    fn wait_until_flushed(&self) -> fjall::Result<()> {
        while self.is_flushing() {
            self.database.persist(PersistMode::Buffer)?;
            thread::sleep(FLUSH_POLL);
        }
        Ok(())
    }
}

/// What a database does, and what it takes.
pub(crate) struct Activity {
    pub(crate) table_bytes: u64,
    /// Memtables that wait to be written to files.
    pub(crate) unflushed_memtables: u64,
    pub(crate) blocks_from_cache: u64,
    pub(crate) blocks_from_files: u64,
    pub(crate) journals: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) cache_bytes_max: u64,
    pub(crate) compactions_at_work: u64,
    pub(crate) compactions: u64,
    pub(crate) compacting: Duration,
    /// Of the cache of whole rows, if there is one.
    pub(crate) rows: Option<RowActivity>,
}

impl Engine for Tables {
    fn seen(&self) -> Seen {
        // Versions come first: what is in memory after that is in no file of such a version.
        let versions = self.keyspaces.iter().map(|(_, keyspace)| keyspace.tree.current_version().id()).collect();
        // The sealed ones have the numbers before the active one's. They are counted first: one
        // that is sealed meanwhile is missed, and none that is in a file already is taken for one
        // that is not. (A sequence number could not tell: that of the files may fall when they are
        // merged.)
        let unflushed_from = |(_, keyspace): &(Space, Keyspace)| {
            let sealed = keyspace.sealed_memtable_count() as u64;
            keyspace.tree.active_memtable().id().saturating_sub(sealed)
        };
        Seen { versions, unflushed_from: self.keyspaces.iter().map(unflushed_from).collect() }
    }

    fn files(&self) -> Vec<(u64, u64)> {
        let of_one = |(_, keyspace): &(Space, Keyspace)| {
            let version = keyspace.tree.current_version();
            version.iter_tables().map(|table| (keyspace.id(), table.id())).collect::<Vec<_>>()
        };
        self.keyspaces.iter().flat_map(of_one).collect()
    }
}

/// A consistent view of the database.
pub(crate) struct View<'a> {
    tables: &'a Tables,
    snapshot: Snapshot,
    /// The list of files of each keyspace that was the newest before, for a reader that reads
    /// everything once.
    lists: Option<Vec<(Space, u64)>>,
}

impl View<'_> {
    /// The bytes at a key.
    pub(crate) fn raw(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        let keyspace = self.tables.keyspace(space)?;
        let (once_rows, seqno) = (&self.tables.once_rows, self.snapshot.seqno());
        let once = self.list(space).and_then(|list| once_rows.get(keyspace, list, key, seqno));
        let value = match once {
            Some(value) => value.map_err(fjall::Error::from),
            None => self.snapshot.get(keyspace, key),
        };
        Ok(value.map_err(|error| read_error(space, error))?.map(Bytes::from))
    }

    /// The list of files that was the newest before the view was opened, for a reader that reads
    /// everything once.
    fn list(&self, space: Space) -> Option<u64> {
        self.lists.as_ref()?.iter().find(|(of, _)| *of == space).map(|(_, list)| *list)
    }

    /// The live value at a key.
    pub(crate) fn value(&self, table: Table, key: &[u8], now: UnixMillis) -> StoreResult<Option<Value>> {
        match self.raw(Space::Rows(table), key)? {
            Some(raw) => live(table, &raw, now),
            None => Ok(None),
        }
    }

    /// The live value at a key that was looked up in the cache before the view was opened. What was
    /// not there is put there.
    pub(crate) fn value_found(
        &self,
        table: Table,
        key: &[u8],
        found: &Lookup,
        now: UnixMillis,
    ) -> StoreResult<Option<Value>> {
        if let Lookup::Hit(raw, _) = found
            && self.tables.is_current(table, key, found)
        {
            return live(table, raw, now);
        }
        let space = Space::Rows(table);
        let Some(raw) = self.raw(space, key)? else { return Ok(None) };
        let value = live(table, &raw, now)?;
        if let (Lookup::Miss(Some(seen)), Some(cache), Some(_)) = (found, self.tables.row_cache(space), &value) {
            cache.keep(key, &raw, *seen);
        }
        Ok(value)
    }

    /// The bytes at a key, for the only one to commit: nothing was committed since the view was
    /// opened. So what is cached is what it shows.
    pub(crate) fn newest(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        match self.tables.row_cache(space).and_then(|cache| cache.peek(key)) {
            Some(raw) => Ok(Some(raw)),
            None => self.raw(space, key),
        }
    }

    /// Reads a row, so that a commit finds it in memory, unless it is cached as a whole.
    pub(crate) fn touch(&self, table: Table, key: &[u8]) -> StoreResult<()> {
        self.newest(Space::Rows(table), key).map(|_| ())
    }

    /// Keys and values of a range, from either end.
    pub(crate) fn range(
        &self,
        space: Space,
        range: KeyRange,
    ) -> StoreResult<impl DoubleEndedIterator<Item = StoreResult<(Bytes, Bytes)>>> {
        let keyspace = self.tables.keyspace(space)?;
        let (once_rows, seqno) = (&self.tables.once_rows, self.snapshot.seqno());
        let once = self.list(space).and_then(|list| once_rows.range(keyspace, list, &range, seqno));
        let rows: Box<dyn DoubleEndedIterator<Item = fjall::Result<KvPair>> + '_> = match once {
            Some(rows) => {
                Box::new(rows.map(|row| row.map(|row| (row.key.user_key, row.value)).map_err(fjall::Error::from)))
            }
            None => Box::new(self.snapshot.range(keyspace, range).map(|item| item.into_inner())),
        };
        Ok(rows.map(move |row| {
            let (key, value) = row.map_err(|error| read_error(space, error))?;
            Ok((key.into(), value.into()))
        }))
    }
}

fn sync_error(error: fjall::Error) -> StoreError {
    StoreError::Io { context: "syncing a journal".to_owned(), source: io::Error::other(error) }
}

/// Counts the entries of an hour, at most [`ENTRIES_COUNTED_MAX`], and those that it reaches by the
/// deadline.
fn count_hour(view: &View<'_>, hour: u64, deadline: Deadline) -> StoreResult<Counted> {
    let hour = expiry::between(forecast::begin_of(hour), forecast::begin_of(hour + 1));
    let mut entries = 0;
    for entry in view.range(Space::Expiries, hour)? {
        entry?;
        let is_late = entries > 0 && entries % ENTRIES_PER_DEADLINE_CHECK == 0 && deadline.passed();
        if entries == ENTRIES_COUNTED_MAX || is_late {
            return Ok(Counted { entries, is_part: true });
        }
        entries += 1;
    }
    Ok(Counted { entries, is_part: false })
}

/// Decodes a value; `None`: it has expired.
pub(crate) fn live(table: Table, raw: &Bytes, now: UnixMillis) -> StoreResult<Option<Value>> {
    let value = value::decode(raw)
        .ok_or_else(|| StoreError::Corrupt { table, detail: "a value of no known kind".to_owned() })?;
    Ok((!value.is_expired(now)).then_some(value))
}

type Keyspaces = Vec<(Space, Keyspace)>;

fn open_keyspaces(
    folder: &Path,
    lane: Lane,
    options: &LaneOptions,
    worker_threads: usize,
) -> fjall::Result<(Database, Keyspaces)> {
    let database = Database::builder(folder)
        .cache_size(options.cache_bytes)
        .journal_compression(CompressionType::None)
        .max_journaling_size(options.journals_bytes)
        .max_cached_files(Some(options.open_files))
        .worker_threads_unchecked(worker_threads)
        .open()?;
    let open = |space: Space| {
        let keyspace = database.keyspace(space.name(), || keyspace_options(options, space))?;
        Ok((space, keyspace))
    };
    let keyspaces = Space::all(lane).map(open).collect::<fjall::Result<_>>()?;
    Ok((database, keyspaces))
}

/// Opens a database, whose threads merge and write files at a lower priority: they inherit it from
/// the thread that starts them, which also replays the journals. The inner error is a panic of the
/// engine.
fn open_with_workers(
    folder: &Path,
    lane: Lane,
    options: &LaneOptions,
) -> StoreResult<thread::Result<fjall::Result<(Database, Keyspaces)>>> {
    let open = || {
        priority::lower();
        open_keyspaces(folder, lane, options, options.worker_threads.max(1))
    };
    thread::scope(|scope| {
        let opening = thread::Builder::new().name(format!("open-{lane}")).spawn_scoped(scope, open);
        let opening = opening.map_err(|source| io_error("starting the thread that opens", folder, source))?;
        Ok(opening.join())
    })
}

/// Makes the keyspaces of a database and closes it.
pub(crate) fn make_keyspaces(folder: &Path, lane: Lane, options: &LaneOptions) -> fjall::Result<()> {
    open_keyspaces(folder, lane, options, 0).map(|_| ())
}

/// Refuses an unsound database, and names the problem.
fn refuse_unsound(folder: &Path, found: &Found) -> StoreResult<()> {
    let mut problems = found.problems();
    let Some(first) = problems.next() else { return Ok(()) };
    found.problems().for_each(|problem| tracing::error!(%problem, "the database is not opened"));
    let detail = match problems.count() {
        0 => first.to_string(),
        others => format!("{first} ({others} more in the log)"),
    };
    Err(unreadable(folder, detail))
}

/// Refuses a database whose list of names is not the one with which it was made.
fn check_names(folder: &Path, keyspaces: &Keyspaces) -> StoreResult<()> {
    for (number, (space, keyspace)) in (1..).zip(keyspaces) {
        if keyspace.id() != number {
            let detail =
                format!("its list of names says that {} is number {}, not {number}", space.name(), keyspace.id());
            return Err(unreadable(folder, detail));
        }
    }
    Ok(())
}

/// The last group of a database that has just been opened.
fn last_group(folder: &Path, marks: &Keyspace, record: &Record, found: &Found) -> StoreResult<u64> {
    let mark = marks.get(Mark::KEY).map_err(|error| open_error(folder, error))?;
    let group = match mark.as_ref().map(|mark| Mark::decode(mark)) {
        None => 0,
        Some(Some(mark)) if mark.database == record.database => mark.group,
        Some(_) => return Err(unreadable(folder, "its last mark belongs to another database".to_owned())),
    };
    let in_journals = found.journals.iter().rev().find_map(|journal| Some(journal.runs.last()?.last));
    let expected = in_journals.unwrap_or(record.group);
    let synced = found.journals.last().map_or(0, |journal| journal.lost_after);
    let expected = expected.max(synced);
    // Files of rows may have a later group than the record, which falls behind in a power failure.
    if group < expected || in_journals.is_some_and(|last| group > last) {
        return Err(unreadable(folder, format!("it shows group {group}, and should show {expected}")));
    }
    Ok(group)
}

/// Filters and indexes of all but the youngest levels are kept in parts of some KiB. Whole ones
/// have hundreds of KiB and do not stay in a small cache. They would be read and checked for nearly
/// each lookup among a million rows.
fn keyspace_options(options: &LaneOptions, space: Space) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(options.merge_files)))
        .data_block_size_policy(BlockSizePolicy::all(space.block_bytes(options.row_block_bytes)))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_block_partitioning_policy(PartitioningPolicy::new([false, true]))
        .index_block_partitioning_policy(PartitioningPolicy::new([false, false, true]))
        .max_memtable_size(options.memtable_bytes)
        .with_kv_separation(None)
}

/// Maps a failed read: everything is damage but an error of the operating system that does not come
/// from the bytes or from the disk.
fn read_error(space: Space, error: fjall::Error) -> StoreError {
    let table = match space {
        Space::Rows(table) => table,
        // These have no name above the seam. Nearly all rows that expire belong to selections.
        Space::Expiries | Space::Marks => Table::Selections,
    };
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            if is_damage(&source) {
                return StoreError::Corrupt { table, detail: source.to_string() };
            }
            StoreError::Io { context: format!("reading table {table}"), source }
        }
        error => StoreError::Corrupt { table, detail: error.to_string() },
    }
}

/// Whether an error of a read comes from the bytes that were read, because invalid lengths and
/// positions lead beyond a file's end, or from a disk that cannot read them.
fn is_damage(error: &io::Error) -> bool {
    is_unreadable(error)
        || matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
        )
}

/// Whether the disk could not read the bytes (`EIO`).
pub(crate) fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

fn open_error(folder: &Path, error: fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            if is_damage(&source) {
                return unreadable(folder, source.to_string());
            }
            io_error("opening the database in", folder, source)
        }
        fjall::Error::Locked => StoreError::Held { folder: folder.display().to_string() },
        fjall::Error::InvalidVersion(found) => StoreError::Format {
            location: folder.display().to_string(),
            found: format!("fjall {found:?}"),
            expected: "fjall 3".to_owned(),
        },
        error => unreadable(folder, error.to_string()),
    }
}

pub(crate) fn unreadable(folder: &Path, detail: String) -> StoreError {
    StoreError::Unreadable { location: folder.display().to_string(), detail }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::options::EmbeddedOptions;

    /// A change of a record.
    fn change(row: &'static [u8]) -> (Space, Bytes, Option<Bytes>) {
        (Space::Rows(CACHED), Bytes::from_static(b"key"), Some(value::encode_plain(row, None)))
    }

    /// Reads the record as a client does. Returns whether it was cached, too.
    fn read(tables: &Tables) -> (Bytes, bool) {
        let (found, now) = (tables.find(CACHED, b"key"), UnixMillis(0));
        let value = tables.view().value_found(CACHED, b"key", &found, now).unwrap().unwrap();
        (value.value, matches!(found, Lookup::Hit(..)))
    }

    #[test]
    fn after_a_commit_that_failed_its_rows_are_read_from_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let (database, options) = (folder.path().join("records"), EmbeddedOptions::default().of_lane(CACHED.lane()));
        Tables::make(&database, CACHED.lane(), &options).unwrap();
        let tables = Tables::check(&database, CACHED.lane(), None).unwrap().open(&options).unwrap();
        tables.commit([change(b"first")].into_iter(), &Moved::new(), true).unwrap();
        assert_eq!(read(&tables), ("first".into(), false));
        tables.commit([change(b"second")].into_iter(), &Moved::new(), true).unwrap();
        assert_eq!(read(&tables), ("second".into(), true));
        let foreign = (Space::Rows(Table::Objects), Bytes::from_static(b"key"), None);
        let failed = tables.commit([change(b"third"), foreign].into_iter(), &Moved::new(), true);
        assert!(matches!(failed, Err(StoreError::Invalid(_))), "{failed:?}");
        for _ in 0..3 {
            assert_eq!(read(&tables), ("second".into(), false));
        }
        let newest = tables.view().newest(Space::Rows(CACHED), b"key").unwrap();
        assert_eq!(newest, Some(value::encode_plain(b"second", None)));
    }

    #[test]
    fn threads_that_merge_and_write_files_leave_the_processors_to_those_that_serve() {
        let folder = tempfile::tempdir().unwrap();
        let (database, options) = (folder.path().join("records"), EmbeddedOptions::default().of_lane(CACHED.lane()));
        Tables::make(&database, CACHED.lane(), &options).unwrap();
        let _tables = Tables::check(&database, CACHED.lane(), None).unwrap().open(&options).unwrap();
        priority::tests::until_lower("fjall:worker");
    }

    #[test]
    fn after_a_clean_end_the_next_start_knows_all_files_of_rows_and_need_not_write_their_list() {
        let folder = tempfile::tempdir().unwrap();
        let (database, options) = (folder.path().join("records"), EmbeddedOptions::default().of_lane(CACHED.lane()));
        Tables::make(&database, CACHED.lane(), &options).unwrap();
        let tables = Tables::check(&database, CACHED.lane(), None).unwrap().open(&options).unwrap();
        tables.commit([change(b"first")].into_iter(), &Moved::new(), true).unwrap();
        tables.flush().unwrap();
        drop(tables);
        let found = opening::inspect(&database, Space::count(CACHED.lane()));
        assert_eq!(found.problems().count(), 0);
        assert_ne!(found.known, Known::default());
        assert_eq!(Known::read(&opening::known_path(&database)), found.known);
    }

    #[test]
    fn bytes_that_the_disk_cannot_read_are_damage_and_a_lack_of_memory_is_not() {
        let error = |errno: rustix::io::Errno| {
            read_error(
                Space::Rows(Table::Objects),
                fjall::Error::Io(io::Error::from_raw_os_error(errno.raw_os_error())),
            )
        };
        let unreadable = error(rustix::io::Errno::IO);
        assert!(matches!(unreadable, StoreError::Corrupt { table: Table::Objects, .. }), "{unreadable}");
        assert!(matches!(error(rustix::io::Errno::NOMEM), StoreError::Io { .. }));
    }
}
