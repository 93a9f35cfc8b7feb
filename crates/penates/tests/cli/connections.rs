//! Many connections: clients that send nothing, stop within a request, or read nothing keep nobody
//! else from being served.

use std::io;
use std::process::Command;
use std::time::Duration;

use futures::StreamExt;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use penates::client::{self, Client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;

/// Connections that send nothing, or nothing more.
const QUIET: usize = 10_000;
/// Connections of records, if the limit of descriptors does not allow [`QUIET`] of them.
const QUIET_MIN: usize = 2_000;
/// Descriptors of a process that are for other things than these connections.
const OTHER_DESCRIPTORS: u64 = 500;
/// The greatest memory of the server for each of them, in bytes.
const BYTES_EACH_MAX: u64 = 48 << 10;
/// Connections that the server accepts before further ones are made.
const BATCH: usize = 500;
/// Connections that are made at the same time.
const CONNECTING_AT_ONCE: usize = 64;
/// The pause between two polls.
const POLL: Duration = Duration::from_millis(10);

/// What a client sends before it falls silent: nothing, half of a request's head, or the beginning
/// of HTTP/2 (its preface and empty settings).
const SAID: [&[u8]; 3] =
    [b"", b"GET /rest/ HTTP/1.1\r\nhost: te", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"];

/// Requests of the Redis protocol in two parts, between which a client is silent.
const HALVES: [[&[u8]; 2]; 3] = [
    [b"*2\r\n$6\r\nEXISTS\r\n$6\r\nser", b"ved\r\n"],
    [b"*2\r\n$6\r\nEXISTS\r\n", b"$6\r\nserved\r\n"],
    [b"EXISTS ser", b"ved\r\n"],
];

/// Tests with so many connections follow each other, because a process has not enough descriptors
/// for two of them.
static MANY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn quiet(served: &Served, count: usize) -> Vec<TcpStream> {
    let connect = |n: usize| async move {
        let mut stream = TcpStream::connect(served.url.strip_prefix("http://").unwrap()).await.unwrap();
        stream.write_all(SAID[n % SAID.len()]).await.unwrap();
        stream
    };
    futures::stream::iter(0..count).map(connect).buffer_unordered(CONNECTING_AT_ONCE).collect().await
}

/// The same, some at a time: the system forgets connections that wait in too long a queue for a
/// busy server.
async fn quiet_in_batches(served: &Served, client: &Client, count: usize) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    while connections.len() < count {
        connections.extend(quiet(served, BATCH.min(count - connections.len())).await);
        until_open(client, "a place for each", |open| open >= connections.len()).await;
    }
    connections
}

/// Creates, reads and deletes a resource of the repository, and reads a page.
async fn be_served(client: &Client) {
    let put = Request::builder().method(Method::PUT).header(CONTENT_TYPE, "text/turtle");
    client.ask("/rest/served", put, client::full("<> <http://example.org/says> \"something\" .")).await.unwrap();
    let read = client::whole(client.get("/rest/served", "application/n-triples").await.unwrap()).await.unwrap();
    assert!(String::from_utf8_lossy(&read).contains("something"));
    for path in ["/rest/served", "/rest/served/fcr:tombstone"] {
        client.ask(path, Request::builder().method(Method::DELETE), client::empty()).await.unwrap();
    }
    client::whole(client.get("/volumes/psia.ark+=13960=t0ks80527/pages/7", "text/plain").await.unwrap()).await.unwrap();
}

/// The number of open connections.
async fn open_connections(client: &Client) -> usize {
    let metrics = client::whole(client.get("/metrics", "text/plain").await.unwrap()).await.unwrap();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let line = metrics.lines().find(|line| line.starts_with("http_server_open_connections ")).unwrap();
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

async fn until_open(client: &Client, what: &str, is_so: impl Fn(usize) -> bool) {
    let wait = async {
        while !is_so(open_connections(client).await) {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"));
}

/// Waits until the server has closed each connection.
async fn let_go(connections: Vec<TcpStream>) {
    let ends = connections.into_iter().map(|mut stream| async move {
        let mut said = Vec::new();
        match stream.read_to_end(&mut said).await {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}"),
        }
    });
    tokio::time::timeout(PATIENCE, futures::future::join_all(ends)).await.expect("some are never closed");
}

#[tokio::test]
async fn ten_thousand_silent_connections_keep_nobody_waiting_and_cost_little() {
    let _alone = MANY.lock().await;
    let allowed = server::raise_descriptor_limit();
    assert!(
        allowed.is_none_or(|allowed| allowed > 12_500),
        "this takes 12,500 descriptors (ulimit -Hn), not {allowed:?}"
    );
    let store = TestStore::with(&[SMALL]);
    // Longer than it takes to open them, on any machine.
    let served = store.serve(&["--set=auth.write=open", "--set=limits.header_time=10min"]);
    let client = Client::network(&served.url, None, None).unwrap();
    be_served(&client).await;
    let before = served.memory_bytes();
    let (connections, ()) = futures::join!(quiet_in_batches(&served, &client, QUIET), async {
        for _ in 0..20 {
            be_served(&client).await;
        }
    });
    let each = served.memory_bytes().saturating_sub(before) / QUIET as u64;
    be_served(&client).await;
    println!("{each} bytes for each connection");
    assert!(each <= BYTES_EACH_MAX, "{each} bytes for each connection");
    drop(connections);
    until_open(&client, "few connections", |open| open < 10).await;
    be_served(&client).await;
    served.stop("TERM");
}

/// Sends what ends a request of the Redis protocol, and reads the line of its answer.
async fn answer(stream: &mut TcpStream, sent: &[u8]) -> String {
    stream.write_all(sent).await.unwrap();
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

/// A connection of records, once it is served. Every other one then begins a request.
async fn of_records(address: &str, n: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert_eq!(answer(&mut stream, b"PING\r\n").await, "+PONG");
    if n.is_multiple_of(2) {
        stream.write_all(HALVES[n / 2 % HALVES.len()][0]).await.unwrap();
    }
    stream
}

/// Sends its words to each of these connections. All of them answer that there is one record.
async fn all_are_answered<'a>(asked: impl Iterator<Item = (&'a mut TcpStream, &'static [u8])>) {
    let answers = futures::stream::iter(asked.map(|(stream, sent)| answer(stream, sent)));
    let all = answers.buffer_unordered(CONNECTING_AT_ONCE).collect::<Vec<String>>();
    let all = tokio::time::timeout(PATIENCE, all).await.expect("some are never answered");
    assert!(!all.is_empty() && all.iter().all(|answer| answer == ":1"), "{all:?}");
}

#[tokio::test]
async fn ten_thousand_connections_of_records_half_of_them_within_a_request_keep_nobody_waiting_and_cost_little() {
    let _alone = MANY.lock().await;
    // The server keeps back at most a quarter of its descriptors.
    let possible = server::raise_descriptor_limit().map(|allowed| (allowed / 8 * 3).saturating_sub(OTHER_DESCRIPTORS));
    let count = possible.map_or(QUIET, |possible| usize::try_from(possible).unwrap_or(QUIET).min(QUIET));
    assert!(count >= QUIET_MIN, "there are descriptors (ulimit -Hn) for {count} connections only");
    let store = TestStore::vacant();
    let served = store.serve(&["--records-listen", "127.0.0.1:0", "--set=auth.write=open"]);
    let address = served.records_address();
    let mut other = TcpStream::connect(&address).await.unwrap();
    assert_eq!(answer(&mut other, b"SET served 1\r\n").await, "+OK");
    let before = served.memory_bytes();
    let connect = |n| of_records(&address, n);
    let mut connections: Vec<TcpStream> =
        futures::stream::iter(0..count).map(connect).buffered(CONNECTING_AT_ONCE).collect().await;
    let complete = connections.iter_mut().skip(1).step_by(2);
    all_are_answered(complete.map(|stream| (stream, &b"EXISTS served\r\n"[..]))).await;
    for n in 1..=20 {
        assert_eq!(answer(&mut other, b"HINCRBY counted times 1\r\n").await, format!(":{n}"));
    }
    let each = served.memory_bytes().saturating_sub(before) / count as u64;
    println!("{count} connections of records, {each} bytes for each");
    assert!(each <= BYTES_EACH_MAX, "{each} bytes for each of {count} connections");
    // Those that were silent go on where they stopped.
    let begun = connections.iter_mut().step_by(2).zip(HALVES.iter().cycle());
    all_are_answered(begun.map(|(stream, [_, end])| (stream, *end))).await;
    drop(connections);
    assert_eq!(answer(&mut other, b"GET served\r\n").await, "$1");
    let (code, said) = served.stop("TERM");
    assert_eq!(code, 0, "{said}");
}

#[tokio::test]
async fn a_million_commands_of_a_client_that_does_not_read_yet_take_little_memory() {
    const PAIRS: usize = 500_000;
    const VALUE_BYTES: usize = 8 << 10;
    // So many pairs of answers are read afterwards.
    const READ: usize = 2_000;
    // All answers would take four gigabytes, and all commands as requests a hundred megabytes.
    const MORE_BYTES_MAX: u64 = 32 << 20;
    let store = TestStore::vacant();
    let served = store.serve(&[
        "--records-listen",
        "127.0.0.1:0",
        "--set=auth.write=open",
        // Longer than it takes to read these answers, on any machine.
        "--set=records.deadline=1min",
        // The writes of one record follow each other, and each would wait for the disk.
        "--set=records.durability=every 1s",
    ]);
    let address = served.records_address();
    let (value, mut other) = ("x".repeat(VALUE_BYTES), TcpStream::connect(&address).await.unwrap());
    assert_eq!(answer(&mut other, format!("SET a {value}\r\n").as_bytes()).await, "+OK");
    let before = served.peak_memory_bytes();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let (commands, mut sent) = (b"SET b 1\r\nGET a\r\n".repeat(PAIRS), 0);
    // The server takes no more, because nobody reads what it has answered, or has taken all.
    while let Ok(written) = tokio::time::timeout(10 * POLL, stream.write(&commands[sent..])).await {
        sent += written.unwrap();
        if sent == commands.len() {
            break;
        }
    }
    assert_eq!(answer(&mut other, b"EXISTS a\r\n").await, ":1");
    let expected = format!("+OK\r\n${VALUE_BYTES}\r\n{value}\r\n");
    let mut pair = vec![0; expected.len()];
    let read = async {
        for number in 0..READ {
            stream.read_exact(&mut pair).await.unwrap();
            assert!(pair == expected.as_bytes(), "pair {number}: {}", String::from_utf8_lossy(&pair[..100]));
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the answers stop");
    let more = served.peak_memory_bytes().saturating_sub(before);
    println!("{more} bytes while {sent} bytes of commands were sent");
    assert!(more <= MORE_BYTES_MAX, "{more} bytes");
    drop(stream);
    assert_eq!(answer(&mut other, b"EXISTS b\r\n").await, ":1");
    let (code, said) = served.stop("TERM");
    assert_eq!(code, 0, "{said}");
}

#[tokio::test]
async fn with_few_descriptors_silent_clients_give_way_to_waiting_ones_and_the_server_goes_on() {
    let store = TestStore::with(&[SMALL]);
    let serve = store.command(&["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off", "--set=auth.write=open"]);
    let mut few = Command::new("sh");
    few.args(["-c", "ulimit -n 512 && exec \"$0\" \"$@\" --set=limits.header_time=1s"]);
    few.arg(serve.get_program()).args(serve.get_args());
    serve.get_envs().for_each(|(name, _)| _ = few.env_remove(name));
    let served = Served::start(few);
    let connections = quiet(&served, 800).await;
    let client = Client::network(&served.url, None, None).unwrap();
    be_served(&client).await;
    let_go(connections).await;
    be_served(&client).await;
    let (code, said) = served.stop("TERM");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("limits.connections fits itself to the machine"), "{said}");
    assert!(!said.contains("accepting a connection failed"), "{said}");
}

#[tokio::test]
async fn a_client_that_reads_nothing_of_a_large_response_is_cut_off_while_others_are_served() {
    // More than fits into the buffers of a connection.
    const LARGE_BYTES: usize = 64 << 20;
    let store = TestStore::with(&[SMALL]);
    let served = store.serve(&["--set=auth.write=open", "--set=limits.stall=1s"]);
    let client = Client::network(&served.url, None, None).unwrap();
    let put = Request::builder().method(Method::PUT).header(CONTENT_TYPE, "application/x-large");
    let piece = bytes::Bytes::from(vec![b'x'; 1 << 20]);
    let pieces = futures::stream::iter((0..LARGE_BYTES >> 20).map(move |_| Ok(piece.clone())));
    client.ask("/rest/large", put, client::stream(pieces)).await.unwrap();
    let alone = open_connections(&client).await;
    let mut readers = Vec::new();
    for _ in 0..8 {
        let mut reader = TcpStream::connect(served.url.strip_prefix("http://").unwrap()).await.unwrap();
        reader.write_all(b"GET /rest/large HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        reader.read_u8().await.unwrap();
        readers.push(reader);
    }
    be_served(&client).await;
    until_open(&client, "only the reading client", |open| open <= alone).await;
    for mut reader in readers {
        let mut said = Vec::new();
        let _ = reader.read_to_end(&mut said).await;
        assert!(said.len() < LARGE_BYTES, "{} bytes came", said.len());
    }
    served.stop("TERM");
}
