//! The outline of any METS: its title, how many files it has, and the first entries of its
//! `structMap`. `mets.rs` reads those of volumes, whose pages it lists.
//!
//! Elements are known by their namespace, whatever the prefix. What is malformed has no outline.

use std::collections::HashMap;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::{NsReader, XmlVersion};

use crate::mets::MAX_VALUE_BYTES;

/// Most entries of an outline.
pub const ENTRIES_MAX: usize = 50;
/// The deepest nesting of elements.
const DEPTH_MAX: usize = 128;
/// Most attributes of an element: a check for repeats takes time quadratic in their number.
const ATTRIBUTES_MAX: usize = 64;

/// The namespace of METS.
pub const METS: &str = "http://www.loc.gov/METS/";

/// What a METS lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Its label, or else the first title of its descriptive metadata.
    pub title: Option<String>,
    /// How many files it has.
    pub files: usize,
    /// The first entries of its first `structMap`, at most [`ENTRIES_MAX`].
    pub entries: Vec<OutlineEntry>,
    /// Whether there are entries behind these.
    pub has_more: bool,
    /// Whether only its beginning was read.
    pub is_cut: bool,
}

/// An entry of a `structMap`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OutlineEntry {
    /// Its `ORDER`.
    pub order: Option<String>,
    /// Its labels.
    pub label: Option<String>,
    /// The name of its first file.
    pub file: Option<String>,
}

impl Outline {
    /// The outline of a METS; `None` if it is none, or malformed. `is_cut` if these bytes are only its
    /// beginning. It takes memory of the size of these bytes.
    pub fn of(xml: &[u8], is_cut: bool) -> Option<Self> {
        // Nothing ends within a tag or a letter.
        let len = if is_cut { xml.iter().rposition(|byte| *byte == b'>')? + 1 } else { xml.len() };
        let mut reader = NsReader::from_reader(&xml[..len]);
        let mut parser = Parser::default();
        loop {
            let (namespace, event) = reader.read_resolved_event().ok()?;
            let is_mets = matches!(namespace, ResolveResult::Bound(Namespace(METS)));
            match event {
                Event::Start(element) => parser.start(&element, is_mets)?,
                Event::Empty(element) => {
                    parser.start(&element, is_mets)?;
                    parser.open.pop();
                }
                Event::End(_) => _ = parser.open.pop(),
                Event::Text(text) => parser.text(&text.xml_content(XmlVersion::Implicit1_0)),
                Event::CData(text) => parser.text(&text.xml_content(XmlVersion::Implicit1_0)),
                Event::GeneralRef(reference) => match reference.resolve_char_ref().ok()? {
                    Some(character) => parser.text(character.encode_utf8(&mut [0; 4])),
                    None => parser.text(resolve_predefined_entity(&reference)?),
                },
                Event::DocType(_) => return None,
                Event::Eof => return parser.finish(is_cut),
                _ => {}
            }
        }
    }
}

/// An open element, as far as the meaning of what is in it depends on it.
#[derive(Debug)]
enum Open {
    Root,
    /// Metadata that describe the whole.
    Described,
    /// The title in them.
    Title,
    Files,
    /// A file with this identifier.
    File(Option<String>),
    StructMap,
    /// A part with this entry.
    Part(Option<usize>),
    /// What names the files of a part.
    Pointer(Option<usize>),
    Other,
}

/// What was read so far.
#[derive(Debug, Default)]
struct Parser {
    open: Vec<Open>,
    is_begun: bool,
    has_map: bool,
    label: Option<String>,
    /// The first title in descriptive metadata.
    title: String,
    has_title: bool,
    /// The names of files by their identifiers.
    names: HashMap<String, String>,
    listed: Outline,
}

impl Parser {
    /// Opens an element; `None` if this is no METS, or too intricate.
    fn start(&mut self, element: &BytesStart<'_>, is_mets: bool) -> Option<()> {
        if self.open.len() == DEPTH_MAX {
            return None;
        }
        let local_name = element.local_name();
        let name = local_name.into_inner();
        let opened = match (self.open.last(), name) {
            (None, "mets") if is_mets && !self.is_begun => {
                self.is_begun = true;
                self.label = Attributes::of(element)?.take("LABEL");
                Open::Root
            }
            (None, _) => return None,
            (Some(Open::Root), "dmdSec") if is_mets => Open::Described,
            (Some(Open::Described), "title") if !self.has_title => {
                self.has_title = true;
                Open::Title
            }
            (Some(Open::Described), _) => Open::Described,
            (Some(Open::Root), "fileSec") | (Some(Open::Files), "fileGrp") if is_mets => Open::Files,
            (Some(Open::Files | Open::File(_)), "file") if is_mets => {
                self.listed.files += 1;
                Open::File(Attributes::of(element)?.take("ID"))
            }
            (Some(Open::File(id)), "FLocat") if is_mets => {
                if let (Some(id), Some(name)) = (id, Attributes::of(element)?.take("href")) {
                    self.names.entry(id.clone()).or_insert(name);
                }
                Open::Other
            }
            (Some(Open::Root), "structMap") if is_mets && !self.has_map => {
                self.has_map = true;
                Open::StructMap
            }
            (Some(Open::StructMap | Open::Part(_)), "div") if is_mets => Open::Part(self.part(element)?),
            (Some(Open::Part(entry)), "fptr") | (Some(Open::Pointer(entry)), "area" | "seq" | "par") if is_mets => {
                let entry = *entry;
                let entry = self.point(entry, element)?;
                // A second file of the part is of the same entry.
                if let Some(Open::Part(of) | Open::Pointer(of)) = self.open.last_mut() {
                    *of = entry;
                }
                Open::Pointer(entry)
            }
            _ => Open::Other,
        };
        self.open.push(opened);
        Some(())
    }

    /// The entry of a part that has an order or a label.
    fn part(&mut self, element: &BytesStart<'_>) -> Option<Option<usize>> {
        let mut attributes = Attributes::of(element)?;
        let order = attributes.take("ORDER");
        let labels = [attributes.take("ORDERLABEL"), attributes.take("LABEL")];
        let labels: Vec<_> = labels.into_iter().flatten().filter(|label| !label.trim().is_empty()).collect();
        let label = (!labels.is_empty()).then(|| labels.join(", "));
        if order.is_none() && label.is_none() {
            return Some(None);
        }
        Some(self.entry(OutlineEntry { order, label, file: None }))
    }

    /// The entry of a part that points to a file.
    fn point(&mut self, entry: Option<usize>, element: &BytesStart<'_>) -> Option<Option<usize>> {
        let Some(file) = Attributes::of(element)?.take("FILEID") else { return Some(entry) };
        let Some(entry) = entry else {
            return Some(self.entry(OutlineEntry { file: Some(file), ..OutlineEntry::default() }));
        };
        if let Some(known) = self.listed.entries.get_mut(entry).filter(|known| known.file.is_none()) {
            known.file = Some(file);
        }
        Some(Some(entry))
    }

    /// Adds an entry, unless there are enough. Returns its number.
    fn entry(&mut self, entry: OutlineEntry) -> Option<usize> {
        if self.listed.entries.len() == ENTRIES_MAX {
            self.listed.has_more = true;
            return None;
        }
        self.listed.entries.push(entry);
        Some(self.listed.entries.len() - 1)
    }

    fn text(&mut self, text: &str) {
        if let Some(Open::Title) = self.open.last() {
            self.title.push_str(text);
        }
    }

    fn finish(self, is_cut: bool) -> Option<Outline> {
        let Self { open, is_begun, label, title, names, mut listed, .. } = self;
        if !is_begun || !(open.is_empty() || is_cut) {
            return None;
        }
        for entry in &mut listed.entries {
            // A file that is not there is known by its identifier.
            entry.file = entry.file.take().map(|id| names.get(&id).cloned().unwrap_or(id));
        }
        let title = label.into_iter().chain([title]).map(|title| title.trim().to_owned()).find(|it| !it.is_empty());
        Some(Outline { title, is_cut, ..listed })
    }
}

/// The attributes of an element, decoded, by their names without prefix. There are none if one has a
/// value of more than [`MAX_VALUE_BYTES`].
struct Attributes(Vec<(String, String)>);

impl Attributes {
    fn of(element: &BytesStart<'_>) -> Option<Self> {
        let mut attributes = Vec::new();
        for attribute in element.attributes() {
            if attributes.len() == ATTRIBUTES_MAX {
                return None;
            }
            let attribute = attribute.ok()?;
            if attribute.key.as_namespace_binding().is_some() {
                continue;
            }
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
            if value.len() > MAX_VALUE_BYTES {
                return None;
            }
            attributes.push((attribute.key.local_name().into_inner().to_owned(), value.into_owned()));
        }
        Some(Self(attributes))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.iter_mut().find(|(key, _)| key == name).map(|(_, value)| std::mem::take(value))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const BEGIN: &str = "<?xml version=\"1.0\"?>\n<m:mets xmlns:m=\"http://www.loc.gov/METS/\" \
                         xmlns:x=\"http://www.w3.org/1999/xlink\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\">";

    fn entry(order: Option<&str>, label: Option<&str>, file: Option<&str>) -> OutlineEntry {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        OutlineEntry { order: owned(order), label: owned(label), file: owned(file) }
    }

    #[test]
    fn a_mets_lists_its_title_its_files_and_the_entries_of_its_map() {
        let xml = format!(
            "{BEGIN}<m:dmdSec ID=\"D\"><m:mdWrap><m:xmlData><dc:title>Salmon &amp; &#102;ry</dc:title>\
             <dc:title>Another</dc:title></m:xmlData></m:mdWrap></m:dmdSec>\
             <m:fileSec><m:fileGrp><m:file ID=\"F1\"><m:FLocat x:href=\"1.txt\"/></m:file>\
             <m:file ID=\"F2\"><m:FLocat x:href=\"2.txt\"/></m:file></m:fileGrp></m:fileSec>\
             <m:structMap><m:div TYPE=\"volume\"><m:div ORDER=\"1\" ORDERLABEL=\"i\" LABEL=\"TITLE\">\
             <m:fptr FILEID=\"F1\"/><m:fptr FILEID=\"F2\"/></m:div><m:div><m:fptr><m:area FILEID=\"F2\"/></m:fptr>\
             </m:div><m:div LABEL=\"End\"><m:fptr FILEID=\"F3\"/></m:div></m:div></m:structMap>\
             <m:structMap><m:div LABEL=\"of another map\"/></m:structMap></m:mets>"
        );
        let listed = Outline::of(xml.as_bytes(), false).unwrap();
        assert_eq!((listed.title.as_deref(), listed.files), (Some("Salmon & fry"), 2));
        let expected = [
            entry(Some("1"), Some("i, TITLE"), Some("1.txt")),
            entry(None, None, Some("2.txt")),
            entry(None, Some("End"), Some("F3")),
        ];
        assert_eq!((listed.entries.as_slice(), listed.has_more), (&expected[..], false));
    }

    #[test]
    fn the_label_of_a_mets_is_its_title_and_fifty_entries_are_enough() {
        let parts: String = (1..=51).map(|order| format!("<div ORDER=\"{order}\"/>")).collect();
        let xml = format!("<mets xmlns=\"{METS}\" LABEL=\"A book\"><structMap>{parts}</structMap></mets>");
        let listed = Outline::of(xml.as_bytes(), false).unwrap();
        assert_eq!((listed.title.as_deref(), listed.entries.len(), listed.has_more), (Some("A book"), 50, true));
    }

    #[test]
    fn a_mets_of_which_only_the_beginning_is_read_lists_what_that_has() {
        let xml = format!("{BEGIN}<m:structMap><m:div ORDER=\"1\"/><m:div ORDER=\"2\"/><m:div ORDER=\"\u{fc}");
        let cut = &xml.as_bytes()[..xml.len() - 1];
        let listed_of_cut = Outline::of(cut, true).unwrap();
        assert_eq!((listed_of_cut.entries.len(), listed_of_cut.is_cut), (2, true));
        assert_eq!(Outline::of(cut, false), None);
        assert_eq!(Outline::of(b"no tag", true), None);
    }

    #[test]
    fn what_is_no_mets_or_malformed_lists_nothing() {
        let deep = format!("{BEGIN}{}", "<m:div>".repeat(DEPTH_MAX));
        let many: String = (0..=ATTRIBUTES_MAX).map(|n| format!(" a{n}=\"\"")).collect();
        let many = format!("<mets xmlns=\"{METS}\"{many}/>");
        let long = format!("{BEGIN}<m:fileSec><m:file ID=\"{}\"/></m:fileSec></m:mets>", "f".repeat(512 << 10));
        for xml in [
            "",
            "text",
            "<mets/>",
            "<mets xmlns=\"http://www.loc.gov/METS/v2\"/>",
            "<mets xmlns=\"http://www.loc.gov/METS/\"><div></mets>",
            "<mets xmlns=\"http://www.loc.gov/METS/\"></mets><mets xmlns=\"http://www.loc.gov/METS/\"/>",
            "<!DOCTYPE mets [<!ENTITY e \"e\">]><mets xmlns=\"http://www.loc.gov/METS/\"/>",
            "<mets xmlns=\"http://www.loc.gov/METS/\" LABEL=\"&e;\"/>",
            deep.as_str(),
            many.as_str(),
            long.as_str(),
        ] {
            assert_eq!(Outline::of(xml.as_bytes(), false), None, "{}", &xml[..xml.len().min(1_000)]);
        }
        assert_eq!(Outline::of(b"<mets xmlns=\"http://www.loc.gov/METS/\">\xFF</mets>", false), None);
    }
}
