//! Content stored elsewhere: on a server that the test runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use door_ldp::{ExternalPrefix, LdpSettings};
use http::{HeaderMap, Method, StatusCode, header};

use crate::support::*;

const REL: &str = "http://fedora.info/definitions/fcrepo#ExternalContent";

/// A server with some content, and a count of its requests.
async fn elsewhere() -> (String, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let scan = get(move || {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::ready(([(header::CONTENT_TYPE, "image/x-scan")], "a scan"))
    });
    let changes = Arc::new(AtomicUsize::new(0));
    let changing = get(move || std::future::ready(format!("state {}", changes.fetch_add(1, Ordering::SeqCst))));
    let routes = Router::new()
        .route("/open/scan", scan)
        .route("/open/changing", changing)
        .route("/open/moved", get(async || Redirect::temporary("/open/scan")))
        .route("/open/lured", get(async || Redirect::temporary("/private/secret")))
        .route("/open/around", get(async || Redirect::temporary("/open/around")))
        .route("/private/secret", get(async || "a secret"))
        .route("/open/coded", get(async || ([(header::CONTENT_ENCODING, "gzip")], "coded")))
        .route("/open/plain", get(async || ([(header::CONTENT_ENCODING, "identity")], "plain")))
        .route(
            "/open/part",
            get(async || (StatusCode::PARTIAL_CONTENT, [(header::CONTENT_RANGE, "bytes 0-1/9")], "pa")),
        )
        .route("/open/beyond", get(async || (StatusCode::RANGE_NOT_SATISFIABLE, "no such range")))
        .route("/open/asked", get(async |asked: HeaderMap| asked[header::ACCEPT_ENCODING].as_bytes().to_vec()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (address, asked)
}

async fn allowing(address: &str) -> Fixture {
    let external = vec![ExternalPrefix::parse(&format!("{address}/open/")).unwrap()];
    fixture_with(LdpSettings { external, ..LdpSettings::default() }).await
}

async fn put(fixture: &Fixture, name: &str, url: &str, handling: &str, digest: Option<&str>) -> Reply {
    let link = format!("<{url}>; rel=\"{REL}\"; handling=\"{handling}\"");
    let ask = fixture.ask(Method::PUT, &format!("/rest/{name}")).header("link", &link);
    match digest {
        Some(digest) => ask.header("digest", digest).answer().await,
        None => ask.answer().await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_stored_here() {
    let (address, asked) = elsewhere().await;
    let fixture = allowing(&address).await;
    for name in ["scan", "moved"] {
        assert_eq!(
            put(&fixture, name, &format!("{address}/open/{name}"), "copy", None).await.status,
            StatusCode::CREATED
        );
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    for name in ["scan", "moved"] {
        let read = fixture.get(&format!("/rest/{name}")).await;
        assert_eq!((read.text(), read.header("content-type")), ("a scan", Some("image/x-scan")));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "it is not asked again");
    let wrong =
        put(&fixture, "wrong", &format!("{address}/open/scan"), "copy", Some("md5=00000000000000000000000000000000"))
            .await;
    assert_eq!(wrong.status, StatusCode::CONFLICT);
    assert_eq!(fixture.get("/rest/wrong").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn content_stored_elsewhere_is_proxied_or_redirected_to() {
    let (address, asked) = elsewhere().await;
    let fixture = allowing(&address).await;
    let url = format!("{address}/open/scan");
    assert_eq!(put(&fixture, "passed", &url, "proxy", None).await.status, StatusCode::CREATED);
    assert_eq!(put(&fixture, "pointed", &url, "redirect", None).await.status, StatusCode::CREATED);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let passed = fixture.get("/rest/passed").await;
    assert_eq!((passed.status, passed.text()), (StatusCode::OK, "a scan"));
    assert_eq!(passed.header("content-location"), Some(url.as_str()));
    assert!(passed.is("NonRDFSource"));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let again = fixture.ask(Method::GET, "/rest/passed").header("if-none-match", &passed.etag()).answer().await;
    assert_eq!((again.status, again.text()), (StatusCode::OK, "a scan"), "it may have changed there");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let pointed = fixture.get("/rest/pointed").await;
    assert_eq!((pointed.status, pointed.header("location")), (StatusCode::TEMPORARY_REDIRECT, Some(url.as_str())));
    let described = fixture.get("/rest/passed/fcr:metadata").await;
    assert_eq!(described.status, StatusCode::OK);
    assert!(!described.text().contains("hasSize"), "the size is unknown here: {}", described.text());
    let other =
        put(&fixture, "other", &url, "proxy", Some("sha-256=yqQCovsvXdIFGxUZsJ0wMWlTXw3RC16/U1WWyhLd7vA=")).await;
    assert_eq!(other.status, StatusCode::CONFLICT, "a wrong digest is detected before anything is stored");
    // The link can be replaced by bytes, and the bytes by the link.
    let replaced = fixture.ask(Method::PUT, "/rest/passed").header("content-type", "text/plain").body("here now");
    assert_eq!(replaced.answer().await.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.get("/rest/passed").await.text(), "here now");
    assert_eq!(put(&fixture, "passed", &url, "proxy", None).await.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.get("/rest/passed").await.text(), "a scan");
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_are_not_allowed_are_neither_requested_nor_redirected_to() {
    let (address, asked) = elsewhere().await;
    let fixture = allowing(&address).await;
    for url in [
        format!("{address}/private/secret"),
        format!("{address}/open/../private/secret"),
        "http://169.254.169.254/".to_owned(),
    ] {
        for handling in ["copy", "proxy", "redirect"] {
            let refused = put(&fixture, "refused", &url, handling, None).await;
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{url}");
            assert_eq!(refused.links("http://www.w3.org/ns/ldp#constrainedBy").len(), 1);
        }
    }
    for name in ["lured", "around", "nothing"] {
        let url = format!("{address}/open/{name}");
        assert_eq!(put(&fixture, "refused", &url, "copy", None).await.status, StatusCode::BAD_GATEWAY, "{name}");
        assert_eq!(put(&fixture, name, &url, "proxy", None).await.status, StatusCode::CREATED);
        let read = fixture.get(&format!("/rest/{name}")).await;
        assert_eq!(read.status, StatusCode::BAD_GATEWAY);
        assert!(!read.text().contains("a secret"));
    }
    assert_eq!(fixture.get("/rest/refused").await.status, StatusCode::NOT_FOUND);
    let shown = fixture.ask(Method::OPTIONS, "/rest/").answer().await;
    assert_eq!(shown.header("accept-external-content-handling"), Some("copy,redirect,proxy"));

    // Without a setting nothing is allowed.
    let closed = fixture_with(LdpSettings::default()).await;
    assert_eq!(
        put(&closed, "scan", &format!("{address}/open/scan"), "copy", None).await.status,
        StatusCode::BAD_REQUEST
    );
    let shown = closed.ask(Method::OPTIONS, "/rest/").answer().await;
    assert_eq!(shown.header("accept-external-content-handling"), None);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_the_content_itself_is_neither_stored_nor_sent() {
    let (address, _) = elsewhere().await;
    let fixture = allowing(&address).await;
    for (name, why) in [("coded", "content coding"), ("part", "206"), ("beyond", "416")] {
        let url = format!("{address}/open/{name}");
        let copied = put(&fixture, &format!("copied-{name}"), &url, "copy", None).await;
        assert_eq!(copied.status, StatusCode::BAD_GATEWAY, "{name}");
        assert!(copied.text().contains(why), "{name}: {}", copied.text());
        assert_eq!(fixture.get(&format!("/rest/copied-{name}")).await.status, StatusCode::NOT_FOUND);
        assert_eq!(put(&fixture, name, &url, "proxy", None).await.status, StatusCode::CREATED);
        for method in [Method::GET, Method::HEAD] {
            let read = fixture.ask(method.clone(), &format!("/rest/{name}")).answer().await;
            assert_eq!(read.status, StatusCode::BAD_GATEWAY, "{method} {name}");
        }
    }
    for (name, status) in [
        ("coded", StatusCode::BAD_GATEWAY),
        ("part", StatusCode::PARTIAL_CONTENT),
        ("beyond", StatusCode::RANGE_NOT_SATISFIABLE),
    ] {
        let read = fixture.ask(Method::GET, &format!("/rest/{name}")).header("range", "bytes=0-1").answer().await;
        assert_eq!(read.status, status, "{name}");
    }
    for (name, content) in [("plain", "plain"), ("asked", "identity")] {
        put(&fixture, name, &format!("{address}/open/{name}"), "proxy", None).await;
        assert_eq!(fixture.get(&format!("/rest/{name}")).await.text(), content);
    }
}

fn md5_of(text: &str) -> Vec<u8> {
    let md5 = repository::DigestAlgorithm::Md5;
    repository::upload::digests_of(text.as_bytes(), &[md5]).remove(0).1
}

fn base64_of(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_of_content_stored_elsewhere_are_computed_on_request() {
    let (address, asked) = elsewhere().await;
    let fixture = allowing(&address).await;
    let url = format!("{address}/open/scan");
    for handling in ["proxy", "redirect"] {
        put(&fixture, handling, &url, handling, None).await;
        let path = format!("/rest/{handling}");
        let expected = format!("md5={}", base64_of(&md5_of("a scan")));
        for method in [Method::GET, Method::HEAD] {
            let ask = fixture.ask(method.clone(), &path).header("want-digest", "crc32, md5;q=0.5");
            let answer = ask.header("want-repr-digest", "sha-256=1").answer().await;
            assert_eq!(answer.header("digest"), Some(&*expected), "{method} {handling}");
            assert!(answer.header("repr-digest").unwrap().starts_with("sha-256=:"));
            if (method, handling) == (Method::GET, "proxy") {
                assert_eq!(answer.text(), "a scan");
            }
        }
        let unknown = fixture.ask(Method::GET, &path).header("want-digest", "crc32").answer().await;
        assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
    }
    let before = asked.load(Ordering::SeqCst);
    assert_eq!(fixture.ask(Method::HEAD, "/rest/proxy").answer().await.header("digest"), None);
    assert_eq!(asked.load(Ordering::SeqCst), before + 1, "it is not read where nobody asks");

    put(&fixture, "changing", &format!("{address}/open/changing"), "proxy", None).await;
    let response = fixture.ask(Method::GET, "/rest/changing").header("want-digest", "sha-256").response().await;
    assert_eq!(response.status(), StatusCode::OK);
    let read = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    assert!(read.is_err(), "a content with another digest than promised ends with an error: {read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_type_comes_from_the_other_server_if_the_link_has_none() {
    let (address, _) = elsewhere().await;
    let fixture = allowing(&address).await;
    let url = format!("{address}/open/scan");
    for (name, link_type, media_type) in [("unsaid", "", "image/x-scan"), ("said", "; type=\"image/png\"", "image/png")]
    {
        let link = format!("<{url}>; rel=\"{REL}\"; handling=\"proxy\"{link_type}");
        let path = format!("/rest/{name}");
        assert_eq!(fixture.ask(Method::PUT, &path).header("link", &link).answer().await.status, StatusCode::CREATED);
        for method in [Method::GET, Method::HEAD] {
            let answer = fixture.ask(method, &path).answer().await;
            assert_eq!(answer.header("content-type"), Some(media_type), "{name}");
        }
        let described = fixture.get(&format!("{path}/fcr:metadata")).await;
        assert_eq!(described.text().contains("hasMimeType"), name == "said", "{}", described.text());
    }
    let link = format!("<{url}>; rel=\"{REL}\"; handling=\"redirect\"");
    fixture.ask(Method::PUT, "/rest/pointed").header("link", &link).answer().await;
    let pointed = fixture.get("/rest/pointed").await;
    assert_eq!((pointed.status, pointed.header("content-type")), (StatusCode::TEMPORARY_REDIRECT, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_files_below_an_allowed_folder_are_content() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("open/deep")).unwrap();
    std::fs::write(folder.path().join("open/deep/scan 1"), "a scan in a file").unwrap();
    std::fs::write(folder.path().join("secret"), "a secret").unwrap();
    std::os::unix::fs::symlink("../secret", folder.path().join("open/link")).unwrap();
    let base = format!("file://{}", folder.path().display());
    let external = vec![ExternalPrefix::parse(&format!("{base}/open/")).unwrap()];
    let fixture = fixture_with(LdpSettings { external, ..LdpSettings::default() }).await;
    let url = format!("{base}/open/deep/scan%201");
    for handling in ["copy", "proxy"] {
        assert_eq!(put(&fixture, handling, &url, handling, None).await.status, StatusCode::CREATED);
        let path = format!("/rest/{handling}");
        let whole = fixture.get(&path).await;
        assert_eq!((whole.text(), whole.header("content-length")), ("a scan in a file", Some("16")));
        assert_eq!(whole.header("content-type"), Some("application/octet-stream"));
        assert_eq!(whole.header("content-location"), None, "its path here is not revealed");
        let part = fixture.ask(Method::GET, &path).header("range", "bytes=2-5").answer().await;
        assert_eq!((part.status, part.text()), (StatusCode::PARTIAL_CONTENT, "scan"));
        assert_eq!(part.header("content-range"), Some("bytes 2-5/16"));
        let beyond = fixture.ask(Method::GET, &path).header("range", "bytes=16-").answer().await;
        assert_eq!(
            (beyond.status, beyond.header("content-range")),
            (StatusCode::RANGE_NOT_SATISFIABLE, Some("bytes */16"))
        );
        let head = fixture.ask(Method::HEAD, &path).header("want-digest", "md5").answer().await;
        assert_eq!((head.header("content-length"), head.body.len()), (Some("16"), 0));
        assert_eq!(head.header("digest"), Some(&*format!("md5={}", base64_of(&md5_of("a scan in a file")))));
    }
    std::fs::write(folder.path().join("open/deep/scan 1"), "another").unwrap();
    assert_eq!(fixture.get("/rest/proxy").await.text(), "another");
    assert_eq!(fixture.get("/rest/copy").await.text(), "a scan in a file");
    for refused in [
        format!("{base}/secret"),
        format!("{base}/open/../secret"),
        format!("{base}/open/%2e%2e/secret"),
        format!("{base}/open/"),
        "file:///etc/passwd".to_owned(),
        format!("FILE://{}/open/deep/scan%201", folder.path().display()),
    ] {
        for handling in ["copy", "proxy", "redirect"] {
            let answer = put(&fixture, "refused", &refused, handling, None).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{handling} {refused}");
        }
    }
    assert_eq!(put(&fixture, "refused", &url, "redirect", None).await.status, StatusCode::BAD_REQUEST);
    for leading_out in ["open/link", "open/deep", "open/nothing"] {
        let leading_out = format!("{base}/{leading_out}");
        assert_eq!(put(&fixture, "refused", &leading_out, "copy", None).await.status, StatusCode::BAD_GATEWAY);
        assert!(put(&fixture, "lured", &leading_out, "proxy", None).await.status.is_success());
        let read = fixture.get("/rest/lured").await;
        assert_eq!(read.status, StatusCode::BAD_GATEWAY);
        assert!(!read.text().contains("a secret"));
    }
    assert_eq!(fixture.get("/rest/refused").await.status, StatusCode::NOT_FOUND);
}
