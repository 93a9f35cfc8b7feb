//! Reading a `mets.xml`.
//!
//! Elements are known by their namespace, whatever the prefix. What belongs together is found by
//! identifiers: a `div` names the sections of metadata of its object (`DMDID`, `ADMID`), a `file`
//! those of its bitstream.

use std::collections::HashSet;
use std::io::BufRead;

use quick_xml::NsReader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};

use super::manifest::{Bitstream, Bundle, Child, Kind, Manifest};
use super::metadata::{Metadata, Section};
use super::xml::{Attributes, Bounded, DEPTH_MAX, Kept, XmlResult, resolved};
use crate::bagit::text::Algorithm;
use crate::read::{ReadResult, invalid};

/// The most bytes of a METS. A collection names all of its items, with about 300 bytes for each.
const METS_BYTES_MAX: u64 = 512 << 20;

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
pub(super) enum Space {
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

#[derive(Default)]
struct Parser {
    open: Vec<Open>,
    kept: Kept,
    metadata: Metadata,
    root: Option<(Kind, String)>,
    modified: Option<String>,
    bundles: Vec<(Bundle, Option<String>)>,
    bitstreams: Vec<(Bitstream, Option<String>)>,
    /// The identifiers of the sections of the object: descriptive and administrative.
    described_by: Option<(String, String)>,
    primary: Option<String>,
    parent: Option<String>,
    children: Vec<Child>,
    has_template: bool,
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
            Some(Open::Section) => {
                self.metadata.start(space, name, element, &mut self.kept)?;
                Open::Section
            }
            Some(Open::FileSection | Open::FileGroup | Open::File) => self.file(space, name, element)?,
            Some(Open::Map | Open::Object | Open::Parent | Open::Child) => self.structure(space, name, element)?,
            Some(Open::Other) => Open::Other,
        };
        self.open.push(opened);
        Ok(())
    }

    fn root(&mut self, space: Space, name: &str, element: &BytesStart<'_>) -> XmlResult<Open> {
        if self.root.is_some() || space != Space::Mets || name != "mets" {
            return Err("it is no METS".to_owned());
        }
        let mut attributes = self.kept.attributes(element)?;
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
                self.modified = self.kept.attributes(element)?.take("LASTMODDATE");
                Open::Other
            }
            "dmdSec" | "amdSec" => {
                self.metadata.begin(self.kept.attributes(element)?.take("ID").unwrap_or_default());
                Open::Section
            }
            "fileSec" => Open::FileSection,
            "structMap" => Open::Map,
            _ => Open::Other,
        })
    }

    fn file(&mut self, space: Space, name: &str, element: &BytesStart<'_>) -> XmlResult<Open> {
        if space != Space::Mets {
            return Ok(Open::Other);
        }
        Ok(match name {
            "fileGrp" => {
                let mut attributes = self.kept.attributes(element)?;
                let name = attributes.take("USE").unwrap_or_default();
                self.bundles.push((Bundle { name, policies: None }, attributes.take("ADMID")));
                Open::FileGroup
            }
            "file" if !self.bundles.is_empty() => {
                let attributes = self.kept.attributes(element)?;
                let bitstream = bitstream(attributes, self.bundles.len() - 1)?;
                self.bitstreams.push(bitstream);
                Open::File
            }
            "FLocat" if self.open.last() == Some(&Open::File) => {
                let place = self.kept.attributes(element)?.need("FLocat", "href")?;
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
                let mut attributes = self.kept.attributes(element)?;
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
                let id = self.kept.attributes(element)?.take("FILEID");
                self.primary = self.primary.take().or(id);
                Ok(Open::Other)
            }
            (Space::Mets, "mptr", Some(Open::Parent | Open::Child)) => {
                let mut attributes = self.kept.attributes(element)?;
                let (kind, to) = (attributes.take("LOCTYPE"), attributes.take("href"));
                self.pointer(kind.as_deref(), to);
                Ok(Open::Other)
            }
            _ => Ok(Open::Other),
        }
    }

    /// A `div` in that of the object: of an object in it, of a bitstream, or of a template.
    fn within(&mut self, element: &BytesStart<'_>) -> XmlResult<Open> {
        match self.kept.attributes(element)?.take("TYPE").as_deref() {
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
        self.metadata.text(text, &mut self.kept)
    }

    fn end(&mut self) -> XmlResult<()> {
        self.open.pop();
        self.metadata.end();
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
        let mut ids = HashSet::new();
        if let Some((file, _)) = self.bitstreams.iter().find(|(file, _)| !ids.insert(file.id.as_str())) {
            return Err(format!("there are two files {:?}", file.id));
        }
        drop(ids);
        let (described_by, technical_by) = self.described_by.take().ok_or("it has no structMap of the object")?;
        let mut metadata = self.metadata;
        let fields = metadata.take(&described_by).fields;
        let Section { fields: technical, policies } = metadata.take(&technical_by);
        let bundles = self.bundles.into_iter().map(|(bundle, by)| {
            let policies = metadata.take(by.as_deref().unwrap_or_default()).policies;
            Bundle { policies, ..bundle }
        });
        let bundles = bundles.collect();
        let bitstreams = self.bitstreams.into_iter().map(|(bitstream, by)| {
            let Section { fields: technical, policies } = metadata.take(by.as_deref().unwrap_or_default());
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
            referenced: metadata.referenced,
            has_template: self.has_template,
            groups: metadata.groups,
            people: metadata.people,
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
        policies: None,
        id,
    };
    Ok((bitstream, attributes.take("ADMID")))
}
