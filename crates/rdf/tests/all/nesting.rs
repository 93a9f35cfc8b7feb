//! The depth of nesting, for everything that a syntax can nest: the greatest allowed depth fits the
//! stack of a normal thread, and one level more is refused as too large.

use rdf::update::{Cancellation, UpdateError};
use rdf::{Graph, Iri, JsonLdForm, Limits, ParseError, Syntax};

const JSON_LD: Syntax = Syntax::JsonLd(JsonLdForm::Compacted);

fn base() -> Iri {
    Iri::parse("http://example.org/base/".to_owned()).unwrap()
}

/// Calls it on a thread with a stack of 2 MiB, like those that serve requests.
fn on_a_usual_stack<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(2 << 20).spawn(call).unwrap().join().unwrap()
}

fn parse(body: String, syntax: Syntax) -> Result<Graph, ParseError> {
    on_a_usual_stack(move || rdf::parse(body.as_bytes(), syntax, &base(), &Limits::default()))
}

fn nested(levels: usize, open: &str, middle: &str, close: &str) -> String {
    format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
}

/// Checks that a body is accepted at `levels`, and refused at the next level and at many more.
fn assert_deepest(what: &str, levels: usize, syntax: Syntax, body: impl Fn(usize) -> String) {
    let taken = parse(body(levels), syntax);
    assert!(taken.is_ok(), "{what}: {taken:?}");
    for levels in [levels + 1, 20_000] {
        let refused = parse(body(levels), syntax);
        assert!(refused.as_ref().is_err_and(ParseError::is_too_large), "{what}, {levels}: {refused:?}");
    }
}

#[test]
fn brackets_of_turtle_nest_as_deep_as_allowed() {
    let (object, subject) = ("<a> <b> ", " <b> 1 .");
    assert_deepest("blank nodes", 64, Syntax::Turtle, |n| format!("{object}{} .", nested(n, "[ <p> ", "1", " ]")));
    assert_deepest("collections", 64, Syntax::Turtle, |n| format!("{object}{} .", nested(n, "( ", "1", " )")));
    assert_deepest("blank nodes as subjects", 64, Syntax::Turtle, |n| {
        format!("{}{subject}", nested(n, "[ <p> ", "1", " ]"))
    });
    assert_deepest("collections as subjects", 64, Syntax::Turtle, |n| format!("{}{subject}", nested(n, "(", "1", ")")));
    assert_deepest("both", 32, Syntax::Turtle, |n| format!("{object}{} .", nested(n, "[ <p> (", "1", ") ]")));
}

#[test]
fn objects_and_arrays_of_json_nest_as_deep_as_allowed() {
    let whole = |inside: String| format!(r#"{{"@id": "a", "http://a/b": {inside}}}"#);
    assert_deepest("arrays", 63, JSON_LD, |n| whole(nested(n, "[", "1", "]")));
    assert_deepest("objects", 63, JSON_LD, |n| whole(nested(n, r#"{"http://a/b": "#, "1", "}")));
    assert_deepest("lists", 62, JSON_LD, |n| whole(format!(r#"{{"@list": {}}}"#, nested(n, "[", "1", "]"))));
    assert_deepest("lists in objects", 31, JSON_LD, |n| whole(nested(n, r#"{"@list": ["#, "1", "]}")));
    assert_deepest("sets", 31, JSON_LD, |n| whole(nested(n, r#"{"@set": ["#, "1", "]}")));
    assert_deepest("graphs", 64, JSON_LD, |n| nested(n, r#"{"@graph": "#, "1", "}"));
    assert_deepest("included", 64, JSON_LD, |n| nested(n, r#"{"http://a/b": 1, "@included": "#, "null", "}"));
    assert_deepest("reverse", 32, JSON_LD, |n| nested(n, r#"{"@reverse": {"http://a/b": "#, "null", "}}"));
    assert_deepest("contexts in objects", 63, JSON_LD, |n| {
        nested(n, r#"{"@context": {"a": "http://a/"}, "a:b": "#, "1", "}")
    });
    assert_deepest("contexts of terms", 31, JSON_LD, |n| {
        let terms = nested(n, r#"{"t": {"@id": "http://a/t", "@context": "#, "{}", "}}");
        format!(r#"{{"@context": {terms}, "t": 1}}"#)
    });
    assert_deepest("terms with contexts, used", 63, JSON_LD, |n| {
        let used = nested(n, r#"{"t": "#, "1", "}");
        format!(r#"{{"@context": {{"t": {{"@id": "http://a/t", "@context": {{"u": "http://a/u"}}}}}}, "t": {used}}}"#)
    });
    assert_deepest("nests", 62, JSON_LD, |n| {
        format!(r#"{{"@id": "a", "@nest": {}}}"#, nested(n, r#"{"@nest": "#, r#"{"http://a/b": 1}"#, "}"))
    });
    assert_deepest("JSON", 62, JSON_LD, |n| {
        whole(format!(r#"{{"@type": "@json", "@value": {}}}"#, nested(n, "[", "1", "]")))
    });
}

/// A context in which each term needs the next in the same way.
fn chain(terms: usize, step: impl Fn(usize) -> String) -> String {
    let steps: Vec<_> = (0..terms).map(step).collect();
    format!(r#"{{"@context": {{{}, "t{terms}": "http://a/"}}, "http://a/b": 1}}"#, steps.join(", "))
}

#[test]
fn chains_of_terms_of_a_context_are_as_long_as_allowed() {
    let next = |n: usize| n + 1;
    assert_deepest("prefixes", 63, JSON_LD, |terms| {
        chain(terms, |n| format!(r#""t{n}": {{"@id": "t{}:x"}}"#, next(n)))
    });
    assert_deepest("plain values", 63, JSON_LD, |terms| chain(terms, |n| format!(r#""t{n}": "t{}:x""#, next(n))));
    assert_deepest("aliases", 63, JSON_LD, |terms| chain(terms, |n| format!(r#""t{n}": "t{}""#, next(n))));
    assert_deepest("types", 63, JSON_LD, |terms| {
        chain(terms, |n| format!(r#""t{n}": {{"@id": "http://a/{n}", "@type": "t{}"}}"#, next(n)))
    });
    assert_deepest("reverse", 63, JSON_LD, |terms| {
        chain(terms, |n| format!(r#""t{n}": {{"@reverse": "t{}:x"}}"#, next(n)))
    });
    assert_deepest("indexes", 63, JSON_LD, |terms| {
        chain(terms, |n| {
            format!(r#""t{n}": {{"@id": "http://a/{n}", "@container": "@index", "@index": "t{}:x"}}"#, next(n))
        })
    });
    assert_deepest("escaped", 63, JSON_LD, |terms| chain(terms, |n| format!(r#""\u0074{n}": "t{}:x""#, next(n))));
    assert_deepest("in contexts of terms", 7, JSON_LD, |levels| {
        // Eight terms in each context, and the next context in the last of them.
        let terms: String = (0..7).map(|n| format!(r#""t{n}": "t{}:x", "#, n + 1)).collect();
        let level = format!(r#"{{{terms} "t7": {{"@id": "http://a/", "@context": "#);
        format!(r#"{{"@context": {}, "http://a/b": 1}}"#, nested(levels, &level, "{}", "}}"))
    });
    let circle: String = (0..2_000).map(|n| format!(r#""t{n}": "t{}:x","#, (n + 1) % 2_000)).collect();
    let error = parse(format!(r#"{{"@context": {{{circle} "u": "http://a/"}}}}"#), JSON_LD).unwrap_err();
    assert!(error.is_too_large(), "{error}");
    let error = parse(r#"{"@context": {"a": "b:x", "b": "a:x"}, "a": 1}"#.to_owned(), JSON_LD).unwrap_err();
    assert!(error.to_string().contains("Cyclic"), "{error}");
}

#[test]
fn nodes_of_xml_nest_as_deep_as_allowed() {
    let whole = |inside: String| {
        format!(
            "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://a/'><r:Description><p>{inside}</p></r:Description></r:RDF>"
        )
        .replace("<p><b", "<p r:parseType='Literal'><b")
        .replace("<p><c", "<p r:parseType='Resource'><c")
        .replace("<p><D", "<p r:parseType='Collection'><D")
    };
    assert_deepest("nodes", 62, Syntax::RdfXml, |n| {
        whole(nested(n, "<A><p>", "1", "</p></A>")).replace("1</p>", "</p>")
    });
    assert_deepest("literals", 125, Syntax::RdfXml, |n| whole(nested(n, "<b>", "1", "</b>")));
    assert_deepest("resources", 125, Syntax::RdfXml, |n| whole(nested(n, "<c r:parseType='Resource'>", "", "</c>")));
    assert_deepest("collections", 62, Syntax::RdfXml, |n| {
        whole(nested(n, "<D><p r:parseType='Collection'>", "", "</p></D>"))
    });
}

/// Checks that an update is carried out at `levels`, and refused at the next level and at many
/// more.
fn assert_deepest_update(what: &str, levels: usize, update: impl Fn(usize) -> String) {
    let graph = rdf::parse(b"<a> <p> 1 .", Syntax::Turtle, &base(), &Limits::default()).unwrap();
    let apply = |levels| {
        let (graph, update) = (graph.clone(), update(levels));
        on_a_usual_stack(move || {
            rdf::update::apply(&graph, &update, &base(), &Limits::default(), &Cancellation::default()).map(|_| ())
        })
    };
    let taken = apply(levels);
    assert!(!matches!(taken, Err(UpdateError::Syntax { .. } | UpdateError::Evaluation(_))), "{what}: {taken:?}");
    for levels in [levels + 1, 20_000] {
        let refused = apply(levels).unwrap_err();
        assert!(refused.is_too_large(), "{what}: {refused}");
    }
}

#[test]
fn brackets_of_an_update_nest_as_deep_as_allowed() {
    for (what, levels, open, middle, close) in [
        ("groups", 31, "{", "?a ?b ?c", "}"),
        ("expressions", 30, "(", "1", ")"),
        ("optional groups", 31, "OPTIONAL {", "", "}"),
        ("subqueries", 15, "{ SELECT * {", "", "}}"),
        ("groups in filters", 31, "FILTER EXISTS {", "", "}"),
        ("unions", 31, "{} UNION {", "", "}"),
        ("minus", 31, "MINUS {", "", "}"),
        ("blank nodes", 31, "[ <p> ", "1", " ]"),
        ("collections", 31, "(", "1", ")"),
        ("paths", 31, "(", "<p>", ")"),
        ("paths with operators", 31, "(<q>|^", "<p>", ")*"),
        ("functions", 30, "STR(", "1", ")"),
    ] {
        assert_deepest_update(what, levels, |levels| {
            let inside = nested(levels, open, middle, close);
            let pattern = match what {
                "expressions" | "functions" => format!("FILTER({inside})"),
                "blank nodes" | "collections" => format!("<a> <b> {inside}"),
                "paths" | "paths with operators" => format!("<a> {inside} ?x"),
                _ => inside,
            };
            format!("INSERT {{ <> <q> 1 }} WHERE {{ {pattern} }}")
        });
    }
    for (what, open, close) in [("blank nodes", "[ <p> ", " ]"), ("collections", "(", ")")] {
        assert_deepest_update(what, 31, |levels| {
            format!("INSERT DATA {{ <a> <b> {} }}", nested(levels, open, "1", close))
        });
        assert_deepest_update(what, 31, |levels| {
            format!("INSERT {{ <a> <b> {} }} WHERE {{}}", nested(levels, open, "1", close))
        });
    }
}

/// The parser would follow them before it refuses them.
#[test]
fn triples_as_terms_of_an_update_are_refused_before_they_are_parsed() {
    for (open, close) in [("<<", ">>"), ("<< ", " >>"), ("<<\n", ""), ("<< [] <p> ", ">>"), ("<<(", ")>>")] {
        for (start, end) in [("INSERT DATA { <a> <b> ", " }"), ("INSERT DATA { ", " }"), ("INSERT { <a> <b> ", " }")] {
            let update = format!("{start}{}1{}{end}", open.repeat(20_000), close.repeat(20_000));
            let outcome = on_a_usual_stack(move || {
                rdf::update::apply(&Graph::new(), &update, &base(), &Limits::default(), &Cancellation::default())
            });
            let error = outcome.unwrap_err();
            assert!(error.to_string().ends_with("is of RDF 1.2 and not supported"), "{start}{open}: {error}");
        }
    }
    let less_than = "FILTER(?o <<http://a/>) ".repeat(40);
    let update = format!("INSERT {{ <a> <b> 1 }} WHERE {{ ?s ?p ?o {less_than} }}");
    let outcome =
        rdf::update::apply(&Graph::new(), &update, &base(), &Limits::default(), &Cancellation::default()).map(|_| ());
    assert_eq!(outcome, Ok(()));
}

#[test]
fn brackets_of_an_update_cannot_be_hidden() {
    let deep = "(".repeat(100_000);
    let escaped = "\\u0028".repeat(100_000);
    for hidden in [
        format!("<a> <b> {escaped}"),
        format!("<a> <b> \\u005Cu0028{escaped}"),
        format!("<a> <b> ('''a' {deep}"),
        format!("<\\u0041'> <b> {deep}"),
        format!("<\\u005Cu0041'> <b> {deep}"),
        format!("<a> <b> #\r{deep}"),
        format!("<a> <p> a:b\\#{deep}"),
        format!("<a> <p> 'a\n' {deep}"),
    ] {
        for update in [
            format!("PREFIX a: <http://a/> INSERT DATA {{ {hidden} }}"),
            format!("PREFIX a: <http://a/> INSERT {{ <a> <b> 1 }} WHERE {{ {hidden} }}"),
        ] {
            let graph = Graph::new();
            let outcome = on_a_usual_stack(move || {
                rdf::update::apply(&graph, &update, &base(), &Limits::default(), &Cancellation::default())
            });
            assert!(outcome.is_err(), "{}", &hidden[..40]);
        }
    }
    let less_than =
        format!("INSERT {{ <a> <b> 1 }} WHERE {{ FILTER(1 <{}1{}> 2) }}", "(".repeat(5_000), ")".repeat(5_000));
    let outcome = on_a_usual_stack(move || {
        rdf::update::apply(&Graph::new(), &less_than, &base(), &Limits::default(), &Cancellation::default())
    });
    assert!(outcome.unwrap_err().is_too_large());
}
