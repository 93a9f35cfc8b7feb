//! Content that is kept elsewhere: on a server of the test's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use door_ldp::{ExternalPrefix, LdpSettings};
use http::{Method, StatusCode, header};

use crate::support::*;

const REL: &str = "http://fedora.info/definitions/fcrepo#ExternalContent";

/// A server with something to have, and how often it was asked.
async fn elsewhere() -> (String, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let scan = get(move || {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::ready(([(header::CONTENT_TYPE, "image/x-scan")], "a scan"))
    });
    let routes = Router::new()
        .route("/open/scan", scan)
        .route("/open/moved", get(async || Redirect::temporary("/open/scan")))
        .route("/open/lured", get(async || Redirect::temporary("/private/secret")))
        .route("/open/around", get(async || Redirect::temporary("/open/around")))
        .route("/private/secret", get(async || "a secret"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (address, asked)
}

async fn allowing(address: &str) -> Fixture {
    let external = vec![ExternalPrefix::parse(&format!("{address}/open/")).unwrap()];
    fixture_with(LdpSettings { external, ..LdpSettings::default() }).await
}

async fn put(fixture: &Fixture, name: &str, url: &str, handling: &str, digest: Option<&str>) -> Answer {
    let link = format!("<{url}>; rel=\"{REL}\"; handling=\"{handling}\"");
    let ask = fixture.ask(Method::PUT, &format!("/rest/{name}")).header("link", &link);
    match digest {
        Some(digest) => ask.header("digest", digest).answer().await,
        None => ask.answer().await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_kept_here() {
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
async fn what_stays_elsewhere_is_passed_on_or_pointed_to() {
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
    assert!(!described.text().contains("hasSize"), "nobody here knows: {}", described.text());
    let other =
        put(&fixture, "other", &url, "proxy", Some("sha-256=yqQCovsvXdIFGxUZsJ0wMWlTXw3RC16/U1WWyhLd7vA=")).await;
    assert_eq!(other.status, StatusCode::CONFLICT, "another digest is found before anything is kept");
    // It can be replaced by bytes, and these by it.
    let replaced = fixture.ask(Method::PUT, "/rest/passed").header("content-type", "text/plain").body("here now");
    assert_eq!(replaced.answer().await.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.get("/rest/passed").await.text(), "here now");
    assert_eq!(put(&fixture, "passed", &url, "proxy", None).await.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.get("/rest/passed").await.text(), "a scan");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_that_is_not_allowed_and_nobody_is_lured_there() {
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

    // Where nothing is set, nothing is allowed.
    let closed = fixture_with(LdpSettings::default()).await;
    assert_eq!(
        put(&closed, "scan", &format!("{address}/open/scan"), "copy", None).await.status,
        StatusCode::BAD_REQUEST
    );
    let shown = closed.ask(Method::OPTIONS, "/rest/").answer().await;
    assert_eq!(shown.header("accept-external-content-handling"), None);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}
