//! Clients that leave while a long list is read and planned, or a volume imported: nothing goes on.
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::support::{SALMON, empty, volume, with_samples};
use door_data::DataSettings;
use futures::FutureExt;
use http::{Method, StatusCode, header};
use store::faults::{Fault, Kind, Rates};
use volumes::{ImportProgress, Unchanged};

/// Bounds every wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Every call takes as good as for ever.
const STUCK: Rates = Rates {
    delay: 1.0,
    max_delay: Duration::from_secs(1 << 40),
    unavailable: 0.0,
    unknown_applied: 0.0,
    unknown_not_applied: 0.0,
};

/// The heads of 3,001 volumes are read at six times. The client leaves at each of them.
#[tokio::test(flavor = "multi_thread")]
async fn planning_a_long_list_ends_when_its_client_leaves_and_its_memory_comes_back() {
    let settings = DataSettings { post_selection: false, ..DataSettings::default() };
    let fixture = with_samples(settings, &[SALMON]).await;
    let (faults, memory) = (&fixture.faults, &fixture.library.memory);
    let list = (0..3_000).map(|n| format!("t.{n}\n")).collect::<String>() + SALMON;
    for reads in 0..6 {
        (0..reads).for_each(|_| faults.next(Kind::Read, Fault::Delay(Duration::ZERO)));
        faults.set_rates(1, STUCK);
        let deadline = Instant::now() + PATIENCE;
        let asked = fixture.ask(Method::POST, "/volumes").header(header::CONTENT_TYPE, "text/plain");
        let mut answer = Box::pin(asked.body(list.clone()).sent());
        while faults.delayed() == 0 || faults.is_scripted() {
            assert!((&mut answer).now_or_never().is_none(), "after {reads} reads there is an answer");
            assert!(Instant::now() < deadline, "after {reads} reads nothing happens");
            // A read that is let through waits for no time, and does not hold up the request.
            tokio::task::yield_now().await;
        }
        assert!(memory.taken_bytes() > 0, "a list has its share of the memory");
        drop(answer);
        faults.set_rates(1, Rates::default());
        while faults.delayed() > 0 || memory.taken_bytes() > 0 {
            assert!(Instant::now() < deadline, "after {reads} reads it goes on without its client");
            tokio::task::yield_now().await;
        }
    }
    // Its turns have come back too.
    let whole = fixture.ask(Method::POST, "/volumes").header(header::CONTENT_TYPE, "text/plain").body(list);
    assert_eq!(whole.answer().await.status, StatusCode::OK);
}

/// A volume is read page by page on a thread of its own. The client leaves at the first page.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_ends_at_the_next_page_when_its_client_leaves() {
    let fixture = empty(DataSettings::default()).await;
    let (read, pages) = mpsc::channel();
    let (go, may_go_on) = mpsc::channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let progress = move |progress: ImportProgress| {
        read.send(progress.pages).unwrap();
        may_go_on.lock().unwrap().recv_timeout(PATIENCE).unwrap();
    };
    let source = volume("t.a", &["one", "two", "three"]);
    let mut import = Box::pin(fixture.library.volumes.import(source, Unchanged::Skip, progress));
    let deadline = Instant::now() + PATIENCE;
    while pages.try_recv() != Ok(1) {
        assert!((&mut import).now_or_never().is_none(), "it ends before its second page");
        assert!(Instant::now() < deadline, "it does not begin");
        tokio::task::yield_now().await;
    }
    drop(import);
    go.send(()).unwrap();
    // The thread drops its sender when it ends.
    assert_eq!(pages.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected), "a page was read for nobody");
    assert_eq!(fixture.get("/volumes/t.a").await.status, StatusCode::NOT_FOUND);
}
