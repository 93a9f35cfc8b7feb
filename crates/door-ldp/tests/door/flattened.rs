//! Flattened JSON-LD: one node object per subject (JSON-LD 1.1, section 5.3), whatever the sources
//! of its statements.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use rdf::isomorphic;

use crate::support::{Fixture, ROOT, Reply, fixture};

const PREFIX: &str = "@prefix ldp: <http://www.w3.org/ns/ldp#> . @prefix dc: <http://purl.org/dc/terms/> . ";
const FLATTENED: &str = "application/ld+json; profile=\"http://www.w3.org/ns/json-ld#flattened\"";

async fn make(fixture: &Fixture, path: &str, class: &str, turtle: &str) {
    fixture.make(path, class, &format!("{PREFIX}{turtle}")).await;
}

/// The subjects of the node objects, with repetitions.
fn subjects(answer: &Reply) -> Vec<String> {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let nodes: Vec<serde_json::Value> = serde_json::from_slice(&answer.body).unwrap();
    nodes.iter().map(|node| node["@id"].as_str().unwrap().to_owned()).collect()
}

/// Checks that each subject is one node object, and that the statements match Turtle. Returns the
/// subjects.
async fn assert_flattened(fixture: &Fixture, path: &str) -> BTreeSet<String> {
    let flattened = fixture.ask(Method::GET, path).header("accept", FLATTENED).answer().await;
    let all = subjects(&flattened);
    let each: BTreeSet<_> = all.iter().cloned().collect();
    assert_eq!(all.len(), each.len(), "{path}: {}", flattened.text());
    assert!(isomorphic(&flattened.graph(), &fixture.get(path).await.graph()), "{path}: {}", flattened.text());
    each
}

#[tokio::test(flavor = "multi_thread")]
async fn all_statements_about_a_resource_are_one_node() {
    let fixture = fixture().await;
    let book =
        "<> a dc:Text ; dc:title \"B\" ; dc:hasPart <own> . <#x> dc:title \"X\" . <> dc:creator [ dc:title \"N\" ] .";
    make(&fixture, "/rest/book", "RDFSource", book).await;
    make(&fixture, "/rest/own", "DirectContainer", "<> a dc:Collection ; dc:title \"O\" ; dc:source <book#x> .").await;
    let rule = "<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart . <book> dc:title \"The book\" .";
    make(&fixture, "/rest/pages", "DirectContainer", rule).await;
    let rule = "<> ldp:membershipResource <book#x> ; ldp:hasMemberRelation dc:title ; ldp:insertedContentRelation dc:references .";
    make(&fixture, "/rest/proxies", "IndirectContainer", rule).await;
    for n in 0..20 {
        for container in ["own", "pages", "proxies"] {
            let named = format!("<> dc:references <http://example.org/{n}> .");
            make(&fixture, &format!("/rest/{container}/{n}"), "RDFSource", &named).await;
        }
    }
    for path in ["/rest/", "/rest/book", "/rest/own", "/rest/pages", "/rest/proxies", "/rest/own/1"] {
        let subjects = assert_flattened(&fixture, path).await;
        assert!(subjects.contains(&format!("http://test{path}")), "{path}: {subjects:?}");
    }
    for page in ["/rest/own?limit=7", "/rest/pages?limit=7", "/rest/proxies?limit=7"] {
        assert_flattened(&fixture, page).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_about_a_member_are_with_its_membership() {
    let fixture = fixture().await;
    make(&fixture, "/rest/book", "RDFSource", "").await;
    let rule = "<> ldp:membershipResource <book> ; ldp:isMemberOfRelation dc:isPartOf . \
                <pages/1> dc:title \"One\" ; dc:isPartOf <series> ; dc:source <x> . <x> dc:title \"X\" . <y> dc:title \"Y\" .";
    make(&fixture, "/rest/pages", "DirectContainer", rule).await;
    for n in 0..5 {
        make(&fixture, &format!("/rest/pages/{n}"), "RDFSource", "").await;
    }
    let subjects = assert_flattened(&fixture, "/rest/pages").await;
    for described in ["pages", "pages/0", "pages/1", "x", "y"] {
        assert!(subjects.contains(&format!("{ROOT}{described}")), "{described}: {subjects:?}");
    }
    assert_flattened(&fixture, "/rest/pages?limit=3").await;
    assert_flattened(&fixture, "/rest/book").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_listing_is_one_node_too() {
    let fixture = fixture().await;
    make(&fixture, "/rest/big", "DirectContainer", "<> a dc:Collection ; dc:title \"Big\" . <other> dc:title \"O\" .")
        .await;
    let container = "big".parse().unwrap();
    for n in 0..1_500 {
        let new = repository::NewResource::empty_container();
        let make = |_: &_, _: &_| Ok::<_, repository::ResourceError>(new.clone());
        fixture.library.repository.create_in(&container, Some(&format!("n{n}")), make).await.unwrap();
    }
    let subjects = assert_flattened(&fixture, "/rest/big").await;
    assert_eq!(subjects, BTreeSet::from([format!("{ROOT}big"), format!("{ROOT}other")]));
}
