//! Malicious clients: their resources stay bounded, and others are served meanwhile.

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::{Request, StatusCode};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{Server, VOLUME, soon};

/// What clients together may take, on any machine.
const MEMORY_BYTES: u64 = 512 << 20;
const UNFINISHED: usize = 150;
const FORM_BYTES: usize = 15 << 20;
const FORM: &str = "application/x-www-form-urlencoded";

/// Bytes of `limits.memory` in use, according to `/metrics`.
async fn taken_bytes(server: &Server) -> u64 {
    let metrics = server.get("/metrics").await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("penates_memory_taken_bytes "));
    line.unwrap().parse::<f64>().unwrap() as u64
}

/// Waits until unfinished bodies have taken a good part of the budget. Returns what they have then.
async fn filled(server: &Server) -> u64 {
    soon("bodies that are held", async {
        loop {
            let taken = taken_bytes(server).await;
            if taken > 100 << 20 {
                return taken;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await
}

/// A small list of ids gets its archive, and a page its text.
async fn small_requests_succeed(server: &Server) {
    let mut client = TcpStream::connect(server.http()).await.unwrap();
    let form = format!("volumeIDs={}", "psia.ark%3A%2F13960%2Ft0ks80527");
    let head = "POST /volumes HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let request = format!("{head}content-type: {FORM}\r\ncontent-length: {}\r\n\r\n{form}", form.len());
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    soon("a small form", tokio::io::AsyncReadExt::read_to_end(&mut client, &mut answer)).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..200]));
    assert_eq!(server.get(&format!("/volumes/{VOLUME}/pages/7")).await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_forms_stay_within_the_shared_memory_and_small_requests_succeed() {
    let (server, _folder) = Server::start(|config| config.limits.memory = Some(MEMORY_BYTES)).await;
    let form = Bytes::from(vec![b'a'; FORM_BYTES - 1]);
    let mut unfinished = tokio::task::JoinSet::new();
    for _ in 0..UNFINISHED {
        let mut client = TcpStream::connect(server.http()).await.unwrap();
        let form = form.clone();
        unfinished.spawn(async move {
            let head = format!(
                "POST /volumes HTTP/1.1\r\nhost: localhost\r\ncontent-type: {FORM}\r\ncontent-length: {FORM_BYTES}\r\n\r\n"
            );
            // A client that is refused meanwhile is cut off.
            let _ = client.write_all(head.as_bytes()).await;
            let _ = client.write_all(&form).await;
            std::future::pending::<()>().await;
            drop(client);
        });
    }
    let taken = filled(&server).await;
    assert!(taken <= MEMORY_BYTES, "{taken}");
    small_requests_succeed(&server).await;
    drop(unfinished);
    soon("the memory being given back", async {
        while taken_bytes(&server).await > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_streams_of_one_connection_stay_within_the_shared_memory() {
    let (server, _folder) = Server::start(|config| config.limits.memory = Some(MEMORY_BYTES)).await;
    let stream = TcpStream::connect(server.http()).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut answers = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let pieces = (0..FORM_BYTES / (64 << 10)).map(|_| Bytes::from_static(&[b'a'; 64 << 10]));
        let pieces = stream::iter(pieces)
            .chain(stream::pending())
            .map(|piece| Ok::<_, std::convert::Infallible>(Frame::data(piece)));
        let request = Request::post("http://localhost/volumes").header("content-type", FORM);
        // No length is announced: the share grows as the body arrives.
        answers.spawn(sender.send_request(request.body(StreamBody::new(pieces)).unwrap()));
    }
    let taken = filled(&server).await;
    assert!(taken <= MEMORY_BYTES, "{taken}");
    small_requests_succeed(&server).await;
    drop(answers);
}
