#![allow(clippy::unwrap_used)]
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ::broker::stomp::{Decoder, Frame};
use axum::body::Body;
use bytes::BytesMut;
use http::{Method, Request, StatusCode, header};
use parking_lot::Mutex as Lock;
use serde_json::Value;
use store::SystemClock;
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use super::*;
use crate::access::Via;
use crate::app::App;
use crate::config::Access;
use crate::delivery::{Delivering, Schedule};
use crate::tokens::NewToken;

const PASSWORD: &str = "correct-horse";

/// What a broker answers to a frame: nothing if the frame is empty; `None`: it closes the connection.
type Judge = dyn Fn(&Frame) -> Option<Frame> + Send + Sync;

/// A broker of STOMP on loopback.
struct Fake {
    got: Arc<Lock<Vec<Frame>>>,
    /// Connections that are open.
    open: Arc<AtomicUsize>,
    url: String,
    _task: AbortOnDropHandle<()>,
}

fn willing(frame: &Frame) -> Option<Frame> {
    match frame.header("receipt") {
        None => Some(Frame::new("CONNECTED").with("version", "1.2")),
        Some(receipt) => Some(Frame::new("RECEIPT").with("receipt-id", receipt)),
    }
}

async fn fake(judge: impl Fn(&Frame) -> Option<Frame> + Send + Sync + 'static) -> Fake {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listening(listener, Arc::new(judge))
}

fn listening(listener: TcpListener, judge: Arc<Judge>) -> Fake {
    let got = Arc::<Lock<Vec<Frame>>>::default();
    let url = format!("stomp://{}", listener.local_addr().unwrap());
    let (frames, open) = (got.clone(), Arc::<AtomicUsize>::default());
    let counted = open.clone();
    let task = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (judge, frames, counted) = (judge.clone(), frames.clone(), counted.clone());
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                answer(stream, judge, frames).await;
                counted.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    Fake { got, open, url, _task: AbortOnDropHandle::new(task) }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, judge: Arc<Judge>, got: Arc<Lock<Vec<Frame>>>) {
    let mut decoder = Decoder::default();
    while stream.read_buf(decoder.buffer()).await.is_ok_and(|count| count > 0) {
        while let Some(frame) = decoder.next_frame().unwrap() {
            let answer = judge(&frame);
            got.lock().push(frame);
            let Some(answer) = answer else { return };
            if answer == Frame::default() {
                continue;
            }
            let mut out = BytesMut::new();
            answer.write(&mut out);
            if stream.write_all(&out).await.is_err() {
                return;
            }
        }
    }
}

impl Fake {
    /// The messages that it got: what happened to what.
    fn reported(&self) -> Vec<String> {
        let got = self.got.lock();
        let sent = got.iter().filter(|frame| frame.command == "SEND");
        let reported = sent.map(|frame| {
            let header = |name: &str| frame.header(&format!("org.fcrepo.jms.{name}")).unwrap_or_default().to_owned();
            let kind = header("eventType");
            format!("{} {}", kind.rsplit_once('#').unwrap().1, header("identifier"))
        });
        reported.collect()
    }

    async fn until(&self, count: usize) -> Vec<String> {
        let begun = Instant::now();
        while self.reported().len() < count {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", self.reported());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.reported()
    }
}

fn quick() -> Pacing {
    Pacing {
        attempt_max: Duration::from_secs(10),
        schedule: Schedule { pauses: vec![Duration::from_millis(20)], is_endless: true },
        look_every: Duration::from_millis(20),
    }
}

fn bridge(url: &str) -> BridgeConfig {
    let text = serde_json::json!({"name": "fedora", "url": url, "user": "me", "password": PASSWORD});
    serde_json::from_value(text).unwrap()
}

fn config(bridges: Vec<BridgeConfig>) -> Config {
    let mut config = Config::default();
    config.auth.write = Access::Open;
    config.ldp.origin = "http://books.test".to_owned();
    config.feed.bridges = bridges;
    config.feed.bridges_networks = vec!["127.0.0.0/8".to_owned()];
    config
}

/// A server with a bridge.
struct Server {
    app: App,
    bridges: Arc<Deliveries>,
    config: Config,
    folder: tempfile::TempDir,
}

async fn server(bridge: BridgeConfig) -> Server {
    server_at(tempfile::tempdir().unwrap(), config(vec![bridge])).await
}

async fn server_at(folder: tempfile::TempDir, config: Config) -> Server {
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
    let app = App::open(config.clone(), store).await.unwrap();
    let bridges = open(&config, app.library().clone(), quick()).unwrap();
    Server { app, bridges, config, folder }
}

impl Server {
    /// Starts, and waits until it has begun with what happens from now on.
    async fn begin(&self) -> Delivering {
        let delivering = self.bridges.start(&CancellationToken::new());
        self.until(|listed| listed["state"] != "new").await;
        delivering
    }

    async fn ask(&self, via: Via, method: Method, path: &str) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "books.test");
        let request = request.header(header::CONTENT_TYPE, "text/turtle").body(Body::empty()).unwrap();
        let router = match via.is_admin() {
            true => delivery::routes(self.bridges.clone()),
            false => self.app.router(via),
        };
        let response = router.oneshot(request).await.unwrap();
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Sends a request over the network, which is carried out.
    async fn does(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &'static str) {
        let uri = format!("/rest/{path}");
        let request = Request::builder().method(method).uri(&uri).header(header::HOST, "books.test");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Body::from(body)).unwrap();
        let response = self.app.router(Via::Network).oneshot(request).await.unwrap();
        assert!(response.status().is_success(), "{uri}: {}", response.status());
    }

    async fn put(&self, path: &str) {
        let (status, body) = self.ask(Via::Network, Method::PUT, &format!("/rest/{path}")).await;
        assert!(status.is_success(), "{status} {body}");
    }

    async fn delete(&self, path: &str) {
        for path in [path, &format!("{path}/fcr:tombstone")] {
            let (status, _) = self.ask(Via::Network, Method::DELETE, &format!("/rest/{path}")).await;
            assert_eq!(status, StatusCode::NO_CONTENT);
        }
    }

    /// Waits until the bridge is so.
    async fn until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let listed = self.ask(Via::AdminSocket, Method::GET, "/admin/bridges").await.1[0].clone();
            if is_so(&listed) {
                return listed;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{listed}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn each_event_is_a_message_those_of_one_resource_in_order_and_none_is_missing_after_a_restart() {
    let fake = fake(willing).await;
    let server = server(bridge(&fake.url)).await;
    let delivering = server.begin().await;
    for path in ["a", "b"] {
        server.put(path).await;
        server.delete(path).await;
        server.put(path).await;
    }
    fake.until(6).await;
    for path in ["/a", "/b"] {
        let of_path: Vec<_> = fake.reported().into_iter().filter(|reported| reported.ends_with(path)).collect();
        assert_eq!(of_path, ["Create", "Delete", "Create"].map(|change| format!("{change} {path}")));
    }
    {
        let got = fake.got.lock();
        assert_eq!((got[0].header("login"), got[0].header("passcode")), (Some("me"), Some(PASSWORD)));
        assert_eq!(got[1].header("destination"), Some("/topic/fedora"));
        assert_eq!(got[1].header("org.fcrepo.jms.baseURL"), Some("http://books.test/rest"));
        assert_eq!(got.iter().filter(|frame| frame.command == "CONNECT").count(), 1, "one connection is enough");
    }
    server.until(|listed| listed["delivered"].is_string()).await;
    drop(delivering);
    server.put("c").await;
    let Server { app, bridges, config, folder } = server;
    drop(bridges);
    app.close().await.unwrap();
    let server = server_at(folder, config).await;
    let _delivering = server.bridges.start(&CancellationToken::new());
    server.put("d").await;
    let begun = Instant::now();
    while !["Create /c", "Create /d"].into_iter().all(|reported| fake.reported().contains(&reported.to_owned())) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", fake.reported());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_message_names_types_that_clients_gave_the_description_that_changed_and_the_program() {
    let fake = fake(willing).await;
    let mut config = config(vec![bridge(&fake.url)]);
    config.feed.actors = true;
    let server = server_at(tempfile::tempdir().unwrap(), config).await;
    let new = NewToken { name: "importer", ..NewToken::default() };
    let bearer = format!("Bearer {}", server.app.tokens().create(new).await.unwrap().reveal());
    let sent_by = |media_type: &'static str| {
        [("authorization", &*bearer), ("user-agent", "loader/1"), ("content-type", media_type)]
    };
    let _delivering = server.begin().await;
    let typed = "<> a <http://example.org/T>, <#part> .";
    server.does(Method::PUT, "a", &sent_by("text/turtle"), typed).await;
    fake.until(1).await;
    server.does(Method::PUT, "a/b", &sent_by("text/plain"), "bytes").await;
    fake.until(2).await;
    let typing = "INSERT DATA { <http://books.test/rest/a/b> a <http://example.org/U> }";
    server.does(Method::PATCH, "a/b/fcr:metadata", &sent_by("application/sparql-update"), typing).await;
    fake.until(3).await;
    server.does(Method::PUT, "a/b", &[("content-type", "text/plain")], "others").await;
    let reported = fake.until(4).await;
    assert_eq!(reported, ["Create /a", "Create /a/b", "Update /a/b/fcr:metadata", "Update /a/b"]);
    let got = fake.got.lock();
    let sent: Vec<_> = got.iter().filter(|frame| frame.command == "SEND").collect();
    let header = |index: usize, name: &str| sent[index].header(&format!("org.fcrepo.jms.{name}"));
    let types = |index| header(index, "resourceType").unwrap().split(',').collect::<Vec<_>>();
    for of_client in ["http://example.org/T", "http://books.test/rest/a#part"] {
        assert!(types(0).contains(&of_client), "{:?}", types(0));
    }
    assert!(!types(1).iter().any(|name| name.starts_with("http://example.org/")), "{:?}", types(1));
    for index in [2, 3] {
        assert!(types(index).contains(&"http://example.org/U"), "{:?}", types(index));
    }
    assert!(types(2).contains(&"http://fedora.info/definitions/v4/repository#NonRdfSourceDescription"));
    for (index, message) in sent.iter().enumerate().take(3) {
        assert_eq!((header(index, "user"), header(index, "userAgent")), (Some("importer"), Some("loader/1")));
        let body: Value = serde_json::from_slice(&message.body).unwrap();
        assert_eq!(body["actor"][1], serde_json::json!({"type": "Application", "name": "loader/1"}));
    }
    assert_eq!((header(3, "user"), header(3, "userAgent")), (None, None), "no token was sent");
}

#[tokio::test]
async fn a_transaction_that_changes_bytes_and_their_description_is_a_message_about_each() {
    let fake = fake(willing).await;
    let server = server(bridge(&fake.url)).await;
    let _delivering = server.begin().await;
    server.does(Method::PUT, "b", &[("content-type", "text/plain")], "bytes").await;
    fake.until(1).await;
    let begin = Request::builder().method(Method::POST).uri("/rest/fcr:tx").header(header::HOST, "books.test");
    let begun = server.app.router(Via::Network).oneshot(begin.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(begun.status(), StatusCode::CREATED);
    let transaction = begun.headers()[header::LOCATION].to_str().unwrap().to_owned();
    let joined = |media_type: &'static str| [("content-type", media_type), ("atomic-id", &*transaction)];
    server.does(Method::PUT, "b", &joined("text/plain"), "others").await;
    let typing = "INSERT DATA { <http://books.test/rest/b> a <http://example.org/U> }";
    server.does(Method::PATCH, "b/fcr:metadata", &joined("application/sparql-update"), typing).await;
    server.does(Method::PUT, transaction.strip_prefix("http://books.test/rest/").unwrap(), &[], "").await;
    assert_eq!(fake.until(3).await, ["Create /b", "Update /b", "Update /b/fcr:metadata"]);
}

#[tokio::test]
async fn types_are_those_of_the_version_that_the_event_is_about() {
    let fake = fake(willing).await;
    let server = server(bridge(&fake.url)).await;
    drop(server.begin().await);
    let turtle = [("content-type", "text/turtle")];
    server.does(Method::PUT, "a", &turtle, "<> a <http://example.org/Before> .").await;
    server.does(Method::PUT, "a", &turtle, "<> a <http://example.org/After> .").await;
    let _delivering = server.bridges.start(&CancellationToken::new());
    assert_eq!(fake.until(2).await, ["Create /a", "Update /a"]);
    let got = fake.got.lock();
    let types: Vec<_> = got.iter().filter_map(|frame| frame.header("org.fcrepo.jms.resourceType")).collect();
    let names = |types: &str, name: &str| types.split(',').any(|named| named == format!("http://example.org/{name}"));
    assert!(names(types[0], "Before") && !names(types[0], "After"), "{types:?}");
    assert!(names(types[1], "After") && !names(types[1], "Before"), "{types:?}");
}

#[tokio::test]
async fn a_broker_that_is_away_or_refuses_is_asked_again_until_it_takes_messages_and_no_password_is_shown() {
    // It has its port from the beginning, so that no other test gets it, and does not listen yet.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let server = server(bridge(&format!("stomp://{address}"))).await;
    let _delivering = server.begin().await;
    server.put("a").await;
    let retrying = server.until(|listed| listed["failing"]["tries"].as_u64() > Some(3)).await;
    assert_eq!(retrying["state"], "retrying");
    // Now it is there, and refuses.
    let text = [&"x".repeat(195), PASSWORD, &"y".repeat(500)].concat();
    let is_willing = Arc::new(AtomicBool::new(false));
    let takes = is_willing.clone();
    let judge = move |frame: &Frame| match takes.load(Ordering::SeqCst) {
        true => willing(frame),
        false => Some(Frame::new("ERROR").with("message", &text)),
    };
    let fake = listening(socket.listen(1_024).unwrap(), Arc::new(judge));
    let refused =
        server.until(|listed| listed["failing"]["why"].as_str().is_some_and(|why| why.contains("refuses"))).await;
    let why = refused["failing"]["why"].as_str().unwrap();
    assert!(why.starts_with("the broker refuses: xxx") && why.len() <= 300 && !why.contains("corr"), "{why}");
    is_willing.store(true, Ordering::SeqCst);
    server.put("b").await;
    assert_eq!(fake.until(2).await, ["Create /a", "Create /b"]);
    server.until(|listed| listed["state"] == "delivering").await;
}

#[tokio::test]
async fn a_connection_logs_in_with_the_password_that_is_in_the_file_then() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, PASSWORD).unwrap();
    let taken = Lock::new(PASSWORD);
    let fake = fake(move |frame| match (frame.header("passcode"), frame.header("org.fcrepo.jms.identifier")) {
        (Some(passcode), _) if passcode != *taken.lock() => {
            Some(Frame::new("ERROR").with("message", format!("no such login: {passcode}")))
        }
        // The broker gets another password, and closes the connection.
        (_, Some("/b")) if std::mem::replace(&mut *taken.lock(), "battery-staple") == PASSWORD => None,
        _ => willing(frame),
    })
    .await;
    let bridge = BridgeConfig { password: None, password_file: Some(file.clone()), ..bridge(&fake.url) };
    let server = server(bridge).await;
    let _delivering = server.begin().await;
    let fails = async |part: &str| {
        let why = |listed: &Value| listed["failing"]["why"].as_str().unwrap_or_default().to_owned();
        why(&server.until(|listed| why(listed).contains(part)).await)
    };
    std::fs::remove_file(&file).unwrap();
    server.put("a").await;
    fails("cannot be read").await;
    std::fs::write(&file, PASSWORD).unwrap();
    fake.until(1).await;

    server.put("b").await;
    let why = fails("refuses").await;
    assert!(why.ends_with("no such login: (hidden)"), "{why}");
    std::fs::write(&file, "battery-staple\n").unwrap();
    assert_eq!(fake.until(3).await, ["Create /a", "Create /b", "Create /b"]);
}

#[tokio::test]
async fn a_connection_that_breaks_before_a_receipt_sends_the_message_again() {
    let broken = Lock::new(false);
    let fake = fake(move |frame| {
        let is_first = frame.command == "SEND" && !std::mem::replace(&mut *broken.lock(), true);
        if is_first { None } else { willing(frame) }
    })
    .await;
    let server = server(bridge(&fake.url)).await;
    let _delivering = server.begin().await;
    server.put("a").await;
    assert_eq!(fake.until(2).await, ["Create /a", "Create /a"]);
    let got = fake.got.lock();
    let ids: Vec<_> = got.iter().filter_map(|frame| frame.header("org.fcrepo.jms.eventID")).collect();
    assert_eq!(ids[0], ids[1], "consumers recognise a message that comes again");
}

#[tokio::test]
async fn an_operator_leaves_out_an_event_that_a_broker_never_takes() {
    let fake = fake(|frame| match frame.header("org.fcrepo.jms.identifier") {
        Some("/poison") => {
            let receipt = frame.header("receipt").unwrap();
            Some(Frame::new("ERROR").with("receipt-id", receipt).with("message", "poison"))
        }
        _ => willing(frame),
    })
    .await;
    let server = server(bridge(&fake.url)).await;
    let _delivering = server.begin().await;
    for path in ["a", "poison"] {
        server.put(path).await;
    }
    server.until(|listed| listed["failing"]["tries"].as_u64() > Some(2)).await;
    server.put("b").await;
    server.until(|listed| listed["failing"]["tries"].as_u64() > Some(9)).await;
    assert!(!fake.reported().contains(&"Create /b".to_owned()), "while one event fails, none behind it is sent");
    let path = "/admin/bridges/fedora/resume?skip=true";
    assert_eq!(server.ask(Via::AdminSocket, Method::POST, path).await.0, StatusCode::OK);
    let begun = Instant::now();
    while !fake.reported().contains(&"Create /b".to_owned()) {
        assert!(begun.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_test_logs_in_and_sends_nothing_and_an_address_that_is_not_allowed_is_not_connected_to() {
    let fake = fake(willing).await;
    let tests = async |config: Config| {
        let server = server_at(tempfile::tempdir().unwrap(), config).await;
        server.ask(Via::AdminSocket, Method::POST, "/admin/bridges/fedora/test").await.1
    };
    assert_eq!(tests(config(vec![bridge(&fake.url)])).await["accepted"], true);
    assert!(fake.reported().is_empty());
    let mut elsewhere = config(vec![bridge(&fake.url.replace("127.0.0.1", "localhost"))]);
    elsewhere.feed.bridges_networks = vec!["10.0.0.0/8".to_owned()];
    let tested = tests(elsewhere).await;
    assert_eq!(tested["accepted"], false);
    assert!(tested["detail"].as_str().unwrap().contains("feed.bridges_networks"), "{tested}");
}

#[tokio::test]
async fn a_server_that_stops_ends_the_connection_before_it_gives_the_bridge_back() {
    let fake = fake(|frame| match frame.command.as_str() {
        "SEND" => Some(Frame::default()),
        _ => willing(frame),
    })
    .await;
    let mut server = server(bridge(&fake.url)).await;
    let pacing = Pacing { attempt_max: Duration::from_secs(3_600), ..quick() };
    server.bridges = open(&server.config, server.app.library().clone(), pacing).unwrap();
    let stopping = CancellationToken::new();
    let delivering = server.bridges.start(&stopping);
    server.until(|listed| listed["state"] != "new").await;
    server.put("a").await;
    fake.until(1).await;
    stopping.cancel();
    delivering.ended(Duration::from_secs(60)).await;
    let begun = Instant::now();
    while fake.open.load(Ordering::SeqCst) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "a message may still be on its way");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_broker_within_tls_is_trusted_by_the_file_of_the_operator_and_not_without_it() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("stomp+ssl://localhost:{}", listener.local_addr().unwrap().port());
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let _task = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(answer(stream, Arc::new(willing), Arc::default()));
            }
        }
    }));
    let tested = async |ca_file: Option<&std::path::Path>| {
        let bridge = BridgeConfig { ca_file: ca_file.map(Into::into), ..bridge(&url) };
        let mut config = config(vec![bridge]);
        config.feed.bridges_networks.push("::1".to_owned());
        let server = server_at(tempfile::tempdir().unwrap(), config).await;
        server.ask(Via::AdminSocket, Method::POST, "/admin/bridges/fedora/test").await.1
    };
    assert_eq!(tested(Some(&file)).await["accepted"], true);
    let refused = tested(None).await;
    assert_eq!(refused["accepted"], false);
    assert!(refused["detail"].as_str().unwrap().contains("certificate"), "{refused}");
}

#[test]
fn settings_that_cannot_work_are_refused_and_no_password_is_shown() {
    let check = |field: &str, value: Value| {
        let mut text = serde_json::json!({"name": "a", "url": "amqps://a.example", "user": "me", "password": PASSWORD});
        text[field] = value;
        let config = config(vec![serde_json::from_value(text).unwrap()]);
        config.check().map_err(|error| error.to_string())
    };
    assert_eq!(check("path", "letters".into()), Ok(()));
    for (field, value, part) in [
        ("name", "a/b".into(), "letters, digits"),
        ("url", "http://a.example".into(), "stomp://"),
        ("url", "stomp://me:secret@a.example".into(), "nothing else"),
        ("url", "amqp://1.1.1.1".into(), "no TLS"),
        ("url", "amqps://10.1.1.1".into(), "not public"),
        ("destination", "".into(), "`destination`"),
        ("destination", "a\nb".into(), "`destination`"),
        ("user", Value::Null, "needs a `user`"),
        ("user", "a\0".into(), "`user`"),
        ("password", format!("{PASSWORD}\u{7}").into(), "its password"),
        ("password", Value::Null, "either `password` or"),
        ("password_file", "/nowhere".into(), "either `password` or"),
        ("path", "/a".into(), "`path`"),
    ] {
        let error = check(field, value).unwrap_err();
        assert!(error.contains(part) && error.contains("feed.bridges `") && !error.contains(PASSWORD), "{error}");
    }
    let mut plain = bridge("stomp://a.example");
    plain.ca_file = Some("/nowhere".into());
    assert!(config(vec![plain]).check().unwrap_err().to_string().contains("`ca_file` is for"));
    let twice = config(vec![bridge("amqps://a.example"), bridge("amqps://a.example")]);
    assert!(twice.check().unwrap_err().to_string().contains("another bridge"));
    let shown = config(vec![bridge("amqps://a.example")]);
    let shown = [format!("{shown:?}"), serde_json::to_string(&shown).unwrap()];
    assert!(shown.iter().all(|shown| shown.contains("(hidden)") && !shown.contains(PASSWORD)), "{shown:?}");
}

#[test]
fn the_password_may_be_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let text = serde_json::json!({"name": "a", "url": "amqps://a.example", "user": "me", "password_file": file});
    let bridge: BridgeConfig = serde_json::from_value(text).unwrap();
    assert!(bridge.login().unwrap_err().contains("cannot be read"));
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    assert_eq!(bridge.login().unwrap().unwrap().password.reveal(), PASSWORD);
    assert!(roots(Some(&file)).unwrap_err().contains("no certificate"));
}
