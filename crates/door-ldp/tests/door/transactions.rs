//! Transactions: what their clients see, what others see, and how they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use door_ldp::{LdpDoor, LdpSettings, Routes, routes};
use heads::{LibraryOptions, keys};
use http::{Method, StatusCode};
use library::Library;
use store::{Call, Row, Rows, Scan, Store, StoreResult, Table, Wrapper};

use crate::support::{Ask, Fixture, ROOT, Reply, fixture, fixture_keeping, on_cassandra};

const ENDPOINT: &str = "http://fedora.info/definitions/v4/transaction#endpoint";
const COMMIT: &str = "http://fedora.info/definitions/v4/transaction#commitEndpoint";

/// Longer than a transaction lasts by the clock of any server.
const EXPIRED: Duration = Duration::from_secs(500);

/// Begins a transaction; returns its address.
async fn begin(fixture: &Fixture) -> String {
    let begun = fixture.ask(Method::POST, "/rest/fcr:tx").answer().await;
    assert_eq!(begun.status, StatusCode::CREATED, "{}", begun.text());
    begun.header("location").unwrap().to_owned()
}

/// The path of an address.
fn path(address: &str) -> &str {
    address.strip_prefix("http://test").unwrap()
}

async fn of(ask: Ask<'_>, transaction: &str) -> Reply {
    ask.header("atomic-id", transaction).answer().await
}

async fn put(fixture: &Fixture, transaction: &str, at: &str, turtle: &str) -> StatusCode {
    of(fixture.put(at, turtle), transaction).await.status
}

async fn get(fixture: &Fixture, transaction: &str, at: &str) -> Reply {
    of(fixture.ask(Method::GET, at), transaction).await
}

async fn commit(fixture: &Fixture, transaction: &str) -> Reply {
    fixture.ask(Method::PUT, path(transaction)).answer().await
}

async fn roll_back(fixture: &Fixture, transaction: &str) -> StatusCode {
    fixture.ask(Method::DELETE, path(transaction)).answer().await.status
}

fn members(reply: &Reply, of: &str) -> Vec<String> {
    let all = reply.objects(of, "contains").into_iter();
    all.filter(|member| !member.ends_with("/volumes")).collect()
}

fn dc(title: &str) -> String {
    format!("<> <http://purl.org/dc/terms/title> \"{title}\" .")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_found_begun_renewed_and_ended() {
    let fixture = fixture().await;
    let root = fixture.ask(Method::HEAD, "/rest/").answer().await;
    assert_eq!(root.links(ENDPOINT), [format!("{ROOT}fcr:tx")]);
    let begun = fixture.ask(Method::POST, "/rest/fcr:tx").answer().await;
    let address = begun.header("location").unwrap().to_owned();
    assert_eq!((begun.status, begun.links(COMMIT)), (StatusCode::CREATED, vec![address.clone()]));
    assert_eq!(begun.header("atomic-expires"), Some("Sun, 15 Jun 2025 15:09:40 GMT"));
    assert_eq!(begun.header("expires"), begun.header("atomic-expires"));
    fixture.clock.advance(Duration::from_secs(60));
    let known = fixture.get(path(&address)).await;
    assert_eq!(
        (known.status, known.header("atomic-expires")),
        (StatusCode::NO_CONTENT, begun.header("atomic-expires"))
    );
    let renewed = fixture.ask(Method::POST, path(&address)).answer().await;
    assert_eq!(renewed.status, StatusCode::NO_CONTENT);
    assert_eq!(renewed.header("atomic-expires"), Some("Sun, 15 Jun 2025 15:10:40 GMT"));
    assert_eq!(commit(&fixture, &address).await.status, StatusCode::NO_CONTENT);
    assert_eq!(commit(&fixture, &address).await.status, StatusCode::NO_CONTENT, "a repeated commit");
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let over = fixture.ask(method, path(&address)).answer().await;
        assert_eq!(over.status, StatusCode::GONE, "{}", over.text());
    }
    let unknown = "/rest/fcr:tx/00000000-0000-0000-0000-000000000000";
    assert_eq!(fixture.get(unknown).await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.get("/rest/fcr:tx/nonsense").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.get("/rest/fcr:tx").await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_transaction_does_is_seen_by_it_alone_until_it_is_committed() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", &dc("before")).await;
    fixture.make("/rest/c/old", "RDFSource", "").await;
    let tx = begin(&fixture).await;
    let created = of(fixture.put("/rest/c/new/deep", &dc("deep")), &tx).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text());
    assert_eq!(created.header("atomic-id"), Some(&*tx));
    assert!(created.header("atomic-expires").is_some());
    let posted = of(fixture.ask(Method::POST, "/rest/c").header("content-type", "image/png").body("pixels"), &tx).await;
    assert_eq!(posted.status, StatusCode::CREATED, "{}", posted.text());
    let image = posted.header("location").unwrap().to_owned();
    assert_eq!(put(&fixture, &tx, "/rest/c", &dc("after")).await, StatusCode::NO_CONTENT);
    assert_eq!(of(fixture.ask(Method::DELETE, "/rest/c/old"), &tx).await.status, StatusCode::NO_CONTENT);

    // In the transaction.
    let c = format!("{ROOT}c");
    let seen = get(&fixture, &tx, "/rest/c").await;
    assert!(seen.says(&format!("<c> dc:title \"after\" ; ldp:contains <c/new>, <{image}> .")), "{}", seen.text());
    assert_eq!(members(&seen, &c).len(), 2);
    assert!(get(&fixture, &tx, "/rest/c/new/deep").await.says("<c/new/deep> dc:title \"deep\" ."));
    assert!(get(&fixture, &tx, "/rest/c/new").await.says("<c/new> ldp:contains <c/new/deep> ."));
    assert_eq!(get(&fixture, &tx, path(&image)).await.text(), "pixels");
    assert_eq!(get(&fixture, &tx, "/rest/c/old").await.status, StatusCode::GONE);
    // Outside.
    let unseen = fixture.get("/rest/c").await;
    assert!(unseen.says("<c> dc:title \"before\" ; ldp:contains <c/old> ."));
    assert_eq!(members(&unseen, &c).len(), 1);
    for there in ["/rest/c/new", "/rest/c/new/deep", path(&image)] {
        assert_eq!(fixture.get(there).await.status, StatusCode::NOT_FOUND, "{there}");
    }
    assert_eq!(fixture.get("/rest/c/old").await.status, StatusCode::OK);

    assert_eq!(commit(&fixture, &tx).await.status, StatusCode::NO_CONTENT);
    let now = fixture.get("/rest/c").await;
    assert!(now.says(&format!("<c> dc:title \"after\" ; ldp:contains <c/new>, <{image}> .")), "{}", now.text());
    assert_eq!(members(&now, &c).len(), 2);
    assert!(fixture.get("/rest/c/new/deep").await.says("<c/new/deep> dc:title \"deep\" ."));
    assert_eq!(fixture.get(path(&image)).await.text(), "pixels");
    assert_eq!(fixture.get("/rest/c/old").await.status, StatusCode::GONE);
    assert_eq!(fixture.library.repository.transaction_counts().committed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_in_a_transaction_build_on_each_other_and_make_one_version() {
    let fixture = fixture().await;
    fixture.make("/rest/a", "RDFSource", &dc("0")).await;
    let before = fixture.get("/rest/a").await.etag();
    let tx = begin(&fixture).await;
    let first = of(fixture.put("/rest/a", &dc("1")).header("if-match", &before), &tx).await;
    assert_eq!(first.status, StatusCode::NO_CONTENT, "{}", first.text());
    let stale = of(fixture.put("/rest/a", &dc("x")).header("if-match", &before), &tx).await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED, "the transaction has changed it");
    let patch = "INSERT DATA { <> <http://purl.org/dc/terms/title> \"2\" }";
    let patched = fixture.ask(Method::PATCH, "/rest/a").header("content-type", "application/sparql-update").body(patch);
    let patched = of(patched.header("if-match", &first.etag()), &tx).await;
    assert_eq!(patched.status, StatusCode::NO_CONTENT, "{}", patched.text());
    // A file that is replaced, and one that is made and deleted again.
    let large = vec![b'x'; 100_000];
    for body in [large.clone(), b"small".to_vec()] {
        let put = fixture.ask(Method::PUT, "/rest/b").header("content-type", "text/css").body(body);
        assert!(of(put, &tx).await.status.is_success());
    }
    let put = fixture.ask(Method::PUT, "/rest/gone").header("content-type", "text/css").body(large);
    assert_eq!(of(put, &tx).await.status, StatusCode::CREATED);
    assert_eq!(of(fixture.ask(Method::DELETE, "/rest/gone"), &tx).await.status, StatusCode::NO_CONTENT);
    assert_eq!(get(&fixture, &tx, "/rest/gone").await.status, StatusCode::NOT_FOUND);
    assert_eq!(commit(&fixture, &tx).await.status, StatusCode::NO_CONTENT);
    let now = fixture.get("/rest/a").await;
    assert!(now.says("<a> dc:title \"1\", \"2\" .") && !now.says("<a> dc:title \"0\" ."), "{}", now.text());
    let versions = fixture.get("/rest/a/fcr:versions").await;
    assert_eq!(versions.objects(&format!("{ROOT}a/fcr:versions"), "contains").len(), 2, "{}", versions.text());
    assert_eq!(fixture.get("/rest/b").await.text(), "small");
    assert_eq!(fixture.get("/rest/gone").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.contents().await, 0, "contents that nothing names are dropped with the transaction");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_transaction_that_is_rolled_back_or_expires() {
    let fixture = fixture().await;
    fixture.make("/rest/a", "RDFSource", &dc("before")).await;
    for expires in [false, true] {
        let tx = begin(&fixture).await;
        assert_eq!(put(&fixture, &tx, "/rest/a", &dc("after")).await, StatusCode::NO_CONTENT);
        assert_eq!(put(&fixture, &tx, "/rest/new", "").await, StatusCode::CREATED);
        let large = fixture.ask(Method::PUT, "/rest/file").header("content-type", "text/css").body(vec![b'x'; 100_000]);
        assert_eq!(of(large, &tx).await.status, StatusCode::CREATED);
        if expires {
            fixture.clock.advance(EXPIRED);
            let late = of(fixture.put("/rest/late", ""), &tx).await;
            assert_eq!(late.status, StatusCode::CONFLICT, "{}", late.text());
            assert!(late.detail().contains("has expired"), "{}", late.detail());
            assert_eq!(commit(&fixture, &tx).await.status, StatusCode::GONE);
            fixture.library.repository.end_transactions(Duration::ZERO).await.unwrap();
            assert_eq!(fixture.library.repository.transaction_counts().expired, 1);
        } else {
            assert_eq!(roll_back(&fixture, &tx).await, StatusCode::NO_CONTENT);
        }
        for there in ["/rest/new", "/rest/file", "/rest/late"] {
            assert_eq!(fixture.get(there).await.status, StatusCode::NOT_FOUND, "{there}");
        }
        assert!(fixture.get("/rest/a").await.says("<a> dc:title \"before\" ."));
        assert_eq!(fixture.contents().await, 0, "expires: {expires}");
        // It is remembered for an hour how it ended.
        let known = fixture.get(path(&tx)).await;
        assert_eq!(known.status, StatusCode::GONE, "{}", known.text());
        fixture.clock.advance(Duration::from_secs(2 * 3_600));
        for _ in 0..2 {
            fixture.library.repository.end_transactions(Duration::ZERO).await.unwrap();
        }
        assert_eq!(fixture.get(path(&tx)).await.status, StatusCode::NOT_FOUND);
    }
    assert_eq!(fixture.put("/rest/a", &dc("later")).answer().await.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.put("/rest/new", "").answer().await.status, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_says_who_holds_the_resource_and_until_when_and_ends_no_transaction() {
    let fixture = fixture().await;
    fixture.make("/rest/a", "RDFSource", "").await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    let (one, other) = (begin(&fixture).await, begin(&fixture).await);
    assert_eq!(put(&fixture, &one, "/rest/a", &dc("one")).await, StatusCode::NO_CONTENT);
    assert_eq!(put(&fixture, &one, "/rest/c/new", "").await, StatusCode::CREATED);
    let until = "is held by a transaction of local until 2025-06-15T15:09:40Z";
    for at in ["/rest/a", "/rest/c/new", "/rest/c/new/deeper"] {
        let held = at.strip_prefix("/rest").unwrap().trim_end_matches("/deeper");
        for refused in [of(fixture.put(at, ""), &other).await, fixture.put(at, "").answer().await] {
            assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
            assert_eq!(refused.detail(), format!("{held} {until}"));
        }
    }
    assert_eq!(fixture.ask(Method::DELETE, "/rest/a").answer().await.detail(), format!("/a {until}"));
    assert_eq!(fixture.library.repository.transaction_counts().conflicts, 7);
    // Both go on, and children of one container are no conflict.
    assert_eq!(put(&fixture, &other, "/rest/c/other", "").await, StatusCode::CREATED);
    assert_eq!(fixture.put("/rest/c", &dc("c")).answer().await.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.put("/rest/c/third", "").answer().await.status, StatusCode::CREATED);
    let slug = fixture.post("/rest/c", "").header("slug", "new").answer().await;
    assert_ne!(slug.header("location"), Some(&*format!("{ROOT}c/new")), "another name is used");
    for tx in [&one, &other] {
        assert_eq!(commit(&fixture, tx).await.status, StatusCode::NO_CONTENT);
    }
    assert_eq!(members(&fixture.get("/rest/c").await, &format!("{ROOT}c")).len(), 4);
    // What an expired transaction held is free at once.
    let expired = begin(&fixture).await;
    assert_eq!(put(&fixture, &expired, "/rest/a", "").await, StatusCode::NO_CONTENT);
    fixture.clock.advance(EXPIRED);
    assert_eq!(fixture.put("/rest/a", &dc("free")).answer().await.status, StatusCode::NO_CONTENT);
    assert_eq!(commit(&fixture, &expired).await.status, StatusCode::GONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_ended_or_foreign_transaction_changes_nothing() {
    let fixture = fixture().await;
    let unknown = format!("{ROOT}fcr:tx/00000000-0000-0000-0000-000000000000");
    let ended = begin(&fixture).await;
    assert_eq!(roll_back(&fixture, &ended).await, StatusCode::NO_CONTENT);
    let (id, _) = fixture.library.repository.begin_transaction("token ann").await.unwrap();
    let foreign = format!("{ROOT}fcr:tx/{id}");
    for tx in [&unknown, &ended, &foreign] {
        for refused in [of(fixture.put("/rest/a", ""), tx).await, get(&fixture, tx, "/rest/").await] {
            assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
        }
    }
    assert_eq!(fixture.get(path(&foreign)).await.status, StatusCode::NOT_FOUND);
    assert_eq!(commit(&fixture, &foreign).await.status, StatusCode::NOT_FOUND);
    assert_eq!(get(&fixture, "nonsense", "/rest/").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(fixture.get("/rest/a").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_carried_out_any_more_is_not_committed_in_part() {
    let fixture = fixture().await;
    fixture.make("/rest/c/d", "RDFSource", &dc("before")).await;
    let tx = begin(&fixture).await;
    assert_eq!(put(&fixture, &tx, "/rest/c/new", "").await, StatusCode::CREATED);
    assert_eq!(put(&fixture, &tx, "/rest/elsewhere", "").await, StatusCode::CREATED);
    assert_eq!(fixture.ask(Method::DELETE, "/rest/c").answer().await.status, StatusCode::NO_CONTENT);
    let refused = commit(&fixture, &tx).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    assert!(refused.detail().contains("/c/new is in what was deleted"), "{}", refused.detail());
    assert_eq!(fixture.get("/rest/elsewhere").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.get(path(&tx)).await.status, StatusCode::NO_CONTENT, "it is still open");
    assert_eq!(roll_back(&fixture, &tx).await, StatusCode::NO_CONTENT);
    // So is a change of what was deleted with its container.
    fixture.make("/rest/k/d", "RDFSource", &dc("before")).await;
    let tx = begin(&fixture).await;
    assert_eq!(put(&fixture, &tx, "/rest/k/d", &dc("after")).await, StatusCode::NO_CONTENT);
    assert_eq!(put(&fixture, &tx, "/rest/elsewhere", "").await, StatusCode::CREATED);
    assert_eq!(fixture.ask(Method::DELETE, "/rest/k").answer().await.status, StatusCode::NO_CONTENT);
    let refused = commit(&fixture, &tx).await;
    assert!(refused.detail().contains("/k/d was deleted with what it was in"), "{}", refused.detail());
    assert_eq!(fixture.get("/rest/elsewhere").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_deleted_in_a_transaction_with_what_that_made_in_it() {
    let fixture = fixture().await;
    fixture.make("/rest/c/d", "RDFSource", "").await;
    let tx = begin(&fixture).await;
    for at in ["/rest/c/e", "/rest/k/l"] {
        assert_eq!(put(&fixture, &tx, at, "").await, StatusCode::CREATED);
    }
    for at in ["/rest/c", "/rest/k"] {
        assert_eq!(of(fixture.ask(Method::DELETE, at), &tx).await.status, StatusCode::NO_CONTENT);
    }
    assert_eq!(get(&fixture, &tx, "/rest/c/e").await.status, StatusCode::GONE);
    assert_eq!(get(&fixture, &tx, "/rest/k/l").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.get("/rest/c/d").await.status, StatusCode::OK);
    assert_eq!(put(&fixture, &tx, "/rest/k", "").await, StatusCode::CREATED, "the name can be used again");
    assert_eq!(get(&fixture, &tx, "/rest/k/l").await.status, StatusCode::NOT_FOUND);
    let committed = commit(&fixture, &tx).await;
    assert_eq!(committed.status, StatusCode::NO_CONTENT, "{}", committed.text());
    assert_eq!(fixture.get("/rest/k").await.status, StatusCode::OK);
    for at in ["/rest/c", "/rest/c/d", "/rest/c/e"] {
        assert_eq!(fixture.get(at).await.status, StatusCode::GONE, "{at}");
    }
    assert_eq!(fixture.get("/rest/k/l").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_server_goes_on_with_a_transaction() {
    let fixture = fixture().await;
    let second = fixture.beside().await;
    let tx = begin(&fixture).await;
    assert_eq!(put(&fixture, &tx, "/rest/a", &dc("1")).await, StatusCode::CREATED);
    assert_eq!(put(&second, &tx, "/rest/a/b", &dc("2")).await, StatusCode::CREATED);
    assert_eq!(get(&fixture, &tx, "/rest/a/b").await.status, StatusCode::OK);
    let held = second.put("/rest/a", "").answer().await;
    assert_eq!(held.status, StatusCode::CONFLICT, "{}", held.text());
    assert_eq!(commit(&second, &tx).await.status, StatusCode::NO_CONTENT);
    assert!(fixture.get("/rest/a").await.says("<a> ldp:contains <a/b> ; dc:title \"1\" ."));
    assert_eq!(commit(&fixture, &tx).await.status, StatusCode::NO_CONTENT, "a repeated commit");
    let over = of(fixture.put("/rest/a/c", ""), &tx).await;
    assert_eq!(over.status, StatusCode::CONFLICT, "{}", over.text());
}

/// A store that counts the pages of operations in `/c` that are read before the heads of their
/// resources are.
struct InPages {
    inner: Arc<dyn Store>,
    /// All pages.
    pages: AtomicUsize,
    /// Those since heads were read last.
    waiting: AtomicUsize,
    /// The most that waited.
    most: AtomicUsize,
}

impl Wrapper for InPages {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        self.waiting.store(0, Ordering::SeqCst);
        self.inner.get_many(call, table, keys).await
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        if table == Table::Work && scan.from.starts_with(&keys::operations_in(&"c".parse().unwrap())) {
            self.pages.fetch_add(1, Ordering::SeqCst);
            let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(waiting, Ordering::SeqCst);
        }
        self.inner.scan(call, table, partition, scan).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_in_a_transaction_holds_few_of_its_operations_at_once_however_large_they_are() {
    const CHILDREN: usize = 8;
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    let tx = begin(&fixture).await;
    let disposition = format!("attachment; filename=\"{}\"", "x".repeat(40_000));
    for n in 0..CHILDREN {
        let ask = fixture.ask(Method::PUT, &format!("/rest/c/{n}")).header("content-type", "image/png").body("pixels");
        let created = of(ask.header("content-disposition", &disposition), &tx).await;
        assert_eq!(created.status, StatusCode::CREATED, "{}", created.text());
    }
    let [pages, waiting, most] = [(); 3].map(|()| AtomicUsize::new(0));
    let store = Arc::new(InPages { inner: fixture.library.store().clone(), pages, waiting, most });
    let library = Library::open(store.clone(), fixture.clock.clone(), LibraryOptions::default()).await.unwrap();
    let Routes { read, write } = routes(Arc::new(LdpDoor::new(library.clone(), LdpSettings::default())));
    let fixture = Fixture { router: read.merge(write), library, ..fixture };
    let seen = get(&fixture, &tx, "/rest/c").await;
    assert_eq!(members(&seen, &format!("{ROOT}c")).len(), CHILDREN, "{}", seen.text());
    // One reading is for the tag, and one for the listing. The last page of each may be empty.
    let (pages, most) = (store.pages.load(Ordering::SeqCst), store.most.load(Ordering::SeqCst));
    assert!(pages >= 6 && most <= 2, "{most} of {pages} pages are held at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn some_requests_are_refused_in_a_transaction() {
    let fixture = fixture().await;
    fixture.make("/rest/a", "RDFSource", "").await;
    fixture.make("/rest/b", "RDFSource", "").await;
    fixture.ask(Method::DELETE, "/rest/b").answer().await;
    let tx = begin(&fixture).await;
    let asks = [
        fixture.ask(Method::POST, "/rest/a/fcr:versions"),
        fixture.ask(Method::DELETE, "/rest/b/fcr:tombstone"),
        fixture.put("/rest/b", "").header("overwrite-tombstone", "true"),
    ];
    for ask in asks {
        let refused = of(ask, &tx).await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
        assert!(refused.detail().ends_with("in a transaction"), "{}", refused.detail());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_limited() {
    let options = LibraryOptions {
        transaction_operations_max: 2,
        transaction_bytes_max: 20_000,
        transactions_of_one_max: 2,
        transactions_max: 3,
        ..LibraryOptions::default()
    };
    let fixture = fixture_keeping(options).await;
    let (tx, other) = (begin(&fixture).await, begin(&fixture).await);
    let third = fixture.ask(Method::POST, "/rest/fcr:tx").answer().await;
    assert_eq!(third.status, StatusCode::TOO_MANY_REQUESTS, "{}", third.text());
    assert_eq!(third.header("retry-after"), Some("60"));
    let advice = "2 transactions are open, 2 of them of local: commit some, or roll them back; the first ends at \
                  2025-06-15T15:09:40Z unless it is renewed";
    assert_eq!(third.detail(), advice);
    let repository = &fixture.library.repository;
    repository.begin_transaction("token ann").await.unwrap();
    repository.begin_transaction("token bob").await.unwrap_err();
    assert_eq!(put(&fixture, &tx, "/rest/a", "").await, StatusCode::CREATED);
    assert_eq!(put(&fixture, &tx, "/rest/a", &dc("1")).await, StatusCode::NO_CONTENT);
    let over = of(fixture.put("/rest/a", &dc("2")), &tx).await;
    assert_eq!(over.detail(), "over a limit: a transaction has at most 2 operations");
    let over = of(fixture.put("/rest/b", &dc(&"x".repeat(20_000))), &other).await;
    assert!(over.detail().contains("stages at most 20000 bytes"), "{}", over.detail());
    // An ended one makes room, and a pass counts what is open.
    assert_eq!(commit(&fixture, &tx).await.status, StatusCode::NO_CONTENT);
    assert!(fixture.get("/rest/a").await.says("<a> dc:title \"1\" ."));
    let third = begin(&fixture).await;
    repository.end_transactions(Duration::ZERO).await.unwrap();
    assert_eq!(repository.transaction_counts().open, 3);
    fixture.clock.advance(EXPIRED);
    repository.end_transactions(Duration::ZERO).await.unwrap();
    assert_eq!(repository.transaction_counts().open, 0);
    assert_eq!(fixture.get(path(&third)).await.status, StatusCode::GONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_once_and_requests_for_an_expired_one_do_not_exceed_the_limit_of_open_transactions() {
    let clock_skew_max = Duration::ZERO;
    let options = LibraryOptions { transactions_of_one_max: 3, clock_skew_max, ..LibraryOptions::default() };
    let fixture = fixture_keeping(options).await;
    let begun = futures::future::join_all((0..20).map(|_| fixture.ask(Method::POST, "/rest/fcr:tx").answer())).await;
    let (made, refused): (Vec<_>, Vec<_>) = begun.into_iter().partition(|reply| reply.status == StatusCode::CREATED);
    assert_eq!(made.len(), 3);
    assert!(refused.iter().all(|reply| reply.status == StatusCode::TOO_MANY_REQUESTS));
    let first = made[0].header("location").unwrap().to_owned();
    fixture.clock.advance(Duration::from_secs(100));
    for renewed in &made[1..] {
        fixture.ask(Method::POST, path(renewed.header("location").unwrap())).answer().await;
    }
    fixture.clock.advance(Duration::from_secs(100));
    for _ in 0..5 {
        assert_eq!(fixture.get(path(&first)).await.status, StatusCode::GONE);
    }
    fixture.library.repository.end_transactions(Duration::ZERO).await.unwrap();
    begin(&fixture).await;
    let over = fixture.ask(Method::POST, "/rest/fcr:tx").answer().await;
    assert_eq!(over.status, StatusCode::TOO_MANY_REQUESTS, "one has expired, and only one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_transactions_that_are_left_open_end_in_time_and_leave_nothing_behind() {
    // As many as one client may have by default. On Cassandra each takes some milliseconds.
    let by_default = LibraryOptions::default().transactions_of_one_max;
    let many = if on_cassandra() { 50 } else { by_default };
    let options = LibraryOptions { transactions_of_one_max: many, ..LibraryOptions::default() };
    let fixture = fixture_keeping(options).await;
    for n in 0..many {
        let tx = begin(&fixture).await;
        if n % 10 == 0 {
            assert_eq!(put(&fixture, &tx, &format!("/rest/left{n}"), "").await, StatusCode::CREATED);
        }
    }
    let over = fixture.ask(Method::POST, "/rest/fcr:tx").answer().await;
    assert_eq!(over.status, StatusCode::TOO_MANY_REQUESTS, "{}", over.text());
    // Others go on meanwhile, but not with what a transaction holds.
    assert_eq!(fixture.put("/rest/other", "").answer().await.status, StatusCode::CREATED);
    assert_eq!(fixture.put("/rest/left0", "").answer().await.status, StatusCode::CONFLICT);
    fixture.clock.advance(EXPIRED);
    let repository = &fixture.library.repository;
    repository.end_transactions(Duration::ZERO).await.unwrap();
    assert_eq!(repository.transaction_counts().open, 0);
    assert_eq!(
        fixture.get("/rest/").await.objects(ROOT, "contains"),
        [format!("{ROOT}other"), format!("{ROOT}volumes")]
    );
    assert_eq!(fixture.put("/rest/left0", "").answer().await.status, StatusCode::CREATED);
    begin(&fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_two_transactions_for_the_same_resources_at_once_prevent_no_commit() {
    let fixture = fixture().await;
    let (one, other) = (begin(&fixture).await, begin(&fixture).await);
    let mut winners = Vec::new();
    for n in 0..8 {
        let at = format!("/rest/s{n}");
        let (first, second) = (dc("one"), dc("other"));
        let both = futures::join!(put(&fixture, &one, &at, &first), put(&fixture, &other, &at, &second));
        winners.push(match both {
            (StatusCode::CREATED, StatusCode::CONFLICT) => "one",
            (StatusCode::CONFLICT, StatusCode::CREATED) => "other",
            both => panic!("{at}: {both:?}"),
        });
    }
    for tx in [&one, &other] {
        let committed = commit(&fixture, tx).await;
        assert_eq!(committed.status, StatusCode::NO_CONTENT, "{}", committed.text());
    }
    for (n, winner) in winners.into_iter().enumerate() {
        let made = fixture.get(&format!("/rest/s{n}")).await;
        assert!(made.says(&format!("<s{n}> dc:title \"{winner}\" .")), "{}", made.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_beside_a_commit_is_part_of_it_or_refused() {
    let fixture = fixture().await;
    for n in 0..8 {
        let tx = begin(&fixture).await;
        assert_eq!(put(&fixture, &tx, &format!("/rest/a{n}"), "").await, StatusCode::CREATED);
        let beside = format!("/rest/k{n}/b");
        let (committed, put) = futures::join!(commit(&fixture, &tx), put(&fixture, &tx, &beside, ""));
        // It may have met the request half way, and then nothing is committed yet.
        if committed.status == StatusCode::CONFLICT {
            assert_eq!(commit(&fixture, &tx).await.status, StatusCode::NO_CONTENT);
        } else {
            assert_eq!(committed.status, StatusCode::NO_CONTENT, "{}", committed.text());
        }
        assert_eq!(fixture.get(&format!("/rest/a{n}")).await.status, StatusCode::OK);
        let there = [fixture.get(&beside).await.status, fixture.get(&format!("/rest/k{n}")).await.status];
        match put {
            StatusCode::CREATED => assert_eq!(there, [StatusCode::OK; 2]),
            StatusCode::CONFLICT => assert_eq!(there, [StatusCode::NOT_FOUND; 2]),
            put => panic!("{put}"),
        }
    }
}
