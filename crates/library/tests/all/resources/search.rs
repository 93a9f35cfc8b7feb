//! The search index: it finds what a scan of everything finds, whatever happens to its writer.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use heads::ResourcePath;
use library::Library;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use repository::{Kind as StoredKind, NewKind, NewResource};
use search::keys::{List, list_of_partition};
use search::{
    Comparison, Condition, Document, Facet, Field, Found, Glob, Indexer, Limits, Pacing, Query, SearchError, Shape,
    Turn,
};
use store::{Call, ManualClock, Outcome, Rows, Scan, Step, Store, StoreError, StoreResult, Table, Wrapper};

use super::tree::{beyond_the_horizon, container, create, delete, path, reachable, update};
use crate::support::memory::Fault;
use crate::support::{Fixture, faulty, fixture, lone_fixture, on_cassandra};

/// The types of a description in these tests: its words.
fn words(_: &ResourcePath, description: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(description).into_owned();
    text.split_whitespace().filter(|word| word.starts_with("urn:")).map(str::to_owned).collect()
}

fn indexer(library: &Library) -> Indexer {
    let Library { repository, feed, search, .. } = library.clone();
    search.indexer(repository, feed, words, Pacing { save_every: Duration::ZERO, ..Pacing::default() })
}

/// Lets an indexer do all that there is to do.
async fn catch_up(indexer: &mut Indexer, library: &Library, clock: &ManualClock) {
    if library.store().capabilities().is_shared {
        beyond_the_horizon(library, clock);
    }
    assert_eq!(indexer.catch_up().await.unwrap(), Turn::Idle);
}

const NO_LIMITS: Limits = Limits { rows: usize::MAX, time: Duration::MAX };

async fn find(library: &Library, query: &Query) -> Found {
    library.search.find(query, NO_LIMITS, None).await.unwrap()
}

fn ids(found: &Found) -> Vec<String> {
    let id = |facet| if facet == Facet::Description { "/fcr:metadata" } else { "" };
    found.hits.iter().map(|hit| format!("{}{}", hit.path, id(hit.facet))).collect()
}

fn by(conditions: Vec<Condition>) -> Query {
    Query { conditions, ..Query::all(100) }
}

fn below(id: &str) -> Query {
    by(vec![Condition::Id(Glob::parse(id))])
}

async fn binary(library: &Library, at: &str, bytes: &'static [u8], media_type: &str) {
    let source = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(bytes))]);
    let mut uploaded = library.repository.upload(&path(at), source, &[]).await.unwrap();
    uploaded.media_type = media_type.to_owned();
    let new = NewResource { kind: NewKind::Binary(uploaded), ..container() };
    library.repository.create(&path(at), &new).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_created_changed_and_deleted_is_found_as_it_is_now() {
    let fixture = fixture().await;
    let library = &fixture.library;
    let mut indexer = indexer(library);
    let none = library.search.find(&Query::all(1), NO_LIMITS, None).await;
    assert!(matches!(none, Err(SearchError::None)), "{none:?}");
    library.repository.create(&path("c"), &container()).await.unwrap();
    create(library, "c/a", "urn:one").await.unwrap();
    catch_up(&mut indexer, library, &fixture.clock).await;
    binary(library, "c/b", b"four", "text/plain").await;
    create(library, "cc", "urn:one").await.unwrap();
    catch_up(&mut indexer, library, &fixture.clock).await;

    let of_type = |iri: &str| Condition::Type(Glob::parse(iri));
    assert_eq!(ids(&find(library, &Query::all(100)).await), ["c", "c/a", "c/b", "c/b/fcr:metadata", "cc"]);
    assert_eq!(ids(&find(library, &below("c/*")).await), ["c/a", "c/b", "c/b/fcr:metadata"]);
    assert_eq!(ids(&find(library, &below("c/b/*")).await), ["c/b/fcr:metadata"]);
    assert_eq!(ids(&find(library, &by(vec![of_type("urn:one")])).await), ["c/a", "cc"]);
    let narrow = by(vec![of_type("urn:one"), Condition::Id(Glob::parse("c/*"))]);
    assert_eq!(ids(&find(library, &narrow).await), ["c/a"]);

    update(library, "c/a", "urn:two").await.unwrap();
    delete(library, "cc").await.unwrap();
    catch_up(&mut indexer, library, &fixture.clock).await;
    assert!(ids(&find(library, &by(vec![of_type("urn:one")])).await).is_empty());
    assert_eq!(ids(&find(library, &by(vec![of_type("urn:two")])).await), ["c/a"]);

    // Another resource of the same name is another one.
    library.repository.remove_tombstone(&path("cc")).await.unwrap();
    binary(library, "cc", b"four", "text/plain").await;
    delete(library, "c").await.unwrap();
    catch_up(&mut indexer, library, &fixture.clock).await;
    assert_eq!(ids(&find(library, &Query::all(100)).await), ["cc", "cc/fcr:metadata"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_may_be_read_is_found_and_counted() {
    let fixture = fixture().await;
    let library = &fixture.library;
    for at in ["a", "b", "c"] {
        create(library, at, "urn:t").await.unwrap();
    }
    catch_up(&mut indexer(library), library, &fixture.clock).await;
    let query = Query { counts: true, max: 1, ..Query::all(1) };
    let found = library.search.find(&query, NO_LIMITS, Some(&[path("b"), path("c")])).await.unwrap();
    assert_eq!((ids(&found), found.total), (vec!["b".to_owned()], Some(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_would_read_everything_ends_at_its_limits_and_goes_on_from_there() {
    let fixture = fixture().await;
    let library = &fixture.library;
    for n in 0..40 {
        create(library, &format!("r{n:02}"), "urn:t").await.unwrap();
    }
    catch_up(&mut indexer(library), library, &fixture.clock).await;
    let limits = Limits { rows: 1, time: Duration::MAX };
    let mut query = Query { max: 2, ..by(vec![Condition::Id(Glob::parse("*39"))]) };
    let (mut seen, mut steps) = (Vec::new(), 0);
    loop {
        let found = library.search.find(&query, limits, None).await.unwrap();
        seen.extend(ids(&found));
        steps += 1;
        let Some(next) = found.next else { break };
        assert!(found.is_cut);
        query.after = Some(next);
    }
    assert_eq!(seen, ["r39"]);
    assert!(steps > 1, "{steps}");
    // What is left out at the beginning is left out once, however often the search is cut.
    let mut query = Query { max: 2, offset: 30, ..Query::all(2) };
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let found = library.search.find(&query, limits, None).await.unwrap();
        seen.extend(ids(&found));
        (query.after, query.offset) = (found.next, found.offset_left);
    }
    assert_eq!(seen, ["r30", "r31", "r32", "r33"]);
}

/// All pages of a search, and how many there were.
async fn pages(library: &Library, query: &Query, limits: Limits) -> (Vec<String>, usize) {
    let (mut query, mut seen, mut pages) = (query.clone(), Vec::new(), 0);
    loop {
        let found = library.search.find(&query, limits, None).await.unwrap();
        seen.extend(ids(&found));
        pages += 1;
        let Some(next) = found.next else { return (seen, pages) };
        assert!(query.after.as_ref() != Some(&next), "it gets no further than {next:?}");
        query.after = Some(next);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_of_deleted_resources_count_for_the_limits_too() {
    let fixture = fixture().await;
    let library = &fixture.library;
    let many = if on_cassandra() { 50 } else { 600 };
    let mut indexer = indexer(library);
    // Long names, so that they need several pages.
    for n in 0..many {
        let deleted = format!("deleted-{}-{n}", "x".repeat(200));
        create(library, &deleted, "urn:t").await.unwrap();
        delete(library, &deleted).await.unwrap();
    }
    create(library, "last", "urn:t").await.unwrap();
    catch_up(&mut indexer, library, &fixture.clock).await;
    let limits = Limits { rows: 1, time: Duration::MAX };
    for is_descending in [false, true] {
        let query = Query { is_descending, max: 5, ..Query::all(5) };
        let (seen, pages) = pages(library, &query, limits).await;
        assert_eq!(seen, ["last"]);
        assert!(on_cassandra() || pages > 1, "all of them were read at once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_in_the_order_of_paths_have_each_result_once_while_others_change() {
    let fixture = fixture().await;
    let library = &fixture.library;
    let mut indexer = indexer(library);
    for n in 0..12 {
        create(library, &format!("r{n:02}"), "urn:t").await.unwrap();
    }
    catch_up(&mut indexer, library, &fixture.clock).await;
    for order_by in [Field::Path, Field::Created] {
        let mut query = Query { order_by: Some(order_by), max: 2, ..Query::all(2) };
        let (mut seen, mut step) = (Vec::new(), 0);
        loop {
            let found = find(library, &query).await;
            seen.extend(ids(&found));
            let Some(next) = found.next else { break };
            query.after = Some(next);
            update(library, &format!("r{:02}", (7 * step) % 12), &format!("urn:t urn:{step}")).await.unwrap();
            step += 1;
            catch_up(&mut indexer, library, &fixture.clock).await;
        }
        assert_eq!(seen, (0..12).map(|n| format!("r{n:02}")).collect::<Vec<_>>(), "{order_by:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_index_is_behind_its_lag_says_so() {
    let fixture = lone_fixture().await;
    let library = &fixture.library;
    create(library, "a", "urn:t").await.unwrap();
    let mut indexer = indexer(library);
    catch_up(&mut indexer, library, &fixture.clock).await;
    let measures = indexer.measures();
    let behind = library.store().capabilities().is_shared;
    assert!(behind || measures.lock().lag == Duration::ZERO);
    // More than one page of the feed, an hour ago.
    for n in 0..600 {
        create(library, &format!("b{n}"), "urn:t").await.unwrap();
        if on_cassandra() && n == 2 {
            break;
        }
    }
    fixture.clock.advance(Duration::from_secs(3_600));
    if !behind {
        library.search.rebuild().await.unwrap();
        indexer.turn().await.unwrap();
        let lag = measures.lock().lag;
        assert!(lag >= Duration::from_secs(3_600), "{lag:?}");
    }
    assert_eq!(indexer.catch_up().await.unwrap(), Turn::Idle);
    let lag = measures.lock().lag;
    assert!(lag < Duration::from_secs(if behind { 600 } else { 1 }), "{lag:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_was_to_be_made_anew_while_the_feed_dropped_changes_says_that_they_are_missing() {
    let fixture = lone_fixture().await;
    let library = &fixture.library;
    create(library, "a", "urn:t").await.unwrap();
    catch_up(&mut indexer(library), library, &fixture.clock).await;
    library.search.rebuild().await.unwrap();
    create(library, "missed", "urn:t").await.unwrap();
    fixture.clock.advance(library.options().feed_keep * 2);
    while library.feed.drop_old().await.unwrap() > 0 {}
    create(library, "b", "urn:t").await.unwrap();
    beyond_the_horizon(library, &fixture.clock);
    let mut again = indexer(library);
    again.turn().await.unwrap();
    assert!(!find(library, &Query::all(9)).await.is_complete);
    catch_up(&mut again, library, &fixture.clock).await;
    assert_eq!(ids(&find(library, &Query::all(9)).await), ["a", "b", "missed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_no_server_of_several_follows_does_not_count_as_complete() {
    let fixture = lone_fixture().await;
    let library = &fixture.library;
    create(library, "a", "urn:t").await.unwrap();
    catch_up(&mut indexer(library), library, &fixture.clock).await;
    assert!(find(library, &Query::all(9)).await.is_complete);
    fixture.clock.advance(Duration::from_secs(3_600));
    let is_shared = library.store().capabilities().is_shared;
    assert_eq!(find(library, &Query::all(9)).await.is_complete, !is_shared);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_is_made_anew_while_the_present_one_answers() {
    let fixture = lone_fixture().await;
    let library = &fixture.library;
    create(library, "a", "urn:t").await.unwrap();
    let mut first = indexer(library);
    catch_up(&mut first, library, &fixture.clock).await;
    assert!(library.search.status().await.unwrap().is_complete);
    library.search.rebuild().await.unwrap();
    create(library, "b", "urn:t").await.unwrap();
    if library.store().capabilities().is_shared {
        beyond_the_horizon(library, &fixture.clock);
    }
    // The first turn begins to build.
    first.turn().await.unwrap();
    let status = library.search.status().await.unwrap();
    assert!(status.is_complete, "{status:?}");
    assert!(find(library, &Query::all(9)).await.is_complete);
    catch_up(&mut first, library, &fixture.clock).await;
    let status = library.search.status().await.unwrap();
    assert_eq!((status.building, status.resources), (None, 2));
    assert_eq!(ids(&find(library, &Query::all(9)).await), ["a", "b"]);
    // A search that began before, and takes as long as it may, reads the one that was replaced.
    fixture.clock.advance(search::TIME_MAX);
    assert_eq!(first.catch_up().await.unwrap(), Turn::Idle);
    assert_eq!(generations(library).await.len(), 2);
    // It is deleted later, and nothing is missing then.
    fixture.clock.advance(Duration::from_secs(3_600));
    catch_up(&mut first, library, &fixture.clock).await;
    assert_eq!(ids(&find(library, &Query::all(9)).await), ["a", "b"]);
    assert_eq!(generations(library).await.len(), 1);
}

/// A store that counts how often the state of the index is written, and of how many paths all
/// documents are looked for. Its partitions can become unreadable.
struct Watched {
    inner: Arc<dyn Store>,
    saved: AtomicU64,
    looked_for: AtomicU64,
    unreadable: Mutex<Vec<Bytes>>,
    refused: AtomicU64,
}

impl Watched {
    /// A library over the store of another one.
    async fn over(fixture: &Fixture) -> (Arc<Self>, Library) {
        let (saved, looked_for, unreadable, refused) = Default::default();
        let store = Arc::new(Self { inner: fixture.store.clone(), saved, looked_for, unreadable, refused });
        let options = fixture.library.options().clone();
        let library = Library::open(store.clone(), fixture.clock.clone(), options).await.unwrap();
        (store, library)
    }

    fn saved(&self) -> u64 {
        self.saved.swap(0, Ordering::Relaxed)
    }

    fn looked_for(&self) -> u64 {
        self.looked_for.swap(0, Ordering::Relaxed)
    }

    fn refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }
}

impl Wrapper for Watched {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        if self.unreadable.lock().contains(partition) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(StoreError::Corrupt { table, detail: "it was made unreadable".to_owned() });
        }
        self.inner.scan(call, table, partition, scan).await
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        let is_of_documents = |partition: &Bytes| list_of_partition(partition) == Some(List::Documents);
        let of_documents = scans.iter().filter(|(_, partition, _)| is_of_documents(partition)).count();
        self.looked_for.fetch_add(of_documents as u64, Ordering::Relaxed);
        self.inner.scan_many(call, scans).await
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        let is_state = |step: &Step| *step.partition() == search::keys::state_partition();
        self.saved.fetch_add(u64::from(steps.iter().any(is_state)), Ordering::Relaxed);
        self.inner.run(call, steps).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_found_while_an_index_that_was_replaced_cannot_be_deleted() {
    if on_cassandra() {
        // What the indexer does about an error is the same over each engine.
        return;
    }
    let fixture = fixture().await;
    let (store, library) = Watched::over(&fixture).await;
    let library = &library;
    create(library, "a", "urn:t").await.unwrap();
    let mut indexer = indexer(library);
    catch_up(&mut indexer, library, &fixture.clock).await;
    let replaced = partitions(library).await;
    library.search.rebuild().await.unwrap();
    catch_up(&mut indexer, library, &fixture.clock).await;
    *store.unreadable.lock() = replaced;

    fixture.clock.advance(Duration::from_secs(3_600));
    create(library, "b", "urn:t").await.unwrap();
    catch_up(&mut indexer, library, &fixture.clock).await;
    let found = find(library, &Query::all(9)).await;
    assert_eq!((ids(&found), found.is_complete), (vec!["a".to_owned(), "b".to_owned()], true));
    assert_eq!(store.refused(), 1);
    catch_up(&mut indexer, library, &fixture.clock).await;
    assert_eq!(store.refused(), 0, "it is not tried at each turn");
    fixture.clock.advance(Duration::from_secs(900));
    catch_up(&mut indexer, library, &fixture.clock).await;
    assert_eq!(store.refused(), 1);
    store.unreadable.lock().clear();
    fixture.clock.advance(Duration::from_secs(900));
    catch_up(&mut indexer, library, &fixture.clock).await;
    assert_eq!(generations(library).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_saved_at_once_after_a_change_and_seldom_without_one() {
    if on_cassandra() {
        // Servers that share a store renew their leases too.
        return;
    }
    let fixture = fixture().await;
    let (store, library) = Watched::over(&fixture).await;
    let mut indexer = indexer(&library);
    create(&library, "a", "urn:t").await.unwrap();
    catch_up(&mut indexer, &library, &fixture.clock).await;
    store.saved();
    // Once its last event is older than any change that may still come, a cursor moves with the clock.
    fixture.clock.advance(Duration::from_secs(3_600));
    catch_up(&mut indexer, &library, &fixture.clock).await;
    assert_eq!(store.saved(), 1);
    for second in 1..=10 {
        fixture.clock.advance(Duration::from_secs(1));
        catch_up(&mut indexer, &library, &fixture.clock).await;
        assert_eq!(store.saved(), 0, "second {second}");
    }
    fixture.clock.advance(Duration::from_secs(20));
    catch_up(&mut indexer, &library, &fixture.clock).await;
    assert_eq!(store.saved(), 1);
    create(&library, "b", "urn:t").await.unwrap();
    catch_up(&mut indexer, &library, &fixture.clock).await;
    assert_eq!(store.saved(), 1);
}

/// The paths of all documents in the index, sorted.
async fn documents(library: &Library) -> Vec<String> {
    let mut found = Vec::new();
    for partition in partitions(library).await {
        if list_of_partition(&partition) == Some(List::Documents) {
            let call = library.heads.call(store::Class::Description);
            let scan = Scan::prefix(Bytes::new(), 1 << 20);
            let rows = library.store().scan(call, Table::Work, &partition, scan).await.unwrap().rows;
            found.extend(rows.iter().map(|row| search::keys::document_of(&row.sort).unwrap().0.to_string()));
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_documents_of_a_resource_are_looked_for_unless_it_is_the_first_at_its_path() {
    if on_cassandra() {
        // Which documents the indexer looks for is the same over each engine.
        return;
    }
    let fixture = fixture().await;
    let (store, library) = Watched::over(&fixture).await;
    let library = &library;
    create(library, "a", "urn:one").await.unwrap();
    let mut first = indexer(library);
    catch_up(&mut first, library, &fixture.clock).await;
    store.looked_for();

    create(library, "b", "urn:one").await.unwrap();
    binary(library, "c", b"four", "text/plain").await;
    catch_up(&mut first, library, &fixture.clock).await;
    assert_eq!(store.looked_for(), 0, "there can be none");
    update(library, "b", "urn:two").await.unwrap();
    catch_up(&mut first, library, &fixture.clock).await;
    assert_eq!(store.looked_for(), 1);
    delete(library, "b").await.unwrap();
    catch_up(&mut first, library, &fixture.clock).await;
    assert_eq!(store.looked_for(), 1);
    // The next resource of the same name is not the first one.
    library.repository.remove_tombstone(&path("b")).await.unwrap();
    create(library, "b", "urn:three").await.unwrap();
    catch_up(&mut first, library, &fixture.clock).await;
    assert_eq!(store.looked_for(), 1);
    assert_eq!(documents(library).await, ["a", "b", "c"], "one of each path");
    assert_eq!(library.search.status().await.unwrap().resources, 3);
    let of_type = |iri: &str| by(vec![Condition::Type(Glob::parse(iri))]);
    assert_eq!(ids(&find(library, &of_type("urn:three")).await), ["b"]);
    assert!(ids(&find(library, &of_type("urn:two")).await).is_empty());
}

/// The partitions of lists.
async fn partitions(library: &Library) -> Vec<Bytes> {
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let call = library.heads.call(store::Class::Description);
        let page = library.store().walk(call, Table::Work, from, 1_000).await.unwrap();
        found.extend(page.partitions.into_iter().filter(|key| list_of_partition(key).is_some()));
        from = page.next;
        if from.is_none() {
            return found;
        }
    }
}

/// How the partitions of each generation begin.
async fn generations(library: &Library) -> HashSet<Bytes> {
    partitions(library).await.iter().map(|key| key.slice(..17)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_longer_absence_than_the_feed_keeps_changes_the_index_is_made_anew_by_itself() {
    let fixture = lone_fixture().await;
    let library = &fixture.library;
    create(library, "a", "urn:t").await.unwrap();
    catch_up(&mut indexer(library), library, &fixture.clock).await;
    create(library, "missed", "urn:t").await.unwrap();
    fixture.clock.advance(library.options().feed_keep * 2);
    while library.feed.drop_old().await.unwrap() > 0 {}
    create(library, "b", "urn:t").await.unwrap();
    let mut again = indexer(library);
    beyond_the_horizon(library, &fixture.clock);
    again.turn().await.unwrap();
    assert!(!find(library, &Query::all(9)).await.is_complete, "changes are missing, and the answer says so");
    catch_up(&mut again, library, &fixture.clock).await;
    let found = find(library, &Query::all(9)).await;
    assert!(found.is_complete);
    assert_eq!(ids(&found), ["a", "b", "missed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_one_writes_and_the_other_goes_on_when_it_is_gone() {
    let fixture = lone_fixture().await;
    let library = &fixture.library;
    let (mut one, mut other) = (indexer(library), indexer(library));
    create(library, "a", "urn:t").await.unwrap();
    catch_up(&mut one, library, &fixture.clock).await;
    let is_shared = library.store().capabilities().is_shared;
    if is_shared {
        assert!(matches!(other.catch_up().await.unwrap(), Turn::Waits(_)));
    }
    create(library, "b", "urn:t").await.unwrap();
    one.release().await.unwrap();
    catch_up(&mut other, library, &fixture.clock).await;
    assert_eq!(ids(&find(library, &Query::all(9)).await), ["a", "b"]);
    // It dies without a word.
    drop(other);
    create(library, "c", "urn:t").await.unwrap();
    fixture.clock.advance(Duration::from_secs(61) + library.options().clock_skew_max);
    catch_up(&mut one, library, &fixture.clock).await;
    assert_eq!(ids(&find(library, &Query::all(9)).await), ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_that_write_at_the_same_time_do_no_harm() {
    let fixture = fixture().await;
    let library = &fixture.library;
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..4 {
        change_something(library, &mut random).await;
        // Neither knows what the other has done: each begins with an index of its own.
        let (mut one, mut other) = (indexer(library), indexer(library));
        beyond_the_horizon(library, &fixture.clock);
        library.search.rebuild().await.ok();
        let (one, other) = futures::join!(one.catch_up(), other.catch_up());
        assert!(one.is_ok() || other.is_ok());
        fixture.clock.advance(Duration::from_secs(600));
    }
    catch_up(&mut indexer(library), library, &fixture.clock).await;
    assert_index_is_true(library, &mut random).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_dies_at_any_step_leaves_an_index_that_another_one_sets_right() {
    for step in (0..24).step_by(if on_cassandra() { 8 } else { 1 }) {
        let faulty = faulty().await;
        let library = &faulty.library;
        let mut random = StdRng::seed_from_u64(step);
        binary(library, "a", b"four", "text/plain").await;
        create(library, "b", "urn:one urn:two").await.unwrap();
        catch_up(&mut indexer(library), library, &faulty.clock).await;
        delete(library, "a").await.unwrap();
        update(library, "b", "urn:two urn:three").await.unwrap();
        create(library, "c", "urn:one").await.unwrap();
        beyond_the_horizon(library, &faulty.clock);
        let count = AtomicU64::new(0);
        faulty.store.arm(Fault::Crash, move |_, written| {
            let (Step::Put { partition, .. } | Step::Remove { partition, .. }) = written else { return false };
            let is_of_index = list_of_partition(partition).is_some();
            is_of_index && count.fetch_add(1, Ordering::Relaxed) == step
        });
        let crashed = indexer(library).catch_up().await;
        assert!(crashed.is_err() || step > 10, "{step}");
        let library = faulty.reopened().await;
        faulty.clock.advance(Duration::from_secs(3_600));
        catch_up(&mut indexer(&library), &library, &faulty.clock).await;
        assert_index_is_true(&library, &mut random).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_index_cannot_be_written_searches_say_that_results_may_be_missing() {
    let faulty = faulty().await;
    let library = &faulty.library;
    let mut indexer = indexer(library);
    create(library, "a", "urn:one").await.unwrap();
    catch_up(&mut indexer, library, &faulty.clock).await;
    assert!(find(library, &below("a")).await.is_complete);
    delete(library, "a").await.unwrap();
    beyond_the_horizon(library, &faulty.clock);
    faulty.store.arm(Fault::Full, |_, step| {
        let (Step::Put { partition, .. } | Step::Remove { partition, .. }) = step else { return false };
        list_of_partition(partition).is_some()
    });
    assert!(indexer.catch_up().await.is_err());
    let found = find(library, &below("a")).await;
    assert_eq!((ids(&found), found.is_complete), (vec!["a".to_owned()], false));
    faulty.store.recover();
    catch_up(&mut indexer, library, &faulty.clock).await;
    let found = find(library, &below("a")).await;
    assert!(found.is_complete && found.hits.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_search_finds_what_a_scan_of_everything_finds() {
    let seeds = if on_cassandra() { 1 } else { 5 };
    for seed in 0..seeds {
        let fixture = lone_fixture().await;
        let library = &fixture.library;
        let mut random = StdRng::seed_from_u64(seed);
        let mut indexer = indexer(library);
        for _ in 0..4 {
            for _ in 0..6 {
                change_something(library, &mut random).await;
                fixture.clock.advance(Duration::from_millis(random.random_range(0..2_000)));
            }
            catch_up(&mut indexer, library, &fixture.clock).await;
            assert_index_is_true(library, &mut random).await;
        }
    }
}

const PATHS: [&str; 9] = ["a", "a/b", "a/b/c", "a-b", "a b", "ab", "b", "ü", "a/fcr"];
const TYPES: [&str; 4] = ["urn:a", "urn:ab", "urn:b*", "urn:ü"];
const MEDIA_TYPES: [&str; 4] = ["", "text/plain", "text/html", "image/png"];

/// Creates, changes or deletes a resource.
async fn change_something(library: &Library, random: &mut StdRng) {
    let at = *PATHS.choose(random).unwrap();
    let described =
        (0..random.random_range(0..3)).map(|_| *TYPES.choose(random).unwrap()).collect::<Vec<_>>().join(" ");
    // What is impossible is left.
    let _ = match random.random_range(0..8) {
        0 | 1 => create(library, at, &described).await.is_ok(),
        2 => library.repository.create(&path(at), &container()).await.is_ok(),
        3 => {
            let bytes: &[u8] = [&b""[..], b"1", b"22", b"22"].choose(random).unwrap();
            let source = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::copy_from_slice(bytes))]);
            let mut uploaded = library.repository.upload(&path(at), source, &[]).await.unwrap();
            uploaded.media_type = (*MEDIA_TYPES.choose(random).unwrap()).to_owned();
            let description = Bytes::from(described);
            let new = NewResource { kind: NewKind::Binary(uploaded), description, ..container() };
            library.repository.create(&path(at), &new).await.is_ok()
        }
        4 | 5 => match library.repository.resource(&path(at)).await {
            Ok(resource) if !matches!(resource.kind(), StoredKind::Container { .. }) => {
                update(library, at, &described).await.is_ok()
            }
            _ => false,
        },
        6 => delete(library, at).await.is_ok(),
        _ => library.repository.remove_tombstone(&path(at)).await.is_ok(),
    };
}

/// Everything that can be found, by reading everything.
async fn scanned(library: &Library) -> Vec<(ResourcePath, Facet, Arc<Document>)> {
    let mut all = Vec::new();
    for at in reachable(library).await {
        let resource = library.repository.resource(&path(&at)).await.unwrap();
        let shape = match resource.kind() {
            StoredKind::RdfSource => Shape::RdfSource,
            StoredKind::Container { .. } => Shape::BasicContainer,
            StoredKind::Binary(binary) => Shape::Binary {
                modified: binary.revision.time(),
                len_bytes: Some(binary.len_bytes),
                media_type: binary.media_type.clone(),
            },
        };
        let types = words(&path(&at), &library.repository.description(&resource).await.unwrap());
        let described = resource.description_revision().time();
        let document = Arc::new(Document::new(resource.incarnation().time(), described, shape, types));
        for facet in document.facets() {
            all.push((path(&at), *facet, document.clone()));
        }
    }
    all
}

/// A condition that some results meet, of those that there are.
fn condition(all: &[(ResourcePath, Facet, Arc<Document>)], random: &mut StdRng) -> Condition {
    let comparisons =
        [Comparison::Less, Comparison::LessOrEqual, Comparison::Equal, Comparison::GreaterOrEqual, Comparison::Greater];
    let comparison = *comparisons.choose(random).unwrap();
    let some = all.choose(random);
    let time = |of: fn(&Document, Facet) -> u64| some.map_or(0, |(_, facet, document)| of(document, *facet));
    let id = ["a", "a*", "a/*", "a/b*", "*b*", "ab", "*", "a/fcr:metadata", "b/fcr*", "*/fcr:metadata", "ü", "x", ""];
    match random.random_range(0..8) {
        0 | 1 => Condition::Id(Glob::parse(id.choose(random).unwrap())),
        2 => Condition::Created(comparison, time(|document, _| document.created.0)),
        3 => Condition::Modified(comparison, time(|document, facet| document.modified(facet).0)),
        4 => Condition::Size(comparison, random.random_range(0..3)),
        5 => {
            Condition::MediaType(Glob::parse(["text/plain", "text/*", "*", "image/png", "t*l"].choose(random).unwrap()))
        }
        6 => match comparison {
            Comparison::Equal => Condition::MediaTypeOrder(Comparison::Greater, "text/html".to_owned()),
            comparison => {
                Condition::IdOrder(comparison, ["a/b", "a/fcr:metadata", "b"].choose(random).unwrap().to_string())
            }
        },
        _ => {
            let types = ["urn:a", "urn:ab", "urn:a*", "urn:b", "urn:*", "http://www.w3.org/ns/ldp#RDFSource"];
            let server = ["http://www.w3.org/ns/ldp#NonRDFSource", "http://www.w3.org/ns/ldp#Container", "*Container"];
            Condition::Type(Glob::parse(
                types.iter().chain(&server).copied().collect::<Vec<_>>().choose(random).unwrap(),
            ))
        }
    }
}

/// The order of results, by the meaning of fields.
fn key(field: Field, (path, facet, document): &(ResourcePath, Facet, Arc<Document>)) -> (u64, String, String, Facet) {
    let (number, text) = match field {
        Field::Path => (0, String::new()),
        Field::Created => (document.created.0, String::new()),
        Field::Modified => (document.modified(*facet).0, String::new()),
        Field::Size => (document.len_bytes(*facet).map_or(0, |len_bytes| len_bytes + 1), String::new()),
        Field::MediaType => (0, document.media_type(*facet).unwrap_or_default().to_owned()),
    };
    (number, text, path.to_string(), *facet)
}

/// Asserts that searches of all kinds find what there is.
async fn assert_index_is_true(library: &Library, random: &mut StdRng) {
    let all = scanned(library).await;
    for _ in 0..40 {
        let conditions = (0..random.random_range(0..4)).map(|_| condition(&all, random)).collect();
        let fields = [
            None,
            Some(Field::Path),
            Some(Field::Created),
            Some(Field::Modified),
            Some(Field::Size),
            Some(Field::MediaType),
        ];
        let order_by = *fields.choose(random).unwrap();
        let (is_descending, max) = (random.random_bool(0.5), random.random_range(1..5));
        let query = Query { conditions, order_by, is_descending, max, counts: true, ..Query::all(max) };
        let mut expected: Vec<_> =
            all.iter().filter(|(path, facet, document)| query.matches(path, *facet, document)).cloned().collect();
        expected.sort_by_key(|one| key(query.order(), one));
        if is_descending {
            expected.reverse();
        }
        let first = find(library, &query).await;
        assert_eq!(first.total, Some(expected.len() as u64), "{query:?}");
        assert_eq!(paged(library, query.clone()).await, expected, "{query:?}");
        let offset = random.random_range(0..5);
        let skipped = find(library, &Query { offset, max: 100, ..query.clone() }).await;
        let skipped: Vec<_> = skipped.hits.into_iter().map(|hit| (hit.path, hit.facet, hit.document)).collect();
        assert_eq!(skipped, expected.into_iter().skip(offset).collect::<Vec<_>>(), "{query:?}");
    }
}

/// All results, page by page.
async fn paged(library: &Library, mut query: Query) -> Vec<(ResourcePath, Facet, Arc<Document>)> {
    let mut all = Vec::new();
    query.counts = false;
    loop {
        let found = find(library, &query).await;
        assert!(found.hits.len() <= query.max);
        all.extend(found.hits.into_iter().map(|hit| (hit.path, hit.facet, hit.document)));
        let Some(next) = found.next else { return all };
        query.after = Some(next);
    }
}
