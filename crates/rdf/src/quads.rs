//! [N-Quads](https://www.w3.org/TR/n-quads/) as a list of resources. Consecutive lines of one graph
//! are one resource, and the graph's name is its address.

use oxrdf::{GraphName, NamedNode, Quad};
use oxttl::NQuadsParser;
use oxttl::nquads::LowLevelNQuadsParser;

use crate::graph::Graph;
use crate::parse::{Collector, Limits, ParseError};

/// Statements of one graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The graph's name.
    pub name: NamedNode,
    /// The statements, without the name.
    pub graph: Graph,
}

/// Splits a stream of N-Quads into resources, with memory for one. [`feed`](Self::feed) it as bytes
/// arrive, take [`next_resource`](Self::next_resource) until there is none, and [`end`](Self::end)
/// it.
///
/// A graph that appears again after another one is another resource. [`Limits`] apply to each
/// resource, [`Limits::body_bytes`] to each line.
pub struct Resources {
    limits: Limits,
    parser: LowLevelNQuadsParser,
    /// Bytes of the current line.
    line_bytes: usize,
    current: Option<(NamedNode, Collector)>,
    failed: Option<ParseError>,
}

impl Resources {
    /// An empty stream.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, parser: NQuadsParser::new().low_level(), line_bytes: 0, current: None, failed: None }
    }

    /// Takes the next bytes. Take all resources before the next call.
    pub fn feed(&mut self, bytes: &[u8]) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line_bytes += line.len();
            if self.line_bytes > self.limits.body_bytes {
                self.failed
                    .get_or_insert(ParseError::TooLarge { of: "bytes of one line", limit: self.limits.body_bytes });
                return;
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

    /// The next complete resource: its last line was followed by one of another graph, or by the
    /// end. `None` if more bytes are needed, or the stream has ended.
    ///
    /// # Errors
    /// [`ParseError`] with its place in the stream. It ends the stream, and every later call
    /// returns it again. The resource that had begun is dropped, because it is not known which
    /// resource the malformed line belongs to.
    pub fn next_resource(&mut self) -> Option<Result<Resource, ParseError>> {
        loop {
            if let Some(error) = &self.failed {
                return Some(Err(error.clone()));
            }
            let Some(quad) = self.parser.parse_next() else {
                let rest = if self.parser.is_end() { self.current.take() } else { None };
                return rest.map(|resource| Ok(finished(resource)));
            };
            match quad.map_err(ParseError::from).and_then(|quad| self.add(quad)) {
                Ok(None) => {}
                Ok(Some(resource)) => return Some(Ok(resource)),
                Err(error) => self.failed = Some(error),
            }
        }
    }

    /// Adds a statement. If it is the first of another resource, returns the resource before.
    fn add(&mut self, quad: Quad) -> Result<Option<Resource>, ParseError> {
        let GraphName::NamedNode(name) = &quad.graph_name else {
            let message = format!("the statement \"{quad}\" does not name the resource that it belongs to");
            return Err(ParseError::Syntax { location: None, message });
        };
        let before = match &mut self.current {
            Some((current, _)) if current == name => None,
            current => current.replace((name.clone(), Collector::new(self.limits))),
        };
        if let Some((_, graph)) = &mut self.current {
            graph.add(quad.into())?;
        }
        Ok(before.map(finished))
    }
}

fn finished((name, graph): (NamedNode, Collector)) -> Resource {
    Resource { name, graph: graph.finish() }
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
                Some(Err(error)) => return (read, Some(error)),
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

    #[test]
    fn a_graph_that_appears_again_is_another_resource() {
        let (resources, error) = read(&format!("{TWO}{TWO}"), 100, Limits::default());
        assert_eq!((resources.len(), error), (4, None));
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
        let told = |limits| read(TWO, 10, limits).1.map(|error| error.to_string());
        assert_eq!(told(Limits { triples: 2, body_bytes: 60, term_bytes: 40, ..Limits::default() }), None);
        let error = told(Limits { triples: 1, ..Limits::default() });
        assert_eq!(error.unwrap(), "too large: more than 1 triples");
        let error = told(Limits { body_bytes: 40, ..Limits::default() });
        assert_eq!(error.unwrap(), "too large: more than 40 bytes of one line");
        let error = told(Limits { iri_bytes: 10, ..Limits::default() });
        assert_eq!(error.unwrap(), "too large: more than 10 bytes of one IRI");
        let error = told(Limits { expanded_bytes: 40, ..Limits::default() });
        assert_eq!(error.unwrap(), "too large: more than 40 bytes once all names are written out");
    }
}
