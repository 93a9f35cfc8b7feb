//! The audit: who asked for what, and what they got. It is written ahead: nothing leaves before its record is acknowledged, so a
//! crash reports a window too much and never too little; and while records cannot be written, new requests are refused.
//!
//! Records are rows of [`store::Table::Audit`], a partition an hour (UTC), in the order of their ids. One task drains what is
//! queued into one write (natural batching): the slower the store, the larger the batches.
//!
//! How to read it: `record.rs` is what a record says; here is the [`Auditor`], which makes records and waits until they are
//! written; `queue.rs` is where they wait, and the task that writes them; `read.rs` reads them back; `keys.rs` is where rows live.

mod keys;
mod queue;
mod read;
mod record;

use std::sync::Arc;
use std::time::Duration;

use hathi::{Seq, VolumeId};
use store::{Clock, Store};
use tokio::task::JoinHandle;

pub use read::AuditTop;
pub use record::{AuditAction, AuditRecord, AuditedVolume, Requester};

use crate::error::{ObjectsError, ObjectsResult};
use crate::head;
use crate::library::LibraryOptions;
use crate::revision::RevisionClock;
use queue::{AuditRow, Queue, Writer};

/// Bytes of volumes and pages in one record; what is longer goes on in further records.
const RECORD_BYTES: usize = 48 << 10;

/// Pages of one volume in one record.
const RECORD_PAGES: usize = 8_000;

/// Records that one caller has waiting at once.
const RECORDS_AT_ONCE: usize = 16;

/// Bytes kept of a name or request id.
const NAME_BYTES_MAX: usize = 256;

/// Writes the audit. It stops when it is dropped.
pub struct Auditor {
    queue: Arc<Queue>,
    ids: RevisionClock,
    max_lag: Duration,
    wait_max: Duration,
    writing: JoinHandle<()>,
}

impl Auditor {
    /// An auditor that writes to `store`. Must be called within a tokio runtime, on which its one task runs.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: &LibraryOptions) -> Self {
        let queue = Arc::new(Queue::new(clock.clone()));
        let writer = Writer::new(queue.clone(), store, options.call_timeout);
        Self {
            queue,
            ids: RevisionClock::new(clock),
            max_lag: options.audit_max_lag,
            wait_max: options.call_timeout,
            writing: tokio::spawn(writer.run()),
        }
    }

    /// How long the oldest record that is not acknowledged has been waiting.
    pub fn lag(&self) -> Duration {
        self.queue.lag()
    }

    /// Refuses a new request while the audit lags.
    pub fn check_lag(&self) -> ObjectsResult<()> {
        let lag = self.lag();
        if lag > self.max_lag {
            return Err(ObjectsError::Overloaded(format!("the audit lags by {} ms", lag.as_millis())));
        }
        Ok(())
    }

    /// Records that `volumes` were asked for. Refused while the audit lags.
    pub async fn requested(
        &self,
        requester: &Requester,
        plan: Option<&str>,
        volumes: impl IntoIterator<Item = AuditedVolume>,
    ) -> ObjectsResult<()> {
        self.check_lag()?;
        self.write(self.records(requester, AuditAction::Requested, plan, volumes)?).await
    }

    /// Records what is about to be sent. Await it before a byte leaves.
    pub async fn accessed(
        &self,
        requester: &Requester,
        action: AuditAction,
        plan: Option<&str>,
        volumes: impl IntoIterator<Item = AuditedVolume>,
    ) -> ObjectsResult<()> {
        self.write(self.records(requester, action, plan, volumes)?).await
    }

    /// Records that one page was asked for and is about to be sent. Refused while the audit lags.
    pub async fn page(&self, requester: &Requester, volume: &VolumeId, seq: Seq) -> ObjectsResult<()> {
        self.check_lag()?;
        let page = || [AuditedVolume { volume: volume.clone(), pages: Some(vec![seq.get()]) }];
        let mut rows = self.records(requester, AuditAction::Requested, None, page())?;
        rows.extend(self.records(requester, AuditAction::Accessed, None, page())?);
        self.write(rows).await
    }

    /// The rows that tell of one event; a list that is too long for one goes on in the next.
    fn records(
        &self,
        requester: &Requester,
        action: AuditAction,
        plan: Option<&str>,
        volumes: impl IntoIterator<Item = AuditedVolume>,
    ) -> ObjectsResult<Vec<AuditRow>> {
        let mut requester = requester.clone();
        requester.name = requester.name.map(shortened);
        requester.request_id = shortened(requester.request_id);
        let mut rows = Vec::new();
        let mut add_row = |volumes: Vec<AuditedVolume>| -> ObjectsResult<()> {
            let id = self.ids.mint();
            let part = u32::try_from(rows.len()).unwrap_or(u32::MAX);
            let (requester, plan) = (requester.clone(), plan.map(str::to_owned));
            let record = AuditRecord { at: id.time(), requester, action, plan, part, volumes };
            rows.push(AuditRow { id, value: head::seal(&record)? });
            Ok(())
        };
        let mut filling = Vec::new();
        let mut filled_bytes = 0;
        for volume in volumes.into_iter().flat_map(in_pieces) {
            let bytes = volume.volume.as_str().len() + 8 + 5 * volume.pages.as_ref().map_or(0, Vec::len);
            if filled_bytes + bytes > RECORD_BYTES && !filling.is_empty() {
                add_row(std::mem::take(&mut filling))?;
                filled_bytes = 0;
            }
            filled_bytes += bytes;
            filling.push(volume);
        }
        add_row(filling)?;
        Ok(rows)
    }

    /// Has rows written, a few at a time, and waits until all are acknowledged.
    async fn write(&self, rows: Vec<AuditRow>) -> ObjectsResult<()> {
        for some in rows.chunks(RECORDS_AT_ONCE) {
            let written = self.queue.push(some.to_vec())?;
            match tokio::time::timeout(self.wait_max, written).await {
                Ok(Ok(result)) => result.map_err(ObjectsError::from)?,
                Ok(Err(_)) => return Err(ObjectsError::Overloaded("the audit has stopped".to_owned())),
                Err(_) => return Err(ObjectsError::Overloaded("the audit is not acknowledged in time".to_owned())),
            }
        }
        Ok(())
    }
}

impl Drop for Auditor {
    fn drop(&mut self) {
        self.writing.abort();
    }
}

/// Cuts a text that somebody else chose down to [`NAME_BYTES_MAX`].
fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(NAME_BYTES_MAX));
    text
}

/// A volume with so few pages at a time that a record holds them.
fn in_pieces(volume: AuditedVolume) -> Vec<AuditedVolume> {
    match &volume.pages {
        Some(pages) if pages.len() > RECORD_PAGES => pages
            .chunks(RECORD_PAGES)
            .map(|some| AuditedVolume { volume: volume.volume.clone(), pages: Some(some.to_vec()) })
            .collect(),
        _ => vec![volume],
    }
}
