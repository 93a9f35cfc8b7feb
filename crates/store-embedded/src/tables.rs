//! The database of a lane's rows: one fjall keyspace a table, and one that lists rows by their expiry.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use fjall::config::{BlockSizePolicy, CompressionPolicy, PartitioningPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use store::{Lane, StoreError, StoreResult, Table, UnixMillis};

use crate::folder::io_error;
use crate::key::KeyRange;
use crate::options::LaneOptions;
use crate::value::{self, Value};

/// Packs are read in runs: larger blocks cost a third less CPU when a volume is scanned.
const RUN_BLOCK_BYTES: u32 = 32 << 10;

/// All else is looked up row by row: of thousands of heads, each in another block, only what is near is read along.
const ROW_BLOCK_BYTES: u32 = 4 << 10;

/// A keyspace: a table's rows, or the list of expiries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Space {
    /// A table's rows.
    Rows(Table),
    /// Rows by expiry: see [`crate::expiry`].
    Expiries,
}

/// The open database of a lane.
pub(crate) struct Tables {
    lane: Lane,
    database: Database,
    /// By table; `None`: a table of another lane.
    rows: [Option<Keyspace>; Table::ALL.len()],
    expiries: Keyspace,
    memtable_bytes: u64,
}

impl Tables {
    /// Opens the database, or makes it. What it is made of may be damaged anywhere, so a panic of fjall's is an answer too.
    pub(crate) fn open(folder: &Path, lane: Lane, options: &LaneOptions) -> StoreResult<Self> {
        match catch_unwind(AssertUnwindSafe(|| Self::open_unguarded(folder, lane, options))) {
            Ok(Ok(tables)) => Ok(tables),
            Ok(Err(error)) => Err(open_error(folder, error)),
            Err(_) => Err(unreadable(folder, "its recovery failed, see the log".to_owned())),
        }
    }

    fn open_unguarded(folder: &Path, lane: Lane, options: &LaneOptions) -> fjall::Result<Self> {
        let database = Database::builder(folder)
            .cache_size(options.cache_bytes)
            .journal_compression(CompressionType::None)
            .max_journaling_size(options.journals_bytes)
            .max_cached_files(Some(options.open_files))
            .worker_threads(options.worker_threads.max(1))
            .open()?;
        let keyspace = |name: &str, block_bytes| database.keyspace(name, || keyspace_options(options, block_bytes));
        let mut rows = [const { None }; Table::ALL.len()];
        for table in lane.tables() {
            let block_bytes = if table == Table::Packs { RUN_BLOCK_BYTES } else { ROW_BLOCK_BYTES };
            rows[table as usize] = Some(keyspace(table.name(), block_bytes)?);
        }
        let expiries = keyspace("expiries", ROW_BLOCK_BYTES)?;
        Ok(Self { lane, rows, expiries, memtable_bytes: options.memtable_bytes, database })
    }

    fn keyspace(&self, space: Space) -> StoreResult<&Keyspace> {
        match space {
            Space::Rows(table) => self.rows[table as usize]
                .as_ref()
                .ok_or_else(|| StoreError::Invalid(format!("table {table} is not one of lane {}", self.lane))),
            Space::Expiries => Ok(&self.expiries),
        }
    }

    /// A consistent view of what is committed now. Reads always go through one: fjall's plain reads may see the first rows of
    /// a batch before its last.
    pub(crate) fn view(&self) -> View<'_> {
        View { tables: self, snapshot: self.database.snapshot() }
    }

    /// Writes all changes as one batch, durable (and only then visible) when it answers.
    pub(crate) fn commit(&self, changes: impl Iterator<Item = (Space, Bytes, Option<Bytes>)>) -> StoreResult<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (space, key, value) in changes {
            match value {
                Some(value) => batch.insert(self.keyspace(space)?, key, value),
                None => batch.remove(self.keyspace(space)?, key),
            }
        }
        batch.commit().map_err(|error| StoreError::Io {
            context: "committing a batch".to_owned(),
            source: io::Error::other(error),
        })
    }

    /// Bytes of a table that wait to be written to files, the memtable in use not counted. When they grow, commits stall.
    pub(crate) fn unflushed_bytes(&self, table: Table) -> StoreResult<u64> {
        Ok(self.keyspace(Space::Rows(table))?.sealed_memtable_count() as u64 * self.memtable_bytes)
    }

    /// Bytes that a table gathers in memory before they are written to a file.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes
    }

    /// Why the database takes no more writes; `None`: it does.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.database.persist(PersistMode::Buffer).err().map(|error| error.to_string())
    }

    /// Writes to files what is only in memory and in the journal, so that the next start has nothing to replay.
    pub(crate) fn flush(&self) -> fjall::Result<()> {
        for keyspace in self.rows.iter().flatten().chain([&self.expiries]) {
            keyspace.rotate_memtable_and_wait()?;
        }
        self.database.persist(PersistMode::SyncAll)
    }
}

/// A consistent view of the database.
pub(crate) struct View<'a> {
    tables: &'a Tables,
    snapshot: Snapshot,
}

impl View<'_> {
    /// The bytes at a key.
    pub(crate) fn raw(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        let value = self.snapshot.get(self.tables.keyspace(space)?, key).map_err(|error| read_error(space, error))?;
        Ok(value.map(Bytes::from))
    }

    /// The live value at a key.
    pub(crate) fn value(&self, table: Table, key: &[u8], now: UnixMillis) -> StoreResult<Option<Value>> {
        match self.raw(Space::Rows(table), key)? {
            Some(raw) => live(table, &raw, now),
            None => Ok(None),
        }
    }

    /// Keys and bytes of a range, from either end.
    pub(crate) fn range(
        &self,
        space: Space,
        range: KeyRange,
    ) -> StoreResult<impl DoubleEndedIterator<Item = StoreResult<(Bytes, Bytes)>>> {
        let rows = self.snapshot.range(self.tables.keyspace(space)?, range);
        Ok(rows.map(move |item| {
            let (key, value) = item.into_inner().map_err(|error| read_error(space, error))?;
            Ok((key.into(), value.into()))
        }))
    }
}

/// Decodes a value; `None`: it has expired.
pub(crate) fn live(table: Table, raw: &Bytes, now: UnixMillis) -> StoreResult<Option<Value>> {
    let value = value::decode(raw)
        .ok_or_else(|| StoreError::Corrupt { table, detail: "a value of no known kind".to_owned() })?;
    Ok((!value.is_expired(now)).then_some(value))
}

/// Filters and indexes of all but the youngest levels are kept in parts of some KiB: whole ones have hundreds of KiB, do not stay in a
/// small cache, and would be read and checked for nearly each row that is looked for among a million.
fn keyspace_options(options: &LaneOptions, block_bytes: u32) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(block_bytes))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_block_partitioning_policy(PartitioningPolicy::new([false, true]))
        .index_block_partitioning_policy(PartitioningPolicy::new([false, false, true]))
        .max_memtable_size(options.memtable_bytes)
        .with_kv_separation(None)
}

/// What a failed read means. Everything that is not the operating system's word is damage.
fn read_error(space: Space, error: fjall::Error) -> StoreError {
    let table = match space {
        Space::Rows(table) => table,
        // The list has no name above the seam. Nearly all that expires is a selection or belongs to one.
        Space::Expiries => Table::Selections,
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

/// Whether an error of a read comes from what was read: lengths and places that make no sense lead beyond a file's end.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
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

fn unreadable(folder: &Path, detail: String) -> StoreError {
    StoreError::Unreadable { location: folder.display().to_string(), detail }
}
