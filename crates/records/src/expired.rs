//! Deletes expired attributes of records that nobody changes.
//!
//! A change drops what has expired. A record that lasts and is only read would keep it on disk. A
//! walk over all records writes such a record again, as it is seen anyway. So no answer changes. Of
//! servers that share a store one walks at a time ([`Records::take_walk`]).
//!
//! In mode fast there is nothing to do: each attribute is a row, which expires by itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{Deadline, Outcome, PlainValue, Row, Table, boxed};

use crate::following::follow;
use crate::mode::Mode;
use crate::record::Content;
use crate::records::{Records, RecordsError, by, call, decoded, sealed};
use crate::turns::Turns;

/// A record is written again if its row gets shorter by so many bytes, or by one part of so many.
/// Otherwise the write costs more than it frees.
const FREED_MIN: usize = 1 << 10;
const PARTS: usize = 4;

/// How long such a write may wait for its sync. No client waits for it, and nobody sees what a
/// power failure brings back.
const SYNC_DELAY: Duration = Duration::from_secs(24 * 3_600);

/// What one step of the walk did, and where the next one begins.
#[derive(Debug, Default)]
pub struct Dropped {
    /// The argument for the next step; `None`: all records were seen.
    pub next: Option<Bytes>,
    /// Bytes of the ids and rows that were read.
    pub read_bytes: u64,
    /// Records that were written without their expired attributes.
    pub records: u64,
    /// Bytes of the rows that were written for them.
    pub written_bytes: u64,
    /// By how many bytes those rows are shorter than before.
    pub freed_bytes: u64,
    /// Why the step ended early, at a record that was perhaps not written; `None`: it did not. The
    /// next step does not try that record again.
    pub stopped_by: Option<RecordsError>,
}

impl Records {
    /// Whether [`Records::drop_expired`] has something to do: in mode atomic, in a store that has
    /// records. In one that servers share, this process must know of some.
    pub fn drops_expired(&self) -> bool {
        self.mode() == Mode::Atomic && self.mode.is_agreed()
    }

    /// One step of a walk over all records, of at most `max` of them. It ends earlier before it
    /// reads much more than `max_bytes`. In a store that servers share, sizes are not known before,
    /// so a step has no more records than certainly fit.
    ///
    /// It deletes expired attributes where they are 1 KiB or a quarter of the row, and changes
    /// nothing else: not what is seen of a record, nor when that expires. A record that is being
    /// changed, that has changed meanwhile or that is damaged stays as it is.
    ///
    /// It does not count as asking for the records, and leaves in the engine's cache what is read
    /// more often. What it writes need not survive a power failure.
    ///
    /// Errors: those of the store while it reads. A write that fails ends the step, and is in
    /// [`Dropped::stopped_by`].
    #[boxed]
    pub async fn drop_expired(
        &self,
        deadline: Deadline,
        from: Option<Bytes>,
        (max, max_bytes): (usize, usize),
    ) -> Result<Dropped, RecordsError> {
        if !self.drops_expired() {
            return Ok(Dropped::default());
        }
        let max = if self.is_shared() { max.min(self.fit_in(max_bytes)) } else { max };
        let walk = self.store.walk_rows(call(deadline), Table::Records, from, max, max_bytes);
        let page = by(deadline, walk).await?;
        let mut dropped = Dropped { next: page.next, ..Dropped::default() };
        for (id, row) in page.rows {
            dropped.read_bytes += (id.len() + row.value.len()) as u64;
            let Some(then) = self.shortened(&row) else { continue };
            let after = then.value.len();
            match self.shorten(deadline, &id, &row, then).await {
                Ok(true) => {
                    dropped.records += 1;
                    dropped.written_bytes += after as u64;
                    dropped.freed_bytes += row.value.len().saturating_sub(after) as u64;
                }
                Ok(false) => {}
                Err(error) => {
                    // The next step goes on behind it, so that no record holds up the walk. Where
                    // ids are not the places of a walk, it goes on behind the page.
                    let next = if self.is_shared() { dropped.next.take() } else { Some(id) };
                    return Ok(Dropped { next, stopped_by: Some(error), ..dropped });
                }
            }
        }
        Ok(dropped)
    }

    /// What a row becomes without expired attributes; `None`: that is not worth a write. A client
    /// that reads a damaged record gets the error, so it is none here.
    fn shortened(&self, row: &Row) -> Option<PlainValue> {
        let record = decoded(&row.value).ok()?;
        let Content::Attributes(stored) = &record.content else { return None };
        let count = stored.len();
        let live = record.live(self.now())?;
        if live.as_attributes().ok()?.len() == count {
            return None;
        }
        let then = sealed(self.store.as_ref(), &live).ok()?;
        let freed = row.value.len().saturating_sub(then.value.len());
        (freed >= FREED_MIN || freed * PARTS >= row.value.len()).then_some(then)
    }

    /// Writes it, unless the record is being changed or is not as it was read: then the other
    /// change drops what has expired. Returns whether it was written.
    async fn shorten(&self, deadline: Deadline, id: &Bytes, row: &Row, then: PlainValue) -> Result<bool, RecordsError> {
        let Some(turn) = self.place(id).free_turn() else { return Ok(false) };
        let step = follow(id, Some(PlainValue::of(row)), Some(then.clone()));
        let outcome = if self.is_shared() {
            self.write(deadline, Arc::new(Turns { _held: vec![turn] }), vec![step]).await?
        } else {
            let link = turn.begin(id, Some(then));
            self.give(deadline, turn, link, step, SYNC_DELAY).await?
        };
        match outcome {
            Outcome::Applied => Ok(true),
            Outcome::Refused { .. } => Ok(false),
            Outcome::Unknown { reason } => Err(RecordsError::Unknown(reason)),
        }
    }
}
