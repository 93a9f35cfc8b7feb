//! Deletes backups, and files that no backup has.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::error::{BackupError, BackupResult, io_error};
use crate::file::sync_folder;
use crate::folder::{Backups, SET_ASIDE};
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
    /// Errors: as of reading the backups that are left, before anything is deleted: a file is
    /// deleted only if it is certain that no backup has it.
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
        for id in ids {
            let path = self.manifest(id);
            fs::remove_file(&path).map_err(|source| io_error("removing", &path, source))?;
        }
        // Before their files: no backup ever lacks some.
        sync_folder(&self.manifests())?;
        let mut deleted = Deleted { backups: ids.to_vec(), ..Deleted::default() };
        self.delete_unused(&used, &mut deleted)?;
        self.delete_unfinished()?;
        Ok(deleted)
    }

    fn delete_unused(&self, used: &HashSet<[u8; 32]>, deleted: &mut Deleted) -> BackupResult<()> {
        let files = self.files();
        let listing = |source| io_error("listing", &files, source);
        for shard in fs::read_dir(&files).map_err(listing)? {
            for file in fs::read_dir(shard.map_err(listing)?.path()).map_err(listing)? {
                let file = file.map_err(listing)?;
                let name = file.file_name();
                let digest = digest_of_file(Path::new(&name));
                let is_used = digest.is_some_and(|digest| used.contains(&digest));
                if !is_used {
                    deleted.files += 1;
                    deleted.bytes += file.metadata().map_or(0, |metadata| metadata.len());
                    fs::remove_file(file.path()).map_err(|source| io_error("removing", &file.path(), source))?;
                }
            }
        }
        Ok(())
    }

    /// What backups left that did not end: nobody makes one now, and their files are gone.
    fn delete_unfinished(&self) -> BackupResult<()> {
        let unfinished = self.unfinished();
        let listing = |source| io_error("listing", &unfinished, source);
        for entry in fs::read_dir(&unfinished).map_err(listing)? {
            let path = entry.map_err(listing)?.path();
            fs::remove_file(&path).map_err(|source| io_error("removing", &path, source))?;
        }
        Ok(())
    }
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
