//! Turns: readings that last long hold up neither pages nor searches, nor those of another client.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use audit::Requester;
use axum::Extension;
use axum::body::Body;
use door_ldp::{LdpDoor, LdpSettings, Routes, routes};
use heads::LibraryOptions;
use http::{Method, Request, StatusCode};
use library::Library;
use store::{Call, ContentId, ContentStream, Store, StoreResult, Wrapper};
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use crate::search::index;
use crate::support::{Fixture, Reply, fixture};

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store that never sends a content.
struct Silent {
    inner: Arc<dyn Store>,
    /// How often a content was asked for.
    asked: AtomicUsize,
}

impl Wrapper for Silent {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn read_content(&self, _: Call, _: ContentId, _: Range<u64>) -> StoreResult<Option<ContentStream>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
}

impl Silent {
    /// Waits until a content was asked for so often.
    async fn until_asked(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.asked.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < deadline, "no reading of {count} begins");
            tokio::task::yield_now().await;
        }
    }
}

/// A container, a large file and an index, over a store that does not send the file.
async fn silent() -> (Fixture, Arc<Silent>) {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    let file = fixture.ask(Method::PUT, "/rest/file").header("content-type", "image/png").body(vec![7; 300_000]);
    assert_eq!(file.answer().await.status, StatusCode::CREATED);
    index(&fixture).await;
    let store = Arc::new(Silent { inner: fixture.library.store().clone(), asked: AtomicUsize::new(0) });
    let library = Library::open(store.clone(), fixture.clock.clone(), LibraryOptions::default()).await.unwrap();
    let Routes { read, write } = routes(Arc::new(LdpDoor::new(library.clone(), LdpSettings::default()).unwrap()));
    (Fixture { router: read.merge(write), library, ..fixture }, store)
}

/// A request of a client that waits for its response until the handle is dropped.
fn waiting(fixture: &Fixture, client: &str, path: &str, header: (&str, &str)) -> AbortOnDropHandle<()> {
    let requester = Requester { name: Some(client.to_owned()), ..Requester::default() };
    let router = fixture.router.clone().layer(Extension(requester));
    let request = Request::builder().uri(path).header("host", "test").header(header.0, header.1);
    let request = request.body(Body::empty()).unwrap();
    AbortOnDropHandle::new(tokio::spawn(async move { drop(router.oneshot(request).await) }))
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
            all.push(waiting(&fixture, client, "/rest/file/fcr:fixity", ("accept", "text/turtle")));
            all.push(waiting(&fixture, client, "/rest/file", ("want-digest", "md5")));
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
