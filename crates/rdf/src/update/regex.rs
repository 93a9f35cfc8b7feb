//! Regular expressions of an update. The evaluator compiles a pattern again for each solution if it
//! could not compile it before, and cannot be stopped while it matches. So patterns are compiled
//! here first, within a limit, and matched texts are counted (`meter.rs`).

use regex::RegexBuilder;
use spargebra::algebra::Expression;

use super::UpdateError;

/// Bytes of a pattern.
const PATTERN_BYTES: usize = 4 << 10;

/// Limits for a compiled pattern in bytes. The smallest one that suffices bounds the cost of
/// matching.
const COMPILED_BYTES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// Limit for one match, as bytes of the text times bytes of the compiled pattern: a second at
/// worst, usually a hundredth of that.
pub(super) const MATCH: usize = 4 << 30;

/// The same limit for all matches of an update together.
pub(super) const ALL_MATCHES: usize = 10 * MATCH;

/// Characters that can mean something else than themselves.
const OPERATORS: [char; 14] = ['\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$'];

/// Steps for compiling a pattern: for any, and for each of its bytes.
const COMPILE_STEPS: usize = 5_000;
const COMPILE_STEPS_PER_BYTE: usize = 160;

/// Steps for compiling a pattern once.
pub(super) fn compile_steps(pattern: &Expression) -> usize {
    let bytes = text(pattern).map_or(0, str::len);
    COMPILE_STEPS.saturating_add(bytes.saturating_mul(COMPILE_STEPS_PER_BYTE))
}

/// Whether a replacement can search the rest of the text again after each match. A pattern without
/// operators matches texts of its own length only, so that each search ends where its match ends.
pub(super) fn is_searched_again(pattern: &Expression, flags: Option<&Expression>) -> bool {
    let is_quoted = flags.and_then(text).is_some_and(|flags| flags.contains('q'));
    !is_quoted && text(pattern).is_none_or(|pattern| pattern.contains(OPERATORS))
}

/// The text of a string that is written out.
fn text(expression: &Expression) -> Option<&str> {
    match expression {
        Expression::Literal(text) if text.datatype() == oxrdf::vocab::xsd::STRING => Some(text.value()),
        _ => None,
    }
}

/// An upper bound for the bytes of the compiled pattern.
///
/// # Errors
/// [`UpdateError::Pattern`] if the pattern is computed, invalid or too large.
pub(super) fn compiled_bytes(pattern: &Expression, flags: Option<&Expression>) -> Result<usize, UpdateError> {
    let wrong = |why: &str| UpdateError::Pattern { why: why.to_owned() };
    let computed =
        || wrong("it is computed, and would have to be compiled for each solution: write it out as a string");
    let pattern = text(pattern).ok_or_else(computed)?;
    let flags = flags.map_or(Some(""), text).ok_or_else(computed)?;
    if pattern.len() > PATTERN_BYTES {
        return Err(wrong("it is longer than 4096 bytes"));
    }
    let pattern = if flags.contains('q') { regex::escape(pattern) } else { pattern.to_owned() };
    let mut builder = RegexBuilder::new(&pattern);
    for flag in flags.chars() {
        match flag {
            's' => _ = builder.dot_matches_new_line(true),
            'm' => _ = builder.multi_line(true),
            'i' => _ = builder.case_insensitive(true),
            'x' => _ = builder.ignore_whitespace(true),
            'q' => {}
            other => return Err(wrong(&format!("`{other}` is none of the flags s, m, i, x and q"))),
        }
    }
    for bytes in COMPILED_BYTES {
        match builder.size_limit(bytes).build() {
            Ok(_) => return Ok(bytes),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(error) => return Err(wrong(&error.to_string())),
        }
    }
    Err(wrong("it is too large once it is compiled: repeat less"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use oxrdf::{Literal, Variable};

    use super::*;

    fn literal(text: &str) -> Expression {
        Expression::Literal(Literal::new_simple_literal(text))
    }

    fn size(pattern: &str, flags: &str) -> Result<usize, UpdateError> {
        compiled_bytes(&literal(pattern), Some(&literal(flags)))
    }

    #[test]
    fn usual_patterns_are_accepted() {
        for pattern in [
            "^a",
            "old",
            "^https?://",
            r"^\w+@\w+\.\w+$",
            r"\d{4}-\d{2}-\d{2}",
            r"^(\p{L}+) (\p{L}+)$",
            "a|b|c",
            "(?i)x",
            "",
        ] {
            assert!(size(pattern, "i").is_ok(), "{pattern}: {:?}", size(pattern, "i"));
        }
        assert_eq!(size("((((", "q"), Ok(4 << 10));
        assert_eq!(compiled_bytes(&literal("a"), None), Ok(4 << 10));
    }

    #[test]
    fn computed_invalid_and_too_large_patterns_are_refused() {
        for (pattern, flags, why) in [
            (r"(\p{L}{100}){100}", "", "too large"),
            ("((a{100}){100}){100}", "", "too large"),
            ("((((", "", "regex parse error"),
            ("a", "z", "none of the flags"),
            (&"a".repeat(5_000), "", "longer than"),
        ] {
            let error = size(pattern, flags).unwrap_err().to_string();
            assert!(error.contains(why), "{pattern}: {error}");
        }
        let variable = Expression::Variable(Variable::new("x").unwrap());
        assert!(compiled_bytes(&variable, None).unwrap_err().to_string().contains("computed"));
        assert!(compiled_bytes(&literal("a"), Some(&variable)).is_err());
    }

    #[test]
    fn only_patterns_with_operators_are_searched_again() {
        let is_searched_again = |pattern, flags| is_searched_again(&literal(pattern), Some(&literal(flags)));
        assert!(!is_searched_again("http://old", ""));
        assert!(!is_searched_again("a.b*", "q"));
        assert!(is_searched_again("a.*b|a", "i"));
        assert!(super::is_searched_again(&literal("x$"), None));
    }

    #[test]
    fn a_longer_pattern_costs_more_to_compile() {
        assert_eq!(compile_steps(&literal(&"x".repeat(1_000))), 165_000);
    }
}
