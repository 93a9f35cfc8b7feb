//! Room on the disk: writes are refused before the disk is full, because a failed journal write poisons the engine.

use std::path::PathBuf;

use store::{StoreError, StoreResult};

/// Watches the room of the file system that holds the data folder.
#[derive(Debug)]
pub(crate) struct Room {
    folder: PathBuf,
    headroom_bytes: u64,
}

/// What a write does to the room. As the disk fills, bulk is refused first, so that reading (which is audited) and deleting go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It takes much room for good.
    Adds,
    /// It takes little room: a head, marks, a pin.
    AddsLittle,
    /// It only removes, and needs a little room now to give back more later; or it records who read what.
    GivesBack,
}

impl Room {
    pub(crate) fn new(folder: PathBuf, headroom_bytes: u64) -> Self {
        Self { folder, headroom_bytes }
    }

    /// Free bytes; `None`: the operating system does not tell.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let room = rustix::fs::statvfs(&self.folder).ok()?;
        Some(room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// Refuses a write of `bytes` that would use up the headroom while `free_bytes` are free.
    pub(crate) fn check(&self, free_bytes: Option<u64>, bytes: u64, use_: Use) -> StoreResult<()> {
        let needed = match use_ {
            Use::Adds => self.headroom_bytes,
            Use::AddsLittle => self.headroom_bytes / 2,
            Use::GivesBack => self.headroom_bytes / 4,
        };
        match free_bytes {
            Some(free) if free.saturating_sub(bytes) < needed => Err(StoreError::Full(format!(
                "{} has {free} bytes left, {needed} are kept free",
                self.folder.display()
            ))),
            _ => Ok(()),
        }
    }
}
