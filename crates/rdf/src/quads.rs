//! [N-Quads](https://www.w3.org/TR/n-quads/) as a list of resources. Consecutive lines of one graph
//! are one resource, and the graph's name is its address.

use std::collections::hash_map::RandomState;
use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher;

use oxrdf::{GraphName, NamedNode, Quad};
use oxttl::NQuadsParser;
use oxttl::nquads::LowLevelNQuadsParser;
use thiserror::Error;

use crate::graph::Graph;
use crate::parse::{Collector, Limits, ParseError};
use crate::update::Cancellation;

/// The graphs that a stream remembers, so that it recognizes one that comes again.
const REMEMBERED_GRAPHS: usize = 1 << 16;

/// Memory for one of them, about.
const REMEMBERED_BYTES: u64 = 40;

/// Statements of one graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The graph's name.
    pub name: NamedNode,
    /// The statements, without the name.
    pub graph: Graph,
}

/// Statements that are no resource.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{error}{}", consequence(name.is_some(), *ends))]
pub struct Refused {
    /// The graph that is not a resource for this reason, if one is not.
    pub name: Option<NamedNode>,
    /// The reason, with its place in the stream.
    pub error: ParseError,
    /// Whether nothing after it is read.
    pub ends: bool,
}

fn consequence(is_named: bool, ends: bool) -> &'static str {
    match (ends, is_named) {
        (false, _) => "",
        (true, false) => "; nothing after it was read",
        (true, true) => {
            "; it is, or may be, of this resource, which was therefore not made, and nothing after it was read"
        }
    }
}

/// Splits a stream of N-Quads into resources, with memory for one and for the hashes of some names.
/// [`feed`](Self::feed) it as bytes arrive, take [`next_resource`](Self::next_resource) until there
/// is none, and [`end`](Self::end) it.
///
/// The statements of a graph are contiguous. If a graph appears again after another one, and is one
/// of the last 65,536, the statements that come later are refused. [`Limits`] apply to each
/// resource, [`Limits::body_bytes`] to each line.
pub struct Resources {
    limits: Limits,
    parser: LowLevelNQuadsParser,
    /// Bytes of the current line.
    line_bytes: usize,
    run: Option<Run>,
    seen: Seen,
    ready: VecDeque<Result<Resource, Refused>>,
    has_failed: bool,
}

/// Consecutive statements.
enum Run {
    /// Of one graph.
    Graph(NamedNode, Collector),
    /// Of a graph that came before.
    Again(NamedNode, u64),
    /// Of no graph with an address: the first one, and how many there are.
    Unnamed(Box<Quad>, u64),
}

impl Run {
    /// Adds a statement; gives it back if it is not part of this run.
    fn add(&mut self, quad: Quad) -> Result<Option<Quad>, ParseError> {
        match (self, &quad.graph_name) {
            (Self::Graph(name, graph), GraphName::NamedNode(of)) if name == of => graph.add(quad.into())?,
            (Self::Again(name, count), GraphName::NamedNode(of)) if name == of => *count += 1,
            (Self::Unnamed(_, count), GraphName::BlankNode(_) | GraphName::DefaultGraph) => *count += 1,
            _ => return Ok(Some(quad)),
        }
        Ok(None)
    }

    fn finished(self) -> Result<Resource, Refused> {
        let (name, message) = match self {
            Self::Graph(name, graph) => return Ok(Resource { name, graph: graph.finish() }),
            Self::Again(name, count) => {
                let message = format!(
                    "the statements of a graph must be contiguous: {count} of this one came after another graph, and \
                     are not part of the resource"
                );
                (Some(name), message)
            }
            Self::Unnamed(quad, count) => {
                let more = if count > 1 { format!(", nor do {} after it", count - 1) } else { String::new() };
                (None, format!("the statement \"{quad}\" does not name the resource that it belongs to{more}"))
            }
        };
        Err(Refused { name, error: ParseError::Syntax { location: None, message }, ends: false })
    }
}

/// Which graphs came.
#[derive(Default)]
struct Seen {
    hashing: RandomState,
    /// Hashes of their names.
    names: HashSet<u64>,
    /// The same, the oldest one first.
    order: VecDeque<u64>,
}

impl Seen {
    /// Notes a graph. Returns whether it came before.
    fn note(&mut self, name: &NamedNode) -> bool {
        let hash = self.hashing.hash_one(name);
        if !self.names.insert(hash) {
            return true;
        }
        self.order.push_back(hash);
        if self.order.len() > REMEMBERED_GRAPHS
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
        false
    }
}

impl Resources {
    /// An empty stream.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let (run, seen, ready) = (None, Seen::default(), VecDeque::new());
        let parser = NQuadsParser::new().low_level();
        Self { limits, parser, line_bytes: 0, run, seen, ready, has_failed: false }
    }

    /// Takes the next bytes. Take all resources before the next call.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.has_failed {
            return;
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line_bytes += line.len();
            if self.line_bytes > self.limits.body_bytes {
                return self.fail(ParseError::TooLarge { of: "bytes of one line", limit: self.limits.body_bytes });
            }
            if line.ends_with(b"\n") {
                self.line_bytes = 0;
            }
        }
        self.parser.extend_from_slice(bytes);
    }

    /// Ends the stream.
    pub fn end(&mut self) {
        self.parser.end();
    }

    /// Whether something was refused that ends the stream.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The graph whose statements are arriving.
    #[must_use]
    pub fn unfinished(&self) -> Option<&NamedNode> {
        match &self.run {
            Some(Run::Graph(name, _) | Run::Again(name, _)) => Some(name),
            Some(Run::Unnamed(..)) | None => None,
        }
    }

    /// Bytes of memory for the graphs that came, about.
    #[must_use]
    pub fn remembered_bytes(&self) -> u64 {
        self.seen.order.len() as u64 * REMEMBERED_BYTES
    }

    /// The next complete resource: its last line was followed by one of another graph, or by the
    /// end. `None` if more bytes are needed, or the stream has ended.
    ///
    /// # Errors
    /// [`Refused`], in the place of the statements that are no resource. A malformed line ends the
    /// stream, and so does what is over a limit. The graph that had begun is refused with it,
    /// because it is not known which one the line belongs to.
    pub fn next_resource(&mut self) -> Option<Result<Resource, Refused>> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Some(next);
            }
            if self.has_failed {
                return None;
            }
            match self.parser.parse_next() {
                Some(Ok(quad)) => {
                    if let Err(error) = self.add(quad) {
                        self.fail(error);
                    }
                }
                Some(Err(error)) => self.fail(error.into()),
                None if self.parser.is_end() => return self.run.take().map(Run::finished),
                None => return None,
            }
        }
    }

    /// Adds a statement.
    fn add(&mut self, quad: Quad) -> Result<(), ParseError> {
        let quad = match &mut self.run {
            Some(run) => match run.add(quad)? {
                Some(quad) => quad,
                None => return Ok(()),
            },
            None => quad,
        };
        self.ready.extend(self.run.take().map(Run::finished));
        self.run = Some(match &quad.graph_name {
            GraphName::NamedNode(name) if self.seen.note(name) => Run::Again(name.clone(), 1),
            GraphName::NamedNode(name) => {
                let collector = Collector::new(self.limits, Cancellation::default());
                let run = self.run.insert(Run::Graph(name.clone(), collector));
                run.add(quad)?;
                return Ok(());
            }
            GraphName::BlankNode(_) | GraphName::DefaultGraph => Run::Unnamed(Box::new(quad), 1),
        });
        Ok(())
    }

    /// Ends the stream with an error.
    fn fail(&mut self, error: ParseError) {
        let name = match self.run.take() {
            Some(Run::Graph(name, _)) => Some(name),
            other => {
                self.ready.extend(other.map(Run::finished));
                None
            }
        };
        self.ready.push_back(Err(Refused { name, error, ends: true }));
        self.has_failed = true;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// All resources, as `name: number of triples`, of a stream that comes in pieces of
    /// `piece_bytes`.
    fn read(text: &str, piece_bytes: usize, limits: Limits) -> (Vec<String>, Option<ParseError>) {
        let mut resources = Resources::new(limits);
        let (mut read, mut pieces) = (Vec::new(), text.as_bytes().chunks(piece_bytes));
        loop {
            match resources.next_resource() {
                Some(Ok(Resource { name, graph })) => read.push(format!("{}: {}", name.as_str(), graph.len())),
                Some(Err(refused)) => return (read, Some(refused.error)),
                None => match pieces.next() {
                    Some(piece) => resources.feed(piece),
                    None if resources.parser.is_end() => return (read, None),
                    None => resources.end(),
                },
            }
        }
    }

    const TWO: &str = "<http://a/s> <http://a/p> \"1\" <http://a/g1> .\n\
        <http://a/s> <http://a/p> \"2\" <http://a/g1> .\n\n# comment\n\
        _:b <http://a/p> _:c <http://a/g2> .\n";

    #[test]
    fn lines_of_one_graph_are_one_resource_however_the_stream_is_split() {
        for piece_bytes in [1, 7, 46, 1_000] {
            let (resources, error) = read(TWO, piece_bytes, Limits::default());
            assert_eq!((resources, error), (vec!["http://a/g1: 2".to_owned(), "http://a/g2: 1".to_owned()], None));
        }
        assert_eq!(read("", 1, Limits::default()), (vec![], None));
    }

    /// A statement of a graph.
    fn quad(graph: &str) -> String {
        let graph = if graph.is_empty() { String::new() } else { format!("{graph} ") };
        format!("<http://a/s> <http://a/p> \"1\" {graph}.\n")
    }

    /// What a stream is split into, in order: each resource, and each refusal with its name.
    fn parts(text: &str, piece_bytes: usize) -> Vec<String> {
        let mut resources = Resources::new(Limits::default());
        let (mut parts, mut pieces) = (Vec::new(), text.as_bytes().chunks(piece_bytes));
        loop {
            match resources.next_resource() {
                Some(Ok(Resource { name, graph })) => parts.push(format!("{name}: {}", graph.len())),
                Some(Err(refused)) => {
                    let name = refused.name.as_ref().map_or("nothing".to_owned(), ToString::to_string);
                    parts.push(format!("{name} refused: {refused}"));
                }
                None if resources.has_failed() || resources.parser.is_end() => return parts,
                None => match pieces.next() {
                    Some(piece) => resources.feed(piece),
                    None => resources.end(),
                },
            }
        }
    }

    #[test]
    fn a_graph_that_comes_again_after_another_one_is_refused_by_name() {
        let text = ["<x:a>", "<x:b>", "<x:a>", "<x:a>", "<x:c>"].map(quad).concat();
        for piece_bytes in [1, 30, 1_000] {
            let again = "<x:a> refused: the statements of a graph must be contiguous: 2 of this one came after another \
                         graph, and are not part of the resource";
            assert_eq!(parts(&text, piece_bytes), ["<x:a>: 1", "<x:b>: 1", again, "<x:c>: 1"]);
        }
    }

    #[test]
    fn statements_without_the_address_of_a_graph_are_refused_and_those_around_them_are_not() {
        let text = ["<x:a>", "_:b", "", "<x:c>", "_:d"].map(quad).concat();
        let parts = parts(&text, 7);
        assert_eq!([&*parts[0], &*parts[2]], ["<x:a>: 1", "<x:c>: 1"]);
        assert!(parts[1].starts_with("nothing refused: the statement \"<http://a/s>"), "{}", parts[1]);
        assert!(parts[1].ends_with("does not name the resource that it belongs to, nor do 1 after it"), "{}", parts[1]);
        assert!(parts[3].ends_with("that it belongs to") && parts.len() == 4, "{parts:?}");
    }

    #[test]
    fn what_is_not_made_because_of_a_malformed_line_is_named() {
        let text = [quad("<x:a>"), quad("<x:b>"), "nonsense\n".to_owned(), quad("<x:c>")].concat();
        let parts = parts(&text, 11);
        assert_eq!((&*parts[0], parts.len()), ("<x:a>: 1", 2));
        assert!(parts[1].starts_with("<x:b> refused: line 3, "), "{}", parts[1]);
        assert!(parts[1].ends_with("was therefore not made, and nothing after it was read"), "{}", parts[1]);
    }

    #[test]
    fn the_resource_before_one_that_is_too_large_is_made() {
        let limits = Limits { iri_bytes: 60, ..Limits::default() };
        let long = format!("<http://a/s> <http://a/{}> \"1\" <x:b> .\n", "p".repeat(100));
        let (resources, error) = read(&(quad("<x:a>") + &long), 1_000, limits);
        assert_eq!(resources, ["x:a: 1"]);
        assert!(error.unwrap().is_too_large());
    }

    #[test]
    fn a_malformed_line_is_reported_with_its_place_and_ends_the_stream() {
        let text = format!("{TWO}<http://a/s> <http://a/p> .\n{TWO}");
        let (resources, error) = read(&text, 10, Limits::default());
        assert_eq!(resources, ["http://a/g1: 2"]);
        assert!(error.unwrap().to_string().starts_with("line 6, column 27: "));
    }

    #[test]
    fn a_truncated_last_line_is_not_a_resource() {
        let (resources, error) = read(&format!("{TWO}{}", &TWO[..TWO.len() - 20]), 10, Limits::default());
        assert_eq!(resources, ["http://a/g1: 2", "http://a/g2: 1"]);
        assert!(error.is_some());
    }

    #[test]
    fn a_statement_without_graph_is_refused() {
        let (resources, error) = read("<http://a/s> <http://a/p> \"1\" .\n", 10, Limits::default());
        assert!(resources.is_empty() && error.unwrap().to_string().contains("does not name the resource"));
    }

    #[test]
    fn limits_apply_to_each_resource_and_each_line() {
        let output = |limits| read(TWO, 10, limits).1.map(|error| error.to_string());
        assert_eq!(output(Limits { triples: 2, body_bytes: 60, term_bytes: 40, ..Limits::default() }), None);
        let error = output(Limits { triples: 1, ..Limits::default() });
        assert_eq!(error.unwrap(), "too large: more than 1 triples");
        let error = output(Limits { body_bytes: 40, ..Limits::default() });
        assert_eq!(error.unwrap(), "too large: more than 40 bytes of one line");
        let error = output(Limits { iri_bytes: 10, ..Limits::default() });
        assert_eq!(error.unwrap(), "too large: more than 10 bytes of one IRI");
        let error = output(Limits { expanded_bytes: 40, ..Limits::default() });
        assert_eq!(error.unwrap(), "too large: more than 40 bytes once all names are written out");
    }
}
