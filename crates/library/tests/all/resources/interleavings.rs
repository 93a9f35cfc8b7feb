//! Writers that interleave at random: each acknowledged write is present once and in order, and
//! creators of children do not conflict.

use std::sync::Arc;

use bytes::Bytes;
use library::Library;
use proptest::prelude::*;
use repository::ResourceError;
use repository::{Membership, Update};
use tokio::sync::Barrier;

use super::tree::{assert_sound, children, container, create, delete, path, said, there_at};
use crate::support::{faulty, fixture, on_cassandra};

const SHARED: &str = "shared";

/// Appends a word to a description, on the condition that it has not changed since it was read.
/// Returns how often other writers were faster.
async fn add(library: &Library, at: &str, word: &str, pause: u8) -> u32 {
    let mut faster = 0;
    loop {
        let resource = library.repository.resource(&path(at)).await.unwrap();
        let before = library.repository.description(&resource).await.unwrap();
        for _ in 0..pause {
            tokio::task::yield_now().await;
        }
        let description = Bytes::from([&before[..], word.as_bytes(), b" "].concat());
        let update = Update::Description {
            description,
            membership: Membership::Basic,
            members_for: None,
            refers_to: Vec::new(),
        };
        match library.repository.update(&resource, &update).await {
            Ok(_) => return faster,
            Err(ResourceError::Moved(_)) => faster += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    runtime.block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if on_cassandra() { 4 } else { 16 }, ..ProptestConfig::default() })]

    #[test]
    fn every_acknowledged_write_is_there_once_and_in_its_writers_order(
        writers in prop::collection::vec(prop::collection::vec(0..4u8, 1..8), 2..5),
    ) {
        run(async move {
            let faulty = faulty().await;
            faulty.library.repository.create(&path(SHARED), &container()).await.unwrap();
            let writing = writers.iter().cloned().enumerate().map(|(writer, pauses)| {
                let library = faulty.library.clone();
                tokio::spawn(async move {
                    for (n, pause) in pauses.into_iter().enumerate() {
                        add(&library, SHARED, &format!("{writer}.{n}"), pause).await;
                    }
                })
            });
            for written in futures::future::join_all(writing).await {
                written.unwrap();
            }
            let text = said(&faulty.library, SHARED).await.unwrap();
            for (writer, pauses) in writers.iter().enumerate() {
                let prefix = format!("{writer}.");
                let words: Vec<_> = text.split_whitespace().filter(|word| word.starts_with(&prefix)).collect();
                let expected: Vec<_> = (0..pauses.len()).map(|n| format!("{writer}.{n}")).collect();
                assert_eq!(words, expected, "{text}");
            }
        });
    }

    #[test]
    fn children_that_are_created_break_no_writers_condition(creators in 1..4usize, each in 1..6usize) {
        run(async move {
            let faulty = faulty().await;
            faulty.library.repository.create(&path(SHARED), &container()).await.unwrap();
            let creating = (0..creators).map(|creator| {
                let library = faulty.library.clone();
                tokio::spawn(async move {
                    for n in 0..each {
                        create(&library, &format!("{SHARED}/{creator}.{n}"), "").await.unwrap();
                    }
                })
            });
            let writing = async {
                let mut faster = 0;
                for n in 0..6u8 {
                    faster += add(&faulty.library, SHARED, &n.to_string(), n).await;
                }
                faster
            };
            let (created, faster) = futures::join!(futures::future::join_all(creating), writing);
            created.into_iter().for_each(|created| created.unwrap());
            assert_eq!(faster, 0);
            assert_eq!(children(&faulty.library, &path(SHARED)).await.len(), creators * each);
        });
    }

    #[test]
    fn a_creation_that_races_with_the_deletion_of_its_parent_ends_as_one_of_the_two_orders(pauses in prop::collection::vec(0..6u8, 1..5)) {
        run(async move {
            let faulty = faulty().await;
            faulty.library.repository.create(&path("p"), &container()).await.unwrap();
            faulty.store.watch();
            let start = Arc::new(Barrier::new(pauses.len() + 1));
            let creating = pauses.iter().copied().enumerate().map(|(n, pause)| {
                let (library, start) = (faulty.library.clone(), start.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    for _ in 0..pause {
                        tokio::task::yield_now().await;
                    }
                    create(&library, &format!("p/{n}"), "").await
                })
            });
            let creating = futures::future::join_all(creating);
            let deleting = async {
                start.wait().await;
                delete(&faulty.library, "p").await.unwrap();
            };
            let (created, ()) = futures::join!(creating, deleting);
            for created in created {
                // Either before the deletion, and gone with the parent; or after it, and refused.
                assert!(matches!(created.unwrap(), Ok(()) | Err(ResourceError::Gone { .. })));
            }
            let all: Vec<_> = (0..pauses.len()).map(|n| format!("p/{n}")).collect();
            let all: Vec<_> = all.iter().map(String::as_str).collect();
            for at in &all {
                assert_eq!(said(&faulty.library, at).await, None);
            }
            assert_sound(&faulty.library, &faulty.clock, &all).await;
            for moment in faulty.store.take_moments() {
                there_at(moment, faulty.library.options(), &all).await;
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_over_the_real_engine_lose_no_update_either() {
    let fixture = fixture().await;
    fixture.library.repository.create(&path(SHARED), &container()).await.unwrap();
    let writing = (0..8).map(|writer| {
        let library = fixture.library.clone();
        tokio::spawn(async move {
            for n in 0..20 {
                add(&library, SHARED, &format!("{writer}.{n}"), 0).await;
            }
        })
    });
    futures::future::join_all(writing).await.into_iter().for_each(|written| written.unwrap());
    assert_eq!(said(&fixture.library, SHARED).await.unwrap().split_whitespace().count(), 160);
}
