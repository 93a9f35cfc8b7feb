//! Turtle. The parser is not recursive, but it keeps the names of everything that is open, and all
//! prefixes. That memory is bounded before.

use oxttl::{TurtleParser, TurtleSyntaxError};

use super::{Collector, Limits, ParseError, with_base};
use crate::Iri;
use crate::tokens::{Declarations, Tokens, count};

/// Reads a document. The full stop of its last statement may be missing.
pub(super) fn parse(body: &str, base: &Iri, graph: &mut Collector) -> Result<(), ParseError> {
    check_iris(body, &graph.limits)?;
    check_depth(body, &graph.limits)?;
    check_declarations(body, base, &graph.limits)?;
    match read(body, base, graph)? {
        None => Ok(()),
        Some(error) if ends_in_a_statement(&error) => {
            graph.clear();
            // If that does not help, the error is that of the original text.
            read(&format!("{body}\n."), base, graph)?.map_or(Ok(()), |_| Err(error.into()))
        }
        Some(error) => Err(error.into()),
    }
}

/// Reads up to a syntax error.
fn read(body: &str, base: &Iri, graph: &mut Collector) -> Result<Option<TurtleSyntaxError>, ParseError> {
    for triple in with_base(TurtleParser::new().with_base_iri(base.as_str()))?.for_slice(body) {
        match triple {
            Ok(triple) => graph.add(triple)?,
            Err(error) => return Ok(Some(error)),
        }
    }
    Ok(None)
}

/// Whether the parser expected more at the end of the text. It reports that only in its message.
fn ends_in_a_statement(error: &TurtleSyntaxError) -> bool {
    ["Unexpected end", "Unexpected end of file", "Triples should be followed by a dot"].contains(&error.message())
}

/// Refuses brackets that are nested too deep.
fn check_depth(body: &str, limits: &Limits) -> Result<(), ParseError> {
    // Most documents have few brackets. Those that cannot be too deep are not examined further.
    let opening = body.bytes().filter(|byte| matches!(byte, b'[' | b'(')).count();
    if opening <= limits.depth {
        return Ok(());
    }
    let mut depth = 0_usize;
    for token in Tokens(body) {
        match token {
            "[" | "(" => depth += 1,
            "]" | ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limits.depth {
            return Err(ParseError::TooLarge { of: "levels of brackets", limit: limits.depth });
        }
    }
    Ok(())
}

/// Refuses bases and prefixes that are too long together. The parser resolves each, whether or not a
/// statement uses it. Their IRIs are not too long one by one.
fn check_declarations(body: &str, base: &Iri, limits: &Limits) -> Result<(), ParseError> {
    // Most documents have few. Those that cannot be too long are not examined further.
    let most = count(body, "prefix") + count(body, "base");
    let longest_bytes = body.len().min(most.saturating_mul(limits.iri_bytes)).saturating_add(base.as_str().len());
    if most.saturating_mul(longest_bytes) <= limits.expanded_bytes {
        return Ok(());
    }
    let mut declarations = Declarations::new(base);
    for token in Tokens(body) {
        declarations.add(token);
        if declarations.all_bytes > limits.expanded_bytes {
            let limit = limits.expanded_bytes;
            return Err(ParseError::TooLarge { of: "bytes once all names are written out", limit });
        }
    }
    Ok(())
}

/// Refuses IRIs that are too long, including those of prefixes: they appear in no statement but in
/// the names that they shorten.
fn check_iris(body: &str, limits: &Limits) -> Result<(), ParseError> {
    if !has_long_word(body.as_bytes(), limits.iri_bytes) {
        return Ok(());
    }
    let mut started = None;
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            b'<' => started = Some(at),
            b'>' | b'"' | b'{' | b'}' | b'|' | b'^' | b'`' | 0..=b' ' => started = None,
            _ => {}
        }
        if started.is_some_and(|start| at - start > limits.iri_bytes) {
            return Err(ParseError::TooLarge { of: "bytes of one IRI", limit: limits.iri_bytes });
        }
    }
    Ok(())
}

/// Whether the text has this many bytes without white space. Most bytes are skipped.
fn has_long_word(body: &[u8], word_bytes: usize) -> bool {
    let mut start = 0;
    while let Some(word) = body.get(start..start + word_bytes) {
        match word.iter().rposition(|byte| *byte <= b' ') {
            Some(at) => start += at + 1,
            None => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn prefixes_and_bases_are_counted_even_if_no_statement_uses_them() {
        let base = Iri::parse("http://example.org/".to_owned()).unwrap();
        let limits = Limits { expanded_bytes: 100_000, ..Limits::default() };
        let check = |body: &str| check_declarations(body, &base, &limits);
        let long = "x".repeat(1_000);
        let many = |count: usize, one: &str| (0..count).map(|n| one.replace("{n}", &n.to_string())).collect::<String>();
        for (head, one) in [
            (format!("@base <http://a/{long}/> ."), "@prefix p{n}:<>."),
            (format!("BASE <http://a/{long}/>\n"), "PREFIX p-{n}: <#{n}>\n"),
            (format!("<a> <b> 1.@base <{long}/>."), "@base <.>.@prefix p: <>."),
            (String::new(), "@base <xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/>."),
        ] {
            let refused = check(&format!("{head}{}", many(150, one)));
            assert!(refused.is_err_and(|error| error.is_too_large()), "{one}");
            assert_eq!(check(&format!("{head}{}", many(20, one))), Ok(()), "{one}");
        }
        // Those in full need no base.
        let usual = many(500, "@prefix p{n}: <http://example.org/{n}#> . p{n}:a p{n}:b <c> .");
        assert_eq!(check(&format!("@base <http://a/{long}/> . {usual}")), Ok(()));
    }
}
