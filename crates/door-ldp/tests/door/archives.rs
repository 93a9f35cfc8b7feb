//! Containers with their contents as archives.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use http::{Method, StatusCode};

use crate::support::*;

pub fn entries(answer: &Reply) -> BTreeMap<String, String> {
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, Some("application/zip")));
    let mut archive = zip::ZipArchive::new(Cursor::new(answer.body.clone())).unwrap();
    let count = archive.len();
    let read = |index| {
        let mut entry = archive.by_index(index).unwrap();
        let mut content = String::new();
        entry.read_to_string(&mut content).unwrap();
        (entry.name().unwrap().into_owned(), content)
    };
    (0..count).map(read).collect()
}

async fn tree(fixture: &Fixture) {
    fixture.make("/rest/box", "BasicContainer", "<> <http://purl.org/dc/terms/title> \"The box\" .").await;
    fixture.make("/rest/box/in", "BasicContainer", "").await;
    fixture.make("/rest/box/in/deep", "BasicContainer", "").await;
    fixture.make("/rest/box/in/deep/source", "RDFSource", "<> <http://purl.org/dc/terms/title> \"Deep\" .").await;
    for (name, bytes) in [("note%201", "a note".to_owned()), ("in/large", "large ".repeat(20_000))] {
        let put = fixture.ask(Method::PUT, &format!("/rest/box/{name}")).header("content-type", "text/plain");
        assert_eq!(put.body(bytes).answer().await.status, StatusCode::CREATED);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_sent_as_an_archive_of_its_contents() {
    let fixture = fixture().await;
    tree(&fixture).await;
    let ask = || fixture.ask(Method::GET, "/rest/box").header("accept", "application/zip");
    let answer = ask().answer().await;
    assert_eq!(answer.header("content-length"), None);
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"box.zip\""));
    assert!(answer.is("BasicContainer"));
    let entries = entries(&answer);
    let names: Vec<_> = entries.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "box/",
            "box/fcr%3Ametadata.ttl",
            "box/fcr%3Ametadata/note%201.ttl",
            "box/in/",
            "box/in/deep/",
            "box/in/deep/fcr%3Ametadata.ttl",
            "box/in/deep/fcr%3Ametadata/source.ttl",
            "box/in/fcr%3Ametadata.ttl",
            "box/in/fcr%3Ametadata/large.ttl",
            "box/in/large",
            "box/note%201",
        ]
    );
    assert_eq!(entries["box/note%201"], "a note");
    assert_eq!(entries["box/in/large"], "large ".repeat(20_000));
    let said = parsed(&entries["box/fcr%3Ametadata.ttl"]);
    assert!(parsed("<box> dc:title \"The box\" ; a ldp:BasicContainer .").iter().all(|triple| said.contains(triple)));
    let head = fixture.ask(Method::HEAD, "/rest/box").header("accept", "application/zip").answer().await;
    assert_eq!((head.header("content-type"), head.body.len()), (Some("application/zip"), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_has_the_requested_depth_and_names_omitted_resources() {
    let fixture = fixture().await;
    tree(&fixture).await;
    let ask = async |depth: &str| {
        let path = format!("/rest/box?depth={depth}");
        fixture.ask(Method::GET, &path).header("accept", "application/zip").answer().await
    };
    let shallow = entries(&ask("1").await);
    assert!(shallow.contains_key("box/in/fcr%3Ametadata.ttl") && !shallow.contains_key("box/in/large"));
    assert_eq!(shallow["ERROR.err"], "too deep: the contents of /box/in\n");
    let deeper = entries(&ask("2").await);
    assert!(deeper.contains_key("box/in/large"));
    assert_eq!(deeper["ERROR.err"], "too deep: the contents of /box/in/deep\n");
    for depth in ["0", "65", "x"] {
        assert_eq!(ask(depth).await.status, StatusCode::BAD_REQUEST, "{depth}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_children_are_all_in_the_archive_and_other_resources_have_none() {
    let fixture = fixture().await;
    fixture.make("/rest/many", "BasicContainer", "").await;
    for n in 0..600 {
        fixture.make(&format!("/rest/many/{n:03}"), "RDFSource", "").await;
    }
    let answer = fixture.ask(Method::GET, "/rest/many").header("accept", "application/zip").answer().await;
    assert_eq!(entries(&answer).len(), 602);
    let source = fixture.ask(Method::GET, "/rest/many/001").header("accept", "application/zip").answer().await;
    assert_eq!(source.status, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_sent_as_it_was_at_a_time_with_all_below_it() {
    let fixture = fixture().await;
    tree(&fixture).await;
    let sent = fixture.ask(Method::GET, "/rest/box").header("accept", "application/zip").answer().await;
    let before = entries(&sent);
    let minute = std::time::Duration::from_secs(60);
    fixture.clock.advance(minute);
    let put = fixture.ask(Method::PUT, "/rest/box/note%201").header("content-type", "text/plain");
    assert_eq!(put.body("changed").answer().await.status, StatusCode::NO_CONTENT);
    fixture.make("/rest/box/in/new", "RDFSource", "").await;
    for path in ["/rest/box/in/deep", "/rest/box/in/large"] {
        assert_eq!(fixture.ask(Method::DELETE, path).answer().await.status, StatusCode::NO_CONTENT);
    }
    fixture.clock.advance(minute);

    let ask = fixture.ask(Method::GET, "/rest/box").header("accept", "application/zip");
    let answer = ask.header("accept-datetime", "Sun, 15 Jun 2025 15:07:00 GMT").answer().await;
    assert_eq!(answer.status, StatusCode::FOUND);
    let then = answer.header("location").unwrap().strip_prefix("http://test").unwrap().to_owned();
    let archive = async || {
        let answer = fixture.ask(Method::GET, &then).header("accept", "application/zip").answer().await;
        assert_eq!(answer.header("memento-datetime"), Some("Sun, 15 Jun 2025 15:07:00 GMT"));
        entries(&answer)
    };
    assert_eq!(archive().await, before);
    // Also when the container itself is gone, and another one is in its place.
    for path in ["/rest/box", "/rest/box/fcr:tombstone"] {
        assert_eq!(fixture.ask(Method::DELETE, path).answer().await.status, StatusCode::NO_CONTENT);
    }
    fixture.make("/rest/box", "BasicContainer", "").await;
    fixture.clock.advance(minute);
    assert_eq!(archive().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_description_is_named_and_the_rest_is_in_the_archive() {
    let fixture = fixture().await;
    tree(&fixture).await;
    let before = fixture.ask(Method::GET, "/rest/box").header("accept", "application/zip").answer().await;
    let mut wanted = entries(&before);
    fixture.make("/rest/box/in/noted", "BasicContainer", "<> <http://purl.org/dc/terms/title> \"Noted\" .").await;
    fixture.make("/rest/box/in/noted/child", "RDFSource", "").await;
    fixture.lose_description("box/in/noted").await;
    fixture.lose_description("box/in/deep/source").await;

    let after = fixture.ask(Method::GET, "/rest/box").header("accept", "application/zip").answer().await;
    let mut found = entries(&after);
    let named = found.remove("ERROR.err").unwrap();
    let mut named: Vec<_> = named.lines().collect();
    named.sort_unstable();
    assert_eq!(named, ["damaged: the description of /box/in/deep/source", "damaged: the description of /box/in/noted"]);
    assert!(found.remove("box/in/noted/").is_some());
    assert!(found.remove("box/in/noted/fcr%3Ametadata/child.ttl").is_some());
    wanted.remove("box/in/deep/fcr%3Ametadata/source.ttl");
    // Its statements about members and times have changed.
    assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_description_is_in_an_archive_like_any_other() {
    let fixture = fixture().await;
    tree(&fixture).await;
    let titles: String = (0..1_000).map(|n| format!("<> <http://a/p> \"{n}{}\" . ", "x".repeat(200))).collect();
    fixture.make("/rest/box/long", "BasicContainer", &titles).await;
    fixture.make("/rest/box/long/longer", "RDFSource", &titles).await;
    let answer = fixture.ask(Method::GET, "/rest/box").header("accept", "application/zip").answer().await;
    let entries = entries(&answer);
    for name in ["box/long/fcr%3Ametadata.ttl", "box/long/fcr%3Ametadata/longer.ttl"] {
        assert!(entries[name].len() > 200_000, "{name}");
    }
    assert!(entries.contains_key("box/in/deep/fcr%3Ametadata/source.ttl"));
    assert_eq!(fixture.library.memory.taken_bytes(), 0);
}
