//! Versions with stated times (Fedora API, section 4.3.3), where the operator allows them.

use std::time::Duration;

use door_ldp::LdpSettings;
use heads::{History, Keep, LibraryOptions};
use http::{Method, StatusCode};

use crate::archives::entries;
use crate::support::{Fixture, LDP, ROOT, Reply, fixture_of, fixture_with};

const TITLE: &str = "http://purl.org/dc/terms/title";

/// Twenty seconds after the first change.
const BETWEEN: &str = "Sun, 15 Jun 2025 15:07:00 GMT";
const BETWEEN_NAME: &str = "20250615150700";

const LONG_AGO: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const LONG_AGO_NAME: &str = "19941106084937";

async fn receiving() -> Fixture {
    fixture_with(LdpSettings { receive_versions: true, delete_versions: true, ..LdpSettings::default() }).await
}

/// Puts a resource with a title, and goes on a minute later.
async fn titled(fixture: &Fixture, path: &str, title: &str) {
    let put = fixture.put(path, &format!("<> <{TITLE}> \"{title}\" .")).of_class("RDFSource").answer().await;
    assert!(put.status.is_success(), "{}", put.text());
    fixture.clock.advance(Duration::from_secs(60));
}

async fn put_text(fixture: &Fixture, path: &str, text: &str) {
    let put = fixture.ask(Method::PUT, path).header("content-type", "text/plain").body(text.to_owned()).answer().await;
    assert!(put.status.is_success(), "{}", put.text());
    fixture.clock.advance(Duration::from_secs(60));
}

/// Sends a version of a title with a time.
async fn send(fixture: &Fixture, path: &str, time: &str, title: &str) -> Reply {
    let body = format!("<> <{TITLE}> \"{title}\" .");
    fixture.post(&format!("{path}/fcr:versions"), &body).header("memento-datetime", time).answer().await
}

async fn map(fixture: &Fixture, path: &str) -> Reply {
    fixture.ask(Method::GET, &format!("{path}/fcr:versions")).header("accept", "application/link-format").answer().await
}

/// The names of versions in a list.
async fn names(fixture: &Fixture, path: &str) -> Vec<String> {
    let map = map(fixture, path).await;
    let mementos = map.text().lines().filter(|line| line.contains("memento\""));
    let name = |line: &str| line[1..line.find('>').unwrap()].rsplit('/').next().unwrap().to_owned();
    mementos.map(name).collect()
}

async fn at(fixture: &Fixture, path: &str, time: &str) -> String {
    let gate = fixture.ask(Method::GET, path).header("accept-datetime", time).answer().await;
    assert_eq!(gate.status, StatusCode::FOUND, "{}", gate.text());
    gate.header("location").unwrap().rsplit('/').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn fedora_4_3_3_a_post_with_memento_datetime_makes_a_version_of_its_body_at_that_time() {
    let fixture = receiving().await;
    titled(&fixture, "/rest/a", "first").await;
    titled(&fixture, "/rest/a", "second").await;
    let before = fixture.get("/rest/a").await;
    let list = map(&fixture, "/rest/a").await;
    assert_eq!((list.header("vary-post"), list.header("last-modified")), (Some("Memento-Datetime"), None));
    let made = send(&fixture, "/rest/a", BETWEEN, "between").await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    assert_eq!(made.header("location"), Some(format!("{ROOT}a/fcr:versions/{BETWEEN_NAME}").as_str()));
    assert_eq!(made.header("memento-datetime"), Some(BETWEEN));
    assert_eq!(send(&fixture, "/rest/a", LONG_AGO, "early").await.status, StatusCode::CREATED);
    let all = [LONG_AGO_NAME, "20250615150640", BETWEEN_NAME, "20250615150740"];
    assert_eq!(names(&fixture, "/rest/a").await, all);
    assert_ne!(map(&fixture, "/rest/a").await.etag(), list.etag());
    let window = fixture.get(&format!("/rest/a/fcr:versions?from={BETWEEN_NAME}&until={BETWEEN_NAME}")).await;
    assert_eq!(window.objects(&format!("{ROOT}a/fcr:versions"), "contains").len(), 1);
    let memento = fixture.get(&format!("/rest/a/fcr:versions/{BETWEEN_NAME}")).await;
    assert!(memento.says("<a> dc:title \"between\" ."), "{}", memento.text());
    assert_eq!(memento.header("memento-datetime"), Some(BETWEEN));
    let around = ["first", "prev", "next", "last"].map(|rel| memento.links(&format!("{rel} memento")));
    let address = |name: &str| vec![format!("{ROOT}a/fcr:versions/{name}")];
    assert_eq!(around, [all[0], all[1], all[3], all[3]].map(address));
    let changed = fixture.put(&format!("/rest/a/fcr:versions/{BETWEEN_NAME}"), "").answer().await;
    assert_eq!(changed.status, StatusCode::METHOD_NOT_ALLOWED);
    for (time, name) in [
        (BETWEEN, BETWEEN_NAME),
        ("Sun, 15 Jun 2025 15:07:39 GMT", BETWEEN_NAME),
        ("Sun, 15 Jun 2025 15:06:59 GMT", all[1]),
        ("Sat, 01 Jan 2000 00:00:00 GMT", LONG_AGO_NAME),
        ("Mon, 01 Jan 1990 00:00:00 GMT", LONG_AGO_NAME),
        ("Sun, 15 Jun 2025 23:00:00 GMT", all[3]),
    ] {
        assert_eq!(at(&fixture, "/rest/a", time).await, name, "{time}");
    }
    let after = fixture.get("/rest/a").await;
    assert_eq!((after.etag(), after.graph()), (before.etag(), before.graph()), "the resource is not modified");
    let page = fixture.ask(Method::GET, "/rest/a/fcr:versions").header("accept", "text/html").answer().await;
    assert_eq!(page.text().matches("Version added").count(), 2, "{}", page.text());
    // It can be restored and deleted like others.
    let restored = fixture.ask(Method::POST, &format!("/rest/a/fcr:versions?restore={BETWEEN_NAME}")).answer().await;
    assert_eq!(restored.status, StatusCode::CREATED, "{}", restored.text());
    assert!(fixture.get("/rest/a").await.says("<a> dc:title \"between\" ."));
    let address = format!("/rest/a/fcr:versions/{LONG_AGO_NAME}");
    assert_eq!(fixture.ask(Method::DELETE, &address).answer().await.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.get(&address).await.status, StatusCode::NOT_FOUND);
    assert_eq!(names(&fixture, "/rest/a").await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_bytes_has_the_description_of_its_time_and_the_other_way_round() {
    let fixture = receiving().await;
    put_text(&fixture, "/rest/b", "one").await;
    let described = fixture.put("/rest/b/fcr:metadata", &format!("<{ROOT}b> <{TITLE}> \"first\" .")).answer().await;
    assert_eq!(described.status, StatusCode::NO_CONTENT, "{}", described.text());
    fixture.clock.advance(Duration::from_secs(60));
    put_text(&fixture, "/rest/b", "two").await;
    let long = "x".repeat(100_000);
    for (time, text) in [(LONG_AGO, "early"), ("Sun, 15 Jun 2025 15:08:00 GMT", &*long)] {
        let sent = fixture.ask(Method::POST, "/rest/b/fcr:versions").header("content-type", "text/x-any");
        let made = sent.header("memento-datetime", time).body(text.to_owned()).answer().await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    }
    let late = fixture.get("/rest/b/fcr:versions/20250615150800").await;
    assert_eq!((late.text(), late.header("content-type")), (&*long, Some("text/x-any")));
    let range = fixture.ask(Method::GET, "/rest/b/fcr:versions/20250615150800").header("range", "bytes=0-1").answer();
    assert_eq!(range.await.text(), "xx");
    let of_late = fixture.get("/rest/b/fcr:metadata/fcr:versions/20250615150800").await;
    assert!(of_late.says("<b> dc:title \"first\" ."), "{}", of_late.text());
    let of_early = fixture.get(&format!("/rest/b/fcr:metadata/fcr:versions/{LONG_AGO_NAME}")).await;
    assert!(!of_early.says("<b> dc:title \"first\" ."), "{}", of_early.text());
    let body = format!("<{ROOT}b> <{TITLE}> \"sent\" .");
    let sent = fixture.post("/rest/b/fcr:metadata/fcr:versions", &body).header("memento-datetime", BETWEEN);
    let made = sent.answer().await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    assert_eq!(made.header("location"), Some(&*format!("{ROOT}b/fcr:metadata/fcr:versions/{BETWEEN_NAME}")));
    let memento = fixture.get(&format!("/rest/b/fcr:metadata/fcr:versions/{BETWEEN_NAME}")).await;
    assert!(memento.says("<b> dc:title \"sent\" ."), "{}", memento.text());
    assert_eq!(fixture.get(&format!("/rest/b/fcr:versions/{BETWEEN_NAME}")).await.text(), "one");
    assert_eq!(fixture.get("/rest/b").await.text(), "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_a_version_cannot_have_is_refused_with_a_constraint() {
    let fixture = receiving().await;
    titled(&fixture, "/rest/a", "first").await;
    titled(&fixture, "/rest/a", "second").await;
    for (time, status) in [
        ("yesterday", StatusCode::BAD_REQUEST),
        ("Mon, 15 Jun 2025 15:07:00 GMT", StatusCode::BAD_REQUEST),
        ("Mon, 15 Jun 2026 15:07:00 GMT", StatusCode::BAD_REQUEST),
        ("Wed, 31 Dec 1969 23:59:59 GMT", StatusCode::CONFLICT),
        ("Sun, 15 Jun 2025 15:06:40 GMT", StatusCode::CONFLICT),
        ("Sun, 15 Jun 2025 15:07:40 GMT", StatusCode::CONFLICT),
        ("Sun, 15 Jun 2025 15:08:00 GMT", StatusCode::CONFLICT),
    ] {
        let refused = send(&fixture, "/rest/a", time, "refused").await;
        assert_eq!(refused.status, status, "{time}: {}", refused.text());
        assert_eq!(refused.links(&format!("{LDP}constrainedBy")), [format!("{ROOT}fcr:constraints")], "{time}");
    }
    let with_query = fixture.post(&format!("/rest/a/fcr:versions?restore={BETWEEN_NAME}"), "");
    assert_eq!(with_query.header("memento-datetime", BETWEEN).answer().await.status, StatusCode::BAD_REQUEST);
    let of_another_type = fixture.ask(Method::POST, "/rest/a/fcr:versions").header("content-type", "image/png");
    let refused = of_another_type.header("memento-datetime", BETWEEN).body("no graph").answer().await;
    assert_eq!(refused.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(names(&fixture, "/rest/a").await.len(), 2);
    assert_eq!(send(&fixture, "/rest/none", BETWEEN, "x").await.status, StatusCode::NOT_FOUND);
    // A container has an address for each second since it was created.
    fixture.make("/rest/c", "BasicContainer", "").await;
    fixture.clock.advance(Duration::from_secs(60));
    assert_eq!(fixture.put("/rest/c", "").answer().await.status, StatusCode::NO_CONTENT);
    assert_eq!(send(&fixture, "/rest/c", "Sun, 15 Jun 2025 15:09:00 GMT", "x").await.status, StatusCode::CONFLICT);
    let early = send(&fixture, "/rest/c", LONG_AGO, "early").await;
    assert_eq!(early.status, StatusCode::CREATED, "{}", early.text());
    let memento = fixture.get(&format!("/rest/c/fcr:versions/{LONG_AGO_NAME}")).await;
    assert!(memento.says("<c> dc:title \"early\" .") && memento.is("BasicContainer"), "{}", memento.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_as_of_a_time_has_what_there_was_and_no_received_version() {
    let fixture = receiving().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    put_text(&fixture, "/rest/c/b", "one").await;
    put_text(&fixture, "/rest/c/b", "two").await;
    let archive = async || {
        let asked = fixture.ask(Method::GET, "/rest/c/fcr:versions/20250615150730").header("accept", "application/zip");
        entries(&asked.answer().await)
    };
    let before = archive().await;
    let sent = fixture.ask(Method::POST, "/rest/c/b/fcr:versions").header("content-type", "text/plain");
    let made = sent.header("memento-datetime", BETWEEN).body("received").answer().await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    assert_eq!(archive().await, before);
    assert!(before.values().any(|text| text == "one"), "{before:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_restored_as_of_a_time_was_there_also_where_versions_are_explicit() {
    let history = History { resources: Keep::Explicit, ..History::default() };
    let settings = LdpSettings { receive_versions: true, ..LdpSettings::default() };
    let fixture = fixture_of(settings, LibraryOptions { history, ..LibraryOptions::default() }).await;
    titled(&fixture, "/rest/a", "first").await;
    let asked = fixture.ask(Method::POST, "/rest/a/fcr:versions").answer().await;
    assert_eq!(asked.status, StatusCode::CREATED, "{}", asked.text());
    fixture.clock.advance(Duration::from_secs(60));
    titled(&fixture, "/rest/a", "second").await;
    let received = send(&fixture, "/rest/a", "Sun, 15 Jun 2025 15:08:00 GMT", "received").await;
    assert_eq!(received.status, StatusCode::CREATED, "{}", received.text());
    assert_eq!(names(&fixture, "/rest/a").await, ["20250615150740", "20250615150800"]);
    let restoring = fixture.ask(Method::POST, "/rest/a/fcr:versions?restore=");
    let restored = restoring.header("accept-datetime", "Sun, 15 Jun 2025 15:08:30 GMT").answer().await;
    assert_eq!(restored.status, StatusCode::CREATED, "{}", restored.text());
    assert!(fixture.get("/rest/a").await.says("<a> dc:title \"first\" ."));
}

#[tokio::test(flavor = "multi_thread")]
async fn received_versions_of_what_was_deleted_are_hidden_with_its_other_versions() {
    let settings = LdpSettings { receive_versions: true, deleted_versions: false, ..LdpSettings::default() };
    let fixture = fixture_with(settings).await;
    titled(&fixture, "/rest/a", "first").await;
    assert_eq!(send(&fixture, "/rest/a", LONG_AGO, "early").await.status, StatusCode::CREATED);
    assert_eq!(names(&fixture, "/rest/a").await.len(), 2);
    assert_eq!(fixture.ask(Method::DELETE, "/rest/a").answer().await.status, StatusCode::NO_CONTENT);
    let again = fixture.put("/rest/a", "").of_class("RDFSource").header("overwrite-tombstone", "true").answer().await;
    assert_eq!(again.status, StatusCode::CREATED, "{}", again.text());
    let left = names(&fixture, "/rest/a").await;
    assert_eq!(left, ["20250615150740"]);
    assert_eq!(fixture.get(&format!("/rest/a/fcr:versions/{LONG_AGO_NAME}")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(at(&fixture, "/rest/a", LONG_AGO).await, left[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tag_of_the_page_changes_when_versions_come() {
    let fixture = receiving().await;
    titled(&fixture, "/rest/a", "first").await;
    let tag = async || {
        let page = fixture.ask(Method::GET, "/rest/a/fcr:versions").header("accept", "text/html").answer().await;
        page.etag()
    };
    let before = tag().await;
    // The first two revisions differ in the same bits as the others.
    for time in ["01:46:40", "01:46:41", "02:08:00", "02:08:01"] {
        let made = send(&fixture, "/rest/a", &format!("Sun, 09 Sep 2001 {time} GMT"), "early").await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    }
    assert_ne!(tag().await, before);
}
