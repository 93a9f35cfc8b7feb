//! Versions with stated times: where they are listed, what they leave as it is, which ones are
//! refused, and what becomes of their parts.

use std::time::Duration;

use bytes::Bytes;
use heads::{Keep, Queue, RevisionId, keys};
use library::Library;
use repository::{Kind, Membership, NewKind, NewResource, NewVersion, Part, Resource, ResourceError, ResourceResult};
use store::{Class, Step, Table, UnixMillis};

use super::explicit::{collected, keeping, listed};
use super::tree::{beside, container, create, delete, descriptions, path, said, update};
use crate::support::memory::{Fault, Gate};
use crate::support::{Faulty, START, faulty_with, sample, steps};

const MINUTE: Duration = Duration::from_secs(60);

/// The second of the first change in these tests.
const FIRST: u64 = START.0 / 1_000;

/// A second long before.
const LONG_AGO: u64 = 1_000_000_000;

/// Adds a version of a description at a second.
pub async fn receive(library: &Library, at: &str, second: u64, text: &str) -> ResourceResult<RevisionId> {
    let resource = library.repository.resource(&path(at)).await?;
    let (description, membership) = (Bytes::from(text.to_owned()), Membership::Basic);
    let new = NewVersion { at: UnixMillis(1_000 * second), description, membership, bytes: None };
    Ok(library.repository.receive_version(&resource, &new).await?.revision)
}

/// A library with a resource that changes each minute: its descriptions are `0`, `1` and so on.
async fn changed(keep: Keep, changes: usize) -> Faulty {
    let faulty = faulty_with(keeping(keep)).await;
    create(&faulty.library, "a", "0").await.unwrap();
    for n in 1..changes {
        faulty.clock.advance(MINUTE);
        update(&faulty.library, "a", &n.to_string()).await.unwrap();
    }
    faulty
}

fn below(second: u64) -> RevisionId {
    RevisionId::first_at(UnixMillis(1_000 * second))
}

async fn text(library: &Library, version: Option<Resource>) -> Option<String> {
    let description = library.repository.description(&version?).await.unwrap();
    Some(String::from_utf8(description.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_received_version_is_listed_at_its_time_and_changes_nothing_as_of_a_time() {
    for keep in [Keep::All, Keep::Explicit] {
        let faulty = changed(keep, 2).await;
        let library = &faulty.library;
        let before = library.repository.resource(&path("a")).await.unwrap();
        let changes = listed(library, "a").await;
        let between = receive(library, "a", FIRST + 30, "between").await.unwrap();
        let early = receive(library, "a", LONG_AGO, "early").await.unwrap();
        assert_eq!((early, between), (below(LONG_AGO), below(FIRST + 30)));
        let mut expected = [&[early, between][..], &changes[..]].concat();
        expected.sort();
        assert_eq!(listed(library, "a").await, expected);
        assert_eq!(library.repository.resource(&path("a")).await.unwrap(), before);
        assert_eq!(said(library, "a").await.as_deref(), Some("1"));
        let versions = library.repository.versions(&path("a")).await.unwrap();
        let newest = async |second| text(library, versions.newest_below(below(second)).await.unwrap()).await;
        assert_eq!(newest(FIRST + 40).await.as_deref(), Some("between"));
        assert_eq!(newest(FIRST - 1).await.as_deref(), Some("early"));
        assert_eq!(newest(LONG_AGO).await, None);
        let in_force = async |second| text(library, versions.in_force(below(second)).await.unwrap()).await;
        assert_eq!(in_force(LONG_AGO + 1).await, None, "there was nothing");
        if keep == Keep::All {
            assert_eq!(in_force(FIRST + 40).await.as_deref(), Some("0"), "it is what there was");
        }
        let of_second = versions.first_ever(below(FIRST + 30), below(FIRST + 31)).await.unwrap();
        assert_eq!(of_second, Some(between), "the second names it");
        let moments = versions.newest_first(RevisionId::ZERO, RevisionId::LAST, 100).await.unwrap();
        let backwards: Vec<_> = moments.iter().rev().map(|moment| moment.version.revision).collect();
        assert_eq!(backwards, expected);
        let received = moments.iter().filter(|moment| moment.change == repository::Change::Received);
        assert_eq!(received.count(), 2);
        // It stays if the resource is deleted.
        delete(library, "a").await.unwrap();
        assert_eq!(listed(library, "a").await, expected);
        collected(&faulty).await;
        assert_eq!(listed(library, "a").await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_is_refused_that_has_an_address_already_or_is_not_before_the_present_state() {
    let faulty = changed(Keep::All, 2).await;
    let library = &faulty.library;
    receive(library, "a", FIRST + 30, "once").await.unwrap();
    for second in [0, FIRST, FIRST + 30, FIRST + 60, FIRST + 61, FIRST + 1_000_000] {
        let refused = receive(library, "a", second, "refused").await;
        assert!(matches!(refused, Err(ResourceError::NotReceived(_))), "{second}: {refused:?}");
    }
    // What was removed does not come back under its name.
    library.repository.remove_version(&path("a"), below(FIRST + 30)).await.unwrap();
    assert!(matches!(receive(library, "a", FIRST + 30, "x").await, Err(ResourceError::NotReceived(_))));
    let again = library.repository.remove_version(&path("a"), below(FIRST + 30)).await;
    assert!(matches!(again, Err(ResourceError::NoVersion(_))), "{again:?}");
    assert!(matches!(receive(library, "none", LONG_AGO, "x").await, Err(ResourceError::Absent(_))));
    // A container has an address for each second since it was created.
    library.repository.create(&path("c"), &container()).await.unwrap();
    faulty.clock.advance(MINUTE);
    library.repository.create(&path("c/d"), &container()).await.unwrap();
    let described = library.repository.resource(&path("c")).await.unwrap();
    library.repository.update(&described, &repository::Update::Snapshot).await.unwrap();
    let of_container = async |second| receive(library, "c", second, "container").await;
    assert!(matches!(of_container(FIRST + 80).await, Err(ResourceError::NotReceived(_))));
    let early = of_container(FIRST + 50).await.unwrap();
    let versions = library.repository.versions(&path("c")).await.unwrap();
    let version = versions.at(early).await.unwrap().unwrap();
    let mut members = library.repository.members_as_of(&version, early.successor()).await.unwrap();
    assert_eq!(members.more(10).await.unwrap(), None, "nothing was in it");
    // Where only some versions are kept, older ones are not.
    let faulty = changed(Keep::Newest(2), 4).await;
    assert!(matches!(receive(&faulty.library, "a", FIRST + 30, "old").await, Err(ResourceError::NotReceived(_))));
    receive(&faulty.library, "a", FIRST + 150, "new").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_received_versions_go_a_grace_after_they_are_removed_or_not_kept_any_more() {
    let faulty = changed(Keep::All, 2).await;
    let library = &faulty.library;
    let [one, two] = [LONG_AGO, FIRST + 30].map(below);
    for second in [LONG_AGO, FIRST + 30] {
        receive(library, "a", second, "old").await.unwrap();
    }
    collected(&faulty).await;
    assert_eq!((descriptions(&faulty, "a").len(), faulty.store.records(Queue::Superseded)), (4, 0));
    library.repository.remove_version(&path("a"), one).await.unwrap();
    assert_eq!(listed(library, "a").await.len(), 3);
    library.repository.collect_versions().await.unwrap();
    assert_eq!(descriptions(&faulty, "a").len(), 4, "who began to read may be reading");
    collected(&faulty).await;
    assert_eq!((descriptions(&faulty, "a").len(), faulty.store.records(Queue::Superseded)), (3, 0));
    assert!(listed(library, "a").await.contains(&two));
    let object = keys::resource_partition(&path("a"));
    let states = |faulty: &Faulty| {
        let partitions = beside(faulty, &object).into_iter().filter(|of| keys::version_of(of).is_some());
        let sorts = partitions.flat_map(|partition| faulty.store.sorts(Table::Objects, &partition));
        sorts.filter(|sort| sort[0] == keys::kind::RECEIVED).count()
    };
    assert_eq!(states(&faulty), 1);

    let faulty = changed(Keep::Newest(2), 4).await;
    let library = &faulty.library;
    let received = receive(library, "a", FIRST + 150, "new").await.unwrap();
    assert_eq!(listed(library, "a").await.len(), 4);
    for text in ["4", "5"] {
        faulty.clock.advance(MINUTE);
        update(library, "a", text).await.unwrap();
    }
    assert!(!listed(library, "a").await.contains(&received));
    collected(&faulty).await;
    assert_eq!((descriptions(&faulty, "a").len(), states(&faulty)), (3, 0), "the present one and two before it");
    assert_eq!(faulty.store.records(Queue::Superseded), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_received_version_that_is_kept_for_a_time_goes_after_that_although_nothing_changes() {
    let month = Duration::from_secs(30 * 24 * 3_600);
    let faulty = changed(Keep::For(month), 1).await;
    let library = &faulty.library;
    let received = receive(library, "a", FIRST - 600, "old").await.unwrap();
    collected(&faulty).await;
    assert!(listed(library, "a").await.contains(&received));
    assert_eq!(descriptions(&faulty, "a").len(), 2);
    faulty.clock.advance(month);
    collected(&faulty).await;
    assert!(!listed(library, "a").await.contains(&received));
    assert_eq!((descriptions(&faulty, "a").len(), faulty.store.records(Queue::Superseded)), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_a_received_version_stay_until_it_is_removed() {
    let faulty = faulty_with(keeping(Keep::All)).await;
    let library = &faulty.library;
    let upload = async |byte: u8| {
        let source = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![byte; 100_000]))]);
        library.repository.upload(&path("b"), source, &[]).await.unwrap()
    };
    let binary = NewResource { kind: NewKind::Binary(upload(1).await), ..container() };
    library.repository.create(&path("b"), &binary).await.unwrap();
    let resource = library.repository.resource(&path("b")).await.unwrap();
    let bytes = Some(upload(2).await);
    let (description, membership) = (Bytes::from("then"), Membership::Basic);
    let new = NewVersion { at: UnixMillis(1_000 * LONG_AGO), description, membership, bytes };
    library.repository.receive_version(&resource, &new).await.unwrap();
    let contents = async || {
        faulty.clock.advance(2 * library.options().grace);
        library.repository.collect_contents().await.unwrap();
        let call = library.heads.call(Class::Content);
        library.store().walk(call, Table::Contents, None, 10).await.unwrap().partitions.len()
    };
    collected(&faulty).await;
    assert_eq!((listed(library, "b").await.len(), contents().await), (2, 2));
    let versions = library.repository.versions(&path("b")).await.unwrap();
    let version = versions.at(below(LONG_AGO)).await.unwrap().unwrap();
    let Kind::Binary(binary) = version.kind() else { panic!() };
    let digests = library.repository.digests(&version, binary, &[]).await.unwrap();
    assert_eq!((digests.len(), binary.len_bytes), (0, 100_000));
    library.repository.remove_version(&path("b"), below(LONG_AGO)).await.unwrap();
    collected(&faulty).await;
    assert_eq!((listed(library, "b").await.len(), contents().await), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_any_step_leaves_a_whole_version_or_none() {
    for fault in sample([Fault::Crash, Fault::UnknownApplied, Fault::UnknownLost, Fault::UnknownLate(1)]) {
        for at in steps() {
            let faulty = changed(Keep::All, 2).await;
            faulty.store.arm(fault.clone(), move |number, _| number == at);
            let received = receive(&faulty.library, "a", LONG_AGO, "old").await;
            if faulty.store.steps() <= at {
                assert!(at > 1, "receiving has steps");
                received.unwrap();
                break;
            }
            let library = faulty.reopened().await;
            for _ in 0..4 {
                library.repository.collect_versions().await.unwrap();
                faulty.clock.advance(library.options().grace + MINUTE);
            }
            let listed = listed(&library, "a").await;
            let is_there = listed.contains(&below(LONG_AGO));
            assert!(is_there || received.is_err(), "{fault:?} at {at}");
            assert_eq!(descriptions(&faulty, "a").len(), listed.len(), "{fault:?} at {at}");
            let again = receive(&library, "a", LONG_AGO, "again").await;
            assert_eq!(again.is_ok(), !is_there, "{fault:?} at {at}: {again:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_stalls_until_its_parts_are_deleted_does_not_list_them() {
    let faulty = changed(Keep::All, 2).await;
    let gate = Gate::new();
    let list = keys::received(&keys::resource_partition(&path("a")));
    let is_list = move |_: usize, step: &Step| *step.partition() == list;
    faulty.store.arm(Fault::Hold(gate.clone()), is_list);
    let library = faulty.library.clone();
    let stalled = tokio::spawn(async move { receive(&library, "a", LONG_AGO, "old").await });
    gate.reached().await;
    assert_eq!(descriptions(&faulty, "a").len(), 3);
    // One pass: the gate does not wait for ever.
    faulty.clock.advance(2 * faulty.library.options().grace);
    faulty.library.repository.collect_versions().await.unwrap();
    assert_eq!(descriptions(&faulty, "a").len(), 2);
    gate.open();
    let stalled = stalled.await.unwrap();
    assert!(matches!(stalled, Err(ResourceError::Moved(_))), "{stalled:?}");
    assert_eq!(listed(&faulty.library, "a").await.len(), 2);
    receive(&faulty.library, "a", LONG_AGO, "old").await.unwrap();
    assert_eq!(listed(&faulty.library, "a").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_stalls_while_it_writes_the_parts_does_not_list_them() {
    let faulty = changed(Keep::All, 2).await;
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), |_, step| keys::version_of(step.partition()).is_some());
    let library = faulty.library.clone();
    let stalled = tokio::spawn(async move { receive(&library, "a", LONG_AGO, "old").await });
    gate.reached().await;
    faulty.clock.advance(faulty.library.options().switch_within);
    gate.open();
    let refused = stalled.await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("try again"), "{refused}");
    assert_eq!(listed(&faulty.library, "a").await.len(), 2);
    receive(&faulty.library, "a", LONG_AGO, "again").await.unwrap();
    collected(&faulty).await;
    assert_eq!((listed(&faulty.library, "a").await.len(), descriptions(&faulty, "a").len()), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_writers_of_one_time_one_is_refused() {
    let faulty = changed(Keep::All, 2).await;
    let library = &faulty.library;
    let both = futures::join!(receive(library, "a", LONG_AGO, "one"), receive(library, "a", LONG_AGO, "other"));
    let is_refused = |received: &ResourceResult<RevisionId>| matches!(received, Err(ResourceError::NotReceived(_)));
    assert!(both.0.is_ok() != both.1.is_ok() && (is_refused(&both.0) || is_refused(&both.1)), "{both:?}");
    collected(&faulty).await;
    assert_eq!((listed(library, "a").await.len(), descriptions(&faulty, "a").len()), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_of_a_received_version_is_found_and_named() {
    let faulty = changed(Keep::All, 2).await;
    let library = &faulty.library;
    for second in [LONG_AGO, FIRST + 30] {
        receive(library, "a", second, "old").await.unwrap();
    }
    let verified = async || {
        let verified = library.repository.verify_versions(&path("a"), budget::Pace::unlimited()).await.unwrap();
        let damaged = verified.damaged.into_iter().map(|(version, damaged)| (version, damaged.part));
        damaged.collect::<Vec<_>>()
    };
    assert_eq!(verified().await, []);
    let list = library.heads.received(&keys::resource_partition(&path("a"))).await.unwrap();
    let [one, two] = [0, 1].map(|n: usize| list.versions[n].written);
    faulty.store.tamper(|_, sort, value| {
        let is_damaged = *sort == keys::description(one, 0) || *sort == keys::received_version(two);
        Some(if is_damaged { Bytes::new() } else { value })
    });
    assert_eq!(verified().await, [(below(LONG_AGO), Some(Part::Description)), (below(FIRST + 30), None)]);
    let versions = library.repository.versions(&path("a")).await.unwrap();
    assert!(versions.at(below(FIRST + 30)).await.is_err());
    // It keeps nobody from the lists, and can be removed.
    let found = [
        versions.revision_from(below(FIRST + 1)).await.unwrap(),
        versions.revision_below(below(FIRST + 31)).await.unwrap(),
    ];
    assert_eq!(found, [Some(below(FIRST + 30)); 2]);
    assert_eq!(versions.newest_first(RevisionId::ZERO, RevisionId::LAST, 100).await.unwrap().len(), 4);
    library.repository.remove_version(&path("a"), below(FIRST + 30)).await.unwrap();
    collected(&faulty).await;
    let versions = library.repository.versions(&path("a")).await.unwrap();
    assert_eq!(versions.page(RevisionId::ZERO, RevisionId::LAST, 100).await.unwrap().len(), 3);
    assert_eq!((descriptions(&faulty, "a").len(), faulty.store.records(Queue::Superseded)), (3, 0));
}
