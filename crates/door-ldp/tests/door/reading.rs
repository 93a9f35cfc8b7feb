//! Responses to reads: formats and headers.

use axum::body::to_bytes;
use budget::{Memory, Party};
use futures::FutureExt;
use heads::LibraryOptions;
use http::{Method, StatusCode};
use rdf::isomorphic;

use crate::support::{Fixture, ROOT, fixture, fixture_keeping, parsed};

const BODY: &str = "@prefix dc: <http://purl.org/dc/terms/> . <> dc:title \"Tëst\"@en ; dc:relation <other>, <#part> ; \
                    dc:creator [ dc:title \"nobody\" ; dc:hasPart [] ] . <#part> dc:isPartOf <> .";

async fn with_source() -> Fixture {
    let fixture = fixture().await;
    fixture.make("/rest/a/source", "RDFSource", BODY).await;
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_comes_back_the_same_in_every_format() {
    let fixture = with_source().await;
    let turtle = fixture.get("/rest/a/source").await;
    assert_eq!(turtle.header("content-type"), Some("text/turtle"));
    assert!(turtle.says(
        "<a/source> a ldp:RDFSource, ldp:Resource ; dc:title \"Tëst\"@en ; dc:relation <a/other>, <a/source#part> . \
         <a/source#part> dc:isPartOf <a/source> ."
    ));
    let expected = turtle.graph();
    for accept in [
        "application/ld+json",
        "application/ld+json; profile=\"http://www.w3.org/ns/json-ld#expanded\"",
        "application/ld+json; profile=\"http://www.w3.org/ns/json-ld#flattened\"",
        "application/n-triples",
        "application/rdf+xml",
        "application/rdf+xml;q=0.1, application/n-triples;q=0.2",
    ] {
        let answer = fixture.ask(Method::GET, "/rest/a/source").header("accept", accept).answer().await;
        assert!(isomorphic(&answer.graph(), &expected), "{accept}: {}", answer.text());
        assert_ne!(answer.etag(), turtle.etag());
    }
    let refused = fixture.ask(Method::GET, "/rest/a/source").header("accept", "image/png").answer().await;
    assert_eq!(refused.status, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_can_be_put_back_unchanged_with_its_blank_nodes() {
    let fixture = with_source().await;
    for path in ["/rest/a/source", "/rest/a"] {
        let before = fixture.get(path).await;
        let put = fixture.put(path, before.text()).header("if-match", &before.etag()).answer().await;
        assert_eq!(put.status, StatusCode::NO_CONTENT, "{path}: {}", put.text());
        let after = fixture.get(path).await;
        let without_times = |graph: rdf::Graph| -> rdf::Graph {
            graph.into_iter().filter(|triple| !triple.predicate.as_str().ends_with("lastModified")).collect()
        };
        assert!(isomorphic(&without_times(after.graph()), &without_times(before.graph())), "{}", after.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn head_has_the_headers_of_get_and_options_lists_the_methods() {
    let fixture = with_source().await;
    for path in ["/rest/a", "/rest/a/source"] {
        let (get, head) = (fixture.get(path).await, fixture.ask(Method::HEAD, path).answer().await);
        assert_eq!(head.status, StatusCode::OK);
        assert!(head.body.is_empty());
        for name in ["etag", "last-modified", "content-type", "allow", "accept-patch", "accept-post", "vary"] {
            assert_eq!(head.header(name), get.header(name), "{path}: {name}");
        }
        assert_eq!(head.links("type"), get.links("type"));
        let options = fixture.ask(Method::OPTIONS, path).answer().await;
        assert_eq!((options.header("allow"), options.links("type")), (get.header("allow"), get.links("type")));
    }
    let container = fixture.ask(Method::OPTIONS, "/rest/a").answer().await;
    assert_eq!(container.header("allow"), Some("GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE"));
    assert!(container.header("accept-post").unwrap().contains("text/turtle"));
    assert_eq!(container.header("accept-patch"), Some("application/sparql-update"));
}

#[tokio::test(flavor = "multi_thread")]
async fn head_of_a_streamed_representation_has_no_length() {
    let fixture = with_source().await;
    for (path, accept) in [
        ("/rest/a", "*/*"),
        ("/rest/a/source", "application/ld+json"),
        ("/rest/a", "application/zip"),
        ("/rest/volumes", "*/*"),
    ] {
        let head = fixture.ask(Method::HEAD, path).header("accept", accept).answer().await;
        assert_eq!((head.status, head.header("content-length")), (StatusCode::OK, None), "{path} as {accept}");
    }
    let tag = fixture.get("/rest/a").await.etag();
    let known = fixture.ask(Method::GET, "/rest/a").header("if-none-match", &tag).answer().await;
    assert_eq!((known.status, known.header("content-length")), (StatusCode::NOT_MODIFIED, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_with_an_extra_slash_redirects_to_the_one_without() {
    let fixture = with_source().await;
    for (path, location) in [
        ("/rest/a/", "/rest/a"),
        ("/rest/a/source/?limit=3", "/rest/a/source?limit=3"),
        ("/rest/a%20b/fcr:metadata/", "/rest/a%20b/fcr:metadata"),
        ("/rest/volumes/", "/rest/volumes"),
        ("/rest/nothing/", "/rest/nothing"),
    ] {
        for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::PATCH, Method::DELETE] {
            let moved = fixture.ask(method.clone(), path).answer().await;
            assert_eq!(moved.status, StatusCode::PERMANENT_REDIRECT, "{method} {path}");
            assert_eq!(moved.header("location"), Some(location), "{method} {path}");
        }
    }
    assert_eq!(fixture.post("/rest/a/", "").answer().await.header("location"), Some("/rest/a"));
    let root = fixture.get("/rest/").await;
    assert_eq!((root.status, root.header("content-location")), (StatusCode::OK, None));
    let bare = fixture.get("/rest").await;
    assert_eq!((bare.status, bare.header("content-location")), (StatusCode::OK, Some(ROOT)));
    assert_eq!(bare.body, root.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_fedora_find_its_types() {
    let fixture = with_source().await;
    fixture.ask(Method::PUT, "/rest/b").header("content-type", "image/png").body("bytes").answer().await;
    let typed = |subject: &str, types: &[&str]| {
        let of = |name: &&str| format!("<{subject}> a <http://fedora.info/definitions/v4/repository#{name}> . ");
        types.iter().map(of).collect::<String>()
    };
    assert!(fixture.get("/rest/").await.says(&typed("", &["RepositoryRoot", "Container", "Resource"])));
    let container = fixture.get("/rest/a").await;
    assert!(container.says(&typed("a", &["Container", "Resource"])) && !container.text().contains("RepositoryRoot"));
    assert!(fixture.get("/rest/a/source").await.says(&typed("a/source", &["Resource"])));
    assert!(fixture.get("/rest/b/fcr:metadata").await.says(&typed("b", &["Binary", "Resource"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_the_representation_gets_304() {
    let fixture = with_source().await;
    let read = fixture.get("/rest/a/source").await;
    let again = |name: &'static str, value: String| {
        let fixture = &fixture;
        async move { fixture.ask(Method::GET, "/rest/a/source").header(name, &value).answer().await.status }
    };
    assert_eq!(again("if-none-match", read.etag()).await, StatusCode::NOT_MODIFIED);
    assert_eq!(again("if-none-match", "\"x\"".to_owned()).await, StatusCode::OK);
    let time = read.header("last-modified").unwrap().to_owned();
    assert_eq!(again("if-modified-since", time).await, StatusCode::NOT_MODIFIED);
    assert_eq!(again("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT".to_owned()).await, StatusCode::OK);
    assert_eq!(again("if-match", "\"x\"".to_owned()).await, StatusCode::PRECONDITION_FAILED);
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_have_the_name_under_which_the_server_is_addressed() {
    let fixture = with_source().await;
    let answer = fixture.ask(Method::GET, "http://elsewhere:99/rest/a/source").answer().await;
    assert!(answer.text().contains("<http://elsewhere:99/rest/a/other>"), "{}", answer.text());
    assert!(!answer.text().contains(ROOT));
    let expected = parsed("<a/source> dc:relation <a/other> .");
    let here = fixture.get("/rest/a/source").await.graph();
    assert!(expected.iter().all(|triple| here.contains(triple)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_resource_is_not_found() {
    let fixture = fixture().await;
    let answer = fixture.get("/rest/nothing").await;
    assert_eq!((answer.status, answer.detail()), (StatusCode::NOT_FOUND, "there is nothing at /nothing".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_gets_a_page_that_runs_nothing() {
    let fixture = with_source().await;
    fixture.put("/rest/x", "<> <http://purl.org/dc/terms/title> \"<script>alert(1)</script>\" .").answer().await;
    let accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let page = fixture.ask(Method::GET, "/rest/x").header("accept", accept).answer().await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(!page.text().contains("<script>") && page.text().contains("&lt;script&gt;"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert_eq!(fixture.get("/rest/fcr:style").await.header("content-type"), Some("text/css; charset=utf-8"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_sent_and_accepted_as_n3_and_as_plain_text() {
    let fixture = fixture().await;
    let statement = "<http://test/rest/a> <http://purl.org/dc/terms/title> \"t\" .";
    for (content_type, body) in [("text/n3", "<> <http://purl.org/dc/terms/title> \"t\""), ("text/plain", statement)] {
        let put = fixture.ask(Method::PUT, "/rest/a").of_class("RDFSource").header("content-type", content_type);
        let put = put.body(body).answer().await;
        assert!(put.status.is_success(), "{content_type}: {}", put.text());
        for accepted in ["text/n3", "text/plain"] {
            let read = fixture.ask(Method::GET, "/rest/a").header("accept", accepted).answer().await;
            assert!(read.header("content-type").unwrap().starts_with(accepted), "{read:?}");
            assert!(read.text().contains("\"t\""), "{}", read.text());
        }
    }
    let changed = fixture.ask(Method::PUT, "/rest/a").header("content-type", "text/plain").body("").answer().await;
    assert_eq!(changed.status, StatusCode::NO_CONTENT, "a graph stays a graph");
    let text = fixture.ask(Method::PUT, "/rest/note").header("content-type", "text/plain").body(statement);
    assert_eq!(text.answer().await.status, StatusCode::CREATED);
    let note = fixture.get("/rest/note").await;
    assert!(note.is("NonRDFSource") && note.text() == statement, "a plain text is bytes unless it is declared a graph");
    let usual =
        fixture.ask(Method::GET, "/rest/a").header("accept", "application/json, text/plain, */*").answer().await;
    assert_eq!(usual.header("content-type"), Some("text/turtle"), "clients that accept anything get the default");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_sent_as_a_list_in_json_ld() {
    let fixture = fixture().await;
    fixture.put("/rest/a", "<> <http://a/items> (1 <> \"x\") .").answer().await;
    let read = fixture.ask(Method::GET, "/rest/a").header("accept", "application/ld+json").answer().await;
    let document: serde_json::Value = serde_json::from_slice(&read.body).unwrap();
    let nodes = document["@graph"].as_array().unwrap();
    let items = nodes.iter().find_map(|node| node.get("http://a/items")).unwrap();
    assert_eq!(items["@list"][1], serde_json::json!({"@id": "http://test/rest/a"}), "{document:#}");
    assert_eq!(items["@list"].as_array().unwrap().len(), 3);
    assert!(!read.text().contains("rdf-syntax-ns#first"), "{}", read.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn large_descriptions_take_a_share_of_the_memory_until_they_are_sent_and_small_ones_take_none() {
    const CONTAINED: &str = "return=representation; include=\"http://www.w3.org/ns/oa#PreferContainedDescriptions\"";
    let fixture = fixture().await;
    let titles: String = (0..3_000).map(|n| format!("<> <http://a/p> \"{n}{}\" . ", "x".repeat(200))).collect();
    fixture.make("/rest/c", "BasicContainer", "").await;
    fixture.make("/rest/c/large", "RDFSource", &titles).await;
    fixture.make("/rest/small", "RDFSource", titles[..20_000].rsplit_once("<>").unwrap().0).await;
    let taken_bytes = || fixture.library.memory.taken_bytes();
    for (path, prefer, is_large) in [
        ("/rest/c/large", "return=representation", true),
        ("/rest/c", CONTAINED, true),
        ("/rest/c?limit=1", CONTAINED, true),
        ("/rest/c", "return=representation", false),
        ("/rest/small", "return=representation", false),
    ] {
        assert_eq!(taken_bytes(), 0, "{path}");
        let response = fixture.ask(Method::GET, path).header("prefer", prefer).response().await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        // Only its beginning was written.
        let held_bytes = taken_bytes();
        let sent = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert_eq!(sent.len() > 600_000, is_large, "{path}: {} bytes", sent.len());
        assert_eq!(held_bytes > sent.len() as u64, is_large, "{path}: {held_bytes} bytes");
    }
    assert_eq!(taken_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_that_takes_more_memory_than_expected_waits_for_it() {
    const MEMORY_BYTES: u64 = 16 << 20;
    let fixture = fixture_keeping(LibraryOptions { memory_bytes: MEMORY_BYTES, ..LibraryOptions::default() }).await;
    // Of short statements 2 MB are expected, and they take 5 MB.
    let statements: String = (0..5_000).map(|n| format!("<> <u:p> \"{n}\" . ")).collect();
    fixture.make("/rest/s", "RDFSource", &statements).await;
    let memory = &fixture.library.memory;
    let others = memory.try_reserve(&Party::Local, Memory::largest_share(MEMORY_BYTES) - (3 << 20)).unwrap();
    let mut answer = Box::pin(fixture.get("/rest/s"));
    for _ in 0..1_000 {
        assert!((&mut answer).now_or_never().is_none(), "it does not wait");
        tokio::task::yield_now().await;
    }
    drop(others);
    assert_eq!(answer.await.status, StatusCode::OK);
    assert_eq!(memory.taken_bytes(), 0);
}
