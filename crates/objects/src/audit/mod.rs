//! The audit: who asked for what, and what they got. It is written ahead: nothing leaves before its record is acknowledged, so a
//! crash reports a window too much and never too little; and while records cannot be written, new requests are refused.
//!
//! Records are rows of [`store::Table::Audit`], in partitions of an hour (UTC) and a writer, in the order of their ids. One task drains what is
//! queued into one write (natural batching): the slower the store, the larger the batches.
//!
//! How to read it: `record.rs` is what a record says; here is the [`Auditor`], which everybody calls; `recorder.rs` makes records and
//! waits until they are written, `pages.rs` those of single pages, in windows; `queue.rs` is where they wait, and the task that writes
//! them; `read.rs` reads them back; `keys.rs` is where rows live.

mod keys;
mod pages;
mod queue;
mod read;
mod record;
mod recorder;

use std::sync::Arc;
use std::time::Duration;

use hathi::{Seq, VolumeId};
use store::Store;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use keys::PART_BYTES;
pub use read::AuditTop;
pub use record::{AuditAction, AuditEntry, AuditRecord, AuditedVolume, DamagedRecord, Requester};

use crate::error::{ObjectsError, ObjectsResult};
use crate::library::LibraryOptions;
use crate::surroundings::Surroundings;
use pages::PageWindows;
use queue::{Queue, Writer};
use recorder::Recorder;

/// Writes the audit. It stops when it is dropped.
pub struct Auditor {
    recorder: Arc<Recorder>,
    pages: Arc<PageWindows>,
    max_lag: Duration,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl Auditor {
    /// An auditor that writes to `store`. Must be called within a tokio runtime, on which its tasks run.
    pub fn new(store: Arc<dyn Store>, surroundings: &Surroundings, options: &LibraryOptions) -> Self {
        let queue = Arc::new(Queue::new(surroundings.clock.clone()));
        let writer = Writer::new(queue.clone(), store, options.call_timeout);
        let recorder = Arc::new(Recorder::new(queue, surroundings, options.call_timeout));
        let pages = Arc::new(PageWindows::new(recorder.clone()));
        let tasks = [tokio::spawn(writer.run()), tokio::spawn(pages.clone().look_after())];
        Self { recorder, pages, max_lag: options.audit_max_lag, _tasks: tasks.map(AbortOnDropHandle::new) }
    }

    /// How long the oldest record that is not acknowledged has been waiting.
    pub fn lag(&self) -> Duration {
        self.recorder.queue.lag()
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
        self.recorder.write(self.recorder.records(requester, AuditAction::Requested, plan, volumes)?).await
    }

    /// Records that a selection of `volumes` was made. Refused while the audit lags.
    pub async fn selected(
        &self,
        requester: &Requester,
        plan: Option<&str>,
        volumes: impl IntoIterator<Item = AuditedVolume>,
    ) -> ObjectsResult<()> {
        self.check_lag()?;
        self.recorder.write(self.recorder.records(requester, AuditAction::Selected, plan, volumes)?).await
    }

    /// Records what is about to be sent. Await it before a byte leaves.
    pub async fn accessed(
        &self,
        requester: &Requester,
        action: AuditAction,
        plan: Option<&str>,
        volumes: impl IntoIterator<Item = AuditedVolume>,
    ) -> ObjectsResult<()> {
        self.recorder.write(self.recorder.records(requester, action, plan, volumes)?).await
    }

    /// Records that one page was asked for and is about to be sent. Refused while the audit lags. Who reads many pages of a volume
    /// waits for the disk now and then only: what stands in the audit then, should this process die, is that all of it was read.
    pub async fn page(&self, requester: &Requester, volume: &VolumeId, seq: Seq) -> ObjectsResult<()> {
        self.check_lag()?;
        self.pages.page(requester, volume, seq).await
    }

    /// Has the audit say exactly which single pages were read. To be called before the store is closed.
    pub async fn finish(&self) {
        self.pages.close_all().await;
    }
}
