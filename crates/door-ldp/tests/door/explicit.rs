//! Versions that clients ask for (Fedora API, section 4.3.3), and versions that clients delete
//! (section 4.2.5).

use std::time::Duration;

use door_ldp::LdpSettings;
use heads::{History, HistoryTrees, Keep, LibraryOptions};
use http::{Method, StatusCode};

use crate::archives::entries;
use crate::support::{Fixture, Reply, fixture, fixture_keeping, fixture_with};

async fn explicit() -> Fixture {
    let history = History { resources: Keep::Explicit, ..History::default() };
    fixture_keeping(LibraryOptions { history, ..LibraryOptions::default() }).await
}

async fn deleting() -> Fixture {
    fixture_with(LdpSettings { delete_versions: true, ..LdpSettings::default() }).await
}

async fn put(fixture: &Fixture, path: &str, text: &str) {
    let put = fixture.ask(Method::PUT, path).header("content-type", "text/plain").body(text.to_owned()).answer().await;
    assert!(put.status.is_success(), "{path}: {}", put.text());
    fixture.clock.advance(Duration::from_secs(60));
}

async fn map(fixture: &Fixture, path: &str) -> Reply {
    fixture.ask(Method::GET, &format!("{path}/fcr:versions")).header("accept", "application/link-format").answer().await
}

/// The addresses of versions in a TimeMap, without scheme and host.
async fn listed(fixture: &Fixture, path: &str) -> Vec<String> {
    let map = map(fixture, path).await;
    assert_eq!(map.status, StatusCode::OK, "{}", map.text());
    let mementos = map.text().lines().filter(|line| line.contains("memento\""));
    mementos.map(|line| line[1..line.find('>').unwrap()].strip_prefix("http://test").unwrap().to_owned()).collect()
}

/// Asks for a version, and returns its address.
async fn ask_for(fixture: &Fixture, path: &str) -> String {
    let made = fixture.ask(Method::POST, &format!("{path}/fcr:versions")).answer().await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    fixture.clock.advance(Duration::from_secs(60));
    made.header("location").unwrap().strip_prefix("http://test").unwrap().to_owned()
}

async fn delete(fixture: &Fixture, address: &str) -> Reply {
    fixture.ask(Method::DELETE, address).answer().await
}

#[tokio::test(flavor = "multi_thread")]
async fn where_versions_are_explicit_a_change_makes_none_and_a_request_makes_one() {
    let fixture = explicit().await;
    put(&fixture, "/rest/a", "one").await;
    assert_eq!(listed(&fixture, "/rest/a").await, [""; 0]);
    let graph = fixture.get("/rest/a/fcr:versions").await;
    let is_list = graph.links("type").contains(&"http://mementoweb.org/ns#TimeMap".to_owned());
    assert_eq!((graph.status, is_list), (StatusCode::OK, true));
    // There is no version to choose from, so the present state is the answer.
    let then = fixture.ask(Method::GET, "/rest/a").header("accept-datetime", "Sun, 15 Jun 2025 15:06:40 GMT");
    assert_eq!(then.answer().await.text(), "one");
    let version = ask_for(&fixture, "/rest/a").await;
    put(&fixture, "/rest/a", "two").await;
    put(&fixture, "/rest/a", "three").await;
    assert_eq!(listed(&fixture, "/rest/a").await, std::slice::from_ref(&version));
    let memento = fixture.get(&version).await;
    assert_eq!((memento.status, memento.text()), (StatusCode::OK, "one"));
    assert!(memento.header("memento-datetime").is_some());
    let gate = fixture.ask(Method::GET, "/rest/a").header("accept-datetime", "Sun, 15 Jun 2025 23:00:00 GMT");
    let gate = gate.answer().await;
    assert_eq!(gate.status, StatusCode::FOUND);
    assert_eq!(gate.header("location"), Some(format!("http://test{version}").as_str()));
    let absent = fixture.get("/rest/none/fcr:versions").await;
    assert_eq!(absent.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_versions_are_explicit_a_restored_state_is_a_version() {
    let fixture = explicit().await;
    put(&fixture, "/rest/a", "one").await;
    let first = ask_for(&fixture, "/rest/a").await;
    put(&fixture, "/rest/a", "two").await;
    let name = first.rsplit('/').next().unwrap();
    // A form sends the tag of what the person saw.
    let tag = fixture.get("/rest/a").await.etag();
    let restored = fixture.ask(Method::POST, &format!("/rest/a/fcr:versions?restore={name}"));
    let restored = restored.header("if-match", &tag).answer().await;
    assert_eq!(restored.status, StatusCode::CREATED, "{}", restored.text());
    assert_eq!(fixture.get("/rest/a").await.text(), "one");
    let second = restored.header("location").unwrap().strip_prefix("http://test").unwrap().to_owned();
    assert_eq!(listed(&fixture, "/rest/a").await, [first, second.clone()]);
    assert_eq!(fixture.get(&second).await.text(), "one");
    // What was deleted comes back as it was asked for last.
    fixture.clock.advance(Duration::from_secs(60));
    assert_eq!(delete(&fixture, "/rest/a").await.status, StatusCode::NO_CONTENT);
    let back = fixture.ask(Method::POST, "/rest/a/fcr:versions?restore=").header("if-none-match", "*").answer().await;
    assert_eq!(back.status, StatusCode::CREATED, "{}", back.text());
    assert_eq!((fixture.get("/rest/a").await.text(), listed(&fixture, "/rest/a").await.len()), ("one", 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_around_an_explicit_tree_names_what_is_not_known_of_it() {
    let history_trees = HistoryTrees::new(vec![("c/drafts".parse().unwrap(), Keep::Explicit)]);
    let fixture = fixture_keeping(LibraryOptions { history_trees, ..LibraryOptions::default() }).await;
    for path in ["/rest/c", "/rest/c/drafts"] {
        fixture.make(path, "BasicContainer", "").await;
    }
    put(&fixture, "/rest/c/drafts/a", "one").await;
    put(&fixture, "/rest/c/drafts/a", "two").await;
    let archive = fixture.ask(Method::GET, "/rest/c/fcr:versions/20250615150650").header("accept", "application/zip");
    let then = entries(&archive.answer().await);
    assert!(then["ERROR.err"].contains("/c/drafts"), "{then:?}");
    assert!(!then.keys().any(|name| name.ends_with("/a")), "{then:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_deleted_where_the_operator_allows_it_and_elsewhere_it_is_not() {
    let fixture = fixture().await;
    put(&fixture, "/rest/a", "one").await;
    put(&fixture, "/rest/a", "two").await;
    let versions = listed(&fixture, "/rest/a").await;
    let refused = delete(&fixture, &versions[0]).await;
    assert_eq!((refused.status, refused.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, Some("GET, HEAD, OPTIONS")));

    let fixture = deleting().await;
    for text in ["one", "two", "three"] {
        put(&fixture, "/rest/a", text).await;
    }
    let versions = listed(&fixture, "/rest/a").await;
    let memento = fixture.get(&versions[1]).await;
    assert_eq!(memento.header("allow"), Some("GET, HEAD, OPTIONS, DELETE"));
    let before = map(&fixture, "/rest/a").await;
    assert_eq!(delete(&fixture, &versions[1]).await.status, StatusCode::NO_CONTENT);
    for (method, expected) in [
        (Method::GET, StatusCode::NOT_FOUND),
        (Method::HEAD, StatusCode::NOT_FOUND),
        (Method::DELETE, StatusCode::NOT_FOUND),
    ] {
        assert_eq!(fixture.ask(method, &versions[1]).answer().await.status, expected);
    }
    let after = map(&fixture, "/rest/a").await;
    assert_eq!(listed(&fixture, "/rest/a").await, [versions[0].clone(), versions[2].clone()]);
    assert_ne!(before.etag(), after.etag(), "a cache must not show it");
    assert_eq!(after.header("last-modified"), None);
    // The one before it is in its place, and its neighbours know each other.
    let gate = fixture.ask(Method::GET, "/rest/a").header("accept-datetime", "Sun, 15 Jun 2025 15:08:00 GMT");
    assert_eq!(gate.answer().await.header("location"), Some(format!("http://test{}", versions[0]).as_str()));
    let first = fixture.get(&versions[0]).await;
    assert_eq!(first.links("next memento"), [format!("http://test{}", versions[2])]);
    assert_eq!((first.text(), fixture.get("/rest/a").await.text()), ("one", "three"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_another_tag_once_a_version_on_it_or_the_next_one_after_it_is_deleted() {
    let fixture = deleting().await;
    for text in ["one", "two", "three", "four"] {
        put(&fixture, "/rest/a", text).await;
    }
    let versions = listed(&fixture, "/rest/a").await;
    let page_unless = |known: String| {
        let ask = fixture.ask(Method::GET, "/rest/a/fcr:versions?limit=1").header("accept", "application/link-format");
        ask.header("if-none-match", &known).answer()
    };
    let mut known = page_unless("\"none\"".to_owned()).await.etag();
    for (deleted, first, next) in [(1, 0, 2), (0, 2, 3)] {
        assert_eq!(page_unless(known.clone()).await.status, StatusCode::NOT_MODIFIED);
        assert_eq!(delete(&fixture, &versions[deleted]).await.status, StatusCode::NO_CONTENT);
        let page = page_unless(known).await;
        assert_eq!(page.status, StatusCode::OK, "a cache must not show the page as it was");
        assert!(page.text().contains(&versions[first]), "{}", page.text());
        let name = versions[next].rsplit('/').next().unwrap();
        assert!(page.links("next")[0].contains(name), "{page:?}");
        known = page.etag();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_earlier_version_is_not_deleted_as_one() {
    let fixture = deleting().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    fixture.clock.advance(Duration::from_secs(60));
    put(&fixture, "/rest/c/a", "one").await;
    put(&fixture, "/rest/c/a", "two").await;
    let versions = listed(&fixture, "/rest/c/a").await;
    let current = delete(&fixture, &versions[1]).await;
    assert_eq!(current.status, StatusCode::CONFLICT, "{}", current.text());
    assert!(current.text().contains("the current state"), "{}", current.text());
    let instant = delete(&fixture, "/rest/c/fcr:versions/20250615150730").await;
    assert!(instant.status.is_client_error() && instant.text().contains("no version begins"), "{}", instant.text());
    let absent = delete(&fixture, "/rest/c/a/fcr:versions/20010101000000").await;
    assert_eq!(absent.status, StatusCode::NOT_FOUND);
    let conditional = fixture.ask(Method::DELETE, &versions[0]).header("if-match", "\"x\"").answer().await;
    assert!(conditional.status.is_client_error(), "{}", conditional.text());
    assert_eq!(listed(&fixture, "/rest/c/a").await, versions);
    assert_eq!(delete(&fixture, "/rest/c/a/fcr:versions").await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_as_of_a_time_names_a_version_that_was_deleted_since() {
    let fixture = deleting().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    put(&fixture, "/rest/c/a", "one").await;
    put(&fixture, "/rest/c/a", "two").await;
    let versions = listed(&fixture, "/rest/c/a").await;
    assert_eq!(delete(&fixture, &versions[0]).await.status, StatusCode::NO_CONTENT);
    let archive = fixture.ask(Method::GET, "/rest/c/fcr:versions/20250615150650").header("accept", "application/zip");
    let then = entries(&archive.answer().await);
    assert!(then["ERROR.err"].contains("this version of it was deleted: /c/a"), "{then:?}");
    assert!(!then.contains_key("c/a"), "{then:?}");
    // Nor does it come back with its container.
    assert_eq!(delete(&fixture, "/rest/c/a").await.status, StatusCode::NO_CONTENT);
    fixture.clock.advance(Duration::from_secs(60));
    let restored =
        fixture.ask(Method::POST, "/rest/c/fcr:versions?restore=20250615150650&contents=true").answer().await;
    assert_eq!(restored.status, StatusCode::CONFLICT, "{}", restored.text());
    assert!(restored.text().contains("/c/a: this version of it is not kept"), "{}", restored.text());
}
