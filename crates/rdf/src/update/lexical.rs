//! How deep and how long an update's text is, told without parsing it: parser and evaluator go down into it recursively, and must not
//! run out of stack.

use super::UpdateError;
use crate::parse::Limits;

/// Brackets inside each other.
const DEPTH: usize = 32;

/// Words, operators and brackets outside of `DATA { ... }`, where each can be one more level of the evaluator's.
const TOKENS: usize = 1_000;

/// What an update's text tells before it is parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Whether there is a pattern to evaluate.
    pub(super) has_where: bool,
}

/// Refuses an update that is too long or too deep.
pub(super) fn check(update: &str, limits: &Limits) -> Result<Shape, UpdateError> {
    if update.len() > limits.body_bytes {
        return Err(UpdateError::TooLarge { of: "bytes", limit: limits.body_bytes });
    }
    let mut has_where = false;
    let (mut depth, mut tokens, mut data_depth, mut is_after_data) = (0_usize, 0_usize, None, false);
    for token in Tokens(update) {
        match token {
            "{" | "(" | "[" => {
                if is_after_data && token == "{" {
                    data_depth = Some(depth);
                }
                depth += 1;
            }
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if data_depth.is_some_and(|start| depth <= start) {
                    data_depth = None;
                }
            }
            _ => {}
        }
        is_after_data = token.eq_ignore_ascii_case("data");
        if data_depth.is_none() {
            tokens += 1;
            has_where |= token.eq_ignore_ascii_case("where");
        }
        if depth > DEPTH {
            return Err(UpdateError::TooLarge { of: "levels of brackets", limit: DEPTH });
        }
        if tokens > TOKENS {
            return Err(UpdateError::TooLarge { of: "words outside of DATA", limit: TOKENS });
        }
    }
    Ok(Shape { has_where })
}

/// Tokens of a SPARQL text (SPARQL 1.1 Query, section 19.8), roughly: strings and IRIs are one token each, comments none, every other
/// character that is not part of a word is one by itself.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let mut rest = self.0.trim_ascii_start();
        while rest.starts_with('#') {
            rest = rest.find('\n').map_or("", |end| &rest[end..]).trim_ascii_start();
        }
        let first = rest.chars().next()?;
        let len_bytes = match first {
            '"' | '\'' => string_bytes(rest, first),
            '<' => iri_bytes(rest).unwrap_or(1),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(len_bytes);
        self.0 = after;
        Some(token)
    }
}

/// Names with prefix are one word. (`#` in them would have to be escaped: it begins a comment.)
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ':' | '.' | '%' | '?' | '$' | '@')
}

/// Length of a string with its quotes; all of the text if it does not end.
fn string_bytes(text: &str, quote: char) -> usize {
    let long = quote.to_string().repeat(3);
    let end = if text.starts_with(&long) { long } else { quote.to_string() };
    let mut at = end.len();
    while let Some(rest) = text.get(at..) {
        if rest.starts_with(&end) {
            return at + end.len();
        }
        let mut characters = rest.chars();
        match characters.next() {
            None => break,
            Some('\\') => at += 1 + characters.next().map_or(0, char::len_utf8),
            Some(c) => at += c.len_utf8(),
        }
    }
    text.len()
}

/// Length of an IRI with its brackets. `None`: it is a less-than sign.
fn iri_bytes(text: &str) -> Option<usize> {
    let end = text[1..].find(|c: char| c <= ' ' || "<>\"{}|^`\\".contains(c))? + 1;
    text[end..].starts_with('>').then_some(end + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tokens(text: &str) -> Vec<&str> {
        Tokens(text).collect()
    }

    #[test]
    fn strings_iris_and_comments_are_told_from_brackets() {
        assert_eq!(
            tokens("INSERT{<a(> dc:b \"(\\\"{\" , '''\n'{[''' # ((\n;?x<3}"),
            ["INSERT", "{", "<a(>", "dc:b", "\"(\\\"{\"", ",", "'''\n'{['''", ";", "?x", "<", "3", "}"]
        );
    }

    #[test]
    fn what_does_not_end_is_one_token() {
        for text in ["\"abc", "'''a''", "\"a\\", "<", "#", "é\u{1F600}"] {
            assert!(tokens(text).len() <= 2, "{text}");
        }
    }

    #[test]
    fn data_may_be_long_and_patterns_may_not() {
        let long = "<a> <b> 1 . ".repeat(1_000);
        let limits = Limits::default();
        assert_eq!(
            check(&format!("INSERT DATA {{ {long} }} ; DELETE DATA{{ {long} }}"), &limits),
            Ok(Shape { has_where: false })
        );
        let error = check(&format!("INSERT {{ <a> <b> 1 }} WHERE {{ {long} }}"), &limits).unwrap_err();
        assert_eq!(error.to_string(), "too large: more than 1000 words outside of DATA");
        assert!(check(&format!("INSERT DATA {{ <a> <b> 1 }} ; DELETE WHERE {{ {long} }}"), &limits).is_err());
        assert_eq!(check("INSERT { <a> <b> 1 } Where{}", &limits), Ok(Shape { has_where: true }));
        for open in ["[", "{", "("] {
            assert!(check(&format!("INSERT DATA {{ <a> <b> {} }}", open.repeat(33)), &limits).is_err());
        }
    }
}
