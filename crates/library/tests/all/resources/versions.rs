//! Versions of resources: all are kept by default. Versions that are not kept are collected after
//! the grace, and nothing else is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use heads::{History, HistoryTrees, Keep, LibraryOptions, Queue, keys};
use library::Library;
use repository::{NewKind, NewResource, Update, Uploaded};
use store::{Call, Class, Clock, Deadline, ManualClock, Step, Table, UnixMillis};

use super::tree::{beside, container, create, delete, descriptions, path, said, update};
use crate::support::memory::Fault;
use crate::support::{Faulty, Fixture, START, faulty_with, fixture_with, on_cassandra, sample, steps};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Half of the grace where a resource changes all the time. A pass reads few buckets for it.
const HALF_GRACE: Duration = Duration::from_secs(20 * 60);

/// The records and the versions of a resource that changes all the time are fewer, unless more
/// versions are kept.
const FEW: usize = 16;

fn keeping(resources: Keep) -> LibraryOptions {
    LibraryOptions { history: History { resources, ..History::default() }, ..LibraryOptions::default() }
}

/// A resource with three superseded versions, one per day.
async fn changed(keep: Keep) -> Faulty {
    let faulty = faulty_with(keeping(keep)).await;
    create(&faulty.library, "a", "first").await.unwrap();
    for description in ["second", "third", "fourth"] {
        faulty.clock.advance(DAY);
        update(&faulty.library, "a", description).await.unwrap();
    }
    faulty
}

/// The descriptions of the stored versions.
fn versions(faulty: &Faulty) -> Vec<String> {
    let text = |partition: &Bytes, sort: &Bytes| {
        let row = faulty.store.row(Table::Objects, partition, sort).unwrap();
        String::from_utf8(store::envelope::open(store::ValueKind::Description, &row).unwrap().to_vec()).unwrap()
    };
    descriptions(faulty, "a").iter().map(|(partition, sort)| text(partition, sort)).collect()
}

fn records(faulty: &Faulty) -> usize {
    faulty.store.records(Queue::Superseded)
}

/// Condemns, waits for the grace, removes.
async fn collected(library: &Library, clock: &store::ManualClock) {
    library.repository.collect_versions().await.unwrap();
    clock.advance(library.options().grace);
    library.repository.collect_versions().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_versions_are_kept_and_nothing_is_recorded_unless_something_else_is_said() {
    let faulty = changed(LibraryOptions::default().history.resources).await;
    delete(&faulty.library, "a").await.unwrap();
    assert_eq!(records(&faulty), 0);
    collected(&faulty.library, &faulty.clock).await;
    assert_eq!(versions(&faulty), ["first", "second", "third", "fourth"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_that_are_not_kept_go_after_the_grace() {
    let two_days = Keep::For(2 * DAY - Duration::from_secs(1));
    for (keep, kept) in [(Keep::None, 1), (Keep::Newest(1), 2), (Keep::Newest(2), 3), (two_days, 3)] {
        let faulty = changed(keep).await;
        let expected = &["first", "second", "third", "fourth"][4 - kept..];
        assert_eq!(faulty.library.repository.collect_versions().await.unwrap(), 0);
        faulty.clock.advance(faulty.library.options().grace - Duration::from_millis(1));
        assert_eq!(faulty.library.repository.collect_versions().await.unwrap(), 0);
        assert_eq!(versions(&faulty).len(), 4, "{keep}: who began to read before may be reading");
        faulty.clock.advance(Duration::from_millis(1));
        faulty.library.repository.collect_versions().await.unwrap();
        assert_eq!(versions(&faulty), expected, "{keep}");
        assert_eq!(said(&faulty.library, "a").await.as_deref(), Some("fourth"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_tree_without_versions_they_go_after_the_grace_and_elsewhere_they_stay() {
    let history_trees = HistoryTrees::new(vec![(path("c"), Keep::None), (path("c/kept"), Keep::All)]);
    let faulty = faulty_with(LibraryOptions { history_trees, ..LibraryOptions::default() }).await;
    let stored = |at: &str| descriptions(&faulty, at).len();
    for at in ["a", "c/a", "c/kept/a", "cc"] {
        create(&faulty.library, at, "first").await.unwrap();
        update(&faulty.library, at, "second").await.unwrap();
        assert_eq!(stored(at), 2, "{at}");
    }
    collected(&faulty.library, &faulty.clock).await;
    assert_eq!(["a", "c/a", "c/kept/a", "cc"].map(stored), [2, 1, 2, 2]);
    for at in ["c/a", "c/kept/a"] {
        assert_eq!(said(&faulty.library, at).await.as_deref(), Some("second"));
    }
    let keeps = |at: &str| faulty.library.repository.keeps_versions(&path(at));
    assert_eq!([keeps("a"), keeps("c"), keeps("c/a"), keeps("c/kept/a")], [true, false, false, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_that_are_kept_for_a_time_are_all_gone_some_time_later_and_so_are_their_records() {
    let faulty = changed(Keep::For(7 * DAY)).await;
    collected(&faulty.library, &faulty.clock).await;
    assert_eq!(versions(&faulty).len(), 4);
    for _ in 0..10 {
        faulty.clock.advance(DAY);
        faulty.library.repository.collect_versions().await.unwrap();
    }
    assert_eq!((versions(&faulty), records(&faulty)), (vec!["fourth".to_owned()], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_for_a_time_is_visited_about_thirty_times_meanwhile_and_a_shorter_time_counts_then() {
    for (kept, visits) in [(7 * DAY, DAY), (360 * DAY, 12 * DAY)] {
        let faulty = changed(Keep::For(kept)).await;
        for _ in 0..3 {
            faulty.library.repository.collect_versions().await.unwrap();
            // A day later the last writer is no more at work.
            faulty.clock.advance(DAY);
        }
        let has_records = |partition: &Bytes| !faulty.store.sorts(Table::Work, partition).is_empty();
        let partitions = faulty.store.partitions(Table::Work).into_iter().filter(has_records);
        let bucket = |partition: Bytes| keys::queue_bucket(&partition, Queue::Superseded.name());
        let due: BTreeSet<u32> = partitions.filter_map(bucket).collect();
        // The first pass was three days after the start, and the last writer ends a day later.
        let again = |days: u32| u32::try_from(START.plus(days * DAY + visits).0 / 600_000).unwrap();
        let expected = if visits == DAY { BTreeSet::from([again(5)]) } else { BTreeSet::from([3, 4].map(again)) };
        assert_eq!(due, expected, "{kept:?}");
        faulty.clock.advance(visits);
        let with = keeping(Keep::For(DAY));
        let shorter = Library::open(faulty.store.clone(), faulty.clock.clone(), with).await.unwrap();
        collected(&shorter, &faulty.clock).await;
        assert_eq!(versions(&faulty), ["fourth"], "{kept:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_current_when_others_were_condemned_stays_for_a_grace_of_its_own() {
    let faulty = changed(Keep::None).await;
    faulty.library.repository.collect_versions().await.unwrap();
    update(&faulty.library, "a", "fifth").await.unwrap();
    faulty.clock.advance(faulty.library.options().grace);
    faulty.library.repository.collect_versions().await.unwrap();
    assert_eq!(versions(&faulty), ["fourth", "fifth"]);
    collected(&faulty.library, &faulty.clock).await;
    assert_eq!(versions(&faulty), ["fifth"]);
    faulty.library.repository.collect_versions().await.unwrap();
    assert_eq!(records(&faulty), 0);
}

/// A resource that is going to be changed all the time.
async fn busy(keep: Keep) -> Faulty {
    let (grace, plan_life) = (2 * HALF_GRACE, Duration::from_secs(300));
    let faulty = faulty_with(LibraryOptions { grace, plan_life, ..keeping(keep) }).await;
    create(&faulty.library, "a", "0").await.unwrap();
    faulty
}

/// Changes it half a grace later. A pass that removes does not condemn, so another one follows.
async fn change(faulty: &Faulty, description: usize, removes_replaced: bool) {
    let Faulty { library, clock, .. } = faulty;
    clock.advance(HALF_GRACE);
    let replaced = library.repository.resource(&path("a")).await.unwrap().revision();
    update(library, "a", &description.to_string()).await.unwrap();
    if removes_replaced {
        library.repository.remove_version(&path("a"), replaced).await.unwrap();
    }
    for _ in 0..2 {
        library.repository.collect_versions().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_changes_twice_in_each_grace_has_few_records_and_rests_without_any() {
    let changes = if on_cassandra() { 30 } else { 100 };
    // What is kept, whether versions are removed once they are replaced, and how many are left.
    let cases = [
        (Keep::None, false, 1),
        (Keep::Newest(2), false, 3),
        (Keep::Newest(2), true, 1),
        (Keep::Newest(1_000), false, changes + 1),
        (Keep::For(4 * HALF_GRACE), false, 1),
        (Keep::Explicit, false, 1),
    ];
    for (keep, removes_replaced, left) in sample(cases) {
        let faulty = busy(keep).await;
        for n in 1..=changes {
            change(&faulty, n, removes_replaced).await;
            if n % 10 != 0 {
                continue;
            }
            let (records, versions) = (records(&faulty), versions(&faulty).len());
            assert!(records <= FEW, "{keep}, {removes_replaced}: {records} records after {n} changes");
            assert!(versions <= FEW.max(left), "{keep}, {removes_replaced}: {versions} versions after {n} changes");
        }
        for _ in 0..20 {
            faulty.clock.advance(2 * HALF_GRACE);
            faulty.library.repository.collect_versions().await.unwrap();
        }
        assert_eq!((records(&faulty), versions(&faulty).len()), (0, left), "{keep}, {removes_replaced}");
        assert_eq!(said(&faulty.library, "a").await, Some(changes.to_string()));
    }
}

/// What was written by a process that died before it switched the head.
const NEVER: &str = "never";

async fn die_while_updating(faulty: &mut Faulty) {
    let object = keys::resource_partition(&path("a"));
    let is_head = move |step: &Step| matches!(step, Step::CompareAndWrite { partition, .. } if *partition == object);
    faulty.store.arm(Fault::Crash, move |_, step| is_head(step));
    update(&faulty.library, "a", NEVER).await.unwrap_err();
    faulty.library = faulty.reopened().await;
    assert!(has_rows_of_the_dead(faulty));
}

fn has_rows_of_the_dead(faulty: &Faulty) -> bool {
    versions(faulty).iter().any(|said| said == NEVER)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_writer_left_that_died_goes_though_its_resource_changes_all_the_time() {
    let mut faulty = busy(Keep::None).await;
    for n in 1..=4 {
        change(&faulty, n, false).await;
    }
    die_while_updating(&mut faulty).await;
    for n in 5..=12 {
        change(&faulty, n, false).await;
    }
    assert!(!has_rows_of_the_dead(&faulty));
    assert!(records(&faulty) <= FEW);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_writer_left_that_died_goes_two_graces_later_though_its_resource_rests() {
    let (grace, plan_life) = (Duration::from_secs(16 * 60), Duration::from_secs(300));
    let mut faulty = faulty_with(LibraryOptions { grace, plan_life, ..keeping(Keep::None) }).await;
    create(&faulty.library, "a", "said").await.unwrap();
    die_while_updating(&mut faulty).await;
    // It is left alone for a grace, then condemned, and removed a grace later. Passes come meanwhile.
    for _ in 0..2 {
        for _ in 0..2 {
            faulty.library.repository.collect_versions().await.unwrap();
        }
        assert!(has_rows_of_the_dead(&faulty));
        faulty.clock.advance(grace);
    }
    for _ in 0..2 {
        faulty.library.repository.collect_versions().await.unwrap();
    }
    assert_eq!((has_rows_of_the_dead(&faulty), records(&faulty)), (false, 0));
}

/// A clock that moves on whenever somebody looks at it.
struct Restless(Arc<ManualClock>);

impl Clock for Restless {
    fn now(&self) -> UnixMillis {
        self.0.advance(Duration::from_secs(1));
        self.0.now()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_whose_request_ends_while_it_is_visited_is_done_soon_after() {
    let [grace, plan_life, clock_skew_max] = [10, 1, 5].map(Duration::from_secs);
    let options = LibraryOptions { grace, plan_life, clock_skew_max, ..keeping(Keep::None) };
    let faulty = faulty_with(options.clone()).await;
    create(&faulty.library, "a", "first").await.unwrap();
    update(&faulty.library, "a", "second").await.unwrap();
    let clock = Arc::new(Restless(faulty.clock.clone()));
    let library = Library::open(faulty.store.clone(), clock, options).await.unwrap();
    let begun = faulty.clock.now();
    while records(&faulty) > 0 {
        library.repository.collect_versions().await.unwrap();
        assert!(faulty.clock.now().since(begun) < Duration::from_secs(30 * 60), "{} are left", records(&faulty));
    }
    assert_eq!(versions(&faulty), ["second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_what_was_deleted_nothing_is_left_but_the_log_also_of_what_was_in_it() {
    let faulty = faulty_with(keeping(Keep::None)).await;
    create(&faulty.library, "c/a", "said").await.unwrap();
    delete(&faulty.library, "c").await.unwrap();
    collected(&faulty.library, &faulty.clock).await;
    for at in ["c", "c/a"] {
        let object = keys::resource_partition(&path(at));
        let beside = beside(&faulty, &object);
        assert_eq!(beside, [keys::log_page(&object, 0)], "{at}");
        assert_eq!(faulty.store.sorts(Table::Objects, &object), [keys::head()], "{at}");
    }
    faulty.library.repository.remove_tombstone(&path("c")).await.unwrap();
    create(&faulty.library, "c/a", "again").await.unwrap();
    assert_eq!(said(&faulty.library, "c/a").await.as_deref(), Some("again"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_any_step_of_collecting_loses_nothing_that_stands_and_is_made_good_by_a_later_pass() {
    for fault in
        sample([Fault::Crash, Fault::UnknownApplied, Fault::UnknownLost, Fault::UnknownLate(1), Fault::Overloaded])
    {
        for at in steps() {
            let faulty = changed(Keep::None).await;
            faulty.store.arm(fault.clone(), move |number, _| number == at);
            for _ in 0..3 {
                let _ = faulty.library.repository.collect_versions().await;
                faulty.clock.advance(faulty.library.options().grace);
            }
            if faulty.store.steps() <= at {
                assert!(at > 3, "collecting has steps");
                break;
            }
            let library = faulty.reopened().await;
            assert_eq!(said(&library, "a").await.as_deref(), Some("fourth"), "{fault:?} at {at}");
            for _ in 0..4 {
                library.repository.collect_versions().await.unwrap();
                faulty.clock.advance(library.options().grace);
            }
            assert_eq!((versions(&faulty), records(&faulty)), (vec!["fourth".to_owned()], 0), "{fault:?} at {at}");
        }
    }
}

async fn upload(library: &Library, byte: u8, len: usize) -> Uploaded {
    let source = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![byte; len]))]);
    library.repository.upload(&path("b"), source, &[]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_not_kept_go_whether_they_are_few_or_many() {
    let Fixture { library, clock, store, .. } = &fixture_with(keeping(Keep::None)).await;
    let (few, many) = (100, library.options().small_content_bytes + 1);
    let new = NewResource { kind: NewKind::Binary(upload(library, 0, few).await), ..container() };
    library.repository.create(&path("b"), &new).await.unwrap();
    for (byte, len) in [(1, many), (2, few), (3, many), (4, many)] {
        let resource = library.repository.resource(&path("b")).await.unwrap();
        library.repository.update(&resource, &Update::Binary(upload(library, byte, len).await)).await.unwrap();
    }
    let call = || Call::new(Class::Content, Deadline::within(Duration::from_secs(60)));
    let contents = async || store.walk(call(), Table::Contents, None, 10).await.unwrap().partitions.len();
    assert_eq!(contents().await, 3);
    collected(library, clock).await;
    assert_eq!(contents().await, 1);
    let partitions = store.walk(call(), Table::Objects, None, 100).await.unwrap().partitions;
    let version = [&keys::resource_partition(&path("b"))[..], b"\0r"].concat();
    assert!(!partitions.iter().any(|partition| partition.starts_with(&version)));
    let resource = library.repository.resource(&path("b")).await.unwrap();
    let binary = resource.body().binary().unwrap();
    let mut read = library.repository.content(&resource, binary, 0..1).await.unwrap();
    assert_eq!(read.next().await.unwrap().unwrap()[0], 4);
}
