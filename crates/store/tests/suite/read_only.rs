//! A read-only store: the promises of [`crate::read_only`] above any engine.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};

use super::{Shortcuts, Subject, bytes, call, put, row};
use crate::faults::{Fault, Faults, Kind};
use crate::read_only::{self, ReadOnlyGate};
use crate::{Lane, ManualClock, Step, Store, StoreError, Table, UnixMillis, ValueKind, envelope};

async fn gate(subject: &impl Subject) -> Arc<ReadOnlyGate> {
    Arc::new(ReadOnlyGate::new(subject.store()).await.unwrap())
}

async fn is_refused(store: &dyn Store) -> bool {
    match store.run(call(), vec![put("p", vec![row("a", "v")])]).await {
        Ok(outcome) => {
            assert!(outcome.is_applied(), "{outcome:?}");
            false
        }
        Err(StoreError::ReadOnly(why)) => {
            assert_eq!(why, "it moves");
            true
        }
        Err(error) => panic!("{error}"),
    }
}

/// That holds for rows and contents, until the store takes changes again. Reads go on.
pub async fn a_read_only_store_refuses_changes_and_says_why(subject: &mut impl Subject) {
    let gate = gate(subject).await;
    let store: Arc<dyn Store> = gate.clone();
    store.applied(vec![put("p", vec![row("before", "v")])]).await;
    read_only::set(store.as_ref(), Some("it moves")).await.unwrap();
    assert_eq!(read_only::reason(store.as_ref()).await.unwrap().as_deref(), Some("it moves"));
    assert!(is_refused(store.as_ref()).await);
    let content = stream::iter([Ok(bytes("content"))]).boxed();
    let refused = store.put_content(call(), bytes("owner"), content).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly(_))), "{refused:?}");
    assert_eq!(store.value("p", "before").await, Some(bytes("v")));
    assert_eq!(store.value("p", "a").await, None);
    assert!(store.health().await.refusing_writes.contains_key(&Lane::Text));
    assert!(matches!(store.check_home(), Err(StoreError::ReadOnly(why)) if why == "it moves"), "nothing is repaired");
    read_only::set(store.as_ref(), None).await.unwrap();
    store.check_home().unwrap();
    assert!(!is_refused(store.as_ref()).await);
    // That is written, and not only the reason removed, which could come back.
    assert_eq!(read_only::reason(store.as_ref()).await.unwrap(), None);
    let said = store.get(call(), Table::Work, &read_only::PARTITION, &bytes("reason")).await.unwrap().unwrap();
    let said = envelope::open(ValueKind::ReadOnly, &said.value).unwrap();
    assert_eq!(said, " (lease until 1970-01-01T00:00:00Z)");
    assert_eq!(read_only::lease_of(std::str::from_utf8(&said).unwrap()), ("", Some(UnixMillis(0))));
}

/// Nothing is served without an audit.
pub async fn the_audit_of_a_read_only_store_goes_on(subject: &mut impl Subject) {
    let store: Arc<dyn Store> = gate(subject).await;
    read_only::set(store.as_ref(), Some("it moves")).await.unwrap();
    let record = Step::Put { table: Table::Audit, partition: bytes("hour"), rows: vec![row("a", "v")] };
    store.applied(vec![record]).await;
}

/// A gate that is made later learns it at once, an older gate when it looks.
pub async fn other_processes_learn_that_it_is_read_only(subject: &mut impl Subject) {
    let other = gate(subject).await;
    read_only::set(subject.store().as_ref(), Some("it moves")).await.unwrap();
    assert!(is_refused(gate(subject).await.as_ref()).await);
    other.look().await.unwrap();
    assert!(is_refused(other.as_ref()).await);
    read_only::set(subject.store().as_ref(), None).await.unwrap();
    other.look().await.unwrap();
    assert!(!is_refused(other.as_ref()).await);
}

/// Nothing changes any more once `set` has returned.
pub async fn a_change_that_is_under_way_is_waited_for(subject: &mut impl Subject) {
    let faults = Arc::new(Faults::new(subject.store()));
    let store: Arc<dyn Store> = Arc::new(ReadOnlyGate::new(faults.clone()).await.unwrap());
    faults.next(Kind::Run, Fault::Delay(Duration::from_millis(300)));
    let slow = tokio::spawn({
        let store = store.clone();
        async move { store.applied(vec![put("p", vec![row("slow", "v")])]).await }
    });
    // Until the change waits below the gate, held up by the delay.
    super::eventually(async || (!faults.has_next(Kind::Run)).then_some(())).await;
    read_only::set(store.as_ref(), Some("it moves")).await.unwrap();
    assert_eq!(store.value("p", "slow").await, Some(bytes("v")), "it was still under way");
    slow.await.unwrap();
}

/// That holds however slow the change is. Gates look regularly, and a look must not refuse or delay
/// changes.
pub async fn a_look_that_finds_nothing_new_waits_for_no_change(subject: &mut impl Subject) {
    let faults = Arc::new(Faults::new(subject.store()));
    let gate = Arc::new(ReadOnlyGate::new(faults.clone()).await.unwrap());
    faults.next(Kind::Run, Fault::Delay(Duration::from_secs(3_600)));
    let slow = tokio::spawn({
        let gate = gate.clone();
        async move { gate.run(call(), vec![put("p", vec![row("slow", "v")])]).await }
    });
    super::eventually(async || (!faults.has_next(Kind::Run)).then_some(())).await;
    let look = tokio::time::timeout(Duration::from_secs(60), gate.look());
    look.await.expect("the look waits for the change").unwrap();
    gate.check_home().unwrap();
    assert!(!is_refused(gate.as_ref()).await);
    slow.abort();
}

/// A copy that is killed cannot make its source writable again.
pub async fn a_lease_ends_by_itself_unless_it_is_renewed(subject: &mut impl Subject) {
    let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
    let gate = ReadOnlyGate::with_clock(subject.store(), clock.clone()).await.unwrap();
    let at = |seconds: u64| UnixMillis(1_000_000 + seconds * 1_000);
    let is_refused = async || match gate.run(call(), vec![put("p", vec![row("a", "v")])]).await {
        Err(StoreError::ReadOnly(why)) => {
            assert_eq!(read_only::lease_of(&why).0, "it moves");
            true
        }
        changed => !changed.unwrap().is_applied(),
    };
    read_only::set(&gate, Some(&read_only::leased("it moves", at(60)))).await.unwrap();
    clock.set(at(59));
    assert!(is_refused().await);
    read_only::set(&gate, Some(&read_only::leased("it moves", at(90)))).await.unwrap();
    clock.set(at(89));
    assert!(is_refused().await && gate.check_home().is_err());
    assert!(read_only::reason_at(&gate, at(89)).await.unwrap().is_some());
    clock.set(at(90));
    assert!(!is_refused().await, "nobody has renewed the lease");
    gate.check_home().unwrap();
    assert!(!gate.health().await.refusing_writes.contains_key(&Lane::Text));
    assert_eq!(read_only::reason_at(&gate, at(90)).await.unwrap(), None);
    // The process that opens the store next sees the same.
    let next = ReadOnlyGate::with_clock(subject.store(), clock.clone()).await.unwrap();
    next.check_home().unwrap();
}

/// A lease that is known says nothing about what is stored after it.
pub async fn a_store_whose_state_is_unknown_refuses_changes_even_after_a_lease(subject: &mut impl Subject) {
    let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
    let gate = ReadOnlyGate::with_clock(subject.store(), clock.clone()).await.unwrap();
    let (ends, later) = (UnixMillis(1_060_000), UnixMillis(1_120_000));
    for closed_at in [UnixMillis(1_030_000), ends] {
        read_only::set(&gate, Some(&read_only::leased("it moves", ends))).await.unwrap();
        clock.set(closed_at);
        gate.close_until_known().await;
        clock.set(later);
        let refused = gate.run(call(), vec![put("p", vec![row("a", "v")])]).await;
        assert!(matches!(&refused, Err(StoreError::ReadOnly(why)) if why.contains("not known")), "{refused:?}");
        gate.look().await.unwrap();
        gate.check_home().unwrap();
    }
    read_only::set(&gate, Some("it moves")).await.unwrap();
    gate.close_until_known().await;
    assert!(is_refused(&gate).await, "what is known is kept");
}
