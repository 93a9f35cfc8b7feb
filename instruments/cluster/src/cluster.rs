//! A cluster: nodes that belong together, in one folder.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cache;
use crate::cql::Reach;
use crate::error::{ClusterError, Doing, Result};
use crate::jars::Jars;
use crate::java::Java;
use crate::memory;
use crate::network::Reserved;
use crate::node::{Node, NodeState, NodeStatus};
use crate::plan::NodePlan;
use crate::spec::{ClusterSpec, Network, NodeId, Settings};
use crate::tls;

/// The file that holds a cluster's specification.
const SPEC: &str = "cluster.json";

/// The file that is locked by the process that runs the cluster.
const LOCK: &str = "cluster.lock";

/// How long another process may take to release a folder: it may just be ending.
const HELD_PATIENCE: Duration = Duration::from_secs(5);

/// How long the first role may be unknown. Cassandra creates it soon after the first start.
const LOGIN_PATIENCE: Duration = Duration::from_secs(20);

/// The pause between two looks at nodes.
const PAUSE: Duration = Duration::from_millis(100);

/// A cluster that this process runs. All calls block, and any number of threads may use it.
/// Dropping it kills all nodes and waits until they are gone. Their data stays in the folder.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    settings: Mutex<Settings>,
    nodes: Vec<Node>,
    java: Java,
    jars: Jars,
    /// The heap's size where the settings name none, once it is known.
    fitting_heap_mib: Mutex<Option<u32>>,
    // Released last: fields are dropped in their order.
    _network: Reserved,
    _lock: File,
}

impl Cluster {
    /// Creates a cluster in a folder, or opens the one that is there, with its data, its addresses
    /// and these settings. It starts no node. The first time on a machine it fetches Cassandra,
    /// which takes half a minute or more.
    ///
    /// # Errors
    ///
    /// [`ClusterError::OtherShape`] if the folder's cluster has another shape;
    /// [`ClusterError::FolderHeld`] if another process runs it; and errors for whatever is missing
    /// on the machine.
    pub fn open(folder: impl AsRef<Path>, spec: &ClusterSpec) -> Result<Self> {
        spec.shape.check()?;
        std::fs::create_dir_all(&folder).doing("making the folder", folder.as_ref())?;
        let folder = folder.as_ref().canonicalize().doing("finding", folder.as_ref())?;
        let lock = Self::wait_until_free(&folder)?;
        let mut spec = spec.clone();
        if let Some(made) = Self::spec_in(&folder)? {
            if made.shape != spec.shape {
                return Err(ClusterError::OtherShape { folder, made: made.shape, asked: spec.shape });
            }
            // Nodes know each other by their addresses.
            if spec.network != Network::Automatic && spec.network != made.network {
                let folder = folder.display();
                return Err(ClusterError::BadSpec(format!(
                    "the cluster in {folder} keeps its network, {:?}",
                    made.network
                )));
            }
            (spec.network, spec.ports) = (made.network, made.ports);
        }
        let java = Java::find()?;
        let jars = Jars::find(&java)?;
        let network = Reserved::choose(spec.network, &folder, spec.shape.count(), spec.ports)?;
        spec.network = Network::Fixed(network.third);
        write_spec(&folder, &spec)?;
        let plans = NodePlan::all(spec.shape, &network, spec.ports, &folder);
        tls::provide(&folder, &plans)?;
        let nodes = plans.into_iter().map(Node::new).collect();
        let settings = Mutex::new(spec.settings);
        let fitting_heap_mib = Mutex::default();
        Ok(Self { folder, settings, nodes, java, jars, fitting_heap_mib, _network: network, _lock: lock })
    }

    /// Waits until no process runs the folder's cluster. None can while the returned value lives.
    pub(crate) fn wait_until_free(folder: &Path) -> Result<File> {
        let lock = cache::lock(&folder.join(LOCK), HELD_PATIENCE)?;
        lock.ok_or_else(|| ClusterError::FolderHeld { folder: folder.to_owned() })
    }

    /// The specification with which the cluster in a folder was last opened; `None` if there is
    /// none.
    pub fn spec_in(folder: impl AsRef<Path>) -> Result<Option<ClusterSpec>> {
        let path = folder.as_ref().join(SPEC);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).doing("reading", &path),
        };
        serde_json::from_str(&text).map(Some).map_err(std::io::Error::from).doing("understanding", &path)
    }

    /// Starts all nodes that do not run, and waits until they are up. The first of each data center
    /// start one after the other, because the others find the cluster through them; then all others
    /// start at once.
    pub fn start_all(&self) -> Result<()> {
        let (seeds, others): (Vec<_>, Vec<_>) =
            self.nodes.iter().filter(|node| node.status().pid.is_none()).partition(|node| node.plan.is_seed());
        let up_within = self.settings().up_within;
        for seed in seeds {
            self.launch(seed)?;
            seed.wait_until_up(up_within)?;
        }
        others.iter().try_for_each(|node| self.launch(node))?;
        let patience = up_within * others.len().max(1) as u32;
        others.iter().try_for_each(|node| node.wait_until_up(patience))?;
        self.wait_until_met()
    }

    /// Starts a node and waits until it is up.
    pub fn start(&self, id: NodeId) -> Result<()> {
        let node = self.node(id)?;
        self.launch(node)?;
        node.wait_until_up(self.settings().up_within)?;
        self.wait_until_met()
    }

    fn launch(&self, node: &Node) -> Result<()> {
        let settings = self.settings();
        let heap_mib = settings.heap_mib.map_or_else(|| self.fitting_heap_mib(), Ok)?;
        let java = settings.java_home.as_deref().map_or_else(|| Ok(self.java.clone()), Java::in_home)?;
        node.start(&settings, heap_mib, &self.jars, &java)
    }

    /// The heap's size that fits into memory. It is computed once: memory that the first nodes take
    /// must not reduce it for the others.
    fn fitting_heap_mib(&self) -> Result<u32> {
        let mut known = self.fitting_heap_mib.lock();
        let heap_mib = known.map_or_else(|| memory::heap_mib(self.nodes.len()), Ok)?;
        *known = Some(heap_mib);
        Ok(heap_mib)
    }

    /// If all nodes are up, waits until each knows and reaches all others, so that no client gets an error
    /// about missing replicas. If one is down, it is not known which nodes should be reached.
    fn wait_until_met(&self) -> Result<()> {
        let patience = self.settings().up_within;
        let deadline = Instant::now() + patience;
        let login_deadline = Instant::now() + LOGIN_PATIENCE;
        for node in &self.nodes {
            loop {
                if self.nodes.iter().any(|node| node.status().state != NodeState::Up) {
                    return Ok(());
                }
                match node.reach(self.nodes.len() - 1) {
                    Reach::All => break,
                    // The password was changed, as it should be.
                    Reach::LoginRefused if Instant::now() >= login_deadline => return Ok(()),
                    _ if Instant::now() >= deadline => return Err(node.not_met(patience)),
                    _ => std::thread::sleep(PAUSE),
                }
            }
        }
        Ok(())
    }

    /// Asks a node to end (SIGTERM) and waits until it has. It informs the other nodes and writes
    /// its memtables first.
    pub fn stop(&self, id: NodeId) -> Result<()> {
        self.node(id)?.stop()
    }

    /// Kills a node (SIGKILL) and waits until it is gone.
    pub fn kill(&self, id: NodeId) -> Result<()> {
        self.node(id)?.kill()
    }

    /// Holds a node (SIGSTOP): it keeps its connections and answers nothing.
    pub fn pause(&self, id: NodeId) -> Result<()> {
        self.node(id)?.pause()
    }

    /// Lets a held node continue (SIGCONT).
    pub fn resume(&self, id: NodeId) -> Result<()> {
        self.node(id)?.resume()
    }

    /// Kills all running nodes at once, and waits until they are gone.
    pub fn kill_all(&self) -> Result<()> {
        self.all_at_once(Node::kill)
    }

    /// Asks all running nodes to end, at once, and waits until they have.
    pub fn stop_all(&self) -> Result<()> {
        self.all_at_once(Node::stop)
    }

    /// Ends all running nodes. Returns the first error when all are done.
    fn all_at_once(&self, act: fn(&Node) -> Result<()>) -> Result<()> {
        let running = self.nodes.iter().filter(|node| node.status().pid.is_some());
        std::thread::scope(|scope| {
            let acting: Vec<_> = running.map(|node| scope.spawn(move || act(node))).collect();
            let done = acting.into_iter().map(|acting| acting.join());
            let mut done = done.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            done.try_for_each(|done| match done {
                // It has ended by itself meanwhile, as it should.
                Err(ClusterError::NotRunning { .. }) => Ok(()),
                done => done,
            })
        })
    }

    /// Runs Cassandra's `nodetool` with a command (such as `["repair", "--full"]`) against a node
    /// and returns its output. It takes a second or more.
    pub fn nodetool(&self, id: NodeId, command: &[&str]) -> Result<String> {
        self.node(id)?.nodetool(command, &self.jars, &self.java)
    }

    /// The settings for nodes that are started from now on.
    pub fn settings(&self) -> Settings {
        self.settings.lock().clone()
    }

    /// Changes the settings for nodes that are started from now on.
    pub fn set_settings(&self, settings: Settings) {
        *self.settings.lock() = settings;
    }

    /// The contact points of clients: all nodes, running or not.
    pub fn contact_points(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.plan.cql()).collect()
    }

    /// The certificate (PEM) that clients should trust if [`Settings::client_tls`] is set.
    pub fn authority(&self) -> PathBuf {
        tls::authority(&self.folder)
    }

    /// The state of each node.
    pub fn status(&self) -> Vec<NodeStatus> {
        self.nodes.iter().map(Node::status).collect()
    }

    /// The numbers of all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().map(|node| node.plan.id)
    }

    /// The folder of the jars that its nodes run.
    pub fn jars(&self) -> &Path {
        &self.jars.folder
    }

    /// The cluster's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn node(&self, id: NodeId) -> Result<&Node> {
        let found = self.nodes.iter().find(|node| node.plan.id == id);
        found.ok_or(ClusterError::NoSuchNode { node: id, count: self.nodes.len() })
    }
}

fn write_spec(folder: &Path, spec: &ClusterSpec) -> Result<()> {
    let path = folder.join(SPEC);
    let text = serde_json::to_string_pretty(spec).map_err(std::io::Error::from).doing("writing", &path)?;
    cache::write(&path, &text)
}
