//! Large contents: a guarded header row with the state of a content, and its chunks.
//!
//! The header is written before the first chunk and deleted after all of them, so no chunk is ever
//! without one. A content is sealed only after all its chunks are acknowledged.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, stream};
use store::lifecycle::{self, ToCondemn, ToDelete, ToSweep};
use store::{
    Call, Class, ContentHeader, ContentId, ContentState, ContentStream, Deadline, Expect, Guard, Stamp, StoreError,
    StoreResult, Table, stored,
};
use tokio::time::{timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::chunks::{CHUNK_BYTES, Cutter};
use crate::compare::{Become, Change, Ended};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::value::corrupt;

/// The sort key of a header in the content's partition.
const HEADER: Bytes = Bytes::from_static(b"header");

/// Chunks of one content that are read or written at the same time.
const CHUNKS_AT_ONCE: usize = 4;

/// Contents that one sweep checks; the next sweep continues there.
const SWEPT_MAX: usize = 1000;

/// Contents that a sweep requests at the same time.
const SWEPT_AT_ONCE: usize = 100;

impl Engine {
    /// The header of a content, and its stamp.
    pub(crate) async fn header(&self, call: Call, id: ContentId) -> StoreResult<Option<(Stamp, ContentHeader)>> {
        let Some(row) = self.get(call, Table::Contents, &id.0, &HEADER).await? else { return Ok(None) };
        let guard = row.guard.ok_or_else(|| damaged(id, "its header is not guarded"))?;
        let header = stored::open(&row.value).map_err(|error| damaged(id, &error.to_string()))?;
        Ok(Some((guard.stamp, header)))
    }

    /// Changes a header; `None`: it is not as expected.
    async fn change_header(
        &self,
        deadline: Deadline,
        id: ContentId,
        expect: Expect,
        header: &ContentHeader,
    ) -> StoreResult<Option<Stamp>> {
        let sealed = stored::seal(header).map_err(|error| StoreError::Invalid(format!("header of {id}: {error}")))?;
        let guard = Guard { stamp: Stamp::fresh(), tag: Bytes::new() };
        let stamp = guard.stamp;
        let then = Become::Changed { guard, value: sealed };
        Ok(self.change_content(deadline, id, expect, then).await?.then_some(stamp))
    }

    async fn change_content(
        &self,
        deadline: Deadline,
        id: ContentId,
        expect: Expect,
        then: Become,
    ) -> StoreResult<bool> {
        let partition = Bytes::copy_from_slice(&id.0);
        let change = Change { table: Table::Contents, partition, sort: HEADER, expect, then };
        let ended = self.compare_and_write(description(deadline), &change).await;
        Ok(matches!(ended.map_err(Failure::of_read)?, Ended::Applied))
    }

    pub(crate) async fn upload(
        &self,
        call: Call,
        id: ContentId,
        owner: Bytes,
        content: ContentStream,
    ) -> StoreResult<()> {
        let mut upload = Upload::begin(self, call.deadline.remaining(), id, owner).await?;
        match upload.take(content).await {
            Ok(()) => Ok(()),
            Err(error) => {
                upload.abandon().await;
                Err(error)
            }
        }
    }

    async fn sealed_len(&self, call: Call, id: ContentId) -> StoreResult<Option<u64>> {
        let header = self.header(call, id).await?;
        Ok(header.and_then(|(_, header)| (header.state == ContentState::Sealed).then_some(header.len)))
    }

    pub(crate) async fn download(
        self: Arc<Self>,
        call: Call,
        id: ContentId,
        range: Range<u64>,
    ) -> StoreResult<Option<ContentStream>> {
        let Some(len) = self.sealed_len(call.of(Class::Description), id).await? else { return Ok(None) };
        let (from, to) = (range.start.min(len), range.end.min(len));
        if from >= to {
            return Ok(Some(stream::empty().boxed()));
        }
        let (step, chunk_bytes) = (call.deadline.remaining(), CHUNK_BYTES as u64);
        let numbers = from / chunk_bytes..to.div_ceil(chunk_bytes);
        let pieces = stream::iter(numbers).map(move |number| {
            let engine = self.clone();
            let read = async move {
                let chunk = engine.surely_chunk(Call { deadline: Deadline::within(step), ..call }, id, number).await?;
                let begins_at = number * chunk_bytes;
                let first = from.saturating_sub(begins_at) as usize;
                let end = (to - begins_at).min(chunk_bytes) as usize;
                if chunk.len() < end {
                    return Err(damaged(id, &format!("chunk {number} is truncated")));
                }
                Ok(chunk.slice(first..end))
            };
            // On a task of its own. A slow reader asks for no further piece for a long time, and
            // until then a request that nobody polls would keep its place among all requests.
            let reading = AbortOnDropHandle::new(tokio::spawn(read));
            async move {
                let read = reading.await;
                read.unwrap_or_else(|why| Err(StoreError::Unavailable(format!("a read of {id} has ended: {why}"))))
            }
        });
        Ok(Some(pieces.buffered(CHUNKS_AT_ONCE).boxed()))
    }

    /// A chunk of a sealed content. If it is missing or damaged, it is read again at a stronger
    /// level before damage is reported. A missing one is damage only at the home.
    async fn surely_chunk(&self, call: Call, id: ContentId, number: u64) -> StoreResult<Bytes> {
        let usual = self.levels.read(Class::Content, call.strength).consistency();
        match self.chunk(call.deadline, usual, id, number).await {
            Ok(Some(chunk)) => return Ok(chunk),
            Ok(None) | Err(StoreError::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        let strong = self.levels.strong(Class::Content).consistency();
        if let Some(chunk) = self.chunk(call.deadline, strong, id, number).await? {
            return Ok(chunk);
        }
        match self.sealed_len(call.of(Class::Description).strong(), id).await? {
            // Elsewhere than at the home, even a strong read may come before the chunk.
            Some(_) if self.may_switch().is_err() => {
                let why = format!("chunk {number} of content {id} is missing here: it may not have arrived yet");
                Err(StoreError::Unavailable(why))
            }
            Some(_) => Err(damaged(id, &format!("chunk {number} is missing"))),
            None => Err(StoreError::Unavailable(format!("content {id} was deleted while it was read"))),
        }
    }

    pub(crate) async fn condemn(&self, deadline: Deadline, id: ContentId) -> StoreResult<bool> {
        loop {
            match lifecycle::to_condemn(self.header(description(deadline), id).await?, self.now_everywhere()) {
                ToCondemn::Answer(answer) => return Ok(answer),
                ToCondemn::Write(stamp, header) => {
                    if self.change_header(deadline, id, Expect::Stamp(stamp), &header).await?.is_some() {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Deletes a condemned content. The deadline bounds each step, because a large content has
    /// thousands of parts. What a call that fails leaves, the next one deletes.
    pub(crate) async fn delete(&self, deadline: Deadline, id: ContentId) -> StoreResult<bool> {
        let step = deadline.remaining();
        let found = self.header(description(deadline), id).await?;
        let len = found.as_ref().map_or(0, |(_, header)| header.len);
        let stamp = match lifecycle::to_delete(found) {
            ToDelete::Answer(answer) => return Ok(answer),
            ToDelete::Delete(stamp) => stamp,
        };
        self.remove_chunks(step, id, len).await?;
        self.change_content(Deadline::within(step), id, Expect::Stamp(stamp), Become::Gone).await?;
        Ok(true)
    }

    /// Deletes condemned contents, and uploads whose lease has expired by the clock of every
    /// server; only in the home data center of the headers. Cassandra deletes expired rows by
    /// itself.
    pub(crate) async fn sweep(&self, call: Call) -> StoreResult<u64> {
        if self.may_switch().is_err() {
            return Ok(0);
        }
        let (mut swept, mut seen) = (0, 0);
        while seen < SWEPT_MAX {
            let from = self.swept_until.lock().clone();
            let page = self.walk(call.of(Class::Description), Table::Contents, from, SWEPT_AT_ONCE).await?;
            for id in page.partitions.iter().filter_map(|id| id[..].try_into().ok().map(ContentId)) {
                match self.sweep_one(call, id).await {
                    Ok(is_swept) => swept += u64::from(is_swept),
                    // The next sweep continues with this content.
                    Err(StoreError::DeadlinePassed) => return Ok(swept),
                    // It does not prevent others from being swept.
                    Err(error @ StoreError::Corrupt { .. }) => {
                        tracing::warn!(content = %id, %error, "a content cannot be swept");
                    }
                    Err(error) => return Err(error),
                }
            }
            seen += page.partitions.len();
            let is_over = page.next.is_none();
            *self.swept_until.lock() = page.next;
            if is_over {
                break;
            }
        }
        Ok(swept)
    }

    /// Sweeps one content, and returns whether it was deleted. If the time of the sweep ends within
    /// a large content, the next sweep deletes the rest.
    async fn sweep_one(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        let deadline = call.deadline;
        match lifecycle::to_sweep(self.header(call.of(Class::Description), id).await?, self.now_everywhere()) {
            ToSweep::Leave => return Ok(false),
            ToSweep::Condemn(stamp, header) => {
                if self.change_header(deadline, id, Expect::Stamp(stamp), &header).await?.is_none() {
                    return Ok(false);
                }
            }
            ToSweep::Delete => {}
        }
        timeout_at(deadline.0, self.delete(deadline, id)).await.unwrap_or(Err(StoreError::DeadlinePassed))
    }
}

/// Chunks that are being written.
type Writing<'a> = FuturesUnordered<BoxFuture<'a, StoreResult<()>>>;

/// The next piece of a content, within the time of a step; `None`: there are no more.
///
/// Chunks are written meanwhile. A slow client sends no piece for a long time. Writes that nobody
/// polls until then would keep their places among all requests, and miss their deadlines.
async fn next_piece(
    content: &mut ContentStream,
    writing: &mut Writing<'_>,
    step: Duration,
) -> StoreResult<Option<Bytes>> {
    let by = Deadline::within(step);
    loop {
        tokio::select! {
            Some(written) = writing.next() => written?,
            piece = timeout_at(by.0, content.next()) => {
                return piece.map_err(|_| StoreError::DeadlinePassed)?.transpose();
            }
        }
    }
}

/// A strong call for a header.
fn description(deadline: Deadline) -> Call {
    Call::new(Class::Description, deadline).strong()
}

/// An upload under way.
struct Upload<'a> {
    engine: &'a Engine,
    id: ContentId,
    /// How long each step may take.
    step: Duration,
    header: ContentHeader,
    stamp: Stamp,
}

impl<'a> Upload<'a> {
    /// Writes the header before there is a chunk.
    async fn begin(engine: &'a Engine, step: Duration, id: ContentId, owner: Bytes) -> StoreResult<Self> {
        let header = lifecycle::begun(owner, engine.now(), engine.content_lease);
        let stamp = engine
            .change_header(Deadline::within(step), id, Expect::Absent, &header)
            .await?
            .ok_or_else(|| lifecycle::taken(id))?;
        Ok(Self { engine, id, step, header, stamp })
    }

    async fn take(&mut self, mut content: ContentStream) -> StoreResult<()> {
        let (engine, id, step) = (self.engine, self.id, self.step);
        // Its time begins when it is polled.
        let put = move |number: u64, chunk: Bytes| {
            async move { engine.put_chunk(Deadline::within(step), id, number, chunk).await }.boxed()
        };
        let (mut cutter, mut number) = (Cutter::default(), 0);
        let mut writing: Writing<'_> = FuturesUnordered::new();
        while let Some(piece) = next_piece(&mut content, &mut writing, step).await? {
            self.header.len += piece.len() as u64;
            for chunk in cutter.cut(&piece) {
                while writing.len() >= CHUNKS_AT_ONCE {
                    writing.next().await.transpose()?;
                }
                writing.push(put(number, chunk));
                number += 1;
            }
            self.renew_lease().await?;
        }
        if let Some(chunk) = cutter.rest() {
            writing.push(put(number, chunk));
        }
        while writing.next().await.transpose()?.is_some() {}
        self.write_header(lifecycle::sealed(&self.header)).await
    }

    async fn renew_lease(&mut self) -> StoreResult<()> {
        match lifecycle::renewed(&self.header, self.engine.now(), self.engine.content_lease) {
            Some(header) => self.write_header(header).await,
            None => Ok(()),
        }
    }

    async fn write_header(&mut self, header: ContentHeader) -> StoreResult<()> {
        let (expect, deadline) = (Expect::Stamp(self.stamp), Deadline::within(self.step));
        let changed = self.engine.change_header(deadline, self.id, expect, &header).await?;
        self.stamp = changed.ok_or_else(|| lifecycle::lost(self.id))?;
        self.header = header;
        Ok(())
    }

    /// Waits for one step of the upload.
    async fn in_time<T>(&self, step: impl Future<Output = T>) -> StoreResult<T> {
        timeout(self.step, step).await.map_err(|_| StoreError::DeadlinePassed)
    }

    /// Deletes what the upload has written, as far as one step suffices, because a client waits. A
    /// sweep deletes the rest, after the lease if not even the header could be changed.
    async fn abandon(mut self) {
        let abandoned = async {
            self.write_header(lifecycle::condemned(&self.header)).await?;
            self.in_time(self.engine.delete(Deadline::within(self.step), self.id)).await?
        };
        if let Err(error) = abandoned.await {
            tracing::warn!(content = %self.id, %error, "an abandoned upload cannot be deleted now; a sweep deletes it later");
        }
    }
}

fn damaged(id: ContentId, what: &str) -> StoreError {
    corrupt(Table::Contents, format!("content {id}: {what}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::sync::oneshot;

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn chunks_are_written_while_a_client_sends_nothing() {
        let (write, is_written) = oneshot::channel();
        let mut writing: Writing<'_> = FuturesUnordered::new();
        writing.push(async move { write.send(()).map_err(|()| StoreError::DeadlinePassed) }.boxed());
        let mut silent: ContentStream = stream::pending().boxed();
        tokio::select! {
            piece = next_piece(&mut silent, &mut writing, LONG) => panic!("{piece:?}"),
            written = is_written => written.unwrap(),
        }
    }

    #[tokio::test]
    async fn an_upload_waits_for_a_piece_no_longer_than_a_step_and_until_a_chunk_fails() {
        let mut writing: Writing<'_> = FuturesUnordered::new();
        let mut silent: ContentStream = stream::pending().boxed();
        let late = next_piece(&mut silent, &mut writing, Duration::ZERO).await;
        assert!(matches!(late, Err(StoreError::DeadlinePassed)), "{late:?}");
        writing.push(async { Err(StoreError::Unavailable(String::new())) }.boxed());
        let failed = next_piece(&mut silent, &mut writing, LONG).await;
        assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
        let mut ended: ContentStream = stream::empty().boxed();
        assert_eq!(next_piece(&mut ended, &mut writing, LONG).await.unwrap(), None);
    }
}
