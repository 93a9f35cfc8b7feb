//! Turns: readings and updates that last long hold up neither pages nor searches, nor readings of
//! another client. Graphs of one client do not hold up those of another.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use audit::Requester;
use axum::body::Body;
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use door_ldp::{ExternalPrefix, LdpDoor, LdpSettings, Routes, routes};
use futures::stream;
use heads::{Keep, LibraryOptions, keys};
use http::{Method, Request, StatusCode};
use library::Library;
use parking_lot::Mutex;
use store::{Call, ContentId, ContentStream, Row, Store, StoreResult, Table, Wrapper};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use crate::search::index;
use crate::support::{Fixture, Reply, TURTLE, fixture, fixture_keeping, fixture_with};
use crate::volumes_then::{keeping, lived};

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(30);

const PROCESSORS: usize = 2;

/// The most updates that read what they change at once.
const UPDATES: usize = 4 * PROCESSORS;

const UPDATE: &str = "INSERT DATA { <> <http://a/q> 1 }";

/// A store that never sends a content, nor one of its rows, nor the heads of volumes.
struct Silent {
    inner: Arc<dyn Store>,
    /// The key of the row in its partition.
    row: Bytes,
    /// How often one of them was asked for.
    asked: AtomicUsize,
}

impl Wrapper for Silent {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        match *sort == self.row {
            true => self.never().await,
            false => self.inner.get(call, table, partition, sort).await,
        }
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        match table == Table::Objects && keys.iter().any(|(partition, _)| partition.starts_with(b"v/")) {
            true => self.never().await,
            false => self.inner.get_many(call, table, keys).await,
        }
    }

    async fn read_content(&self, _: Call, _: ContentId, _: Range<u64>) -> StoreResult<Option<ContentStream>> {
        self.never().await
    }
}

impl Silent {
    async fn never<T>(&self) -> T {
        self.asked.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }

    /// Waits until it was asked so often.
    async fn until_asked(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.asked.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < deadline, "fewer than {count} begin");
            tokio::task::yield_now().await;
        }
    }
}

/// A container, a graph, a large file and an index, over a store that sends neither the file nor
/// the graph.
async fn silent() -> (Fixture, Arc<Silent>) {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    fixture.make("/rest/graph", "RDFSource", "<> <http://a/p> 1 .").await;
    let graph = fixture.library.repository.resource(&"graph".parse().unwrap()).await.unwrap();
    let row = keys::description(graph.body().description.revision, 0);
    let file = fixture.ask(Method::PUT, "/rest/file").header("content-type", "image/png").body(vec![7; 300_000]);
    assert_eq!(file.answer().await.status, StatusCode::CREATED);
    index(&fixture).await;
    let store = Arc::new(Silent { inner: fixture.library.store().clone(), row, asked: AtomicUsize::new(0) });
    let options = LibraryOptions { processors: PROCESSORS, ..LibraryOptions::default() };
    let library = Library::open(store.clone(), fixture.clock.clone(), options).await.unwrap();
    let Routes { read, write } = routes(Arc::new(LdpDoor::new(library.clone(), LdpSettings::default())));
    (Fixture { router: read.merge(write), library, ..fixture }, store)
}

/// A request of a client that waits for its response until the handle is dropped.
fn waiting(fixture: &Fixture, client: &str, request: Request<Body>) -> AbortOnDropHandle<()> {
    let requester = Requester { name: Some(client.to_owned()), ..Requester::default() };
    let router = fixture.router.clone().layer(Extension(requester));
    AbortOnDropHandle::new(tokio::spawn(async move { drop(router.oneshot(request).await) }))
}

fn reading(path: &str, header: (&str, &str)) -> Request<Body> {
    let request = Request::builder().uri(path).header("host", "test").header(header.0, header.1);
    request.body(Body::empty()).unwrap()
}

fn updating() -> Request<Body> {
    let request = Request::builder().method(Method::PATCH).uri("/rest/graph").header("host", "test");
    request.header("content-type", "application/sparql-update").body(UPDATE.into()).unwrap()
}

/// Waits until so many updates are held in memory.
async fn until_held(fixture: &Fixture, updates: usize) {
    let deadline = Instant::now() + PATIENCE;
    let taken_bytes = || fixture.library.memory.taken_bytes();
    while taken_bytes() != (updates * UPDATE.len()) as u64 {
        assert!(Instant::now() < deadline, "there are never {updates} updates, but {} bytes", taken_bytes());
        tokio::task::yield_now().await;
    }
}

/// A response that comes while others wait.
async fn soon(answer: impl Future<Output = Reply>) -> Reply {
    tokio::time::timeout(PATIENCE, answer).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn readings_that_do_not_end_hold_up_no_page_no_search_and_no_reading_of_another_client() {
    let (fixture, store) = silent().await;
    let mut all = Vec::new();
    for (client, begun) in [("first", 2), ("second", 4)] {
        for _ in 0..2 {
            all.push(waiting(&fixture, client, reading("/rest/file/fcr:fixity", ("accept", "text/turtle"))));
            all.push(waiting(&fixture, client, reading("/rest/file", ("want-digest", "md5"))));
        }
        store.until_asked(begun).await;
    }
    let page = soon(fixture.ask(Method::GET, "/rest/c").header("accept", "text/html").answer()).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text());
    for accept in ["application/json", "text/html"] {
        let search = fixture.ask(Method::GET, "/rest/fcr:search?fedora_id=c*").header("accept", accept);
        let found = soon(search.answer()).await;
        assert_eq!(found.status, StatusCode::OK, "{}", found.text());
    }
    assert_eq!(store.asked.load(Ordering::SeqCst), 4, "two of each client, and no more at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn contents_stored_elsewhere_are_read_for_digests_in_the_same_turns() {
    const EACH: usize = 3;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let silent = get(move || {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<&'static str>()
    });
    let elsewhere = Router::new().route("/silent", silent).route("/scan", get(async || "a scan"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, elsewhere).await });
    let external = vec![ExternalPrefix::parse(&address).unwrap()];
    let fixture = fixture_with(LdpSettings { external, ..LdpSettings::default() }).await;
    let relation = "http://fedora.info/definitions/fcrepo#ExternalContent";
    let link = |name: &str| format!("<{address}{name}>; rel=\"{relation}\"; handling=\"proxy\"");
    for name in ["silent", "scan"] {
        let put = fixture.ask(Method::PUT, &format!("/rest/{name}")).header("link", &link(name)).answer().await;
        assert_eq!(put.status, StatusCode::CREATED, "{}", put.text());
    }
    let announcing = |n: usize| {
        let request = Request::builder().method(Method::PUT).uri(format!("/rest/new{n}")).header("host", "test");
        let request = request.header("link", link("silent")).header("digest", "md5=00000000000000000000000000000000");
        request.body(Body::empty()).unwrap()
    };
    let mut all = Vec::new();
    for n in 0..EACH {
        all.push(waiting(&fixture, "first", announcing(n)));
        all.push(waiting(&fixture, "first", reading("/rest/silent", ("want-digest", "md5"))));
    }
    // A share of the memory comes before a turn.
    let shares_bytes = (all.len() << 20) as u64;
    until("all have a share", || fixture.library.memory.taken_bytes() == shares_bytes).await;
    until("two are read", || asked.load(Ordering::SeqCst) == 2).await;
    let other = soon(fixture.ask(Method::GET, "/rest/scan").header("want-digest", "md5").answer()).await;
    assert!(other.header("digest").is_some_and(|digest| digest.starts_with("md5=")), "{other:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 2, "two of a client, and no more at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_earlier_volumes_hold_up_no_list_of_another_client_and_no_graph() {
    let fixture = lived(Keep::All).await;
    let (inner, row) = (fixture.library.store().clone(), Bytes::new());
    let store = Arc::new(Silent { inner, row, asked: AtomicUsize::new(0) });
    let library = Library::open(store.clone(), fixture.clock.clone(), keeping(Keep::All)).await.unwrap();
    let Routes { read, write } = routes(Arc::new(LdpDoor::new(library.clone(), LdpSettings::default())));
    let fixture = Fixture { router: read.merge(write), library, ..fixture };
    let list = || reading("/rest/volumes/fcr:versions/20250615150940", ("accept", "text/turtle"));
    let mut all: Vec<_> = (0..3).map(|_| waiting(&fixture, "first", list())).collect();
    store.until_asked(2).await;
    all.push(waiting(&fixture, "second", list()));
    store.until_asked(3).await;
    let root = soon(fixture.ask(Method::GET, "/rest/").header("accept", "text/turtle").answer()).await;
    assert_eq!(root.status, StatusCode::OK, "{}", root.text());
    assert_eq!(store.asked.load(Ordering::SeqCst), 3, "two of a client, and no more at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_some_updates_read_what_they_change_at_once_and_none_waits_without_its_client() {
    let (fixture, store) = silent().await;
    let begin = |count: usize| (0..count).map(|_| waiting(&fixture, "first", updating())).collect::<Vec<_>>();
    let mut all = begin(PROCESSORS);
    store.until_asked(PROCESSORS).await;
    // None of them is on a processor.
    let other = fixture.ask(Method::PATCH, "/rest/c").header("content-type", "application/sparql-update");
    let other = soon(other.body(UPDATE).answer()).await;
    assert!(other.status.is_success(), "{}", other.text());
    all.extend(begin(UPDATES + 3 - PROCESSORS));
    until_held(&fixture, all.len()).await;
    store.until_asked(UPDATES).await;
    let page = soon(fixture.ask(Method::GET, "/rest/c").header("accept", "text/html").answer()).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text());
    // A response is held in memory too.
    drop(page);
    drop(all);
    // Those that have begun wait for the store.
    until_held(&fixture, UPDATES).await;
    assert_eq!(store.asked.load(Ordering::SeqCst), UPDATES, "no more");
}

/// Threads for work that blocks, of the runtime below.
const BLOCKING_THREADS: usize = 4;

/// Lets other tasks run until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: never");
        tokio::task::yield_now().await;
    }
}

/// Bodies of requests.
#[derive(Default)]
struct Bodies {
    begun: AtomicUsize,
    sent: AtomicUsize,
}

impl Bodies {
    /// A graph that is too long to be parsed where it is received, and malformed at its end. It is
    /// sent once the sender is dropped.
    fn broken_graph(self: &Arc<Self>) -> (oneshot::Sender<()>, Body) {
        let (let_go, held) = oneshot::channel();
        let bodies = self.clone();
        let bytes = stream::once(async move {
            bodies.begun.fetch_add(1, Ordering::SeqCst);
            let _ = held.await;
            bodies.sent.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Bytes::from("<> <http://a/p> 1 .\n".repeat(400) + "broken"))
        });
        (let_go, Body::from_stream(bytes))
    }
}

#[test]
fn a_client_with_many_long_graphs_holds_up_no_graph_of_another() {
    const MANY: usize = 8;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.max_blocking_threads(BLOCKING_THREADS).enable_all().build().unwrap();
    runtime.block_on(async {
        let fixture = fixture_keeping(LibraryOptions { processors: 1, ..LibraryOptions::default() }).await;
        fixture.make("/rest/graph", "RDFSource", "").await;
        let (bodies, refused) = (Arc::new(Bodies::default()), Arc::new(Mutex::new(Vec::new())));
        let (mut held, mut sending) = (Vec::new(), Vec::new());
        for client in std::iter::repeat_n("first", MANY).chain(["second"]) {
            let (let_go, body) = bodies.broken_graph();
            let request = Request::builder().method(Method::PUT).uri("/rest/graph").header("host", "test");
            let request = request.header("content-type", TURTLE).body(body).unwrap();
            let requester = Requester { name: Some(client.to_owned()), ..Requester::default() };
            let router = fixture.router.clone().layer(Extension(requester));
            let refused = refused.clone();
            held.push(let_go);
            sending.push(AbortOnDropHandle::new(tokio::spawn(async move {
                let response = router.oneshot(request).await.unwrap();
                refused.lock().push((client, response.status()));
            })));
        }
        until("all bodies begin", || bodies.begun.load(Ordering::SeqCst) == MANY + 1).await;
        // Nothing is parsed while these wait.
        let blocked = Arc::new(AtomicUsize::new(0));
        let block = |_| {
            let (open, closed) = mpsc::channel::<()>();
            let blocked = blocked.clone();
            tokio::task::spawn_blocking(move || {
                blocked.fetch_add(1, Ordering::SeqCst);
                let _ = closed.recv();
            });
            open
        };
        let blocking: Vec<_> = (0..BLOCKING_THREADS).map(block).collect();
        until("all threads block", || blocked.load(Ordering::SeqCst) == BLOCKING_THREADS).await;
        let last = held.pop();
        drop(held);
        until("the first client sends its bodies", || bodies.sent.load(Ordering::SeqCst) == MANY).await;
        drop(last);
        until("the second client sends its body", || bodies.sent.load(Ordering::SeqCst) == MANY + 1).await;
        drop(blocking);
        until("all are refused", || refused.lock().len() == MANY + 1).await;
        let refused = refused.lock();
        assert!(refused.iter().all(|(_, status)| *status == StatusCode::BAD_REQUEST), "{refused:?}");
        // One graph of the first client was being parsed, and another of its graphs may be next.
        let place = refused.iter().position(|(client, _)| *client == "second").unwrap();
        assert!(place <= 2, "{refused:?}");
    });
}
