//! Objects that were changed very often: their partitions stay small, and everything in their
//! history can be found.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use heads::{History, Keep, LibraryOptions, Queue, keys};
use repository::{Membership, Update};
use store::{Step, Table};

use super::tree::{beside, create, delete, descriptions, path, said, update};
use crate::support::memory::{Fault, Gate};
use crate::support::{Faulty, faulty_with, many_changes, on_cassandra, sample};

static CHANGES: LazyLock<u64> = LazyLock::new(many_changes);

/// How often a resource is deleted and created again: as often as gives more heads than changes.
static LIVES: LazyLock<u64> = LazyLock::new(|| many_changes() / 2 + 3);

/// The step that changes the head of the resource.
fn is_head(_: usize, step: &Step) -> bool {
    matches!(step, Step::CompareAndWrite { partition, .. } if *partition == keys::resource_partition(&path("a")))
}

async fn changed_often(keep: Keep) -> Faulty {
    let options =
        LibraryOptions { history: History { resources: keep, ..History::default() }, ..LibraryOptions::default() };
    let faulty = faulty_with(options).await;
    create(&faulty.library, "a", "0").await.unwrap();
    for n in 1..=*CHANGES {
        update(&faulty.library, "a", &n.to_string()).await.unwrap();
    }
    faulty
}

#[tokio::test(flavor = "multi_thread")]
async fn the_partition_of_an_object_does_not_grow_with_its_history() {
    let faulty = changed_often(Keep::All).await;
    let object = keys::resource_partition(&path("a"));
    let rows = |partition: &Bytes| faulty.store.sorts(Table::Objects, partition).len() as u64;
    assert_eq!(rows(&object), 1, "the head alone");
    let beside = beside(&faulty, &object);
    let expected: Vec<u64> = match CHANGES.checked_sub(keys::LOG_PAGE_ENTRIES) {
        Some(second) => vec![keys::LOG_PAGE_ENTRIES, second],
        None => vec![*CHANGES],
    };
    let (pages, versions) = beside.split_at(expected.len());
    assert_eq!(pages[0], keys::log_page(&object, 0));
    assert!(pages.get(1).is_none_or(|second| *second == keys::log_page(&object, 1)));
    assert_eq!(pages.iter().map(rows).collect::<Vec<_>>(), expected);
    assert_eq!(versions.len() as u64, *CHANGES + 1);
    assert!(versions.iter().all(|version| rows(version) == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_resource_ended_is_found_in_few_reads_however_often_its_name_was_used_again() {
    let faulty = faulty_with(LibraryOptions::default()).await;
    let (library, at) = (&faulty.library, path("a"));
    let object = keys::resource_partition(&at);
    let mut ends = Vec::new();
    for _ in 0..*LIVES {
        create(library, "a", "there").await.unwrap();
        let incarnation = library.repository.resource(&at).await.unwrap().incarnation();
        delete(library, "a").await.unwrap();
        let deleted = library.heads.head_at(&object).await.unwrap().unwrap().head.revision;
        library.repository.remove_tombstone(&at).await.unwrap();
        ends.push((incarnation, deleted));
    }
    let entries = library.heads.head_at(&object).await.unwrap().unwrap().head.logged;
    assert!(on_cassandra() || entries > keys::LOG_PAGE_ENTRIES, "{entries} entries");
    for (incarnation, deleted) in ends {
        faulty.store.take_scanned();
        let end = library.heads.end_of(&object, incarnation).await.unwrap();
        assert_eq!(end.map(|head| head.revision), Some(deleted));
        let scans = faulty.store.take_scanned().len();
        assert!(scans <= 12, "{scans} scans of a log of {entries} entries");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_but_the_versions_that_are_kept_are_collected_from_however_many_pages_and_not_looked_for_again() {
    let faulty = changed_often(Keep::Newest(2)).await;
    let collected = async || {
        for _ in 0..6 {
            faulty.library.repository.collect_versions().await.unwrap();
            faulty.clock.advance(faulty.library.options().grace + Duration::from_secs(1));
        }
        (descriptions(&faulty, "a").len(), faulty.store.records(Queue::Superseded))
    };
    assert_eq!(collected().await, (3, 0));
    assert_eq!(said(&faulty.library, "a").await, Some(CHANGES.to_string()));
    faulty.store.take_scanned();
    update(&faulty.library, "a", "once more").await.unwrap();
    assert_eq!(collected().await, (3, 0));
    let first_page = keys::log_page(&keys::resource_partition(&path("a")), 0);
    let scanned = faulty.store.take_scanned();
    assert!(
        on_cassandra() || !scanned.iter().any(|(_, partition)| *partition == first_page),
        "read although it is done"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_still_current_is_no_history_though_a_writer_that_died_has_logged_it() {
    let history = History { resources: Keep::Newest(1), ..History::default() };
    let faulty = faulty_with(LibraryOptions { history, ..LibraryOptions::default() }).await;
    create(&faulty.library, "a", "first").await.unwrap();
    for description in ["second", "third"] {
        update(&faulty.library, "a", description).await.unwrap();
    }
    faulty.store.arm(Fault::Crash, is_head);
    update(&faulty.library, "a", "fourth").await.unwrap_err();
    let library = faulty.reopened().await;
    let logged = faulty.store.sorts(Table::Objects, &keys::log_page(&keys::resource_partition(&path("a")), 0));
    assert_eq!((logged.len(), said(&library, "a").await.as_deref()), (3, Some("third")));
    for _ in 0..4 {
        library.repository.collect_versions().await.unwrap();
        faulty.clock.advance(library.options().grace + Duration::from_secs(1));
    }
    let said = descriptions(&faulty, "a").into_iter().map(|(partition, sort)| {
        let row = faulty.store.row(Table::Objects, &partition, &sort).unwrap();
        String::from_utf8(store::envelope::open(store::ValueKind::Description, &row).unwrap().to_vec()).unwrap()
    });
    assert_eq!(said.collect::<Vec<_>>(), ["second", "third"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_known_wherever_in_the_log_it_is_by_then() {
    // Its entry is the last of a page, or the first, and many more may follow it before it is
    // looked up.
    for (before, behind) in sample([(5, *CHANGES), (keys::LOG_PAGE_ENTRIES - 2, 1), (keys::LOG_PAGE_ENTRIES - 1, 1)]) {
        let faulty = faulty_with(LibraryOptions::default()).await;
        create(&faulty.library, "a", "0").await.unwrap();
        for n in 0..before {
            update(&faulty.library, "a", &n.to_string()).await.unwrap();
        }
        for is_applied in [true, false] {
            let gate = Gate::new();
            let fault = if is_applied { Fault::HoldUnknown(gate.clone()) } else { Fault::Hold(gate.clone()) };
            faulty.store.arm(fault, is_head);
            let (library, read) =
                (faulty.library.clone(), faulty.library.repository.resource(&path("a")).await.unwrap());
            let writing = tokio::spawn(async move {
                let (description, membership) = (Bytes::from_static(b"mine"), Membership::Basic);
                let mine = Update::Description { description, membership, members_for: None, refers_to: Vec::new() };
                library.repository.update(&read, &mine).await
            });
            gate.reached().await;
            for n in 0..behind {
                update(&faulty.library, "a", &format!("theirs {n}")).await.unwrap();
            }
            gate.open();
            assert_eq!(writing.await.unwrap().is_ok(), is_applied, "{before}, {behind}");
        }
    }
}
