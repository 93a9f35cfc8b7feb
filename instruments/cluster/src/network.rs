//! Loopback networks: each cluster has its own, 127.0.K.0.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cache;
use crate::error::{ClusterError, Doing, Result};
use crate::spec::{Network, NodeId, Ports};

/// How long nodes of a killed owner may continue to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// The pause between two looks at ports.
const PAUSE: Duration = Duration::from_millis(100);

/// Number of networks to choose from: 127.0.1.0 and those after it. 127.0.0.0 is left to other
/// programs. Those from 127.0.240.0 on are used only if a specification names one.
const CHOICE: u8 = 239;

/// A network that no other cluster of this user takes while this value lives.
#[derive(Debug)]
pub struct Reserved {
    /// The K of 127.0.K.0.
    pub third: u8,
    _lock: File,
}

impl Reserved {
    /// Reserves a network for this many nodes: one whose lock (in the cache folder) is free, and
    /// where no process listens at the nodes' ports. Each cluster starts its search at a place of
    /// its own, so that others seldom take its network while it is not running.
    pub fn choose(network: Network, cluster: &Path, nodes: usize, ports: Ports) -> Result<Self> {
        let locks = cache::folder()?.join("networks");
        std::fs::create_dir_all(&locks).doing("making the folder", &locks)?;
        match network {
            Network::Fixed(third) => Self::fixed(third, &locks, &listening(third, nodes, ports)),
            Network::Automatic => {
                for third in candidates(cluster) {
                    if let Some(lock) = cache::lock(&lock_path(&locks, third), Duration::ZERO)?
                        && listening(third, nodes, ports).iter().all(|&address| is_free(address))
                    {
                        return Ok(Self { third, _lock: lock });
                    }
                }
                Err(ClusterError::NoFreeNetwork)
            }
        }
    }

    fn fixed(third: u8, locks: &Path, addresses: &[SocketAddr]) -> Result<Self> {
        let taken = || ClusterError::AddressInUse { address: addresses[0] };
        let lock = cache::lock(&lock_path(locks, third), PATIENCE)?.ok_or_else(taken)?;
        let deadline = Instant::now() + PATIENCE;
        while let Some(&address) = addresses.iter().find(|&&address| !is_free(address)) {
            if Instant::now() >= deadline {
                return Err(ClusterError::AddressInUse { address });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(Self { third, _lock: lock })
    }

    /// A node's address.
    pub fn address(&self, node: NodeId) -> Ipv4Addr {
        address(self.third, node.0)
    }
}

/// All networks to choose from, each once.
fn candidates(cluster: &Path) -> impl Iterator<Item = u8> {
    let mut hasher = DefaultHasher::new();
    cluster.hash(&mut hasher);
    let begin = (hasher.finish() % u64::from(CHOICE)) as u8;
    (begin..CHOICE).chain(0..begin).map(|nth| nth + 1)
}

fn address(third: u8, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, third, last)
}

fn lock_path(locks: &Path, third: u8) -> PathBuf {
    locks.join(format!("127.0.{third}.lock"))
}

/// The addresses at which the nodes will listen.
fn listening(third: u8, nodes: usize, ports: Ports) -> Vec<SocketAddr> {
    let last_numbers = (1..=u8::MAX).take(nodes);
    let ports = [ports.cql, ports.storage, ports.jmx];
    last_numbers.flat_map(|last| ports.map(|port| SocketAddr::from((address(third, last), port)))).collect()
}

/// Whether this process could listen there.
fn is_free(address: SocketAddr) -> bool {
    !matches!(TcpListener::bind(address), Err(error) if error.kind() == ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_network_is_tried_once_wherever_the_choice_begins() {
        for folder in ["a", "b", "c"] {
            let mut tried: Vec<_> = candidates(folder.as_ref()).collect();
            tried.sort();
            assert_eq!(tried, Vec::from_iter(1..=CHOICE));
        }
    }

    #[test]
    fn two_clusters_at_once_get_different_networks() {
        let ports = Ports::default();
        let one = Reserved::choose(Network::Automatic, "a".as_ref(), 1, ports).unwrap();
        let other = Reserved::choose(Network::Automatic, "a".as_ref(), 1, ports).unwrap();
        assert_ne!(one.third, other.third);
    }

    #[test]
    fn a_network_where_something_listens_is_not_chosen() {
        let ports = Ports { cql: 29_042, storage: 27_000, jmx: 27_199 };
        let free = Reserved::choose(Network::Automatic, "b".as_ref(), 2, ports).unwrap().third;
        let _listener = TcpListener::bind((address(free, 2), ports.storage)).unwrap();
        let chosen = Reserved::choose(Network::Automatic, "b".as_ref(), 2, ports).unwrap();
        assert_ne!(chosen.third, free);
        assert_eq!(chosen.address(NodeId(2)), Ipv4Addr::new(127, 0, chosen.third, 2));
    }
}
