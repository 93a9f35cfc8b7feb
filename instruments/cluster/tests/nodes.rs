//! Real nodes. A start takes ten seconds, so these tests lead one node through its whole life.
#![allow(clippy::unwrap_used)]

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use cluster::{Cluster, ClusterError, ClusterSpec, CommitlogSync, Network, NodeId, NodeState, Shape};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

const NODE: NodeId = NodeId(1);

/// Whether nodes can be started here. If not, that is reported, and is a failure if `CI` is set.
fn can_run() -> bool {
    let Err(error) = cluster::prerequisites() else { return true };
    let message = format!("Cassandra nodes: {error}");
    assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {message}");
    eprintln!("not run: {message}");
    if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        std::io::Write::write_all(&mut list, format!("{message}\n").as_bytes()).unwrap();
    }
    false
}

fn state(cluster: &Cluster) -> NodeState {
    cluster.status()[0].state
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Makes a TLS connection like a client that trusts this authority alone.
fn shake_hands_over_tls(address: SocketAddr, authority: &Path) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(config), address.ip().into()).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    while client.is_handshaking() {
        client.complete_io(&mut stream).unwrap();
    }
}

#[test]
fn a_node_starts_is_killed_and_comes_back() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut spec = ClusterSpec::new(Shape::nodes(1));
    spec.settings.commitlog_sync = CommitlogSync::Batch;
    spec.settings.authentication = true;
    spec.settings.client_tls = true;
    spec.settings.yaml.insert("read_request_timeout".to_owned(), "1234ms".into());
    let cluster = Cluster::open(folder.path(), &spec).unwrap();
    assert_eq!(state(&cluster), NodeState::Stopped);
    assert!(matches!(cluster.kill(NODE), Err(ClusterError::NotRunning { node: NODE })));

    cluster.start_all().unwrap();
    assert_eq!(state(&cluster), NodeState::Up);
    let contact_point = cluster.contact_points()[0];
    TcpStream::connect(contact_point).unwrap();
    shake_hands_over_tls(contact_point, &cluster.authority());
    let ring = cluster.nodetool(NODE, &["status"]).unwrap();
    let up_and_normal = format!("UN  {}", contact_point.ip());
    assert!(ring.contains(&up_and_normal) && ring.contains("Datacenter: dc1"), "{ring}");
    let timeout = cluster.nodetool(NODE, &["gettimeout", "read"]).unwrap();
    assert!(timeout.contains("1234 ms"), "{timeout}");
    assert!(matches!(cluster.start(NODE), Err(ClusterError::Running { node: NODE })));
    let no_such_node = NodeId(2);
    assert!(matches!(cluster.stop(no_such_node), Err(ClusterError::NoSuchNode { count: 1, .. })));

    let other = Cluster::open(folder.path(), &spec);
    assert!(matches!(other, Err(ClusterError::FolderHeld { .. })), "{other:?}");

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

#[test]
fn a_node_that_cannot_run_reports_the_reason() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut spec = ClusterSpec::new(Shape::nodes(1));
    spec.settings.yaml.insert("no_such_setting".to_owned(), 1.into());
    let cluster = Cluster::open(folder.path(), &spec).unwrap();
    let failed = cluster.start_all().unwrap_err();
    assert!(matches!(failed, ClusterError::Died { node: NODE, .. }), "{failed}");
    assert!(failed.to_string().contains("no_such_setting"), "{failed}");
    assert_eq!(state(&cluster), NodeState::Died);
}

#[test]
fn a_cluster_keeps_its_shape_and_its_addresses() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let spec = ClusterSpec { network: Network::Fixed(251), ..ClusterSpec::new(Shape::nodes(2)) };
    let contact_points = Cluster::open(folder.path(), &spec).unwrap().contact_points();
    let other = Cluster::open(folder.path(), &ClusterSpec { shape: Shape::nodes(3), ..spec.clone() });
    assert!(matches!(other, Err(ClusterError::OtherShape { .. })), "{other:?}");
    let other = Cluster::open(folder.path(), &ClusterSpec { network: Network::Fixed(252), ..spec.clone() });
    assert!(matches!(other, Err(ClusterError::BadSpec(_))), "{other:?}");
    let again = Cluster::open(folder.path(), &ClusterSpec { network: Network::Automatic, ..spec }).unwrap();
    assert_eq!(again.contact_points(), contact_points);
}
