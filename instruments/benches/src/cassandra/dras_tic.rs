//! The ingest of the repository door's benchmark, with a store in Cassandra.

use anyhow::Result;

use super::bench::Bench;
use crate::repository_door::ingest;
use crate::rig::figures::{Figures, Goal};

const RATE: Goal = Goal::AtLeast(1_000.0);

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..bench.settings.repetitions {
        let subject = bench.empty().and_then(|keyspace| bench.repository(&keyspace))?;
        for connections in bench.settings.connections.clone() {
            let (before, node_before) = (subject.process.usage()?, bench.node.usage()?);
            let load = ingest::load(&subject, connections, bench.duration())?;
            let used = subject.process.usage()?.since(before);
            let node_used = bench.node.usage()?.since(node_before);
            let what = |what: &str| format!("{connections} connections: {what}");
            let each = |cpu_s: f64| cpu_s * 1e6 / load.answers.max(1) as f64;
            figures.hold(what("rate"), "requests/s", RATE, load.rate());
            figures.report(what("median"), "ms", load.times().p50_ms);
            figures.report(what("p99"), "ms", load.times().p99_ms);
            figures.report(what("CPU of the server"), "µs per request", each(used.cpu_s));
            figures.report(what("CPU of the node"), "µs per request", each(node_used.cpu_s));
        }
    }
    Ok(figures)
}
