//! Reading a `mets.xml`.
//!
//! Elements are known by their namespace, whatever the prefix. What belongs together is found by
//! identifiers: a `div` names the sections of metadata of its object (`DMDID`, `ADMID`), a `file` those
//! of its bitstream.

use std::collections::HashMap;
use std::io::BufRead;

use quick_xml::NsReader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};

use super::Field;
use super::manifest::{Bitstream, Bundle, Child, Kind, Manifest, Policy};
use super::xml::{Attributes, Bounded, DEPTH_MAX, XmlResult, resolved};
use crate::bagit::text::Algorithm;
use crate::read::{ReadResult, invalid};

/// The most bytes of a METS. A collection names all of its items, with about 300 bytes for each.
const METS_BYTES_MAX: u64 = 512 << 20;
/// The most bytes of it that are kept in memory.
const KEPT_BYTES_MAX: usize = 128 << 20;
/// What a kept value takes in memory beside its bytes.
const VALUE_COST_BYTES: usize = 96;

const METS: &str = "http://www.loc.gov/METS/";
const DIM: &str = "http://www.dspace.org/xmlns/dspace/dim";
const RIGHTS: &str = "http://cosimo.stanford.edu/sdr/metsrights/";

/// The profiles of AIPs begin with it.
const PROFILE: &str = "http://www.dspace.org/schema/aip/";

/// The `PROFILE` of the first element, if that is a METS.
pub(super) fn profile(source: impl BufRead) -> Option<String> {
    let mut reader = NsReader::from_reader(Bounded::new(source, METS_BYTES_MAX));
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let (namespace, event) = reader.read_resolved_event_into(&mut buffer).ok()?;
        let is_mets = space(&namespace) == Space::Mets;
        match event {
            Event::Start(element) | Event::Empty(element) => {
                return Attributes::of(&element).ok().filter(|_| is_mets)?.take("PROFILE");
            }
            Event::Eof | Event::DocType(_) => return None,
            _ => {}
        }
    }
}

/// Reads a METS.
pub(super) fn read(source: impl BufRead, name: &str) -> ReadResult<Manifest> {
    let mut reader = NsReader::from_reader(Bounded::new(source, METS_BYTES_MAX));
    let mut parser = Parser::default();
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        reader.get_mut().begin_token();
        let handled = match reader.read_resolved_event_into(&mut buffer) {
            Err(error) => Err(format!("it is no XML that can be read: {error}")),
            Ok((namespace, event)) => match event {
                Event::Start(element) => parser.start(space(&namespace), &element),
                Event::Empty(element) => parser.start(space(&namespace), &element).and_then(|()| parser.end()),
                Event::End(_) => parser.end(),
                Event::Text(text) => parser.text(&text.xml_content(XmlVersion::Implicit1_0)),
                Event::CData(text) => parser.text(&text.xml_content(XmlVersion::Implicit1_0)),
                Event::GeneralRef(reference) => resolved(&reference).and_then(|text| parser.text(&text)),
                Event::DocType(_) => Err("it has a DOCTYPE, which is not allowed".to_owned()),
                Event::Eof => {
                    return parser.finish().map_err(|why| invalid(name, format!("{}: {why}", super::METS)));
                }
                _ => Ok(()),
            },
        };
        handled.map_err(|why| invalid(name, format!("{}: {why}", super::METS)))?;
    }
}

/// A namespace that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Mets,
    Dim,
    Rights,
    Other,
}

fn space(namespace: &ResolveResult<'_>) -> Space {
    match namespace {
        ResolveResult::Bound(Namespace(METS)) => Space::Mets,
        ResolveResult::Bound(Namespace(DIM)) => Space::Dim,
        ResolveResult::Bound(Namespace(RIGHTS)) => Space::Rights,
        _ => Space::Other,
    }
}

/// An open element, as far as the meaning of what is in it depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Root,
    /// `dmdSec` or `amdSec`, and all elements in it.
    Section,
    FileSection,
    FileGroup,
    File,
    Map,
    /// The `div` of the object.
    Object,
    /// The `div` of the object that it is in.
    Parent,
    /// The `div` of an object that is in it.
    Child,
    Other,
}

/// Metadata under one identifier.
#[derive(Default)]
struct Section {
    fields: Vec<Field>,
    policies: Vec<Policy>,
}

/// A text that is being read.
enum Reading {
    /// The value of the last field.
    Field(String),
    /// Who the last policy is about.
    Who(String),
}

#[derive(Default)]
struct Parser {
    open: Vec<Open>,
    kept_bytes: usize,
    root: Option<(Kind, String)>,
    modified: Option<String>,
    sections: HashMap<String, Section>,
    /// The identifier of the open section.
    section: String,
    reading: Option<Reading>,
    bundles: Vec<(Bundle, Option<String>)>,
    bitstreams: Vec<(Bitstream, Option<String>)>,
    /// The identifiers of the sections of the object: descriptive and administrative.
    described_by: Option<(String, String)>,
    primary: Option<String>,
    parent: Option<String>,
    children: Vec<Child>,
    referenced: Vec<(String, Option<String>)>,
    has_template: bool,
    groups: u64,
    people: u64,
}

impl Parser {
    fn start(&mut self, space: Space, element: &BytesStart<'_>) -> XmlResult<()> {
        if self.open.len() == DEPTH_MAX {
            return Err(format!("its elements are nested more than {DEPTH_MAX} deep"));
        }
        let name = element.local_name().into_inner();
        let opened = match self.open.last() {
            None => self.root(space, name, element)?,
            Some(Open::Root) => self.part(space, name, element)?,
            Some(Open::Section) => self.metadata(space, name, element)?,
            Some(Open::FileSection | Open::FileGroup | Open::File) => self.file(space, name, element)?,
            Some(Open::Map | Open::Object | Open::Parent | Open::Child) => self.structure(space, name, element)?,
            Some(Open::Other) => Open::Other,
        };
        self.open.push(opened);
        Ok(())
    }

    /// The attributes of an element of which values are kept.
    fn attributes(&mut self, element: &BytesStart<'_>) -> XmlResult<Attributes> {
        let attributes = Attributes::of(element)?;
        self.keep(attributes.len_bytes() + VALUE_COST_BYTES)?;
        Ok(attributes)
    }

    fn keep(&mut self, bytes: usize) -> XmlResult<()> {
        self.kept_bytes += bytes;
        match self.kept_bytes > KEPT_BYTES_MAX {
            true => Err(format!("what it says takes more than {KEPT_BYTES_MAX} bytes")),
            false => Ok(()),
        }
    }

    fn root(&mut self, space: Space, name: &str, element: &BytesStart<'_>) -> XmlResult<Open> {
        if self.root.is_some() || space != Space::Mets || name != "mets" {
            return Err("it is no METS".to_owned());
        }
        let mut attributes = self.attributes(element)?;
        let profile = attributes.take("PROFILE").unwrap_or_default();
        if !profile.starts_with(PROFILE) {
            return Err(format!("it is no AIP of a DSpace: its profile is {profile:?}"));
        }
        let kind = attributes.need("mets", "TYPE")?;
        let kind = Kind::named(&kind).ok_or_else(|| format!("its type is {kind:?}, which is not known"))?;
        let id = attributes.need("mets", "OBJID")?;
        self.root = Some((kind, id.strip_prefix("hdl:").unwrap_or(&id).to_owned()));
        Ok(Open::Root)
    }

    fn part(&mut self, space: Space, name: &str, element: &BytesStart<'_>) -> XmlResult<Open> {
        if space != Space::Mets {
            return Ok(Open::Other);
        }
        Ok(match name {
            "metsHdr" => {
                self.modified = self.attributes(element)?.take("LASTMODDATE");
                Open::Other
            }
            "dmdSec" | "amdSec" => {
                self.section = self.attributes(element)?.take("ID").unwrap_or_default();
                Open::Section
            }
            "fileSec" => Open::FileSection,
            "structMap" => Open::Map,
            _ => Open::Other,
        })
    }

    /// Metadata of any format, in a section.
    fn metadata(&mut self, space: Space, name: &str, element: &BytesStart<'_>) -> XmlResult<Open> {
        match (space, name) {
            (Space::Mets, "mdRef") => {
                let mut attributes = self.attributes(element)?;
                let file = attributes.take("href");
                self.referenced.extend(file.map(|file| (file, attributes.take("MIMETYPE"))));
            }
            (Space::Dim, "field") => {
                let mut attributes = self.attributes(element)?;
                let field = Field {
                    schema: attributes.need("field", "mdschema")?,
                    element: attributes.need("field", "element")?,
                    qualifier: attributes.take("qualifier"),
                    language: attributes.take("lang"),
                    value: String::new(),
                };
                self.open_section().fields.push(field);
                self.reading = Some(Reading::Field(String::new()));
            }
            (Space::Rights, "Context") => {
                let mut attributes = self.attributes(element)?;
                let policy = Policy {
                    class: attributes.take("CONTEXTCLASS"),
                    who: None,
                    is_in_effect: attributes.take("in-effect").is_none_or(|said| said != "false"),
                    from: attributes.take("start-date"),
                    until: attributes.take("end-date"),
                    permits: Vec::new(),
                };
                self.open_section().policies.push(policy);
            }
            (Space::Rights, "UserName") => self.reading = Some(Reading::Who(String::new())),
            (Space::Rights, "Permissions") => {
                let mut attributes = self.attributes(element)?;
                let said = ["DISCOVER", "DISPLAY", "COPY", "DUPLICATE", "MODIFY", "DELETE", "PRINT"];
                let mut permits: Vec<_> = said
                    .into_iter()
                    .filter(|permit| attributes.take(permit).is_some_and(|said| said == "true"))
                    .map(str::to_owned)
                    .collect();
                permits.extend(attributes.take("OTHERPERMITTYPE"));
                if let Some(policy) = self.open_section().policies.last_mut() {
                    policy.permits = permits;
                }
            }
            (_, "Group") => self.groups += 1,
            (_, "Person") => self.people += 1,
            _ => {}
        }
        Ok(Open::Section)
    }

    fn open_section(&mut self) -> &mut Section {
        self.sections.entry(self.section.clone()).or_default()
    }

    fn file(&mut self, space: Space, name: &str, element: &BytesStart<'_>) -> XmlResult<Open> {
        if space != Space::Mets {
            return Ok(Open::Other);
        }
        Ok(match name {
            "fileGrp" => {
                let mut attributes = self.attributes(element)?;
                let name = attributes.take("USE").unwrap_or_default();
                self.bundles.push((Bundle { name, policies: Vec::new() }, attributes.take("ADMID")));
                Open::FileGroup
            }
            "file" if !self.bundles.is_empty() => {
                let attributes = self.attributes(element)?;
                let bitstream = bitstream(attributes, self.bundles.len() - 1)?;
                self.bitstreams.push(bitstream);
                Open::File
            }
            "FLocat" if self.open.last() == Some(&Open::File) => {
                let place = self.attributes(element)?.need("FLocat", "href")?;
                if let Some((bitstream, _)) = self.bitstreams.last_mut()
                    && bitstream.file.is_empty()
                {
                    bitstream.file = place;
                }
                Open::Other
            }
            _ => Open::Other,
        })
    }

    fn structure(&mut self, space: Space, name: &str, element: &BytesStart<'_>) -> XmlResult<Open> {
        let within = self.open.last().copied();
        match (space, name, within) {
            (Space::Mets, "div", Some(Open::Map)) => {
                let mut attributes = self.attributes(element)?;
                if attributes.take("TYPE").as_deref() == Some("AIP Parent Link") {
                    return Ok(Open::Parent);
                }
                if self.described_by.is_some() {
                    return Ok(Open::Other);
                }
                let [by, of] = ["DMDID", "ADMID"].map(|name| attributes.take(name).unwrap_or_default());
                self.described_by = Some((by, of));
                Ok(Open::Object)
            }
            (Space::Mets, "div", Some(Open::Object)) => self.within(element),
            (Space::Mets, "fptr", Some(Open::Object)) => {
                let id = self.attributes(element)?.take("FILEID");
                self.primary = self.primary.take().or(id);
                Ok(Open::Other)
            }
            (Space::Mets, "mptr", Some(Open::Parent | Open::Child)) => {
                let mut attributes = self.attributes(element)?;
                let (kind, to) = (attributes.take("LOCTYPE"), attributes.take("href"));
                self.pointer(kind.as_deref(), to);
                Ok(Open::Other)
            }
            _ => Ok(Open::Other),
        }
    }

    /// A `div` in that of the object: of an object in it, of a bitstream, or of a template.
    fn within(&mut self, element: &BytesStart<'_>) -> XmlResult<Open> {
        match self.attributes(element)?.take("TYPE").as_deref() {
            Some("DSpace BITSTREAM") => Ok(Open::Other),
            Some("DSpace ITEM Template") => {
                self.has_template = true;
                Ok(Open::Other)
            }
            _ => {
                self.children.push(Child { handle: None, package: None });
                Ok(Open::Child)
            }
        }
    }

    /// What an `mptr` points to.
    fn pointer(&mut self, kind: Option<&str>, to: Option<String>) {
        let handle = to.as_deref().map(|to| to.strip_prefix("hdl:").unwrap_or(to).to_owned());
        match (self.open.last(), self.children.last_mut(), kind) {
            (Some(Open::Parent), ..) => self.parent = self.parent.take().or(handle),
            (_, Some(child), Some("HANDLE")) => child.handle = handle,
            (_, Some(child), _) => child.package = to,
            _ => {}
        }
    }

    fn text(&mut self, text: &str) -> XmlResult<()> {
        self.keep(if self.reading.is_some() { text.len() } else { 0 })?;
        if let Some(Reading::Field(read) | Reading::Who(read)) = &mut self.reading {
            read.push_str(text);
        }
        Ok(())
    }

    fn end(&mut self) -> XmlResult<()> {
        self.open.pop();
        match self.reading.take() {
            Some(Reading::Field(value)) => {
                if let Some(field) = self.open_section().fields.last_mut() {
                    field.value = value;
                }
            }
            Some(Reading::Who(who)) => {
                if let Some(policy) = self.open_section().policies.last_mut() {
                    policy.who = Some(who.trim().to_owned());
                }
            }
            None => {}
        }
        Ok(())
    }

    fn finish(mut self) -> XmlResult<Manifest> {
        let (kind, handle) = self.root.take().ok_or("it is no METS")?;
        if !self.open.is_empty() {
            return Err("it ends before its elements do".to_owned());
        }
        if let Some((file, _)) = self.bitstreams.iter().find(|(file, _)| file.file.is_empty()) {
            return Err(format!("the file {:?} has no place", file.id));
        }
        let (described_by, technical_by) = self.described_by.take().ok_or("it has no structMap of the object")?;
        let mut sections = self.sections;
        let mut take = |ids: &str| {
            let mut all = Section::default();
            for section in ids.split_whitespace().filter_map(|id| sections.remove(id)) {
                all.fields.extend(section.fields);
                all.policies.extend(section.policies);
            }
            all
        };
        let fields = take(&described_by).fields;
        let Section { fields: technical, policies } = take(&technical_by);
        let bundles = self.bundles.into_iter().map(|(bundle, by)| {
            let policies = take(by.as_deref().unwrap_or_default()).policies;
            Bundle { policies, ..bundle }
        });
        let bundles = bundles.collect();
        let bitstreams = self.bitstreams.into_iter().map(|(bitstream, by)| {
            let Section { fields: technical, policies } = take(by.as_deref().unwrap_or_default());
            Bitstream { technical, policies, ..bitstream }
        });
        let bitstreams: Vec<_> = bitstreams.collect();
        let primary = self.primary.and_then(|id| bitstreams.iter().position(|bitstream| bitstream.id == id));
        Ok(Manifest {
            kind,
            handle,
            modified: self.modified,
            fields,
            technical,
            policies,
            parent: self.parent,
            children: self.children,
            bundles,
            bitstreams,
            primary,
            referenced: self.referenced,
            has_template: self.has_template,
            groups: self.groups,
            people: self.people,
        })
    }
}

/// A bitstream, and the identifier of its metadata.
fn bitstream(mut attributes: Attributes, bundle: usize) -> XmlResult<(Bitstream, Option<String>)> {
    let id = attributes.need("file", "ID")?;
    let len_bytes = attributes.take("SIZE").map(|said| said.parse()).transpose();
    let len_bytes = len_bytes.map_err(|_| format!("the file {id:?} has a SIZE that is no number"))?;
    let digest = match (attributes.take("CHECKSUMTYPE"), attributes.take("CHECKSUM")) {
        (Some(algorithm), Some(digest)) => {
            let named = Algorithm::named(&algorithm.to_ascii_lowercase().replace('-', ""));
            let algorithm = named.map_err(|_| format!("the checksum {algorithm} of the file {id:?} is not known"))?;
            let digest = hex::decode(&digest).map_err(|_| format!("the checksum of the file {id:?} is no number"))?;
            Some((algorithm, digest))
        }
        _ => None,
    };
    let bitstream = Bitstream {
        bundle,
        sequence: attributes.take("SEQ").and_then(|said| said.parse().ok()),
        file: String::new(),
        media_type: attributes.take("MIMETYPE"),
        len_bytes,
        digest,
        group: attributes.take("GROUPID"),
        technical: Vec::new(),
        policies: Vec::new(),
        id,
    };
    Ok((bitstream, attributes.take("ADMID")))
}
