//! The counter-examples of the containment protocol, named after its rules. Each test is a short
//! history in which, without that rule, the listing would differ from what exists, or an
//! acknowledged result would not hold.
//!
//! The rules on epochs (`twoepochs`, `epochreq`, `copyone`) have theirs in `../rewriting.rs` and
//! `../races.rs`, those of collecting in `../collecting/`. `fence`, `pinc` and `scanafter` have
//! further ones in `races.rs`, `jobfirst` and `jobfinish` in `deletions.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use heads::Mark;
use heads::{Head, ObjectState, keys};
use library::Library;
use repository::{ResourceError, ResourceResult};
use store::{ManualClock, Step, Table, UnixMillis};
use tokio::task::JoinHandle;

use super::tree::{OLD, assert_sound, children, container, create, delete, path, said, update};
use crate::support::memory::{Fault, Gate};
use crate::support::{Faulty, START, faulty, steps};

const PARENT: &str = "p";
const CHILD: &str = "p/child";

/// More steps than are ever run.
const NEVER: usize = usize::MAX;

async fn with_parent() -> Faulty {
    let faulty = faulty().await;
    faulty.library.repository.create(&path(PARENT), &container()).await.unwrap();
    faulty
}

/// The step that changes the head of a resource.
fn head_of(at: &str) -> impl Fn(usize, &Step) -> bool + Send + 'static {
    let partition = format!("r/{at}").into_bytes();
    move |_, step| matches!(step, Step::CompareAndWrite { partition: of, .. } if **of == *partition)
}

/// The n-th step that puts marks of children, from 0.
fn marks(n: usize) -> impl Fn(usize, &Step) -> bool + Send + 'static {
    let seen = AtomicUsize::new(0);
    move |_, step| matches!(step, Step::Put { table: Table::Children, .. }) && seen.fetch_add(1, Ordering::SeqCst) == n
}

/// The step that puts this mark on a child.
fn puts(mark: Mark) -> impl Fn(usize, &Step) -> bool + Send + 'static {
    move |_, step| {
        let Step::Put { table: Table::Children, rows, .. } = step else { return false };
        rows.iter().any(|row| keys::child_of(&row.sort).is_some_and(|(_, _, put)| put == mark))
    }
}

/// A creation of the child that pauses before a step.
async fn paused(
    faulty: &Faulty,
    before: impl Fn(usize, &Step) -> bool + Send + 'static,
) -> (Arc<Gate>, JoinHandle<ResourceResult<()>>) {
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), before);
    let library = faulty.library.clone();
    let creation = tokio::spawn(async move { create(&library, CHILD, "slow").await });
    gate.reached().await;
    (gate, creation)
}

async fn listed(library: &Library) -> Vec<String> {
    children(library, &path(PARENT)).await
}

/// Deletes the parent and creates another one in its place.
async fn parent_anew(library: &Library) {
    delete(library, PARENT).await.unwrap();
    library.repository.remove_tombstone(&path(PARENT)).await.unwrap();
    library.repository.create(&path(PARENT), &container()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn fence_a_creator_that_a_lister_took_for_dead_is_listed_when_it_goes_on() {
    let faulty = with_parent().await;
    let (gate, creation) = paused(&faulty, head_of(CHILD)).await;
    faulty.clock.advance(OLD);
    assert!(listed(&faulty.library).await.is_empty());
    gate.open();
    creation.await.unwrap().unwrap();
    assert_eq!(listed(&faulty.library).await, ["child"]);
    assert_sound(&faulty.library, &faulty.clock, &[CHILD]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn confirm_an_intent_is_not_trusted_however_old_it_is() {
    let faulty = with_parent().await;
    faulty.store.arm(Fault::Crash, head_of(CHILD));
    create(&faulty.library, CHILD, "never").await.unwrap_err();
    let library = faulty.reopened().await;
    for _ in 0..3 {
        assert!(listed(&library).await.is_empty());
        faulty.clock.advance(OLD * 1_000);
    }
    create(&library, CHILD, "again").await.unwrap();
    assert_sound(&library, &faulty.clock, &[CHILD]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delintent_a_deletion_that_died_before_its_last_mark_is_not_listed_at_any_time() {
    let faulty = with_parent().await;
    create(&faulty.library, CHILD, "").await.unwrap();
    faulty.store.arm(Fault::Crash, puts(Mark::Removed));
    delete(&faulty.library, CHILD).await.unwrap_err();
    let library = faulty.reopened().await;
    assert_eq!(said(&library, CHILD).await, None, "its head was switched");
    assert!(listed(&library).await.is_empty());
    assert_sound(&library, &faulty.clock, &[CHILD]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pinc_a_mark_that_arrives_when_there_is_another_parent_is_of_the_one_before() {
    let faulty = with_parent().await;
    faulty.store.arm(Fault::UnknownLate(NEVER), marks(1));
    create(&faulty.library, CHILD, "old").await.unwrap();
    parent_anew(&faulty.library).await;
    faulty.store.recover();
    assert!(listed(&faulty.library).await.is_empty());
    assert_eq!(said(&faulty.library, CHILD).await, None);
    create(&faulty.library, CHILD, "new").await.unwrap();
    assert_eq!(listed(&faulty.library).await, ["child"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keepfree_a_creation_that_arrives_after_its_tombstone_was_removed_is_refused() {
    let faulty = with_parent().await;
    faulty.store.arm(Fault::UnknownLate(NEVER), head_of(CHILD));
    // The retry succeeds while the first try is still on its way.
    create(&faulty.library, CHILD, "old").await.unwrap();
    delete(&faulty.library, CHILD).await.unwrap();
    faulty.library.repository.remove_tombstone(&path(CHILD)).await.unwrap();
    faulty.store.recover();
    assert_eq!(said(&faulty.library, CHILD).await, None);
    assert_sound(&faulty.library, &faulty.clock, &[CHILD]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn log_a_write_that_was_applied_unknown_and_replaced_at_once_is_acknowledged() {
    let faulty = with_parent().await;
    create(&faulty.library, CHILD, "first").await.unwrap();
    let gate = Gate::new();
    faulty.store.arm(Fault::HoldUnknown(gate.clone()), head_of(CHILD));
    let library = faulty.library.clone();
    let read = library.repository.resource(&path(CHILD)).await.unwrap();
    let writing = tokio::spawn(async move {
        let second = repository::Update::Description {
            description: "second".into(),
            membership: repository::Membership::Basic,
            members_for: None,
            refers_to: Vec::new(),
        };
        library.repository.update(&read, &second).await
    });
    gate.reached().await;
    update(&faulty.library, CHILD, "third").await.unwrap();
    gate.open();
    writing.await.unwrap().unwrap();
    assert_eq!(said(&faulty.library, CHILD).await.as_deref(), Some("third"));
}

#[tokio::test(flavor = "multi_thread")]
async fn relook_a_write_whose_second_try_is_refused_because_the_first_arrived_is_acknowledged() {
    for further in 0..4 {
        let faulty = with_parent().await;
        create(&faulty.library, CHILD, "first").await.unwrap();
        let read = faulty.library.repository.resource(&path(CHILD)).await.unwrap();
        faulty.store.arm(Fault::UnknownLate(further), head_of(CHILD));
        let second = repository::Update::Description {
            description: "second".into(),
            membership: repository::Membership::Basic,
            members_for: None,
            refers_to: Vec::new(),
        };
        faulty.library.repository.update(&read, &second).await.unwrap();
        assert_eq!(said(&faulty.library, CHILD).await.as_deref(), Some("second"), "after {further} steps");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn floorread_a_creator_whose_clock_is_behind_gets_above_the_fence() {
    let faulty = with_parent().await;
    faulty.store.arm(Fault::Crash, head_of(CHILD));
    create(&faulty.library, CHILD, "never").await.unwrap_err();
    let library = faulty.reopened().await;
    faulty.clock.advance(OLD);
    assert!(listed(&library).await.is_empty(), "which fences the name");
    let behind = Arc::new(ManualClock::new(UnixMillis(START.0 - 3_600_000)));
    let behind = Library::open(faulty.store.clone(), behind, library.options().clone()).await.unwrap();
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), head_of(CHILD));
    let creation = tokio::spawn(async move { create(&behind, CHILD, "again").await });
    gate.reached().await;
    // The intent has the time of the creator's clock, so it looks old. Without the rule, a listing
    // would find the present fence above it.
    assert!(listed(&library).await.is_empty());
    gate.open();
    creation.await.unwrap().unwrap();
    assert_eq!(said(&library, CHILD).await.as_deref(), Some("again"));
    assert_sound(&library, &faulty.clock, &[CHILD]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headfirst_a_creator_that_read_the_head_before_others_came_and_went_does_not_go_on_under_its_old_intent() {
    for is_announced in [false, true] {
        let faulty = with_parent().await;
        let (gate, creation) = match is_announced {
            false => paused(&faulty, marks(0)).await,
            true => paused(&faulty, head_of(CHILD)).await,
        };
        create(&faulty.library, CHILD, "quick").await.unwrap();
        delete(&faulty.library, CHILD).await.unwrap();
        faulty.library.repository.remove_tombstone(&path(CHILD)).await.unwrap();
        // A listing fences the intent, if there is one.
        faulty.clock.advance(OLD);
        assert!(listed(&faulty.library).await.is_empty());
        gate.open();
        let created = creation.await.unwrap();
        let said = said(&faulty.library, CHILD).await;
        assert_eq!(created.is_ok(), said.as_deref() == Some("slow"), "{created:?}, but {said:?}");
        assert_sound(&faulty.library, &faulty.clock, &[CHILD]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_those_that_arrive_after_the_child_was_removed_do_not_bring_it_back() {
    for late in [&[Mark::Added][..], &[Mark::Confirmed], &[Mark::Added, Mark::Confirmed]] {
        let faulty = with_parent().await;
        late.iter().for_each(|mark| faulty.store.arm(Fault::UnknownLate(NEVER), puts(*mark)));
        create(&faulty.library, CHILD, "").await.unwrap();
        delete(&faulty.library, CHILD).await.unwrap();
        assert!(listed(&faulty.library).await.is_empty());
        faulty.store.recover();
        assert!(listed(&faulty.library).await.is_empty(), "{late:?}");
        assert_sound(&faulty.library, &faulty.clock, &[CHILD]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reqlast_a_creator_that_paused_before_its_intent_does_not_come_to_a_parent_that_is_gone() {
    let faulty = with_parent().await;
    let (gate, creation) = paused(&faulty, marks(0)).await;
    parent_anew(&faulty.library).await;
    gate.open();
    // It was refused, or it restarted as a child of the new parent.
    let created = creation.await.unwrap();
    assert_eq!(created.is_ok(), said(&faulty.library, CHILD).await.is_some(), "{created:?}");
    assert_sound(&faulty.library, &faulty.clock, &[PARENT, CHILD]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killbefore_a_sweeper_that_died_after_it_wrote_off_a_child_has_fenced_it() {
    let faulty = with_parent().await;
    let (gate, creation) = paused(&faulty, head_of(CHILD)).await;
    faulty.clock.advance(OLD);
    // The sweep puts its mark after the fence; between the two the creator continues.
    let sweep = Gate::new();
    faulty.store.arm(Fault::Hold(sweep.clone()), marks(0));
    let library = faulty.library.clone();
    let listing = tokio::spawn(async move { listed(&library).await });
    sweep.reached().await;
    gate.open();
    creation.await.unwrap().unwrap();
    sweep.open();
    listing.await.unwrap();
    assert_eq!(listed(&faulty.library).await, ["child"]);
    assert_sound(&faulty.library, &faulty.clock, &[CHILD]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scanafter_what_is_created_until_the_parent_is_being_deleted_goes_with_it() {
    let faulty = with_parent().await;
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), head_of(PARENT));
    let library = faulty.library.clone();
    let deletion = tokio::spawn(async move { delete(&library, PARENT).await });
    gate.reached().await;
    create(&faulty.library, CHILD, "quick").await.unwrap();
    gate.open();
    deletion.await.unwrap().unwrap();
    let head = faulty.store.row(Table::Objects, &keys::resource_partition(&path(CHILD)), &keys::head()).unwrap();
    let head: Head = heads::head::open(Table::Objects, &head).unwrap();
    assert_eq!(head.state, ObjectState::Deleted, "nothing is left in it that nobody can reach");
    faulty.library.repository.remove_tombstone(&path(PARENT)).await.unwrap();
    faulty.library.repository.create(&path(PARENT), &container()).await.unwrap();
    assert!(listed(&faulty.library).await.is_empty());
    assert_eq!(said(&faulty.library, CHILD).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn ackintent_an_intent_that_was_lost_is_put_again() {
    for fault in [Fault::UnknownLost, Fault::UnknownApplied, Fault::UnknownLate(NEVER)] {
        let faulty = with_parent().await;
        faulty.store.arm(fault.clone(), marks(0));
        create(&faulty.library, CHILD, "").await.unwrap();
        assert_eq!(listed(&faulty.library).await, ["child"], "{fault:?}");
        assert_sound(&faulty.library, &faulty.clock, &[CHILD]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobfirst_and_jobfinish_a_deletion_that_died_after_any_step_is_ended_by_another_server() {
    for step in steps() {
        let faulty = with_parent().await;
        create(&faulty.library, CHILD, "").await.unwrap();
        faulty.store.arm(Fault::Crash, move |number, _| number == step);
        let deleted = delete(&faulty.library, PARENT).await;
        if faulty.store.steps() <= step {
            deleted.unwrap();
            assert!(step > 3, "a deletion has steps");
            return;
        }
        let library = faulty.reopened().await;
        library.repository.resume_deletions(Duration::ZERO).await.unwrap();
        match library.repository.remove_tombstone(&path(PARENT)).await {
            Ok(()) => assert_eq!(said(&library, CHILD).await, None, "after {step} steps"),
            // The creation did not begin.
            Err(error) => {
                assert!(matches!(error, ResourceError::Exists(_)), "after {step} steps: {error}");
                assert_eq!(listed(&library).await, ["child"], "after {step} steps");
            }
        }
    }
}
