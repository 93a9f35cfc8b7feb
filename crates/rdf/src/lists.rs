//! Lists (RDF 1.1 Schema, section 5.2) that a graph states triple by triple.

use std::collections::{HashMap, HashSet};

use oxrdf::vocab::rdf;
use oxrdf::{BlankNode, NamedOrBlankNode, NamedOrBlankNodeRef, Term, Triple};

use crate::graph::Graph;

/// Deepest nesting of lists, less than the reader accepts.
const DEPTH: usize = 16;

/// The lists of a graph that consist only of their items: all their nodes are blank and have no
/// other triples. They can be written as lists (JSON-LD 1.1, section 4.3) instead of as triples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// The items, by the label of the first node.
    items: HashMap<String, Vec<Term>>,
    /// The labels of all nodes of all of these lists.
    nodes: HashSet<String>,
}

/// The triples of a node that could be part of a list.
#[derive(Default)]
struct Node<'a> {
    first: Option<&'a Term>,
    rest: Option<&'a Term>,
    /// The triple that has the node as its object.
    used_in: Option<&'a Triple>,
    /// Whether the node has any other triple, or one of these twice.
    is_other: bool,
}

impl Lists {
    /// The lists of a graph.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let mut nodes: HashMap<&BlankNode, Node<'_>> = HashMap::new();
        for triple in graph {
            if let NamedOrBlankNode::BlankNode(subject) = &triple.subject {
                let node = nodes.entry(subject).or_default();
                let before = match triple.predicate.as_ref() {
                    predicate if predicate == rdf::FIRST => node.first.replace(&triple.object),
                    predicate if predicate == rdf::REST => node.rest.replace(&triple.object),
                    _ => Some(&triple.object),
                };
                node.is_other |= before.is_some();
            }
            if let Term::BlankNode(object) = &triple.object {
                let node = nodes.entry(object).or_default();
                node.is_other |= node.used_in.replace(triple).is_some();
            }
        }
        // Types are names, also where one is the first node of a list.
        let uses = |triple: &Triple| triple.predicate != rdf::REST && triple.predicate != rdf::TYPE;
        let begins_list = |node: &Node<'_>| node.used_in.is_some_and(uses);
        let mut found: Vec<_> = nodes
            .iter()
            .filter(|(_, node)| begins_list(node))
            .filter_map(|(first, _)| Some((first.as_str(), parts(first, &nodes)?)))
            .collect();
        let beginnings: HashSet<_> = found.iter().map(|(first, _)| *first).collect();
        // Lists without lists inside first, then those that contain them, and so on.
        let mut lists = Self::default();
        for _ in 0..DEPTH {
            let is_known = |item: &Term| match item {
                Term::BlankNode(node) => !beginnings.contains(node.as_str()) || lists.items.contains_key(node.as_str()),
                Term::NamedNode(_) | Term::Literal(_) => true,
            };
            let (known, unknown): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|(_, parts)| parts.iter().all(|(_, item)| is_known(item)));
            for (first, parts) in known {
                lists.nodes.extend(parts.iter().map(|(node, _)| node.as_str().to_owned()));
                lists.items.insert(first.to_owned(), parts.into_iter().map(|(_, item)| item.clone()).collect());
            }
            found = unknown;
        }
        lists
    }

    /// The same lists with other items.
    #[must_use]
    pub fn map(mut self, change: impl Fn(Term) -> Term) -> Self {
        for items in self.items.values_mut() {
            *items = std::mem::take(items).into_iter().map(&change).collect();
        }
        self
    }

    /// The items of the list that begins with a node.
    pub(crate) fn items(&self, node: &str) -> Option<&[Term]> {
        self.items.get(node).map(Vec::as_slice)
    }

    /// Whether the triples of a node are left out.
    pub(crate) fn is_part(&self, node: NamedOrBlankNodeRef<'_>) -> bool {
        matches!(node, NamedOrBlankNodeRef::BlankNode(node) if self.nodes.contains(node.as_str()))
    }
}

/// The nodes of the list that begins with this one, each with its item. `None` if this is not such
/// a list.
fn parts<'a>(first: &'a BlankNode, nodes: &HashMap<&'a BlankNode, Node<'a>>) -> Option<Vec<(&'a BlankNode, &'a Term)>> {
    let mut parts = Vec::new();
    let mut at = first;
    // This is no cycle: each node is the object of one triple, and that of the first node is
    // outside the list.
    loop {
        let node = nodes.get(at).filter(|node| !node.is_other)?;
        parts.push((at, node.first?));
        match node.rest? {
            Term::BlankNode(next) => at = next,
            Term::NamedNode(end) if *end == rdf::NIL => return Some(parts),
            Term::NamedNode(_) | Term::Literal(_) => return None,
        }
    }
}
