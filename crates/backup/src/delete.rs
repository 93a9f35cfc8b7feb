//! Deletes backups, and files that no backup has.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::error::{BackupError, BackupResult, io_error};
use crate::file::{OpenFolder, sync_folder};
use crate::folder::{Backups, SET_ASIDE, is_left_behind};
use crate::manifest::Line;

/// What was deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// Backups.
    pub backups: Vec<String>,
    /// Files that no other backup has.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Backups {
    /// Deletes backups, and then all files that no backup has, with those that were set aside. If
    /// it is interrupted, the next deletion does the rest. The folder is open for
    /// [`Access::Delete`](crate::Access).
    ///
    /// Only regular files with the names of what this program makes are deleted.
    ///
    /// Errors: as of reading the backups that are left, and [`BackupError::NoBackups`] if there is
    /// a link in the place of a folder, before anything is deleted: a file is deleted only if it is
    /// certain that no backup has it.
    pub fn delete(&self, ids: &[String]) -> BackupResult<Deleted> {
        let all = self.ids()?;
        if let Some(absent) = ids.iter().find(|id| !all.contains(id)) {
            return Err(BackupError::Absent(absent.clone()));
        }
        let mut used: HashSet<[u8; 32]> = HashSet::new();
        for id in all.iter().filter(|id| !ids.contains(id)) {
            let mut reader = self.reader(id)?;
            while let line @ (Line::File(_) | Line::Folder { .. }) = reader.next()? {
                let Line::File(entry) = line else { continue };
                used.extend(digest_of(&entry.sha256));
            }
        }
        let (shards, unfinished) = (self.shards()?, OpenFolder::open(&self.unfinished())?);
        for id in ids {
            let path = self.manifest(id);
            fs::remove_file(&path).map_err(|source| io_error("removing", &path, source))?;
        }
        // Before their files: no backup ever lacks some.
        sync_folder(&self.manifests())?;
        let mut deleted = Deleted { backups: ids.to_vec(), ..Deleted::default() };
        shards.iter().try_for_each(|shard| delete_unused(shard, &used, &mut deleted))?;
        delete_unfinished(&unfinished)?;
        Ok(deleted)
    }

    /// The folders that files are in.
    fn shards(&self) -> BackupResult<Vec<OpenFolder>> {
        let files = OpenFolder::open(&self.files())?;
        let names = files.names()?.into_iter().filter(|name| is_shard(name));
        names.map(|name| files.folder(&name)).collect()
    }
}

/// Deletes the files in a folder that no backup uses.
fn delete_unused(shard: &OpenFolder, used: &HashSet<[u8; 32]>, deleted: &mut Deleted) -> BackupResult<()> {
    for name in shard.names()? {
        let is_unused = digest_of_file(Path::new(&name)).is_some_and(|digest| !used.contains(&digest));
        if is_unused && let Some(len) = shard.file_len(&name)? {
            shard.remove(&name)?;
            deleted.files += 1;
            deleted.bytes += len;
        }
    }
    Ok(())
}

/// Deletes what backups left that did not end: nobody makes one now, and their files are gone.
fn delete_unfinished(unfinished: &OpenFolder) -> BackupResult<()> {
    for name in unfinished.names()? {
        if is_left_behind(&name) && unfinished.file_len(&name)?.is_some() {
            unfinished.remove(&name)?;
        }
    }
    Ok(())
}

/// Whether a name is the first byte of a digest.
fn is_shard(name: &OsStr) -> bool {
    let mut byte = [0; 1];
    name.to_str().is_some_and(|name| hex::decode_to_slice(name, &mut byte).is_ok())
}

/// The digest that the name of a file has; one that was set aside still has it.
fn digest_of_file(name: &Path) -> Option<[u8; 32]> {
    let is_set_aside = name.extension().is_some_and(|extension| extension == SET_ASIDE);
    let digest = if is_set_aside { name.file_stem()? } else { name.as_os_str() };
    digest.to_str().and_then(digest_of)
}

fn digest_of(sha256: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    hex::decode_to_slice(sha256, &mut digest).ok()?;
    Some(digest)
}
