//! Patterns of volume ids: a text in which each `*` stands for any characters, also for none and
//! for slashes.

use std::fmt;

use hathi::VolumeId;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::limit::{NotALimit, decoded};

/// Characters that a scope must not have (RFC 6749, section 3.3), and those that mean something
/// here.
pub(crate) const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'\\').add(b'%').add(b'*');

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumePattern {
    /// The texts between the stars, at least one.
    pieces: Vec<String>,
}

impl VolumePattern {
    /// Reads a pattern. Characters may be percent-encoded; an encoded star stands for itself.
    pub(crate) fn parse(text: &str) -> Result<Self, NotALimit> {
        let pieces = text.split('*').map(decoded).collect::<Result<Vec<_>, _>>()?;
        let has_odd = pieces.iter().any(|piece| piece.chars().any(|found| found.is_control() || found == '|'));
        let can_match = pieces.len() > 1 || pieces.iter().all(|id| VolumeId::parse(id).is_ok());
        if has_odd || !can_match {
            return Err(NotALimit::new(text, "no volume id is like that"));
        }
        Ok(Self { pieces })
    }

    /// Whether an id is like this. It takes a time that grows with the lengths of both, and no more
    /// for many stars: the first place of a piece is always as good as a later one.
    pub fn matches(&self, id: &VolumeId) -> bool {
        let text = id.as_str();
        match &self.pieces[..] {
            [] => false,
            [whole] => text == whole,
            [first, between @ .., last] => {
                let Some(text) = text.strip_prefix(first.as_str()) else { return false };
                let Some(mut text) = text.strip_suffix(last.as_str()) else { return false };
                for piece in between {
                    let Some((_, rest)) = text.split_once(piece.as_str()) else { return false };
                    text = rest;
                }
                true
            }
        }
    }
}

impl fmt::Display for VolumePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, piece) in self.pieces.iter().enumerate() {
            let star = if index > 0 { "*" } else { "" };
            write!(f, "{star}{}", utf8_percent_encode(piece, ENCODED))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, id: &str) -> bool {
        VolumePattern::parse(pattern).unwrap().matches(&id.parse().unwrap())
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, id) in [
            ("hvd.*", "hvd.32044"),
            ("uc2.ark:/13960/*", "uc2.ark:/13960/t8ff3zh99"),
            ("*", "a.1"),
            ("*.*", "a.1"),
            ("a.1", "a.1"),
            ("*.1*3*", "a.1223"),
            ("a.%2A", "a.*"),
            ("bücher.*", "bücher.ä/1"),
            ("b%C3%BCcher.*", "bücher.1"),
            ("a.x%20*", "a.x y"),
        ] {
            assert!(matches(pattern, id), "{pattern} {id}");
        }
        for (pattern, id) in [
            ("hvd.*", "hvdx.1"),
            ("hvd.*", "HVD.1"),
            ("a.1", "a.12"),
            ("a.1*1", "a.1"),
            ("*.1*3*", "a.31"),
            ("a.%2A", "a.1"),
            ("a.?", "a.1"),
            ("a.[0-9]", "a.1"),
            ("u\u{308}*", "ü.1"),
        ] {
            assert!(!matches(pattern, id), "{pattern} {id}");
        }
    }

    #[test]
    fn many_stars_take_no_more_time() {
        let pattern = VolumePattern::parse(&"*a".repeat(400)).unwrap();
        let id: VolumeId = format!("a.{}b", "a".repeat(900)).parse().unwrap();
        // With a choice at each star this would not end.
        assert!(!pattern.matches(&id));
        assert!((0..10_000).all(|_| !pattern.matches(&id)));
    }

    #[test]
    fn a_pattern_that_no_id_can_be_like_is_refused() {
        for text in ["", "hvd", ".", "a.b|c.d", "a|*", "%00*", "a.%", "%zz*", "%FF*"] {
            assert!(VolumePattern::parse(text).is_err(), "{text}");
        }
    }

    /// The same, by its definition.
    fn by_definition(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|from| by_definition(rest, &text[from..])),
            [first, rest @ ..] => text.first() == Some(first) && by_definition(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn matching_is_as_defined(pattern in "[ab.*]{0,7}\\*[ab.*]{0,3}", id in "[ab]\\.[ab.]{1,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &id), by_definition(&chars(&pattern), &chars(&id)));
        }

        #[test]
        fn a_pattern_reads_back_as_it_is_written(pieces in prop::collection::vec("[^|\\p{Cc}]{0,8}", 2..5)) {
            let pattern = VolumePattern { pieces };
            prop_assert_eq!(VolumePattern::parse(&pattern.to_string()).unwrap(), pattern);
        }
    }
}
