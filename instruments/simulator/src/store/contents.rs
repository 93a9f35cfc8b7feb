//! Large contents: a guarded header and rows of bytes, like those of the Cassandra engine.

use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream;
use store::lifecycle::{self, ToCondemn, ToDelete, ToSweep};
use store::{
    Call, Class, Clock, ContentHeader, ContentId, ContentState, ContentStream, Expect, Guard, NewRow, Stamp,
    StoreError, StoreResult, Table,
};

use super::{Decided, SimStore, StepEnded, unavailable};
use crate::store::replica::{Mutation, Tombstone};
use crate::store::world::Proposal;

/// The sort key of a header in the content's partition.
const HEADER: Bytes = Bytes::from_static(b"header");

/// The prefix of the sort keys of bytes.
const CHUNK: &[u8] = b"chunk";

/// Bytes of a chunk: few, so that contents have several chunks.
const CHUNK_BYTES: usize = 32;

/// How long an upload may pause.
const LEASE: Duration = Duration::from_millis(800);

/// Encodes a header.
fn encode(header: &ContentHeader) -> Bytes {
    let state = match header.state {
        ContentState::Uploading => 0,
        ContentState::Sealed => 1,
        ContentState::Condemned => 2,
    };
    let numbers = [header.len.to_be_bytes(), header.lease_until.0.to_be_bytes()].concat();
    Bytes::from([&[state], &numbers[..], &header.owner[..]].concat())
}

pub(crate) fn decode(value: &Bytes) -> Option<ContentHeader> {
    let number = |at: usize| Some(u64::from_be_bytes(value.get(at..at + 8)?.try_into().ok()?));
    let state = match value.first()? {
        0 => ContentState::Uploading,
        1 => ContentState::Sealed,
        _ => ContentState::Condemned,
    };
    let (len, lease_until) = (number(1)?, store::UnixMillis(number(9)?));
    Some(ContentHeader { state, owner: value.slice(17..), len, lease_until })
}

fn chunk(number: u64) -> Bytes {
    Bytes::from([CHUNK, &number.to_be_bytes()].concat())
}

fn partition(id: ContentId) -> Bytes {
    Bytes::copy_from_slice(&id.0)
}

/// A content's id in a short, readable form.
fn readable(id: ContentId) -> String {
    id.to_string().chars().take(8).collect()
}

impl StepEnded {
    fn of_content(self) -> StoreError {
        match self {
            StepEnded::NotDone(error) => error,
            StepEnded::Unknown => unavailable("nobody knows what came of it"),
        }
    }
}

impl SimStore {
    pub(super) async fn header(&self, call: Call, id: ContentId) -> StoreResult<Option<(Stamp, ContentHeader)>> {
        self.read_turn(format!("header {}", readable(id))).await?;
        let row = self.row(call.of(Class::Description), Table::Contents, &partition(id), &HEADER)?;
        Ok(row.and_then(|row| Some((row.guard?.stamp, decode(&row.value)?))))
    }

    /// Changes or deletes a header; returns `None` if it is not as expected. Finds out the outcome
    /// of a change without a response.
    async fn change_header(
        &self,
        id: ContentId,
        expect: Expect,
        header: Option<&ContentHeader>,
    ) -> StoreResult<Option<Stamp>> {
        let stamp = Stamp::drawn(&*self.random);
        let then = header.map(|header| (Guard { stamp, tag: Bytes::new() }, encode(header)));
        let key = (Table::Contents, partition(id), HEADER);
        let (by, time) = (self.op(), self.write_time());
        let proposal = Proposal { key: key.clone(), expect, then, with: None, by, time };
        let state = header.map(|header| header.state);
        match self.compare_and_write(proposal, format!("content {} becomes {state:?}", readable(id))).await {
            Ok(Decided::Applied) => Ok(Some(stamp)),
            Ok(Decided::Refused(_)) => Ok(None),
            Err(StepEnded::NotDone(error)) => Err(error),
            Err(StepEnded::Unknown) => {
                self.read_turn(format!("what came of content {}", readable(id))).await?;
                let current = self.world.lock().serial_read(&key, self.center);
                let current = current.ok_or_else(|| unavailable("too few replicas"))?;
                match current {
                    Some(row) if Expect::Stamp(stamp).holds(Some(&row)) => Ok(Some(stamp)),
                    None if header.is_none() => Ok(Some(stamp)),
                    _ => Err(unavailable("nobody knows what came of it")),
                }
            }
        }
    }

    pub(super) async fn upload(
        &self,
        call: Call,
        id: ContentId,
        owner: Bytes,
        mut content: ContentStream,
    ) -> StoreResult<()> {
        let mut header = lifecycle::begun(owner, self.clock.now(), LEASE);
        let begun = self.change_header(id, Expect::Absent, Some(&header)).await?;
        let mut stamp = begun.ok_or_else(|| lifecycle::taken(id))?;
        let mut bytes = BytesMut::new();
        let mut number = 0;
        while let Some(piece) = content.next().await {
            bytes.extend_from_slice(&piece?);
            while bytes.len() > CHUNK_BYTES {
                let full = bytes.split_to(CHUNK_BYTES).freeze();
                self.put_chunk(call, id, number, full, &mut header).await?;
                number += 1;
            }
            if let Some(renewed) = lifecycle::renewed(&header, self.clock.now(), LEASE) {
                stamp = self.go_on(id, stamp, &renewed).await?;
                header = renewed;
            }
        }
        self.put_chunk(call, id, number, bytes.freeze(), &mut header).await?;
        self.go_on(id, stamp, &lifecycle::sealed(&header)).await.map(|_| ())
    }

    async fn go_on(&self, id: ContentId, stamp: Stamp, header: &ContentHeader) -> StoreResult<Stamp> {
        let changed = self.change_header(id, Expect::Stamp(stamp), Some(header)).await?;
        changed.ok_or_else(|| lifecycle::lost(id))
    }

    async fn put_chunk(
        &self,
        call: Call,
        id: ContentId,
        number: u64,
        bytes: Bytes,
        header: &mut ContentHeader,
    ) -> StoreResult<()> {
        header.len += bytes.len() as u64;
        let row = NewRow::new(chunk(number), bytes);
        let mutation = Mutation::put((Table::Contents, partition(id)), std::slice::from_ref(&row), self.write_time());
        let what = format!("chunk {number} of {}", readable(id));
        self.change(call.of(Class::Content), mutation, what).await.map_err(StepEnded::of_content)
    }

    pub(super) async fn download(
        &self,
        call: Call,
        id: ContentId,
        range: Range<u64>,
    ) -> StoreResult<Option<ContentStream>> {
        let Some((_, header)) = self.header(call, id).await? else { return Ok(None) };
        if header.state != ContentState::Sealed {
            return Ok(None);
        }
        let mut bytes = BytesMut::new();
        for number in 0..=header.len / CHUNK_BYTES as u64 {
            if bytes.len() as u64 >= header.len {
                break;
            }
            self.read_turn(format!("read chunk {number} of {}", readable(id))).await?;
            let call = call.of(Class::Content);
            let row = match self.row(call, Table::Contents, &partition(id), &chunk(number))? {
                Some(row) => Some(row),
                None => self.row(call.strong(), Table::Contents, &partition(id), &chunk(number))?,
            };
            let Some(row) = row else {
                let current = self.header(call.strong(), id).await?;
                return match current.filter(|(_, header)| header.state == ContentState::Sealed) {
                    Some(_) => {
                        Err(StoreError::Corrupt { table: Table::Contents, detail: format!("chunk {number} of {id}") })
                    }
                    None => Err(unavailable("it was taken away while it was read")),
                };
            };
            bytes.extend_from_slice(&row.value);
        }
        let bytes = bytes.freeze();
        let clip = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let part = bytes.slice(clip(range.start)..clip(range.end));
        Ok(Some(stream::iter([Ok(part)]).boxed()))
    }

    pub(super) async fn condemn(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        loop {
            match lifecycle::to_condemn(self.header(call.strong(), id).await?, self.clock.now()) {
                ToCondemn::Answer(answer) => return Ok(answer),
                ToCondemn::Write(stamp, header) => {
                    if self.change_header(id, Expect::Stamp(stamp), Some(&header)).await?.is_some() {
                        return Ok(true);
                    }
                }
            }
        }
    }

    pub(super) async fn delete(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        let stamp = match lifecycle::to_delete(self.header(call.strong(), id).await?) {
            ToDelete::Answer(answer) => return Ok(answer),
            ToDelete::Delete(stamp) => stamp,
        };
        let from = Bytes::from_static(CHUNK);
        let to = store::row::prefix_end(CHUNK);
        let tombstone = Tombstone { from, to, time: self.write_time() };
        let mutation = Mutation::remove((Table::Contents, partition(id)), vec![tombstone]);
        let removed =
            self.change(call.of(Class::Content), mutation, format!("remove chunks of {}", readable(id))).await;
        removed.map_err(StepEnded::of_content)?;
        self.change_header(id, Expect::Stamp(stamp), None).await?;
        Ok(true)
    }

    /// Deletes condemned contents, and uploads whose lease has expired.
    pub(super) async fn sweep_contents(&self, call: Call) -> StoreResult<u64> {
        let mut swept = 0;
        let page = store::Store::walk(self, call.of(Class::Description), Table::Contents, None, usize::MAX).await?;
        for id in page.partitions.iter().filter_map(|id| id[..].try_into().ok().map(ContentId)) {
            let left_over = match lifecycle::to_sweep(self.header(call.strong(), id).await?, self.clock.now()) {
                ToSweep::Leave => false,
                ToSweep::Condemn(stamp, header) => {
                    self.change_header(id, Expect::Stamp(stamp), Some(&header)).await?.is_some()
                }
                ToSweep::Delete => true,
            };
            swept += u64::from(left_over && self.delete(call, id).await?);
        }
        Ok(swept)
    }
}
