//! Point reads and writes of small rows in an open loop, with a deadline: at the requested rate,
//! and in steps until one no longer holds. They call the store without a door.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use store::{Call, Class, Deadline, NewRow, Step, Store, Table};
use store_cassandra::CassandraStore;

use super::bench::Bench;
use super::open_loop::{self, Calls};
use crate::rig::figures::{Figures, Goal};

/// Bytes of a row's value.
const VALUE_BYTES: usize = 400;
/// Rows to choose from, each in a partition of its own.
const KEYS: u64 = 10_000;
/// The deadline of a call.
const DEADLINE: Duration = Duration::from_millis(10);
/// Milliseconds.
const MEAN: Goal = Goal::AtMost(3.0);
const P99: Goal = Goal::AtMost(10.0);
/// Milliseconds after the deadline: timers count milliseconds.
const OVERDUE: Goal = Goal::AtMost(1.0);
/// The first step as a share of the requested rate, and the growth of each step.
const FIRST: f64 = 0.1;
const GROWTH: f64 = 1.25;
/// The greatest number of steps.
const STEPS_MAX: u32 = 20;
/// The table of the rows.
const TABLE: Table = Table::Objects;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let keyspace = bench.empty()?;
    let store = bench.runtime.block_on(bench.node.open(&keyspace))?;
    bench.runtime.block_on(fill(&store))?;
    let asked = bench.settings.rate;
    calls(bench, &store, asked)?; // warms up
    for _ in 0..bench.settings.repetitions {
        let before = bench.node.usage()?;
        let at_asked = calls(bench, &store, asked)?;
        let used = bench.node.usage()?.since(before);
        let what = |what: &str| format!("{asked} reads and as many writes per second: {what}");
        figures.hold(what("mean"), "ms", MEAN, at_asked.times().mean_ms);
        figures.hold(what("p99"), "ms", P99, at_asked.times().p99_ms);
        figures.hold(what("latest after its deadline"), "ms", OVERDUE, overdue_ms(&at_asked));
        figures.report(
            what("latest that a sleeping thread was woken"),
            "ms",
            at_asked.woken_late_max.as_secs_f64() * 1e3,
        );
        figures.report(what("without an answer"), "calls", at_asked.unanswered as f64);
        figures.report(what("CPU of the node"), "µs per call", used.cpu_s * 1e6 / at_asked.count.max(1) as f64);
        let held = highest(bench, &store)?;
        figures.report("highest step that holds", "reads/s, and as many writes", held);
    }
    Ok(figures)
}

async fn fill(store: &Arc<CassandraStore>) -> Result<()> {
    let one = |number| async move {
        let call = Call::new(Class::Record, Deadline::within(Duration::from_secs(60)));
        let outcome = store.run(call, vec![put(number)]).await?;
        ensure!(outcome.is_applied(), "{outcome:?}");
        anyhow::Ok(())
    };
    stream::iter(0..KEYS).map(one).buffer_unordered(64).try_collect().await
}

fn key(number: u64) -> Bytes {
    // Cassandra distributes partitions by hash, so the order of keys does not affect their place.
    Bytes::from(format!("point {}", number % KEYS))
}

fn put(number: u64) -> Step {
    let row = NewRow::new("", vec![number as u8; VALUE_BYTES]);
    Step::Put { table: TABLE, partition: key(number), rows: vec![row] }
}

/// `rate` reads per second, and as many writes.
fn calls(bench: &Bench, store: &Arc<CassandraStore>, rate: f64) -> Result<Calls> {
    let call = |number: u64, deadline: Instant| {
        let (store, call) = (store.clone(), Call::new(Class::Record, Deadline(deadline.into())));
        async move {
            match number.is_multiple_of(2) {
                true => {
                    let row = store.get(call, TABLE, &key(number), &Bytes::new()).await;
                    row.is_ok_and(|row| row.is_some_and(|row| row.value.len() == VALUE_BYTES))
                }
                false => store.run(call, vec![put(number)]).await.is_ok_and(|outcome| outcome.is_applied()),
            }
        }
    };
    open_loop::run(&bench.runtime, 2.0 * rate, bench.duration(), DEADLINE, call)
}

fn overdue_ms(calls: &Calls) -> f64 {
    calls.overdue_max.as_secs_f64() * 1e3
}

fn holds(calls: &Calls) -> bool {
    let times = calls.times();
    MEAN.is_met_by(times.mean_ms) && P99.is_met_by(times.p99_ms) && OVERDUE.is_met_by(overdue_ms(calls))
}

/// The highest step that holds; 0: none does.
fn highest(bench: &Bench, store: &Arc<CassandraStore>) -> Result<f64> {
    let (mut held, mut rate) = (0.0, (bench.settings.rate * FIRST).max(1.0));
    for _ in 0..STEPS_MAX {
        if !holds(&calls(bench, store, rate)?) {
            break;
        }
        held = rate;
        rate = (rate * GROWTH).round();
    }
    Ok(held)
}
