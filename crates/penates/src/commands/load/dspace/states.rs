//! An object as resources: its container, its METS and its files.

use std::collections::HashMap;

use preservation::about::{About as Said, disposition};
use preservation::bagit::text::Algorithm;
use preservation::dspace::{Bitstream, Checked, Manifest, ONTOLOGY, Package, Packed};

use super::super::foreign::{DCTERMS, about, container};
use super::super::loader::State;
use super::super::source::{Bytes, Source};
use super::place;
use super::statements::{About, of_object};

/// The media type of bytes about which nothing is known.
const OCTETS: &str = "application/octet-stream";

/// What is said about an object, and where its files are.
pub(super) struct Described {
    pub(super) path: String,
    pub(super) manifest: Manifest,
    /// The names of its files: bitstreams, and others.
    pub(super) names: Vec<String>,
}

/// An object that is loaded.
pub(super) struct Object<'a> {
    pub(super) said: Described,
    pub(super) package: Package,
    pub(super) checked: &'a Checked,
}

impl Described {
    /// What a manifest says.
    ///
    /// # Errors
    /// Why there can be no resource at its path.
    pub(super) fn by(manifest: Manifest) -> Result<Self, String> {
        let path = place::path(&manifest)?;
        let names = place::names(&manifest, manifest.others().into_iter().map(|(name, _)| name));
        Ok(Self { path, manifest, names })
    }

    /// The container of the object.
    pub(super) fn container(&self) -> State {
        // Without bytes there is no resource to name.
        let primary = self.manifest.primary.filter(|_| !self.manifest.is_for_itself());
        let primary = primary.and_then(|primary| self.names.get(primary)).map(|name| self.at(name));
        container(&self.path, of_object(&self.path, &self.manifest, primary.as_deref()))
    }

    /// The bitstreams, each with its bytes if there are any.
    pub(super) fn bitstreams(&self, bytes: impl Fn(usize, &Bitstream) -> Option<Bytes>) -> Vec<State> {
        let originals = self.originals();
        let all = self.manifest.bitstreams.iter().zip(&self.names).enumerate();
        let states = all.filter_map(|(n, (bitstream, name))| {
            let bytes = bytes(n, bitstream)?;
            let path = self.at(name);
            let statements = self.statements(bitstream, &path, &originals);
            let named = bitstream.name().map(disposition);
            Some(binary(&path, media_type(bitstream.media_type.as_deref()), named, statements, bytes))
        });
        states.collect()
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// The names of the bitstreams that others are forms of, by their groups.
    fn originals(&self) -> HashMap<&str, &str> {
        let all = self.manifest.bitstreams.iter().zip(&self.names);
        let originals = all.filter(|(bitstream, _)| self.bundle(bitstream) == "ORIGINAL");
        originals.filter_map(|(bitstream, name)| Some((bitstream.group.as_deref()?, name.as_str()))).collect()
    }

    fn bundle(&self, bitstream: &Bitstream) -> &str {
        self.manifest.bundles.get(bitstream.bundle).map_or("", |bundle| bundle.name.as_str())
    }

    fn statements(&self, bitstream: &Bitstream, path: &str, originals: &HashMap<&str, &str>) -> Vec<u8> {
        let mut about = About::new(path);
        about.class("Bitstream");
        about.fields(&bitstream.technical);
        let bundle = self.bundle(bitstream);
        if !bundle.is_empty() {
            about.own("bundle", bundle);
        }
        let original = bitstream.group.as_deref().and_then(|group| originals.get(group));
        if let Some(original) = original.filter(|_| bundle != "ORIGINAL") {
            about.relation(&format!("{DCTERMS}isFormatOf"), &self.at(original));
        }
        about.relation(&format!("{ONTOLOGY}isPartOf{}", self.manifest.kind.class()), &self.path);
        about.written()
    }
}

impl Object<'_> {
    /// The METS.
    pub(super) fn mets(&self) -> State {
        let bytes = bytes(self.package.mets(), &self.checked.mets);
        binary(&place::mets(&self.said.manifest), "application/xml", None, Vec::new(), bytes)
    }

    /// The bitstreams.
    pub(super) fn bitstreams(&self) -> Vec<State> {
        self.said.bitstreams(|n, bitstream| {
            let sha256 = self.checked.bitstreams.get(n)?;
            Some(bytes(self.package.file(&bitstream.file)?, sha256))
        })
    }

    /// The other files.
    pub(super) fn others(&self) -> Vec<State> {
        let names = self.said.names.iter().skip(self.said.manifest.bitstreams.len());
        let others = self.checked.others.iter().zip(names).filter_map(|(other, name)| {
            let bytes = bytes(self.package.file(&other.file)?, &other.sha256);
            Some(binary(&self.said.at(name), media_type(other.media_type.as_deref()), None, Vec::new(), bytes))
        });
        others.collect()
    }
}

fn bytes(file: &Packed, sha256: &[u8; 32]) -> Bytes {
    Bytes { source: Source::Packed(file.clone()), algorithm: Algorithm::Sha256, digest: sha256.to_vec() }
}

fn binary(path: &str, media_type: &str, named: Option<String>, statements: Vec<u8>, bytes: Bytes) -> State {
    let content_type = Some(media_type.to_owned());
    let about = Said { content_type, content_disposition: named, ..about(path, "NonRDFSource") };
    State { about, statements: statements.into(), bytes: Some(bytes) }
}

/// The media type that is said, if it can be sent as one (RFC 9110, section 8.3.1).
fn media_type(said: Option<&str>) -> &str {
    let is_token = |part: &str| {
        let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !part.is_empty() && part.bytes().all(is_of_token)
    };
    let is_visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let is_media_type = |said: &&str| {
        let essence = said.split(';').next().unwrap_or_default().trim_end();
        is_visible(said) && essence.split_once('/').is_some_and(|(kind, name)| is_token(kind) && is_token(name))
    };
    said.filter(is_media_type).unwrap_or(OCTETS)
}
