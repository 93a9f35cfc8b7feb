//! The text of an update without escapes of code points (SPARQL 1.1 Query, section 19.2), so that
//! nothing is hidden in them, and places in it.

use std::borrow::Cow;

use super::UpdateError;
use crate::parse::Location;

/// A text without escapes of code points.
#[derive(Debug)]
pub(super) struct Source<'a> {
    original: &'a str,
    text: Cow<'a, str>,
    /// For each escape, where its character ends in the text, and how many bytes the original is
    /// longer up to there.
    escapes: Vec<(usize, usize)>,
}

impl<'a> Source<'a> {
    /// Decodes each escape once. What looks like one but is not of a code point stays: a comment may
    /// have it (`# C:\users`), and nothing else may.
    pub(super) fn new(original: &'a str) -> Self {
        let (mut text, mut escapes) = (String::new(), Vec::new());
        // Bytes of the original that were looked at, and those that the text has.
        let (mut at, mut taken) = (0, 0);
        while let Some(found) = original[at..].find('\\') {
            at += found;
            let digits = match original.as_bytes().get(at + 1) {
                Some(b'u') => 4,
                Some(b'U') => 8,
                // A backslash that is escaped begins no escape of a code point: texts of JSON have those.
                _ => {
                    at += original[at..].chars().take(2).map(char::len_utf8).sum::<usize>();
                    continue;
                }
            };
            let end = at + 2 + digits;
            let code = original.get(at + 2..end).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let character = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
            let Some(character) = character else {
                at += 2;
                continue;
            };
            text.push_str(&original[taken..at]);
            text.push(character);
            escapes.push((text.len(), end - text.len()));
            (at, taken) = (end, end);
        }
        if escapes.is_empty() {
            return Self { original, text: Cow::Borrowed(original), escapes };
        }
        text.push_str(&original[taken..]);
        Self { original, text: Cow::Owned(text), escapes }
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Bytes of memory besides the original.
    pub(super) fn bytes(&self) -> usize {
        let text_bytes = match &self.text {
            Cow::Owned(text) => text.capacity(),
            Cow::Borrowed(_) => 0,
        };
        text_bytes + self.escapes.capacity() * size_of::<(usize, usize)>()
    }

    /// An error at a byte of the text. Its place is that in the original.
    pub(super) fn error(&self, at: usize, message: impl Into<String>) -> UpdateError {
        let before = self.escapes.partition_point(|(end, _)| *end <= at);
        let longer_bytes = before.checked_sub(1).map_or(0, |last| self.escapes[last].1);
        let location = Location::of(self.original.as_bytes(), at + longer_bytes);
        UpdateError::Syntax { location: Some(location), message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_code_points_are_replaced_once() {
        for (original, text) in [
            ("a", "a"),
            ("'\\n\\u00E9\\U0001F600\\\\'", "'\\n\u{e9}\u{1F600}\\\\'"),
            // JSON in a literal.
            ("'Caf\\\\u00e9 \\\\u006e'", "'Caf\\\\u00e9 \\\\u006e'"),
            ("\\u005Cu0028", "\\u0028"),
            ("\\", "\\"),
        ] {
            assert_eq!(Source::new(original).text(), text);
        }
        for other in ["\\u", "\\u00", "\\uD800", "\\u\\\u{e9}xxu1234", "\\U00110000", "\\u+028"] {
            assert_eq!(Source::new(other).text(), other);
        }
        assert_eq!(Source::new("\\ux\\u0061").text(), "\\uxa");
    }

    #[test]
    fn a_place_is_that_in_the_text_as_it_came() {
        let source = Source::new("\\u0061b\nc\\U00000064\\u00E9e");
        assert_eq!(source.text(), "ab\ncd\u{e9}e");
        let place = |at| match source.error(at, "") {
            UpdateError::Syntax { location: Some(Location { line, column }), .. } => (line, column),
            other => panic!("{other}"),
        };
        assert_eq!([0, 1, 3, 4, 5, 7].map(place), [(1, 1), (1, 7), (2, 1), (2, 2), (2, 12), (2, 18)]);
    }
}
