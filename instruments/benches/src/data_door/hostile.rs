//! Memory of the server, and the service for an honest client, while others send expensive
//! requests.
//!
//! The others come from one loopback address, the honest client from another. The server's peak of
//! resident memory shows whether it keeps `limits.memory`; it includes everything else that the
//! server needs.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::Request;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::bench::Bench;
use crate::rig::figures::{Figures, Goal, Spread};
use crate::rig::penates::Server;

/// `limits.memory` (512 MiB), and the server's other memory: its caches, and buffers of
/// connections.
const PEAK_MB: Goal = Goal::AtMost(800.0);
/// Requests of the honest client without the expected response.
const REFUSED: Goal = Goal::AtMost(0.0);
/// The address of the honest client; the others come from 127.0.0.1.
const HONEST: &str = "127.0.0.2:0";
/// How long the honest client waits for a response.
const PATIENCE: Duration = Duration::from_secs(60);

const FORMS: usize = 150;
const FORM_BYTES: usize = 15 << 20;
const STREAMS: usize = 32;
const ARCHIVES: usize = 256;
const GRAPHS: usize = 150;
const GRAPH_BYTES: usize = 4 << 20;
const BOMBERS: usize = 4;
const UPDATES: usize = 200;
const JOINERS: usize = 16;
/// The graph that joins read, and how many values it has.
const JOINED: &str = "/rest/joined";
const JOINED_VALUES: usize = 900;
const SPARQL_UPDATE: &str = "application/sparql-update";

/// The requests of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    /// Forms of 15 MiB that lack their last byte.
    Forms,
    /// The same on 32 streams of one HTTP/2 connection, without a length.
    Streams,
    /// Turtle that expands to 400 MB by a long prefix, repeatedly.
    Bombs,
    /// Updates that expand to gigabytes by a long subject, repeatedly. Beside them, updates within
    /// all limits that take 60 MB each, 200 at once.
    Updates,
    /// Updates of one graph whose `WHERE` finds all pairs of its values and holds them, which would
    /// take 170 MB, on 16 connections, repeatedly.
    Joins,
    /// JSON-LD with a list of 800,000 empty lists, repeatedly.
    Lists,
    /// Archives of everything that are requested and not read.
    Archives,
    /// Turtle of 4 MiB that lacks its last byte.
    Graphs,
}

impl Attack {
    const ALL: [Self; 8] = [
        Self::Forms,
        Self::Streams,
        Self::Bombs,
        Self::Updates,
        Self::Joins,
        Self::Lists,
        Self::Archives,
        Self::Graphs,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Forms => "150 unfinished forms",
            Self::Streams => "32 streams of one connection",
            Self::Bombs => "prefix bombs",
            Self::Updates => "update bombs and 200 large updates",
            Self::Joins => "costly updates",
            Self::Lists => "lists of lists",
            Self::Archives => "256 archives never read",
            Self::Graphs => "150 unfinished graphs",
        }
    }

    /// Starts it. It continues until the tasks are dropped.
    fn begin(self, tasks: &mut JoinSet<()>, address: SocketAddr, ids: &Arc<str>) {
        let unfinished = |path: &'static str, media_type: &'static str, bytes: usize| async move {
            loop {
                // A client that is refused or cut off comes again.
                let _ = send_unfinished(address, path, media_type, bytes).await;
            }
        };
        let repeat = |path: &'static str, method: &'static str, media_type: &'static str, body: Arc<[u8]>| async move {
            loop {
                let _ = send(address, method, path, media_type, &body, true).await;
            }
        };
        let again = |method, media_type, body| repeat("/rest/", method, media_type, body);
        match self {
            Self::Forms => (0..FORMS).for_each(|_| {
                tasks.spawn(unfinished("/volumes", "application/x-www-form-urlencoded", FORM_BYTES));
            }),
            Self::Graphs => (0..GRAPHS).for_each(|_| {
                tasks.spawn(unfinished("/rest/", "text/turtle", GRAPH_BYTES));
            }),
            Self::Streams => {
                tasks.spawn(async move {
                    loop {
                        let _ = open_streams(address).await;
                    }
                });
            }
            Self::Bombs => {
                let bomb: Arc<[u8]> = bomb().into();
                (0..BOMBERS).for_each(|_| {
                    tasks.spawn(again("POST", "text/turtle", bomb.clone()));
                });
            }
            Self::Updates => {
                let (bomb, large): (Arc<[u8]>, Arc<[u8]>) = (update_bomb().into(), large_update().into());
                let bombers = std::iter::repeat_n(bomb, BOMBERS);
                bombers.chain(std::iter::repeat_n(large, UPDATES)).for_each(|update| {
                    tasks.spawn(again("PATCH", SPARQL_UPDATE, update));
                });
            }
            Self::Joins => {
                let join: Arc<[u8]> = join().into();
                (0..JOINERS).for_each(|_| {
                    tasks.spawn(repeat(JOINED, "PATCH", SPARQL_UPDATE, join.clone()));
                });
            }
            Self::Lists => {
                let lists: Arc<[u8]> = lists().into();
                (0..BOMBERS).for_each(|_| {
                    tasks.spawn(again("POST", "application/ld+json", lists.clone()));
                });
            }
            Self::Archives => (0..ARCHIVES).for_each(|_| {
                let ids = ids.clone();
                tasks.spawn(async move {
                    loop {
                        let _ = send(address, "POST", "/volumes", "text/plain", ids.as_bytes(), false).await;
                    }
                });
            }),
        }
    }
}

/// Measures each attack alone, and all of them together, each with a fresh server.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let mixes: Vec<_> = Attack::ALL.map(|attack| (attack.name(), vec![attack])).into_iter().collect();
    for _ in 0..bench.settings.repetitions {
        for (name, attacks) in mixes.iter().chain([&("all of these", Attack::ALL.to_vec())]) {
            once(bench, name, attacks, &mut figures).context(*name)?;
        }
    }
    Ok(figures)
}

fn once(bench: &Bench, name: &str, attacks: &[Attack], figures: &mut Figures) -> Result<()> {
    let server = bench.server_with_small_cache()?;
    let ids: Arc<str> = bench.corpus.ids(bench.settings.volumes).into();
    let first = ids.lines().next().context("no volumes")?.to_owned();
    let duration = Duration::from_secs_f64(bench.settings.seconds);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (answers, refused) = runtime.block_on(async {
        let put = Request::put(JOINED).header("content-type", "text/turtle").body(joined())?;
        let status = answered(server.http, put).await?;
        ensure!((200..300).contains(&status), "the graph for joins: {status}");
        let mut tasks = JoinSet::new();
        attacks.iter().for_each(|attack| attack.begin(&mut tasks, server.http, &ids));
        serve_honest(&server, &first, duration).await
    })?;
    runtime.shutdown_background();
    let waits = Spread::of(answers.iter().map(|wait| wait.as_secs_f64() * 1e3)).context("no answers")?;
    figures.hold(format!("{name}: peak of the server"), "MB", PEAK_MB, server.process.memory()?.peak_bytes / 1e6);
    figures.hold(format!("{name}: honest requests refused"), "", REFUSED, refused as f64);
    figures.report(format!("{name}: honest requests per second"), "1/s", answers.len() as f64 / duration.as_secs_f64());
    figures.report(format!("{name}: honest wait, median"), "ms", waits.median);
    figures.report(format!("{name}: honest wait, longest"), "ms", waits.max);
    Ok(())
}

/// The service for an honest client: the time of each whole response, and the number of refused
/// requests. It requests an archive of one volume and a page in turn, each on its own connection.
async fn serve_honest(server: &Server, volume: &str, duration: Duration) -> Result<(Vec<Duration>, usize)> {
    let (begun, mut answers, mut refused) = (Instant::now(), Vec::new(), 0);
    while begun.elapsed() < duration || answers.is_empty() {
        let asked = Instant::now();
        let archive = Request::post("/volumes").header("content-type", "text/plain").body(volume.to_owned())?;
        let list = Request::get("/volumes/?limit=10").body(String::new())?;
        for request in [archive, list] {
            match tokio::time::timeout(PATIENCE, answered(server.http, request)).await {
                Ok(Ok(200)) => answers.push(asked.elapsed()),
                _ => refused += 1,
            }
        }
        ensure!(begun.elapsed() < duration + 4 * PATIENCE, "an honest client gets nothing");
    }
    Ok((answers, refused))
}

/// The status of a response that was read whole.
async fn answered(address: SocketAddr, request: Request<String>) -> Result<u16> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(HONEST.parse()?)?;
    let stream = socket.connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut request = request.map(|body| Full::new(Bytes::from(body)));
    request.headers_mut().insert("host", http::HeaderValue::from_static("localhost"));
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    response.into_body().collect().await?;
    connection.abort();
    Ok(status)
}

fn head(method: &str, path: &str, media_type: &str, bytes: usize) -> String {
    let fields = format!("host: localhost\r\ncontent-type: {media_type}\r\ncontent-length: {bytes}");
    format!("{method} {path} HTTP/1.1\r\n{fields}\r\n\r\n")
}

/// Sends all of a body but its last byte, and waits until the server ends the connection.
async fn send_unfinished(address: SocketAddr, path: &str, media_type: &str, bytes: usize) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head("POST", path, media_type, bytes).as_bytes()).await?;
    let piece = [b'a'; 64 << 10];
    for _ in 0..bytes / piece.len() - 1 {
        stream.write_all(&piece).await?;
    }
    stream.write_all(&piece[1..]).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(())
}

/// Sends a body, and reads the response or nothing of it.
async fn send(address: SocketAddr, method: &str, path: &str, media_type: &str, body: &[u8], takes: bool) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head(method, path, media_type, body.len()).as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = [0; 1_024];
    if takes {
        ensure!(stream.read(&mut answer).await? > 0, "no answer");
        return Ok(());
    }
    // Until the server cuts the connection.
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stream.write_all(b"").await?;
        if stream.ready(tokio::io::Interest::ERROR | tokio::io::Interest::WRITABLE).await?.is_error() {
            return Ok(());
        }
    }
}

/// Opens streams that send an endless form, and waits for their responses.
async fn open_streams(address: SocketAddr) -> Result<()> {
    let io = TokioIo::new(TcpStream::connect(address).await?);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
    let connection = tokio::spawn(connection);
    let mut answers = JoinSet::new();
    for _ in 0..STREAMS {
        let pieces = (0..FORM_BYTES / (64 << 10)).map(|_| Bytes::from_static(&[b'a'; 64 << 10]));
        let pieces = stream::iter(pieces).chain(stream::pending()).map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
        let request =
            Request::post("http://localhost/volumes").header("content-type", "application/x-www-form-urlencoded");
        answers.spawn(sender.send_request(request.body(StreamBody::new(StreamExt::boxed(pieces)))?));
    }
    while answers.join_next().await.is_some() {}
    connection.abort();
    Ok(())
}

/// A prefix of 100 KB that is used 4,000 times.
fn bomb() -> Vec<u8> {
    let mut text = format!("@prefix p: <http://example.org/{}> .\n", "x".repeat(100 << 10));
    (0..4_000).for_each(|number| text.push_str(&format!("p:s{number} p:p p:o .\n")));
    text.into_bytes()
}

/// 250,000 nodes without a name, each of which repeats a subject of 60 KB.
fn update_bomb() -> Vec<u8> {
    let subject = format!("http://example.org/{}", "x".repeat(60_000));
    let objects = vec!["[]"; 250_000].join(",");
    format!("INSERT DATA {{ <{subject}> <http://example.org/p> {objects} }}").into_bytes()
}

/// 20,000 statements whose names have 1 KB each once they are written out.
fn large_update() -> Vec<u8> {
    let prefix = format!("PREFIX a: <http://example.org/{}/>", "x".repeat(980));
    let objects: Vec<_> = (0..20_000).map(|number| format!("a:{number}")).collect();
    format!("{prefix} INSERT DATA {{ a:s a:p {} }}", objects.join(",")).into_bytes()
}

/// A graph with so many values, and one statement about itself.
fn joined() -> String {
    let values: Vec<_> = (0..JOINED_VALUES).map(|number| number.to_string()).collect();
    format!("<> <http://example.org/p> {} ; <http://example.org/r> <> .", values.join(", "))
}

/// An update that finds all pairs of the values before the rest, with twelve more variables.
fn join() -> Vec<u8> {
    let steps = ('a'..'l').zip('b'..='l').map(|(one, next)| format!("?{one} <http://example.org/r> ?{next} . "));
    let pairs = "<> <http://example.org/p> ?x . <> <http://example.org/p> ?y";
    let pattern = format!("{pairs} . {}", steps.collect::<String>());
    format!("INSERT {{ <> <http://example.org/q> 1 }} WHERE {{ {pattern} }}").into_bytes()
}

/// A list of lists. Its subject is named behind it, so that no statement of it is complete before.
fn lists() -> Vec<u8> {
    let context = r#"{"p": {"@id": "http://example.org/p", "@container": "@list"}}"#;
    let items = vec!["[]"; 800_000].join(",");
    format!(r#"{{"@context": {context}, "p": [{items}], "@id": "http://example.org/s"}}"#).into_bytes()
}
