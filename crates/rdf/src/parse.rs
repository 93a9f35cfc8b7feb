//! Reading bodies into graphs, within limits.

mod contexts;
mod json_ld;
mod json_scoped;
mod json_shape;
mod json_terms;
mod json_tokens;
mod rdf_xml;
mod turtle;

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::time::Duration;

use oxrdf::{BlankNode, NamedOrBlankNode, Term, Triple};
use oxttl::{NTriplesParser, TurtleSyntaxError};

use crate::Iri;
use crate::graph::Graph;
use crate::syntax::Syntax;
use crate::update::Cancellation;

/// Limits of a body. A body beyond a limit is refused, never truncated.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the body.
    pub body_bytes: usize,
    /// Triples.
    pub triples: usize,
    /// Bytes of one blank node's label, or of one literal's text.
    pub term_bytes: usize,
    /// Bytes of one IRI.
    pub iri_bytes: usize,
    /// Bytes of all statements with their names written out, because prefixes, terms and bases
    /// expand. The declarations of prefixes and bases in Turtle may take as much again. The parsers
    /// of JSON-LD, RDF/XML and SPARQL build much before they return anything; for them this is an
    /// upper bound computed from the text. A body needs up to twice as much memory while it is read,
    /// one in JSON-LD up to four times as much.
    pub expanded_bytes: usize,
    /// Deepest nesting: objects and arrays in JSON, brackets in Turtle, nodes in XML.
    pub depth: usize,
    /// Contexts of one JSON-LD document, including those that it only names.
    pub json_contexts: usize,
    /// Bytes of contexts that are read and copied: those of each context once for each that is read
    /// while it is active. A context of a term (JSON-LD 1.1, section 4.1.8) is read for each value of
    /// its term, so all contexts around it count once for each value at or below a key that is such a
    /// term, and for each text that names one. If a term has an `@index`, they count for each value of
    /// the document. A built-in context counts with its own size, not with that of its name.
    pub json_scoped_bytes: usize,
    /// Most solutions that the `WHERE` of an update could have, including those of its parts.
    pub solutions: usize,
    /// Processor time that an update may take, on the thread that evaluates it.
    pub cpu: Duration,
    /// Bytes that that thread may hold besides those at the start, as far as `held` knows.
    pub held_bytes: usize,
    /// Returns the bytes that the calling thread holds: all that it allocated less what it freed. Only
    /// the difference of two such numbers counts: a thread that freed what others allocated may hold
    /// less than nothing. Without it, memory is only estimated.
    pub held: Option<fn() -> i64>,
}

impl Default for Limits {
    /// 8 MiB with 100,000 triples, 64 MiB when written out; texts of 1 MiB, IRIs of 64 KiB; 64
    /// levels; 1,000 contexts, 64 MiB of them copied; a million solutions in 10 seconds, with 512
    /// MiB held if that is known.
    fn default() -> Self {
        Self {
            body_bytes: 8 << 20,
            triples: 100_000,
            term_bytes: 1 << 20,
            iri_bytes: 64 << 10,
            expanded_bytes: 64 << 20,
            depth: 64,
            json_contexts: 1_000,
            json_scoped_bytes: 64 << 20,
            solutions: 1_000_000,
            cpu: Duration::from_secs(10),
            held_bytes: 512 << 20,
            held: None,
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
    pub(crate) fn of(text: &[u8], offset: usize) -> Self {
        let before = String::from_utf8_lossy(&text[..offset.min(text.len())]);
        let line = before.matches('\n').count() as u64 + 1;
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) as u64 + 1;
        Self { line, column }
    }
}

/// Why a body is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is not well-formed.
    #[error("{}{message}", location.map(|location| format!("{location}: ")).unwrap_or_default())]
    Syntax {
        /// Where. Unknown for well-formed JSON that is not JSON-LD.
        location: Option<Location>,
        /// What is wrong.
        message: String,
    },
    /// It is not in UTF-8.
    #[error("{location}: the text is not in UTF-8")]
    NotUtf8 {
        /// Place of the first invalid byte.
        location: Location,
    },
    /// JSON-LD names a context that is not built in. Contexts are never fetched.
    #[error(
        "the context {iri} is not built in ({} are), and none is fetched: write the context into the document",
        contexts::addresses()
    )]
    RemoteContext {
        /// The context's address.
        iri: String,
    },
    /// A statement is in a named graph. A resource has one graph, without a name.
    #[error("statements in the named graph {graph} cannot be stored: a resource is one graph")]
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
    /// Its reading was cancelled.
    #[error("the reading of the graph was cancelled")]
    Cancelled,
}

impl ParseError {
    /// Whether a limit was exceeded (HTTP: 413), as opposed to an invalid body (400).
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

/// Reads a body in UTF-8. Relative IRIs are resolved against `base`. Blank nodes keep their labels;
/// nodes without a label get one.
///
/// # Errors
/// [`ParseError`] if the body is not well-formed, or exceeds a limit.
pub fn parse(body: &[u8], syntax: Syntax, base: &Iri, limits: &Limits) -> Result<Graph, ParseError> {
    parse_cancellable(body, syntax, base, limits, &Cancellation::default())
}

/// The same, until it is cancelled. That is looked at before each statement that a parser returns.
/// The parsers of JSON-LD and RDF/XML read much before they return the first.
///
/// # Errors
/// The same, and [`ParseError::Cancelled`].
pub fn parse_cancellable(
    body: &[u8],
    syntax: Syntax,
    base: &Iri,
    limits: &Limits,
    cancellation: &Cancellation,
) -> Result<Graph, ParseError> {
    if cancellation.is_cancelled() {
        return Err(ParseError::Cancelled);
    }
    if body.len() > limits.body_bytes {
        return Err(ParseError::TooLarge { of: "bytes", limit: limits.body_bytes });
    }
    let text = std::str::from_utf8(body)
        .map_err(|error| ParseError::NotUtf8 { location: Location::of(body, error.valid_up_to()) })?;
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let mut graph = Collector::new(*limits, cancellation.clone());
    match syntax {
        Syntax::Turtle | Syntax::N3 => turtle::parse(text, base, &mut graph)?,
        Syntax::NTriples | Syntax::Text => {
            for triple in NTriplesParser::new().for_slice(text) {
                graph.add(triple?)?;
            }
        }
        Syntax::JsonLd(_) => json_ld::parse(text.as_bytes(), base, &mut graph)?,
        Syntax::RdfXml => rdf_xml::parse(text.as_bytes(), base, &mut graph)?,
    }
    Ok(graph.finish())
}

/// The parsers take the base as text and parse it again.
fn with_base<T>(parser: Result<T, impl Display>) -> Result<T, ParseError> {
    parser.map_err(|error| ParseError::syntax(None, format!("the base is not an IRI: {error}")))
}

/// A graph that grows within limits.
pub(crate) struct Collector {
    limits: Limits,
    cancellation: Cancellation,
    graph: Graph,
    /// Bytes of all triples that arrived, duplicates included.
    bytes: usize,
}

impl Collector {
    pub(crate) fn new(limits: Limits, cancellation: Cancellation) -> Self {
        Self { limits, cancellation, graph: Graph::new(), bytes: 0 }
    }

    /// Adds a triple, unless it exceeds a limit or the reading is cancelled.
    pub(crate) fn add(&mut self, triple: Triple) -> Result<(), ParseError> {
        if self.cancellation.is_cancelled() {
            return Err(ParseError::Cancelled);
        }
        let too_large = |of, limit| Err(ParseError::TooLarge { of, limit });
        let size = Size::of(&triple);
        if size.text > self.limits.term_bytes {
            return too_large("bytes of one term", self.limits.term_bytes);
        }
        if size.iri > self.limits.iri_bytes {
            return too_large("bytes of one IRI", self.limits.iri_bytes);
        }
        self.bytes = self.bytes.saturating_add(size.all);
        if self.bytes > self.limits.expanded_bytes {
            return too_large("bytes once all names are written out", self.limits.expanded_bytes);
        }
        self.graph.insert(triple);
        if self.graph.len() > self.limits.triples {
            return too_large("triples", self.limits.triples);
        }
        Ok(())
    }

    /// Forgets all triples.
    fn clear(&mut self) {
        *self = Self::new(self.limits, self.cancellation.clone());
    }

    pub(crate) fn finish(self) -> Graph {
        label_blank_nodes(self.graph)
    }
}

/// Bytes of a triple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Of its longest IRI.
    pub(crate) iri: usize,
    /// Of its longest label, text or language.
    pub(crate) text: usize,
    /// Of all of it.
    pub(crate) all: usize,
}

impl Size {
    pub(crate) fn of(triple: &Triple) -> Self {
        let mut size = Self::default();
        match &triple.subject {
            NamedOrBlankNode::NamedNode(node) => size.add_iri(node.as_str()),
            NamedOrBlankNode::BlankNode(node) => size.add_text(node.as_str()),
        }
        size.add_iri(triple.predicate.as_str());
        match &triple.object {
            Term::NamedNode(node) => size.add_iri(node.as_str()),
            Term::BlankNode(node) => size.add_text(node.as_str()),
            Term::Literal(literal) => {
                size.add_text(literal.value());
                size.add_iri(literal.datatype().as_str());
                size.add_text(literal.language().unwrap_or_default());
            }
        }
        size
    }

    fn add_iri(&mut self, iri: &str) {
        self.iri = self.iri.max(iri.len());
        self.all += iri.len();
    }

    fn add_text(&mut self, text: &str) {
        self.text = self.text.max(text.len());
        self.all += text.len();
    }
}

/// Replaces random labels of blank nodes by ones that depend only on the graph: `b` and the first
/// free number.
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

/// Whether the label is one of the random 128-bit numbers that parsers give to nodes without a
/// label. A client's label of that form is replaced too, which does no harm.
fn is_random(node: &BlankNode) -> bool {
    node.as_ref().unique_id().is_some_and(|id| id > u128::from(u64::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use oxrdf::NamedNode;

    use super::*;

    #[test]
    fn a_graph_takes_no_further_statement_once_its_reading_is_cancelled() {
        let cancellation = Cancellation::default();
        let mut graph = Collector::new(Limits::default(), cancellation.clone());
        let name = |text: &str| NamedNode::new_unchecked(text);
        let mut add = |object: &str| graph.add(Triple::new(name("http://a/s"), name("http://a/p"), name(object)));
        add("http://a/1").unwrap();
        cancellation.cancel();
        assert_eq!(add("http://a/2"), Err(ParseError::Cancelled));
        assert_eq!(graph.finish().len(), 1);
        let base = Iri::parse("http://a/".to_owned()).unwrap();
        let parsed = parse_cancellable(b"", Syntax::Turtle, &base, &Limits::default(), &cancellation);
        assert_eq!(parsed, Err(ParseError::Cancelled), "it is looked at before the text is");
    }
}
