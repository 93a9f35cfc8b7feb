//! A measured server.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use cluster::CommitlogSync;
use redis::Connection;
use serde::Serialize;
use tempfile::TempDir;

use crate::cassandra::node::Node;
use crate::rig::penates::{Penates, listening};
use crate::rig::process::Process;

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Penates, with its embedded engine and default settings: a change is acknowledged when it is synced
    Penates,
    /// The same with `records.durability = "every 1s"`
    PenatesEverysec,
    /// Penates over one Cassandra node, in mode `atomic`
    PenatesCassandra,
    /// The same in mode `fast`
    PenatesCassandraFast,
    /// redis-server with `appendfsync always`
    RedisAlways,
    /// redis-server with `appendfsync everysec`
    RedisEverysec,
}

impl Kind {
    /// Whether it is Penates.
    pub fn is_penates(self) -> bool {
        !matches!(self, Self::RedisAlways | Self::RedisEverysec)
    }

    /// Whether it needs a Cassandra node.
    pub fn is_on_cassandra(self) -> bool {
        matches!(self, Self::PenatesCassandra | Self::PenatesCassandraFast)
    }

    /// The setting of a server of Penates; `None` for Redis.
    fn setting(self) -> Option<&'static str> {
        match self {
            Self::Penates => Some("records.durability=sync"),
            Self::PenatesEverysec => Some("records.durability=every 1s"),
            Self::PenatesCassandra => Some("records.mode=atomic"),
            Self::PenatesCassandraFast => Some("records.mode=fast"),
            Self::RedisAlways | Self::RedisEverysec => None,
        }
    }

    /// Redis at the same durability as Penates.
    pub fn peer(self) -> Option<Self> {
        match self {
            Self::Penates => Some(Self::RedisAlways),
            Self::PenatesEverysec => Some(Self::RedisEverysec),
            Self::PenatesCassandra | Self::PenatesCassandraFast | Self::RedisAlways | Self::RedisEverysec => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Penates => "Penates",
            Self::PenatesEverysec => "Penates (every 1s)",
            Self::PenatesCassandra => "Penates (Cassandra)",
            Self::PenatesCassandraFast => "Penates (Cassandra, fast)",
            Self::RedisAlways => "Redis (always)",
            Self::RedisEverysec => "Redis (everysec)",
        })
    }
}

/// The keyspace of a store on Cassandra.
const KEYSPACE: &str = "records";

/// How long a server may take for one answer: benchmarks measure how late answers are, and give up
/// no request before.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A server over its own store, which is deleted with it.
pub struct Subject {
    /// Its kind.
    pub kind: Kind,
    /// Its process.
    pub process: Process,
    /// Its address.
    pub address: SocketAddr,
    /// Its address for HTTP, if it has one.
    pub http: Option<SocketAddr>,
    /// The node that keeps its store, if there is one.
    pub node: Option<Node>,
    /// Its store. It follows the process, so that it is deleted after the process has ended.
    pub folder: TempDir,
}

impl Subject {
    /// Starts a server over a new store. A server of Penates has `more` settings.
    pub fn start(kind: Kind, penates: &Penates, folder: TempDir, more: &[&str]) -> Result<Self> {
        let log = folder.path().join("log");
        let node = kind.is_on_cassandra().then(|| Node::start(&folder.path().join("node"), None, CommitlogSync::Batch));
        let node = node.transpose()?;
        let (process, address, http) = match kind.setting() {
            Some(setting) => {
                let store = address_of_store(node.as_ref(), &folder)?;
                if node.is_some() {
                    penates.run([OsStr::new("init"), OsStr::new("--store"), &store])?;
                }
                serve(&[&[setting][..], more].concat(), penates, &store, &log)?
            }
            None => redis_server(if kind == Kind::RedisAlways { "always" } else { "everysec" }, folder.path(), &log)?,
        };
        Ok(Self { kind, process, address, http, node, folder })
    }

    /// Ends a server of Penates, and starts it again over its store as another program, such as the
    /// same one in a control group. The node of its store runs on.
    pub fn restarted(self, penates: &Penates) -> Result<Self> {
        self.restarted_with(penates, &[])
    }

    /// Starts it again with more settings.
    pub fn restarted_with(self, penates: &Penates, more: &[&str]) -> Result<Self> {
        let Self { kind, process, node, folder, .. } = self;
        let setting = kind.setting().context("Redis is not started again")?;
        drop(process);
        let store = address_of_store(node.as_ref(), &folder)?;
        let log = folder.path().join("log");
        let (process, address, http) = serve(&[&[setting][..], more].concat(), penates, &store, &log)?;
        Ok(Self { kind, process, address, http, node, folder })
    }

    /// Where a store of Penates is, as its commands name it.
    pub fn store(&self) -> Result<OsString> {
        address_of_store(self.node.as_ref(), &self.folder)
    }

    /// The folder with the data of records in a store of Penates.
    pub fn data(&self) -> Result<PathBuf> {
        match &self.node {
            Some(node) => Ok(node.data()?.join(KEYSPACE)),
            None => Ok(self.folder.path().join("data")),
        }
    }

    /// A connection.
    pub fn connect(&self) -> Result<Connection> {
        connect(self.address)
    }
}

/// Where a store of Penates is: in a keyspace of the node, or in a folder.
fn address_of_store(node: Option<&Node>, folder: &TempDir) -> Result<OsString> {
    match node {
        Some(node) => Ok(node.store(KEYSPACE)?.into()),
        None => Ok(folder.path().join("data").into_os_string()),
    }
}

/// A connection by the Redis protocol.
pub fn connect(address: SocketAddr) -> Result<Connection> {
    let client = redis::Client::open(format!("redis://{address}/"))?;
    let connection = client.get_connection_with_timeout(ANSWER_MAX)?;
    connection.set_read_timeout(Some(ANSWER_MAX))?;
    Ok(connection)
}

/// A process with its addresses: of the Redis protocol, and of HTTP.
pub type Started = (Process, SocketAddr, Option<SocketAddr>);

/// Starts Penates over a store, with more settings. Where they do not name another deadline, a server
/// has time enough for its answers: benchmarks measure how late they are.
pub fn serve(settings: &[&str], penates: &Penates, store: &OsStr, log: &Path) -> Result<Started> {
    let more = [&["records.listen=127.0.0.1:0", "records.deadline=30s"], settings].concat();
    let mut server = penates.serve(store, log, None, &more)?;
    let address = server.process.wait_for(|said| listening(said, "redis"))?;
    Ok((server.process, address, Some(server.http)))
}

fn redis_server(appendfsync: &str, folder: &Path, log: &Path) -> Result<Started> {
    // The port may be taken again before the server has it; then the benchmark fails, and says so.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
    command.args(["--save", "", "--appendonly", "yes", "--appendfsync", appendfsync]).arg("--dir").arg(folder);
    let process = Process::start(&mut command, log).context("redis-server (Debian: redis-server)")?;
    let began = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        ensure!(began.elapsed() < ANSWER_MAX, "redis-server does not listen");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((process, address, None))
}
