//! New versions by request: snapshots, and earlier versions and deleted resources that come back.

use std::time::Duration;

use heads::{History, Keep, LibraryOptions};
use http::{Method, StatusCode};

use crate::support::{Fixture, LDP, ROOT, Reply, fixture, fixture_keeping};

const TITLE: &str = "http://purl.org/dc/terms/title";

async fn minute(fixture: &Fixture) {
    fixture.clock.advance(Duration::from_secs(60));
}

async fn titled(fixture: &Fixture, path: &str, title: &str) {
    let put = fixture.put(path, &format!("<> <{TITLE}> \"{title}\" .")).of_class("RDFSource").answer().await;
    assert!(put.status.is_success(), "{}", put.text());
    minute(fixture).await;
}

async fn post(fixture: &Fixture, path: &str) -> Reply {
    fixture.ask(Method::POST, path).answer().await
}

/// Restores, and returns the new version.
async fn restored(fixture: &Fixture, path: &str) -> Reply {
    let made = post(fixture, path).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    let memento = fixture.get(made.header("location").unwrap().strip_prefix("http://test").unwrap()).await;
    assert_eq!((memento.status, memento.header("memento-datetime")), (StatusCode::OK, made.header("memento-datetime")));
    memento
}

async fn delete(fixture: &Fixture, path: &str) {
    assert_eq!(fixture.ask(Method::DELETE, path).answer().await.status, StatusCode::NO_CONTENT, "{path}");
    minute(fixture).await;
}

async fn put_bytes(fixture: &Fixture, path: &str, bytes: Vec<u8>) {
    let put = fixture.ask(Method::PUT, path).header("content-type", "image/x-any").body(bytes).answer().await;
    assert!(put.status.is_success(), "{}", put.text());
    minute(fixture).await;
}

async fn versions(fixture: &Fixture, path: &str) -> usize {
    let map = fixture.get(&format!("{path}/fcr:versions")).await;
    map.objects(&format!("http://test{path}/fcr:versions"), "contains").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn fedora_4_3_3_a_post_without_memento_datetime_makes_a_version_of_the_current_state_and_ignores_its_body() {
    let fixture = fixture().await;
    titled(&fixture, "/rest/a", "A").await;
    let before = fixture.get("/rest/a").await;
    for body in ["", "<> <urn:p> \"not this\" ."] {
        minute(&fixture).await;
        let posted = fixture.post("/rest/a/fcr:versions", body).answer().await;
        assert_eq!(posted.status, StatusCode::CREATED);
        let memento = fixture.get(posted.header("location").unwrap().strip_prefix("http://test").unwrap()).await;
        assert_eq!(memento.graph(), before.graph());
    }
    assert_eq!(versions(&fixture, "/rest/a").await, 3);
    let after = fixture.get("/rest/a").await;
    assert_eq!((before.etag(), before.graph()), (after.etag(), after.graph()), "the resource is not modified");
    let again = fixture.put("/rest/a", "").header("if-match", &before.etag()).answer().await;
    assert_eq!(again.status, StatusCode::NO_CONTENT, "a snapshot fails no writer");
    for allow in [Method::GET, Method::OPTIONS] {
        let reply = fixture.ask(allow, "/rest/a/fcr:versions").answer().await;
        assert_eq!(
            (reply.header("allow"), reply.header("accept-post")),
            (Some("GET, HEAD, OPTIONS, POST"), Some("*/*"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fedora_4_3_3_a_post_with_memento_datetime_is_refused_with_a_constraint() {
    let fixture = fixture().await;
    titled(&fixture, "/rest/a", "A").await;
    let refused = fixture
        .post("/rest/a/fcr:versions", "")
        .header("memento-datetime", "Sun, 15 Jun 2025 15:06:40 GMT")
        .answer()
        .await;
    assert!(refused.status.is_client_error());
    assert_eq!(refused.links(&format!("{LDP}constrainedBy")), [format!("{ROOT}fcr:constraints")]);
    assert_eq!(versions(&fixture, "/rest/a").await, 1);
    for method in [Method::PUT, Method::PATCH, Method::DELETE] {
        let refused = fixture.ask(method, "/rest/a/fcr:versions").answer().await;
        assert_eq!(
            (refused.status, refused.header("allow")),
            (StatusCode::METHOD_NOT_ALLOWED, Some("GET, HEAD, OPTIONS, POST"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_a_container_has_the_members_of_its_time() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    minute(&fixture).await;
    fixture.put("/rest/c/a", "").answer().await;
    let memento = restored(&fixture, "/rest/c/fcr:versions").await;
    fixture.put("/rest/c/b", "").answer().await;
    assert_eq!(memento.objects(&format!("{ROOT}c"), "contains"), [format!("{ROOT}c/a")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_version_of_a_graph_becomes_the_current_state_as_a_new_version() {
    let fixture = fixture().await;
    titled(&fixture, "/rest/a", "first").await;
    titled(&fixture, "/rest/a", "second").await;
    let tag = fixture.get("/rest/a").await.etag();
    let stale = fixture
        .ask(Method::POST, "/rest/a/fcr:versions?restore=20250615150640")
        .header("if-match", "\"x\"")
        .answer()
        .await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED);
    restored(&fixture, "/rest/a/fcr:versions?restore=20250615150640").await;
    let now = fixture.get("/rest/a").await;
    assert!(now.says("<a> dc:title \"first\" .") && !now.says("<a> dc:title \"second\" ."));
    assert_ne!(now.etag(), tag);
    assert_eq!(versions(&fixture, "/rest/a").await, 3);
    for (query, status) in [
        ("restore=20250615150641", StatusCode::NOT_FOUND),
        ("restore=x", StatusCode::BAD_REQUEST),
        ("restore=", StatusCode::BAD_REQUEST),
        ("restore=20250615150640&contents=x", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(post(&fixture, &format!("/rest/a/fcr:versions?{query}")).await.status, status, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_any_size_are_restored_with_their_type_and_description_or_their_description_alone() {
    let fixture = fixture().await;
    let large: Vec<u8> = (0..300_000_u32).map(|at| (at * 7 / 3) as u8).collect();
    for (path, first) in [("/rest/small", b"few".to_vec()), ("/rest/large", large)] {
        put_bytes(&fixture, path, first.clone()).await;
        titled(&fixture, &format!("{path}/fcr:metadata"), "first").await;
        let name = fixture
            .get(&format!("{path}/fcr:versions"))
            .await
            .objects(&format!("http://test{path}/fcr:versions"), "contains")[1]
            .clone();
        let name = name.rsplit('/').next().unwrap().to_owned();
        put_bytes(&fixture, path, b"others".to_vec()).await;
        titled(&fixture, &format!("{path}/fcr:metadata"), "second").await;
        restored(&fixture, &format!("{path}/fcr:metadata/fcr:versions?restore={name}")).await;
        let now = fixture.get(path).await;
        assert_eq!(now.text(), "others", "only the description is restored");
        let describes = |reply: &Reply, title: &str| reply.text().contains(title);
        assert!(describes(&fixture.get(&format!("{path}/fcr:metadata")).await, "first"));
        restored(&fixture, &format!("{path}/fcr:versions?restore={name}")).await;
        let now = fixture.get(path).await;
        assert_eq!((&now.body[..], now.header("content-type")), (&first[..], Some("image/x-any")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_restored_stays_when_the_version_that_it_came_from_is_collected() {
    let history = History { resources: Keep::Newest(1), ..History::default() };
    let fixture = fixture_keeping(LibraryOptions { history, ..LibraryOptions::default() }).await;
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at * 11 / 3) as u8).collect();
    put_bytes(&fixture, "/rest/b", bytes.clone()).await;
    put_bytes(&fixture, "/rest/b", b"others".to_vec()).await;
    restored(&fixture, "/rest/b/fcr:versions?restore=20250615150640").await;
    put_bytes(&fixture, "/rest/b", b"once more".to_vec()).await;
    for _ in 0..3 {
        fixture.clock.advance(Duration::from_secs(25 * 3_600));
        fixture.library.repository.collect_versions().await.unwrap();
    }
    let map = fixture.get("/rest/b/fcr:versions").await.objects(&format!("{ROOT}b/fcr:versions"), "contains");
    assert_eq!(map.len(), 2);
    let kept = fixture.get(map[0].strip_prefix("http://test").unwrap()).await;
    assert_eq!((kept.status, &kept.body[..]), (StatusCode::OK, &bytes[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_resource_comes_back_as_it_was_last() {
    let fixture = fixture().await;
    titled(&fixture, "/rest/a", "first").await;
    titled(&fixture, "/rest/a", "second").await;
    delete(&fixture, "/rest/a").await;
    restored(&fixture, "/rest/a/fcr:versions?restore=").await;
    assert!(fixture.get("/rest/a").await.says("<a> dc:title \"second\" ."));
    assert_eq!(fixture.get("/rest/").await.objects(ROOT, "contains"), [format!("{ROOT}a"), format!("{ROOT}volumes")]);
    delete(&fixture, "/rest/a").await;
    assert_eq!(fixture.ask(Method::DELETE, "/rest/a/fcr:tombstone").answer().await.status, StatusCode::NO_CONTENT);
    restored(&fixture, "/rest/a/fcr:versions?restore=20250615150640").await;
    assert!(fixture.get("/rest/a").await.says("<a> dc:title \"first\" ."), "also once its name is free");
    assert_eq!(versions(&fixture, "/rest/a").await, 4);
    assert_eq!(post(&fixture, "/rest/never/fcr:versions?restore=").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_container_comes_back_with_what_was_in_it_then_and_nothing_else() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", &format!("<> <{TITLE}> \"C\" .")).await;
    titled(&fixture, "/rest/c/gone", "gone").await;
    for path in ["/rest/c/a", "/rest/c/d/e/f", "/rest/c/d/g"] {
        titled(&fixture, path, path).await;
    }
    put_bytes(&fixture, "/rest/c/d/bytes", vec![7; 100_000]).await;
    titled(&fixture, "/rest/c/a", "changed").await;
    delete(&fixture, "/rest/c/gone").await;
    let member = fixture.get("/rest/c/d").await;
    delete(&fixture, "/rest/c").await;
    let inside = post(&fixture, "/rest/c/a/fcr:versions?restore=").await;
    assert_eq!(
        (inside.status, inside.links("hasTombstone")),
        (StatusCode::GONE, vec![format!("{ROOT}c/fcr:tombstone")])
    );

    restored(&fixture, "/rest/c/fcr:versions?restore=").await;
    let listed = |reply: &Reply, path: &str| reply.objects(&format!("http://test{path}"), "contains");
    let now = fixture.get("/rest/c").await;
    assert!(now.says("<c> dc:title \"C\" ."));
    assert_eq!(listed(&now, "/rest/c"), [format!("{ROOT}c/a"), format!("{ROOT}c/d")]);
    assert_eq!(listed(&fixture.get("/rest/c/d").await, "/rest/c/d"), listed(&member, "/rest/c/d"));
    assert!(fixture.get("/rest/c/a").await.says("<c/a> dc:title \"changed\" ."));
    assert!(fixture.get("/rest/c/d/e/f").await.says("<c/d/e/f> dc:title \"/rest/c/d/e/f\" ."));
    assert_eq!(fixture.get("/rest/c/d/bytes").await.body.len(), 100_000);
    assert_eq!(fixture.get("/rest/c/gone").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_a_container_lost_come_back_on_request_and_those_that_it_has_stay() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    titled(&fixture, "/rest/c/a", "a").await;
    titled(&fixture, "/rest/c/b", "b").await;
    minute(&fixture).await;
    delete(&fixture, "/rest/c/a").await;
    titled(&fixture, "/rest/c/b", "changed").await;
    // It is 15:11:40; at 15:08:40 both were there.
    restored(&fixture, "/rest/c/fcr:versions?restore=20250615150850").await;
    assert_eq!(fixture.get("/rest/c/a").await.status, StatusCode::GONE, "only the container itself");
    for _ in 0..2 {
        minute(&fixture).await;
        restored(&fixture, "/rest/c/fcr:versions?restore=20250615150850&contents=true").await;
        assert!(fixture.get("/rest/c/a").await.says("<c/a> dc:title \"a\" ."));
        assert!(fixture.get("/rest/c/b").await.says("<c/b> dc:title \"changed\" ."), "it may be repeated");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_resource_keeps_its_model_and_gives_its_container_its_member() {
    let fixture = fixture().await;
    let rule = format!(
        "@prefix ldp: <{LDP}> . <> ldp:membershipResource <urn:list> ; ldp:hasMemberRelation <urn:has> ; ldp:insertedContentRelation <urn:of> ."
    );
    fixture.make("/rest/i", "IndirectContainer", &rule).await;
    fixture.make("/rest/i/x", "RDFSource", "<> <urn:of> <urn:member> .").await;
    let before = fixture.get("/rest/i").await;
    assert!(before.says("<urn:list> <urn:has> <urn:member> ."));
    delete(&fixture, "/rest/i/x").await;
    assert!(!fixture.get("/rest/i").await.says("<urn:list> <urn:has> <urn:member> ."));
    restored(&fixture, "/rest/i/x/fcr:versions?restore=").await;
    assert!(fixture.get("/rest/i").await.says("<urn:list> <urn:has> <urn:member> ."));
    assert!(fixture.get("/rest/i/x").await.is("RDFSource") && !fixture.get("/rest/i/x").await.is("Container"));

    delete(&fixture, "/rest/i/x").await;
    put_after_tombstone(&fixture, "/rest/i/x").await;
    let refused = post(&fixture, "/rest/i/x/fcr:versions?restore=20250615150640").await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "bytes do not become a graph: {}", refused.text());
}

async fn put_after_tombstone(fixture: &Fixture, path: &str) {
    let put =
        fixture.ask(Method::PUT, path).header("content-type", "image/x-any").header("overwrite-tombstone", "true");
    assert_eq!(put.body("bytes").answer().await.status, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_past_members_are_not_all_kept_a_container_comes_back_only_without_them() {
    let history = History { resources: Keep::Newest(5), ..History::default() };
    let fixture = fixture_keeping(LibraryOptions { history, ..LibraryOptions::default() }).await;
    fixture.make("/rest/c", "BasicContainer", &format!("<> <{TITLE}> \"C\" .")).await;
    fixture.put("/rest/c/a", "").answer().await;
    delete(&fixture, "/rest/c").await;
    let refused = post(&fixture, "/rest/c/fcr:versions?restore=").await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.detail().contains("contents=false"), "{}", refused.detail());
    assert_eq!(fixture.get("/rest/c").await.status, StatusCode::GONE, "nothing is changed");
    restored(&fixture, "/rest/c/fcr:versions?restore=&contents=false").await;
    assert!(fixture.get("/rest/c").await.says("<c> dc:title \"C\" ."));
}
