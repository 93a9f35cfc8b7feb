//! The targets of downloaded bytes: standard output, or an incomplete file.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::exit::CliError;

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

/// An incomplete file, beside its final path.
pub(super) struct Part {
    file: File,
    path: PathBuf,
    len_bytes: u64,
}

impl Part {
    /// Opens the part of `target`, to resume it or to start again.
    pub(super) fn open(target: &Path, anew: bool) -> anyhow::Result<Self> {
        let path = beside(target, ".part");
        let opening = || format!("opening {}", path.display());
        let mut file = File::options().create(true).write(true).truncate(anew).open(&path).with_context(opening)?;
        let len_bytes = file.seek(SeekFrom::End(0)).with_context(opening)?;
        Ok(Self { file, path, len_bytes })
    }

    /// Bytes of `target` from an earlier run; `None` if there are none.
    pub(super) fn begun_bytes(target: &Path) -> Option<u64> {
        Some(fs::metadata(beside(target, ".part")).ok()?.len())
    }

    /// Makes it durable, and returns its path.
    pub(super) fn durable(self) -> anyhow::Result<PathBuf> {
        self.file.sync_all().with_context(|| format!("writing {}", self.path.display()))?;
        Ok(self.path)
    }

    /// Makes it durable under its final name; `replaces` a file of that name, or refuses to.
    pub(super) fn finish(self, target: &Path, replaces: bool) -> anyhow::Result<()> {
        put_in_place(&self.durable()?, target, replaces)
    }
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
    use super::*;

    #[test]
    fn an_incomplete_file_is_beside_the_target() {
        assert_eq!(beside(Path::new("a/b.zip"), ".part"), Path::new("a/b.zip.part"));
    }
}
