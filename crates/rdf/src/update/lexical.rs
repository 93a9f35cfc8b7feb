//! Depth and length of an update's text, measured without parsing. Parser and evaluator are
//! recursive and must not run out of stack, and the parser writes out all names before it returns
//! anything.

use std::borrow::Cow;

use super::UpdateError;
use crate::Iri;
use crate::parse::Limits;
use crate::tokens::{Tokens, is_word};

/// Deepest nesting of brackets.
const DEPTH: usize = 32;

/// Most words, operators and brackets outside of `DATA { ... }`, where each can add a level to the
/// evaluator's recursion.
const TOKENS: usize = 1_000;

/// Deepest nesting of what the parser reads twice: functions that it tries with and without their
/// last argument, and what follows a `!`. At this depth the innermost is read a few hundred times.
const READ_TWICE: [&str; 4] = ["regex", "replace", "substr", "group_concat"];
const READ_TWICE_DEPTH: usize = 8;

/// Memory of the parser per name and text besides their bytes, roughly.
const TERM_BYTES: usize = 64;

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
            text.push_str(before);
            text.push('\\');
            rest = &escape[1..];
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
    if text.contains("\\u") || text.contains("\\U") {
        return Err(wrong("an escape of a code point encodes a part of another one"));
    }
    Ok(Cow::Owned(text))
}

/// Refuses an update that is too long or too deep, or whose names are too long when written out. It
/// has no escapes of code points.
pub(super) fn check(update: &str, base: &Iri, limits: &Limits) -> Result<Shape, UpdateError> {
    let mut has_where = false;
    let (mut depth, mut tokens, mut data_depth, mut is_after_data) = (0_usize, 0_usize, None, false);
    // Outside of DATA `<` can be less-than, and what looks like an IRI an expression.
    let mut hidden = 0_usize;
    // For each bracket that is open: whether it is that of a function that is read twice.
    let (mut open, mut read_twice, mut is_read_twice) = (Vec::new(), 0_usize, false);
    let mut is_negated = false;
    let mut names = Names::new(base);
    for token in Tokens(update) {
        match token {
            "{" | "(" | "[" => {
                if is_after_data && token == "{" {
                    data_depth = Some(depth);
                }
                depth += 1;
                open.push(is_read_twice || is_negated);
                read_twice += usize::from(is_read_twice || is_negated);
            }
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                read_twice -= usize::from(open.pop().unwrap_or_default());
                if data_depth.is_some_and(|start| depth <= start) {
                    data_depth = None;
                }
            }
            _ => {}
        }
        is_after_data = token.eq_ignore_ascii_case("data");
        is_read_twice = READ_TWICE.iter().any(|name| token.eq_ignore_ascii_case(name));
        // The name of a function can come between.
        is_negated = token == "!" || is_negated && token.starts_with(|c| c == '<' || is_word(c));
        if data_depth.is_none() {
            tokens += 1;
            has_where |= token.eq_ignore_ascii_case("where");
            if token.starts_with('<') {
                hidden += token.bytes().filter(|byte| matches!(byte, b'(' | b'[')).count();
            }
        }
        if depth + hidden > DEPTH {
            return Err(UpdateError::TooLarge { of: "levels of brackets", limit: DEPTH });
        }
        if read_twice + hidden > READ_TWICE_DEPTH {
            return Err(UpdateError::TooLarge {
                of: "negations, REGEX, REPLACE, SUBSTR or GROUP_CONCAT inside each other",
                limit: READ_TWICE_DEPTH,
            });
        }
        if tokens > TOKENS {
            return Err(UpdateError::TooLarge { of: "words outside of DATA", limit: TOKENS });
        }
        names.add(token, limits)?;
    }
    Ok(Shape { has_where })
}

/// An upper bound for the bytes of a text's names when written out.
struct Names {
    /// Bytes of all bases so far, because each can be relative to the one before.
    base_bytes: usize,
    /// Of the longest prefix.
    prefix_bytes: usize,
    /// What the last words could start: the declaration of a base or of a prefix.
    declared: Declared,
    /// Of the longest name of the statement. It can be its subject or its predicate, and is then
    /// written out for each object.
    longest_bytes: usize,
    all_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Declared {
    Nothing,
    Base,
    PrefixName,
    Prefix,
}

impl Names {
    fn new(base: &Iri) -> Self {
        let base_bytes = base.as_str().len();
        Self { base_bytes, prefix_bytes: 0, declared: Declared::Nothing, longest_bytes: 0, all_bytes: 0 }
    }

    fn add(&mut self, token: &str, limits: &Limits) -> Result<(), UpdateError> {
        let is_iri = token.starts_with('<') && token.len() > 1;
        if is_iri && token.len() > limits.iri_bytes {
            return Err(UpdateError::TooLarge { of: "bytes of one IRI", limit: limits.iri_bytes });
        }
        self.declared = match self.declared {
            Declared::Base if is_iri => {
                self.base_bytes = self.base_bytes.saturating_add(token.len());
                Declared::Nothing
            }
            Declared::Prefix if is_iri => {
                self.prefix_bytes = self.prefix_bytes.max(self.base_bytes.saturating_add(token.len()));
                Declared::Nothing
            }
            Declared::PrefixName => Declared::Prefix,
            _ if token.eq_ignore_ascii_case("base") => Declared::Base,
            _ if token.eq_ignore_ascii_case("prefix") => Declared::PrefixName,
            _ => Declared::Nothing,
        };
        let is_text = token.starts_with(['"', '\'']);
        let is_word = token.starts_with(is_word);
        if is_iri || is_word || is_text {
            let bytes = match is_iri || token.contains(':') {
                true => token.len().saturating_add(self.base_bytes.max(self.prefix_bytes)),
                false => token.len(),
            };
            if !is_text {
                self.longest_bytes = self.longest_bytes.max(bytes);
            }
            let all = bytes.saturating_add(TERM_BYTES).saturating_add(self.longest_bytes.saturating_mul(2));
            self.all_bytes = self.all_bytes.saturating_add(all);
        }
        // No name ends with a full stop.
        if token.ends_with('.') && !is_iri && !is_text {
            self.longest_bytes = 0;
        }
        if self.all_bytes > limits.expanded_bytes {
            return Err(UpdateError::TooLarge {
                of: "bytes once all names are written out",
                limit: limits.expanded_bytes,
            });
        }
        Ok(())
    }
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

    #[test]
    fn escapes_of_code_points_are_replaced_once() {
        assert_eq!(unescaped("a").unwrap(), "a");
        assert_eq!(unescaped("'\\n\\u00E9\\U0001F600\\\\'").unwrap(), "'\\n\u{e9}\u{1F600}\\\\'");
        for wrong in ["\\u", "\\u00", "\\uD800", "\\u\\\u{e9}xxu1234", "\\u005Cu0028", "\\U00110000", "\\u+028"] {
            assert!(matches!(unescaped(wrong), Err(UpdateError::Syntax { .. })), "{wrong}");
        }
    }
}
