//! The form of documents, for readers and byte by byte.

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
fn compacted_json_ld_is_short_and_lists_the_members_of_a_container_in_one_array() {
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
fn a_triple_that_xml_cannot_express_is_refused_with_a_reason_and_leaves_the_document_valid() {
    let mut writer = Writer::new(Syntax::RdfXml, &[]);
    for turtle in [
        "<> <http://a/1> 1 .",
        "<> <http://a/p> \"\\u0001\" .",
        "<> <http://www.w3.org/1999/02/22-rdf-syntax-ns#li> 1 .",
        "<> <http://www.w3.org/1999/02/22-rdf-syntax-ns#aboutEach> 1 .",
        "<> <http://www.w3.org/1999/02/22-rdf-syntax-ns#aboutEachPrefix> 1 .",
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
    let mut writer = Writer::html("<main>", "</main>", rdf::vocab::PREFIXES);
    let turtle = "<> <http://purl.org/dc/terms/title> \"<script>alert('1')</script>\"@en ;
        <http://purl.org/dc/terms/source> <javascript:alert(1)> , <http://a/?b=1&c='2'> , _:b . _:b <http://a/p> \"a & b\" .";
    for triple in &graph(turtle) {
        writer.push(triple).unwrap();
    }
    let page = String::from_utf8(writer.finish().to_vec()).unwrap();
    assert!(!page.contains("<script") && !page.contains("href=\"javascript"), "{page}");
    for part in [
        "<main><h2><a href=\"http://example.org/c\">http://example.org/c</a></h2>",
        "<dt><a href=\"http://purl.org/dc/terms/title\">dcterms:title</a></dt>\n\
         <dd lang=\"en\">&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;</dd>",
        "<dd><a href=\"http://a/?b=1&amp;c=&#39;2&#39;\">http://a/?b=1&amp;c=&#39;2&#39;</a></dd>",
        "<dd>javascript:alert(1)</dd>",
        "<dd><a href=\"#_:b\">_:b</a></dd>",
        "<h2 id=\"_:b\">_:b</h2>",
        "<dd>a &amp; b</dd>\n</dl>\n</main>",
    ] {
        assert!(page.contains(part), "{part}\nis not in\n{page}");
    }
}

#[test]
fn a_listing_is_written_in_chunks_and_never_held_whole() {
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

#[test]
fn lists_are_written_as_lists_in_json_ld() {
    let lists = "<> <http://a/p> (1 \"x\"@en <http://a/o> [ <http://a/q> 2 ]) , () ; <http://a/nested> ((1) (2 (3))) .";
    let document: serde_json::Value =
        serde_json::from_str(&written(lists, Syntax::JsonLd(JsonLdForm::Compacted))).unwrap();
    let node = &document["@graph"][0];
    let integer = |text: &str| serde_json::json!({"@value": text, "@type": "xsd:integer"});
    let items = node["http://a/p"].as_array().unwrap();
    assert!(items.contains(&serde_json::json!({"@list": []})), "{document:#}");
    let long = items.iter().find(|list| list["@list"][0] == integer("1")).unwrap();
    assert_eq!(long["@list"][1], serde_json::json!({"@value": "x", "@language": "en"}));
    assert_eq!(long["@list"][2], serde_json::json!({"@id": "http://a/o"}));
    assert_eq!(
        node["http://a/nested"],
        serde_json::json!({"@list": [{"@list": [integer("1")]}, {"@list": [integer("2"), {"@list": [integer("3")]}]}]})
    );
    assert_eq!(document["@graph"].as_array().unwrap().len(), 2, "no node of a list is told by itself: {document:#}");
}

#[test]
fn a_list_that_is_not_plain_is_written_statement_by_statement() {
    let prefix = "@prefix r: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> . ";
    for odd in [
        "<> <http://a/p> _:l , _:m . _:l r:first 1 ; r:rest r:nil . _:m <http://a/q> _:l .",
        "<> <http://a/p> _:l . _:l r:first 1 , 2 ; r:rest r:nil .",
        "<> <http://a/p> _:l . _:l r:first 1 ; r:rest r:nil ; <http://a/q> 2 .",
        "<> <http://a/p> _:l . _:l r:first 1 ; r:rest <http://a/o> .",
        "<> <http://a/p> _:l . _:l r:first 1 .",
        "<> <http://a/p> _:l . _:l r:first 1 ; r:rest _:m . _:m r:first 1 ; r:rest _:l .",
        "<> <http://a/p> <http://a/l> . <http://a/l> r:first 1 ; r:rest r:nil .",
        "_:l r:first 1 ; r:rest r:nil .",
        "_:l r:first _:l ; r:rest r:nil .",
    ] {
        let graph = graph(&format!("{prefix}{odd}"));
        let base = Iri::parse("http://example.org/c".to_owned()).unwrap();
        for form in [JsonLdForm::Compacted, JsonLdForm::Expanded, JsonLdForm::Flattened] {
            let syntax = Syntax::JsonLd(form);
            let written = rdf::write(&graph, syntax, rdf::vocab::PREFIXES).unwrap();
            let read = rdf::parse(&written, syntax, &base, &Limits::default()).unwrap();
            assert!(rdf::isomorphic(&read, &graph), "{odd}: {}", String::from_utf8_lossy(&written));
            assert!(!String::from_utf8_lossy(&written).contains("\"@list\":[{"), "{odd}");
        }
    }
}

#[test]
fn deeply_nested_lists_can_be_read_again() {
    let deep = format!("<> <http://a/p> {}1{} .", "(".repeat(60), ")".repeat(60));
    let graph = graph(&deep);
    let base = Iri::parse("http://example.org/c".to_owned()).unwrap();
    let syntax = Syntax::JsonLd(JsonLdForm::Compacted);
    let written = rdf::write(&graph, syntax, rdf::vocab::PREFIXES).unwrap();
    let read = rdf::parse(&written, syntax, &base, &Limits::default()).unwrap();
    assert!(rdf::isomorphic(&read, &graph), "{}", String::from_utf8_lossy(&written));
}
