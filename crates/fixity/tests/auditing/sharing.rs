//! Several servers share a pass, and finish what a dead one has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fixity::{Auditor, FixityOptions, Step};
use heads::{LibraryOptions, keys};
use library::Library;
use store::{Call, Row, Store, StoreResult, Table, Wrapper};
use store_embedded::EmbeddedOptions;
use tokio::sync::Notify;

use crate::support::{Fixture, LAPSED, all_steps, fixture, fixture_alone, quick};

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that takes objects and dies before it has read the first of them: it reads a byte per
/// second.
async fn die_reading(fixture: &Fixture) {
    if fixture.server(quick()).await.status().await.unwrap().present.is_none() {
        assert_eq!(fixture.server(quick()).await.step().await.unwrap(), Step::Moved, "a pass begins");
    }
    let before = fixture.pass_row().await;
    let slow = FixityOptions { bytes_per_second: 1, ..quick() };
    let server = fixture.server(slow).await;
    let reading = tokio::spawn({
        let server = server.clone();
        async move { while server.step().await.unwrap() == Step::Moved {} }
    });
    let deadline = Instant::now() + PATIENCE;
    // Before the pass has moved on, the objects are not taken: they would be read twice.
    while fixture.pass_row().await == before {
        assert!(Instant::now() < deadline && !reading.is_finished(), "it takes nothing");
        tokio::task::yield_now().await;
    }
    reading.abort();
    assert!(reading.await.unwrap_err().is_cancelled());
}

async fn complete(server: &Arc<Auditor>) -> u64 {
    server.status().await.unwrap().complete.expect("the pass has ended").found.resources
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_read_everything_and_nothing_twice() {
    let fixture = fixture().await;
    fixture.make(60).await;
    let servers = [fixture.server(quick()).await, fixture.server(quick()).await];
    let [one, other] = servers.clone().map(|server| {
        tokio::spawn(async move {
            let deadline = Instant::now() + PATIENCE;
            // Until the other one has finished what it took, too.
            while matches!(all_steps(&server).await, Step::OthersRead) {
                assert!(Instant::now() < deadline, "the other server does not finish");
                tokio::task::yield_now().await;
            }
        })
    });
    one.await.unwrap();
    other.await.unwrap();
    let read = servers.each_ref().map(|server| server.read_here().resources);
    assert_eq!(read.iter().sum::<u64>(), 61, "{read:?}");
    assert_eq!(complete(&servers[0]).await, 61);
}

/// A store that reads the rows of one call one after the other, the first one last. The first time,
/// the row `late` is read only when that is allowed.
struct OneByOne {
    inner: Arc<dyn Store>,
    late: Bytes,
    was_late: AtomicBool,
    waits: Notify,
    is_allowed: Notify,
}

impl Wrapper for OneByOne {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        let mut rows = Vec::new();
        for (partition, sort) in keys.iter().rev() {
            let is_late = *partition == keys::fixity_state() && *sort == self.late;
            if is_late && !self.was_late.swap(true, Ordering::SeqCst) {
                self.waits.notify_one();
                self.is_allowed.notified().await;
            }
            rows.push(self.inner.get(call, table, partition, sort).await?);
        }
        rows.reverse();
        Ok(rows)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_waits_for_what_another_server_takes_while_its_rows_are_read() {
    for late in [keys::fixity_pass(), keys::fixity_reader(0)] {
        let fixture = fixture().await;
        fixture.make(3).await;
        assert_eq!(fixture.server(quick()).await.step().await.unwrap(), Step::Moved, "a pass begins");
        let (was_late, waits, is_allowed) = Default::default();
        let store = Arc::new(OneByOne { inner: fixture.store.clone(), late, was_late, waits, is_allowed });
        let library = Library::open(store.clone(), fixture.clock.clone(), LibraryOptions::default()).await.unwrap();
        let server = Auditor::new(library, quick());
        let reading = tokio::spawn({
            let server = server.clone();
            async move { all_steps(&server).await }
        });
        store.waits.notified().await;
        // It takes all objects.
        die_reading(&fixture).await;
        store.is_allowed.notify_one();
        assert_eq!(reading.await.unwrap(), Step::OthersRead);
        fixture.clock.advance(LAPSED);
        assert!(matches!(all_steps(&server).await, Step::Rests { .. }));
        assert_eq!(complete(&server).await, 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_server_has_taken_is_read_by_another_once_its_lease_has_ended() {
    let fixture = fixture().await;
    fixture.make(20).await;
    die_reading(&fixture).await;
    let server = fixture.server(quick()).await;
    assert_eq!(all_steps(&server).await, Step::OthersRead);
    assert!(server.read_here().resources < 21, "the dead server has taken some");
    fixture.clock.advance(LAPSED);
    assert!(matches!(all_steps(&server).await, Step::Rests { .. }));
    assert_eq!((server.read_here().resources, complete(&server).await), (21, 21));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_alone_continues_at_once_where_it_was() {
    let fixture = fixture_alone(EmbeddedOptions::default()).await;
    fixture.make(20).await;
    let server = fixture.server(quick()).await;
    while server.read_here().resources == 0 {
        server.step().await.unwrap();
    }
    let before = server.read_here().resources;
    die_reading(&fixture).await;
    let restarted = fixture.server(quick()).await;
    assert!(matches!(all_steps(&restarted).await, Step::Rests { .. }));
    assert_eq!(before + restarted.read_here().resources, 21, "what was read before is read again");
    assert_eq!(complete(&restarted).await, 21);
}
