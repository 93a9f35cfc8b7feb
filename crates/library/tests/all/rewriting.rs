//! A shard is rewritten without its past members while other tasks create, delete and list: no live
//! child goes missing, and no deleted child returns.
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::memory::{Fault, Gate};
use crate::support::{Faulty, faulty_with, fixture_with, id, import, listed, sample, volume};
use heads::{LibraryOptions, ObjectsError, keys};
use library::Library;
use store::faults::{Faults, Rates};
use store::{ManualClock, Step, Table};
use tokio::sync::RwLock;
use volumes::CollectLimits;

const DAY: Duration = Duration::from_secs(24 * 3_600);

fn options(rewrite_dead_rows_min: u64) -> LibraryOptions {
    LibraryOptions { shards: 1, rewrite_dead_rows_min, sample_one_of: u32::MAX, ..LibraryOptions::default() }
}

async fn create(library: &Library, name: &str) {
    import(library, volume(name, &["text"])).await.unwrap();
}

async fn rewritten(library: &Library) -> u64 {
    library.volumes.collect_once(CollectLimits::default()).await.unwrap().shards_rewritten
}

/// Two live volumes, and the marks of two deleted ones.
async fn half_dead() -> Faulty {
    let faulty = faulty_with(options(1)).await;
    for name in ["t.a", "t.b", "t.c", "t.d"] {
        create(&faulty.library, name).await;
    }
    faulty.library.volumes.delete(&id("t.b")).await.unwrap();
    faulty.library.volumes.delete(&id("t.d")).await.unwrap();
    faulty
}

async fn shard_of(faulty: &Faulty, epoch: u32) -> Vec<bytes::Bytes> {
    let head = faulty.library.volumes.volume(&id("t.a")).await.unwrap();
    let row = faulty.library.volumes.head(&head.id).await.unwrap().unwrap();
    let partition = keys::children_partition("volumes", row.head.parent_incarnation, 0, epoch);
    faulty.store.sorts(Table::Children, &partition)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_with_many_past_members_is_rewritten_and_its_old_partition_dropped_after_the_grace() {
    let faulty = half_dead().await;
    let library = &faulty.library;
    assert_eq!(rewritten(library).await, 1);
    assert_eq!(listed(library, 1).await, ["t.a", "t.c"]);
    assert_eq!((shard_of(&faulty, 0).await.len(), shard_of(&faulty, 1).await.len()), (12, 4));

    assert_eq!(rewritten(library).await, 0, "nothing is past in it now");
    faulty.clock.advance(DAY - Duration::from_millis(1));
    assert_eq!(rewritten(library).await, 0);
    assert_eq!(shard_of(&faulty, 0).await.len(), 12, "a listing may still read it");
    faulty.clock.advance(Duration::from_millis(1));
    assert_eq!(rewritten(library).await, 0);
    assert_eq!((shard_of(&faulty, 0).await.len(), shard_of(&faulty, 1).await.len()), (0, 4));
    let is_dropping = |partition: &bytes::Bytes| partition.starts_with(&keys::dropping_partition(&bytes::Bytes::new()));
    assert!(!faulty.store.partitions(Table::Work).iter().any(is_dropping));

    // Then again, from the new partition.
    library.volumes.delete(&id("t.c")).await.unwrap();
    assert_eq!(rewritten(library).await, 1);
    assert_eq!(listed(library, 10).await, ["t.a"]);
    assert_eq!(shard_of(&faulty, 2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_with_few_past_members_is_left_as_it_is() {
    let faulty = faulty_with(options(1)).await;
    for name in ["t.a", "t.b", "t.c", "t.d", "t.e", "t.f", "t.g", "t.h"] {
        create(&faulty.library, name).await;
    }
    faulty.library.volumes.delete(&id("t.b")).await.unwrap();
    assert_eq!(rewritten(&faulty.library).await, 0, "4 of 18 rows are less than a quarter");
    faulty.library.volumes.delete(&id("t.c")).await.unwrap();
    assert_eq!(rewritten(&faulty.library).await, 1, "8 of 20 are more");

    let faulty = faulty_with(options(9)).await;
    create(&faulty.library, "t.a").await;
    for name in ["t.b", "t.c", "t.d"] {
        create(&faulty.library, name).await;
        assert_eq!(rewritten(&faulty.library).await, 0, "not worth it yet");
        faulty.library.volumes.delete(&id(name)).await.unwrap();
    }
    assert_eq!(rewritten(&faulty.library).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewriting_that_breaks_off_anywhere_hurts_nobody_and_is_gone_on_with() {
    let faults = [Fault::Crash, Fault::UnknownApplied, Fault::UnknownLost, Fault::UnknownLate(2), Fault::Overloaded];
    for fault in sample(faults) {
        // The steps: the head names both, the copy, the head names the new one, the record of the
        // old one.
        for at in 0..4 {
            let faulty = half_dead().await;
            faulty.store.arm(fault.clone(), move |number, _| number == at);
            let _ = faulty.library.volumes.collect_once(CollectLimits::default()).await;
            let library = faulty.reopened().await;
            assert_eq!(listed(&library, 1).await, ["t.a", "t.c"], "{fault:?} at {at}");
            library.volumes.delete(&id("t.c")).await.unwrap();
            create(&library, "t.d").await;
            while rewritten(&library).await > 0 {}
            assert_eq!(listed(&library, 1).await, ["t.a", "t.d"], "{fault:?} at {at}");
            faulty.clock.advance(DAY);
            rewritten(&library).await;
            faulty.clock.advance(DAY);
            rewritten(&library).await;
            assert_eq!(listed(&library, 1).await, ["t.a", "t.d"], "{fault:?} at {at}");
            assert!(shard_of(&faulty, 0).await.is_empty(), "{fault:?} at {at}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_that_arrive_while_the_shard_is_rewritten_lead_nobody_astray() {
    // Steps of a creation: added, confirmed. Steps of a deletion: removing, removed.
    for (creates, at) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let faulty = half_dead().await;
        let gate = Gate::new();
        let mut marks = 0;
        let nth_mark = move |_: usize, step: &Step| {
            marks += usize::from(step.table() == Table::Children);
            marks == at + 1 && step.table() == Table::Children
        };
        let nth_mark = parking(nth_mark);
        faulty.store.arm(Fault::Hold(gate.clone()), nth_mark);
        let library = faulty.library.clone();
        let change = tokio::spawn(async move {
            match creates {
                true => import(&library, volume("t.e", &["new"])).await.map(|_| ()),
                false => library.volumes.delete(&id("t.c")).await,
            }
        });
        gate.reached().await;
        assert_eq!(rewritten(&faulty.library).await, 1);
        let expected: &[&str] = match (creates, at) {
            (true, 0) | (false, 0) => &["t.a", "t.c"],
            (true, _) => &["t.a", "t.c", "t.e"],
            (false, _) => &["t.a"],
        };
        assert_eq!(listed(&faulty.library, 1).await, expected, "creates: {creates}, mark {at} held");
        gate.open();
        change.await.unwrap().unwrap();
        let expected: &[&str] = if creates { &["t.a", "t.c", "t.e"] } else { &["t.a"] };
        assert_eq!(listed(&faulty.library, 1).await, expected, "creates: {creates}, mark {at} was held");
        // Marks that went to the old partition are not needed once it is gone.
        for _ in 0..3 {
            rewritten(&faulty.library).await;
            faulty.clock.advance(DAY);
            assert_eq!(listed(&faulty.library, 1).await, expected, "creates: {creates}, mark {at} was held");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_created_and_deleted_while_a_shard_is_copied_is_seen_at_once() {
    // Held before the copy, and before the head names only the new partition.
    for at in [1, 2] {
        let faulty = half_dead().await;
        let gate = Gate::new();
        faulty.store.arm(Fault::Hold(gate.clone()), move |number, _| number == at);
        let library = faulty.library.clone();
        let rewriting = tokio::spawn(async move { library.volumes.tend_next_shard().await });
        gate.reached().await;
        create(&faulty.library, "t.e").await;
        faulty.library.volumes.delete(&id("t.c")).await.unwrap();
        assert_eq!(listed(&faulty.library, 1).await, ["t.a", "t.e"]);
        gate.open();
        assert!(rewriting.await.unwrap().unwrap());
        assert_eq!(listed(&faulty.library, 1).await, ["t.a", "t.e"]);
    }
}

/// Turns a counting trigger into one that may be called from anywhere.
fn parking(
    trigger: impl FnMut(usize, &Step) -> bool + Send + 'static,
) -> impl Fn(usize, &Step) -> bool + Send + 'static {
    let trigger = std::sync::Mutex::new(trigger);
    move |number, step| (trigger.lock().unwrap())(number, step)
}

/// How often shards are rewritten while other tasks work.
const REWRITINGS: u64 = 40;

/// State that concurrent tasks share.
struct Bustle {
    library: Library,
    clock: Arc<ManualClock>,
    rewritings: AtomicU64,
    over: AtomicBool,
    /// Readers are listings; the writer lets days pass, because no page of a listing takes that
    /// long.
    page: RwLock<()>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_there_is_listed_and_what_is_gone_is_not_while_shards_are_rewritten_all_the_time() {
    for seed in 0..3 {
        let options = LibraryOptions { shards: 2, rewrite_dead_rows_min: 1, ..LibraryOptions::default() };
        let fixture = fixture_with(options.clone()).await;
        let faults = Arc::new(Faults::new(fixture.store.clone()));
        let library = Library::open(faults.clone(), fixture.clock.clone(), options).await.unwrap();
        for name in ["stays.a", "stays.b", "stays.c", "gone.a", "gone.b"] {
            create(&library, name).await;
        }
        for name in ["gone.a", "gone.b"] {
            library.volumes.delete(&id(name)).await.unwrap();
        }
        let rates = Rates { unavailable: 0.02, unknown_applied: 0.05, unknown_not_applied: 0.05, ..Rates::default() };
        faults.set_rates(seed, rates);
        let bustle = Arc::new(Bustle {
            library: library.clone(),
            clock: fixture.clock.clone(),
            rewritings: AtomicU64::new(0),
            over: AtomicBool::new(false),
            page: RwLock::default(),
        });
        let changers: Vec<_> = (0..3).map(|changer| tokio::spawn(change(bustle.clone(), changer))).collect();
        let rewriters: Vec<_> = (0..2).map(|_| tokio::spawn(rewrite(bustle.clone()))).collect();
        let lister = tokio::spawn(look(bustle.clone()));
        for changer in changers {
            changer.await.unwrap();
        }
        bustle.over.store(true, Ordering::Relaxed);
        for rewriter in rewriters {
            rewriter.await.unwrap();
        }
        assert!(lister.await.unwrap() > 0, "nothing was listed meanwhile");
        assert!(bustle.rewritings.load(Ordering::Relaxed) >= REWRITINGS);

        faults.set_rates(seed, Rates::default());
        fixture.clock.advance(Duration::from_secs(120));
        let mut there = BTreeSet::from(["stays.a", "stays.b", "stays.c"].map(str::to_owned));
        for name in (0..3).flat_map(names) {
            match library.volumes.volume(&id(&name)).await {
                Ok(_) => _ = there.insert(name),
                Err(ObjectsError::Absent(_) | ObjectsError::Gone(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(listed(&library, 3).await, there.into_iter().collect::<Vec<_>>());
    }
}

fn names(changer: u32) -> Vec<String> {
    (0..3).map(|name| format!("c{changer}.v{name}")).collect()
}

/// Creates and deletes its own names until there were enough rewrites. Failed calls are ignored:
/// the listing decides.
async fn change(bustle: Arc<Bustle>, changer: u32) {
    for round in 0..1_000 {
        for (number, name) in names(changer).into_iter().enumerate() {
            let _ = import(&bustle.library, volume(&name, &["text"])).await;
            if (round + number) % 3 != 0 {
                let _ = bustle.library.volumes.delete(&id(&name)).await;
            }
        }
        if bustle.rewritings.load(Ordering::Relaxed) >= REWRITINGS {
            return;
        }
    }
}

/// Rewrites shards, and lets days pass, so that old partitions are dropped.
async fn rewrite(bustle: Arc<Bustle>) {
    while !bustle.over.load(Ordering::Relaxed) {
        if let Ok(rewritten) = bustle.library.volumes.tend_next_shard().await {
            bustle.rewritings.fetch_add(u64::from(rewritten), Ordering::Relaxed);
        }
        let _nobody_lists = bustle.page.write().await;
        bustle.clock.advance(DAY / 2);
    }
}

/// Lists in one page, and checks that it has every volume that stays and no volume that was deleted
/// before.
async fn look(bustle: Arc<Bustle>) -> u64 {
    let mut looks = 0;
    while !bustle.over.load(Ordering::Relaxed) {
        let _page = bustle.page.read().await;
        let Ok(page) = bustle.library.volumes.list(None, 100).await else { continue };
        let names: Vec<String> = page.volumes.iter().map(ToString::to_string).collect();
        for stays in ["stays.a", "stays.b", "stays.c"] {
            assert_eq!(names.iter().filter(|name| *name == stays).count(), 1, "{stays} in {names:?}");
        }
        assert!(!names.iter().any(|name| name.starts_with("gone")), "{names:?}");
        looks += 1;
    }
    looks
}
