//! A measured server.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use redis::Connection;
use serde::Serialize;
use tempfile::TempDir;

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
    /// redis-server with `appendfsync always`
    RedisAlways,
    /// redis-server with `appendfsync everysec`
    RedisEverysec,
}

impl Kind {
    /// Whether it is Penates.
    pub fn is_penates(self) -> bool {
        matches!(self, Self::Penates | Self::PenatesEverysec)
    }

    /// Redis at the same durability as Penates.
    pub fn peer(self) -> Option<Self> {
        match self {
            Self::Penates => Some(Self::RedisAlways),
            Self::PenatesEverysec => Some(Self::RedisEverysec),
            Self::RedisAlways | Self::RedisEverysec => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Penates => "Penates",
            Self::PenatesEverysec => "Penates (every 1s)",
            Self::RedisAlways => "Redis (always)",
            Self::RedisEverysec => "Redis (everysec)",
        })
    }
}

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
    /// Its store. It follows the process, so that it is deleted after the process has ended.
    pub folder: TempDir,
}

impl Subject {
    /// Starts a server over a new store.
    pub fn start(kind: Kind, penates: &Penates, folder: TempDir) -> Result<Self> {
        let log = folder.path().join("log");
        let (process, address) = match kind {
            Kind::Penates => start_penates("sync", penates, folder.path(), &log)?,
            Kind::PenatesEverysec => start_penates("every 1s", penates, folder.path(), &log)?,
            Kind::RedisAlways => redis_server("always", folder.path(), &log)?,
            Kind::RedisEverysec => redis_server("everysec", folder.path(), &log)?,
        };
        Ok(Self { kind, process, address, folder })
    }

    /// A connection.
    pub fn connect(&self) -> Result<Connection> {
        let client = redis::Client::open(format!("redis://{}/", self.address))?;
        let connection = client.get_connection_with_timeout(ANSWER_MAX)?;
        connection.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(connection)
    }
}

fn start_penates(durability: &str, penates: &Penates, folder: &Path, log: &Path) -> Result<(Process, SocketAddr)> {
    let durability = format!("records.durability={durability}");
    let more = ["records.listen=127.0.0.1:0", "records.deadline=30s", &durability];
    let mut server = penates.serve(folder.join("data").as_os_str(), log, None, &more)?;
    let address = server.process.wait_for(|said| listening(said, "redis"))?;
    Ok((server.process, address))
}

fn redis_server(appendfsync: &str, folder: &Path, log: &Path) -> Result<(Process, SocketAddr)> {
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
    Ok((process, address))
}
