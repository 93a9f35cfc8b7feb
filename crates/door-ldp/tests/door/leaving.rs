//! Clients that leave while the server works for them: the work stops.
//!
//! A call of the store that never ends is given up, and an update computes no further. So no test
//! measures time: a machine that is busy with other tests takes as long as it likes.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use door_ldp::LdpSettings;
use futures::{FutureExt, stream};
use heads::LibraryOptions;
use http::{Method, StatusCode};
use store::faults::{Fault, Faults, Kind, Rates};
use tokio::sync::oneshot;

use crate::support::{Fixture, ROOT, TURTLE, faulty, fixture, fixture_of};

/// The time limit of every wait, for a test that fails. On a busy machine other tests come between.
const PATIENCE: Duration = Duration::from_secs(30);

/// Every call takes practically forever.
const STUCK: Rates = Rates {
    delay: 1.0,
    max_delay: Duration::from_secs(1 << 40),
    unavailable: 0.0,
    unknown_applied: 0.0,
    unknown_not_applied: 0.0,
};

/// A container of 40 graphs and a scan of 1 MiB, over a store whose calls can be delayed.
async fn over_faults() -> (Fixture, Arc<Faults>) {
    let (fixture, faults) = faulty(fixture().await).await;
    for n in 0..40 {
        let path = format!("/rest/c/n{n:02}");
        assert_eq!(fixture.put(&path, "<> <http://a/p> \"o\" .").answer().await.status, StatusCode::CREATED);
    }
    let scan = fixture.ask(Method::PUT, "/rest/c/scan").header("content-type", "image/png").body(vec![7; 1 << 20]);
    assert_eq!(scan.answer().await.status, StatusCode::CREATED);
    (fixture, faults)
}

/// Sends requests and leaves, each time after more reads of the store. Returns after how many reads
/// the last client left before the response was complete.
async fn leaves(path: &str, header: (&str, &str)) -> usize {
    let (fixture, faults) = over_faults().await;
    let (mut reads, mut left_after) = (0, 0);
    loop {
        (0..reads).for_each(|_| faults.next(Kind::Read, Fault::Delay(Duration::ZERO)));
        faults.set_rates(1, STUCK);
        let deadline = Instant::now() + PATIENCE;
        let mut answer = Box::pin(fixture.ask(Method::GET, path).header(header.0, header.1).answer());
        let is_over = loop {
            if let Some(answer) = (&mut answer).now_or_never() {
                assert_eq!(answer.status, StatusCode::OK);
                break true;
            }
            // A read that is let through waits for no time, and does not delay the request.
            tokio::task::yield_now().await;
            if faults.delayed() > 0 && !faults.is_scripted() {
                break false;
            }
            assert!(Instant::now() < deadline, "after {reads} reads nothing happens");
        };
        drop(answer);
        faults.set_rates(1, Rates::default());
        // Nothing is held for it either.
        while faults.delayed() > 0 || fixture.library.memory.taken_bytes() > 0 {
            assert!(Instant::now() < deadline, "after {reads} reads it goes on without its client");
            tokio::task::yield_now().await;
        }
        if is_over {
            return left_after;
        }
        left_after = reads;
        reads += 1 + reads / 3;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_for_a_listing_ends_when_its_client_leaves() {
    assert!(leaves("/rest/c", ("accept", "text/turtle")).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_for_an_archive_ends_when_its_client_leaves() {
    let reads = leaves("/rest/c", ("accept", "application/zip")).await;
    assert!(reads > 20, "each description is read: {reads}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixity_check_ends_when_its_client_leaves() {
    assert!(leaves("/rest/c/scan/fcr:fixity", ("accept", "text/turtle")).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_for_a_digest_ends_when_its_client_leaves() {
    assert!(leaves("/rest/c/scan", ("want-digest", "md5")).await > 0);
}

/// How often the update below was asked how much memory it holds: at its start, before its
/// operation, and after each 4,096 units of work of a microsecond at most
/// (`rdf/src/update/meter.rs`).
static ASKED: AtomicUsize = AtomicUsize::new(0);

fn held() -> i64 {
    ASKED.fetch_add(1, Ordering::SeqCst);
    0
}

/// An update that is cancelled ends at its next unit of work, as the tests of the crate `rdf` show.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_ends_when_its_client_leaves() {
    let settings = LdpSettings { held: Some(held), ..LdpSettings::default() };
    let fixture = fixture_of(settings, LibraryOptions { processors: 1, ..LibraryOptions::default() }).await;
    let statements: String = (0..980).map(|n| format!("<#{n}> <http://a/p> {n} . ")).collect();
    assert_eq!(fixture.put("/rest/a", &statements).answer().await.status, StatusCode::CREATED);
    let before = fixture.get("/rest/a").await.etag();
    let patch = |update: &'static str| {
        let ask = fixture.ask(Method::PATCH, "/rest/a").header("content-type", "application/sparql-update");
        ask.body(update)
    };
    // A million solutions, which take hundreds of these questions, and one new statement, which is
    // there if nobody stops the update.
    let costly = "INSERT { <> <u:q> <u:o> } WHERE { ?a <http://a/p> ?x . ?b <http://a/p> ?y }";
    let memory = &fixture.library.memory;
    let deadline = Instant::now() + PATIENCE;
    let mut answer = Box::pin(patch(costly).response());
    while ASKED.load(Ordering::SeqCst) < 3 {
        assert!(Instant::now() < deadline, "it never began");
        tokio::select! {
            biased;
            response = &mut answer => panic!("it was not stopped: {response:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    drop(answer);
    let asked_before = ASKED.load(Ordering::SeqCst);
    while memory.taken_bytes() > 0 {
        assert!(Instant::now() < deadline, "it still runs");
        tokio::task::yield_now().await;
    }
    // One question may have been about to be asked. So it worked for some milliseconds at most.
    let asked = ASKED.load(Ordering::SeqCst) - asked_before;
    assert!(asked <= 1, "it goes on without its client: it was asked {asked} more times");
    assert_eq!(fixture.get("/rest/a").await.etag(), before, "it changed something");
    let next = tokio::time::timeout(PATIENCE, patch("INSERT DATA { <> <u:q> <u:o> }").answer()).await;
    assert_eq!(next.expect("its turn is not free").status, StatusCode::NO_CONTENT);
}

/// Parsing itself ends at its next statement, as a test of the crate `rdf` shows.
#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_parsed_no_further_once_its_client_has_left() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    // So long that it is not parsed where it was received.
    let statements: String = (0..1_000).map(|n| format!("<#{n}> <http://a/p> {n} . ")).collect();
    for (method, path) in [(Method::PUT, "/rest/c/new"), (Method::POST, "/rest/c")] {
        // The body arrives, and its client has left by then.
        let (asked_for, is_asked_for) = oneshot::channel();
        let (send, sent) = oneshot::channel::<String>();
        let body = stream::once(async move {
            asked_for.send(()).unwrap();
            Ok::<_, Infallible>(Bytes::from(sent.await.unwrap()))
        });
        let ask = fixture.ask(method, path).header("content-type", TURTLE).body(Body::from_stream(body));
        let mut answer = Box::pin(ask.response());
        tokio::select! {
            response = &mut answer => panic!("it has an answer before its body: {response:?}"),
            asked_for = is_asked_for => asked_for.unwrap(),
        }
        drop(answer);
        send.send(statements.clone()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while fixture.library.memory.taken_bytes() > 0 {
            assert!(Instant::now() < deadline, "it still holds something");
            tokio::task::yield_now().await;
        }
    }
    let contained = fixture.get("/rest/c").await.objects(&format!("{ROOT}c"), "contains");
    assert_eq!(contained, Vec::<String>::new(), "it goes on without its client");
}
