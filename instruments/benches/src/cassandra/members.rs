//! A container with very many members in Cassandra: creating members, listing them, and the size of
//! partitions.

use std::sync::atomic::AtomicU64;

use anyhow::Result;

use super::bench::Bench;
use crate::repository_door::members::{create_in_both, list};
use crate::repository_door::quads::fill;
use crate::rig::client::Client;
use crate::rig::figures::{Figures, Goal};

const PARTITION_MB: Goal = Goal::AtMost(100.0);

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let keyspace = bench.empty()?;
    let subject = bench.repository(&keyspace)?;
    let rate = fill(&subject, "big", bench.settings.members)?;
    figures.report("filling it by N-Quads", "resources/s", rate);
    Client::connect(subject.address)?.fetch(&subject.make_container("empty"))?;
    let next = AtomicU64::new(0);
    for _ in 0..bench.settings.repetitions {
        create_in_both(&subject, &next, bench.duration(), &mut figures)?;
        let rate = list(&subject, bench.settings.members, &mut figures)?;
        figures.report("listing as N-Triples", "members/s", rate);
    }
    figures.hold("largest partition", "MB", PARTITION_MB, largest_partition_mb(bench, &keyspace)?);
    Ok(figures)
}

/// The largest partition of a store according to Cassandra: in whole MiB, in steps of a fifth,
/// rounded up.
fn largest_partition_mb(bench: &Bench, keyspace: &str) -> Result<f64> {
    // Data in several files is counted separately for each.
    bench.node.nodetool(&["flush", keyspace])?;
    bench.node.nodetool(&["compact", keyspace])?;
    bench.runtime.block_on(async {
        let session = bench.node.session().await?;
        let sizes = "SELECT keyspace_name, mebibytes FROM system_views.max_partition_size";
        let sizes = session.query_unpaged(sizes, ()).await?.into_rows_result()?;
        let mut largest_mib = 0;
        for row in sizes.rows::<(String, i64)>()? {
            let (name, mib) = row?;
            if name == keyspace {
                largest_mib = largest_mib.max(mib);
            }
        }
        Ok(largest_mib as f64 * f64::from(1 << 20) / 1e6)
    })
}
