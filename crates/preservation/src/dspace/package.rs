//! Packages, checked against their `mets.xml`.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use super::manifest::Bitstream;
use super::packed::{Packed, directory};
use super::{METS, Manifest, parser};
use crate::bagit::text::Algorithm;
use crate::read::{ReadError, ReadResult, failed, invalid};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 128 << 10;

/// How a ZIP begins; the second one has no files.
const ZIP_SIGNATURES: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// A package, or a manifest for itself.
#[derive(Clone, Debug)]
pub struct Package {
    place: Arc<Path>,
    mets: Packed,
    /// The other files; `None` if it is a manifest for itself.
    files: Option<HashMap<String, Packed>>,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The SHA-256 of the METS.
    pub mets: [u8; 32],
    /// The SHA-256 of each bitstream; none for a manifest for itself.
    pub bitstreams: Vec<[u8; 32]>,
    /// The files with further metadata that are no bitstreams.
    pub others: Vec<Other>,
    /// The files that the METS does not name.
    pub unnamed: Vec<String>,
}

/// A file with further metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its name.
    pub file: String,
    /// Its media type.
    pub media_type: Option<String>,
    /// Its SHA-256.
    pub sha256: [u8; 32],
}

impl Package {
    /// Opens a package, or a manifest for itself; `None` if it is neither: it has no METS.
    ///
    /// # Errors
    /// [`ReadError`] if it is a ZIP that cannot be read, or one that no package is.
    pub fn open(place: &Path) -> ReadResult<Option<Self>> {
        let place: Arc<Path> = place.into();
        let mut start = Vec::new();
        File::open(&place).map_err(failed(&place))?.take(4).read_to_end(&mut start).map_err(failed(&place))?;
        if !ZIP_SIGNATURES.contains(&start.as_slice()) {
            let is_xml = place.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("xml"));
            let mets = Packed::whole(&place)?;
            return Ok(is_xml.then_some(Self { place, mets, files: None }));
        }
        let mut files = directory(&place)?;
        Ok(files.remove(METS).map(|mets| Self { place, mets, files: Some(files) }))
    }

    /// Where it is.
    pub fn place(&self) -> &Arc<Path> {
        &self.place
    }

    /// Its METS.
    pub fn mets(&self) -> &Packed {
        &self.mets
    }

    /// Whether it is a manifest for itself, without bytes.
    pub fn is_manifest_only(&self) -> bool {
        self.files.is_none()
    }

    /// A file beside the METS.
    pub fn file(&self, name: &str) -> Option<&Packed> {
        self.files.as_ref()?.get(name)
    }

    /// Whether its METS is that of a DSpace AIP, as its first element says.
    pub fn is_of_dspace(&self) -> bool {
        self.mets.open().ok().and_then(|mets| parser::profile(BufReader::new(mets))).is_some_and(|profile| {
            // The documentation of DSpace 1.7 has another one than its sources.
            profile.contains("dspace.org/schema/aip/")
        })
    }

    /// Reads the METS.
    ///
    /// # Errors
    /// [`ReadError`] if it is not what DSpace writes.
    pub fn manifest(&self) -> ReadResult<Manifest> {
        Manifest::read(BufReader::new(self.mets.open()?), &self.place.display().to_string())
    }

    /// Reads all files, and compares them with the METS.
    ///
    /// # Errors
    /// [`ReadError`] if a file is missing, or has another length or digest.
    pub fn check(&self, manifest: &Manifest) -> ReadResult<Checked> {
        let (mets, _) = self.sums(METS, &self.mets, None)?;
        let Some(files) = &self.files else {
            return Ok(Checked { mets, bitstreams: Vec::new(), others: Vec::new(), unnamed: Vec::new() });
        };
        let mut named = HashSet::new();
        let mut bitstreams = Vec::new();
        for bitstream in &manifest.bitstreams {
            if !named.insert(bitstream.file.as_str()) {
                return Err(self.wrong(format!("{METS} names {:?} twice", bitstream.file)));
            }
            bitstreams.push(self.check_bitstream(bitstream)?);
        }
        let mut others = Vec::new();
        for (file, media_type) in manifest.others() {
            named.insert(file);
            let (sha256, _) = self.sums(file, self.need(file)?, None)?;
            others.push(Other { file: file.to_owned(), media_type: media_type.map(str::to_owned), sha256 });
        }
        let mut unnamed: Vec<_> = files.keys().filter(|name| !named.contains(name.as_str())).cloned().collect();
        unnamed.sort_unstable();
        Ok(Checked { mets, bitstreams, others, unnamed })
    }

    fn check_bitstream(&self, bitstream: &Bitstream) -> ReadResult<[u8; 32]> {
        let Bitstream { file: name, len_bytes, digest, .. } = bitstream;
        let file = self.need(name)?;
        if len_bytes.is_some_and(|said| said != file.len_bytes()) {
            let said = len_bytes.unwrap_or_default();
            return Err(self.wrong(format!("{name:?} has {} bytes, {METS} says {said}", file.len_bytes())));
        }
        let (sha256, found) = self.sums(name, file, digest.as_ref().map(|(algorithm, _)| *algorithm))?;
        match (digest, found) {
            (Some((algorithm, said)), Some(found)) if *said != found => {
                let why = format!("{name:?} has another {} than {METS} says", algorithm.name());
                Err(self.wrong(why))
            }
            _ => Ok(sha256),
        }
    }

    fn need(&self, name: &str) -> ReadResult<&Packed> {
        self.file(name).ok_or_else(|| self.wrong(format!("{METS} names {name:?}, which is not in it")))
    }

    /// The SHA-256 of a file, and another digest.
    fn sums(&self, name: &str, file: &Packed, other: Option<Algorithm>) -> ReadResult<([u8; 32], Option<Vec<u8>>)> {
        let mut sha256 = Algorithm::Sha256.begin();
        let mut other = other.map(Algorithm::begin);
        let mut reader = file.open()?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match reader.read(&mut piece).map_err(|error| self.wrong(format!("{name:?}: {error}")))? {
                0 => break,
                len => {
                    sha256.update(&piece[..len]);
                    if let Some(other) = &mut other {
                        other.update(&piece[..len]);
                    }
                }
            }
        }
        let mut sum = [0; 32];
        sum.copy_from_slice(&sha256.finalize());
        Ok((sum, other.map(|other| other.finalize().to_vec())))
    }

    fn wrong(&self, why: String) -> ReadError {
        invalid(self.place.display().to_string(), why)
    }
}
