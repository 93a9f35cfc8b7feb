//! Whether an answer is the graph that a check wants.
//!
//! `isomorphism.rs` compares graphs with bounded work. This reads them, within limits.

mod isomorphism;

use std::collections::HashSet;

use bytes::Bytes;
use oxrdf::Triple;
use oxttl::TurtleParser;

/// The most bytes of a graph, the most of them when all names are written out, and the most statements.
const BYTES_MAX: usize = 8 << 20;
const EXPANDED_BYTES_MAX: usize = 64 << 20;
const STATEMENTS_MAX: usize = 100_000;

/// A comparison that is still to be made: on a thread that is not the one of the load.
#[derive(Debug)]
pub struct Comparison {
    /// The graph that is wanted, as Turtle.
    pub wanted: String,
    /// The body of the answer.
    pub body: Bytes,
    /// Whether the answer calls itself Turtle or N-Triples.
    pub is_turtle: bool,
    /// Where relative references of both begin: the address of the request.
    pub base: String,
}

impl Comparison {
    /// Compares. The error is the kind of the failure.
    pub fn compare(&self) -> Result<(), &'static str> {
        if !self.is_turtle {
            return Err("check: isomorphic_to: no Turtle and no N-Triples");
        }
        let wanted =
            graph(self.wanted.as_bytes(), &self.base).map_err(|_| "check: isomorphic_to: the file is no graph")?;
        let found = graph(&self.body, &self.base)?;
        match isomorphism::isomorphic(&wanted, &found, isomorphism::WORK_MAX) {
            Ok(true) => Ok(()),
            Ok(false) => Err("check: isomorphic_to"),
            Err(isomorphism::Undecided) => Err("check: isomorphic_to: too much work"),
        }
    }
}

/// Reads a graph.
fn graph(turtle: &[u8], base: &str) -> Result<HashSet<Triple>, &'static str> {
    if turtle.len() > BYTES_MAX {
        return Err("check: isomorphic_to: more than 8 MiB");
    }
    let parser = TurtleParser::new().with_base_iri(base).map_err(|_| "check: isomorphic_to: no base")?;
    let (mut graph, mut bytes) = (HashSet::new(), 0);
    for triple in parser.for_slice(turtle) {
        let triple = triple.map_err(|_| "check: isomorphic_to: malformed")?;
        // A short prefix may stand for a long name, again and again.
        bytes += triple.subject.to_string().len() + triple.predicate.as_str().len() + triple.object.to_string().len();
        graph.insert(triple);
        if bytes > EXPANDED_BYTES_MAX || graph.len() > STATEMENTS_MAX {
            return Err("check: isomorphic_to: too many statements");
        }
    }
    Ok(graph)
}

/// Whether a text is a graph, for the check of a scenario.
pub(crate) fn is_graph(turtle: &str) -> Result<(), &'static str> {
    graph(turtle.as_bytes(), "http://candidate/").map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fmt::Write;

    use super::*;

    fn compare(wanted: &str, found: &str) -> Result<(), &'static str> {
        let (wanted, body) = (wanted.to_owned(), Bytes::from(found.to_owned()));
        Comparison { wanted, body, is_turtle: true, base: "http://candidate/rest/a".to_owned() }.compare()
    }

    #[test]
    fn labels_order_and_prefixes_do_not_matter_but_connections_do() {
        let one = "@prefix p: <http://p/> . <> p:a [ p:b [ p:c 1 ] ; p:b \"x\"@de ] .";
        let same = "_:x <http://p/b> \"x\"@de . _:y <http://p/c> 1 . _:x <http://p/b> _:y . \
                    <http://candidate/rest/a> <http://p/a> _:x .";
        assert_eq!(compare(one, same), Ok(()));
        let different = Err("check: isomorphic_to");
        assert_eq!(compare(one, &same.replace("_:y <http://p/c> 1", "_:x <http://p/c> 1")), different);
        assert_eq!(compare(one, &same.replace("\"x\"@de", "\"x\"@en")), different);
        assert_eq!(compare(one, &format!("{same} _:z <http://p/c> 1 .")), different);
        assert_eq!(compare("<> <http://p/a> 1 .", "<> <http://p/a> 01 ."), different);
        assert_eq!(
            compare("<> <http://p/a> <b> .", "<http://candidate/rest/a> <http://p/a> <http://candidate/rest/b> ."),
            Ok(())
        );
    }

    #[test]
    fn nodes_that_look_the_same_are_paired() {
        let many = |label: &str| {
            let mut graph = String::new();
            (0..200).for_each(|number| {
                writeln!(graph, "<> <http://p/a> _:{label}{number} . _:{label}{number} <http://p/b> 1 .").unwrap()
            });
            graph
        };
        assert_eq!(compare(&many("x"), &many("y")), Ok(()));
        // Two rings of three are no ring of six, though all nodes look the same.
        let ring = |nodes: &[&str]| {
            let next = nodes.iter().skip(1).chain(nodes.first());
            nodes.iter().zip(next).map(|(one, next)| format!("_:{one} <http://p/n> _:{next} .\n")).collect::<String>()
        };
        let six = ring(&["a", "b", "c", "d", "e", "f"]);
        assert_eq!(compare(&six, &ring(&["f", "d", "b", "a", "c", "e"])), Ok(()));
        let two = ring(&["a", "b", "c"]) + &ring(&["d", "e", "f"]);
        assert_eq!(compare(&six, &two), Err("check: isomorphic_to"));
    }

    #[test]
    fn a_hostile_answer_is_given_up_with_bounded_work() {
        // Strongly regular: no colour distinguishes these nodes, and there are many of them.
        let grid = |label: &str, size: usize, shift: usize| {
            let mut graph = String::new();
            let cells = (0..size).flat_map(|row| (0..size).map(move |column| (row, column)));
            for ((row, column), (other_row, other_column)) in
                cells.clone().flat_map(|cell| cells.clone().map(move |other| (cell, other)))
            {
                let value = |row: usize, column: usize| (row * shift + column) % size;
                let is_joined =
                    row == other_row || column == other_column || value(row, column) == value(other_row, other_column);
                if is_joined && (row, column) != (other_row, other_column) {
                    writeln!(graph, "_:{label}{row}x{column} <http://p/n> _:{label}{other_row}x{other_column} .")
                        .unwrap();
                }
            }
            graph
        };
        let parsed = |text: String| graph(text.as_bytes(), "http://candidate/").unwrap();
        let (one, other) = (parsed(grid("a", 8, 1)), parsed(grid("b", 8, 3)));
        let compared = isomorphism::isomorphic(&one, &other, 10_000);
        assert_eq!(compared, Err(isomorphism::Undecided));
    }

    #[test]
    fn what_is_no_graph_or_too_large_is_refused() {
        assert_eq!(compare("", "<a> <b>"), Err("check: isomorphic_to: malformed"));
        let prefix = format!("@prefix p: <http://p/{}> .\n", "x".repeat(1 << 20));
        let bomb: String = (0..1_000).map(|number| format!("<{number}> p:a p:b .\n")).collect();
        assert_eq!(compare("", &(prefix + &bomb)), Err("check: isomorphic_to: too many statements"));
        assert_eq!(compare("", &" ".repeat(BYTES_MAX + 1)), Err("check: isomorphic_to: more than 8 MiB"));
        let other =
            Comparison { wanted: String::new(), body: Bytes::new(), is_turtle: false, base: "http://a/".to_owned() };
        assert!(other.compare().is_err());
    }
}
