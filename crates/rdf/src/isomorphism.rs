//! Equality of graphs up to the labels of their blank nodes (RDF 1.1 Concepts, section 3.6).

use oxrdf::TermRef;
use oxrdf::dataset::CanonicalizationAlgorithm;

use crate::graph::Graph;

/// Whether renaming the blank nodes of one graph can turn it into the other.
///
/// In the worst case (many indistinguishable blank nodes) the time grows with the factorial of
/// their number. Use this for tests and trusted graphs, not for input from strangers.
#[must_use]
pub fn isomorphic(one: &Graph, other: &Graph) -> bool {
    if one.len() != other.len() {
        return false;
    }
    if !has_blank_nodes(one) {
        return one == other;
    }
    canonical(one) == canonical(other)
}

fn has_blank_nodes(graph: &Graph) -> bool {
    graph.iter().any(|triple| triple.subject.is_blank_node() || TermRef::from(&triple.object).is_blank_node())
}

fn canonical(graph: &Graph) -> oxrdf::Graph {
    let mut graph: oxrdf::Graph = graph.iter().map(|triple| triple.as_ref()).collect();
    graph.canonicalize(CanonicalizationAlgorithm::Unstable);
    graph
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Iri, Limits, Syntax};

    fn graph(turtle: &str) -> Graph {
        let base = Iri::parse("http://example.org/".to_owned()).unwrap();
        crate::parse(turtle.as_bytes(), Syntax::Turtle, &base, &Limits::default()).unwrap()
    }

    #[test]
    fn labels_of_blank_nodes_do_not_matter_but_their_connections_do() {
        let one = graph("_:a <p> _:b . _:b <p> \"x\" .");
        assert!(isomorphic(&one, &graph("_:y <p> \"x\" . _:x <p> _:y .")));
        assert!(!isomorphic(&one, &graph("_:a <p> _:b . _:a <p> \"x\" .")));
        assert!(!isomorphic(&one, &graph("_:a <p> _:b . _:b <p> \"x\" . _:b <p> \"y\" .")));
        assert!(!isomorphic(&one, &graph("<a> <p> <b> . <b> <p> \"x\" .")));
    }

    #[test]
    fn graphs_without_blank_nodes_are_compared_as_sets() {
        assert!(isomorphic(&graph("<a> <p> 1 , 2 ."), &graph("<a> <p> 2 . <a> <p> 1 .")));
        assert!(!isomorphic(&graph("<a> <p> 1 ."), &graph("<a> <p> 01 .")));
    }
}
