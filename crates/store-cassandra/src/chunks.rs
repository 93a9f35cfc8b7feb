//! The bytes of contents: chunks in parts. Each part is a partition, so that no partition grows
//! with its content.
//!
//! A chunk is sealed like a row's value (kind, version, CRC-32), because Cassandra does not check
//! uncompressed files. The seal covers its place (the content's id, then the chunk's number: four
//! bytes, big-endian), so that no other chunk passes for it.

use bytes::{Bytes, BytesMut};
use scylla::statement::Consistency;
use store::{Class, ContentId, Deadline, StoreError, StoreResult, Table, ValueKind, envelope};

use crate::engine::Engine;
use crate::failure::{Failure, readable};
use crate::requests::Parameter;
use crate::value::corrupt;

/// Bytes of each chunk but the last.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;

/// Chunks of a part: 32 MiB.
const PART_CHUNKS: u64 = 256;

/// The place of a chunk: its part, and its number in the content.
fn place(number: u64) -> StoreResult<(i32, i32)> {
    let fits = |number| i32::try_from(number).ok();
    fits(number / PART_CHUNKS).zip(fits(number)).ok_or(StoreError::Limit {
        what: "chunks of a content",
        actual: number,
        max: i32::MAX as u64,
    })
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
        let sealed = self.level().value(&seal, envelope::seal_at(ValueKind::ContentChunk, &seal, &chunk));
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

    /// Removes all chunks, part by part, until a part has none. Chunks are written in order, a few
    /// at a time, so no later part has any.
    pub(crate) async fn remove_chunks(&self, deadline: Deadline, id: ContentId) -> StoreResult<()> {
        let (look, write) = (self.levels.strong(Class::Content), self.levels.write(Class::Content));
        for part in 0.. {
            let statement = &self.statements.chunks.look_over;
            let rows = self.requests.rows(deadline, look.consistency(), statement, (id.0, part)).await?;
            let mut newest = None;
            for row in readable(rows.rows::<(i64,)>())? {
                newest = newest.max(Some(readable(row)?.0));
            }
            let Some(newest) = newest else { break };
            let parameters =
                vec![Parameter::BigInt(newest), Parameter::Blob(Bytes::copy_from_slice(&id.0)), Parameter::Int(part)];
            let removal = vec![(&self.statements.chunks.remove, parameters)];
            self.requests.write(deadline, write.consistency(), None, removal).await.map_err(Failure::of_read)?;
        }
        Ok(())
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
    }
}
