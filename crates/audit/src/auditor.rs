//! The writer of the audit.

use std::sync::Arc;
use std::time::Duration;

use hathi::{Seq, VolumeId};
use heads::error::{ObjectsError, ObjectsResult};
use heads::options::LibraryOptions;
use heads::surroundings::Surroundings;
use store::{Store, boxed};
use tokio_util::task::AbortOnDropHandle;

use crate::event::Event;
use crate::keys::Part;
use crate::pages::PageWindows;
use crate::queue::{Queue, Writer};
use crate::record::{AuditAction, AuditedVolume, Requester};
use crate::recorder::Recorder;
use crate::refusals::Refusals;

/// How long the sync of an event may wait where nobody wants it earlier. Requests that change
/// something one after the other share one then.
const EVENT_SYNC_DELAY: Duration = Duration::from_millis(100);

/// Writes the audit. It stops when it is dropped.
pub struct Auditor {
    recorder: Arc<Recorder>,
    pages: Arc<PageWindows>,
    refusals: Arc<Refusals>,
    max_lag: Duration,
    _tasks: [AbortOnDropHandle<()>; 3],
}

impl Auditor {
    /// An auditor that writes to `store`. Must be called within a tokio runtime, on which its tasks
    /// run.
    pub fn new(store: Arc<dyn Store>, surroundings: &Surroundings, options: &LibraryOptions) -> Self {
        let queue = Arc::new(Queue::new(surroundings.clock.clone()));
        let writer = Writer::new(queue.clone(), store, options.call_timeout);
        let recorder = Arc::new(Recorder::new(queue, surroundings, options.call_timeout));
        let pages = Arc::new(PageWindows::new(recorder.clone()));
        let refusals = Arc::new(Refusals::new(recorder.clone()));
        let tasks = [
            tokio::spawn(writer.run()),
            tokio::spawn(pages.clone().look_after()),
            tokio::spawn(refusals.clone().look_after()),
        ];
        let max_lag = options.audit_max_lag;
        Self { recorder, pages, refusals, max_lag, _tasks: tasks.map(AbortOnDropHandle::new) }
    }

    /// How long the oldest record that is not acknowledged has been waiting.
    pub fn lag(&self) -> Duration {
        self.recorder.queue.lag()
    }

    /// How often a write of records failed, or was not acknowledged, since this library was opened.
    pub fn failures(&self) -> u64 {
        self.recorder.queue.failures()
    }

    /// Bytes of the records that are not acknowledged.
    pub fn waiting_bytes(&self) -> usize {
        self.recorder.queue.waiting_bytes()
    }

    /// Why the store refused the last write of records, until one succeeds, and for 30 seconds at
    /// most. Such a write does not wait, so that the audit does not lag.
    pub fn refusal(&self) -> Option<String> {
        self.recorder.queue.refusal()
    }

    /// Refuses a new request while the audit lags.
    pub fn check_lag(&self) -> ObjectsResult<()> {
        let lag = self.lag();
        if lag > self.max_lag {
            return Err(ObjectsError::Overloaded(format!("the audit lags by {} ms", lag.as_millis())));
        }
        Ok(())
    }

    /// Records a request for `volumes`. Refused while the audit lags.
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

    /// Records what is about to be sent. Await this before a byte leaves.
    pub async fn accessed(
        &self,
        requester: &Requester,
        action: AuditAction,
        plan: Option<&str>,
        volumes: impl IntoIterator<Item = AuditedVolume>,
    ) -> ObjectsResult<()> {
        self.recorder.write(self.recorder.records(requester, action, plan, volumes)?).await
    }

    /// Records a request for one page that is about to be sent. Refused while the audit lags.
    ///
    /// A reader of many pages of a volume waits for the disk only now and then. If this process
    /// dies meanwhile, the audit says that the whole volume was read.
    #[boxed]
    pub async fn page(&self, requester: &Requester, volume: &VolumeId, seq: Seq) -> ObjectsResult<()> {
        self.check_lag()?;
        self.pages.page(requester, volume, seq).await
    }

    /// Records an event, and waits until it is acknowledged. All that wait share one write. The
    /// death of this process does not undo it, nor does a power failure.
    #[boxed]
    pub async fn synced_event(&self, event: &Event) -> ObjectsResult<()> {
        self.event_within(event, Duration::ZERO).await
    }

    /// The same, but a power failure may undo what was recorded in the last tenth of a second, in an
    /// engine that can put off a sync.
    #[boxed]
    pub async fn event(&self, event: &Event) -> ObjectsResult<()> {
        self.event_within(event, EVENT_SYNC_DELAY).await
    }

    async fn event_within(&self, event: &Event, sync_delay: Duration) -> ObjectsResult<()> {
        self.recorder.write_at_once(vec![self.recorder.event(event)?], sync_delay).await
    }

    /// Records an event soon, and does not wait for it. It is lost if this process dies before.
    pub fn event_later(&self, event: &Event) {
        let queued = self.recorder.event(event).and_then(|row| self.recorder.queue.push(vec![row], EVENT_SYNC_DELAY));
        if let Err(error) = queued {
            tracing::error!(%error, action = event.action, "an event is not recorded in the audit");
        }
    }

    /// Counts a refusal. Those of one client within a minute become one event.
    pub fn refused(&self, event: Event) {
        self.refusals.count(event);
    }

    /// Waits until all that waits is written.
    pub(crate) async fn written(&self) -> ObjectsResult<()> {
        self.recorder.drain().await
    }

    /// The part that is being filled; `None`: nothing was recorded yet.
    pub(crate) fn filling(&self) -> Option<Part> {
        self.recorder.filling_part()
    }

    /// Replaces open windows by records of exactly the pages that were read, and writes what waits.
    /// Call this before the store is closed.
    #[boxed]
    pub async fn finish(&self) {
        self.pages.close_all().await;
        self.refusals.record().await;
        if let Err(error) = self.recorder.drain().await {
            tracing::warn!(%error, "records of the audit may be lost");
        }
    }
}
