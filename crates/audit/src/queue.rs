//! The queue of records that are not acknowledged yet, and the task that writes them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use heads::error::{ObjectsError, ObjectsResult};
use heads::revision::RevisionId;
use parking_lot::Mutex;
use store::{Call, Class, Clock, Deadline, NewRow, Outcome, Step, Store, StoreError, Table, UnixMillis};
use tokio::sync::{Notify, oneshot};

use crate::keys::Part;

/// The most bytes that one write takes out of the queue (more if the records of one caller are
/// larger).
const BATCH_BYTES: usize = 2 << 20;

/// The most bytes in the queue.
const QUEUE_BYTES_MAX: usize = 32 << 20;

/// Pauses between two tries of a write that was not acknowledged.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long the refusal of a write is remembered, if no other write is tried. While a server says
/// that it is not ready, nobody reads from it, and so nothing may be written that would show that
/// the audit works again. Then reads are tried, and the first of them finds out.
const REFUSAL_KEPT: Duration = Duration::from_secs(30);

/// A record, ready to be put.
#[derive(Clone)]
pub(super) struct AuditRow {
    pub(super) id: RevisionId,
    pub(super) part: Part,
    pub(super) value: Bytes,
}

impl AuditRow {
    fn len_bytes(&self) -> usize {
        self.id.0.len() + self.value.len()
    }
}

/// The records of one waiting caller.
struct Waiting {
    since: UnixMillis,
    rows: Vec<AuditRow>,
    /// How long their sync may wait after they are acknowledged.
    sync_delay: Duration,
    written: oneshot::Sender<Result<(), StoreError>>,
}

impl Waiting {
    fn len_bytes(&self) -> usize {
        self.rows.iter().map(AuditRow::len_bytes).sum()
    }
}

/// Records that are not acknowledged yet, including those being written.
pub(super) struct Queue {
    clock: Arc<dyn Clock>,
    waiting: Mutex<AllWaiting>,
    failures: AtomicU64,
    /// When and why the last write was refused; `None` if it succeeded.
    refused: Mutex<Option<(UnixMillis, String)>>,
    filled: Notify,
}

/// What one write takes out of the queue.
struct Batch {
    rows: Vec<AuditRow>,
    /// How many callers wait for it.
    callers: usize,
    /// How long its sync may wait: no longer than any of them allows.
    sync_delay: Duration,
}

/// Waiting callers, oldest first, and the bytes of their records.
#[derive(Default)]
struct AllWaiting {
    callers: VecDeque<Waiting>,
    bytes: usize,
}

impl Queue {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            waiting: Mutex::default(),
            failures: AtomicU64::new(0),
            refused: Mutex::default(),
            filled: Notify::new(),
        }
    }

    /// How long the oldest record has been waiting.
    pub(super) fn lag(&self) -> Duration {
        self.waiting.lock().callers.front().map_or(Duration::ZERO, |oldest| self.clock.now().since(oldest.since))
    }

    /// How often writing records failed.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Why the last write was refused, if that was a moment ago.
    pub(super) fn refusal(&self) -> Option<String> {
        let (at, why) = self.refused.lock().clone()?;
        (self.clock.now().since(at) < REFUSAL_KEPT).then_some(why)
    }

    /// Notes how a write ended. An error that only this write's records cause says nothing of the
    /// next one.
    fn note(&self, written: &Result<(), StoreError>) {
        match written {
            Ok(()) => *self.refused.lock() = None,
            Err(StoreError::Limit { .. } | StoreError::Invalid(_)) => {}
            Err(error) => *self.refused.lock() = Some((self.clock.now(), error.to_string())),
        }
    }

    /// Bytes of the records that wait.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    /// Queues records, whose sync may wait for a while after they are written. The receiver gets
    /// the result once they are written.
    pub(super) fn push(
        &self,
        rows: Vec<AuditRow>,
        sync_delay: Duration,
    ) -> ObjectsResult<oneshot::Receiver<Result<(), StoreError>>> {
        let (written, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        if waiting.bytes > QUEUE_BYTES_MAX {
            return Err(ObjectsError::Overloaded("too many audit records are waiting".to_owned()));
        }
        let caller = Waiting { since: self.clock.now(), rows, sync_delay, written };
        waiting.bytes += caller.len_bytes();
        waiting.callers.push_back(caller);
        self.filled.notify_one();
        Ok(receiver)
    }

    /// Returns the rows of as many callers as one write takes. They stay in the queue.
    fn batch(&self) -> Batch {
        let waiting = self.waiting.lock();
        let mut batch = Batch { rows: Vec::new(), callers: 0, sync_delay: Duration::MAX };
        let mut bytes = 0;
        for caller in &waiting.callers {
            bytes += caller.len_bytes();
            if batch.callers > 0 && bytes > BATCH_BYTES {
                break;
            }
            batch.rows.extend_from_slice(&caller.rows);
            batch.callers += 1;
            batch.sync_delay = batch.sync_delay.min(caller.sync_delay);
        }
        batch
    }

    /// Removes callers from the queue and sends them the result. Callers that have gone are
    /// ignored.
    fn answer(&self, callers: usize, result: &Result<(), StoreError>) {
        let mut waiting = self.waiting.lock();
        let answered: Vec<Waiting> = waiting.callers.drain(..callers).collect();
        for caller in answered {
            waiting.bytes -= caller.len_bytes();
            let _ = caller.written.send(result.as_ref().copied().map_err(for_many));
        }
    }
}

/// The same error for each caller that waited for one write.
fn for_many(error: &StoreError) -> StoreError {
    match error {
        StoreError::Full(why) => StoreError::Full(why.clone()),
        StoreError::Poisoned(why) => StoreError::Poisoned(why.clone()),
        StoreError::ReadOnly(why) => StoreError::ReadOnly(why.clone()),
        other => StoreError::Unavailable(format!("the audit cannot be written: {other}")),
    }
}

/// The task that writes the queue.
pub(super) struct Writer {
    queue: Arc<Queue>,
    store: Arc<dyn Store>,
    call_timeout: Duration,
}

impl Writer {
    pub(super) fn new(queue: Arc<Queue>, store: Arc<dyn Store>, call_timeout: Duration) -> Self {
        Self { queue, store, call_timeout }
    }

    /// Writes queued records, forever.
    pub(super) async fn run(self) {
        loop {
            let Batch { rows, callers, sync_delay } = self.queue.batch();
            if callers == 0 {
                self.queue.filled.notified().await;
                continue;
            }
            let has_rows = !rows.is_empty();
            let result = self.write(rows, sync_delay).await;
            if has_rows {
                self.queue.note(&result);
            }
            if let Err(error) = &result {
                self.queue.failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%error, callers, "the audit cannot be written");
            }
            self.queue.answer(callers, &result);
        }
    }

    /// Writes until the store acknowledges the rows or the write certainly fails. Repeating a write
    /// is harmless, because each row has its own id.
    async fn write(&self, rows: Vec<AuditRow>, sync_delay: Duration) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut partitions: BTreeMap<Bytes, Vec<NewRow>> = BTreeMap::new();
        for row in rows {
            let sort = Bytes::copy_from_slice(&row.id.0);
            partitions.entry(row.part.partition()).or_default().push(NewRow::new(sort, row.value));
        }
        let put = |(partition, rows)| Step::Put { table: Table::Audit, partition, rows };
        let steps: Vec<Step> = partitions.into_iter().map(put).collect();
        let mut pause = PAUSE_MIN;
        loop {
            let call = Call::new(Class::Audit, Deadline::within(self.call_timeout)).synced_within(sync_delay);
            // Rows have ids of their own: each is new, or replaces one that this process wrote.
            let call = call.having_read();
            match self.store.run(call, steps.clone()).await {
                Ok(Outcome::Applied) => return Ok(()),
                Ok(Outcome::Refused { .. }) => return Err(StoreError::Invalid("a plain put was refused".to_owned())),
                Ok(Outcome::Unknown { reason }) => tracing::warn!(%reason, "an audit write is not acknowledged"),
                Err(error) if error.is_passing() => tracing::warn!(%error, "an audit write is tried again"),
                Err(error) => return Err(error),
            }
            self.queue.failures.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::ManualClock;

    use super::*;

    #[test]
    fn a_write_is_synced_as_early_as_any_of_its_callers_wants() {
        let queue = Queue::new(Arc::new(ManualClock::new(UnixMillis(0))));
        let delays = [5, 2, 7].map(Duration::from_secs);
        let _waiting: Vec<_> = delays.iter().map(|delay| queue.push(Vec::new(), *delay).unwrap()).collect();
        let Batch { callers, sync_delay, .. } = queue.batch();
        assert_eq!((callers, sync_delay), (3, Duration::from_secs(2)));
        let _drained = queue.push(Vec::new(), Duration::ZERO).unwrap();
        assert_eq!(queue.batch().sync_delay, Duration::ZERO);
    }
}
