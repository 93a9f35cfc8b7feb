//! Reading XML within bounds: no depth, length or number that a stranger writes is trusted.
//! Entities are not expanded, except those of XML itself.

use std::io::{self, BufRead, Read};

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart};

/// The deepest nesting of elements.
pub(super) const DEPTH_MAX: usize = 128;
/// The most attributes of an element (a check for repeats takes time quadratic in their number).
const ATTRIBUTES_MAX: usize = 64;
/// The most bytes of an attribute.
const ATTRIBUTE_BYTES_MAX: usize = 4 << 10;
/// The most bytes of a tag, or of a text without a break.
const TOKEN_BYTES_MAX: u64 = 16 << 20;

/// The most bytes that are kept in memory of one document.
const KEPT_BYTES_MAX: usize = 128 << 20;
/// What an element takes in memory beside the bytes of its attributes.
const ELEMENT_COST_BYTES: usize = 96;

/// Why XML is refused.
pub(super) type XmlResult<T> = Result<T, String>;

/// A reader of at most so many bytes, and of at most [`TOKEN_BYTES_MAX`] for one event.
pub(super) struct Bounded<R> {
    reader: R,
    left_bytes: u64,
    left_of_token: u64,
}

impl<R: BufRead> Bounded<R> {
    pub(super) fn new(reader: R, max_bytes: u64) -> Self {
        Self { reader, left_bytes: max_bytes, left_of_token: TOKEN_BYTES_MAX }
    }

    /// Begins the next event.
    pub(super) fn begin_token(&mut self) {
        self.left_of_token = TOKEN_BYTES_MAX;
    }
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = self.reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(bytes);
        }
        match self.left_bytes.min(self.left_of_token) {
            0 if self.left_bytes == 0 => Err(io::Error::other("it has more bytes than are read")),
            0 => Err(io::Error::other(format!("a tag or text has more than {TOKEN_BYTES_MAX} bytes"))),
            left => Ok(&bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))]),
        }
    }

    fn consume(&mut self, len: usize) {
        self.left_bytes = self.left_bytes.saturating_sub(len as u64);
        self.left_of_token = self.left_of_token.saturating_sub(len as u64);
        self.reader.consume(len);
    }
}

impl<R: BufRead> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.fill_buf()?.read(buffer)?;
        self.consume(len);
        Ok(len)
    }
}

/// The attributes of an element, decoded, by their names without prefix.
pub(super) struct Attributes(Vec<(String, String)>);

impl Attributes {
    pub(super) fn of(element: &BytesStart<'_>) -> XmlResult<Self> {
        let mut attributes = Vec::new();
        for attribute in element.attributes() {
            if attributes.len() == ATTRIBUTES_MAX {
                return Err(format!("an element has more than {ATTRIBUTES_MAX} attributes"));
            }
            let attribute = attribute.map_err(|error| error.to_string())?;
            if attribute.key.as_namespace_binding().is_some() {
                continue;
            }
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| error.to_string())?;
            if value.len() > ATTRIBUTE_BYTES_MAX {
                return Err(format!("an attribute has more than {ATTRIBUTE_BYTES_MAX} bytes"));
            }
            attributes.push((attribute.key.local_name().into_inner().to_owned(), value.into_owned()));
        }
        Ok(Self(attributes))
    }

    /// Takes a value. An empty one counts as absent.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let value = self.0.iter_mut().find(|(key, _)| key == name).map(|(_, value)| std::mem::take(value));
        value.filter(|value| !value.is_empty())
    }

    pub(super) fn need(&mut self, element: &str, name: &str) -> XmlResult<String> {
        self.take(name).ok_or_else(|| format!("a {element} lacks the attribute {name}"))
    }
}

/// What is kept in memory.
#[derive(Default)]
pub(super) struct Kept {
    bytes: usize,
}

impl Kept {
    /// Keeps so many more bytes.
    pub(super) fn add(&mut self, bytes: usize) -> XmlResult<()> {
        self.bytes += bytes;
        match self.bytes > KEPT_BYTES_MAX {
            true => Err(format!("what it says takes more than {KEPT_BYTES_MAX} bytes")),
            false => Ok(()),
        }
    }

    /// The attributes of an element of which values are kept.
    pub(super) fn attributes(&mut self, element: &BytesStart<'_>) -> XmlResult<Attributes> {
        let attributes = Attributes::of(element)?;
        self.add(attributes.0.iter().map(|(_, value)| value.len()).sum::<usize>() + ELEMENT_COST_BYTES)?;
        Ok(attributes)
    }
}

/// The character, or the predefined entity, that a reference names.
pub(super) fn resolved(reference: &BytesRef<'_>) -> XmlResult<String> {
    if let Some(character) = reference.resolve_char_ref().map_err(|error| error.to_string())? {
        return Ok(character.to_string());
    }
    let text = resolve_predefined_entity(reference);
    text.map(str::to_owned).ok_or_else(|| "it has an entity of its own, which is not expanded".to_owned())
}
