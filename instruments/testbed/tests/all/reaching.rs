//! How workers reach a candidate: over TLS, over one connection of HTTP/2, with header fields.
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Run, TOKEN, worker};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use testbed::coordinator::{Collected, Coordinator};
use testbed::event::EventReader;
use testbed::reach::Reach;
use testbed::tally::Measured;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A server that notes requests and counts connections.
#[derive(Clone, Default)]
struct Server {
    /// How long it waits before it answers.
    delay: Duration,
    /// The most requests at once on a connection of HTTP/2.
    streams: Option<u32>,
    /// How long it waits before it answers the first bytes of a connection.
    before_first: Duration,
    connections: Arc<AtomicUsize>,
    /// The versions and the `Authorization` of requests.
    seen: Arc<Mutex<Vec<String>>>,
    tls: Option<TlsAcceptor>,
}

impl Server {
    async fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                server.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(server.clone().serve(stream));
            }
        });
        address
    }

    async fn serve(self, stream: TcpStream) {
        tokio::time::sleep(self.before_first).await;
        match self.tls.clone() {
            None => self.answer(stream).await,
            // A client that does not trust the certificate has gone.
            Some(tls) => {
                if let Ok(stream) = tls.accept(stream).await {
                    self.answer(stream).await;
                }
            }
        }
    }

    async fn answer(self, stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static) {
        let streams = self.streams;
        let service = service_fn(move |request: Request<Incoming>| {
            let server = self.clone();
            async move {
                let fields: Vec<_> = request.headers().get_all("authorization").iter().collect();
                server.seen.lock().push(format!("{:?} {fields:?}", request.version()));
                tokio::time::sleep(server.delay).await;
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"here"))))
            }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http2().max_concurrent_streams(streams);
        drop(builder.serve_connection(TokioIo::new(stream), service).await);
    }
}

/// Runs a plan with one worker against an address. Returns what was measured, and when requests were due
/// and sent, in microseconds.
async fn measure(url: &str, load: &str, more: &str, headers: Option<&str>) -> (Measured, Vec<(i64, Option<i64>)>) {
    let plan = format!(
        "name = \"one\"\nscenarios = [{{ scenario = \"one.toml\" }}]\nworkers = 1\nload = {{ {load} }}\n{more}\n"
    );
    let step = format!("[[steps]]\nname = \"one\"\npath = \"/\"\nheaders = {{ {} }}\n", headers.unwrap_or_default());
    let mut run = Run::new(&plan, &[("one", &step)]);
    std::fs::write(run.folder.path().join("authorization"), "Bearer s3cret\n").unwrap();
    run.inputs.folder = run.folder.path().to_owned();
    let reach = Reach::of_plan(&run.inputs, url).unwrap();
    let collected = collect(&run, &reach).await;
    let names = run.names();
    let events = EventReader::new(std::fs::File::open(&collected.events[0]).unwrap(), names).map(Result::unwrap);
    let times = events.map(|event| (event.due_us, event.sent_us)).collect();
    (run.count(&collected.events), times)
}

async fn collect(run: &Run, reach: &Reach) -> Collected {
    let coordinator = Coordinator {
        inputs: &run.inputs,
        reach,
        token: TOKEN,
        folder: run.folder.path(),
        on_progress: &|_, _| {},
        on_start: &|_| {},
        objections: &|_, _| Vec::new(),
    };
    coordinator.run(vec![worker()]).await.unwrap()
}

/// The kinds of failures.
fn failures(measured: &Measured) -> Vec<&str> {
    measured.summary.errors.iter().map(|error| error.kind.as_str()).collect()
}

const FEW: &str = "shape = \"constant\", rate = 20, duration = \"500ms\"";

/// TLS for `localhost`, with the certificate as PEM.
fn tls() -> (TlsAcceptor, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (TlsAcceptor::from(Arc::new(config)), made.cert.pem())
}

#[tokio::test(flavor = "multi_thread")]
async fn https_speaks_the_version_that_the_plan_says_and_checks_the_certificate() {
    let (acceptor, _) = tls();
    let server = Server { tls: Some(acceptor), ..Server::default() };
    let port = server.start().await.port();
    let url = format!("https://localhost:{port}");
    for (version, seen) in [("1.1", "HTTP/1.1"), ("2", "HTTP/2.0")] {
        let tls = "tls = { insecure = true }";
        let (measured, _) = measure(&url, FEW, &format!("[connections]\nhttp = \"{version}\"\n{tls}"), None).await;
        assert_eq!((measured.summary.all.done, failures(&measured).len()), (10, 0), "{:?}", failures(&measured));
        let versions = std::mem::take(&mut *server.seen.lock());
        assert!(versions.len() == 10 && versions.iter().all(|known| known.starts_with(seen)), "{versions:?}");
    }
    // The system does not know this certificate. What it trusts at all may be nothing here.
    let run = Run::new(
        &format!("name = \"x\"\nscenarios = [{{ scenario = \"get\" }}]\nworkers = 1\nload = {{ {FEW} }}\n"),
        &[],
    );
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(run.folder.path().join("other.pem"), other.cert.pem()).unwrap();
    let mut inputs = run.inputs.clone();
    inputs.plan.connections.tls.ca = Some("other.pem".to_owned());
    let reach = Reach::of_plan(&inputs, &url).unwrap();
    let collected = collect(&run, &reach).await;
    let measured = run.count(&collected.events);
    assert_eq!(failures(&measured), ["TLS: certificate not trusted"]);
    assert!(server.seen.lock().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_the_file_that_the_plan_names_is_trusted_for_its_name_only() {
    let (acceptor, pem) = tls();
    let server = Server { tls: Some(acceptor), ..Server::default() };
    let port = server.start().await.port();
    let plan = format!(
        "name = \"x\"\nscenarios = [{{ scenario = \"get\" }}]\nworkers = 1\nload = {{ {FEW} }}\n\
         [connections]\ntls = {{ ca = \"ca.pem\" }}\n"
    );
    let run = Run::new(&plan, &[]);
    std::fs::write(run.folder.path().join("ca.pem"), pem).unwrap();
    for (host, wanted) in [("localhost", vec![]), ("127.0.0.1", vec!["TLS: certificate not trusted"])] {
        let reach = Reach::of_plan(&run.inputs, &format!("https://{host}:{port}")).unwrap();
        assert!(reach.facts()[0].1.contains("ca.pem (SHA-256 "), "{:?}", reach.facts());
        let collected = collect(&run, &reach).await;
        assert_eq!(failures(&run.count(&collected.events)), wanted, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_over_http_1_1_have_connections_of_their_own_unless_the_plan_says_otherwise() {
    let of = async |keep: &str, more: &str| {
        let server = Server::default();
        let address = server.start().await;
        let plan = format!(
            "name = \"keep\"\nscenarios = [{{ scenario = \"two.toml\" }}]\nworkers = 1\n\
             load = {{ shape = \"constant\", rate = 50, duration = \"200ms\" }}\n\
             [connections]\nkeep = \"{keep}\"\n{more}\n"
        );
        let two = "[[steps]]\nname = \"get\"\nrepeat = 2\npath = \"/\"\n";
        let (measured, _) = Run::new(&plan, &[("two", two)]).measure(address).await;
        assert!(server.seen.lock().iter().all(|seen| seen.starts_with("HTTP/1.1 ")), "{keep}");
        (measured.summary.all.done, server.connections.load(Ordering::Relaxed))
    };
    // One user at a time: one that arrives meanwhile is dropped. So one connection is enough.
    let (user, request, worker) = tokio::join!(of("user", ""), of("request", ""), of("worker", "users_max = 1"));
    assert_eq!((user, request), ((20, 10), (20, 20)));
    let (done, connections) = worker;
    assert!(done >= 2 && connections == 1, "{done} {connections}");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_that_share_http_2_wait_for_one_connection_and_for_its_streams() {
    // Ten users arrive before the first handshake is over.
    let shared = "[connections]\nkeep = \"worker\"\nhttp = \"2\"";
    let server = Server { before_first: Duration::from_millis(400), ..Server::default() };
    let address = server.start().await;
    let (measured, _) = measure(&format!("http://{address}"), FEW, shared, None).await;
    assert_eq!((measured.summary.all.done, server.connections.load(Ordering::Relaxed)), (10, 1));

    // Two requests at once, of 100 ms: ten take half a second at least, and the last one waits.
    let server = Server { delay: Duration::from_millis(100), streams: Some(2), ..Server::default() };
    let address = server.start().await;
    let load = "shape = \"constant\", rate = 100, duration = \"200ms\"";
    let (measured, times) = measure(&format!("http://{address}"), load, shared, None).await;
    assert_eq!(failures(&measured), Vec::<&str>::new());
    assert_eq!((measured.summary.all.done, server.connections.load(Ordering::Relaxed)), (20, 1));
    let waited_us = times.iter().map(|(due, sent)| sent.unwrap() - due).max().unwrap();
    assert!(waited_us >= 600_000, "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_requests_have_the_header_fields_of_the_plan_unless_a_step_has_its_own() {
    let headers = "[headers]\nAuthorization = { file = \"authorization\" }";
    for http in ["1.1", "2"] {
        let server = Server::default();
        let url = format!("http://{}", server.start().await);
        let more = format!("{headers}\n[connections]\nhttp = \"{http}\"");
        measure(&url, FEW, &more, None).await;
        measure(&url, FEW, &more, Some("Authorization = \"Basic own\"")).await;
        let seen = server.seen.lock();
        assert!(seen[..10].iter().all(|fields| fields.ends_with("[\"Bearer s3cret\"]")), "{seen:?}");
        assert!(seen[10..].iter().all(|fields| fields.ends_with("[\"Basic own\"]")), "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fill_and_a_load_over_a_longer_link_check_the_name_and_send_the_header_fields() {
    let (acceptor, pem) = tls();
    let server = Server { tls: Some(acceptor), ..Server::default() };
    let port = server.start().await.port();
    let plan = format!(
        "name = \"x\"\nscenarios = [{{ scenario = \"get\" }}]\nworkers = 1\nload = {{ {FEW} }}\n\
         fill = {{ scenario = \"get\", units = 7, concurrency = 2 }}\n\
         link = {{ mbit_per_s = 100, round_trip_ms = 10 }}\n\
         [connections]\ntls = {{ ca = \"ca.pem\" }}\n\
         [headers]\nAuthorization = {{ file = \"authorization\" }}\n"
    );
    let run = Run::new(&plan, &[]);
    std::fs::write(run.folder.path().join("ca.pem"), pem).unwrap();
    std::fs::write(run.folder.path().join("authorization"), "Bearer s3cret\n").unwrap();
    let reach = |host: &str| Reach::of_plan(&run.inputs, &format!("https://{host}:{port}")).unwrap();

    let collected = collect(&run, &reach("localhost")).await;
    assert_eq!((collected.lost.as_deref(), collected.fill.unwrap().units), (None, 7));
    let measured = run.count(&collected.events);
    assert_eq!((measured.summary.all.done, failures(&measured).len()), (10, 0), "{:?}", failures(&measured));
    assert_eq!(std::mem::take(&mut *server.seen.lock()), vec!["HTTP/1.1 [\"Bearer s3cret\"]"; 17]);
    // Users of the fill share connections; each of the load has its own.
    assert!(server.connections.load(Ordering::Relaxed) <= 12);

    // The link has an address of its own, which the certificate need not have.
    let collected = collect(&run, &reach("127.0.0.1")).await;
    assert!(collected.lost.unwrap().contains("the fill is not whole"));
    assert!(server.seen.lock().is_empty());
}
