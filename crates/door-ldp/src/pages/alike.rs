//! Whether two graphs are the same whatever the labels of their blank nodes, in bounded time. To
//! decide it for every graph takes too long for what strangers send: [`rdf::isomorphic`] may take
//! the factorial of the number of nodes.
//!
//! Each blank node gets a color from its statements, then another one from these and the colors of
//! the nodes beside it, until nothing changes (Weisfeiler and Leman). Graphs with different colors
//! differ. Graphs with the same colors are the same if each color is that of one node, or if no way
//! from node to node leads back to where it began.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use rdf::{BlankNode, Graph, NamedOrBlankNode, Term};

/// Most colors that are computed for a graph, in all rounds together.
const COLORS_MAX: usize = 1_000_000;

/// Whether renaming the blank nodes of one graph turns it into the other; `None`: it would take too
/// long to find out. Their statements without blank nodes are the same.
pub fn alike(one: &Graph, other: &Graph) -> Option<bool> {
    if one == other {
        return Some(true);
    }
    // Its seed is secret, so nobody can make nodes of the same color.
    let hashes = RandomState::new();
    let (mut one, mut other) = (Colored::of(one, &hashes), Colored::of(other, &hashes));
    let (mut computed, mut kinds) = (0, 0);
    loop {
        if one.sorted() != other.sorted() {
            return Some(false);
        }
        // A color depends on the one before, so there are never fewer kinds than before.
        let now = one.kinds();
        if now == kinds {
            break;
        }
        kinds = now;
        computed += one.colors.len() + one.links.len();
        if computed > COLORS_MAX {
            return None;
        }
        one.refine(&hashes);
        other.refine(&hashes);
    }
    let is_each_known = kinds == one.colors.len();
    (is_each_known || (one.is_forest && other.is_forest)).then_some(true)
}

/// The blank nodes of a graph, by numbers.
struct Colored {
    colors: Vec<u64>,
    /// What links them to each other, from both ends.
    links: Vec<Link>,
    /// Whether there is at most one way from a node to another.
    is_forest: bool,
}

/// That a node is linked to another one.
struct Link {
    from: usize,
    /// The hash of the predicate and of the direction.
    by: u64,
    to: usize,
}

impl Colored {
    /// Each node has a color made of its statements without others.
    fn of(graph: &Graph, hashes: &RandomState) -> Self {
        let mut numbers: HashMap<&BlankNode, usize> = HashMap::new();
        let mut number = |node| {
            let next = numbers.len();
            *numbers.entry(node).or_insert(next)
        };
        let (mut colors, mut links, mut trees) = (Vec::new(), Vec::new(), Trees::default());
        for triple in graph {
            let subject = match &triple.subject {
                NamedOrBlankNode::BlankNode(node) => Some(number(node)),
                NamedOrBlankNode::NamedNode(_) => None,
            };
            let object = match &triple.object {
                Term::BlankNode(node) => Some(number(node)),
                Term::NamedNode(_) | Term::Literal(_) => None,
            };
            let predicate = &triple.predicate;
            match (subject, object) {
                (Some(from), Some(to)) => {
                    links.push(Link { from, by: hashes.hash_one((true, predicate)), to });
                    links.push(Link { from: to, by: hashes.hash_one((false, predicate)), to: from });
                    trees.join(from, to);
                }
                (Some(node), None) => add(&mut colors, node, hashes.hash_one((true, predicate, &triple.object))),
                (None, Some(node)) => add(&mut colors, node, hashes.hash_one((false, predicate, &triple.subject))),
                (None, None) => {}
            }
        }
        colors.resize(numbers.len(), 0);
        Self { colors, links, is_forest: trees.are_all }
    }

    /// Gives each node another color, made of its own and of those beside it.
    fn refine(&mut self, hashes: &RandomState) {
        let mut beside = vec![0_u64; self.colors.len()];
        for Link { from, by, to } in &self.links {
            beside[*from] = beside[*from].wrapping_add(hashes.hash_one((by, self.colors[*to])));
        }
        for (color, beside) in self.colors.iter_mut().zip(beside) {
            *color = hashes.hash_one((*color, beside));
        }
    }

    fn sorted(&self) -> Vec<u64> {
        let mut colors = self.colors.clone();
        colors.sort_unstable();
        colors
    }

    /// How many colors there are.
    fn kinds(&self) -> usize {
        let mut colors = self.sorted();
        colors.dedup();
        colors.len()
    }
}

/// Adds a statement to the color of a node. The order of statements does not matter.
fn add(colors: &mut Vec<u64>, node: usize, statement: u64) {
    if node >= colors.len() {
        colors.resize(node + 1, 0);
    }
    colors[node] = colors[node].wrapping_add(statement);
}

/// Which nodes are linked, in one step or in several.
struct Trees {
    /// Another node of the same tree, or the node itself.
    above: Vec<usize>,
    /// Whether no two nodes were linked that were in one tree already.
    are_all: bool,
}

impl Default for Trees {
    fn default() -> Self {
        Self { above: Vec::new(), are_all: true }
    }
}

impl Trees {
    fn join(&mut self, one: usize, other: usize) {
        let known = self.above.len();
        self.above.extend(known..=one.max(other));
        let (one, other) = (self.top(one), self.top(other));
        self.are_all &= one != other;
        self.above[one] = other;
    }

    /// The node by which a tree is known.
    fn top(&mut self, mut node: usize) -> usize {
        while self.above[node] != node {
            self.above[node] = self.above[self.above[node]];
            node = self.above[node];
        }
        node
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use rdf::{Iri, Limits, Syntax};

    use super::*;

    fn graph(turtle: &str) -> Graph {
        let base = Iri::parse("http://example.org/".to_owned()).unwrap();
        rdf::parse(turtle.as_bytes(), Syntax::Turtle, &base, &Limits::default()).unwrap()
    }

    fn compared(one: &str, other: &str) -> Option<bool> {
        alike(&graph(one), &graph(other))
    }

    #[test]
    fn labels_of_nodes_do_not_matter_but_their_connections_do() {
        let people = "<> <by> [ <name> \"A\" ; <role> \"editor\" ], [ <name> \"B\" ; <role> \"author\" ] .";
        let turned = "<> <by> [ <name> \"A\" ; <role> \"author\" ], [ <name> \"B\" ; <role> \"editor\" ] .";
        let ordered = "<> <by> [ <role> \"author\" ; <name> \"B\" ], [ <role> \"editor\" ; <name> \"A\" ] .";
        assert_eq!(compared(people, turned), Some(false));
        assert_eq!(compared(people, ordered), Some(true));
        assert_eq!(compared("_:a <p> _:b . _:b <p> \"x\" .", "_:a <p> _:b . _:a <p> \"x\" ."), Some(false));
        assert_eq!(compared("_:a <p> _:b .", "_:b <p> _:a ."), Some(true));
        assert_eq!(compared("_:a <p> _:a .", "_:a <q> _:a ."), Some(false));
        assert_eq!(compared("<> <p> (1 2 3), [ <q> 1 ] .", "<> <p> [ <q> 1 ], (1 2 3) ."), Some(true));
        assert_eq!(compared("<> <p> (1 2 3) .", "<> <p> (1 3 2) ."), Some(false));
    }

    #[test]
    fn nodes_that_look_alike_are_compared_as_far_as_they_are_in_trees() {
        let twins = "<> <by> [ <name> \"A\" ; <of> [ <p> 1 ] ], [ <name> \"A\" ; <of> [ <p> 1 ] ] .";
        let named = "<> <by> _:x, _:y . _:x <name> \"A\" ; <of> _:v . _:y <name> \"A\" ; <of> _:w .
            _:v <p> 1 . _:w <p> 1 .";
        assert_eq!(compared(twins, named), Some(true));
        let ring = "_:a <p> _:b . _:b <p> _:c . _:c <p> _:d . _:d <p> _:e . _:e <p> _:f . _:f <p> _:a .";
        let two_rings = "_:a <p> _:b . _:b <p> _:c . _:c <p> _:a . _:d <p> _:e . _:e <p> _:f . _:f <p> _:d .";
        assert_eq!(compared(ring, two_rings), None, "they have the same colors");
        let begun = "_:a <p> _:b . _:b <p> _:c . _:c <p> _:a . _:a <q> 1 .";
        let begun_elsewhere = "_:a <p> _:b . _:b <p> _:c . _:c <p> _:a . _:b <q> 1 .";
        assert_eq!(compared(begun, begun_elsewhere), Some(true), "each node has its own color");
        assert_eq!(compared(ring, ring), Some(true), "the labels are the same too");
    }

    #[test]
    fn what_would_take_too_long_is_not_compared() {
        let list = |first: &str| format!("({first} {})", "1 ".repeat(5_000));
        let (long, other) = (list("1"), list("2"));
        let beside = |list: &str| format!("<> <p> {list}, [ <q> 1 ] .");
        let behind = |list: &str| format!("<> <p> [ <q> 1 ], {list} .");
        assert_eq!(compared(&beside(&long), &behind(&long)), None);
        assert_eq!(compared(&beside(&long), &behind(&other)), Some(false));
    }

    proptest! {
        #[test]
        fn what_is_said_is_what_trying_all_names_says(
            one in prop::collection::vec((0_u8..4, 0_u8..2, 0_u8..5), 0..6),
            other in prop::collection::vec((0_u8..4, 0_u8..2, 0_u8..5), 0..6),
            turn in 0_u8..4,
        ) {
            let node = |number: u8| if number == 4 { "1".to_owned() } else { format!("_:n{number}") };
            let written = |links: &[(u8, u8, u8)], turn: u8| {
                let turned = |number: u8| if number < 4 { (number + turn) % 4 } else { number };
                let link = |(from, by, to): &(u8, u8, u8)| {
                    format!("{} <p{by}> {} .", node(turned(*from)), node(turned(*to)))
                };
                graph(&links.iter().map(link).collect::<String>())
            };
            let (first, second) = (written(&one, 0), written(&other, 0));
            if let Some(are_alike) = alike(&first, &second) {
                prop_assert_eq!(are_alike, rdf::isomorphic(&first, &second));
            }
            prop_assert_ne!(alike(&first, &written(&one, turn)), Some(false));
        }
    }
}
