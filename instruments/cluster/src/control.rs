//! Commands for a cluster that another process runs: one line of JSON each way, over a Unix socket
//! in the cluster's folder.
//!
//! Any process that may open the socket may give commands, as it may change the folder's files.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;
use crate::error::{ClusterError, Doing, Result};
use crate::node::NodeStatus;
use crate::spec::NodeId;

/// The socket's name.
const SOCKET: &str = "control";

/// Longest line of a command, in bytes.
const COMMAND_MAX_BYTES: u64 = 4096;

/// How long a client may take to send its command, and to read the answer.
const TALK_PATIENCE: Duration = Duration::from_secs(10);

/// A command to the process that runs a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", content = "node", rename_all = "lowercase")]
pub enum Order {
    /// Report the nodes' states.
    Status,
    /// Start a node, and wait until it is up.
    Start(NodeId),
    /// Ask a node to end, and wait until it has.
    Stop(NodeId),
    /// Kill a node (SIGKILL).
    Kill(NodeId),
    /// Hold a node (SIGSTOP).
    Pause(NodeId),
    /// Let a held node continue (SIGCONT).
    Resume(NodeId),
    /// Ask all nodes to end, and wait until they and the process that runs the cluster have.
    Down,
}

/// The nodes after an order was executed, or the reason why it was not.
type Answer = std::result::Result<Vec<NodeStatus>, String>;

/// Executes orders for a cluster as long as it lives.
#[derive(Debug)]
pub struct Control {
    socket: PathBuf,
    down: Receiver<()>,
}

impl Control {
    /// Starts to execute orders, on threads of its own.
    pub fn open(cluster: &Arc<Cluster>) -> Result<Self> {
        let socket = cluster.folder().join(SOCKET);
        // A process that was killed left it behind. The folder is ours now.
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).doing("removing", &socket),
            _ => {}
        }
        let listener = UnixListener::bind(&socket).doing("listening at", &socket)?;
        let (went_down, down) = mpsc::channel();
        let cluster = Arc::downgrade(cluster);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // The cluster ends when its owner drops it. Orders do not keep it alive.
                let Some(cluster) = cluster.upgrade() else { return };
                let went_down = went_down.clone();
                std::thread::spawn(move || {
                    // The client is gone, so no one reads the answer.
                    let _ = attend(stream, &cluster, &went_down);
                });
            }
        });
        Ok(Self { socket, down })
    }

    /// Waits until [`Order::Down`] was executed, at most this long. Returns whether it was.
    pub fn wait_until_down(&self, patience: Duration) -> bool {
        !matches!(self.down.recv_timeout(patience), Err(mpsc::RecvTimeoutError::Timeout))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // The next process that runs the cluster replaces a socket that stays.
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn attend(stream: UnixStream, cluster: &Cluster, went_down: &Sender<()>) -> io::Result<()> {
    stream.set_read_timeout(Some(TALK_PATIENCE))?;
    stream.set_write_timeout(Some(TALK_PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(COMMAND_MAX_BYTES)).read_line(&mut line)?;
    let order = serde_json::from_str::<Order>(&line);
    let is_down = matches!(order, Ok(Order::Down));
    let answer: Answer = match order {
        Ok(order) => carry_out(order, cluster).map(|()| cluster.status()).map_err(|error| error.to_string()),
        Err(error) => Err(format!("this is not an order: {error}")),
    };
    let mut output = serde_json::to_vec(&answer)?;
    output.push(b'\n');
    let written = (&stream).write_all(&output);
    if is_down {
        // The receiver may be gone, and then nobody waits.
        let _ = went_down.send(());
    }
    written
}

fn carry_out(order: Order, cluster: &Cluster) -> Result<()> {
    match order {
        Order::Status => Ok(()),
        Order::Start(node) => cluster.start(node),
        Order::Stop(node) => cluster.stop(node),
        Order::Kill(node) => cluster.kill(node),
        Order::Pause(node) => cluster.pause(node),
        Order::Resume(node) => cluster.resume(node),
        Order::Down => cluster.stop_all(),
    }
}

/// Sends an order to the process that runs the cluster in this folder, and returns the nodes
/// afterwards.
///
/// # Errors
///
/// [`ClusterError::NotRun`] if no process runs it; [`ClusterError::Refused`] with that process's
/// error.
pub fn order(folder: impl AsRef<Path>, order: Order) -> Result<Vec<NodeStatus>> {
    let folder = folder.as_ref();
    if Cluster::spec_in(folder)?.is_none() {
        return Err(ClusterError::NoCluster { folder: folder.to_owned() });
    }
    let socket = folder.join(SOCKET);
    let stream = UnixStream::connect(&socket).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ClusterError::NotRun { folder: folder.to_owned() }
        }
        _ => ClusterError::Io { doing: "connecting to", path: socket.clone(), source: error },
    })?;
    let nodes = talk(stream, order).doing("talking by", &socket)?.map_err(ClusterError::Refused)?;
    if order == Order::Down {
        Cluster::wait_until_free(folder)?;
    }
    Ok(nodes)
}

fn talk(mut stream: UnixStream, order: Order) -> io::Result<Answer> {
    let mut line = serde_json::to_vec(&order)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the process that runs the cluster has ended"));
    }
    Ok(serde_json::from_str(&answer)?)
}

/// Makes this process independent of its terminal, so that closing the terminal does not end it.
pub fn leave_terminal() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}
