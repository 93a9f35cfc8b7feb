//! SPARQL Update on one graph.

use rdf::update::{Cancellation, UpdateError, apply};
use rdf::{Graph, Iri, Limits, Location, Syntax, isomorphic};

fn base() -> Iri {
    Iri::parse("http://example.org/r".to_owned()).unwrap()
}

fn graph(turtle: &str) -> Graph {
    rdf::parse(turtle.as_bytes(), Syntax::Turtle, &base(), &Limits::default()).unwrap()
}

fn updated(before: &str, update: &str) -> Result<Graph, UpdateError> {
    Ok(apply(&graph(before), update, &base(), &Limits::default(), &Cancellation::default())?.graph)
}

fn assert_update(before: &str, update: &str, after: &str) {
    let result = updated(before, update).unwrap();
    assert!(isomorphic(&result, &graph(after)), "{}", String::from_utf8(rdf::to_stored(&result)).unwrap());
}

#[test]
fn data_is_inserted_and_deleted() {
    assert_update("<> <p> 1 .", "INSERT DATA { <> <p> 2 ; <q> \"x\"@en }", "<> <p> 1, 2 ; <q> \"x\"@en .");
    assert_update("<> <p> 1, 2 .", "DELETE DATA { <> <p> 2 . <> <p> 3 }", "<> <p> 1 .");
    assert_update("<> <p> 1 .", "", "<> <p> 1 .");
}

#[test]
fn operations_are_carried_out_in_order() {
    assert_update(
        "<> <p> 1 .",
        "PREFIX e: <http://example.org/> DELETE DATA { <> e:p 1 } ; INSERT DATA { <> e:p 1 } ; DELETE WHERE { <> e:q ?x } ; \
         INSERT { ?s e:q ?o } WHERE { ?s e:p ?o }",
        "<> <p> 1 ; <q> 1 .",
    );
}

#[test]
fn a_where_selects_deletions_and_insertions() {
    assert_update(
        "<> <title> \"old\" ; <part> [ <n> 1 ] , [ <n> 2 ] .",
        "DELETE { <> <title> ?t } INSERT { <> <title> \"new\" ; <was> ?t } WHERE { <> <title> ?t }",
        "<> <title> \"new\" ; <was> \"old\" ; <part> [ <n> 1 ] , [ <n> 2 ] .",
    );
    assert_update(
        "<a> <n> 1 . <b> <n> 2 . <c> <n> 3 .",
        "DELETE { ?s <n> ?n } INSERT { ?s <n> ?m } WHERE { ?s <n> ?n FILTER(?n > 1) OPTIONAL { ?s <skip> ?x } BIND(?n * 10 AS ?m) }",
        "<a> <n> 1 . <b> <n> 20 . <c> <n> 30 .",
    );
    assert_update("<> <p> 1 .", "INSERT { <> <q> ?x } WHERE { <> <none> ?x }", "<> <p> 1 .");
    assert_update("<> <p> 1 .", "INSERT { <> <q> 2 } WHERE { FILTER NOT EXISTS { <> <q> ?x } }", "<> <p> 1 ; <q> 2 .");
}

#[test]
fn a_triple_deleted_and_inserted_by_one_operation_stays() {
    assert_update("<> <p> 1, 2 .", "DELETE { <> <p> ?x } INSERT { <> <p> 1 } WHERE { <> <p> ?x }", "<> <p> 1 .");
}

#[test]
fn blank_nodes_of_an_update_are_new_ones() {
    assert_update("_:a <n> 1 .", "INSERT DATA { _:a <n> 2 . <> <p> _:a }", "_:a <n> 1 . <> <p> [ <n> 2 ] .");
    assert_update(
        "<a> <n> 1 . <b> <n> 2 .",
        "INSERT { ?s <p> [ <m> ?n ] } WHERE { ?s <n> ?n }",
        "<a> <n> 1 ; <p> [ <m> 1 ] . <b> <n> 2 ; <p> [ <m> 2 ] .",
    );
}

#[test]
fn labels_of_remaining_blank_nodes_are_kept_and_new_ones_are_short() {
    let result = updated("_:b0 <n> 1 .", "INSERT DATA { <> <p> [] }").unwrap();
    let stored = String::from_utf8(rdf::to_stored(&result)).unwrap();
    assert!(
        stored.contains("_:b0 <http://example.org/n>") && stored.contains("<http://example.org/p> _:b1 ."),
        "{stored}"
    );
}

#[test]
fn a_syntax_error_has_its_place() {
    let error = updated("", "INSERT DATA {\n <> <p> }").unwrap_err();
    assert!(matches!(error, UpdateError::Syntax { location: Some(Location { line: 2, column: 9 }), .. }), "{error:?}");
}

#[test]
fn each_operation_has_its_own_declarations() {
    assert_update(
        "",
        "PREFIX p: <http://a/> INSERT DATA { p:s p:p <x> } ; BASE <http://b/c> PREFIX p: <d#> \
         INSERT DATA { p:s <p> <x> } ; DELETE { <http://a/s> ?p ?o } WHERE { <http://a/s> ?p ?o }",
        "<http://b/d#s> <http://b/p> <http://b/x> .",
    );
}

#[test]
fn a_template_may_have_thousands_of_statements() {
    let triples =
        |of: &str| (0..2_000).map(|n| format!("<s{n}> <p> \"{of} {n}\" ; <q> <o{n}> .\n")).collect::<String>();
    let (old, new) = (triples("old"), triples("new"));
    assert_update(&old, &format!("DELETE {{ {old} }} INSERT {{ {new} }} WHERE {{ <s0> <p> ?x }}"), &new);
}

#[test]
fn operations_on_other_graphs_or_servers_are_refused_by_name() {
    for (update, name) in [
        ("LOAD <http://example.org/x>", "LOAD"),
        ("LOAD SILENT <http://example.org/x> INTO GRAPH <g>", "LOAD"),
        ("ADD DEFAULT TO <g>", "ADD"),
        ("COPY <g> TO DEFAULT", "COPY"),
        ("MOVE GRAPH <g> TO <h>", "MOVE"),
        ("CLEAR ALL", "CLEAR"),
        ("CLEAR DEFAULT", "CLEAR"),
        ("CREATE GRAPH <g>", "CREATE"),
        ("DROP ALL", "DROP"),
        ("INSERT DATA { GRAPH <g> { <a> <b> 1 } }", "GRAPH"),
        ("DELETE DATA { GRAPH <g> { <a> <b> 1 } }", "GRAPH"),
        ("DELETE WHERE { GRAPH <g> { <a> <b> ?c } }", "GRAPH"),
        ("INSERT { GRAPH <g> { <a> <b> 1 } } WHERE {}", "GRAPH"),
        ("INSERT { <a> <b> ?c } WHERE { GRAPH ?g { <a> <b> ?c } }", "GRAPH"),
        ("INSERT { <a> <b> 1 } WHERE { FILTER EXISTS { GRAPH ?g { <a> <b> ?c } } }", "GRAPH"),
        ("INSERT { <a> <b> ?c } WHERE { SERVICE <http://example.org/s> { <a> <b> ?c } }", "SERVICE"),
        ("INSERT { <a> <b> ?c } WHERE { SERVICE SILENT <http://example.org/s> { <a> <b> ?c } }", "SERVICE"),
        ("WITH <g> DELETE { <a> <b> 1 } WHERE {}", "USING or WITH"),
        ("INSERT { <a> <b> 1 } USING <g> WHERE { <a> <b> ?c }", "USING or WITH"),
    ] {
        match updated("<a> <b> 1 .", update) {
            Err(UpdateError::NotSupported { operation }) => assert_eq!(operation, name, "{update}"),
            other => panic!("{update}: {other:?}"),
        }
    }
}

#[test]
fn an_update_that_fails_later_changes_nothing() {
    let before = graph("<> <p> 1 .");
    assert!(
        apply(&before, "DELETE DATA { <> <p> 1 } ; CLEAR ALL", &base(), &Limits::default(), &Cancellation::default())
            .is_err()
    );
    assert_eq!(before, graph("<> <p> 1 ."));
}

#[test]
fn updates_that_could_take_too_long_are_refused_before_they_begin() {
    let many: String = (0..100).map(|n| format!("<s{n}> <p> {n} . ")).collect();
    let cross = "?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l .";
    for pattern in [
        cross.to_owned(),
        format!("{cross} FILTER(false)"),
        format!("FILTER EXISTS {{ {cross} FILTER(false) }}"),
        format!("{{ SELECT (COUNT(*) AS ?n) WHERE {{ {cross} }} }}"),
        "<a> <b> ?x . ".repeat(101),
        format!("<a> <b> ({})", "1 ".repeat(400)),
        "?a (<p>|!<q>)* ?b . ?c (<p>|!<q>)* ?d".to_owned(),
    ] {
        let error = updated(&many, &format!("INSERT {{ <> <q> 1 }} WHERE {{ {pattern} }}")).unwrap_err();
        assert!(error.is_too_large(), "{pattern}: {error}");
    }
    assert!(updated(&many, "INSERT { ?a <q> ?b } WHERE { ?a <p> ?n . ?b <p> ?n }").is_ok());
}

#[test]
fn updates_that_could_make_values_too_long_are_refused_before_they_begin() {
    let twice: String = (0..30).map(|n| format!("BIND(CONCAT(?v{n}, ?v{n}) AS ?v{}) ", n + 1)).collect();
    for pattern in [
        format!("BIND(\"xxxxxxxxxxxxxxxx\" AS ?v0) {twice}"),
        format!("<a> <p> ?v0 {twice}"),
        "<a> <p> ?v BIND(REPLACE(REPLACE(REPLACE(REPLACE(?v, '.', ?v), '.', ?v), '.', ?v), '.', ?v) AS ?w)".to_owned(),
    ] {
        let error = updated("<a> <p> \"x\" .", &format!("INSERT {{ <a> <q> 1 }} WHERE {{ {pattern} }}")).unwrap_err();
        assert!(error.is_too_large(), "{pattern}: {error}");
    }
    assert_update(
        "<a> <p> \"http://old/x\" .",
        "DELETE { ?s <p> ?v } INSERT { ?s <p> ?w } WHERE { ?s <p> ?v BIND(REPLACE(?v, 'old', 'new') AS ?w) }",
        "<a> <p> \"http://new/x\" .",
    );
}

#[test]
fn removals_are_reported_whether_or_not_the_graph_contained_them() {
    let update = "PREFIX e: <http://example.org/> DELETE DATA { <> e:p 1 . <a> e:p <b> } ; \
                  DELETE { <> e:q ?x . ?s ?p \"o\" } INSERT { <> e:new 1 } WHERE { <> e:none ?x . ?s ?p ?o } ; DELETE WHERE { ?s e:r ?o }";
    let output = apply(&graph("<> <p> 2 ."), update, &base(), &Limits::default(), &Cancellation::default()).unwrap();
    assert_eq!(output.graph, graph("<> <p> 2 ."));
    let removals: Vec<_> = output.removals.iter().map(ToString::to_string).collect();
    let r = "<http://example.org/r>";
    assert_eq!(
        removals,
        [
            format!("{r} <http://example.org/p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer>"),
            "<http://example.org/a> <http://example.org/p> <http://example.org/b>".to_owned(),
            format!("{r} <http://example.org/q> ?"),
            "? ? \"o\"".to_owned(),
            "? <http://example.org/r> ?".to_owned(),
        ]
    );
    let triples: Vec<_> = output.removals.iter().filter_map(rdf::update::Removal::triple).collect();
    assert_eq!(triples, graph("<> <p> 1 . <a> <p> <b> .").into_iter().collect::<Vec<_>>());
}

#[test]
fn the_result_must_be_within_the_limits_of_a_graph() {
    let limits = Limits { triples: 2, term_bytes: 60, ..Limits::default() };
    let before = graph("<> <p> 1 .");
    let error =
        |update: &str| apply(&before, update, &base(), &limits, &Cancellation::default()).unwrap_err().to_string();
    assert_eq!(error("INSERT DATA { <> <p> 2, 3 }"), "too large: more than 2 triples");
    assert_eq!(
        error(&format!("INSERT DATA {{ <> <p> \"{}\" }}", "x".repeat(61))),
        "too large: more than 60 bytes of one term"
    );
    assert_eq!(
        apply(
            &before,
            "INSERT DATA { <> <p> 2 }",
            &base(),
            &Limits { body_bytes: 10, ..limits },
            &Cancellation::default()
        )
        .unwrap_err()
        .to_string(),
        "too large: more than 10 bytes"
    );
}

/// The longest chains and the deepest brackets within the limits of the text, on a thread with a
/// small stack.
#[test]
fn no_update_within_the_limits_runs_out_of_stack() {
    let nested = |open: &str, middle: &str, close: &str| format!("{}{middle}{}", open.repeat(15), close.repeat(15));
    let patterns = [
        format!("FILTER({})", vec!["1"; 480].join(" || ")),
        format!("FILTER({})", vec!["1"; 480].join(" + ")),
        format!("FILTER(1 IN ({}))", vec!["1"; 480].join(",")),
        format!("FILTER{}", nested("((", "1", "))")),
        nested("{{", "?a ?b ?c", "}}"),
        nested("{ SELECT * {", "", "}}"),
        nested("OPTIONAL {", "", "}"),
        nested("FILTER EXISTS {", "", "}"),
        vec!["{}"; 320].join(" UNION "),
        "OPTIONAL {} ".repeat(320),
        "MINUS {} ".repeat(320),
        "FILTER(1) ".repeat(240),
        (0..150).map(|n| format!("BIND(1 AS ?x{n}) ")).collect(),
        "<a> <b> ?x . ".repeat(100),
        format!("<a> {} ?x", vec!["<p>"; 480].join("/")),
        format!("<a> {} ?x", vec!["<p>"; 480].join("|")),
        format!("<a> <b> ({})", "1 ".repeat(900)),
        format!("<a> <b> {}", nested("[ <p> ", "1", " ]")),
    ];
    for pattern in patterns {
        let update = format!("INSERT {{ <> <q> 1 }} WHERE {{ {pattern} }}");
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        let outcome = thread.spawn(move || updated("<a> <p> 1 .", &update).map(|_| ())).unwrap().join().unwrap();
        assert!(
            !matches!(outcome, Err(UpdateError::Syntax { .. } | UpdateError::Evaluation(_))),
            "{pattern}: {outcome:?}"
        );
    }
}
