//! Reads what a server has taken, and records what it finds.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use heads::ObjectsResult;
use store::Expect;
use tokio::time::{Instant, MissedTickBehavior};

use crate::auditor::{Auditor, Step};
use crate::check::{self, Checked};
use crate::shared;
use crate::state::{Finding, Reader, Tally};

/// How often a server saves its progress, which extends its lease.
pub(crate) const SAVE_EVERY: Duration = Duration::from_secs(15);

/// Objects that a server checks at once without a limit: while some wait for the disk, others are
/// hashed. Each holds about 3 MiB of a content at most. At a limited rate the wait is wanted, and
/// one at a time disturbs readers less.
const UNLIMITED_AT_ONCE: usize = 4;

/// A step ends after so many consecutive objects could not be read, because the store may fail, and
/// not an object. The next step goes on with others.
const FAILED_IN_A_ROW_MAX: u32 = 8;

/// Findings of damage that one reader stores in a pass. Further ones are only counted; the log has
/// all.
const DAMAGED_MAX: u64 = 400;

/// Findings of objects that could not be read, likewise.
const FAILED_MAX: u64 = 100;

const _: () = assert!(DAMAGED_MAX + FAILED_MAX == library::bounds::FIXITY_FINDINGS);

/// A reader that this server has.
pub(crate) struct Held {
    pub(crate) number: u8,
    pub(crate) reader: Reader,
    pub(crate) expect: Expect,
}

impl Auditor {
    /// Saves a reader and extends its lease; `None`: another server has it.
    pub(crate) async fn saved(&self, held: Held) -> ObjectsResult<Option<Held>> {
        let Held { number, mut reader, expect } = held;
        reader.server = self.server;
        reader.leased_until = shared::lease(self.heads().now());
        let expect = shared::write_reader(self.heads(), number, &reader, expect).await?;
        Ok(expect.map(|expect| Held { number, reader, expect }))
    }

    /// Reads what a reader has left. If another server takes it meanwhile, this one stops. Objects
    /// that cannot be read are put off: the step ends before they are tried once more, so that some
    /// time passes.
    pub(crate) async fn read_pending(&self, mut held: Held) -> ObjectsResult<Step> {
        let (mut read, mut saved) = (Tally::default(), Instant::now());
        let (mut failed_in_a_row, mut put_off_for) = (0, None);
        let at_once = if self.pace.is_limited() { 1 } else { UNLIMITED_AT_ONCE };
        // Checks of the reader's next objects, in the order of the reader.
        let mut checks = FuturesOrdered::new();
        while let Some(object) = held.reader.pending.last().cloned() {
            let was_put_off = self.put_off.lock().contains(&object);
            let ends = was_put_off || failed_in_a_row >= FAILED_IN_A_ROW_MAX;
            if let Some(error) = put_off_for.take_if(|_| ends) {
                self.saved(held).await?;
                return Err(error);
            }
            for next in held.reader.pending.iter().rev().take(at_once).skip(checks.len()) {
                // One that was put off has to wait until its turn.
                if !checks.is_empty() && self.put_off.lock().contains(next) {
                    break;
                }
                checks.push_back(self.check(next.clone()));
            }
            let checked;
            (checked, held) = match self.first_while_saving(&mut checks, held).await? {
                Some(checked) => checked,
                None => return Ok(Step::Moved),
            };
            failed_in_a_row = if checked.is_err() { failed_in_a_row + 1 } else { 0 };
            match checked {
                Err(error) if !was_put_off => {
                    self.put_off.lock().insert(object);
                    held.reader.pending.rotate_right(1);
                    put_off_for = Some(error);
                }
                Err(error) => {
                    self.record(&object, Checked::failed(&self.library, error.to_string()), &mut held.reader, &mut read)
                        .await?
                }
                Ok(Some(checked)) => self.record(&object, checked, &mut held.reader, &mut read).await?,
                Ok(None) => drop(held.reader.pending.pop()),
            }
            if held.reader.pending.is_empty() || saved.elapsed() >= SAVE_EVERY {
                saved = Instant::now();
                held = match self.saved(held).await? {
                    Some(held) => held,
                    None => return Ok(Step::Moved),
                };
            }
        }
        Ok(Step::Read(read))
    }

    /// Records what the check of a reader's next object has found.
    async fn record(
        &self,
        object: &Bytes,
        Checked { tally, finding }: Checked,
        reader: &mut Reader,
        read: &mut Tally,
    ) -> ObjectsResult<()> {
        if let Some(finding) = finding {
            let Finding { is_damaged, parts, more, .. } = &finding;
            let object_name = object.escape_ascii();
            tracing::warn!(object = %object_name, is_damaged, ?parts, more, "a fixity pass has a finding");
            let (listed, most) = match is_damaged {
                true => (reader.found.damaged, DAMAGED_MAX),
                false => (reader.found.failed, FAILED_MAX),
            };
            if listed < most {
                shared::put_finding(self.heads(), reader.pass, object, &finding).await?;
            }
        }
        reader.found.add(&tally);
        self.read.lock().add(&tally);
        read.add(&tally);
        reader.pending.pop();
        Ok(())
    }

    async fn check(&self, object: Bytes) -> ObjectsResult<Option<Checked>> {
        check::check(&self.library, &object, &self.pace).await
    }

    /// Waits for the first of some checks, and extends the lease meanwhile; `None`: another server
    /// has the reader.
    async fn first_while_saving(
        &self,
        checks: &mut FuturesOrdered<impl Future<Output = ObjectsResult<Option<Checked>>>>,
        mut held: Held,
    ) -> ObjectsResult<Option<(ObjectsResult<Option<Checked>>, Held)>> {
        let mut ticks = tokio::time::interval_at(Instant::now() + SAVE_EVERY, SAVE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(checked) = checks.next() => return Ok(Some((checked, held))),
                _ = ticks.tick() => {
                    held = match self.saved(held).await? {
                        Some(held) => held,
                        None => return Ok(None),
                    };
                }
            }
        }
    }
}
