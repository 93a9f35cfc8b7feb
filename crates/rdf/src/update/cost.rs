//! An upper bound for the cost of evaluating a `WHERE`, computed before evaluation from the pattern
//! and from how many triples match its parts. It is exact if parts have no common variables, and
//! too high if they have.
//!
//! The evaluator can be stopped only when it calls the meter (`meter.rs`). So what it does between two
//! calls, and what it holds, is bounded here. Before it reads anything it makes a tree of the pattern.
//! Parts of that are copied or followed more than once, and such parts can be inside each other
//! (sparopt 0.3, spareval 0.2):
//!
//! - The left side of an `IN` is copied for each value.
//! - A `FILTER` can be copied to each part of its group.
//! - The condition of an `IF` is built twice where the value is compared.
//! - What is in a `GROUP` is followed twice for the types of its variables.
//! - Both sides of a `/` inside of a path are followed twice for its size.
//! - Operators and parts of a union are put in order by a hash of everything in them.

use std::collections::HashMap;

use oxrdf::{Literal, NamedNode, NamedOrBlankNode, Term, Triple, Variable};
use spargebra::algebra::{
    AggregateExpression, AggregateFunction, Expression, Function, GraphPattern, OrderExpression, PropertyPathExpression,
};
use spargebra::term::{
    GroundQuadPattern, GroundTerm, GroundTermPattern, NamedNodePattern, QuadPattern, TermPattern, TriplePattern,
};

use super::meter::{Gate, Guard};
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

/// Bytes of the tree that the evaluator makes of a pattern, as often as it copies or follows them.
const TREE_BYTES: usize = 16 << 20;

/// Bytes that the evaluator follows in a tree to put its parts in order: for each part, those of
/// everything in it.
const FOLLOWED_BYTES: usize = 64 << 20;

/// Bytes of solutions that are held at the same time. Their terms are shared.
const HELD_BYTES: usize = 128 << 20;

/// Places of a solution besides its variables, roughly: its list, and its part of a table.
const SOLUTION_PLACES: usize = 4;

/// Bytes of a place.
const PLACE_BYTES: usize = size_of::<usize>();

/// Groups inside each other. The evaluator follows what is in one twice for the types of its
/// variables, and does so at each part of what is around it.
const GROUPS: usize = 3;

/// Bytes of a number with its type.
const NUMBER_BYTES: usize = 128;

/// Bytes of a part of the tree besides its text, roughly.
const NODE_BYTES: usize = 64;

/// Triples that one step can examine.
const TRIPLES_PER_STEP: usize = 10;

/// Bytes that one step can copy or hash.
const BYTES_PER_STEP: usize = 1_024;

/// The budget left to all operations of an update together: as many steps as solutions are allowed.
/// A step is the work for one solution, or one part of an expression. None takes more than about a
/// microsecond.
pub(super) struct Budget {
    steps: usize,
    max_steps: usize,
}

impl Budget {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { steps: limits.solutions, max_steps: limits.solutions }
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

/// What an operation writes for each solution.
pub(super) struct Templates<'a> {
    pub(super) delete: &'a [GroundQuadPattern],
    pub(super) insert: &'a [QuadPattern],
}

impl Templates<'_> {
    fn triples(&self) -> usize {
        self.delete.len() + self.insert.len()
    }

    /// Its variables, as often as they are in it.
    pub(super) fn variables(&self) -> impl Iterator<Item = &Variable> {
        let deleted = self.delete.iter().flat_map(|GroundQuadPattern { subject, predicate, object, .. }| {
            [ground_variable(subject), verb_variable(predicate), ground_variable(object)]
        });
        let inserted = self.insert.iter().flat_map(|QuadPattern { subject, predicate, object, .. }| {
            [variable(subject), verb_variable(predicate), variable(object)]
        });
        deleted.chain(inserted).flatten()
    }
}

/// Refuses a pattern that could have too many solutions or build too long values, or that names
/// other graphs or servers. Puts gates where only the evaluation shows what something costs.
pub(super) fn check(
    pattern: &mut GraphPattern,
    templates: &Templates<'_>,
    graph: &Graph,
    limits: &Limits,
    budget: &mut Budget,
) -> Result<Vec<Gate>, UpdateError> {
    budget.take_graph(graph)?;
    let mut estimate = Estimate {
        graph,
        limits,
        budget,
        term_bytes: graph.iter().flat_map(terms_bytes).max().unwrap_or(0),
        values: HashMap::new(),
        nameless: 0,
        computed_bytes: 0,
        triple_patterns: 0,
        leaves: 0,
        tree: Tree::default(),
        followed_bytes: 0,
        compiled_steps: 0,
        held: 0,
        groups: 0,
        deepest_groups: 0,
        repeating: 0,
        steps: 0,
        gates: Vec::new(),
    };
    let solutions = estimate.pattern(pattern)?;
    if estimate.tree.bytes > TREE_BYTES {
        let of = "bytes that the evaluator would make of this WHERE";
        return Err(UpdateError::TooLarge { of, limit: TREE_BYTES });
    }
    if estimate.followed_bytes > FOLLOWED_BYTES {
        let of = "bytes that the evaluator would follow to put this WHERE in order";
        return Err(UpdateError::TooLarge { of, limit: FOLLOWED_BYTES });
    }
    if estimate.deepest_groups > GROUPS {
        return Err(UpdateError::TooLarge { of: "groups inside each other", limit: GROUPS });
    }
    if solutions.saturating_mul(templates.triples().max(1)) > limits.solutions {
        return Err(UpdateError::TooLarge { of: "solutions that this WHERE could have", limit: limits.solutions });
    }
    if estimate.computed_bytes > COMPUTED_BYTES {
        return Err(UpdateError::TooLarge { of: "bytes that this WHERE could compute", limit: COMPUTED_BYTES });
    }
    if estimate.held_bytes() > HELD_BYTES {
        return Err(UpdateError::TooLarge { of: "bytes of solutions that could be held", limit: HELD_BYTES });
    }
    // The evaluator fills all templates for a solution before anything else is counted.
    let bytes_of = |variable: &Variable| estimate.values.get(variable).copied().unwrap_or(0);
    if templates.variables().map(bytes_of).fold(0, usize::saturating_add) > limits.expanded_bytes {
        let of = "bytes that one solution could write";
        return Err(UpdateError::TooLarge { of, limit: limits.expanded_bytes });
    }
    // Of each regular expression, one compilation was paid for.
    let compiled_again = estimate.tree.compile_steps.saturating_sub(estimate.compiled_steps);
    estimate.budget.take(estimate.steps.saturating_add(compiled_again))?;
    Ok(estimate.gates)
}

/// Upper bounds. Sums and products saturate.
struct Estimate<'a> {
    graph: &'a Graph,
    limits: &'a Limits,
    budget: &'a mut Budget,
    /// Bytes of the longest term of the graph.
    term_bytes: usize,
    /// Bytes of values by variable: the longest that any triple, computation or text gives it in any
    /// branch.
    values: HashMap<Variable, usize>,
    /// Variables that the evaluator makes of blank nodes and of expressions to sort by.
    nameless: usize,
    /// Bytes of all computed values in all solutions.
    computed_bytes: usize,
    /// Triple patterns and paths.
    triple_patterns: usize,
    /// Patterns without patterns in them.
    leaves: usize,
    tree: Tree,
    followed_bytes: usize,
    /// Steps for compiling each regular expression once.
    compiled_steps: usize,
    /// Solutions that are held at the same time.
    held: usize,
    /// Groups around what is looked at, and the most so far.
    groups: usize,
    deepest_groups: usize,
    /// `EXISTS` around what is looked at. It is evaluated once for each solution around them.
    repeating: usize,
    /// Work without reading the graph.
    steps: usize,
    gates: Vec<Gate>,
}

/// What the evaluator makes of a pattern before it reads, as often as it does.
#[derive(Clone, Copy, Default)]
struct Tree {
    bytes: usize,
    /// Steps for compiling regular expressions.
    compile_steps: usize,
}

impl Tree {
    /// Adds a part with a text.
    fn add(&mut self, text_bytes: usize) {
        self.bytes = self.bytes.saturating_add(NODE_BYTES).saturating_add(text_bytes);
    }

    /// Counts what was added since then so often, instead of once.
    fn repeat(&mut self, since: Self, times: usize) {
        let more = times.saturating_sub(1);
        let repeated = |now: usize, then: usize| now.saturating_add((now - then).saturating_mul(more));
        self.bytes = repeated(self.bytes, since.bytes);
        self.compile_steps = repeated(self.compile_steps, since.compile_steps);
    }
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
        let tree_bytes = self.tree.bytes;
        let solutions = self.solutions(pattern)?;
        self.follow(tree_bytes);
        if !is_read {
            self.steps = self.steps.saturating_add(solutions);
        }
        Ok(solutions)
    }

    /// Counts that the evaluator follows what was added to its tree since there were so many bytes.
    fn follow(&mut self, tree_bytes: usize) {
        self.followed_bytes = self.followed_bytes.saturating_add(self.tree.bytes - tree_bytes);
    }

    /// Counts solutions that are held until others are found.
    fn hold(&mut self, solutions: usize) {
        self.held = self.held.saturating_add(solutions);
    }

    /// Bytes of the solutions that are held. Each has a place for each variable.
    fn held_bytes(&self) -> usize {
        let places = self.values.len().saturating_add(self.nameless).saturating_add(SOLUTION_PLACES);
        self.held.saturating_mul(places).saturating_mul(PLACE_BYTES)
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
                let bytes = [&*subject, &*object].map(text_bytes).iter().fold(path_bytes(path), add);
                self.tree.add(bytes);
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
        if self.triple_patterns > TRIPLE_PATTERNS {
            return Err(UpdateError::TooLarge { of: "triple patterns", limit: TRIPLE_PATTERNS });
        }
        Ok(())
    }

    /// A variable takes a value of that many bytes, in one branch of several. Returns the most so far.
    fn takes(&mut self, variable: &Variable, bytes: usize) -> usize {
        let longest = self.values.entry(variable.clone()).or_default();
        *longest = bytes.max(*longest);
        *longest
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
        let verb_bytes = match &pattern.predicate {
            NamedNodePattern::NamedNode(node) => node.as_str().len(),
            NamedNodePattern::Variable(variable) => variable.as_str().len(),
        };
        self.tree.add([&pattern.subject, &pattern.object].map(text_bytes).iter().fold(verb_bytes, add));
        let is_nameless = |term: &&TermPattern| matches!(term, TermPattern::BlankNode(_));
        self.nameless += [&pattern.subject, &pattern.object].into_iter().filter(is_nameless).count();
        let variables = [variable(&pattern.subject), verb_variable(&pattern.predicate), variable(&pattern.object)];
        for (variable, bytes) in variables.into_iter().zip(longest) {
            if let Some(variable) = variable {
                self.takes(variable, bytes);
            }
        }
        count
    }

    /// Solutions of a filter that may be copied to all patterns since there were so many leaves.
    fn filtered(&mut self, filter: &mut Expression, solutions: usize, leaves: usize) -> Result<usize, UpdateError> {
        let (tree, copies) = (self.tree, self.leaves - leaves);
        let solutions = self.computed(filter, solutions)?.0;
        self.tree.repeat(tree, copies);
        Ok(solutions)
    }

    /// An expression that is evaluated for each of `solutions`: evaluations including those of
    /// patterns within, and bytes of a value.
    fn computed(&mut self, expression: &mut Expression, solutions: usize) -> Result<(usize, usize), UpdateError> {
        let cost = self.expression(expression)?;
        if self.repeating > 0 {
            self.watch(expression, cost.parts.saturating_add(cost.worked / BYTES_PER_STEP));
        }
        let solutions = solutions.saturating_mul(cost.solutions);
        self.computed_bytes = self.computed_bytes.saturating_add(solutions.saturating_mul(cost.worked));
        self.steps = self.steps.saturating_add(solutions.saturating_mul(cost.parts));
        Ok((solutions, cost.bytes))
    }

    /// Calls the meter before each evaluation of an expression, which may be of constants only. What is
    /// counted of it here is only one evaluation of the `EXISTS` around it.
    fn watch(&mut self, expression: &mut Expression, units: usize) {
        use Expression as E;
        match expression {
            // The evaluator moves its sides apart.
            E::And(left, right) => {
                self.watch(left, units);
                self.watch(right, units);
            }
            E::NamedNode(_) | E::Literal(_) | E::Variable(_) | E::Bound(_) | E::Exists(_) => {}
            _ => {
                let condition = E::FunctionCall(Function::Custom(self.gate(Guard::Work { units })), Vec::new());
                let never = E::Literal(Literal::from(false));
                let behind = std::mem::replace(expression, never.clone());
                *expression = E::If(Box::new(condition), Box::new(behind), Box::new(never));
            }
        }
    }

    fn expression(&mut self, expression: &mut Expression) -> Result<ExpressionCost, UpdateError> {
        let tree_bytes = self.tree.bytes;
        let cost = self.expression_cost(expression)?;
        self.follow(tree_bytes);
        Ok(cost)
    }

    fn expression_cost(&mut self, expression: &mut Expression) -> Result<ExpressionCost, UpdateError> {
        use Expression as E;
        self.tree.add(match expression {
            E::NamedNode(node) | E::FunctionCall(Function::Custom(node), _) => node.as_str().len(),
            E::Literal(literal) => literal_bytes(literal),
            E::Variable(variable) | E::Bound(variable) => variable.as_str().len(),
            _ => 0,
        });
        Ok(match expression {
            E::NamedNode(node) => ExpressionCost::term(node.as_str().len()),
            E::Literal(literal) => ExpressionCost::term(literal_bytes(literal)),
            // Patterns that give it a value were looked at before.
            E::Variable(variable) => ExpressionCost::term(self.takes(variable, 0)),
            E::Bound(variable) => {
                self.takes(variable, 0);
                ExpressionCost::term(8)
            }
            E::Exists(pattern) => {
                // Its types are found on their own.
                let groups = std::mem::take(&mut self.groups);
                self.repeating += 1;
                let solutions = self.pattern(pattern)?;
                self.repeating -= 1;
                self.groups = groups;
                ExpressionCost { solutions, ..ExpressionCost::term(8) }
            }
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
            E::If(condition, one, other) => {
                let tree = self.tree;
                let condition = self.expression(condition)?;
                self.tree.repeat(tree, 2);
                self.all([one.as_mut(), other.as_mut()])?.with(condition).made()
            }
            E::In(value, values) => {
                let (tree, followed) = (self.tree, self.followed_bytes);
                let value = self.expression(value)?.times(values.len());
                self.tree.repeat(tree, values.len());
                let again = (self.followed_bytes - followed).saturating_mul(values.len().saturating_sub(1));
                self.followed_bytes = self.followed_bytes.saturating_add(again);
                self.all(values)?.with(value)
            }
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
                self.put_match_gate(text, pattern, flags.first(), false)?;
                // The gate counts what is matched.
                all.looking()
            }
            // Each byte can become a replacement, and each reference in it (`$1`) as long as the
            // text.
            (Function::Replace, [text, pattern, replacement, flags @ ..]) => {
                let is_repeated = regex::is_searched_again(pattern, flags.first());
                self.put_match_gate(text, pattern, flags.first(), is_repeated)?;
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
    fn put_match_gate(
        &mut self,
        text: &mut Expression,
        pattern: &Expression,
        flags: Option<&Expression>,
        is_repeated: bool,
    ) -> Result<(), UpdateError> {
        let steps = regex::compile_steps(pattern);
        self.budget.take(steps)?;
        self.compiled_steps = self.compiled_steps.saturating_add(steps);
        self.tree.compile_steps = self.tree.compile_steps.saturating_add(steps);
        let compiled_bytes = regex::compiled_bytes(pattern, flags)?;
        self.put_gate(text, Guard::Match { compiled_bytes, is_repeated });
        Ok(())
    }

    /// Puts a gate before a value.
    fn put_gate(&mut self, value: &mut Expression, guard: Guard) {
        let name = self.gate(guard);
        let behind = std::mem::replace(value, Expression::Bound(Variable::new_unchecked("x")));
        *value = Expression::FunctionCall(Function::Custom(name), vec![behind]);
    }

    /// The name of a new gate.
    fn gate(&mut self, guard: Guard) -> NamedNode {
        let name = NamedNode::new_unchecked(format!("penates:/gate/{}", self.gates.len()));
        self.tree.add(name.as_str().len());
        self.gates.push(Gate { name: name.clone(), guard });
        name
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

    /// Of so many copies. One that is only a term costs no more.
    fn times(self, copies: usize) -> Self {
        let repeated = |count: usize| count.saturating_sub(1).saturating_mul(copies.max(1)).saturating_add(1);
        Self {
            solutions: repeated(self.solutions),
            bytes: self.bytes,
            worked: self.worked.saturating_mul(copies.max(1)),
            parts: repeated(self.parts),
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

/// Bytes of the terms of a triple.
fn terms_bytes(triple: &Triple) -> [usize; 3] {
    let subject = match &triple.subject {
        NamedOrBlankNode::NamedNode(node) => node.as_str().len(),
        NamedOrBlankNode::BlankNode(node) => node.as_str().len(),
    };
    let object = match &triple.object {
        Term::NamedNode(node) => node.as_str().len(),
        Term::BlankNode(node) => node.as_str().len(),
        Term::Literal(literal) => literal_bytes(literal),
    };
    [subject, triple.predicate.as_str().len(), object]
}

fn text_bytes(term: &TermPattern) -> usize {
    match term {
        TermPattern::NamedNode(node) => node.as_str().len(),
        TermPattern::BlankNode(node) => node.as_str().len(),
        TermPattern::Literal(literal) => literal_bytes(literal),
        TermPattern::Variable(variable) => variable.as_str().len(),
    }
}

/// Bytes of a path, as often as the evaluator follows them.
fn path_bytes(path: &PropertyPathExpression) -> usize {
    use PropertyPathExpression as P;
    let inside = match path {
        P::NamedNode(node) => node.as_str().len(),
        P::Reverse(inner) | P::ZeroOrMore(inner) | P::OneOrMore(inner) | P::ZeroOrOne(inner) => path_bytes(inner),
        P::Sequence(left, right) => path_bytes(left).saturating_add(path_bytes(right)).saturating_mul(2),
        P::Alternative(left, right) => path_bytes(left).saturating_add(path_bytes(right)),
        P::NegatedPropertySet(nodes) => nodes.iter().map(|node| node.as_str().len() + NODE_BYTES).sum(),
    };
    inside.saturating_add(NODE_BYTES)
}

fn add(sum: usize, bytes: &usize) -> usize {
    sum.saturating_add(*bytes)
}

fn variable(term: &TermPattern) -> Option<&Variable> {
    if let TermPattern::Variable(variable) = term { Some(variable) } else { None }
}

fn ground_variable(term: &GroundTermPattern) -> Option<&Variable> {
    if let GroundTermPattern::Variable(variable) = term { Some(variable) } else { None }
}

fn verb_variable(verb: &NamedNodePattern) -> Option<&Variable> {
    if let NamedNodePattern::Variable(variable) = verb { Some(variable) } else { None }
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
