//! Disk space: writes are refused before the disk is full, because a failed journal write poisons
//! the engine.
//!
//! As the disk fills, bulk is refused first, then small writes, then removals, and last the audit,
//! since nothing is served without it. A file reserves space for the audit. It is released piece by
//! piece when others have used up the rest, so that reading goes on to the last byte.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::FallocateFlags;
use store::{NoRoom, StoreError, StoreResult};

use crate::private;

/// The largest reserve: some hundred thousand audit entries, with the space that the engine needs
/// to merge them.
const RESERVE_BYTES_MAX: u64 = 64 << 20;

/// What opening a store may write.
const OPENING_BYTES: u64 = 16 << 20;

/// Watches the free space of the file system that holds the data folder.
#[derive(Debug)]
pub(crate) struct Room {
    folder: PathBuf,
    headroom_bytes: u64,
    reserve: Mutex<Reserve>,
}

/// The effect of a write on disk space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It needs much space permanently, or is one of very many writes.
    Adds,
    /// It needs little space: a head, marks, a pin.
    AddsLittle,
    /// It removes, or is a step of a removal: it needs a little space now to free more later.
    GivesBack,
    /// It records who read what.
    Audits,
}

impl Use {
    /// What has this effect, in the words of operators.
    fn name(self) -> &'static str {
        match self {
            Self::Adds => "imports, large contents and changes of records",
            Self::AddsLittle => "changes other than deletions",
            Self::GivesBack => "deletions",
            Self::Audits => "the audit",
        }
    }
}

/// Whole mebibytes.
fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

impl Room {
    /// Watches `folder`, and keeps a reserve there if there is space for it.
    pub(crate) fn new(folder: PathBuf, headroom_bytes: u64) -> Self {
        let reserve = Reserve::open(&folder, (headroom_bytes / 8).min(RESERVE_BYTES_MAX));
        let room = Self { folder, headroom_bytes, reserve: Mutex::new(reserve) };
        if let Some(free) = room.free_bytes() {
            room.fill_reserve(free.saturating_sub(headroom_bytes));
        }
        room
    }

    /// Free bytes; `None`: the operating system does not report them.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let room = rustix::fs::statvfs(&self.folder).ok()?;
        Some(room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// Bytes of the file system, used and free; `None`: the operating system does not report them.
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        let room = rustix::fs::statvfs(&self.folder).ok()?;
        Some(room.f_blocks.saturating_mul(room.f_frsize))
    }

    /// Refuses a write of `bytes` that would use space that is kept free for others, while
    /// `free_bytes` are free.
    pub(crate) fn check(&self, free_bytes: Option<u64>, bytes: u64, use_: Use) -> StoreResult<()> {
        let Some(free) = free_bytes else { return Ok(()) };
        let mut left = free.saturating_sub(bytes);
        let kept_free = self.kept_free(use_);
        if use_ == Use::Audits {
            left += self.reserve.lock().give_up((self.headroom_bytes / 16).saturating_sub(left));
        } else if left >= self.headroom_bytes {
            self.fill_reserve(left - self.headroom_bytes);
        }
        if left < kept_free {
            let (left, what) = (self.left(left), use_.name());
            return Err(StoreError::Full(format!("{left}, and {what} must leave {} MiB", mib(kept_free))));
        }
        Ok(())
    }

    /// What is refused while `free_bytes` are free, and how full the disk is.
    pub(crate) fn refused(&self, free_bytes: Option<u64>) -> Option<(NoRoom, String)> {
        let free = free_bytes?;
        let kinds = [
            (Use::GivesBack, NoRoom::ForRemovals),
            (Use::AddsLittle, NoRoom::ForChanges),
            (Use::Adds, NoRoom::ForMuch),
        ];
        let (_, refused) = kinds.into_iter().find(|(use_, _)| free < self.kept_free(*use_))?;
        Some((refused, self.left(free)))
    }

    /// Bytes that a write must leave free.
    fn kept_free(&self, use_: Use) -> u64 {
        match use_ {
            Use::Adds => self.headroom_bytes,
            Use::AddsLittle => self.headroom_bytes / 2,
            Use::GivesBack => self.headroom_bytes / 4,
            Use::Audits => self.headroom_bytes / 512,
        }
    }

    fn left(&self, bytes: u64) -> String {
        format!("the disk of {} has {} MiB left", self.folder.display(), mib(bytes))
    }

    fn fill_reserve(&self, room: u64) {
        let mut reserve = self.reserve.lock();
        if let Err(error) = reserve.fill(room) {
            // Without it the audit ends a little earlier than reading could.
            tracing::warn!(%error, file = %reserve.path.display(), "no disk space can be reserved for the audit");
            reserve.whole = 0;
        }
    }
}

/// Makes room for opening a store on a disk that others have filled: opening writes a little, and
/// without it nothing could be read.
pub(crate) fn provide_for_opening(folder: &Path) {
    let free = rustix::fs::statvfs(folder).map(|room| room.f_bavail.saturating_mul(room.f_frsize));
    give_for_opening(folder, free.unwrap_or(OPENING_BYTES));
}

fn give_for_opening(folder: &Path, free_bytes: u64) {
    Reserve::open(folder, 0).give_up(OPENING_BYTES.saturating_sub(free_bytes));
}

/// A file without data that reserves disk space.
#[derive(Debug)]
struct Reserve {
    path: PathBuf,
    /// Bytes that it has.
    held: u64,
    /// Bytes that it should have.
    whole: u64,
}

impl Reserve {
    fn open(folder: &Path, whole: u64) -> Self {
        let path = folder.join("reserve");
        let held = fs::metadata(&path).map_or(0, |found| found.len());
        Self { path, held, whole }
    }

    /// Fills it, if `room` has enough bytes.
    fn fill(&mut self, room: u64) -> io::Result<()> {
        if self.held == self.whole || room < self.whole.saturating_sub(self.held) {
            return Ok(());
        }
        let file = private::open_or_create(&self.path)?;
        if self.held > self.whole {
            file.set_len(self.whole)?;
        } else {
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, self.whole)?;
        }
        self.held = self.whole;
        Ok(())
    }

    /// Releases this number of bytes, or all that are left. Returns how many those were.
    fn give_up(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.held);
        let shrink = || File::options().write(true).open(&self.path)?.set_len(self.held - bytes);
        if bytes == 0 {
            return 0;
        }
        match shrink() {
            Ok(()) => {
                self.held -= bytes;
                bytes
            }
            Err(error) => {
                tracing::warn!(%error, file = %self.path.display(), "the disk space reserved for the audit cannot be released");
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const HEADROOM: u64 = 1 << 20;

    #[test]
    fn bulk_is_refused_first_then_small_writes_then_removals_and_the_audit_last() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::new(folder.path().to_path_buf(), HEADROOM);
        let in_turn = [Use::Adds, Use::AddsLittle, Use::GivesBack, Use::Audits];
        let refused = |free| in_turn.map(|use_| room.check(Some(free), 0, use_).is_err());
        assert_eq!(refused(HEADROOM), [false; 4]);
        assert_eq!(refused(HEADROOM - 1), [true, false, false, false]);
        assert_eq!(refused(HEADROOM / 2 - 1), [true, true, false, false]);
        assert_eq!(refused(HEADROOM / 4 - 1), [true, true, true, false]);
    }

    #[test]
    fn what_is_refused_is_known_before_it_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::new(folder.path().to_path_buf(), HEADROOM);
        let refused = |free| room.refused(Some(free)).map(|(refused, _)| refused);
        assert_eq!(refused(HEADROOM), None);
        assert_eq!(refused(HEADROOM - 1), Some(NoRoom::ForMuch));
        assert_eq!(refused(HEADROOM / 2 - 1), Some(NoRoom::ForChanges));
        assert_eq!(refused(HEADROOM / 4 - 1), Some(NoRoom::ForRemovals));
        assert_eq!(room.refused(None), None);
    }

    #[test]
    fn opening_takes_from_the_reserve_what_it_needs_and_is_not_free() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = folder.path().join("reserve");
        give_for_opening(folder.path(), 0);
        assert!(!reserve.exists(), "without a reserve there is nothing to give");
        File::create(&reserve).unwrap().set_len(OPENING_BYTES + 100).unwrap();
        let reserved = || fs::metadata(&reserve).unwrap().len();
        give_for_opening(folder.path(), OPENING_BYTES);
        assert_eq!(reserved(), OPENING_BYTES + 100);
        give_for_opening(folder.path(), OPENING_BYTES - 1);
        assert_eq!(reserved(), OPENING_BYTES + 99);
        give_for_opening(folder.path(), 0);
        assert_eq!(reserved(), 99);
        give_for_opening(folder.path(), 0);
        assert_eq!(reserved(), 0, "all that is left");
    }

    #[test]
    fn the_audit_uses_its_reserve_until_that_is_used_up_and_reserved_again() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = folder.path().join("reserve");
        // In blocks of 512 bytes: space that is really allocated.
        let reserved = || fs::metadata(&reserve).unwrap().blocks() * 512;
        let room = Room::new(folder.path().to_path_buf(), HEADROOM);
        assert_eq!(reserved(), HEADROOM / 8);
        // Others have used all the rest, and use what is released too.
        let mut audited = 0;
        while room.check(Some(0), 100, Use::Audits).is_ok() {
            audited += 1;
            assert!(room.check(Some(0), 100, Use::GivesBack).is_err());
        }
        assert_eq!((audited, reserved()), (2, 0));
        // A start without space does not take space that is not there.
        let room = Room { reserve: Mutex::new(Reserve::open(folder.path(), HEADROOM / 8)), ..room };
        room.check(Some(HEADROOM), 0, Use::Adds).unwrap();
        assert_eq!(reserved(), 0);
        room.check(Some(2 * HEADROOM), 0, Use::Adds).unwrap();
        assert_eq!(reserved(), HEADROOM / 8);
    }
}
