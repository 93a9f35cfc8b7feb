//! Several writers of the same volume at once: one wins, and the others get an error.
use std::time::Duration;

use crate::support::memory::{Fault, Gate, switches_a_volume};
use crate::support::{Faulty, faulty, id, import, listed, texts, volume};
use heads::container_body::ShardEpochs;
use heads::{Body, ContainerBody, Head, HeadRow, ObjectsError, keys};
use store::{Call, Class, Deadline, Expect, Stamp, Step, Store, Table};
use volumes::Imported;

/// Starts an import that waits before it switches the head.
async fn held_import(
    faulty: &Faulty,
    pages: &'static [&'static str],
) -> (std::sync::Arc<Gate>, tokio::task::JoinHandle<heads::ObjectsResult<Imported>>) {
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), |_, step| switches_a_volume(step));
    let library = faulty.library.clone();
    let import = tokio::spawn(async move { import(&library, volume("t.a", pages)).await });
    gate.reached().await;
    (gate, import)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_importers_of_a_new_volume_one_wins_and_the_other_is_told() {
    let faulty = faulty().await;
    let (gate, slow) = held_import(&faulty, &["slow"]).await;
    assert!(matches!(import(&faulty.library, volume("t.a", &["fast"])).await.unwrap(), Imported::New { .. }));
    gate.open();
    assert!(matches!(slow.await.unwrap(), Err(ObjectsError::Conflict(_))));
    assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), ["fast"]);
    assert_eq!(listed(&faulty.library, 10).await, ["t.a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_importers_that_replace_one_wins_and_the_other_is_told() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["first"])).await.unwrap();
    let (gate, slow) = held_import(&faulty, &["slow"]).await;
    assert!(matches!(import(&faulty.library, volume("t.a", &["fast"])).await.unwrap(), Imported::Replaced { .. }));
    gate.open();
    assert!(matches!(slow.await.unwrap(), Err(ObjectsError::Conflict(_))));
    assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), ["fast"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_was_applied_unknown_and_replaced_at_once_is_acknowledged() {
    let faulty = faulty().await;
    let gate = Gate::new();
    faulty.store.arm(Fault::HoldUnknown(gate.clone()), |_, step| switches_a_volume(step));
    let library = faulty.library.clone();
    let unsure = tokio::spawn(async move { import(&library, volume("t.a", &["first"])).await });
    gate.reached().await;
    assert!(matches!(import(&faulty.library, volume("t.a", &["second"])).await.unwrap(), Imported::Replaced { .. }));
    gate.open();
    // Its revision is only in the head log.
    assert!(matches!(unsure.await.unwrap().unwrap(), Imported::New { .. }));
    assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), ["second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_wins_over_a_slow_replacement_and_a_replacement_does_not_stop_a_deletion() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["first"])).await.unwrap();
    let (gate, slow) = held_import(&faulty, &["slow"]).await;
    faulty.library.volumes.delete(&id("t.a")).await.unwrap();
    gate.open();
    assert!(matches!(slow.await.unwrap(), Err(ObjectsError::Conflict(_))));
    assert!(listed(&faulty.library, 10).await.is_empty());

    import(&faulty.library, volume("t.a", &["second"])).await.unwrap();
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), |_, step| switches_a_volume(step));
    let library = faulty.library.clone();
    let deletion = tokio::spawn(async move { library.volumes.delete(&id("t.a")).await });
    gate.reached().await;
    assert!(matches!(import(&faulty.library, volume("t.a", &["third"])).await.unwrap(), Imported::Replaced { .. }));
    gate.open();
    deletion.await.unwrap().unwrap();
    assert!(matches!(faulty.library.volumes.volume(&id("t.a")).await, Err(ObjectsError::Gone(_))));
    assert!(listed(&faulty.library, 10).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creator_that_a_sweep_took_for_dead_begins_anew_and_is_listed() {
    let faulty = faulty().await;
    let (gate, slow) = held_import(&faulty, &["slow"]).await;
    assert!(listed(&faulty.library, 10).await.is_empty(), "an intent alone is nothing");
    faulty.clock.advance(Duration::from_secs(120));
    assert!(listed(&faulty.library, 10).await.is_empty(), "now it was swept");
    gate.open();
    assert!(matches!(slow.await.unwrap().unwrap(), Imported::New { .. }));
    assert_eq!(listed(&faulty.library, 10).await, ["t.a"]);
    assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), ["slow"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_live_volume_that_was_settled_never_arrives() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["first"])).await.unwrap();
    let (gate, slow) = held_import(&faulty, &["slow"]).await;
    let heads = &faulty.library.heads;
    let (partition, pending) = (keys::volume_partition(&id("t.a")), heads.revisions().mint());
    assert!(!heads.settle_change(&partition, pending).await.unwrap());
    assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), ["first"], "readers see no change");
    gate.open();
    let Imported::Replaced { revision, .. } = slow.await.unwrap().unwrap() else { panic!("it replaces") };
    assert!(revision > pending, "its writer began anew");
    assert!(!heads.settle_change(&partition, pending).await.unwrap());
    assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), ["slow"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_arrived_is_found_by_settling_it_also_after_it_was_replaced() {
    let faulty = faulty().await;
    let heads = &faulty.library.heads;
    let partition = keys::volume_partition(&id("t.a"));
    let mut revisions = Vec::new();
    for texts in [["first"], ["second"]] {
        import(&faulty.library, volume("t.a", &texts)).await.unwrap();
        revisions.push(faulty.library.volumes.volume(&id("t.a")).await.unwrap().revision);
    }
    for revision in revisions {
        assert!(heads.settle_change(&partition, revision).await.unwrap());
    }
    assert!(!heads.settle_change(&keys::volume_partition(&id("t.b")), heads.revisions().mint()).await.unwrap());
    assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), ["second"]);
    // A fenced name can be used.
    assert!(matches!(import(&faulty.library, volume("t.b", &["new"])).await.unwrap(), Imported::New { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_gives_up_once_the_time_for_a_switch_has_passed() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["first"])).await.unwrap();
    let (clock, began) = (faulty.clock.clone(), faulty.library.heads.now());
    faulty.store.arm(Fault::Overloaded, move |_, step| {
        let is_switch = switches_a_volume(step);
        clock.advance(if is_switch { Duration::from_secs(60) } else { Duration::ZERO });
        is_switch
    });
    let refused = faulty.library.volumes.delete(&id("t.a")).await.unwrap_err();
    assert!(matches!(refused, ObjectsError::Unknown(_)), "{refused}");
    assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), ["first"], "no second try was made");
    assert!(faulty.library.heads.horizon() < began, "its last call may still be under way");
    faulty.clock.advance(faulty.library.options().clock_skew_max + Duration::from_secs(11));
    assert!(faulty.library.heads.horizon() > began);
    faulty.library.volumes.delete(&id("t.a")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_young_intent_is_left_alone_by_a_sweep() {
    let faulty = faulty().await;
    let (gate, slow) = held_import(&faulty, &["slow"]).await;
    listed(&faulty.library, 10).await;
    let steps = faulty.store.steps();
    gate.open();
    slow.await.unwrap().unwrap();
    // The head, the confirmation, the deleted record: nothing was done twice.
    assert_eq!(faulty.store.steps() - steps, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creator_whose_shard_is_being_rewritten_marks_the_next_epoch_too() {
    let faulty = faulty().await;
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), |_, step| matches!(step, Step::Require { .. }));
    let library = faulty.library.clone();
    let slow = tokio::spawn(async move { import(&library, volume("t.a", &["slow"])).await });
    gate.reached().await;
    name_next_epochs(&faulty).await;
    gate.open();
    assert!(matches!(slow.await.unwrap().unwrap(), Imported::New { .. }));
    assert_eq!(listed(&faulty.library, 10).await, ["t.a"], "the marks of both epochs are united");
    let head = container(&faulty).await.head;
    let marks = |shard, epoch| {
        let partition = keys::children_partition("volumes", head.incarnation, shard, epoch);
        let sorts = faulty.store.sorts(Table::Children, &partition);
        sorts.iter().filter(|sort| **sort >= keys::first_child()).count()
    };
    let of_epoch = |epoch| (0..16).map(|shard| marks(shard, epoch)).sum::<usize>();
    assert_eq!((of_epoch(0), of_epoch(1)), (1, 2), "the old intent; intent and confirmation");
}

async fn container(faulty: &Faulty) -> HeadRow {
    let partition = keys::container_partition("volumes");
    let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(60)));
    let row = faulty.store.get(call, Table::Objects, &partition, &keys::head()).await.unwrap().unwrap();
    HeadRow::open(&row).unwrap()
}

/// The first step of a rewriter, for all shards.
async fn name_next_epochs(faulty: &Faulty) {
    let HeadRow { head, stamp } = container(faulty).await;
    let rewritten = (0..16).map(|shard| ShardEpochs { shard, current: 0, next: Some(1) }).collect();
    let head = Head { body: Body::Container(ContainerBody { rewritten, ..ContainerBody::new(16) }), ..head };
    let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(60)));
    let step = Step::CompareAndWrite {
        table: Table::Objects,
        partition: keys::container_partition("volumes"),
        sort: keys::head(),
        expect: Expect::Stamp(stamp),
        guard: head.guard(Stamp::fresh(), heads::Rules::default()),
        value: head.seal().unwrap(),
    };
    assert!(faulty.store.run(call, vec![step]).await.unwrap().is_applied());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_leave_what_one_of_them_made() {
    let faulty = faulty().await;
    for round in 0..10 {
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let library = faulty.library.clone();
                tokio::spawn(async move {
                    match n % 4 {
                        0 => library.volumes.delete(&id("t.a")).await,
                        1 => library.volumes.list(None, 10).await.map(|_| ()),
                        _ => {
                            let text = format!("{round} {n}");
                            import(&library, volume("t.a", &[&text, &text])).await.map(|_| ())
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            match task.await.unwrap() {
                Ok(()) | Err(ObjectsError::Conflict(_) | ObjectsError::Gone(_) | ObjectsError::Absent(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let texts = texts(&faulty.library, &id("t.a")).await;
        let expected = if texts.is_ok() { vec!["t.a".to_owned()] } else { Vec::new() };
        assert_eq!(listed(&faulty.library, 10).await, expected);
        if let Ok(texts) = texts {
            assert_eq!(texts[0], texts[1], "of one import");
        }
    }
}
