//! Opens the database of a lane with its keyspaces, and checks what it shows then.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, CompressionPolicy, PartitioningPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions};
use store::{Lane, StoreResult};

use super::error::{open_error, unreadable};
use crate::files::io_error;
use crate::opening::Found;
use crate::opening::record::{Mark, Record};
use crate::options::LaneOptions;
use crate::priority;
use crate::space::Space;

pub(super) type Keyspaces = Vec<(Space, Keyspace)>;

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
pub(super) fn open_with_workers(
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
pub(super) fn refuse_unsound(folder: &Path, found: &Found) -> StoreResult<()> {
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
pub(super) fn check_names(folder: &Path, keyspaces: &Keyspaces) -> StoreResult<()> {
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
pub(super) fn last_group(folder: &Path, marks: &Keyspace, record: &Record, found: &Found) -> StoreResult<u64> {
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
