//! A shadow of a database: its small files copied, its large ones, which never change, linked to. It is opened in the place of the
//! original, so that whatever opening changes, it changes the shadow. It has no threads that would merge anything.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions};
use store::{Lane, StoreResult, Table};

use super::Loss;
use super::merge::{Item, Items, Merged};
use crate::folder::io_error;

/// The folder in which fjall keeps files of rows, each written once.
const ROWS_FOLDER: &str = "tables";

/// What a file of fjall's journal ends with.
const JOURNAL_EXTENSION: &str = "jnl";

/// Bytes of the cache: each block is read once.
const CACHE_BYTES: u64 = 1 << 20;

/// A shadow that was opened, or why that is not possible.
pub(super) struct Shadow {
    opened: Result<Database, String>,
    /// Why the journal was left out, if it was.
    without_journal: Option<String>,
}

impl Shadow {
    /// Makes and opens a shadow of `database` in a folder of its own in `shadows`: with its journal, or without it if that is what
    /// cannot be read. An error is one of writing the shadow.
    pub(super) fn open(database: &Path, shadows: &Path, lane: Lane) -> StoreResult<Self> {
        let with_journal = open_shadow(database, &shadows.join(lane.name()), true)?;
        let Err(reason) = with_journal else { return Ok(Self { opened: with_journal, without_journal: None }) };
        let opened = open_shadow(database, &shadows.join(format!("{lane}-without-journal")), false)?;
        let without_journal = opened.is_ok().then_some(reason);
        Ok(Self { opened, without_journal })
    }

    /// Bytes of its files of rows.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.opened.as_ref().ok().and_then(|database| database.disk_space().ok()).unwrap_or(0)
    }

    /// What is lost of each table of the lane alike.
    pub(super) fn loss(&self, table: Table) -> Option<Loss> {
        let reason = self.without_journal.as_ref()?;
        let detail = format!("the journal cannot be read, so what was written last may be missing: {reason}");
        Some(Loss { table, after: None, before: None, detail })
    }

    /// The rows of a table; an error says why there are none.
    pub(super) fn rows(&self, table: Table) -> Result<Merged, String> {
        let database = self.opened.as_ref().map_err(Clone::clone)?;
        if !database.keyspace_exists(table.name()) {
            return Err("the database does not know the table any more".to_owned());
        }
        let rows = || -> fjall::Result<Merged> {
            let keyspace: Keyspace = database.keyspace(table.name(), KeyspaceCreateOptions::default)?;
            // What the journal held is in memory; in a file of its own it is read as all else.
            keyspace.tree.flush_active_memtable(0)?;
            let version = keyspace.tree.current_version();
            let runs = version.iter_levels().flat_map(|level| level.iter());
            Ok(Merged::new(runs.map(|run| {
                let files = run.iter().cloned().collect::<Vec<_>>();
                Box::new(files.into_iter().flat_map(|file| {
                    let items_max = file.metadata.item_count + file.metadata.data_block_count;
                    let items = file.iter().map(|found| match found {
                        Ok(found) => Item::Version {
                            key: found.key.user_key.clone().into(),
                            number: found.key.seqno,
                            value: (!found.is_tombstone()).then(|| found.value.clone().into()),
                        },
                        Err(error) => Item::Broken(error.to_string()),
                    });
                    // An index that is broken too must not go round in circles.
                    let items = items.take(usize::try_from(items_max).unwrap_or(usize::MAX));
                    items.chain([Item::FileEnd(file.metadata.key_range.max().clone().into())])
                })) as Items
            })))
        };
        rows().map_err(|error| error.to_string())
    }
}

/// Copies and opens; the inner error says why it does not open.
fn open_shadow(database: &Path, shadow: &Path, with_journal: bool) -> StoreResult<Result<Database, String>> {
    if let Err(error) = copy(database, shadow, with_journal) {
        match error {
            CopyError::Reading(detail) => return Ok(Err(detail)),
            CopyError::Writing(error) => return Err(io_error("making a shadow in", shadow, error)),
        }
    }
    let open = || Database::builder(shadow).cache_size(CACHE_BYTES).worker_threads_unchecked(0).open();
    // What it is made of may be damaged anywhere.
    Ok(match catch_unwind(AssertUnwindSafe(open)) {
        Ok(opened) => opened.map_err(|error| error.to_string()),
        Err(_) => Err("its recovery failed, see the log".to_owned()),
    })
}

enum CopyError {
    Reading(String),
    Writing(io::Error),
}

fn copy(from: &Path, to: &Path, with_journal: bool) -> Result<(), CopyError> {
    let unread = |error: io::Error| CopyError::Reading(format!("{}: {error}", from.display()));
    fs::create_dir_all(to).map_err(CopyError::Writing)?;
    for entry in fs::read_dir(from).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        let Some(name) = path.file_name() else { continue };
        let copied = to.join(name);
        if path.is_dir() {
            copy(&path, &copied, with_journal)?;
        } else if from.ends_with(ROWS_FOLDER) {
            let original = fs::canonicalize(&path).map_err(unread)?;
            symlink(original, copied).map_err(CopyError::Writing)?;
        } else if with_journal || path.extension().is_none_or(|extension| extension != JOURNAL_EXTENSION) {
            let content = fs::read(&path).map_err(unread)?;
            fs::write(copied, content).map_err(CopyError::Writing)?;
        }
    }
    Ok(())
}
