//! Deleting a container with its contents, interrupted and resumed.

use std::sync::Arc;
use std::time::Duration;

use heads::{Head, History, Keep, LibraryOptions, Mark, ObjectState, Queue, head, keys};
use library::Library;
use repository::ResourceError;
use store::faults::{Damage, Faults, Harm};
use store::{Step, Table};

use super::tree::{assert_sound, container, create, delete, path, reachable, said, source};
use crate::support::memory::{Fault, Gate};
use crate::support::{faulty, faulty_with};

const TREE: [&str; 5] = ["t/a/1", "t/a/2", "t/b/c/3", "t/4", "kept/5"];

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_died_anywhere_is_gone_at_once_or_not_begun_and_any_server_finishes_it() {
    let mut step = 0;
    loop {
        let faulty = faulty().await;
        for at in TREE {
            create(&faulty.library, at, at).await.unwrap();
        }
        faulty.store.arm(Fault::Crash, move |number, _| number == step);
        let died = delete(&faulty.library, "t").await;
        if died.is_ok() {
            assert!(step > 10, "the job has many steps");
            break;
        }
        let library = faulty.reopened().await;
        let begun = said(&library, "t").await.is_none();
        for at in &TREE[..4] {
            assert_eq!(said(&library, at).await.is_none(), begun, "/{at}, cut off at step {step}");
        }
        let finished = library.repository.resume_deletions(Duration::ZERO).await.unwrap();
        assert!(finished <= 1);
        assert_eq!(library.repository.resume_deletions(Duration::ZERO).await.unwrap(), 0, "it is not done twice");
        if begun {
            assert!(matches!(library.repository.resource(&path("t")).await, Err(ResourceError::Gone { .. })));
            library.repository.remove_tombstone(&path("t")).await.unwrap();
            assert_eq!(reachable(&library).await, ["kept", "kept/5"]);
            for at in &TREE[..4] {
                create(&library, at, "again").await.unwrap();
            }
        }
        assert_sound(&library, &faulty.clock, &TREE).await;
        step += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_being_deleted_takes_nothing_new_and_its_tombstone_stays() {
    let faulty = faulty().await;
    create(&faulty.library, "t/1", "").await.unwrap();
    // The process dies when it is about to delete the child.
    let child = |_: usize, step: &store::Step| matches!(step, store::Step::CompareAndWrite { partition, .. } if &**partition == b"r/t/1");
    faulty.store.arm(Fault::Crash, child);
    delete(&faulty.library, "t").await.unwrap_err();
    let library = faulty.reopened().await;
    assert!(matches!(create(&library, "t/2", "").await, Err(ResourceError::Gone { .. })));
    assert!(matches!(create(&library, "t", "").await, Err(ResourceError::Gone { .. })));
    let early = library.repository.remove_tombstone(&path("t")).await;
    assert!(matches!(early, Err(ResourceError::Moved(_))), "{early:?}");
    let over = library.repository.create_over(&path("t"), &container()).await;
    assert!(matches!(over, Err(ResourceError::Moved(_))), "{over:?}");
    assert!(reachable(&library).await.is_empty());
    assert_eq!(library.repository.resume_deletions(Duration::ZERO).await.unwrap(), 1);
    library.repository.remove_tombstone(&path("t")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_member_holds_up_the_deletion_of_what_it_is_in_and_of_nothing_else() {
    let faulty = faulty_with(LibraryOptions { resource_shards: 1, ..LibraryOptions::default() }).await;
    let faults = Arc::new(Faults::new(faulty.store.clone()));
    let options = faulty.library.options().clone();
    let library = Library::open(faults.clone(), faulty.clock.clone(), options).await.unwrap();
    for at in TREE {
        create(&library, at, at).await.unwrap();
    }
    faults.damage(Damage {
        table: Table::Objects,
        partition: keys::resource_partition(&path("t/a/1")),
        sort: Some(keys::head()),
        harm: Harm::FlippedBit,
        strong_reads_are_whole: false,
    });
    let deleted = delete(&library, "t").await;
    assert!(matches!(&deleted, Err(ResourceError::Deleting { path: at, .. }) if *at == path("t")), "{deleted:?}");
    assert_eq!(reachable(&library).await, ["kept", "kept/5"]);
    for _ in 0..2 {
        for (at, state) in [
            ("t", ObjectState::Deleting),
            ("t/a", ObjectState::Deleting),
            ("t/a/2", ObjectState::Deleted),
            ("t/b", ObjectState::Deleted),
            ("t/b/c/3", ObjectState::Deleted),
            ("t/4", ObjectState::Deleted),
        ] {
            let row = library.heads.head_at(&keys::resource_partition(&path(at))).await.unwrap().unwrap();
            assert_eq!(row.head.state, state, "/{at}");
        }
        assert_eq!(library.repository.resume_deletions(Duration::ZERO).await.unwrap(), 0, "it is still damaged");
    }
    faults.heal();
    assert_eq!(library.repository.resume_deletions(Duration::ZERO).await.unwrap(), 1);
    library.repository.remove_tombstone(&path("t")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_created_over_a_tombstone_leaves_its_versions_and_ends_no_other_tombstone() {
    let faulty = faulty().await;
    let library = &faulty.library;
    create(library, "c/a", "one").await.unwrap();
    let first = library.repository.resource(&path("c/a")).await.unwrap().revision();
    delete(library, "c/a").await.unwrap();
    library.repository.create_over(&path("c/a"), &source("two")).await.unwrap();
    assert_eq!(said(library, "c/a").await.as_deref(), Some("two"));
    let versions = library.repository.versions(&path("c/a")).await.unwrap();
    let old = versions.at(first).await.unwrap().unwrap();
    assert_eq!(library.repository.description(&old).await.unwrap().to_vec(), b"one");
    let again = library.repository.create_over(&path("c/a"), &source("three")).await;
    assert!(matches!(again, Err(ResourceError::Exists(_))), "{again:?}");
    library.repository.create_over(&path("b"), &source("")).await.unwrap();

    delete(library, "c").await.unwrap();
    let below = library.repository.create_over(&path("c/a"), &source("")).await;
    assert!(matches!(&below, Err(ResourceError::Gone { tombstone }) if *tombstone == path("c")), "{below:?}");
    library.repository.create_over(&path("c"), &container()).await.unwrap();
    assert_eq!(reachable(library).await, ["b", "c"]);
    assert_sound(library, &faulty.clock, &["b", "c", "c/a"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_marks_of_a_deleted_container_are_dropped_after_the_grace() {
    let history = History { resources: Keep::None, ..History::default() };
    let faulty = faulty_with(LibraryOptions { resource_shards: 1, history, ..LibraryOptions::default() }).await;
    faulty.library.repository.create(&path("t"), &container()).await.unwrap();
    create(&faulty.library, "t/1", "").await.unwrap();
    let incarnation = faulty.library.repository.resource(&path("t")).await.unwrap().incarnation();
    let partition = heads::keys::children_partition("r/t", incarnation, 0, 0);
    delete(&faulty.library, "t").await.unwrap();
    assert_eq!(faulty.library.repository.empty_deleted_containers().await.unwrap(), 0);
    assert!(!faulty.store.sorts(Table::Children, &partition).is_empty(), "a page of a listing may be reading them");
    faulty.clock.advance(faulty.library.options().grace);
    assert_eq!(faulty.library.repository.empty_deleted_containers().await.unwrap(), 1);
    assert!(faulty.store.sorts(Table::Children, &partition).is_empty());
    assert_eq!(faulty.library.repository.empty_deleted_containers().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_young_job_is_left_to_whoever_is_at_it() {
    let faulty = faulty().await;
    create(&faulty.library, "t/1", "").await.unwrap();
    faulty.store.arm(
        Fault::Crash,
        |_, step| matches!(step, store::Step::CompareAndWrite { partition, .. } if &**partition == b"r/t/1"),
    );
    delete(&faulty.library, "t").await.unwrap_err();
    let library = faulty.reopened().await;
    assert_eq!(library.repository.resume_deletions(Duration::from_secs(60)).await.unwrap(), 0);
    faulty.clock.advance(Duration::from_secs(60));
    assert_eq!(library.repository.resume_deletions(Duration::from_secs(60)).await.unwrap(), 1);
}

/// Arms a gate at the next change of the head of a resource.
fn hold_head(faulty: &crate::support::Faulty, at: &'static str) -> std::sync::Arc<Gate> {
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), move |_, step| {
        matches!(step, Step::CompareAndWrite { partition, .. } if *partition == keys::resource_partition(&path(at)))
    });
    gate
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nested_container_that_is_deleted_while_a_listing_fences_it_is_not_marked_as_gone() {
    let faulty = faulty_with(LibraryOptions { resource_shards: 1, ..LibraryOptions::default() }).await;
    faulty.library.repository.create(&path("t"), &container()).await.unwrap();
    // The nested container is announced, and its head is on its way.
    let creating = hold_head(&faulty, "t/nested");
    let library = faulty.library.clone();
    let creation = tokio::spawn(async move { library.repository.create(&path("t/nested"), &container()).await });
    creating.reached().await;
    // A listing takes its creator for dead, and is about to fence it off.
    faulty.clock.advance(Duration::from_secs(120));
    let fencing = hold_head(&faulty, "t/nested");
    let library = faulty.library.clone();
    let listing = tokio::spawn(async move {
        let t = library.repository.resource(&path("t")).await.unwrap();
        library.repository.children(&t, None, 10).await
    });
    fencing.reached().await;
    // But it is created, and a deletion gets as far as its content.
    creating.open();
    creation.await.unwrap().unwrap();
    create(&faulty.library, "t/nested/1", "").await.unwrap();
    let deleting = hold_head(&faulty, "t/nested/1");
    let library = faulty.library.clone();
    let deletion = tokio::spawn(async move { delete(&library, "t/nested").await });
    deleting.reached().await;
    fencing.open();
    assert!(listing.await.unwrap().unwrap().children.is_empty());
    let nested = faulty.store.row(Table::Objects, &keys::resource_partition(&path("t/nested")), &keys::head()).unwrap();
    assert_eq!(head::open::<Head>(Table::Objects, &nested).unwrap().state, ObjectState::Deleting);
    let marks = faulty.store.partitions(Table::Children).into_iter().flat_map(|partition| {
        let sorts = faulty.store.sorts(Table::Children, &partition);
        sorts.into_iter().filter_map(|sort| keys::child_of(&sort).map(|(name, _, mark)| (name.to_owned(), mark)))
    });
    let nested: Vec<_> = marks.filter(|(name, _)| name == "nested").map(|(_, mark)| mark).collect();
    assert!(!nested.contains(&Mark::Removed), "a deletion of /t has to find what is in it: {nested:?}");
    deleting.open();
    deletion.await.unwrap().unwrap();
    assert!(matches!(faulty.library.repository.resource(&path("t/nested")).await, Err(ResourceError::Gone { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_of_a_deletion_stays_while_it_may_still_begin_however_short_the_grace_is() {
    let (second, clock_skew_max) = (Duration::from_secs(1), Duration::ZERO);
    let short = LibraryOptions { grace: 2 * second, plan_life: second, clock_skew_max, ..LibraryOptions::default() };
    let faulty = faulty_with(short.clone()).await;
    let other = Library::open(faulty.store.clone(), faulty.clock.clone(), short).await.unwrap();
    create(&faulty.library, "t/1", "").await.unwrap();
    let is_recorded = || {
        let work = faulty.store.partitions(Table::Work);
        work.iter().any(|partition| keys::queue_bucket(partition, Queue::Deleting.name()).is_some())
    };
    // The record is put, and the head is not switched yet.
    let switches =
        |_: usize, step: &Step| matches!(step, Step::CompareAndWrite { partition, .. } if &**partition == b"r/t");
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), switches);
    let library = faulty.library.clone();
    let deletion = tokio::spawn(async move { delete(&library, "t").await });
    gate.reached().await;
    faulty.clock.advance(30 * second);
    assert_eq!(other.repository.resume_deletions(Duration::ZERO).await.unwrap(), 0);
    assert!(is_recorded(), "if the server died now, nobody would finish the deletion");
    gate.open();
    deletion.await.unwrap().unwrap();
    assert!(!is_recorded());
    assert!(reachable(&other).await.is_empty());
}
