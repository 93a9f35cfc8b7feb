//! Direct and Indirect Containers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use budget::{Memory, Party};
use bytes::Bytes;
use door_ldp::{LdpDoor, LdpSettings, Routes, routes};
use futures::StreamExt;
use heads::container_body::shard_of;
use heads::keys::{self, Link};
use heads::{LibraryOptions, ResourcePath};
use http::{Method, StatusCode};
use library::Library;
use repository::backlinks::{BUCKETS, GIVING_MAX};
use store::{
    Call, Class, Deadline, NewRow, Outcome, Row, Rows, Scan, Step, Store, StoreResult, Table, ValueKind, Wrapper,
    envelope,
};
use tokio::sync::Barrier;

use crate::support::{Fixture, ROOT, Reply, fixture, fixture_keeping};

const PREFIX: &str = "@prefix ldp: <http://www.w3.org/ns/ldp#> . @prefix dc: <http://purl.org/dc/terms/> . ";

async fn with_book() -> Fixture {
    let fixture = fixture().await;
    fixture.make("/rest/book", "RDFSource", "").await;
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_of_a_direct_container_is_a_member_of_another_resource() {
    let fixture = with_book().await;
    let rule = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart .");
    fixture.make("/rest/pages", "DirectContainer", &rule).await;
    let before = fixture.get("/rest/book").await.etag();
    fixture.put("/rest/pages/1", "").answer().await;
    let member = "<book> dc:hasPart <pages/1> .";
    let pages = fixture.get("/rest/pages").await;
    assert!(pages.is("DirectContainer") && pages.says(member), "{}", pages.text());
    let book = fixture.get("/rest/book").await;
    assert!(book.says(member), "{}", book.text());
    assert_ne!(book.etag(), before);
    let unchanged = fixture.put("/rest/book", book.text()).header("if-match", &book.etag()).answer().await;
    assert_eq!(unchanged.status, StatusCode::NO_CONTENT, "{}", unchanged.text());
    let invented = format!("{PREFIX} <> dc:hasPart <pages/2> .");
    assert_eq!(fixture.put("/rest/book", &invented).answer().await.status, StatusCode::CONFLICT);
    let without = "return=representation; omit=\"http://www.w3.org/ns/ldp#PreferMembership\"";
    assert!(!fixture.ask(Method::GET, "/rest/pages").header("prefer", without).answer().await.says(member));
    fixture.ask(Method::DELETE, "/rest/pages/1").answer().await;
    assert!(!fixture.get("/rest/book").await.says(member) && !fixture.get("/rest/pages").await.says(member));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_the_membership_of_its_children_on_request() {
    let fixture = with_book().await;
    let rule = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart .");
    fixture.make("/rest/pages", "DirectContainer", &rule).await;
    for n in 0..5 {
        fixture.put(&format!("/rest/pages/{n}"), "").answer().await;
    }
    let omitting = |what: &[&str]| {
        let iris: Vec<_> = what.iter().map(|what| format!("http://www.w3.org/ns/ldp#{what}")).collect();
        format!("return=representation; omit=\"{}\"", iris.join(" "))
    };
    let cases = [
        (&[][..], true, true),
        (&["PreferMembership"][..], true, false),
        (&["PreferContainment"][..], false, true),
        (&["PreferMembership", "PreferContainment"][..], false, false),
    ];
    for (omitted, contains, has_members) in cases {
        let prefer = omitting(omitted);
        let page = fixture.ask(Method::GET, "/rest/pages?limit=3").header("prefer", &prefer).answer().await;
        let contained = page.objects(&format!("{ROOT}pages"), "contains");
        assert_eq!(contained.len(), if contains { 3 } else { 0 }, "{omitted:?}: {}", page.text());
        let described = (0..5).filter(|n| page.says(&format!("<book> dc:hasPart <pages/{n}> ."))).collect::<Vec<_>>();
        assert_eq!(described.len(), if has_members { 3 } else { 0 }, "{omitted:?}: {}", page.text());
        if contains && has_members {
            let same = described.iter().all(|n| contained.contains(&format!("{ROOT}pages/{n}")));
            assert!(same, "{contained:?} and {described:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn membership_can_point_the_other_way_and_to_the_container_itself() {
    let fixture = with_book().await;
    let rule = format!("{PREFIX}<> ldp:membershipResource <book#me> ; ldp:isMemberOfRelation dc:isPartOf .");
    fixture.make("/rest/pages", "DirectContainer", &rule).await;
    fixture.put("/rest/pages/1", "").answer().await;
    assert!(fixture.get("/rest/book").await.says("<pages/1> dc:isPartOf <book#me> ."));
    fixture.make("/rest/own", "DirectContainer", "").await;
    fixture.put("/rest/own/1", "").answer().await;
    let own = fixture.get("/rest/own").await;
    assert!(own.says("<own> ldp:member <own/1> ; ldp:membershipResource <own> ; ldp:hasMemberRelation ldp:member ."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_of_an_indirect_container_names_the_member() {
    let fixture = with_book().await;
    let rule = format!(
        "{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart ; ldp:insertedContentRelation dc:references ."
    );
    fixture.make("/rest/proxies", "IndirectContainer", &rule).await;
    let proxy = format!("{PREFIX}<> dc:references <http://example.org/page/1> .");
    let made = fixture.post("/rest/proxies", &proxy).header("slug", "p").answer().await;
    assert_eq!(made.status, StatusCode::CREATED);
    fixture.put("/rest/proxies/silent", "").answer().await;
    let book = fixture.get("/rest/book").await;
    assert!(book.says("<book> dc:hasPart <http://example.org/page/1> ."), "{}", book.text());
    assert!(!book.text().contains("silent"));
    let proxies = fixture.get("/rest/proxies").await;
    assert_eq!(proxies.objects(&format!("{ROOT}proxies"), "contains").len(), 2);
    fixture.ask(Method::DELETE, "/rest/proxies/p").answer().await;
    assert!(!fixture.get("/rest/book").await.text().contains("example.org"));
}

const INDIRECT: &str =
    "<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart ; ldp:insertedContentRelation dc:references .";

async fn put(fixture: &Fixture, path: &str, turtle: &str) -> Reply {
    fixture.put(path, &format!("{PREFIX}{turtle}")).answer().await
}

fn assert_refused(answer: &Reply, named: &str) {
    assert_eq!(answer.status, StatusCode::CONFLICT, "{named}: {answer:?}");
    assert!(answer.detail().contains(named), "{}", answer.detail());
    assert_eq!(answer.links("http://www.w3.org/ns/ldp#constrainedBy"), [format!("{ROOT}fcr:constraints")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_no_child_named_is_refused_and_a_former_one_does_no_harm() {
    let fixture = with_book().await;
    fixture.make("/rest/proxies", "IndirectContainer", &format!("{PREFIX}{INDIRECT}")).await;
    for n in 1..=3 {
        let named = format!("<> dc:references <http://example.org/page/{n}> .");
        assert_eq!(put(&fixture, &format!("/rest/proxies/{n}"), &named).await.status, StatusCode::CREATED);
    }
    let book = fixture.get("/rest/book").await;
    assert!(book.says("<book> dc:hasPart <http://example.org/page/2> ."), "{}", book.text());
    let invented = format!("{} <> <http://purl.org/dc/terms/hasPart> <http://example.org/page/9> .", book.text());
    assert_refused(&fixture.put("/rest/book", &invented).answer().await, "http://example.org/page/9");
    let lenient = fixture.put("/rest/book", &invented).header("prefer", "handling=lenient").answer().await;
    assert_eq!(lenient.status, StatusCode::NO_CONTENT);
    assert!(!fixture.get("/rest/book").await.text().contains("page/9"));
    // Statements that a client was sent do no harm, even if a child is gone since.
    fixture.ask(Method::DELETE, "/rest/proxies/2").answer().await;
    for path in ["/rest/book", "/rest/proxies"] {
        let sent =
            if path == "/rest/book" { book.text().to_owned() } else { fixture.get(path).await.text().to_owned() };
        let unchanged = fixture.put(path, &sent).answer().await;
        assert_eq!(unchanged.status, StatusCode::NO_CONTENT, "{path}: {}", unchanged.text());
    }
    let read = fixture.get("/rest/book").await;
    assert!(read.text().contains("page/1") && !read.text().contains("page/2"), "{}", read.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_two_containers_with_the_same_relation_can_be_sent_back() {
    let fixture = with_book().await;
    let direct = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart .");
    for container in ["pages", "covers"] {
        fixture.make(&format!("/rest/{container}"), "DirectContainer", &direct).await;
        fixture.put(&format!("/rest/{container}/1"), "").answer().await;
    }
    fixture.make("/rest/proxies", "IndirectContainer", &format!("{PREFIX}{INDIRECT}")).await;
    put(&fixture, "/rest/proxies/1", "<> dc:references <http://example.org/x> .").await;
    let book = fixture.get("/rest/book").await;
    assert!(book.says("<book> dc:hasPart <pages/1>, <covers/1>, <http://example.org/x> ."), "{}", book.text());
    let unchanged = fixture.put("/rest/book", book.text()).answer().await;
    assert_eq!(unchanged.status, StatusCode::NO_CONTENT, "{}", unchanged.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_older_than_a_containers_rule_stay_the_clients() {
    let fixture = fixture().await;
    let own = "<book> dc:hasPart <http://example.org/own> .";
    fixture.make("/rest/book", "RDFSource", &format!("{PREFIX}{}", own.replace("<book>", "<>"))).await;
    let direct = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart .");
    fixture.make("/rest/pages", "DirectContainer", &direct).await;
    let patch = |update: &'static str| {
        let ask = fixture.ask(Method::PATCH, "/rest/book").header("content-type", "application/sparql-update");
        ask.body(update).answer()
    };
    let book = fixture.get("/rest/book").await;
    assert_eq!(fixture.put("/rest/book", book.text()).answer().await.status, StatusCode::NO_CONTENT);
    let titled = patch("INSERT DATA { <> <http://purl.org/dc/terms/title> \"t\" }").await;
    assert_eq!(titled.status, StatusCode::NO_CONTENT, "{}", titled.text());
    assert!(fixture.get("/rest/book").await.says(own));
    let gone = patch("DELETE DATA { <> <http://purl.org/dc/terms/hasPart> <http://example.org/own> }").await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT, "{}", gone.text());
    assert!(!fixture.get("/rest/book").await.says(own));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_container_has_no_members() {
    let fixture = with_book().await;
    for (class, rule) in [
        ("DirectContainer", "<> ldp:member <http://example.org/x> ."),
        ("DirectContainer", "<> ldp:membershipResource <book> . <book> ldp:member <http://example.org/x> ."),
        ("DirectContainer", "<> ldp:isMemberOfRelation dc:isPartOf . <http://example.org/x> dc:isPartOf <> ."),
        ("IndirectContainer", "<> ldp:insertedContentRelation dc:references ; ldp:member <http://example.org/x> ."),
    ] {
        let refused = fixture.put("/rest/d", &format!("{PREFIX}{rule}")).of_class(class).answer().await;
        assert_refused(&refused, "http://example.org/x");
        assert_eq!(fixture.get("/rest/d").await.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_can_get_another_rule_together_with_its_consequences() {
    let fixture = with_book().await;
    fixture.make("/rest/pages", "DirectContainer", &format!("{PREFIX}<> ldp:hasMemberRelation dc:hasPart .")).await;
    fixture.put("/rest/pages/1", "").answer().await;
    let other = |member: &str| format!("<> ldp:hasMemberRelation dc:references ; dc:references <{member}> .");
    assert_refused(&put(&fixture, "/rest/pages", &other("pages/2")).await, "pages/2");
    assert_refused(&put(&fixture, "/rest/pages", &other("pages/1#part")).await, "pages/1#part");
    let changed = put(&fixture, "/rest/pages", &other("pages/1")).await;
    assert_eq!(changed.status, StatusCode::NO_CONTENT, "{}", changed.text());
    fixture.ask(Method::DELETE, "/rest/pages/1").answer().await;
    let pages = fixture.get("/rest/pages").await;
    assert!(pages.says("<pages> ldp:hasMemberRelation dc:references .") && !pages.text().contains("pages/1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_would_delete_containment_or_membership_is_refused() {
    let fixture = with_book().await;
    let direct = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart .");
    fixture.make("/rest/pages", "DirectContainer", &direct).await;
    let other_way = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:isMemberOfRelation dc:isPartOf .");
    fixture.make("/rest/covers", "DirectContainer", &other_way).await;
    fixture.put("/rest/pages/1", "").answer().await;
    fixture.put("/rest/covers/1", "").answer().await;
    let patch = |path: &str, update: &str| {
        let update = format!("{}{update}", PREFIX.replace("@prefix", "PREFIX").replace("> .", ">"));
        let ask = fixture.ask(Method::PATCH, path).header("content-type", "application/sparql-update");
        ask.body(update)
    };
    for (path, update, named) in [
        ("/rest/pages", "DELETE DATA { <> ldp:contains <pages/1> }", "ldp#contains> <http://test/rest/pages/1>"),
        ("/rest/pages", "DELETE { <> ldp:contains ?c } WHERE { <> ldp:contains ?c }", "ldp#contains> ?"),
        ("/rest/pages", "DELETE WHERE { ?c ldp:contains <pages/1> }", "ldp#contains>"),
        ("/rest/pages", "DELETE { <> ldp:contains <pages/1> } WHERE { }", "ldp#contains>"),
        ("/rest/pages", "DELETE DATA { <book> dc:hasPart <pages/1> }", "dc/terms/hasPart>"),
        ("/rest/book", "DELETE DATA { <book> dc:hasPart <pages/1> }", "dc/terms/hasPart>"),
        ("/rest/book", "DELETE WHERE { <book> dc:hasPart ?page }", "dc/terms/hasPart> ?"),
        ("/rest/book", "DELETE DATA { <covers/1> dc:isPartOf <book> }", "dc/terms/isPartOf>"),
    ] {
        let before = fixture.get(path).await;
        assert_refused(&patch(path, update).answer().await, named);
        assert_eq!(fixture.get(path).await.body, before.body, "{path}: {update}");
        let lenient = patch(path, update).header("prefer", "handling=lenient").answer().await;
        assert_eq!(lenient.status, StatusCode::NO_CONTENT, "{path}: {update}: {}", lenient.text());
    }
    let others = "DELETE DATA { <book> dc:title \"t\" ; dc:hasPart <pages/9> . <other> ldp:contains <pages/1> } ; \
                  DELETE WHERE { <> dc:isPartOf ?x }";
    let patched = patch("/rest/book", others).answer().await;
    assert_eq!(patched.status, StatusCode::NO_CONTENT, "{}", patched.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_one_part_of_a_resource_is_none_of_another_part() {
    let fixture = with_book().await;
    for part in ["a", "b"] {
        let rule = format!("{PREFIX}<> ldp:membershipResource <book#{part}> ; ldp:hasMemberRelation dc:hasPart .");
        fixture.make(&format!("/rest/{part}"), "DirectContainer", &rule).await;
    }
    fixture.put("/rest/a/1", "").answer().await;
    assert_eq!(put(&fixture, "/rest/book", "<book#a> dc:hasPart <a/1> .").await.status, StatusCode::NO_CONTENT);
    assert_refused(&put(&fixture, "/rest/book", "<book#b> dc:hasPart <a/1> .").await, "book#b");
    let patch = |member: &str| {
        let update = format!("DELETE WHERE {{ ?part <http://purl.org/dc/terms/hasPart> <{member}> }}");
        fixture.ask(Method::PATCH, "/rest/book").header("content-type", "application/sparql-update").body(update)
    };
    assert_refused(&patch("a/1").answer().await, "book#a");
    assert_eq!(patch("a/2").answer().await.status, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_rule_is_refused() {
    let fixture = with_book().await;
    for rule in [
        "<> ldp:membershipResource <a>, <b> .",
        "<> ldp:membershipResource \"a\" .",
        "<> ldp:hasMemberRelation dc:hasPart ; ldp:isMemberOfRelation dc:isPartOf .",
        "<> ldp:hasMemberRelation ldp:contains .",
        "<> ldp:membershipResource <book> ; ldp:isMemberOfRelation ldp:contains .",
        "<> ldp:hasMemberRelation a . ",
        "<> ldp:hasMemberRelation <http://fedora.info/definitions/v4/repository#hasMember> .",
    ] {
        let rule = rule.replace(" a .", " <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> .");
        let refused = fixture.put("/rest/d", &format!("{PREFIX}{rule}")).of_class("DirectContainer").answer().await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{rule}");
        assert!(refused.detail().contains("ldp#"), "{}", refused.detail());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_cannot_change_its_membership_to_containment() {
    let fixture = with_book().await;
    fixture.make("/rest/pages", "DirectContainer", &format!("{PREFIX}<> ldp:hasMemberRelation ldp:member .")).await;
    let refused = put(&fixture, "/rest/pages", "<> ldp:hasMemberRelation ldp:contains .").await;
    assert_refused(&refused, "hasMemberRelation");
    let update = "INSERT DATA { <> <http://www.w3.org/ns/ldp#hasMemberRelation> <http://www.w3.org/ns/ldp#contains> } ; \
                  DELETE DATA { <> <http://www.w3.org/ns/ldp#hasMemberRelation> <http://www.w3.org/ns/ldp#member> }";
    let patch = fixture.ask(Method::PATCH, "/rest/pages").header("content-type", "application/sparql-update");
    assert_refused(&patch.body(update).answer().await, "hasMemberRelation");
}

/// A container with this rule gives the book members, wherever it is.
const OF_BOOK: &str = "<> ldp:membershipResource </rest/book> ; ldp:hasMemberRelation dc:hasPart .";

/// The path of a container that gave the book members.
fn former(n: usize) -> ResourcePath {
    format!("was/{n}").parse().unwrap()
}

/// Puts the records of so many such containers. They stay when the containers are deleted.
async fn record_former(fixture: &Fixture, count: usize) {
    let book = "book".parse().unwrap();
    let row = |sort: Bytes| NewRow::new(sort, envelope::seal(ValueKind::Backlink, &[]));
    let put = |partition: Bytes, rows: Vec<NewRow>| Step::Put { table: Table::Objects, partition, rows };
    let (mut buckets, mut steps) = (BTreeSet::new(), Vec::new());
    for path in (0..count).map(former) {
        let bucket = shard_of(path.as_str(), BUCKETS);
        buckets.insert(bucket);
        steps.push(put(keys::backlinks(Link::Members, &book, bucket), vec![row(keys::backlink(&path))]));
    }
    let listed = buckets.into_iter().map(|bucket| row(keys::bucket(bucket))).collect();
    steps.push(put(keys::backlink_buckets(Link::Members, &book), listed));
    let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(60)));
    assert!(matches!(fixture.library.store().run(call, steps).await.unwrap(), Outcome::Applied));
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_containers_give_members_to_a_resource_and_no_more() {
    let fixture = with_book().await;
    record_former(&fixture, GIVING_MAX - 1).await;
    let rule = format!("{PREFIX}{OF_BOOK}");
    let make = |path: &str| fixture.put(path, &rule).of_class("DirectContainer");
    fixture.make("/rest/pages", "DirectContainer", &rule).await;
    fixture.make("/rest/own", "DirectContainer", "").await;
    fixture.put("/rest/pages/1", "").answer().await;

    let full = format!("{GIVING_MAX} containers give members to /book");
    assert_refused(&make("/rest/more").answer().await, &full);
    assert_refused(&fixture.post("/rest/", &rule).of_class("DirectContainer").answer().await, &full);
    assert_refused(&put(&fixture, "/rest/own", OF_BOOK).await, &full);
    let begun = fixture.ask(Method::POST, "/rest/fcr:tx").answer().await;
    let transaction = begun.header("location").unwrap();
    assert_refused(&make("/rest/more").header("atomic-id", transaction).answer().await, &full);
    let own = fixture.put("/rest/own", &rule).header("atomic-id", transaction);
    assert_refused(&own.answer().await, &full);
    assert_eq!(fixture.get("/rest/more").await.status, StatusCode::NOT_FOUND);
    assert!(fixture.get("/rest/own").await.says("<own> ldp:membershipResource <own> ."));

    // Those that are recorded already can change, and be made again.
    let titled = put(&fixture, "/rest/pages", &format!("{OF_BOOK} <> dc:title \"P\" .")).await;
    assert_eq!(titled.status, StatusCode::NO_CONTENT, "{}", titled.text());
    let again = format!("/rest/{}", former(0));
    fixture.make(&again, "DirectContainer", &rule).await;
    fixture.put(&format!("{again}/1"), "").answer().await;
    let book = fixture.get("/rest/book").await;
    assert!(book.says("<book> dc:hasPart <pages/1>, <was/0/1> ."), "{}", book.text());
    let rules = fixture.get("/rest/fcr:constraints").await;
    assert!(rules.text().contains(&format!("At most {GIVING_MAX} containers")), "{}", rules.text());
}

/// The containers of the test below.
const TOGETHER: usize = 4;

/// A store that sends the heads of the containers only once all of them are asked for, and when
/// their contents changed likewise.
struct Together {
    inner: Arc<dyn Store>,
    heads: Barrier,
    changes: Barrier,
    /// How many heads were asked for.
    asked: AtomicUsize,
}

impl Wrapper for Together {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        let prefix = keys::resource_partition(&"pages".parse().unwrap());
        if keys.iter().any(|(partition, _)| partition.starts_with(&prefix)) {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.heads.wait().await;
        }
        self.inner.get_many(call, table, keys).await
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        if scans.iter().any(|(table, ..)| *table == Table::Children) {
            self.changes.wait().await;
        }
        self.inner.scan_many(call, scans).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_containers_that_give_members_are_read_together_and_only_for_clients_that_want_members() {
    let fixture = with_book().await;
    for n in 0..TOGETHER {
        fixture.make(&format!("/rest/pages{n}"), "DirectContainer", &format!("{PREFIX}{OF_BOOK}")).await;
    }
    let [heads, changes] = [(); 2].map(|()| Barrier::new(TOGETHER));
    let inner = fixture.library.store().clone();
    let store = Arc::new(Together { inner, heads, changes, asked: AtomicUsize::new(0) });
    let library = Library::open(store.clone(), fixture.clock.clone(), LibraryOptions::default()).await.unwrap();
    let Routes { read, write } = routes(Arc::new(LdpDoor::new(library.clone(), LdpSettings::default())));
    let fixture = Fixture { router: read.merge(write), library, ..fixture };
    // One that is asked for alone is never sent.
    let soon = async |prefer: &str| {
        let ask = fixture.ask(Method::HEAD, "/rest/book").header("prefer", prefer);
        tokio::time::timeout(Duration::from_secs(30), ask.answer()).await.expect("they are read one by one").status
    };
    let without = "return=representation; omit=\"http://www.w3.org/ns/ldp#PreferMembership\"";
    assert_eq!(soon(without).await, StatusCode::OK);
    assert_eq!(store.asked.load(Ordering::SeqCst), 0);
    assert_eq!(soon("return=representation").await, StatusCode::OK);
    assert_eq!(store.asked.load(Ordering::SeqCst), TOGETHER);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tag_of_a_resource_changes_with_the_rules_of_the_containers_that_give_it_members() {
    let fixture = with_book().await;
    for container in ["pages", "covers"] {
        fixture.make(&format!("/rest/{container}"), "DirectContainer", &format!("{PREFIX}{OF_BOOK}")).await;
        fixture.put(&format!("/rest/{container}/1"), "").answer().await;
    }
    let known = async |tag: String| {
        let ask = fixture.ask(Method::GET, "/rest/book").header("if-none-match", &tag);
        ask.answer().await.status == StatusCode::NOT_MODIFIED
    };
    let before = fixture.get("/rest/book").await;
    assert!(before.says("<book> dc:hasPart <pages/1>, <covers/1> .") && known(before.etag()).await);
    put(&fixture, "/rest/pages", &OF_BOOK.replace("dc:hasPart", "dc:references")).await;
    assert!(!known(before.etag()).await);
    let changed = fixture.get("/rest/book").await;
    assert!(changed.says("<book> dc:references <pages/1> ; dc:hasPart <covers/1> ."), "{}", changed.text());
    fixture.ask(Method::DELETE, "/rest/pages").answer().await;
    assert!(!known(changed.etag()).await);
    let left = fixture.get("/rest/book").await;
    assert!(left.says("<book> dc:hasPart <covers/1> .") && !left.text().contains("pages/1"), "{}", left.text());
    assert!(known(left.etag()).await && !known(before.etag()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_children_of_several_containers_name_can_be_sent_back() {
    let fixture = with_book().await;
    for container in ["first", "second"] {
        fixture.make(&format!("/rest/{container}"), "IndirectContainer", &format!("{PREFIX}{INDIRECT}")).await;
        let named = format!("<> dc:references <http://example.org/{container}> .");
        assert_eq!(put(&fixture, &format!("/rest/{container}/1"), &named).await.status, StatusCode::CREATED);
    }
    let book = fixture.get("/rest/book").await;
    let named = "<book> dc:hasPart <http://example.org/first>, <http://example.org/second> .";
    assert!(book.says(named), "{}", book.text());
    let unchanged = fixture.put("/rest/book", book.text()).answer().await;
    assert_eq!(unchanged.status, StatusCode::NO_CONTENT, "{}", unchanged.text());
    let invented = format!("{} <> <http://purl.org/dc/terms/hasPart> <http://example.org/third> .", book.text());
    assert_refused(&fixture.put("/rest/book", &invented).answer().await, "http://example.org/third");
    let patch = |member: &str| {
        let update = format!("DELETE DATA {{ <> <http://purl.org/dc/terms/hasPart> <http://example.org/{member}> }}");
        fixture.ask(Method::PATCH, "/rest/book").header("content-type", "application/sparql-update").body(update)
    };
    for member in ["first", "second"] {
        assert_refused(&patch(member).answer().await, member);
    }
    assert_eq!(patch("third").answer().await.status, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_members_with_long_iris_ends_early_and_both_ways_lead_to_each_of_them() {
    // Each page has four of them, with 324 bytes each.
    let fixture = fixture_keeping(LibraryOptions { listing_bytes: 1_000, ..LibraryOptions::default() }).await;
    fixture.make("/rest/book", "RDFSource", "").await;
    fixture.make("/rest/proxies", "IndirectContainer", &format!("{PREFIX}{INDIRECT}")).await;
    for n in 10..28 {
        let named = format!("<> dc:references <http://example.org/{}/{n}> .", "x".repeat(300));
        assert_eq!(put(&fixture, &format!("/rest/proxies/{n}"), &named).await.status, StatusCode::CREATED);
    }
    let page_at = async |address: &str| {
        let page = fixture.get(address.trim_start_matches("http://test")).await;
        let children = page.objects(&format!("{ROOT}proxies"), "contains");
        assert_eq!(page.text().matches("http://example.org/").count(), children.len(), "{}", page.text());
        (page, children)
    };
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let (mut next, mut last) = (Some("/rest/proxies?limit=10000".to_owned()), None);
    while let Some(address) = next {
        let (page, children) = page_at(&address).await;
        assert_eq!(page.links("prev").is_empty(), there.is_empty());
        there.push(children);
        next = page.links("next").pop();
        last = page.links("last").pop();
    }
    let mut before = last;
    while let Some(address) = before {
        let (page, children) = page_at(&address).await;
        assert_eq!(page.links("next").is_empty(), back.is_empty());
        back.push(children);
        before = page.links("prev").pop();
    }
    for pages in [&there, &back] {
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4, 4, 2]);
        let mut all = pages.concat();
        all.sort();
        assert_eq!(all, (10..28).map(|n| format!("{ROOT}proxies/{n}")).collect::<Vec<_>>());
    }
    let book = fixture.get("/rest/book").await;
    assert_eq!(book.text().matches("http://example.org/").count(), 18, "{}", book.text());
}

/// A rule of a container with a relation of so many bytes, about.
fn long_rule(relation_bytes: usize) -> String {
    let relation = format!("<http://example.org/{}>", "x".repeat(relation_bytes));
    format!("{PREFIX}<> ldp:membershipResource </rest/book> ; ldp:hasMemberRelation {relation} .")
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_repeat_a_long_relation_are_sent_in_pieces() {
    let fixture = with_book().await;
    fixture.make("/rest/pages", "DirectContainer", &long_rule(50_000)).await;
    for n in 0..60 {
        fixture.put(&format!("/rest/pages/{n}"), "").answer().await;
    }
    for path in ["/rest/pages", "/rest/pages?limit=100", "/rest/book"] {
        let ask = fixture.ask(Method::GET, path).header("accept", "application/n-triples");
        let mut pieces = ask.response().await.into_body().into_data_stream();
        let (mut bytes, mut largest) = (0, 0);
        while let Some(piece) = pieces.next().await {
            let piece_bytes = piece.unwrap().len();
            (bytes, largest) = (bytes + piece_bytes, largest.max(piece_bytes));
        }
        assert!(bytes > 60 * 50_000 && largest < 1_500_000, "{path}: {largest} of {bytes} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_there_is_too_little_memory_for_many_long_rules_their_resource_is_not_read_or_changed() {
    const MEMORY_BYTES: u64 = 8 << 20;
    let fixture = fixture_keeping(LibraryOptions { memory_bytes: MEMORY_BYTES, ..LibraryOptions::default() }).await;
    fixture.make("/rest/book", "RDFSource", "").await;
    for n in 0..8 {
        fixture.make(&format!("/rest/c{n}"), "DirectContainer", &long_rule(60_000)).await;
    }
    let memory = &fixture.library.memory;
    assert_eq!(memory.taken_bytes(), 0);
    let others = memory.try_reserve(&Party::Local, Memory::largest_share(MEMORY_BYTES) - (600 << 10)).unwrap();
    let requests = [
        (Method::GET, "*/*", "", StatusCode::OK),
        (Method::HEAD, "*/*", "", StatusCode::OK),
        (Method::PUT, "text/turtle", "<> <http://example.org/p> 1 .", StatusCode::NO_CONTENT),
        (
            Method::PATCH,
            "application/sparql-update",
            "INSERT DATA { <> <http://example.org/p> 2 }",
            StatusCode::NO_CONTENT,
        ),
    ];
    let ask = |method: &Method, media_type: &str, body: &'static str| {
        fixture.ask(method.clone(), "/rest/book").header("content-type", media_type).body(body).answer()
    };
    for (method, media_type, body, _) in requests.clone() {
        let refused = ask(&method, media_type, body).await;
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{method}");
        assert!(refused.header("retry-after").is_some(), "{method}: {refused:?}");
    }
    drop(others);
    for (method, media_type, body, status) in requests {
        assert_eq!(ask(&method, media_type, body).await.status, status, "{method}");
        assert_eq!(memory.taken_bytes(), 0, "{method}");
    }
}
