//! The mark that a load leaves in a data folder as long as nothing but loads made changes there.
//!
//! In such a store versions may have their own times, because nobody was sent an earlier state of it
//! (decision 0086). Any other command that opens the store removes the mark of a finished load, and
//! refuses the store of an unfinished one, which lacks most of its data.
//!
//! In a vacant folder the mark is written before there is a store. The mark of a finished load is
//! replaced only when the next load is about to make its first change, so that a load that fails
//! before that leaves a store that others may open.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use store::UnixMillis;

use crate::local;

/// The name of its file.
const NAME: &str = "load.json";
/// The file while it is written. A process that dies then leaves it alone.
pub(crate) const PART: &str = "load.json.part";

/// The kind of the file, and its version.
const KIND: &str = "penates load";
const VERSION: u32 = 1;

/// The mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadMark {
    kind: String,
    version: u32,
    /// What was loaded last.
    pub source: String,
    /// The time of the newest change, when the last load had finished.
    newest: UnixMillis,
    /// Whether the last load is finished.
    pub is_finished: bool,
    /// Whether a load before the last one had finished: then the store has more than the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    had_finished: bool,
}

/// Why no load begins.
#[derive(Debug, thiserror::Error)]
pub enum LoadMarkError {
    /// Another load has not finished.
    #[error("a load of {0} into it has not finished: repeat that first{1}")]
    Unfinished(String, &'static str),
    /// The mark is not readable, or was not written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl LoadMark {
    /// The mark for a load into a folder; `None` if the store there may have been used otherwise.
    /// `source` is the address of what is loaded, the same for each load of it.
    ///
    /// In a vacant folder the mark is written. Otherwise the load writes it before its first change.
    /// Only a process that holds the store knows that no other one replaces the mark meanwhile.
    ///
    /// # Errors
    /// [`LoadMarkError::Unfinished`] if another source was loaded in part only: its mark would be lost.
    pub fn of_load(folder: &Path, source: &str) -> Result<Option<Self>, LoadMarkError> {
        let source = source.to_owned();
        match Self::find(folder)? {
            Some(mark) if !mark.is_finished && mark.source != source => {
                let or_abandon = mark.or_abandon();
                Err(LoadMarkError::Unfinished(mark.source, or_abandon))
            }
            Some(mark) => {
                let had_finished = mark.had_finished || mark.is_finished;
                Ok(Some(Self { source, is_finished: false, had_finished, ..mark }))
            }
            None if local::is_vacant(folder) => {
                let (kind, version, newest) = (KIND.to_owned(), VERSION, UnixMillis(0));
                let mark = Self { kind, version, source, newest, is_finished: false, had_finished: false };
                fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                mark.write(folder)?;
                Ok(Some(mark))
            }
            None => Ok(None),
        }
    }

    /// What can be done about an unfinished load other than to repeat it, as the end of a message.
    /// Nothing, if the folder also has what an earlier load brought.
    pub fn or_abandon(&self) -> &'static str {
        if self.had_finished { "" } else { ", or delete the folder to abandon it" }
    }

    /// The time of the newest change in the store before the load.
    pub fn newest(&self) -> UnixMillis {
        self.newest
    }

    /// Marks the load as finished. `newest` is a time that no change of it is after.
    pub fn finish(self, folder: &Path, newest: UnixMillis) -> io::Result<()> {
        Self { newest: self.newest.max(newest), is_finished: true, ..self }.write(folder)
    }

    /// The mark in a folder.
    pub fn find(folder: &Path) -> io::Result<Option<Self>> {
        match fs::read(folder.join(NAME)) {
            Ok(text) => {
                let mark: Self = serde_json::from_slice(&text)?;
                match mark.kind == KIND && mark.version == VERSION {
                    true => Ok(Some(mark)),
                    false => {
                        Err(io::Error::new(io::ErrorKind::InvalidData, "the mark of a load is of another version"))
                    }
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the mark from a folder.
    pub fn remove(folder: &Path) -> io::Result<()> {
        fs::remove_file(folder.join(NAME))?;
        File::open(folder)?.sync_all()
    }

    /// Writes the mark into a folder, durably.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut file = File::create(folder.join(PART))?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(folder.join(PART), folder.join(NAME))?;
        File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_unfinished_load_is_finished_by_a_load_of_the_same_source_only() {
        let folder = tempfile::tempdir().unwrap();
        let mark_of = |source: &str| LoadMark::of_load(folder.path(), source);
        let found = || LoadMark::find(folder.path()).unwrap().unwrap();
        mark_of("/one").unwrap().unwrap();
        let refused = mark_of("/other").unwrap_err();
        assert!(matches!(&refused, LoadMarkError::Unfinished(source, _) if source == "/one"), "{refused}");
        assert!(refused.to_string().contains("or delete the folder"), "{refused}");
        assert_eq!(found().source, "/one");
        mark_of("/one").unwrap().unwrap().finish(folder.path(), UnixMillis(7)).unwrap();
        let other = mark_of("/other").unwrap().unwrap();
        // The times of the store that the first one left bind the other.
        assert_eq!(other.newest(), UnixMillis(7));
        assert!(found().is_finished && found().source == "/one", "nothing of the other was loaded yet");
        other.write(folder.path()).unwrap();
        // The folder has all of the first one.
        let refused = mark_of("/one").unwrap_err().to_string();
        assert!(refused.contains("a load of /other") && !refused.contains("delete"), "{refused}");
        assert_eq!(mark_of("/other").unwrap().unwrap(), other);
    }
}
