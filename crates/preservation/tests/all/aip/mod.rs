//! Packages as DSpace 7 writes them, made from its sources (`AbstractMETSDisseminator`,
//! `DSpaceAIPDisseminator` and the crosswalks that these call): the same elements in the same
//! order, with the same names and identifiers.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use preservation::bagit::text::Algorithm;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// An object of a DSpace.
#[derive(Clone, Default)]
pub struct Aip {
    /// `SITE`, `COMMUNITY`, `COLLECTION` or `ITEM`.
    pub kind: &'static str,
    pub handle: String,
    pub parent: Option<String>,
    /// Handles of further collections.
    pub also_in: Vec<String>,
    /// Names as in `dc.title`, languages and values.
    pub fields: Vec<(&'static str, Option<&'static str>, String)>,
    /// Kinds and handles.
    pub children: Vec<(&'static str, String)>,
    pub bitstreams: Vec<Bits>,
    /// The identifier of the primary bitstream.
    pub primary: Option<u32>,
    /// Who may read: `None` is everyone.
    pub readers: Vec<Option<&'static str>>,
    pub is_withdrawn: bool,
    pub has_template: bool,
    pub has_roles: bool,
}

/// A bitstream.
#[derive(Clone)]
pub struct Bits {
    pub bundle: &'static str,
    pub id: u32,
    pub sequence: Option<u32>,
    pub name: &'static str,
    pub ending: &'static str,
    pub media_type: &'static str,
    pub bytes: Vec<u8>,
    /// The identifier of the bitstream that it is made from.
    pub made_from: Option<u32>,
    pub readers: Vec<Option<&'static str>>,
}

impl Bits {
    pub fn new(id: u32, name: &'static str, media_type: &'static str, bytes: &[u8]) -> Self {
        Self {
            bundle: "ORIGINAL",
            id,
            sequence: Some(id),
            name,
            ending: name.rsplit('.').next().unwrap(),
            media_type,
            bytes: bytes.to_vec(),
            made_from: None,
            readers: vec![None],
        }
    }

    pub fn file(&self) -> String {
        format!("bitstream_{}.{}", self.id, self.ending)
    }
}

impl Aip {
    pub fn new(kind: &'static str, handle: &str, parent: Option<&str>, title: &str) -> Self {
        Self {
            kind,
            handle: handle.to_owned(),
            parent: parent.map(str::to_owned),
            fields: vec![
                ("dc.identifier.uri", None, format!("http://hdl.handle.net/{handle}")),
                ("dc.title", Some("en_US"), title.to_owned()),
            ],
            readers: vec![None],
            ..Self::default()
        }
    }

    /// The name of its package.
    pub fn file_name(&self, ending: &str) -> String {
        file_name(self.kind, &self.handle, ending)
    }

    /// Writes its package into a folder.
    pub fn write(&self, folder: &Path) -> PathBuf {
        let place = folder.join(self.file_name("zip"));
        write_zip(&place, &self.files());
        place
    }

    /// The files of its package.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let bytes = self.bitstreams.iter().map(|bits| (bits.file(), bits.bytes.clone()));
        std::iter::once(("mets.xml".to_owned(), self.mets(false).into_bytes())).chain(bytes).collect()
    }

    /// Its METS; with addresses in the place of files if it is for itself.
    pub fn mets(&self, is_for_itself: bool) -> String {
        let mut mets = Mets { text: String::new(), next_id: 1, is_for_itself };
        mets.write(self);
        mets.text
    }
}

pub fn file_name(kind: &str, handle: &str, ending: &str) -> String {
    format!("{kind}@{}.{ending}", handle.replace('/', "-"))
}

/// Writes a ZIP with these files, in this order. The lengths are behind the bytes, as Java writes
/// them.
pub fn write_zip(place: &Path, files: &[(String, Vec<u8>)]) {
    let mut zip = ZipWriter::new_stream(File::create(place).unwrap());
    for (name, bytes) in files {
        zip.start_file(name.as_str(), SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

pub fn md5(bytes: &[u8]) -> String {
    let mut digest = Algorithm::Md5.begin();
    digest.update(bytes);
    hex::encode(digest.finalize())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

struct Mets {
    text: String,
    next_id: u32,
    is_for_itself: bool,
}

impl Mets {
    /// As `gensym` makes it.
    fn id(&mut self, prefix: &str) -> String {
        let id = format!("{prefix}_{}", self.next_id);
        self.next_id += 1;
        id
    }

    fn line(&mut self, line: impl AsRef<str>) {
        writeln!(self.text, "{}", line.as_ref()).unwrap();
    }

    fn write(&mut self, aip: &Aip) {
        self.line("<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"no\"?>");
        self.line(format!(
            "<mets ID=\"DSpace_{kind}_DB-ID-7\" OBJID=\"hdl:{handle}\" TYPE=\"DSpace {kind}\" \
             PROFILE=\"http://www.dspace.org/schema/aip/mets_aip_1_0.xsd\" xmlns=\"http://www.loc.gov/METS/\" \
             xmlns:xlink=\"http://www.w3.org/1999/xlink\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xsi:schemaLocation=\"http://www.loc.gov/METS/ http://www.loc.gov/standards/mets/mets.xsd\">",
            kind = aip.kind,
            handle = escaped(&aip.handle),
        ));
        let modified = if aip.kind == "ITEM" { " LASTMODDATE=\"2023-05-04T03:02:01Z\"" } else { "" };
        self.line(format!("<metsHdr{modified}>"));
        self.line(
            "<agent ROLE=\"CUSTODIAN\" TYPE=\"OTHER\" OTHERTYPE=\"DSpace Archive\"><name>123456789/0</name></agent>",
        );
        self.line(
            "<agent ROLE=\"CREATOR\" TYPE=\"OTHER\" OTHERTYPE=\"DSpace Software\"><name>DSpace 7.6</name></agent>",
        );
        self.line("</metsHdr>");
        let described = self.descriptions(aip.kind, &aip.fields);
        let template = aip.has_template.then(|| {
            let fields = [("dc.title", None, "a template".to_owned())];
            self.descriptions("ITEM", &fields)
        });
        let object = self.administrative(aip.kind, &technical(aip), &aip.readers, None, aip.has_roles);
        let files = self.files(aip);
        self.line("<structMap ID=\"struct_1000\" LABEL=\"DSpace Object\" TYPE=\"LOGICAL\">");
        let id = self.id("div");
        self.line(format!(
            "<div ID=\"{id}\" TYPE=\"DSpace Object Contents\" DMDID=\"{described}\" ADMID=\"{object}\">"
        ));
        if let Some(id) = aip.primary {
            self.line(format!("<fptr FILEID=\"bitstream_{id}\"/>"));
        }
        if let Some(described) = template {
            self.line(format!("<div ID=\"div_t\" TYPE=\"DSpace ITEM Template\" DMDID=\"{described}\"/>"));
        }
        for id in files {
            let div = self.id("div");
            self.line(format!("<div ID=\"{div}\" TYPE=\"DSpace BITSTREAM\"><fptr FILEID=\"{id}\"/></div>"));
        }
        for (kind, handle) in &aip.children {
            let (div, one, other) = (self.id("div"), self.id("mptr"), self.id("mptr"));
            let ending = if self.is_for_itself { "xml" } else { "zip" };
            let file = file_name(kind, handle, ending);
            self.line(format!("<div ID=\"{div}\" TYPE=\"DSpace {kind}\">"));
            self.line(format!("<mptr ID=\"{one}\" LOCTYPE=\"HANDLE\" xlink:type=\"simple\" xlink:href=\"{handle}\"/>"));
            self.line(format!("<mptr ID=\"{other}\" LOCTYPE=\"URL\" xlink:type=\"simple\" xlink:href=\"{file}\"/>"));
            self.line("</div>");
        }
        self.line("</div></structMap>");
        if let Some(parent) = &aip.parent {
            self.line("<structMap ID=\"struct_1001\" LABEL=\"Parent\" TYPE=\"LOGICAL\">");
            self.line("<div ID=\"div_p\" LABEL=\"Parent of this DSpace Object\" TYPE=\"AIP Parent Link\">");
            self.line(format!(
                "<mptr ID=\"mptr_p\" LOCTYPE=\"HANDLE\" xlink:type=\"simple\" xlink:href=\"{parent}\"/>"
            ));
            self.line("</div></structMap>");
        }
        self.line("</mets>");
    }

    /// `dmdSec` with MODS and DIM. Returns their identifiers.
    fn descriptions(&mut self, kind: &str, fields: &[(&str, Option<&str>, String)]) -> String {
        let (mods, dim) = (self.id("dmdSec"), self.id("dmdSec"));
        self.line(format!(
            "<dmdSec ID=\"{mods}\"><mdWrap MDTYPE=\"MODS\"><xmlData xmlns:mods=\"http://www.loc.gov/mods/v3\">"
        ));
        self.line("<mods:mods><mods:titleInfo><mods:title>as MODS has it</mods:title></mods:titleInfo></mods:mods>");
        self.line("</xmlData></mdWrap></dmdSec>");
        self.line(format!("<dmdSec ID=\"{dim}\"><mdWrap MDTYPE=\"OTHER\" OTHERMDTYPE=\"DIM\">"));
        self.dim(kind, fields);
        self.line("</mdWrap></dmdSec>");
        format!("{mods} {dim}")
    }

    fn dim(&mut self, kind: &str, fields: &[(&str, Option<&str>, String)]) {
        self.line("<xmlData xmlns:dim=\"http://www.dspace.org/xmlns/dspace/dim\">");
        self.line(format!("<dim:dim dspaceType=\"{kind}\">"));
        for (name, language, value) in fields {
            let mut parts = name.splitn(3, '.');
            let (schema, element) = (parts.next().unwrap(), parts.next().unwrap());
            let qualifier = parts.next().map(|qualifier| format!(" qualifier=\"{qualifier}\"")).unwrap_or_default();
            let language = language.map(|language| format!(" lang=\"{language}\"")).unwrap_or_default();
            let value = escaped(value);
            self.line(format!(
                "<dim:field mdschema=\"{schema}\" element=\"{element}\"{qualifier}{language}>{value}</dim:field>"
            ));
        }
        self.line("</dim:dim></xmlData>");
    }

    /// `amdSec` with what an object, a bundle or a bitstream has. Returns its identifier.
    fn administrative(
        &mut self,
        kind: &str,
        technical: &[(&str, Option<&str>, String)],
        readers: &[Option<&str>],
        premis: Option<&Bits>,
        has_roles: bool,
    ) -> String {
        let id = self.id("amd");
        self.line(format!("<amdSec ID=\"{id}\">"));
        if let Some(bits) = premis {
            let part = self.id("techMD");
            self.line(format!("<techMD ID=\"{part}\"><mdWrap MDTYPE=\"PREMIS\"><xmlData xmlns:premis=\"http://www.loc.gov/standards/premis\">"));
            self.line(format!("<premis:premis><premis:object><premis:originalName>{}</premis:originalName></premis:object></premis:premis>", escaped(bits.name)));
            self.line("</xmlData></mdWrap></techMD>");
        }
        if has_roles {
            let part = self.id("techMD");
            self.line(format!("<techMD ID=\"{part}\"><mdWrap MDTYPE=\"OTHER\" OTHERMDTYPE=\"DSPACE-ROLES\"><xmlData>"));
            self.line("<DSpaceRoles><Groups><Group ID=\"1\" Name=\"Administrator\"><Members><Member ID=\"1\" Name=\"ada@example.org\"/></Members></Group></Groups>");
            self.line("<People><Person ID=\"1\"><Email>ada@example.org</Email></Person></People></DSpaceRoles>");
            self.line("</xmlData></mdWrap></techMD>");
        }
        if kind != "SITE" {
            let part = self.id("rightsMD");
            self.line(format!("<rightsMD ID=\"{part}\"><mdWrap MDTYPE=\"OTHER\" OTHERMDTYPE=\"METSRIGHTS\">"));
            self.line("<xmlData xmlns:rights=\"http://cosimo.stanford.edu/sdr/metsrights/\">");
            self.line("<rights:RightsDeclarationMD RIGHTSCATEGORY=\"LICENSED\">");
            for reader in readers {
                let may = "<rights:Permissions DISCOVER=\"true\" DISPLAY=\"true\" MODIFY=\"false\" DELETE=\"false\"/>";
                self.line(match reader {
                    None => format!(
                        "<rights:Context in-effect=\"true\" CONTEXTCLASS=\"GENERAL PUBLIC\">{may}</rights:Context>"
                    ),
                    Some(group) => format!(
                        "<rights:Context start-date=\"2030-01-01\" in-effect=\"true\" CONTEXTCLASS=\"MANAGED GRP\">\
                         <rights:UserName USERTYPE=\"GROUP\">{group}</rights:UserName>{may}</rights:Context>"
                    ),
                });
            }
            self.line("</rights:RightsDeclarationMD></xmlData></mdWrap></rightsMD>");
        }
        if kind != "BUNDLE" {
            let part = self.id("sourceMD");
            self.line(format!("<sourceMD ID=\"{part}\"><mdWrap MDTYPE=\"OTHER\" OTHERMDTYPE=\"AIP-TECHMD\">"));
            self.dim(kind, technical);
            self.line("</mdWrap></sourceMD>");
        }
        self.line("</amdSec>");
        id
    }

    /// The metadata and the `fileSec`. Returns the identifiers of what is in `ORIGINAL`.
    fn files(&mut self, aip: &Aip) -> Vec<String> {
        let mut section = String::new();
        let mut originals = Vec::new();
        let mut bundles: Vec<&str> = Vec::new();
        for bits in &aip.bitstreams {
            if !bundles.contains(&bits.bundle) {
                bundles.push(bits.bundle);
            }
        }
        for bundle in bundles {
            let by = self.administrative("BUNDLE", &[], &[None], None, false);
            writeln!(section, "<fileGrp USE=\"{bundle}\" ADMID=\"{by}\">").unwrap();
            for bits in aip.bitstreams.iter().filter(|bits| bits.bundle == bundle) {
                let technical = [
                    ("dc.title", None, bits.name.to_owned()),
                    ("dc.title.alternative", None, format!("/dspace/upload/{}", bits.name)),
                    ("dc.format.medium", None, "a format".to_owned()),
                    ("dc.format.mimetype", None, bits.media_type.to_owned()),
                    ("dc.format.supportlevel", None, "KNOWN".to_owned()),
                    ("dc.format.internal", None, "false".to_owned()),
                ];
                let by = self.administrative("BITSTREAM", &technical, &bits.readers, Some(bits), false);
                let sequence = bits.sequence.map(|sequence| format!(" SEQ=\"{sequence}\"")).unwrap_or_default();
                let place = match self.is_for_itself {
                    true => format!("https://dspace.example.org/bitstreams/{}/download", bits.id),
                    false => bits.file(),
                };
                writeln!(
                    section,
                    "<file ID=\"bitstream_{id}\" MIMETYPE=\"{media_type}\"{sequence} SIZE=\"{size}\" CHECKSUM=\"{md5}\" \
                     CHECKSUMTYPE=\"MD5\" ADMID=\"{by}\" GROUPID=\"GROUP_bitstream_{group}\">\
                     <FLocat LOCTYPE=\"URL\" xlink:type=\"simple\" xlink:href=\"{place}\"/></file>",
                    id = bits.id,
                    media_type = bits.media_type,
                    size = bits.bytes.len(),
                    md5 = md5(&bits.bytes),
                    group = bits.made_from.unwrap_or(bits.id),
                )
                .unwrap();
                if bundle == "ORIGINAL" {
                    originals.push(format!("bitstream_{}", bits.id));
                }
            }
            section.push_str("</fileGrp>\n");
        }
        if !section.is_empty() {
            self.line(format!("<fileSec>\n{section}</fileSec>"));
        }
        originals
    }
}

/// The fields of `AIP-TECHMD`.
fn technical(aip: &Aip) -> Vec<(&'static str, Option<&'static str>, String)> {
    let mut fields = vec![("dc.identifier.uri", None, format!("hdl:{}", aip.handle))];
    if aip.kind == "ITEM" {
        fields.insert(0, ("dc.creator", None, "ada@example.org".to_owned()));
    }
    fields.extend(aip.parent.iter().map(|parent| ("dc.relation.isPartOf", None, format!("hdl:{parent}"))));
    fields.extend(aip.also_in.iter().map(|other| ("dc.relation.isReferencedBy", None, format!("hdl:{other}"))));
    if aip.is_withdrawn {
        fields.push(("dc.rights.accessRights", None, "WITHDRAWN".to_owned()));
    }
    fields
}

/// A small DSpace: a community with a logo, another one in it, two collections, and three items, of
/// which one is withdrawn and one is not for everyone.
pub fn library() -> Vec<Aip> {
    let handle = |number: u32| format!("123456789/{number}");
    let new = |kind, number, parent: Option<u32>, title| {
        Aip::new(kind, &handle(number), parent.map(handle).as_deref(), title)
    };
    let logo = Bits { bundle: "LOGO", sequence: None, ..Bits::new(90, "logo.png", "image/png", b"a logo") };
    let text = Bits {
        bundle: "TEXT",
        made_from: Some(51),
        sequence: Some(2),
        ..Bits::new(52, "letter.pdf.txt", "text/plain", b"Dear Ada")
    };
    let license = Bits {
        bundle: "LICENSE",
        sequence: Some(3),
        ..Bits::new(53, "license.txt", "text/plain; charset=utf-8", b"granted")
    };
    let letter = Bits { sequence: Some(1), ..Bits::new(51, "letter.pdf", "application/pdf", b"%PDF a letter") };
    let diary = Bits {
        sequence: Some(1),
        readers: vec![Some("Staff")],
        ..Bits::new(71, "diary \u{fc}.txt", "text/plain", b"Dear diary")
    };
    let old = Bits { sequence: Some(1), ..Bits::new(61, "old.txt", "text/plain", b"withdrawn") };
    let letters = Aip {
        fields: vec![
            ("dc.contributor.author", None, "Lovelace, Ada".to_owned()),
            ("dc.contributor.advisor", None, "De Morgan, Augustus".to_owned()),
            ("dc.date.accessioned", None, "2020-01-02T03:04:05Z".to_owned()),
            ("dc.date.issued", None, "1842".to_owned()),
            ("dc.description.provenance", Some("en"), "Submitted by ada@example.org".to_owned()),
            ("dc.identifier.uri", None, "http://hdl.handle.net/123456789/5".to_owned()),
            ("dc.rights.uri", Some("*"), "http://creativecommons.org/licenses/by/4.0/".to_owned()),
            ("dc.title", Some("en_US"), "Letters & notes".to_owned()),
            ("local.shelf", None, "A 7".to_owned()),
        ],
        bitstreams: vec![letter, text, license],
        primary: Some(51),
        also_in: vec![handle(4)],
        ..new("ITEM", 5, Some(3), "")
    };
    vec![
        Aip { children: vec![("COMMUNITY", handle(1))], has_roles: true, ..new("SITE", 0, None, "A library") },
        Aip {
            children: vec![("COMMUNITY", handle(2)), ("COLLECTION", handle(4))],
            bitstreams: vec![logo],
            primary: Some(90),
            ..new("COMMUNITY", 1, Some(0), "Papers")
        },
        Aip { children: vec![("COLLECTION", handle(3))], ..new("COMMUNITY", 2, Some(1), "Letters") },
        Aip {
            children: vec![("ITEM", handle(5)), ("ITEM", handle(6))],
            has_template: true,
            ..new("COLLECTION", 3, Some(2), "Letters of Ada")
        },
        Aip { children: vec![("ITEM", handle(5)), ("ITEM", handle(7))], ..new("COLLECTION", 4, Some(1), "Everything") },
        letters,
        Aip { bitstreams: vec![old], is_withdrawn: true, ..new("ITEM", 6, Some(3), "Old") },
        Aip { bitstreams: vec![diary], readers: vec![Some("Staff")], ..new("ITEM", 7, Some(4), "Diary") },
    ]
}

/// Writes the packages of [`library`] into a folder.
pub fn write_library(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for aip in library() {
        aip.write(folder);
    }
}
