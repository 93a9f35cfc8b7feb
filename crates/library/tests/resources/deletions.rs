//! Deleting a container with its contents, interrupted and resumed.

use std::time::Duration;

use heads::{History, Keep, LibraryOptions};
use repository::ResourceError;
use store::Table;

use crate::support::memory::Fault;
use crate::support::{faulty, faulty_with};
use crate::tree::{assert_sound, container, create, delete, path, reachable, said};

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
    assert!(reachable(&library).await.is_empty());
    assert_eq!(library.repository.resume_deletions(Duration::ZERO).await.unwrap(), 1);
    library.repository.remove_tombstone(&path("t")).await.unwrap();
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
