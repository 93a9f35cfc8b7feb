//! SPARQL 1.1 Update on one graph, as `PATCH` carries it.
//!
//! The parser and the evaluator are those of the Oxigraph project. Neither has limits of its own, so that what they are given is
//! measured before: the text by `lexical.rs` (both are recursive), the solutions that a `WHERE` could have by `cost.rs`.

mod cost;
mod lexical;
mod removal;

use std::collections::HashMap;

use oxrdf::{BlankNode, Dataset, NamedOrBlankNode, Term, Triple};
use spareval::{DeleteInsertQuad, QueryEvaluator};
use spargebra::algebra::GraphPattern;
use spargebra::term::{GraphName, GraphNamePattern, GroundQuad, GroundQuadPattern, GroundTerm, Quad, QuadPattern};
use spargebra::{GraphUpdateOperation, SparqlParser, SparqlSyntaxError};

use crate::Iri;
use crate::graph::Graph;
use crate::parse::{Limits, Location, label_blank_nodes, longest_term_bytes};

pub use removal::Removal;

/// Stack of the thread that evaluates patterns: reserved, not used unless needed.
const STACK_BYTES: usize = 256 << 20;

/// Why an update is not carried out. The graph is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// It is not a SPARQL update.
    #[error("{}{message}", location.map(|location| format!("{location}: ")).unwrap_or_default())]
    Syntax {
        /// Where, if that can be told.
        location: Option<Location>,
        /// What was expected.
        message: String,
    },
    /// It asks for something that does not exist for one graph without a name.
    #[error("{operation} is not possible here: an update is of this resource's own graph only")]
    NotSupported {
        /// The operation or clause.
        operation: &'static str,
    },
    /// It is beyond a limit, or could be.
    #[error("too large: more than {limit} {of}")]
    TooLarge {
        /// What is counted.
        of: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A `WHERE` cannot be evaluated.
    #[error("{0}")]
    Evaluation(String),
}

impl UpdateError {
    /// Whether a limit was passed, as opposed to an update that is wrong.
    #[must_use]
    pub const fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }
}

impl From<SparqlSyntaxError> for UpdateError {
    fn from(error: SparqlSyntaxError) -> Self {
        let text = error.to_string();
        // "error at 1:8: expected ..."
        let located = text.strip_prefix("error at ").and_then(|rest| {
            let (place, message) = rest.split_once(": ")?;
            let (line, column) = place.split_once(':')?;
            Some((Location { line: line.parse().ok()?, column: column.parse().ok()? }, message.to_owned()))
        });
        match located {
            Some((location, message)) => Self::Syntax { location: Some(location), message },
            None => Self::Syntax { location: None, message: text },
        }
    }
}

/// What came of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updated {
    /// The graph that results.
    pub graph: Graph,
    /// What the update says is to be taken away, whether that was in the graph or not.
    pub removals: Vec<Removal>,
}

/// Carries out the operations of an update, in order, and gives the graph that results: all of them or none. Relative IRIs are
/// resolved against `base`. Blank nodes that the update makes get labels that are free.
///
/// `INSERT DATA`, `DELETE DATA`, `DELETE WHERE` and `DELETE`/`INSERT ... WHERE` are possible. All that names another graph (`LOAD`,
/// `CLEAR`, `CREATE`, `DROP`, `WITH`, `USING`, `GRAPH`) or another server (`SERVICE`) is refused.
///
/// # Errors
/// [`UpdateError`].
pub fn apply(graph: &Graph, update: &str, base: &Iri, limits: &Limits) -> Result<Updated, UpdateError> {
    let shape = lexical::check(update, limits)?;
    if !shape.has_where {
        return apply_here(graph, update, base, limits);
    }
    // The evaluator takes up to 40 KiB of stack for each operator of a pattern.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sparql-update".to_owned()).stack_size(STACK_BYTES);
        let evaluation = thread.spawn_scoped(scope, || apply_here(graph, update, base, limits));
        let failed = |what: &str| UpdateError::Evaluation(format!("the update could not be evaluated: {what}"));
        match evaluation.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(failed("the evaluator broke down")),
            Err(error) => Err(failed(&error.to_string())),
        }
    })
}

fn apply_here(graph: &Graph, update: &str, base: &Iri, limits: &Limits) -> Result<Updated, UpdateError> {
    let parser = SparqlParser::new().with_base_iri(base.as_str());
    let parser = parser.map_err(|error| UpdateError::Evaluation(format!("the base is not an IRI: {error}")))?;
    let update = parser.parse_update(update)?;
    let mut graph = graph.clone();
    let mut removals = Vec::new();
    for operation in &update.operations {
        match operation {
            GraphUpdateOperation::InsertData { data } => insert_data(&mut graph, data)?,
            GraphUpdateOperation::DeleteData { data } => {
                let triples = data.iter().map(ground_triple).collect::<Result<Vec<_>, _>>()?;
                removals.extend(triples.iter().map(Removal::of));
                remove_all(&mut graph, triples);
            }
            GraphUpdateOperation::DeleteInsert { delete, insert, using, pattern } => {
                if using.is_some() {
                    return Err(UpdateError::NotSupported { operation: "USING or WITH" });
                }
                delete_insert(&mut graph, delete, insert, pattern, base, limits)?;
                removals.extend(delete.iter().map(Removal::of_template));
            }
            GraphUpdateOperation::Load { .. } => return Err(UpdateError::NotSupported { operation: "LOAD" }),
            GraphUpdateOperation::Clear { .. } => return Err(UpdateError::NotSupported { operation: "CLEAR" }),
            GraphUpdateOperation::Create { .. } => return Err(UpdateError::NotSupported { operation: "CREATE" }),
            GraphUpdateOperation::Drop { .. } => return Err(UpdateError::NotSupported { operation: "DROP" }),
        }
        check_size(&graph, limits)?;
    }
    Ok(Updated { graph: label_blank_nodes(graph), removals })
}

fn check_size(graph: &Graph, limits: &Limits) -> Result<(), UpdateError> {
    if graph.len() > limits.triples {
        return Err(UpdateError::TooLarge { of: "triples", limit: limits.triples });
    }
    if graph.iter().any(|triple| longest_term_bytes(triple) > limits.term_bytes) {
        return Err(UpdateError::TooLarge { of: "bytes of one term", limit: limits.term_bytes });
    }
    Ok(())
}

/// Section 3.1.1: its blank nodes are new ones, whatever their labels.
fn insert_data(graph: &mut Graph, data: &[Quad]) -> Result<(), UpdateError> {
    let mut new_nodes: HashMap<&BlankNode, BlankNode> = HashMap::new();
    for quad in data {
        if quad.graph_name != GraphName::DefaultGraph {
            return Err(UpdateError::NotSupported { operation: "GRAPH" });
        }
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
    Ok(())
}

fn ground_triple(quad: &GroundQuad) -> Result<Triple, UpdateError> {
    if quad.graph_name != GraphName::DefaultGraph {
        return Err(UpdateError::NotSupported { operation: "GRAPH" });
    }
    let object: Term = match &quad.object {
        GroundTerm::NamedNode(node) => node.clone().into(),
        GroundTerm::Literal(literal) => literal.clone().into(),
    };
    Ok(Triple { subject: quad.subject.clone().into(), predicate: quad.predicate.clone(), object })
}

/// Section 3.1.3: all solutions are found in the graph as it is, then all that is to go goes, then all that is to come comes.
fn delete_insert(
    graph: &mut Graph,
    delete: &[GroundQuadPattern],
    insert: &[QuadPattern],
    pattern: &GraphPattern,
    base: &Iri,
    limits: &Limits,
) -> Result<(), UpdateError> {
    let graph_names = delete.iter().map(|quad| &quad.graph_name).chain(insert.iter().map(|quad| &quad.graph_name));
    if graph_names.into_iter().any(|name| *name != GraphNamePattern::DefaultGraph) {
        return Err(UpdateError::NotSupported { operation: "GRAPH" });
    }
    cost::check(pattern, delete.len() + insert.len(), graph, limits)?;

    let dataset: Dataset =
        graph.iter().map(|triple| triple.as_ref().in_graph(oxrdf::GraphNameRef::DefaultGraph)).collect();
    let evaluator = QueryEvaluator::new();
    let evaluation = |error: spareval::QueryEvaluationError| UpdateError::Evaluation(error.to_string());
    let changes = evaluator
        .prepare_delete_insert(delete.to_vec(), insert.to_vec(), Some(base.clone()), None, pattern)
        .execute(&dataset)
        .map_err(evaluation)?;
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    for change in changes {
        match change.map_err(evaluation)? {
            DeleteInsertQuad::Delete(quad) => removed.push(Triple::from(quad)),
            DeleteInsertQuad::Insert(quad) => added.push(Triple::from(quad)),
        }
    }
    remove_all(graph, removed);
    graph.extend(added);
    Ok(())
}

fn remove_all(graph: &mut Graph, triples: Vec<Triple>) {
    let triples: Graph = triples.into_iter().collect();
    if !triples.is_empty() {
        graph.retain(|triple| !triples.contains(triple));
    }
}
