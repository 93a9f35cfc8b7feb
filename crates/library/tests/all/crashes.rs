//! A real engine with injected faults: crashes between any two steps, a full disk, responses that
//! do not arrive.
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Fixture, fixture, id, import, listed, samples, texts, volume};
use heads::{LibraryOptions, ObjectsError};
use library::Library;
use store::faults::{Faults, Rates};
use store::{ManualClock, StoreError};
use volumes::Unchanged;

async fn with_faults(fixture: &Fixture) -> (Arc<Faults>, Library) {
    let faults = Arc::new(Faults::new(fixture.store.clone()));
    let clock: Arc<ManualClock> = fixture.clock.clone();
    let library = Library::open(faults.clone(), clock, LibraryOptions::default()).await.unwrap();
    (faults, library)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_any_number_of_steps_leaves_the_old_or_the_new() {
    let fixture = fixture().await;
    let (faults, library) = with_faults(&fixture).await;
    let (mut old, mut crashes) = (vec!["0".to_owned()], 0);
    import(&library, volume("t.a", &["0"])).await.unwrap();
    for steps in 0.. {
        let new = format!("{}", steps + 1);
        faults.crash_after_steps(steps);
        let result = import(&library, volume("t.a", &[&new])).await;
        let crashed = faults.is_crashed();
        faults.revive();
        let seen = texts(&library, &id("t.a")).await.unwrap();
        assert!(seen == [new.clone()] || (result.is_err() && seen == old), "after {steps} steps: {seen:?}");
        assert_eq!(listed(&library, 10).await, ["t.a"]);
        old = seen;
        crashes += usize::from(crashed);
        if !crashed {
            break;
        }
    }
    assert!(crashes > 0);
    // Then a deletion, and a creation under the same name.
    for steps in 0.. {
        faults.crash_after_steps(steps);
        let mut done = library.volumes.delete(&id("t.a")).await;
        if done.is_ok() {
            done = import(&library, volume("t.a", &["again"])).await.map(|_| ());
        }
        let crashed = faults.is_crashed();
        faults.revive();
        fixture.clock.advance(Duration::from_secs(120));
        let seen = texts(&library, &id("t.a")).await;
        let expected = if seen.is_ok() { vec!["t.a".to_owned()] } else { Vec::new() };
        assert_eq!(listed(&library, 10).await, expected, "after {steps} steps");
        assert!(done.is_err() || seen.unwrap() == ["again"]);
        import(&library, volume("t.a", &["0"])).await.unwrap();
        if !crashed {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_as_such_and_an_import_succeeds_once_there_is_room() {
    let fixture = fixture().await;
    let (faults, library) = with_faults(&fixture).await;
    faults.set_full(true);
    let error = import(&library, volume("t.a", &["one"])).await.unwrap_err();
    assert!(matches!(error, ObjectsError::Store(StoreError::Full(_))), "{error}");
    assert!(listed(&library, 10).await.is_empty());
    faults.set_full(false);
    import(&library, volume("t.a", &["one"])).await.unwrap();
    assert_eq!(listed(&library, 10).await, ["t.a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_come_in_whole_while_calls_fail_and_outcomes_stay_unknown_all_the_time() {
    for seed in 0..4 {
        let fixture = fixture().await;
        let (faults, library) = with_faults(&fixture).await;
        let rates = Rates { unavailable: 0.2, unknown_applied: 0.2, unknown_not_applied: 0.2, ..Rates::default() };
        faults.set_rates(seed, rates);
        let mut ids = Vec::new();
        for files in samples().into_iter().take(3) {
            library.volumes.import(files.open().unwrap(), Unchanged::Skip, |_| {}).await.unwrap();
            ids.push(files.id.unwrap());
        }
        library.volumes.delete(&ids[0]).await.unwrap();
        for id in &ids[1..] {
            // One of many reads may fail for good, but an unanswered read must never be reported as
            // damage.
            match library.volumes.verify(id).await {
                Ok(verified) => assert!(verified.damaged.is_empty(), "{verified:?}"),
                Err(error) => assert!(!error.is_damage(), "{error}"),
            }
        }
        faults.set_rates(seed, Rates::default());
        let mut expected: Vec<_> = ids[1..].iter().map(ToString::to_string).collect();
        expected.sort();
        assert_eq!(listed(&library, 10).await, expected);
        for id in &ids[1..] {
            assert!(library.volumes.verify(id).await.unwrap().damaged.is_empty());
            assert!(
                library
                    .volumes
                    .damaged_members(id, library.volumes.volume(id).await.unwrap().revision)
                    .await
                    .unwrap()
                    .is_empty()
            );
        }
        assert!(matches!(library.volumes.volume(&ids[0]).await, Err(ObjectsError::Gone(_))));
    }
}
