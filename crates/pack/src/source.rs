//! Where the frames of an archive come from.

use crate::{FrameError, PageMember};
use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;

/// Where an archive's members and frames come from. Groups are named by their index in
/// [`Archive::groups`](crate::Archive::groups), pages by their index in the order of the group.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// What reading can fail with.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The members of exactly these pages of a group of [`GroupPages::All`](crate::GroupPages::All), in METS order; at most
    /// [`MEMBERS_PER_CALL`] of them.
    async fn members(&self, group: usize, pages: Range<u32>) -> Result<Vec<PageMember>, Self::Error>;

    /// The frames of the first of these pages of a group: at least one, and at most as many as fit `max_bytes` (or one, if
    /// it is larger).
    async fn frames(&self, group: usize, pages: Range<u32>, max_bytes: usize) -> Result<Vec<Bytes>, Self::Error>;

    /// The frame of a group's METS document.
    async fn mets_frame(&self, group: usize) -> Result<Bytes, Self::Error>;

    /// Called before the first byte of a group's contents is produced (the place for an audit that is written ahead).
    async fn before_group(&self, group: usize) -> Result<(), Self::Error>;

    /// How many bytes a piece of the stream may have now (usually 64 to 256 KiB); asked before each piece.
    fn piece_bytes(&self) -> usize;

    /// Report mode only: whether a page whose frame cannot be read for this reason is left out.
    fn omit(&self, group: usize, page: u32, error: &Self::Error) -> bool {
        let _ = (group, page, error);
        false
    }

    /// Report mode only: whether the METS document of a group that cannot be read for this reason is left out.
    fn omit_mets(&self, group: usize, error: &Self::Error) -> bool {
        let _ = (group, error);
        false
    }

    /// Told of a frame that is not what its member says (`None`: the METS document's), before the stream ends with
    /// [`ArchiveError::Damaged`]. In report mode: whether it is left out instead.
    fn omit_damaged(&self, group: usize, page: Option<u32>, error: &FrameError) -> bool {
        let _ = (group, page, error);
        false
    }

    /// Report mode only: asked when all else is sent. The whole text of `ERROR.err`, if it has to say more than
    /// [`Archive::errors`](crate::Archive::errors) does, because something was left out.
    fn late_errors(&self) -> Option<Bytes> {
        None
    }
}

/// The most members that [`Source::members`] is asked for at once.
pub const MEMBERS_PER_CALL: u32 = 1_024;

/// Why a stream ends before its end.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError<E: std::error::Error + 'static> {
    /// The source failed.
    #[error(transparent)]
    Source(E),
    /// A frame is not what its member says.
    #[error("a frame of {group} is damaged: {error}")]
    Damaged {
        /// Name of the group.
        group: Box<str>,
        /// What is wrong with it.
        error: FrameError,
    },
    /// The source answered something else than the archive promises.
    #[error("the source does not agree with the archive about {group}: {reason}")]
    Mismatch {
        /// Name of the group.
        group: Box<str>,
        /// What does not agree.
        reason: &'static str,
    },
    /// A part was asked for of an archive whose length is not known, or one that lies outside it.
    #[error("bytes {start} to {end} cannot be asked of this archive")]
    Range {
        /// First byte asked for.
        start: u64,
        /// The byte after the last one asked for.
        end: u64,
    },
    /// A job that compresses panicked or could not begin (no threads), or nobody takes the pieces any more.
    #[error("compressing was broken off")]
    Interrupted,
}
