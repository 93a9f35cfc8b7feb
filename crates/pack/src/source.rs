//! Where the frames of an archive come from.

use crate::{FrameError, PageMember};
use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;

/// Reads an archive's members and frames. Groups are named by their index in
/// [`Archive::groups`](crate::Archive::groups), pages by their index in the order of the group.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Error of reading.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The members of exactly these pages of a group with
    /// [`GroupPages::All`](crate::GroupPages::All), in METS order. It is called for at most
    /// [`MEMBERS_PER_CALL`]. Within a pass groups are asked for in order.
    async fn members(&self, pass: Pass, group: usize, pages: Range<u32>) -> Result<Vec<PageMember>, Self::Error>;

    /// The frames of the first of these pages of a group: at least one, and at most as many as fit
    /// into `max_bytes` (or one that is larger). Frames and METS are read in
    /// [`Pass::Contents`] only.
    async fn frames(&self, group: usize, pages: Range<u32>, max_bytes: usize) -> Result<Vec<Bytes>, Self::Error>;

    /// The frame of a group's METS document.
    async fn mets_frame(&self, group: usize) -> Result<Bytes, Self::Error>;

    /// Called before the first byte of a group's contents is produced, so that an audit can be
    /// written ahead.
    async fn before_group(&self, group: usize) -> Result<(), Self::Error>;

    /// Most bytes of the next piece of the stream (usually 64 to 256 KiB). Called before each
    /// piece.
    fn piece_bytes(&self) -> usize;

    /// Report mode only: whether to leave out a page whose frame cannot be read for this reason.
    fn omit(&self, group: usize, page: u32, error: &Self::Error) -> bool {
        let _ = (group, page, error);
        false
    }

    /// Report mode only: whether to leave out the METS document of a group that cannot be read for
    /// this reason.
    fn omit_mets(&self, group: usize, error: &Self::Error) -> bool {
        let _ = (group, error);
        false
    }

    /// Called for a frame that does not match its member (`None`: the METS document's), before the
    /// stream ends with [`ArchiveError::Damaged`]. In report mode it returns whether to leave the
    /// frame out instead.
    fn omit_damaged(&self, group: usize, page: Option<u32>, error: &FrameError) -> bool {
        let _ = (group, page, error);
        false
    }

    /// Report mode only, called when all else is sent: the whole text of `ERROR.err`, if something
    /// was left out that [`Archive::errors`](crate::Archive::errors) does not contain.
    fn late_errors(&self) -> Option<Bytes> {
        None
    }
}

/// What members are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The length of the archive and the offsets in it, before anything is sent. Only a group that
    /// crosses 4 GiB is read, and only if each of its pages is an entry.
    Lengths,
    /// The contents of the groups that are sent.
    Contents,
    /// The central directory, after all contents. Only groups are read of which each page is an
    /// entry, and only if the archive's length is known.
    Directory,
}

/// The most members that [`Source::members`] is asked for at once.
pub const MEMBERS_PER_CALL: u32 = 1_024;

/// Why a stream ends before its end.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError<E: std::error::Error + 'static> {
    /// The source failed.
    #[error(transparent)]
    Source(E),
    /// A frame does not match its member.
    #[error("a frame of {group} is damaged: {error}")]
    Damaged {
        /// Name of the group.
        group: Box<str>,
        /// What is wrong with it.
        error: FrameError,
    },
    /// The source contradicts the archive.
    #[error("the source does not agree with the archive about {group}: {reason}")]
    Mismatch {
        /// Name of the group.
        group: Box<str>,
        /// What does not agree.
        reason: &'static str,
    },
    /// A range of an archive of unknown length was requested, or one outside the archive.
    #[error("bytes {start} to {end} are not a range of this archive")]
    Range {
        /// First requested byte.
        start: u64,
        /// The byte after the last requested one.
        end: u64,
    },
    /// A compressing job panicked or could not start (no threads), or no one reads the stream.
    #[error("compressing was interrupted")]
    Interrupted,
}
