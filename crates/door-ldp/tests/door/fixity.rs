//! `fcr:fixity`: the bytes of a binary are read again and compared.

use http::{Method, StatusCode};
use sha2::{Digest, Sha256};

use crate::support::{Fixture, ROOT, Reply, fixture};

const PREMIS: &str = "http://www.loc.gov/premis/rdf/v1#";

async fn put(fixture: &Fixture, path: &str, bytes: &[u8]) {
    let put = fixture.ask(Method::PUT, path).header("content-type", "image/png").body(bytes.to_vec());
    assert!(put.answer().await.status.is_success());
}

/// The name of the check in a response about `/rest/b`.
fn check_of(reply: &Reply) -> String {
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    let fixity = rdf::NamedNode::new_unchecked(format!("{PREMIS}hasFixity"));
    let resource = rdf::NamedNode::new_unchecked(format!("{ROOT}b"));
    let graph = reply.graph();
    let check = graph.objects(resource.as_ref().into(), fixity.as_ref()).next().expect("a check").to_string();
    assert!(check.starts_with(&format!("<{ROOT}b/fcr:fixity#")), "{check}");
    check
}

/// Whether it says this of its check.
fn says(reply: &Reply, statements: &str) -> bool {
    reply.says(&format!("@prefix premis: <{PREMIS}> . {} {statements} .", check_of(reply)))
}

#[tokio::test(flavor = "multi_thread")]
async fn sound_bytes_have_the_outcome_success_with_their_digest_and_size() {
    let fixture = fixture().await;
    for len in [0, 10, 300_000] {
        let bytes = vec![7; len];
        put(&fixture, "/rest/b", &bytes).await;
        let reply = fixture.get("/rest/b/fcr:fixity").await;
        let digest = hex::encode(Sha256::digest(&bytes));
        let size = format!("\"{len}\"^^<http://www.w3.org/2001/XMLSchema#long>");
        let reported = format!(
            "a premis:Fixity, premis:EventOutcomeDetail ; premis:hasEventOutcome \"SUCCESS\" ; \
             premis:hasMessageDigest <urn:sha-256:{digest}> ; premis:hasSize {size}"
        );
        assert!(says(&reply, &reported), "{}", reply.text());
        assert_eq!(reply.graph().len(), 6, "{}", reply.text());
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_ne!(check_of(&reply), check_of(&fixture.get("/rest/b/fcr:fixity").await), "each check has a name");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_bytes_have_an_outcome_that_names_the_damage_and_are_marked() {
    let fixture = fixture().await;
    put(&fixture, "/rest/b", &[7; 300_000]).await;
    fixture.flip_bit("b", 200_000).await;
    for _ in 0..2 {
        let reply = fixture.get("/rest/b/fcr:fixity").await;
        assert!(says(&reply, "premis:hasEventOutcome \"BAD_CHECKSUM\""), "{}", reply.text());
        assert!(reply.text().contains("hasEventOutcomeDetailNote"), "{}", reply.text());
        assert_eq!(fixture.library.statistics().await.unwrap().damaged_resources, 1);
    }
    assert_eq!(fixture.get("/rest/b").await.status, StatusCode::INTERNAL_SERVER_ERROR, "it is marked");
    fixture.flip_bit("b", 200_000).await;
    assert!(says(&fixture.get("/rest/b/fcr:fixity").await, "premis:hasEventOutcome \"SUCCESS\""));
    assert_eq!(fixture.get("/rest/b").await.status, StatusCode::OK, "it is sound again");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outcome_comes_in_the_syntax_that_the_client_prefers() {
    let fixture = fixture().await;
    put(&fixture, "/rest/b", b"bytes").await;
    for syntax in ["text/turtle", "application/ld+json", "application/n-triples", "application/rdf+xml"] {
        let reply = fixture.ask(Method::GET, "/rest/b/fcr:fixity").header("accept", syntax).answer().await;
        assert!(reply.header("content-type").unwrap().starts_with(syntax), "{reply:?}");
        assert!(says(&reply, "premis:hasEventOutcome \"SUCCESS\""), "{}", reply.text());
    }
    let page = fixture.ask(Method::GET, "/rest/b/fcr:fixity").header("accept", "text/html").answer().await;
    assert!(page.text().contains("The bytes are what they should be."), "{}", page.text());
    let refused = fixture.ask(Method::GET, "/rest/b/fcr:fixity").header("accept", "image/png").answer().await;
    assert_eq!(refused.status, StatusCode::NOT_ACCEPTABLE);
    let head = fixture.ask(Method::HEAD, "/rest/b/fcr:fixity").answer().await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_whether_the_bytes_are_what_they_should_be() {
    let fixture = fixture().await;
    let bytes = [7; 300_000];
    put(&fixture, "/rest/b", &bytes).await;
    fixture.clock.advance(std::time::Duration::from_secs(60));
    let page = async || {
        let page = fixture.ask(Method::GET, "/rest/b/fcr:fixity").header("accept", "text/html").answer().await;
        assert_eq!((page.status, page.header("cache-control")), (StatusCode::OK, Some("no-store")));
        page.text().to_owned()
    };
    let digest = hex::encode(Sha256::digest(bytes));
    let sound = page().await;
    assert_eq!(sound.matches(&digest).count(), 2, "the expected one and the computed one: {sound}");
    for shown in [
        "The bytes are what they should be.",
        "300.0 kB (300000 bytes)",
        "2025-06-15 15:06:40 UTC",
        "2025-06-15 15:07:40 UTC",
        "<a href=\"/rest/b/fcr:metadata\">b</a>",
    ] {
        assert!(sound.contains(shown), "{shown}: {sound}");
    }
    let described = fixture.ask(Method::GET, "/rest/b/fcr:metadata").header("accept", "text/html").answer().await;
    assert!(described.text().contains("href=\"/rest/b/fcr:fixity\">Check the bytes</a>"), "{}", described.text());

    fixture.flip_bit("b", 200_000).await;
    let damaged = page().await;
    assert_eq!(damaged.matches(&digest).count(), 1, "the expected one: {damaged}");
    for shown in ["The bytes are not what they should be.", "could not be read to their end", "role=\"alert\""] {
        assert!(damaged.contains(shown), "{shown}: {damaged}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_binary_has_a_fixity() {
    let fixture = fixture().await;
    put(&fixture, "/rest/b", b"bytes").await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    fixture.make("/rest/r", "RDFSource", "").await;
    for (path, status) in [
        ("/rest/fcr:fixity", StatusCode::NOT_FOUND),
        ("/rest/c/fcr:fixity", StatusCode::NOT_FOUND),
        ("/rest/r/fcr:fixity", StatusCode::NOT_FOUND),
        ("/rest/missing/fcr:fixity", StatusCode::NOT_FOUND),
        ("/rest/b/fcr:metadata/fcr:fixity", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(fixture.get(path).await.status, status, "{path}");
    }
    let refused = fixture.ask(Method::PUT, "/rest/b/fcr:fixity").body("x").answer().await;
    assert_eq!((refused.status, refused.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, Some("GET, HEAD")));
}
