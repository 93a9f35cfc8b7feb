//! How far compactions and flushes are while a load is made, as `system_views.sstable_tasks` has it:
//! MBeans and the history count a compaction only when it has ended.

use std::path::Path;
use std::time::{Duration, Instant};

use cluster::NodeId;
use tokio::time::{MissedTickBehavior, interval_at, timeout};

use super::one::One;
use super::views::Task;
use crate::load::watch::{self, Means};

/// The file of a run: a line for each task at each look.
const FILE: &str = "tasks.csv";

/// The metric: how many compactions of all tables run at a time, the mean of all looks.
const RUNNING: &str = "running_compactions";

/// What Cassandra calls a compaction among its tasks.
const COMPACTION: &str = "compaction";

/// Writes the tasks of all nodes from `start` on for so long, once a second, and returns the metric. A
/// node that does not answer in time has none at that look.
pub(super) async fn sample(nodes: &[One], start: Instant, duration: Duration, run: &Path) -> Result<Means, csv::Error> {
    let mut out = csv::Writer::from_path(run.join(FILE))?;
    out.write_record(["at_s", "node", "keyspace", "table", "kind", "progress", "total", "unit"])?;
    let every = watch::interval(duration);
    let mut ticks = interval_at(start.into(), every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut looks, mut running) = (0_u32, 0_u32);
    loop {
        ticks.tick().await;
        let at = start.elapsed();
        if at > duration {
            break;
        }
        let all = timeout(every, futures::future::join_all(nodes.iter().map(tasks))).await.unwrap_or_default();
        for (node, tasks) in all {
            for task in tasks {
                running += u32::from(task.kind == COMPACTION);
                let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
                let (progress, total) = (number(task.progress), number(task.total));
                let at_s = format!("{:.3}", at.as_secs_f64());
                let row = [at_s, node.to_string(), task.keyspace, task.table, task.kind, progress, total, task.unit];
                out.write_record(row)?;
            }
        }
        looks += 1;
    }
    out.flush()?;
    let mean = (looks > 0).then(|| f64::from(running) / f64::from(looks));
    Ok(mean.into_iter().map(|mean| (RUNNING.to_owned(), mean)).collect())
}

/// The tasks of a node; none if it cannot be asked.
async fn tasks(node: &One) -> (NodeId, Vec<Task>) {
    (node.id, node.views.tasks().await.unwrap_or_default())
}
