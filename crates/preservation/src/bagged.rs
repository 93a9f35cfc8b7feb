//! Resources in the payload of a bag, as `penates export` writes them: which file is which.

use std::path::PathBuf;

use crate::about::{ABOUT, ABOUT_BYTES_MAX, About, DESCRIPTION};
use crate::bagit::Bag;
use crate::names;
use crate::read::{ReadResult, invalid};

/// The folder of the payload with a pairtree of volumes. No resource has a file in it, because this
/// name at the root of a repository is the server's own.
pub const VOLUMES: &str = "volumes";

/// The ending of the file that names the pages of a volume that its METS does not describe, because
/// they were replaced: their sequences, one a line. Without such pages there is no such file.
pub const REPLACED: &str = "=replaced.txt";

/// The endings of the files of a volume. The first two are always there.
const OF_VOLUME: [&str; 4] = [".zip", ".mets.xml", ".json", REPLACED];

/// Whether a file of the payload belongs to a volume.
fn is_of_volume(bag: &Bag, name: &str) -> bool {
    let is_in_pairtree = name.strip_prefix("data/volumes/").is_some();
    let stem = OF_VOLUME.iter().find_map(|ending| name.strip_suffix(ending));
    let has = |stem: &str, ending: &&str| bag.sha256(&format!("{stem}{ending}")).is_some();
    is_in_pairtree && stem.is_some_and(|stem| OF_VOLUME[..2].iter().all(|ending| has(stem, ending)))
}

/// A resource in a bag.
#[derive(Clone, Debug)]
pub struct Bagged {
    /// What is said about it.
    pub about: About,
    /// Its path in the bag without the endings of names of its files.
    stem: String,
}

/// The path in a bag of a resource's bytes, by the names in its path.
fn stem<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("data/{}", names.map(names::encoded).collect::<Vec<_>>().join("/"))
}

impl Bagged {
    /// Reads what is said about a resource, from a file of the payload with the ending
    /// [`ABOUT`].
    fn read(bag: &Bag, name: &str, own_stem: &str) -> ReadResult<Self> {
        let text = bag.read(name, ABOUT_BYTES_MAX)?;
        let about: About = serde_json::from_slice(&text).map_err(|error| invalid(name, error.to_string()))?;
        // Two files never speak about one resource, and none about one elsewhere.
        if stem(about.names()) != own_stem || about.names().collect::<Vec<_>>().join("/") != about.path {
            return Err(invalid(name, format!("it speaks about another resource: {:?}", about.path)));
        }
        let this = Self { about, stem: own_stem.to_owned() };
        if bag.sha256(&this.description()).is_none() {
            return Err(invalid(name, "the statements about this resource are missing"));
        }
        if bag.sha256(&this.stem).is_some() != this.about.has_bytes() {
            return Err(invalid(name, "whether this resource has bytes is not what the bag has"));
        }
        Ok(this)
    }

    /// Calls `each` with each resource, a container before the resources in it. Leaves out the files
    /// of volumes. Refuses files that belong to no resource.
    ///
    /// # Errors
    /// The first one of `each`, or [`ReadError`](crate::read::ReadError) that names a file.
    pub fn each(bag: &Bag, each: &mut dyn FnMut(Self) -> ReadResult<()>) -> ReadResult<()> {
        bag.each_payload_file(&mut |name| {
            if is_of_volume(bag, name) {
                return Ok(());
            }
            if let Some(stem) = name.strip_suffix(ABOUT) {
                return each(Self::read(bag, name, stem)?);
            }
            let stem = name.strip_suffix(DESCRIPTION).unwrap_or(name);
            match bag.sha256(&format!("{stem}{ABOUT}")) {
                Some(_) => Ok(()),
                None => Err(invalid(name, format!("it belongs to no resource: there is no {stem}{ABOUT}"))),
            }
        })
    }

    /// The file of the statements of clients about it.
    pub fn description(&self) -> String {
        format!("{}{DESCRIPTION}", self.stem)
    }

    /// The file of its bytes: its name in the bag, its place, and its SHA-256.
    pub fn bytes(&self, bag: &Bag) -> Option<(PathBuf, [u8; 32])> {
        let sha256 = bag.sha256(&self.stem).filter(|_| self.about.has_bytes())?;
        Some((bag.place(&self.stem), sha256))
    }
}
