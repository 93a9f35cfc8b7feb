//! Checksums of the blocks of contents. They are rows beside the content's header, so that damage
//! to its file does not damage them, and they exist whenever the header says that the content is
//! sealed.
//!
//! ```text
//! partition  the content's id
//! sort key   `sums`, then the number of the row: four bytes, big-endian
//! value      sealed: the checksum of each block, four bytes each, little-endian
//! ```
//!
//! A checksum is the CRC-32 (IEEE) of the content's id, the block's number (eight bytes,
//! big-endian) and the block's bytes. So a block of another content, or of another place in the
//! same one, fails. The checksums cost four bytes per 64 KiB, and about 0.1 s of CPU time per GB
//! that is read or written.

use std::io;
use std::os::unix::fs::FileExt;

use bytes::{BufMut, Bytes, BytesMut};
use store::content::{SUMMED_BYTES, SUMS_BYTES_MAX};
use store::{ContentId, NewRow, StoreError, StoreResult, Table, UnixMillis, ValueKind, envelope};

use crate::header::corrupt;
use crate::read;
use crate::tables::{View, is_unreadable};

/// Bytes of each block but the last.
pub(crate) const BLOCK_BYTES: u64 = 64 << 10;

/// Checksums of each row but the last: those of 256 MiB.
pub(crate) const SUMS_OF_A_ROW: u64 = 4 << 10;

/// Bytes of one checksum.
const SUM_BYTES: usize = 4;

const _: () = assert!(SUMS_OF_A_ROW as usize * SUM_BYTES <= SUMS_BYTES_MAX);
const _: () = assert!(SUMS_OF_A_ROW * BLOCK_BYTES >= SUMMED_BYTES);

/// What the sort keys of these rows begin with.
const PREFIX: &[u8] = b"sums";

/// The number of the row that holds the checksum of a block.
pub(crate) fn row_of(block: u64) -> u64 {
    block / SUMS_OF_A_ROW
}

/// The sort key of a row.
pub(crate) fn key(row: u64) -> StoreResult<Bytes> {
    let number = u32::try_from(row).map_err(|_| StoreError::Limit {
        what: "blocks of a content",
        actual: row.saturating_mul(SUMS_OF_A_ROW),
        max: u64::from(u32::MAX) * SUMS_OF_A_ROW,
    })?;
    Ok([PREFIX, &number.to_be_bytes()].concat().into())
}

fn begin(id: ContentId, block: u64) -> crc32fast::Hasher {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.0);
    hasher.update(&block.to_be_bytes());
    hasher
}

/// Computes the checksums of a content while its bytes come in.
pub(crate) struct Summing {
    id: ContentId,
    hasher: crc32fast::Hasher,
    /// The number of the current block, and how many of its bytes were seen.
    block: u64,
    seen: u64,
    /// Checksums that are in no row yet.
    sums: BytesMut,
}

impl Summing {
    pub(crate) fn new(id: ContentId) -> Self {
        Self { id, hasher: begin(id, 0), block: 0, seen: 0, sums: BytesMut::new() }
    }

    /// Adds the next bytes. Returns the rows that are now full.
    pub(crate) fn update(&mut self, mut piece: &[u8]) -> StoreResult<Vec<NewRow>> {
        let mut full = Vec::new();
        while !piece.is_empty() {
            let left = usize::try_from(BLOCK_BYTES - self.seen).unwrap_or(usize::MAX);
            let (part, rest) = piece.split_at(left.min(piece.len()));
            self.hasher.update(part);
            self.seen += part.len() as u64;
            piece = rest;
            if self.seen == BLOCK_BYTES {
                full.extend(self.end_block()?);
            }
        }
        Ok(full)
    }

    /// The last row, if there is one.
    pub(crate) fn end(mut self) -> StoreResult<Option<NewRow>> {
        let full = if self.seen > 0 { self.end_block()? } else { None };
        match (full, self.sums.is_empty()) {
            (Some(full), _) => Ok(Some(full)),
            (None, true) => Ok(None),
            (None, false) => self.end_row(self.block - 1).map(Some),
        }
    }

    fn end_block(&mut self) -> StoreResult<Option<NewRow>> {
        let ended = self.block;
        self.block += 1;
        self.seen = 0;
        let hasher = std::mem::replace(&mut self.hasher, begin(self.id, self.block));
        self.sums.put_u32_le(hasher.finalize());
        if self.block.is_multiple_of(SUMS_OF_A_ROW) { self.end_row(ended).map(Some) } else { Ok(None) }
    }

    /// The row that ends with this block.
    fn end_row(&mut self, last: u64) -> StoreResult<NewRow> {
        let sums = std::mem::take(&mut self.sums);
        Ok(NewRow::new(key(row_of(last))?, envelope::seal(ValueKind::ContentSums, &sums)))
    }
}

/// One row of checksums.
#[derive(Clone)]
pub(crate) struct SumsRow {
    pub(crate) number: u64,
    sums: Bytes,
}

impl SumsRow {
    /// A row as it was read; `None`: it does not exist.
    pub(crate) fn open(id: ContentId, number: u64, value: Option<Bytes>) -> StoreResult<Self> {
        let value = value.ok_or_else(|| corrupt(id, "checksums of its blocks are missing"))?;
        let sums = envelope::open(ValueKind::ContentSums, &value)
            .map_err(|error| corrupt(id, &format!("checksums of its blocks: {error}")))?;
        Ok(Self { number, sums })
    }

    fn of(&self, block: u64) -> Option<u32> {
        let at = usize::try_from(block % SUMS_OF_A_ROW).ok()? * SUM_BYTES;
        let sum = self.sums.get(at..at + SUM_BYTES)?;
        Some(u32::from_le_bytes(sum.try_into().ok()?))
    }

    /// Reads `len` bytes from a file, beginning with block `first`, and checks each block. The
    /// checksums of all of them are in this row. Blocks the thread.
    pub(crate) fn read(&self, id: ContentId, file: &std::fs::File, first: u64, len: usize) -> StoreResult<Bytes> {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, first * BLOCK_BYTES).map_err(|error| of_reading(id, error))?;
        for (block, content) in (first..).zip(bytes.chunks(BLOCK_BYTES as usize)) {
            let mut hasher = begin(id, block);
            hasher.update(content);
            if self.of(block) != Some(hasher.finalize()) {
                let (from, to) = (block * BLOCK_BYTES, block * BLOCK_BYTES + content.len() as u64);
                return Err(corrupt(id, &format!("bytes {from} to {to} of its file fail their checksum")));
            }
        }
        Ok(bytes.into())
    }
}

/// A file that ends too early, or that the disk cannot read, is damaged.
fn of_reading(id: ContentId, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => corrupt(id, "its file is truncated"),
        _ if is_unreadable(&error) => corrupt(id, "the disk cannot read its file"),
        _ => StoreError::Io { context: format!("reading content {id}"), source: error },
    }
}

/// A row of the checksums of a sealed content.
pub(crate) fn sums_in(view: &View<'_>, id: ContentId, number: u64, now: UnixMillis) -> StoreResult<SumsRow> {
    let row = read::get(view, Table::Contents, &id.0, &key(number)?, now)?;
    SumsRow::open(id, number, row.map(|row| row.value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ID: ContentId = ContentId([7; 16]);

    fn rows(content: &[u8], piece: usize) -> Vec<NewRow> {
        let mut summing = Summing::new(ID);
        let mut rows: Vec<_> = content.chunks(piece).flat_map(|piece| summing.update(piece).unwrap()).collect();
        rows.extend(summing.end().unwrap());
        rows
    }

    #[test]
    fn the_bytes_of_a_row_of_checksums_do_not_change() {
        let rows = rows(&[1; BLOCK_BYTES as usize + 1], 1_000);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].sort, &b"sums\0\0\0\0"[..]);
        let first = [&[7; 16][..], &[0; 8], &[1; BLOCK_BYTES as usize]].concat();
        let second = [&[7; 16][..], &[0, 0, 0, 0, 0, 0, 0, 1], &[1]].concat();
        let sums = [first, second].map(|summed| crc32fast::hash(&summed).to_le_bytes()).concat();
        assert_eq!(rows[0].value, envelope::seal(ValueKind::ContentSums, &sums));
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926, "the check value of CRC-32 (IEEE)");
    }

    #[test]
    fn the_checksums_do_not_depend_on_the_pieces_in_which_bytes_arrive() {
        let content: Vec<u8> = (0..3 * BLOCK_BYTES + 5).map(|at| at as u8).collect();
        let values = |piece| rows(&content, piece).into_iter().map(|row| row.value).collect::<Vec<_>>();
        for piece in [1_000, BLOCK_BYTES as usize, BLOCK_BYTES as usize + 1] {
            assert_eq!(values(piece), values(content.len()), "in pieces of {piece}");
        }
    }

    #[test]
    fn a_content_that_fills_its_last_row_has_no_further_row() {
        let row_bytes = (SUMS_OF_A_ROW * BLOCK_BYTES) as usize;
        let content = vec![0; row_bytes + 1];
        let sorts = |len: usize| rows(&content[..len], 1 << 20).into_iter().map(|row| row.sort).collect::<Vec<_>>();
        assert_eq!(sorts(0), Vec::<Bytes>::new());
        assert_eq!(sorts(row_bytes), [key(0).unwrap()]);
        assert_eq!(sorts(row_bytes + 1), [key(0).unwrap(), key(1).unwrap()]);
    }
}
