//! The text that the parser gets: the terminals of an update in their only spellings, without
//! comments and declarations. So the parser sees what was counted, and nothing else.
//!
//! This holds because each terminal can be read in one way only, wherever the parser stands:
//!
//! - An IRI is whole, has no escape and ends at its `>`. A string ends at its second double quote,
//!   for others are escaped, and no string begins with three.
//! - A word stands in capital letters, and `a`, `true` and `false` are the only ones in small ones.
//!   Some words begin with others (`INSERT` with `IN`), but the parser goes on only with a bracket or
//!   a word of its own after those, which no rest of a word is.
//! - A less-than has a space after it. It stands only after a value in an expression
//!   (`bounds.rs`), where the parser looks for no IRI and so does not search the text for its end.
//! - There are no names with prefixes, and no `#` outside of IRIs and strings.
//!
//! A sign or a point that the parser takes off a number (`1 -2`, `?x .5`) changes no bracket. It would
//! change the meaning in one place: after a path, where a `+` is an operator for the parser, but part
//! of a number for the specification (`<p> +1`). There a number is written as a literal with its type.
//!
//! Spaces stand between terminals, except between a word and its bracket (`CONCAT(`), where the parser
//! has no space in some of its rules.

use std::fmt::Write as _;

use oxrdf::NamedNodeRef;
use oxrdf::vocab::xsd;
use spargebra::{GraphUpdateOperation, SparqlParser, SparqlSyntaxError};

use super::bounds::{Bounds, ends_path};
use super::source::Source;
use super::terminals::{Kind, Terminals};
use super::{Room, UpdateError};
use crate::Iri;
use crate::parse::Limits;

/// An update that is within its bounds, and was not parsed yet.
#[derive(Debug)]
pub(super) struct Canonical<'a> {
    source: Source<'a>,
    text: String,
    /// Where each terminal begins in this text, with the space before it, and in that of the source.
    places: Vec<(usize, usize)>,
    /// Whether there is a pattern to evaluate.
    pub(super) has_where: bool,
}

impl<'a> Canonical<'a> {
    /// Reads a text, with names relative to `base`. Takes room for it, and for what is parsed of it.
    ///
    /// # Errors
    /// If it is not made of terminals, uses what is not supported, is beyond a bound, or finds no room.
    pub(super) fn of(update: &'a str, base: &Iri, limits: &Limits, room: &Room) -> Result<Self, UpdateError> {
        let source = Source::new(update);
        let (mut text, mut places) = (String::new(), Vec::new());
        let has_where = {
            let mut bounds = Bounds::new(limits);
            let mut terminals = Terminals::new(&source, base, limits);
            let mut before = None;
            loop {
                let place = bounds.place();
                let Some(terminal) = terminals.next(place)? else { break };
                if !bounds.can_operate(terminal.kind) {
                    return Err(source.error(terminal.at, "here a sign is part of a number, and no space is between"));
                }
                bounds.add(&terminal)?;
                places.push((text.len(), terminal.at));
                if before.is_some_and(|before| has_space(before, terminal.kind)) {
                    text.push(' ');
                }
                let is_positive = terminal.kind == Kind::Number && terminal.text.starts_with('+');
                if is_positive && !place.compares && before.is_some_and(ends_path) {
                    // Writing to a string does not fail.
                    let _ = write!(text, "\"{}\"^^{}", terminal.text, number_type(&terminal.text));
                } else {
                    text.push_str(&terminal.text);
                }
                let read_bytes = bytes_of(&source, text.capacity(), places.capacity());
                room.hold(read_bytes.saturating_add(bounds.all_bytes()))?;
                before = Some(terminal.kind);
            }
            bounds.has_where()
        };
        Ok(Self { source, text, places, has_where })
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        bytes_of(&self.source, self.text.capacity(), self.places.capacity())
    }

    /// Parses it. It is dropped then: what is parsed takes as much memory again, and the graph too.
    ///
    /// # Errors
    /// [`UpdateError::Syntax`] with the place in the original text.
    pub(super) fn parsed(self) -> Result<Vec<GraphUpdateOperation>, UpdateError> {
        let parsed = SparqlParser::new().parse_update(&self.text);
        parsed.map(|update| update.operations).map_err(|error| self.error(&error))
    }

    fn error(&self, error: &SparqlSyntaxError) -> UpdateError {
        let text = error.to_string();
        // "error at 1:8: expected ..."; there is one line.
        let located = text.strip_prefix("error at 1:").and_then(|rest| {
            let (column, message) = rest.split_once(": ")?;
            Some((column.parse::<usize>().ok()?, message))
        });
        match located {
            Some((column, message)) => self.source.error(self.place(column), message),
            None => UpdateError::Syntax { location: None, message: text },
        }
    }

    /// The place in the source of the terminal at a column, which counts code points from 1.
    fn place(&self, column: usize) -> usize {
        let Some((at, _)) = self.text.char_indices().nth(column.saturating_sub(1)) else {
            return self.source.text().len();
        };
        let terminals = self.places.partition_point(|(start, _)| *start <= at);
        terminals.checked_sub(1).map_or(0, |last| self.places[last].1)
    }
}

/// Bytes of memory of a text with so many bytes and places.
fn bytes_of(source: &Source<'_>, text_bytes: usize, places: usize) -> usize {
    source.bytes() + text_bytes + places * size_of::<(usize, usize)>()
}

/// Whether a space is between two kinds of terminals.
fn has_space(before: Kind, kind: Kind) -> bool {
    !(matches!(before, Kind::Word(_)) && kind == Kind::Sign("("))
}

/// The type of a number (SPARQL 1.1 Query, section 4.1.2).
fn number_type(number: &str) -> NamedNodeRef<'static> {
    if number.contains(['e', 'E']) {
        xsd::DOUBLE
    } else if number.contains('.') {
        xsd::DECIMAL
    } else {
        xsd::INTEGER
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn base() -> Iri {
        Iri::parse("http://a/b".to_owned()).unwrap()
    }

    fn canonical(update: &str) -> Result<String, UpdateError> {
        Ok(Canonical::of(update, &base(), &Limits::default(), &Room::default())?.text)
    }

    /// The algebra of operations, with the random names of the parser numbered.
    fn algebra(operations: &[GraphUpdateOperation]) -> String {
        let text = operations.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ;\n");
        let random = ::regex::Regex::new(r"(_:|\?)[0-9a-f]{16,32}\b").unwrap();
        let mut names: Vec<String> = Vec::new();
        let numbered = random.replace_all(&text, |found: &::regex::Captures<'_>| {
            let name = &found[0];
            let number = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            format!("{}random{number}", &found[1])
        });
        numbered.into_owned()
    }

    /// The algebra of a text as the parser reads it alone.
    fn alone(update: &str) -> Option<String> {
        let parser = SparqlParser::new().with_base_iri(base().as_str()).unwrap();
        Some(algebra(&parser.parse_update(update).ok()?.operations))
    }

    fn read(update: &str) -> Result<String, UpdateError> {
        Ok(algebra(&Canonical::of(update, &base(), &Limits::default(), &Room::default())?.parsed()?))
    }

    #[test]
    fn the_parser_gets_terminals_only() {
        assert_eq!(
            canonical("prefix p:<http://p/>#{\ninsert{?s p:q\"\"\"a\n\"\"\"@en,$x,1.}where{?s p:q+/<r>*|a ?x filter(?x<2&&concat (?x,'<')>'')}")
                .unwrap(),
            "INSERT { ?s <http://p/q> \"a\\n\" @en , $x , 1 . } WHERE { ?s <http://p/q> + / <http://a/r> * | a ?x \
             FILTER( ?x < 2 && CONCAT( ?x , \"<\" ) > \"\" ) }"
        );
        assert_eq!(canonical(" # nothing").unwrap(), "");
    }

    #[test]
    fn what_the_parser_reads_in_two_ways_means_the_same() {
        let prefixes = "PREFIX a: <http://p/> PREFIX : <#> PREFIX a-b: <x:>";
        for operation in [
            "INSERT DATA{<>a:p 1.5,.5,1.e5,-1,+1,true,false;a<T>;;a:q'x'@en-GB,''^^a:t,[],(),(1[a:r 2])}",
            "INSERT DATA { <s> <p> 1.5 , 1 <s> <q> 2 . }",
            "INSERT DATA { _:b0 <p> _:b0 . [ <p> 1 ] . (1 2) <p> [] ; }",
            "DELETE DATA { <> <p> \"\\u00e9\\\"'\\\\u0041\" }",
            "DELETE { ?s ?p ?o . } INSERT { ?s ?p [ a:x ?o ] } WHERE { ?s ?p ?o }",
            "DELETE{}INSERT{}WHERE{}",
            "DELETE WHERE { ?s:p?o.?o:q?s }",
            "INSERT{}WHERE{?s<p>+ 1}",
            "INSERT{}WHERE{?s <p>-1;?p+1}",
            "INSERT{}WHERE{FILTER((1)+1=+1&&<f>(?x)+1.5>1)}",
            "INSERT{}WHERE{?s <p>*/<q>?/^a/(<r>|!<s>|!(a|^a:p))+ ?o}",
            "INSERT{}WHERE{?s<p>?x.?x<p>? ?y}",
            "INSERT{}WHERE{FILTER(1<2&&3>1)}",
            "INSERT{}WHERE{?s ?p ?o FILTER(?o<'>'||?o>'<')}",
            "INSERT{}WHERE{?s ?p ?o FILTER(?o <<a>)}",
            "INSERT{}WHERE{?s ?p ?o FILTER(?o<=<a>&&?o>=1)}",
            "INSERT{}WHERE{FILTER(a-b:c-<'>')}",
            "INSERT{}WHERE{FILTER(EXISTS{}<1)}",
            "INSERT{}WHERE{FILTER(1-1=0&&1+1=2&&1 - -1=2&&-1<+1&&2*3/4<1e9)}",
            "INSERT{}WHERE{FILTER <f>(?x<1,<a>) ?s <p> (1 <a> <b>)}",
            "INSERT{}WHERE{FILTER(!true||!BOUND(?x)&&?x NOT IN(1,<a>))}",
            "INSERT{}WHERE{FILTER NOT EXISTS{?s ?p (<#a> <O'Brien> <A_(b)>)}}",
            "INSERT{}WHERE{VALUES(?x ?y){(<#a> <O'Brien>)(UNDEF 1)}}",
            "INSERT{}WHERE{VALUES ?x{<a>'x'@en 1 true UNDEF}}",
            "INSERT{}WHERE{{SELECT DISTINCT ?x(1<2 AS ?y)(COUNT(*) AS ?n)(GROUP_CONCAT(DISTINCT ?x;SEPARATOR='<')AS ?z) \
             WHERE{?x<p>?y1}GROUP BY ?x <f>(?x) HAVING(?n<2)(?n>1)<f>(1<2) ORDER BY DESC(?x<1)?x LIMIT 1 OFFSET 2 VALUES ?q{1}}}",
            "INSERT{}WHERE{{SELECT*{?s?p?o}}UNION{}MINUS{}OPTIONAL{}BIND(CONCAT('a',STRUUID())AS?x)BIND(BNODE()AS ?y)}",
            "INSERT{}WHERE{BIND(IF(REGEX(?o,'a'),REPLACE(?o,'a','b'),SUBSTR(?o,1,2))AS ?x)}",
            "INSERT DATA{<> <p> 1};DELETE DATA{<> <p> 1};",
        ] {
            let update = format!("{prefixes} {operation}");
            let alone = alone(&update);
            assert!(alone.is_some(), "{operation}");
            assert_eq!(read(&update).ok(), alone, "{operation}");
        }
        assert_eq!(alone(""), read("").ok());
    }

    #[test]
    fn more_than_the_parser_reads_is_read_as_specified() {
        for (update, as_this) in [
            (
                "INSERT DATA { <> <p> 1 } ; PREFIX p: <q:> DELETE DATA { p:s p:p 1 } ;",
                "INSERT DATA { <> <p> 1 } ; DELETE DATA { <q:s> <q:p> 1 }",
            ),
            (
                "BASE <http://x/> INSERT DATA { <s> <p> 1 } ; BASE <y/> INSERT DATA { <s> <p> 1 }",
                "INSERT DATA { <http://x/s> <http://x/p> 1 } ; INSERT DATA { <http://x/y/s> <http://x/y/p> 1 }",
            ),
            ("INSERT DATA { <> <p> TRUE , (# nothing\n) }", "INSERT DATA { <> <p> true , () }"),
            (
                "INSERT {} WHERE { BIND(CONCAT ('a') AS ?x) BIND(BNODE ( ) AS ?y) }",
                "INSERT {} WHERE { BIND(CONCAT('a') AS ?x) BIND(BNODE() AS ?y) }",
            ),
            // The sign belongs to the number.
            (
                "INSERT {} WHERE { ?s <p>+1 ; a +.5 ; (<p>)+1e0 }",
                "PREFIX x: <http://www.w3.org/2001/XMLSchema#> \
                 INSERT {} WHERE { ?s <p> '+1'^^x:integer ; a '+.5'^^x:decimal ; (<p>) '+1e0'^^x:double }",
            ),
            // Nothing is hidden in a comment.
            ("# C:\\users\nINSERT DATA { <> <p> 1 }", "INSERT DATA { <> <p> 1 }"),
        ] {
            assert_eq!(read(update).ok(), alone(as_this), "{update}");
        }
    }

    #[test]
    fn errors_are_where_they_are_in_the_original() {
        for (update, line, column) in [
            ("INSERT DATA {\n <> <p> }", 2, 9),
            ("INSERT DATA { <a> <b> 'x\\q' }", 1, 25),
            ("INSERT DATA { <a> <b> 'x", 1, 23),
            ("# \u{e9}\nINSERT DATA { a:b <b> 1 }", 2, 15),
            ("INSERT DATA { <a> <b> 1 ; }\n; FOO", 2, 3),
            ("PREFIX \u{e9}: <http://a/> DELETE WHERE { \u{e9}:a ?p ?o . '''\nlong''' }", 2, 9),
            ("INSERT DATA { <a> <b> \\u0031 ; <c> }", 1, 36),
            ("INSERT DATA { <a> <b> \"\u{e9}\u{e9}\" # )\n ; <c>\n   ) }", 3, 4),
            ("INSERT DATA { <a> <b> 1", 1, 24),
            ("INSERT DATA { <a> <b> << <c> <d> 1 >> }", 1, 23),
            ("INSERT DATA { <a> <b> 1 ~ }", 1, 25),
            ("INSERT DATA { <a> <b> - 1 }", 1, 23),
            ("INSERT { <a> <b> + 1 } WHERE {}", 1, 18),
            ("INSERT {} WHERE { ?s ?p + 1 }", 1, 25),
            ("INSERT {} WHERE { FILTER(?abcdefghijklmnop < 2 < 3) }", 1, 48),
        ] {
            match read(update) {
                Err(UpdateError::Syntax { location: Some(location), .. }) => {
                    assert_eq!((location.line, location.column), (line, column), "{update}");
                }
                other => panic!("{update}: {other:?}"),
            }
        }
    }

    /// Between any two terminals.
    const GAP: &str = "\u{1}";

    /// The text with these gaps, one after the other.
    fn with_gaps(text: &str, gaps: &[&str]) -> String {
        let mut gaps = gaps.iter().cycle();
        let mut pieces = text.split(GAP);
        let first = pieces.next().unwrap_or_default().to_owned();
        pieces.fold(first, |all, piece| all + gaps.next().copied().unwrap_or(" ") + piece)
    }

    fn gaps(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
        proptest::collection::vec(proptest::sample::select(of), 1..8)
    }

    fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
        proptest::sample::select(texts).prop_map(str::to_owned)
    }

    fn node() -> impl Strategy<Value = String> + Clone {
        let terms = [
            "<c>",
            "a:b",
            ":c-d",
            "'x'",
            "\"\"\"y\n\"z\"\"\"@en-GB",
            "1",
            "-2.5e3",
            "true",
            "_:b0",
            "'1'^^a:t",
            "[]",
            "()",
            "?v",
        ];
        let leaf = proptest::sample::select(terms.to_vec()).prop_map(str::to_owned);
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 1..3)
                    .prop_map(|items| format!("({GAP}{}{GAP})", items.join(GAP))),
                (verb(), inner).prop_map(|(verb, object)| format!("[{GAP}{verb}{GAP}{object}{GAP}]")),
            ]
        })
    }

    fn verb() -> impl Strategy<Value = String> + Clone {
        one_of(&["a:p", "<p>", "a", "?v"])
    }

    fn statements(verb: impl Strategy<Value = String> + Clone) -> impl Strategy<Value = String> {
        let objects = proptest::collection::vec(node(), 1..3).prop_map(|all| all.join("\u{1},\u{1}"));
        let properties = proptest::collection::vec((verb, objects), 1..3).prop_map(|all| {
            let all: Vec<_> = all.into_iter().map(|(verb, objects)| format!("{verb}{GAP}{objects}")).collect();
            all.join("\u{1};\u{1}")
        });
        let statement = (node(), properties).prop_map(|(subject, properties)| format!("{subject}{GAP}{properties}"));
        proptest::collection::vec(statement, 0..3).prop_map(|all| all.join("\u{1}.\u{1}"))
    }

    fn expression() -> impl Strategy<Value = String> {
        one_of(&["?v", "1", "'x'", "<c>", "a:b", "true", "-1", "'<'"]).prop_recursive(4, 24, 3, |inner| {
            let operator = one_of(&["<", "<=", ">", "=", "!=", "&&", "||", "*", "/", "+", "-"]);
            let two = (inner.clone(), operator, inner.clone());
            let call = one_of(&["STR(", "!(", "<f>(", "COALESCE(", "-(", "BOUND(?v)||("]);
            prop_oneof![
                two.prop_map(|(left, operator, right)| format!("({GAP}{left}{GAP}{operator}{GAP}{right}{GAP})")),
                (call, inner.clone()).prop_map(|(call, value)| format!("({call}{GAP}{value}{GAP}))")),
                (inner.clone(), inner.clone())
                    .prop_map(|(value, other)| { format!("({value}{GAP}IN{GAP}({GAP}{other}{GAP},{GAP}1{GAP}))") }),
                inner.clone().prop_map(|value| format!("(EXISTS{GAP}{{ ?v <p> ?w FILTER({value}) }})")),
                (inner.clone(), inner).prop_map(|(text, pattern)| format!("REGEX({text}{GAP},{GAP}{pattern}{GAP})")),
            ]
        })
    }

    fn pattern() -> impl Strategy<Value = String> {
        let paths = one_of(&["a:p", "<p>*", "^a:p/<q>+", "!(a:p|^<q>)", "(<p>|<q>)?", "a", "?v"]);
        let part = prop_oneof![
            statements(paths),
            expression().prop_map(|expression| format!("FILTER{GAP}({GAP}{expression}{GAP})")),
            expression().prop_map(|expression| format!("OPTIONAL{GAP}{{{GAP}FILTER({expression}){GAP}}}")),
            expression().prop_map(|expression| format!("{{ SELECT ({expression}{GAP}AS{GAP}?w) WHERE {{}} }}")),
            expression().prop_map(|expression| {
                format!(
                    "{{ SELECT (COUNT(DISTINCT ?v) AS ?n) {{}} GROUP BY ?u HAVING{GAP}({expression}) ORDER BY ?u }}"
                )
            }),
            Just(format!("VALUES ?v {{{GAP}1{GAP}UNDEF{GAP}<c>{GAP}}}")),
        ];
        proptest::collection::vec(part, 0..4).prop_map(|parts| parts.join(GAP))
    }

    fn operation() -> impl Strategy<Value = String> {
        prop_oneof![
            statements(verb()).prop_map(|data| format!("INSERT{GAP}DATA{GAP}{{{GAP}{data}{GAP}}}")),
            statements(verb()).prop_map(|data| format!("DELETE{GAP}DATA{GAP}{{{GAP}{data}{GAP}}}")),
            statements(verb()).prop_map(|data| format!("DELETE{GAP}WHERE{GAP}{{{GAP}{data}{GAP}}}")),
            (statements(verb()), pattern()).prop_map(|(template, pattern)| format!(
                "INSERT {{{GAP}{template}{GAP}}} WHERE {{{GAP}{pattern}{GAP}}}"
            )),
        ]
    }

    const PIECES: &[&str] = &[
        "<c>", "a:b", ":", "?v", "$v", "_:b", "'x'", "\"\"", "'''", "@en", "^^", "1", "1.5", ".5", "-1", "true", "a",
        " .", ",", ";", "{", "}", "(", ")", "[", "]", "*", "/", "|", "^", "?", "!", "=", "<", ">", "<=", "&&",
        "FILTER", "EXISTS", "STR", "IF", "IN", "NOT", "SELECT", "AS", "WHERE", "VALUES", "UNDEF", "BIND", "OPTIONAL",
        "UNION", "COUNT", "DISTINCT", "GROUP BY", "#", "\\u0028", "<<", "~",
    ];

    const AROUND: &[(&str, &str)] =
        &[("INSERT DATA {", "}"), ("INSERT {} WHERE {", "}"), ("INSERT {} WHERE { FILTER(", ") }"), ("", "")];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn what_the_parser_accepts_means_the_same(
            operation in operation(),
            gaps in gaps(&[" ", "\n", "\t ", " # ( < '\n"]),
        ) {
            let update = format!("PREFIX a: <http://p/> PREFIX : <#> {}", with_gaps(&operation, &gaps));
            if let Some(alone) = alone(&update) {
                prop_assert_eq!(read(&update).ok(), Some(alone));
            }
        }

        #[test]
        fn what_both_accept_means_the_same(
            pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..12),
            gaps in gaps(&[" ", "", "\n"]),
            around in proptest::sample::select(AROUND),
        ) {
            let (start, end) = around;
            let update = format!("PREFIX a: <http://p/> PREFIX : <#> {start} {} {end}", with_gaps(&pieces.join(GAP), &gaps));
            if let (Some(alone), Ok(read)) = (alone(&update), read(&update)) {
                prop_assert_eq!(read, alone);
            }
        }
    }
}
