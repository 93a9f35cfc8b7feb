//! The page cache: what Linux has in memory of the records' files when a load begins. It is read
//! back by `fincore` of util-linux, which asks the kernel.
//!
//! Linux drops no page of a file that a process has mapped and read, nor what it keeps together with
//! that page: of a large folio that may be a MiB or more. Cassandra maps the indexes of its tables,
//! and a server cannot be stopped here, because it would lose more than its pages. So files that a
//! server has mapped are counted apart, with a bound of their own.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use procfs::Current;
use procfs::process::{MMapPath, Process};
use rustix::fs::{Advice, fadvise};
use thiserror::Error;

use crate::workload::PageCache;

/// The metric: the share of the records' files that is in memory when the load begins, 0 to 1.
pub(crate) const SHARE: &str = "records_in_memory_share";

/// The program that prints how much of a file is in memory.
const FINCORE: &str = "fincore";

/// Files that it is asked for at once: command lines have a greatest length.
const FILES_AT_ONCE: usize = 256;

/// A part of the files' bytes: a share of all, or so many bytes if these are more.
struct Part {
    share: f64,
    bytes: u64,
}

/// What may be in memory all the same: a server that runs may read or write a little at any time.
const LEFT_MAX: Part = Part { share: 0.01, bytes: 64 << 10 };

/// What may be in memory besides, of files that a server has mapped.
const MAPPED_MAX: Part = Part { share: 0.1, bytes: 16 << 20 };

impl Part {
    fn of(&self, all: u64) -> f64 {
        (all as f64 * self.share).max(self.bytes as f64)
    }
}

/// How often pages are dropped until they are gone. One that is being read or written stays.
const TRIES: u32 = 3;

/// The least share of warm files that is in memory, if there is room for so many bytes twice.
const WARM_SHARE_MIN: f64 = 0.99;

/// Why the page cache is not as the plan asks.
#[derive(Debug, Error)]
pub(crate) enum PageCacheError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Nobody says what is in memory.
    #[error("what is in memory of the records' files is read back by fincore (util-linux), which fails: {0}")]
    NotReadBack(String),
    /// Pages stay in memory.
    #[error(
        "the page cache is not cold: {left} of {all} bytes of the records' files are in memory, and {mapped} of \
         files that the server has mapped (Cassandra maps none with disk_access_mode = \"standard\")"
    )]
    NotCold {
        /// Bytes that are in memory, of files that nobody has mapped.
        left: u64,
        /// Those of files that the server has mapped.
        mapped: u64,
        /// Bytes of all files.
        all: u64,
    },
    /// Pages are missing.
    #[error("the page cache is not warm: {held} of {all} bytes of the records' files are in memory")]
    NotWarm {
        /// Bytes that are in memory.
        held: u64,
        /// Bytes of all files.
        all: u64,
    },
}

impl PageCache {
    /// Fails if this machine has no program that reads back what the plan asks for.
    pub(crate) fn can_be_read_back(self) -> Result<(), PageCacheError> {
        match self {
            Self::Cold | Self::Warm => fincore(["--version"]).map(drop),
            Self::AsLeft => Ok(()),
        }
    }

    /// Lets Linux have none or all of these files of some servers in memory, reads that back, and
    /// returns the share that it has; `None` if the plan does not ask for any and nobody says it. The
    /// call blocks.
    pub(crate) fn reach(
        self,
        files: impl Iterator<Item = PathBuf>,
        servers: &[u32],
    ) -> Result<Option<f64>, PageCacheError> {
        let files: Vec<_> = files.collect();
        let held = match self {
            Self::AsLeft => in_memory(&files).ok(),
            Self::Cold => Some(make_cold(&files, servers)?),
            Self::Warm => Some(make_warm(&files)?),
        };
        let all = bytes(&files)?;
        // Whole pages are in memory, also of what is shorter.
        Ok(held.filter(|_| all > 0).map(|held| (held as f64 / all as f64).min(1.0)))
    }
}

/// Drops pages, and returns the bytes that are in memory all the same.
fn make_cold(files: &[PathBuf], servers: &[u32]) -> Result<u64, PageCacheError> {
    let (mut left, mut mapped, mut all) = (0, 0, 0);
    for _ in 0..TRIES {
        files.iter().try_for_each(|path| with_file(path, forget))?;
        let of_servers = mapped_by(servers);
        let is_mapped = |path: &&PathBuf| path.canonicalize().is_ok_and(|path| of_servers.contains(&path));
        let (are_mapped, others): (Vec<_>, Vec<_>) = files.iter().partition(is_mapped);
        left = in_memory(&others)?;
        mapped = in_memory(&are_mapped)?;
        all = bytes(files)?;
        if is_cold(left, mapped, all) {
            return Ok(left + mapped);
        }
    }
    Err(PageCacheError::NotCold { left, mapped, all })
}

/// Whether so few bytes are in memory, of files that nobody has mapped and of mapped ones.
fn is_cold(left: u64, mapped: u64, all: u64) -> bool {
    left as f64 <= LEFT_MAX.of(all) && mapped as f64 <= MAPPED_MAX.of(all)
}

/// Reads files, and returns the bytes that are in memory then.
fn make_warm(files: &[PathBuf]) -> Result<u64, PageCacheError> {
    files.iter().try_for_each(|path| with_file(path, |mut file| io::copy(&mut file, &mut io::sink()).map(drop)))?;
    let (held, all) = (in_memory(files)?, bytes(files)?);
    let available = procfs::Meminfo::current().ok().and_then(|memory| memory.mem_available);
    let has_room = available.is_some_and(|available| all <= available / 2);
    if has_room && (held as f64) < all as f64 * WARM_SHARE_MIN {
        return Err(PageCacheError::NotWarm { held, all });
    }
    Ok(held)
}

/// Asks Linux to drop a file's pages (posix_fadvise(2)).
fn forget(file: File) -> io::Result<()> {
    // Only pages that are on the disk can be dropped.
    file.sync_all()?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

/// The files that some processes have mapped; none of those that have ended or may not be asked.
fn mapped_by(processes: &[u32]) -> BTreeSet<PathBuf> {
    let running = processes.iter().filter_map(|pid| Process::new(i32::try_from(*pid).ok()?).ok());
    let maps = running.filter_map(|process| process.maps().ok()).flatten();
    let file = |pathname: MMapPath| match pathname {
        MMapPath::Path(path) => Some(path),
        _ => None,
    };
    maps.filter_map(|map| file(map.pathname)).collect()
}

/// Does something with a file. One that was deleted meanwhile has nothing of anything.
fn with_file<T: Default>(path: &Path, does: impl FnOnce(File) -> io::Result<T>) -> Result<T, PageCacheError> {
    match File::open(path).and_then(does) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        done => done.map_err(|error| PageCacheError::File { path: path.to_owned(), error }),
    }
}

/// Bytes of files.
fn bytes(files: &[PathBuf]) -> Result<u64, PageCacheError> {
    files.iter().map(|path| with_file(path, |file| Ok(file.metadata()?.len()))).sum()
}

/// Bytes of files that are in memory. Files that are deleted meanwhile have none.
fn in_memory(files: &[impl AsRef<Path>]) -> Result<u64, PageCacheError> {
    let mut held = 0;
    for files in files.chunks(FILES_AT_ONCE) {
        let options = ["--bytes", "--noheadings", "--output", "RES", "--"].map(OsStr::new);
        let done = fincore(options.into_iter().chain(files.iter().map(|file| file.as_ref().as_os_str())))?;
        // A line for each file that it could open.
        let printed = String::from_utf8_lossy(&done.stdout);
        let sizes: Result<Vec<u64>, _> = printed.lines().map(|line| line.trim().parse()).collect();
        match sizes {
            Ok(sizes) if sizes.len() >= files.iter().filter(|file| file.as_ref().exists()).count() => {
                held += sizes.iter().sum::<u64>();
            }
            _ => {
                let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                return Err(PageCacheError::NotReadBack(said));
            }
        }
    }
    Ok(held)
}

fn fincore(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Output, PageCacheError> {
    Command::new(FINCORE).args(words).output().map_err(|error| PageCacheError::NotReadBack(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use super::*;

    /// Whole pages, also where these are large.
    const BYTES: usize = 1 << 16;

    /// Whether `fincore` is there. If not, that is reported, and is a failure if `CI` is set.
    fn has_fincore() -> bool {
        let Err(missing) = PageCache::Cold.can_be_read_back() else { return true };
        assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {missing}");
        eprintln!("not run: {missing}");
        if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
            let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
            writeln!(list, "{missing}").unwrap();
        }
        false
    }

    /// The folder of this program: it is on a disk as a rule.
    fn on_disk() -> tempfile::TempDir {
        tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
    }

    fn written(folder: &Path) -> Vec<PathBuf> {
        let write = |name: &str| {
            let path = folder.join(name);
            std::fs::write(&path, vec![7; BYTES]).unwrap();
            path
        };
        ["one", "and two", "--three"].map(write).into()
    }

    /// Whether a folder is in memory (tmpfs), so that its files never become cold.
    fn stays(folder: &Path) -> bool {
        rustix::fs::statfs(folder).unwrap().f_type == 0x0102_1994
    }

    #[test]
    fn files_on_a_disk_become_cold_and_those_of_a_file_system_in_memory_are_refused() {
        if !has_fincore() {
            return;
        }
        let in_shm = tempfile::tempdir_in("/dev/shm").ok();
        for folder in [Some(on_disk()), in_shm].into_iter().flatten() {
            let files = written(folder.path());
            let all = (files.len() * BYTES) as u64;
            let deleted = folder.path().join("deleted meanwhile");
            let reached = PageCache::Cold.reach(files.iter().chain([&deleted]).cloned(), &[]);
            if !stays(folder.path()) {
                let share = reached.unwrap();
                assert!(share.is_some_and(|share| share < 0.5), "{share:?}");
                assert_eq!(PageCache::Warm.reach(files.iter().cloned(), &[]).unwrap(), Some(1.0));
                continue;
            }
            let refused = reached.unwrap_err().to_string();
            assert!(refused.contains(&format!("not cold: {all} of {all} bytes")), "{refused}");
            assert_eq!(PageCache::AsLeft.reach(files.iter().cloned(), &[]).unwrap(), Some(1.0));
            // More files than are asked for at once.
            let often = vec![files; FILES_AT_ONCE].concat();
            assert_eq!(in_memory(&often).unwrap(), FILES_AT_ONCE as u64 * all);
        }
    }

    #[test]
    fn files_that_a_server_has_mapped_are_counted_apart() {
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        assert!(mapped_by(&[u32::MAX, std::process::id()]).contains(&own), "a program has its own file mapped");
        let (kib, mib) = (1_u64 << 10, 1_u64 << 20);
        // Of a small table one page is more than a hundredth, and indexes are more than a tenth.
        assert!(is_cold(64 * kib, 200 * kib, 300 * kib) && !is_cold(65 * kib, 0, 300 * kib));
        assert!(is_cold(10 * mib, 100 * mib, 1_000 * mib));
        assert!(!is_cold(11 * mib, 0, 1_000 * mib) && !is_cold(0, 101 * mib, 1_000 * mib));
    }

    #[test]
    fn a_folder_in_the_place_of_a_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let refused = PageCache::Warm.reach([folder.path().to_owned()].into_iter(), &[]).unwrap_err().to_string();
        assert!(refused.contains(folder.path().to_str().unwrap()), "{refused}");
    }
}
