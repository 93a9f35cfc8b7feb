//! A file that grows, such as a log: what was added to it since the last look, also after another file has
//! taken its place.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that is read from its end at the beginning on. It may not be there yet.
#[derive(Debug)]
pub(super) struct Growing {
    path: PathBuf,
    open: Option<Open>,
    /// Bytes that were not read, because too many were added at once.
    pub skipped_bytes: u64,
}

/// The file that was seen last.
#[derive(Debug)]
struct Open {
    file: File,
    read_to: u64,
}

/// What was added.
#[derive(Debug, PartialEq)]
pub(super) struct Added {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether they follow what was read before.
    pub follows: bool,
}

impl Growing {
    pub fn new(path: PathBuf) -> Self {
        // A file that comes later is read from its beginning.
        let at_its_end = |mut file: File| Some(Open { read_to: file.seek(SeekFrom::End(0)).ok()?, file });
        let open = open(&path).ok().and_then(at_its_end);
        Self { path, open, skipped_bytes: 0 }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was added since the last call: of more than so many bytes in a file only the last ones. A file
    /// that was renamed is read to its end before the one that has its name now.
    ///
    /// # Errors
    /// There is no such file now, or it cannot be read.
    pub fn read(&mut self, bytes_max: u64) -> io::Result<Vec<Added>> {
        let mut all = Vec::new();
        // In this order nothing is missed that was written before another file has taken its place.
        let now = open(&self.path);
        let is_another = |known: &Open, now: &File| -> io::Result<bool> {
            let (known, now) = (known.file.metadata()?, now.metadata()?);
            Ok((known.dev(), known.ino()) != (now.dev(), now.ino()))
        };
        if let Some(known) = &mut self.open {
            all.extend(known.read(bytes_max, &mut self.skipped_bytes)?);
        }
        let now = match now {
            Ok(now) => now,
            Err(error) if all.is_empty() => return Err(error),
            Err(_) => return Ok(all),
        };
        let is_new = match &self.open {
            Some(known) => is_another(known, &now)?,
            None => true,
        };
        if is_new {
            let mut new = Open { file: now, read_to: 0 };
            let added = new.read(bytes_max, &mut self.skipped_bytes)?;
            all.extend(added.map(|added| Added { follows: false, ..added }));
            self.open = Some(new);
        }
        Ok(all)
    }
}

impl Open {
    fn read(&mut self, bytes_max: u64, skipped_bytes: &mut u64) -> io::Result<Option<Added>> {
        let len = self.file.metadata()?.len();
        let mut follows = true;
        if len < self.read_to {
            // It was emptied, as when logs are rotated by a copy.
            (self.read_to, follows) = (0, false);
        }
        let behind = len - self.read_to;
        if behind > bytes_max {
            *skipped_bytes += behind - bytes_max;
            (self.read_to, follows) = (len - bytes_max, false);
        }
        self.file.seek(SeekFrom::Start(self.read_to))?;
        let mut bytes = Vec::new();
        self.read_to += (&mut self.file).take(bytes_max).read_to_end(&mut bytes)? as u64;
        Ok((!bytes.is_empty()).then_some(Added { bytes, follows }))
    }
}

/// Opens a plain file: nothing that is one by its name only, and would wait for a writer.
pub(super) fn open(path: &Path) -> io::Result<File> {
    match path.metadata()?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is no plain file")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::io::Write;

    use super::*;

    fn add(path: &Path, text: &str) {
        fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// What was added, with a bar before what does not follow what was read before.
    fn read(growing: &mut Growing, bytes_max: u64) -> String {
        let text = |added: Added| {
            let bar = if added.follows { "" } else { "|" };
            format!("{bar}{}", String::from_utf8(added.bytes).unwrap())
        };
        growing.read(bytes_max).unwrap().into_iter().map(text).collect()
    }

    #[test]
    fn a_file_that_is_renamed_is_read_to_its_end_before_the_one_that_follows_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        add(&path, "before\n");
        let mut growing = Growing::new(path.clone());
        add(&path, "one\n");
        assert_eq!(read(&mut growing, 100), "one\n");
        add(&path, "two\n");
        fs::rename(&path, folder.path().join("log.1")).unwrap();
        // The next one is longer than the first when it is seen.
        add(&path, "three, four, five\n");
        assert_eq!(read(&mut growing, 100), "two\n|three, four, five\n");
        add(&path, "six\n");
        assert_eq!(read(&mut growing, 100), "six\n");
        assert_eq!(read(&mut growing, 100), "");
    }

    #[test]
    fn a_file_that_is_emptied_or_comes_later_is_read_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut growing = Growing::new(path.clone());
        assert_eq!(growing.read(100).unwrap_err().kind(), io::ErrorKind::NotFound);
        add(&path, "a first line\n");
        assert_eq!(read(&mut growing, 100), "|a first line\n");
        fs::write(&path, "another\n").unwrap();
        assert_eq!(read(&mut growing, 100), "|another\n");
    }

    #[test]
    fn of_a_flood_only_the_end_is_read_and_the_rest_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        add(&path, "");
        let mut growing = Growing::new(path.clone());
        add(&path, &format!("{}end\n", "x".repeat(1_000)));
        assert_eq!((read(&mut growing, 4).as_str(), growing.skipped_bytes), ("|end\n", 1_000));
    }

    #[test]
    fn a_folder_and_a_pipe_are_no_files_and_nobody_waits_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [folder.path(), &pipe] {
            let error = Growing::new(path.to_owned()).read(100).unwrap_err();
            assert_eq!(error.to_string(), "it is no plain file");
        }
    }
}
