//! A shadow of a database: a new one with the same keyspaces, copies of the lists of files, the
//! valid groups of the journals, and links to the files of rows, which never change. It is opened
//! in place of the original, so that opening changes only the shadow. It also has the engine's own
//! small files that the original may lack. It has no threads that would merge anything.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, LsmError};
use lsm_tree::Table as RowFile;
use store::{Lane, StoreError, StoreResult, Table};

use super::merge::{Item, Items, Merged};
use super::{Failure, Loss};
use crate::files::io_error;
use crate::opening::versions::{self, List};
use crate::opening::{self, Found, Problem, journal};
use crate::options::EmbeddedOptions;
use crate::private;
use crate::space::Space;
use crate::tables::make_keyspaces;

/// Bytes of the cache: each block is read once.
const CACHE_BYTES: u64 = 1 << 20;

/// At most this number of problems of a table are named.
const PROBLEMS_NAMED_MAX: usize = 3;

/// A shadow that was opened, or the reason why it cannot be.
pub(super) struct Shadow {
    lane: Lane,
    opened: Result<Database, String>,
    found: Found,
}

impl Shadow {
    /// Makes and opens a shadow of `database` in a folder of its own in `shadows`, which is a part of
    /// the target. Returns an error if the shadow cannot be written.
    pub(super) fn open(database: &Path, shadows: &Path, lane: Lane) -> StoreResult<Self> {
        let found = opening::inspect(database, Space::count(lane));
        let shadow = shadows.join(lane.name());
        let making = |source| io_error("making a shadow in", &shadow, source);
        private::create_folders(shadows).map_err(making)?;
        make_keyspaces(&shadow, lane, &EmbeddedOptions::default().of_lane(lane))
            .map_err(|error| StoreError::Unavailable(format!("making a shadow in {}: {error}", shadow.display())))?;
        for (number, keyspace) in (0..).zip(&found.keyspaces) {
            // The shadow has its own list of names: keyspaces are always made in the same order.
            if number > 0 && !keyspace.is_foreign {
                copy_keyspace(database, &shadow, number, keyspace).map_err(making)?;
            }
        }
        copy_journals(&found, &shadow).map_err(making)?;
        let open = || Database::builder(&shadow).cache_size(CACHE_BYTES).worker_threads_unchecked(0).open();
        // The files may be damaged anywhere.
        let opened = match catch_unwind(AssertUnwindSafe(open)) {
            Ok(Err(fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)))) if is_of_writing(&error) => {
                return Err(making(error));
            }
            Ok(opened) => opened.map_err(|error| error.to_string()),
            Err(_) => Err("its recovery failed, see the log".to_owned()),
        };
        Ok(Self { lane, opened, found })
    }

    /// Bytes of its files of rows.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.opened.as_ref().ok().and_then(|database| database.disk_space().ok()).unwrap_or(0)
    }

    /// A loss of a table that its rows do not show.
    pub(super) fn loss(&self, table: Table) -> Option<Loss> {
        let problems: Vec<&Problem> = self.found_of(table)?.problems.iter().chain(&self.found.last).collect();
        if problems.is_empty() {
            return None;
        }
        let named = problems.iter().take(PROBLEMS_NAMED_MAX).map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let detail = match problems.len().saturating_sub(PROBLEMS_NAMED_MAX) {
            0 => named,
            others => format!("{named}; and {others} more"),
        };
        Some(Loss { table, after: None, before: None, detail })
    }

    fn found_of(&self, table: Table) -> Option<&opening::Keyspace> {
        let place = Space::all(self.lane).position(|space| space == Space::Rows(table))?;
        self.found.keyspaces.get(place + 1)
    }

    /// The rows of a table; an error says why there are none.
    pub(super) fn rows(&self, table: Table) -> Result<Merged, Failure> {
        let found = self.found_of(table).ok_or("the lane does not have the table")?;
        let database = self.opened.as_ref().map_err(Clone::clone)?;
        if !database.keyspace_exists(table.name()) {
            return Err("the database does not know the table any more".into());
        }
        let keyspace = database.keyspace(table.name(), KeyspaceCreateOptions::default);
        let keyspace: Keyspace = keyspace.map_err(|error| error.to_string())?;
        // The rows of the journal are in memory. In a file they are read like all others.
        keyspace.tree.flush_active_memtable(0).map_err(|error| match error {
            // That file is in the target.
            LsmError::Io(source) => {
                Failure::Target(StoreError::Io { context: format!("writing rows of the journal of {table}"), source })
            }
            error => Failure::Lost(error.to_string()),
        })?;
        let version = keyspace.tree.current_version();
        let runs = self.runs(found, version.iter_tables().cloned());
        Ok(Merged::new(runs.into_iter().map(|run| Box::new(run.into_iter().flat_map(items)) as Items)))
    }

    /// The files of a table by run, the newest run first, with a place for each that is lost. `files`
    /// are those of the shadow: the sound ones, and those with the rows of the journals.
    fn runs(&self, found: &opening::Keyspace, files: impl Iterator<Item = RowFile>) -> Vec<Vec<Option<RowFile>>> {
        let mut files: BTreeMap<u64, RowFile> = files.map(|file| (file.id(), file)).collect();
        // A file that the shadow has made may have the number of one that is lost.
        let mut sound = |id: u64| if found.unsound.contains(&id) { None } else { files.remove(&id) };
        let list = found.list.as_ref().filter(|_| !found.is_foreign);
        let mut listed: Vec<Vec<Option<RowFile>>> = Vec::new();
        for run in list.into_iter().flat_map(List::runs) {
            listed.push(run.iter().map(|named| sound(named.id)).collect());
        }
        let mut runs: Vec<Vec<Option<RowFile>>> = Vec::new();
        // What is missing of the journals may have had a later version of any row.
        if !self.found.last.is_empty() {
            runs.push(vec![None]);
        }
        // Journals that are complete have all versions that are later than one of theirs, whatever
        // files are lost.
        runs.extend(files.into_values().map(|file| vec![Some(file)]));
        if !found.names_all || found.is_foreign {
            runs.push(vec![None]);
        }
        runs.extend(listed);
        runs
    }
}

/// What is read of a file; `None`: it is lost.
fn items(file: Option<RowFile>) -> Items {
    let Some(file) = file else { return Box::new([Item::Lost].into_iter()) };
    let items_max = file.metadata.item_count + file.metadata.data_block_count;
    let end = Item::FileEnd(file.metadata.key_range.max().clone().into());
    let items = file.iter().map(|found| match found {
        Ok(found) => Item::Version {
            key: found.key.user_key.clone().into(),
            number: found.key.seqno,
            value: (!found.is_tombstone()).then(|| found.value.clone().into()),
        },
        Err(error) => Item::Broken(error.to_string()),
    });
    // A broken index must not cause an endless loop.
    let items = items.take(usize::try_from(items_max).unwrap_or(usize::MAX));
    Box::new(items.chain([end]))
}

/// Whether an error can only come from what is written, and so from the target.
fn is_of_writing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

/// Puts the sound files of a keyspace in place of the empty one with which the shadow was made.
fn copy_keyspace(database: &Path, shadow: &Path, number: u64, keyspace: &opening::Keyspace) -> io::Result<()> {
    let Some(mut list) = keyspace.list.clone() else { return Ok(()) };
    let from = fs::canonicalize(versions::tables(&versions::keyspace(database, number)));
    let to = versions::keyspace(shadow, number);
    list.retain(|table| !keyspace.unsound.contains(&table));
    for table in list.tables() {
        let name = table.id.to_string();
        symlink(from.as_ref().map_err(|error| error.kind())?.join(&name), versions::tables(&to).join(&name))?;
    }
    list.write(&to)
}

/// Writes all valid groups into one journal.
fn copy_journals(found: &Found, shadow: &Path) -> io::Result<()> {
    for (_, made) in journal::list(shadow)? {
        fs::remove_file(made)?;
    }
    let mut written = private::create_new(&journal::path(shadow, 0))?;
    for journal in &found.journals {
        let mut file = File::open(&journal.path)?;
        for run in &journal.runs {
            file.seek(SeekFrom::Start(run.bytes.start))?;
            io::copy(&mut file.by_ref().take(run.bytes.end - run.bytes.start), &mut written)?;
        }
    }
    Ok(())
}
