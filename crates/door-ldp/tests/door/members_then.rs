//! The members of containers as of a time.

use std::time::Duration;

use door_ldp::LdpSettings;
use heads::{History, Keep, LibraryOptions};
use http::{Method, StatusCode};

use crate::support::{Fixture, LDP, ROOT, Reply, fixture, fixture_keeping, fixture_with};

async fn minute(fixture: &Fixture) {
    fixture.clock.advance(Duration::from_secs(60));
}

async fn then(fixture: &Fixture, path: &str, datetime: &str) -> Reply {
    let redirection = fixture.ask(Method::GET, path).header("accept-datetime", datetime).answer().await;
    assert_eq!(redirection.status, StatusCode::FOUND, "{}", redirection.text());
    let location = redirection.header("location").unwrap().strip_prefix("http://test").unwrap().to_owned();
    let memento = fixture.get(&location).await;
    assert_eq!(memento.status, StatusCode::OK, "{}", memento.text());
    memento
}

async fn delete(fixture: &Fixture, path: &str) {
    for path in [path, &format!("{path}/fcr:tombstone")] {
        assert_eq!(fixture.ask(Method::DELETE, path).answer().await.status, StatusCode::NO_CONTENT, "{path}");
    }
}

/// A container at 15:06:40 that gets `a` at 15:07:40 and `b` at 15:08:40, loses `a` at 15:09:40,
/// and gets another `a` at 15:10:40. It is 15:11:40 then.
async fn lived(fixture: &Fixture) {
    fixture.make("/rest/c", "BasicContainer", "<> <http://purl.org/dc/terms/title> \"C\" .").await;
    minute(fixture).await;
    fixture.put("/rest/c/a", "").answer().await;
    minute(fixture).await;
    fixture.put("/rest/c/b", "").answer().await;
    minute(fixture).await;
    delete(fixture, "/rest/c/a").await;
    minute(fixture).await;
    fixture.put("/rest/c/a", "").answer().await;
    minute(fixture).await;
}

fn names(reply: &Reply) -> Vec<String> {
    let contained = reply.objects(&format!("{ROOT}c"), "contains");
    contained.iter().map(|iri| iri.rsplit('/').next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_lists_its_members_as_of_any_accept_datetime() {
    let fixture = fixture().await;
    lived(&fixture).await;
    for (time, members) in [
        ("14:00:00", &[][..]),
        ("15:06:40", &[]),
        ("15:07:39", &[]),
        ("15:07:40", &["a"]),
        ("15:08:39", &["a"]),
        ("15:08:40", &["a", "b"]),
        ("15:09:40", &["b"]),
        ("15:10:39", &["b"]),
        ("15:10:40", &["a", "b"]),
        ("23:59:59", &["a", "b"]),
    ] {
        let memento = then(&fixture, "/rest/c", &format!("Sun, 15 Jun 2025 {time} GMT")).await;
        assert_eq!(names(&memento), members, "{time}");
        assert!(memento.says("<c> dc:title \"C\" ."), "the description as of then, too");
    }
    // It is listed as one version, and every second has an address.
    let map = fixture.get("/rest/c/fcr:versions").await;
    assert_eq!(map.objects(&format!("{ROOT}c/fcr:versions"), "contains").len(), 1);
    let memento = fixture.get("/rest/c/fcr:versions/20250615150750").await;
    assert_eq!(memento.header("memento-datetime"), Some("Sun, 15 Jun 2025 15:07:50 GMT"));
    assert_eq!(names(&memento), ["a"]);
    let version = format!("{ROOT}c/fcr:versions/20250615150640");
    assert_eq!((memento.links("prev memento"), memento.links("next memento")), (vec![version], vec![]));
    for (method, path) in [(Method::HEAD, "20250615150750"), (Method::OPTIONS, "20250615150750")] {
        let reply = fixture.ask(method, &format!("/rest/c/fcr:versions/{path}")).answer().await;
        assert_eq!((reply.status, reply.header("allow")), (StatusCode::OK, Some("GET, HEAD, OPTIONS")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_that_is_not_over_or_before_a_container_was_or_after_it_was_deleted_has_no_address() {
    let fixture = fixture().await;
    lived(&fixture).await;
    let status = async |second: &str| fixture.get(&format!("/rest/c/fcr:versions/{second}")).await.status;
    assert_eq!(status("20250615151139").await, StatusCode::OK);
    for second in ["20250615151140", "20260101000000", "20250615150639", "19700101000000", "19691231235959"] {
        assert_eq!(status(second).await, StatusCode::NOT_FOUND, "{second}");
    }
    fixture.ask(Method::DELETE, "/rest/c").answer().await;
    minute(&fixture).await;
    assert_eq!(status("20250615151139").await, StatusCode::OK);
    assert_eq!(status("20250615151141").await, StatusCode::NOT_FOUND);
    assert_eq!(fixture.get("/rest/c/a/fcr:versions/20250615151100").await.status, StatusCode::OK, "a container too");
    let last = then(&fixture, "/rest/c", "Mon, 16 Jun 2025 00:00:00 GMT").await;
    assert!(last.says("<c> dc:title \"C\" ."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_a_container_lists_its_members_as_of_when_it_began_whatever_comes_later() {
    let fixture = fixture().await;
    lived(&fixture).await;
    fixture.put("/rest/c", "<> <http://purl.org/dc/terms/title> \"D\" .").answer().await;
    fixture.put("/rest/c/d", "").answer().await;
    minute(&fixture).await;
    let all = fixture.get("/rest/c/fcr:versions").await.objects(&format!("{ROOT}c/fcr:versions"), "contains");
    let get = async |n: usize| fixture.get(all[n].strip_prefix("http://test").unwrap()).await;
    assert_eq!((names(&get(0).await), names(&get(1).await)), (vec![], vec!["a".to_owned(), "b".to_owned()]));
    let early = get(1).await;
    assert_eq!((early.header("etag"), early.header("last-modified")), (None, None), "it may still get members");
    for _ in 0..10 {
        minute(&fixture).await;
    }
    let before = get(1).await;
    delete(&fixture, "/rest/c/a").await;
    delete(&fixture, "/rest/c").await;
    let after = get(1).await;
    assert_eq!((before.graph(), before.etag()), (after.graph(), after.etag()));
    let minimal = fixture
        .ask(Method::GET, all[1].strip_prefix("http://test").unwrap())
        .header("prefer", &format!("return=representation; include=\"{LDP}PreferMinimalContainer\""))
        .answer()
        .await;
    assert!(names(&minimal).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn membership_that_another_container_gives_is_as_of_then_unless_what_was_deleted_is_hidden() {
    let rule = "<> ldp:membershipResource </rest/book> ; ldp:hasMemberRelation <http://purl.org/dc/terms/hasPart> .";
    let rule = format!("@prefix ldp: <{LDP}> . {rule}");
    for deleted_versions in [true, false] {
        let fixture = fixture_with(LdpSettings { deleted_versions, ..LdpSettings::default() }).await;
        let has_part = async |second: &str| {
            let memento = fixture.get(&format!("/rest/book/fcr:versions/{second}")).await;
            assert_eq!(memento.status, StatusCode::OK, "{second}: {}", memento.text());
            memento.says("<book> dc:hasPart <parts/p> .")
        };
        fixture.make("/rest/book", "RDFSource", "").await;
        fixture.make("/rest/parts", "DirectContainer", &rule).await;
        minute(&fixture).await;
        fixture.put("/rest/parts/p", "").answer().await;
        minute(&fixture).await;
        fixture.put("/rest/book", "<> <http://purl.org/dc/terms/title> \"B\" .").answer().await;
        minute(&fixture).await;
        assert!(has_part("20250615150840").await);
        delete(&fixture, "/rest/parts").await;
        minute(&fixture).await;
        fixture.put("/rest/book", "<> <http://purl.org/dc/terms/title> \"C\" .").answer().await;
        for (second, is_so) in
            [("20250615150640", false), ("20250615150840", deleted_versions), ("20250615151040", false)]
        {
            assert_eq!(has_part(second).await, is_so, "{second}, deleted versions are shown: {deleted_versions}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_past_members_are_not_all_kept_none_are_shown() {
    let history = History { resources: Keep::Newest(5), ..History::default() };
    let fixture = fixture_keeping(LibraryOptions { history, ..LibraryOptions::default() }).await;
    lived(&fixture).await;
    fixture.put("/rest/c", "<> <http://purl.org/dc/terms/title> \"D\" .").answer().await;
    minute(&fixture).await;
    let memento = then(&fixture, "/rest/c", "Sun, 15 Jun 2025 15:20:00 GMT").await;
    assert!(memento.says("<c> dc:title \"D\" .") && names(&memento).is_empty());
    assert_eq!(fixture.get("/rest/c/fcr:versions/20250615150750").await.status, StatusCode::NOT_FOUND);
}
