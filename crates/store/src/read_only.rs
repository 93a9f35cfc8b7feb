//! A store that takes no changes for a while: one that is copied for good (the cut-over), and one into which a copy is not whole yet.
//!
//! That it is so stands in a row of the store itself: every process that opens the store knows it, and it outlives all of them. What
//! keeps to it is [`ReadOnlyGate`], a wrapper over the engine. Reading goes on, and so does the audit, without which nothing is
//! served.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::RwLock;

use crate::{
    AtOnce, Call, Class, ContentHeader, ContentId, ContentStream, Deadline, Health, Lane, Limits, NewRow, Outcome,
    Removal, Row, Rows, Scan, Step, Store, StoreError, StoreResult, Table, WalkPage, envelope,
};
use std::ops::Range;

/// The partition of [`Table::Work`] that holds the row which says why the store is read-only.
pub const PARTITION: Bytes = Bytes::from_static(b"read-only");

const REASON: Bytes = Bytes::from_static(b"reason");

/// How long a call for that row may take.
const CALL_MAX: Duration = Duration::from_secs(10);

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(CALL_MAX)).strong()
}

/// Why the store is read-only; `None`: it is not.
pub async fn reason(store: &dyn Store) -> StoreResult<Option<String>> {
    let Some(row) = store.get(call(), Table::Work, &PARTITION, &REASON).await? else { return Ok(None) };
    let corrupt = |detail: String| StoreError::Corrupt { table: Table::Work, detail };
    let reason = envelope::open(&row.value).map_err(|error| corrupt(error.to_string()))?;
    String::from_utf8(reason.to_vec()).map(Some).map_err(|error| corrupt(error.to_string()))
}

/// Makes the store read-only, or, with `None`, takes changes again. Where this process has a [`ReadOnlyGate`] over the store, no change
/// is under way any more once this has answered; another process learns of it when it looks ([`ReadOnlyGate::look`]).
pub async fn set(store: &dyn Store, reason: Option<&str>) -> StoreResult<()> {
    // What stands there is not known, and rows are immutable.
    let remove = Step::Remove { table: Table::Work, partition: PARTITION, rows: Removal::Rows(vec![REASON]) };
    let put = reason.map(|reason| {
        let rows = vec![NewRow::new(REASON, envelope::seal(reason.as_bytes()))];
        Step::Put { table: Table::Work, partition: PARTITION, rows }
    });
    match store.run(call(), std::iter::once(remove).chain(put).collect()).await? {
        Outcome::Applied => Ok(()),
        Outcome::Unknown { reason } => Err(StoreError::Unavailable(reason)),
        Outcome::Refused { .. } => Err(StoreError::Invalid("unconditional steps were refused".to_owned())),
    }
}

/// Refuses changes while the store below is read-only, with [`StoreError::ReadOnly`].
pub struct ReadOnlyGate {
    inner: Arc<dyn Store>,
    /// Whoever changes something holds this meanwhile; whoever closes the gate or opens it waits for all of them.
    under_way: RwLock<()>,
    /// Why changes are refused. It changes only while none is under way.
    closed: Mutex<Option<String>>,
}

impl ReadOnlyGate {
    /// A gate before `inner`, open or closed as that says.
    pub async fn new(inner: Arc<dyn Store>) -> StoreResult<Self> {
        let closed = Mutex::new(reason(inner.as_ref()).await?);
        Ok(Self { inner, under_way: RwLock::default(), closed })
    }

    /// Looks whether the store has become read-only, or takes changes again. Where several processes share a store, each has to do so
    /// again and again.
    pub async fn look(&self) -> StoreResult<()> {
        let reason = reason(self.inner.as_ref()).await?;
        // Nearly always there is nothing new, and then nobody waits for a change that is slow.
        if *self.closed.lock() != reason {
            let _none_is_under_way = self.under_way.write().await;
            *self.closed.lock() = reason;
        }
        Ok(())
    }

    /// Refuses changes until the next look that says otherwise: it is not known whether the store is read-only.
    pub async fn close_until_known(&self) {
        let _none_is_under_way = self.under_way.write().await;
        self.closed.lock().get_or_insert_with(|| "it is not known whether it takes changes".to_owned());
    }

    async fn change<T>(&self, change: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let _under_way = self.under_way.read().await;
        self.check_open()?;
        change.await
    }

    fn check_open(&self) -> StoreResult<()> {
        match &*self.closed.lock() {
            Some(reason) => Err(StoreError::ReadOnly(reason.clone())),
            None => Ok(()),
        }
    }
}

fn is_of_the_gate(steps: &[Step]) -> bool {
    !steps.is_empty() && steps.iter().all(|step| step.table() == Table::Work && *step.partition() == PARTITION)
}

fn is_of_the_audit(steps: &[Step]) -> bool {
    steps.iter().all(|step| step.table() == Table::Audit)
}

#[async_trait]
impl Store for ReadOnlyGate {
    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        self.inner.get(call, table, partition, sort).await
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        self.inner.get_many(call, table, keys).await
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        self.inner.scan(call, table, partition, scan).await
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        self.inner.scan_many(call, scans).await
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        if is_of_the_gate(&steps) {
            // Waits for every change that is under way.
            let _none_is_under_way = self.under_way.write().await;
            let outcome = self.inner.run(call, steps).await;
            let reason = reason(self.inner.as_ref()).await?;
            *self.closed.lock() = reason;
            return outcome;
        }
        if is_of_the_audit(&steps) {
            return self.inner.run(call, steps).await;
        }
        self.change(self.inner.run(call, steps)).await
    }

    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        self.inner.walk(call, table, from, max).await
    }

    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        // An upload that began before may end afterwards, however slow it is: nothing names it, so that changes nothing.
        self.change(async { Ok(()) }).await?;
        self.inner.put_content_as(call, id, owner, content).await
    }

    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>> {
        self.inner.content_header(call, id).await
    }

    async fn read_content(&self, call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        self.inner.read_content(call, id, range).await
    }

    async fn condemn_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.change(self.inner.condemn_content(call, id)).await
    }

    async fn delete_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.change(self.inner.delete_content(call, id)).await
    }

    async fn sweep(&self, call: Call) -> StoreResult<u64> {
        match self.change(self.inner.sweep(call)).await {
            Err(StoreError::ReadOnly(_)) => Ok(0),
            swept => swept,
        }
    }

    fn check_home(&self) -> StoreResult<()> {
        self.check_open()?;
        self.inner.check_home()
    }

    async fn health(&self) -> Health {
        let mut health = self.inner.health().await;
        // What serving writes besides (selections, tokens) is refused too, but nobody is kept from reading by that.
        if let Some(reason) = &*self.closed.lock() {
            health.refusing_writes.entry(Lane::Text).or_insert_with(|| format!("it is read-only: {reason}"));
        }
        health
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn at_once(&self) -> AtOnce {
        self.inner.at_once()
    }

    async fn close(&self) -> StoreResult<()> {
        self.inner.close().await
    }
}
