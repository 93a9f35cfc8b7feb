//! The bytes of contents: chunks in parts. Each part is a partition, so that no partition grows
//! with its content.
//!
//! A chunk is sealed like a row's value (kind, version, CRC-32), because Cassandra does not check
//! uncompressed files. The seal covers its place (the content's id, then the chunk's number: four
//! bytes, big-endian), so that no other chunk passes for it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use scylla::statement::Consistency;
use store::content::{CHUNK_BYTES_MAX, CHUNKS_MAX};
use store::{Class, ContentId, Deadline, StoreError, StoreResult, Table, ValueKind, envelope};

use crate::engine::Engine;
use crate::failure::{Failure, readable};
use crate::requests::Parameter;
use crate::value::corrupt;

/// Bytes of each chunk but the last.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;

/// Chunks of a part: 32 MiB.
const PART_CHUNKS: u64 = 256;

const _: () = assert!(CHUNK_BYTES <= CHUNK_BYTES_MAX && PART_CHUNKS <= CHUNKS_MAX);

/// Parts of a content that are removed at the same time.
const PARTS_AT_ONCE: usize = 4;

/// The place of a chunk: its part, and its number in the content.
fn place(number: u64) -> StoreResult<(i32, i32)> {
    let fits = |number| i32::try_from(number).ok();
    fits(number / PART_CHUNKS).zip(fits(number)).ok_or(StoreError::Limit {
        what: "chunks of a content",
        actual: number,
        max: i32::MAX as u64,
    })
}

/// How many parts a content of `len` bytes has.
fn parts_of(len: u64) -> StoreResult<i32> {
    match len.div_ceil(CHUNK_BYTES as u64) {
        0 => Ok(0),
        chunks => Ok(place(chunks - 1)?.0 + 1),
    }
}

/// The bytes of the place for which a chunk is sealed.
pub(crate) fn seal_of(id: ContentId, number: i32) -> Vec<u8> {
    [&id.0[..], &number.to_be_bytes()].concat()
}

impl Engine {
    pub(crate) async fn put_chunk(
        &self,
        deadline: Deadline,
        id: ContentId,
        number: u64,
        chunk: Bytes,
    ) -> StoreResult<()> {
        let (part, number) = place(number)?;
        let seal = seal_of(id, number);
        let sealed = envelope::seal_at(ValueKind::ContentChunk, &seal, &chunk);
        let parameters = vec![
            Parameter::Blob(Bytes::copy_from_slice(&id.0)),
            Parameter::Int(part),
            Parameter::Int(number),
            Parameter::Blob(sealed),
        ];
        let (level, at) = (self.levels.write(Class::Content).consistency(), self.write_times.next());
        let written = self.requests.write(deadline, level, Some(at), vec![(&self.statements.chunks.put, parameters)]);
        // A failed chunk fails the whole upload, and what was written of it is deleted.
        written.await.map_err(Failure::of_read)
    }

    /// A chunk; `None`: it does not exist.
    pub(crate) async fn chunk(
        &self,
        deadline: Deadline,
        level: Consistency,
        id: ContentId,
        number: u64,
    ) -> StoreResult<Option<Bytes>> {
        let (part, number) = place(number)?;
        let rows = self.requests.rows(deadline, level, &self.statements.chunks.get, (id.0, part, number)).await?;
        let Some((sealed,)) = readable(rows.maybe_first_row::<(Bytes,)>())? else { return Ok(None) };
        let chunk = envelope::open_at(ValueKind::ContentChunk, &seal_of(id, number), &sealed);
        chunk.map(Some).map_err(|error| corrupt(Table::Contents, format!("chunk {number} of content {id}: {error}")))
    }

    /// Removes all chunks of a content whose header states `len` bytes. Each part may take `step`.
    /// A removal that is interrupted leaves nothing that the next one does not find.
    pub(crate) async fn remove_chunks(&self, step: Duration, id: ContentId, len: u64) -> StoreResult<()> {
        // The header of an interrupted upload may state less than was written. Chunks are written
        // in order, a few at a time, so the parts above have chunks up to the first part without
        // any. They are removed from the last one on, so that this stays so.
        let stated = parts_of(len)?;
        let mut end = stated;
        while self.newest_chunk(step, id, end).await?.is_some() {
            end += 1;
        }
        for part in (stated..end).rev() {
            self.remove_part(step, id, part).await?;
        }
        // Each of these is looked at every time.
        let removed = stream::iter(0..stated).map(|part| self.remove_part(step, id, part));
        removed.buffer_unordered(PARTS_AT_ONCE).try_collect().await
    }

    /// The newest write time of the chunks of a part; `None`: it has none.
    async fn newest_chunk(&self, step: Duration, id: ContentId, part: i32) -> StoreResult<Option<i64>> {
        let (deadline, level) = (Deadline::within(step), self.levels.strong(Class::Content).consistency());
        let rows = self.requests.rows(deadline, level, &self.statements.chunks.look_over, (id.0, part)).await?;
        let mut newest = None;
        for row in readable(rows.rows::<(i64,)>())? {
            newest = newest.max(Some(readable(row)?.0));
        }
        Ok(newest)
    }

    /// Removes the chunks that a part has now.
    async fn remove_part(&self, step: Duration, id: ContentId, part: i32) -> StoreResult<()> {
        let Some(newest) = self.newest_chunk(step, id, part).await? else { return Ok(()) };
        // A copy puts a content again under its id.
        self.write_times.observe(newest);
        let (deadline, level) = (Deadline::within(step), self.levels.write(Class::Content).consistency());
        let parameters =
            vec![Parameter::BigInt(newest), Parameter::Blob(Bytes::copy_from_slice(&id.0)), Parameter::Int(part)];
        let removal = vec![(&self.statements.chunks.remove, parameters)];
        self.requests.write(deadline, level, None, removal).await.map_err(Failure::of_read)
    }
}

/// Cuts the pieces of a stream into chunks.
#[derive(Default)]
pub(crate) struct Cutter(BytesMut);

impl Cutter {
    /// Takes a piece. Returns the chunks that are now full.
    pub(crate) fn cut(&mut self, piece: &[u8]) -> Vec<Bytes> {
        self.0.extend_from_slice(piece);
        let mut chunks = Vec::new();
        while self.0.len() >= CHUNK_BYTES {
            chunks.push(self.0.split_to(CHUNK_BYTES).freeze());
        }
        chunks
    }

    /// The incomplete chunk at the end.
    pub(crate) fn rest(self) -> Option<Bytes> {
        (!self.0.is_empty()).then(|| self.0.freeze())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn all_chunks_but_the_last_are_full_however_the_stream_is_cut() {
        let content: Vec<u8> = (0..3 * CHUNK_BYTES + 5).map(|at| at as u8).collect();
        for piece in [1000, CHUNK_BYTES, CHUNK_BYTES + 1, content.len()] {
            let mut cutter = Cutter::default();
            let mut chunks: Vec<Bytes> = content.chunks(piece).flat_map(|piece| cutter.cut(piece)).collect();
            assert!(chunks.iter().all(|chunk| chunk.len() == CHUNK_BYTES));
            chunks.extend(cutter.rest());
            assert_eq!(chunks.len(), 4);
            assert!(chunks.concat() == content, "in pieces of {piece}");
        }
        assert_eq!(Cutter::default().rest(), None);
    }

    #[test]
    fn a_part_ends_before_it_grows_large() {
        assert_eq!(place(255).unwrap(), (0, 255));
        assert_eq!(place(256).unwrap(), (1, 256));
        assert!(place(u64::MAX).is_err());
        let part = (0..10 * CHUNKS_MAX).filter(|number| place(*number).unwrap().0 == 7);
        assert!(part.count() as u64 <= CHUNKS_MAX);
    }

    #[test]
    fn the_length_of_a_content_says_how_many_parts_it_has() {
        let part = PART_CHUNKS * CHUNK_BYTES as u64;
        for (len, parts) in [(0, 0), (1, 1), (part - 1, 1), (part, 1), (part + 1, 2), (70 << 20, 3)] {
            assert_eq!(parts_of(len).unwrap(), parts, "{len}");
        }
        assert!(parts_of(u64::MAX).is_err());
    }
}
