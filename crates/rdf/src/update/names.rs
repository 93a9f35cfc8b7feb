//! The names and values of an update's text, counted without parsing: how many terms they can be,
//! and how many bytes they take once all names are written out.

use std::collections::HashSet;

use super::UpdateError;
use crate::Iri;
use crate::parse::Limits;
use crate::tokens::{Declarations, continues_name, count, is_iri, is_word};

/// Memory of the parser and of the graph per term besides its text, roughly: a third of what a
/// statement needs.
const TERM_BYTES: usize = 176;

/// Terms of an item of a collection: its node has two statements.
const ITEM_TERMS: usize = 6;

/// Levels of round and square brackets that cost as much again as what is in them. The parser
/// copies it at each level, and cannot be cancelled.
const COPIED_LEVELS: usize = 4;

/// Copies of what is outside of `DATA` that the evaluator makes.
const COPIES: usize = 4;

/// Most numbers and words that touch each other. The parser looks through all of them at each.
const TOUCHING: usize = 16;

/// The literals that are words. The parser needs nothing between them.
const LITERALS: [&str; 3] = ["true", "false", "undef"];

/// Where a token is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) is_data: bool,
    /// Whether it is an item of a collection, or of an expression.
    pub(super) is_list: bool,
    /// Whether a `,` or a `;` can go on with a statement here.
    pub(super) is_statement: bool,
    /// Round and square brackets around it.
    pub(super) levels: usize,
}

/// An upper bound for the bytes of a text's statements when written out.
pub(super) struct Names {
    declarations: Declarations,
    prefixes: Prefixes,
    /// Of the longest name of the statement. It can be its subject or its predicate, and is then
    /// written out for each object.
    longest_bytes: usize,
    /// Of all names of the statement. A predicate outside of `DATA` can be a path with all of them.
    path_bytes: usize,
    /// Of the last text while it can be a subject. The parser refuses that when it has read all.
    text_bytes: usize,
    /// Of the name before this place, and of the one before the last `{`: that can be a graph,
    /// which is written out for each statement in it.
    pub(super) before_bytes: usize,
    graph_bytes: usize,
    touching: Touching,
    /// Bytes of the text after the last token.
    rest_bytes: usize,
    /// Carets right before this place. Two begin the type of a text.
    carets: usize,
    /// Whether a part of a language can come.
    is_after_hyphen: bool,
    all_bytes: usize,
}

impl Names {
    pub(super) fn new(base: &Iri) -> Self {
        Self {
            declarations: Declarations::new(base),
            prefixes: Prefixes::new(base),
            longest_bytes: 0,
            path_bytes: 0,
            text_bytes: 0,
            before_bytes: 0,
            graph_bytes: 0,
            touching: Touching::default(),
            rest_bytes: usize::MAX,
            carets: 0,
            is_after_hyphen: false,
            all_bytes: 0,
        }
    }

    /// Reads the next token; `rest` is the text after it. Returns how many terms it can be.
    pub(super) fn add(&mut self, token: &str, rest: &str, place: Place, limits: &Limits) -> Result<usize, UpdateError> {
        if is_iri(token) && token.len() > limits.iri_bytes {
            return Err(UpdateError::TooLarge { of: "bytes of one IRI", limit: limits.iri_bytes });
        }
        self.declarations.add(token);
        self.prefixes.add(token, place);
        let touches = self.rest_bytes == token.len() + rest.len();
        self.rest_bytes = rest.len();
        let is_text = token.starts_with(['"', '\'']);
        let is_word = token.starts_with(is_word);
        let is_variable = token.starts_with(['?', '$']);
        // A name with a hyphen is several tokens that touch.
        let is_part = is_word || token == "-" || !token.is_ascii() && !is_iri(token) && !is_text;
        if !touches || !is_part || is_variable {
            self.touching = Touching::default();
        }
        if is_part && self.touching.text_bytes + token.len() > limits.iri_bytes {
            return Err(UpdateError::TooLarge { of: "bytes of one name or number", limit: limits.iri_bytes });
        }
        let bytes = if is_iri(token) || is_word || is_text { self.bytes(token) } else { 0 };
        let terms = match token {
            "[" | "(" => 1,
            _ if is_iri(token) || is_text || is_variable => 1,
            _ if is_part => self.touching.terms(token, &self.prefixes),
            _ => 0,
        };
        if is_part {
            self.touching.add(token, bytes.max(token.len()));
        }
        if self.touching.terms > TOUCHING {
            return Err(UpdateError::TooLarge {
                of: "words and numbers without a space between them",
                limit: TOUCHING,
            });
        }
        let name_bytes = if is_iri(token) { bytes } else { self.touching.bytes };
        self.remember_text(token, bytes, is_text, is_word);
        if is_iri(token) || is_part {
            self.longest_bytes = self.longest_bytes.max(name_bytes);
            let path_bytes = bytes.saturating_add(terms.saturating_mul(TERM_BYTES));
            self.path_bytes = self.path_bytes.saturating_add(path_bytes);
        }
        let is_name = is_iri(token) || self.touching.is_name;
        let before_bytes = std::mem::replace(&mut self.before_bytes, if is_name { name_bytes } else { 0 });
        if token == "{" {
            self.graph_bytes = before_bytes;
        }
        self.charge(token, bytes, terms, place);
        // No name ends with a full stop, unless that is escaped.
        let is_stop = token.ends_with('.') && !token.ends_with("\\.") && !continues_name(rest);
        if is_stop && !is_iri(token) && !is_text {
            (self.longest_bytes, self.path_bytes, self.text_bytes) = (0, 0, 0);
        }
        if self.all_bytes > limits.expanded_bytes {
            return Err(UpdateError::TooLarge {
                of: "bytes once all names are written out",
                limit: limits.expanded_bytes,
            });
        }
        Ok(terms)
    }

    /// Of an IRI, a word or a text, written out.
    fn bytes(&self, token: &str) -> usize {
        // Names can touch: a blank node's and the next one.
        let names = match token.matches(':').count() {
            _ if is_iri(token) => 1,
            colons if token.starts_with(is_word) => colons,
            _ => 0,
        };
        let start_bytes = self.declarations.base_bytes.max(self.declarations.prefix_bytes);
        token.len().saturating_add(names.saturating_mul(start_bytes))
    }

    /// A text is a subject if a name follows that does not belong to it as its language or type.
    fn remember_text(&mut self, token: &str, bytes: usize, is_text: bool, is_word: bool) {
        if is_text {
            self.text_bytes = bytes;
        } else if matches!(token, "," | ";" | "]" | ")" | "}") {
            self.text_bytes = 0;
        } else if is_iri(token) || is_word {
            let is_language = is_word && !token.contains(':') && (self.is_after_hyphen || token.starts_with('@'));
            if self.carets < 2 && !is_language {
                let text_bytes = std::mem::take(&mut self.text_bytes);
                self.longest_bytes = self.longest_bytes.max(text_bytes);
                self.path_bytes = self.path_bytes.saturating_add(text_bytes);
            }
        }
        self.carets = if token == "^" { self.carets + 1 } else { 0 };
        self.is_after_hyphen = token == "-";
    }

    /// Counts what a token adds to the statements.
    fn charge(&mut self, token: &str, bytes: usize, terms: usize, place: Place) {
        // The subject is repeated after a `;`, and the predicate too after a `,`.
        let repeated = match token {
            "," if place.is_statement => 2,
            ";" if place.is_statement => 1,
            _ => 0,
        };
        let repeated_bytes = if place.is_data { self.longest_bytes.saturating_mul(repeated) } else { self.path_bytes };
        let terms = if place.is_list { terms.saturating_mul(ITEM_TERMS) } else { terms.saturating_add(repeated) };
        let mut all = bytes.saturating_add(terms.saturating_mul(TERM_BYTES.saturating_add(self.graph_bytes)));
        if repeated > 0 {
            all = all.saturating_add(repeated_bytes);
        }
        let copies = if place.is_data { 1 } else { COPIES };
        let all = all.saturating_mul(copies).saturating_mul(COPIED_LEVELS + place.levels) / COPIED_LEVELS;
        self.all_bytes = self.all_bytes.saturating_add(all);
    }
}

/// The prefixes of names that the parser surely reads as one.
struct Prefixes {
    declared: HashSet<String>,
    is_next: bool,
    /// Whether the next IRI is that of a prefix, or a base.
    is_declared: bool,
    /// Whether each prefix makes an IRI with whatever follows it. If it could not, the parser reads
    /// what follows as the next terms.
    take_all: bool,
}

impl Prefixes {
    fn new(base: &Iri) -> Self {
        Self { declared: HashSet::new(), is_next: false, is_declared: false, take_all: takes_all(base.as_str()) }
    }

    /// Reads the next token.
    fn add(&mut self, token: &str, place: Place) {
        if place.is_data {
            return;
        }
        if let Some(prefix) = token.strip_suffix(':').filter(|_| self.is_next) {
            self.declared.insert(prefix.to_owned());
        }
        self.is_next = token.eq_ignore_ascii_case("prefix");
        if is_iri(token) {
            self.take_all &= !self.is_declared || takes_all(token);
            self.is_declared = false;
        } else {
            self.is_declared |= count(token, "prefix") > 0 || count(token, "base") > 0;
        }
    }
}

/// Whether an IRI does not end in an authority (RFC 3986, section 3.2), where not everything can
/// follow.
fn takes_all(iri: &str) -> bool {
    iri.split_once("//").is_none_or(|(_, rest)| rest.contains(['/', '?', '#']))
}

/// Tokens that touch, read up to here. They can be a name with a hyphen, or several terms.
#[derive(Debug, Default)]
struct Touching {
    /// Of all of it, written out, and as it is in the text.
    bytes: usize,
    text_bytes: usize,
    is_name: bool,
    /// Terms since the last colon.
    terms: usize,
    last: Last,
}

/// What is before a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Nothing,
    Letter,
    Integer,
    Decimal,
    /// A name, which goes on with any of these.
    Name,
}

impl Touching {
    /// Adds a token that has so many bytes when written out.
    fn add(&mut self, token: &str, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.text_bytes += token.len();
        self.is_name |= token.contains(':') || token.starts_with(['?', '$']);
    }

    /// How many terms begin in the next token, at most: names, numbers and literals that are words
    /// need nothing between them.
    fn terms(&mut self, token: &str, prefixes: &Prefixes) -> usize {
        let after_colon = if prefixes.take_all && !token.contains('\\') { Last::Name } else { Last::Nothing };
        let (mut terms, mut rest) = (0, token);
        // The label of a blank node is read whole, whatever the prefixes are.
        if let Some(label) = token.strip_prefix("_:").filter(|_| self.text_bytes == 0) {
            (terms, rest, self.last) = (1, label, Last::Name);
        } else if self.text_bytes == 0 {
            let name = token.split_once(':').filter(|(prefix, _)| prefixes.declared.contains(*prefix));
            if let Some((_, local)) = name {
                (terms, rest, self.last) = (1, local, after_colon);
            }
        }
        let literals = LITERALS.iter().map(|literal| count(rest, literal)).sum::<usize>();
        terms += (2 * literals).saturating_sub(1);
        let mut characters = rest.chars().peekable();
        while let Some(character) = characters.next() {
            let is_before_digit = characters.peek().is_some_and(char::is_ascii_digit);
            let is_number = matches!(self.last, Last::Integer | Last::Decimal);
            let (new, last) = match (character, self.last) {
                (':', last) => {
                    self.terms = 0;
                    (usize::from(last != Last::Letter), after_colon)
                }
                ('.', Last::Integer) if is_before_digit => (0, Last::Decimal),
                ('.', _) if is_before_digit => (1, Last::Decimal),
                ('.', _) => (0, Last::Nothing),
                (_, Last::Name) => (0, Last::Name),
                ('e' | 'E', _) if is_number && is_before_digit => (0, Last::Decimal),
                ('-', _) if is_number => (0, Last::Nothing),
                ('-', last) => (0, last),
                ('0'..='9', last) if is_number => (0, last),
                ('0'..='9', _) => (1, Last::Integer),
                (_, last) => (usize::from(last != Last::Letter), Last::Letter),
            };
            terms += new;
            self.terms += new;
            self.last = last;
        }
        self.terms += literals;
        terms
    }
}
