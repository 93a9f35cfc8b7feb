//! Input of strangers is accepted or refused and never causes a panic. (The fuzz targets search
//! further; these tests run every time.)

use proptest::prelude::*;
use rdf::quads::Resources;
use rdf::update::Cancellation;
use rdf::{ContentType, Iri, Limits, Syntax};

/// Valid texts, to be broken.
const SEEDS: [&str; 8] = [
    "@prefix a: <http://a/> . @base <http://b/c> . <> a:p [ a:q (1 2.0 3e0 true) ] , 'x'@en-GB , \"\"\"y\n\"\"\"^^a:t .",
    "<http://a/s> <http://a/p> \"x\\n\\u00E9\"@en .\n_:b <http://a/p> \"1\"^^<http://a/t> .\n",
    "<http://a/s> <http://a/p> \"x\" <http://a/g1> .\n_:b <http://a/p> _:c <http://a/g2> .\n",
    r#"{"@context": {"a": "http://a/", "b": {"@id": "a:b", "@type": "@id", "@container": "@list"}, "@vocab": "http://v/"},
        "@id": "x", "@type": ["a:C"], "b": ["y", {"@id": "_:z"}], "c": {"@value": "v", "@language": "en"}, "@included": [{"d": 1.5e3}],
        "@reverse": {"a:r": {"@id": "u"}}, "e": {"@set": [true, null]}, "@graph": []}"#,
    r#"<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="http://a/" xml:base="http://b/">
        <a:C rdf:about="x" xml:lang="en" a:q="1"><a:p rdf:parseType="Resource"><a:r>t</a:r></a:p><a:l rdf:parseType="Collection">
        <rdf:Description rdf:nodeID="n"/></a:l><a:x rdf:parseType="Literal"><b>&amp;</b></a:x><rdf:li rdf:resource="y"/></a:C></rdf:RDF>"#,
    "PREFIX a: <http://a/> DELETE { ?s a:p ?o } INSERT { ?s a:q [ a:r ?n ] } WHERE { ?s a:p ?o OPTIONAL { ?o a:x+ ?y } \
     FILTER(?o > 1 && !bound(?y) || REGEX(STR(?o), '^a', 'i')) BIND(CONCAT('x', STR(?o)) AS ?n) MINUS { ?s a:no () } }",
    "INSERT DATA { <> <p> 1 , 'x' ; <q> _:b } ; DELETE WHERE { <> <p> ?x } ; \
     INSERT { ?s <n> ?c } WHERE { { SELECT ?s (COUNT(*) AS ?c) WHERE { VALUES ?s { <a> <b> } ?s ?p ?o } GROUP BY ?s HAVING (?c > 0) } }",
    "text/turtle;q=0.5, application/ld+json; profile=\"http://www.w3.org/ns/json-ld#expanded http://a\"; charset=utf-8, */*;q=0",
];

/// A seed with pieces cut out, doubled, moved or replaced.
fn broken() -> impl Strategy<Value = Vec<u8>> {
    let edit = (
        any::<prop::sample::Index>(),
        0..20_usize,
        prop_oneof![
            Just(None),
            any::<prop::sample::Index>().prop_map(|from| Some(Err(from))),
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..4),
                "[\\[\\]{}()<>\"'\\\\@:;.,#_^ \\n]{0,4}".prop_map(String::into_bytes)
            ]
            .prop_map(|bytes| Some(Ok(bytes))),
        ],
    );
    (0..SEEDS.len(), proptest::collection::vec(edit, 0..6)).prop_map(|(seed, edits)| {
        let mut text = SEEDS[seed].as_bytes().to_vec();
        for (at, length, by) in edits {
            let start = at.index(text.len() + 1);
            let end = (start + length).min(text.len());
            let replacement = match by {
                None => Vec::new(),
                Some(Ok(bytes)) => bytes,
                Some(Err(from)) => {
                    let from = from.index(text.len() + 1);
                    text[from..(from + length).min(text.len())].to_vec()
                }
            };
            text.splice(start..end, replacement);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn bodies_are_accepted_or_refused(body in broken()) {
        let base = Iri::parse("http://example.org/base".to_owned()).unwrap();
        for syntax in Syntax::ALL {
            if let Ok(graph) = rdf::parse(&body, syntax, &base, &Limits::default()) {
                prop_assert_eq!(rdf::from_stored(&rdf::to_stored(&graph)).unwrap(), graph);
            }
        }
    }

    #[test]
    fn updates_are_carried_out_or_refused(update in broken()) {
        let base = Iri::parse("http://example.org/base".to_owned()).unwrap();
        let graph = rdf::parse(SEEDS[0].as_bytes(), Syntax::Turtle, &base, &Limits::default()).unwrap();
        let limits = Limits { solutions: 10_000, ..Limits::default() };
        if let Ok(updated) = rdf::update::apply(&graph, &String::from_utf8_lossy(&update), &base, &limits, &Cancellation::default()) {
            prop_assert_eq!(rdf::from_stored(&rdf::to_stored(&updated.graph)).unwrap(), updated.graph);
        }
    }

    #[test]
    fn streams_of_resources_are_accepted_or_end(text in broken(), piece_bytes in 1..40_usize) {
        let mut resources = Resources::new(Limits::default());
        for piece in text.chunks(piece_bytes).map(Some).chain([None]) {
            match piece {
                Some(piece) => resources.feed(piece),
                None => resources.end(),
            }
            while let Some(Ok(_)) = resources.next_resource() {}
        }
    }

    #[test]
    fn headers_are_understood_or_ignored(header in broken()) {
        let header = String::from_utf8_lossy(&header);
        let _ = ContentType::parse(&header);
    }
}
