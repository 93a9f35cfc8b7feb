//! Graphs.

use indexmap::IndexSet;
use oxrdf::{NamedNodeRef, NamedOrBlankNodeRef, Term, Triple};

/// A set of triples that keeps their order of insertion. Equality is that of sets. Blank nodes are
/// equal if their labels are; for equality up to labels use [`crate::isomorphic`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    triples: IndexSet<Triple>,
}

impl Graph {
    /// A graph without triples.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of triples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.triples.len()
    }

    /// Whether there is no triple.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.triples.is_empty()
    }

    /// Whether the triple is in the graph.
    #[must_use]
    pub fn contains(&self, triple: &Triple) -> bool {
        self.triples.contains(triple)
    }

    /// Adds a triple. Returns whether it is new.
    pub fn insert(&mut self, triple: Triple) -> bool {
        self.triples.insert(triple)
    }

    /// Removes a triple, in time proportional to the graph. Returns whether the graph contained it.
    /// For many triples use [`Graph::retain`].
    pub fn remove(&mut self, triple: &Triple) -> bool {
        self.triples.shift_remove(triple)
    }

    /// Keeps only triples for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&Triple) -> bool) {
        self.triples.retain(keep);
    }

    /// The triples, in order of insertion.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Triple> {
        self.triples.iter()
    }

    /// Objects of the triples with this subject and this predicate.
    pub fn objects<'a>(
        &'a self,
        subject: NamedOrBlankNodeRef<'a>,
        predicate: NamedNodeRef<'a>,
    ) -> impl Iterator<Item = &'a Term> {
        let fits = move |triple: &&Triple| triple.subject.as_ref() == subject && triple.predicate.as_ref() == predicate;
        self.triples.iter().filter(fits).map(|triple| &triple.object)
    }
}

impl FromIterator<Triple> for Graph {
    fn from_iter<I: IntoIterator<Item = Triple>>(triples: I) -> Self {
        Self { triples: triples.into_iter().collect() }
    }
}

impl Extend<Triple> for Graph {
    fn extend<I: IntoIterator<Item = Triple>>(&mut self, triples: I) {
        self.triples.extend(triples);
    }
}

impl IntoIterator for Graph {
    type Item = Triple;
    type IntoIter = indexmap::set::IntoIter<Triple>;

    fn into_iter(self) -> Self::IntoIter {
        self.triples.into_iter()
    }
}

impl<'a> IntoIterator for &'a Graph {
    type Item = &'a Triple;
    type IntoIter = indexmap::set::Iter<'a, Triple>;

    fn into_iter(self) -> Self::IntoIter {
        self.triples.iter()
    }
}
