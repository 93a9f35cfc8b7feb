//! Failures of the store, and damage to the auditor's own rows, stop no pass for good.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fixity::{Auditor, Step};
use heads::keys;
use parking_lot::Mutex;
use repository::NewResource;
use store::faults::{Damage, Fault, Faults, Harm, Kind, Rates};
use store::{
    Call, Class, Deadline, Expect, Guard, NewRow, Row, Stamp, Store, StoreError, StoreResult, Table, WalkPage, Wrapper,
};

use crate::support::{EVERY, Fixture, all_steps, fixture, quick};

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(Duration::from_secs(30))).strong()
}

/// A fixture whose store injects faults.
async fn faulty() -> (Fixture, Arc<Faults>) {
    let fixture = fixture().await;
    let faults = Arc::new(Faults::new(fixture.store.clone()));
    (Fixture { store: faults.clone(), ..fixture }, faults)
}

/// Steps until a server rests, however often one of them fails. Returns how many failed.
async fn steps_in_spite_of_failures(server: &Auditor) -> usize {
    for failed in 0..100 {
        let mut step = server.step().await;
        while matches!(step, Ok(Step::Read(_) | Step::Moved)) {
            step = server.step().await;
        }
        match step {
            Ok(Step::Rests { .. }) => return failed,
            Ok(other) => panic!("{other:?}"),
            Err(_) => {}
        }
    }
    panic!("no pass ends");
}

/// A store that cannot read the heads of some objects.
struct Unreadable {
    inner: Arc<dyn Store>,
    partitions: Mutex<HashSet<Bytes>>,
    error: fn() -> StoreError,
}

impl Wrapper for Unreadable {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        let is_hit = table == Table::Objects && keys.iter().any(|(key, _)| self.partitions.lock().contains(key));
        if is_hit { Err((self.error)()) } else { self.inner.get_many(call, table, keys).await }
    }
}

/// A server that cannot read some of the resources `r000`, `r001` and so on.
async fn with_unreadable(count: usize, error: fn() -> StoreError) -> (Fixture, Arc<Unreadable>) {
    let fixture = fixture().await;
    fixture.make(20).await;
    let partition = |number| keys::resource_partition(&format!("r{number:03}").parse().unwrap());
    let partitions = Mutex::new((0..count).map(partition).collect());
    let store = Arc::new(Unreadable { inner: fixture.store.clone(), partitions, error });
    (Fixture { store: store.clone(), ..fixture }, store)
}

/// A store that refuses one place of a walk over objects.
struct Refusing {
    inner: Arc<dyn Store>,
    refuses: AtomicBool,
}

impl Wrapper for Refusing {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        if table == Table::Objects && from.is_some() && self.refuses.swap(false, Ordering::Relaxed) {
            return Err(StoreError::Invalid("this is no place of a walk".to_owned()));
        }
        self.inner.walk(call, table, from, max).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_pass_begins_if_the_place_of_a_walk_is_refused_so_that_nothing_counts_twice() {
    let fixture = fixture().await;
    fixture.make(20).await;
    let store = Arc::new(Refusing { inner: fixture.store.clone(), refuses: AtomicBool::new(true) });
    let fixture = Fixture { store: store.clone(), ..fixture };
    let server = fixture.server(quick()).await;
    all_steps(&server).await;
    assert!(!store.refuses.load(Ordering::Relaxed), "no walk went on");
    let complete = server.status().await.unwrap().complete.expect("a pass has ended");
    assert_eq!((complete.number, complete.found.resources), (2, 21));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_can_be_read_a_little_later_is_no_failure() {
    let (fixture, store) = with_unreadable(1, || StoreError::Unavailable("a node is down".to_owned())).await;
    let server = fixture.server(quick()).await;
    while matches!(server.step().await, Ok(Step::Read(_) | Step::Moved)) {}
    store.partitions.lock().clear();
    all_steps(&server).await;
    let complete = server.status().await.unwrap().complete.expect("everything was read");
    assert_eq!((complete.found.resources, complete.found.failed), (21, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_can_never_be_read_are_reported_and_their_pass_did_not_check_everything() {
    let error = || StoreError::Io { context: "reading".to_owned(), source: std::io::Error::other("a defect") };
    let (fixture, store) = with_unreadable(12, error).await;
    let server = fixture.server(quick()).await;
    assert!(steps_in_spite_of_failures(&server).await > 0);
    let (report, findings) = server.report(1).await.unwrap();
    assert_eq!((report.found.resources, report.found.damaged, report.found.failed), (9, 0, 12));
    let names: HashSet<_> = findings.iter().map(|finding| (finding.name.clone(), finding.is_damaged)).collect();
    assert_eq!(names, (0..12).map(|number| (format!("/r{number:03}"), false)).collect());
    let status = server.status().await.unwrap();
    assert_eq!((status.complete.as_ref(), status.oldest_check(server.now())), (None, None));

    store.partitions.lock().clear();
    fixture.clock.advance(EVERY);
    all_steps(&server).await;
    assert_eq!(server.status().await.unwrap().complete.expect("everything was read").number, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_without_an_answer_are_repeated_and_nothing_is_read_twice() {
    let (fixture, faults) = faulty().await;
    fixture.make(40).await;
    let server = fixture.server(quick()).await;
    faults.set_rates(7, Rates { unknown_applied: 0.3, unknown_not_applied: 0.3, ..Rates::default() });
    all_steps(&server).await;
    faults.set_rates(0, Rates::default());
    assert_eq!(server.status().await.unwrap().complete.expect("a pass has ended").found.resources, 41);
    assert_eq!(server.read_here().resources, 41);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_between_any_two_steps_leaves_a_report_on_everything() {
    let (fixture, faults) = faulty().await;
    fixture.make(3).await;
    for pass in 1.. {
        let server = fixture.server(quick()).await;
        faults.crash_after_steps(pass - 1);
        while matches!(server.step().await, Ok(Step::Read(_) | Step::Moved)) {}
        let is_crashed = faults.is_crashed();
        faults.revive();
        fixture.clock.advance(crate::support::LAPSED);
        let next = fixture.server(quick()).await;
        all_steps(&next).await;
        let reports = next.reports().await.unwrap().passes;
        assert_eq!(reports.len(), pass, "the report on pass {pass} is missing");
        // What was read just before the crash may be read again.
        assert!(reports[pass - 1].found.resources >= 4, "pass {pass} left something out: {reports:?}");
        if !is_crashed {
            assert!(pass > 5, "a pass takes more steps");
            return;
        }
        fixture.clock.advance(EVERY);
    }
}

/// Writes a value that is damaged into a guarded row of the auditor.
async fn damage_guarded(store: &dyn Store, sort: Bytes) {
    let row = store.get(call(), Table::Work, &keys::fixity_state(), &sort).await.unwrap().expect("it is stored");
    let mut value = row.value.to_vec();
    *value.last_mut().unwrap() ^= 1;
    let guard = row.guard.unwrap();
    let (expect, guard) = (Expect::Stamp(guard.stamp), Guard { stamp: Stamp([9; 16]), ..guard });
    let (table, partition, value) = (Table::Work, keys::fixity_state(), value.into());
    let step = store::Step::CompareAndWrite { table, partition, sort, expect, guard, value };
    assert!(store.run(call(), vec![step]).await.unwrap().is_applied());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_pass_begins_if_a_row_of_the_auditor_is_damaged() {
    let fixture = fixture().await;
    fixture.make(20).await;
    all_steps(&*fixture.server(quick()).await).await;
    for (pass, sort) in [(2, keys::fixity_pass()), (4, keys::fixity_reader(0))] {
        fixture.clock.advance(EVERY);
        let server = fixture.server(quick()).await;
        while server.read_here().resources == 0 {
            server.step().await.unwrap();
        }
        damage_guarded(&*fixture.store, sort).await;
        let status = server.status().await.unwrap();
        assert_eq!(status.complete.expect("earlier passes stay").number, pass - 1);
        all_steps(&server).await;
        let complete = server.status().await.unwrap().complete.expect("a pass has ended");
        assert_eq!((complete.number, complete.found.resources), (pass + 1, 21), "a new pass reads everything");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_report_and_a_damaged_finding_hide_no_others() {
    let fixture = fixture().await;
    fixture.make(1).await;
    let contents = [fixture.put_bytes("one", 300_000).await, fixture.put_bytes("other", 300_000).await];
    for content in contents {
        fixture.flip_bit(content, 1).await;
    }
    let server = fixture.server(quick()).await;
    for _ in 0..3 {
        all_steps(&server).await;
        fixture.clock.advance(EVERY);
    }
    let one = keys::resource_partition(&"one".parse().unwrap());
    for (partition, sort) in [(keys::fixity_state(), keys::fixity_report(2)), (keys::fixity_findings(1), one)] {
        let rows = vec![NewRow::new(sort, "damaged")];
        let step = store::Step::Put { table: Table::Work, partition, rows };
        fixture.store.run(call(), vec![step]).await.unwrap();
    }
    let reports = server.reports().await.unwrap();
    let numbers: Vec<_> = reports.passes.iter().map(|pass| pass.number).collect();
    assert_eq!((numbers, reports.unreadable), (vec![1, 3], 1));
    let (report, findings) = server.report(1).await.unwrap();
    assert_eq!((report.found.damaged, findings.len()), (2, 1));
    assert_eq!(findings[0].name, "/other");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_age_of_the_oldest_check_grows_while_the_state_cannot_be_read() {
    let (fixture, faults) = faulty().await;
    fixture.make(1).await;
    let (server, long) = (fixture.server(quick()).await, Duration::from_secs(60));
    all_steps(&server).await;
    assert_eq!(server.oldest_check_within(long).await, Some(Duration::ZERO));
    fixture.clock.advance(EVERY);
    let rows = Damage {
        table: Table::Work,
        partition: keys::fixity_state(),
        sort: None,
        harm: Harm::FlippedBit,
        strong_reads_are_whole: false,
    };
    faults.next(Kind::Read, Fault::Delay(Duration::from_secs(3_600)));
    assert_eq!(server.oldest_check_within(Duration::from_millis(10)).await, Some(EVERY), "it does not wait");
    faults.damage(rows);
    fixture.clock.advance(EVERY);
    let restarted = fixture.server(quick()).await;
    assert_eq!(restarted.oldest_check_within(long).await, None, "nothing is known");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_container_is_one_damaged_object_and_what_it_hides_was_not_checked() {
    let (fixture, faults) = faulty().await;
    let create = async |at: &str| {
        fixture.library.repository.create(&at.parse().unwrap(), &NewResource::empty_container()).await.unwrap();
    };
    for at in ["box", "other"] {
        create(at).await;
    }
    for number in 0..130 {
        create(&format!("box/{number}")).await;
    }
    for at in ["box", "other"] {
        let partition = keys::resource_partition(&at.parse().unwrap());
        let (table, sort, harm) = (Table::Objects, Some(keys::head()), Harm::FlippedBit);
        faults.damage(Damage { table, partition, sort, harm, strong_reads_are_whole: false });
    }
    let server = fixture.server(quick()).await;
    all_steps(&server).await;
    let (report, findings) = server.report(1).await.unwrap();
    assert_eq!((report.found.damaged, report.found.failed), (2, 130));
    let mut damaged: Vec<_> = findings.iter().filter(|finding| finding.is_damaged).map(|it| &*it.name).collect();
    damaged.sort_unstable();
    assert_eq!(damaged, ["/box", "/other"]);
    assert_eq!(findings.len(), 102, "findings of what was not read are limited on their own");
    let hidden = findings.iter().find(|finding| !finding.is_damaged).unwrap();
    assert!(hidden.parts[0].1.contains("/box"), "{hidden:?}");
}
