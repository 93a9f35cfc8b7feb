//! Several servers at the same time, whose single steps interleave in a random order. Some servers
//! die, and some steps get no response or arrive late.
//!
//! At every moment, not only in the end, the listing has exactly what exists. What was acknowledged
//! holds until an operation begins to undo it. A listing has what existed all the time, and nothing
//! that did not exist at any time. In the end nothing is left over.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use heads::{Head, LibraryOptions, ObjectState, head, keys};
use library::Library;
use parking_lot::Mutex;
use proptest::prelude::*;
use repository::ResourceResult;
use store::{ManualClock, Table};

use super::tree::{OLD, container, create, delete, is_refusal, path, said, there_at, try_children};
use crate::support::memory::{Fault, Memory};
use crate::support::turns::Turns;
use crate::support::{START, faulty_with};

const LEAVES: [&str; 3] = ["p/a", "p/b", "p/c/d"];
const CONTAINERS: [&str; 2] = ["p", "p/c"];
const ALL: [&str; 5] = ["p", "p/a", "p/b", "p/c", "p/c/d"];

/// More turns than any of these histories takes.
const TURNS_MAX: usize = 50_000;

/// An operation of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Create(&'static str),
    Delete(&'static str),
    Free(&'static str),
    List(&'static str),
    /// Lists when everything is old enough to be swept.
    Sweep(&'static str),
    ResumeDeletions,
    Grow,
}

impl Op {
    /// Runs the operation, and returns the listed names if it lists.
    async fn run(self, library: &Library, clock: &ManualClock) -> ResourceResult<Vec<String>> {
        match self {
            Self::Create(at) => create(library, at, "").await?,
            Self::Delete(at) => delete(library, at).await?,
            Self::Free(at) => library.repository.remove_tombstone(&path(at)).await?,
            Self::List(at) => return try_children(library, &path(at)).await,
            Self::Sweep(at) => {
                clock.advance(OLD);
                return try_children(library, &path(at)).await;
            }
            Self::ResumeDeletions => _ = library.repository.resume_deletions(Duration::ZERO).await?,
            Self::Grow => _ = library.heads.grow_containers().await?,
        }
        Ok(Vec::new())
    }

    /// Whether it may create a resource at a path.
    fn may_make(self, at: &str) -> bool {
        matches!(self, Self::Create(made) if is_within(made, at))
    }

    /// Whether it may delete the resource at a path.
    fn may_take(self, at: &str) -> bool {
        matches!(self, Self::Delete(taken) if is_within(at, taken))
    }
}

/// Whether a path is equal to another one or below it.
fn is_within(at: &str, above: &str) -> bool {
    at.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => prop::sample::select(&LEAVES).prop_map(Op::Create),
        2 => prop::sample::select(&ALL).prop_map(Op::Delete),
        2 => Just(Op::Delete("p")),
        2 => prop::sample::select(&ALL).prop_map(Op::Free),
        1 => prop::sample::select(&CONTAINERS).prop_map(Op::List),
        3 => prop::sample::select(&CONTAINERS).prop_map(Op::Sweep),
        1 => Just(Op::ResumeDeletions),
        2 => Just(Op::Grow),
    ]
}

/// A server runs so many steps; then an event may happen to it.
#[derive(Clone, Debug)]
struct Turn {
    server: usize,
    steps: usize,
    then: Option<Happens>,
}

#[derive(Clone, Debug)]
enum Happens {
    /// At its next step.
    Fault(Fault),
    Death,
}

fn turn() -> impl Strategy<Value = Turn> {
    let fault = prop_oneof![
        1 => Just(Fault::UnknownApplied),
        1 => Just(Fault::UnknownLost),
        2 => (0..60usize).prop_map(Fault::UnknownLate),
        1 => Just(Fault::Overloaded),
    ];
    let then = prop_oneof![
        8 => Just(None),
        2 => fault.prop_map(|fault| Some(Happens::Fault(fault))),
        1 => Just(Some(Happens::Death)),
    ];
    // Mostly few steps: those separate a read from the write that relies on it.
    let steps = prop_oneof![3 => 1..8usize, 1 => 8..80usize];
    (any::<usize>(), steps, then).prop_map(|(server, steps, then)| Turn { server, steps, then })
}

/// An operation, with the moments between which it began and ended.
#[derive(Debug)]
struct Event {
    op: Op,
    begun: usize,
    /// `None` if its server died or does not know the outcome, so that it may still take effect.
    ended: Option<usize>,
    /// The listed names, if it lists; `None` if it was not acknowledged.
    acknowledged: Option<Vec<String>>,
}

impl Event {
    /// The moments during the operation: its effect may be missing in some and present in others.
    fn during(&self, last: usize) -> RangeInclusive<usize> {
        self.begun - 1..=self.ended.map_or(last, |ended| ended - 1)
    }
}

/// Servers that run these operations, each one after another.
struct Servers {
    store: Arc<Memory>,
    turns: Arc<Turns>,
    events: Arc<Mutex<Vec<Event>>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Servers {
    async fn start(options: &LibraryOptions, ops: Vec<Vec<Op>>) -> Self {
        let prepared = faulty_with(options.clone()).await;
        prepared.library.repository.create(&path("p"), &container()).await.unwrap();
        create(&prepared.library, "p/a", "").await.unwrap();
        let (store, events) = (prepared.store, Arc::new(Mutex::new(Vec::new())));
        let mut libraries = Vec::new();
        for _ in &ops {
            libraries.push(Library::open(store.clone(), prepared.clock.clone(), options.clone()).await.unwrap());
        }
        store.watch();
        let turns = store.take_turns();
        let work = |(ops, library): (Vec<Op>, Library)| {
            let (store, events, clock) = (store.clone(), events.clone(), prepared.clock.clone());
            tokio::spawn(async move {
                for op in ops {
                    let begun = store.moments_so_far();
                    let event = events.lock().len();
                    events.lock().push(Event { op, begun, ended: None, acknowledged: None });
                    let outcome = op.run(&library, &clock).await;
                    let is_over = outcome.as_ref().map_or_else(is_refusal, |_| true);
                    let event = &mut events.lock()[event];
                    event.ended = is_over.then(|| store.moments_so_far());
                    event.acknowledged = outcome.ok();
                }
            })
        };
        let tasks = ops.into_iter().zip(libraries).map(work).collect();
        Self { store, turns, events, tasks }
    }

    /// Lets the servers work in this order, then in the order of their steps, until they are done.
    async fn work(self, order: Vec<Turn>) -> (Arc<Memory>, Vec<Event>) {
        for Turn { server, steps, then } in order {
            let server = &self.tasks[server % self.tasks.len()];
            for _ in 0..steps {
                if !self.turns.next(Some(server.id()), None).await {
                    break;
                }
            }
            match then {
                None => {}
                Some(Happens::Fault(fault)) => _ = self.turns.next(Some(server.id()), Some(fault)).await,
                Some(Happens::Death) => server.abort(),
            }
        }
        for _ in 0..TURNS_MAX {
            if !self.turns.next(None, None).await && self.tasks.iter().all(|task| task.is_finished()) {
                return self.ended().await;
            }
        }
        panic!("it does not end");
    }

    async fn ended(self) -> (Arc<Memory>, Vec<Event>) {
        self.store.end_turns();
        for task in self.tasks {
            let ended = task.await;
            assert!(!ended.is_err_and(|error| error.is_panic()), "a server panicked");
        }
        let events = std::mem::take(&mut *self.events.lock());
        (self.store, events)
    }
}

/// What was acknowledged holds from then on until an operation begins to undo it, unless one had
/// begun already.
fn assert_acknowledged(events: &[Event], there: &[BTreeSet<String>]) {
    for event in events {
        let (Some(ended), Some(_)) = (event.ended, &event.acknowledged) else { continue };
        let (at, is_there) = match event.op {
            Op::Create(at) => (at, true),
            Op::Delete(at) => (at, false),
            _ => continue,
        };
        let undoing =
            events.iter().filter(|other| if is_there { other.op.may_take(at) } else { other.op.may_make(at) });
        let others = undoing.filter(|other| other.ended.is_none_or(|ended| ended > event.begun));
        let until = others.map(|other| other.begun).min().unwrap_or(there.len());
        for (moment, there) in there.iter().enumerate().take(until).skip(ended - 1) {
            assert_eq!(there.contains(at), is_there, "{event:?}, but not at moment {moment}: {there:?}");
        }
    }
}

/// A listing has each child that exists all the time, and none that does not exist meanwhile.
fn assert_listings(events: &[Event], there: &[BTreeSet<String>]) {
    for event in events {
        let (Op::List(at) | Op::Sweep(at), Some(listed)) = (event.op, &event.acknowledged) else { continue };
        let during = || &there[event.during(there.len() - 1)];
        for child in ALL {
            let Some(name) = child.strip_prefix(at).and_then(|rest| rest.strip_prefix('/')) else { continue };
            if name.contains('/') {
                continue;
            }
            let is_listed = listed.iter().any(|listed| listed == name);
            assert!(is_listed || !during().iter().all(|there| there.contains(child)), "{event:?}: {child} was there");
            assert!(!is_listed || during().iter().any(|there| there.contains(child)), "{event:?}: {child} never was");
        }
    }
}

/// Once everything is quiet and the interrupted deletions are finished, no unreachable head is
/// live.
async fn assert_nothing_is_left_over(store: &Arc<Memory>, options: &LibraryOptions) {
    // Later than all operations: records of work lie at the times at which they were put.
    let clock = Arc::new(ManualClock::new(START.plus(24 * OLD)));
    let library = Library::open(store.clone(), clock, options.clone()).await.unwrap();
    library.repository.resume_deletions(Duration::ZERO).await.unwrap();
    for at in ALL {
        let head = store.row(Table::Objects, &keys::resource_partition(&path(at)), &keys::head());
        let is_live =
            head.is_some_and(|head| head::open::<Head>(Table::Objects, &head).unwrap().state == ObjectState::Live);
        assert_eq!(is_live, said(&library, at).await.is_some(), "/{at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_listed_is_what_is_there_at_every_moment(
        ops in prop::collection::vec(prop::collection::vec(op(), 1..5), 2..4),
        order in prop::collection::vec(turn(), 0..24),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let options =
                LibraryOptions { resource_shards: 1, sample_one_of: 1, shard_bytes_max: 1, ..LibraryOptions::default() };
            let (store, events) = Servers::start(&options, ops).await.work(order).await;
            // Late writes arrive after all servers have gone.
            store.recover();
            assert_nothing_is_left_over(&store, &options).await;
            let mut seen = Vec::new();
            for moment in store.take_moments() {
                seen.push(there_at(moment, &options, &ALL).await);
            }
            assert_acknowledged(&events, &seen);
            assert_listings(&events, &seen);
        });
    }
}
