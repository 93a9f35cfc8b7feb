//! A node that runs: how it is asked, and where its files are.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use cluster::{NodeId, NodeStatus};

use super::jmx::{self, Jmx};
use super::{failed, fatal};
use crate::load::process;
use crate::rig::{Counters, RigError};

use super::views::Views;

/// A node that runs.
pub(super) struct One {
    /// Its number.
    pub id: NodeId,
    /// Its own views, and no other node's.
    pub views: Views,
    pub pid: u32,
    pub folder: PathBuf,
    /// Where it takes CQL.
    pub cql: SocketAddr,
    /// The values of live factors that it had when it started.
    pub by_itself: BTreeMap<String, String>,
    /// Its MBeans, if they are read.
    pub jmx: Option<Jmx>,
}

impl One {
    /// Connects to a node that was started.
    pub async fn of(status: &NodeStatus, has_agent: bool) -> Result<Self, RigError> {
        let pid = status.pid.ok_or_else(|| failed("the node has ended"))?;
        let views = Views::connect(&[status.cql]).await.map_err(failed)?;
        let by_itself = views.settings().await.map_err(failed)?;
        let at = SocketAddr::new(status.cql.ip(), jmx::PORT);
        let jmx = has_agent.then(|| Jmx::new(at)).transpose().map_err(fatal)?;
        if let Some(jmx) = &jmx {
            let unanswered = |error| failed(format!("the agent of the node's MBeans does not answer at {at}: {error}"));
            jmx.answers().await.map_err(unanswered)?;
        }
        Ok(Self { id: status.node, views, pid, folder: status.folder.clone(), cql: status.cql, by_itself, jmx })
    }

    /// Its counters, of a table that was made then. MBeans are asked first: a compaction that ends in
    /// between is then one that they count later, and never one that they seem to miss.
    pub async fn counters(&self, made_ms: i64) -> Result<Counters, RigError> {
        let mut used = process::used(self.pid);
        if let Some(jmx) = &self.jmx {
            used.extend(jmx.counters().await);
        }
        let counters = self.views.counters(made_ms).await.map_err(failed)?;
        Ok(Counters { used, ..counters })
    }
}

/// The counters of all nodes together. What one of them cannot say is left out.
pub(super) fn sum(all: &[Counters]) -> Counters {
    let of = |part: fn(&Counters) -> f64| all.iter().map(part).sum();
    let Some(first) = all.first() else { return Counters::default() };
    let used = first.used.keys().filter_map(|name| {
        let values: Option<Vec<_>> = all.iter().map(|one| one.used.get(name).copied()).collect();
        Some((name.clone(), values?.iter().sum()))
    });
    Counters {
        at_s: first.at_s,
        nodes: u8::try_from(all.len()).unwrap_or(u8::MAX),
        compacted_bytes: of(|one| one.compacted_bytes),
        compactions: of(|one| one.compactions),
        writes: of(|one| one.writes),
        reads: of(|one| one.reads),
        used: used.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_nodes_are_added_and_what_one_does_not_say_is_left_out() {
        let one = |writes, used: &[(&str, f64)]| Counters {
            writes,
            used: used.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            ..Counters::default()
        };
        let all = sum(&[one(3.0, &[("cpu", 1.0), ("gc", 2.0)]), one(4.0, &[("cpu", 5.0)])]);
        assert_eq!((all.nodes, all.writes, all.used), (2, 7.0, BTreeMap::from([("cpu".to_owned(), 6.0)])));
    }
}
