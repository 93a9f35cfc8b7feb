//! The targets of downloaded bytes: standard output, or an incomplete file.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::exit::CliError;

/// How often a part is opened that another run may just have given its final name.
const OPENED_MAX: u32 = 8;

/// A target of bytes. It knows its length.
pub(super) trait Sink {
    /// Its length in bytes.
    fn len_bytes(&self) -> u64;
    /// Appends bytes.
    fn append(&mut self, bytes: &[u8]) -> anyhow::Result<()>;
}

/// A target that takes bytes once, in order: standard output, a device, a named pipe.
pub struct Pipe {
    file: File,
    written: u64,
}

impl Pipe {
    /// Standard output, without the buffer that searches for line ends.
    pub fn stdout() -> anyhow::Result<Self> {
        let descriptor = io::stdout().as_fd().try_clone_to_owned().context("opening standard output")?;
        Ok(Self { file: File::from(descriptor), written: 0 })
    }

    /// A device or a named pipe.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::options().write(true).open(path).with_context(|| format!("opening {}", path.display()))?;
        Ok(Self { file, written: 0 })
    }
}

impl Sink for Pipe {
    fn len_bytes(&self) -> u64 {
        self.written
    }

    fn append(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::OutputClosed.into(),
            _ => anyhow::Error::new(error).context("writing what was downloaded"),
        })?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// An incomplete file, beside its final path. No other run writes to it as long as this value lives.
pub(super) struct Part {
    file: File,
    path: PathBuf,
    len_bytes: u64,
}

impl Part {
    /// Takes the part of `target`, with what is in it. Refuses if another run has it.
    pub(super) fn of(target: &Path) -> anyhow::Result<Self> {
        let path = beside(target, ".part");
        let opening = || format!("opening {}", path.display());
        let mut times = 0;
        loop {
            times += 1;
            let mut file =
                File::options().create(true).write(true).truncate(false).open(&path).with_context(opening)?;
            match file.try_lock() {
                // Not every file system has locks, and each says so in its own way.
                Ok(()) | Err(TryLockError::Error(_)) => {}
                Err(TryLockError::WouldBlock) => {
                    let hint = "wait for its end, or name another place";
                    bail!("another penates get is writing {}; {hint}", target.display());
                }
            }
            let opened = file.metadata().with_context(opening)?;
            // A run that ended meanwhile may have given this file its final name: then there is another.
            // Some file systems give the same file another number at each look.
            if times == OPENED_MAX || fs::metadata(&path).is_ok_and(|found| is_same(&found, &opened)) {
                let len_bytes = file.seek(SeekFrom::End(0)).with_context(opening)?;
                return Ok(Self { file, path, len_bytes });
            }
        }
    }

    /// Empties it.
    pub(super) fn empty(&mut self) -> anyhow::Result<()> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
        emptied.with_context(|| format!("emptying {}", self.path.display()))?;
        self.len_bytes = 0;
        Ok(())
    }

    /// Removes it if there is nothing in it.
    pub(super) fn remove_if_empty(self) {
        if self.len_bytes == 0 {
            // One that stays does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Bytes of `target` from an earlier run; `None` if there are none.
    pub(super) fn begun_bytes(target: &Path) -> Option<u64> {
        Some(fs::metadata(beside(target, ".part")).ok()?.len())
    }

    /// Makes it durable, and returns its path.
    pub(super) fn durable(&self) -> anyhow::Result<&Path> {
        self.file.sync_all().with_context(|| format!("writing {}", self.path.display()))?;
        Ok(&self.path)
    }

    /// Makes it durable under its final name; `replaces` a file of that name, or refuses to.
    pub(super) fn finish(&self, target: &Path, replaces: bool) -> anyhow::Result<()> {
        put_in_place(self.durable()?, target, replaces)
    }
}

impl Drop for Part {
    /// Closing the file does not end the lock while a process that this one is just starting has the
    /// file open too.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Whether two files are one (stat(2)).
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

impl Sink for Part {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn append(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(bytes).with_context(|| format!("writing {}", self.path.display()))?;
        self.len_bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Gives a finished file its name; `replaces` a file of that name, or refuses to.
pub(super) fn put_in_place(part: &Path, target: &Path, replaces: bool) -> anyhow::Result<()> {
    let renaming = || format!("renaming {} to {}", part.display(), target.display());
    if replaces {
        return fs::rename(part, target).with_context(renaming);
    }
    match renameat_with(CWD, part, CWD, target, RenameFlags::NOREPLACE) {
        // Not every file system can do both at once.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if fs::symlink_metadata(target).is_err() => {
            fs::rename(part, target).with_context(renaming)
        }
        Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Err(exists(target)),
        renamed => renamed.map_err(std::io::Error::from).with_context(renaming),
    }
}

/// The error for a file that is not replaced.
pub(super) fn exists(target: &Path) -> anyhow::Error {
    CliError::Usage(format!("{} exists: it is not replaced without --force", target.display())).into()
}

/// The path of a file beside another: its name with a suffix.
pub(super) fn beside(target: &Path, suffix: &str) -> PathBuf {
    let mut path = target.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_part_has_one_writer_until_it_has_its_final_name() {
        let folder = tempfile::tempdir().unwrap();
        let (target, path) = (folder.path().join("a.zip"), folder.path().join("a.zip.part"));
        let refusal = || Part::of(&target).err().unwrap().to_string();
        let mut first = Part::of(&target).unwrap();
        first.append(b"mine").unwrap();
        assert!(refusal().starts_with(&format!("another penates get is writing {}", target.display())));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        drop(first);

        let mut again = Part::of(&target).unwrap();
        assert_eq!(again.len_bytes(), 4, "it is resumed");
        again.empty().unwrap();
        again.append(b"new").unwrap();
        again.durable().unwrap();
        assert!(refusal().contains("another penates get"), "it is unpacked or renamed next");
        again.finish(&target, false).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        let next = Part::of(&target).unwrap();
        assert_eq!(next.len_bytes(), 0);
        next.remove_if_empty();
        assert!(!path.exists());
    }

    #[test]
    fn an_incomplete_file_is_beside_the_target() {
        assert_eq!(beside(Path::new("a/b.zip"), ".part"), Path::new("a/b.zip.part"));
    }
}
