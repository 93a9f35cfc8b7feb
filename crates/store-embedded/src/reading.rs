//! Reads a content in pieces of its file and checks each block before it is returned.

use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use store::{ContentId, ContentStream, Deadline, StoreError, StoreResult, Table, UnixMillis};

use crate::database::{Database, blocking};
use crate::once;
use crate::sums::{self, BLOCK_BYTES, SUMS_OF_A_ROW, SumsRow, sums_in};

/// Blocks that one read of a file covers.
const PIECE_BLOCKS: u64 = 4;

/// The same for a reader that reads everything once. The system does not read ahead for it, so each
/// read has to be long enough to keep the disk at work.
const PIECE_BLOCKS_ONCE: u64 = 16;

/// A sealed content that is being read.
pub(crate) struct Reading {
    pub(crate) id: ContentId,
    pub(crate) file: Arc<std::fs::File>,
    /// Bytes of the whole content.
    pub(crate) len: u64,
    /// The range that is still to be read.
    pub(crate) left: Range<u64>,
    /// The checksums that were read last.
    pub(crate) sums: Option<SumsRow>,
    /// For further checksums. It is weak, so that a long download does not prevent closing.
    pub(crate) database: Weak<Database>,
    pub(crate) now: UnixMillis,
    /// The time limit of each piece.
    pub(crate) step: Duration,
    /// Whether its reader reads everything once: then the system's cache keeps nothing for it.
    pub(crate) is_once: bool,
}

impl Reading {
    pub(crate) fn pieces(self) -> ContentStream {
        let pieces = futures::stream::try_unfold(self, |mut reading| async move {
            let piece = reading.next().await?;
            Ok(piece.map(|piece| (piece, reading)))
        });
        pieces.boxed()
    }

    async fn next(&mut self) -> StoreResult<Option<Bytes>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let deadline = Deadline::within(self.step);
        let first = self.left.start / BLOCK_BYTES;
        let sums = self.sums_of(deadline, first).await?;
        let row_end = (sums.number + 1) * SUMS_OF_A_ROW;
        let piece_blocks = if self.is_once { PIECE_BLOCKS_ONCE } else { PIECE_BLOCKS };
        let end = (first + piece_blocks).min(self.left.end.div_ceil(BLOCK_BYTES)).min(row_end);
        let (begins_at, ends_at) = (first * BLOCK_BYTES, (end * BLOCK_BYTES).min(self.len));
        let (id, file, is_once) = (self.id, self.file.clone(), self.is_once);
        let read = move || match is_once {
            true => {
                once::read(&file, begins_at..ends_at, || sums.read(id, &file, first, (ends_at - begins_at) as usize))
            }
            false => sums.read(id, &file, first, (ends_at - begins_at) as usize),
        };
        let blocks = blocking(deadline, read).await?;
        let until = self.left.end.min(ends_at);
        let piece = blocks.slice((self.left.start - begins_at) as usize..(until - begins_at) as usize);
        self.left.start = until;
        Ok(Some(piece))
    }

    /// The row that holds the checksum of a block.
    async fn sums_of(&mut self, deadline: Deadline, block: u64) -> StoreResult<SumsRow> {
        let number = sums::row_of(block);
        if let Some(sums) = self.sums.as_ref().filter(|sums| sums.number == number) {
            return Ok(sums.clone());
        }
        let (id, now) = (self.id, self.now);
        let database =
            self.database.upgrade().ok_or_else(|| StoreError::Unavailable("the store is closed".to_owned()))?;
        let read = move || sums_in(&database.tables.of(Table::Contents.lane())?.view(), id, number, now);
        let sums = blocking(deadline, read).await?;
        Ok(self.sums.insert(sums).clone())
    }
}
