//! What an operation writes for each solution.

use std::collections::HashSet;

use oxrdf::Variable;
use spargebra::term::{GroundQuadPattern, QuadPattern};

use super::terms::{ground_variable, variable, verb_variable};

/// The templates of `DELETE` and `INSERT`.
pub(in crate::update) struct Templates<'a> {
    pub(in crate::update) delete: &'a [GroundQuadPattern],
    pub(in crate::update) insert: &'a [QuadPattern],
}

impl Templates<'_> {
    /// The number of their triples.
    pub(super) fn triples(&self) -> usize {
        self.delete.len() + self.insert.len()
    }

    /// Their variables, as often as they are in them.
    pub(super) fn variables(&self) -> impl Iterator<Item = &Variable> {
        let deleted = self.delete.iter().flat_map(|GroundQuadPattern { subject, predicate, object, .. }| {
            [ground_variable(subject), verb_variable(predicate), ground_variable(object)]
        });
        let inserted = self.insert.iter().flat_map(|QuadPattern { subject, predicate, object, .. }| {
            [variable(subject), verb_variable(predicate), variable(object)]
        });
        deleted.chain(inserted).flatten()
    }

    /// Their variables, each once.
    pub(in crate::update) fn distinct(&self) -> HashSet<&Variable> {
        self.variables().collect()
    }

    /// Names that are compared to fill them for one solution, at most: the evaluator finds each value
    /// by comparing the name of its variable with all of them.
    pub(super) fn compared_names(&self) -> usize {
        self.variables().count().saturating_mul(self.distinct().len())
    }
}
