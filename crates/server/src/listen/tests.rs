//! Real sockets on loopback, with the tests' own routes: how connections begin, stall, and end.

#![allow(clippy::unwrap_used)]

use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Body;
use axum::routing::get;
use budget::{Memory, Party};
use bytes::Bytes;
use door_records::{Access, Exceeded, Refused, RequestLimits, Rights, Settings, WrongPassword};
use futures::StreamExt;
use http::{Request, Version};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use store::SystemClock;
use store::null::NullStore;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::*;
use crate::config::{HttpConfig, LimitsConfig};
use crate::peer::Peer;

/// The time limit of every wait; no test depends on how long anything takes within it.
const PATIENCE: Duration = Duration::from_secs(120);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    soon(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

struct Running {
    addresses: Addresses,
    live: Arc<Live>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Running {
    async fn start(router: Router, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), router, change).await
    }

    async fn start_in(folder: tempfile::TempDir, router: Router, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_with(folder, router, None, change).await
    }

    async fn start_with(
        folder: tempfile::TempDir,
        router: Router,
        door: Option<Arc<Door>>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = Config::default();
        config.listen.http = Some("127.0.0.1:0".parse().unwrap());
        config.listen.tls = Some("127.0.0.1:0".parse().unwrap());
        change(&mut config);
        let live = Live::new(&config.limits);
        let listeners = Listeners::bind(&config, Given::default(), Some(folder.path()), live.clone()).unwrap();
        let addresses = listeners.addresses().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let admin = router.clone().route("/who", get(async || "admin"));
        let network = router.route("/who", get(async || "network"));
        let ways = Ways { encrypted: network.clone(), redirecting: Router::new(), network, admin };
        let serving = tokio::spawn(listeners.serve(ways, door, async {
            let _ = stopped.await;
        }));
        Self { addresses, live, stop: Some(stop), serving, _folder: folder }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addresses.http.unwrap()).await.unwrap()
    }

    fn request_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    async fn ended(self) {
        soon("the end of the server", self.serving).await.unwrap();
    }
}

/// Sends a request over HTTP/1.1 and reads until the server closes.
async fn whole_answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    soon("an answer", stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

type SendRequest = hyper::client::conn::http2::SendRequest<Empty<Bytes>>;

/// An HTTP/2 connection without TLS, whose client accepts little in advance.
async fn http2(stream: TcpStream) -> SendRequest {
    try_http2(stream).await.unwrap()
}

async fn try_http2(stream: TcpStream) -> hyper::Result<SendRequest> {
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(64 << 10);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// An HTTP/2 connection with the response to its first request. Where the limit of idle connections
/// is short, a slow machine may cut a connection before its first request arrives. Then this tries
/// another connection.
async fn answered(running: &Running, path: &str) -> (SendRequest, http::Response<hyper::body::Incoming>) {
    soon("an answer", async {
        loop {
            let Ok(mut sender) = try_http2(running.connect().await).await else { continue };
            if let Ok(response) = sender.send_request(request(path)).await {
                return (sender, response);
            }
        }
    })
    .await
}

fn request(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://test{path}")).body(Empty::new()).unwrap()
}

/// `/endless` streams forever; the weak reference lives as long as a response does. `/short`
/// responds at once.
fn endless() -> (Router, Weak<()>) {
    let held = Arc::new(());
    let weak = Arc::downgrade(&held);
    let held = Arc::new(parking_lot::Mutex::new(Some(held)));
    let stream = move || async move {
        let held = held.lock().take();
        Body::from_stream(futures::stream::repeat_with(move || {
            let _ = &held;
            Ok::<_, std::convert::Infallible>(Bytes::from_static(&[b'x'; 64 << 10]))
        }))
    };
    (Router::new().route("/endless", get(stream)).route("/short", get(async || "short")), weak)
}

#[tokio::test]
async fn one_port_speaks_http_1_and_http_2() {
    let (router, _) = endless();
    let running = Running::start(router, |_| {}).await;
    let answer = whole_answer(running.connect().await, "/short").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("short"), "{answer}");
    let mut sender = http2(running.connect().await).await;
    let response = soon("an answer", sender.send_request(request("/short"))).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
}

/// The TLS settings of a client that trusts a certificate.
fn trusting(certificate: &Path) -> rustls::ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A protocol that is not HTTP: it sends back each byte, and says `!` when the server stops. Then
/// it waits until it is cut.
#[derive(Clone)]
struct Echo;

impl accept::Protocol for Echo {
    async fn serve<I>(self, io: I, peer: Option<Peer>, drain: accept::Drain)
    where
        I: AsyncRead + AsyncWrite + Send + 'static,
    {
        assert!(peer.unwrap().on_loopback);
        let mut io = Box::pin(io);
        loop {
            tokio::select! {
                byte = io.read_u8() => match byte {
                    Ok(byte) => io.write_all(&[byte]).await.unwrap(),
                    Err(_) => return,
                },
                () = drain.stop.cancelled() => break,
            }
            io.flush().await.unwrap();
        }
        io.write_all(b"!").await.unwrap();
        io.flush().await.unwrap();
        drain.cut.cancelled().await;
    }
}

async fn echoes(io: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> u8 {
    io.write_all(b"a").await.unwrap();
    soon("an echo", io.read_u8()).await.unwrap()
}

#[tokio::test]
async fn another_protocol_is_counted_encrypted_and_ended_like_http() {
    let folder = tempfile::tempdir().unwrap();
    let identity = tls::identity(&Config::default().listen, Some(folder.path())).unwrap();
    let (spoken, certificate) = (identity.spoken, identity.shown);
    let (plain, encrypted) = (bind_loopback().await, bind_loopback().await);
    let (plain_at, encrypted_at) = (local_address(&plain).unwrap(), local_address(&encrypted).unwrap());
    let acceptor = Arc::new(Acceptor::new(2, Live::new(&Config::default().limits), Arc::default()));
    let accepting = tokio::spawn({
        let acceptor = acceptor.clone();
        async move {
            let encrypted = Listener::Tls(encrypted.into(), TlsAcceptor::from(spoken));
            tokio::join!(
                acceptor.accept(Some(Listener::Tcp(plain.into())), Echo),
                acceptor.accept(Some(encrypted), Echo)
            )
        }
    });
    let mut first = TcpStream::connect(plain_at).await.unwrap();
    assert_eq!(echoes(&mut first).await, b'a');
    let connector = tokio_rustls::TlsConnector::from(Arc::new(trusting(&certificate.unwrap())));
    let tcp = TcpStream::connect(encrypted_at).await.unwrap();
    let mut second = connector.connect("localhost".try_into().unwrap(), tcp).await.unwrap();
    assert_eq!(echoes(&mut second).await, b'a');

    // There are two places, so a third connection is served once another ends.
    let mut third = TcpStream::connect(plain_at).await.unwrap();
    third.write_all(b"b").await.unwrap();
    assert_eq!(echoes(&mut second).await, b'a');
    let early = third.try_read(&mut [0; 1]);
    assert!(early.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
    drop(first);
    assert_eq!(soon("an echo", third.read_u8()).await.unwrap(), b'b');

    accepting.abort();
    let ending = tokio::spawn(async move { acceptor.end(Duration::ZERO).await });
    assert_eq!(soon("the end", third.read_u8()).await.unwrap(), b'!');
    assert_eq!(soon("the end", second.read_u8()).await.unwrap(), b'!');
    soon("the connections to be cut", ending).await.unwrap();
    assert!(soon("the end of the stream", third.read_u8()).await.is_err());
}

async fn bind_loopback() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

#[tokio::test]
async fn https_uses_the_self_made_certificate_and_negotiates_http_2() {
    let (router, _) = endless();
    let running = Running::start(router, |_| {}).await;
    let tls = trusting(running.addresses.tls_cert.as_ref().unwrap());
    let both =
        hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_all_versions().build();
    let client = Client::builder(TokioExecutor::new()).build::<_, Empty<Bytes>>(both);
    let port = running.addresses.tls.unwrap().port();
    for host in ["127.0.0.1", "localhost"] {
        let address = format!("https://{host}:{port}/who").parse().unwrap();
        let response = soon("an answer", client.get(address)).await.unwrap();
        assert_eq!(response.version(), Version::HTTP_2);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "network");
    }
}

#[tokio::test]
async fn the_administrators_socket_is_private_and_replaces_a_stale_one() {
    let (router, _) = endless();
    let folder = tempfile::tempdir().unwrap();
    drop(std::os::unix::net::UnixListener::bind(folder.path().join(SOCKET_NAME)).unwrap());
    let mut running = Running::start_in(folder, router, |_| {}).await;
    let path = running.addresses.socket.clone().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let answer = whole_answer(UnixStream::connect(&path).await.unwrap(), "/who").await;
    assert!(answer.ends_with("admin"), "{answer}");
    running.request_stop();
    running.ended().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn the_socket_that_the_configuration_names_is_the_administrators_and_replaces_a_dead_one_only() {
    let (router, _) = endless();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let named = ListenAddress::Unix(path.clone());
    let mut running = Running::start(router, |config| config.listen.admin = Some(named.clone())).await;
    assert_eq!(running.addresses.admin_socket.as_ref(), Some(&path));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let answer = whole_answer(UnixStream::connect(&path).await.unwrap(), "/who").await;
    assert!(answer.ends_with("admin"), "{answer}");
    for is_http_too in [false, true] {
        // Neither another server nor the socket of clients takes its place.
        let mut config = Config::default();
        config.listen.admin = (!is_http_too).then(|| named.clone());
        (config.listen.http, config.listen.tls) = (is_http_too.then(|| named.clone()), None);
        let refused = Listeners::bind(&config, Given::default(), None, Live::new(&config.limits)).err().unwrap();
        assert!(refused.to_string().contains("admin.sock"), "{refused}");
    }
    running.request_stop();
    running.ended().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let (router, _) = endless();
    let running = Running::start(router, |_| {}).await;
    let mut config = Config::default();
    config.listen.http = running.addresses.http.map(Into::into);
    let message =
        Listeners::bind(&config, Given::default(), None, Live::new(&config.limits)).err().unwrap().to_string();
    assert!(message.contains(&running.addresses.http.unwrap().to_string()), "{message}");
}

#[tokio::test]
async fn a_data_folder_whose_path_is_too_long_for_a_socket_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    // `sun_path` holds a path of 107 bytes; the folder alone fits.
    let fill = 100_usize.checked_sub(folder.path().as_os_str().len() + 1).unwrap();
    let mut config = Config::default();
    (config.listen.http, config.listen.tls) = (None, None);
    let folder = folder.path().join("x".repeat(fill));
    fs::create_dir(&folder).unwrap();
    let message =
        Listeners::bind(&config, Given::default(), Some(&folder), Live::new(&config.limits)).err().unwrap().to_string();
    assert!(message.contains(SOCKET_NAME), "{message}");
}

/// A route with a response that the test sends, piece by piece.
fn fed() -> (Router, mpsc::Sender<&'static str>) {
    let (sender, receiver) = mpsc::channel::<&'static str>(1);
    let receiver = Arc::new(tokio::sync::Mutex::new(Some(receiver)));
    let answer = move || async move {
        let receiver = receiver.lock().await.take().unwrap();
        let pieces = futures::stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
        Body::from_stream(pieces.map(Ok::<_, std::convert::Infallible>))
    };
    (Router::new().route("/fed", get(answer)), sender)
}

#[tokio::test]
async fn a_response_under_way_ends_whole_when_the_server_stops() {
    let (router, feed) = fed();
    let mut running = Running::start(router, |_| {}).await;
    let mut client = running.connect().await;
    client.write_all(b"GET /fed HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    feed.send("first ").await.unwrap();
    let mut answer = vec![0; 15];
    client.read_exact(&mut answer).await.unwrap();
    running.request_stop();
    let address = running.addresses.http.unwrap();
    soon("refusal of new connections", async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(!running.serving.is_finished());
    feed.send("last").await.unwrap();
    drop(feed);
    soon("the rest", client.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("first ") && answer.contains("last") && answer.ends_with("0\r\n\r\n"), "{answer}");
    running.ended().await;
}

#[tokio::test]
async fn a_response_that_does_not_end_in_time_is_cut_visibly_when_the_server_stops() {
    let (router, feed) = fed();
    let mut running = Running::start(router, |config| config.limits.shutdown_time = Duration::from_millis(50)).await;
    let mut client = running.connect().await;
    client.write_all(b"GET /fed HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    feed.send("first").await.unwrap();
    let mut answer = vec![0; 15];
    client.read_exact(&mut answer).await.unwrap();
    running.request_stop();
    running.ended().await;
    let _ = soon("the end", client.read_to_end(&mut answer)).await;
    assert!(!answer.ends_with(b"0\r\n\r\n"), "a response that was cut must not look whole");
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_on_http_1() {
    let (router, held) = endless();
    let running = Running::start(router, |config| config.limits.stall = Duration::from_millis(100)).await;
    let mut client = running.connect().await;
    client.write_all(b"GET /endless HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    client.read_u8().await.unwrap();
    until("the response being dropped", || held.strong_count() == 0).await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_of_one_stream_is_cut_there_and_not_elsewhere_on_http_2() {
    let (router, held) = endless();
    let running = Running::start(router, |config| config.limits.stall = Duration::from_millis(100)).await;
    let mut sender = http2(running.connect().await).await;
    let stalled = soon("an answer", sender.send_request(request("/endless"))).await.unwrap();
    until("the response being dropped", || held.strong_count() == 0).await;
    let other = soon("an answer", sender.send_request(request("/short"))).await.unwrap();
    assert_eq!(other.into_body().collect().await.unwrap().to_bytes(), "short");
    assert!(
        soon("the end", stalled.into_body().collect()).await.is_err(),
        "a response that was cut must not look whole"
    );
}

#[tokio::test]
async fn a_client_that_does_not_finish_the_head_of_a_request_is_cut() {
    let (router, _) = endless();
    let running = Running::start(router, |config| config.limits.header_time = Duration::from_millis(100)).await;
    for begin in ["", "P", "PRI * HTTP/2.0", "GET /short HTTP/1.1\r\nhost: te"] {
        let mut client = running.connect().await;
        client.write_all(begin.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = soon(begin, client.read_to_end(&mut answer)).await;
    }
    let mut client = TcpStream::connect(running.addresses.tls.unwrap()).await.unwrap();
    let _ = soon("a TLS handshake that does not begin", client.read_to_end(&mut Vec::new())).await;
}

#[tokio::test]
async fn an_idle_connection_is_cut() {
    let (router, _) = endless();
    let running = Running::start(router, |config| config.limits.header_time = Duration::from_millis(100)).await;
    let mut answer = Vec::new();
    // A slow machine may cut a connection before its request arrives.
    while answer.is_empty() {
        let mut client = running.connect().await;
        let _ = client.write_all(b"GET /short HTTP/1.1\r\nhost: test\r\n\r\n").await;
        let ended = soon("the end", client.read_to_end(&mut answer)).await;
        assert!(ended.is_ok() || answer.is_empty(), "{ended:?}");
    }
    assert!(answer.ends_with(b"short"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn an_idle_http_2_connection_ends_and_one_with_a_response_under_way_does_not() {
    let (router, feed) = fed();
    let router = router.route("/short", get(async || "short"));
    let running = Running::start(router, |config| config.limits.header_time = Duration::from_millis(50)).await;
    let (_under_way, response) = answered(&running, "/fed").await;
    let (mut quiet, _) = answered(&running, "/short").await;
    // The other one has been idle for as long or longer.
    soon("the end of the quiet one", async {
        while quiet.ready().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    feed.send("whole").await.unwrap();
    drop(feed);
    assert_eq!(soon("the rest", response.into_body().collect()).await.unwrap().to_bytes(), "whole");
}

#[tokio::test]
async fn a_connection_over_the_limit_waits_until_another_ends() {
    let first_left = Arc::new(AtomicBool::new(false));
    let too_early = Arc::new(AtomicUsize::new(0));
    let answer = {
        let (first_left, too_early) = (first_left.clone(), too_early.clone());
        async move || {
            if !first_left.load(Ordering::SeqCst) {
                too_early.fetch_add(1, Ordering::SeqCst);
            }
            "second"
        }
    };
    let router = Router::new().route("/first", get(async || "first")).route("/second", get(answer));
    let running = Running::start(router, |config| config.limits.connections = Some(1)).await;
    let mut first = running.connect().await;
    first.write_all(b"GET /first HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    first.read_u8().await.unwrap();
    let second = tokio::spawn(whole_answer(running.connect().await, "/second"));
    // The administrator's socket has no limit. Its response also gives a second connection, if it
    // is not held back, time to be served.
    let admin =
        whole_answer(UnixStream::connect(running.addresses.socket.as_ref().unwrap()).await.unwrap(), "/first").await;
    assert!(admin.ends_with("first"), "{admin}");
    first_left.store(true, Ordering::SeqCst);
    drop(first);
    assert!(second.await.unwrap().ends_with("second"));
    assert_eq!(too_early.load(Ordering::SeqCst), 0);
}

/// Everyone may do everything.
struct Open;

impl Access for Open {
    fn rights(&self, _: Option<&[u8]>) -> Result<Rights, WrongPassword> {
        Ok(Rights { read: true, write: true, operate: true })
    }

    fn user(&self, _: &[u8]) -> Option<String> {
        None
    }

    fn count(&self, _: &Party) -> Result<(), Exceeded> {
        Ok(())
    }

    fn sent(&self, _: &Party, _: u64) {}

    fn refused(&self, _: &Refused<'_>) {}
}

#[tokio::test]
async fn connections_of_records_and_of_http_take_no_places_of_each_other() {
    let settings = Settings {
        deadline: PATIENCE,
        deadline_max: PATIENCE,
        silence_max: PATIENCE,
        stall_max: PATIENCE,
        request: RequestLimits::default(),
    };
    let records = Arc::new(::records::Records::new(Arc::new(NullStore::new()), Arc::new(SystemClock)));
    let door = Door::new(records, Box::new(Open), Memory::new(1 << 20), settings);
    let (router, _) = endless();
    let running = Running::start_with(tempfile::tempdir().unwrap(), router, Some(door), |config| {
        config.limits.connections = Some(1);
        config.records.listen = Some("127.0.0.1:0".parse().unwrap());
    })
    .await;
    let ping = async |stream: &mut TcpStream| {
        stream.write_all(b"PING\r\n").await.unwrap();
        let mut answer = [0; 7];
        soon("an answer", stream.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
    };
    let mut of_records = TcpStream::connect(running.addresses.records.unwrap()).await.unwrap();
    ping(&mut of_records).await;
    let mut of_http = running.connect().await;
    of_http.write_all(b"GET /short HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    assert_eq!(soon("an answer", of_http.read_u8()).await.unwrap(), b'H');
    // Both are still open.
    ping(&mut of_records).await;
}

#[tokio::test]
async fn a_client_behind_a_proxy_leaves_places_for_others() {
    let listener = bind_loopback().await;
    let address = local_address(&listener).unwrap();
    let http = HttpConfig { trusted_proxies: vec!["127.0.0.1".to_owned()], ..HttpConfig::default() };
    let proxies = Arc::new(Proxies::of(&http).unwrap());
    let acceptor = Acceptor::new(4, Live::new(&Config::default().limits), proxies);
    let port = Port { listener, is_announced: true };
    let accepting = tokio::spawn(async move { acceptor.accept(Some(Listener::Tcp(port)), Echo).await });
    let connect = async |client: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("PROXY TCP4 {client} 127.0.0.1 1000 80\r\n").as_bytes()).await.unwrap();
        stream
    };
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = connect("192.0.2.1").await;
        assert_eq!(echoes(&mut stream).await, b'a');
        held.push(stream);
    }
    let mut refused = connect("192.0.2.1").await;
    assert!(soon("the end", refused.read_u8()).await.is_err());
    let mut other = connect("192.0.2.2").await;
    assert_eq!(echoes(&mut other).await, b'a');
    accepting.abort();
}

/// A piece of a response; the number counts the pieces.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

/// `/piece` responds with one piece of 512 KiB; the number counts those in memory.
fn pieces() -> (Router, Arc<AtomicUsize>) {
    let held = Arc::new(AtomicUsize::new(0));
    let counted = held.clone();
    let piece = async move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Body::from(Bytes::from_owner(Counted(vec![7; 512 << 10], counted.clone())))
    };
    (Router::new().route("/piece", get(piece)).route("/short", get(async || "short")), held)
}

/// As many streams as a connection may have, each with a response that nobody reads. There are fewer
/// if the server ends the connection meanwhile.
async fn unread(running: &Running) -> Vec<http::Response<hyper::body::Incoming>> {
    let (mut sender, first) = answered(running, "/piece").await;
    let mut responses = vec![first];
    for _ in 1..LimitsConfig::default().http2_streams {
        let Ok(response) = soon("an answer", sender.send_request(request("/piece"))).await else { break };
        responses.push(response);
    }
    responses
}

#[tokio::test]
async fn unread_streams_of_many_connections_stay_within_one_budget() {
    let (router, held) = pieces();
    let running = Running::start(router, |config| {
        config.limits.memory = Some(16 << 20);
        config.limits.stall = Duration::from_millis(100);
    })
    .await;
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(unread(&running).await);
    }
    let streams = LimitsConfig::default().http2_streams as usize;
    assert!(connections.iter().all(|responses| responses.len() == streams));
    // A quarter of `limits.memory` is for data on its way, of which one address has at most half.
    until("the rest being dropped", || held.load(Ordering::SeqCst) <= 4).await;
    // This client takes its response, however slow the machine is.
    running.live.set_limits(LimitsConfig { stall: PATIENCE, ..LimitsConfig::clone(&running.live.limits()) });
    let mut other = http2(running.connect().await).await;
    let response = soon("an answer", other.send_request(request("/piece"))).await.unwrap();
    assert_eq!(soon("all of it", response.into_body().collect()).await.unwrap().to_bytes().len(), 512 << 10);
}

#[tokio::test]
async fn an_http_2_connection_that_reads_none_of_its_streams_ends() {
    let (router, held) = pieces();
    let running = Running::start(router, |config| {
        config.limits.header_time = Duration::from_millis(50);
        config.limits.stall = Duration::from_millis(100);
    })
    .await;
    let _responses = unread(&running).await;
    until("everything being dropped", || held.load(Ordering::SeqCst) == 0).await;
}
