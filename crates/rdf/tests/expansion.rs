//! Small bodies that expand: names that are short in a body and long once they are written out.
//! They are refused before they are expanded.

#![allow(clippy::unwrap_used)]

use std::alloc::System;

use cap::Cap;
use rdf::update::{Cancellation, UpdateError};
use rdf::{Graph, Iri, JsonLdForm, Limits, Syntax};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

const JSON_LD: Syntax = Syntax::JsonLd(JsonLdForm::Compacted);

/// An allocation beyond this ends the process. A refused body may not take more.
const MEMORY_BYTES: usize = 256 << 20;

fn base() -> Iri {
    Iri::parse("http://example.org/base/".to_owned()).unwrap()
}

fn assert_refused(what: &str, body: &str, syntax: Syntax) {
    let refused = rdf::parse(body.as_bytes(), syntax, &base(), &Limits::default()).unwrap_err();
    assert!(refused.is_too_large(), "{what}: {refused}");
}

fn many(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

/// One test, because the memory is that of the process.
#[test]
fn names_are_refused_before_they_expand_too_much() {
    MEMORY.set_limit(MEMORY_BYTES).unwrap();
    let long = "x".repeat(60_000);
    let too_long = "x".repeat(100_000);

    // Turtle.
    let uses = many(40_000, |n| format!("a:s a:p{n} a:o .\n"));
    for long in [&long, &too_long] {
        assert_refused("prefix", &format!("@prefix a: <http://{long}/> .\n{uses}"), Syntax::Turtle);
        assert_refused("SPARQL prefix", &format!("PREFIX a: <http://{long}/>\n{uses}"), Syntax::Turtle);
    }
    assert_refused(
        "base",
        &format!(
            "@base <http://a/{long}/> .\n{}",
            uses.replace("a:p", "<p").replace(" a:o", "> <o>").replace("a:s", "<s>")
        ),
        Syntax::Turtle,
    );
    assert_refused(
        "subject",
        &format!("<http://{long}> <p> 1 {} .", many(40_000, |n| format!(", {n}"))),
        Syntax::Turtle,
    );
    assert_refused(
        "type",
        &format!("@prefix a: <http://{long}/> . <s> <p> 1 {} .", many(40_000, |n| format!(", '{n}'^^a:t"))),
        Syntax::Turtle,
    );
    assert_refused(
        "open",
        &format!("@prefix a: <http://{long}/> . <s> <p> {}", "[ a:p ".repeat(100_000)),
        Syntax::Turtle,
    );
    assert_refused(
        "open with a long prefix",
        &format!("@prefix a: <http://{}/> . <s> <p> {}", "x".repeat(4 << 20), "[ a:p ".repeat(60)),
        Syntax::Turtle,
    );

    assert_refused(
        "prefixes without use",
        &format!("@base <http://a/{long}/> .{}", many(40_000, |n| format!("@prefix p{n}:<>."))),
        Syntax::Turtle,
    );
    assert_refused(
        "bases that make each other longer",
        &many(40_000, |_| "@base <abcdefgh/>.@prefix p: <>.".to_owned()),
        Syntax::N3,
    );

    // JSON-LD: wherever the context and the `@id` come, and whether the object has one.
    let context = format!(
        r#""@context": {{"a": "http://{long}/", "b": {{"@id": "a:b", "@type": "a:t"}}, "c": {{"@id": "a:c", "@type": "@vocab"}}}}"#
    );
    let keys = many(40_000, |n| format!(r#""a:p{n}": 1,"#));
    let values = many(40_000, |n| format!(r#"{n},"#));
    let texts = many(40_000, |n| format!(r#""a:{n}","#));
    assert_refused("keys", &format!(r#"{{{context}, {keys} "@id": "s"}}"#), JSON_LD);
    assert_refused("keys without id", &format!(r#"{{{keys} {context}}}"#), JSON_LD);
    assert_refused("values", &format!(r#"{{{context}, "a:p": [{values} 1]}}"#), JSON_LD);
    assert_refused("typed values", &format!(r#"{{{context}, "b": [{values} 1]}}"#), JSON_LD);
    assert_refused("names as values", &format!(r#"{{{context}, "c": [{texts} 1]}}"#), JSON_LD);
    assert_refused("types", &format!(r#"{{{context}, "@type": [{texts} "a:t"]}}"#), JSON_LD);
    assert_refused(
        "subject that comes last",
        &format!(r#"{{"http://a/b": [{values} 1], "@id": "http://{long}/"}}"#),
        JSON_LD,
    );
    assert_refused(
        "subject in a nest",
        &format!(r#"{{"http://a/b": [{values} 1], "@nest": {{"@id": "http://{long}/"}}}}"#),
        JSON_LD,
    );
    assert_refused("long key", &format!(r#"{{"http://a/{long}": [{values} 1]}}"#), JSON_LD);
    assert_refused(
        "ids as keys",
        &format!(
            r#"{{"@context": {{"m": {{"@id": "http://m", "@container": "@id"}}}}, "m": {{"http://{long}": {{"http://a/b": [{values} 1]}}}}}}"#
        ),
        JSON_LD,
    );
    assert_refused(
        "vocabulary",
        &format!(r#"{{"@context": {{"@vocab": "http://{long}/"}}, {}}}"#, keys.replace("a:", "").trim_end_matches(',')),
        JSON_LD,
    );
    assert_refused(
        "base",
        &format!(
            r#"{{"@context": {{"@base": "http://{long}/"}}, "http://a/b": [{} 1]}}"#,
            many(40_000, |n| format!(r#"{{"@id": "{n}"}},"#))
        ),
        JSON_LD,
    );
    assert_refused(
        "language",
        &format!(r#"{{"@context": {{"@language": "x-{}"}}, "http://a/b": [{texts} "x"]}}"#, "abcdefg-".repeat(8_000)),
        JSON_LD,
    );
    assert_refused(
        "terms",
        &format!(
            r#"{{"@context": {{"a": "http://{long}/", {}}}}}"#,
            many(40_000, |n| format!(r#""t{n}": "a:{n}","#)).trim_end_matches(',')
        ),
        JSON_LD,
    );
    let chain = many(60, |n| format!(r#""t{n}": "t{}:{}","#, n + 1, "x".repeat(1_000)));
    assert_refused(
        "terms that make each other longer",
        &format!(r#"{{"@context": {{{chain} "t60": "http://a/"}}, "t0:p": [{values} 1]}}"#),
        JSON_LD,
    );
    let large = many(20_000, |n| format!(r#""t{n}": "http://a/","#));
    let nested = |inner: &str| format!("{}1{}", format!(r#"{{{inner} "http://a/b": "#).repeat(60), "}".repeat(60));
    assert_refused(
        "contexts in a large one",
        &format!(r#"{{"@context": {{{large} "u": "http://a/"}}, "http://a/b": {}}}"#, nested(r#""@context": {},"#)),
        JSON_LD,
    );
    assert_refused(
        "a large context of a term",
        &format!(
            r#"{{"@context": {{{large} "http://a/b": {{"@id": "http://a/b", "@context": {{}}}}}}, "http://a/b": {}}}"#,
            nested("")
        ),
        JSON_LD,
    );
    assert_refused(
        "a context of a term with many values",
        &format!(r#"{{"@context": {{{large} "t": {{"@id": "http://a/b", "@context": {{}}}}}}, "t": [{values} 1]}}"#),
        JSON_LD,
    );
    assert_refused(
        "a context of a term in an object inside of a large context",
        &format!(
            r#"{{"@context": {{{large} "u": "http://a/"}}, "http://a/b": {{"@context": {{"t": {{"@id": "http://a/b", "@context": {{}}}}}}, "t": [{values} 1]}}}}"#
        ),
        JSON_LD,
    );
    assert_refused(
        "many definitions by a long term of an earlier context",
        &format!(
            r#"{{"@context": [{{"a": "http://{long}/"}}, {{{} "u": "http://a/"}}]}}"#,
            many(40_000, |n| format!(r#""t{n}": "a:{n}","#))
        ),
        JSON_LD,
    );
    assert_refused(
        "many contexts in one",
        &format!(r#"{{"@context": [{} {{}}]}}"#, r#""http://www.w3.org/ns/anno.jsonld","#.repeat(20_000)),
        JSON_LD,
    );
    assert_refused(
        "values in deep objects",
        &format!(r#"{}[{} 1]{}"#, r#"{"http://a/b": "#.repeat(60), values.repeat(10), "}".repeat(60)),
        JSON_LD,
    );

    // RDF/XML.
    let xml = |attributes: &str, inside: &str| {
        format!(
            "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:a='http://{long}/' {attributes}>{inside}</r:RDF>"
        )
    };
    let properties = many(40_000, |n| format!("<a:p>{n}</a:p>"));
    assert_refused("namespaces", &xml("", &format!("<r:Description>{properties}</r:Description>")), Syntax::RdfXml);
    assert_refused("typed nodes", &xml("", &"<a:t/>".repeat(40_000)), Syntax::RdfXml);
    let attributes = |count| many(count, |n| format!(" a:p{n}=''"));
    assert_refused("attributes", &xml("", &format!("<r:Description{}/>", attributes(40_000))), Syntax::RdfXml);
    assert_refused(
        "attributes of some elements",
        &xml("", &format!("<r:Description{}/>", attributes(900)).repeat(5)),
        Syntax::RdfXml,
    );
    assert_refused(
        "identifiers",
        &xml(&format!("xml:base='http://{long}/'"), &many(40_000, |n| format!("<r:Description r:ID='i{n}'/>"))),
        Syntax::RdfXml,
    );
    assert_refused(
        "collections",
        &xml(
            "",
            &format!(
                "<r:Description><a:p r:parseType='Collection'>{}</a:p></r:Description>",
                "<r:Description r:about='x'/>".repeat(40_000)
            ),
        )
        .replace("<r:RDF", &format!("<r:RDF xml:base='http://{long}/'")),
        Syntax::RdfXml,
    );
    assert_refused(
        "literals of XML",
        &xml(
            "",
            &format!(
                "<r:Description><r:value r:parseType='Literal'>{}</r:value></r:Description>",
                "<b/>".repeat(40_000)
            ),
        ),
        Syntax::RdfXml,
    );
    assert_refused(
        "languages",
        &xml(
            &format!("xml:lang='x-{}'", "abcdefg-".repeat(8_000).trim_end_matches('-')),
            &format!("<r:Description>{}</r:Description>", "<r:value>1</r:value>".repeat(40_000)),
        ),
        Syntax::RdfXml,
    );
    assert_refused("declarations", &xml(&many(40_000, |n| format!(" xmlns:n{n}='http://a'")), ""), Syntax::RdfXml);

    // Updates.
    let graph = rdf::parse(
        many(2_000, |n| format!("<s{n}> <p> {n} .")).as_bytes(),
        Syntax::Turtle,
        &base(),
        &Limits::default(),
    )
    .unwrap();
    let assert_refused = |what: &str, update: &str| {
        let refused =
            rdf::update::apply(&graph, update, &base(), &Limits::default(), &Cancellation::default()).unwrap_err();
        assert!(refused.is_too_large(), "{what}: {refused}");
    };
    for long in [&long, &too_long] {
        assert_refused("prefix", &format!("PREFIX a: <http://{long}/> INSERT DATA {{ {uses} }}"));
        assert_refused("prefix", &format!("PREFIX a: <http://{long}/> DELETE DATA {{ {uses} }}"));
        assert_refused(
            "long name",
            &format!("INSERT DATA {{ <http://{long}/> <p> 1 {} }}", many(40_000, |n| format!(", {n}"))),
        );
        assert_refused(
            "base",
            &format!("BASE <http://{long}/> INSERT DATA {{ <> <p> 1 {} }}", many(40_000, |n| format!(", <{n}>"))),
        );
        assert_refused("template", &format!("PREFIX a: <http://{long}/> INSERT {{ ?s a:p ?o }} WHERE {{ ?s <p> ?o }}"));
    }
    assert_refused(
        "prefix with a hyphen",
        &format!(
            "PREFIX a-b: <http://{long}/> INSERT DATA {{ <s> <p> 1 . a-b:s a-b:p a-b:0 {} }}",
            many(30_000, |n| format!(", a-b:{n}"))
        ),
    );
    assert_refused(
        "subject of names with a full stop",
        &format!("PREFIX a: <a> INSERT DATA {{ <http://{long}/> <p> a:0 {} }}", ", a:\\.".repeat(40_000)),
    );
    let bases = many(60, |_| format!("BASE <{}/> ", "x".repeat(1_000)));
    assert_refused(
        "bases that make each other longer",
        &format!("{bases} INSERT DATA {{ <> <p> 1 {} }}", many(40_000, |n| format!(", <{n}>"))),
    );

    // What is written out for each statement, though its object is nearly nothing.
    for start in [format!("<http://{long}/> <p> 1"), format!("<s> <http://{long}/> 1"), format!("'{long}' <p> 1")] {
        for one in [",[]", ",()", ",1", ", 1 , [ ] "] {
            assert_refused("short objects", &format!("INSERT DATA {{ {start}{} }}", one.repeat(100_000)));
        }
    }
    // The name of a graph would be, too. It is refused before.
    let data = format!("INSERT DATA {{ GRAPH <http://{long}/> {{ {} }} }}", "<> <> 1. ".repeat(40_000));
    let refused = rdf::update::apply(&graph, &data, &base(), &Limits::default(), &Cancellation::default());
    assert_eq!(refused.unwrap_err(), UpdateError::NotSupported { operation: "GRAPH" });
    assert_refused(
        "subject with hyphens",
        &format!("PREFIX a: <http://a/> INSERT DATA {{ a:{} <p> 1{} }}", "x-".repeat(30_000), ",1".repeat(100_000)),
    );
    assert_refused(
        "path",
        &format!(
            "INSERT {{ <s> <p> 1 }} WHERE {{ ?s <http://a/>{} ?o{} }}",
            format!("|<http://{long}/>").repeat(60),
            ", ?o".repeat(400)
        ),
    );
    assert_refused(
        "names without a space",
        &format!("INSERT {{ <s> <p> 1 }} WHERE {{ VALUES ?x {{ {} }} }}", "true".repeat(1 << 20)),
    );

    // Values and signs of a few bytes, within the bytes of a body.
    let dense = |one: &str, bytes: usize| one.repeat(bytes / one.len());
    for (start, one) in [
        ("<s> <p> 1", ",1"),
        ("<s> <p> 1", ",[]"),
        ("<s> <p> 1", ";"),
        ("<s> <p> 1", "; a 1"),
        ("<s> <p> (1", " 1"),
        ("<s> <p> (1", "()"),
        ("<s> <p> (1", "[]"),
        ("<s> <p> (1", ".5"),
        ("<s> <p> (1", " true"),
        ("<s> <p> 1", ".<><>1"),
        ("<s> <p> 1", " <><>1"),
        ("<s> <p> 1", "."),
    ] {
        assert_refused(one, &format!("INSERT DATA {{ {start}{}", dense(one, 4 << 20)));
    }
    // They would be copied for seconds, 31 times.
    assert_refused("nested", &format!("INSERT DATA {{ <s> <p> {} 1{}", "[<p>".repeat(30), ",1".repeat(40_000)));

    let refused = |body: &str, syntax: Syntax| {
        let refused = rdf::parse(body.as_bytes(), syntax, &base(), &Limits::default()).unwrap_err();
        assert!(refused.is_too_large(), "{}: {refused}", &body[..60]);
    };
    let list = r#"{"@context": {"p": {"@id": "http://a/b", "@container": "@list"}}, "p": ["#;
    let id = r#"{"@context": {"p": {"@id": "http://a/b", "@type": "@id"}}, "p": ["#;
    for (start, one) in [
        (r#"{"http://a/b": ["#, "1,"),
        (r#"{"http://a/b": ["#, "{},"),
        (r#"{"http://a/b": {"@list": ["#, "1,"),
        (list, "1,"),
        (list, "[],"),
        (list, r#"{"@list":[]},"#),
        (id, "\"\","),
    ] {
        let end = if start.contains(r#"{"@list": ["#) { "1]}}" } else { "1]}" };
        refused(&format!("{start}{}{end}", dense(one, 1 << 20)), JSON_LD);
    }
    refused(&format!(r#"{{"http://a/b": [{}1]}}"#, dense("1,", 4 << 20)), JSON_LD);
    refused(&format!(r#"{{"http://a/b": 1{}}}"#, dense(r#","a:b":1"#, 4 << 20)), JSON_LD);
    // Turtle is read statement by statement, so that only what is kept takes memory.
    let subject = format!("<{}> <p> ", "x".repeat(1_000));
    for (start, one, end) in [("1", ",1", "."), ("1", ",[]", "."), ("(1", " 1", ")."), ("(1", "()", ").")] {
        refused(&format!("{subject}{start}{}{end}", dense(one, 4 << 20)), Syntax::Turtle);
    }
    refused(
        &format!(
            "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><r:Description><r:p r:parseType='Collection'>{}</r:p></r:Description></r:RDF>",
            dense("<r:Description/>", 4 << 20)
        ),
        Syntax::RdfXml,
    );
    MEMORY.set_limit(usize::MAX).unwrap();
}

/// The largest accepted graph of each syntax.
#[test]
fn usual_documents_are_far_from_the_limits() {
    let statements = 50_000;
    let turtle = format!(
        "@prefix dc: <http://purl.org/dc/terms/> .\n{}",
        many(statements, |n| format!("<item/{n}> dc:title \"Letter {n}\" .\n"))
    );
    let json = format!(
        r#"{{"@context": {{"dc": "http://purl.org/dc/terms/", "title": "dc:title", "part": {{"@id": "dc:hasPart", "@type": "@id"}}}}, "@graph": [{} {{}}]}}"#,
        many(statements / 2, |n| format!(r#"{{"@id": "item/{n}", "title": "Letter {n}", "part": "item/{n}/page"}},"#))
    );
    let xml = format!(
        "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:dc='http://purl.org/dc/terms/'>{}</r:RDF>",
        many(statements, |n| format!(
            "<r:Description r:about='item/{n}'><dc:title>Letter {n}</dc:title></r:Description>"
        ))
    );
    for (body, syntax) in [(turtle, Syntax::Turtle), (json, JSON_LD), (xml, Syntax::RdfXml)] {
        let limits = Limits { expanded_bytes: Limits::default().expanded_bytes / 2, ..Limits::default() };
        let graph: Graph = rdf::parse(body.as_bytes(), syntax, &base(), &limits).unwrap();
        assert_eq!(graph.len(), statements, "{syntax:?}");
    }
    let data = many(statements, |n| format!("<item/{n}> dc:title \"Letter {n}\" .\n"));
    let update = format!("PREFIX dc: <http://purl.org/dc/terms/> INSERT DATA {{ {data} }}");
    assert_eq!(
        rdf::update::apply(&Graph::new(), &update, &base(), &Limits::default(), &Cancellation::default())
            .unwrap()
            .graph
            .len(),
        statements
    );
}
