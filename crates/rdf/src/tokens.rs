//! Tokens of Turtle and SPARQL texts, found without parsing, so that the cost of parsing can be
//! bounded before.
//!
//! Where a parser could read a text in two ways, the tokens are those of the reading with more
//! brackets.

/// Tokens (SPARQL 1.1 Query, section 19.8; Turtle, section 6.5), roughly: a string or an IRI is one
/// token, a comment is none, and any other character outside of words is one.
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
/// it begins a comment.)
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ':' | '.' | '%' | '?' | '$' | '@' | '\\')
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
            Some('\\') => at += 1 + characters.next().map_or(0, char::len_utf8),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<&str> {
        Tokens(text).collect()
    }

    #[test]
    fn strings_iris_and_comments_are_distinguished_from_brackets() {
        assert_eq!(
            tokens("INSERT{<a(> dc:b \"(\\\"{\" , '''\n'{[''' # ((\n;?x<3}"),
            ["INSERT", "{", "<a(>", "dc:b", "\"(\\\"{\"", ",", "'''\n'{['''", ";", "?x", "<", "3", "}"]
        );
    }

    #[test]
    fn brackets_cannot_hide_in_text_that_only_looks_like_a_string_an_iri_or_a_comment() {
        assert_eq!(tokens("('''a' ["), ["(", "''", "'a'", "["]);
        assert_eq!(tokens("('a\n["), ["(", "'", "a", "["]);
        assert_eq!(tokens("<\\u0041'> ["), ["<\\u0041'>", "["]);
        assert_eq!(tokens("a:b\\#(["), ["a:b\\#", "(", "["]);
        assert_eq!(tokens("#\r["), ["["]);
    }

    #[test]
    fn an_unterminated_token_is_read_to_the_end() {
        for text in ["\"abc", "'''a''", "\"a\\", "<", "#", "é\u{1F600}", "\\"] {
            assert!(tokens(text).len() <= 4, "{text}");
        }
    }
}
