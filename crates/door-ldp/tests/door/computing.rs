//! The memory that updates hold while they are computed is a part of the budget of all requests.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use audit::Requester;
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use door_ldp::LdpSettings;
use heads::LibraryOptions;
use http::{Method, Request, StatusCode};
use tower::ServiceExt;

use crate::support::fixture_of;

/// The time limit of every wait, for a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

const MIB: u64 = 1 << 20;

/// The whole budget. Large shares have 14 MiB of it.
const MEMORY_BYTES: u64 = 16 * MIB;

/// The looks after which an update holds no more.
const LOOKS: i64 = 6;

/// Of a graph of [`STATEMENTS`] it has 22,500 solutions, and so more looks than these.
const UPDATE: &str = "INSERT { <> <u:q> <u:o> } WHERE { ?a <http://a/p> ?x . ?b <http://a/p> ?y }";

/// So few that the update takes a small part of its time on any machine.
const STATEMENTS: usize = 150;

thread_local! {
    /// Looks at the memory of this thread. Each update with a `WHERE` has a thread of its own.
    static LOOKED: Cell<i64> = const { Cell::new(0) };
}

/// Whether an update holds as much as it will.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Whether such an update may go on. It waits without computing, which has a limit.
static MAY_GO_ON: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// Each look finds a mebibyte more, and a sixteenth.
fn held() -> i64 {
    let looked = LOOKED.get();
    if looked == LOOKS {
        IS_FULL.store(true, Ordering::SeqCst);
        let (may_go_on, changed) = &MAY_GO_ON;
        drop(changed.wait_timeout_while(may_go_on.lock().unwrap(), PATIENCE, |may| !*may).unwrap());
    } else {
        LOOKED.set(looked + 1);
    }
    looked * (17 << 16)
}

/// The response to an update of the resource with the name of the client.
async fn updated(router: Router, client: &str) -> Response {
    let requester = Requester { name: Some(client.to_owned()), ..Requester::default() };
    let request = Request::builder().method(Method::PATCH).uri(format!("/rest/{client}")).header("host", "test");
    let request = request.header("content-type", "application/sparql-update").extension(requester);
    router.oneshot(request.body(Body::from(UPDATE)).unwrap()).await.unwrap()
}

/// Waits until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: never");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_share_the_budget_while_they_are_computed_and_one_that_finds_too_little_is_asked_to_retry() {
    let settings = LdpSettings { held: Some(held), ..LdpSettings::default() };
    let options = LibraryOptions { processors: 2, memory_bytes: MEMORY_BYTES, ..LibraryOptions::default() };
    let fixture = fixture_of(settings, options).await;
    let statements: String = (0..STATEMENTS).map(|n| format!("<#{n}> <http://a/p> {n} . ")).collect();
    for path in ["/rest/first", "/rest/second"] {
        fixture.make(path, "RDFSource", &statements).await;
    }
    let before = fixture.get("/rest/second").await.etag();
    let taken_bytes = || fixture.library.memory.taken_bytes();
    until("memory that was given back", || taken_bytes() == 0).await;

    let first = tokio::spawn(updated(fixture.router.clone(), "first"));
    until("an update that is computed", || IS_FULL.load(Ordering::SeqCst)).await;
    let of_first = taken_bytes();
    assert!((5 * MIB..=MEMORY_BYTES).contains(&of_first), "{of_first}");

    // Beside it another client may have four mebibytes, and not six.
    let refused = updated(fixture.router.clone(), "second").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"), "{refused:?}");
    until("memory that was given back", || taken_bytes() == of_first).await;
    assert_eq!(fixture.get("/rest/second").await.etag(), before, "nothing is changed");

    *MAY_GO_ON.0.lock().unwrap() = true;
    MAY_GO_ON.1.notify_all();
    assert_eq!(first.await.unwrap().status(), StatusCode::NO_CONTENT);
    assert_eq!(updated(fixture.router.clone(), "second").await.status(), StatusCode::NO_CONTENT);
    until("memory that was given back", || taken_bytes() == 0).await;
}
