//! Reads ahead of a stream: fetches the next volumes of its plan, several per call of the store,
//! while earlier ones are sent.
//!
//! Reading ahead only saves time. The stream itself reads what is not found intact and what does
//! not suit (single pages, large volumes). It handles damage and failures.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use budget::Party;
use bytes::Bytes;
use heads::error::ObjectsResult;
use heads::volume_body::Entry;
use pack::{Archive, Group, GroupPages};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::planned::{PlannedVolume, volume_id};
use crate::directory::SEGMENT_PAGES;
use crate::handle::Volumes;
use crate::read::{VolumeExtent, VolumeRows};

/// Bytes of a batch below which reading ahead is not worth the memory.
const BATCH_BYTES_MIN: usize = 128 << 10;

/// The most batches that are read at the same time, whatever the engine suggests: half of what a
/// request may hold.
const BATCHES_MAX: usize = 8;

/// Pages whose directories are read in one call.
const BATCH_PAGES: u64 = 16 * SEGMENT_PAGES as u64;

/// What is read ahead: packs too, or directories only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Directories and packs.
    Volumes,
    /// Directories only, for the central directory.
    Directories,
}

/// The reads ahead of one stream, in one of its passes.
pub(super) struct ReadAhead {
    handle: Volumes,
    archive: Arc<Archive>,
    volumes: Arc<[PlannedVolume]>,
    party: Party,
    what: What,
    /// The groups that the stream may send.
    sent: Range<usize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The group that was requested last, and its rows.
    current: Option<(usize, Option<Arc<VolumeRows>>)>,
    read: VecDeque<(usize, VolumeRows)>,
    reading: VecDeque<(Range<usize>, Reading)>,
}

/// A batch being read: its result has the rows of each group that could be read.
type Reading = AbortOnDropHandle<ObjectsResult<Vec<Option<VolumeRows>>>>;

impl ReadAhead {
    pub(super) fn new(
        handle: Volumes,
        archive: Arc<Archive>,
        volumes: Arc<[PlannedVolume]>,
        party: Party,
        what: What,
        sent: Range<usize>,
    ) -> Self {
        Self { handle, archive, volumes, party, what, sent, state: Mutex::default() }
    }

    /// Returns the rows that were read of a group. With `None` the caller has to read it. Groups
    /// are requested in order.
    pub(super) async fn of(&self, group: usize) -> Option<Arc<VolumeRows>> {
        if let Some((current, rows)) = &self.state.lock().current
            && *current == group
        {
            return rows.clone();
        }
        if !self.has_read(group) {
            let reading = self.reading_of(group);
            if let Some((batch, reading)) = reading
                && let Ok(Ok(rows)) = reading.await
            {
                let found = batch.zip(rows).filter_map(|(group, rows)| Some((group, rows?)));
                self.state.lock().read.extend(found);
            }
        }
        let rows = self.take(group);
        self.read_on(group + 1);
        rows
    }

    fn has_read(&self, group: usize) -> bool {
        self.state.lock().read.iter().any(|(read, _)| *read == group)
    }

    /// Returns the batch with this group, whether it is being read already or begins now; `None` if
    /// the group does not suit.
    fn reading_of(&self, group: usize) -> Option<(Range<usize>, Reading)> {
        let mut state = self.state.lock();
        while state.reading.pop_front_if(|(batch, _)| batch.end <= group).is_some() {}
        match state.reading.front() {
            Some((batch, _)) if batch.contains(&group) => state.reading.pop_front(),
            // The group was left out when the batch after it began.
            Some(_) => None,
            None => self.begin(group),
        }
    }

    /// Makes a group the current one and forgets those before it.
    fn take(&self, group: usize) -> Option<Arc<VolumeRows>> {
        let mut state = self.state.lock();
        while state.read.front().is_some_and(|(read, _)| *read < group) {
            state.read.pop_front();
        }
        let rows = match state.read.front() {
            Some((read, _)) if *read == group => state.read.pop_front().map(|(_, rows)| Arc::new(rows)),
            _ => None,
        };
        state.current = Some((group, rows.clone()));
        rows
    }

    /// Begins to read further batches once the stream uses the last one.
    fn read_on(&self, next: usize) {
        let mut state = self.state.lock();
        while state.reading.len() < self.batches_max() {
            let read = state.read.back().map_or(next, |(last, _)| last + 1);
            let from = state.reading.back().map_or(read, |(batch, _)| batch.end);
            let Some(reading) = self.begin(from) else { return };
            state.reading.push_back(reading);
        }
    }

    /// Begins to read the batch that starts with a group, if that suits.
    fn begin(&self, from: usize) -> Option<(Range<usize>, Reading)> {
        let batch = self.batch(from);
        if batch.is_empty() {
            return None;
        }
        let extents: Option<Vec<VolumeExtent>> = batch.clone().map(|group| self.extent(group)).collect();
        let (handle, party, extents) = (self.handle.clone(), self.party.clone(), extents?);
        let reading = async move {
            let _turn = handle.inner.fairness.turn(&party).await?;
            handle.volume_rows(&extents).await
        };
        Some((batch, AbortOnDropHandle::new(tokio::spawn(reading))))
    }

    /// The most batches that are read at the same time. Measured on two cores over the embedded
    /// engine: with one, the sender waits for each batch; more than two take processor time from
    /// the sender, and the data leaves the processor's caches before it is sent.
    fn reads_at_once(&self) -> usize {
        self.handle.heads.store().at_once().reads.clamp(1, BATCHES_MAX)
    }

    /// Bytes that may be read ahead now: for each batch, a sixteenth of what the request may hold.
    fn room_bytes(&self) -> usize {
        self.handle.inner.fairness.share_bytes() / 16 * self.reads_at_once()
    }

    /// How many batches may be read at the same time now.
    fn batches_max(&self) -> usize {
        match self.what {
            What::Volumes => (self.room_bytes() / BATCH_BYTES_MIN).min(self.reads_at_once()),
            What::Directories => 1,
        }
    }

    /// The groups that one call reads.
    fn batch(&self, from: usize) -> Range<usize> {
        let mut room = match (self.what, self.batches_max()) {
            (What::Directories, _) => BATCH_PAGES,
            (What::Volumes, 0) => return from..from,
            (What::Volumes, batches) => (self.room_bytes() / batches) as u64,
        };
        let groups = self.archive.groups.get(from..self.sent.end).unwrap_or_default();
        let fitting = groups.iter().take_while(|group| {
            let GroupPages::All { sums, .. } = &group.pages else { return false };
            let takes = if self.what == What::Volumes { frame_bytes(group) } else { sums.count };
            let fits = takes <= room;
            room = room.saturating_sub(takes);
            fits
        });
        from..from + fitting.count()
    }

    fn extent(&self, group: usize) -> Option<VolumeExtent> {
        let described = &self.archive.groups[group];
        Some(VolumeExtent {
            id: volume_id(&self.archive, group).ok()?,
            generation: self.volumes[group].generation,
            pages: u32::try_from(described.pages.sums().count).ok()?,
            frame_bytes: (self.what == What::Volumes).then(|| frame_bytes(described)),
        })
    }
}

/// Bytes of a group's frames. Packs also hold METS, after the pages.
fn frame_bytes(group: &Group) -> u64 {
    group.pages.sums().frame_bytes + group.mets.map_or(0, |mets| u64::from(mets.frame_len))
}

/// The available entries for a range of pages, at most `max` of them.
pub(super) fn part(entries: &[Entry], pages: Range<u32>, max: u32) -> Option<Arc<[Entry]>> {
    let to = pages.end.min(pages.start.saturating_add(max)).min(u32::try_from(entries.len()).ok()?);
    entries.get(pages.start as usize..to as usize).filter(|part| !part.is_empty()).map(Arc::from)
}

/// The frames of a run of entries, if all of them are available.
pub(super) fn frames(rows: &VolumeRows, run: &[Entry]) -> Option<Vec<Bytes>> {
    run.iter().map(|entry| rows.frame(entry)).collect()
}
