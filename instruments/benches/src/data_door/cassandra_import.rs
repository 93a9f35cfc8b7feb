//! An import into Cassandra, compared with the driver alone writing the same rows.

use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Result, ensure};
use testbed::monitor::Counters;

use super::bench::Bench;
use super::driver::Rows;
use super::node;
use crate::rig::figures::{Figures, Goal};
use crate::rig::work::text_bytes;

/// Volumes per processor that an import processes at the same time.
const AT_ONCE_PER_PROCESSOR: usize = 8;
const OF_BARE: Goal = Goal::AtLeast(0.7);

/// Measures it with a few volumes, from a pairtree in the page cache.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let pairtree = bench.work.pairtree(&bench.few)?;
    let at_once = AT_ONCE_PER_PROCESSOR * available_parallelism()?.get();
    let keyspace = bench.volumes()?;
    let server = bench.server_on_node(keyspace)?;
    let text_mb = text_bytes(&server, &bench.few, bench.settings.few)? as f64 / 1e6;
    drop(server);
    for _ in 0..bench.settings.repetitions {
        let keyspace = bench.empty()?;
        let store = bench.node()?.store(&keyspace)?;
        let (before, node_before, begun) = (Counters::own()?, bench.node()?.usage()?, Instant::now());
        bench.work.penates().run(["import".as_ref(), "--store".as_ref(), store.as_ref(), pairtree.as_os_str()])?;
        let seconds = begun.elapsed().as_secs_f64();
        let (used, node_used) = (Counters::own()?.since(before), bench.node()?.usage()?.since(node_before));

        let address = bench.node()?.address()?;
        let session = bench.runtime.block_on(node::session(address))?;
        let rows = bench.runtime.block_on(Rows::of(&session, &keyspace))?;
        let other = bench.empty()?;
        let bare_seconds = bench.runtime.block_on(rows.write(&session, &other, at_once))?.as_secs_f64();
        let written = bench.runtime.block_on(Rows::of(&session, &other))?.count();
        ensure!(written == rows.count(), "{written} rows were written of {}", rows.count());

        figures.report("bare program: page text", "MB/s", text_mb / bare_seconds);
        figures.report("bare program: rows", "rows/s", rows.count() as f64 / bare_seconds);
        figures.report("import: page text", "MB/s", text_mb / seconds);
        figures.report("import: CPU", "s", used.reaped_cpu_s);
        figures.report("import: CPU of the node", "s", node_used.cpu_s);
        figures.hold("import: of the bare program's rate", "times", OF_BARE, bare_seconds / seconds);
    }
    Ok(figures)
}
