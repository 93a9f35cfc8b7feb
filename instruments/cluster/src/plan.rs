//! The nodes of a cluster: addresses, tokens, data centers and seeds.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::network::Reserved;
use crate::spec::{NodeId, Ports, Shape};

/// What distinguishes a node from the others of its cluster.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    pub id: NodeId,
    pub datacenter: String,
    pub address: Ipv4Addr,
    pub ports: Ports,
    /// The end of its range of the ring (Murmur3Partitioner: -2^63 to 2^63 - 1).
    pub token: i64,
    /// The first node of each data center: others find the cluster through these.
    pub seeds: Vec<Ipv4Addr>,
    pub cluster_folder: PathBuf,
    pub folder: PathBuf,
}

impl NodePlan {
    /// All nodes of a cluster, data center by data center.
    pub fn all(shape: Shape, network: &Reserved, ports: Ports, folder: &Path) -> Vec<Self> {
        let id = |datacenter: u8, nth: u8| NodeId(datacenter * shape.nodes_per_datacenter + nth + 1);
        let seeds: Vec<_> = (0..shape.datacenters).map(|datacenter| network.address(id(datacenter, 0))).collect();
        let places = (0..shape.datacenters)
            .flat_map(|datacenter| (0..shape.nodes_per_datacenter).map(move |nth| (datacenter, nth)));
        let plan = |(datacenter, nth)| Self {
            id: id(datacenter, nth),
            datacenter: format!("dc{}", datacenter + 1),
            address: network.address(id(datacenter, nth)),
            ports,
            token: token(datacenter, nth, shape.nodes_per_datacenter),
            seeds: seeds.clone(),
            cluster_folder: folder.to_owned(),
            folder: folder.join(format!("node{}", id(datacenter, nth))),
        };
        places.map(plan).collect()
    }

    pub fn is_seed(&self) -> bool {
        self.seeds.contains(&self.address)
    }

    /// The address for clients.
    pub fn cql(&self) -> SocketAddr {
        SocketAddr::from((self.address, self.ports.cql))
    }

    pub fn jmx(&self) -> SocketAddr {
        SocketAddr::from((self.address, self.ports.jmx))
    }

    pub fn config_folder(&self) -> PathBuf {
        self.folder.join("conf")
    }

    pub fn log_folder(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Cassandra's log.
    pub fn system_log(&self) -> PathBuf {
        self.log_folder().join("system.log")
    }

    /// The output of the Java machine. Each process of the node holds it open and locked.
    pub fn console_log(&self) -> PathBuf {
        self.log_folder().join("console.log")
    }
}

/// Evenly spaced within a data center. No two nodes of a cluster may have the same token: each data
/// center adds its index.
fn token(datacenter: u8, nth: u8, nodes_per_datacenter: u8) -> i64 {
    let step = (1_i128 << 64) / i128::from(nodes_per_datacenter);
    let token = i128::from(i64::MIN) + step / 2 + step * i128::from(nth) + i128::from(datacenter);
    token as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_evenly_spaced_and_differ_by_one_between_data_centers() {
        assert_eq!(token(0, 0, 1), 0);
        assert_eq!([0, 1].map(|nth| token(0, nth, 2)), [i64::MIN / 2, i64::MAX / 2 + 1]);
        for nth in 0..31 {
            assert_eq!(token(1, nth, 32), token(0, nth, 32) + 1);
            let step = i128::from(token(0, nth + 1, 32)) - i128::from(token(0, nth, 32));
            assert_eq!(step, 1 << 59);
        }
    }
}
