//! Patterns of names, as Redis has them: `*`, `?`, `[a-z]`, `[^a]`, `\x`.
//!
//! A pattern is compiled once. All ways in which it can match are followed at the same time, as bits:
//! so the time for a name is at most a few operations for each 64 elements of the pattern and each
//! byte of the name, however many stars there are and however long a set is.

use thiserror::Error;

/// The longest pattern in bytes. No id is longer.
const PATTERN_BYTES_MAX: usize = records::ID_BYTES_MAX;

/// Places of a pattern in one word.
const WORD_BITS: usize = u64::BITS as usize;

/// Words for the places before each element of the longest pattern, and behind the last one.
const WORDS_MAX: usize = PATTERN_BYTES_MAX / WORD_BITS + 1;

/// A pattern is longer than [`PATTERN_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a pattern has at most {PATTERN_BYTES_MAX} bytes, not {0}")]
pub(crate) struct LongPattern(usize);

/// A pattern. A place is the number of the elements before it, stars not counted.
pub(crate) struct Pattern {
    words: Vec<Word>,
    /// The place behind the last element.
    end: usize,
}

/// 64 places of a pattern, each a bit.
struct Word {
    /// For each byte the places whose element matches it.
    moves: [u64; 256],
    /// The places with a star before the element, which matches any byte.
    stays: u64,
}

impl Word {
    const EMPTY: Self = Self { moves: [0; 256], stays: 0 };
}

impl Pattern {
    /// Compiles a pattern.
    pub(crate) fn new(pattern: &[u8]) -> Result<Self, LongPattern> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(LongPattern(pattern.len()));
        }
        let mut compiled = Self { words: vec![Word::EMPTY], end: 0 };
        let mut rest = pattern;
        while let Some((first, behind)) = rest.split_first() {
            let (set, behind) = match (*first, behind) {
                (b'*', _) => {
                    compiled.words[compiled.end / WORD_BITS].stays |= 1_u64 << (compiled.end % WORD_BITS);
                    rest = behind;
                    continue;
                }
                (b'?', _) => ([true; 256], behind),
                (b'\\', [escaped, behind @ ..]) => (only(*escaped), behind),
                (b'[', _) => set_of(behind),
                (literal, _) => (only(literal), behind),
            };
            compiled.push(&set);
            rest = behind;
        }
        Ok(compiled)
    }

    /// Adds an element that matches the bytes of a set.
    fn push(&mut self, set: &[bool; 256]) {
        let bit = 1_u64 << (self.end % WORD_BITS);
        let moves = self.words[self.end / WORD_BITS].moves.iter_mut();
        moves.zip(set).filter(|(_, is_in)| **is_in).for_each(|(moves, _)| *moves |= bit);
        self.end += 1;
        if self.end.is_multiple_of(WORD_BITS) {
            self.words.push(Word::EMPTY);
        }
    }

    /// Whether a name matches.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        let mut places = [0_u64; WORDS_MAX];
        places[0] = 1;
        for byte in name {
            let (mut carry, mut any) = (0, 0);
            for (places, word) in places.iter_mut().zip(&self.words) {
                let moving = *places & word.moves[usize::from(*byte)];
                *places = (moving << 1) | carry | (*places & word.stays);
                carry = moving >> (WORD_BITS - 1);
                any |= *places;
            }
            if any == 0 {
                return false;
            }
        }
        (places[self.end / WORD_BITS] >> (self.end % WORD_BITS)) & 1 == 1
    }
}

/// The set of one byte.
fn only(byte: u8) -> [bool; 256] {
    let mut set = [false; 256];
    set[usize::from(byte)] = true;
    set
}

/// The set that begins behind a `[`, and what is behind it. It ends with the first `]` that is no end
/// of a range, or with the pattern.
fn set_of(text: &[u8]) -> ([bool; 256], &[u8]) {
    let (mut rest, is_negated) = match text {
        [b'^', rest @ ..] => (rest, true),
        rest => (rest, false),
    };
    let mut set = [false; 256];
    loop {
        rest = match rest {
            [] => break,
            [b'\\', escaped, behind @ ..] => {
                set[usize::from(*escaped)] = true;
                behind
            }
            [b']', behind @ ..] => {
                rest = behind;
                break;
            }
            [from, b'-', to, behind @ ..] => {
                let (least, greatest) = (*from.min(to), *from.max(to));
                set[usize::from(least)..=usize::from(greatest)].fill(true);
                behind
            }
            [one, behind @ ..] => {
                set[usize::from(*one)] = true;
                behind
            }
        };
    }
    if is_negated {
        set = set.map(|is_in| !is_in);
    }
    (set, rest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn matches(pattern: &[u8], name: &[u8]) -> bool {
        Pattern::new(pattern).unwrap().matches(name)
    }

    #[test]
    fn names_match_as_in_redis() {
        for (pattern, name, is_match) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c*", "abcd", true),
            ("a**d", "abcd", true),
            ("*b*d", "abcbd", true),
            ("*b*d", "abcbdb", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[ab]c", "bc", true),
            ("[^ab]c", "bc", false),
            ("[^ab]c", "cc", true),
            ("[a-c]x", "bx", true),
            ("[c-a]x", "bx", true),
            ("[a-c]x", "dx", false),
            // A range may end with what would end the set.
            ("[a-]", "-", false),
            ("[a-]", "^", true),
            ("[a-]", "]", true),
            ("[a-]x]y", "xy", true),
            ("[-a]", "-", true),
            ("[a\\-]", "-", true),
            ("[\\]]x", "]x", true),
            ("[]x", "x", false),
            ("[^]x", "ax", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
            ("abc", "ab", false),
            ("abc", "abcd", false),
            ("[", "a", false),
            ("[^", "a", true),
            ("[a", "a", true),
            ("[a\\", "\\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), is_match, "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_may_be_as_long_as_ids_and_no_longer() {
        let letters: Vec<u8> = (b'a'..=b'z').cycle().take(PATTERN_BYTES_MAX).collect();
        for length in [63, 64, 65, 127, 128, PATTERN_BYTES_MAX - 1, PATTERN_BYTES_MAX] {
            let (name, short) = (&letters[..length], &letters[..length - 1]);
            assert!(matches(name, name), "{length}");
            assert!(!matches(name, short), "{length}");
            assert!(matches(&[b"*", short].concat(), &[b"abc", short].concat()), "{length}");
            assert!(!matches(&b"?".repeat(length), short), "{length}");
        }
        let error = Pattern::new(&[b'a'; PATTERN_BYTES_MAX + 1]).err();
        assert_eq!(error, Some(LongPattern(PATTERN_BYTES_MAX + 1)));
    }

    /// With backtracking each byte of these names would be compared with each element again.
    #[test]
    fn many_stars_and_long_sets_do_not_take_long() {
        let name = b"a".repeat(1 << 16);
        assert!(!matches(&b"*a".repeat(512), &name[..511]));
        for pattern in [b"*a".repeat(511), b"*".repeat(1_000), [b"*", &b"a".repeat(1_000)[..]].concat()] {
            assert!(matches(&pattern, &name));
            assert!(!matches(&[&pattern[..], b"b"].concat(), &name));
        }
        assert!(!matches(&[b"*[", &b"a".repeat(1_000)[..], b"]b"].concat(), &name));
    }
}
