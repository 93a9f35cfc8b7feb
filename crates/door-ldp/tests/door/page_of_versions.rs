//! The page of the versions of a resource: what happened, newest first, a page at a time, and the
//! form that compares two versions.

use std::sync::LazyLock;
use std::time::Duration;

use axum::Extension;
use door_http::ReadsOnly;
use door_ldp::LdpSettings;
use heads::{History, Keep, LibraryOptions};
use http::{Method, StatusCode};

use crate::pages::{page, put_bytes};
use crate::support::*;

const DAY: Duration = Duration::from_secs(86_400);

/// Versions of a resource with several pages of them. On the embedded engine the log of heads has
/// more than one page too.
static MANY: LazyLock<usize> = LazyLock::new(|| if on_cassandra() { 110 } else { 1_100 });

/// The parts of a text between two others, in their order.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    text.split(begin).skip(1).map(|rest| rest.split(end).next().unwrap()).collect()
}

/// The names of the versions of a page, from top to bottom.
fn names(page: &Reply) -> Vec<String> {
    between(page.text(), "<code>", "</code>").into_iter().map(str::to_owned).collect()
}

/// The address in a link of a relation type.
fn link(page: &Reply, rel: &str) -> Option<String> {
    let links = between(page.text(), &format!("rel=\"{rel}\" href=\""), "\"");
    links.first().map(|link| link.replace("&amp;", "&"))
}

async fn put_text(fixture: &Fixture, path: &str, text: &str) {
    let put = fixture.ask(Method::PUT, path).header("content-type", "text/plain").body(text.to_owned());
    assert_eq!(put.answer().await.status, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_is_listed_newest_first_and_by_day() {
    let fixture = fixture().await;
    put_bytes(&fixture, "/rest/b", "text/plain", "four").await;
    fixture.clock.advance(Duration::from_secs(5));
    put_text(&fixture, "/rest/b", &"x".repeat(2_000)).await;
    fixture.clock.advance(DAY);
    let described = fixture.put("/rest/b/fcr:metadata", "<http://test/rest/b> <http://a/p> 1 .").answer().await;
    assert_eq!(described.status, StatusCode::NO_CONTENT, "{}", described.text());
    fixture.clock.advance(Duration::from_secs(5));
    assert_eq!(fixture.ask(Method::POST, "/rest/b/fcr:versions").answer().await.status, StatusCode::CREATED);
    fixture.clock.advance(Duration::from_secs(5));
    assert_eq!(fixture.ask(Method::DELETE, "/rest/b").answer().await.status, StatusCode::NO_CONTENT);
    let deleted = page(&fixture, "/rest/b/fcr:versions").await;
    assert!(!deleted.text().contains(">current<"), "nothing is there: {}", deleted.text());
    assert_eq!(deleted.text().matches(">Restore</a>").count(), 4, "each can be brought back: {}", deleted.text());
    let form = fixture.get("/rest/b/fcr:forms?restore=20250615150640").await;
    let says = "The version <code>20250615150640</code> becomes the current state.";
    assert!(form.text().contains(says), "{}", form.text());

    fixture.clock.advance(DAY);
    let restored = fixture.ask(Method::POST, "/rest/b/fcr:versions?restore=").answer().await;
    assert_eq!(restored.status, StatusCode::CREATED, "{}", restored.text());
    let page = page(&fixture, "/rest/b/fcr:versions").await;
    assert_eq!(between(page.text(), "<h2>", "</h2>"), ["17 June 2025", "16 June 2025", "15 June 2025"]);
    assert_eq!(
        between(page.text(), "class=\"what\">", "</span>"),
        ["Created or brought back", "Deleted", "Version made", "Description changed", "Bytes changed", "Created",]
    );
    let clocks = between(page.text(), "Z\">", "</time>");
    let expected = ["15:06:55 UTC", "15:06:55 UTC", "15:06:50 UTC", "15:06:45 UTC", "15:06:45 UTC", "15:06:40 UTC"];
    assert_eq!(clocks, expected, "{}", page.text());
    assert_eq!(between(page.text(), "</code> · ", "<"), ["2.0 kB", "2.0 kB", "2.0 kB", "2.0 kB", "4 B"]);
    assert_eq!(page.text().matches(">current<").count(), 1);
    assert_eq!(page.text().matches(">Restore</a>").count(), 4, "all but the current one: {}", page.text());
    assert_eq!(page.text().matches(">Compare with the newest</a>").count(), 4);
    for text in ["Compare with the newest", "Choose", "Restore"] {
        let label = format!("aria-label=\"{text}: version 20250615150640\"");
        assert_eq!(page.text().matches(&label).count(), 1, "{label}: {}", page.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_lead_to_older_and_newer_versions_and_have_all_of_them() {
    let fixture = fixture().await;
    fixture.make("/rest/x", "RDFSource", "").await;
    // Some begin in the same second.
    for number in 1..*MANY {
        if number % 3 == 0 {
            fixture.clock.advance(Duration::from_millis(700));
        }
        let put = fixture.put("/rest/x", &format!("<> <http://a/p> {number} .")).answer().await;
        assert_eq!(put.status, StatusCode::NO_CONTENT);
    }
    let map = fixture.ask(Method::GET, "/rest/x/fcr:versions?limit=2000").header("accept", "application/link-format");
    let map = map.answer().await;
    let mut all: Vec<_> = between(map.text(), "/fcr:versions/", ">").into_iter().map(str::to_owned).collect();
    all.reverse();
    assert_eq!(all.len(), *MANY);

    let limit = *MANY * 4 / 11;
    let mut down = vec![page(&fixture, &format!("/rest/x/fcr:versions?limit={limit}")).await];
    while let Some(older) = link(down.last().unwrap(), "next") {
        assert_eq!(down.last().unwrap().links("next"), [format!("http://test{older}")]);
        down.push(page(&fixture, &older).await);
    }
    assert_eq!(down.iter().map(|page| names(page).len()).collect::<Vec<_>>(), [limit, limit, *MANY - 2 * limit]);
    assert_eq!(down.iter().flat_map(names).collect::<Vec<_>>(), all);
    let mut up = vec![down.pop().unwrap()];
    while let Some(newer) = link(up.last().unwrap(), "prev") {
        assert_eq!(up.last().unwrap().links("prev"), [format!("http://test{newer}")]);
        up.push(page(&fixture, &newer).await);
    }
    up.reverse();
    assert_eq!(up.iter().flat_map(names).collect::<Vec<_>>(), all);

    assert_eq!(names(&page(&fixture, "/rest/x/fcr:versions").await).len(), 100);
    assert_eq!(names(&page(&fixture, "/rest/x/fcr:versions?limit=10000").await).len(), MANY.min(500));
    let some = page(&fixture, &format!("/rest/x/fcr:versions?from={}&until={}", all[20], all[11])).await;
    assert_eq!(names(&some), all[11..=20]);
    let none = page(&fixture, "/rest/x/fcr:versions?until=20000101000000").await;
    assert!(none.text().contains("There are no versions here.") && link(&none, "prev").is_some(), "{}", none.text());

    // A description of bytes has the versions of bytes, whatever was there before, and after.
    for tombstone in ["/rest/x", "/rest/x/fcr:tombstone"] {
        assert_eq!(fixture.ask(Method::DELETE, tombstone).answer().await.status, StatusCode::NO_CONTENT);
    }
    put_bytes(&fixture, "/rest/x", "text/plain", "bytes").await;
    let of_bytes = page(&fixture, "/rest/x/fcr:metadata/fcr:versions").await;
    assert_eq!((names(&of_bytes).len(), link(&of_bytes, "next")), (1, None), "{}", of_bytes.text());
    assert!(!of_bytes.text().contains(">Deleted<"), "{}", of_bytes.text());
    let of_all = page(&fixture, "/rest/x/fcr:versions").await;
    assert!(of_all.text().contains(">Deleted<") && link(&of_all, "next").is_some(), "{}", of_all.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_was_chosen_is_compared_with_one_on_another_page() {
    let fixture = fixture().await;
    fixture.make("/rest/x", "RDFSource", "<> <http://a/p> \"first\" .").await;
    for text in ["second", "third", "fourth"] {
        fixture.clock.advance(Duration::from_secs(5));
        let put = fixture.put("/rest/x", &format!("<> <http://a/p> \"{text}\" .")).answer().await;
        assert_eq!(put.status, StatusCode::NO_CONTENT);
    }
    let first = page(&fixture, "/rest/x/fcr:versions?limit=2").await;
    let choose = between(first.text(), "<a href=\"", "</a>").into_iter().find(|link| link.contains(">Choose"));
    let choose = choose.unwrap().split('"').next().unwrap().replace("&amp;", "&");
    assert_eq!(choose, "/rest/x/fcr:versions?older=20250615150655&limit=2");
    let chosen = page(&fixture, &choose).await;
    assert!(chosen.text().contains("You chose the version of"), "{}", chosen.text());
    assert_eq!(chosen.text().matches("name=\"older\"").count(), 1, "it is not marked again: {}", chosen.text());
    assert_eq!(chosen.text().matches("type=\"radio\"").count(), 1, "there is one other: {}", chosen.text());
    assert_eq!(chosen.text().matches("checked").count(), 1);

    let older = page(&fixture, &link(&chosen, "next").unwrap()).await;
    assert!(
        older.text().contains("<input type=\"hidden\" name=\"older\" value=\"20250615150655\">"),
        "{}",
        older.text()
    );
    assert_eq!(between(older.text(), "name=\"newer\" value=\"", "\""), ["20250615150645", "20250615150640"]);
    let compared = page(&fixture, "/rest/x/fcr:versions?older=20250615150655&newer=20250615150640").await;
    let (removed, added) = compared.text().split_once("Added statements").unwrap();
    assert!(removed.contains("first") && added.contains("fourth"), "{}", compared.text());
    let none = older.text().split("\">Choose none").next().unwrap().rsplit("href=\"").next().unwrap();
    let none = &none.replace("&amp;", "&");
    assert!(!page(&fixture, none).await.text().contains("You chose"), "{none}");

    for (query, status) in [
        ("older=20200101000000", StatusCode::NOT_FOUND),
        ("older=%3Cimg%3E", StatusCode::BAD_REQUEST),
        ("older=20250615150640&older=20250615150640", StatusCode::BAD_REQUEST),
        ("limit=0", StatusCode::BAD_REQUEST),
    ] {
        let asked = fixture.ask(Method::GET, &format!("/rest/x/fcr:versions?{query}")).header("accept", "text/html");
        assert_eq!(asked.answer().await.status, status, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_versions_has_a_tag_and_offers_readers_nothing_to_restore() {
    let fixture = fixture().await;
    fixture.make("/rest/x", "RDFSource", "").await;
    fixture.clock.advance(Duration::from_secs(5));
    assert_eq!(fixture.put("/rest/x", "<> <http://a/p> 1 .").answer().await.status, StatusCode::NO_CONTENT);
    let of_writer = page(&fixture, "/rest/x/fcr:versions").await;
    assert!(of_writer.text().contains(">Restore</a>"), "{}", of_writer.text());
    let ask = |method: Method| fixture.ask(method, "/rest/x/fcr:versions").header("accept", "text/html");
    let again = ask(Method::GET).header("if-none-match", &of_writer.etag()).answer().await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);
    let head = ask(Method::HEAD).answer().await;
    assert_eq!((head.status, head.body.len(), head.etag()), (StatusCode::OK, 0, of_writer.etag()));
    // Versions may leave the page without a new one, so it has no date.
    for (name, time) in [("if-modified-since", "15:07:00"), ("if-unmodified-since", "15:00:00")] {
        let dated = ask(Method::GET).header(name, &format!("Sun, 15 Jun 2025 {time} GMT")).answer().await;
        assert_eq!((dated.status, dated.header("last-modified")), (StatusCode::OK, None), "{name}");
    }

    let reader = Fixture { router: fixture.router.clone().layer(Extension(ReadsOnly)), ..fixture };
    let of_reader = page(&reader, "/rest/x/fcr:versions").await;
    assert!(!of_reader.text().contains(">Restore</a>"), "{}", of_reader.text());
    assert_ne!(of_reader.etag(), of_writer.etag());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_lists_explicit_versions_only_where_versions_are_explicit() {
    let history = History { resources: Keep::Explicit, ..History::default() };
    let fixture = fixture_keeping(LibraryOptions { history, ..LibraryOptions::default() }).await;
    fixture.make("/rest/x", "RDFSource", "").await;
    let none = page(&fixture, "/rest/x/fcr:versions").await;
    assert!(none.text().contains("There are no versions here."), "{}", none.text());
    fixture.clock.advance(Duration::from_secs(5));
    assert_eq!(fixture.ask(Method::POST, "/rest/x/fcr:versions").answer().await.status, StatusCode::CREATED);
    fixture.clock.advance(Duration::from_secs(5));
    assert_eq!(fixture.put("/rest/x", "<> <http://a/p> 1 .").answer().await.status, StatusCode::NO_CONTENT);
    let one = page(&fixture, "/rest/x/fcr:versions").await;
    assert_eq!(names(&one), ["20250615150645"]);
    assert!(one.text().contains(">Restore</a>") && !one.text().contains(">current<"), "{}", one.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_versions_are_explicit_the_page_says_that_one_was_restored() {
    let history = History { resources: Keep::Explicit, ..History::default() };
    let fixture = fixture_keeping(LibraryOptions { history, ..LibraryOptions::default() }).await;
    put_bytes(&fixture, "/rest/b", "text/plain", "one").await;
    let make = async |path: &str| {
        fixture.clock.advance(Duration::from_secs(5));
        let made = fixture.ask(Method::POST, path).answer().await;
        assert_eq!(made.status, StatusCode::CREATED, "{path}: {}", made.text());
    };
    make("/rest/b/fcr:versions").await;
    put_text(&fixture, "/rest/b", "two").await;
    make("/rest/b/fcr:versions").await;
    make("/rest/b/fcr:versions?restore=20250615150645").await;
    assert_eq!(fixture.get("/rest/b").await.text(), "one");
    let page = page(&fixture, "/rest/b/fcr:versions").await;
    assert_eq!(
        between(page.text(), "class=\"what\">", "</span>"),
        ["Restored", "Version made", "Version made"],
        "{}",
        page.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_says_which_earlier_version_is_the_same_unless_it_is_the_one_just_before() {
    let fixture = fixture().await;
    put_bytes(&fixture, "/rest/b", "text/plain", "one").await;
    for text in ["two", "one", "three"] {
        fixture.clock.advance(Duration::from_secs(5));
        put_text(&fixture, "/rest/b", text).await;
    }
    fixture.clock.advance(Duration::from_secs(5));
    assert_eq!(fixture.ask(Method::POST, "/rest/b/fcr:versions").answer().await.status, StatusCode::CREATED);
    let of_bytes = page(&fixture, "/rest/b/fcr:versions").await;
    let same = between(of_bytes.text(), "The same as version ", "</li>");
    assert_eq!(same.len(), 1, "{}", of_bytes.text());
    assert!(same[0].contains(">20250615150640</a>"), "{}", same[0]);

    // What is in a container may differ.
    fixture.make("/rest/c", "BasicContainer", "<> <http://a/p> 1 .").await;
    for number in [2, 1] {
        fixture.clock.advance(Duration::from_secs(5));
        let put = fixture.put("/rest/c", &format!("<> <http://a/p> {number} .")).answer().await;
        assert_eq!(put.status, StatusCode::NO_CONTENT, "{}", put.text());
    }
    let of_container = page(&fixture, "/rest/c/fcr:versions").await;
    assert_eq!(names(&of_container).len(), 3);
    assert!(!of_container.text().contains("The same as"), "{}", of_container.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_was_deleted_is_not_on_the_page() {
    let fixture = fixture_with(LdpSettings { delete_versions: true, ..LdpSettings::default() }).await;
    fixture.make("/rest/x", "RDFSource", "").await;
    for number in 0..2 {
        fixture.clock.advance(Duration::from_secs(5));
        let put = fixture.put("/rest/x", &format!("<> <http://a/p> {number} .")).answer().await;
        assert_eq!(put.status, StatusCode::NO_CONTENT);
    }
    let before = page(&fixture, "/rest/x/fcr:versions").await;
    assert_eq!(names(&before), ["20250615150650", "20250615150645", "20250615150640"]);
    let removed = fixture.ask(Method::DELETE, "/rest/x/fcr:versions/20250615150645").answer().await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT, "{}", removed.text());
    let after = page(&fixture, "/rest/x/fcr:versions").await;
    assert_eq!(names(&after), ["20250615150650", "20250615150640"]);
    assert_ne!(after.etag(), before.etag());
}

/// The addresses of the members that a page lists, from top to bottom.
fn members(page: &Reply) -> Vec<String> {
    let rows = between(page.text(), "<th scope=\"row\">", "</th>").into_iter();
    rows.filter_map(|row| row.split('"').nth(1)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_version_of_a_container_has_its_members_as_they_were_then() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    fixture.make("/rest/c/d", "BasicContainer", "").await;
    fixture.make("/rest/c/x", "RDFSource", "<> <http://purl.org/dc/terms/title> \"<i>Old\" .").await;
    put_bytes(&fixture, "/rest/c/b", "text/plain", "four").await;
    fixture.clock.advance(Duration::from_secs(60));
    put_text(&fixture, "/rest/c/b", "longer").await;
    let put = fixture.put("/rest/c/x", "<> <http://purl.org/dc/terms/title> \"New\" .").answer().await;
    assert_eq!(put.status, StatusCode::NO_CONTENT, "{}", put.text());
    fixture.make("/rest/c/d/e", "RDFSource", "").await;
    fixture.make("/rest/c/later", "RDFSource", "").await;
    fixture.clock.advance(Duration::from_secs(60));
    assert_eq!(fixture.ask(Method::DELETE, "/rest/c/x").answer().await.status, StatusCode::NO_CONTENT);

    let then = "/rest/c/fcr:versions/20250615150700";
    let all = page(&fixture, then).await;
    let mut listed = members(&all);
    listed.sort();
    let name = "fcr:versions/20250615150640";
    let of_file = format!("/rest/c/b/fcr:metadata/{name}");
    let expected = [of_file.as_str(), "/rest/c/d/fcr:versions/20250615150700", &format!("/rest/c/x/{name}")];
    assert_eq!(listed, expected, "{}", all.text());
    for part in ["<h1>/c, Sun, 15 Jun 2025 15:07:00 GMT</h1>", "<dt>Kind</dt>", "&lt;i&gt;Old", "4 B", "text/plain"] {
        assert!(all.text().contains(part), "{part} is not in {}", all.text());
    }
    assert!(!all.text().contains(">New<") && !all.text().contains("/rest/c/later"), "{}", all.text());
    assert_eq!(all.header("etag"), None, "versions of members may be removed later");
    assert!(page(&fixture, &of_file).await.text().contains(">four</pre>"));
    let within = page(&fixture, "/rest/c/d/fcr:versions/20250615150700").await;
    assert!(within.text().contains("This container was empty."), "{}", within.text());
    let within = page(&fixture, "/rest/c/d/fcr:versions/20250615150750").await;
    assert_eq!(members(&within), ["/rest/c/d/e/fcr:versions/20250615150740"], "{}", within.text());

    let first = page(&fixture, &format!("{then}?limit=2")).await;
    let second = page(&fixture, &link(&first, "next").unwrap()).await;
    assert_eq!([members(&first), members(&second)].concat(), members(&all));
    assert!(!second.text().contains("<dt>Kind</dt>") && link(&second, "next").is_none(), "{}", second.text());
    let back = page(&fixture, &link(&second, "prev").unwrap()).await;
    assert_eq!((members(&back), link(&back, "prev")), (members(&first), None));
    let end = page(&fixture, &format!("{then}?after=100000")).await;
    assert!(end.text().contains("There are no more."), "{}", end.text());
    for wrong in ["limit=0", "limit=201", "after=x", "after=100001", "After=1"] {
        let refused = fixture.ask(Method::GET, &format!("{then}?{wrong}")).header("accept", "text/html");
        assert_eq!(refused.answer().await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let head = fixture.ask(Method::HEAD, then).header("accept", "text/html").answer().await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_version_names_members_of_which_nothing_is_shown_and_containers_that_gave_members() {
    let fixture = fixture_with(LdpSettings { deleted_versions: false, ..LdpSettings::default() }).await;
    fixture.make("/rest/book", "RDFSource", "").await;
    let direct = "<> <http://www.w3.org/ns/ldp#membershipResource> </rest/book> ;
        <http://www.w3.org/ns/ldp#hasMemberRelation> <http://purl.org/dc/terms/hasPart> .";
    fixture.make("/rest/parts", "DirectContainer", direct).await;
    fixture.make("/rest/parts/p", "RDFSource", "<> <http://purl.org/dc/terms/title> \"Hidden\" .").await;
    fixture.clock.advance(Duration::from_secs(60));
    assert_eq!(fixture.ask(Method::DELETE, "/rest/parts/p").answer().await.status, StatusCode::NO_CONTENT);
    let parts = page(&fixture, "/rest/parts/fcr:versions/20250615150700").await;
    assert!(parts.text().contains("<th scope=\"row\">p</th><td>not kept</td>"), "{}", parts.text());
    assert!(!parts.text().contains("Hidden"), "{}", parts.text());
    let version = fixture.ask(Method::POST, "/rest/book/fcr:versions").answer().await;
    assert_eq!(version.status, StatusCode::CREATED, "{}", version.text());
    let book = page(&fixture, "/rest/book/fcr:versions/20250615150740").await;
    let leads = "Its members were in <a href=\"/rest/parts\">/parts</a>";
    assert!(book.text().contains(leads) && !book.text().contains("hasPart"), "{}", book.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_version_of_a_container_says_where_its_members_are_not_kept() {
    let history = History { resources: Keep::Newest(5), ..History::default() };
    let fixture = fixture_keeping(LibraryOptions { history, ..LibraryOptions::default() }).await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    fixture.make("/rest/c/x", "RDFSource", "").await;
    let page = page(&fixture, "/rest/c/fcr:versions/20250615150640").await;
    assert!(page.text().contains("What was in it then is not kept."), "{}", page.text());
    assert!(members(&page).is_empty(), "{}", page.text());
}
