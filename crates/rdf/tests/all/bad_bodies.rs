//! Errors report the place of the mistake, and bodies that are too large are refused.

use rdf::{Graph, Iri, JsonLdForm, Limits, Location, ParseError, Syntax, isomorphic};

const JSON_LD: Syntax = Syntax::JsonLd(JsonLdForm::Compacted);

fn parse_within(body: &[u8], syntax: Syntax, limits: &Limits) -> Result<Graph, ParseError> {
    rdf::parse(body, syntax, &Iri::parse("http://example.org/base/".to_owned()).unwrap(), limits)
}

fn parse(body: impl AsRef<[u8]>, syntax: Syntax) -> Result<Graph, ParseError> {
    parse_within(body.as_ref(), syntax, &Limits::default())
}

/// The place of the error, as `(line, column)`.
fn place(body: impl AsRef<[u8]>, syntax: Syntax) -> (u64, u64) {
    let location = match parse(body, syntax) {
        Err(ParseError::Syntax { location, .. }) => location.unwrap(),
        Err(ParseError::NotUtf8 { location }) => location,
        other => panic!("{other:?}"),
    };
    (location.line, location.column)
}

#[test]
fn errors_report_line_and_column() {
    assert_eq!(place("<a> <b> <c> .\n  <a> é <b> .", Syntax::Turtle), (2, 7));
    assert_eq!(place("<http://a/a> <http://a/b> <http://a/c> .\n<a> <b> <c> .", Syntax::NTriples), (2, 1));
    assert_eq!(place("{\n  \"@id\": \"a\",\n  \"b\" 7\n}", JSON_LD), (3, 7));
    let (line, _) = place(
        "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">\n<rdf:Description>\n</rdf:RDF>",
        Syntax::RdfXml,
    );
    assert_eq!(line, 3);
    let (line, _) = place(
        "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">\n<rdf:li/>\n</rdf:RDF>",
        Syntax::RdfXml,
    );
    assert_eq!(line, 2);
    assert_eq!(place(b"<a> <b> <c> .\n<a> \xFF", Syntax::Turtle), (2, 5));
    let error = parse("<a> <b>", Syntax::Turtle).unwrap_err();
    assert!(error.to_string().starts_with("line 1, column 8: "), "{error}");
}

#[test]
fn json_that_is_not_json_ld_is_reported_with_the_place_of_the_error() {
    assert_eq!(place("{\n  \"@id\": 7\n}", JSON_LD), (2, 11));
    assert_eq!(place("[{\"@id\": \"a\"},\n {\"@language\": [\"{,\", {}]}]", JSON_LD).0, 2);
}

#[test]
fn bodies_that_end_too_early_are_errors_in_every_syntax() {
    for (body, syntax) in [
        ("<a> <b> \"c", Syntax::Turtle),
        ("<http://a/a> <http://a/b> <http://a/c>", Syntax::NTriples),
        ("{\"@id\": \"a\"", JSON_LD),
        ("<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">", Syntax::RdfXml),
        ("", JSON_LD),
        ("", Syntax::RdfXml),
        ("<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"/><", Syntax::RdfXml),
    ] {
        let error = parse(body, syntax).unwrap_err();
        assert!(!error.is_too_large(), "{syntax:?}: {error}");
    }
}

#[test]
fn the_last_statement_of_turtle_may_lack_its_full_stop() {
    let whole = "@prefix a: <http://a/> . <s> a:p 1 , \"x\"@en ; a:q <o> .";
    let expected = parse(whole, Syntax::Turtle);
    assert!(expected.is_ok());
    let body = whole.strip_suffix(" .").unwrap();
    for end in ["", " ", "\n", "\n# a comment", " ; "] {
        assert_eq!(parse(format!("{body}{end}"), Syntax::Turtle), expected, "{end:?}");
    }
    for statement in [
        "<s> <p> \"x\"",
        "<s> <p> 1.5",
        "<s> <p> [ <q> 1 ]",
        "<s> <p> (1 2)",
        "<s> a <o>",
        "<s> <p> \"x\"^^<t>",
        "[ <p> 1 ]",
    ] {
        let stopped = parse(format!("{statement} ."), Syntax::Turtle);
        assert_eq!(parse(statement, Syntax::Turtle), stopped, "{statement}");
        assert!(stopped.is_ok_and(|graph| !graph.is_empty()), "{statement}");
    }
    // An incomplete statement stays an error, at its place.
    for cut in ["<s> <p>", "<s> <p> 1 ,", "<s> <p> [ <q> 1", "<s> <p> (1", "<s>", "<s> <p> \"x\"^^"] {
        let error = parse(cut, Syntax::Turtle).unwrap_err();
        assert!(
            matches!(error, ParseError::Syntax { location: Some(Location { line: 1, .. }), .. }),
            "{cut}: {error:?}"
        );
    }
    assert!(
        parse("<http://a/s> <http://a/p> <http://a/o>", Syntax::NTriples).is_err(),
        "lines of N-Triples end with one"
    );
}

#[test]
fn relative_and_null_iris_are_resolved_against_the_base() {
    let turtle = parse("<> <p> <x> , <../y> , <#z> .", Syntax::Turtle).unwrap();
    let expected = parse(
        "<http://example.org/base/> <http://example.org/base/p> <http://example.org/base/x> , <http://example.org/y> ,
         <http://example.org/base/#z> .",
        Syntax::Turtle,
    )
    .unwrap();
    assert_eq!(turtle, expected);
    let json = r##"{"@id": "", "http://example.org/base/p": [{"@id": "x"}, {"@id": "../y"}, {"@id": "#z"}]}"##;
    assert!(isomorphic(&parse(json, JSON_LD).unwrap(), &expected));
    let xml = "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://example.org/base/'>
        <rdf:Description rdf:about=''><p rdf:resource='x'/><p rdf:resource='../y'/><p rdf:resource='#z'/></rdf:Description>
        </rdf:RDF>";
    assert!(isomorphic(&parse(xml, Syntax::RdfXml).unwrap(), &expected));
}

#[test]
fn contexts_are_never_fetched() {
    for body in [
        r#"{"@context": "http://example.org/context.jsonld", "@id": "a", "name": "b"}"#,
        r#"{"@context": ["other.jsonld", {}], "@id": "a"}"#,
        r#"{"@context": {"@import": "http://example.org/context.jsonld"}, "@id": "a"}"#,
        r#"{"@id": "a", "http://example.org/p": {"@context": "http://example.org/context.jsonld", "name": "b"}}"#,
    ] {
        let error = parse(body, JSON_LD).unwrap_err();
        assert!(
            matches!(&error, ParseError::RemoteContext { iri } if iri.starts_with("http://example.org/")),
            "{error:?}"
        );
        let message = error.to_string();
        assert!(
            message.contains("http://www.w3.org/ns/anno.jsonld") && message.contains("http://www.w3.org/ns/ldp.jsonld")
        );
    }
}

#[test]
fn an_error_below_a_built_in_context_is_reported_with_its_place() {
    let body = "{\n\"@context\": \"http://www.w3.org/ns/anno.jsonld\",\n\"id\": 7\n}";
    assert_eq!(place(body, JSON_LD), (3, 8));
}

#[test]
fn xml_with_a_document_type_is_refused_so_that_no_entity_can_grow() {
    let body = "<?xml version='1.0'?>\n<!DOCTYPE r [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;'>]>\n<r>&b;</r>";
    let error = parse(body, Syntax::RdfXml).unwrap_err();
    assert!(error.to_string().starts_with("line 2, column 1: "), "{error}");
}

#[test]
fn statements_in_a_named_graph_are_refused() {
    let body = r#"{"@id": "http://example.org/g", "@graph": [{"@id": "a", "http://example.org/p": "x"}]}"#;
    assert_eq!(parse(body, JSON_LD), Err(ParseError::NamedGraph { graph: "<http://example.org/g>".to_owned() }));
}

#[test]
fn the_default_graph_may_have_the_name_that_jena_gives_it() {
    let body = r#"{"@graph": [{"@id": "", "http://example.org/p": "x"}], "@id": "urn:x-arq:DefaultGraphNode"}"#;
    let expected = parse("<> <http://example.org/p> \"x\" .", Syntax::Turtle);
    assert_eq!(parse(body, JSON_LD), expected);
}

#[test]
fn each_limit_is_kept() {
    let limits = Limits { body_bytes: 400, triples: 2, term_bytes: 40, iri_bytes: 40, depth: 3, ..Limits::default() };
    let too_large = |body: &str, syntax| parse_within(body.as_bytes(), syntax, &limits).unwrap_err().to_string();
    assert_eq!(too_large(&" ".repeat(401), Syntax::Turtle), "too large: more than 400 bytes");
    assert_eq!(too_large("<a> <b> 1, 2, 3 .", Syntax::Turtle), "too large: more than 2 triples");
    let long = "x".repeat(41);
    for body in [format!("<a> <b> \"{long}\" ."), format!("_:{long} <b> 1 .")] {
        assert_eq!(too_large(&body, Syntax::Turtle), "too large: more than 40 bytes of one term");
    }
    for body in [format!("<a> <b> <{long}> ."), format!("<a> <{long}> _:b .")] {
        assert_eq!(too_large(&body, Syntax::Turtle), "too large: more than 40 bytes of one IRI");
    }
    assert_eq!(too_large("[[[[", JSON_LD), "too large: more than 3 levels of JSON");
    assert!(parse_within(b"<a> <b> 1, 2, 2, 2 .", Syntax::Turtle, &limits).is_ok());
    assert!(parse_within(br#"[{"@id": "a", "http://a/b": "}[[[[\"[["}]"#, JSON_LD, &limits).is_ok());
}

#[test]
fn contexts_that_would_be_read_many_times_are_refused() {
    let refused =
        |body: String, limits: Limits| parse_within(body.as_bytes(), JSON_LD, &limits).unwrap_err().to_string();
    let few = Limits { json_contexts: 2, json_scoped_bytes: 100, ..Limits::default() };
    let many = r#"[{"@context": {}}, {"\u0040context": {}}, {"@context": "http://www.w3.org/ns/ldp.jsonld"}]"#;
    assert_eq!(refused(many.to_owned(), few), "too large: more than 2 contexts");
    // Each object of the type T begins with all terms.
    let terms: String = (0..2_000).map(|n| format!(r#""t{n}": "http://example.org/{n}","#)).collect();
    let context = format!(r#"{{{terms} "T": {{"@id": "http://example.org/T", "@context": {{}}}}}}"#);
    let objects = r#"{"@type": "T"},"#.repeat(4_000);
    let scoped = format!(r#"{{"@context": {context}, "@graph": [{objects} {{}}]}}"#);
    assert!(refused(scoped, Limits::default()).contains("bytes of contexts, once for each value"));
    let usual = r#"{"@context": {"T": {"@id": "http://example.org/T", "@context": {}}}, "@type": "T"}"#;
    assert!(parse_within(usual.as_bytes(), JSON_LD, &Limits::default()).is_ok());
}

#[test]
fn endless_nesting_does_no_harm() {
    let deep = |open: &str| open.repeat(200_000);
    let limits = Limits { body_bytes: 64 << 20, ..Limits::default() };
    for (body, syntax) in [
        (format!("<a> <b> {}", deep("[ <b> ")), Syntax::Turtle),
        (format!("<a> <b> {}", deep("(")), Syntax::Turtle),
        (deep("["), JSON_LD),
        (deep("{\"@graph\":"), JSON_LD),
        (deep("<a xmlns='http://a/'>"), Syntax::RdfXml),
    ] {
        assert!(parse_within(body.as_bytes(), syntax, &limits).is_err());
    }
}

#[test]
fn blank_nodes_without_label_get_a_free_one_that_is_the_same_each_time() {
    let body = "[] <p> [ <p> _:b0 ] , _:b2 .";
    let stored = rdf::to_stored(&parse(body, Syntax::Turtle).unwrap());
    assert_eq!(stored, rdf::to_stored(&parse(body, Syntax::Turtle).unwrap()));
    let p = "<http://example.org/base/p>";
    assert_eq!(String::from_utf8(stored).unwrap(), format!("_:b1 {p} _:b0 .\n_:b3 {p} _:b1 .\n_:b3 {p} _:b2 .\n"));
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert_eq!(parse("\u{FEFF}<a> <b> 1 .", Syntax::Turtle), parse("<a> <b> 1 .", Syntax::Turtle));
}

#[test]
fn places_are_counted_from_one() {
    assert_eq!(Location { line: 1, column: 1 }.to_string(), "line 1, column 1");
}
