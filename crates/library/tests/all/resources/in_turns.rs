//! Several tasks, each of which pauses where the test says. They use a store in memory: a test can
//! hold time, but not a driver's time.

use std::time::Duration;

use heads::Mark;
use heads::{Head, LibraryOptions, ObjectState, keys};
use repository::ResourceError;
use store::Table;

use super::tree::{container, create, delete, path};
use crate::support::faulty_with;
use crate::support::memory::Fault;

/// The state in the head of a resource, also if it is unreachable.
fn state(faulty: &crate::support::Faulty, at: &str) -> ObjectState {
    let head = faulty.store.row(Table::Objects, &keys::resource_partition(&path(at)), &keys::head()).unwrap();
    heads::head::open::<Head>(Table::Objects, &head).unwrap().state
}

#[tokio::test(start_paused = true)]
async fn a_nested_container_that_a_listing_meets_while_it_is_deleted_goes_with_the_job_that_is_resumed() {
    let faulty = faulty_with(LibraryOptions { resource_shards: 1, ..LibraryOptions::default() }).await;
    faulty.library.repository.create(&path("t"), &container()).await.unwrap();
    for _ in 0..2 {
        faulty.store.arm(Fault::UnknownLost, |_, step| {
            let store::Step::Put { table: Table::Children, rows, .. } = step else { return false };
            rows.iter().any(|row| keys::child_of(&row.sort).is_some_and(|(_, _, mark)| mark == Mark::Confirmed))
        });
    }
    faulty.library.repository.create(&path("t/nested"), &container()).await.unwrap();
    create(&faulty.library, "t/nested/1", "").await.unwrap();
    faulty.clock.advance(Duration::from_secs(120));

    // A listing has read the container and the marks in it.
    let turns = faulty.store.take_turns();
    let library = faulty.library.clone();
    let listing = tokio::spawn(async move {
        let t = library.repository.resource(&path("t")).await.unwrap();
        library.repository.children(&t, None, 10).await
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..3 {
        assert!(turns.next(Some(listing.id()), None).await);
    }
    // A deletion proceeds to the nested container, and dies.
    let library = faulty.library.clone();
    let deletion = tokio::spawn(async move { delete(&library, "t").await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    while state(&faulty, "t/nested") != ObjectState::Deleting {
        assert!(turns.next(Some(deletion.id()), None).await);
    }
    deletion.abort();
    assert!(deletion.await.unwrap_err().is_cancelled());
    // The listing continues, and settles what it finds.
    while turns.next(Some(listing.id()), None).await {}
    assert!(listing.await.unwrap().unwrap().children.is_empty());

    faulty.store.end_turns();
    assert_eq!(faulty.library.repository.resume_deletions(Duration::ZERO).await.unwrap(), 1);
    for at in ["t", "t/nested", "t/nested/1"] {
        assert_eq!(state(&faulty, at), ObjectState::Deleted, "/{at}");
    }
    faulty.library.repository.remove_tombstone(&path("t")).await.unwrap();
    faulty.library.repository.create(&path("t"), &container()).await.unwrap();
    let again =
        faulty.library.repository.create_in::<ResourceError>(&path("t"), Some("nested"), |_, _| Ok(container())).await;
    assert_eq!(again.unwrap().path, path("t/nested"), "its name is free");
}
