//! Reads a content in pieces of its file and checks each block before it is returned.

use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use store::{ContentId, ContentStream, Deadline, StoreError, StoreResult, Table, UnixMillis};

use crate::blocking::blocking;
use crate::database::Database;
use crate::once::Ahead;
use crate::sums::{self, BLOCK_BYTES, SUMS_OF_A_ROW, SumsRow, sums_in};

/// Blocks that one read of a file covers.
const PIECE_BLOCKS: u64 = 4;

/// The same for a reader that reads everything once. The disk reads some pieces ahead for it, so
/// long ones keep it at work.
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
        let ahead = self.is_once.then(|| Ahead::new(self.file.clone()));
        let pieces = futures::stream::try_unfold((self, ahead), |(mut reading, mut ahead)| async move {
            let piece = reading.next(&mut ahead).await?;
            Ok(piece.map(|piece| (piece, (reading, ahead))))
        });
        pieces.boxed()
    }

    async fn next(&mut self, ahead: &mut Option<Ahead>) -> StoreResult<Option<Bytes>> {
        let coming = self.coming();
        let Some(piece) = self.coming().next() else { return Ok(None) };
        let deadline = Deadline::within(self.step);
        let first = piece.start / BLOCK_BYTES;
        let sums = self.sums_of(deadline, first).await?;
        let (id, file, len) = (self.id, self.file.clone(), (piece.end - piece.start) as usize);
        // If the read fails, nothing further is read, and what was read ahead is dropped with it.
        let mut taken = ahead.take();
        let read = move || {
            let read = || sums.read(id, &file, first, len);
            let blocks = match &mut taken {
                Some(ahead) => ahead.read(coming, read)?,
                None => read()?,
            };
            Ok((blocks, taken))
        };
        let (blocks, taken) = blocking(deadline, read).await?;
        *ahead = taken;
        let until = self.left.end.min(piece.end);
        let wanted = blocks.slice((self.left.start - piece.start) as usize..(until - piece.start) as usize);
        self.left.start = until;
        Ok(Some(wanted))
    }

    /// The bytes of the pieces that are still to be read, in whole blocks.
    fn coming(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let most = if self.is_once { PIECE_BLOCKS_ONCE } else { PIECE_BLOCKS };
        let (end, len) = (self.left.end.div_ceil(BLOCK_BYTES), self.len);
        let piece = move |first: u64| {
            // The checksums of a piece are in one row.
            let row_end = (sums::row_of(first) + 1) * SUMS_OF_A_ROW;
            first..(first + most).min(end).min(row_end)
        };
        let first = (!self.left.is_empty()).then(|| piece(self.left.start / BLOCK_BYTES));
        let blocks = std::iter::successors(first, move |before| (before.end < end).then(|| piece(before.end)));
        blocks.map(move |blocks| blocks.start * BLOCK_BYTES..(blocks.end * BLOCK_BYTES).min(len))
    }

    /// The row that holds the checksum of a block.
    async fn sums_of(&mut self, deadline: Deadline, block: u64) -> StoreResult<SumsRow> {
        let number = sums::row_of(block);
        if let Some(sums) = self.sums.as_ref().filter(|sums| sums.number == number) {
            return Ok(sums.clone());
        }
        let (id, now, is_once) = (self.id, self.now, self.is_once);
        let database =
            self.database.upgrade().ok_or_else(|| StoreError::Unavailable("the store is closed".to_owned()))?;
        let read = move || sums_in(&database.tables.of(Table::Contents.lane()).view_of(is_once), id, number, now);
        let sums = blocking(deadline, read).await?;
        Ok(self.sums.insert(sums).clone())
    }
}
