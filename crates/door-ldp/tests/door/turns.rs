//! Turns: readings and updates that last long hold up neither pages nor searches, nor readings of
//! another client.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use audit::Requester;
use axum::Extension;
use axum::body::Body;
use bytes::Bytes;
use door_ldp::{LdpDoor, LdpSettings, Routes, routes};
use heads::{LibraryOptions, keys};
use http::{Method, Request, StatusCode};
use library::Library;
use store::{Call, ContentId, ContentStream, Row, Store, StoreResult, Table, Wrapper};
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use crate::search::index;
use crate::support::{Fixture, Reply, fixture};

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(30);

const PROCESSORS: usize = 2;

/// The most updates that read what they change at once.
const UPDATES: usize = 4 * PROCESSORS;

const UPDATE: &str = "INSERT DATA { <> <http://a/q> 1 }";

/// A store that never sends a content, nor one of its rows.
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
    let Routes { read, write } = routes(Arc::new(LdpDoor::new(library.clone(), LdpSettings::default()).unwrap()));
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
