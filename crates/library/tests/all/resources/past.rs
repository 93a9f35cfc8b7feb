//! Past members of containers: each removal mark dates the removal, and neither rewriting nor
//! emptying loses what the history keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use heads::Mark;
use heads::{ContainerBody, Head, History, Keep, LibraryOptions, ObjectState, Queue, RevisionId, keys};
use library::Library;
use store::{NewRow, Step, Store, Table, ValueKind, envelope};

use super::tree::{OLD, children, container, create, delete, path};
use crate::support::memory::Fault;
use crate::support::{Faulty, faulty_with, sample, steps};

const DAY: Duration = Duration::from_secs(24 * 3_600);

fn options(resources: Keep) -> LibraryOptions {
    LibraryOptions {
        resource_shards: 2,
        shard_bytes_max: 1_000,
        sample_one_of: 1,
        history: History { resources, ..History::default() },
        ..LibraryOptions::default()
    }
}

/// The stored head of a resource, also if it is unreachable.
fn head(faulty: &Faulty, at: &str) -> Head {
    let head = faulty.store.row(Table::Objects, &keys::resource_partition(&path(at)), &keys::head()).unwrap();
    heads::head::open(Table::Objects, &head).unwrap()
}

/// The earlier heads of a resource that has few.
fn log(faulty: &Faulty, at: &str) -> Vec<Head> {
    let page = keys::log_page(&keys::resource_partition(&path(at)), 0);
    let sorts = faulty.store.sorts(Table::Objects, &page).into_iter();
    let open = |sort| heads::head::open(Table::Objects, &faulty.store.row(Table::Objects, &page, &sort).unwrap());
    sorts.map(|sort| open(sort).unwrap()).collect()
}

/// The marks in a partition, with their values.
fn marks(faulty: &Faulty, partition: &Bytes) -> Vec<(String, RevisionId, Mark, Bytes)> {
    let mut marks = Vec::new();
    for sort in faulty.store.sorts(Table::Children, partition) {
        if sort < keys::first_child() {
            continue;
        }
        let (name, incarnation, mark) = keys::child_of(&sort).unwrap();
        let value = envelope::open(ValueKind::ChildMark, &faulty.store.row(Table::Children, partition, &sort).unwrap())
            .unwrap();
        marks.push((name.to_owned(), incarnation, mark, value));
    }
    marks
}

/// All partitions with present or past members of a container.
fn partitions(faulty: &Faulty, at: &str, incarnation: RevisionId, shards: &ContainerBody) -> Vec<Bytes> {
    let prefix = format!("r/{at}");
    let places = (0..shards.shards).flat_map(|shard| shards.places(shard, shards.shards));
    let here = places.map(|(shard, epoch)| keys::children_partition(&prefix, incarnation, shard, epoch));
    let index = faulty.store.sorts(Table::Children, &keys::past_index_partition(&prefix, incarnation));
    let past = index.iter().map(|sort| keys::past_index_of(sort).unwrap());
    let past = past.map(|(shard, epoch)| keys::past_partition(&prefix, incarnation, shard, epoch));
    here.chain(past).collect()
}

/// The members of a container at a time, by marks alone.
fn members_at(faulty: &Faulty, partitions: &[Bytes], at: RevisionId) -> BTreeSet<String> {
    let mut children: BTreeMap<(String, RevisionId), (bool, Option<RevisionId>)> = BTreeMap::new();
    for (name, incarnation, mark, value) in partitions.iter().flat_map(|partition| marks(faulty, partition)) {
        let (was_there, removed_by) = children.entry((name, incarnation)).or_default();
        match mark {
            Mark::Confirmed => *was_there = true,
            Mark::Removed if !value.is_empty() => {
                *was_there = true;
                *removed_by = Some(RevisionId(value[..].try_into().unwrap()));
            }
            _ => {}
        }
    }
    let there = children.into_iter().filter(|((_, incarnation), (was_there, removed_by))| {
        *was_there && *incarnation <= at && removed_by.is_none_or(|removed_by| removed_by > at)
    });
    there.map(|((name, _), _)| name).collect()
}

/// The members of the container `c` at some times, as they were listed then.
struct Past(Vec<(RevisionId, BTreeSet<String>)>);

impl Past {
    /// Children of `c` are created, deleted, and created again.
    async fn lived(faulty: &Faulty, rounds: usize) -> Self {
        let library = &faulty.library;
        library.repository.create(&path("c"), &container()).await.unwrap();
        let mut past = Self(Vec::new());
        for round in 0..rounds {
            for n in 0..4 {
                let at = format!("c/n{n}");
                if (round + n) % 3 == 0 {
                    let _ = delete(library, &at).await;
                    let _ = library.repository.remove_tombstone(&path(&at)).await;
                } else {
                    let _ = create(library, &at, "").await;
                }
                past.note(faulty).await;
            }
        }
        past
    }

    async fn note(&mut self, faulty: &Faulty) {
        faulty.clock.advance(Duration::from_millis(10));
        let listed = children(&faulty.library, &path("c")).await.into_iter().collect();
        self.0.push((RevisionId::first_at(faulty.library.clock().now()), listed));
        faulty.clock.advance(Duration::from_millis(10));
    }

    /// Asserts that the present rows give the same members for these times.
    fn is_told(&self, faulty: &Faulty, incarnation: RevisionId, shards: &ContainerBody, context: &str) {
        let partitions = partitions(faulty, "c", incarnation, shards);
        for (at, listed) in &self.0 {
            assert_eq!(members_at(faulty, &partitions, *at), *listed, "{context}, at {at}");
        }
    }
}

async fn shards(library: &Library) -> (RevisionId, ContainerBody) {
    let resource = library.repository.resource(&path("c")).await.unwrap();
    (resource.incarnation(), resource.body().container().unwrap().clone())
}

/// Gives `c` new shards, and lets the old ones be dropped.
async fn rewritten(faulty: &Faulty) {
    assert_eq!(faulty.library.heads.grow_containers().await.unwrap(), 1);
    for _ in 0..3 {
        faulty.clock.advance(DAY);
        faulty.library.heads.grow_containers().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_of_a_removal_says_which_revision_removed_the_child_whoever_puts_it() {
    let one_shard = || LibraryOptions { resource_shards: 1, ..LibraryOptions::default() };
    // The mark is put by the deletion; by a listing after the mark was lost; or by a listing when
    // the name is taken again.
    for (is_lost, is_taken) in [(false, false), (true, false), (true, true)] {
        for is_container in [false, true] {
            let faulty = faulty_with(one_shard()).await;
            let library = &faulty.library;
            library.repository.create(&path("c"), &container()).await.unwrap();
            match is_container {
                true => _ = library.repository.create(&path("c/n"), &container()).await.unwrap(),
                false => create(library, "c/n", "").await.unwrap(),
            }
            let (incarnation, _) = shards(library).await;
            let child = head(&faulty, "c/n").incarnation;
            for _ in 0..if is_lost { 2 } else { 0 } {
                faulty.store.arm(Fault::Crash, |_, step| {
                    let Step::Put { table: Table::Children, rows, .. } = step else { return false };
                    rows.iter().any(|row| keys::child_of(&row.sort).is_some_and(|(_, _, mark)| mark == Mark::Removed))
                });
            }
            let _ = delete(library, "c/n").await;
            faulty.store.recover();
            let ended = log(&faulty, "c/n").into_iter().chain([head(&faulty, "c/n")]);
            let removed_by =
                ended.filter(|head| head.state != ObjectState::Live).map(|head| head.revision).min().unwrap();
            if is_taken {
                library.repository.remove_tombstone(&path("c/n")).await.unwrap();
                create(library, "c/n", "").await.unwrap();
            }
            faulty.clock.advance(OLD);
            let listed = children(library, &path("c")).await;
            assert_eq!(listed.len(), usize::from(is_taken));
            let marks = marks(&faulty, &keys::children_partition("r/c", incarnation, 0, 0));
            let removed: Vec<_> = marks.into_iter().filter(|(.., mark, _)| *mark == Mark::Removed).collect();
            let expected = ("n".to_owned(), child, Mark::Removed, Bytes::copy_from_slice(&removed_by.0));
            assert_eq!(removed, [expected], "lost: {is_lost}, taken again: {is_taken}, container: {is_container}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_of_what_never_came_to_be_names_no_revision() {
    let faulty = faulty_with(LibraryOptions { resource_shards: 1, ..LibraryOptions::default() }).await;
    faulty.library.repository.create(&path("c"), &container()).await.unwrap();
    let head_of_child =
        |_: usize, step: &Step| matches!(step, Step::CompareAndWrite { partition, .. } if **partition == *b"r/c/n");
    faulty.store.arm(Fault::Crash, head_of_child);
    create(&faulty.library, "c/n", "").await.unwrap_err();
    let library = faulty.reopened().await;
    faulty.clock.advance(OLD);
    assert!(children(&library, &path("c")).await.is_empty());
    let (incarnation, _) = shards(&library).await;
    let marks = marks(&faulty, &keys::children_partition("r/c", incarnation, 0, 0));
    let removed: Vec<_> = marks.iter().filter(|(.., mark, _)| *mark == Mark::Removed).map(|(.., said)| said).collect();
    assert_eq!(removed, [&Bytes::new()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_given_other_shards_keeps_its_past_members_apart_from_those_of_today() {
    let faulty = faulty_with(options(Keep::All)).await;
    let past = Past::lived(&faulty, 12).await;
    let (incarnation, before) = shards(&faulty.library).await;
    past.is_told(&faulty, incarnation, &before, "before");
    rewritten(&faulty).await;
    let (_, after) = shards(&faulty.library).await;
    assert_ne!(before.first_epoch, after.first_epoch);
    past.is_told(&faulty, incarnation, &after, "after");
    for (shard, epoch) in (0..after.shards).flat_map(|shard| after.places(shard, after.shards)) {
        let today = marks(&faulty, &keys::children_partition("r/c", incarnation, shard, epoch));
        assert!(today.iter().all(|(.., mark, _)| *mark != Mark::Removed), "a listing reads past members: {today:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rewriting_that_fails_at_any_step_loses_no_past_member() {
    for fault in sample([Fault::Crash, Fault::UnknownApplied, Fault::UnknownLost, Fault::UnknownLate(2)]) {
        for at in steps() {
            let faulty = faulty_with(options(Keep::All)).await;
            let past = Past::lived(&faulty, 6).await;
            faulty.store.arm(fault.clone(), move |number, _| number == at);
            let grown = faulty.library.heads.grow_containers().await;
            if faulty.store.steps() <= at {
                assert_eq!(grown.unwrap(), 1);
                assert!(at > 4, "rewriting has steps");
                break;
            }
            let library = faulty.reopened().await;
            for _ in 0..4 {
                library.heads.grow_containers().await.unwrap();
                faulty.clock.advance(DAY);
            }
            let (incarnation, after) = shards(&library).await;
            assert!(after.first_epoch > 0, "{fault:?} at {at}");
            past.is_told(&faulty, incarnation, &after, &format!("{fault:?} at {at}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_history_past_members_are_left_behind_for_good() {
    let faulty = faulty_with(options(Keep::None)).await;
    Past::lived(&faulty, 12).await;
    rewritten(&faulty).await;
    let (incarnation, after) = shards(&faulty.library).await;
    let all = partitions(&faulty, "c", incarnation, &after);
    let past =
        all.iter().flat_map(|partition| marks(&faulty, partition)).filter(|(.., mark, _)| *mark == Mark::Removed);
    assert_eq!(past.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_number_of_versions_is_kept_past_members_of_older_ones_are_left_behind() {
    for (keep, kept) in [(Keep::Newest(1), 1), (Keep::Newest(2), 2), (Keep::All, 3)] {
        let faulty = faulty_with(options(keep)).await;
        Past::lived(&faulty, 12).await;
        for _ in 0..3 {
            create(&faulty.library, "c/again", "").await.unwrap();
            delete(&faulty.library, "c/again").await.unwrap();
            faulty.library.repository.remove_tombstone(&path("c/again")).await.unwrap();
        }
        rewritten(&faulty).await;
        let (incarnation, after) = shards(&faulty.library).await;
        let all = partitions(&faulty, "c", incarnation, &after);
        let removed = all.iter().flat_map(|partition| marks(&faulty, partition));
        let removed = removed.filter(|(name, _, mark, _)| name == "again" && *mark == Mark::Removed);
        assert_eq!(removed.count(), kept, "{keep}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_was_deleted_tells_still_what_it_held_where_history_is_kept() {
    for is_rewritten in [false, true] {
        let faulty = faulty_with(options(Keep::All)).await;
        let past = Past::lived(&faulty, 12).await;
        if is_rewritten {
            rewritten(&faulty).await;
        }
        delete(&faulty.library, "c").await.unwrap();
        faulty.clock.advance(10 * DAY);
        faulty.library.repository.empty_deleted_containers().await.unwrap();
        faulty.library.heads.grow_containers().await.unwrap();
        faulty.library.repository.remove_tombstone(&path("c")).await.unwrap();
        faulty.library.repository.create(&path("c"), &container()).await.unwrap();
        assert!(children(&faulty.library, &path("c")).await.is_empty());
        // The log records where its shards were.
        let deleting = log(&faulty, "c").into_iter().find(|head| head.state == ObjectState::Deleting).unwrap();
        let shards = deleting.body.container().unwrap();
        past.is_told(&faulty, deleting.incarnation, shards, &format!("rewritten: {is_rewritten}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn past_members_that_are_kept_for_a_time_go_with_their_container_after_it() {
    for (keep, days) in [(Keep::None, 1), (Keep::For(5 * DAY), 5)] {
        let faulty = faulty_with(options(keep)).await;
        Past::lived(&faulty, 12).await;
        rewritten(&faulty).await;
        let (incarnation, shards) = shards(&faulty.library).await;
        let all = partitions(&faulty, "c", incarnation, &shards);
        delete(&faulty.library, "c").await.unwrap();
        let rows = || all.iter().map(|partition| faulty.store.sorts(Table::Children, partition).len()).sum::<usize>();
        faulty.clock.advance(days * DAY - Duration::from_millis(1));
        assert_eq!(faulty.library.repository.empty_deleted_containers().await.unwrap(), 0);
        assert!(rows() > 0, "{keep}");
        faulty.clock.advance(Duration::from_millis(1));
        assert_eq!(faulty.library.repository.empty_deleted_containers().await.unwrap(), 1);
        assert_eq!(rows(), 0, "{keep}");
        let index = keys::past_index_partition("r/c", incarnation);
        assert!(faulty.store.sorts(Table::Children, &index).is_empty());
        assert_eq!(faulty.store.records(Queue::Emptying), 0);
    }
}

/// A deleted container, with that many marks in each of its shards.
async fn deleted_with(resource_shards: u16, marks: usize) -> (Faulty, Vec<Bytes>) {
    let faulty = faulty_with(LibraryOptions { resource_shards, ..options(Keep::None) }).await;
    faulty.library.repository.create(&path("c"), &container()).await.unwrap();
    let (incarnation, _) = shards(&faulty.library).await;
    delete(&faulty.library, "c").await.unwrap();
    let partitions: Vec<_> =
        (0..resource_shards).map(|shard| keys::children_partition("r/c", incarnation, shard, 0)).collect();
    for partition in &partitions {
        put_marks(&faulty, partition, marks).await;
    }
    faulty.clock.advance(DAY);
    (faulty, partitions)
}

async fn put_marks(faulty: &Faulty, partition: &Bytes, count: usize) {
    let mark = |n| {
        NewRow::new(
            keys::child_mark(&format!("n{n:06}"), RevisionId::ZERO, Mark::Added),
            envelope::seal(ValueKind::ChildMark, &[]),
        )
    };
    let deadline = store::Deadline::within(Duration::from_secs(30));
    let call = store::Call::new(store::Class::Description, deadline);
    let rows = (0..count).map(mark).collect();
    let put = Step::Put { table: Table::Children, partition: partition.clone(), rows };
    assert!(faulty.store.run(call, vec![put]).await.unwrap().is_applied());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_container_is_emptied_a_little_at_a_time_and_what_is_done_stays_done() {
    let (faulty, partitions) = deleted_with(1, 12_000).await;
    let left = || faulty.store.sorts(Table::Children, &partitions[0]).len();
    // The process dies at its third list.
    let seen = std::sync::atomic::AtomicUsize::new(0);
    faulty.store.arm(Fault::Crash, move |_, step| {
        matches!(step, Step::Remove { .. }) && seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 2
    });
    let _ = faulty.library.repository.empty_deleted_containers().await;
    let left_by_the_first = left();
    assert!((1..12_000).contains(&left_by_the_first), "{left_by_the_first} are left");
    let library = faulty.reopened().await;
    assert_eq!(library.repository.empty_deleted_containers().await.unwrap(), 1);
    assert_eq!(left(), 0);
    let largest = faulty.store.largest_removal();
    assert!(largest <= 2_500, "one step removed {largest} rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn emptying_a_container_of_many_shards_goes_on_where_it_was() {
    let (faulty, partitions) = deleted_with(2_500, 1).await;
    let record_is_removed = |_: usize, step: &Step| matches!(step, Step::Remove { table: Table::Work, .. });
    faulty.store.arm(Fault::Crash, record_is_removed);
    let _ = faulty.library.repository.empty_deleted_containers().await;
    let library = faulty.reopened().await;
    // A mark that arrives in a partition that was emptied already shows that later calls skip it.
    put_marks(&faulty, &partitions[1_999], 1).await;
    put_marks(&faulty, &partitions[2_000], 1).await;
    assert_eq!(library.repository.empty_deleted_containers().await.unwrap(), 1);
    assert_eq!(faulty.store.sorts(Table::Children, &partitions[1_999]).len(), 1);
    assert_eq!(faulty.store.sorts(Table::Children, &partitions[2_000]).len(), 0);
    assert_eq!(faulty.store.records(Queue::Emptying), 0);
}
