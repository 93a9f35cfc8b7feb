//! Depth and length of an update's text, measured without parsing. Parser and evaluator are
//! recursive and must not run out of stack, and the parser writes out all names before it returns
//! anything.

use std::borrow::Cow;

use super::UpdateError;
use super::names::{Names, Place};
use crate::Iri;
use crate::parse::Limits;
use crate::tokens::{Tokens, continues_name, count, is_iri, is_word};

/// Deepest nesting of brackets.
const DEPTH: usize = 32;

/// Most words, operators and brackets outside of `DATA { ... }`, where each can add a level to the
/// evaluator's recursion.
const TOKENS: usize = 1_000;

/// Deepest nesting of what the parser reads twice: functions that it tries with and without their
/// last argument, and what follows a `!`. At this depth the innermost is read a few hundred times.
const READ_TWICE: [&str; 4] = ["regex", "replace", "substr", "group_concat"];
const READ_TWICE_DEPTH: usize = 8;

/// The error for what the parser could read in two ways.
const AMBIGUOUS: &str = "after a `<` comes an IRI, or what is compared: write the IRI with its scheme, or a space after the `<`, \
     or use a PREFIX";

/// What is known of an update's text before it is parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Whether there is a pattern to evaluate.
    pub(super) has_where: bool,
}

/// The text without escapes of code points (SPARQL 1.1 Query, section 19.2), which could encode
/// brackets.
///
/// # Errors
/// [`UpdateError::Syntax`] if an escape is invalid, or encodes a part of another one.
pub(super) fn unescaped(update: &str) -> Result<Cow<'_, str>, UpdateError> {
    let wrong = |message: &str| UpdateError::Syntax { location: None, message: message.to_owned() };
    let is_escape = |text: &str| text.starts_with("\\u") || text.starts_with("\\U");
    let mut text = String::new();
    let mut rest = update;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        if !is_escape(escape) {
            // A backslash that is escaped begins no escape of a code point: texts of JSON have those.
            let (pair, after) = escape.split_at(pair_bytes(escape));
            text.push_str(before);
            text.push_str(pair);
            rest = after;
            continue;
        }
        let digits = if escape.starts_with("\\u") { 4 } else { 8 };
        let code = escape.get(2..2 + digits).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let character = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        let character = character.ok_or_else(|| wrong("an escape is not of a code point: \\uXXXX or \\UXXXXXXXX"))?;
        text.push_str(before);
        text.push(character);
        rest = &escape[2 + digits..];
    }
    if text.is_empty() {
        return Ok(Cow::Borrowed(update));
    }
    text.push_str(rest);
    if has_escape(&text) {
        return Err(wrong("an escape of a code point encodes a part of another one"));
    }
    Ok(Cow::Owned(text))
}

/// Bytes of a backslash and of the character after it.
fn pair_bytes(escape: &str) -> usize {
    escape.chars().take(2).map(char::len_utf8).sum()
}

/// Whether there is an escape of a code point, as the parser would read it.
fn has_escape(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at..];
        if escape.starts_with("\\u") || escape.starts_with("\\U") {
            return true;
        }
        rest = &escape[pair_bytes(escape)..];
    }
    false
}

/// Refuses an update that is too long or too deep, or whose names are too long when written out. It
/// has no escapes of code points.
pub(super) fn check(update: &str, base: &Iri, limits: &Limits) -> Result<Shape, UpdateError> {
    let mut has_where = false;
    let (mut depth, mut tokens, mut data_depth, mut is_after_data) = (0_usize, 0_usize, None, false);
    // Outside of DATA `<` can be less-than, and what looks like an IRI an expression.
    let mut hidden = 0_usize;
    let (mut open, mut read_twice, mut is_read_twice) = (Vec::<Bracket>::new(), 0_usize, false);
    let (mut is_after_change, mut is_after_nodes) = (false, false);
    let (mut is_negated, mut angles) = (false, 0_usize);
    let (mut before, mut is_unsure) = ("", false);
    let mut names = Names::new(base);
    let mut rest = Tokens(update);
    // Bytes of the text, as often as the parser reads them.
    let (mut rest_bytes, mut read_bytes) = (update.len(), 0_usize);
    while let Some(token) = rest.next() {
        let is_after_name = names.before_bytes > 0 && !before.starts_with(['?', '$']);
        read_bytes = read_bytes.saturating_add(read_again(rest_bytes - rest.0.len(), read_twice));
        rest_bytes = rest.0.len();
        let around = open.last().copied().unwrap_or_default();
        let place = Place {
            is_data: data_depth.is_some(),
            is_list: around.is_round,
            is_statement: !around.is_round || is_unsure,
            levels: around.levels,
        };
        let terms = names.add(token, rest.0, place, limits)?;
        if token == "~" || token == "{" && rest.0.starts_with('|') {
            let message = "reifiers (`~`) and annotations (`{|`) are not supported".to_owned();
            return Err(UpdateError::Syntax { location: None, message });
        }
        match token {
            "{" | "(" | "[" => {
                if is_after_data && token == "{" {
                    data_depth = Some(depth);
                }
                depth += 1;
                // In a pattern a `(` after a `{` begins a list of nodes, in `VALUES` a row of them.
                let holds_nodes = around.holds_nodes
                    || token == "{" && is_after_change
                    || token == "(" && (before == "{" || is_after_nodes);
                // A condition that calls a function by its IRI is read again as an aggregate.
                let is_call = token == "("
                    && data_depth.is_none()
                    && !holds_nodes
                    && is_after_name
                    && (!around.is_round || is_unsure);
                let again = usize::from(is_read_twice) + usize::from(is_negated) + usize::from(is_call);
                let levels = around.levels + usize::from(token != "{");
                open.push(Bracket { read_twice: again, is_round: token == "(", holds_nodes, levels, angles });
                read_twice += again;
                is_after_nodes = false;
            }
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                let ended = open.pop().unwrap_or_default();
                angles = ended.angles;
                read_twice -= ended.read_twice;
                is_after_nodes = token == ")" && ended.is_round && ended.holds_nodes;
                if data_depth.is_some_and(|start| depth <= start) {
                    data_depth = None;
                }
            }
            _ => is_after_nodes = false,
        }
        // The parser follows triples as terms into each other before it refuses them.
        match token {
            "<" if rest.0.starts_with('<') => angles += 1,
            ">" if rest.0.starts_with('>') => angles = angles.saturating_sub(1),
            _ => {}
        }
        is_after_data = token.eq_ignore_ascii_case("data") && is_change(before);
        // Otherwise it can be the end of a name: `a:b-insert`.
        is_after_change = is_change(token) && (matches!(before, "" | ";" | "}") || is_iri(before) || is_name(before));
        // A prefix can begin with DISTINCT. What is in these brackets is then read with it and without.
        if count(token, "distinct") > 0
            && !token.starts_with(['?', '$', '<', '"', '\''])
            && (token.len() > "distinct".len() || continues_name(rest.0))
            && let Some(around) = open.last_mut().filter(|around| around.is_round)
        {
            around.read_twice += 1;
            read_twice += 1;
        }
        // No space is needed before a function: `FILTERREGEX(`.
        is_read_twice = READ_TWICE.iter().any(|name| ends_with(token, name));
        // The name of a function can come between, with hyphens in it. After `SERVICE SILENT` it is that
        // of a server, and a prefix can begin with SILENT.
        let is_in_name = token == "-" || !token.is_ascii() || token.starts_with(|c| c == '<' || is_word(c));
        is_negated = token == "!" || count(token, "silent") > 0 || is_negated && is_in_name;
        if data_depth.is_none() {
            tokens += terms.max(1);
            has_where |= count(token, "where") > 0;
            if token.starts_with('<') {
                hidden += token.bytes().filter(|byte| matches!(byte, b'(' | b'[')).count();
            }
        }
        if depth + hidden + angles > DEPTH {
            return Err(UpdateError::TooLarge { of: "levels of brackets", limit: DEPTH });
        }
        if read_twice + hidden > READ_TWICE_DEPTH {
            return Err(UpdateError::TooLarge {
                of: "negations, REGEX, REPLACE, SUBSTR or GROUP_CONCAT inside each other",
                limit: READ_TWICE_DEPTH,
            });
        }
        check_read(read_bytes, limits)?;
        if tokens > TOKENS {
            return Err(UpdateError::TooLarge { of: "words outside of DATA", limit: TOKENS });
        }
        // The parser compares only in round brackets. What it then reads as the start of a text or of
        // a comment would hide other things than these tokens do.
        let holds_nodes = !is_unsure && open.last().is_some_and(|bracket| bracket.holds_nodes);
        if data_depth.is_none() && !holds_nodes && is_iri(token) {
            let is_compared = is_unsure || open.last().is_some_and(|bracket| bracket.is_round);
            if is_compared && ends_operand(before) && could_hide(token, ['\'', '#']) {
                return Err(UpdateError::Syntax { location: None, message: AMBIGUOUS.to_owned() });
            }
            // If it is a comparison, these are brackets, and what is open is not known from here on.
            is_unsure |= could_hide(token, ['(', ')', '[', ']']);
        }
        before = token;
    }
    // A comment can come last.
    check_read(read_bytes.saturating_add(read_again(rest_bytes, read_twice)), limits)?;
    Ok(Shape { has_where })
}

/// What the parser reads of so many bytes in brackets, each of which doubles that.
fn read_again(bytes: usize, read_twice: usize) -> usize {
    bytes.saturating_mul(1 << read_twice.min(16))
}

fn check_read(bytes: usize, limits: &Limits) -> Result<(), UpdateError> {
    if bytes > limits.expanded_bytes {
        return Err(UpdateError::TooLarge { of: "bytes that are read several times", limit: limits.expanded_bytes });
    }
    Ok(())
}

/// Whether a token ends with a word, in any case.
fn ends_with(token: &str, word: &str) -> bool {
    let at = token.len().checked_sub(word.len());
    at.is_some_and(|at| token.as_bytes()[at..].eq_ignore_ascii_case(word.as_bytes()))
}

/// A bracket that is open.
#[derive(Clone, Copy, Debug, Default)]
struct Bracket {
    /// For how many reasons the parser reads twice what is in it.
    read_twice: usize,
    is_round: bool,
    /// Whether there are statements or nodes in it at all depths, and no expressions.
    holds_nodes: bool,
    /// Round and square brackets around what is in it, itself included.
    levels: usize,
    /// Triples as terms (`<<`) that are open around it.
    angles: usize,
}

/// Whether statements, or `DATA`, can follow a token.
fn is_change(token: &str) -> bool {
    token.eq_ignore_ascii_case("insert") || token.eq_ignore_ascii_case("delete")
}

/// Whether a token is a word, which can be the name of a graph.
fn is_name(token: &str) -> bool {
    token.starts_with(is_word)
}

/// Whether a `<` after this token can be less-than.
fn ends_operand(token: &str) -> bool {
    // A name can end with a hyphen, or with a character that is no letter.
    token.starts_with(|c: char| {
        is_word(c) || !c.is_ascii() || matches!(c, '"' | '\'' | '<' | '>' | ')' | ']' | '}' | '-')
    })
}

/// Whether what looks like an IRI has such a character where it could be part of a comparison. No
/// expression contains two slashes, but most IRIs begin with them.
fn could_hide<const N: usize>(iri: &str, characters: [char; N]) -> bool {
    iri.find(characters).is_some_and(|at| !iri[..at].contains("//"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(update: &str) -> Result<Shape, UpdateError> {
        super::check(update, &Iri::parse("http://a/".to_owned()).unwrap(), &Limits::default())
    }

    #[test]
    fn data_may_be_long_and_patterns_may_not() {
        let long = "<a> <b> 1 . ".repeat(1_000);
        assert_eq!(
            check(&format!("INSERT DATA {{ {long} }} ; DELETE DATA{{ {long} }}")),
            Ok(Shape { has_where: false })
        );
        let error = check(&format!("INSERT {{ <a> <b> 1 }} WHERE {{ {long} }}")).unwrap_err();
        assert_eq!(error.to_string(), "too large: more than 1000 words outside of DATA");
        assert!(check(&format!("INSERT DATA {{ <a> <b> 1 }} ; DELETE WHERE {{ {long} }}")).is_err());
        assert_eq!(check("INSERT { <a> <b> 1 } Where{}"), Ok(Shape { has_where: true }));
        for open in ["[", "{", "("] {
            assert!(check(&format!("INSERT DATA {{ <a> <b> {} }}", open.repeat(33))).is_err());
        }
    }

    #[test]
    fn brackets_in_an_iri_may_be_those_of_an_expression() {
        let many = "<http://en.example.org/A_(b)> <b> 1 . ".repeat(40);
        assert!(check(&format!("INSERT DATA {{ {many} }}")).is_ok());
        assert!(check(&format!("INSERT {{ {many} }} WHERE {{}}")).is_err());
        assert!(check("DELETE WHERE { <http://en.example.org/A_(b)> <b> ?c }").is_ok());
    }

    /// Whether an update with a long IRI (`LONG`, 1,000 bytes) is refused within 100 kB.
    fn is_refused(update: &str) -> bool {
        let limits = Limits { expanded_bytes: 100_000, ..Limits::default() };
        let update = update.replace("LONG", &format!("http://a/{}/", "x".repeat(1_000)));
        match super::check(&update, &Iri::parse("http://a/".to_owned()).unwrap(), &limits) {
            Ok(_) => false,
            Err(error) if error.is_too_large() => true,
            Err(error) => panic!("{update}: {error}"),
        }
    }

    #[test]
    fn a_long_prefix_is_counted_however_it_is_declared() {
        for (declaration, prefix) in [
            ("PREFIX a:", "a:"),
            ("prefix a-b: # comment <x>\n", "a-b:"),
            ("PREFIX base-b: ", "base-b:"),
            ("PREFIX a\u{b7}\u{300}b: ", "a\u{b7}\u{300}b:"),
            ("PREFIX a.-b: ", "a.-b:"),
            ("PREFIXa:", "a:"),
        ] {
            let update = |objects: usize| {
                let objects: String = (0..objects).map(|n| format!(", {prefix}{n}")).collect();
                format!("{declaration}<LONG> INSERT DATA {{ <s> <p> 1 . {prefix}s {prefix}p 1{objects} }}")
            };
            assert!(is_refused(&update(50)), "{declaration}");
            assert!(!is_refused(&update(5)), "{declaration}");
        }
    }

    #[test]
    fn a_subject_is_counted_for_each_object_even_if_a_full_stop_is_part_of_their_names() {
        for object in ["a:\\.", "a:x.-1", "a.-b:1", "a:x.\u{b7}"] {
            let update = |count: usize| {
                let objects = format!(", {object}").repeat(count);
                format!("PREFIX a: <x> PREFIX a.-b: <x> INSERT DATA {{ <LONG> <p> 1{objects} }}")
            };
            assert!(is_refused(&update(60)), "{object}");
            assert!(!is_refused(&update(10)), "{object}");
        }
    }

    #[test]
    fn names_that_touch_are_counted_one_by_one() {
        let error = check(&format!("DELETE WHERE {{ {} }}", "?x:p?y.".repeat(300))).unwrap_err();
        assert_eq!(error.to_string(), "too large: more than 1000 words outside of DATA");
        let statements = |count: usize| "_:b:p 1.".repeat(count);
        assert!(is_refused(&format!("PREFIX : <LONG> INSERT DATA {{ {} }}", statements(50))));
        assert!(!is_refused(&format!("PREFIX : <LONG> INSERT DATA {{ {} }}", statements(5))));
    }

    #[test]
    fn what_is_written_out_for_each_statement_is_counted_for_each() {
        for (start, one) in [
            // The parser makes a statement of each, whatever its object.
            ("INSERT DATA { <LONG> <p> 1", ",[]"),
            ("INSERT DATA { <LONG> <p> 1", ",()"),
            ("INSERT DATA { <s> <LONG> 1", ",[]"),
            ("INSERT DATA { <LONG> <p> 1", ";<p>[]"),
            ("INSERT DATA { GRAPH <LONG> { <> <> 1", ".<><>1"),
            ("INSERT DATA { GRAPH <LONG> { <> <> 1", ".[]<>1"),
            ("INSERT DATA { GRAPH _:LABEL { <> <> 1", ".<><>1"),
            // A name with hyphens, which is many tokens.
            ("PREFIX a: <x> INSERT DATA { a:HYPHENS <p> 1", ",1"),
            ("INSERT DATA { _:HYPHENS <p> 1", ",1"),
            // A subject that is a text is refused when everything is read.
            ("INSERT DATA { 'LABEL' <p> 1", ",1"),
            ("INSERT DATA { 'LABEL'@en-gb <p> 1", ",1"),
            ("INSERT DATA { 'LABEL'^^<t> <p> 1", ",1"),
            ("INSERT DATA { <s> <p> 1 'LABEL' <p> 1", ",1"),
            // The predicate is a path.
            ("INSERT {} WHERE { ?s <LONG>|<LONG>|<LONG>|<LONG> ?o", ",?o"),
        ] {
            let update = |count: usize| {
                let start = start.replace("LABEL", &"x".repeat(1_000)).replace("HYPHENS", &"x-".repeat(500));
                format!("{start}{}", one.repeat(count))
            };
            assert!(is_refused(&update(80)), "{start}{one}");
            assert!(!is_refused(&update(2)), "{start}{one}");
        }
        // The object of one statement, however long, is no part of the next.
        let objects = format!("INSERT DATA {{ <s> <p> '{}'@en-gb {} }}", "x".repeat(1_000), "; <p> 1".repeat(80));
        assert!(!is_refused(&objects));
    }

    #[test]
    fn each_value_is_counted_however_short_and_close_it_is() {
        for (start, one, most) in [
            ("INSERT DATA { <s> <p> 1", ",1", 190),
            ("INSERT DATA { <s> <p> 1", ";", 570),
            ("INSERT DATA { <s> <p> (1", " 1", 95),
            ("INSERT DATA { <s> <p> (1", "[]", 95),
            ("INSERT DATA { <s> <p> (1", "()", 95),
            ("INSERT DATA { <s> <p> 1", " <s> <p> 1", 190),
        ] {
            assert!(is_refused(&format!("{start}{}", one.repeat(most))), "{start}{one}");
            assert!(!is_refused(&format!("{start}{}", one.repeat(most / 4))), "{start}{one}");
        }
        // What is in brackets is copied at each level.
        let nested = |levels: usize| format!("INSERT DATA {{ <s> <p> {} 1{}", "[<p>".repeat(levels), ",1".repeat(60));
        assert!(is_refused(&nested(20)));
        assert!(!is_refused(&nested(1)));
    }

    #[test]
    fn terms_that_touch_are_found() {
        let terms = |text: &str| {
            let mut names = Names::new(&Iri::parse("http://a/".to_owned()).unwrap());
            let mut tokens = Tokens(text);
            let mut terms = 0;
            while let Some(token) = tokens.next() {
                let place = Place { is_data: !text.starts_with("PREFIX"), ..Place::default() };
                terms += names.add(token, tokens.0, place, &Limits::default()).unwrap();
            }
            terms
        };
        for (text, least) in [
            ("1", 1),
            ("1.5", 1),
            ("1.5E3", 1),
            ("1.5.5", 2),
            ("truefalse", 2),
            ("true1true", 3),
            ("atrue", 2),
            ("1atrue", 3),
            (".5a.5.5a.5", 6),
            ("_:b:p", 2),
            ("1:p", 2),
            ("\"a\"@e1'b'", 3),
            ("UNDEFUNDEF", 2),
            // Its prefix could be undeclared.
            ("a1:p", 3),
        ] {
            assert!(terms(text) >= least, "{text}: {}", terms(text));
        }
        for (text, exactly) in [
            ("a:b", 1),
            ("a-b:c-d", 1),
            ("?x", 1),
            ("a:550e8400-e29b-41d4-a716-446655440000", 1),
            ("_:a1b2c3d4e5f6a7b8c9d0e1f2", 1),
            ("1.", 1),
            ("12.75", 1),
        ] {
            assert_eq!(terms(text), exactly, "{text}");
        }
        // `PREFIX`, the prefix and its IRI are three.
        assert_eq!(terms("PREFIX a1: <http://b/> a1:p a1:2"), 3 + 2);
        // Some of these do not make an IRI, and the parser goes on after the colon.
        assert!(terms("PREFIX a: <http://b:80> a:true1true1") >= 3 + 5);
        for hidden in ["true".repeat(100), "1true".repeat(100), "x".repeat(70_000), "x-".repeat(40_000)] {
            assert!(check(&format!("INSERT DATA {{ <s> <p> ({hidden}) }}")).is_err_and(|error| error.is_too_large()));
        }
    }

    #[test]
    fn what_could_be_an_iri_or_a_comparison_is_refused_if_it_could_hide_something() {
        for filter in
            ["1<'x>' || 'x' = ''", "1<2#>\n", "(1)<'>'", "EXISTS{}<'>'", "((1<2)&&(3>1))&& 1<'>'", "(1<(2>1))&& ?x<'>'"]
        {
            let update = format!("INSERT {{ <s> <p> 1 }} WHERE {{ FILTER({filter}) }}");
            assert_eq!(
                check(&update),
                Err(UpdateError::Syntax { location: None, message: AMBIGUOUS.to_owned() }),
                "{filter}"
            );
        }
        for pattern in [
            "<#a> <#p> ?o . <O'Brien> <#p> <#a>",
            "<#a> <p> ?o FILTER(?o < 'x' && ?o > 'a')",
            "?s <p> ?o FILTER(?o = <#a> || ?o IN (1, <#a>))",
            "VALUES (?a ?b) { (<http://a/#b> <http://a/O'Brien>) (2 <b>) }",
            "?s <p> ?o FILTER(1<2&&3>1)",
        ] {
            assert!(check(&format!("DELETE {{ <#a> <p> <#b> }} WHERE {{ {pattern} }}")).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn where_there_is_no_expression_every_iri_may_have_any_character() {
        for update in [
            "INSERT { <> <http://x/list> (<#a> <#b>) } WHERE {}",
            "WITH <g> DELETE { <> <p> (<#a> <#b>) } INSERT { GRAPH <g> { <> <p> (<#(> [ <p> (1 <#b>) ]) } } WHERE {}",
            "INSERT DATA { <> <p> (<#a> <#b>) } ; insert{ <> <p> (<#a> <#b>) } WHERE {}",
            "DELETE WHERE { (<#a> <#b>) <p> ?o }",
            "INSERT {} WHERE { VALUES (?a ?b) { (<info:fedora/islandora:1#MODS> <info:fedora/islandora:2#MODS>) } }",
            "INSERT {} WHERE { VALUES (?a ?b) { (<#a> <#b>) (<#c> <O'Brien>) (<#c> <#d>) } }",
        ] {
            assert!(check(update).is_ok(), "{update}");
        }
        for update in [
            "INSERT { <> <p> (<#a> <#b>) } WHERE { FILTER(1<'>') }",
            "DELETE WHERE { (<#a> <#b>) <p> ?o FILTER(1<'>') }",
            "INSERT {} WHERE { VALUES (?a) { (<#a>) } FILTER(1<'>') }",
            "INSERT {} WHERE { GRAPH a:b-insert { ?s ?p ?o FILTER(1<'>') } }",
            "INSERT {} WHERE { GRAPH a:b-data { ?s ?p ?o FILTER(1<'>') } }",
            "INSERT {} WHERE { GRAPH a:b\u{b7}insert { ?s ?p ?o FILTER(1<'>') } }",
        ] {
            assert!(check(update).is_err_and(|error| error.to_string().contains("use a PREFIX")), "{update}");
        }
    }

    #[test]
    fn escapes_of_code_points_are_replaced_once() {
        assert_eq!(unescaped("a").unwrap(), "a");
        assert_eq!(unescaped("'\\n\\u00E9\\U0001F600\\\\'").unwrap(), "'\\n\u{e9}\u{1F600}\\\\'");
        // JSON in a literal.
        assert_eq!(unescaped("'Caf\\\\u00e9 \\\\u006e'").unwrap(), "'Caf\\\\u00e9 \\\\u006e'");
        for wrong in ["\\u", "\\u00", "\\uD800", "\\u\\\u{e9}xxu1234", "\\u005Cu0028", "\\U00110000", "\\u+028"] {
            assert!(matches!(unescaped(wrong), Err(UpdateError::Syntax { .. })), "{wrong}");
        }
    }
}
