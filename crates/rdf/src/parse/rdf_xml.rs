//! RDF/XML: well-formed to its end, without document type.

use oxrdfxml::RdfXmlParser;
use quick_xml::Reader;
use quick_xml::events::Event;

use super::{Collector, Location, ParseError, with_base};
use crate::Iri;

/// Reads a document.
pub(super) fn parse(body: &[u8], base: &Iri, graph: &mut Collector) -> Result<(), ParseError> {
    check_well_formed(body)?;
    let mut parser = with_base(RdfXmlParser::new().with_base_iri(base.as_str()))?.for_slice(body);
    while let Some(triple) = parser.next() {
        let triple = triple.map_err(|error| wrong(body, parser.buffer_position(), error.to_string()))?;
        graph.add(triple)?;
    }
    Ok(())
}

/// The parser takes a document that ends too early for one that ends, and lets entities grow: both are found before.
fn check_well_formed(body: &[u8]) -> Result<(), ParseError> {
    let mut reader = Reader::from_reader(body);
    let (mut depth, mut elements) = (0_usize, 0_usize);
    loop {
        let start = reader.buffer_position();
        match reader.read_event().map_err(|error| wrong(body, reader.error_position(), error.to_string()))? {
            Event::DocType(_) => return Err(wrong(body, start, "document types and entities are not taken")),
            Event::Start(_) => (depth, elements) = (depth + 1, elements + 1),
            Event::Empty(_) => elements += 1,
            // That it ends what began last, the reader has checked.
            Event::End(_) => depth -= 1,
            Event::Eof if depth > 0 => return Err(wrong(body, start, "the document ends inside an element")),
            Event::Eof if elements == 0 => return Err(wrong(body, start, "there is no element")),
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

fn wrong(body: &[u8], offset: u64, message: impl Into<String>) -> ParseError {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    ParseError::syntax(Some(Location::of(body, offset)), message)
}
