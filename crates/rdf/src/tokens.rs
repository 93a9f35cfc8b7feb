//! Tokens of Turtle texts, found without parsing, so that the cost of parsing can be bounded before.
//!
//! Where a parser could read a text in two ways, the tokens are those of the reading with more
//! brackets.

use crate::Iri;

/// Memory of a parser per declaration besides its IRI, roughly.
const DECLARATION_BYTES: usize = 64;

/// Tokens (Turtle, section 6.5), roughly: a string or an IRI is one token, a comment is none, and any
/// other character outside of words is one. What is left is the rest of the text.
pub(crate) struct Tokens<'a>(pub(crate) &'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let mut rest = self.0.trim_ascii_start();
        while rest.starts_with('#') {
            rest = rest.find(['\n', '\r']).map_or("", |end| &rest[end..]).trim_ascii_start();
        }
        let first = rest.chars().next()?;
        let len_bytes = match first {
            '"' | '\'' => string_bytes(rest, first),
            '<' => iri_bytes(rest).unwrap_or(1),
            c if is_word(c) => word_bytes(rest),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(len_bytes);
        self.0 = after;
        Some(token)
    }
}

/// A prefixed name is one word, including escaped characters. (`#` must be escaped there; otherwise
/// it begins a comment.) A name with a `-` is several.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ':' | '.' | '%' | '@' | '\\')
}

/// Whether a token is an IRI, as opposed to a less-than sign.
fn is_iri(token: &str) -> bool {
    token.starts_with('<') && token.len() > 1
}

fn word_bytes(text: &str) -> usize {
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => _ = characters.next(),
            c if is_word(c) => {}
            _ => return at,
        }
    }
    text.len()
}

/// Length of a string with its quotes. An unterminated string does not count: its quotes are tokens
/// (two of three are an empty string).
fn string_bytes(text: &str, quote: char) -> usize {
    let long = [quote; 3].iter().collect::<String>();
    let (end, is_long) = if text.starts_with(&long) { (long.as_str(), true) } else { (&long[..1], false) };
    let mut at = end.len();
    while let Some(rest) = text.get(at..) {
        if rest.starts_with(end) {
            return at + end.len();
        }
        let mut characters = rest.chars();
        match characters.next() {
            Some('\n' | '\r') if !is_long => break,
            None => break,
            Some('\\') => match characters.next() {
                // A parser can end a long string at any other escape, and read its quotes as short
                // strings.
                Some(escaped) if is_long && !"tbnrf\"'\\uU".contains(escaped) => break,
                escaped => at += 1 + escaped.map_or(0, char::len_utf8),
            },
            Some(c) => at += c.len_utf8(),
        }
    }
    if is_long { 2 } else { 1 }
}

/// Length of an IRI with its brackets. `None` if it is a less-than sign.
fn iri_bytes(text: &str) -> Option<usize> {
    let end = text[1..].find(|c: char| c <= ' ' || "<>\"{}|^`".contains(c))? + 1;
    text[end..].starts_with('>').then_some(end + 1)
}

/// What a text declares: bases, and prefixes of names. All bytes are upper bounds, and saturate.
pub(crate) struct Declarations {
    /// Of the longest base. Each can be relative to the one before.
    base_bytes: usize,
    /// Of all declarations, with their IRIs resolved.
    pub(crate) all_bytes: usize,
    /// Whether the next IRI could be a base.
    declares_base: bool,
    /// Whether it could be a prefix.
    declares_prefix: bool,
}

impl Declarations {
    /// None yet, in a text with this base.
    pub(crate) fn new(base: &Iri) -> Self {
        let base_bytes = base.as_str().len();
        Self { base_bytes, all_bytes: 0, declares_base: false, declares_prefix: false }
    }

    /// Reads the next token.
    pub(crate) fn add(&mut self, token: &str) {
        if is_iri(token) {
            let bytes = if has_scheme(token) { token.len() } else { self.base_bytes.saturating_add(token.len()) };
            if self.declares_base {
                self.base_bytes = self.base_bytes.max(bytes);
            }
            if self.declares_base || self.declares_prefix {
                self.all_bytes = self.all_bytes.saturating_add(bytes).saturating_add(DECLARATION_BYTES);
            }
            (self.declares_base, self.declares_prefix) = (false, false);
        } else {
            // Neither needs a space before it, and `PREFIX` needs none after it. The name of a
            // prefix can be several tokens.
            let last = token.rsplit('.').next().unwrap_or_default();
            self.declares_base = last.strip_prefix('@').unwrap_or(last).eq_ignore_ascii_case("base");
            self.declares_prefix |= token.starts_with(is_word) && count(token, "prefix") > 0;
        }
    }
}

/// How often a text contains a word, in any case.
pub(crate) fn count(text: &str, word: &str) -> usize {
    text.as_bytes().windows(word.len()).filter(|part| part.eq_ignore_ascii_case(word.as_bytes())).count()
}

/// Whether an IRI in its brackets has a scheme (RFC 3986, section 3.1). Then it needs no base.
fn has_scheme(iri: &str) -> bool {
    let scheme = iri[1..].split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tokens(text: &str) -> Vec<&str> {
        Tokens(text).collect()
    }

    #[test]
    fn strings_iris_and_comments_are_distinguished_from_brackets() {
        assert_eq!(
            tokens("[<a(> dc:b \"(\\\"{\" , '''\n'{[''' # ((\n;<3]"),
            ["[", "<a(>", "dc:b", "\"(\\\"{\"", ",", "'''\n'{['''", ";", "<", "3", "]"]
        );
    }

    #[test]
    fn brackets_cannot_hide_in_text_that_only_looks_like_a_string_an_iri_or_a_comment() {
        assert_eq!(tokens("('''a' ["), ["(", "''", "'a'", "["]);
        assert_eq!(tokens("('''a'[\\q'''"), ["(", "''", "'a'", "[", "\\q", "''", "'"]);
        assert_eq!(tokens("('a\n["), ["(", "'", "a", "["]);
        assert_eq!(tokens("<\\u0041'> ["), ["<\\u0041'>", "["]);
        assert_eq!(tokens("a:b\\#(["), ["a:b\\#", "(", "["]);
        assert_eq!(tokens("#\r["), ["["]);
    }

    /// Bytes of the longest base and of all declarations.
    fn declared(text: &str) -> (usize, usize) {
        let mut declarations = Declarations::new(&Iri::parse("http://a/".to_owned()).unwrap());
        tokens(text).into_iter().for_each(|token| declarations.add(token));
        (declarations.base_bytes, declarations.all_bytes)
    }

    #[test]
    fn declarations_are_found_however_they_are_written() {
        let one = "http://example.org/".len() + 2;
        for text in [
            "@prefix p:<http://example.org/>.",
            "<a> <b> 1.@prefix p: # comment <x>\n <http://example.org/> .",
            "prefix a-b:<http://example.org/>",
            "PREFIX a\u{b7}b.-c: <http://example.org/>",
            "PREFIXp:<http://example.org/>",
            "<a> <b> \"x\".PREFIX base-p:<http://example.org/>",
        ] {
            assert_eq!(declared(text), (9, one + DECLARATION_BYTES), "{text}");
        }
        for text in
            ["@base <http://example.org/>.", "Base<http://example.org/>", "<a> <b> 1.@base<http://example.org/>."]
        {
            assert_eq!(declared(text), (one, one + DECLARATION_BYTES), "{text}");
        }
        assert_eq!(declared("<a> a:base <b>, 'prefix', <c> ."), (9, 0));
    }

    #[test]
    fn a_relative_declaration_is_as_long_as_its_base_and_itself() {
        assert_eq!(declared("@base <b/> . @base <c/> . @prefix p:<d>."), (9 + 4 + 4, 13 + 17 + 20 + 3 * 64));
        assert_eq!(declared("@base <http://b/> . @base <c:d> ."), (11, 11 + 5 + 2 * 64));
    }

    #[test]
    fn an_unterminated_token_is_read_to_the_end() {
        for text in ["\"abc", "'''a''", "\"a\\", "<", "#", "é\u{1F600}", "\\"] {
            assert!(tokens(text).len() <= 4, "{text}");
        }
    }
}
