//! The door over a data folder or a Cassandra node, and real servers to compare with.

#![allow(dead_code)] // Each test program uses a part of it.

pub mod commands;
pub mod counts;
pub mod frame;
pub mod http;
pub mod java;
pub mod node;
pub mod python;
pub mod stores;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use budget::{Memory, Party, Share};
use bytes::BytesMut;
use door_records::{Access, Door, Ends, Exceeded, Refused, RequestLimits, Rights, Settings, WrongPassword};
use frame::Frame;
use records::{Mode, Records};
use redis_protocol::{resp2, resp3};
use store::faults::Faults;
use store::limited::Limited;
use store::{Clock, Limits, Store, SystemClock};
use store_cassandra::testing::{self, fresh_options};
use store_cassandra::{CassandraOptions, CassandraStore};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use stores::{Lagging, Shared};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, UnixStream};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// The longest time for a start and for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The runtime of a test program.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

/// Reports what was left out, and why, in one line. If `CI` is set, nothing may be left out.
pub fn not_run(what: &str, why: &str) {
    let why: Vec<_> = why.split_whitespace().collect();
    testing::not_run(&format!("{what}: {}", why.join(" ")));
}

/// Takes all memory that is left, but for less than a KiB.
pub fn fill(memory: &Memory) -> Vec<Share> {
    std::iter::from_fn(|| memory.try_reserve(&Party::Local, 1 << 10).ok()).collect()
}

/// Everyone may do everything.
struct Open;

impl Access for Open {
    fn rights(&self, _: Option<&[u8]>) -> Result<Rights, WrongPassword> {
        Ok(Rights { read: true, write: true, operate: true })
    }

    fn user(&self, password: &[u8]) -> Option<String> {
        String::from_utf8(password.to_vec()).ok()
    }

    fn count(&self, _: &Party) -> Result<(), Exceeded> {
        Ok(())
    }

    fn sent(&self, _: &Party, _: u64) {}

    fn refused(&self, _: &Refused<'_>) {}
}

/// Settings with which nothing ends by itself.
pub fn settings() -> Settings {
    Settings {
        deadline: PATIENCE,
        deadline_max: PATIENCE,
        silence_max: PATIENCE,
        stall_max: PATIENCE,
        request: RequestLimits::default(),
    }
}

/// The door, over a data folder of its own or over a keyspace.
pub struct Subject {
    /// What it is a door to.
    pub records: Arc<Records>,
    door: Arc<Door>,
    stop: CancellationToken,
    _folder: Option<TempDir>,
}

/// A fresh keyspace; `None` if no node can be started, which was reported.
pub async fn keyspace() -> Option<CassandraOptions> {
    fresh_options().await
}

impl Subject {
    /// Starts it.
    pub async fn start() -> Self {
        Self::with(Memory::new(64 << 20), settings()).await
    }

    /// Starts it with a budget and settings.
    pub async fn with(memory: Memory, settings: Settings) -> Self {
        let (folder, engine) = opened();
        Self::over(Records::new(engine, Arc::new(SystemClock)), Some(folder), memory, settings)
    }

    /// Likewise, within a wrapper of the store.
    pub async fn wrapped<W: Store + 'static>(
        wrap: impl FnOnce(Arc<dyn Store>) -> W,
        memory: Memory,
        settings: Settings,
    ) -> (Self, Arc<W>) {
        let (folder, engine) = opened();
        let wrapped = Arc::new(wrap(engine));
        let records = Records::new(wrapped.clone(), Arc::new(SystemClock));
        (Self::over(records, Some(folder), memory, settings), wrapped)
    }

    /// Starts it over a data folder, with a clock.
    pub async fn by_clock(clock: Arc<dyn Clock>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
        let records = Records::new(within_limits(engine), clock);
        Self::over(records, Some(folder), Memory::new(64 << 20), settings())
    }

    /// Starts it over a data folder, with records that remember what is asked for most.
    pub async fn remembering() -> Self {
        let (folder, engine) = opened();
        let records = Records::new(engine, Arc::new(SystemClock)).remembering();
        Self::over(records, Some(folder), Memory::new(64 << 20), settings())
    }

    /// Starts it for clients of which not each may do everything.
    pub async fn guarded(access: Box<dyn Access>) -> Self {
        let (folder, engine) = opened();
        let records = Arc::new(Records::new(engine, Arc::new(SystemClock)));
        let door = Door::new(records.clone(), access, Memory::new(64 << 20), settings());
        Self { records, door, stop: CancellationToken::new(), _folder: Some(folder) }
    }

    /// Starts it over a store that meets faults, and that several processes seem to share.
    pub async fn shared(mode: Mode, settings: Settings) -> (Self, Arc<Faults>) {
        let (folder, engine) = opened();
        let faults = Arc::new(Faults::new(engine));
        let records = Records::in_mode(Arc::new(Shared(faults.clone())), Arc::new(SystemClock), mode);
        (Self::over(records, Some(folder), Memory::new(64 << 20), settings), faults)
    }

    /// Starts it over a store that several processes seem to share, and whose usual reads ask a
    /// replica that may lag.
    pub async fn lagging() -> (Self, Arc<Lagging>) {
        let folder = tempfile::tempdir().unwrap();
        let [inner, replica] = ["inner", "replica"].map(|name| {
            let options = EmbeddedOptions::default();
            within_limits(EmbeddedStore::open(&folder.path().join(name), options, Arc::new(SystemClock)).unwrap())
        });
        let lagging = Arc::new(Lagging::new(inner, replica));
        let records = Records::new(lagging.clone(), Arc::new(SystemClock));
        (Self::over(records, Some(folder), Memory::new(64 << 20), settings()), lagging)
    }

    /// Starts it over a keyspace, like one of several servers.
    pub async fn on_cassandra(options: CassandraOptions) -> Self {
        Self::in_mode(options, Mode::Atomic).await
    }

    /// Likewise, in a mode.
    pub async fn in_mode(options: CassandraOptions, mode: Mode) -> Self {
        Self::with_clock(options, mode, Arc::new(SystemClock)).await
    }

    /// Likewise, with a clock.
    pub async fn with_clock(options: CassandraOptions, mode: Mode, clock: Arc<dyn Clock>) -> Self {
        let engine = CassandraStore::open(options, clock.clone()).await.unwrap();
        let records = Records::in_mode(within_limits(engine), clock, mode);
        Self::over(records, None, Memory::new(64 << 20), settings())
    }

    fn over(records: Records, folder: Option<TempDir>, memory: Memory, settings: Settings) -> Self {
        let records = Arc::new(records);
        let door = Door::new(records.clone(), Box::new(Open), memory, settings);
        Self { records, door, stop: CancellationToken::new(), _folder: folder }
    }

    /// The address of a listener for programs. Each call makes one.
    pub async fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (door, stop) = (self.door.clone(), self.stop.clone());
        tokio::spawn(async move {
            loop {
                let (stream, peer) = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap(),
                    () = stop.cancelled() => return,
                };
                let ends = Ends { peer: Some(peer), local: Some(address) };
                tokio::spawn(door.clone().serve(stream, Party::Local, ends, stop.clone()));
            }
        });
        address
    }

    /// How many commands and requests met damage.
    pub fn damage_found(&self) -> u64 {
        self.door.damage_found()
    }

    /// The same records over HTTP.
    pub fn router(&self) -> axum::Router {
        let door_records::http::Routes { read, write } = door_records::http::routes(self.door.clone());
        read.merge(write)
    }

    /// A connection within the process, which holds so many bytes on their way.
    pub fn pipe(&self, bytes: usize) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(bytes);
        tokio::spawn(self.door.clone().serve(theirs, Party::Local, Ends::default(), self.stop.clone()));
        ours
    }

    /// A client with a connection within the process.
    pub fn connect(&self) -> Connection {
        Connection::new(self.pipe(1 << 20))
    }
}

/// A new data folder and the store in it.
fn opened() -> (TempDir, Arc<dyn Store>) {
    let folder = tempfile::tempdir().unwrap();
    let engine = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
    (folder, within_limits(engine))
}

fn within_limits(engine: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Limited::new(engine, Limits::default()))
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A real server. It listens on a socket of its own, so that no other program can have its address.
pub struct Peer {
    socket: PathBuf,
    child: Child,
    _folder: TempDir,
}

impl Peer {
    /// Debian's Redis; `None` if it is not installed.
    pub fn redis() -> Option<Self> {
        Self::start("a comparison of records with Redis", Ok(PathBuf::from("redis-server")))
    }

    /// Valkey, which knows the expiry of attributes; `None` if it cannot be fetched.
    pub fn valkey() -> Option<Self> {
        Self::start("a comparison of records with Valkey", python::valkey_server())
    }

    /// If there is none, `test` is reported as not run.
    fn start(test: &str, program: Result<PathBuf, String>) -> Option<Self> {
        let started =
            program.and_then(|program| Self::spawn(&program).map_err(|error| format!("{program:?}: {error}")));
        match started {
            Ok(peer) => Some(peer),
            Err(reason) => {
                not_run(test, &reason);
                None
            }
        }
    }

    fn spawn(program: &Path) -> std::io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("socket");
        let mut command = Command::new(program);
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let peer = Self { socket, child, _folder: folder };
        let began = Instant::now();
        while std::os::unix::net::UnixStream::connect(&peer.socket).is_err() {
            assert!(began.elapsed() < PATIENCE, "{program:?} does not listen");
            std::thread::yield_now();
        }
        Ok(peer)
    }

    /// A new connection.
    pub async fn connect(&self) -> Connection {
        Connection::new(UnixStream::connect(&self.socket).await.unwrap())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a client speaks over.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// A client.
pub struct Connection {
    stream: Box<dyn Stream>,
    input: BytesMut,
    speaks_3: bool,
}

impl Connection {
    fn new(stream: impl Stream) -> Self {
        Self { stream: Box::new(stream), input: BytesMut::new(), speaks_3: false }
    }

    /// Speaks RESP2 or RESP3 from now on.
    pub async fn hello(&mut self, version: &str) {
        self.speaks_3 = version == "3";
        self.ask(&["HELLO", version]).await;
    }

    /// Sends a command and waits for its answer.
    pub async fn ask(&mut self, words: &[&str]) -> Frame {
        self.ask_all(&[words]).await.remove(0)
    }

    /// Sends commands at once and waits for their answers.
    pub async fn ask_all(&mut self, commands: &[&[&str]]) -> Vec<Frame> {
        let mut request = Vec::new();
        for words in commands {
            request.extend(format!("*{}\r\n", words.len()).into_bytes());
            for word in *words {
                request.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
            }
        }
        self.stream.write_all(&request).await.unwrap();
        let mut answers = Vec::new();
        while answers.len() < commands.len() {
            answers.push(self.answer().await);
        }
        answers
    }

    async fn answer(&mut self) -> Frame {
        let answer = async {
            loop {
                if let Some((frame, taken)) = self.decoded() {
                    let _ = self.input.split_to(taken);
                    return frame;
                }
                assert_ne!(self.stream.read_buf(&mut self.input).await.unwrap(), 0, "the connection ended");
            }
        };
        tokio::time::timeout(PATIENCE, answer).await.unwrap()
    }

    fn decoded(&self) -> Option<(Frame, usize)> {
        if self.speaks_3 {
            let decoded = resp3::decode::complete::decode(&self.input).unwrap();
            return decoded.map(|(frame, taken)| (frame.into(), taken));
        }
        let decoded = resp2::decode::decode(&self.input).unwrap();
        decoded.map(|(frame, taken)| (frame.into(), taken))
    }
}
