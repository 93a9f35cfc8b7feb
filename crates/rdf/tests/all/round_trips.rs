//! Any graph, written in any syntax and read again, is the same graph up to the labels of its blank
//! nodes.

use proptest::prelude::*;
use rdf::{
    BlankNode, Graph, Iri, JsonLdForm, Limits, Literal, NamedNode, NamedOrBlankNode, Syntax, Term, Triple, WriteError,
    Writer, isomorphic,
};

fn base() -> Iri {
    Iri::parse("http://example.org/base/resource?q#f".to_owned()).unwrap()
}

fn parse(body: &[u8], syntax: Syntax) -> Graph {
    rdf::parse(body, syntax, &base(), &Limits::default())
        .unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(body)))
}

/// Writes in small chunks and joins them, as a listing is sent.
fn write(graph: &Graph, syntax: Syntax) -> Result<Vec<u8>, WriteError> {
    let mut writer = Writer::new(syntax, rdf::vocab::PREFIXES);
    let mut body = Vec::new();
    for triple in graph {
        writer.push(triple)?;
        body.extend(writer.chunk().into_iter().flatten());
    }
    body.extend(writer.finish());
    Ok(body)
}

fn assert_round_trip(graph: &Graph, syntax: Syntax) {
    let body = write(graph, syntax).unwrap();
    let read = parse(&body, syntax);
    assert!(
        isomorphic(graph, &read),
        "{syntax:?}\nwritten: {}\nread: {}\nbody: {}",
        String::from_utf8_lossy(&rdf::to_stored(graph)),
        String::from_utf8_lossy(&rdf::to_stored(&read)),
        String::from_utf8_lossy(&body)
    );
}

fn iri() -> impl Strategy<Value = NamedNode> {
    prop_oneof![
        "(http|https|urn|ldp|dcterms|http)://[a-z]{1,5}(/[a-zA-Z0-9._~%-]{0,0}[a-zA-Z0-9._~-]{0,6}){0,3}(\\?[a-z=&]{0,4})?(#[a-zA-Z0-9-]{0,5})?",
        // Schemes that look like prefixes, and namespaces of prefixes with odd ends.
        "(ldp|rdf|dcterms|as|_x|mailto|urn|b0):[a-zA-Z0-9/@.:-]{1,8}".prop_filter("an IRI", |iri| NamedNode::new(iri.as_str()).is_ok()),
        "http://www\\.w3\\.org/ns/ldp#[a-zA-Z0-9/._-]{0,6}",
        "http://purl\\.org/dc/terms/(//)?[a-z0-9-]{0,4}",
        "http://example\\.org/base/[a-zé日𝒳ñ:@!$&'()*+,;=-]{0,6}",
        Just("http://www.w3.org/1999/02/22-rdf-syntax-ns#type".to_owned()),
        Just("http://www.w3.org/1999/02/22-rdf-syntax-ns#first".to_owned()),
        Just("http://www.w3.org/1999/02/22-rdf-syntax-ns#rest".to_owned()),
        Just("http://www.w3.org/1999/02/22-rdf-syntax-ns#nil".to_owned()),
    ]
    .prop_filter_map("an IRI", |iri| NamedNode::new(iri).ok())
}

/// Few nodes, so that they meet in a graph. Some labels look like numbers, others like those that
/// the parser gives.
fn blank_node() -> impl Strategy<Value = BlankNode> {
    prop_oneof![
        Just("b0"),
        Just("b1"),
        Just("a"),
        Just("long-label_9"),
        Just("x.y"),
        Just("deadbeef"),
        Just("f00dfaceb00cf00dfaceb00cf00dface")
    ]
    .prop_map(|label| BlankNode::new(label).unwrap())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ \\t\\r\\n\"'\\\\<>&{}@^.;,#_:]{0,12}",
        "(\\PC|[\\x00-\\x1f\\x7f-\\x9f]){0,10}",
        Just("\u{FEFF}\u{200F}\u{2028}\u{85}\u{10FFFF}\u{FFFE}".to_owned()),
        "[a-z]{1}".prop_map(|letter| letter.repeat(40_000)),
    ]
}

fn literal() -> impl Strategy<Value = Literal> {
    let datatype = prop_oneof![
        Just("integer"),
        Just("boolean"),
        Just("double"),
        Just("decimal"),
        Just("dateTime"),
        Just("string"),
        Just("anyURI")
    ];
    prop_oneof![
        text().prop_map(Literal::new_simple_literal),
        (text(), "[a-z]{2}(-[A-Z]{2})?(-x-[a-z]{1,3})?")
            .prop_map(|(text, tag)| Literal::new_language_tagged_literal(text, tag).unwrap()),
        (prop_oneof![text(), "-?[0-9]{1,20}", "[+-]?[0-9]\\.[0-9]{1,3}(E[0-9])?", "true|false|1|0"], datatype)
            .prop_map(|(text, name)| Literal::new_typed_literal(
                text,
                NamedNode::new(format!("http://www.w3.org/2001/XMLSchema#{name}")).unwrap()
            )),
        (text(), iri()).prop_map(|(text, datatype)| Literal::new_typed_literal(text, datatype)),
    ]
}

fn triple() -> impl Strategy<Value = Triple> {
    let subject = prop_oneof![
        iri().prop_map(NamedOrBlankNode::from),
        Just(NamedNode::new("http://example.org/base/resource").unwrap().into()),
        blank_node().prop_map(NamedOrBlankNode::from)
    ];
    let object =
        prop_oneof![iri().prop_map(Term::from), blank_node().prop_map(Term::from), literal().prop_map(Term::from)];
    (subject, iri(), object).prop_map(|(subject, predicate, object)| Triple { subject, predicate, object })
}

fn graph() -> impl Strategy<Value = Graph> {
    proptest::collection::vec(triple(), 0..12).prop_map(Graph::from_iter)
}

proptest! {
    #[test]
    fn any_graph_comes_back_in_turtle(graph in graph()) {
        assert_round_trip(&graph, Syntax::Turtle);
    }

    #[test]
    fn any_graph_comes_back_in_n_triples(graph in graph()) {
        assert_round_trip(&graph, Syntax::NTriples);
    }

    #[test]
    fn any_graph_comes_back_in_every_form_of_json_ld(graph in graph()) {
        for form in [JsonLdForm::Compacted, JsonLdForm::Expanded, JsonLdForm::Flattened] {
            assert_round_trip(&graph, Syntax::JsonLd(form));
        }
    }

    /// Triples that XML cannot express are refused one by one, and the others come back.
    #[test]
    fn any_graph_that_xml_can_express_comes_back_in_rdf_xml(mut graph in graph()) {
        graph.retain(|triple| {
            let mut writer = Writer::new(Syntax::RdfXml, rdf::vocab::PREFIXES);
            writer.push(triple).is_ok()
        });
        assert_round_trip(&graph, Syntax::RdfXml);
    }

    #[test]
    fn any_graph_comes_back_from_the_stored_form_with_its_labels(graph in graph()) {
        let stored = rdf::to_stored(&graph);
        let read = rdf::from_stored(&stored).unwrap();
        prop_assert_eq!(&read, &graph);
        prop_assert_eq!(rdf::to_stored(&read), stored);
    }

    /// If a client puts a graph as it got it, the stored bytes are the same: labels of blank nodes
    /// survive.
    #[test]
    fn a_graph_that_is_put_back_is_stored_as_the_same_bytes(graph in graph()) {
        // The parser has given its labels once.
        let graph = parse(&write(&graph, Syntax::NTriples).unwrap(), Syntax::NTriples);
        for syntax in [Syntax::Turtle, Syntax::NTriples, Syntax::JsonLd(JsonLdForm::Compacted)] {
            let again = parse(&write(&graph, syntax).unwrap(), syntax);
            prop_assert_eq!(rdf::to_stored(&again), rdf::to_stored(&graph));
        }
    }

    /// Triples come in the order of the stored form, with subjects together: each subject is one
    /// object.
    #[test]
    fn flattened_json_ld_has_one_object_for_each_subject(graph in graph()) {
        let graph = rdf::from_stored(&rdf::to_stored(&graph)).unwrap();
        let body = write(&graph, Syntax::JsonLd(JsonLdForm::Flattened)).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let nodes = document.as_array().unwrap();
        let subjects: std::collections::HashSet<_> = graph.iter().map(|triple| triple.subject.clone()).collect();
        prop_assert_eq!(nodes.len(), subjects.len());
    }
}

/// Names and lists have different keys in a node object, so types stay together as names.
#[test]
fn types_are_names_even_where_one_is_a_list() {
    const LIST: &str = "<http://e.org/s> a <http://e.org/A>, (), (1), [] .";
    let graph = parse(LIST.as_bytes(), Syntax::Turtle);
    for form in [JsonLdForm::Compacted, JsonLdForm::Expanded, JsonLdForm::Flattened] {
        assert_round_trip(&graph, Syntax::JsonLd(form));
    }
    let graph = rdf::from_stored(&rdf::to_stored(&graph)).unwrap();
    let body = write(&graph, Syntax::JsonLd(JsonLdForm::Flattened)).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let of_subject = document.as_array().unwrap().iter().filter(|node| node["@id"] == "http://e.org/s");
    assert_eq!(of_subject.count(), 1, "{document}");
}
