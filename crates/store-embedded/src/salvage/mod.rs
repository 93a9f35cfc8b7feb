//! Salvage: copies what can still be read of a damaged data folder into a new one, and reports what
//! it left out. The source is never changed: databases are opened as shadows (`shadow.rs`), in
//! which nothing is merged.
//!
//! Rows are read file by file, below fjall's own reads, which give up at a broken block. Rows
//! between the last row before a broken block and the first one after it are lost, in that file
//! alone (`merge.rs`). If an older file holds a row within such a gap, a lost version may have
//! replaced or removed it. If the row can change (`is_copied`), it is left out too.
//!
//! Files of rows and groups of journals that are missing, foreign or truncated are left out and
//! reported (`opening/`). They cast the same doubt on many more rows: a lost file on all older rows
//! between its neighbours in its run, and a lost group on all rows of its lane. So does the record
//! of the database if it is lost: nothing else shows whether the last groups are there. Then rows
//! of the service lane and records that can change are left out too: a copied token is the last
//! acknowledged one, or it is missing. Rows of text are copied, because nothing else may have them:
//! objects may be in an earlier state, or there again after they were deleted.
//!
//! Rows that never change are always copied. Some that were removed may come back, but nothing
//! refers to them.
//!
//! If a file's index is broken, that whole lane is lost and reported.

mod merge;
mod shadow;

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use store::{ContentId, ContentState, FormatLevel, Lane, PlainRows, StoreError, StoreResult, Table, copying, envelope};

use crate::files::{io_error, sync_folder};
use crate::folder::Folder;
use crate::forecast::Moved;
use crate::header;
use crate::opening::engine_lock::EngineLock;
use crate::options::EmbeddedOptions;
use crate::private;
use crate::space::Space;
use crate::tables::Tables;
use crate::value::{self, Value};
use crate::{expiry, key};

use merge::{Doubt, Merged};
use shadow::Shadow;

/// Bytes that are written to the new folder with one sync.
const BATCH_BYTES: usize = 8 << 20;

/// Bytes of a content that are copied at a time.
const PIECE_BYTES: usize = 128 << 10;

/// Why something is not copied.
enum Failure {
    /// The source does not have it any more, or nothing trustworthy of it.
    Lost(String),
    /// The target does not take it: that is no loss, and the salvage ends.
    Target(StoreError),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Lost(why)
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Self {
        Self::Lost(why.to_owned())
    }
}

/// What was copied, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Rows that were copied.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Sealed contents that were copied.
    pub contents: u64,
    /// What could not be read.
    pub losses: Vec<Loss>,
    /// The level of the source; `None`: its file `format` cannot be read, and the new folder has the
    /// newest level.
    pub level: Option<FormatLevel>,
}

/// Data that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The table.
    pub table: Table,
    /// The partition in or after which it is; `None`: it may be the first.
    pub after: Option<Bytes>,
    /// The partition in or before which it is; `None`: it may be the last.
    pub before: Option<Bytes>,
    /// How the loss was noticed.
    pub detail: String,
}

/// The progress of a salvage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SalvageProgress {
    /// Bytes of rows that were copied.
    pub bytes: u64,
    /// Bytes of all files of rows, about.
    pub bytes_total: u64,
}

/// Copies what can be read of the data folder `source` into `target`, which must not hold a store.
/// Blocks.
///
/// Errors: [`StoreError::Held`] if another process has the source open; [`StoreError::Format`] or
/// [`StoreError::Unreleased`] if it has another format; [`StoreError::Unreadable`] if it is no data folder at all; and errors of
/// the target, which may then hold a part of the copy.
pub fn salvage(source: &Path, target: &Path, progress: impl FnMut(SalvageProgress)) -> StoreResult<Salvaged> {
    let level = Folder::salvageable(source)?;
    let _held = hold_source(source)?;
    if target.join("format").exists() {
        return Err(StoreError::Invalid(format!("{} holds a store already", target.display())));
    }
    let options = EmbeddedOptions::default();
    let make = |database: &Path, lane| Tables::make(database, lane, &options.of_lane(lane));
    // Programs that read the source read the copy too.
    let target = Folder::hold(target, level.unwrap_or(options.newest_level), make)?;
    let shadows = target.path().join("shadows");
    // All of them before one is salvaged, so that the progress knows the total.
    let open = |lane: &Lane| Shadow::open(&source.join("db").join(lane.name()), &shadows, *lane);
    let opened = Lane::ALL.iter().map(open).collect::<StoreResult<Vec<Shadow>>>()?;
    let bytes_total: u64 = opened.iter().map(Shadow::disk_bytes).sum();
    let mut salvaging = Salvaging {
        source,
        target: &target,
        salvaged: Salvaged { level, ..Salvaged::default() },
        content: None,
        shards: BTreeSet::new(),
        reported: SalvageProgress { bytes: 0, bytes_total },
        progress,
    };
    for (lane, shadow) in Lane::ALL.into_iter().zip(opened) {
        salvaging.lane(lane, &shadow, &options)?;
    }
    let Salvaging { salvaged, shards, .. } = salvaging;
    fs::remove_dir_all(&shadows).map_err(|error| io_error("removing", &shadows, error))?;
    shards.iter().try_for_each(|shard| sync_folder(shard))?;
    sync_folder(&target.contents())?;
    sync_folder(target.path())?;
    Ok(salvaged)
}

/// What keeps other processes from opening the source while it is read.
struct Held {
    _folder: Option<File>,
    _databases: Vec<EngineLock>,
}

/// Checks that no process has the source open, as far as that is possible without writing to it.
/// Each database has a lock of its own, which counts if somebody has deleted that of the folder.
fn hold_source(source: &Path) -> StoreResult<Held> {
    let path = source.join("lock");
    let folder = match File::open(&path) {
        Ok(lock) => Some(lock),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io_error("opening", &path, error)),
    };
    match folder.as_ref().map_or(Ok(()), File::try_lock) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(StoreError::Held { folder: source.display().to_string() }),
        Err(TryLockError::Error(error)) => return Err(io_error("locking", &path, error)),
    }
    let mut databases = Vec::new();
    for lane in Lane::ALL {
        match EngineLock::take(&source.join("db").join(lane.name())) {
            Ok(unused) => databases.push(unused),
            Err(error @ StoreError::Held { .. }) => return Err(error),
            // The disk may be read-only. What cannot be opened otherwise is reported as a loss.
            Err(error) => tracing::debug!(%error, %lane, "whether a process has a database open is not known"),
        }
    }
    Ok(Held { _folder: folder, _databases: databases })
}

/// A salvage under way.
struct Salvaging<'a, P> {
    source: &'a Path,
    target: &'a Folder,
    salvaged: Salvaged,
    /// The content whose file was copied last, if rows of it may follow.
    content: Option<ContentId>,
    /// The folders in which files of contents were made.
    shards: BTreeSet<PathBuf>,
    reported: SalvageProgress,
    progress: P,
}

/// Rows that wait to be written.
#[derive(Default)]
struct Batch {
    changes: Vec<(Space, Bytes, Option<Bytes>)>,
    bytes: usize,
}

impl<P: FnMut(SalvageProgress)> Salvaging<'_, P> {
    fn lane(&mut self, lane: Lane, shadow: &Shadow, options: &EmbeddedOptions) -> StoreResult<()> {
        let tables = Tables::check(&self.target.database(lane), lane, None)?.open(&options.of_lane(lane))?;
        for table in lane.tables() {
            let loss = shadow.loss(table);
            match shadow.rows(table) {
                Ok(rows) => {
                    self.salvaged.losses.extend(loss);
                    self.table(table, rows, &tables)?;
                }
                Err(Failure::Target(error)) => return Err(error),
                Err(Failure::Lost(detail)) => {
                    self.salvaged.losses.push(Loss { table, after: None, before: None, detail });
                }
            }
        }
        tables.flush().map_err(|error| StoreError::Unavailable(format!("flushing {lane}: {error}")))
    }

    fn table(&mut self, table: Table, mut rows: Merged, tables: &Tables) -> StoreResult<()> {
        let (mut batch, mut left_out) = (Batch::default(), 0_u64);
        while let Some(row) = rows.next() {
            let checked = match (is_copied(table, value::is_guarded(&row.value), row.doubt), row.doubt) {
                (true, _) => self.checked(table, &row.key, &row.value),
                // These may be all rows of the table, so none is named.
                (false, Doubt::LostFile) => {
                    left_out += 1;
                    continue;
                }
                (false, _) => Err("a lost row may have replaced it".into()),
            };
            match checked {
                Ok(None) => {}
                Ok(Some(value)) => {
                    let expiry = value.expires_at.map(|at| expiry::encode(at, table, &row.key));
                    batch.bytes += row.key.len() + row.value.len();
                    batch.changes.extend(expiry.map(|entry| (Space::Expiries, entry, Some(Bytes::new()))));
                    batch.changes.push((Space::Rows(table), row.key, Some(row.value)));
                    self.salvaged.rows += 1;
                }
                Err(Failure::Target(error)) => return Err(error),
                Err(Failure::Lost(detail)) => {
                    let partition = partition(&row.key);
                    self.salvaged.losses.push(Loss { table, after: partition.clone(), before: partition, detail });
                }
            }
            if batch.bytes >= BATCH_BYTES {
                self.write(&mut batch, tables)?;
            }
        }
        self.write(&mut batch, tables)?;
        if left_out > 0 {
            let detail = format!("{left_out} rows are left out, because lost ones may have replaced or removed them");
            self.salvaged.losses.push(Loss { table, after: None, before: None, detail });
        }
        self.salvaged.losses.extend(rows.into_gaps().into_iter().map(|gap| Loss {
            table,
            after: gap.after.as_ref().and_then(partition),
            before: gap.before.as_ref().and_then(partition),
            detail: gap.detail,
        }));
        Ok(())
    }

    /// The value of a row to be copied; `None`: it is not needed.
    fn checked(&mut self, table: Table, key: &Bytes, raw: &Bytes) -> Result<Option<Value>, Failure> {
        let (partition, _) = key::decode(key).ok_or("a key of no known form")?;
        let value = value::decode(raw).ok_or("a value of no known kind")?;
        if !copying::is_state(table, &partition) {
            envelope::check(&value.value).map_err(|error| error.to_string())?;
        }
        let is_wanted = table != Table::Contents || self.row_of_content(key, &value)?;
        Ok(is_wanted.then_some(value))
    }

    /// Whether a row of a content is wanted: the header of a copied content, which comes first, and
    /// the rows that belong to it.
    fn row_of_content(&mut self, key: &Bytes, value: &Value) -> Result<bool, Failure> {
        let (partition, sort_at) = key::decode(key).ok_or("a key of no known form")?;
        let id = <[u8; 16]>::try_from(&partition[..]).map(ContentId).map_err(|_| "no content has such a key")?;
        if key[sort_at..] != header::HEADER[..] {
            return Ok(self.content == Some(id));
        }
        self.content = None;
        let is_copied = self.copy_content(id, value)?;
        self.content = is_copied.then_some(id);
        Ok(is_copied)
    }

    /// Copies the file of a content. Returns false if it was never sealed or is condemned.
    fn copy_content(&mut self, id: ContentId, header: &Value) -> Result<bool, Failure> {
        let header = header::decode_header(id, &header.value).map_err(|error| error.to_string())?;
        if header.state != ContentState::Sealed {
            return Ok(false);
        }
        let from = header::path(&self.source.join("contents"), id);
        let to = header::path(&self.target.contents(), id);
        match copy_synced(&from, &to, header.len) {
            Ok(()) => {
                self.shards.extend(to.parent().map(Path::to_path_buf));
                self.salvaged.contents += 1;
                Ok(true)
            }
            Err(Failure::Lost(why)) => Err(format!("content {id}: {why}").into()),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, batch: &mut Batch, tables: &Tables) -> StoreResult<()> {
        let Batch { changes, bytes } = std::mem::take(batch);
        tables.commit(changes.into_iter(), &Moved::new(), true)?;
        self.salvaged.bytes += bytes as u64;
        self.reported.bytes += bytes as u64;
        (self.progress)(self.reported);
        Ok(())
    }
}

/// Whether a row is copied, if a later version of it may be lost where `doubt` says. A block has few
/// rows, so what it costs of text is named and can be made again. A file may cost all objects.
fn is_copied(table: Table, is_guarded: bool, doubt: Doubt) -> bool {
    // A page of the audit is replaced only by one with more.
    let never_changes = !is_guarded && (table.info().plain_rows == PlainRows::WrittenOnce || table == Table::Audit);
    match doubt {
        Doubt::None => true,
        Doubt::LostFile => never_changes || table.lane() == Lane::Text,
        Doubt::BrokenBlock => never_changes,
    }
}

/// The partition of a row's key.
fn partition(key: &Bytes) -> Option<Bytes> {
    key::decode(key).map(|(partition, _)| partition)
}

/// Copies a file of `len` bytes. If that fails, nothing of it is left.
fn copy_synced(from: &Path, to: &Path, len: u64) -> Result<(), Failure> {
    // Nothing is made for a file that is not there.
    let mut source = File::open(from).map_err(unread)?;
    let writing = |error| Failure::Target(io_error("writing", to, error));
    to.parent().map_or(Ok(()), private::create_folders).map_err(writing)?;
    let mut copied = private::create_new(to).map_err(writing)?;
    let whole = copy(&mut source, &mut copied, writing).and_then(|copied| match copied == len {
        true => Ok(()),
        false => Err(format!("its file has {copied} bytes, not {len}").into()),
    });
    let whole = whole.and_then(|()| copied.sync_all().map_err(writing));
    if whole.is_err() {
        // A target that cannot even do this is not used in any case.
        let _ = fs::remove_file(to);
    }
    whole
}

/// Copies all bytes, and returns how many there are.
fn copy(
    source: &mut impl Read,
    target: &mut impl Write,
    writing: impl Fn(io::Error) -> Failure,
) -> Result<u64, Failure> {
    let (mut piece, mut copied) = (vec![0; PIECE_BYTES], 0);
    loop {
        let read = match source.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(unread)?,
        };
        if read == 0 {
            return Ok(copied);
        }
        target.write_all(&piece[..read]).map_err(&writing)?;
        copied += read as u64;
    }
}

/// The loss of a file that cannot be opened or read.
fn unread(error: io::Error) -> Failure {
    Failure::Lost(error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_source_that_cannot_be_read_is_a_loss_and_a_target_that_takes_nothing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("contents/07/file");
        let from = folder.path().join("file");
        let copied = |len| copy_synced(&from, &to, len);
        assert!(matches!(copied(5), Err(Failure::Lost(_))));
        assert!(!folder.path().join("contents").exists(), "something is made for a file that is missing");
        fs::write(&from, "bytes").unwrap();
        assert!(matches!(copied(6), Err(Failure::Lost(why)) if why == "its file has 5 bytes, not 6"));
        assert!(!to.exists(), "a part is left");
        copied(5).map_err(|_| "it fails").unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"bytes");
        let is_there = copied(5);
        assert!(matches!(is_there, Err(Failure::Target(StoreError::Io { .. }))));
        // What was there is no part of this copy.
        assert_eq!(fs::read(&to).unwrap(), b"bytes");
        let writing = |error| Failure::Target(io_error("writing", &to, error));
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let full = copy(&mut &b"bytes"[..], &mut full, writing);
        assert!(matches!(full, Err(Failure::Target(StoreError::Full(_)))));
        let read = copy(&mut File::open("/proc/self/mem").unwrap(), &mut io::sink(), writing);
        assert!(matches!(read, Err(Failure::Lost(_))));
    }
}
