//! An upper bound for the cost of evaluating a `WHERE`, computed before evaluation from the pattern
//! and from how many triples match its parts. It is exact if parts have no common variables, and
//! too high if they have.
//!
//! The evaluator can be stopped only when it calls the meter (`meter.rs`). So what it does between two
//! calls, and what it holds, is bounded here:
//!
//! - `patterns.rs` counts solutions: all that a pattern can have, and those that are held.
//! - `expressions.rs` counts what expressions do for each solution, and puts gates into them.
//! - `tree.rs` counts what the evaluator makes of a pattern before it reads anything.
//! - `templates.rs` counts what is written for each solution.
//! - `terms.rs` measures terms.
//!
//! A join and a `MINUS` copy the terms of the solutions that they compare, and each copy calls the
//! meter. Solutions without values (`VALUES ?x { UNDEF UNDEF }`, `{} UNION {}`) have no terms. They
//! count as steps, of which an update has a million. What is in `EXISTS` is evaluated for each solution
//! around it. Its steps are counted for one evaluation, and a gate calls the meter before each.

mod expressions;
mod patterns;
mod templates;
mod terms;
mod tree;

use std::collections::HashMap;

use oxrdf::Variable;
use spargebra::algebra::GraphPattern;

use super::UpdateError;
use super::meter::Gate;
use crate::graph::Graph;
use crate::parse::{Limits, Size};

pub(super) use templates::Templates;
use terms::terms_bytes;
use tree::Tree;

/// Bytes of all values that are computed, together.
const COMPUTED_BYTES: usize = 64 << 20;

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

/// Places of a solution that one step can copy or compare.
const PLACES_PER_STEP: usize = 256;

/// Names of variables that one step can compare.
const NAMES_PER_STEP: usize = 128;

/// Groups inside each other. The evaluator follows what is in one twice for the types of its
/// variables, and does so at each part of what is around it.
const GROUPS: usize = 3;

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
    within(estimate.tree.bytes, TREE_BYTES, "bytes that the evaluator would make of this WHERE")?;
    let of = "bytes that the evaluator would follow to put this WHERE in order";
    within(estimate.followed_bytes, FOLLOWED_BYTES, of)?;
    within(estimate.deepest_groups, GROUPS, "groups inside each other")?;
    let written = solutions.saturating_mul(templates.triples().max(1));
    within(written, limits.solutions, "solutions that this WHERE could have")?;
    within(estimate.computed_bytes, COMPUTED_BYTES, "bytes that this WHERE could compute")?;
    within(estimate.held_bytes(), HELD_BYTES, "bytes of solutions that could be held")?;
    // The evaluator fills all templates for a solution before anything else is counted.
    let bytes_of = |variable: &Variable| estimate.values.get(variable).copied().unwrap_or(0);
    let written_bytes = templates.variables().map(bytes_of).fold(0, usize::saturating_add);
    within(written_bytes, limits.expanded_bytes, "bytes that one solution could write")?;
    // Of each regular expression, one compilation was paid for.
    let compiled_again = estimate.tree.compile_steps.saturating_sub(estimate.compiled_steps);
    // At the end, the values of the templates have places of their own.
    let places = estimate.places().saturating_add(templates.distinct().len());
    let steps = estimate.steps.saturating_mul(1 + places / PLACES_PER_STEP);
    let filled = solutions.saturating_mul(templates.compared_names() / NAMES_PER_STEP);
    estimate.budget.take(steps.saturating_add(filled).saturating_add(compiled_again))?;
    Ok(estimate.gates)
}

/// Refuses more than a limit.
fn within(count: usize, limit: usize, of: &'static str) -> Result<(), UpdateError> {
    if count > limit { Err(UpdateError::TooLarge { of, limit }) } else { Ok(()) }
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
    /// Work without reading the graph. What is in an `EXISTS` is counted once.
    steps: usize,
    gates: Vec<Gate>,
}

impl Estimate<'_> {
    /// Counts that the evaluator follows what was added to its tree since there were so many bytes.
    fn follow(&mut self, tree_bytes: usize) {
        self.followed_bytes = self.followed_bytes.saturating_add(self.tree.bytes - tree_bytes);
    }

    /// Counts solutions that are held until others are found.
    fn hold(&mut self, solutions: usize) {
        self.held = self.held.saturating_add(solutions);
    }

    /// Bytes of the solutions that are held.
    fn held_bytes(&self) -> usize {
        let places = self.places().saturating_add(SOLUTION_PLACES);
        self.held.saturating_mul(places).saturating_mul(PLACE_BYTES)
    }

    /// Places of a solution: one for each variable.
    fn places(&self) -> usize {
        self.values.len().saturating_add(self.nameless)
    }

    /// A variable takes a value of that many bytes, in one branch of several. Returns the most so far.
    fn takes(&mut self, variable: &Variable, bytes: usize) -> usize {
        let longest = self.values.entry(variable.clone()).or_default();
        *longest = bytes.max(*longest);
        *longest
    }
}
