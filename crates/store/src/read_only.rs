//! A store that refuses changes for a while: the source of a copy at its end (the cut-over), or the
//! target of an unfinished copy.
//!
//! A row of the store itself records the state. Every process that opens the store sees it, and it
//! outlives all of them. [`ReadOnlyGate`], a wrapper over the engine, enforces it. Reads go on, and
//! so does the audit, since nothing is served without an audit.
//!
//! The row is a text, the reason. A text made by [`leased`] ends with a time. From then on the store
//! takes changes again, unless its owner has renewed the lease. So a process that is
//! killed leaves no store read-only. Programs that know no leases see a reason like any other.
//!
//! A store that takes changes again has a row that says so: an empty reason whose lease has ended.
//! If the row were removed instead, a replica that missed the removal could bring the reason back
//! long afterwards, and the store would refuse all changes by itself. All programs that know
//! [`FormatLevel::ENDED_REASONS`] know leases. At a lower level the row is removed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::RwLock;

use crate::{
    Call, Class, Clock, ContentId, ContentStream, Deadline, FormatLevel, Health, Lane, NewRow, Outcome, Removal, Step,
    Store, StoreError, StoreResult, SystemClock, Table, UnixMillis, ValueKind, Wrapper, envelope,
};

/// The partition of [`Table::Work`] that holds the row with the reason why the store is read-only.
pub const PARTITION: Bytes = Bytes::from_static(b"read-only");

const REASON: Bytes = Bytes::from_static(b"reason");

/// How long a read or write of that row may take.
const CALL_MAX: Duration = Duration::from_secs(10);

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(CALL_MAX)).strong()
}

/// The text before and after the time at which a lease ends, at the end of a reason.
const LEASE: (&str, &str) = (" (lease until ", ")");

/// A reason that ends at `until`, unless it is replaced by one that ends later.
pub fn leased(reason: &str, until: UnixMillis) -> String {
    let until = Timestamp::from_millisecond(i64::try_from(until.0).unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX);
    format!("{reason}{}{until}{}", LEASE.0, LEASE.1)
}

/// What is stored instead of a reason when there is none.
fn ended() -> String {
    leased("", UnixMillis(0))
}

/// A reason without its lease, and when that ends.
pub fn lease_of(reason: &str) -> (&str, Option<UnixMillis>) {
    let lease = reason.strip_suffix(LEASE.1).and_then(|rest| rest.rsplit_once(LEASE.0));
    let until = lease.and_then(|(_, until)| until.parse::<Timestamp>().ok());
    match (lease, until.and_then(|until| u64::try_from(until.as_millisecond()).ok())) {
        (Some((reason, _)), Some(until)) => (reason, Some(UnixMillis(until))),
        _ => (reason, None),
    }
}

/// Whether a reason holds at a time: it has no lease, or the lease has not ended.
fn holds_at(reason: &str, now: UnixMillis) -> bool {
    lease_of(reason).1.is_none_or(|until| now < until)
}

/// Whether the stored reason is the one that a caller expects before it replaces or removes it. An
/// empty text expects none that holds at `now`.
pub fn is_as_expected(stored: Option<&str>, expected: &str, now: UnixMillis) -> bool {
    if expected.is_empty() { stored.is_none_or(|stored| !holds_at(stored, now)) } else { stored == Some(expected) }
}

/// Why the store is read-only at a time; `None` if it is not. A lease that has ended counts no more.
pub async fn reason_at(store: &dyn Store, now: UnixMillis) -> StoreResult<Option<String>> {
    Ok(reason(store).await?.filter(|reason| holds_at(reason, now)))
}

/// The reason that is stored, even if its lease has ended; `None`: there is none.
pub async fn reason(store: &dyn Store) -> StoreResult<Option<String>> {
    let Some(row) = store.get(call(), Table::Work, &PARTITION, &REASON).await? else { return Ok(None) };
    let corrupt = |detail: String| StoreError::Corrupt { table: Table::Work, detail };
    let reason = envelope::open(ValueKind::ReadOnly, &row.value).map_err(|error| corrupt(error.to_string()))?;
    let reason = String::from_utf8(reason.to_vec()).map_err(|error| corrupt(error.to_string()))?;
    Ok(Some(reason).filter(|reason| *reason != ended()))
}

/// Makes the store read-only, or writable again with `None`. If this process has a [`ReadOnlyGate`]
/// over the store, no change is under way any more when this returns, except that a condemned
/// content may still be deleted. Other processes notice at their next [`ReadOnlyGate::look`].
///
/// Errors: those of the store; [`StoreError::Unavailable`] also if something else is stored
/// afterwards. Then somebody else has changed it at the same time, or a machine whose clock is
/// ahead of this one's has written or removed it earlier.
pub async fn set(store: &dyn Store, reason: Option<&str>) -> StoreResult<()> {
    let removed = Step::Remove { table: Table::Work, partition: PARTITION, rows: Removal::Rows(vec![REASON]) };
    let put = |text: &str| {
        let rows = vec![NewRow::new(REASON, envelope::seal(ValueKind::ReadOnly, text.as_bytes()))];
        Step::Put { table: Table::Work, partition: PARTITION, rows }
    };
    let is_there = match self::reason(store).await {
        Ok(stored) => stored.is_some(),
        // It is replaced.
        Err(StoreError::Corrupt { .. }) => true,
        Err(error) => return Err(error),
    };
    // Where write times order puts, one counts over a row of a machine whose clock is ahead only if
    // that row was removed first. A reason that takes the place of another one is put alone:
    // otherwise a gate could look in between and take changes.
    let steps = match reason {
        Some(reason) if is_there => vec![put(reason)],
        Some(reason) => vec![removed, put(reason)],
        None if store.level() >= FormatLevel::ENDED_REASONS => vec![removed, put(&ended())],
        None => vec![removed],
    };
    match store.run(call(), steps).await? {
        Outcome::Applied => {}
        Outcome::Unknown { reason } => return Err(StoreError::Unavailable(reason)),
        Outcome::Refused { .. } => return Err(StoreError::Invalid("unconditional steps were refused".to_owned())),
    }
    let stored = self::reason(store).await?;
    if stored.as_deref() == reason {
        return Ok(());
    }
    let is = stored.map_or_else(|| "it takes changes".to_owned(), |stored| format!("it is read-only: {stored}"));
    Err(StoreError::Unavailable(format!(
        "whether it is read-only was changed without effect ({is}): somebody else changed it at the same time, or the \
         clock of another machine is ahead"
    )))
}

/// Refuses changes with [`StoreError::ReadOnly`] while the inner store is read-only.
pub struct ReadOnlyGate {
    inner: Arc<dyn Store>,
    /// Each change holds a read lock. Closing or opening the gate takes the write lock, and so
    /// waits for all changes.
    under_way: RwLock<()>,
    /// Why changes are refused, perhaps with a lease. It only changes while no change is under way.
    closed: Mutex<Option<String>>,
    clock: Arc<dyn Clock>,
}

impl ReadOnlyGate {
    /// A gate over `inner`, open or closed as the row in `inner` says.
    pub async fn new(inner: Arc<dyn Store>) -> StoreResult<Self> {
        Self::with_clock(inner, Arc::new(SystemClock)).await
    }

    /// The same. Leases end by `clock`.
    pub async fn with_clock(inner: Arc<dyn Store>, clock: Arc<dyn Clock>) -> StoreResult<Self> {
        let closed = Mutex::new(reason(inner.as_ref()).await?);
        Ok(Self { inner, under_way: RwLock::default(), closed, clock })
    }

    /// Checks whether the store has become read-only or writable again. If several processes share
    /// a store, each must call this regularly.
    pub async fn look(&self) -> StoreResult<()> {
        let reason = reason(self.inner.as_ref()).await?;
        // Usually nothing is new, and then nobody waits for a slow change.
        if *self.closed.lock() != reason {
            let _none_is_under_way = self.under_way.write().await;
            *self.closed.lock() = reason;
        }
        Ok(())
    }

    /// Refuses changes until the next look finds the store writable: until then its state is
    /// unknown. That is so for a lease too, since nobody knows what is stored when it ends.
    pub async fn close_until_known(&self) {
        let _none_is_under_way = self.under_way.write().await;
        let mut closed = self.closed.lock();
        if closed.as_ref().is_none_or(|reason| lease_of(reason).1.is_some()) {
            *closed = Some("it is not known whether it takes changes".to_owned());
        }
    }

    async fn change<T>(&self, change: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let _under_way = self.under_way.read().await;
        self.check_open()?;
        change.await
    }

    fn check_open(&self) -> StoreResult<()> {
        self.closed_now().map_or(Ok(()), |reason| Err(StoreError::ReadOnly(reason)))
    }

    /// Why changes are refused now.
    fn closed_now(&self) -> Option<String> {
        let closed = self.closed.lock();
        closed.as_ref().filter(|reason| holds_at(reason, self.clock.now())).cloned()
    }
}

fn is_of_the_gate(steps: &[Step]) -> bool {
    !steps.is_empty() && steps.iter().all(|step| step.table() == Table::Work && *step.partition() == PARTITION)
}

fn is_of_the_audit(steps: &[Step]) -> bool {
    steps.iter().all(|step| step.table() == Table::Audit)
}

impl Wrapper for ReadOnlyGate {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
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

    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        // An upload that began earlier may end later, however slow it is. Nothing names its
        // content, so it changes nothing.
        self.change(async { Ok(()) }).await?;
        self.inner.put_content_as(call, id, owner, content).await
    }

    async fn condemn_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.change(self.inner.condemn_content(call, id)).await
    }

    async fn delete_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        // A deletion that began earlier may end later, because that of a large content takes long.
        // Nobody can read what is condemned, so it changes nothing.
        self.change(async { Ok(()) }).await?;
        self.inner.delete_content(call, id).await
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
        // Other writes of serving (selections, tokens) are refused too, but that stops no reader.
        if let Some(reason) = self.closed_now() {
            health.refusing_writes.entry(Lane::Text).or_insert_with(|| format!("it is read-only: {reason}"));
        }
        health
    }
}
