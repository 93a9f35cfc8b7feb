//! The stored form of graphs: [canonical
//! N-Triples](https://www.w3.org/TR/n-triples/#canonical-ntriples) in UTF-8, with lines sorted by
//! their bytes. So equal graphs are equal bytes, and all triples of a subject are together.

use std::io::Write as _;

use oxttl::{NTriplesParser, TurtleSyntaxError};

use crate::graph::Graph;

/// Stored bytes that are not a graph. They were changed after they were written.
#[derive(Debug, thiserror::Error)]
#[error("stored graph: {0}")]
pub struct StoredError(#[from] TurtleSyntaxError);

/// The stored form. Blank nodes keep their labels.
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
/// [`StoredError`] if the bytes are not the output of [`to_stored`].
pub fn from_stored(stored: &[u8]) -> Result<Graph, StoredError> {
    let mut graph = Graph::new();
    for triple in NTriplesParser::new().lenient().for_slice(stored) {
        graph.insert(triple?);
    }
    Ok(graph)
}
