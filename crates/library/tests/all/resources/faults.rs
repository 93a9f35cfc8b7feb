//! Each change with each fault at each of its steps: no change is half visible, no acknowledged
//! change is lost, no refused change is applied, and a failed change can be repeated.

use std::time::Duration;

use repository::{ResourceError, ResourceResult};

use super::tree::{assert_sound, container, create, delete, is_refusal, path, said, source, update};
use crate::support::memory::Fault;
use crate::support::{Faulty, faulty, sample, steps};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Create,
    CreateDeep,
    Update,
    Delete,
    DeleteContainer,
    Free,
    Over,
}

const PATHS: [&str; 6] = ["a", "a/s", "a/c", "a/c/d", "a/new", "x/y"];

impl Change {
    const ALL: [Change; 7] = [
        Change::Create,
        Change::CreateDeep,
        Change::Update,
        Change::Delete,
        Change::DeleteContainer,
        Change::Free,
        Change::Over,
    ];

    async fn prepared(self) -> Faulty {
        let faulty = faulty().await;
        create(&faulty.library, "a/s", "old").await.unwrap();
        create(&faulty.library, "a/c/d", "deep").await.unwrap();
        if matches!(self, Change::Free | Change::Over) {
            delete(&faulty.library, "a/s").await.unwrap();
        }
        faulty
    }

    async fn run(self, library: &library::Library) -> ResourceResult<()> {
        match self {
            Change::Create => create(library, "a/new", "new").await,
            Change::CreateDeep => create(library, "x/y", "new").await,
            Change::Update => update(library, "a/s", "new").await,
            Change::Delete => delete(library, "a/s").await,
            Change::DeleteContainer => delete(library, "a").await,
            Change::Free => library.repository.remove_tombstone(&path("a/s")).await,
            Change::Over => library.repository.create_over(&path("a/s"), &source("new")).await.map(|_| ()),
        }
    }

    /// Whether clients can see that the change was made.
    async fn is_done(self, library: &library::Library) -> bool {
        match self {
            Change::Create => said(library, "a/new").await.as_deref() == Some("new"),
            Change::CreateDeep => said(library, "x/y").await.as_deref() == Some("new"),
            Change::Update | Change::Over => said(library, "a/s").await.as_deref() == Some("new"),
            Change::Delete => said(library, "a/s").await.is_none(),
            Change::DeleteContainer => said(library, "a").await.is_none(),
            Change::Free => {
                matches!(library.repository.resource(&path("a/s")).await, Err(ResourceError::Absent(_)))
            }
        }
    }
}

async fn with_fault(change: Change, fault: Fault, step: usize) -> bool {
    let faulty = change.prepared().await;
    faulty.store.arm(fault.clone(), move |number, _| number == step);
    let outcome = change.run(&faulty.library).await;
    if faulty.store.steps() <= step {
        outcome.unwrap();
        return false;
    }
    let library = faulty.reopened().await;
    let context = format!("{change:?} with {fault:?} at step {step}: {outcome:?}");
    library.repository.resume_deletions(Duration::ZERO).await.unwrap();
    let done = change.is_done(&library).await;
    match &outcome {
        Ok(()) => assert!(done, "acknowledged and lost: {context}"),
        // A process that died has reported nothing to any client.
        Err(_) if matches!(fault, Fault::Crash) => {}
        Err(ResourceError::Deleting { .. }) => assert!(done, "acknowledged and lost: {context}"),
        // The parents may have been created.
        Err(error) => assert!(!done || !is_refusal(error), "refused and applied: {context}"),
    }
    assert_sound(&library, &faulty.clock, &PATHS).await;
    if change == Change::Over && !done {
        let there = library.repository.resource(&path("a/s")).await.map(|_| ());
        assert!(matches!(there, Err(ResourceError::Gone { .. })), "the tombstone stays: {there:?}, {context}");
    }
    if !done {
        change.run(&library).await.unwrap_or_else(|error| panic!("again, after {context}: {error}"));
        assert!(change.is_done(&library).await, "{context}");
    }
    assert_sound(&library, &faulty.clock, &PATHS).await;
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_fault_at_any_step_leaves_the_one_state_or_the_other() {
    let faults = [
        Fault::Crash,
        Fault::UnknownApplied,
        Fault::UnknownLost,
        Fault::UnknownLate(0),
        Fault::UnknownLate(1),
        Fault::UnknownLate(3),
        Fault::UnknownLate(20),
        Fault::Overloaded,
        Fault::Full,
    ];
    for change in Change::ALL {
        for fault in sample(&faults) {
            for step in steps() {
                if !with_fault(change, fault.clone(), step).await {
                    assert!(step > 0, "{change:?} has steps");
                    break;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_creation_of_something_that_is_there_says_so_and_changes_nothing() {
    let faulty = faulty().await;
    create(&faulty.library, "a", "first").await.unwrap();
    let again = faulty.library.repository.create(&path("a"), &container()).await;
    assert!(matches!(again, Err(ResourceError::Exists(_))));
    assert_eq!(said(&faulty.library, "a").await.as_deref(), Some("first"));
}
