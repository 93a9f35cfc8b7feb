//! Versions that clients ask for, and versions that clients remove: what is listed, what can be
//! read, and what is deleted a grace later.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use heads::{History, Keep, LibraryOptions, Queue, RevisionId};
use library::Library;
use proptest::prelude::*;
use repository::{NewKind, NewResource, ResourceError, Update};
use store::{Clock, UnixMillis};

use super::received::receive;
use super::tree::{create, descriptions, path, update};
use crate::support::memory::Fault;
use crate::support::{Faulty, faulty_with, sample, steps};

const MINUTE: Duration = Duration::from_secs(60);

pub fn keeping(resources: Keep) -> LibraryOptions {
    LibraryOptions { history: History { resources, ..History::default() }, ..LibraryOptions::default() }
}

/// Asks for a version of the present state.
async fn ask_for(library: &Library, at: &str) -> Result<RevisionId, ResourceError> {
    let resource = library.repository.resource(&path(at)).await?;
    Ok(library.repository.update(&resource, &Update::Snapshot).await?.revision)
}

/// The revisions that are listed, found from both ends, each of them readable.
pub async fn listed(library: &Library, at: &str) -> Vec<RevisionId> {
    let versions = library.repository.versions(&path(at)).await.unwrap();
    let page = versions.page(RevisionId::ZERO, RevisionId::LAST, 1_000).await.unwrap();
    let listed: Vec<_> = page.iter().map(|version| version.revision).collect();
    let (mut forward, mut from) = (Vec::new(), RevisionId::ZERO);
    while let Some(version) = versions.oldest_from(from).await.unwrap() {
        forward.push(version.revision());
        from = version.revision().successor();
    }
    let (mut backward, mut below) = (Vec::new(), RevisionId::LAST);
    while let Some(version) = versions.newest_below(below).await.unwrap() {
        library.repository.description(&version).await.unwrap();
        if let repository::Kind::Binary(binary) = version.kind() {
            let mut pieces = library.repository.content(&version, binary, 0..binary.len_bytes).await.unwrap();
            while let Some(piece) = futures::StreamExt::next(&mut pieces).await {
                piece.unwrap();
            }
        }
        backward.insert(0, version.revision());
        below = version.revision();
    }
    assert_eq!((&forward, &backward), (&listed, &listed));
    listed
}

/// Collects until nothing is left to do.
pub async fn collected(faulty: &Faulty) {
    for _ in 0..5 {
        faulty.library.repository.collect_versions().await.unwrap();
        faulty.clock.advance(faulty.library.options().grace + MINUTE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_versions_are_explicit_those_stay_that_were_asked_for_and_the_others_go_after_the_grace() {
    let faulty = faulty_with(keeping(Keep::Explicit)).await;
    let library = &faulty.library;
    create(library, "a", "0").await.unwrap();
    assert_eq!(listed(library, "a").await, []);
    let mut asked = Vec::new();
    for n in 1..=6 {
        update(library, "a", &n.to_string()).await.unwrap();
        if n % 3 == 1 {
            asked.push(ask_for(library, "a").await.unwrap());
        }
    }
    assert_eq!(listed(library, "a").await, asked);
    assert_eq!(descriptions(&faulty, "a").len(), 7);
    collected(&faulty).await;
    assert_eq!(listed(library, "a").await, asked);
    assert_eq!(descriptions(&faulty, "a").len(), 3, "what was asked for, and the current one");
    assert_eq!(faulty.store.records(Queue::Superseded), 0);
    // A deleted resource keeps the versions that were asked for.
    super::tree::delete(library, "a").await.unwrap();
    collected(&faulty).await;
    assert_eq!(listed(library, "a").await, asked);
    assert_eq!(descriptions(&faulty, "a").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_stay_that_a_version_has_in_common_with_others_that_nobody_asked_for() {
    let faulty = faulty_with(keeping(Keep::Explicit)).await;
    let library = &faulty.library;
    for len in [7, 100_000] {
        let at = format!("b{len}");
        let upload = async |byte: u8| {
            let source = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![byte; len]))]);
            library.repository.upload(&path(&at), source, &[]).await.unwrap()
        };
        let kind = NewKind::Binary(upload(1).await);
        let binary = NewResource { kind, description: Bytes::from("0"), ..NewResource::empty_container() };
        library.repository.create(&path(&at), &binary).await.unwrap();
        let first = ask_for(library, &at).await.unwrap();
        for n in 1..4 {
            update(library, &at, &n.to_string()).await.unwrap();
        }
        // The floor of the collector is above the version that was asked for.
        collected(&faulty).await;
        let resource = library.repository.resource(&path(&at)).await.unwrap();
        library.repository.update(&resource, &Update::Binary(upload(2).await)).await.unwrap();
        collected(&faulty).await;
        assert_eq!(listed(library, &at).await, [first], "{len}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_version_is_not_listed_and_a_grace_later_only_what_no_other_one_names_is_gone() {
    let faulty = faulty_with(keeping(Keep::All)).await;
    let library = &faulty.library;
    create(library, "a", "0").await.unwrap();
    for n in 1..4 {
        update(library, "a", &n.to_string()).await.unwrap();
    }
    let same = ask_for(library, "a").await.unwrap();
    update(library, "a", "4").await.unwrap();
    let all = listed(library, "a").await;
    assert_eq!((all.len(), all[4]), (6, same));
    for removed in [all[1], all[3]] {
        library.repository.remove_version(&path("a"), removed).await.unwrap();
    }
    let left = vec![all[0], all[2], all[4], all[5]];
    assert_eq!(listed(library, "a").await, left);
    assert_eq!(descriptions(&faulty, "a").len(), 5, "who began to read may be reading");
    collected(&faulty).await;
    assert_eq!(descriptions(&faulty, "a").len(), 4, "a later version has the same description");
    assert_eq!((listed(library, "a").await, faulty.store.records(Queue::Superseded)), (left, 0));
    library.repository.remove_version(&path("a"), same).await.unwrap();
    collected(&faulty).await;
    assert_eq!((listed(library, "a").await, descriptions(&faulty, "a").len()), (vec![all[0], all[2], all[5]], 3));
    let again = library.repository.remove_version(&path("a"), same).await;
    assert!(matches!(again, Err(ResourceError::NoVersion(_))), "{again:?}");
    let current = library.repository.remove_version(&path("a"), all[5]).await;
    assert!(matches!(current, Err(ResourceError::CurrentVersion(_))), "{current:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_any_step_of_removing_loses_no_other_version_and_a_repeated_request_is_enough() {
    for fault in sample([Fault::Crash, Fault::UnknownApplied, Fault::UnknownLost, Fault::UnknownLate(1)]) {
        for at in steps() {
            let faulty = faulty_with(keeping(Keep::All)).await;
            for n in 0..3 {
                match n {
                    0 => create(&faulty.library, "a", "0").await.unwrap(),
                    n => update(&faulty.library, "a", &n.to_string()).await.unwrap(),
                }
            }
            let all = listed(&faulty.library, "a").await;
            faulty.store.arm(fault.clone(), move |number, _| number == at);
            let _ = faulty.library.repository.remove_version(&path("a"), all[1]).await;
            let _ = faulty.library.repository.collect_versions().await;
            faulty.clock.advance(faulty.library.options().grace + MINUTE);
            let _ = faulty.library.repository.collect_versions().await;
            if faulty.store.steps() <= at {
                assert!(at > 1, "removing has steps");
                break;
            }
            let library = faulty.reopened().await;
            match library.repository.remove_version(&path("a"), all[1]).await {
                Ok(()) | Err(ResourceError::NoVersion(_)) => {}
                Err(error) => panic!("{fault:?} at {at}: {error}"),
            }
            for _ in 0..4 {
                library.repository.collect_versions().await.unwrap();
                faulty.clock.advance(library.options().grace + MINUTE);
            }
            assert_eq!(listed(&library, "a").await, [all[0], all[2]], "{fault:?} at {at}");
            assert_eq!(descriptions(&faulty, "a").len(), 2, "{fault:?} at {at}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_policy_collected_is_not_listed_when_versions_are_explicit_again() {
    let faulty = faulty_with(keeping(Keep::Explicit)).await;
    create(&faulty.library, "a", "0").await.unwrap();
    ask_for(&faulty.library, "a").await.unwrap();
    let with = async |keep| Library::open(faulty.store.clone(), faulty.clock.clone(), keeping(keep)).await.unwrap();
    let other = with(Keep::Newest(1)).await;
    for n in 1..4 {
        update(&other, "a", &n.to_string()).await.unwrap();
    }
    for _ in 0..4 {
        other.repository.collect_versions().await.unwrap();
        faulty.clock.advance(other.options().grace + MINUTE);
    }
    assert_eq!(descriptions(&faulty, "a").len(), 2);
    let explicit = with(Keep::Explicit).await;
    assert_eq!(listed(&explicit, "a").await, []);
    let asked = ask_for(&explicit, "a").await.unwrap();
    assert_eq!(listed(&explicit, "a").await, [asked]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_version_of_a_deleted_container_goes_too() {
    let faulty = faulty_with(keeping(Keep::All)).await;
    let library = &faulty.library;
    let container = NewResource { description: Bytes::from("secret"), ..super::tree::container() };
    library.repository.create(&path("c"), &container).await.unwrap();
    let all = listed(library, "c").await;
    super::tree::delete(library, "c").await.unwrap();
    library.repository.remove_version(&path("c"), all[0]).await.unwrap();
    collected(&faulty).await;
    assert_eq!((listed(library, "c").await, descriptions(&faulty, "c").len()), (vec![], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_version_keeps_its_grace_although_its_writer_left_a_record_earlier() {
    let month = Duration::from_secs(30 * 24 * 3_600);
    let faulty = faulty_with(keeping(Keep::For(month))).await;
    let library = &faulty.library;
    create(library, "a", "0").await.unwrap();
    update(library, "a", "1").await.unwrap();
    update(library, "a", "2").await.unwrap();
    collected(&faulty).await;
    let all = listed(library, "a").await;
    library.repository.remove_version(&path("a"), all[1]).await.unwrap();
    faulty.clock.advance(library.options().grace - Duration::from_millis(1));
    library.repository.collect_versions().await.unwrap();
    assert_eq!(descriptions(&faulty, "a").len(), 3, "who began to read may be reading");
    collected(&faulty).await;
    assert_eq!((listed(library, "a").await, descriptions(&faulty, "a").len()), (vec![all[0], all[2]], 2));
}

#[derive(Clone, Debug)]
enum Op {
    Describe,
    Ask,
    Delete,
    Remove(usize),
    /// A version of so many seconds ago.
    Receive(u64),
    Collect,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => Just(Op::Describe),
        3 => Just(Op::Ask),
        1 => Just(Op::Delete),
        3 => any::<usize>().prop_map(Op::Remove),
        3 => (0..20u64).prop_map(Op::Receive),
        2 => Just(Op::Collect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_for_removed_and_collected_the_listed_versions_are_those_of_the_model(
        is_explicit in any::<bool>(), ops in prop::collection::vec(op(), 1..24),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let faulty = faulty_with(keeping(if is_explicit { Keep::Explicit } else { Keep::All })).await;
            let library = &faulty.library;
            // The revisions that are listed, with what they say.
            let mut model: Vec<(RevisionId, String)> = Vec::new();
            let mut said: Option<String> = None;
            // All changes, and the seconds of all versions that were received.
            let (mut changes, mut received): (Vec<RevisionId>, BTreeSet<u64>) = (Vec::new(), BTreeSet::new());
            for (n, op) in ops.iter().enumerate() {
                faulty.clock.advance(Duration::from_millis(700));
                let now = async || library.repository.resource(&path("a")).await.ok().map(|now| now.revision());
                match op {
                    Op::Describe => {
                        let text = n.to_string();
                        if said.is_none() {
                            let _ = library.repository.remove_tombstone(&path("a")).await;
                            create(library, "a", &text).await.unwrap();
                        } else {
                            update(library, "a", &text).await.unwrap();
                        }
                        changes.extend(now().await);
                        if !is_explicit {
                            model.push((now().await.unwrap(), text.clone()));
                        }
                        said = Some(text);
                    }
                    Op::Ask => match &said {
                        Some(text) => {
                            let asked = ask_for(library, "a").await.unwrap();
                            changes.push(asked);
                            model.push((asked, text.clone()));
                        }
                        None => assert!(ask_for(library, "a").await.is_err()),
                    },
                    Op::Delete => {
                        let is_there = said.take().is_some();
                        assert_eq!(super::tree::delete(library, "a").await.is_ok(), is_there);
                    }
                    Op::Remove(which) if !model.is_empty() => {
                        let at = which % model.len();
                        let revision = model[at].0;
                        let is_current = now().await == Some(revision);
                        let removed = library.repository.remove_version(&path("a"), revision).await;
                        assert_eq!(removed.is_ok(), !is_current, "{removed:?}");
                        if !is_current {
                            model.remove(at);
                        }
                    }
                    Op::Remove(_) => {}
                    Op::Receive(ago) => {
                        let second = faulty.clock.now().0 / 1_000 - ago;
                        let [from, to] = [second, second + 1].map(|at| RevisionId::first_at(UnixMillis(1_000 * at)));
                        let is_free = !received.contains(&second) && !changes.iter().any(|at| (from..to).contains(at));
                        let is_past = now().await.is_some_and(|now| to <= now);
                        let text = format!("received {n}");
                        let done = receive(library, "a", second, &text).await;
                        assert_eq!(done.is_ok(), is_free && is_past, "{done:?}");
                        if let Ok(at) = done {
                            received.insert(second);
                            model.push((at, text));
                        }
                    }
                    Op::Collect => collected(&faulty).await,
                }
                model.sort();
                let expected: Vec<_> = model.iter().map(|(revision, _)| *revision).collect();
                match library.repository.versions(&path("a")).await {
                    Ok(_) => assert_eq!(listed(library, "a").await, expected, "{op:?}"),
                    Err(_) => assert!(expected.is_empty()),
                }
            }
            collected(&faulty).await;
            // What is stored is what is listed, and what is there.
            let texts: BTreeSet<_> = model.iter().map(|(_, text)| text.clone()).chain(said).collect();
            assert_eq!(descriptions(&faulty, "a").len(), texts.len());
        });
    }
}
