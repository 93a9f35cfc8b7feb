//! Random histories: changes, faults at random steps, writes that arrive long after their writer
//! has died, collecting and time.
//!
//! In every history clients see all that was acknowledged, complete; pinned revisions stay
//! readable; and at every moment the listing has exactly the volumes that exist.
use std::sync::Arc;
use std::time::Duration;

use crate::support::memory::Fault;
use crate::support::{Faulty, START, faulty_with, id, import, listed, texts, texts_at, volume};
use heads::{LibraryOptions, ObjectsError};
use library::Library;
use proptest::prelude::*;
use store::{Clock, ManualClock};
use volumes::{CollectLimits, Imported, Pinned, Volume};

/// One operation.
#[derive(Clone, Debug)]
enum Op {
    Import(u8),
    Delete,
    List,
    Collect,
    Verify,
    Pin,
    Hours(u8),
}

/// Faults at steps of an operation.
type Faults = Vec<(usize, Fault)>;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => any::<u8>().prop_map(Op::Import),
        2 => Just(Op::Delete),
        1 => Just(Op::List),
        3 => Just(Op::Collect),
        1 => Just(Op::Verify),
        1 => Just(Op::Pin),
        3 => (1..30u8).prop_map(Op::Hours),
    ]
}

fn faults() -> impl Strategy<Value = Faults> {
    let fault = prop_oneof![
        2 => Just(Fault::Crash),
        1 => Just(Fault::UnknownApplied),
        1 => Just(Fault::UnknownLost),
        3 => (0..40usize).prop_map(Fault::UnknownLate),
        1 => Just(Fault::Overloaded),
        1 => Just(Fault::Full),
    ];
    proptest::collection::vec((0..9usize, fault), 0..3)
}

/// The expected state of the one volume.
struct History {
    faulty: Faulty,
    /// What clients saw last.
    current: Option<Vec<String>>,
    /// What clients may see later, because an operation that died or gave up may have requested it.
    possible: Vec<Option<Vec<String>>>,
    /// The pinned revisions, with their texts.
    pinned: Vec<(Volume, Vec<String>)>,
    pins: u32,
}

impl History {
    async fn new() -> Self {
        let faulty = faulty_with(LibraryOptions { shards: 1, ..LibraryOptions::default() }).await;
        faulty.store.watch();
        Self { faulty, current: None, possible: Vec::new(), pinned: Vec::new(), pins: 0 }
    }

    /// Runs one operation. If it is acknowledged, returns whether it changed the volume.
    async fn run(&mut self, op: &Op, library: &Library) -> Result<bool, ObjectsError> {
        let now = self.faulty.clock.now();
        match op {
            Op::Import(n) => {
                let imported = import(library, volume("t.a", &as_str(&pages(*n)))).await?;
                return Ok(!matches!(imported, Imported::Unchanged { .. }));
            }
            Op::Delete => return library.volumes.delete(&id("t.a")).await.map(|()| true),
            Op::List => _ = library.volumes.list(None, 10).await?,
            Op::Collect => _ = library.volumes.collect_once(CollectLimits::default()).await?,
            Op::Verify => {
                let verified = library.volumes.verify(&id("t.a")).await?;
                assert!(verified.damaged.is_empty(), "what is whole was found damaged: {verified:?}");
            }
            Op::Pin => {
                let volume = library.volumes.volume(&id("t.a")).await?;
                self.pins += 1;
                let until = now.plus(Duration::from_secs(365 * 86_400));
                let pins = [(volume.id.clone(), volume.revision)];
                if library.volumes.pin(&pins, &format!("s{}", self.pins), until).await? == [Pinned::Held] {
                    let texts = texts_at(library, &volume).await?;
                    self.pinned.push((volume, texts));
                }
            }
            Op::Hours(hours) => self.faulty.clock.advance(Duration::from_secs(3_600) * u32::from(*hours)),
        }
        Ok(false)
    }

    fn outcome(op: &Op) -> Option<Option<Vec<String>>> {
        match op {
            Op::Import(n) => Some(Some(pages(*n))),
            Op::Delete => Some(None),
            _ => None,
        }
    }

    async fn step(&mut self, op: &Op, faults: &Faults) {
        for (at, fault) in faults.iter().cloned() {
            self.faulty.store.arm(fault, move |number, _| number >= at);
        }
        let library = self.faulty.library.clone();
        let result = self.run(op, &library).await;
        self.faulty.store.restart();
        if let Some(outcome) = Self::outcome(op) {
            match result {
                Ok(changed) => {
                    assert_eq!(self.seen().await, outcome, "acknowledged: {op:?} {faults:?}");
                    self.current = outcome;
                    if changed {
                        // A writer that compared with an earlier head is refused for good.
                        self.possible.clear();
                    }
                }
                Err(ObjectsError::Absent(_) | ObjectsError::Gone(_) | ObjectsError::Conflict(_)) => {}
                Err(_) => self.possible.push(outcome),
            }
        }
        self.check().await;
        self.check_moments().await;
    }

    /// Asserts that at every moment until now the listing had exactly the volumes that existed,
    /// both before a sweep and after everything was swept that could be.
    async fn check_moments(&self) {
        for moment in self.faulty.store.take_moments() {
            for now in [START, START.plus(Duration::from_secs(86_400))] {
                let (clock, options) = (Arc::new(ManualClock::new(now)), self.faulty.library.options().clone());
                let library = Library::open(moment.clone(), clock, options).await.unwrap();
                let is_there = match library.volumes.volume(&id("t.a")).await {
                    Ok(_) => true,
                    Err(ObjectsError::Absent(_) | ObjectsError::Gone(_)) => false,
                    Err(error) => panic!("{error}"),
                };
                assert_eq!(listed(&library, 10).await.len(), usize::from(is_there));
            }
        }
    }

    async fn seen(&self) -> Option<Vec<String>> {
        match texts(&self.faulty.library, &id("t.a")).await {
            Ok(texts) => Some(texts),
            Err(ObjectsError::Absent(_) | ObjectsError::Gone(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    async fn check(&mut self) {
        let seen = self.seen().await;
        if seen != self.current {
            assert!(self.possible.contains(&seen), "{seen:?} was never asked for, or was refused");
            self.current = seen.clone();
            self.possible.clear();
        }
        let expected = if seen.is_some() { vec!["t.a".to_owned()] } else { Vec::new() };
        let listed = listed(&self.faulty.library, 10).await;
        // A listing writes marks, after which a late write may arrive.
        let seen_after = self.seen().await;
        assert!(listed == expected || seen_after != seen, "{listed:?} is listed, but {seen:?} can be read");
        for (volume, texts) in &self.pinned {
            let read = texts_at(&self.faulty.library, volume).await;
            assert_eq!(&read.expect("what is pinned can be read"), texts);
        }
    }
}

fn pages(n: u8) -> Vec<String> {
    (0..n % 4 + 1).map(|page| format!("volume {n} page {page}")).collect()
}

fn as_str(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn clients_see_what_was_acknowledged_whatever_fails(
        history in proptest::collection::vec((op(), faults()), 1..25),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut known = History::new().await;
            for (op, faults) in &history {
                known.step(op, faults).await;
            }
            // In the end everything is quiet: after a few days of collecting, only what is named or
            // pinned is left.
            known.faulty.store.recover();
            known.check().await;
            for _ in 0..6 {
                known.step(&Op::Hours(25), &Vec::new()).await;
                known.step(&Op::Collect, &Vec::new()).await;
            }
        });
    }
}
