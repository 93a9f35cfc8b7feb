//! What an update may cost before it is evaluated: depth, length, what is read several times, and the
//! bytes of its statements. Parser and evaluator are recursive and must not run out of stack, and the
//! parser cannot be cancelled.
//!
//! # What the parser reads how often
//!
//! It tries the alternatives of a rule one after the other, each from the start. (The rules are those
//! of spargebra 0.4.) Nearly all alternatives differ in their first terminal, or in their first two:
//! only one of them reads further. The exceptions:
//!
//! - A call of `REGEX`, `SUBSTR`, `REPLACE` or `GROUP_CONCAT` is tried with its last argument and
//!   without it.
//! - What follows a `!` is read as the operand of a second `!` first, and again. In a row of them all
//!   but the last are refused at once, so that a row counts once.
//! - A condition (`FILTER`, `HAVING`, `GROUP BY`, `ORDER BY`) that calls a function by its IRI is read
//!   as an aggregate too. In an expression it is not, for the IRI alone is an expression.
//! - In data and templates, a statement with an error that follows a full stop is read once more, as
//!   the first one of another block (`Quads`).
//!
//! The last is at one level only, for no statement contains a block: each terminal there is read
//! twice at most, however deep it is. (A list, a blank node or an object that has an error is tried
//! once, and so are those around it.) The others can be inside each other, and each doubles what is
//! in its brackets: a terminal inside of `n` of them is read `2^n` times at most. Both `n` and the sum
//! for all bytes are limited. Each time a string is read up to three times, for a type, for a language
//! and alone. After an error the parser reads everything once more, for its message.
//!
//! # What may be long
//!
//! The parser makes a list of data and of templates, in loops. Only brackets add to its stack. The
//! evaluator fills a template for one solution at a time. A template is copied with it, which is
//! counted, and the values of its variables are, which `cost/` bounds. So data and the other terms of
//! templates are limited by their bytes alone.
//!
//! Each term or operator of a pattern can add a level to the tree that the evaluator follows. Some of
//! what parser and evaluator do costs the square of their number. So they are few in all patterns
//! together, those of `DELETE WHERE` included.

use super::terminals::{Kind, Place, Terminal};
use super::{UpdateError, too_much};
use crate::parse::Limits;

/// Deepest nesting of brackets.
const DEPTH: usize = 32;

/// Most terminals of patterns and variables of templates.
const PATTERN_TERMINALS: usize = 1_000;

/// Bytes of the name of a variable. The evaluator copies it very often.
const VARIABLE_BYTES: usize = 1 << 10;

/// What the parser reads twice, and how deep it may be nested. At this depth the innermost is read a
/// few hundred times.
const READ_TWICE: [&str; 4] = ["REGEX", "REPLACE", "SUBSTR", "GROUP_CONCAT"];
const READ_TWICE_DEPTH: usize = 8;

/// Most bytes that the parser reads again, each as often as it does.
const READ_AGAIN_BYTES: usize = 16 << 20;

/// Memory of the parser and of the graph per term besides its text, roughly: a third of what a
/// statement needs.
const TERM_BYTES: usize = 176;

/// Memory of a terminal besides its text: its places.
const TERMINAL_BYTES: usize = 16;

/// Terms of an item of a collection: its node has two statements.
const ITEM_TERMS: usize = 6;

/// Bytes of the IRI that is written `a`.
const TYPE_BYTES: usize = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type".len();

/// Levels of round and square brackets that cost as much again as what is in them. The parser
/// copies it at each level.
const COPIED_LEVELS: usize = 4;

/// Copies of what is outside of `DATA` that the evaluator makes.
const COPIES: usize = 4;

/// Measures terminals one by one.
pub(super) struct Bounds<'a> {
    limits: &'a Limits,
    open: Vec<Bracket>,
    before: Option<Kind>,
    /// Whether the last terminals are `FILTER`, or that and an IRI.
    is_filter: bool,
    /// Whether what comes is what a `!` negates.
    is_negated: bool,
    /// Terminals that count for [`PATTERN_TERMINALS`].
    pattern_terminals: usize,
    /// Reasons for which the parser reads twice what comes.
    read_twice: usize,
    /// Bytes of the text that the parser reads again, as often as it does.
    read_again_bytes: usize,
    /// Bytes of all names of a pattern's statement. Its predicate can be a path with all of them.
    path_bytes: usize,
    /// Bytes of all statements when written out, at most.
    all_bytes: usize,
    has_where: bool,
}

/// What a bracket is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Region {
    /// No braces are around it. No operation has such a bracket.
    #[default]
    Outside,
    /// `DATA { ... }`
    Data,
    /// `INSERT { ... }` or `DELETE { ... }` before a `WHERE`.
    Template,
    /// Any other.
    Pattern,
}

/// A bracket that is open.
#[derive(Clone, Copy, Debug, Default)]
struct Bracket {
    region: Region,
    is_round: bool,
    /// Whether an expression is in it, and not a list of nodes, a path or a row of values.
    is_expression: bool,
    /// Whether expressions come directly in it: those of `SELECT`, `GROUP BY`, `HAVING` or `ORDER BY`.
    lists_expressions: bool,
    /// For how many reasons the parser reads twice what is in it.
    read_twice: usize,
    /// Round and square brackets around what is in it, itself included.
    levels: usize,
    statement: Statement,
}

impl<'a> Bounds<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            open: Vec::new(),
            before: None,
            is_filter: false,
            is_negated: false,
            pattern_terminals: 0,
            read_twice: 0,
            read_again_bytes: 0,
            path_bytes: 0,
            all_bytes: 0,
            has_where: false,
        }
    }

    /// Whether there is a pattern to evaluate.
    pub(super) fn has_where(&self) -> bool {
        self.has_where
    }

    /// Bytes of memory of the parser and of what it makes of all terminals so far, at most.
    pub(super) fn all_bytes(&self) -> usize {
        self.all_bytes
    }

    /// What the next terminal depends on.
    pub(super) fn place(&self) -> Place {
        let is_value = match self.before {
            Some(Kind::Word(word)) => matches!(word, "true" | "false"),
            Some(Kind::Sign(sign)) => matches!(sign, ")" | "]" | "}"),
            other => other.is_some(),
        };
        Place {
            may_declare: self.open.is_empty() && matches!(self.before, None | Some(Kind::Sign(";"))),
            compares: is_value && self.around().is_expression,
        }
    }

    /// Whether a `+` or a `-` can be an operator here. Elsewhere it is part of a number, which the parser
    /// would accept with a space in it.
    pub(super) fn can_operate(&self, kind: Kind) -> bool {
        let around = self.around();
        match kind {
            Kind::Sign("-") => around.is_expression,
            Kind::Sign("+") => {
                around.is_expression || around.region == Region::Pattern && self.before.is_some_and(ends_path)
            }
            _ => true,
        }
    }

    /// Measures the next terminal.
    ///
    /// # Errors
    /// If it is of another graph or server, or beyond a bound.
    pub(super) fn add(&mut self, terminal: &Terminal<'_>) -> Result<(), UpdateError> {
        let kind = terminal.kind;
        refuse_others(kind)?;
        if kind == Kind::Variable && terminal.text.len() > VARIABLE_BYTES {
            return Err(UpdateError::TooLarge { of: "bytes of the name of a variable", limit: VARIABLE_BYTES });
        }
        self.read(terminal.text.len() + 1)?;
        self.count(kind)?;
        self.charge(kind, terminal.text.len())?;
        match kind {
            Kind::Sign(bracket @ ("{" | "(" | "[")) => self.open(bracket)?,
            Kind::Sign("}" | ")" | "]") => {
                self.read_twice -= self.open.pop().unwrap_or_default().read_twice;
            }
            Kind::Word("SELECT" | "BY" | "HAVING") => self.list_expressions(true),
            Kind::Word("WHERE") => {
                self.has_where = true;
                self.list_expressions(false);
            }
            Kind::Word("VALUES") => self.list_expressions(false),
            _ => {}
        }
        self.is_filter = kind == Kind::Word("FILTER") || self.is_filter && kind == Kind::Iri;
        self.is_negated = kind == Kind::Sign("!")
            || self.is_negated && matches!(kind, Kind::Iri | Kind::Word(_) | Kind::Sign("+" | "-"));
        self.before = Some(kind);
        Ok(())
    }

    /// The innermost open bracket.
    fn around(&self) -> Bracket {
        self.open.last().copied().unwrap_or_default()
    }

    fn list_expressions(&mut self, lists: bool) {
        if let Some(around) = self.open.last_mut() {
            around.lists_expressions = lists;
        }
    }

    /// Counts how often the parser reads so many bytes again.
    fn read(&mut self, bytes: usize) -> Result<(), UpdateError> {
        let again = (1 << self.read_twice) - 1;
        self.read_again_bytes = self.read_again_bytes.saturating_add(bytes.saturating_mul(again));
        if self.read_again_bytes > READ_AGAIN_BYTES {
            return Err(UpdateError::TooLarge { of: "bytes that are read again", limit: READ_AGAIN_BYTES });
        }
        Ok(())
    }

    fn count(&mut self, kind: Kind) -> Result<(), UpdateError> {
        self.pattern_terminals += match self.around().region {
            Region::Pattern => 1,
            Region::Template => usize::from(kind == Kind::Variable),
            Region::Data | Region::Outside => 0,
        };
        if self.pattern_terminals > PATTERN_TERMINALS {
            let of = "words of patterns and variables of templates";
            return Err(UpdateError::TooLarge { of, limit: PATTERN_TERMINALS });
        }
        Ok(())
    }

    fn open(&mut self, bracket: &str) -> Result<(), UpdateError> {
        let around = self.around();
        let region = match (bracket, self.before) {
            ("{", Some(Kind::Word("DATA"))) => Region::Data,
            ("{", Some(Kind::Word("INSERT" | "DELETE"))) => Region::Template,
            ("{", _) => Region::Pattern,
            _ => around.region,
        };
        let is_round = bracket == "(";
        // Functions, `FILTER`, `BIND`, `IN` and others; not a verb, a value or a row of variables.
        let is_after_word = matches!(self.before, Some(Kind::Word(word))
            if !matches!(word, "a" | "true" | "false" | "UNDEF" | "VALUES"));
        let is_expression = is_round
            && region == Region::Pattern
            && (around.is_expression || around.lists_expressions || self.is_filter || is_after_word);
        let is_condition = is_expression && !around.is_expression && self.before == Some(Kind::Iri);
        let is_tried = matches!(self.before, Some(Kind::Word(word)) if READ_TWICE.contains(&word));
        let read_twice = usize::from(is_condition) + usize::from(is_tried) + usize::from(self.is_negated);
        self.read_twice += read_twice;
        let levels = around.levels + usize::from(bracket != "{");
        self.open.push(Bracket {
            region,
            is_round,
            is_expression,
            lists_expressions: false,
            read_twice,
            levels,
            statement: Statement::default(),
        });
        if self.open.len() > DEPTH {
            return Err(UpdateError::TooLarge { of: "levels of brackets", limit: DEPTH });
        }
        if self.read_twice > READ_TWICE_DEPTH {
            return Err(UpdateError::TooLarge {
                of: "negations, REGEX, REPLACE, SUBSTR or GROUP_CONCAT inside each other",
                limit: READ_TWICE_DEPTH,
            });
        }
        Ok(())
    }

    /// Counts what a terminal adds to the statements.
    fn charge(&mut self, kind: Kind, text_bytes: usize) -> Result<(), UpdateError> {
        let around = self.around();
        let is_type = self.before == Some(Kind::Sign("^^"));
        let bytes = match kind {
            Kind::Word("a") => TYPE_BYTES,
            Kind::Word(_) | Kind::Sign(_) => 0,
            _ => text_bytes,
        };
        let is_term = match kind {
            Kind::Sign(sign) => matches!(sign, "[" | "("),
            Kind::Language => false,
            _ => true,
        };
        let terms = match (is_term, around.is_round) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => ITEM_TERMS,
        };
        // The subject is repeated after a `;`, and the predicate too after a `,`.
        let longest_bytes = around.statement.longest_bytes;
        let (repeated, repeated_bytes) = match (kind, around.region) {
            _ if around.is_round => (0, 0),
            (Kind::Sign(","), Region::Pattern) => (2, self.path_bytes),
            (Kind::Sign(";"), Region::Pattern) => (1, self.path_bytes),
            (Kind::Sign(","), _) => (2, longest_bytes.saturating_mul(2)),
            (Kind::Sign(";"), _) => (1, longest_bytes),
            _ => (0, 0),
        };
        if let Some(around) = self.open.last_mut() {
            around.statement.add(kind, is_type, bytes);
        }
        if matches!(kind, Kind::Sign("." | "{")) {
            self.path_bytes = 0;
        } else if is_term && around.region == Region::Pattern {
            self.path_bytes = self.path_bytes.saturating_add(bytes).saturating_add(terms * TERM_BYTES);
        }
        let all = bytes.saturating_add(repeated_bytes).saturating_add((terms + repeated) * TERM_BYTES);
        let copies = if matches!(around.region, Region::Data | Region::Outside) { 1 } else { COPIES };
        let levels = COPIED_LEVELS + around.levels;
        let all = all.max(TERMINAL_BYTES).saturating_mul(copies).saturating_mul(levels) / COPIED_LEVELS;
        self.all_bytes = self.all_bytes.saturating_add(all);
        if self.all_bytes > self.limits.expanded_bytes { Err(too_much(self.limits)) } else { Ok(()) }
    }
}

/// What a statement of data or of a template can repeat. Where it begins is not sure before it was
/// parsed, for no full stop is needed. After one, another statement begins.
#[derive(Clone, Copy, Debug, Default)]
struct Statement {
    /// Bytes of the longest term, which can be the subject or the predicate.
    longest_bytes: usize,
    /// Bytes of the last text with its type or language. It is a subject if a term follows: the parser
    /// copies that before it refuses it.
    text_bytes: usize,
}

impl Statement {
    /// Goes on with a term or a sign.
    fn add(&mut self, kind: Kind, is_type: bool, bytes: usize) {
        match kind {
            Kind::Language => self.text_bytes = self.text_bytes.saturating_add(bytes),
            Kind::Iri if is_type => self.text_bytes = self.text_bytes.saturating_add(bytes),
            Kind::Text => self.text_bytes = bytes,
            Kind::Sign(".") => *self = Self::default(),
            Kind::Sign("," | ";") => self.text_bytes = 0,
            Kind::Sign(_) => {}
            _ => self.longest_bytes = self.longest_bytes.max(bytes).max(std::mem::take(&mut self.text_bytes)),
        }
    }
}

/// Whether a path can end with this kind of terminal, so that the parser reads a `+` as its operator.
pub(super) fn ends_path(kind: Kind) -> bool {
    matches!(kind, Kind::Iri | Kind::Word("a") | Kind::Sign(")"))
}

/// Refuses what names other graphs or servers.
fn refuse_others(kind: Kind) -> Result<(), UpdateError> {
    match kind {
        Kind::Word("WITH" | "USING") => Err(UpdateError::NotSupported { operation: "USING or WITH" }),
        Kind::Word(
            operation @ ("LOAD" | "CLEAR" | "CREATE" | "DROP" | "ADD" | "MOVE" | "COPY" | "GRAPH" | "SERVICE"),
        ) => Err(UpdateError::NotSupported { operation }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Iri;
    use crate::update::Room;
    use crate::update::canonical::Canonical;

    /// Whether an update has a pattern, if it is within these limits.
    fn check_within(update: &str, limits: &Limits) -> Result<bool, UpdateError> {
        let base = Iri::parse("http://a/".to_owned()).unwrap();
        Ok(Canonical::of(update, &base, limits, &Room::default())?.has_where)
    }

    fn check(update: &str) -> Result<bool, UpdateError> {
        check_within(update, &Limits::default())
    }

    #[test]
    fn data_and_templates_may_be_long_and_patterns_may_not() {
        let long = "<a> <b> 1 . ".repeat(1_000);
        assert_eq!(check(&format!("INSERT DATA {{ {long} }} ; DELETE DATA{{ {long} }}")), Ok(false));
        assert_eq!(check(&format!("DELETE {{ {long} }} INSERT {{ {long} }} Where{{}}")), Ok(true));
        assert_eq!(check(&"DELETE DATA { <a> <b> 1 } ;".repeat(1_000)), Ok(false));
        let variables = |count: usize| "<a> <b> ?c . ".repeat(count);
        assert!(check(&format!("INSERT {{ {} }} WHERE {{ ?a ?b ?c }}", variables(990))).is_ok());
        for update in [
            format!("INSERT {{ <a> <b> 1 }} WHERE {{ {long} }}"),
            format!("INSERT DATA {{ <a> <b> 1 }} ; DELETE WHERE {{ {long} }}"),
            format!("INSERT {{ {} }} WHERE {{}}", variables(1_001)),
            "INSERT {} WHERE { {} } ;".repeat(400),
        ] {
            let error = check(&update).unwrap_err().to_string();
            assert_eq!(error, "too large: more than 1000 words of patterns and variables of templates");
        }
        for open in ["[", "{", "("] {
            assert!(check(&format!("INSERT DATA {{ <a> <b> {} }}", open.repeat(33))).is_err());
        }
    }

    #[test]
    fn what_is_in_iris_and_strings_is_no_bracket() {
        let many = "<http://en.example.org/A_(b)> <b> '((' . ".repeat(40);
        assert!(check(&format!("INSERT DATA {{ {many} }}")).is_ok());
        assert!(check(&format!("INSERT {{ {many} }} WHERE {{}}")).is_ok());
        assert!(check("DELETE WHERE { <http://en.example.org/A_(b)> <b> ?c }").is_ok());
    }

    #[test]
    fn each_reason_to_read_twice_is_counted_where_it_is_one() {
        let nested = |open: &str, close: &str, count: usize| {
            format!("INSERT {{}} WHERE {{ {}1{} }}", open.repeat(count), close.repeat(count))
        };
        for (open, close) in [
            ("FILTER(!(EXISTS {", "}))"),
            ("FILTER(! NOT EXISTS {", "})"),
            ("FILTER <f>(EXISTS {", "})"),
            ("FILTER REGEX(EXISTS {", "})"),
            ("{ SELECT * {} HAVING (1) <f>(EXISTS {", "}) }"),
            ("{ SELECT * {} ORDER BY ?x <f>(EXISTS {", "}) }"),
            ("{ SELECT * {} GROUP BY <f>(EXISTS {", "}) }"),
        ] {
            assert!(check(&nested(open, close, 8)).is_ok(), "{open}");
            let error = check(&nested(open, close, 9)).unwrap_err().to_string();
            assert!(error.ends_with("inside each other"), "{open}: {error}");
        }
        for (open, close) in [("?s <p> (", ")"), ("?s <p> [ <q> (<r> (", "))]"), ("FILTER STR(EXISTS {", "})")] {
            assert!(check(&nested(open, close, 9)).is_ok(), "{open}");
        }
        let long = "x".repeat(300_000);
        let error = check(&format!("INSERT {{}} WHERE {{ FILTER({}'{long}'{}) }}", "!(".repeat(8), ")".repeat(8)));
        assert_eq!(error.unwrap_err().to_string(), "too large: more than 16777216 bytes that are read again");
    }

    #[test]
    fn a_less_than_is_only_after_a_value_in_an_expression() {
        for update in [
            "INSERT DATA { <a> <b> 1 < 2 }",
            "INSERT {} WHERE { ?a < ?b }",
            "INSERT {} WHERE { FILTER(< 1) }",
            "INSERT {} WHERE { FILTER(1 + < 1) }",
            "INSERT {} WHERE { ?s ?p (1 < 2) }",
            "INSERT {} WHERE { VALUES (?x) { (1 < 2) } }",
            "INSERT {} WHERE { FILTER <f>(1) ?s <p> (1 < 2) }",
        ] {
            let error = check(update).unwrap_err().to_string();
            assert!(error.contains("less-than after a value"), "{update}: {error}");
        }
    }

    /// Whether an update with a long IRI (`LONG`, 1,000 bytes) is refused within 100 kB.
    fn is_refused(update: &str) -> bool {
        let limits = Limits { expanded_bytes: 100_000, ..Limits::default() };
        let update = update.replace("LONG", &format!("http://a/{}/", "x".repeat(1_000)));
        match check_within(&update, &limits) {
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
            ("INSERT DATA {} ; PREFIX a: ", "a:"),
        ] {
            let update = |objects: usize| {
                let objects: String = (0..objects).map(|n| format!(", {prefix}{n}")).collect();
                format!("{declaration}<LONG> INSERT DATA {{ <s> <p> 1 . {prefix}s {prefix}p 1{objects} }}")
            };
            assert!(is_refused(&update(50)), "{declaration}");
            assert!(!is_refused(&update(5)), "{declaration}");
        }
        assert!(is_refused(&(0..200).map(|n| format!("PREFIX p{n}: <LONG> ")).collect::<String>()));
    }

    #[test]
    fn a_subject_is_counted_for_each_object_even_if_a_full_stop_is_part_of_their_names() {
        for object in ["a:\\.", "a:x.-1", "a.-b:1", "a:x.\u{b7}"] {
            let update = |count: usize| {
                let objects = format!(", {object}").repeat(count);
                format!("PREFIX a: <x> PREFIX a.-b: <x> INSERT DATA {{ <LONG> <p> 1{objects} }}")
            };
            assert!(is_refused(&update(80)), "{object}");
            assert!(!is_refused(&update(10)), "{object}");
        }
    }

    #[test]
    fn what_is_written_out_for_each_statement_is_counted_for_each() {
        for (start, one) in [
            // The parser makes a statement of each, whatever its object.
            ("INSERT DATA { <LONG> <p> 1", ",[]"),
            ("INSERT DATA { <LONG> <p> 1", ",()"),
            ("INSERT DATA { <s> <LONG> 1", ",[]"),
            ("INSERT DATA { <LONG> <p> 1", ";<p>[]"),
            ("INSERT DATA { [ <q> 1 ] <LONG> 1", ",1"),
            // Nodes in brackets are statements without a predicate.
            ("INSERT DATA { [ <q> 1 ] (1) <LONG> <p> 1", ",1"),
            ("INSERT DATA { [ <q> 1 ] <LONG> a 1", ",1"),
            ("INSERT DATA { [ <q> 1 ] 'LABEL' <p> 1", ",1"),
            ("INSERT DATA { <s> <p> 1 . (1) <LONG> 1", ",1"),
            ("INSERT DATA { <s> <p> [ <LONG> 1", ",1"),
            ("PREFIX a: <x> INSERT DATA { a:HYPHENS <p> 1", ",1"),
            ("INSERT DATA { _:HYPHENS <p> 1", ",1"),
            ("PREFIX : <LONG> INSERT DATA { _:a:p 1", "._:b:p 1"),
            // A subject that is a text is refused when everything is read.
            ("INSERT DATA { 'LABEL' <p> 1", ",1"),
            ("INSERT DATA { 'LABEL'@en-gb <p> 1", ",1"),
            ("INSERT DATA { 'LABEL'^^<t> <p> 1", ",1"),
            ("INSERT DATA { 'x'^^<LONG> <p> 1", ",1"),
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
            ("INSERT DATA { <s> <p> (1", ".5", 95),
            ("INSERT DATA { <s> <p> 1", " <s> <p> 1", 190),
            ("INSERT DATA { <s> <p> 1", ".", 6_300),
        ] {
            assert!(is_refused(&format!("{start}{}", one.repeat(most))), "{start}{one}");
            assert!(!is_refused(&format!("{start}{}", one.repeat(most / 4))), "{start}{one}");
        }
        // What is in brackets is copied at each level.
        let nested = |levels: usize| format!("INSERT DATA {{ <s> <p> {} 1{}", "[<p>".repeat(levels), ",1".repeat(60));
        assert!(is_refused(&nested(20)));
        assert!(!is_refused(&nested(1)));
    }
}
