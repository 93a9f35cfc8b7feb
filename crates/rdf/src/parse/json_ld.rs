//! JSON-LD. Contexts are built in and never fetched, their cost is bounded, and errors have a
//! place.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use oxjsonld::{JsonLdParseError, JsonLdParser, JsonLdSyntaxError};
use oxrdf::{GraphName, NamedNodeRef};

use super::json_shape::Shape;
use super::json_tokens::token_bytes;
use super::{Collector, Location, ParseError, contexts, with_base};
use crate::Iri;

/// Up to this size in bytes an invalid body is read again to find the place.
const SEARCHED_BYTES: usize = 1 << 20;

/// The name under which Jena 2 writes the default graph.
const JENA_DEFAULT_GRAPH: NamedNodeRef<'_> = NamedNodeRef::new_unchecked("urn:x-arq:DefaultGraphNode");

/// The error for contexts that are not built in.
const NOT_FETCHED: &str = "contexts are not fetched";

/// Reads a document's default graph.
pub(super) fn parse(body: &[u8], base: &Iri, graph: &mut Collector) -> Result<(), ParseError> {
    Shape::check(body, &graph.limits)?;
    let refused = Arc::new(Mutex::new(None));
    let remember = refused.clone();
    let parser = parser(base)?.for_slice(body).with_load_document_callback(move |iri, _| {
        contexts::built_in(iri).ok_or_else(|| {
            if let Ok(mut refused) = remember.lock() {
                refused.get_or_insert_with(|| iri.to_owned());
            }
            NOT_FETCHED.into()
        })
    });
    for quad in parser {
        let quad = quad.map_err(|error| match refused.lock().ok().and_then(|mut refused| refused.take()) {
            Some(iri) => ParseError::RemoteContext { iri },
            None => ParseError::syntax(place(body, base, &error), error.to_string()),
        })?;
        let is_default = match &quad.graph_name {
            GraphName::DefaultGraph => true,
            GraphName::NamedNode(name) => name.as_ref() == JENA_DEFAULT_GRAPH,
            GraphName::BlankNode(_) => false,
        };
        if !is_default {
            return Err(ParseError::NamedGraph { graph: quad.graph_name.to_string() });
        }
        graph.add(quad.into())?;
    }
    Ok(())
}

fn parser(base: &Iri) -> Result<JsonLdParser, ParseError> {
    with_base(JsonLdParser::new().with_base_iri(base.as_str()))
}

fn place(body: &[u8], base: &Iri, error: &JsonLdSyntaxError) -> Option<Location> {
    match error.location() {
        Some(place) => Some(Location { line: place.start.line + 1, column: place.start.column + 1 }),
        None if body.len() <= SEARCHED_BYTES => where_noticed(body, base),
        None => None,
    }
}

/// The place where the parser notices the error in well-formed JSON. The parser does not report it,
/// so it gets the text token by token.
fn where_noticed(body: &[u8], base: &Iri) -> Option<Location> {
    let token_start = Rc::new(Cell::new(0));
    let tokens = Tokens { text: body, at: 0, token_start: token_start.clone() };
    let mut quads = parser(base)
        .ok()?
        .for_reader(tokens)
        .with_load_document_callback(|iri, _| contexts::built_in(iri).ok_or_else(|| NOT_FETCHED.into()));
    quads.find(|quad| matches!(quad, Err(JsonLdParseError::Syntax(_))))?.err()?;
    Some(Location::of(body, token_start.get()))
}

/// A JSON text, read one token at a time.
struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
    /// Start of the last token read.
    token_start: Rc<Cell<usize>>,
}

impl Read for Tokens<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.text[self.at..];
        let token = &rest[..token_bytes(rest).min(buffer.len())];
        buffer[..token.len()].copy_from_slice(token);
        self.token_start.set(self.at);
        self.at += token.len();
        Ok(token.len())
    }
}
