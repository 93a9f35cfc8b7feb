//! Files of contents that have no header.
//!
//! A header is written before its file and removed after it, so there are two causes of such a
//! file: a removal that was not durable when the power failed, or a database that is older than the
//! folder of contents (restored from a backup, for example). The first file is a leftover. The
//! second may be the only copy of what somebody stored. Nothing distinguishes them, so each file is
//! reported and kept for a grace period. The period begins when the file is first seen to be
//! unknown, not when it was written: an older file is no less valuable. That time is stored beside
//! the file, as `<id>.unknown`, so that restarts do not change it. When the content is known again,
//! the note is deleted.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use store::{ContentId, Deadline, StoreError, StoreResult, Table, UnixMillis};

use crate::database::blocking;
use crate::engine::EmbeddedStore;
use crate::files::io_error;
use crate::header::{header_in, id_of_file};
use crate::private;

/// The extension of a note. A note holds the time, in milliseconds since 1970, as text.
const NOTE: &str = "unknown";

/// The contents of one folder.
struct Shard {
    path: PathBuf,
    files: BTreeSet<ContentId>,
    notes: BTreeSet<ContentId>,
}

/// The findings in one folder.
#[derive(Default)]
struct Found {
    /// Files that are kept.
    kept: u64,
    /// Files among them that had no note yet.
    new: u64,
    removed: u64,
}

impl EmbeddedStore {
    /// Checks the next folders of contents in turn, until it has checked enough files. Returns how
    /// many files were deleted.
    pub(crate) async fn sweep_files(&self, deadline: Deadline) -> StoreResult<u64> {
        let contents = self.database()?.folder.contents();
        let (mut files, mut found) = (0, Found::default());
        for _ in 0..=u8::MAX {
            let number = self.sweep_position.lock().shard;
            let path = contents.join(format!("{number:02x}"));
            let shard = match blocking(deadline, move || Shard::list(path)).await {
                Err(StoreError::DeadlinePassed) => break,
                shard => shard?,
            };
            files += shard.files.len();
            match self.sweep_shard(deadline, number, shard).await {
                Err(StoreError::DeadlinePassed) => break,
                here => found.add(here?),
            }
            self.sweep_position.lock().shard = number.wrapping_add(1);
            if files >= self.options().contents_per_sweep {
                break;
            }
        }
        if found.new > 0 {
            tracing::warn!(
                files = found.new,
                kept_for = ?self.options().unknown_content_grace,
                folder = %contents.display(),
                "the database does not know some files of contents: it may be older than they are. Restore the database that belongs to them; \
                 otherwise these files are deleted after the grace period"
            );
        }
        Ok(found.removed)
    }

    async fn sweep_shard(&self, deadline: Deadline, number: u8, shard: Shard) -> StoreResult<Found> {
        if shard.files.is_empty() && shard.notes.is_empty() {
            self.unknown_files.lock().0[usize::from(number)] = 0;
            return Ok(Found::default());
        }
        let (now, grace) = (self.now(), self.options().unknown_content_grace);
        // Files were listed before headers are read: a header is always written before its file.
        let look = self.read(deadline, Table::Contents.lane(), move |view| {
            let is_known = |id: ContentId| Ok::<_, StoreError>(match header_in(view, id, now) {
                Err(StoreError::Corrupt { .. }) => true,
                header => header?.is_some(),
            });
            let mut found = Found::default();
            for id in &shard.files {
                match (is_known(*id)?, shard.notes.contains(id)) {
                    (true, false) => {}
                    (true, true) => remove(&shard.note(*id))?,
                    (false, noted) => {
                        let since = if noted { shard.noted(*id)? } else { None };
                        if since.is_some_and(|since| now.since(since) >= grace) {
                            let file = shard.file(*id);
                            tracing::warn!(file = %file.display(), "deleted: the database did not know it for the whole grace period");
                            remove(&file)?;
                            remove(&shard.note(*id))?;
                            found.removed += 1;
                            continue;
                        }
                        if since.is_none() {
                            shard.put_note(*id, now)?;
                            found.new += 1;
                        }
                        found.kept += 1;
                    }
                }
            }
            shard.notes.difference(&shard.files).try_for_each(|id| remove(&shard.note(*id)))?;
            Ok(found)
        });
        let found = look.await?;
        self.unknown_files.lock().0[usize::from(number)] = found.kept;
        Ok(found)
    }
}

impl Found {
    fn add(&mut self, other: Self) {
        self.kept += other.kept;
        self.new += other.new;
        self.removed += other.removed;
    }
}

impl Shard {
    /// The contents of a folder; nothing, if it does not exist.
    fn list(path: PathBuf) -> StoreResult<Self> {
        let mut shard = Self { path, files: BTreeSet::new(), notes: BTreeSet::new() };
        let listing = |error| io_error("listing", &shard.path, error);
        let entries = match fs::read_dir(&shard.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(shard),
            entries => entries.map_err(listing)?,
        };
        for entry in entries {
            let name = entry.map_err(listing)?.file_name();
            let name = Path::new(&name);
            let is_note = name.extension().is_some_and(|extension| extension == NOTE);
            let Some(id) = name.file_stem().and_then(|stem| stem.to_str()).and_then(id_of_file) else { continue };
            match (is_note, name.extension()) {
                (true, _) => shard.notes.insert(id),
                (false, None) => shard.files.insert(id),
                (false, Some(_)) => false,
            };
        }
        Ok(shard)
    }

    fn file(&self, id: ContentId) -> PathBuf {
        self.path.join(id.to_string())
    }

    fn note(&self, id: ContentId) -> PathBuf {
        self.file(id).with_extension(NOTE)
    }

    /// Since when a content has been unknown; `None`: the note is not valid.
    fn noted(&self, id: ContentId) -> StoreResult<Option<UnixMillis>> {
        let path = self.note(id);
        let text = fs::read(&path).map_err(|error| io_error("reading", &path, error))?;
        Ok(String::from_utf8_lossy(&text).trim().parse().ok().map(UnixMillis))
    }

    /// A note that a crash loses or truncates is written again, which only prolongs the grace
    /// period.
    fn put_note(&self, id: ContentId, now: UnixMillis) -> StoreResult<()> {
        let path = self.note(id);
        let written = private::create(&path).and_then(|mut note| writeln!(note, "{}", now.0));
        written.map_err(|error| io_error("writing", &path, error))
    }
}

/// Deletes a file, if it exists.
fn remove(path: &Path) -> StoreResult<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("removing", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_and_notes_of_a_folder_are_distinguished_and_everything_else_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let id = ContentId([7; 16]);
        for name in [id.to_string(), format!("{id}.{NOTE}"), format!("{id}.other"), "x".to_owned(), String::from("0")] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let shard = Shard::list(folder.path().to_owned()).unwrap();
        assert_eq!((shard.files, shard.notes), (BTreeSet::from([id]), BTreeSet::from([id])));
    }

    #[test]
    fn a_note_holds_a_time_and_a_truncated_one_holds_none() {
        let folder = tempfile::tempdir().unwrap();
        let (shard, id) = (Shard::list(folder.path().to_owned()).unwrap(), ContentId([7; 16]));
        shard.put_note(id, UnixMillis(1_700_000_000_000)).unwrap();
        assert_eq!(fs::read_to_string(shard.note(id)).unwrap(), "1700000000000\n");
        assert_eq!(shard.noted(id).unwrap(), Some(UnixMillis(1_700_000_000_000)));
        fs::write(shard.note(id), "").unwrap();
        assert_eq!(shard.noted(id).unwrap(), None);
    }
}
