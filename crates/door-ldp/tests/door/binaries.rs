//! Bytes and their descriptions.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};

use crate::support::{Fixture, ROOT, fixture};

fn bytes_of(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 % 251) as u8).collect()
}

async fn put_bytes(fixture: &Fixture, path: &str, bytes: Vec<u8>) -> crate::support::Reply {
    let ask = fixture.ask(Method::PUT, path).header("content-type", "image/png").body(bytes);
    ask.header("content-disposition", "attachment; filename=\"page.png\"").answer().await
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_any_size_come_back_with_their_type_digest_and_ranges() {
    let fixture = fixture().await;
    for len in [0, 1, 16 << 10, (16 << 10) + 1, 1_000_000] {
        let (path, bytes) = (format!("/rest/b{len}"), bytes_of(len));
        let made = put_bytes(&fixture, &path, bytes.clone()).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
        assert_eq!(made.links("describedby"), [format!("{ROOT}b{len}/fcr:metadata")]);
        let read = fixture.get(&path).await;
        assert_eq!(read.body, bytes);
        assert_eq!(read.header("content-type"), Some("image/png"));
        assert_eq!(read.header("content-disposition"), Some("attachment; filename=\"page.png\""));
        assert_eq!(read.header("content-length"), Some(&*len.to_string()));
        assert!(read.is("NonRDFSource") && read.is("Resource"));
        assert_eq!(read.links("describedby"), [format!("{ROOT}b{len}/fcr:metadata")]);
        if len > 100 {
            let part = fixture.ask(Method::GET, &path).header("range", "bytes=90-99").answer().await;
            assert_eq!((part.status, &part.body[..]), (StatusCode::PARTIAL_CONTENT, &bytes[90..100]));
        }
        let head = fixture.ask(Method::HEAD, &path).answer().await;
        assert_eq!((head.header("content-length"), head.body.len()), (Some(&*len.to_string()), 0));
        let beyond = fixture.ask(Method::GET, &path).header("range", "bytes=2000000-").answer().await;
        assert_eq!(beyond.status, StatusCode::RANGE_NOT_SATISFIABLE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_are_sent_on_request_and_checked_if_announced() {
    let fixture = fixture().await;
    let bytes = bytes_of(50_000);
    let sha256 = hex::encode(Sha256::digest(&bytes));
    let put =
        |digest: String| fixture.ask(Method::PUT, "/rest/b").header("digest", &digest).body(bytes.clone()).answer();
    let wrong = put(format!("sha-256={}", "00".repeat(32))).await;
    assert_eq!(wrong.status, StatusCode::CONFLICT);
    assert!(wrong.detail().contains(&sha256));
    assert_eq!(fixture.get("/rest/b").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.contents().await, 0, "nothing of a refused body is stored");
    assert_eq!(put("crc32=1".to_owned()).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(put(format!("sha-256={sha256}")).await.status, StatusCode::CREATED);
    assert_eq!(fixture.contents().await, 1);
    let wanted = |value| fixture.ask(Method::HEAD, "/rest/b").header("want-digest", value).answer();
    assert!(wanted("md5, sha-256;q=0.2").await.header("digest").unwrap().starts_with("md5="));
    assert!(wanted("sha-512;q=0.9, sha;q=0.1").await.header("digest").unwrap().starts_with("sha-512="));
    assert_eq!(wanted("crc32").await.status, StatusCode::BAD_REQUEST);
    assert!(fixture.get("/rest/b").await.header("repr-digest").unwrap().starts_with("sha-256=:"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_half_way_leaves_nothing() {
    let fixture = fixture().await;
    let half = (0..200).map(|_| Ok(Bytes::from(vec![1; 1_000])));
    let broken = stream::iter(half.chain([Err(std::io::Error::other("gone"))]));
    let ask = fixture.ask(Method::PUT, "/rest/b").header("content-type", "image/png").body(Body::from_stream(broken));
    assert_eq!(ask.answer().await.status, StatusCode::BAD_REQUEST);
    assert_eq!(fixture.get("/rest/b").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.contents().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_refused_while_it_arrives() {
    let settings = door_ldp::LdpSettings { binary_bytes_max: 100_000, ..Default::default() };
    let fixture = crate::support::fixture_with(settings).await;
    let pieces = (0..1_000).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![1; 1_000])));
    let ask = fixture.ask(Method::POST, "/rest/").header("content-type", "image/png");
    let refused = ask.body(Body::from_stream(stream::iter(pieces))).answer().await;
    assert_eq!((refused.status, fixture.contents().await), (StatusCode::PAYLOAD_TOO_LARGE, 0));
    let announced = fixture.ask(Method::POST, "/rest/").header("content-length", "100001").body("x").answer().await;
    assert_eq!(announced.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binary_has_a_description_that_changes_separately() {
    let fixture = fixture().await;
    put_bytes(&fixture, "/rest/b", bytes_of(10)).await;
    let (tag, described) = (fixture.get("/rest/b").await.etag(), fixture.get("/rest/b/fcr:metadata").await);
    assert_eq!(described.status, StatusCode::OK);
    assert!(described.is("RDFSource") && described.says("<b> a ldp:NonRDFSource ."));
    assert_eq!(described.links("describes"), [format!("{ROOT}b")]);
    let title = format!("{} <> <http://purl.org/dc/terms/title> \"A page\" .", described.text());
    let put = fixture.put("/rest/b/fcr:metadata", &title).header("if-match", &described.etag()).answer().await;
    assert_eq!(put.status, StatusCode::NO_CONTENT, "{}", put.text());
    assert!(fixture.get("/rest/b/fcr:metadata").await.says("<b> dc:title \"A page\" ."));
    assert_eq!(fixture.get("/rest/b").await.etag(), tag, "the bytes have not changed");
    let replaced = fixture.ask(Method::PUT, "/rest/b").header("if-match", &tag).body("new").answer().await;
    assert_eq!(replaced.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.get("/rest/b").await.text(), "new");
    assert!(fixture.get("/rest/b/fcr:metadata").await.says("<b> dc:title \"A page\" ."), "its description stays");
    assert_eq!(fixture.get("/rest/fcr:metadata").await.status, StatusCode::NOT_FOUND);
    let patched = fixture.ask(Method::PATCH, "/rest/b").answer().await;
    assert_eq!(patched.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_revalidates_a_description_by_its_date_learns_of_other_bytes() {
    let fixture = fixture().await;
    put_bytes(&fixture, "/rest/b", bytes_of(10)).await;
    let date = fixture.get("/rest/b/fcr:metadata").await.header("last-modified").unwrap().to_owned();
    fixture.clock.advance(Duration::from_secs(300));
    assert_eq!(put_bytes(&fixture, "/rest/b", bytes_of(20)).await.status, StatusCode::NO_CONTENT);
    let read = |name: &'static str| fixture.ask(Method::GET, "/rest/b/fcr:metadata").header(name, &date).answer();
    let again = read("if-modified-since").await;
    assert_eq!(again.status, StatusCode::OK);
    assert_ne!(again.header("last-modified"), Some(&*date));
    assert_eq!(again.header("last-modified"), fixture.get("/rest/b").await.header("last-modified"));
    let unmodified = read("if-unmodified-since").await.status;
    assert_eq!(unmodified, StatusCode::OK, "a writer's condition is about the description alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn turtle_is_bytes_on_request_and_a_body_without_type_is_bytes() {
    let fixture = fixture().await;
    let made = fixture.post("/rest/", "not turtle").of_class("NonRDFSource").header("slug", "t").answer().await;
    assert_eq!(made.status, StatusCode::CREATED);
    let read = fixture.get("/rest/t").await;
    assert_eq!((read.text(), read.header("content-type")), ("not turtle", Some("text/turtle")));
    fixture.ask(Method::POST, "/rest/").header("slug", "o").body("x").answer().await;
    assert_eq!(fixture.get("/rest/o").await.header("content-type"), Some("application/octet-stream"));
}

/// Digests of `abc` in base64.
const DIGESTS_OF_ABC: [(&str, &str); 4] = [
    ("md5", "kAFQmDzST7DWlj99KOF/cg=="),
    ("sha", "qZk+NkcGgWq6PiVxeFDCbJzQ2J0="),
    ("sha-256", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="),
    ("sha-512", "3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw=="),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_digest_is_checked_in_every_header_and_sent_on_request() {
    let fixture = fixture().await;
    for (name, value) in DIGESTS_OF_ABC {
        for (header, announced) in [
            ("digest", format!("{name}={value}")),
            ("repr-digest", format!("{name}=:{value}:")),
            ("content-digest", format!("{name}=:{value}:")),
        ] {
            let put = |bytes: &'static str| {
                fixture.ask(Method::PUT, "/rest/abc").header(header, &announced).body(bytes).answer()
            };
            assert!(put("abc").await.status.is_success(), "{header}: {announced}");
            assert_eq!(put("abd").await.status, StatusCode::CONFLICT, "{header}: {announced}");
            assert_eq!(fixture.get("/rest/abc").await.text(), "abc");
        }
        let get =
            |header: &'static str, wish: String| fixture.ask(Method::GET, "/rest/abc").header(header, &wish).answer();
        let older = get("want-digest", name.to_owned()).await;
        assert_eq!(older.header("digest"), Some(&*format!("{name}={value}")));
        for (wish, given) in [("want-repr-digest", "repr-digest"), ("want-content-digest", "content-digest")] {
            let newer = get(wish, format!("{name}=5")).await;
            assert_eq!(newer.header(given), Some(&*format!("{name}=:{value}:")));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_digest_is_sent_if_the_content_is_the_whole_resource() {
    let fixture = fixture().await;
    fixture.ask(Method::PUT, "/rest/abc").body("abc").answer().await;
    let digest = "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:";
    let whole = fixture.get("/rest/abc").await;
    assert_eq!((whole.header("repr-digest"), whole.header("content-digest")), (Some(digest), Some(digest)));
    let part = fixture.ask(Method::GET, "/rest/abc").header("range", "bytes=1-1").answer().await;
    assert_eq!((part.header("repr-digest"), part.header("content-digest")), (Some(digest), None));
    let head = fixture.ask(Method::HEAD, "/rest/abc").answer().await;
    assert_eq!((head.header("repr-digest"), head.header("content-digest")), (Some(digest), None));
    let different = fixture.ask(Method::GET, "/rest/abc").header("want-repr-digest", "md5=1");
    let different = different.header("want-content-digest", "sha-512=3, sha-256=9").answer().await;
    assert_eq!(different.header("content-digest"), Some(digest));
    assert!(different.header("repr-digest").unwrap().starts_with("md5=:"));
    let unknown = fixture.ask(Method::GET, "/rest/abc").header("want-content-digest", "unixsum=1").answer().await;
    assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
    assert!(unknown.detail().contains("want-content-digest"), "{}", unknown.detail());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_with_any_letters_is_encoded_for_every_client_and_is_in_the_description() {
    let fixture = fixture().await;
    let filename = |answer: &crate::support::Reply| {
        let graph = answer.graph();
        let names = graph.iter().filter(|triple| triple.predicate.as_str().ends_with("ebucore#filename"));
        names.map(|triple| triple.object.to_string()).collect::<Vec<_>>()
    };
    let encoded = "attachment; filename=\"_bersicht.pdf\"; filename*=UTF-8''%C3%9Cbersicht.pdf";
    for (sent, kept, name) in [
        ("attachment; filename=\"Übersicht.pdf\"", encoded, Some("\"Übersicht.pdf\"")),
        (encoded, encoded, Some("\"Übersicht.pdf\"")),
        ("inline; filename=page.png", "inline; filename=page.png", Some("\"page.png\"")),
        ("inline", "inline", None),
    ] {
        let ask = fixture.ask(Method::PUT, "/rest/b").header("content-type", "application/pdf");
        assert!(ask.header("content-disposition", sent).body("bytes").answer().await.status.is_success(), "{sent}");
        assert_eq!(fixture.get("/rest/b").await.header("content-disposition"), Some(kept));
        let described = fixture.get("/rest/b/fcr:metadata").await;
        assert_eq!(filename(&described), Vec::from_iter(name), "{}", described.text());
        let put = fixture.put("/rest/b/fcr:metadata", described.text()).answer().await;
        assert_eq!(put.status, StatusCode::NO_CONTENT, "{}", put.text());
    }
}
