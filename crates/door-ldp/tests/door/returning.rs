//! `Prefer: return=representation` on changes.

use heads::LibraryOptions;
use http::{Method, StatusCode};

use crate::support::{Fixture, ROOT, Reply, fixture, fixture_keeping};

const WISH: &str = "return=representation";
const TITLE: &str = "<> <http://purl.org/dc/terms/title> \"t\" .";
const ADD: &str = "INSERT DATA { <> <http://purl.org/dc/terms/creator> \"c\" }";

/// Checks that a response is the representation of the resource at `path`, and says so.
async fn assert_represents(fixture: &Fixture, answer: &Reply, path: &str, accept: &str) {
    assert_eq!(answer.header("preference-applied"), Some(WISH), "{path}: {answer:?}");
    assert_eq!(answer.header("content-location"), Some(&*format!("http://test{path}")));
    let read = fixture.ask(Method::GET, path).header("accept", accept).answer().await;
    for name in ["etag", "last-modified", "content-type", "content-length", "allow", "repr-digest"] {
        assert_eq!(answer.header(name), read.header(name), "{path}: {name}");
    }
    assert_eq!((&answer.body, answer.links("type")), (&read.body, read.links("type")), "{path}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_prefer_the_changed_graph_in_the_response() {
    let fixture = fixture().await;
    for (name, accept) in
        [("t", "text/turtle"), ("j", "application/ld+json"), ("n", "application/n-triples, */*;q=0.1")]
    {
        let path = format!("/rest/{name}");
        let made = fixture.put(&path, TITLE).header("prefer", WISH).header("accept", accept).answer().await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
        assert_eq!(made.header("location"), Some(&*format!("{ROOT}{name}")));
        assert!(made.says(&format!("<{name}> dc:title \"t\" ; a ldp:BasicContainer .")), "{}", made.text());
        assert_represents(&fixture, &made, &path, accept).await;

        let put = fixture.put(&path, &TITLE.replace("\"t\"", "\"u\"")).header("if-match", &made.etag());
        let put = put.header("prefer", WISH).header("accept", accept).answer().await;
        assert_eq!((put.status, put.header("location")), (StatusCode::OK, None), "{}", put.text());
        assert!(put.says(&format!("<{name}> dc:title \"u\" .")), "{}", put.text());
        assert_represents(&fixture, &put, &path, accept).await;

        let patch = fixture.ask(Method::PATCH, &path).header("content-type", "application/sparql-update").body(ADD);
        let patch = patch.header("if-match", &put.etag()).header("prefer", WISH).header("accept", accept);
        let patch = patch.answer().await;
        assert_eq!(patch.status, StatusCode::OK, "{}", patch.text());
        assert!(patch.says(&format!("<{name}> dc:title \"u\" ; dc:creator \"c\" .")), "{}", patch.text());
        assert_represents(&fixture, &patch, &path, accept).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_posted_resource_is_returned_under_its_own_address() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    let made = fixture.post("/rest/c", TITLE).header("slug", "new").header("prefer", WISH).answer().await;
    assert_eq!((made.status, made.header("location")), (StatusCode::CREATED, Some("http://test/rest/c/new")));
    assert_represents(&fixture, &made, "/rest/c/new", "*/*").await;
    let bytes = fixture.ask(Method::POST, "/rest/c").header("slug", "bytes").header("content-type", "image/png");
    let bytes = bytes.header("prefer", WISH).body("some bytes").answer().await;
    assert_eq!((bytes.status, bytes.text()), (StatusCode::CREATED, "some bytes"));
    assert_eq!(bytes.links("describedby"), ["http://test/rest/c/bytes/fcr:metadata"]);
    assert_represents(&fixture, &bytes, "/rest/c/bytes", "*/*").await;
    let described = fixture.put("/rest/c/bytes/fcr:metadata", TITLE).header("prefer", WISH).answer().await;
    assert_eq!(described.status, StatusCode::OK);
    assert!(described.says("<c/bytes> dc:title \"t\" ; a ldp:NonRDFSource ."), "{}", described.text());
    assert_represents(&fixture, &described, "/rest/c/bytes/fcr:metadata", "*/*").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn omitted_statements_are_left_out_of_the_response_to_a_change_too() {
    let fixture = fixture().await;
    fixture.put("/rest/c/child", "").answer().await;
    let wish = format!("handling=lenient, {WISH}; omit=\"http://www.w3.org/ns/ldp#PreferContainment\"");
    let put = fixture.put("/rest/c", TITLE).header("prefer", &wish).answer().await;
    assert_eq!((put.status, put.header("preference-applied")), (StatusCode::OK, Some(WISH)));
    assert!(put.says("<c> dc:title \"t\" .") && !put.text().contains("child"), "{}", put.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_gets_a_minimal_response_if_the_preferred_representation_cannot_be_sent() {
    let fixture = fixture().await;
    for (path, accept, prefer) in [
        ("/rest/a", "image/png", WISH),
        ("/rest/b", "application/zip", WISH),
        ("/rest/c", "*/*", "return=representation; max-member-count=\"10\""),
    ] {
        for status in [StatusCode::CREATED, StatusCode::NO_CONTENT] {
            let put = fixture.put(path, TITLE).header("accept", accept).header("prefer", prefer).answer().await;
            assert_eq!((put.status, put.body.len()), (status, 0), "{path}");
            assert_eq!((put.header("preference-applied"), put.header("content-location")), (None, None), "{path}");
            assert!(fixture.get(path).await.text().contains("\"t\""));
        }
    }
    let refused = fixture.put("/rest/a", TITLE).header("prefer", WISH).header("if-match", "\"x\"").answer().await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_gives_its_memory_back_before_the_representation_takes_some() {
    // Enough for either of them, and not for both.
    let options = LibraryOptions { memory_bytes: 8 << 20, ..LibraryOptions::default() };
    let fixture = fixture_keeping(options).await;
    let statements: String = (0..6_400).map(|n| format!("<> <u:p> \"{n}\" . ")).collect();
    for (ask, status) in [
        (fixture.put("/rest/s", &statements), StatusCode::CREATED),
        (fixture.put("/rest/s", &statements), StatusCode::OK),
        (fixture.post("/rest/", &statements), StatusCode::CREATED),
    ] {
        let answer = ask.header("prefer", WISH).answer().await;
        assert_eq!((answer.status, answer.header("preference-applied")), (status, Some(WISH)));
        assert_eq!(fixture.library.memory.taken_bytes(), 0);
    }
}
