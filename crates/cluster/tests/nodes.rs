//! Real nodes. What is here takes ten seconds a start, so one node is led through its whole life.
#![allow(clippy::unwrap_used)]

use std::net::TcpStream;
use std::path::Path;

use cluster::{Cluster, ClusterError, ClusterSpec, NodeId, NodeState, Shape};

const NODE: NodeId = NodeId(1);

/// Whether nodes can be started here; if not that is told, and where `CI` is set it is a failure.
fn can_run() -> bool {
    let Err(error) = cluster::prerequisites() else { return true };
    let told = format!("Cassandra nodes: {error}");
    assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {told}");
    eprintln!("not run: {told}");
    if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        std::io::Write::write_all(&mut list, format!("{told}\n").as_bytes()).unwrap();
    }
    false
}

fn state(cluster: &Cluster) -> NodeState {
    cluster.status()[0].state
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_node_starts_is_killed_and_comes_back() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::open(folder.path(), &ClusterSpec::new(Shape::nodes(1))).unwrap();
    assert_eq!(state(&cluster), NodeState::Stopped);
    assert!(matches!(cluster.kill(NODE), Err(ClusterError::NotRunning { node: NODE })));

    cluster.start_all().unwrap();
    assert_eq!(state(&cluster), NodeState::Up);
    let contact_point = cluster.contact_points()[0];
    TcpStream::connect(contact_point).unwrap();
    let ring = cluster.nodetool(NODE, &["status"]).unwrap();
    let up_and_normal = format!("UN  {}", contact_point.ip());
    assert!(ring.contains(&up_and_normal) && ring.contains("Datacenter: dc1"), "{ring}");
    assert!(matches!(cluster.start(NODE), Err(ClusterError::Running { node: NODE })));

    let pid = cluster.status()[0].pid.unwrap();
    cluster.kill(NODE).unwrap();
    assert_eq!(state(&cluster), NodeState::Stopped);
    assert!(!is_alive(pid));
    TcpStream::connect(contact_point).unwrap_err();

    cluster.start(NODE).unwrap();
    assert_eq!(cluster.contact_points()[0], contact_point);
    let pid = cluster.status()[0].pid.unwrap();
    cluster.stop(NODE).unwrap();
    assert!(!is_alive(pid));
    assert_eq!(state(&cluster), NodeState::Stopped);
}
