//! Containers get more shards as they grow, while other tasks create, delete and list in them: no
//! live child goes missing, and no deleted child returns.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use heads::{ContainerBody, History, Keep, LibraryOptions, ListToken, ObjectsError, Queue, RevisionId, keys};
use library::Library;
use repository::ResourceError;
use store::faults::{Faults, Rates};
use store::{ManualClock, Step, Table};
use tokio::sync::RwLock;

use super::pages_back::{back, forward};
use super::tree::{children, container, create, delete, path, said};
use crate::support::memory::{Fault, Gate};
use crate::support::{Faulty, faulty_with, fixture_with, sample, steps};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Each child is a sample, and a few children are too many for a shard. Past members are not kept.
fn options() -> LibraryOptions {
    let history = History { resources: Keep::None, ..History::default() };
    LibraryOptions {
        resource_shards: 2,
        shard_bytes_max: 1_000,
        sample_one_of: 1,
        history,
        ..LibraryOptions::default()
    }
}

/// The names of the live children of `grown_large`.
fn live() -> Vec<String> {
    (4..24).map(|n| format!("n{n:02}")).collect()
}

/// A container that has to grow. Some of its members are past.
async fn grown_large() -> Faulty {
    let faulty = faulty_with(options()).await;
    faulty.library.repository.create(&path("c"), &container()).await.unwrap();
    for n in 0..24 {
        create(&faulty.library, &format!("c/n{n:02}"), "").await.unwrap();
    }
    for n in 0..4 {
        delete(&faulty.library, &format!("c/n{n:02}")).await.unwrap();
    }
    faulty
}

async fn shards(library: &Library) -> (RevisionId, ContainerBody) {
    let resource = library.repository.resource(&path("c")).await.unwrap();
    (resource.incarnation(), resource.body().container().unwrap().clone())
}

async fn listed(library: &Library) -> Vec<String> {
    children(library, &path("c")).await
}

/// The number of rows of the children of `c` in these shards at an epoch.
fn rows(faulty: &Faulty, incarnation: RevisionId, shards: u16, epoch: u32) -> usize {
    let partition = |shard| keys::children_partition("r/c", incarnation, shard, epoch);
    (0..shards).map(|shard| faulty.store.sorts(Table::Children, &partition(shard)).len()).sum()
}

fn is_nothing_left_to_do(faulty: &Faulty) -> bool {
    // Low-water marks, records of superseded versions and the change feed remain in the table of
    // work.
    let is_of_others = |partition: &Bytes| {
        let is_of_feed = partition.starts_with(b"feed\0");
        is_of_feed
            || *partition == keys::low_water_partition()
            || keys::queue_bucket(partition, Queue::Superseded.name()).is_some()
    };
    faulty.store.partitions(Table::Work).iter().all(is_of_others)
}

/// Gives the old partitions time to be dropped.
async fn dropped(library: &Library, clock: &ManualClock) {
    for _ in 0..3 {
        library.heads.grow_containers().await.unwrap();
        clock.advance(DAY);
    }
    library.heads.grow_containers().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_has_grown_has_more_shards_and_its_old_ones_are_dropped_after_the_grace() {
    let faulty = grown_large().await;
    let library = &faulty.library;
    let (incarnation, before) = shards(library).await;
    let change =
        async || library.repository.last_change(&library.repository.resource(&path("c")).await.unwrap()).await.unwrap();
    let changed = change().await;
    assert_eq!((before.shards, library.heads.grow_containers().await.unwrap()), (2, 1));
    let (_, after) = shards(library).await;
    assert_eq!((after.shards, after.first_epoch, after.growing), (8, 1, None));
    assert_eq!((listed(library).await, change().await), (live(), changed));
    // Two marks and a sample of each child, and the newest change of each earlier shard.
    assert_eq!(rows(&faulty, incarnation, 8, 1), 3 * live().len() + 2);

    let old = rows(&faulty, incarnation, 2, 0);
    library.heads.grow_containers().await.unwrap();
    faulty.clock.advance(DAY - Duration::from_millis(1));
    library.heads.grow_containers().await.unwrap();
    assert_eq!(rows(&faulty, incarnation, 2, 0), old, "a listing may still read them");
    faulty.clock.advance(Duration::from_millis(1));
    library.heads.grow_containers().await.unwrap();
    assert_eq!(rows(&faulty, incarnation, 2, 0), 0);
    library.heads.grow_containers().await.unwrap();
    assert!(is_nothing_left_to_do(&faulty));

    // Then it grows again.
    for n in 0..60 {
        create(library, &format!("c/m{n:02}"), "").await.unwrap();
    }
    assert_eq!(library.heads.grow_containers().await.unwrap(), 1);
    assert_eq!((shards(library).await.1.shards, listed(library).await.len()), (32, live().len() + 60));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_which_most_is_past_is_rewritten_with_as_many_shards() {
    let faulty = grown_large().await;
    let library = &faulty.library;
    for n in 4..20 {
        delete(library, &format!("c/n{n:02}")).await.unwrap();
    }
    let (incarnation, _) = shards(library).await;
    assert_eq!(library.heads.grow_containers().await.unwrap(), 1);
    let (_, after) = shards(library).await;
    assert_eq!((after.shards, after.first_epoch), (2, 1));
    assert_eq!(listed(library).await, ["n20", "n21", "n22", "n23"]);
    assert_eq!(rows(&faulty, incarnation, 2, 1), 3 * 4 + 2);
    assert_eq!(library.heads.grow_containers().await.unwrap(), 0, "it is small now");
    dropped(library, &faulty.clock).await;
    assert_eq!(rows(&faulty, incarnation, 2, 0), 0);
    assert_eq!(listed(library).await, ["n20", "n21", "n22", "n23"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_container_does_not_grow() {
    let faulty = faulty_with(LibraryOptions { shard_bytes_max: 1 << 20, ..options() }).await;
    for n in 0..24 {
        create(&faulty.library, &format!("c/n{n}"), "").await.unwrap();
    }
    assert_eq!(faulty.library.heads.grow_containers().await.unwrap(), 0);
    assert!(is_nothing_left_to_do(&faulty));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_began_before_the_container_grew_lists_each_child_once() {
    for page_of_growth in 0..live().len() / 2 {
        let faulty = grown_large().await;
        let resource = faulty.library.repository.resource(&path("c")).await.unwrap();
        let (mut names, mut after): (Vec<String>, Option<ListToken>) = (Vec::new(), None);
        for page in 0.. {
            if page == page_of_growth {
                assert_eq!(faulty.library.heads.grow_containers().await.unwrap(), 1);
                dropped(&faulty.library, &faulty.clock).await;
            }
            let listed = faulty.library.repository.children(&resource, after.as_ref(), 2).await.unwrap();
            names.extend(listed.children.into_iter().map(|child| child.name));
            after = listed.next.map(|token| token.to_string().parse().unwrap());
            if after.is_none() {
                break;
            }
        }
        names.sort();
        assert_eq!(names, live(), "it grew before page {page_of_growth}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_back_in_a_listing_that_began_before_the_container_grew_has_the_same_pages() {
    let faulty = grown_large().await;
    let (there, last) = forward(&faulty.library, "c", 3).await;
    assert_eq!(faulty.library.heads.grow_containers().await.unwrap(), 1);
    assert_eq!(back(&faulty.library, "c", last.clone(), 3).await, there, "old partitions are there");
    dropped(&faulty.library, &faulty.clock).await;
    assert_eq!(back(&faulty.library, "c", last, 3).await, there, "old partitions are dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_in_a_listing_of_shards_that_there_never_were_is_refused() {
    let faulty = grown_large().await;
    faulty.library.heads.grow_containers().await.unwrap();
    let resource = faulty.library.repository.resource(&path("c")).await.unwrap();
    let of_eight = faulty.library.repository.children(&resource, None, 1).await.unwrap().next.unwrap();
    delete(&faulty.library, "c").await.unwrap();
    faulty.library.repository.remove_tombstone(&path("c")).await.unwrap();
    faulty.library.repository.create(&path("c"), &container()).await.unwrap();
    let resource = faulty.library.repository.resource(&path("c")).await.unwrap();
    let refused = faulty.library.repository.children(&resource, Some(&of_eight), 1).await;
    assert!(matches!(refused, Err(ObjectsError::Invalid(_))), "{refused:?}");
    let refused = faulty.library.repository.children_before(&resource, Some(&of_eight), 1).await;
    assert!(matches!(refused, Err(ObjectsError::Invalid(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn growing_that_fails_at_any_step_is_ended_by_another_server() {
    let faults = [
        Fault::Crash,
        Fault::UnknownApplied,
        Fault::UnknownLost,
        Fault::UnknownLate(0),
        Fault::UnknownLate(2),
        Fault::Overloaded,
        Fault::Full,
    ];
    for fault in sample(faults) {
        for at in steps() {
            let faulty = grown_large().await;
            faulty.store.arm(fault.clone(), move |number, _| number == at);
            let grown = faulty.library.heads.grow_containers().await;
            if faulty.store.steps() <= at {
                assert_eq!(grown.unwrap(), 1);
                assert!(at > 4, "growing has steps");
                break;
            }
            let library = faulty.reopened().await;
            let context = format!("{fault:?} at {at}");
            assert_eq!(listed(&library).await, live(), "{context}");
            create(&library, "c/new", "").await.unwrap();
            delete(&library, "c/n04").await.unwrap();
            let expected: Vec<_> = live().into_iter().skip(1).chain(["new".to_owned()]).collect();
            assert_eq!(listed(&library).await, expected, "{context}");
            dropped(&library, &faulty.clock).await;
            let (incarnation, after) = shards(&library).await;
            assert!(after.shards == 8 && after.growing.is_none(), "{context}: {after:?}");
            assert_eq!(rows(&faulty, incarnation, 2, 0), 0, "{context}");
            assert!(is_nothing_left_to_do(&faulty), "{context}");
            assert_eq!(listed(&library).await, expected, "{context}");
        }
    }
}

/// The n-th step that puts marks of children, from 0.
fn marks(n: usize) -> impl Fn(usize, &Step) -> bool + Send + 'static {
    let seen = AtomicUsize::new(0);
    move |_, step| matches!(step, Step::Put { table: Table::Children, .. }) && seen.fetch_add(1, Ordering::SeqCst) == n
}

/// The step that changes the head of a resource.
fn head_of(at: &str) -> impl Fn(usize, &Step) -> bool + Send + 'static {
    let partition = format!("r/{at}").into_bytes();
    move |_, step| matches!(step, Step::CompareAndWrite { partition: of, .. } if **of == *partition)
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_that_arrive_while_the_container_grows_lead_nobody_astray() {
    // Steps of a creation: added, the head, confirmed. Steps of a deletion: removing, the head,
    // removed.
    for creates in [true, false] {
        for at in 0..3 {
            let faulty = grown_large().await;
            let gate = Gate::new();
            let child = if creates { "c/new" } else { "c/n04" };
            match at {
                0 => faulty.store.arm(Fault::Hold(gate.clone()), marks(0)),
                1 => faulty.store.arm(Fault::Hold(gate.clone()), head_of(child)),
                _ => faulty.store.arm(Fault::Hold(gate.clone()), marks(1)),
            }
            let library = faulty.library.clone();
            let change = tokio::spawn(async move {
                match creates {
                    true => create(&library, child, "").await,
                    false => delete(&library, child).await,
                }
            });
            gate.reached().await;
            let mut growth = 0;
            while shards(&faulty.library).await.1.shards < 8 {
                growth += faulty.library.heads.grow_containers().await.unwrap();
            }
            assert_eq!(growth, 1);
            gate.open();
            change.await.unwrap().unwrap();
            let gone = usize::from(!creates);
            let expected: Vec<_> = live().into_iter().skip(gone).chain(creates.then(|| "new".to_owned())).collect();
            assert_eq!(listed(&faulty.library).await, expected, "creates: {creates}, held at {at}");
            dropped(&faulty.library, &faulty.clock).await;
            assert_eq!(listed(&faulty.library).await, expected, "creates: {creates}, held at {at}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_created_and_deleted_while_the_container_is_copied_is_seen_at_once() {
    // From the first copy to the moment before the head names only the new shards.
    for at in 1..6 {
        let faulty = grown_large().await;
        let gate = Gate::new();
        faulty.store.arm(Fault::Hold(gate.clone()), move |number, _| number == at);
        let library = faulty.library.clone();
        let growing = tokio::spawn(async move { library.heads.grow_containers().await });
        gate.reached().await;
        create(&faulty.library, "c/new", "").await.unwrap();
        delete(&faulty.library, "c/n04").await.unwrap();
        let expected: Vec<_> = live().into_iter().skip(1).chain(["new".to_owned()]).collect();
        assert_eq!(listed(&faulty.library).await, expected, "held at {at}");
        gate.open();
        assert_eq!(growing.await.unwrap().unwrap(), 1);
        assert_eq!(listed(&faulty.library).await, expected, "held at {at}");
        dropped(&faulty.library, &faulty.clock).await;
        assert_eq!(listed(&faulty.library).await, expected, "held at {at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_deleted_while_it_grows_is_gone_with_all_that_is_in_it() {
    for at in 0..6 {
        let faulty = grown_large().await;
        let (incarnation, _) = shards(&faulty.library).await;
        let gate = Gate::new();
        faulty.store.arm(Fault::Hold(gate.clone()), move |number, _| number == at);
        let library = faulty.library.clone();
        let growing = tokio::spawn(async move { library.heads.grow_containers().await });
        gate.reached().await;
        delete(&faulty.library, "c").await.unwrap();
        gate.open();
        assert_eq!(growing.await.unwrap().unwrap(), 0, "held at {at}");
        faulty.library.repository.remove_tombstone(&path("c")).await.unwrap();
        for name in live() {
            assert_eq!(said(&faulty.library, &format!("c/{name}")).await, None);
        }
        faulty.library.repository.create(&path("c"), &container()).await.unwrap();
        assert!(listed(&faulty.library).await.is_empty());
        faulty.clock.advance(DAY);
        faulty.library.repository.empty_deleted_containers().await.unwrap();
        dropped(&faulty.library, &faulty.clock).await;
        let left = [(2, 0), (8, 1)].map(|(shards, epoch)| rows(&faulty, incarnation, shards, epoch));
        assert_eq!(left, [0, 0], "held at {at}");
        assert!(is_nothing_left_to_do(&faulty), "held at {at}");
    }
}

/// How often the container gets new shards while other tasks work.
const GROWTHS: u64 = 12;

/// State that concurrent tasks share.
struct Bustle {
    library: Library,
    clock: Arc<ManualClock>,
    growths: AtomicU64,
    over: AtomicBool,
    /// Readers are pages of a listing; the writer lets days pass, because no page takes that long.
    page: RwLock<()>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_there_is_listed_and_what_is_gone_is_not_while_a_container_is_given_other_shards_again_and_again() {
    for seed in 0..2 {
        let options = LibraryOptions { shard_bytes_max: 2_500, ..options() };
        let fixture = fixture_with(options.clone()).await;
        let faults = Arc::new(Faults::new(fixture.store.clone()));
        let library = Library::open(faults.clone(), fixture.clock.clone(), options).await.unwrap();
        for name in ["stays-a", "stays-b", "stays-c", "gone-a", "gone-b"] {
            create(&library, &format!("c/{name}"), "").await.unwrap();
        }
        for name in ["gone-a", "gone-b"] {
            delete(&library, &format!("c/{name}")).await.unwrap();
        }
        let rates = Rates { unavailable: 0.02, unknown_applied: 0.05, unknown_not_applied: 0.05, ..Rates::default() };
        faults.set_rates(seed, rates);
        let bustle = Arc::new(Bustle {
            library: library.clone(),
            clock: fixture.clock.clone(),
            growths: AtomicU64::new(0),
            over: AtomicBool::new(false),
            page: RwLock::default(),
        });
        let changers: Vec<_> = (0..3).map(|changer| tokio::spawn(change(bustle.clone(), changer))).collect();
        let growers: Vec<_> = (0..2).map(|_| tokio::spawn(grow(bustle.clone()))).collect();
        let lister = tokio::spawn(look(bustle.clone()));
        for changer in changers {
            changer.await.unwrap();
        }
        bustle.over.store(true, Ordering::Relaxed);
        for grower in growers {
            grower.await.unwrap();
        }
        assert!(lister.await.unwrap() > 0, "nothing was listed meanwhile");
        assert!(bustle.growths.load(Ordering::Relaxed) >= GROWTHS);

        faults.set_rates(seed, Rates::default());
        fixture.clock.advance(Duration::from_secs(120));
        let mut there = BTreeSet::from(["stays-a", "stays-b", "stays-c"].map(str::to_owned));
        for name in (0..3).flat_map(names) {
            if said(&library, &format!("c/{name}")).await.is_some() {
                there.insert(name);
            }
        }
        assert_eq!(listed(&library).await, there.into_iter().collect::<Vec<_>>());
    }
}

fn names(changer: u32) -> Vec<String> {
    (0..4).map(|name| format!("c{changer}-v{name}")).collect()
}

/// Creates and deletes its own names until the container has grown often enough. Failed calls are
/// ignored: the listing decides.
async fn change(bustle: Arc<Bustle>, changer: u32) {
    for round in 0..2_000 {
        for (number, name) in names(changer).into_iter().enumerate() {
            let at = format!("c/{name}");
            let _ = create(&bustle.library, &at, "").await;
            if (round + number) % 5 != 0 {
                let _ = delete(&bustle.library, &at).await;
                let _ = bustle.library.repository.remove_tombstone(&path(&at)).await;
            }
        }
        if bustle.growths.load(Ordering::Relaxed) >= GROWTHS {
            return;
        }
    }
}

/// Makes the container grow, and lets days pass, so that old partitions are dropped.
async fn grow(bustle: Arc<Bustle>) {
    while !bustle.over.load(Ordering::Relaxed) {
        if let Ok(grown) = bustle.library.heads.grow_containers().await {
            bustle.growths.fetch_add(grown, Ordering::Relaxed);
        }
        let _nobody_lists = bustle.page.write().await;
        bustle.clock.advance(DAY / 2);
    }
}

/// Lists in one page, and checks that it has every child that stays and no child that was deleted
/// before.
async fn look(bustle: Arc<Bustle>) -> u64 {
    let mut looks = 0;
    while !bustle.over.load(Ordering::Relaxed) {
        let _page = bustle.page.read().await;
        let resource = match bustle.library.repository.resource(&path("c")).await {
            Ok(resource) => resource,
            Err(ResourceError::Objects(_)) => continue,
            Err(error) => panic!("{error}"),
        };
        let Ok(page) = bustle.library.repository.children(&resource, None, 100).await else { continue };
        let names: Vec<String> = page.children.into_iter().map(|child| child.name).collect();
        for stays in ["stays-a", "stays-b", "stays-c"] {
            assert_eq!(names.iter().filter(|name| *name == stays).count(), 1, "{stays} in {names:?}");
        }
        assert!(!names.iter().any(|name| name.starts_with("gone")), "{names:?}");
        looks += 1;
    }
    looks
}
