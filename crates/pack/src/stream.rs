//! The bytes of an archive as a stream, and how many there are.

use crate::Archive;
use crate::described::Described;
use crate::exact::Exact;
use crate::map::Map;
use crate::out::Out;
use crate::reader::Reader;
use crate::source::{ArchiveError, Source};
use bytes::Bytes;
use futures::channel::mpsc;
use futures::{FutureExt, Stream, StreamExt};
use std::ops::Range;
use std::sync::Arc;

/// The range of a whole archive, also of one of unknown length.
pub const WHOLE: Range<u64> = 0..u64::MAX;

impl Archive {
    /// Exact length of the archive in bytes; `None` if it is recompressed or in report mode.
    ///
    /// The source is asked for members only of a volume that crosses 4 GiB, because records of the
    /// central directory need ZIP64 from there on.
    pub async fn len<S: Source>(&self, source: &S) -> Result<Option<u64>, ArchiveError<S::Error>> {
        if !Map::is_possible(self) {
            return Ok(None);
        }
        Ok(Some(Map::new(self, source).await?.len()))
    }

    /// The groups whose contents a range of the archive sends (records of the central directory do
    /// not count); all groups if the archive's length is not known. The source is asked as by
    /// [`Archive::len`].
    pub async fn groups_within<S: Source>(
        &self,
        source: &S,
        range: Range<u64>,
    ) -> Result<Range<usize>, ArchiveError<S::Error>> {
        if !Map::is_possible(self) {
            return Ok(0..self.groups.len());
        }
        Ok(Map::new(self, source).await?.groups_within(&range))
    }
}

/// Streams a range of an archive in pieces of [`Source::piece_bytes`]. Nothing is read before the
/// stream is polled, nor ahead of what it has yielded, except the current batch.
///
/// The range lies within 0 to [`Archive::len`]. [`WHOLE`] is always allowed; it is the only range
/// allowed if there is no length. A range that begins in the middle reads no frame before it. A
/// stream that fails ends with the error. What it yielded before is as good as the frames: the
/// length of an unchanged frame is checked, its text is not.
pub fn stream<S: Source>(
    archive: Arc<Archive>,
    source: Arc<S>,
    range: Range<u64>,
) -> impl Stream<Item = Result<Bytes, ArchiveError<S::Error>>> + Send {
    // Without a buffer, a producer that sends waits until its piece is taken: the client's pace is
    // the producer's.
    let (sender, pieces) = mpsc::channel(0);
    let producer = produce(archive, source, range, sender).into_stream();
    let failure = producer.filter_map(|result| std::future::ready(result.err().map(Err)));
    futures::stream::select(pieces.map(Ok), failure)
}

async fn produce<S: Source>(
    archive: Arc<Archive>,
    source: Arc<S>,
    range: Range<u64>,
    sender: mpsc::Sender<Bytes>,
) -> Result<(), ArchiveError<S::Error>> {
    let reader = Reader { archive: archive.clone(), source: source.clone() };
    if !Map::is_possible(&archive) {
        if range != WHOLE {
            return Err(ArchiveError::Range { start: range.start, end: range.end });
        }
        return Described::new(reader.clone(), Out::new(reader, sender, range)).run().await;
    }
    let map = Map::new(&archive, &*source).await?;
    let window = if range == WHOLE { 0..map.len() } else { range };
    if window.start > window.end || window.end > map.len() {
        return Err(ArchiveError::Range { start: window.start, end: window.end });
    }
    Exact::new(reader.clone(), map, Out::new(reader, sender, window)).run().await
}
