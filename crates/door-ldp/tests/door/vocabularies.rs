//! The server's own statements: their vocabularies, and that none must be inferred.

use http::{Method, StatusCode};

use crate::support::{Fixture, fixture};

const PREFIX: &str = "@prefix ldp: <http://www.w3.org/ns/ldp#> . @prefix dc: <http://purl.org/dc/terms/> . ";

/// One resource of each kind, each with contents if possible.
async fn with_each_kind() -> Fixture {
    let fixture = fixture().await;
    fixture.make("/rest/source", "RDFSource", "").await;
    fixture.make("/rest/basic", "BasicContainer", "").await;
    fixture.make("/rest/direct", "DirectContainer", "").await;
    fixture.make("/rest/indirect", "IndirectContainer", "").await;
    let elsewhere = "<> ldp:membershipResource <source> ; ldp:isMemberOfRelation dc:isPartOf .";
    fixture.make("/rest/parts", "DirectContainer", &format!("{PREFIX}{elsewhere}")).await;
    for container in ["basic", "direct", "indirect", "parts"] {
        fixture.make(&format!("/rest/{container}/child"), "RDFSource", "").await;
    }
    let bytes = fixture.ask(Method::PUT, "/rest/bytes").header("content-type", "image/png");
    let made = bytes.header("content-disposition", "attachment; filename=a.png").body("bytes").answer().await;
    assert_eq!(made.status, StatusCode::CREATED);
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_uses_no_vocabulary_of_its_own() {
    const PUBLISHED: [&str; 6] = [
        "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
        "http://www.w3.org/ns/ldp#",
        "http://purl.org/dc/terms/",
        "http://fedora.info/definitions/v4/repository#",
        "http://www.loc.gov/premis/rdf/v1#",
        "http://www.ebu.ch/metadata/ontologies/ebucore/ebucore#",
    ];
    let fixture = with_each_kind().await;
    for path in ["", "source", "basic", "direct", "indirect", "parts", "bytes/fcr:metadata", "volumes"] {
        let graph = fixture.get(&format!("/rest/{path}")).await.graph();
        assert!(!graph.is_empty(), "/{path}");
        for triple in &graph {
            let is_type = triple.predicate.as_str().ends_with("#type");
            let terms = [triple.predicate.to_string(), triple.object.to_string()];
            for term in terms.iter().take(if is_type { 2 } else { 1 }) {
                assert!(
                    PUBLISHED.iter().any(|namespace| term.starts_with(&format!("<{namespace}"))),
                    "/{path}: {triple}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_ldp_defines_are_explicit() {
    let fixture = with_each_kind().await;
    for (path, said) in [
        ("source", "<source> a ldp:Resource, ldp:RDFSource . <parts/child> dc:isPartOf <source> ."),
        (
            "basic",
            "<basic> a ldp:Resource, ldp:RDFSource, ldp:Container, ldp:BasicContainer ; ldp:contains <basic/child> .",
        ),
        (
            "direct",
            "<direct> a ldp:Resource, ldp:RDFSource, ldp:Container, ldp:DirectContainer ; ldp:contains <direct/child> ; \
             ldp:membershipResource <direct> ; ldp:hasMemberRelation ldp:member ; ldp:member <direct/child> .",
        ),
        (
            "indirect",
            "<indirect> a ldp:Resource, ldp:RDFSource, ldp:Container, ldp:IndirectContainer ; ldp:contains <indirect/child> ; \
             ldp:membershipResource <indirect> ; ldp:hasMemberRelation ldp:member ; \
             ldp:insertedContentRelation ldp:MemberSubject ; ldp:member <indirect/child> .",
        ),
        ("parts", "<parts> ldp:contains <parts/child> . <parts/child> dc:isPartOf <source> ."),
        ("bytes/fcr:metadata", "<bytes> a ldp:Resource, ldp:NonRDFSource ."),
    ] {
        let answer = fixture.get(&format!("/rest/{path}")).await;
        assert!(answer.says(said), "/{path}: {}", answer.text());
    }
}
