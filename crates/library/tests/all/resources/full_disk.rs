//! A disk that fills up: as long as there is a little room, the store can be emptied; reads work to
//! the end.

use std::sync::Arc;
use std::time::Duration;

use audit::Requester;
use bytes::Bytes;
use futures::TryStreamExt;
use hathi::Seq;
use heads::claim::TransactionId;
use heads::received::{ReceivedVersion, ReceivedVersions};
use heads::switch::Amends;
use heads::{Keep, LibraryOptions, ObjectsError, RevisionId, keys};
use library::Library;
use repository::{Phase, ResourceError};
use store::{ContentId, ManualClock, Store, StoreError, UnixMillis};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use volumes::{BulkRequest, CollectLimits, OnDamage};

use super::contents::{put, upload};
use super::explicit::keeping;
use super::received::receive;
use super::tree::{create, delete, path, reachable, update};
use crate::support::{START, id, import, listed, texts, volume};

const OWNER: &str = "somebody";

/// Begins a transaction; returns it, and the library as it sees it.
async fn begin(library: &Library) -> (TransactionId, Library) {
    let (id, _) = library.repository.begin_transaction(OWNER).await.unwrap();
    (id, within(library, id))
}

fn within(library: &Library, id: TransactionId) -> Library {
    Library { repository: library.repository.in_transaction(id), ..library.clone() }
}

/// A store that keeps `headroom_bytes` of its disk free.
async fn open(
    folder: &std::path::Path,
    clock: &Arc<ManualClock>,
    headroom_bytes: u64,
) -> (Arc<EmbeddedStore>, Library) {
    open_with(folder, clock, headroom_bytes, LibraryOptions::default()).await
}

async fn open_with(
    folder: &std::path::Path,
    clock: &Arc<ManualClock>,
    headroom_bytes: u64,
    library_options: LibraryOptions,
) -> (Arc<EmbeddedStore>, Library) {
    let options = EmbeddedOptions { headroom_bytes, ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(folder, options, clock.clone()).unwrap();
    let library = Library::open(store.clone(), clock.clone(), library_options).await.unwrap();
    (store, library)
}

fn somebody() -> Requester {
    Requester { name: None, address: None, request_id: "r".to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_refuses_what_is_new_is_emptied_and_read_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let (store, library) = open(folder.path(), &clock, 0).await;
    for volume_id in ["t.a", "t.b"] {
        import(&library, volume(volume_id, &["one"])).await.unwrap();
    }
    for at in ["c/1", "c/d/2", "kept", "single"] {
        create(&library, at, at).await.unwrap();
    }
    put(&library, "binary", upload(&library, "binary", 1).await).await;
    let free = store.health().await.free_bytes.unwrap();
    drop(library);
    store.close().await.unwrap();

    // Room for removals, but not for other small writes.
    let (store, library) = open(folder.path(), &clock, 3 * free).await;
    let is_full = |error: &ObjectsError| matches!(error, ObjectsError::Store(StoreError::Full(_)));
    assert!(is_full(&import(&library, volume("t.c", &["new"])).await.unwrap_err()));
    let refused = create(&library, "new", "").await.unwrap_err();
    assert!(matches!(&refused, ResourceError::Objects(error) if is_full(error)), "{refused}");
    library.volumes.delete(&id("t.a")).await.unwrap();
    for at in ["c", "single", "binary"] {
        delete(&library, at).await.unwrap();
    }
    library.repository.remove_tombstone(&path("single")).await.unwrap();
    assert_eq!(listed(&library, 10).await, ["t.b"]);
    assert_eq!(reachable(&library).await, ["kept"]);
    // Collecting frees the room of what was deleted, too.
    clock.advance(Duration::from_secs(100 * 24 * 3_600));
    let condemned = library.volumes.collect_once(CollectLimits::default()).await.unwrap();
    clock.advance(Duration::from_secs(100 * 24 * 3_600));
    let removed = library.volumes.collect_once(CollectLimits::default()).await.unwrap();
    assert_eq!((condemned.condemned, condemned.failed, removed.removed, removed.failed), (1, 0, 1, 0));
    drop(library);
    store.close().await.unwrap();

    // Room for the audit alone.
    let (_store, library) = open(folder.path(), &clock, 20 * free).await;
    assert!(is_full(&library.volumes.delete(&id("t.b")).await.unwrap_err()));
    let one = Seq::new(1).unwrap();
    library.audit.auditor().page(&somebody(), &id("t.b"), one).await.unwrap();
    assert_eq!(texts(&library, &id("t.b")).await.unwrap(), ["one"]);
    let plan = library.volumes.plan(&BulkRequest::volumes(vec![id("t.b")]), OnDamage::Break).await.unwrap();
    let stream = library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap();
    let archive: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert_eq!(Some(archive.iter().map(|piece| piece.len() as u64).sum::<u64>()), plan.len_bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_refused_room_as_other_changes_are_and_what_only_deletes_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let (store, library) = open(folder.path(), &clock, 0).await;
    for at in ["a", "b", "kept"] {
        create(&library, at, at).await.unwrap();
    }
    let (adds, inside) = begin(&library).await;
    create(&inside, "new", "").await.unwrap();
    let (large, inside) = begin(&library).await;
    create(&inside, "large", &"x".repeat(100_000)).await.unwrap();
    let (deletes, inside) = begin(&library).await;
    delete(&inside, "a").await.unwrap();
    let (given_up, inside) = begin(&library).await;
    update(&inside, "kept", "changed").await.unwrap();
    let free = store.health().await.free_bytes.unwrap();
    drop((library, inside));
    store.close().await.unwrap();

    // Room for small writes, but not for more. What is committed was staged before.
    let (store, library) = open(folder.path(), &clock, free + free / 2).await;
    let is_full =
        |error: &ResourceError| matches!(error, ResourceError::Objects(ObjectsError::Store(StoreError::Full(_))));
    let refused = create(&library, "larger", &"x".repeat(100_000)).await.unwrap_err();
    assert!(is_full(&refused), "{refused}");
    library.repository.commit_transaction(large, OWNER).await.unwrap();
    assert_eq!(reachable(&library).await, ["a", "b", "kept", "large"]);
    drop(library);
    store.close().await.unwrap();

    // Room for removals alone.
    let (store, library) = open(folder.path(), &clock, 3 * free).await;
    let refused = create(&within(&library, adds), "more", "").await.unwrap_err();
    assert!(is_full(&refused), "staging is refused as other small writes are: {refused}");
    let refused = library.repository.commit_transaction(adds, OWNER).await.unwrap_err();
    assert!(is_full(&refused), "{refused}");
    let state = library.repository.renew_transaction(adds, OWNER).await.unwrap();
    assert_eq!(state.phase, Phase::Open, "it can be committed once there is room");
    delete(&within(&library, deletes), "b").await.unwrap();
    library.repository.commit_transaction(deletes, OWNER).await.unwrap();
    library.repository.roll_back_transaction(given_up, OWNER).await.unwrap();
    delete(&library, "kept").await.unwrap();
    assert_eq!(reachable(&library).await, ["large"]);
    drop(library);
    store.close().await.unwrap();

    let (_store, library) = open(folder.path(), &clock, 0).await;
    library.repository.commit_transaction(adds, OWNER).await.unwrap();
    assert_eq!(reachable(&library).await, ["large", "new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_removed_while_there_is_room_for_removals_alone_however_long_their_list_is() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let (store, library) = open(folder.path(), &clock, 0).await;
    create(&library, "a", "first").await.unwrap();
    let first = library.repository.resource(&path("a")).await.unwrap().revision();
    clock.advance(Duration::from_secs(60));
    update(&library, "a", "second").await.unwrap();
    let received = receive(&library, "a", 1_000_000_000, "received").await.unwrap();
    // The list alone is larger than what counts as small.
    let object = keys::resource_partition(&path("a"));
    let made_up = |second: u64| ReceivedVersion {
        at: UnixMillis(1_000 * second),
        written: RevisionId([1; 16]),
        incarnation: RevisionId([1; 16]),
        is_binary: true,
        content: Some(ContentId([1; 16])),
        is_removed: false,
    };
    let lengthened = |list: &ReceivedVersions| {
        let versions = (1..=500).map(made_up).chain(list.versions.iter().copied()).collect();
        (list.versions.len() == 1).then(|| ReceivedVersions { versions, ..list.clone() })
    };
    library.heads.change_received(&object, Amends::Adding, &lengthened).await.unwrap();
    let free = store.health().await.free_bytes.unwrap();
    drop(library);
    store.close().await.unwrap();

    // Room for removals alone.
    let (store, library) = open(folder.path(), &clock, 3 * free).await;
    let refused = receive(&library, "a", 1_000_000_060, "refused").await.unwrap_err();
    assert!(matches!(&refused, ResourceError::Objects(ObjectsError::Store(StoreError::Full(_)))), "{refused}");
    for revision in [received, first] {
        library.repository.remove_version(&path("a"), revision).await.unwrap();
        let again = library.repository.remove_version(&path("a"), revision).await.unwrap_err();
        assert!(matches!(again, ResourceError::NoVersion(_)), "{again}");
    }
    drop(library);
    store.close().await.unwrap();

    // The pass that removes what a policy does not keep any more needs no more room.
    let (_store, library) = open_with(folder.path(), &clock, 3 * free, keeping(Keep::None)).await;
    clock.advance(2 * library.options().grace);
    library.repository.collect_versions().await.unwrap();
    let list = library.heads.received(&object).await.unwrap();
    assert_eq!((list.versions.len(), list.versions.iter().filter(|version| version.is_removed).count()), (501, 501));
}
