//! Expensive updates are refused before they begin, or stopped, or can be cancelled.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use rdf::update::{Cancellation, Room, UpdateError, apply, apply_within};
use rdf::{Graph, Iri, Limits, Syntax};

fn base() -> Iri {
    Iri::parse("http://example.org/r".to_owned()).unwrap()
}

fn graph(turtle: &str) -> Graph {
    rdf::parse(turtle.as_bytes(), Syntax::Turtle, &base(), &Limits::default()).unwrap()
}

/// Statements of one property, with numbers as values.
fn numbers(count: usize) -> Graph {
    let mut turtle = String::new();
    (0..count).for_each(|n| write!(turtle, "<s{n}> <p> {n} . ").unwrap());
    graph(&turtle)
}

fn updated(before: &Graph, pattern: &str) -> Result<Graph, UpdateError> {
    let update = format!("INSERT {{ <> <q> 1 }} WHERE {{ {pattern} }}");
    Ok(apply(before, &update, &base(), &Limits::default(), &Cancellation::default())?.graph)
}

#[test]
fn computed_and_too_large_regular_expressions_are_refused() {
    let before = graph("<a> <p> \"x\" ; <q> \"x\" .");
    for (pattern, why) in [
        (r"?s <p> ?o FILTER(REGEX(?o, '(\\p{L}{100}){100}'))", "too large"),
        (r"?s <p> ?o FILTER(true && !REGEX(?o, '(\\p{L}{100}){100}'))", "too large"),
        (r"?s <p> ?o BIND(REPLACE(?o, '(\\p{L}{100}){100}', '') AS ?x)", "too large"),
        ("?s <p> ?o ; <q> ?q FILTER(REGEX(?o, ?q))", "computed"),
        ("?s <p> ?o FILTER(REGEX(?o, CONCAT('x', 'y')))", "computed"),
        ("?s <p> ?o VALUES ?q { 'x' } FILTER(REGEX(?o, 'x', ?q))", "computed"),
        ("?s <p> ?o FILTER EXISTS { ?s <q> ?q FILTER(REGEX(?o, ?q)) }", "computed"),
        ("?s <p> ?o FILTER(REGEX(?o, '(('))", "parse error"),
        ("{ SELECT (COUNT(REGEX(?o, ?o)) AS ?n) WHERE { ?s <p> ?o } }", "computed"),
        ("?s <p> ?o OPTIONAL { ?s <q> ?q FILTER(REGEX(?o, ?q)) }", "computed"),
    ] {
        let error = updated(&before, pattern).unwrap_err();
        assert!(matches!(error, UpdateError::Pattern { .. }), "{pattern}: {error:?}");
        assert!(error.to_string().contains(why), "{pattern}: {error}");
    }
}

#[test]
fn usual_regular_expressions_are_matched_as_usual() {
    let before = graph("<a> <p> \"Letter 12 of 1890\"@en . <b> <p> \"Note\" . <c> <p> <http://old/x> .");
    let removed = |filter: &str| {
        let update = format!("DELETE {{ ?s <p> ?o }} WHERE {{ ?s <p> ?o FILTER({filter}) }}");
        let after = apply(&before, &update, &base(), &Limits::default(), &Cancellation::default()).unwrap().graph;
        before.len() - after.len()
    };
    assert_eq!(removed(r"REGEX(?o, '^\\w+ \\d+ of \\d{4}$')"), 1);
    assert_eq!(removed("REGEX(?o, 'LETTER', 'i')"), 1);
    assert_eq!(removed("REGEX(STR(?o), '^http://old/')"), 1);
    assert_eq!(removed("!REGEX(?o, 'Letter')"), 1, "an address is no text: it is an error, which is not turned around");
    let update = "DELETE { ?s <p> ?o } INSERT { ?s <p> ?n } WHERE { ?s <p> ?o BIND(REPLACE(?o, '(\\\\d+) of', 'no. $1,') AS ?n) }";
    let after = apply(&before, update, &base(), &Limits::default(), &Cancellation::default()).unwrap().graph;
    // Nothing is inserted if the expression is an error.
    assert_eq!(after, graph("<a> <p> \"Letter no. 12, 1890\"@en . <b> <p> \"Note\" ."));
}

#[test]
fn a_long_text_is_not_matched_with_a_large_pattern() {
    let before = graph(&format!("<a> <p> \"{}\" .", "ab".repeat(250_000)));
    let error = updated(&before, "?s <p> ?o FILTER(REGEX(?o, '(a|b)*a(a|b){500}c'))").unwrap_err();
    assert!(error.is_too_large(), "{error}");
    assert!(updated(&before, "?s <p> ?o FILTER(REGEX(?o, 'abc'))").is_ok());
}

#[test]
fn products_of_an_updates_own_values_are_refused() {
    let values = |name: &str, count: usize| {
        let texts: String = (0..count).map(|n| format!("{n} ")).collect();
        format!("VALUES ?{name} {{ {texts} }}")
    };
    let both = format!("{} {}", values("a", 480), values("b", 480));
    let none = Graph::new();
    assert!(updated(&none, &both).is_ok());
    for pattern in [
        format!("{both} {}", values("c", 10)),
        format!("{both} FILTER({})", ["?a = 1"; 3].join(" || ")),
        format!("{both} BIND(?a + ?b + 1 AS ?x) BIND(?x + 1 AS ?y) BIND(?y + 1 AS ?z)"),
        format!("{{ {both} }} UNION {{ {both} }} UNION {{ {both} }}").replace("480", "479"),
        format!("{both} MINUS {{ {} }}", values("d", 20)),
    ] {
        let error = updated(&none, &pattern).unwrap_err();
        assert!(error.is_too_large(), "{}: {error}", &pattern[pattern.len() - 60..]);
    }
}

#[test]
fn functions_inside_operators_are_counted_too() {
    let long = "x".repeat(100_000);
    let mut turtle = format!("<a> <p> \"{long}\" . ");
    (0..1_000).for_each(|n| write!(turtle, "<s{n}> <p> {n} . ").unwrap());
    let before = graph(&turtle);
    for filter in ["STRLEN(SHA512(STR(?o))) > 1 && true", "!(ENCODE_FOR_URI(STR(?o)) = 'x')"] {
        let error = updated(&before, &format!("?s <p> ?o FILTER({filter})")).unwrap_err();
        assert!(error.is_too_large(), "{filter}: {error}");
    }
    assert!(updated(&before, "?s <p> ?o FILTER(?o = 'x' || LANG(?o) = 'en' || ISIRI(?o))").is_ok());
}

#[test]
fn a_value_is_as_long_as_the_longest_that_any_branch_gives_it() {
    let before = graph(&format!("<a> <p> \"{}\" .", "x".repeat(500_000)));
    let times = |variable: &str, count: usize| format!("CONCAT({})", vec![variable; count].join(", "));
    let long = format!("?s <p> ?o BIND({} AS ?x)", times("?o", 20));
    let value = "y".repeat(1 << 20);
    for ways in [
        format!("{{ {long} }} UNION {{ BIND('' AS ?x) }}"),
        format!("{{ BIND('' AS ?x) }} UNION {{ {long} }} UNION {{ BIND('' AS ?x) }}"),
        format!("{{ {long} }} UNION {{ SELECT (COUNT(?s) AS ?x) WHERE {{ ?s <p> ?o }} }}"),
        format!("VALUES ?x {{ '{value}' 1 }}"),
        format!("?x <p>* '{value}'"),
    ] {
        let error = updated(&before, &format!("{ways} BIND({} AS ?y)", times("?x", 40))).unwrap_err();
        assert!(error.to_string().ends_with("bytes that this WHERE could compute"), "{error}");
    }
    let pattern = format!("{{ {long} }} UNION {{ BIND('' AS ?x) }} BIND({} AS ?y)", times("?x", 2));
    assert!(updated(&before, &pattern).is_ok());
}

#[test]
fn many_operations_share_the_budget_of_an_update() {
    let before = numbers(60);
    let limits = Limits { solutions: 10_000, ..Limits::default() };
    let one = "INSERT { <> <q> 1 } WHERE { { ?a <p> ?x . ?b <p> ?y } UNION {} } ;";
    let applied = |update: &str| apply(&before, update, &base(), &limits, &Cancellation::default());
    assert!(applied(one).is_ok());
    let error = applied(&one.repeat(5)).unwrap_err();
    assert!(error.is_too_large(), "{error}");
}

#[test]
fn what_an_update_adds_counts_once_and_is_no_more_than_a_graph_may_have() {
    let before = numbers(60);
    let limits = Limits { triples: 100, ..Limits::default() };
    let applied = |template: &str| {
        let update = format!("INSERT {{ {template} }} WHERE {{ ?a <p> ?x . ?b <p> ?y }}");
        apply(&before, &update, &base(), &limits, &Cancellation::default()).map(|updated| updated.graph.len())
    };
    assert_eq!(applied("<> <q> 1"), Ok(61));
    for template in ["?a <q> ?y", "[] <q> 1"] {
        assert_eq!(applied(template).unwrap_err().to_string(), "too large: more than 100 triples", "{template}");
    }
}

#[test]
fn an_update_that_was_cancelled_before_does_not_begin() {
    let before = numbers(10);
    let cancellation = Cancellation::default();
    cancellation.cancel();
    for update in ["INSERT DATA { <> <q> 1 }", "INSERT { ?a <q> ?y } WHERE { ?a <p> ?x . ?b <p> ?y }"] {
        let outcome = apply(&before, update, &base(), &Limits::default(), &cancellation);
        assert!(matches!(outcome, Err(UpdateError::Cancelled)), "{update}");
    }
}

#[test]
fn functions_that_are_read_twice_are_not_read_a_million_times() {
    let before = graph("<a> <p> \"x\" .");
    let nested = |open: &str, close: &str, levels: usize| format!("{}?o{}", open.repeat(levels), close.repeat(levels));
    for (open, close) in [
        ("REPLACE(", ", 'a', 'b')"),
        ("SUBSTR(", ", 1)"),
        ("regex(", ",'a')"),
        ("GROUP_CONCAT (", ")"),
        ("!(", ")"),
        ("! STR(", ")"),
        ("!<http://a/f>(", ")"),
        ("!EXISTS { ?s ?p ?o FILTER(", ") }"),
        ("1<REPLACE(", ",'a','b')>"),
    ] {
        for levels in [9, 15] {
            let error =
                updated(&before, &format!("?s <p> ?o BIND({} AS ?x)", nested(open, close, levels))).unwrap_err();
            assert!(error.is_too_large(), "{open}: {error}");
        }
    }
    let outcome = updated(&before, &format!("?s <p> ?o BIND({} AS ?x)", nested("SUBSTR(", ", 1)", 8)));
    assert!(outcome.is_ok(), "{outcome:?}");
    assert!(updated(&before, &format!("?s <p> ?o BIND({} AS ?x)", nested("REPLACE(", ", 'a', 'b')", 3))).is_ok());
}

/// A parser that tries alternatives at each level would practically never end.
#[test]
fn a_text_with_an_error_deep_inside_is_refused_at_once() {
    let before = graph("<a> <p> \"x\" .");
    for (open, close) in [
        ("(", ")"),
        ("STR(", ")"),
        ("IF(", ",1,2)"),
        ("COALESCE(1,", ")"),
        ("<http://a/f>(", ")"),
        ("1 IN (", ")"),
        ("-(", ")"),
        ("COUNT(DISTINCT ", ")"),
        ("EXISTS { ?s ?p ?o FILTER(", ") }"),
    ] {
        let levels = if open.contains('{') { 14 } else { 29 };
        let wrong = format!("FILTER({}^^{})", open.repeat(levels), close.repeat(levels));
        assert!(matches!(updated(&before, &wrong), Err(UpdateError::Syntax { .. })), "{open}");
    }
    for (open, close) in [
        ("[ <p> ", "]"),
        ("(", ")"),
        ("{", "}"),
        ("OPTIONAL {", "}"),
        ("{ SELECT * {", "}}"),
        ("<a> (<p>|^(", ")) <b>"),
    ] {
        let levels = if open.matches(['{', '(', '[']).count() == 2 { 14 } else { 29 };
        let wrong = format!("<a> <p> {}^^{}", open.repeat(levels), close.repeat(levels));
        assert!(matches!(updated(&before, &wrong), Err(UpdateError::Syntax { .. })), "{open}");
        let wrong = format!("{}^^{}", open.repeat(levels), close.repeat(levels));
        assert!(matches!(updated(&before, &wrong), Err(UpdateError::Syntax { .. })), "{open}");
    }
}

#[test]
fn what_hides_brackets_or_is_read_many_times_is_refused_before_it_is_parsed() {
    let apply = |update: &str| {
        let (limits, stop) = (Limits::default(), Cancellation::default());
        apply(&numbers(2), update, &base(), &limits, &stop)
    };
    let many = "(".repeat(1_000_000);
    let again = |open: &str, count: usize, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(count), close.repeat(count))
    };
    let comment = format!("#{}\n", "x".repeat(3 << 20));
    for update in [
        // A long string with a wrong escape ends before it.
        format!("INSERT DATA{{<s><p>('''a'{many}#\\q'''"),
        // A name can end with a hyphen.
        format!("PREFIX a:<x:>INSERT{{}}WHERE{{FILTER(a:b-<'>'||'x'={many}#'"),
        format!("INSERT DATA{{<s><p>1{}", "~{|<p>1".repeat(31)),
        format!("INSERT DATA{{<s><p>1 {}", "~".repeat(4 << 20)),
        format!("PREFIX :<x:>PREFIX SILENT:<x:>INSERT{{}}WHERE{{{}", "SERVICE SILENT:x{".repeat(31)),
        format!("PREFIX a-b:<x:>INSERT{{}}WHERE{{FILTER({})}}", again("!a-b:f(", 29, "1", ")")),
        format!("PREFIX a:<x:>INSERT{{}}WHERE{{{}{comment}", "FILTER a:f(EXISTS{".repeat(15)),
        format!("INSERT{{}}WHERE{{{}{comment}", "FILTERREGEX(EXISTS{".repeat(15)),
        format!("INSERT{{}}WHERE{{FILTER({}{comment}", "!(".repeat(8)),
        format!("PREFIX :<x:>PREFIX DISTINCT:<x:>INSERT{{}}WHERE{{FILTER({}{comment}", "COUNT(DISTINCT:a-(".repeat(14)),
        format!("INSERT{{}}WHERE{{FILTER({}{comment}", "!REGEX(".repeat(8)),
    ] {
        let start: String = update.chars().take(80).collect();
        assert!(apply(&update).is_err(), "{start}");
    }
}

#[test]
fn a_path_that_can_be_followed_in_too_many_ways_is_refused() {
    let before = graph(&(0..20).map(|n| format!("<a> <p> <b{n}> . <b{n}> <p> <a> . ")).collect::<String>());
    let steps = ["<p>"; 12].join("/");
    // Ten reads for each solution.
    let limits = Limits { solutions: 10_000, cpu: Duration::MAX, ..Limits::default() };
    let update = format!("INSERT {{ <> <q> 1 }} WHERE {{ <a> ({steps})* ?x }}");
    let error = apply(&before, &update, &base(), &limits, &Cancellation::default()).unwrap_err();
    assert!(error.to_string().ends_with("solutions that a path could have on its way"), "{error}");
}

/// The evaluator would copy or follow their parts millions of times before it reads anything.
#[test]
fn patterns_that_take_too_long_before_they_are_evaluated_are_refused() {
    let before = graph("<a> <p> \"x\" ; <q> \"y\" .");
    let nested = |open: &str, middle: &str, close: &str, levels: usize| {
        format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
    };
    let groups = ["{}"; 250].join(" UNION ");
    let path = |steps: usize| vec!["<p>"; steps].join("/");
    for pattern in [
        format!("?s ?p ?o FILTER({})", nested("(", "?o", " IN (1, 1))", 25)),
        format!("?s ?p ?o FILTER({})", nested("(EXISTS { FILTER(", "?o", " IN (1, 1)) } IN (1, 1, 1, 1, 1))", 9)),
        format!("FILTER(EXISTS {{ FILTER(?x = '{}') }} IN ({}1))", "x".repeat(100_000), "1, ".repeat(200)),
        format!("?s ?p ?o FILTER({})", nested("IF(", "?o", " = ?s, STR(?o), 1)", 28)),
        format!("{groups} FILTER(?x = '{}')", "x".repeat(100_000)),
        nested("{ SELECT (COUNT(*) AS ?n) {", &groups, "}}", 14),
        format!("?x <q> ?y . <a> ({})* ?b", path(40)),
        format!("?x <q> ?y . <a> {}|<q> ?b", path(40)),
    ] {
        let error = updated(&before, &pattern).unwrap_err();
        let start: String = pattern.chars().take(60).collect();
        assert!(error.to_string().ends_with("bytes that the evaluator would make of this WHERE"), "{start}: {error}");
    }
    for pattern in [
        "?s ?p ?o FILTER(LCASE(?o) IN ('x', 'y') && IF(?o = ?s, IF(?o = 1, 2, 3), 4) = 4)".to_owned(),
        format!("?x <q> ?y . <a> ({})* ?b", path(8)),
        "{ SELECT (COUNT(*) AS ?n) { SELECT ?s (COUNT(*) AS ?m) { ?s ?p ?o } GROUP BY ?s } }".to_owned(),
    ] {
        let outcome = updated(&before, &pattern);
        assert!(outcome.is_ok(), "{pattern}: {outcome:?}");
    }
}

#[test]
fn what_one_solution_writes_is_bounded_before_it_is_written() {
    let long = "x".repeat(100_000);
    let before = graph(&format!("<a> <p> \"{long}\" ; <q> 1 ."));
    let limits = Limits { expanded_bytes: 4 << 20, ..Limits::default() };
    let applied = |variable: &str, count: usize, pattern: &str| {
        let template: String = (0..count).map(|n| format!("<s{n}> <p> {variable} . ")).collect();
        let update = format!("INSERT {{ {template} }} WHERE {{ {pattern} }}");
        apply(&before, &update, &base(), &limits, &Cancellation::default()).map(|updated| updated.graph.len())
    };
    for pattern in ["?s <p> ?x", "?s <p> ?o BIND(?o AS ?x)", "<a> <p>? ?x", &format!("VALUES ?x {{ '{long}' }}")] {
        let error = applied("?x", 50, pattern).unwrap_err().to_string();
        assert_eq!(error, "too large: more than 4194304 bytes that one solution could write", "{}", &pattern[..9]);
    }
    assert_eq!(applied("?x", 20, "?s <p> ?x"), Ok(22));
    assert_eq!(applied("?y", 50, "?s <p> ?x ; <q> ?y"), Ok(52));
}

#[test]
fn each_operation_pays_for_the_size_of_the_graph() {
    let value = |n: usize| format!("<a> <p> '{n}{}' . ", "x".repeat(1_000_000));
    let before = graph(&(0..7).map(value).collect::<String>());
    let apply = |update: &str| apply(&before, update, &base(), &Limits::default(), &Cancellation::default());
    assert!(apply(&"DELETE DATA { <a> <b> 1 };".repeat(20)).is_ok());
    assert!(apply(&"DELETE DATA { <a> <b> 1 };".repeat(200)).is_err_and(|error| error.is_too_large()));
}

#[test]
fn text_of_json_is_kept_as_it_is_written() {
    let update = r#"INSERT DATA { <> <p> "{\"t\":\"Caf\\u00e9 \\u006e\"}" }"#;
    let stop = Cancellation::default();
    let changed = apply(&Graph::new(), update, &base(), &Limits::default(), &stop).unwrap();
    let stored = changed.graph.iter().next().unwrap().object.to_string();
    assert_eq!(stored, r#""{\"t\":\"Caf\\u00e9 \\u006e\"}""#);
}

/// The evaluator takes an error inside of `EXISTS` for a solution, and on the right of `MINUS` for none.
#[test]
fn an_update_that_is_stopped_inside_of_a_filter_deletes_nothing() {
    let before = numbers(300);
    let long = "x".repeat(2_048);
    let limits = Limits { expanded_bytes: 400_000, ..Limits::default() };
    let long_value = format!("BIND(CONCAT(STR(?s), '{long}') AS ?z) FILTER(?z = 'no')");
    for filter in [
        format!("FILTER EXISTS {{ {long_value} }}"),
        format!("FILTER NOT EXISTS {{ {long_value} }}"),
        format!("MINUS {{ ?s ?p ?o {long_value} }}"),
        format!("OPTIONAL {{ ?s ?p ?o {long_value} }}"),
    ] {
        let update = format!("DELETE {{ ?s ?p ?o }} WHERE {{ ?s ?p ?o {filter} }}");
        let outcome = apply(&before, &update, &base(), &limits, &Cancellation::default());
        let start = &update[..60];
        assert!(outcome.as_ref().is_err_and(UpdateError::is_too_large), "{start}: {:?}", outcome.err());
        assert!(apply(&numbers(10), &update, &base(), &limits, &Cancellation::default()).is_ok(), "{start}");
    }
}

#[test]
fn memory_is_looked_at_wherever_an_update_works() {
    static LOOKS: AtomicI64 = AtomicI64::new(0);
    // Each look finds one byte more.
    let held: fn() -> i64 = || LOOKS.fetch_add(1, Ordering::Relaxed);
    let limits = Limits { held_bytes: 5, held: Some(held), ..Limits::default() };
    let before = numbers(200);
    let applied = |template: &str, pattern: &str| {
        let update = format!("INSERT {{ {template} }} WHERE {{ {pattern} }}");
        apply(&before, &update, &base(), &limits, &Cancellation::default()).map(|updated| updated.graph.len())
    };
    let values = |name: &str| format!("VALUES ?{name} {{ {} }}", "1 ".repeat(150));
    let pairs = "?a <p> ?x . ?b <p> ?y";
    for (template, pattern) in [
        ("<> <q> 1", pairs.to_owned()),
        ("<> <q> 1", format!("{} {}", values("a"), values("b"))),
        ("?none <q> 1", pairs.to_owned()),
        ("<> <q> 1", format!("FILTER EXISTS {{ {pairs} FILTER(?x = 'no') }}")),
        // Of constants only.
        ("<> <q> 1", format!("?a <p> ?x FILTER EXISTS {{ {} FILTER(SHA512('a') = 'b') }}", values("b"))),
        ("<> <q> ?n", format!("{{ SELECT (COUNT(*) AS ?n) {{ {pairs} }} }}")),
        ("<> <q> ?n", format!("{{ SELECT ?a (MIN(?y) AS ?n) {{ {pairs} }} GROUP BY ?a ORDER BY ?n }}")),
        ("<> <q> 1", format!("<s1> <p> ?n MINUS {{ SELECT DISTINCT ?a {{ {pairs} FILTER(?x + ?y = 'no') }} }}")),
    ] {
        let error = applied(template, &pattern).unwrap_err().to_string();
        assert_eq!(error, "too large: more than 5 bytes held while it is evaluated", "{template}: {pattern:.60}");
    }
    assert_eq!(applied("?a <q> ?x", "?a <p> ?x"), Ok(400));
}

/// Room up to so many bytes, and the most that was taken of it so far. Beyond it there is none for now.
fn room_up_to(bytes: usize) -> (Room, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let most = taken.clone();
    let give = move |wanted: usize| {
        if wanted > bytes {
            return Err(UpdateError::NoRoom("no room".to_owned()));
        }
        most.fetch_max(wanted, Ordering::Relaxed);
        Ok(())
    };
    (Room::new(usize::MAX, give), taken)
}

#[test]
fn an_update_takes_room_for_what_it_holds_and_ends_where_there_is_none() {
    static HELD: AtomicI64 = AtomicI64::new(0);
    // Each look finds a mebibyte more.
    let held: fn() -> i64 = || HELD.fetch_add(1 << 20, Ordering::Relaxed);
    let limits = Limits { held: Some(held), ..Limits::default() };
    let before = numbers(200);
    let applied = |pattern: &str, room: &Room| {
        let update = format!("INSERT {{ <> <q> 1 }} WHERE {{ {pattern} }}");
        let outcome = apply_within(&before, &update, &base(), &limits, &Cancellation::default(), room);
        outcome.map(|updated| updated.graph.len())
    };
    let pairs = "?a <p> ?x . ?b <p> ?y";
    for pattern in [
        pairs.to_owned(),
        // The evaluator takes errors in these for a solution, or for none.
        format!("FILTER EXISTS {{ {pairs} FILTER(?x = 'no') }}"),
        format!("<s1> <p> ?n MINUS {{ SELECT DISTINCT ?a {{ {pairs} FILTER(?x + ?y = 'no') }} }}"),
    ] {
        let (room, taken) = room_up_to(4 << 20);
        assert_eq!(applied(&pattern, &room), Err(UpdateError::NoRoom("no room".to_owned())), "{pattern}");
        assert_eq!(taken.load(Ordering::Relaxed), 4 << 20, "{pattern}");
        let error = applied(&pattern, &Room::new(3 << 20, |_| Ok(()))).unwrap_err().to_string();
        assert_eq!(error, "too large: more than 3145728 bytes held while it is evaluated", "{pattern}");
    }
    let (room, taken) = room_up_to(usize::MAX);
    assert_eq!(applied("?a <p> ?x", &room), Ok(201));
    assert!(taken.load(Ordering::Relaxed) > 1 << 20);
}

#[test]
fn an_update_takes_room_for_what_it_is_written_out_to_before_it_is_parsed() {
    let objects: Vec<_> = (0..4_000).map(|n| format!("a:{n}")).collect();
    let prefix = format!("PREFIX a: <http://a/{}/>", "x".repeat(980));
    let update = format!("{prefix} INSERT DATA {{ <> <p> {} }}", objects.join(","));
    assert!(update.len() < 32 << 10);
    let applied = |room: &Room| {
        let outcome = apply_within(&Graph::new(), &update, &base(), &Limits::default(), &Cancellation::default(), room);
        outcome.map(|updated| updated.graph.len())
    };
    // The names are four million bytes once they are written out, and more when they are parsed.
    let (room, taken) = room_up_to(usize::MAX);
    assert_eq!(applied(&room), Ok(4_000));
    assert!(taken.load(Ordering::Relaxed) > 8_000_000, "{taken:?}");
    let (room, taken) = room_up_to(4 << 20);
    assert_eq!(applied(&room), Err(UpdateError::NoRoom("no room".to_owned())));
    assert_eq!(taken.load(Ordering::Relaxed), 4 << 20);
}

/// Rows without a value.
fn rows(name: &str, count: usize) -> String {
    format!("VALUES ?{name} {{ {} }}", "UNDEF ".repeat(count))
}

/// Nothing in these patterns is read, copied or compared. So only the gate before each evaluation of
/// an `EXISTS` can stop them.
#[test]
fn time_and_memory_are_looked_at_where_solutions_have_no_values() {
    static LOOKS: AtomicI64 = AtomicI64::new(0);
    let held: fn() -> i64 = || LOOKS.fetch_add(1, Ordering::Relaxed);
    let limits = Limits { held_bytes: 5, held: Some(held), ..Limits::default() };
    let (before, around) = (numbers(10), format!("{} {}", rows("a", 20), rows("b", 20)));
    let (left, right) = (rows("c", 20), rows("d", 20));
    let applied = |inside: &str| {
        let exists = format!("EXISTS {{ SELECT (COUNT(*) AS ?n) {{ {inside} }} }}");
        let update = format!("INSERT {{ <> <q> 1 }} WHERE {{ {around} FILTER {exists} }}");
        assert!(update.len() <= 2 << 10, "{} bytes", update.len());
        apply(&before, &update, &base(), &limits, &Cancellation::default()).map(|updated| updated.graph.len())
    };
    for inside in [
        format!("{left} {right}"),
        format!("{left} OPTIONAL {{ {right} }}"),
        format!("{left} MINUS {{ {right} }}"),
        format!("{left} {right} {}", "MINUS {} ".repeat(60)),
        format!("{left} FILTER EXISTS {{ {right} MINUS {{}} }}"),
    ] {
        let error = applied(&inside).unwrap_err().to_string();
        assert_eq!(error, "too large: more than 5 bytes held while it is evaluated", "{inside}");
    }
    assert_eq!(applied("?s <none> ?o"), Ok(11));
}

#[test]
fn wide_solutions_many_names_in_templates_and_copied_texts_take_more_steps() {
    let limits = Limits { solutions: 50_000, ..Limits::default() };
    let applied = |template: &str, pattern: &str| {
        let update = format!("INSERT {{ {template} }} WHERE {{ {pattern} }}");
        apply(&Graph::new(), &update, &base(), &limits, &Cancellation::default()).map(|updated| updated.graph.len())
    };
    let refused = |template: &str, pattern: &str| applied(template, pattern).unwrap_err().to_string();
    let names = |count: usize| (0..count).map(|n| format!("?v{n} ")).collect::<String>();
    let pairs = format!("{} {} OPTIONAL {{ {} {} }}", rows("a", 10), rows("b", 10), rows("c", 10), rows("d", 10));
    let wide = |count: usize| format!("{{ SELECT {} {{ {pairs} }} }}", names(count));
    assert_eq!(applied("<> <q> 1", &wide(100)), Ok(1));
    assert!(refused("<> <q> 1", &wide(600)).ends_with("steps that this update could take"));

    let template = |triples: usize| (0..triples).map(|n| format!("?s{n} ?p{n} ?o{n} . ")).collect::<String>();
    assert_eq!(applied(&template(10), &rows("a", 100)), Ok(0));
    assert!(refused(&template(200), &rows("a", 100)).ends_with("steps that this update could take"));

    let compared = |bytes: usize| format!("{} {} FILTER('{}' = 'y')", rows("a", 90), rows("b", 90), "x".repeat(bytes));
    assert_eq!(applied("<> <q> 1", &compared(1)), Ok(0));
    assert!(refused("<> <q> 1", &compared(200_000)).ends_with("bytes that this WHERE could compute"));
}

#[test]
fn an_update_takes_no_more_time_than_allowed() {
    let limits = Limits { cpu: Duration::ZERO, ..Limits::default() };
    for update in ["INSERT DATA { <> <q> 1 }", "INSERT { ?a <q> ?y } WHERE { ?a <p> ?y }"] {
        let error = apply(&numbers(10), update, &base(), &limits, &Cancellation::default()).unwrap_err();
        assert_eq!(error.to_string(), "too large: more than 0 milliseconds of computing", "{update}");
    }
}

#[test]
fn what_aggregates_keep_for_each_group_is_counted() {
    let limits = Limits { expanded_bytes: 4 << 20, ..Limits::default() };
    let applied = |groups: usize, aggregate: &str| {
        let mut before = numbers(groups);
        before.extend(graph(&format!("<a> <long> \"{}\" .", "x".repeat(100_000))));
        let groups = format!("SELECT ?s ({aggregate} AS ?x) {{ ?s <p> ?n . <a> <long> ?o }} GROUP BY ?s");
        let update = format!("INSERT {{ <> <q> 1 }} WHERE {{ {{ {groups} }} }}");
        apply(&before, &update, &base(), &limits, &Cancellation::default()).map(|updated| updated.graph.len())
    };
    for aggregate in ["SAMPLE(?o)", "MIN(?o)", "MAX(DISTINCT ?o)", "GROUP_CONCAT(?o)", "COUNT(DISTINCT UCASE(?o))"] {
        let error = applied(60, aggregate).unwrap_err();
        assert!(error.is_too_large(), "{aggregate}: {error}");
        assert_eq!(applied(10, aggregate), Ok(12), "{aggregate}");
    }
    // These keep nothing.
    for aggregate in ["COUNT(?o)", "COUNT(DISTINCT ?o)", "COUNT(*)"] {
        assert_eq!(applied(60, aggregate), Ok(62), "{aggregate}");
    }
}

#[test]
fn what_the_evaluator_follows_or_holds_too_often_is_refused() {
    let before = numbers(100);
    let nested = |levels: usize| {
        let (open, close) = ("{ SELECT (COUNT(*) AS ?n) {".repeat(levels), "}}".repeat(levels));
        format!("{open} ?s ?p ?o {close}")
    };
    let patterns = "a".repeat(1_000);
    for (pattern, of) in [
        (nested(4), "groups inside each other"),
        (format!("?s ?p ?{}", "o".repeat(1_025)), "bytes of the name of a variable"),
        (
            format!("FILTER('{}' {})", "x".repeat(900_000), "+ 1 ".repeat(100)),
            "bytes that the evaluator would follow to put this WHERE in order",
        ),
        (
            "{ SELECT DISTINCT * { ?a <p> ?x . ?b <p> ?y . ?c <p> ?z } }".to_owned(),
            "bytes of solutions that could be held",
        ),
        (
            format!("?s ?p ?o FILTER({})", vec![format!("REGEX(?o, '{patterns}')"); 8].join(" || ")),
            "steps that this update could take",
        ),
    ] {
        let error = updated(&before, &pattern).unwrap_err().to_string();
        assert!(error.ends_with(of), "{pattern:.60}: {error}");
    }
    assert!(updated(&before, &nested(3)).is_ok());
}

#[test]
fn an_everyday_rewrite_of_thousands_of_short_statements_is_carried_out() {
    let mut turtle = String::new();
    (0..8_000).for_each(|n| write!(turtle, "<s{n}> <p> <http://old/{n}> . ").unwrap());
    let update = "DELETE { ?s ?p ?o } INSERT { ?s ?p ?n } WHERE { ?s ?p ?o FILTER(CONTAINS(STR(?o), 'http://old/')) \
                  BIND(IRI(REPLACE(STR(?o), '^http://old/', 'http://new/')) AS ?n) }";
    let after = apply(&graph(&turtle), update, &base(), &Limits::default(), &Cancellation::default()).unwrap().graph;
    assert_eq!(after, graph(&turtle.replace("http://old/", "http://new/")));
}
