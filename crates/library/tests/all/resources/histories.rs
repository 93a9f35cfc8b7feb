//! Random histories: changes in a small tree, faults at random steps, writes that arrive long after
//! their writer has died, resumed jobs, and time. At every moment the listing has exactly what
//! exists, and every acknowledged change is visible.

use std::time::Duration;

use proptest::prelude::*;

use super::tree::{assert_sound, create, delete, path, said, there_at, update};
use crate::support::faulty;
use crate::support::memory::Fault;

const PATHS: [&str; 4] = ["p/a", "p/b", "p/q/a", "r"];
const ALL: [&str; 6] = ["p", "p/a", "p/b", "p/q", "p/q/a", "r"];

#[derive(Clone, Debug)]
enum Op {
    Create(usize, u8),
    Update(usize, u8),
    Delete(usize),
    Free(usize),
    Resume,
    Wait(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..PATHS.len(), any::<u8>()).prop_map(|(at, text)| Op::Create(at, text)),
        2 => (0..PATHS.len(), any::<u8>()).prop_map(|(at, text)| Op::Update(at, text)),
        3 => (0..ALL.len()).prop_map(Op::Delete),
        3 => (0..ALL.len()).prop_map(Op::Free),
        1 => Just(Op::Resume),
        1 => (1..200u8).prop_map(Op::Wait),
    ]
}

fn fault() -> impl Strategy<Value = Option<(usize, Fault)>> {
    let fault = prop_oneof![
        2 => Just(Fault::Crash),
        1 => Just(Fault::UnknownApplied),
        1 => Just(Fault::UnknownLost),
        3 => (0..40usize).prop_map(Fault::UnknownLate),
        1 => Just(Fault::Overloaded),
    ];
    proptest::option::of((0..12usize, fault))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_what_is_listed_is_what_is_there(history in prop::collection::vec((op(), fault()), 1..14)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let faulty = faulty().await;
            faulty.store.watch();
            let mut library = faulty.library.clone();
            for (op, fault) in history {
                if let Some((step, fault)) = fault {
                    faulty.store.arm(fault, move |number, _| number == step);
                }
                let (at, outcome, expected) = match &op {
                    Op::Create(at, text) => (PATHS[*at], create(&library, PATHS[*at], &text.to_string()).await, Some(text.to_string())),
                    Op::Update(at, text) => (PATHS[*at], update(&library, PATHS[*at], &text.to_string()).await, Some(text.to_string())),
                    Op::Delete(at) => (ALL[*at], delete(&library, ALL[*at]).await, None),
                    Op::Free(at) => (ALL[*at], library.repository.remove_tombstone(&path(ALL[*at])).await, None),
                    Op::Resume => {
                        let _ = library.repository.resume_deletions(Duration::ZERO).await;
                        faulty.store.restart();
                        continue;
                    }
                    Op::Wait(seconds) => {
                        faulty.clock.advance(Duration::from_secs(u64::from(*seconds)));
                        continue;
                    }
                };
                // A process that died is started again; late writes are still on their way.
                faulty.store.restart();
                library = library::Library::open(faulty.store.clone(), faulty.clock.clone(), library.options().clone()).await.unwrap();
                if let Ok(()) = outcome {
                    assert_eq!(said(&library, at).await, expected, "acknowledged: {op:?}");
                }
            }
            let library = faulty.reopened().await;
            library.repository.resume_deletions(Duration::ZERO).await.unwrap();
            assert_sound(&library, &faulty.clock, &ALL).await;
            for moment in faulty.store.take_moments() {
                there_at(moment, library.options(), &ALL).await;
            }
        });
    }
}
