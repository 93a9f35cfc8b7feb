//! SPARQL 1.1 Update on one graph, as `PATCH` carries it.
//!
//! The parser and the evaluator are those of the Oxigraph project. Both are recursive, and neither
//! has limits of its own. So their input is measured first. In the order in which an update is read:
//!
//! - `source.rs` decodes escapes of code points.
//! - `terminals.rs` splits the text into the terminals of the language, and writes out their names.
//! - `bounds.rs` measures the terminals: their depth, their number and their bytes.
//! - `canonical.rs` makes the text of them that is parsed.
//! - `cost/` bounds the possible solutions of a `WHERE`, and `regex.rs` regular expressions.
//!
//! Then its evaluation is metered. It can be stopped wherever it reads, copies or compares a term
//! (`view.rs`) and at gates in its pattern, and is if it was cancelled or uses too much (`meter.rs`).
//! `room.rs` asks for the memory of all this.

mod bounds;
mod canonical;
mod cost;
mod meter;
mod regex;
mod removal;
mod room;
mod source;
mod terminals;
mod view;

use std::collections::HashMap;
use std::sync::Arc;

use oxrdf::{BlankNode, NamedOrBlankNode, Term, Triple};
use spareval::{CancellationToken, DeleteInsertQuad, QueryEvaluationError, QueryEvaluator};
use spargebra::GraphUpdateOperation;
use spargebra::algebra::GraphPattern;
use spargebra::term::{GroundQuad, GroundQuadPattern, GroundTerm, Quad, QuadPattern};

use crate::Iri;
use crate::graph::Graph;
use crate::parse::{Limits, Location, Size, label_blank_nodes};

use canonical::Canonical;
use cost::Templates;
use meter::{Gate, Meter, stoppable};
pub use removal::Removal;
pub use room::{HELD, Room};
use view::View;

/// Stack of the thread that evaluates patterns, in bytes. It is reserved, and used only if needed.
const STACK_BYTES: usize = 256 << 20;

/// Why an update was not applied. The graph is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// It is not a SPARQL update.
    #[error("{}{message}", location.map(|location| format!("{location}: ")).unwrap_or_default())]
    Syntax {
        /// Where, if known.
        location: Option<Location>,
        /// What was expected.
        message: String,
    },
    /// It uses an operation that does not exist for one unnamed graph.
    #[error("{operation} is not possible here: an update is of this resource's own graph only")]
    NotSupported {
        /// The operation or clause.
        operation: &'static str,
    },
    /// It exceeds a limit, or could.
    #[error("too large: more than {limit} {of}")]
    TooLarge {
        /// What is counted.
        of: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A regular expression is refused.
    #[error("a regular expression is refused: {why}")]
    Pattern {
        /// Why not.
        why: String,
    },
    /// There is too little memory for it now. Later there may be more.
    #[error("{0}")]
    NoRoom(String),
    /// It was cancelled.
    #[error("the update was cancelled")]
    Cancelled,
    /// A `WHERE` cannot be evaluated.
    #[error("{0}")]
    Evaluation(String),
}

impl UpdateError {
    /// Whether a limit was exceeded, as opposed to an invalid update.
    #[must_use]
    pub const fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }
}

/// Stops an update, or the reading of a body, from another thread. An update stops within about a
/// second: what is done between two checks is bounded to that.
#[derive(Clone, Default)]
pub struct Cancellation(CancellationToken);

impl Cancellation {
    /// Stops it, even before it begins.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn check(&self) -> Result<(), UpdateError> {
        if self.is_cancelled() { Err(UpdateError::Cancelled) } else { Ok(()) }
    }
}

/// The result of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updated {
    /// The new graph.
    pub graph: Graph,
    /// The statements that the update deletes, whether or not the graph contained them.
    pub removals: Vec<Removal>,
}

/// Applies the operations of an update in order, all or none, and returns the new graph. Relative
/// IRIs are resolved against `base`. New blank nodes get free labels.
///
/// `INSERT DATA`, `DELETE DATA`, `DELETE WHERE` and `DELETE`/`INSERT ... WHERE` are supported.
/// Anything that names another graph (`LOAD`, `CLEAR`, `CREATE`, `DROP`, `ADD`, `MOVE`, `COPY`, `WITH`,
/// `USING`, `GRAPH`) or another server (`SERVICE`) is refused, and so is RDF 1.2.
///
/// # Errors
/// [`UpdateError`].
pub fn apply(
    graph: &Graph,
    update: &str,
    base: &Iri,
    limits: &Limits,
    cancellation: &Cancellation,
) -> Result<Updated, UpdateError> {
    apply_within(graph, update, base, limits, cancellation, &Room::default())
}

/// The same, with memory that the caller gives.
///
/// # Errors
/// [`UpdateError`].
pub fn apply_within(
    graph: &Graph,
    update: &str,
    base: &Iri,
    limits: &Limits,
    cancellation: &Cancellation,
    room: &Room,
) -> Result<Updated, UpdateError> {
    if update.len() > limits.body_bytes {
        return Err(UpdateError::TooLarge { of: "bytes", limit: limits.body_bytes });
    }
    let update = Canonical::of(update, base, limits, room)?;
    cancellation.check()?;
    if !update.has_where {
        return apply_here(graph, update, base, limits, cancellation, room);
    }
    // The evaluator needs up to 40 KiB of stack per operator of a pattern.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sparql-update".to_owned()).stack_size(STACK_BYTES);
        let evaluate = move || apply_here(graph, update, base, limits, cancellation, room);
        let evaluation = thread.spawn_scoped(scope, evaluate);
        let failed = |what: &str| UpdateError::Evaluation(format!("the update could not be evaluated: {what}"));
        match evaluation.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(failed("the evaluator broke down")),
            Err(error) => Err(failed(&error.to_string())),
        }
    })
}

fn apply_here(
    graph: &Graph,
    update: Canonical<'_>,
    base: &Iri,
    limits: &Limits,
    cancellation: &Cancellation,
    room: &Room,
) -> Result<Updated, UpdateError> {
    let meter = Arc::new(Meter::new(limits, cancellation, room, update.bytes()));
    let operations = update.parsed()?;
    let mut graph = graph.clone();
    let mut removals = Vec::new();
    let mut budget = cost::Budget::new(limits);
    for operation in operations {
        meter.check()?;
        budget.take_graph(&graph)?;
        match operation {
            GraphUpdateOperation::InsertData { data } => insert_data(&mut graph, &data),
            GraphUpdateOperation::DeleteData { data } => {
                let triples: Vec<_> = data.iter().map(ground_triple).collect();
                removals.extend(triples.iter().map(Removal::of));
                remove_all(&mut graph, &triples.into_iter().collect());
            }
            GraphUpdateOperation::DeleteInsert { delete, insert, pattern, .. } => {
                removals.extend(delete.iter().map(Removal::of_template));
                let change = Change { delete, insert, pattern: *pattern };
                change.carry_out(&mut graph, base, &mut budget, &meter)?;
            }
            // Their words are refused before.
            GraphUpdateOperation::Load { .. }
            | GraphUpdateOperation::Clear { .. }
            | GraphUpdateOperation::Create { .. }
            | GraphUpdateOperation::Drop { .. } => {
                return Err(UpdateError::NotSupported { operation: "an operation on graphs" });
            }
        }
        check_size(&graph, limits)?;
    }
    Ok(Updated { graph: label_blank_nodes(graph), removals })
}

fn check_count(graph: &Graph, limits: &Limits) -> Result<(), UpdateError> {
    if graph.len() > limits.triples {
        return Err(UpdateError::TooLarge { of: "triples", limit: limits.triples });
    }
    Ok(())
}

fn check_size(graph: &Graph, limits: &Limits) -> Result<(), UpdateError> {
    check_count(graph, limits)?;
    let mut bytes = 0_usize;
    for size in graph.iter().map(Size::of) {
        if size.text > limits.term_bytes {
            return Err(UpdateError::TooLarge { of: "bytes of one term", limit: limits.term_bytes });
        }
        if size.iri > limits.iri_bytes {
            return Err(UpdateError::TooLarge { of: "bytes of one IRI", limit: limits.iri_bytes });
        }
        bytes = bytes.saturating_add(size.all);
    }
    if bytes > limits.expanded_bytes { Err(too_much(limits)) } else { Ok(()) }
}

/// Section 3.1.1: its blank nodes are new ones, whatever their labels.
fn insert_data(graph: &mut Graph, data: &[Quad]) {
    let mut new_nodes: HashMap<&BlankNode, BlankNode> = HashMap::new();
    for quad in data {
        let subject = match &quad.subject {
            NamedOrBlankNode::BlankNode(node) => new_nodes.entry(node).or_default().clone().into(),
            NamedOrBlankNode::NamedNode(node) => node.clone().into(),
        };
        let object = match &quad.object {
            Term::BlankNode(node) => new_nodes.entry(node).or_default().clone().into(),
            other => other.clone(),
        };
        graph.insert(Triple { subject, predicate: quad.predicate.clone(), object });
    }
}

fn ground_triple(quad: &GroundQuad) -> Triple {
    let object: Term = match &quad.object {
        GroundTerm::NamedNode(node) => node.clone().into(),
        GroundTerm::Literal(literal) => literal.clone().into(),
    };
    Triple { subject: quad.subject.clone().into(), predicate: quad.predicate.clone(), object }
}

/// `DELETE` and `INSERT` with a `WHERE`.
struct Change {
    delete: Vec<GroundQuadPattern>,
    insert: Vec<QuadPattern>,
    pattern: GraphPattern,
}

impl Change {
    /// Section 3.1.3: all solutions are found in the unchanged graph, then all deletions are
    /// applied, then all insertions.
    fn carry_out(
        mut self,
        graph: &mut Graph,
        base: &Iri,
        budget: &mut cost::Budget,
        meter: &Arc<Meter>,
    ) -> Result<(), UpdateError> {
        let templates = Templates { delete: &self.delete, insert: &self.insert };
        let gates = cost::check(&mut self.pattern, &templates, graph, meter.limits(), budget)?;
        // Values that no template writes are not copied.
        let variables = templates.distinct().into_iter().cloned().collect();
        self.pattern = GraphPattern::Project { inner: Box::new(self.pattern), variables };

        let mut evaluator = QueryEvaluator::new();
        for Gate { name, guard } in gates {
            let meter = meter.clone();
            evaluator = evaluator.with_custom_function(name, move |arguments| guard.pass(&meter, arguments));
        }
        let (removed, added) = stoppable(|| changes(&evaluator, self, graph, base, meter))?;
        meter.check()?;
        remove_all(graph, &removed);
        graph.extend(added);
        Ok(())
    }
}

/// The removed triples of a graph, and the added ones. Each is kept once, and no more than a graph may
/// have: short triples take much more memory than their text, which is counted.
fn changes(
    evaluator: &QueryEvaluator,
    Change { delete, insert, pattern }: Change,
    graph: &Graph,
    base: &Iri,
    meter: &Arc<Meter>,
) -> Result<(Graph, Graph), UpdateError> {
    let (view, limits) = (View::new(graph, meter), meter.limits());
    let prepared = evaluator.prepare_delete_insert(delete, insert, Some(base.clone()), None, &pattern);
    let (mut removed, mut added, mut bytes) = (Graph::new(), Graph::new(), 0_usize);
    for change in prepared.execute(&view).map_err(failed)? {
        let (quad, is_added) = match change.map_err(failed)? {
            DeleteInsertQuad::Delete(quad) => (quad, false),
            DeleteInsertQuad::Insert(quad) => (quad, true),
        };
        let triple = Triple::from(quad);
        let triple_bytes = Size::of(&triple).all;
        meter.copy(triple_bytes);
        bytes = bytes.saturating_add(triple_bytes);
        if bytes > limits.expanded_bytes {
            return Err(too_much(limits));
        }
        if is_added {
            added.insert(triple);
            // All of them are in the new graph.
            check_count(&added, limits)?;
        } else if graph.contains(&triple) {
            removed.insert(triple);
        }
    }
    Ok((removed, added))
}

fn too_much(limits: &Limits) -> UpdateError {
    UpdateError::TooLarge { of: "bytes once all names are written out", limit: limits.expanded_bytes }
}

fn failed(error: QueryEvaluationError) -> UpdateError {
    UpdateError::Evaluation(error.to_string())
}

fn remove_all(graph: &mut Graph, triples: &Graph) {
    if !triples.is_empty() {
        graph.retain(|triple| !triples.contains(triple));
    }
}
