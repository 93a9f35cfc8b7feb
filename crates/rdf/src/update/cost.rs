//! An upper bound for the cost of evaluating a `WHERE`, computed before evaluation from the pattern
//! and from how many triples match its parts. It is exact if parts have no common variables, and
//! too high if they have.
//!
//! The evaluator can be stopped only when it reads the graph. So all its other work is bounded to
//! about a second.

use std::collections::HashMap;

use oxrdf::{Literal, NamedNode, NamedOrBlankNode, Term, Triple, Variable};
use spargebra::algebra::{AggregateExpression, AggregateFunction, Expression, Function, GraphPattern, OrderExpression};
use spargebra::term::{GroundTerm, NamedNodePattern, TermPattern, TriplePattern};

use super::{UpdateError, regex};
use crate::graph::Graph;
use crate::parse::{Limits, Size};

/// Bytes of all values that are computed, together.
const COMPUTED_BYTES: usize = 64 << 20;

/// Functions that only inspect their arguments cost this fraction per byte of what others cost.
const LOOKED_AT: usize = 16;

/// Most triple patterns, because the evaluator's search for a good order costs the third power of
/// their number.
const TRIPLE_PATTERNS: usize = 100;

/// Steps for compiling a regular expression.
const COMPILE_STEPS: usize = 5_000;

/// Triples that one step can examine.
const TRIPLES_PER_STEP: usize = 10;

/// Bytes that one step can copy or hash.
const BYTES_PER_STEP: usize = 1_024;

/// Reads of the graph that are allowed for each step.
const READS_PER_STEP: usize = 10;

/// The budget left to all operations of an update together: as many steps as solutions are allowed.
/// A step is the work for one solution, or one part of an expression. None takes more than about a
/// microsecond.
pub(super) struct Budget {
    steps: usize,
    max_steps: usize,
    /// Reads of the graph, which can be stopped.
    pub(super) reads: usize,
}

impl Budget {
    pub(super) fn new(limits: &Limits) -> Self {
        let reads = limits.solutions.saturating_mul(READS_PER_STEP);
        Self { steps: limits.solutions, max_steps: limits.solutions, reads }
    }

    /// Takes the cost of copying and scanning a graph.
    pub(super) fn take_graph(&mut self, graph: &Graph) -> Result<(), UpdateError> {
        let bytes: usize = graph.iter().map(|triple| Size::of(triple).all).sum();
        self.take(graph.len() / TRIPLES_PER_STEP + bytes / BYTES_PER_STEP)
    }

    fn take(&mut self, steps: usize) -> Result<(), UpdateError> {
        let too_large = UpdateError::TooLarge { of: "steps that this update could take", limit: self.max_steps };
        self.steps = self.steps.checked_sub(steps).ok_or(too_large)?;
        Ok(())
    }
}

/// A function that every text passes before it is matched.
#[derive(Debug)]
pub(super) struct Gate {
    /// Its name.
    pub(super) name: NamedNode,
    /// Bytes of the compiled pattern.
    pub(super) compiled_bytes: usize,
}

/// Refuses a pattern that could have too many solutions or build too long values, or that names
/// other graphs or servers. Puts a gate before each text that is matched.
pub(super) fn check(
    pattern: &mut GraphPattern,
    template_triples: usize,
    graph: &Graph,
    limits: &Limits,
    budget: &mut Budget,
) -> Result<Vec<Gate>, UpdateError> {
    budget.take_graph(graph)?;
    let longest_bytes = graph.iter().map(|triple| Size::of(triple).longest()).max().unwrap_or(0);
    let mut estimate = Estimate {
        graph,
        term_bytes: longest_bytes.max(1_024),
        computed: HashMap::new(),
        computed_bytes: 0,
        triple_patterns: 0,
        steps: 0,
        gates: Vec::new(),
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
    budget.take(estimate.steps)?;
    Ok(estimate.gates)
}

/// Upper bounds. Sums and products saturate.
struct Estimate<'a> {
    graph: &'a Graph,
    /// Bytes of a term of the graph.
    term_bytes: usize,
    /// Bytes of values that are computed or that the update brings, by variable: the longest of
    /// all branches that give it one.
    computed: HashMap<Variable, usize>,
    /// Bytes of all computed values in all solutions.
    computed_bytes: usize,
    /// Triple patterns and paths.
    triple_patterns: usize,
    /// Work without reading the graph.
    steps: usize,
    gates: Vec<Gate>,
}

/// Cost of an expression per solution.
#[derive(Clone, Copy)]
struct ExpressionCost {
    /// Solutions of patterns within, at least 1.
    solutions: usize,
    /// Bytes of the value.
    bytes: usize,
    /// Bytes that functions within build or inspect.
    worked: usize,
    /// Functions, operators and terms.
    parts: usize,
}

impl ExpressionCost {
    /// Of a term.
    fn term(bytes: usize) -> Self {
        Self { solutions: 1, bytes, worked: 0, parts: 1 }
    }
}

impl Estimate<'_> {
    /// Solutions of a pattern and of everything that is evaluated for it; at least 1.
    fn pattern(&mut self, pattern: &mut GraphPattern) -> Result<usize, UpdateError> {
        // What is read from the graph is read one by one, and can be stopped.
        let is_read = matches!(pattern, GraphPattern::Bgp { .. } | GraphPattern::Path { .. });
        let solutions = self.solutions(pattern)?;
        if !is_read {
            self.steps = self.steps.saturating_add(solutions);
        }
        Ok(solutions)
    }

    fn solutions(&mut self, pattern: &mut GraphPattern) -> Result<usize, UpdateError> {
        Ok(match pattern {
            GraphPattern::Bgp { patterns } => {
                self.triple_patterns += patterns.len();
                patterns.iter().map(|pattern| self.matching(pattern).max(1)).fold(1, usize::saturating_mul)
            }
            GraphPattern::Path { subject, object, .. } => {
                self.triple_patterns += 1;
                // A path of no steps gives one end to the other.
                self.equal(subject, object);
                self.equal(object, subject);
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
                self.takes(variable, bytes);
                solutions
            }
            GraphPattern::Values { variables, bindings } => {
                for binding in bindings.iter() {
                    for (variable, term) in variables.iter().zip(binding) {
                        self.takes(variable, term.as_ref().map_or(0, ground_bytes));
                    }
                }
                bindings.len().max(1)
            }
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
        aggregate: &mut AggregateExpression,
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
        self.takes(variable, bytes);
        Ok(evaluated)
    }

    /// A variable takes a value of that many bytes, in one branch of several.
    fn takes(&mut self, variable: &Variable, bytes: usize) {
        let longest = self.computed.entry(variable.clone()).or_default();
        *longest = bytes.max(*longest);
    }

    /// A term can take the value of another one, which need not be in the graph.
    fn equal(&mut self, term: &TermPattern, other: &TermPattern) {
        if let TermPattern::Variable(variable) = term {
            let bytes = match other {
                TermPattern::NamedNode(node) => node.as_str().len(),
                TermPattern::Literal(literal) => literal_bytes(literal),
                TermPattern::Variable(other) => self.computed.get(other).copied().unwrap_or_default(),
                TermPattern::BlankNode(_) => 0,
            };
            self.takes(variable, bytes);
        }
    }

    /// Triples of the graph that match a pattern alone.
    fn matching(&self, pattern: &TriplePattern) -> usize {
        self.graph.iter().filter(|triple| fits(pattern, triple)).count()
    }

    /// An expression that is evaluated for each of `solutions`: evaluations including those of
    /// patterns within, and bytes of a value.
    fn computed(&mut self, expression: &mut Expression, solutions: usize) -> Result<(usize, usize), UpdateError> {
        let cost = self.expression(expression)?;
        let solutions = solutions.saturating_mul(cost.solutions);
        self.computed_bytes = self.computed_bytes.saturating_add(solutions.saturating_mul(cost.worked));
        self.steps = self.steps.saturating_add(solutions.saturating_mul(cost.parts));
        Ok((solutions, cost.bytes))
    }

    fn expression(&mut self, expression: &mut Expression) -> Result<ExpressionCost, UpdateError> {
        use Expression as E;
        Ok(match expression {
            E::NamedNode(node) => ExpressionCost::term(node.as_str().len()),
            E::Literal(literal) => ExpressionCost::term(literal_bytes(literal)),
            E::Variable(variable) => {
                ExpressionCost::term(self.computed.get(variable).copied().unwrap_or(0).max(self.term_bytes))
            }
            E::Bound(_) => ExpressionCost::term(8),
            E::Exists(pattern) => ExpressionCost { solutions: self.pattern(pattern)?, ..ExpressionCost::term(8) },
            E::FunctionCall(function, arguments) => self.call(function, arguments)?,
            E::UnaryPlus(inner) | E::UnaryMinus(inner) | E::Not(inner) => self.all([inner.as_mut()])?,
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
            | E::Divide(left, right) => self.all([left.as_mut(), right.as_mut()])?,
            E::If(condition, one, other) => self.all([condition.as_mut(), one.as_mut(), other.as_mut()])?.made(),
            E::In(value, values) => self.all(std::iter::once(value.as_mut()).chain(values))?,
            E::Coalesce(values) => self.all(values)?.made(),
        })
    }

    /// Patterns within multiply. A value is at most as long as all its parts, plus the name of a
    /// type.
    fn all<'e>(
        &mut self,
        expressions: impl IntoIterator<Item = &'e mut Expression>,
    ) -> Result<ExpressionCost, UpdateError> {
        let mut all = ExpressionCost::term(128);
        for expression in expressions {
            all = all.with(self.expression(expression)?);
        }
        Ok(all)
    }

    fn call(&mut self, function: &Function, arguments: &mut [Expression]) -> Result<ExpressionCost, UpdateError> {
        // Each is visited once: they can be nested.
        let costs = arguments.iter_mut().map(|argument| self.expression(argument)).collect::<Result<Vec<_>, _>>()?;
        let all = costs.iter().fold(ExpressionCost::term(128), |all, cost| all.with(*cost));
        let bytes_of = |argument: usize| costs.get(argument).map_or(0, |cost| cost.bytes).saturating_add(1);
        Ok(match (function, &mut *arguments) {
            (Function::Regex, [text, pattern, flags @ ..]) => {
                self.put_gate(text, pattern, flags.first())?;
                // The gate counts what is matched.
                all.looking()
            }
            // Each byte can become a replacement, and each reference in it (`$1`) as long as the
            // text.
            (Function::Replace, [text, pattern, replacement, flags @ ..]) => {
                self.put_gate(text, pattern, flags.first())?;
                let replacement_bytes = match replacement {
                    Expression::Literal(literal) => literal.value().len() + 1,
                    _ => bytes_of(2),
                };
                ExpressionCost { bytes: bytes_of(0).saturating_mul(replacement_bytes), ..all }.made()
            }
            // A byte becomes three; a character in another case can be three.
            (Function::EncodeForUri | Function::UCase | Function::LCase, _) => {
                ExpressionCost { bytes: all.bytes.saturating_mul(3), ..all }.made()
            }
            (
                Function::Lang
                | Function::LangMatches
                | Function::Datatype
                | Function::IsIri
                | Function::IsBlank
                | Function::IsLiteral
                | Function::IsNumeric
                | Function::Contains
                | Function::StrStarts
                | Function::StrEnds
                | Function::StrLen,
                _,
            ) => all.looking(),
            _ => all.made(),
        })
    }

    /// Puts a gate before a text that is matched.
    fn put_gate(
        &mut self,
        text: &mut Expression,
        pattern: &Expression,
        flags: Option<&Expression>,
    ) -> Result<(), UpdateError> {
        let compiled_bytes = regex::compiled_bytes(pattern, flags)?;
        self.steps = self.steps.saturating_add(COMPILE_STEPS);
        let name = NamedNode::new_unchecked(format!("penates:/gate/{}", self.gates.len()));
        let behind = std::mem::replace(text, Expression::Bound(Variable::new_unchecked("x")));
        *text = Expression::FunctionCall(Function::Custom(name.clone()), vec![behind]);
        self.gates.push(Gate { name, compiled_bytes });
        Ok(())
    }
}

impl ExpressionCost {
    /// Of both together.
    fn with(self, other: Self) -> Self {
        Self {
            solutions: self.solutions.saturating_mul(other.solutions),
            bytes: self.bytes.saturating_add(other.bytes),
            worked: self.worked.saturating_add(other.worked),
            parts: self.parts.saturating_add(other.parts),
        }
    }

    /// Of a function that builds its value.
    fn made(self) -> Self {
        Self { worked: self.worked.saturating_add(self.bytes), ..self }
    }

    /// Of a function that only inspects its arguments.
    fn looking(self) -> Self {
        Self { worked: self.worked.saturating_add(self.bytes / LOOKED_AT), ..self }
    }
}

/// Bytes of a literal with its type, and at least those of a usual type.
fn literal_bytes(literal: &Literal) -> usize {
    literal.value().len() + literal.datatype().as_str().len().max(64)
}

fn ground_bytes(term: &GroundTerm) -> usize {
    match term {
        GroundTerm::NamedNode(node) => node.as_str().len(),
        GroundTerm::Literal(literal) => literal_bytes(literal),
    }
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
