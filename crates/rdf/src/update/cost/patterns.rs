//! Solutions of patterns: how many there can be, how many are held, and how long their values are.

use oxrdf::Variable;
use spargebra::algebra::{AggregateExpression, AggregateFunction, Expression, GraphPattern, OrderExpression};
use spargebra::term::{TermPattern, TriplePattern};

use super::terms::{fits, ground_bytes, terms_bytes, text_bytes, variable, verb_bytes, verb_variable};
use super::tree::path_bytes;
use super::{Estimate, TRIPLE_PATTERNS, within};
use crate::update::UpdateError;
use crate::update::meter::Guard;

/// Bytes of a number with its type.
const NUMBER_BYTES: usize = 128;

impl Estimate<'_> {
    /// Solutions of a pattern and of everything that is evaluated for it; at least 1.
    pub(super) fn pattern(&mut self, pattern: &mut GraphPattern) -> Result<usize, UpdateError> {
        // What is read from the graph is read one by one, and can be stopped.
        let is_read = matches!(pattern, GraphPattern::Bgp { .. } | GraphPattern::Path { .. });
        let tree_bytes = self.tree.bytes;
        let solutions = self.solutions(pattern)?;
        self.follow(tree_bytes);
        if !is_read {
            self.steps = self.steps.saturating_add(solutions);
        }
        Ok(solutions)
    }

    fn solutions(&mut self, pattern: &mut GraphPattern) -> Result<usize, UpdateError> {
        Ok(match pattern {
            GraphPattern::Bgp { patterns } => {
                self.add_triple_patterns(patterns.len())?;
                self.leaves += patterns.len().max(1);
                self.tree.add(0);
                let solutions =
                    patterns.iter().map(|pattern| self.matching(pattern).max(1)).fold(1, usize::saturating_mul);
                if patterns.len() > 1 {
                    self.hold(solutions);
                }
                solutions
            }
            GraphPattern::Path { subject, path, object } => {
                self.add_triple_patterns(1)?;
                self.leaves += 1;
                self.tree.add(path_bytes(path).saturating_add(text_bytes(subject) + text_bytes(object)));
                self.nameless += 2;
                for variable in [&*subject, &*object].into_iter().filter_map(variable) {
                    self.takes(variable, self.term_bytes);
                }
                // A path of no steps gives one end to the other.
                self.equal(subject, object);
                self.equal(object, subject);
                // Every two nodes may be connected.
                (2 * self.graph.len() + 2).saturating_pow(2)
            }
            GraphPattern::Join { left, right } => {
                let pairs = self.pattern(left)?.saturating_mul(self.pattern(right)?);
                self.hold(pairs);
                pairs
            }
            GraphPattern::Minus { left, right } => {
                let (left, right) = (self.pattern(left)?, self.pattern(right)?);
                self.hold(right);
                left.saturating_mul(right)
            }
            GraphPattern::LeftJoin { left, right, expression } => {
                let solutions = self.pattern(left)?;
                let leaves = self.leaves;
                let right = self.pattern(right)?;
                self.hold(right);
                let pairs = solutions.saturating_mul(right);
                match expression {
                    Some(expression) => self.filtered(expression, pairs, leaves)?,
                    None => pairs,
                }
            }
            GraphPattern::Filter { expr, inner } => {
                let leaves = self.leaves;
                let solutions = self.pattern(inner)?;
                self.filtered(expr, solutions, leaves)?
            }
            GraphPattern::Union { left, right } => self.pattern(left)?.saturating_add(self.pattern(right)?),
            GraphPattern::Extend { inner, variable, expression } => {
                let solutions = self.pattern(inner)?;
                let (solutions, bytes) = self.computed(expression, solutions)?;
                self.tree.add(variable.as_str().len());
                self.takes(variable, bytes);
                solutions
            }
            GraphPattern::Values { variables, bindings } => {
                self.leaves += 1;
                self.tree.add(0);
                self.name(variables);
                for binding in bindings.iter() {
                    for (variable, term) in variables.iter().zip(binding) {
                        let bytes = term.as_ref().map_or(0, ground_bytes);
                        self.tree.add(bytes);
                        self.takes(variable, bytes);
                    }
                }
                bindings.len().max(1)
            }
            GraphPattern::OrderBy { inner, expression } => {
                let mut solutions = self.pattern(inner)?;
                self.hold(solutions);
                self.nameless += expression.len();
                for OrderExpression::Asc(expression) | OrderExpression::Desc(expression) in expression {
                    solutions = self.computed(expression, solutions)?.0;
                }
                solutions
            }
            GraphPattern::Group { inner, variables, aggregates } => {
                let tree = self.tree;
                self.groups += 1;
                self.deepest_groups = self.deepest_groups.max(self.groups);
                let mut solutions = self.pattern(inner)?;
                self.groups -= 1;
                self.tree.repeat(tree, 2);
                self.name(variables);
                // A group has its key and what each aggregate knows so far.
                self.hold(solutions.saturating_mul(1 + aggregates.len()));
                for (variable, aggregate) in aggregates {
                    solutions = self.aggregate(variable, aggregate, solutions)?;
                }
                solutions
            }
            GraphPattern::Project { inner, variables } => {
                self.name(variables);
                self.pattern(inner)?
            }
            GraphPattern::Distinct { inner } | GraphPattern::Reduced { inner } => {
                let solutions = self.pattern(inner)?;
                self.hold(solutions);
                solutions
            }
            GraphPattern::Slice { inner, .. } => self.pattern(inner)?,
            GraphPattern::Graph { .. } => return Err(UpdateError::NotSupported { operation: "GRAPH" }),
            GraphPattern::Service { .. } => return Err(UpdateError::NotSupported { operation: "SERVICE" }),
        })
    }

    /// An aggregate over at most `solutions`, and the variable that takes its value.
    fn aggregate(
        &mut self,
        variable: &Variable,
        aggregate: &mut AggregateExpression,
        solutions: usize,
    ) -> Result<usize, UpdateError> {
        self.tree.add(variable.as_str().len());
        let AggregateExpression::FunctionCall { name, expr, distinct } = aggregate else {
            self.takes(variable, NUMBER_BYTES);
            return Ok(solutions);
        };
        let (evaluated, bytes) = self.computed(expr, solutions)?;
        let (bytes, separator_bytes) = match name {
            AggregateFunction::Count => (NUMBER_BYTES, 0),
            AggregateFunction::GroupConcat { separator } => {
                let separator_bytes = separator.as_ref().map_or(1, String::len);
                let all = solutions.saturating_mul(bytes.saturating_add(separator_bytes));
                // The gate lets no more pass.
                (all.min(self.limits.expanded_bytes), separator_bytes)
            }
            _ => (bytes, 0),
        };
        // A term that is only counted is shared.
        let is_shared = matches!(expr, Expression::Variable(_)) || !*distinct;
        if !(matches!(name, AggregateFunction::Count) && is_shared) {
            self.tree.add(separator_bytes);
            self.put_gate(expr, Guard::Keep { separator_bytes });
        }
        self.takes(variable, bytes);
        Ok(evaluated)
    }

    fn add_triple_patterns(&mut self, count: usize) -> Result<(), UpdateError> {
        self.triple_patterns += count;
        within(self.triple_patterns, TRIPLE_PATTERNS, "triple patterns")
    }

    /// Variables are named. They have a place in each solution even if they have no value.
    fn name(&mut self, variables: &[Variable]) {
        for variable in variables {
            self.tree.add(variable.as_str().len());
            self.takes(variable, 0);
        }
    }

    /// A term can take the value of another one, which need not be in the graph.
    fn equal(&mut self, term: &TermPattern, other: &TermPattern) {
        if let TermPattern::Variable(variable) = term {
            let bytes = match other {
                TermPattern::Variable(other) => self.values.get(other).copied().unwrap_or_default(),
                other => text_bytes(other),
            };
            self.takes(variable, bytes);
        }
    }

    /// Triples of the graph that match a pattern alone. Its variables take their terms.
    fn matching(&mut self, pattern: &TriplePattern) -> usize {
        let (mut count, mut longest) = (0, [0; 3]);
        for triple in self.graph.iter().filter(|triple| fits(pattern, triple)) {
            count += 1;
            for (longest, bytes) in longest.iter_mut().zip(terms_bytes(triple)) {
                *longest = bytes.max(*longest);
            }
        }
        let TriplePattern { subject, predicate, object } = pattern;
        self.tree.add(text_bytes(subject) + verb_bytes(predicate) + text_bytes(object));
        let is_nameless = |term: &&TermPattern| matches!(term, TermPattern::BlankNode(_));
        self.nameless += [subject, object].into_iter().filter(is_nameless).count();
        let variables = [variable(subject), verb_variable(predicate), variable(object)];
        for (variable, bytes) in variables.into_iter().zip(longest) {
            if let Some(variable) = variable {
                self.takes(variable, bytes);
            }
        }
        count
    }
}
