//! Texts with `*`, which stands for any text.

/// A text to compare with, in which `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    /// The texts between the stars. There is at least one; a single one means that there is no
    /// star.
    parts: Vec<String>,
}

impl Glob {
    /// Parses a text. There is no way to write a star that stands for itself.
    pub fn parse(text: &str) -> Self {
        let mut parts: Vec<String> = text.split('*').map(str::to_owned).collect();
        // Several stars in a row mean the same as one.
        let last = parts.len() - 1;
        let mut at = 0;
        parts.retain(|part| {
            at += 1;
            !part.is_empty() || at == 1 || at == last + 1
        });
        Self { parts }
    }

    /// The text, if there is no star in it.
    pub fn literal(&self) -> Option<&str> {
        match &self.parts[..] {
            [text] => Some(text),
            _ => None,
        }
    }

    /// What every matching text begins with.
    pub fn prefix(&self) -> &str {
        &self.parts[0]
    }

    /// Whether every text matches.
    pub fn is_any(&self) -> bool {
        self.parts.len() > 1 && self.parts.iter().all(String::is_empty)
    }

    /// The number of stars.
    pub fn stars(&self) -> usize {
        self.parts.len() - 1
    }

    /// Whether a text matches. Takes time in proportion to the lengths of both, because the first
    /// place at which a part is found is as good as any later one.
    pub fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = &self.parts[..] else { return self.parts[0] == text };
        let Some(rest) = text.strip_prefix(first.as_str()) else { return false };
        let Some(mut rest) = rest.strip_suffix(last.as_str()) else { return false };
        for part in middle {
            let Some(at) = rest.find(part.as_str()) else { return false };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, letter by letter.
    fn by_definition(glob: &[u8], text: &[u8]) -> bool {
        match (glob, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                by_definition(rest, text) || (!text.is_empty() && by_definition(glob, &text[1..]))
            }
            ([one, glob @ ..], [other, text @ ..]) => one == other && by_definition(glob, text),
            _ => false,
        }
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (glob, text, matches) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("a*", "abc", true),
            ("*", "", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*/x*", "a/xb", true),
            ("a**b", "ab", true),
            (".*", "a", false),
            ("[a-z]", "a", false),
        ] {
            assert_eq!(Glob::parse(glob).matches(text), matches, "{glob} {text}");
        }
        assert!(Glob::parse("**").is_any() && !Glob::parse("").is_any() && !Glob::parse("*a").is_any());
        assert_eq!((Glob::parse("a*b").prefix(), Glob::parse("a*b").literal()), ("a", None));
        assert_eq!(Glob::parse("***").stars(), 1);
    }

    #[test]
    fn a_long_glob_takes_no_long_time() {
        let (glob, text) = (Glob::parse(&"a*".repeat(2_000)), "a".repeat(100_000) + "b");
        assert!(glob.matches(&text));
        assert!(!Glob::parse(&("*a".repeat(2_000) + "c")).matches(&text));
    }

    proptest! {
        #[test]
        fn a_glob_matches_by_the_definition(glob in "[ab*]{0,8}", text in "[ab]{0,10}") {
            prop_assert_eq!(Glob::parse(&glob).matches(&text), by_definition(glob.as_bytes(), text.as_bytes()));
        }
    }
}
