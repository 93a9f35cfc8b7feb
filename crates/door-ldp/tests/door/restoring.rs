//! New versions by request: snapshots, and earlier versions and deleted resources that come back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use door_ldp::LdpSettings;
use heads::{History, Keep, LibraryOptions};
use http::{Method, StatusCode};
use library::Library;
use store::{Clock, ManualClock};

use crate::support::{Fixture, LDP, ROOT, Reply, fixture, fixture_keeping, fixture_with};

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
    assert_eq!(refused.status, StatusCode::CONFLICT);
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
async fn a_misspelt_or_repeated_parameter_is_refused_and_makes_no_version() {
    let fixture = fixture().await;
    titled(&fixture, "/rest/a", "first").await;
    titled(&fixture, "/rest/a", "second").await;
    for (query, named) in [
        ("restor=20250615150640", "`restor`"),
        ("Restore=20250615150640", "`Restore`"),
        ("restore=20250615150640&content=true", "`content`"),
        ("restore=20250615150640&restore=20250615150640", "`restore`"),
        ("restore=20250615150640&contents=true&contents=false", "`contents`"),
        ("restore=20250615150640&contents=", "`contents`"),
        ("contents=true", "`restore`"),
        ("x", "`x`"),
    ] {
        let refused = post(&fixture, &format!("/rest/a/fcr:versions?{query}")).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{query}");
        assert!(refused.text().contains("\"malformed-parameter\""), "{query}: {}", refused.text());
        assert!(refused.detail().contains(named), "{query}: {}", refused.detail());
    }
    assert_eq!(versions(&fixture, "/rest/a").await, 2);
    assert!(fixture.get("/rest/a").await.says("<a> dc:title \"second\" ."));
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
    // The two entries of the deletion are no versions.
    for count in [1, 5] {
        comes_back_without_members(Keep::Newest(count)).await;
    }
}

async fn comes_back_without_members(resources: Keep) {
    let history = History { resources, ..History::default() };
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

#[tokio::test(flavor = "multi_thread")]
async fn what_an_interrupted_restore_left_out_comes_back_by_repeating_it_with_contents() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    for path in ["/rest/c/a", "/rest/c/d/e"] {
        titled(&fixture, path, path).await;
    }
    delete(&fixture, "/rest/c").await;
    // It stops before the contents.
    restored(&fixture, "/rest/c/fcr:versions?restore=&contents=false").await;
    minute(&fixture).await;
    let unclear = post(&fixture, "/rest/c/fcr:versions?restore=").await;
    assert_eq!(unclear.status, StatusCode::BAD_REQUEST);
    assert!(unclear.detail().contains("contents=true"), "{}", unclear.detail());
    for _ in 0..2 {
        let again = post(&fixture, "/rest/c/fcr:versions?restore=&contents=true").await;
        assert_eq!(again.status, StatusCode::CREATED, "{}", again.text());
        for path in ["/rest/c/a", "/rest/c/d/e"] {
            assert!(fixture.get(path).await.text().contains(path), "{path}");
        }
    }
    assert_eq!(versions(&fixture, "/rest/c").await, 2, "the container itself is there already");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_cannot_come_back_are_named_and_do_not_stop_the_others() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    for path in ["/rest/c/a", "/rest/c/s/x", "/rest/c/z"] {
        titled(&fixture, path, path).await;
    }
    put_bytes(&fixture, "/rest/c/damaged", vec![7; 300_000]).await;
    minute(&fixture).await;
    fixture.flip_bit("c/damaged", 200_000).await;
    for path in ["/rest/c/a", "/rest/c/s", "/rest/c/z", "/rest/c/damaged"] {
        delete(&fixture, path).await;
    }
    put_after_tombstone(&fixture, "/rest/c/s").await;
    // It is 15:16:40; at 15:11:10 everything was there.
    let partly = post(&fixture, "/rest/c/fcr:versions?restore=20250615151110&contents=true").await;
    assert_eq!(partly.status, StatusCode::CONFLICT, "{}", partly.text());
    for named in ["2 of what was in it", "/c/s is something else now", "/c/damaged"] {
        assert!(partly.detail().contains(named), "{named}: {}", partly.detail());
    }
    for path in ["/rest/c/a", "/rest/c/z"] {
        assert!(fixture.get(path).await.text().contains(path), "{path}");
    }
    assert_eq!(fixture.get("/rest/c/damaged").await.status, StatusCode::GONE, "its tombstone still keeps the name");
    let alone = post(&fixture, "/rest/c/damaged/fcr:versions?restore=").await;
    assert_eq!(alone.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(fixture.get("/rest/c/damaged").await.status, StatusCode::GONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_in_force_at_a_time_is_restored_and_nothing_else() {
    let fixture = fixture().await;
    titled(&fixture, "/rest/a", "first").await;
    titled(&fixture, "/rest/a", "second").await;
    delete(&fixture, "/rest/a").await;
    minute(&fixture).await;
    // It was created at 15:06:40, changed at 15:07:40 and deleted at 15:08:40.
    for (time, title) in [
        ("15:06:39", None),
        ("15:06:40", Some("first")),
        ("15:07:50", Some("second")),
        ("15:09:00", None),
        ("15:07:39", Some("first")),
    ] {
        let posted = fixture
            .ask(Method::POST, "/rest/a/fcr:versions?restore=")
            .header("accept-datetime", &format!("Sun, 15 Jun 2025 {time} GMT"))
            .answer()
            .await;
        match title {
            None => assert_eq!(posted.status, StatusCode::NOT_FOUND, "{time}: {}", posted.text()),
            Some(title) => {
                assert_eq!(posted.status, StatusCode::CREATED, "{time}: {}", posted.text());
                assert!(fixture.get("/rest/a").await.says(&format!("<a> dc:title \"{title}\" .")), "{time}");
            }
        }
        minute(&fixture).await;
    }
    let malformed =
        fixture.ask(Method::POST, "/rest/a/fcr:versions?restore=").header("accept-datetime", "now").answer().await;
    assert_eq!(malformed.status, StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_lists_what_was_deleted_from_it_also_if_it_is_deleted_itself() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    for name in ["stays", "gone", "freed", "again"] {
        titled(&fixture, &format!("/rest/c/{name}"), name).await;
    }
    delete(&fixture, "/rest/c/gone").await;
    for name in ["freed", "again"] {
        delete(&fixture, &format!("/rest/c/{name}")).await;
        fixture.ask(Method::DELETE, &format!("/rest/c/{name}/fcr:tombstone")).answer().await;
    }
    titled(&fixture, "/rest/c/again", "another").await;
    let list = "/rest/c/fcr:versions?members=deleted";
    let deleted = async || {
        let listed = fixture.ask(Method::GET, list).header("accept", "application/x-ndjson").answer().await;
        assert_eq!(listed.status, StatusCode::OK, "{}", listed.text());
        let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["name"].to_string();
        listed.text().lines().map(line).collect::<BTreeSet<_>>()
    };
    let names = |names: &[&str]| names.iter().map(|name| format!("{name:?}")).collect::<BTreeSet<_>>();
    assert_eq!(deleted().await, names(&["gone"]));
    let line = fixture.get(list).await.text().lines().next().unwrap().to_owned();
    assert!(line.contains("\"deleted\":\"2025-"), "{line}");
    delete(&fixture, "/rest/c").await;
    assert_eq!(deleted().await, names(&["again", "gone", "stays"]));
    assert_eq!(fixture.get("/rest/none/fcr:versions?members=deleted").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_that_are_hidden_cannot_be_restored_either() {
    let fixture = fixture_with(LdpSettings { deleted_versions: false, ..LdpSettings::default() }).await;
    titled(&fixture, "/rest/a", "secret").await;
    delete(&fixture, "/rest/a").await;
    assert_eq!(fixture.get("/rest/fcr:versions?members=deleted").await.status, StatusCode::NOT_FOUND);
    assert_eq!(post(&fixture, "/rest/a/fcr:versions?restore=").await.status, StatusCode::GONE);
    put_after_tombstone(&fixture, "/rest/a").await;
    for path in ["/rest/a/fcr:versions/20250615150640", "/rest/a/fcr:versions?restore=20250615150640"] {
        let method = if path.contains('?') { Method::POST } else { Method::GET };
        assert_eq!(fixture.ask(method, path).answer().await.status, StatusCode::NOT_FOUND, "{path}");
    }
    // Nor with a version of the container that it was in.
    fixture.make("/rest/c", "BasicContainer", "").await;
    titled(&fixture, "/rest/c/secret", "secret").await;
    let changed = fixture.put("/rest/c", &format!("<> <{TITLE}> \"C\" .")).answer().await;
    assert!(changed.status.is_success(), "{}", changed.text());
    minute(&fixture).await;
    let list = "/rest/c/fcr:versions";
    let versions = fixture.get(list).await.objects(&format!("http://test{list}"), "contains");
    let (_, name) = versions.last().unwrap().rsplit_once('/').unwrap();
    delete(&fixture, "/rest/c/secret").await;
    let restored = post(&fixture, &format!("{list}?restore={name}&contents=true")).await;
    assert_eq!(restored.status, StatusCode::CONFLICT, "{}", restored.text());
    assert!(restored.text().contains("/c/secret: it was deleted"), "{}", restored.text());
    assert_eq!(fixture.get("/rest/c/secret").await.status, StatusCode::GONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_a_slower_clock_deleted_comes_back_with_what_was_newer_by_a_faster_one() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    titled(&fixture, "/rest/c/changed", "first").await;
    titled(&fixture, "/rest/c/gone", "gone").await;
    delete(&fixture, "/rest/c/gone").await;
    let slower = Arc::new(ManualClock::new(fixture.clock.now()));
    minute(&fixture).await;
    titled(&fixture, "/rest/c/new/inside", "inside").await;
    titled(&fixture, "/rest/c/changed", "second").await;
    let other = Library::open(fixture.library.store().clone(), slower, LibraryOptions::default()).await.unwrap();
    let container = other.repository.resource(&"c".parse().unwrap()).await.unwrap();
    other.repository.delete(&container).await.unwrap();
    minute(&fixture).await;

    restored(&fixture, "/rest/c/fcr:versions?restore=").await;
    assert!(fixture.get("/rest/c/changed").await.says("<c/changed> dc:title \"second\" ."));
    assert!(fixture.get("/rest/c/new/inside").await.says("<c/new/inside> dc:title \"inside\" ."));
    assert_eq!(fixture.get("/rest/c/gone").await.status, StatusCode::NOT_FOUND);
}
