//! Trees of which other versions are kept than of the rest.

use std::time::Duration;

use heads::{HistoryTrees, Keep, LibraryOptions};
use http::{Method, StatusCode};

use crate::archives::entries;
use crate::support::{Fixture, Reply, fixture_keeping};

/// Keeps no versions of `c/off`, and all of everything else.
async fn fixture() -> Fixture {
    let tree = |path: &str, keep| (path.parse().unwrap(), keep);
    let history_trees = HistoryTrees::new(vec![tree("c/off", Keep::None), tree("c/off/on", Keep::All)]);
    fixture_keeping(LibraryOptions { history_trees, ..LibraryOptions::default() }).await
}

async fn minute(fixture: &Fixture) {
    fixture.clock.advance(Duration::from_secs(60));
}

async fn put(fixture: &Fixture, path: &str, text: &str) {
    let put = fixture.ask(Method::PUT, path).header("content-type", "text/plain").body(text.to_owned()).answer().await;
    assert!(put.status.is_success(), "{path}: {}", put.text());
}

async fn versions(fixture: &Fixture, path: &str) -> Reply {
    fixture.get(&format!("{path}/fcr:versions")).await
}

/// A container with a text, and a tree without versions that has texts and a container. It is
/// 15:06:40 then. All texts change after a minute.
async fn changed(fixture: &Fixture) {
    for path in ["/rest/c", "/rest/c/off", "/rest/c/off/in", "/rest/c/off/on"] {
        fixture.make(path, "BasicContainer", "").await;
    }
    for text in ["one", "two"] {
        for path in ["/rest/c/a", "/rest/c/off/a", "/rest/c/off/in/a", "/rest/c/off/on/a"] {
            put(fixture, path, text).await;
        }
        minute(fixture).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_without_versions_says_nothing_of_them_and_trees_in_it_and_around_it_have_theirs() {
    let fixture = fixture().await;
    changed(&fixture).await;
    for path in ["/rest/c/a", "/rest/c/off/on/a"] {
        let map = versions(&fixture, path).await;
        assert_eq!(map.objects(&format!("http://test{path}/fcr:versions"), "contains").len(), 2, "{path}");
        assert!(fixture.get(path).await.links("timegate").len() == 1, "{path}");
    }
    for path in ["/rest/c/off", "/rest/c/off/a", "/rest/c/off/in/a"] {
        let absent = versions(&fixture, path).await;
        assert_eq!(absent.status, StatusCode::NOT_FOUND, "{path}");
        assert!(absent.text().contains("history.trees"), "{}", absent.text());
        let made = fixture.ask(Method::POST, &format!("{path}/fcr:versions")).answer().await;
        assert_eq!(made.status, StatusCode::NOT_FOUND, "{path}");
        let then = fixture.ask(Method::GET, path).header("accept-datetime", "Sun, 15 Jun 2025 15:06:50 GMT");
        let now = then.answer().await;
        assert_eq!((now.status, now.links("timegate").len()), (StatusCode::OK, 0), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_as_of_a_time_names_what_is_not_known_of_a_tree_without_versions() {
    let fixture = fixture().await;
    changed(&fixture).await;
    let archive = fixture.ask(Method::GET, "/rest/c/fcr:versions/20250615150650").header("accept", "application/zip");
    let then = entries(&archive.answer().await);
    assert_eq!(then["c/a"], "one");
    assert!(!then.keys().any(|name| name.starts_with("c/off/") && name.ends_with("/a")), "{then:?}");
    let missing = &then["ERROR.err"];
    assert!(missing.contains("not kept: what /c/off had in it then"), "{missing}");
    // What was replaced since is not known either.
    let tree = |path: &str, keep| (path.parse().unwrap(), keep);
    let history_trees = HistoryTrees::new(vec![tree("c/off", Keep::None)]);
    let fixture = fixture_keeping(LibraryOptions { history_trees, ..LibraryOptions::default() }).await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    put(&fixture, "/rest/c/off", "one").await;
    minute(&fixture).await;
    put(&fixture, "/rest/c/off", "two").await;
    minute(&fixture).await;
    let archive = fixture.ask(Method::GET, "/rest/c/fcr:versions/20250615150650").header("accept", "application/zip");
    let then = entries(&archive.answer().await);
    assert!(then["ERROR.err"].contains("its versions are not kept: /c/off") && !then.contains_key("c/off"), "{then:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_container_names_what_does_not_come_back_of_a_tree_without_versions() {
    let fixture = fixture().await;
    changed(&fixture).await;
    assert_eq!(fixture.ask(Method::DELETE, "/rest/c").answer().await.status, StatusCode::NO_CONTENT);
    minute(&fixture).await;
    let restored = fixture.ask(Method::POST, "/rest/c/fcr:versions?restore=").answer().await;
    assert_eq!(restored.status, StatusCode::CONFLICT, "{}", restored.text());
    assert!(restored.text().contains("/c/off: its versions are not kept"), "{}", restored.text());
    assert_eq!(fixture.get("/rest/c/a").await.text(), "two");
    assert_ne!(fixture.get("/rest/c/off").await.status, StatusCode::OK);
}
