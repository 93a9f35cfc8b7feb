//! Patterns of names, as Redis has them: `*`, `?`, `[a-z]`, `[^a]`, `\x`.

/// Whether a name matches a pattern. The time is at most the product of the lengths.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut here) = (0, 0);
    // Behind the last star, and the place of the name where it was tried.
    let mut star = None;
    while here < name.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, here));
            continue;
        }
        if let Some(length) = one_matches(&pattern[at..], name[here]) {
            (at, here) = (at + length, here + 1);
        } else if let Some((behind, tried)) = star {
            star = Some((behind, tried + 1));
            (at, here) = (behind, tried + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The length of the pattern's first element, if it matches a byte.
fn one_matches(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', set @ ..] => {
            let (set, negated) = match set {
                [b'^', set @ ..] => (set, 1),
                set => (set, 0),
            };
            let (mut at, mut found) = (0, false);
            while at < set.len() && set[at] != b']' {
                match &set[at..] {
                    [b'\\', escaped, ..] => (found, at) = (found || *escaped == byte, at + 2),
                    [from, b'-', to, ..] if *to != b']' => {
                        let (least, greatest) = (from.min(to), from.max(to));
                        (found, at) = (found || (least..=greatest).contains(&&byte), at + 3);
                    }
                    [one, ..] => (found, at) = (found || *one == byte, at + 1),
                    [] => break,
                }
            }
            (found != (negated == 1)).then_some(1 + negated + (at + 1).min(set.len()))
        }
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_redis() {
        for (pattern, name, is_match) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c*", "abcd", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[ab]c", "bc", true),
            ("[^ab]c", "bc", false),
            ("[a-c]x", "bx", true),
            ("[c-a]x", "bx", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("abc", "ab", false),
            ("[", "a", false),
            ("[a", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), is_match, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_do_not_take_long() {
        assert!(!matches(&b"*a".repeat(500), &b"a".repeat(499)));
    }
}
