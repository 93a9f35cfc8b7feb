//! Makes a backup.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::digest::{self, CopyError, Digests};
use crate::error::{BackupError, BackupResult, io_error};
use crate::file::{OpenFolder, create, create_or_open, make_folders, remove, require_folder, sync_all, sync_folder};
use crate::folder::{Backups, COPIED, is_description, order_of};
use crate::lock::Lock;
use crate::manifest::{End, Entry, FORM, Header, Known, Line, Reader, Summary};
use crate::source::{Found, FoundFile, Source};

/// Bytes of lines that are held in memory at most until they are written.
const WAITING_BYTES: usize = 1 << 20;

/// Bytes after which what was copied is made durable, and listed for a later backup.
const SYNCED_BYTES: u64 = 1 << 30;

/// So many backups can be made in one second.
const NUMBERED_MAX: u32 = 10_000;

/// How a backup is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// When, in RFC 3339.
    pub time: String,
    /// The id, unless there is such a backup: then a number is added.
    pub id: String,
    /// The program that makes it, with its version.
    pub program: String,
    /// How the data folder is named.
    pub folder: String,
    /// Whether new files become hard links to those of the store, which takes no space on its disk.
    /// A stream has no links.
    pub links: bool,
}

/// A backup that was made.
pub type Created = Summary;

/// A backup under way.
struct Making<'a> {
    backups: &'a Backups,
    source: &'a Source,
    links: bool,
    /// Its description, and where that is until it is whole.
    description: File,
    path: PathBuf,
    /// Lines about files that may not be durable yet.
    waiting: String,
    unsynced_bytes: u64,
    sum: Sha256,
    end: End,
    /// Entries of the newest backup, and of all later ones that did not end.
    known: Vec<Known>,
    took: &'a mut dyn FnMut(u64),
}

impl Backups {
    /// Makes a backup of a cut. `took` learns of bytes that were copied, or that were there.
    ///
    /// Errors: [`BackupError::Clock`] if the newest backup is of a later time;
    /// [`BackupError::DamagedSource`] if the bytes of a file are not those that the engine
    /// wrote; [`BackupError::OtherStore`] if the folder has backups of another store;
    /// [`BackupError::Full`]. There is no backup then, and the next one uses what was copied.
    pub fn create(&self, source: &Source, options: &Options, took: &mut dyn FnMut(u64)) -> BackupResult<Created> {
        let unfinished = self.unfinished();
        let lock_path = unfinished.join("lock");
        let lock = create_or_open(&lock_path).map_err(|error| io_error("opening", &lock_path, error))?;
        lock.try_lock().map_err(|_| BackupError::Busy("another backup is being made there".to_owned()))?;
        let _lock = Lock::of(lock);
        let store = source.cut().store.clone();
        self.refuse_other_stores(&store)?;
        self.require_order(&options.id)?;
        let left = left_behind(&unfinished)?;
        let readers = left.iter().filter_map(|path| Reader::open(path).ok()).filter(|left| left.header.store == store);
        let known = self.newest()?.into_iter().chain(readers).map(Known::new).collect();
        let id = self.free_id(&options.id, &left)?;
        let path = unfinished.join(format!("{id}.jsonl"));
        let header = Header {
            format: FORM,
            id: id.clone(),
            time: options.time.clone(),
            store,
            level: source.cut().level,
            program: options.program.clone(),
            folder: options.folder.clone(),
        };
        let making = |error| io_error("making", &path, error);
        let mut making = Making {
            backups: self,
            source,
            links: options.links,
            description: create(&path).map_err(making)?,
            path: path.clone(),
            waiting: String::new(),
            unsynced_bytes: 0,
            sum: Sha256::new(),
            end: End { files: 0, bytes: 0, copied_files: 0, copied_bytes: 0, sha256: String::new() },
            known,
            took,
        };
        making.write(&header)?;
        making.sync()?;
        source.walk(&mut |found| match found {
            Found::File(file) => making.take(file),
            Found::Folder(folder) => making.write(&Line::Folder { folder }),
        })?;
        making.end.sha256 = hex::encode(making.sum.clone().finalize());
        let end = making.end.clone();
        making.write(&Line::End { end: end.clone() })?;
        making.sync()?;
        fs::rename(&path, self.manifest(&id)).map_err(|error| io_error("moving to its place", &path, error))?;
        sync_folder(&self.manifests())?;
        left.iter().try_for_each(|path| remove(path))?;
        Ok(Summary { header, end })
    }

    /// A command that takes "the newest" backup, or keeps a number of them, means those of one
    /// store.
    fn refuse_other_stores(&self, store: &str) -> BackupResult<()> {
        let headers = self.ids()?.into_iter().filter_map(|id| Some(self.reader(&id).ok()?.header));
        match headers.into_iter().find(|header| header.store != store) {
            None => Ok(()),
            Some(Header { id, folder, .. }) => {
                Err(BackupError::OtherStore { place: self.path.display().to_string(), id, folder })
            }
        }
    }

    /// An id that neither a backup has nor one that did not end, and that is behind all others.
    fn free_id(&self, wanted: &str, left: &[PathBuf]) -> BackupResult<String> {
        let mut ids = self.ids()?;
        let newest = ids.last().cloned();
        ids.extend(left.iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())));
        let numbered = (2..=NUMBERED_MAX).map(|number| format!("{wanted}-{number}"));
        let is_last = |id: &str| newest.as_deref().is_none_or(|newest| order_of(id) > order_of(newest));
        let mut free = [wanted.to_owned()].into_iter().chain(numbered).filter(|id| !ids.contains(id) && is_last(id));
        free.next().ok_or_else(|| BackupError::Busy("there is no free name".to_owned()))
    }
}

/// The descriptions of backups that did not end, oldest first. What one of them was copying is
/// deleted.
fn left_behind(unfinished: &Path) -> BackupResult<Vec<PathBuf>> {
    let unfinished = OpenFolder::open(unfinished)?;
    let mut left = Vec::new();
    for name in unfinished.names()? {
        match unfinished.file_len(&name)? {
            Some(_) if is_description(&name) => left.push(unfinished.path().join(name)),
            Some(_) if name == COPIED => unfinished.remove(&name)?,
            _ => {}
        }
    }
    left.sort_unstable();
    Ok(left)
}

impl Making<'_> {
    /// Adds a line to the description.
    fn write(&mut self, line: &impl Serialize) -> BackupResult<()> {
        let line = serde_json::to_string(line).map_err(|error| io_error("encoding", &self.path, error.into()))?;
        self.sum.update(&line);
        self.sum.update("\n");
        self.waiting.push_str(&line);
        self.waiting.push('\n');
        Ok(())
    }

    /// Makes what was copied durable, and then the lines about it.
    fn sync(&mut self) -> BackupResult<()> {
        sync_all(&self.backups.path)?;
        let written = self.description.write_all(self.waiting.as_bytes()).and_then(|()| self.description.sync_all());
        written.map_err(|error| io_error("writing", &self.path, error))?;
        self.waiting.clear();
        self.unsynced_bytes = 0;
        Ok(())
    }

    fn take(&mut self, file: FoundFile) -> BackupResult<()> {
        let entry = match self.there_already(&file) {
            Some(entry) => {
                (self.took)(file.bytes);
                entry
            }
            None => {
                let (entry, is_new) = self.copy(file)?;
                self.end.copied_files += u64::from(is_new);
                self.end.copied_bytes += if is_new { entry.bytes } else { 0 };
                entry
            }
        };
        self.end.files += 1;
        self.end.bytes += entry.bytes;
        self.write(&Line::File(entry))?;
        let is_due = self.unsynced_bytes >= SYNCED_BYTES || self.waiting.len() >= WAITING_BYTES;
        if is_due { self.sync() } else { Ok(()) }
    }

    /// What an earlier backup says of the same file, if its bytes are still there.
    fn there_already(&mut self, file: &FoundFile) -> Option<Entry> {
        let backups = self.backups;
        self.known.iter_mut().find_map(|known| {
            let entry = known.find(&file.path).filter(|entry| file.is(entry))?;
            let there = fs::symlink_metadata(backups.file(&entry.sha256)).ok()?;
            (there.is_file() && there.len() == entry.bytes).then(|| Entry { modified: file.modified, ..entry.clone() })
        })
    }

    /// Copies a file. Returns whether no backup had its bytes.
    fn copy(&mut self, file: FoundFile) -> BackupResult<(Entry, bool)> {
        let from = self.source.place(&file);
        let reading = |error| io_error("reading", &from, error);
        let mut bytes = self.source.read(&file).map_err(reading)?;
        let copied = self.backups.unfinished().join(COPIED);
        remove(&copied)?;
        // Any other file may change.
        let is_linked = self.links && (file.checksum.is_some() || file.path.starts_with("contents/"));
        let digests = if is_linked {
            digest::of(&mut bytes, self.took).map_err(reading)?
        } else {
            let writing = |error| io_error("copying to", &copied, error);
            let mut to = create(&copied).map_err(writing)?;
            digest::copy(&mut bytes, &mut to, self.took).map_err(|error| match error {
                CopyError::Reading(error) => reading(error),
                CopyError::Writing(error) => writing(error),
            })?
        };
        if digests.bytes != file.bytes || file.checksum.as_ref().is_some_and(|sum| *sum != digests.checksum) {
            return Err(BackupError::DamagedSource(file.path));
        }
        let place = self.backups.file(&digests.sha256);
        let moving = |error| io_error("making", &place, error);
        if let Some(shard) = place.parent() {
            make_folders(shard).map_err(moving)?;
            require_folder(shard)?;
        }
        if is_linked {
            fs::hard_link(&from, &copied).map_err(|error| io_error("linking to", &copied, error))?;
        }
        // What is there may be of a backup that died before it was durable.
        let is_new = !place.exists();
        fs::rename(&copied, &place).map_err(moving)?;
        // Two links to the same file are not renamed to one.
        remove(&copied)?;
        self.unsynced_bytes += digests.bytes;
        let Digests { bytes, sha256, .. } = digests;
        Ok((Entry { path: file.path, bytes, sha256, modified: file.modified, checksum: file.checksum }, is_new))
    }
}
