//! What no head names is condemned, kept for the grace and for pins, and then removed. What a head
//! names is never touched.

use std::collections::BTreeSet;
use std::time::Duration;

use heads::{LibraryOptions, ObjectsError};
use library::Library;
use store::{Clock, Table, UnixMillis};
use volumes::{CollectLimits, Collected, Pinned};

use super::common::{HOUR, collect, generations, records, revision};
use crate::support::memory::{Fault, Gate, switches_a_volume};
use crate::support::{faulty, id, import, listed, steps, texts, volume};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_volume_leaves_nothing_to_collect() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["one"])).await.unwrap();
    assert_eq!(records(&faulty), 0);
    assert_eq!(collect(&faulty.library).await, Collected::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_marks_are_collected_with_the_generation_they_are_of() {
    let faulty = faulty().await;
    let library = &faulty.library;
    import(library, volume("t.a", &["old"])).await.unwrap();
    library.volumes.mark_damaged(&id("t.a"), revision(library).await, 0, "seen").await.unwrap();
    let marks = || faulty.store.partitions(Table::Damage).len();
    assert_eq!(marks(), 1);
    import(library, volume("t.a", &["new"])).await.unwrap();
    assert_eq!(collect(library).await.condemned, 1);
    assert_eq!(marks(), 1);
    faulty.clock.advance(25 * HOUR);
    assert_eq!(collect(library).await.removed, 1);
    assert_eq!(marks(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_generation_is_kept_for_the_grace_then_removed() {
    let faulty = faulty().await;
    let library = &faulty.library;
    import(library, volume("t.a", &["old"])).await.unwrap();
    let old = revision(library).await;
    faulty.clock.advance(HOUR);
    import(library, volume("t.a", &["new"])).await.unwrap();
    let new = revision(library).await;
    assert_eq!(collect(library).await.condemned, 1);
    // The grace counts from the condemnation, not from the import.
    faulty.clock.advance(24 * HOUR - Duration::from_millis(1));
    assert_eq!(collect(library).await, Collected { volumes: 1, waiting: 1, ..Collected::default() });
    assert_eq!(generations(&faulty), BTreeSet::from([old, new]));
    faulty.clock.advance(Duration::from_millis(1));
    assert_eq!(collect(library).await.removed, 1);
    assert_eq!(generations(&faulty), BTreeSet::from([new]));
    assert_eq!(collect(library).await.finished, 1);
    assert_eq!(records(&faulty), 0);
    assert_eq!(texts(library, &id("t.a")).await.unwrap(), ["new"]);
    assert!(library.volumes.verify(&id("t.a")).await.unwrap().damaged.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_replaced_twice_within_a_grace_goes_in_two_graces() {
    let faulty = faulty().await;
    let library = &faulty.library;
    import(library, volume("t.a", &["1"])).await.unwrap();
    import(library, volume("t.a", &["2"])).await.unwrap();
    let second = revision(library).await;
    assert_eq!(collect(library).await.condemned, 1);
    import(library, volume("t.a", &["3"])).await.unwrap();
    let third = revision(library).await;
    faulty.clock.advance(24 * HOUR);
    // The same pass may also find its second record.
    let collected = collect(library).await;
    assert_eq!(collected.removed, 1);
    assert_eq!(generations(&faulty), BTreeSet::from([second, third]), "the head of the condemning is kept");
    assert_eq!(collected.condemned + collect(library).await.condemned, 1);
    faulty.clock.advance(24 * HOUR);
    assert_eq!(collect(library).await.removed, 1);
    assert_eq!(generations(&faulty), BTreeSet::from([third]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_volume_goes_and_its_name_can_be_used_again() {
    let faulty = faulty().await;
    let library = &faulty.library;
    import(library, volume("t.a", &["old"])).await.unwrap();
    let old = revision(library).await;
    library.volumes.delete(&id("t.a")).await.unwrap();
    assert_eq!(collect(library).await.condemned, 1);
    faulty.clock.advance(12 * HOUR);
    // The volume is imported again while the old revision is condemned.
    import(library, volume("t.a", &["again"])).await.unwrap();
    let again = revision(library).await;
    faulty.clock.advance(12 * HOUR);
    assert_eq!(collect(library).await.removed, 1);
    assert_eq!(generations(&faulty), BTreeSet::from([again]));
    let until = faulty.clock.now().plus(HOUR);
    let pinned = library.volumes.pin(&[(id("t.a"), old)], "too late", until).await.unwrap();
    assert_eq!(pinned, [Pinned::Lost], "the floor outlives the deletion");
    assert_eq!(texts(library, &id("t.a")).await.unwrap(), ["again"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crashed_import_left_goes_and_nothing_of_it_is_ever_seen() {
    let faulty = faulty().await;
    faulty.store.arm(Fault::Crash, |_, step| switches_a_volume(step));
    import(&faulty.library, volume("t.a", &["never"])).await.unwrap_err();
    let library = faulty.reopened().await;
    assert_eq!(generations(&faulty).len(), 1);
    assert_eq!(collect(&library).await.waiting, 1, "it may still be at work");
    faulty.clock.advance(24 * HOUR);
    assert_eq!(collect(&library).await.condemned, 1);
    faulty.clock.advance(24 * HOUR);
    assert_eq!(collect(&library).await.removed, 1);
    assert!(generations(&faulty).is_empty());
    assert_eq!(collect(&library).await.finished, 1);
    assert!(listed(&library, 10).await.is_empty());
    import(&library, volume("t.a", &["later"])).await.unwrap();
    assert_eq!(texts(&library, &id("t.a")).await.unwrap(), ["later"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn condcas_an_import_that_was_condemned_meanwhile_begins_anew() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), |_, step| switches_a_volume(step));
    let library = faulty.library.clone();
    let slow = tokio::spawn(async move { import(&library, volume("t.a", &["new"])).await });
    gate.reached().await;
    // The import slept for a day, and was taken for dead.
    faulty.clock.advance(24 * HOUR);
    assert_eq!(collect(&faulty.library).await.condemned, 1);
    let condemned = faulty.library.volumes.head(&id("t.a")).await.unwrap().unwrap().head.condemned.unwrap();
    gate.open();
    slow.await.unwrap().unwrap();
    assert!(revision(&faulty.library).await > condemned.floor);
    faulty.clock.advance(24 * HOUR);
    collect(&faulty.library).await;
    assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), ["new"]);
    assert!(faulty.library.volumes.verify(&id("t.a")).await.unwrap().damaged.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_what_was_condemned_leaves_an_import_that_is_at_work_alone() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["1"])).await.unwrap();
    import(&faulty.library, volume("t.a", &["2"])).await.unwrap();
    assert_eq!(collect(&faulty.library).await.condemned, 1);
    faulty.clock.advance(24 * HOUR);
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), |_, step| switches_a_volume(step));
    let library = faulty.library.clone();
    let slow = tokio::spawn(async move { import(&library, volume("t.a", &["3"])).await });
    gate.reached().await;
    assert_eq!(collect(&faulty.library).await.removed, 1);
    gate.open();
    slow.await.unwrap().unwrap();
    assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), ["3"]);
    assert!(faulty.library.volumes.verify(&id("t.a")).await.unwrap().damaged.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_head_of_the_condemning_is_kept_even_below_the_floor_for_plans_that_began_with_it() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["first"])).await.unwrap();
    let first = revision(&faulty.library).await;
    // A later import died. Its rows are above the head, and so is the floor.
    faulty.store.arm(Fault::Crash, |_, step| switches_a_volume(step));
    import(&faulty.library, volume("t.a", &["never"])).await.unwrap_err();
    let library = faulty.reopened().await;
    faulty.clock.advance(24 * HOUR);
    assert_eq!(collect(&library).await.condemned, 1);
    let floor = library.volumes.head(&id("t.a")).await.unwrap().unwrap().head.floor;
    assert!(floor > first);
    // A plan may start from the first revision until the moment it is replaced, at the end of the
    // grace.
    faulty.clock.advance(24 * HOUR);
    import(&library, volume("t.a", &["second"])).await.unwrap();
    assert_eq!(collect(&library).await.removed, 1);
    let second = revision(&library).await;
    assert_eq!(generations(&faulty), BTreeSet::from([first, second]));
    assert_eq!(collect(&library).await.condemned, 1);
    faulty.clock.advance(24 * HOUR);
    assert_eq!(collect(&library).await.removed, 1);
    assert_eq!(generations(&faulty), BTreeSet::from([second]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_revision_stays_until_its_selection_has_ended_for_every_reader() {
    let faulty = faulty().await;
    let library = &faulty.library;
    import(library, volume("t.a", &["old"])).await.unwrap();
    let old = revision(library).await;
    let until = faulty.clock.now().plus(72 * HOUR);
    assert_eq!(library.volumes.pin(&[(id("t.a"), old)], "s1", until).await.unwrap(), [Pinned::Held]);
    library.volumes.delete(&id("t.a")).await.unwrap();
    for _ in 0..84 {
        faulty.clock.advance(HOUR);
        collect(library).await;
        assert!(generations(&faulty).contains(&old), "a plan that began at the very end may read on");
    }
    // The end, the life of a plan and the clock skew have passed; then it takes a grace.
    faulty.clock.advance(HOUR);
    assert_eq!(collect(library).await.condemned, 1);
    faulty.clock.advance(24 * HOUR);
    assert_eq!(collect(library).await.removed, 1);
    assert!(generations(&faulty).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_put_while_the_grace_runs_out_is_refused_and_one_put_before_holds() {
    let faulty = faulty().await;
    let library = &faulty.library;
    import(library, volume("t.a", &["old"])).await.unwrap();
    let old = revision(library).await;
    import(library, volume("t.a", &["new"])).await.unwrap();
    let new = revision(library).await;
    let until = UnixMillis(u64::MAX / 2);
    let pin = async |revision, name: &str| library.volumes.pin(&[(id("t.a"), revision)], name, until).await.unwrap()[0];
    assert_eq!(pin(old, "superseded, but nobody condemned it").await, Pinned::Held);
    library.volumes.unpin(&[id("t.a")], "superseded, but nobody condemned it").await.unwrap();
    collect(library).await;
    assert_eq!(pin(old, "condemned").await, Pinned::Lost);
    assert_eq!(pin(new, "current").await, Pinned::Held);
    library.volumes.unpin(&[id("t.a")], "condemned").await.unwrap();
    faulty.clock.advance(24 * HOUR);
    assert_eq!(collect(library).await.removed, 1);
    assert_eq!(pin(old, "collected").await, Pinned::Lost);
    let never = library.volumes.pin(&[(id("t.never"), new)], "never there", until).await.unwrap();
    assert_eq!(never, [Pinned::Lost]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_put_between_the_collectors_look_at_the_pins_and_its_condemning_holds() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
    let old = revision(&faulty.library).await;
    import(&faulty.library, volume("t.a", &["new"])).await.unwrap();
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), |_, step| switches_a_volume(step));
    let library = faulty.library.clone();
    let collecting = tokio::spawn(async move { collect(&library).await });
    gate.reached().await;
    let pin = faulty.library.volumes.pin(&[(id("t.a"), old)], "s1", UnixMillis(u64::MAX / 2)).await.unwrap();
    assert_eq!(pin, [Pinned::Held]);
    gate.open();
    assert_eq!(collecting.await.unwrap().condemned, 1);
    for _ in 0..3 {
        faulty.clock.advance(24 * HOUR);
        collect(&faulty.library).await;
        assert!(generations(&faulty).contains(&old));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_pins_take_a_few_calls_and_are_answered_in_order() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["one"])).await.unwrap();
    let now = revision(&faulty.library).await;
    let mut volumes: Vec<_> = (0..1_200).map(|n| (id(&format!("t.absent{n}")), now)).collect();
    volumes[700] = (id("t.a"), now);
    let pinned = faulty.library.volumes.pin(&volumes, "s", faulty.clock.now().plus(HOUR)).await.unwrap();
    let held: Vec<_> = (0..1_200).filter(|n| pinned[*n] == Pinned::Held).collect();
    assert_eq!((pinned.len(), held), (1_200, vec![700]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_of_collecting_is_made_good_by_the_next_pass() {
    for at in steps() {
        let faulty = faulty().await;
        import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
        import(&faulty.library, volume("t.a", &["new"])).await.unwrap();
        let current = revision(&faulty.library).await;
        faulty.store.arm(Fault::Crash, move |number, _| number == at);
        for _ in 0..3 {
            // A dead process gets errors.
            let _ = faulty.library.volumes.collect_once(CollectLimits::default()).await;
            faulty.clock.advance(24 * HOUR);
        }
        let reached = faulty.store.steps() > at;
        let library = faulty.reopened().await;
        for _ in 0..4 {
            collect(&library).await;
            faulty.clock.advance(24 * HOUR);
        }
        assert_eq!(generations(&faulty), BTreeSet::from([current]), "crash at step {at}");
        assert_eq!(records(&faulty), 0, "crash at step {at}");
        assert_eq!(texts(&library, &id("t.a")).await.unwrap(), ["new"]);
        if !reached {
            assert!(at >= 6, "condemn, four removals, lift, forget");
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_pass_changes_no_more_volumes_than_it_may() {
    let faulty = faulty().await;
    for n in 0..5 {
        let name = format!("t.v{n}");
        import(&faulty.library, volume(&name, &["old"])).await.unwrap();
        import(&faulty.library, volume(&name, &["new"])).await.unwrap();
    }
    let condemned =
        async || faulty.library.volumes.collect_once(CollectLimits { volumes_max: 2 }).await.unwrap().condemned;
    assert_eq!((condemned().await, condemned().await, condemned().await, condemned().await), (2, 2, 1, 0));
}

#[tokio::test]
async fn a_grace_that_would_let_a_stream_lose_its_rows_is_refused() {
    let faulty = faulty().await;
    let options = LibraryOptions { grace: Duration::from_secs(12 * 3_600 + 300), ..LibraryOptions::default() };
    let refused = Library::open(faulty.store.clone(), faulty.clock.clone(), options).await;
    assert!(matches!(refused, Err(ObjectsError::Invalid(_))));
}
