//! METS, as far as a volume's pages need it: which file is which page, how large it is, and its
//! MD5.
//!
//! Read from the METS schema 1.x (Library of Congress): the `fileGrp` with `USE="ocr"` names the
//! text files with `SIZE` and `CHECKSUM`; each `div` of the physical `structMap` that points to one
//! of them (`fptr`) is a page, whose sequence is `ORDER`, whose label is `ORDERLABEL` and whose
//! features are `LABEL`. Elements are known by their namespace, whatever the prefix.

use std::collections::{BTreeMap, HashMap};

use quick_xml::NsReader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};

use crate::Seq;

/// The largest METS that is read, in bytes.
pub const MAX_METS_BYTES: usize = 64 * 1024 * 1024;
/// The most pages that a volume has.
pub const MAX_PAGES: usize = 100_000;

const METS_NAMESPACE: Namespace<'_> = Namespace("http://www.loc.gov/METS/");
/// Far more than METS needs: deeper documents are attacks.
const MAX_DEPTH: usize = 128;
/// The limit of one element's attributes (checking them for repeats takes time quadratic in their
/// number).
const MAX_ATTRIBUTES: usize = 64;
/// The limit of a page's features, each of which takes more memory than its bytes in the file.
const MAX_FEATURES: usize = 32;
/// The limit of one attribute's value, which may end up in the message of an error.
pub(crate) const MAX_VALUE_BYTES: usize = 4 * 1024;

/// A volume's METS: its pages in reading order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mets {
    /// `OBJID`: the volume's id, as it is written there.
    pub id: Option<String>,
    /// The pages by rising sequence; at least one, at most [`MAX_PAGES`].
    pub pages: Vec<MetsPage>,
}

/// The metadata of a page in METS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetsPage {
    /// `ORDER`: unique in the volume.
    pub seq: Seq,
    /// The text file's name, which need not be the sequence.
    pub file_name: String,
    /// The text file's size in bytes.
    pub size: u64,
    /// The text file's MD5.
    pub md5: [u8; 16],
    /// `ORDERLABEL`, such as the printed page number; an empty one counts as absent.
    pub label: Option<String>,
    /// `LABEL`, split at commas: `RIGHT`, `TABLE_OF_CONTENTS` and the like.
    pub features: Vec<String>,
}

/// Why a METS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MetsError {
    /// More than [`MAX_METS_BYTES`].
    #[error("the METS has {0} bytes, more than the {MAX_METS_BYTES} that are read")]
    TooLarge(usize),
    /// More than [`MAX_PAGES`].
    #[error("the METS names more than {MAX_PAGES} pages")]
    TooManyPages,
    /// Elements are nested too deeply, have too many or too long attributes, or a page too many
    /// features.
    #[error(
        "the METS has elements nested more than {MAX_DEPTH} deep, with more than {MAX_ATTRIBUTES} attributes or one of more than \
         {MAX_VALUE_BYTES} bytes, or a page with more than {MAX_FEATURES} features"
    )]
    TooIntricate,
    /// Not well-formed XML, or not UTF-8.
    #[error("the METS is not well-formed XML (byte {at}): {reason}")]
    Xml {
        /// The place in the file, in bytes from its beginning.
        at: u64,
        /// The error of the XML reader.
        reason: String,
    },
    /// A document type declaration: METS needs none, and entities are not expanded.
    #[error("the METS has a DOCTYPE, which is not allowed")]
    Doctype,
    /// The document's root is no `mets` element in METS' namespace, or there is more than one.
    #[error("the document is not a METS: its root must be `mets` in the namespace {}", METS_NAMESPACE.0)]
    NotMets,
    /// An attribute that is needed is absent.
    #[error("the METS lacks the attribute {attribute} of {element}")]
    MissingAttribute {
        /// The element, with its ID or ORDER if it has one.
        element: String,
        /// The attribute's name.
        attribute: &'static str,
    },
    /// An attribute has an invalid value.
    #[error("the METS says {attribute}=\"{value}\" in {element}, which {expected}")]
    BadAttribute {
        /// The element, with its ID or ORDER if it has one.
        element: String,
        /// The attribute's name.
        attribute: &'static str,
        /// Its value.
        value: String,
        /// What is expected instead.
        expected: &'static str,
    },
    /// Two files with one ID, two pages with one ORDER, or a text file that is two pages (or a page
    /// of two files).
    #[error("the METS names {0} twice")]
    Twice(String),
    /// A text file that is not a page.
    #[error("the METS has the OCR file {0}, which is not a page: no div of the physical structMap points to it")]
    FileWithoutPage(String),
    /// No page with text.
    #[error("the METS names no page: it needs a fileGrp with USE=\"ocr\" and a structMap that points into it")]
    NoPages,
}

impl Mets {
    /// Reads a METS of at most [`MAX_METS_BYTES`] in UTF-8. Pages without a text file are passed
    /// over.
    pub fn parse(xml: &[u8]) -> Result<Self, MetsError> {
        if xml.len() > MAX_METS_BYTES {
            return Err(MetsError::TooLarge(xml.len()));
        }
        let mut reader = NsReader::from_reader(xml);
        let mut parser = Parser::default();
        loop {
            let (namespace, event) = match reader.read_resolved_event() {
                Ok(read) => read,
                Err(error) => return Err(not_well_formed(reader.error_position(), &error)),
            };
            let in_mets = namespace == ResolveResult::Bound(METS_NAMESPACE);
            parser.at = reader.buffer_position();
            let handled = match event {
                Event::Start(element) => parser.start(&element, in_mets),
                Event::Empty(element) => parser.start(&element, in_mets).and_then(|()| parser.end()),
                Event::End(_) => parser.end(),
                Event::DocType(_) => Err(MetsError::Doctype),
                Event::Eof => return parser.finish(xml.len()),
                _ => Ok(()),
            };
            handled?;
        }
    }
}

fn not_well_formed(at: u64, reason: &dyn std::fmt::Display) -> MetsError {
    MetsError::Xml { at, reason: reason.to_string() }
}

/// What has been read so far, and which elements are open.
#[derive(Default)]
struct Parser {
    /// The end of the current event, in bytes from the beginning of the file.
    at: u64,
    seen_root: bool,
    id: Option<String>,
    open: Vec<Open>,
    /// The OCR files by their ID; `None` once a page has taken its file.
    files: HashMap<String, Option<OcrFile>>,
    pages: BTreeMap<Seq, MetsPage>,
}

/// An open element, as far as the meaning of its children depends on it.
enum Open {
    Root,
    FileSection,
    FileGroup { is_ocr: bool },
    File { id: String, file: OcrFile },
    StructMap,
    Div(Div),
    Other,
}

struct OcrFile {
    name: Option<String>,
    size: u64,
    md5: [u8; 16],
}

struct Div {
    order: Option<String>,
    label: Option<String>,
    features: Vec<String>,
}

impl Parser {
    fn start(&mut self, element: &BytesStart<'_>, in_mets: bool) -> Result<(), MetsError> {
        if self.open.len() == MAX_DEPTH {
            return Err(MetsError::TooIntricate);
        }
        let at = self.at;
        let local_name = if in_mets { element.local_name().into_inner() } else { "" };
        let opened = match (self.open.last_mut(), local_name) {
            (None, "mets") if !self.seen_root => {
                self.seen_root = true;
                self.id = Attributes::of(element, at)?.take("OBJID");
                Open::Root
            }
            (None, _) => return Err(MetsError::NotMets),
            (Some(Open::Root), "fileSec") => Open::FileSection,
            (Some(Open::Root), "structMap") => match Attributes::of(element, at)?.take("TYPE").as_deref() {
                None | Some("physical") => Open::StructMap,
                Some(_) => Open::Other,
            },
            (Some(Open::FileSection), "fileGrp") => Open::FileGroup { is_ocr: is_ocr(element, at)? },
            (Some(Open::FileGroup { is_ocr: in_ocr }), "fileGrp") => {
                Open::FileGroup { is_ocr: *in_ocr || is_ocr(element, at)? }
            }
            (Some(Open::FileGroup { is_ocr: true }), "file") => open_file(Attributes::of(element, at)?)?,
            (Some(Open::File { file, .. }), "FLocat") if file.name.is_none() => {
                file.name = Attributes::of(element, at)?.take("href");
                Open::Other
            }
            (Some(Open::StructMap | Open::Div(_)), "div") => Open::Div(Div::new(Attributes::of(element, at)?)?),
            (Some(Open::Div(div)), "fptr") => {
                if let Some(id) = Attributes::of(element, at)?.take("FILEID")
                    && let Some(file) = self.files.get_mut(&id)
                {
                    let file = file.take().ok_or_else(|| MetsError::Twice(format!("the file {id} as a page")))?;
                    let page = div.page(file)?;
                    let seq = page.seq;
                    if self.pages.insert(seq, page).is_some() {
                        return Err(MetsError::Twice(format!("the page with ORDER {seq}")));
                    }
                }
                Open::Other
            }
            _ => Open::Other,
        };
        self.open.push(opened);
        Ok(())
    }

    fn end(&mut self) -> Result<(), MetsError> {
        if let Some(Open::File { id, file }) = self.open.pop() {
            if file.name.is_none() {
                return Err(MetsError::MissingAttribute {
                    element: format!("FLocat of file {id}"),
                    attribute: "xlink:href",
                });
            }
            if self.files.len() == MAX_PAGES {
                return Err(MetsError::TooManyPages);
            }
            if self.files.insert(id.clone(), Some(file)).is_some() {
                return Err(MetsError::Twice(format!("the file {id}")));
            }
        }
        Ok(())
    }

    fn finish(self, len_bytes: usize) -> Result<Mets, MetsError> {
        if !self.seen_root {
            return Err(MetsError::NotMets);
        }
        if !self.open.is_empty() {
            return Err(not_well_formed(len_bytes as u64, &"it ends before its elements do"));
        }
        if let Some(id) = self.files.into_iter().filter(|(_, file)| file.is_some()).map(|(id, _)| id).min() {
            return Err(MetsError::FileWithoutPage(id));
        }
        if self.pages.is_empty() {
            return Err(MetsError::NoPages);
        }
        Ok(Mets { id: self.id, pages: self.pages.into_values().collect() })
    }
}

fn open_file(mut attributes: Attributes) -> Result<Open, MetsError> {
    let id = attributes.need("file of the OCR group", "ID")?;
    let element = format!("file {id}");
    let size = attributes.need(&element, "SIZE")?;
    let size = size.parse().map_err(|_| bad(&element, "SIZE", size, "is not a number of bytes"))?;
    let checksum_type = attributes.need(&element, "CHECKSUMTYPE")?;
    if checksum_type != "MD5" {
        return Err(bad(&element, "CHECKSUMTYPE", checksum_type, "must be MD5"));
    }
    let checksum = attributes.need(&element, "CHECKSUM")?;
    let mut md5 = [0; 16];
    hex::decode_to_slice(&checksum, &mut md5)
        .map_err(|_| bad(&element, "CHECKSUM", checksum, "is not an MD5 of 32 hexadecimal digits"))?;
    Ok(Open::File { id, file: OcrFile { name: None, size, md5 } })
}

impl Div {
    fn new(mut attributes: Attributes) -> Result<Self, MetsError> {
        let label = attributes.take("LABEL").unwrap_or_default();
        let features: Vec<_> = label.split(',').map(str::trim).filter(|feature| !feature.is_empty()).collect();
        if features.len() > MAX_FEATURES {
            return Err(MetsError::TooIntricate);
        }
        Ok(Self {
            order: attributes.take("ORDER"),
            label: attributes.take("ORDERLABEL").filter(|label| !label.is_empty()),
            features: features.into_iter().map(str::to_owned).collect(),
        })
    }

    fn page(&self, file: OcrFile) -> Result<MetsPage, MetsError> {
        let file_name = file.name.unwrap_or_default();
        let element = format!("the div of {file_name}");
        let Some(order) = &self.order else {
            return Err(MetsError::MissingAttribute { element, attribute: "ORDER" });
        };
        let seq = Seq::parse(order).ok_or_else(|| bad(&element, "ORDER", order.clone(), "is not a number above 0"))?;
        let (label, features) = (self.label.clone(), self.features.clone());
        Ok(MetsPage { seq, file_name, size: file.size, md5: file.md5, label, features })
    }
}

/// An element's attributes, decoded, by their names without prefix.
struct Attributes(Vec<(String, String)>);

impl Attributes {
    fn of(element: &BytesStart<'_>, at: u64) -> Result<Self, MetsError> {
        let mut attributes = Vec::new();
        for attribute in element.attributes() {
            if attributes.len() == MAX_ATTRIBUTES {
                return Err(MetsError::TooIntricate);
            }
            let attribute = attribute.map_err(|error| not_well_formed(at, &error))?;
            if attribute.key.as_namespace_binding().is_some() {
                continue;
            }
            let value =
                attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| not_well_formed(at, &error))?;
            if value.len() > MAX_VALUE_BYTES {
                return Err(MetsError::TooIntricate);
            }
            attributes.push((attribute.key.local_name().into_inner().to_owned(), value.into_owned()));
        }
        Ok(Self(attributes))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.iter_mut().find(|(key, _)| key == name).map(|(_, value)| std::mem::take(value))
    }

    fn need(&mut self, element: &str, name: &'static str) -> Result<String, MetsError> {
        self.take(name).ok_or_else(|| MetsError::MissingAttribute { element: element.to_owned(), attribute: name })
    }
}

fn is_ocr(file_group: &BytesStart<'_>, at: u64) -> Result<bool, MetsError> {
    Ok(Attributes::of(file_group, at)?.take("USE").as_deref() == Some("ocr"))
}

fn bad(element: &str, attribute: &'static str, value: String, expected: &'static str) -> MetsError {
    MetsError::BadAttribute { element: element.to_owned(), attribute, value, expected }
}
