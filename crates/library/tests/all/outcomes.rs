//! Each change of a volume, with each fault at each of its steps: no change is half visible, no
//! acknowledged change is lost, no refused change is applied, and a failed change can be repeated.
use std::time::Duration;

use crate::support::memory::Fault;
use crate::support::{Faulty, faulty, id, import, listed, sample, steps, texts, volume};
use heads::{ObjectsError, ObjectsResult};
use volumes::Unchanged;

const OLD: [&str; 2] = ["old one", "old two"];
const NEW: [&str; 3] = ["new one", "", "new three"];

/// A change of the volume.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Create,
    Replace,
    CreateAgain,
    Delete,
}

impl Change {
    const ALL: [Change; 4] = [Change::Create, Change::Replace, Change::CreateAgain, Change::Delete];

    async fn prepared(self) -> Faulty {
        let faulty = faulty().await;
        if self != Change::Create {
            import(&faulty.library, volume("t.a", &OLD)).await.unwrap();
        }
        if self == Change::CreateAgain {
            faulty.library.volumes.delete(&id("t.a")).await.unwrap();
        }
        faulty
    }

    async fn run(self, library: &library::Library) -> ObjectsResult<()> {
        match self {
            Change::Delete => library.volumes.delete(&id("t.a")).await,
            _ => import(library, volume("t.a", &NEW)).await.map(|_| ()),
        }
    }

    /// The texts before; `None` if the volume does not exist.
    fn before(self) -> Option<Vec<String>> {
        matches!(self, Change::Replace | Change::Delete).then(|| owned(&OLD))
    }

    fn after(self) -> Option<Vec<String>> {
        (self != Change::Delete).then(|| owned(&NEW))
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Returns what clients see. The listing must have exactly what can be read.
async fn seen(library: &library::Library) -> Option<Vec<String>> {
    let seen = match texts(library, &id("t.a")).await {
        Ok(texts) => Some(texts),
        Err(ObjectsError::Absent(_) | ObjectsError::Gone(_)) => None,
        Err(error) => panic!("{error}"),
    };
    let expected = if seen.is_some() { vec!["t.a".to_owned()] } else { Vec::new() };
    assert_eq!(listed(library, 10).await, expected, "what is listed is what can be read");
    seen
}

/// Runs a change with a fault at its step `at`. Returns false if it has fewer steps.
async fn with_fault(change: Change, at: usize, fault: Fault) -> bool {
    let context = format!("{change:?} with {fault:?} at step {at}");
    let faulty = change.prepared().await;
    faulty.store.arm(fault.clone(), move |number, _| number == at);
    let result = change.run(&faulty.library).await;
    if faulty.store.steps() <= at {
        return false;
    }
    let library = faulty.reopened().await;
    // Old enough for a sweep.
    faulty.clock.advance(Duration::from_secs(120));
    let now = seen(&library).await;
    match &result {
        Ok(()) => assert_eq!(now, change.after(), "acknowledged, {context}"),
        Err(_) if matches!(fault, Fault::Crash) => {
            assert!(now == change.before() || now == change.after(), "the one or the other, {context}: {now:?}");
        }
        // An earlier try without a response could still arrive, and on a full disk no writer can
        // make sure that it does.
        Err(ObjectsError::Unknown(_)) if matches!(fault, Fault::Full) => assert_eq!(now, change.before(), "{context}"),
        Err(ObjectsError::Unknown(_)) => panic!("it can be found out, {context}"),
        Err(_) => assert_eq!(now, change.before(), "refused, {context}"),
    }
    let passing = !matches!(fault, Fault::Crash | Fault::Full);
    assert!(!passing || result.is_ok(), "one passing fault is survived, {context}: {result:?}");
    assert_eq!(seen(&library).await, now, "a sweep changes nothing that is seen, {context}");

    match change.run(&library).await {
        Ok(()) => {}
        Err(ObjectsError::Gone(_)) if change == Change::Delete => {}
        Err(error) => panic!("done again, {context}: {error}"),
    }
    assert_eq!(seen(&library).await, change.after(), "done again, {context}");
    assert!(library.statistics().await.unwrap().damaged_volumes == 0);
    true
}

async fn at_each_step(fault: Fault) {
    for change in Change::ALL {
        for at in steps() {
            if !with_fault(change, at, fault.clone()).await {
                assert!(at >= 3, "{change:?} has {at} steps");
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_before_any_step_leaves_the_old_or_the_new() {
    at_each_step(Fault::Crash).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_that_was_applied_is_found_out() {
    at_each_step(Fault::UnknownApplied).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_that_was_lost_is_done_again() {
    at_each_step(Fault::UnknownLost).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_that_arrives_late_is_taken_once() {
    for further in sample([1, 2, 4]) {
        at_each_step(Fault::UnknownLate(further)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_and_leaves_the_old() {
    at_each_step(Fault::Full).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passing_refusal_is_tried_again() {
    at_each_step(Fault::Overloaded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_of_many_steps_is_invisible_until_its_head_is_switched() {
    // Text that hardly compresses, so that the packs fill several steps of 4 MiB.
    let mut state = 1u64;
    let mut noise = |len: usize| -> String {
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + (state >> 33) as u8 % 90)
        };
        std::iter::repeat_with(next).take(len).collect()
    };
    let pages: Vec<String> = (0..12).map(|_| noise(1 << 20)).collect();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let count = {
        let faulty = faulty().await;
        faulty.store.arm(Fault::Overloaded, |_, _| false);
        import(&faulty.library, volume("t.big", &pages)).await.unwrap();
        assert_eq!(texts(&faulty.library, &id("t.big")).await.unwrap(), owned(&pages));
        faulty.store.steps()
    };
    assert!(count > 7, "several steps of rows, {count} in all");
    for at in sample([1, 2, 3]) {
        let faulty = faulty().await;
        faulty.store.arm(Fault::Crash, move |number, _| number == at);
        import(&faulty.library, volume("t.big", &pages)).await.unwrap_err();
        let library = faulty.reopened().await;
        assert!(matches!(library.volumes.volume(&id("t.big")).await, Err(ObjectsError::Absent(_))));
        assert!(listed(&library, 10).await.is_empty());
        library.volumes.import(volume("t.big", &pages), Unchanged::Skip, |_| {}).await.unwrap();
        assert_eq!(texts(&library, &id("t.big")).await.unwrap(), owned(&pages));
    }
}
