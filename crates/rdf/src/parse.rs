//! Bodies to graphs, within limits.

mod contexts;
mod json_ld;
mod json_shape;
mod rdf_xml;

use std::collections::{HashMap, HashSet};
use std::fmt::Display;

use oxrdf::{BlankNode, NamedOrBlankNode, Term, Triple};
use oxttl::{NTriplesParser, TurtleParser, TurtleSyntaxError};

use crate::Iri;
use crate::graph::Graph;
use crate::syntax::Syntax;

/// What is taken at most. Beyond it a body is refused, never cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the body.
    pub body_bytes: usize,
    /// Triples.
    pub triples: usize,
    /// Bytes of one IRI, of one blank node's label, of one literal's text.
    pub term_bytes: usize,
    /// Objects and arrays inside each other, in JSON. The other syntaxes are read without recursion.
    pub json_depth: usize,
    /// Contexts of one document in JSON-LD, those that it only names included.
    pub json_contexts: usize,
    /// Where contexts belong to terms (JSON-LD 1.1, section 4.1.8): bytes of all contexts of a document times its objects, since such a
    /// context is read for each object that uses its term.
    pub json_scoped_bytes: usize,
    /// Solutions that the `WHERE` of an update could have at most, those of its parts included.
    pub solutions: usize,
}

impl Default for Limits {
    /// 8 MiB with 100,000 triples, terms of 1 MiB, JSON 64 deep with 1,000 contexts, of which those of terms are 64 MiB for all objects; a million
    /// solutions.
    fn default() -> Self {
        Self {
            body_bytes: 8 << 20,
            triples: 100_000,
            term_bytes: 1 << 20,
            json_depth: 64,
            json_contexts: 1_000,
            json_scoped_bytes: 64 << 20,
            solutions: 1_000_000,
        }
    }
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Counted from 1.
    pub line: u64,
    /// In code points, counted from 1.
    pub column: u64,
}

impl Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl Location {
    /// The place of the byte at `offset`.
    fn of(text: &[u8], offset: usize) -> Self {
        let before = String::from_utf8_lossy(&text[..offset.min(text.len())]);
        let line = before.matches('\n').count() as u64 + 1;
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) as u64 + 1;
        Self { line, column }
    }
}

/// Why a body is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is not well-formed.
    #[error("{}{message}", location.map(|location| format!("{location}: ")).unwrap_or_default())]
    Syntax {
        /// Where; not known for what is well-formed JSON and yet no JSON-LD.
        location: Option<Location>,
        /// What is wrong.
        message: String,
    },
    /// It is not in UTF-8.
    #[error("{location}: the text is not in UTF-8")]
    NotUtf8 {
        /// Of the first byte that is wrong.
        location: Location,
    },
    /// JSON-LD asks for a context that is not built in. None is ever fetched.
    #[error(
        "the context {iri} is not built in ({} are), and none is fetched: write the context into the document",
        contexts::addresses()
    )]
    RemoteContext {
        /// The context's address.
        iri: String,
    },
    /// A statement is in a named graph; a resource has one graph, without a name.
    #[error("statements in the named graph {graph} cannot be kept: a resource is one graph")]
    NamedGraph {
        /// The graph's name.
        graph: String,
    },
    /// It is beyond a limit.
    #[error("too large: more than {limit} {of}")]
    TooLarge {
        /// What is counted.
        of: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl ParseError {
    /// Whether a limit was passed (HTTP: 413), as opposed to a body that is wrong (400).
    #[must_use]
    pub const fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }

    fn syntax(location: Option<Location>, message: impl Into<String>) -> Self {
        Self::Syntax { location, message: message.into() }
    }
}

impl From<TurtleSyntaxError> for ParseError {
    fn from(error: TurtleSyntaxError) -> Self {
        let start = error.location().start;
        Self::syntax(Some(Location { line: start.line + 1, column: start.column + 1 }), error.message())
    }
}

/// Reads a body in UTF-8. Relative IRIs are resolved against `base`. Labels of blank nodes are kept; nodes without label get one.
///
/// # Errors
/// [`ParseError`]: the body is not well-formed, or beyond a limit.
pub fn parse(body: &[u8], syntax: Syntax, base: &Iri, limits: &Limits) -> Result<Graph, ParseError> {
    if body.len() > limits.body_bytes {
        return Err(ParseError::TooLarge { of: "bytes", limit: limits.body_bytes });
    }
    if let Err(error) = std::str::from_utf8(body) {
        return Err(ParseError::NotUtf8 { location: Location::of(body, error.valid_up_to()) });
    }
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let mut graph = Collector::new(*limits);
    match syntax {
        Syntax::Turtle => {
            for triple in with_base(TurtleParser::new().with_base_iri(base.as_str()))?.for_slice(body) {
                graph.add(triple?)?;
            }
        }
        Syntax::NTriples => {
            for triple in NTriplesParser::new().for_slice(body) {
                graph.add(triple?)?;
            }
        }
        Syntax::JsonLd(_) => json_ld::parse(body, base, &mut graph)?,
        Syntax::RdfXml => rdf_xml::parse(body, base, &mut graph)?,
    }
    Ok(graph.finish())
}

/// The parsers take the base as text and parse it again.
fn with_base<T>(parser: Result<T, impl Display>) -> Result<T, ParseError> {
    parser.map_err(|error| ParseError::syntax(None, format!("the base is not an IRI: {error}")))
}

/// A graph that grows within limits.
struct Collector {
    limits: Limits,
    graph: Graph,
}

impl Collector {
    fn new(limits: Limits) -> Self {
        Self { limits, graph: Graph::new() }
    }

    fn add(&mut self, triple: Triple) -> Result<(), ParseError> {
        let longest = longest_term_bytes(&triple);
        if longest > self.limits.term_bytes {
            return Err(ParseError::TooLarge { of: "bytes of one term", limit: self.limits.term_bytes });
        }
        self.graph.insert(triple);
        if self.graph.len() > self.limits.triples {
            return Err(ParseError::TooLarge { of: "triples", limit: self.limits.triples });
        }
        Ok(())
    }

    fn finish(self) -> Graph {
        label_blank_nodes(self.graph)
    }
}

/// Length of the longest IRI, label or text in a triple.
pub(crate) fn longest_term_bytes(triple: &Triple) -> usize {
    let subject = match &triple.subject {
        NamedOrBlankNode::NamedNode(node) => node.as_str().len(),
        NamedOrBlankNode::BlankNode(node) => node.as_str().len(),
    };
    let object = match &triple.object {
        Term::NamedNode(node) => node.as_str().len(),
        Term::BlankNode(node) => node.as_str().len(),
        Term::Literal(literal) => {
            let tag = literal.language().map_or(0, str::len);
            literal.value().len().max(literal.datatype().as_str().len()).max(tag)
        }
    };
    subject.max(triple.predicate.as_str().len()).max(object)
}

/// Gives blank nodes that have a random label one that depends on nothing but the graph: `b` and the first number that is free.
pub(crate) fn label_blank_nodes(graph: Graph) -> Graph {
    let mut random = indexmap::IndexSet::new();
    let mut taken = HashSet::new();
    for triple in &graph {
        let subject = match &triple.subject {
            NamedOrBlankNode::BlankNode(node) => Some(node),
            NamedOrBlankNode::NamedNode(_) => None,
        };
        let object = match &triple.object {
            Term::BlankNode(node) => Some(node),
            Term::NamedNode(_) | Term::Literal(_) => None,
        };
        for node in [subject, object].into_iter().flatten() {
            if is_random(node) {
                random.insert(node.clone());
            } else {
                taken.insert(node.as_str().to_owned());
            }
        }
    }
    if random.is_empty() {
        return graph;
    }
    let free = (0_u64..).map(|number| format!("b{number}")).filter(|label| !taken.contains(label));
    let labels: HashMap<BlankNode, BlankNode> = random.into_iter().zip(free.map(BlankNode::new_unchecked)).collect();
    let relabel = |node: BlankNode| labels.get(&node).cloned().unwrap_or(node);
    graph
        .into_iter()
        .map(|triple| Triple {
            subject: match triple.subject {
                NamedOrBlankNode::BlankNode(node) => relabel(node).into(),
                NamedOrBlankNode::NamedNode(node) => node.into(),
            },
            predicate: triple.predicate,
            object: match triple.object {
                Term::BlankNode(node) => relabel(node).into(),
                other => other,
            },
        })
        .collect()
}

/// Whether the label is one of the random 128-bit numbers that parsers give to nodes without label. (A client's label of that form is
/// changed too, which does no harm.)
fn is_random(node: &BlankNode) -> bool {
    node.as_ref().unique_id().is_some_and(|id| id > u128::from(u64::MAX))
}
