//! What documents look like to those who read them with their eyes, or by their bytes.

#![allow(clippy::unwrap_used)]

use rdf::{Graph, Iri, JsonLdForm, Limits, Syntax, Writer};

fn graph(turtle: &str) -> Graph {
    let base = Iri::parse("http://example.org/c".to_owned()).unwrap();
    let graph = rdf::parse(turtle.as_bytes(), Syntax::Turtle, &base, &Limits::default()).unwrap();
    rdf::from_stored(&rdf::to_stored(&graph)).unwrap()
}

fn written(turtle: &str, syntax: Syntax) -> String {
    String::from_utf8(rdf::write(&graph(turtle), syntax, rdf::vocab::PREFIXES).unwrap().to_vec()).unwrap()
}

const CONTAINER: &str = "<> a <http://www.w3.org/ns/ldp#Container> ; <http://purl.org/dc/terms/title> \"A \\\"c\\\"\" ;
    <http://www.w3.org/ns/ldp#contains> <http://example.org/c/1> , <http://example.org/c/2> ; <http://example.org/n> 7 .";

#[test]
fn turtle_has_the_prefixes_that_it_uses() {
    assert_eq!(
        written(CONTAINER, Syntax::Turtle),
        "@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n\
         @prefix dcterms: <http://purl.org/dc/terms/> .\n@prefix ldp: <http://www.w3.org/ns/ldp#> .\n\
         <http://example.org/c> <http://example.org/n> 7 ;\n\tdcterms:title \"A \\\"c\\\"\" ;\n\ta ldp:Container ;\n\
         \tldp:contains <http://example.org/c/1> , <http://example.org/c/2> .\n"
    );
}

#[test]
fn compacted_json_ld_is_short_and_lists_what_a_container_contains_in_one_array() {
    let document: serde_json::Value =
        serde_json::from_str(&written(CONTAINER, Syntax::JsonLd(JsonLdForm::Compacted))).unwrap();
    assert_eq!(
        document,
        serde_json::json!({
            "@context": {
                "dcterms": "http://purl.org/dc/terms/",
                "ldp": "http://www.w3.org/ns/ldp#",
                "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
                "xsd": "http://www.w3.org/2001/XMLSchema#"
            },
            "@graph": [{
                "@id": "http://example.org/c",
                "http://example.org/n": {"@value": "7", "@type": "xsd:integer"},
                "dcterms:title": "A \"c\"",
                "@type": "ldp:Container",
                "ldp:contains": [{"@id": "http://example.org/c/1"}, {"@id": "http://example.org/c/2"}]
            }]
        })
    );
}

#[test]
fn expanded_json_ld_has_no_context() {
    let document: serde_json::Value =
        serde_json::from_str(&written("<> <http://a/p> \"x\"@en , _:b .", Syntax::JsonLd(JsonLdForm::Expanded)))
            .unwrap();
    assert_eq!(
        document,
        serde_json::json!([{
            "@id": "http://example.org/c",
            "http://a/p": [{"@value": "x", "@language": "en"}, {"@id": "_:b"}]
        }])
    );
}

#[test]
fn empty_graphs_are_documents_too() {
    let base = Iri::parse("http://example.org/c".to_owned()).unwrap();
    for syntax in Syntax::ALL {
        let body = written("", syntax);
        assert_eq!(rdf::parse(body.as_bytes(), syntax, &base, &Limits::default()), Ok(Graph::new()), "{body}");
    }
}

#[test]
fn what_xml_cannot_express_is_refused_with_its_reason_and_leaves_the_document_whole() {
    let mut writer = Writer::new(Syntax::RdfXml, &[]);
    for turtle in [
        "<> <http://a/1> 1 .",
        "<> <http://a/p> \"\\u0001\" .",
        "<> <http://www.w3.org/1999/02/22-rdf-syntax-ns#li> 1 .",
    ] {
        let error = writer.push(graph(turtle).iter().next().unwrap()).unwrap_err();
        assert!(error.to_string().contains("cannot be written in RDF/XML"), "{error}");
    }
    writer.push(graph("<> <http://a/p> 1 .").iter().next().unwrap()).unwrap();
    let body = writer.finish();
    let base = Iri::parse("http://example.org/".to_owned()).unwrap();
    assert_eq!(rdf::parse(&body, Syntax::RdfXml, &base, &Limits::default()), Ok(graph("<> <http://a/p> 1 .")));
}

#[test]
fn nothing_in_a_graph_becomes_markup_or_a_script_on_a_page() {
    let mut writer = Writer::html("<c> & \"d\"", Some("/style.css?a=\"b"), rdf::vocab::PREFIXES);
    let turtle = "<> <http://purl.org/dc/terms/title> \"<script>alert('1')</script>\"@en ;
        <http://purl.org/dc/terms/source> <javascript:alert(1)> , <http://a/?b=1&c='2'> , _:b . _:b <http://a/p> \"a & b\" .";
    for triple in &graph(turtle) {
        writer.push(triple).unwrap();
    }
    let page = String::from_utf8(writer.finish().to_vec()).unwrap();
    assert!(!page.contains("<script") && !page.contains("href=\"javascript"), "{page}");
    for part in [
        "<title>&lt;c&gt; &amp; &quot;d&quot;</title><link rel=\"stylesheet\" href=\"/style.css?a=&quot;b\">",
        "<h2><a href=\"http://example.org/c\">http://example.org/c</a></h2>",
        "<dt><a href=\"http://purl.org/dc/terms/title\">dcterms:title</a></dt>\n\
         <dd lang=\"en\">&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;</dd>",
        "<dd><a href=\"http://a/?b=1&amp;c=&#39;2&#39;\">http://a/?b=1&amp;c=&#39;2&#39;</a></dd>",
        "<dd>javascript:alert(1)</dd>",
        "<dd><a href=\"#_:b\">_:b</a></dd>",
        "<h2 id=\"_:b\">_:b</h2>",
        "<dd>a &amp; b</dd>",
    ] {
        assert!(page.contains(part), "{part}\nis not in\n{page}");
    }
}

#[test]
fn a_listing_comes_in_chunks_and_is_never_held() {
    let container = rdf::NamedNode::new("http://example.org/c").unwrap();
    for syntax in Syntax::ALL {
        let mut writer = Writer::new(syntax, rdf::vocab::PREFIXES);
        let (mut chunks, mut longest_bytes) = (0, 0);
        for number in 0..20_000 {
            let member = rdf::NamedNode::new_unchecked(format!("http://example.org/c/{number}"));
            writer.push(rdf::TripleRef::new(&container, rdf::vocab::ldp::CONTAINS, &member)).unwrap();
            if let Some(chunk) = writer.chunk() {
                chunks += 1;
                longest_bytes = longest_bytes.max(chunk.len());
            }
        }
        let rest_bytes = writer.finish().len();
        assert!(
            chunks > 20 && longest_bytes < 20_000 && rest_bytes < 20_000,
            "{syntax:?}: {chunks} {longest_bytes} {rest_bytes}"
        );
    }
}
