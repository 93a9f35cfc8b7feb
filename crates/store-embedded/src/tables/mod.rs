//! The database of a lane's rows: one fjall keyspace per table, one that lists rows by expiry, and
//! one for the mark of the last group.
//!
//! How to read it: this file has the open database and its commits; `open.rs` opens it; `view.rs`
//! reads it; `merge.rs` gives space back, of tables as large as `pace.rs` permits; `error.rs` has the
//! meaning of the engine's errors.

mod error;
mod merge;
mod open;
mod pace;
mod view;

use std::any::Any;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use fjall::AbstractTree;
use fjall::{Database, Keyspace, PersistMode};
use parking_lot::{Mutex, MutexGuard};
use store::{Deadline, Lane, StoreError, StoreResult, Table, UnixMillis};

pub(crate) use self::error::is_unreadable;
use self::error::{open_error, sync_error, unreadable};
use self::merge::Deleted;
pub(crate) use self::open::make_keyspaces;
use self::open::{Keyspaces, check_names, last_group, open_with_workers, refuse_unsound};
use self::view::{ENTRIES_COUNTED_MAX, count_hour};
pub(crate) use self::view::{View, live};
use crate::expiry;
use crate::files::{io_error, sync_folder};
use crate::first_due::FirstDue;
use crate::forecast::{Counted, Forecast, HOURS, Moved, hour_of};
use crate::last_use::{LaneEnd, MIXED_COPY};
use crate::once_rows::OnceRows;
use crate::opening::engine_lock::EngineLock;
use crate::opening::record::{DatabaseId, Mark, Record, RecordFile, Synced};
use crate::opening::versions::{self, Known, List};
use crate::opening::{self, Found};
use crate::options::LaneOptions;
use crate::recorder::{Engine, Memtable, Recorder, Seen};
use crate::replaced::Replaced;
use crate::row_cache::{Lookup, RowActivity, RowCache};
use crate::space::Space;

/// An item of a group takes less than this in the journal, without its value and (except for the
/// mark) its key.
const ITEM_FRAME_BYTES_MAX: u64 = 64;

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
    replaced: Replaced,
    lane: Lane,
    database: Database,
    /// In the order of [`Space::all`].
    keyspaces: Keyspaces,
    /// Of [`CACHED`], if the lane has it.
    row_cache: Option<RowCache>,
    once_rows: OnceRows,
    recorder: Mutex<Recorder>,
    forecast: Forecast,
    first_due: Arc<FirstDue>,
    deleted: Deleted,
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
        let row_cache = (lane == CACHED.lane()).then(|| RowCache::new(options.row_cache_bytes));
        let memtable_bytes = options.memtable_bytes;
        let trees = keyspaces.iter().map(|(_, keyspace)| keyspace.tree.clone());
        let replaced = Replaced::start(lane, trees)
            .map_err(|source| io_error("starting the thread that deletes replaced files in", folder, source))?;
        let once_rows = OnceRows::new();
        Ok(Tables {
            replaced,
            lane,
            database,
            keyspaces,
            row_cache,
            once_rows,
            recorder,
            forecast: Forecast::default(),
            first_due: Arc::default(),
            deleted: Deleted::new(),
            memtable_bytes,
        })
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
                "{MIXED_COPY}: a process opened that while it was copied, or the parts are of different copies. \
                 Restore a backup (penates backup), or stop every process that has the original open and copy again. If \
                 nothing can have opened it while it was copied, and all parts are of one copy, delete the file `lock` \
                 in the copy"
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
        let mut first_due = None;
        for (space, key, value) in changes {
            if let Some(rows) = rows.as_mut().filter(|_| space == Space::Rows(CACHED)) {
                rows.add(&key, value.as_ref());
            }
            if space == Space::Expiries && value.is_some() {
                first_due = first_due.into_iter().chain(expiry::time(&key)).min();
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
        if let Some(time) = first_due {
            self.first_due.added(time);
        }
        recorder.written(bytes, memtables.into_iter());
        self.deleted.note_written(bytes);
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

    /// Where the next sweep of expired rows begins.
    pub(crate) fn first_due(&self) -> &Arc<FirstDue> {
        &self.first_due
    }

    /// How many rows of the lane expire in the hour of a time and in each after it, as far as they
    /// are counted.
    pub(crate) fn expiring(&self, now: UnixMillis) -> Vec<u64> {
        self.forecast.from(hour_of(now))
    }

    /// Counts the coming hours that are not counted yet, and then those that were counted in part
    /// and have to be counted again. At the deadline it ends; the next call continues. No entry is
    /// for a time before `first`: a count does not read past the marks of those that were deleted.
    pub(crate) fn count_expiring(&self, now: UnixMillis, first: UnixMillis, deadline: Deadline) -> StoreResult<()> {
        let first_hour = hour_of(now);
        self.forecast.forget_before(first_hour);
        let hours = first_hour..first_hour + HOURS;
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
            let counted = count_hour(&view, hour, first, deadline);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::options::EmbeddedOptions;
    use crate::{priority, value};

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
}
