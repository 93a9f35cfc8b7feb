//! The form in which graphs are kept: [canonical N-Triples](https://www.w3.org/TR/n-triples/#canonical-ntriples) in UTF-8, lines
//! sorted by their bytes, so that equal graphs are equal bytes and all triples of a subject stand together.

use std::io::Write as _;

use oxttl::{NTriplesParser, TurtleSyntaxError};

use crate::graph::Graph;

/// Stored bytes that are not a graph: they were changed after they were written.
#[derive(Debug, thiserror::Error)]
#[error("stored graph: {0}")]
pub struct StoredError(#[from] TurtleSyntaxError);

/// The stored form. Labels of blank nodes are kept as they are.
#[must_use]
pub fn to_stored(graph: &Graph) -> Vec<u8> {
    let mut text = Vec::with_capacity(graph.len() * 128);
    let mut lines = Vec::with_capacity(graph.len());
    for triple in graph {
        let start = text.len();
        // Writing into memory does not fail.
        let _ = writeln!(text, "{triple} .");
        lines.push(start..text.len());
    }
    lines.sort_unstable_by(|one, other| text[one.clone()].cmp(&text[other.clone()]));
    let mut sorted = Vec::with_capacity(text.len());
    lines.into_iter().for_each(|line| sorted.extend_from_slice(&text[line]));
    sorted
}

/// The graph of stored bytes, its triples in their order.
///
/// # Errors
/// [`StoredError`]: the bytes are not what [`to_stored`] makes.
pub fn from_stored(stored: &[u8]) -> Result<Graph, StoredError> {
    let mut graph = Graph::new();
    for triple in NTriplesParser::new().lenient().for_slice(stored) {
        graph.insert(triple?);
    }
    Ok(graph)
}
