//! The mark that a load leaves in a data folder as long as nothing but loads made changes there.
//!
//! In such a store versions may have their own times, because nobody was sent an earlier state of it
//! (decision 0086). Any other command that opens the store removes the mark of a finished load, and
//! refuses the store of an unfinished one, which lacks most of its data.

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
}

/// Why no load begins.
#[derive(Debug, thiserror::Error)]
pub enum LoadMarkError {
    /// Another load has not finished.
    #[error("a load of {0} into it has not finished: repeat that first, or delete the folder to abandon it")]
    Unfinished(String),
    /// The mark is not readable, or was not written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl LoadMark {
    /// The mark for a load into a folder; `None` if the store there may have been used otherwise.
    /// `source` is the address of what is loaded, the same for each load of it.
    ///
    /// # Errors
    /// [`LoadMarkError::Unfinished`] if another source was loaded in part only: its mark would be lost.
    pub fn begin(folder: &Path, source: &str) -> Result<Option<Self>, LoadMarkError> {
        let known = match Self::find(folder)? {
            Some(mark) if !mark.is_finished && mark.source != source => {
                return Err(LoadMarkError::Unfinished(mark.source));
            }
            Some(mark) => mark,
            None if local::is_vacant(folder) => Self {
                kind: KIND.to_owned(),
                version: VERSION,
                source: String::new(),
                newest: UnixMillis(0),
                is_finished: false,
            },
            None => return Ok(None),
        };
        let mark = Self { source: source.to_owned(), is_finished: false, ..known };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        mark.write(folder)?;
        Ok(Some(mark))
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
        let begin = |source: &str| LoadMark::begin(folder.path(), source);
        begin("/one").unwrap().unwrap();
        let refused = begin("/other").unwrap_err();
        assert!(matches!(&refused, LoadMarkError::Unfinished(source) if source == "/one"), "{refused}");
        assert_eq!(LoadMark::find(folder.path()).unwrap().unwrap().source, "/one");
        begin("/one").unwrap().unwrap().finish(folder.path(), UnixMillis(7)).unwrap();
        // The times of the store that the first one left bind the other.
        assert_eq!(begin("/other").unwrap().unwrap().newest(), UnixMillis(7));
    }
}
