//! The built-in contexts of JSON-LD.

use rdf::{Graph, Iri, JsonLdForm, Limits, Syntax, isomorphic};

fn parse(body: &str, syntax: Syntax) -> Graph {
    let base = Iri::parse("http://example.org/base/".to_owned()).unwrap();
    rdf::parse(body.as_bytes(), syntax, &base, &Limits::default()).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Checks that a JSON-LD document has the same statements as a Turtle document.
fn assert_says(json: &str, turtle: &str) {
    let prefixes = "@prefix oa: <http://www.w3.org/ns/oa#> . @prefix as: <http://www.w3.org/ns/activitystreams#> . \
                    @prefix ldp: <http://www.w3.org/ns/ldp#> . @prefix dc: <http://purl.org/dc/elements/1.1/> . \
                    @prefix dcterms: <http://purl.org/dc/terms/> . @prefix foaf: <http://xmlns.com/foaf/0.1/> . \
                    @prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> . \
                    @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix dctypes: <http://purl.org/dc/dcmitype/> . ";
    let said = parse(json, Syntax::JsonLd(JsonLdForm::Compacted));
    let expected = parse(&format!("{prefixes}{turtle}"), Syntax::Turtle);
    assert!(isomorphic(&said, &expected), "{}", String::from_utf8(rdf::to_stored(&said)).unwrap());
}

#[test]
fn an_annotation_is_read_by_the_context_that_it_names() {
    for scheme in ["http", "https"] {
        let json = r#"{
            "@context": "SCHEME://www.w3.org/ns/anno.jsonld",
            "id": "anno1",
            "type": "Annotation",
            "motivation": "commenting",
            "created": "2015-10-13T13:00:00Z",
            "creator": {"id": "http://example.org/user1", "type": "Person", "name": "A Person", "nickname": "p"},
            "body": [
                {"type": "TextualBody", "value": "Good", "format": "text/plain", "language": "en", "purpose": "tagging", "textDirection": "ltr"},
                "http://example.org/more"
            ],
            "target": {
                "source": "http://example.org/page1",
                "selector": {"type": "TextPositionSelector", "start": 412, "end": 795}
            }
        }"#;
        assert_says(
            &json.replace("SCHEME", scheme),
            "<anno1> a oa:Annotation ; oa:motivatedBy oa:commenting ; dcterms:created \"2015-10-13T13:00:00Z\"^^xsd:dateTime ; \
             dcterms:creator <http://example.org/user1> ; oa:hasBody <http://example.org/more>, [ a oa:TextualBody ; rdf:value \"Good\" ; \
             dc:format \"text/plain\" ; dc:language \"en\" ; oa:hasPurpose oa:tagging ; oa:textDirection oa:ltrDirection ] ; \
             oa:hasTarget [ oa:hasSource <http://example.org/page1> ; oa:hasSelector [ a oa:TextPositionSelector ; \
             oa:start \"412\"^^xsd:nonNegativeInteger ; oa:end \"795\"^^xsd:nonNegativeInteger ] ] . \
             <http://example.org/user1> a foaf:Person ; foaf:name \"A Person\" ; foaf:nick \"p\" .",
        );
    }
}

#[test]
fn a_container_of_annotations_is_read_by_both_contexts_and_one_of_its_own() {
    let json = r#"{
        "@context": ["http://www.w3.org/ns/anno.jsonld", "http://www.w3.org/ns/ldp.jsonld", {"place": "http://example.org/place"}],
        "id": "",
        "type": ["BasicContainer", "AnnotationCollection"],
        "label": "Annotations",
        "total": 2,
        "place": "here",
        "contains": ["a1", "a2"],
        "first": {"id": "?page=0", "type": "AnnotationPage", "items": ["a1", "a2"], "startIndex": 0}
    }"#;
    assert_says(
        json,
        "<> a ldp:BasicContainer, as:OrderedCollection ; rdfs:label \"Annotations\" ; as:totalItems \"2\"^^xsd:nonNegativeInteger ; \
         <http://example.org/place> \"here\" ; ldp:contains <a1>, <a2> ; as:first <?page=0> . \
         <?page=0> a as:OrderedCollectionPage ; as:items (<a1> <a2>) ; as:startIndex \"0\"^^xsd:nonNegativeInteger .",
    );
}

#[test]
fn a_direct_container_is_described_by_the_terms_of_ldp() {
    let json = r#"{
        "@context": "https://www.w3.org/ns/ldp.jsonld",
        "id": "",
        "type": "DirectContainer",
        "membershipResource": "book",
        "hasMemberRelation": "http://purl.org/dc/terms/hasPart",
        "insertedContentRelation": "ldp:MemberSubject"
    }"#;
    assert_says(
        json,
        "<> a ldp:DirectContainer ; ldp:membershipResource <book> ; ldp:hasMemberRelation dcterms:hasPart ; \
         ldp:insertedContentRelation ldp:MemberSubject .",
    );
}

#[test]
fn every_built_in_term_expands_to_an_absolute_iri() {
    for context in
        [include_str!("../../src/parse/contexts/anno.json"), include_str!("../../src/parse/contexts/ldp.json")]
    {
        let document: serde_json::Value = serde_json::from_str(context).unwrap();
        let terms = document["@context"].as_object().unwrap();
        for (term, definition) in terms {
            let iri = definition.as_str().or_else(|| definition["@id"].as_str()).unwrap();
            let Some((prefix, local)) = iri.split_once(':') else { continue };
            let is_absolute = local.starts_with("//");
            assert!(is_absolute || terms[prefix].as_str().unwrap().starts_with("http"), "{term}: {iri}");
        }
    }
}
