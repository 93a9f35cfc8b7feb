//! RDF/XML: well-formed to its end, without a document type, and not too deep.

use oxrdfxml::RdfXmlParser;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::{Collector, Limits, Location, ParseError, with_base};
use crate::Iri;

/// Most attributes of one element, because the parser compares each with all others.
const ATTRIBUTES: usize = 1_000;

/// Most declarations of namespaces active in one place, because the parser searches them for each
/// name.
const NAMESPACES: usize = 1_000;

/// Memory of the parser per name besides its text, roughly.
const NAME_BYTES: usize = 100;

/// The same per item of a collection. The parser makes its two statements when the collection ends.
const ITEM_BYTES: usize = 512;

/// Reads a document.
pub(super) fn parse(body: &[u8], base: &Iri, graph: &mut Collector) -> Result<(), ParseError> {
    check(body, base, &graph.limits)?;
    let mut parser = with_base(RdfXmlParser::new().with_base_iri(base.as_str()))?.for_slice(body);
    while let Some(triple) = parser.next() {
        let triple = triple.map_err(|error| wrong(body, parser.buffer_position(), error.to_string()))?;
        graph.add(triple)?;
    }
    Ok(())
}

/// Checks what the parser does not. The parser accepts a truncated document and lets entities grow.
/// It builds all statements of an element, and some of a whole document, before it returns the
/// first.
fn check(body: &[u8], base: &Iri, limits: &Limits) -> Result<(), ParseError> {
    let mut reader = Reader::from_reader(body);
    let mut elements = 0_usize;
    let mut shape = Shape { around: Vec::new(), here: Open::outside(base), expanded_bytes: 0 };
    loop {
        let start = reader.buffer_position();
        match reader.read_event().map_err(|error| wrong(body, reader.error_position(), error.to_string()))? {
            Event::DocType(_) => return Err(wrong(body, start, "document types and entities are not allowed")),
            Event::Start(element) => {
                elements += 1;
                shape.start(&element, limits)?;
            }
            Event::Empty(element) => {
                elements += 1;
                shape.start(&element, limits)?;
                shape.end();
            }
            // The reader has checked that it closes the innermost element.
            Event::End(_) => shape.end(),
            Event::Eof if !shape.around.is_empty() => {
                return Err(wrong(body, start, "the document ends inside an element"));
            }
            Event::Eof if elements == 0 => return Err(wrong(body, start, "there is no element")),
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

/// Measurements of a document, taken before it is read. All bytes are upper bounds.
struct Shape {
    /// What surrounds the innermost open element.
    around: Vec<Open>,
    here: Open,
    /// Bytes that the parser builds from the names, in all.
    expanded_bytes: usize,
}

/// An open element, or the whole document.
#[derive(Clone, Copy)]
struct Open {
    /// Declarations of namespaces active in it, and their bytes.
    namespaces: usize,
    namespaces_bytes: usize,
    /// Of the longest of them, and of the longest base and language.
    longest_bytes: usize,
    content: Content,
    is_collection: bool,
}

/// What an element contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Statements,
    /// XML that may be the text of a literal (RDF 1.1 XML Syntax, section 7.2.17). Elements right
    /// in it get all namespaces.
    Text,
    /// Something in such a text.
    InText,
}

impl Open {
    fn outside(base: &Iri) -> Self {
        let longest_bytes = base.as_str().len();
        let content = Content::Statements;
        Self { namespaces: 0, namespaces_bytes: 0, longest_bytes, content, is_collection: false }
    }
}

impl Shape {
    fn start(&mut self, element: &BytesStart<'_>, limits: &Limits) -> Result<(), ParseError> {
        let too_large = |of, limit| Err(ParseError::TooLarge { of, limit });
        // Elements for nodes and for properties alternate.
        if self.around.len() == 2 * limits.depth {
            return too_large("levels of XML", 2 * limits.depth);
        }
        // There may be fewer, if a value contains an equals sign.
        let attributes = element.bytes().filter(|byte| *byte == b'=').count();
        if attributes > ATTRIBUTES && element.attributes().with_checks(false).count() > ATTRIBUTES {
            return too_large("attributes of one element", ATTRIBUTES);
        }
        let mut inside = Open { is_collection: false, ..self.here };
        let mut longest_value = 0;
        let mut is_text = false;
        for attribute in element.attributes().with_checks(false).flatten() {
            let (key, bytes) = (attribute.key, attribute.value.len());
            if key.as_ref().starts_with("xmlns") {
                inside.namespaces += 1;
                inside.namespaces_bytes += key.as_ref().len() + bytes + 4;
            }
            match key.as_ref().starts_with("xml") {
                true => inside.longest_bytes = inside.longest_bytes.max(bytes),
                false => longest_value = longest_value.max(bytes),
            }
            if key.local_name().as_ref() == "parseType" {
                is_text |= !matches!(attribute.value.as_ref(), "Resource" | "Collection");
                inside.is_collection |= matches!(attribute.value.as_ref(), "Collection");
            }
        }
        if inside.namespaces > NAMESPACES {
            return too_large("declarations of namespaces in one place", NAMESPACES);
        }
        let names_bytes = (1 + attributes).saturating_mul(NAME_BYTES + 2 * inside.longest_bytes + longest_value);
        let declared_bytes = if self.here.content == Content::Text { inside.namespaces_bytes } else { 0 };
        let item_bytes = if self.here.is_collection { ITEM_BYTES } else { 0 };
        self.expanded_bytes =
            [names_bytes, declared_bytes, item_bytes].into_iter().fold(self.expanded_bytes, usize::saturating_add);
        if self.expanded_bytes > limits.expanded_bytes {
            return too_large("bytes once all names are written out", limits.expanded_bytes);
        }
        inside.content = match self.here.content {
            Content::Statements if is_text => Content::Text,
            Content::Statements => Content::Statements,
            Content::Text | Content::InText => Content::InText,
        };
        self.around.push(std::mem::replace(&mut self.here, inside));
        Ok(())
    }

    fn end(&mut self) {
        if let Some(around) = self.around.pop() {
            self.here = around;
        }
    }
}

fn wrong(body: &[u8], offset: u64, message: impl Into<String>) -> ParseError {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    ParseError::syntax(Some(Location::of(body, offset)), message)
}
