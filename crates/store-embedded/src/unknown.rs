//! Files of contents that have no header.
//!
//! A header is written before its file and removed after it, so there are two causes of such a
//! file: a removal that was not durable when the power failed, or a database that is older than the
//! folder of contents (restored from a backup, for example). The first file is a leftover. The
//! second may be the only copy of what somebody stored. Nothing distinguishes them, so each file is
//! reported and kept for a grace period. The period begins when the file is first seen to be
//! unknown, not when it was written: an older file is no less valuable. For how long it was seen so
//! far is stored beside the file, as `<id>.unknown`, so that restarts do not change it. When the
//! content is known again, the note is deleted.
//!
//! The time between two looks at a file is counted, two hours at most. So a clock that jumps ahead,
//! or that showed 1970 at the first look, ends no grace period: it shortens it by two hours. While
//! no process has the store open, two hours count too, and no more.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use store::{ContentId, Deadline, StoreError, StoreResult, Table, UnixMillis};

use crate::blocking::blocking;
use crate::engine::EmbeddedStore;
use crate::files::io_error;
use crate::header::{header_in, id_of_file};
use crate::private;

/// The extension of a note.
const NOTE: &str = "unknown";

/// A note is written again once it is so old.
const NOTED_EVERY: Duration = Duration::from_secs(3_600);

/// The most that counts between two looks at a file. A sweep comes each minute and looks at many
/// thousands of files, so a look seldom comes later.
const COUNTED_MAX: Duration = Duration::from_secs(2 * 3_600);

/// The contents of one folder.
struct Shard {
    path: PathBuf,
    files: BTreeSet<ContentId>,
    notes: BTreeSet<ContentId>,
}

/// What a note says. In its file are both times in milliseconds, in 20 decimal digits each: it
/// always has the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    /// For how long the file was seen to be unknown.
    unknown_for: Duration,
    /// Until when that is counted.
    until: UnixMillis,
}

impl Note {
    /// The note on a file that is seen to be unknown for the first time.
    fn first(now: UnixMillis) -> Self {
        Self { unknown_for: Duration::ZERO, until: now }
    }

    /// The note on the same file now.
    fn at(self, now: UnixMillis) -> Self {
        let more = now.since(self.until).min(COUNTED_MAX);
        Self { unknown_for: self.unknown_for.saturating_add(more), until: now }
    }

    /// Whether it has to be written again: it is old, or the clock was set back.
    fn is_old(self, now: UnixMillis) -> bool {
        now < self.until || now.since(self.until) >= NOTED_EVERY
    }

    fn text(self) -> String {
        format!("{:020} {:020}\n", self.unknown_for.as_millis(), self.until.0)
    }

    /// `None`: it is not valid.
    fn parse(text: &str) -> Option<Self> {
        let (unknown_for, until) = text.lines().next()?.split_once(' ')?;
        let unknown_for = Duration::from_millis(unknown_for.parse().ok()?);
        Some(Self { unknown_for, until: UnixMillis(until.parse().ok()?) })
    }
}

/// The findings in one folder.
#[derive(Default)]
struct Found {
    /// Files that are kept.
    kept: u64,
    /// Files among them that had no valid note yet.
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
                    (false, is_noted) => {
                        let noted = if is_noted { shard.noted(*id)? } else { None };
                        if noted.is_some_and(|noted| noted.at(now).unknown_for >= grace) {
                            let file = shard.file(*id);
                            tracing::warn!(file = %file.display(), "deleted: the database did not know it for the whole grace period");
                            remove(&file)?;
                            remove(&shard.note(*id))?;
                            found.removed += 1;
                            continue;
                        }
                        if noted.is_none_or(|noted| noted.is_old(now)) {
                            shard.put_note(*id, noted.map_or(Note::first(now), |noted| noted.at(now)))?;
                        }
                        found.new += u64::from(noted.is_none());
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

    /// What the note on a content says; `None`: it is not valid.
    fn noted(&self, id: ContentId) -> StoreResult<Option<Note>> {
        let path = self.note(id);
        let text = fs::read(&path).map_err(|error| io_error("reading", &path, error))?;
        Ok(Note::parse(&String::from_utf8_lossy(&text)))
    }

    /// A note that a crash loses or truncates is begun again, which only prolongs the grace period.
    fn put_note(&self, id: ContentId, note: Note) -> StoreResult<()> {
        let path = self.note(id);
        // In place: a full disk would leave an empty one.
        let written = private::open_or_create(&path).and_then(|file| file.write_all_at(note.text().as_bytes(), 0));
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
    fn a_note_is_read_back_and_a_truncated_one_or_that_of_an_earlier_program_is_not_valid() {
        let folder = tempfile::tempdir().unwrap();
        let (shard, id) = (Shard::list(folder.path().to_owned()).unwrap(), ContentId([7; 16]));
        for invalid in ["1700000000000\n", "", "00000000000000003600 "] {
            fs::write(shard.note(id), invalid).unwrap();
            assert_eq!(shard.noted(id).unwrap(), None, "{invalid:?}");
            let note = Note { unknown_for: Duration::from_secs(7), until: UnixMillis(1_700_000_000_000) };
            shard.put_note(id, note).unwrap();
            assert_eq!(shard.noted(id).unwrap(), Some(note));
        }
        assert_eq!(fs::read_to_string(shard.note(id)).unwrap(), "00000000000000007000 00000001700000000000\n");
    }

    #[test]
    fn only_time_between_looks_that_are_not_far_apart_counts() {
        let at = |seconds: u64| UnixMillis(1_700_000_000_000 + 1_000 * seconds);
        let note = Note::first(at(0)).at(at(60)).at(at(3_660));
        assert_eq!(note, Note { unknown_for: Duration::from_secs(3_660), until: at(3_660) });
        assert_eq!(note.at(at(0)), Note { until: at(0), ..note }, "the clock was set back");
        let ahead = note.at(at(1_000_000));
        assert_eq!(ahead.unknown_for, note.unknown_for + COUNTED_MAX);
        assert_eq!(Note::first(UnixMillis(0)).at(at(0)).unknown_for, COUNTED_MAX);
        let is_old = |seconds| note.is_old(at(seconds));
        assert_eq!([3_659, 3_660, 7_259, 7_260].map(is_old), [true, false, false, true]);
    }
}
