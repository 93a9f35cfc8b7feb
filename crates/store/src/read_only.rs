//! A store that refuses changes for a while: the source of a copy at its end (the cut-over), or the
//! target of an unfinished copy.
//!
//! A row of the store itself records the state. Every process that opens the store sees it, and it
//! outlives all of them. [`ReadOnlyGate`], a wrapper over the engine, enforces it. Reads go on, and
//! so does the audit, since nothing is served without an audit.
//!
//! The row is a text, the reason. A text made by [`leased`] ends with a time. From then on the store
//! takes changes again, unless its owner has renewed the lease. So a process that is
//! killed leaves no store read-only.
//!
//! A store that takes changes again has a row that says so: an empty reason whose lease has ended.
//! If the row were removed instead, a replica that missed the removal could bring the reason back
//! long afterwards, and the store would refuse all changes by itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::RwLock;
use tokio::time::timeout_at;

use crate::{
    Call, Class, Clock, ContentId, ContentStream, Deadline, Health, Lane, NewRow, Outcome, Removal, Step, Store,
    StoreError, StoreResult, SystemClock, Table, UnixMillis, ValueKind, Wrapper, boxed, envelope,
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
#[boxed]
pub async fn reason_at(store: &dyn Store, now: UnixMillis) -> StoreResult<Option<String>> {
    Ok(reason(store).await?.filter(|reason| holds_at(reason, now)))
}

/// The reason that is stored, even if its lease has ended; `None`: there is none.
#[boxed]
pub async fn reason(store: &dyn Store) -> StoreResult<Option<String>> {
    let row = store.get(call(), Table::Work, &PARTITION, &REASON).await?;
    row.map_or(Ok(None), |row| reason_of(&row.value))
}

/// The reason that a value of the row says.
fn reason_of(value: &Bytes) -> StoreResult<Option<String>> {
    let corrupt = |detail: String| StoreError::Corrupt { table: Table::Work, detail };
    let reason = envelope::open(ValueKind::ReadOnly, value).map_err(|error| corrupt(error.to_string()))?;
    let reason = String::from_utf8(reason.to_vec()).map_err(|error| corrupt(error.to_string()))?;
    Ok(Some(reason).filter(|reason| *reason != ended()))
}

/// The reason that is stored once steps of the gate are applied: that of the last put, unless the
/// row is removed after it.
fn reason_after(steps: &[Step]) -> StoreResult<Option<String>> {
    match steps.last() {
        Some(Step::Put { rows, .. }) => rows.last().map_or(Ok(None), |row| reason_of(&row.value)),
        _ => Ok(None),
    }
}

/// Makes the store read-only, or writable again with `None`. If this process has a [`ReadOnlyGate`]
/// over the store, no change is under way any more when this returns, except that what nobody can
/// read any more may still be deleted. Other processes notice at their next
/// [`ReadOnlyGate::look`].
///
/// Errors: those of the store; [`StoreError::Unavailable`] also if something else is stored
/// afterwards. Then somebody else has changed it at the same time, or a machine whose clock is
/// ahead of this one's has written or removed it earlier.
#[boxed]
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
        None => vec![removed, put(&ended())],
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
    #[boxed]
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
    #[boxed]
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
    #[boxed]
    pub async fn close_until_known(&self) {
        let _none_is_under_way = self.under_way.write().await;
        self.close_while_unknown();
    }

    /// The same. No change is under way.
    fn close_while_unknown(&self) {
        let mut closed = self.closed.lock();
        if closed.as_ref().is_none_or(|reason| lease_of(reason).1.is_some()) {
            *closed = Some("it is not known whether it takes changes".to_owned());
        }
    }

    /// Runs steps of the gate, and closes or opens it as the row then says. No other change is
    /// under way.
    async fn run_own(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        let said = reason_after(&steps);
        let outcome = self.inner.run(call, steps).await;
        match (reason(self.inner.as_ref()).await, outcome) {
            (Ok(stored), outcome) => {
                *self.closed.lock() = stored;
                outcome
            }
            // Nothing was applied.
            (Err(_), Err(error)) => Err(error),
            // Others may have written the row too. The next look finds what counts.
            (Err(error), Ok(_)) if self.inner.capabilities().is_shared => {
                self.close_while_unknown();
                Ok(Outcome::Unknown { reason: format!("the row that was written cannot be read: {error}") })
            }
            // Nobody else writes it, and nobody looks.
            (Err(_), Ok(outcome)) => {
                match said {
                    Ok(None) if !outcome.is_applied() => {}
                    Ok(said) => *self.closed.lock() = said,
                    Err(_) => self.close_while_unknown(),
                }
                Ok(outcome)
            }
        }
    }

    /// Makes a change, unless the store is read-only. While the gate waits for a slow change in
    /// order to close or to open, further ones wait behind it, until their deadlines.
    async fn change<T>(&self, call: Call, change: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let waited = || StoreError::Overloaded("it is being decided whether the store takes changes".to_owned());
        let _under_way = timeout_at(call.deadline.0, self.under_way.read()).await.map_err(|_| waited())?;
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
            return self.run_own(call, steps).await;
        }
        if is_of_the_audit(&steps) {
            return self.inner.run(call, steps).await;
        }
        self.change(call, self.inner.run(call, steps)).await
    }

    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        // An upload that began earlier may end later, however slow it is. Nothing names its
        // content, so it changes nothing.
        self.change(call, async { Ok(()) }).await?;
        self.inner.put_content_as(call, id, owner, content).await
    }

    async fn condemn_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.change(call, self.inner.condemn_content(call, id)).await
    }

    async fn delete_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        // A deletion that began earlier may end later, because that of a large content takes long.
        // Nobody can read what is condemned, so it changes nothing.
        self.change(call, async { Ok(()) }).await?;
        self.inner.delete_content(call, id).await
    }

    async fn sweep(&self, call: Call) -> StoreResult<u64> {
        // One that began earlier may end later, because it may take all of its time. Nobody can see
        // what it deletes, so it changes nothing.
        match self.change(call, async { Ok(()) }).await {
            Ok(()) => self.inner.sweep(call).await,
            Err(StoreError::ReadOnly(_)) => Ok(0),
            Err(error) => Err(error),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;
    use crate::Capabilities;
    use crate::faults::{Fault, Faults, Kind};
    use crate::null::NullStore;

    /// A bound against hanging, not a promise of speed.
    const PATIENCE: Duration = Duration::from_secs(30);

    const LONG: Duration = Duration::from_secs(3_600);

    /// A gate over a store with faults.
    async fn gated() -> (Arc<dyn Store>, Arc<Faults>) {
        let faults = Arc::new(Faults::new(Arc::new(NullStore::new())));
        let store: Arc<dyn Store> = Arc::new(ReadOnlyGate::new(faults.clone()).await.unwrap());
        (store, faults)
    }

    fn of_the_gate() -> Vec<Step> {
        let rows = vec![NewRow::new(REASON, envelope::seal(ValueKind::ReadOnly, b"it moves"))];
        vec![Step::Put { table: Table::Work, partition: PARTITION, rows }]
    }

    fn change() -> Vec<Step> {
        let rows = vec![NewRow::new("a", "v")];
        vec![Step::Put { table: Table::Objects, partition: Bytes::from_static(b"p"), rows }]
    }

    fn running(store: &Arc<dyn Store>, steps: Vec<Step>) -> JoinHandle<StoreResult<Outcome>> {
        let store = store.clone();
        tokio::spawn(async move { store.run(call(), steps).await })
    }

    async fn until_a_call_is_delayed(faults: &Faults) {
        let delayed = async {
            while faults.delayed() == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, delayed).await.unwrap();
    }

    #[tokio::test]
    async fn a_change_that_waits_for_the_gate_ends_by_its_deadline() {
        let (store, faults) = gated().await;
        faults.next(Kind::Run, Fault::Delay(LONG));
        let slow = running(&store, change());
        until_a_call_is_delayed(&faults).await;
        let closing = running(&store, of_the_gate());
        let refused = async {
            loop {
                // Until the gate waits for the slow change, others are made.
                let short = Call::new(Class::Description, Deadline::within(Duration::from_millis(50)));
                match store.run(short, change()).await {
                    Ok(_) => tokio::task::yield_now().await,
                    Err(error) => return error,
                }
            }
        };
        let refused = timeout(PATIENCE, refused).await.expect("it waits beyond its deadline");
        assert!(matches!(refused, StoreError::Overloaded(_)), "{refused}");
        slow.abort();
        timeout(PATIENCE, closing).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_sweep_that_is_under_way_holds_up_no_change() {
        let (store, faults) = gated().await;
        faults.next(Kind::ChangeContent, Fault::Delay(LONG));
        let sweep = tokio::spawn({
            let store = store.clone();
            async move { store.sweep(call()).await }
        });
        until_a_call_is_delayed(&faults).await;
        let closing = running(&store, of_the_gate());
        timeout(PATIENCE, closing).await.expect("it waits for the sweep").unwrap().unwrap();
        sweep.abort();
    }

    /// A store that several processes may have open.
    struct Shared(Arc<Faults>);

    impl Wrapper for Shared {
        fn inner(&self) -> &dyn Store {
            self.0.as_ref()
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { is_shared: true, ..self.inner().capabilities() }
        }
    }

    #[tokio::test]
    async fn a_gate_of_one_process_goes_by_what_it_has_written_if_that_cannot_be_read() {
        let (store, faults) = gated().await;
        let removed = || {
            let rows = Removal::Rows(vec![REASON]);
            vec![Step::Remove { table: Table::Work, partition: PARTITION, rows }]
        };
        for is_known in [true, false] {
            if !is_known {
                faults.next(Kind::Run, Fault::UnknownApplied);
            }
            faults.next(Kind::Read, Fault::Unavailable);
            let closed = store.run(call(), of_the_gate()).await.unwrap();
            assert_eq!(closed.is_applied(), is_known, "{closed:?}");
            let refused = store.run(call(), change()).await;
            assert!(matches!(&refused, Err(StoreError::ReadOnly(why)) if why == "it moves"), "{refused:?}");
            faults.next(Kind::Read, Fault::Unavailable);
            let opened = store.run(call(), removed()).await.unwrap();
            assert!(opened.is_applied(), "{opened:?}");
            store.run(call(), change()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_gate_of_a_shared_store_takes_no_changes_until_it_is_known_what_was_written() {
        let faults = Arc::new(Faults::new(Arc::new(NullStore::new())));
        let gate = Arc::new(ReadOnlyGate::new(Arc::new(Shared(faults.clone()))).await.unwrap());
        let store: Arc<dyn Store> = gate.clone();
        faults.next(Kind::Read, Fault::Unavailable);
        let written = store.run(call(), of_the_gate()).await;
        assert!(matches!(written, Ok(Outcome::Unknown { .. })), "{written:?}");
        let refused = store.run(call(), change()).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly(_))), "{refused:?}");
        // The null store has no such row.
        gate.look().await.unwrap();
        store.run(call(), change()).await.unwrap();
    }
}
