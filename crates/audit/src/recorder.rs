//! Makes records and waits until they are written.

use std::sync::Arc;
use std::time::Duration;

use heads::error::{ObjectsError, ObjectsResult};
use heads::head;
use heads::revision::{RevisionClock, RevisionId};
use heads::surroundings::Surroundings;
use parking_lot::Mutex;
use store::{Clock, Stored};

use crate::event::{Event, EventRecord};
use crate::keys::{PART_BYTES, Part};
use crate::queue::{AuditRow, Queue};
use crate::record::{AuditAction, AuditRecord, AuditedVolume, Requester};

/// Bytes of volumes and pages in one record. A longer list continues in further records.
const RECORD_BYTES: usize = 48 << 10;

/// Pages of one volume in one record.
const RECORD_PAGES: usize = 8_000;

/// Records that one caller may have in the queue at once.
const RECORDS_AT_ONCE: usize = 16;

/// Bytes kept of a name or request id.
pub(super) const NAME_BYTES_MAX: usize = 256;

/// Bytes of a record and its key, without the texts that others chose.
const RECORD_FRAME_BYTES: usize = 128;

/// A place for a record, with an upper bound for its bytes.
#[derive(Clone, Copy)]
pub(super) struct RecordPlace {
    pub(super) id: RevisionId,
    part: Part,
}

/// The part that is being filled, and the bytes of its places.
struct Filling {
    part: Part,
    bytes: usize,
}

/// Makes records and queues them for writing.
pub(super) struct Recorder {
    pub(super) queue: Arc<Queue>,
    pub(super) clock: Arc<dyn Clock>,
    ids: RevisionClock,
    filling: Mutex<Option<Filling>>,
    wait_max: Duration,
}

impl Recorder {
    pub(super) fn new(queue: Arc<Queue>, surroundings: &Surroundings, wait_max: Duration) -> Self {
        let clock = surroundings.clock.clone();
        let ids = RevisionClock::new(clock.clone(), &*surroundings.random);
        Self { queue, ids, clock, filling: Mutex::default(), wait_max }
    }

    /// A new place for a record of at most `bytes` bytes.
    pub(super) fn place(&self, bytes: usize) -> RecordPlace {
        // Ids are minted under the lock, so that they rise in the order in which parts are filled.
        let mut filling = self.filling.lock();
        let id = self.ids.mint();
        let first = Part::first(id);
        let filled = filling.take().filter(|filled| filled.part.hour == first.hour);
        let next = match filled {
            Some(Filling { part, bytes: before }) if before + bytes <= PART_BYTES => {
                Filling { part, bytes: before + bytes }
            }
            Some(Filling { part, .. }) => Filling { part: Part { number: part.number + 1, ..first }, bytes },
            None => Filling { part: first, bytes },
        };
        RecordPlace { id, part: filling.insert(next).part }
    }

    /// The part that is being filled; `None`: there is no place yet.
    pub(super) fn filling_part(&self) -> Option<Part> {
        self.filling.lock().as_ref().map(|filling| filling.part)
    }

    /// The rows for one event. A list that is too long for one row continues in the next.
    pub(super) fn records(
        &self,
        requester: &Requester,
        action: AuditAction,
        plan: Option<&str>,
        volumes: impl IntoIterator<Item = AuditedVolume>,
    ) -> ObjectsResult<Vec<AuditRow>> {
        let requester = shortened(requester);
        let mut rows = Vec::new();
        let frame_bytes = RECORD_FRAME_BYTES
            + requester.name.as_ref().map_or(0, String::len)
            + requester.request_id.len()
            + plan.map_or(0, str::len);
        let mut add_row = |volumes: Vec<AuditedVolume>, bytes: usize| -> ObjectsResult<()> {
            let place = self.place(frame_bytes + bytes);
            let part = u32::try_from(rows.len()).unwrap_or(u32::MAX);
            let (requester, plan) = (requester.clone(), plan.map(str::to_owned));
            rows.push(row(place, &AuditRecord { at: place.id.time(), requester, action, plan, part, volumes })?);
            Ok(())
        };
        let mut filling = Vec::new();
        let mut filled_bytes = 0;
        for volume in volumes.into_iter().flat_map(in_pieces) {
            let bytes = volume.volume.as_str().len() + 16 + 5 * volume.pages.as_ref().map_or(0, Vec::len);
            if filled_bytes + bytes > RECORD_BYTES && !filling.is_empty() {
                add_row(std::mem::take(&mut filling), filled_bytes)?;
                filled_bytes = 0;
            }
            filled_bytes += bytes;
            filling.push(volume);
        }
        add_row(filling, filled_bytes)?;
        Ok(rows)
    }

    /// The row for an event.
    pub(super) fn event(&self, event: &Event) -> ObjectsResult<AuditRow> {
        let event = event.shortened();
        let place = self.place(event.len_bytes());
        row(place, &EventRecord { at: place.id.time(), event })
    }

    /// Waits until all that is queued is acknowledged.
    pub(super) async fn drain(&self) -> ObjectsResult<()> {
        self.write_at_once(Vec::new(), Duration::ZERO).await
    }

    /// Queues rows, a few at a time, and waits until all are acknowledged.
    pub(super) async fn write(&self, rows: Vec<AuditRow>) -> ObjectsResult<()> {
        for some in rows.chunks(RECORDS_AT_ONCE) {
            self.write_at_once(some.to_vec(), Duration::ZERO).await?;
        }
        Ok(())
    }

    /// Queues a few rows, whose sync may wait for a while, and waits until they are acknowledged.
    pub(super) async fn write_at_once(&self, rows: Vec<AuditRow>, sync_delay: Duration) -> ObjectsResult<()> {
        let written = self.queue.push(rows, sync_delay)?;
        match tokio::time::timeout(self.wait_max, written).await {
            Ok(Ok(result)) => result.map_err(ObjectsError::from),
            Ok(Err(_)) => Err(ObjectsError::Overloaded("the audit has stopped".to_owned())),
            Err(_) => Err(ObjectsError::Overloaded("the audit is not acknowledged in time".to_owned())),
        }
    }
}

/// A record at its place.
pub(super) fn row(RecordPlace { id, part }: RecordPlace, record: &impl Stored) -> ObjectsResult<AuditRow> {
    Ok(AuditRow { id, part, value: head::seal(record)? })
}

/// Returns a requester whose texts, which others chose, are cut to [`NAME_BYTES_MAX`].
pub(super) fn shortened(requester: &Requester) -> Requester {
    let cut = |text: &String| text[..text.floor_char_boundary(NAME_BYTES_MAX)].to_owned();
    Requester {
        name: requester.name.as_ref().map(cut),
        address: requester.address,
        request_id: cut(&requester.request_id),
    }
}

/// Splits a volume with many pages, so that each piece fits a record.
fn in_pieces(volume: AuditedVolume) -> Vec<AuditedVolume> {
    match &volume.pages {
        Some(pages) if pages.len() > RECORD_PAGES => pages
            .chunks(RECORD_PAGES)
            .map(|some| AuditedVolume { volume: volume.volume.clone(), pages: Some(some.to_vec()) })
            .collect(),
        _ => vec![volume],
    }
}
