//! What evaluating a `WHERE` could cost at most: an upper bound, made from the pattern and from how many triples of the graph fit its
//! parts, before anything is evaluated. It is exact where parts have nothing in common, and too high where they share variables.

use std::collections::HashMap;

use oxrdf::{NamedOrBlankNode, Term, Triple, Variable};
use spargebra::algebra::{AggregateExpression, AggregateFunction, Expression, Function, GraphPattern, OrderExpression};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use super::UpdateError;
use crate::graph::Graph;
use crate::parse::{Limits, longest_term_bytes};

/// Bytes of all values that are computed, together.
const COMPUTED_BYTES: usize = 64 << 20;

/// Triple patterns: the evaluator's search for a good order takes the third power of their number.
const TRIPLE_PATTERNS: usize = 100;

/// Refuses a pattern that could have too many solutions or make too long values, and one that asks for other graphs or servers.
pub(super) fn check(
    pattern: &GraphPattern,
    template_triples: usize,
    graph: &Graph,
    limits: &Limits,
) -> Result<(), UpdateError> {
    let longest_bytes = graph.iter().map(longest_term_bytes).max().unwrap_or(0);
    let mut estimate = Estimate {
        graph,
        term_bytes: longest_bytes.max(1_024),
        computed: HashMap::new(),
        computed_bytes: 0,
        triple_patterns: 0,
    };
    let solutions = estimate.pattern(pattern)?;
    if estimate.triple_patterns > TRIPLE_PATTERNS {
        return Err(UpdateError::TooLarge { of: "triple patterns", limit: TRIPLE_PATTERNS });
    }
    if solutions.saturating_mul(template_triples.max(1)) > limits.solutions {
        return Err(UpdateError::TooLarge { of: "solutions that this WHERE could have", limit: limits.solutions });
    }
    if estimate.computed_bytes > COMPUTED_BYTES {
        return Err(UpdateError::TooLarge { of: "bytes that this WHERE could compute", limit: COMPUTED_BYTES });
    }
    Ok(())
}

/// Upper bounds. Sums and products stay at the greatest number once they are beyond it.
struct Estimate<'a> {
    graph: &'a Graph,
    /// Bytes of a term that is not computed.
    term_bytes: usize,
    /// Bytes of computed values, by variable.
    computed: HashMap<Variable, usize>,
    /// Bytes of all computed values in all solutions.
    computed_bytes: usize,
    /// Triple patterns and paths.
    triple_patterns: usize,
}

/// What an expression costs for each solution.
#[derive(Clone, Copy)]
struct ExpressionCost {
    /// Solutions of the patterns inside, at least 1.
    solutions: usize,
    /// Bytes of the value.
    bytes: usize,
}

impl Estimate<'_> {
    /// Solutions of a pattern and of all that is evaluated for it; at least 1.
    fn pattern(&mut self, pattern: &GraphPattern) -> Result<usize, UpdateError> {
        Ok(match pattern {
            GraphPattern::Bgp { patterns } => {
                self.triple_patterns += patterns.len();
                patterns.iter().map(|pattern| self.matching(pattern).max(1)).fold(1, usize::saturating_mul)
            }
            GraphPattern::Path { .. } => {
                self.triple_patterns += 1;
                // Every two nodes may be connected.
                (2 * self.graph.len() + 2).saturating_pow(2)
            }
            GraphPattern::Join { left, right } | GraphPattern::Minus { left, right } => {
                self.pattern(left)?.saturating_mul(self.pattern(right)?)
            }
            GraphPattern::LeftJoin { left, right, expression } => {
                let pairs = self.pattern(left)?.saturating_mul(self.pattern(right)?);
                match expression {
                    Some(expression) => self.computed(expression, pairs)?.0,
                    None => pairs,
                }
            }
            GraphPattern::Filter { expr, inner } => {
                let solutions = self.pattern(inner)?;
                self.computed(expr, solutions)?.0
            }
            GraphPattern::Union { left, right } => self.pattern(left)?.saturating_add(self.pattern(right)?),
            GraphPattern::Extend { inner, variable, expression } => {
                let solutions = self.pattern(inner)?;
                let (solutions, bytes) = self.computed(expression, solutions)?;
                self.computed.insert(variable.clone(), bytes);
                solutions
            }
            GraphPattern::Values { bindings, .. } => bindings.len().max(1),
            GraphPattern::OrderBy { inner, expression } => {
                let mut solutions = self.pattern(inner)?;
                for OrderExpression::Asc(expression) | OrderExpression::Desc(expression) in expression {
                    solutions = self.computed(expression, solutions)?.0;
                }
                solutions
            }
            GraphPattern::Group { inner, aggregates, .. } => {
                let mut solutions = self.pattern(inner)?;
                for (variable, aggregate) in aggregates {
                    solutions = self.aggregate(variable, aggregate, solutions)?;
                }
                solutions
            }
            GraphPattern::Project { inner, .. }
            | GraphPattern::Distinct { inner }
            | GraphPattern::Reduced { inner }
            | GraphPattern::Slice { inner, .. } => self.pattern(inner)?,
            GraphPattern::Graph { .. } => return Err(UpdateError::NotSupported { operation: "GRAPH" }),
            GraphPattern::Service { .. } => return Err(UpdateError::NotSupported { operation: "SERVICE" }),
        })
    }

    /// An aggregate over at most `solutions`, and the variable that takes its value.
    fn aggregate(
        &mut self,
        variable: &Variable,
        aggregate: &AggregateExpression,
        solutions: usize,
    ) -> Result<usize, UpdateError> {
        let AggregateExpression::FunctionCall { name, expr, .. } = aggregate else { return Ok(solutions) };
        let (evaluated, bytes) = self.computed(expr, solutions)?;
        let bytes = match name {
            AggregateFunction::GroupConcat { separator } => {
                let separator_bytes = separator.as_ref().map_or(1, String::len);
                solutions.saturating_mul(bytes.saturating_add(separator_bytes))
            }
            _ => bytes,
        };
        self.computed_bytes = self.computed_bytes.saturating_add(bytes);
        self.computed.insert(variable.clone(), bytes);
        Ok(evaluated)
    }

    /// Triples of the graph that fit a pattern by themselves.
    fn matching(&self, pattern: &TriplePattern) -> usize {
        self.graph.iter().filter(|triple| fits(pattern, triple)).count()
    }

    /// An expression that is evaluated for each of `solutions`: evaluations including those of patterns inside, and bytes of a value.
    fn computed(&mut self, expression: &Expression, solutions: usize) -> Result<(usize, usize), UpdateError> {
        let cost = self.expression(expression)?;
        let solutions = solutions.saturating_mul(cost.solutions);
        if !is_plain(expression) {
            self.computed_bytes = self.computed_bytes.saturating_add(solutions.saturating_mul(cost.bytes));
        }
        Ok((solutions, cost.bytes))
    }

    fn expression(&mut self, expression: &Expression) -> Result<ExpressionCost, UpdateError> {
        use Expression as E;
        Ok(match expression {
            E::NamedNode(node) => ExpressionCost { solutions: 1, bytes: node.as_str().len() },
            E::Literal(literal) => ExpressionCost { solutions: 1, bytes: literal.value().len() + 64 },
            E::Variable(variable) => ExpressionCost {
                solutions: 1,
                bytes: self.computed.get(variable).copied().unwrap_or(0).max(self.term_bytes),
            },
            E::Bound(_) => ExpressionCost { solutions: 1, bytes: 8 },
            E::Exists(pattern) => ExpressionCost { solutions: self.pattern(pattern)?, bytes: 8 },
            E::FunctionCall(function, arguments) => self.call(function, arguments)?,
            E::UnaryPlus(inner) | E::UnaryMinus(inner) | E::Not(inner) => self.all([inner.as_ref()])?,
            E::Or(left, right)
            | E::And(left, right)
            | E::Equal(left, right)
            | E::SameTerm(left, right)
            | E::Greater(left, right)
            | E::GreaterOrEqual(left, right)
            | E::Less(left, right)
            | E::LessOrEqual(left, right)
            | E::Add(left, right)
            | E::Subtract(left, right)
            | E::Multiply(left, right)
            | E::Divide(left, right) => self.all([left.as_ref(), right.as_ref()])?,
            E::If(condition, one, other) => self.all([condition.as_ref(), one.as_ref(), other.as_ref()])?,
            E::In(value, values) => self.all(std::iter::once(value.as_ref()).chain(values))?,
            E::Coalesce(values) => self.all(values)?,
        })
    }

    /// Patterns inside multiply; a value is at most as long as all that it is made of, and some more for a name of a type.
    fn all<'e>(
        &mut self,
        expressions: impl IntoIterator<Item = &'e Expression>,
    ) -> Result<ExpressionCost, UpdateError> {
        expressions.into_iter().try_fold(ExpressionCost { solutions: 1, bytes: 128 }, |sum, expression| {
            let cost = self.expression(expression)?;
            Ok(ExpressionCost {
                solutions: sum.solutions.saturating_mul(cost.solutions),
                bytes: sum.bytes.saturating_add(cost.bytes),
            })
        })
    }

    fn call(&mut self, function: &Function, arguments: &[Expression]) -> Result<ExpressionCost, UpdateError> {
        let all = self.all(arguments)?;
        let bytes = match (function, arguments) {
            // Each byte can become a replacement, and each reference in it (`$1`) as long as the text.
            (Function::Replace, [text, _, replacement, ..]) => {
                let text_bytes = self.expression(text)?.bytes.saturating_add(1);
                let replacement_bytes = self.expression(replacement)?.bytes.saturating_add(1);
                text_bytes.saturating_mul(replacement_bytes)
            }
            // A byte becomes three; a character in another case can be three.
            (Function::EncodeForUri | Function::UCase | Function::LCase, _) => all.bytes.saturating_mul(3),
            _ => all.bytes,
        };
        Ok(ExpressionCost { bytes, ..all })
    }
}

/// Whether the value of an expression is no longer than what the graph or the update hold anyway.
fn is_plain(expression: &Expression) -> bool {
    !matches!(expression, Expression::FunctionCall(..) | Expression::If(..) | Expression::Coalesce(..))
}

fn fits(pattern: &TriplePattern, triple: &Triple) -> bool {
    let subject = match &pattern.subject {
        TermPattern::NamedNode(node) => matches!(&triple.subject, NamedOrBlankNode::NamedNode(other) if node == other),
        TermPattern::Literal(_) => false,
        TermPattern::BlankNode(_) | TermPattern::Variable(_) => true,
    };
    let predicate = match &pattern.predicate {
        NamedNodePattern::NamedNode(node) => *node == triple.predicate,
        NamedNodePattern::Variable(_) => true,
    };
    let object = match &pattern.object {
        TermPattern::NamedNode(node) => matches!(&triple.object, Term::NamedNode(other) if node == other),
        TermPattern::Literal(literal) => matches!(&triple.object, Term::Literal(other) if literal == other),
        TermPattern::BlankNode(_) | TermPattern::Variable(_) => true,
    };
    subject && predicate && object
}
