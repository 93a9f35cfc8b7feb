//! Many requests at once: a stalled client delays no other, and memory stays bounded.

use std::time::Duration;

use audit::Requester;
use budget::Party;
use futures::StreamExt;
use hathi::Seq;
use heads::LibraryOptions;
use pack::{Layout, Level};
use volumes::{OnDamage, SelectionTerms, TokenLevel, TokenOrder, TokenRequest, Tokenization};

use super::bench::{bench_with, read, request, somebody, until, whole_volumes};
use crate::support::START;

#[tokio::test(flavor = "multi_thread")]
async fn a_single_page_and_a_fast_reader_are_answered_while_many_clients_stall() {
    const CLIENTS: usize = 60;
    const READ_AHEAD_BYTES: usize = 4 << 20;
    let options = LibraryOptions { read_ahead_bytes: READ_AHEAD_BYTES, ..LibraryOptions::default() };
    let bench = bench_with(options).await;
    let ids = bench.add_samples(400).await;
    let plan = bench.plan(&request(whole_volumes(&ids), Layout::Pages, Level::Frames, false)).await;
    let whole = bench.whole(&plan).await;
    assert!(whole.len() * CLIENTS > 4 * READ_AHEAD_BYTES, "there is more to hold than may be held");
    // Compressed archives are made ahead of their clients; unchanged frames are made when the
    // client takes them.
    let compressed = bench.plan(&request(whole_volumes(&ids), Layout::Pages, Level::Recompressed(1), false)).await;
    let mut stalled = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = bench.library.volumes.stream(&compressed, pack::WHOLE, somebody()).await.unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        stalled.push(stream);
    }

    let page = bench.library.volumes.page(&ids[0], Seq::new(1).unwrap()).await.unwrap();
    bench.library.audit.auditor().page(&somebody(), &ids[0], Seq::new(1).unwrap()).await.unwrap();
    page.text().unwrap();
    assert!(bench.whole(&plan).await == whole, "a reader that takes what it gets is not held up");

    assert_eq!(bench.library.volumes.streaming(), CLIENTS);

    let (rest, error) = read(stalled.pop().unwrap()).await;
    assert!(error.is_none() && rest.len() > whole.len() / 2, "who wakes up gets the rest");
    drop(stalled);
    assert_eq!(bench.library.volumes.streaming(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_stops_the_work_for_it() {
    let options = LibraryOptions { read_ahead_bytes: 0, ..LibraryOptions::default() };
    let bench = bench_with(options).await;
    let ids = bench.add_samples(1_000).await;
    let plan = bench.plan(&request(whole_volumes(&ids), Layout::Pages, Level::Frames, false)).await;
    let mut stream = bench.library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    assert_eq!(bench.library.volumes.streaming(), 0);
    until(|| async { std::sync::Arc::strong_count(&plan.archive) == 1 }).await;
    assert!(bench.accessed().await.len() < ids.len(), "most of it was never begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bulk_request_too_many_is_told_to_come_again() {
    let options = LibraryOptions { bulk_requests_max: 2, ..LibraryOptions::default() };
    let bench = bench_with(options).await;
    let a = bench.add("t.a", &["one"]).await;
    let plan = bench.plan(&request(whole_volumes(&[a]), Layout::Pages, Level::Frames, false)).await;
    let open = async || bench.library.volumes.stream(&plan, pack::WHOLE, Requester::default()).await;
    let first = open().await.unwrap();
    let _second = open().await.unwrap();
    assert!(open().await.unwrap_err().is_passing());
    drop(first);
    assert!(open().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn archives_that_one_address_never_reads_leave_places_for_others() {
    let options = LibraryOptions { bulk_requests_max: 256, ..LibraryOptions::default() };
    let bench = bench_with(options).await;
    let a = bench.add("t.a", &["one"]).await;
    let plan = bench.plan(&request(whole_volumes(&[a]), Layout::Pages, Level::Frames, false)).await;
    let open = async |address: &str| {
        let requester = Requester { address: Some(address.parse().unwrap()), ..Requester::default() };
        bench.library.volumes.stream(&plan, pack::WHOLE, requester).await
    };
    let mut never_read = Vec::new();
    // One machine may have all addresses of a network.
    for number in 0..256 {
        never_read.extend(open(&format!("2001:db8::{number:x}")).await.ok());
    }
    assert_eq!(never_read.len(), 128, "a network has no more than it leaves free");
    for number in 1..20 {
        let (archive, error) = read(open(&format!("192.0.2.{number}")).await.unwrap()).await;
        assert!(error.is_none() && archive.starts_with(b"PK"));
    }
    let named = bench.library.volumes.stream(&plan, pack::WHOLE, somebody()).await;
    assert!(named.is_ok(), "who shows a token shares with nobody");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_take_of_the_memory_for_all_and_give_it_back() {
    let bench = bench_with(LibraryOptions { memory_bytes: 64 << 10, ..LibraryOptions::default() }).await;
    let a = bench.add("t.a", &["one"]).await;
    let small = bench.plan(&request(whole_volumes(&[a]), Layout::Pages, Level::Frames, false)).await;
    let taken = bench.library.memory.taken_bytes();
    assert!((100..1_000).contains(&taken), "{taken}");
    let absent: Vec<_> = (0..1_000).map(|number| format!("t.absent{number}").parse().unwrap()).collect();
    let large = request(whole_volumes(&absent), Layout::Pages, Level::Frames, false);
    assert!(bench.library.volumes.plan(&large, OnDamage::Break).await.unwrap_err().is_passing());
    drop(small);
    assert_eq!(bench.library.memory.taken_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_may_run_on_any_thread() {
    let bench = bench_with(LibraryOptions::default()).await;
    let a = bench.add("t.a", &["one two"]).await;
    let library = bench.library.clone();
    // Half of the test is that this compiles: doors spawn such work.
    let done = tokio::spawn(async move {
        let wanted = request(whole_volumes(std::slice::from_ref(&a)), Layout::Pages, Level::Frames, false);
        let plan = library.volumes.plan(&wanted, OnDamage::Break).await.unwrap();
        let (whole, _) = read(library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap()).await;
        let selection = library.volumes.select(&wanted, &somebody(), SelectionTerms::default()).await.unwrap();
        let selected = library.volumes.selection(&selection.info.id, &Party::Local).await.unwrap();
        let (again, _) = read(library.volumes.stream(&selected, pack::WHOLE, somebody()).await.unwrap()).await;
        assert!(whole == again);
        library.volumes.delete_selection(&selection.info.id).await.unwrap();
        library.volumes.sweep_selections().await.unwrap();
        library.audit.top(START, START.plus(Duration::from_secs(1)), 1).await.unwrap();
        let counts = TokenRequest {
            volumes: vec![a],
            level: TokenLevel::Page,
            order: TokenOrder::default(),
            tokenization: Tokenization::default(),
            rows: None,
            as_of: None,
        };
        read(library.volumes.token_counts(counts, somebody()).await.unwrap()).await.1
    });
    assert!(done.await.unwrap().is_none());
}
