//! Pins protect the rows of a revision from being collected, for selections.
//!
//! Pins have a table of their own ([`Table::Pins`], with the same partitions as volumes). It
//! belongs to the service lane: a selection can be made while the text lane refuses writes. Pins
//! need not change together with a head.
//!
//! The pins of a volume are one partition, so their number is bounded. A server puts
//! [`UNSEEN_PINS_MAX`] on a volume without a look. Then it reads, before the next one, the pins of
//! selections whose ids begin as that of the new one does, and refuses it if they are
//! [`ALIKE_PINS_MAX`]. Ids are random, so each look is at one of 4,096 equal parts. A look that finds
//! half as many at most allows [`UNSEEN_PINS_MAX`] more without one: a volume that is nearly full
//! has no part with so few. After any other the next pin takes a look too.

use std::collections::BTreeSet;

use budget::Unseen;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{self};
use heads::keys;
use heads::revision::RevisionId;
use heads::rules::Rule;
use serde::{Deserialize, Serialize};
use store::{Class, NewRow, Removal, Row, Scan, Step, Stored, Strength, Table, UnixMillis, ValueKind, boxed};

use crate::handle::Volumes;

/// Pins that are put in one call of the store.
const BATCH_PINS: usize = 500;

/// Bytes of one page of a scan over pins.
const SCAN_BYTES: usize = 64 << 10;

/// A server puts so many pins on a volume before it looks how many there are.
pub const UNSEEN_PINS_MAX: u32 = 10_000;

/// The most pins of a volume whose selections have ids that begin alike. Those that are put at the
/// same time may exceed it, each by itself.
pub const ALIKE_PINS_MAX: usize = 128;

/// The hexadecimal digits in which ids are alike.
const ALIKE_DIGITS: usize = 3;

/// The beginnings that ids may have.
pub const PIN_BEGINNINGS: u64 = 1 << (4 * ALIKE_DIGITS);

/// More than the bytes of as many pins as may be alike.
const ALIKE_BYTES: usize = 16 << 10;

/// It is remembered of so many volumes how many pins were put without a look: 2 MiB of memory, 5 at
/// most. If more are pinned, the counts are set to zero each time that 160 million pins were put,
/// or more.
const UNSEEN_VOLUMES: usize = 1 << 16;

/// Counts the pins that are put without a look.
pub(crate) fn unseen() -> Unseen {
    Unseen::new(UNSEEN_VOLUMES, UNSEEN_PINS_MAX)
}

/// Whether a pin protects its revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// The revision's rows stay until the pin ends.
    Held,
    /// The revision may be collected already: plan this volume again, under another selection.
    Lost,
}

/// The value of a pin.
#[derive(Serialize, Deserialize)]
struct Pin {
    revision: RevisionId,
    until: UnixMillis,
}

impl Stored for Pin {
    const KIND: ValueKind = ValueKind::Pin;
}

impl Volumes {
    /// Pins revisions, which a plan has read from heads, for a selection that ends at `until`.
    /// Returns for each whether the pin holds. A pin lasts a plan's life longer, so that a reader
    /// that began just before the end can finish. A selection pins one revision of a volume, once.
    ///
    /// Pins are acknowledged before heads are read again. A collector that condemns later sees the
    /// pin; one that condemned earlier is seen here.
    ///
    /// Fails with [`ObjectsError::OverLimit`], and puts nothing, if one of the volumes has as many
    /// pins as it may have of selections whose ids begin like this one. Another id may have room.
    #[boxed]
    pub async fn pin(
        &self,
        volumes: &[(VolumeId, RevisionId)],
        selection: &str,
        until: UnixMillis,
    ) -> ObjectsResult<Vec<Pinned>> {
        self.check_pins(volumes, selection).await?;
        let mut pinned = Vec::with_capacity(volumes.len());
        for batch in volumes.chunks(BATCH_PINS) {
            let steps = batch.iter().map(|(id, revision)| {
                let pin = head::seal(&Pin { revision: *revision, until })?;
                Ok(Step::Put {
                    table: Table::Pins,
                    partition: keys::volume_partition(id),
                    rows: vec![NewRow::new(keys::pin(selection), pin)],
                })
            });
            self.heads.put_acknowledged(Class::Description, steps.collect::<ObjectsResult<_>>()?).await?;
            let ids: Vec<_> = batch.iter().map(|(id, _)| id.clone()).collect();
            let heads = self.heads.retry_transient(|| self.heads(&ids, Strength::Strong)).await?;
            for (head, (id, revision)) in heads.into_iter().zip(batch) {
                let holds = match head? {
                    _ if !self.heads.keeps(Rule::PinFirst) => true,
                    Some(row) => self.holds(id, &row.head, *revision).await?,
                    None => false,
                };
                pinned.push(if holds { Pinned::Held } else { Pinned::Lost });
            }
        }
        Ok(pinned)
    }

    /// Refuses another pin of a volume on which this server has put very many, if there are as many
    /// as may be.
    async fn check_pins(&self, volumes: &[(VolumeId, RevisionId)], selection: &str) -> ObjectsResult<()> {
        let unseen = &self.inner.unseen_pins;
        let ids: Vec<&VolumeId> =
            volumes.iter().map(|(id, _)| id).filter(|id| !unseen.take(id.as_str().as_bytes(), 1)).collect();
        let beginning = selection.get(..ALIKE_DIGITS).unwrap_or(selection);
        let alike = Scan::prefix(keys::pin(beginning), ALIKE_BYTES);
        for batch in ids.chunks(BATCH_PINS) {
            let scan = |id: &&VolumeId| (Table::Pins, keys::volume_partition(id), alike.clone());
            let scans: Vec<_> = batch.iter().map(scan).collect();
            let read = || async {
                Ok(self.heads.store().scan_many(self.heads.call(Class::Description), scans.clone()).await?)
            };
            let pages = self.heads.retry_transient(read).await?;
            for (id, page) in batch.iter().zip(&pages) {
                if page.next.is_some() || page.rows.len() >= ALIKE_PINS_MAX {
                    let detail = format!("{id} is in as many selections as it may be; delete some, or try again later");
                    return Err(ObjectsError::OverLimit(detail));
                }
                if page.rows.len() <= ALIKE_PINS_MAX / 2 {
                    unseen.looked_at(id.as_str().as_bytes(), 1);
                }
            }
        }
        Ok(())
    }

    /// Deletes a selection's pins. A volume without a pin is not an error.
    pub async fn unpin(&self, ids: &[VolumeId], selection: &str) -> ObjectsResult<()> {
        for batch in ids.chunks(BATCH_PINS) {
            let steps = batch.iter().map(|id| Step::Remove {
                table: Table::Pins,
                partition: keys::volume_partition(id),
                rows: Removal::Rows(vec![keys::pin(selection)]),
            });
            self.heads.put_acknowledged(Class::Description, steps.collect()).await?;
        }
        Ok(())
    }

    /// The revisions of a volume that are pinned now. Deletes pins that have ended.
    pub(crate) async fn pinned_revisions(&self, id: &VolumeId) -> ObjectsResult<BTreeSet<RevisionId>> {
        let partition = keys::volume_partition(id);
        let mut pinned = BTreeSet::new();
        let mut scan = Some(Scan::prefix(keys::pin_prefix(), SCAN_BYTES));
        while let Some(range) = scan {
            let call = self.heads.call(Class::Description).strong();
            let page = self.heads.store().scan(call, Table::Pins, &partition, range.clone()).await?;
            let mut ended = Vec::new();
            for row in &page.rows {
                match self.pin_in_force(row)? {
                    Some(revision) => _ = pinned.insert(revision),
                    None => ended.push(row.sort.clone()),
                }
            }
            if !ended.is_empty() {
                let step =
                    Step::Remove { table: Table::Pins, partition: partition.clone(), rows: Removal::Rows(ended) };
                self.heads.put_acknowledged(Class::Description, vec![step]).await?;
            }
            scan = range.resumed(page.next);
        }
        Ok(pinned)
    }

    /// The revision that a pin protects; `None` if the pin has ended by every server's clock.
    fn pin_in_force(&self, row: &Row) -> ObjectsResult<Option<RevisionId>> {
        let pin: Pin = head::open(Table::Pins, &row.value)?;
        let options = &self.heads.options();
        let end = pin.until.plus(options.plan_life).plus(options.clock_skew_max);
        Ok((self.heads.now() <= end).then_some(pin.revision))
    }
}
