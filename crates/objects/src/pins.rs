//! Pins: how a selection keeps the rows of a revision from being collected.
//!
//! They stand in a table of their own ([`Table::Pins`], partitions as those of the volumes), which is of the lane of what serving
//! writes: a selection can be made while the text itself takes no writes. Nothing needs them to change together with a head.

use std::collections::BTreeSet;

use hathi::VolumeId;
use serde::{Deserialize, Serialize};
use store::{Class, NewRow, Removal, Row, Scan, Step, Strength, Table, UnixMillis};

use crate::error::ObjectsResult;
use crate::head::{self, Head};
use crate::keys;
use crate::library::Library;
use crate::revision::RevisionId;
use crate::rules::Rule;

/// Pins that are put with one call of the store.
const BATCH_PINS: usize = 500;

/// Bytes of one page of a scan over pins.
const SCAN_BYTES: usize = 64 << 10;

/// Whether a pin holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// The revision's rows stay until the pin ends.
    Held,
    /// The revision may be collected already: plan this volume anew, under another selection.
    Lost,
}

/// The value of a pin.
#[derive(Serialize, Deserialize)]
struct Pin {
    revision: RevisionId,
    until: UnixMillis,
}

impl Library {
    /// Pins revisions, which a plan read from heads before, for a selection that ends at `until`; answers for each whether it
    /// holds. The pins last a plan's life longer, so that who began to read just before the end can read on. A selection pins
    /// one revision of a volume, once.
    ///
    /// Pins are put acknowledged, then heads are read again: who condemns later sees the pin, who condemned before is seen.
    pub async fn pin(
        &self,
        volumes: &[(VolumeId, RevisionId)],
        selection: &str,
        until: UnixMillis,
    ) -> ObjectsResult<Vec<Pinned>> {
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
            self.put_acknowledged(Class::Description, steps.collect::<ObjectsResult<_>>()?).await?;
            let ids: Vec<_> = batch.iter().map(|(id, _)| id.clone()).collect();
            let heads = self.patiently(|| self.heads(&ids, Strength::Strong)).await?;
            for (head, (_, revision)) in heads.into_iter().zip(batch) {
                let holds = !self.keeps(Rule::PinFirst) || head?.is_some_and(|row| row.head.keeps(*revision));
                pinned.push(if holds { Pinned::Held } else { Pinned::Lost });
            }
        }
        Ok(pinned)
    }

    /// Takes a selection's pins away. What is not pinned is no error.
    pub async fn unpin(&self, ids: &[VolumeId], selection: &str) -> ObjectsResult<()> {
        for batch in ids.chunks(BATCH_PINS) {
            let steps = batch.iter().map(|id| Step::Remove {
                table: Table::Pins,
                partition: keys::volume_partition(id),
                rows: Removal::Rows(vec![keys::pin(selection)]),
            });
            self.put_acknowledged(Class::Description, steps.collect()).await?;
        }
        Ok(())
    }

    /// The revisions of a volume that are pinned now. Pins that have ended are taken away.
    pub(crate) async fn pinned_revisions(&self, id: &VolumeId) -> ObjectsResult<BTreeSet<RevisionId>> {
        let partition = keys::volume_partition(id);
        let mut pinned = BTreeSet::new();
        let mut scan = Some(Scan::prefix(keys::pin_prefix(), SCAN_BYTES));
        while let Some(range) = scan {
            let call = self.call(Class::Description).strong();
            let page = self.inner.store.scan(call, Table::Pins, &partition, range.clone()).await?;
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
                self.put_acknowledged(Class::Description, vec![step]).await?;
            }
            scan = range.resumed(page.next);
        }
        Ok(pinned)
    }

    /// The revision that a pin keeps; `None`: it has ended, by any server's clock.
    fn pin_in_force(&self, row: &Row) -> ObjectsResult<Option<RevisionId>> {
        let pin: Pin = head::open(Table::Pins, &row.value)?;
        let options = &self.inner.options;
        let end = pin.until.plus(options.plan_life).plus(options.clock_skew_max);
        Ok((self.inner.surroundings.clock.now() <= end).then_some(pin.revision))
    }
}

impl Head {
    /// Whether the rows of `revision`, which was current at some time, are neither condemned nor collected: it is current still,
    /// or above all that was ever condemned, or was current when the standing condemnation was spoken.
    fn keeps(&self, revision: RevisionId) -> bool {
        revision == self.revision
            || revision > self.floor
            || self.condemned.is_some_and(|condemned| condemned.named == revision)
    }
}
