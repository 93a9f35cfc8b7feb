//! The fault wrapper over a store that keeps its data.

use std::sync::Arc;
use std::time::Duration;

use crate::support::Embedded;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use store::faults::{Damage, Fault, Faults, Harm, Kind, Rates};
use store::suite::Subject;
use store::{
    Call, Class, ContentState, Deadline, Expect, Guard, Lane, NewRow, Outcome, Row, Scan, Stamp, Step, Store,
    StoreError, StoreResult, Table, ValueKind, envelope,
};

/// A store with faults, and the same one without.
struct Faulty {
    faults: Faults,
    whole: Arc<dyn Store>,
    _subject: Embedded,
}

impl Faulty {
    fn new() -> Self {
        let subject = Embedded::bare();
        Self { faults: Faults::new(subject.store()), whole: subject.store(), _subject: subject }
    }

    async fn put(&self, sort: &'static str) -> StoreResult<Outcome> {
        self.faults.run(call(), vec![put(sort)]).await
    }

    async fn read(&self, sort: &'static str) -> StoreResult<Option<Row>> {
        self.faults.get(call(), Table::Objects, &"p".into(), &sort.into()).await
    }

    /// Whether the inner store holds a row.
    async fn holds(&self, sort: &'static str) -> bool {
        self.whole.get(call(), Table::Objects, &"p".into(), &sort.into()).await.unwrap().is_some()
    }
}

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(Duration::from_secs(30)))
}

fn put(sort: &'static str) -> Step {
    let rows = vec![NewRow::new(sort, envelope::seal(ValueKind::Trial, sort.as_bytes()))];
    Step::Put { table: Table::Objects, partition: "p".into(), rows }
}

fn content(pieces: &[&'static str]) -> store::ContentStream {
    stream::iter(pieces.iter().map(|piece| Ok((*piece).into())).collect::<Vec<_>>()).boxed()
}

#[tokio::test]
async fn a_failed_write_was_not_applied_and_succeeds_when_repeated() {
    for fault in [Fault::Unavailable, Fault::Overloaded, Fault::DeadlinePassed] {
        let store = Faulty::new();
        store.faults.next(Kind::Run, fault);
        assert!(store.put("a").await.unwrap_err().is_passing());
        assert!(!store.holds("a").await);
        assert!(store.put("a").await.unwrap().is_applied());
        assert!(store.holds("a").await);
    }
}

#[tokio::test]
async fn a_failed_read_heals() {
    let store = Faulty::new();
    store.put("a").await.unwrap();
    store.faults.next(Kind::Read, Fault::Unavailable);
    store.faults.next(Kind::Read, Fault::DeadlinePassed);
    assert!(matches!(store.read("a").await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.read("a").await, Err(StoreError::DeadlinePassed)));
    assert!(store.read("a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_fault_waits_for_the_kind_of_call_it_is_meant_for() {
    let store = Faulty::new();
    store.faults.next(Kind::Run, Fault::Unavailable);
    assert!(store.read("a").await.is_ok());
    assert!(store.put("a").await.is_err());
}

#[tokio::test]
async fn a_list_with_an_unknown_outcome_is_applied_or_not_as_requested() {
    let store = Faulty::new();
    store.faults.next(Kind::Run, Fault::UnknownApplied);
    store.faults.next(Kind::Run, Fault::UnknownNotApplied);
    assert!(matches!(store.put("a").await.unwrap(), Outcome::Unknown { .. }));
    assert!(matches!(store.put("b").await.unwrap(), Outcome::Unknown { .. }));
    assert_eq!((store.holds("a").await, store.holds("b").await), (true, false));
}

#[tokio::test]
async fn a_crash_keeps_the_steps_before_it_and_fails_every_call_until_revived() {
    for steps in 0..=3 {
        let store = Faulty::new();
        store.faults.crash_after_steps(steps);
        let outcome = store.faults.run(call(), vec![put("a"), put("b"), put("c")]).await;
        match steps {
            0 => assert!(outcome.is_err()),
            3 => assert!(outcome.unwrap().is_applied()),
            _ => assert!(matches!(outcome.unwrap(), Outcome::Unknown { .. })),
        }
        let held = [store.holds("a").await, store.holds("b").await, store.holds("c").await];
        assert_eq!(held, [steps > 0, steps > 1, steps > 2], "after {steps} steps");
        // The list that fits is let through; the next one meets the crash.
        assert_eq!(store.faults.is_crashed(), steps < 3);
        assert!(store.put("d").await.is_err());
        assert!(store.read("a").await.is_err());
        assert!(store.faults.health().await.refusing_writes.contains_key(&Lane::Text));
        store.faults.revive();
        assert!(store.put("d").await.unwrap().is_applied());
        assert_eq!(store.faults.steps_seen(), steps + 1);
    }
}

#[tokio::test]
async fn a_crash_breaks_off_an_upload() {
    for steps in 0..=2 {
        let store = Faulty::new();
        store.faults.crash_after_steps(steps);
        let uploaded = store.faults.put_content(call(), "owner".into(), content(&["one", "two"])).await;
        assert_eq!(uploaded.is_ok(), steps == 2);
        let known = store.whole.walk(call(), Table::Contents, None, 10).await.unwrap().partitions;
        for id in known {
            let id = store::ContentId(id[..].try_into().unwrap());
            let state = store.whole.content_header(call(), id).await.unwrap().unwrap().state;
            assert_eq!(state == ContentState::Sealed, steps == 2);
        }
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_goes_on_reading() {
    let store = Faulty::new();
    store.put("a").await.unwrap();
    store.faults.set_full(true);
    assert!(matches!(store.put("b").await, Err(StoreError::Full(_))));
    let upload = store.faults.put_content(call(), "owner".into(), content(&["one"])).await;
    assert!(matches!(upload, Err(StoreError::Full(_))));
    assert!(store.read("a").await.unwrap().is_some());
    assert!(store.faults.health().await.refusing_writes.contains_key(&Lane::Text));
    store.faults.set_full(false);
    assert!(store.put("b").await.unwrap().is_applied());
}

fn damage(sort: Option<&'static str>, harm: Harm, strong_reads_are_whole: bool) -> Damage {
    let sort = sort.map(Bytes::from);
    Damage { table: Table::Objects, partition: "p".into(), sort, harm, strong_reads_are_whole }
}

#[tokio::test]
async fn the_envelope_detects_a_flipped_bit_until_it_is_healed() {
    let store = Faulty::new();
    store.faults.run(call(), vec![put("a"), put("b")]).await.unwrap();
    store.faults.damage(damage(Some("b"), Harm::FlippedBit, false));
    let page = store.faults.scan(call(), Table::Objects, &"p".into(), Scan::prefix("", 1000)).await.unwrap();
    let keys = vec![("p".into(), "a".into()), ("p".into(), "b".into())];
    let many = store.faults.get_many(call(), Table::Objects, keys).await.unwrap();
    let one = store.read("b").await.unwrap().unwrap();
    for (a, b) in
        [(&page.rows[0], &page.rows[1]), (many[0].as_ref().unwrap(), many[1].as_ref().unwrap()), (&page.rows[0], &one)]
    {
        assert!(envelope::open(ValueKind::Trial, &a.value).is_ok());
        assert_eq!(envelope::open(ValueKind::Trial, &b.value), Err(envelope::EnvelopeError::Checksum));
    }
    store.faults.heal();
    assert!(envelope::open(ValueKind::Trial, &store.read("b").await.unwrap().unwrap().value).is_ok());
}

#[tokio::test]
async fn a_lost_row_may_be_found_by_a_strong_read() {
    let store = Faulty::new();
    store.put("a").await.unwrap();
    store.faults.damage(damage(None, Harm::Lost, true));
    assert_eq!(store.read("a").await.unwrap(), None);
    let strong = store.faults.get(call().strong(), Table::Objects, &"p".into(), &"a".into()).await.unwrap();
    assert!(strong.is_some());
}

#[tokio::test]
async fn a_damaged_content_reads_other_bytes() {
    let store = Faulty::new();
    let id = store.faults.put_content(call(), "owner".into(), content(&["one"])).await.unwrap();
    store.faults.damage_content(id);
    let read = async || {
        let pieces = store.faults.read_content(call(), id, 0..10).await.unwrap().unwrap();
        pieces.try_collect::<Vec<Bytes>>().await.unwrap().concat()
    };
    assert_ne!(read().await, b"one");
    store.faults.heal();
    assert_eq!(read().await, b"one");
}

/// Adds to a counter through faults as the protocols require: after an unknown outcome it looks for
/// its own stamp. There is one writer only, so any stamp that it finds is its own.
async fn add(store: &Faulty) {
    let read = async || loop {
        if let Ok(row) = store.faults.get(call().strong(), Table::Objects, &"p".into(), &"head".into()).await {
            return row;
        }
    };
    loop {
        let head = read().await;
        let count = head.as_ref().map_or(0, |head| head.value[0]);
        let current = head.and_then(|head| head.guard);
        let guard = Guard { stamp: Stamp::fresh(), tag: Bytes::new() };
        let write = Step::CompareAndWrite {
            table: Table::Objects,
            partition: "p".into(),
            sort: "head".into(),
            expect: current.map_or(Expect::Absent, |guard| Expect::Stamp(guard.stamp)),
            guard: guard.clone(),
            value: vec![count + 1].into(),
        };
        match store.faults.run(call(), vec![write]).await {
            Ok(Outcome::Applied) => return,
            Ok(Outcome::Unknown { .. }) if read().await.and_then(|head| head.guard) == Some(guard) => return,
            Ok(Outcome::Refused { .. }) => panic!("one writer alone was refused"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_careful_writer_counts_exactly_despite_drawn_faults() {
    let seed = rand::random();
    println!("seed {seed}");
    let store = Faulty::new();
    let rates = Rates { unavailable: 0.2, unknown_applied: 0.2, unknown_not_applied: 0.2, ..Rates::default() };
    store.faults.set_rates(seed, rates);
    for _ in 0..40 {
        add(&store).await;
    }
    let head = store.whole.get(call(), Table::Objects, &"p".into(), &"head".into()).await.unwrap().unwrap();
    assert_eq!(head.value[0], 40);
}

#[tokio::test]
async fn the_same_seed_draws_the_same_faults() {
    let mut drawn = Vec::new();
    for seed in [7, 7, 8] {
        let store = Faulty::new();
        store.faults.set_rates(seed, Rates { unavailable: 0.5, ..Rates::default() });
        let mut failed = Vec::new();
        for _ in 0..64 {
            failed.push(store.read("a").await.is_err());
        }
        drawn.push(failed);
    }
    assert_eq!(drawn[0], drawn[1]);
    assert_ne!(drawn[0], drawn[2]);
}
