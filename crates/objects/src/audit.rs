//! The audit: who asked for what, and what they got. It is written ahead: nothing leaves before its record is acknowledged, so a
//! crash reports a window too much and never too little; and while records cannot be written, new requests are refused.
//!
//! Records are rows of [`Table::Audit`], a partition an hour (UTC), in the order of their ids. One task drains what is queued
//! into one write (natural batching): the slower the store, the larger the batches.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use hathi::{Seq, VolumeId};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use store::{Call, Class, Clock, Deadline, NewRow, Outcome, Row, Scan, Step, Store, StoreError, Table, UnixMillis};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::error::{ObjectsError, ObjectsResult};
use crate::head;
use crate::library::{Library, LibraryOptions};
use crate::revision::{RevisionClock, RevisionId};

/// Bytes of volumes and pages in one record; what is longer goes on in further records.
const RECORD_BYTES: usize = 48 << 10;

/// Pages of one volume in one record.
const RECORD_PAGES: usize = 8_000;

/// Records that one caller has waiting at once.
const RECORDS_AT_ONCE: usize = 16;

/// Bytes that one write takes out of the queue at most (or one caller's records, if they are more).
const BATCH_BYTES: usize = 2 << 20;

/// Bytes that may wait in the queue.
const QUEUE_BYTES_MAX: usize = 32 << 20;

/// Bytes kept of a name or request id.
const NAME_BYTES_MAX: usize = 256;

/// Bytes of one page of a scan.
const SCAN_BYTES: usize = 1 << 20;

/// Between two tries of a write that was not acknowledged.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The name of the token, if one was shown.
    pub name: Option<String>,
    /// Where the request came from, if it came over a network.
    pub address: Option<IpAddr>,
    /// The request's id, as the logs have it.
    pub request_id: String,
}

impl Requester {
    /// One name for the same asker over many requests: the token's name, or else the address.
    pub fn identity(&self) -> String {
        match (&self.name, self.address) {
            (Some(name), _) => format!("token {name}"),
            (None, Some(address)) => format!("address {address}"),
            (None, None) => "local".to_owned(),
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AuditAction {
    /// It was asked for.
    Requested,
    /// It was sent, or was about to be.
    Accessed,
    /// Its words were counted and the counts were sent, or were about to be.
    TokenCountAccessed,
}

impl AuditAction {
    /// The word that the HTRC Data API's audit has for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "REQUESTED",
            Self::Accessed => "ACCESSED",
            Self::TokenCountAccessed => "TOKEN_COUNT_ACCESSED",
        }
    }
}

/// A volume in an audit record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditedVolume {
    /// Which one.
    pub volume: VolumeId,
    /// The sequences of the pages; `None`: all.
    pub pages: Option<Vec<u32>>,
}

/// One record of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When it was written.
    pub at: UnixMillis,
    /// By whose request.
    pub requester: Requester,
    /// What was done.
    pub action: AuditAction,
    /// The ETag of the plan, for a bulk request that has one.
    pub plan: Option<String>,
    /// 0 for the first record of one event; lists too long for one record go on in 1, 2 and so on.
    pub part: u32,
    /// With what.
    pub volumes: Vec<AuditedVolume>,
}

/// What is asked for most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditTop {
    /// Requests in the time.
    pub requests: u64,
    /// Volumes, with the number of requests that named them, most first; ties by id.
    pub volumes: Vec<(VolumeId, u64)>,
    /// Who asked ([`Requester::identity`]), with the number of requests, most first; ties by name.
    pub requesters: Vec<(String, u64)>,
}

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
        let queue = Arc::new(Queue { clock: clock.clone(), waiting: Mutex::default(), filled: Notify::new() });
        let writer = Writer { queue: queue.clone(), store, call_timeout: options.call_timeout };
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

#[derive(Clone)]
struct AuditRow {
    id: RevisionId,
    value: Bytes,
}

impl AuditRow {
    fn len_bytes(&self) -> usize {
        self.id.0.len() + self.value.len()
    }
}

/// What one caller waits for.
struct Waiting {
    since: UnixMillis,
    rows: Vec<AuditRow>,
    written: oneshot::Sender<Result<(), StoreError>>,
}

impl Waiting {
    fn len_bytes(&self) -> usize {
        self.rows.iter().map(AuditRow::len_bytes).sum()
    }
}

/// Records that are not acknowledged yet, those being written included.
struct Queue {
    clock: Arc<dyn Clock>,
    waiting: Mutex<AllWaiting>,
    filled: Notify,
}

/// Those who wait, oldest first, and the bytes of their records.
#[derive(Default)]
struct AllWaiting {
    callers: VecDeque<Waiting>,
    bytes: usize,
}

impl Queue {
    fn lag(&self) -> Duration {
        self.waiting.lock().callers.front().map_or(Duration::ZERO, |oldest| self.clock.now().since(oldest.since))
    }

    fn push(&self, rows: Vec<AuditRow>) -> ObjectsResult<oneshot::Receiver<Result<(), StoreError>>> {
        let (written, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        if waiting.bytes > QUEUE_BYTES_MAX {
            return Err(ObjectsError::Overloaded("too many audit records are waiting".to_owned()));
        }
        let caller = Waiting { since: self.clock.now(), rows, written };
        waiting.bytes += caller.len_bytes();
        waiting.callers.push_back(caller);
        self.filled.notify_one();
        Ok(receiver)
    }

    /// The rows of as many callers as one write takes, and how many callers those are. They stay in the queue.
    fn batch(&self) -> (Vec<AuditRow>, usize) {
        let waiting = self.waiting.lock();
        let mut rows: Vec<AuditRow> = Vec::new();
        let mut bytes = 0;
        let mut callers = 0;
        for caller in &waiting.callers {
            bytes += caller.len_bytes();
            if callers > 0 && bytes > BATCH_BYTES {
                break;
            }
            rows.extend_from_slice(&caller.rows);
            callers += 1;
        }
        (rows, callers)
    }

    /// Takes callers out of the queue and tells them how it ended. Who has gone away meanwhile is not missed.
    fn answer(&self, callers: usize, result: &Result<(), StoreError>) {
        let mut waiting = self.waiting.lock();
        let answered: Vec<Waiting> = waiting.callers.drain(..callers).collect();
        for caller in answered {
            waiting.bytes -= caller.len_bytes();
            let _ = caller.written.send(result.as_ref().copied().map_err(told_to_many));
        }
    }
}

/// The same failure for each of those who waited for one write.
fn told_to_many(error: &StoreError) -> StoreError {
    match error {
        StoreError::Full(why) => StoreError::Full(why.clone()),
        StoreError::Poisoned(why) => StoreError::Poisoned(why.clone()),
        other => StoreError::Unavailable(format!("the audit cannot be written: {other}")),
    }
}

/// The task that writes.
struct Writer {
    queue: Arc<Queue>,
    store: Arc<dyn Store>,
    call_timeout: Duration,
}

impl Writer {
    async fn run(self) {
        loop {
            let (rows, callers) = self.queue.batch();
            if callers == 0 {
                self.queue.filled.notified().await;
                continue;
            }
            let result = self.write(rows).await;
            if let Err(error) = &result {
                tracing::error!(%error, callers, "the audit cannot be written");
            }
            self.queue.answer(callers, &result);
        }
    }

    /// Writes until it is acknowledged or surely fails. Writing a row again is harmless: its id is its own.
    async fn write(&self, rows: Vec<AuditRow>) -> Result<(), StoreError> {
        let mut partitions: BTreeMap<Bytes, Vec<NewRow>> = BTreeMap::new();
        for row in rows {
            let sort = Bytes::copy_from_slice(&row.id.0);
            partitions.entry(partition(hour_of(row.id.time()))).or_default().push(NewRow::new(sort, row.value));
        }
        let put = |(partition, rows)| Step::Put { table: Table::Audit, partition, rows };
        let steps: Vec<Step> = partitions.into_iter().map(put).collect();
        let mut pause = PAUSE_MIN;
        loop {
            let call = Call::new(Class::Audit, Deadline::within(self.call_timeout));
            match self.store.run(call, steps.clone()).await {
                Ok(Outcome::Applied) => return Ok(()),
                Ok(Outcome::Refused { .. }) => return Err(StoreError::Invalid("a plain put was refused".to_owned())),
                Ok(Outcome::Unknown { reason }) => tracing::warn!(%reason, "an audit write is not acknowledged"),
                Err(error) if error.is_passing() => tracing::warn!(%error, "an audit write is tried again"),
                Err(error) => return Err(error),
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

fn hour_of(time: UnixMillis) -> u32 {
    u32::try_from(time.0 / 3_600_000).unwrap_or(u32::MAX)
}

fn partition(hour: u32) -> Bytes {
    Bytes::from([b"h/".as_slice(), &hour.to_be_bytes()].concat())
}

fn hour_of_partition(partition: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(partition.strip_prefix(b"h/")?.try_into().ok()?))
}

/// The smallest id that can be minted at `time`: its six bytes of milliseconds.
fn sort_from(time: UnixMillis) -> Bytes {
    Bytes::copy_from_slice(&time.0.min((1 << 48) - 1).to_be_bytes()[2..])
}

impl Library {
    /// The audit's writer.
    pub fn auditor(&self) -> &Auditor {
        &self.inner.bulk.auditor
    }

    /// Audit records from `from` (inclusive) to `to` (exclusive), in the order in which they were written.
    pub fn audit_read(&self, from: UnixMillis, to: UnixMillis) -> BoxStream<'static, ObjectsResult<AuditRecord>> {
        let library = self.clone();
        let hours = async move {
            let hours = library.audit_hours(from, to).await?;
            let scans = hours.into_iter().map(move |hour| library.clone().audit_hour(hour, from, to));
            Ok::<_, ObjectsError>(futures::stream::iter(scans).flatten())
        };
        futures::stream::once(hours).try_flatten().boxed()
    }

    /// What was asked for most from `from` (inclusive) to `to` (exclusive): the `most` first of each list. Takes memory for each
    /// volume that was asked for in that time.
    pub async fn audit_top(&self, from: UnixMillis, to: UnixMillis, most: usize) -> ObjectsResult<AuditTop> {
        let mut requests = 0;
        let mut volumes: HashMap<VolumeId, u64> = HashMap::new();
        let mut requesters: HashMap<String, u64> = HashMap::new();
        let mut records = self.audit_read(from, to);
        while let Some(record) = records.try_next().await? {
            if record.action != AuditAction::Requested {
                continue;
            }
            if record.part == 0 {
                requests += 1;
                *requesters.entry(record.requester.identity()).or_default() += 1;
            }
            for volume in record.volumes {
                *volumes.entry(volume.volume).or_default() += 1;
            }
        }
        Ok(AuditTop { requests, volumes: top(volumes, most), requesters: top(requesters, most) })
    }

    /// The hours between `from` and `to` of which there are records, ascending.
    async fn audit_hours(&self, from: UnixMillis, to: UnixMillis) -> ObjectsResult<Vec<u32>> {
        const AT_ONCE: usize = 1_000;
        let wanted = hour_of(from)..=hour_of(to);
        let mut hours = Vec::new();
        let mut next = None;
        loop {
            let page = self.inner.store.walk(self.call(Class::Audit), Table::Audit, next, AT_ONCE).await?;
            let known = page.partitions.iter().filter_map(|partition| hour_of_partition(partition));
            hours.extend(known.filter(|hour| wanted.contains(hour)));
            next = page.next;
            if next.is_none() {
                hours.sort_unstable();
                return Ok(hours);
            }
        }
    }

    /// The records of one hour that lie between `from` and `to`.
    fn audit_hour(self, hour: u32, from: UnixMillis, to: UnixMillis) -> BoxStream<'static, ObjectsResult<AuditRecord>> {
        let scan = Scan { to: Some(sort_from(to)), ..Scan::prefix(sort_from(from), SCAN_BYTES) };
        let pages = futures::stream::try_unfold(Some(scan), move |scan| {
            let library = self.clone();
            async move {
                let Some(scan) = scan else { return Ok::<_, ObjectsError>(None) };
                let call = library.call(Class::Audit);
                let page = library.inner.store.scan(call, Table::Audit, &partition(hour), scan.clone()).await?;
                let record = |row: Row| head::open::<AuditRecord>(Table::Audit, &row.value);
                let records = futures::stream::iter(page.rows.into_iter().map(record));
                Ok(Some((records, scan.resumed(page.next))))
            }
        });
        pages.try_flatten().boxed()
    }
}

fn top<K: Ord + Clone>(counts: HashMap<K, u64>, most: usize) -> Vec<(K, u64)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by(|(a_key, a), (b_key, b)| b.cmp(a).then_with(|| a_key.cmp(b_key)));
    counts.truncate(most);
    counts
}
