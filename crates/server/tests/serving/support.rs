//! A server to test, and a client that returns whole responses.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use library::Library;
use server::Addresses;
use server::config::Config;
use store::{Store, StoreError, SystemClock};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use volumes::Unchanged;

/// The time limit of every wait; no test depends on how long anything takes within it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The sample volume that tests read: its cleaned id.
pub const VOLUME: &str = "psia.ark+=13960=t0ks80527";

pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(what, wait).await;
}

/// Reports a test that was left out, in the file that `PENATES_NOT_RUN` names. If `CI` is set, no
/// test may be left out.
pub fn not_run(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {what}");
    eprintln!("not run: {what}");
    if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        std::io::Write::write_all(&mut list, format!("{what}\n").as_bytes()).unwrap();
    }
}

/// The default configuration, on ports that the operating system picks.
pub fn on_free_ports() -> Config {
    let mut config = Config::default();
    config.listen.http = Some("127.0.0.1:0".parse().unwrap());
    config.listen.tls = None;
    config.limits.drain = Duration::ZERO;
    config
}

/// Opens a store that nobody holds. A program that another test is just starting shares this
/// process's files until it runs, and with them the lock of a folder that was released. This waits
/// for it.
pub fn open_store(folder: &Path) -> Arc<dyn Store> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match EmbeddedStore::open(folder, EmbeddedOptions::default(), Arc::new(SystemClock)) {
            Err(StoreError::Held { .. }) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(5)),
            opened => return opened.unwrap(),
        }
    }
}

/// Imports the sample volumes whose path contains one of the words.
pub async fn import_samples(store: Arc<dyn Store>, words: &[&str]) {
    import_from(store, &samples(), words).await;
}

/// The folder with the sample volumes.
pub fn samples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../samples/pairtree")
}

/// Imports the volumes of a folder whose path contains one of the words.
pub async fn import_from(store: Arc<dyn Store>, folder: &Path, words: &[&str]) {
    let library = Library::open(store, Arc::new(SystemClock), Default::default()).await.unwrap();
    for files in hathi::discover(folder) {
        let files = files.unwrap();
        if words.iter().any(|word| files.zip.to_string_lossy().contains(word)) {
            library.volumes.import(files.open().unwrap(), Unchanged::Skip, |_| {}).await.unwrap();
        }
    }
}

pub struct Server {
    pub addresses: Addresses,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), server::ServerError>>,
}

impl Server {
    /// Serves a store.
    pub async fn serve(config: Config, store: Arc<dyn Store>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (tell, reported) = oneshot::channel();
        let serving =
            tokio::spawn(server::serve(config, store, move |addresses| tell.send(addresses).unwrap(), async move {
                let _ = stopped.await;
            }));
        let addresses = soon("the server's addresses", reported).await.unwrap();
        Self { addresses, stop, serving }
    }

    /// Serves a fresh store with one volume.
    pub async fn start(change: impl FnOnce(&mut Config)) -> (Self, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = open_store(folder.path());
        import_samples(store.clone(), &["t0ks80527"]).await;
        let mut config = on_free_ports();
        change(&mut config);
        (Self::serve(config, store).await, folder)
    }

    pub fn http(&self) -> SocketAddr {
        self.addresses.http.unwrap()
    }

    pub async fn end(self) {
        self.stop.send(()).unwrap();
        soon("the end of the server", self.serving).await.unwrap().unwrap();
    }

    /// Sends a request over the network.
    pub async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Reply {
        ask(TcpStream::connect(self.http()).await.unwrap(), method, path, headers).await
    }

    /// Sends a request with a body over the network, with a token if that is not empty.
    pub async fn send(&self, token: &str, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let shown = format!("Bearer {token}");
        let headers: Vec<_> = headers.iter().copied().chain([("authorization", shown.as_str())]).collect();
        ask_with(TcpStream::connect(self.http()).await.unwrap(), method, path, &headers, body).await
    }

    /// Sends a request with a body over the network.
    pub async fn ask_with(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        ask_with(TcpStream::connect(self.http()).await.unwrap(), method, path, headers, body).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path, &[]).await
    }

    /// Sends a request over the administrator's socket.
    pub async fn admin(&self, method: Method, path: &str) -> Reply {
        ask(UnixStream::connect(self.addresses.socket.as_ref().unwrap()).await.unwrap(), method, path, &[]).await
    }

    /// Creates a token.
    pub async fn token(&self, name: &str) -> String {
        self.token_for(name, "read write").await
    }

    /// Creates a token with scopes.
    pub async fn token_for(&self, name: &str, scopes: &str) -> String {
        let scopes = scopes.replace(' ', "%20");
        let answer = self.admin(Method::POST, &format!("/admin/tokens?name={name}&scope={scopes}")).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
        answer.json()["token"].as_str().unwrap().to_owned()
    }
}

pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Sends a request without a body over a connection, and ends it.
pub async fn ask<S>(stream: S, method: Method, path: &str, headers: &[(&str, &str)]) -> Reply
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    ask_with(stream, method, path, headers, "").await
}

/// The same with a body.
async fn ask_with<S>(stream: S, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Reply
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let response = soon(path, sender.send_request(request)).await.unwrap();
    let (head, body) = response.into_parts();
    let body = soon(path, body.collect()).await.unwrap().to_bytes();
    connection.abort();
    Reply { status: head.status, headers: head.headers, body }
}
