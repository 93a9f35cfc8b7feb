//! What goes over the network, and the machines of a store on Cassandra.

use serde::{Deserialize, Serialize};

use super::folder::{Costs, Disk, EMPTY, Machine, SECONDS_PER_DAY, Wanted, small, volume_bytes, written};

/// What clients and servers say besides what is stored.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkCosts {
    /// Bytes of the head of a request, and of the head of its response.
    pub(super) head_bytes: f64,
}

/// What a node of Cassandra costs. Times are of its processor, for one copy.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeCosts {
    /// The most data of a node that can still be repaired and replaced.
    pub(super) data_bytes_at_most: f64,
    /// Memory that a node needs besides the data.
    pub(super) memory_bytes: f64,
    /// What is read for a single page.
    pub(super) pack_bytes: f64,
    /// Milliseconds for a GB of archives.
    pub(super) bulk_ms_per_gb: f64,
    /// Microseconds for a single page, for reading a resource, and for a change of one.
    pub(super) page_us: f64,
    pub(super) read_us: f64,
    pub(super) change_us: f64,
    /// For writing a plain row.
    pub(super) row_us: f64,
}

/// What clients send and get.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Network {
    pub(super) in_bytes_per_second: f64,
    pub(super) out_bytes_per_second: f64,
}

/// What nodes get from servers and send to them, and what they send to each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct NodeNetwork {
    pub(super) in_bytes_per_second: f64,
    pub(super) out_bytes_per_second: f64,
    pub(super) between_bytes_per_second: f64,
}

/// What a store on Cassandra needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Cluster {
    /// Machines that serve.
    pub(super) servers: u64,
    /// Machines of Cassandra; `None`: one has too little memory or disk, however many there are.
    pub(super) nodes: Option<u64>,
    /// Why there are so many nodes.
    pub(super) limit: &'static str,
    /// Of all nodes together.
    pub(super) node_cores: f64,
    pub(super) disk_bytes: f64,
    /// Between servers and nodes.
    pub(super) network: NodeNetwork,
}

/// What clients send and get at the wanted rates.
pub(super) fn network(costs: &Costs, wanted: Wanted) -> Network {
    let heads = wanted.pages_per_second + wanted.reads_per_second + wanted.changes_per_second;
    let heads = heads * costs.network.head_bytes;
    let (bulk, replaced) = per_second(costs, wanted);
    let read = wanted.pages_per_second * wanted.page_bytes + wanted.reads_per_second * written(wanted);
    Network {
        in_bytes_per_second: heads + wanted.changes_per_second * written(wanted) + replaced,
        out_bytes_per_second: heads + read + bulk,
    }
}

/// Bytes per second of archives, and of volumes that are replaced.
fn per_second(costs: &Costs, wanted: Wanted) -> (f64, f64) {
    let replaced = wanted.replaced_per_day * volume_bytes(&costs.disk, wanted);
    (wanted.bulk_bytes_per_day / SECONDS_PER_DAY, replaced / SECONDS_PER_DAY)
}

/// What a store on Cassandra needs, if `disk` is one copy and the servers have so much to do.
pub(super) fn cluster(costs: &Costs, wanted: Wanted, machine: Machine, disk: &[Disk], server_cores: f64) -> Cluster {
    let node = &costs.cassandra;
    let one_copy: f64 = disk.iter().filter(|part| part.what != EMPTY).map(|part| part.bytes).sum();
    let data = one_copy * wanted.copies;
    let room = (machine.disk_bytes * costs.full_at_most).min(node.data_bytes_at_most);
    let node_cores = busy(costs, wanted) / costs.busy_at_most;
    let looked_up = small(&costs.disk, wanted) * costs.memory.hot * wanted.copies;
    let for_data = (machine.memory_bytes - node.memory_bytes).max(0.0);
    let shares = [
        (wanted.copies, "copies"),
        ((data / room).ceil(), "disk"),
        ((node_cores / machine.cores).ceil(), "processor cores"),
        ((looked_up / for_data).ceil(), "memory"),
    ];
    let (nodes, limit) = greatest(&shares);
    Cluster {
        // Two at least, so that one may fail.
        servers: (server_cores / machine.cores).ceil().max(2.0) as u64,
        nodes: nodes.is_finite().then_some(nodes as u64),
        limit,
        node_cores,
        disk_bytes: data / costs.full_at_most,
        network: node_network(costs, wanted),
    }
}

/// The first of the greatest.
fn greatest(shares: &[(f64, &'static str)]) -> (f64, &'static str) {
    shares.iter().copied().fold((f64::MIN, ""), |most, share| if share.0 > most.0 { share } else { most })
}

/// The copies that a read at a quorum asks.
fn quorum(copies: f64) -> f64 {
    (copies / 2.0).floor() + 1.0
}

/// Processors of nodes that are busy. An archive is read from one copy.
fn busy(costs: &Costs, wanted: Wanted) -> f64 {
    let indexing_us = costs.search.rows(wanted) * costs.cassandra.row_us;
    let costs = &costs.cassandra;
    let bulk_ms = wanted.bulk_bytes_per_day / 1e9 * costs.bulk_ms_per_gb / SECONDS_PER_DAY;
    let read_us = wanted.pages_per_second * costs.page_us + wanted.reads_per_second * costs.read_us;
    let changed_us = wanted.changes_per_second * (costs.change_us + indexing_us) * wanted.copies;
    bulk_ms / 1e3 + (read_us * quorum(wanted.copies) + changed_us) / 1e6
}

/// One copy of what is read goes to servers, and one of what is written to nodes, which send it to
/// those of the other copies.
fn node_network(costs: &Costs, wanted: Wanted) -> NodeNetwork {
    let disk = &costs.disk;
    let (bulk, replaced) = per_second(costs, wanted);
    let pages = wanted.pages_per_second * costs.cassandra.pack_bytes;
    let reads = wanted.reads_per_second * (disk.resource_bytes + written(wanted));
    let indexed = costs.search.rows(wanted) * costs.search.row_bytes;
    let change = disk.change_bytes + disk.audit_change_bytes + written(wanted) + indexed;
    let audited = wanted.pages_per_second + wanted.volumes_per_day / SECONDS_PER_DAY;
    let in_bytes_per_second = wanted.changes_per_second * change + replaced + audited * disk.audit_volume_bytes;
    NodeNetwork {
        in_bytes_per_second,
        out_bytes_per_second: bulk + pages + reads,
        between_bytes_per_second: in_bytes_per_second * (wanted.copies - 1.0),
    }
}
