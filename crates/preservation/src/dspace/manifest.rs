//! What a `mets.xml` says about an object.

use std::collections::HashSet;
use std::io::BufRead;

use super::{Field, parser};
use crate::bagit::text::Algorithm;
use crate::read::ReadResult;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The repository.
    Site,
    /// A community, which has communities and collections.
    Community,
    /// A collection of items.
    Collection,
    /// An item.
    Item,
}

impl Kind {
    /// The kind that `TYPE` says, such as `DSpace ITEM`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("DSpace ")? {
            "SITE" => Self::Site,
            "COMMUNITY" => Self::Community,
            "COLLECTION" => Self::Collection,
            "ITEM" => Self::Item,
            _ => return None,
        })
    }

    /// The name of its class in DSpace's RDF.
    pub fn class(self) -> &'static str {
        match self {
            Self::Site => "Repository",
            Self::Community => "Community",
            Self::Collection => "Collection",
            Self::Item => "Item",
        }
    }

    /// The name of the relation to the object that it is in, in DSpace's RDF; `None` if it is in
    /// none.
    pub fn relation(self) -> Option<&'static str> {
        match self {
            Self::Site => None,
            Self::Community => Some("isSubcommunityOf"),
            Self::Collection => Some("isPartOfCommunity"),
            Self::Item => Some("isPartOfCollection"),
        }
    }
}

/// An object.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// What it is.
    pub kind: Kind,
    /// Its handle, such as `123456789/42`; without one, DSpace's own identifier.
    pub handle: String,
    /// When an item was changed last (RFC 3339).
    pub modified: Option<String>,
    /// The fields of its metadata.
    pub fields: Vec<Field>,
    /// What DSpace needs to make it again: its handle, where it is, who submitted it.
    pub technical: Vec<Field>,
    /// Who may do what with it. Without any policy only administrators may. `None` if the METS does
    /// not say it.
    pub policies: Option<Vec<Policy>>,
    /// The handle of the object that it is in.
    pub parent: Option<String>,
    /// What is in a site, community or collection.
    pub children: Vec<Child>,
    /// The bundles of an item; that of the logo of a collection or community.
    pub bundles: Vec<Bundle>,
    /// The bitstreams of all bundles.
    pub bitstreams: Vec<Bitstream>,
    /// The number of the primary bitstream among these, or of the logo.
    pub primary: Option<usize>,
    /// Files with further metadata, such as licenses, and their media types. They may be
    /// bitstreams.
    pub referenced: Vec<(String, Option<String>)>,
    /// Whether it has a template for new items.
    pub has_template: bool,
    /// How many groups and people it describes.
    pub groups: u64,
    /// How many people.
    pub people: u64,
}

/// An object in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its handle.
    pub handle: Option<String>,
    /// The name of its package.
    pub package: Option<String>,
}

/// Bitstreams for one purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Its name: `ORIGINAL`, `TEXT`, `THUMBNAIL`, `LICENSE`, `LOGO` and the like.
    pub name: String,
    /// Who may do what with it. Without any policy only administrators may. `None` if the METS does
    /// not say it.
    pub policies: Option<Vec<Policy>>,
}

/// Bytes with their metadata.
#[derive(Clone, Debug)]
pub struct Bitstream {
    /// Its identifier in the METS.
    pub id: String,
    /// The bundle that it is in, as a number among all.
    pub bundle: usize,
    /// Its number in the item, which is part of its address in DSpace.
    pub sequence: Option<u64>,
    /// The name of its file in the package, or the address of its bytes.
    pub file: String,
    /// Its media type.
    pub media_type: Option<String>,
    /// How many bytes it has.
    pub len_bytes: Option<u64>,
    /// The digest of its bytes.
    pub digest: Option<(Algorithm, Vec<u8>)>,
    /// The bitstreams that are forms of the same thing have the same group.
    pub group: Option<String>,
    /// Its name, description and format.
    pub technical: Vec<Field>,
    /// Who may do what with it. Without any policy only administrators may. `None` if the METS does
    /// not say it.
    pub policies: Option<Vec<Policy>>,
}

/// Who may do something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The kind of those who may: `GENERAL PUBLIC`, `REPOSITORY MGR`, `MANAGED GRP`, `ACADEMIC
    /// USER`.
    pub class: Option<String>,
    /// The name of a group, or the address of a person.
    pub who: Option<String>,
    /// Whether it applies now.
    pub is_in_effect: bool,
    /// The first day.
    pub from: Option<String>,
    /// The last day.
    pub until: Option<String>,
    /// What is permitted, such as `DISPLAY`, and DSpace's own word for it.
    pub permits: Vec<String>,
}

impl Policy {
    /// Whether it lets everyone read now, and says nothing more.
    pub fn is_public_reading(&self) -> bool {
        self.class.as_deref() == Some("GENERAL PUBLIC")
            && self.is_in_effect
            && self.permits.iter().any(|permit| permit == "DISPLAY")
            && self.permits.iter().all(|permit| matches!(permit.as_str(), "DISPLAY" | "DISCOVER"))
    }
}

impl Manifest {
    /// Reads a METS. `name` is what messages call it.
    ///
    /// # Errors
    /// [`ReadError`](crate::read::ReadError) if it is not what DSpace writes, or takes too much memory.
    pub fn read(source: impl BufRead, name: &str) -> ReadResult<Self> {
        parser::read(source, name)
    }

    /// The first value of a technical field.
    pub fn technical(&self, element: &str, qualifier: Option<&str>) -> Option<&str> {
        Field::first(&self.technical, element, qualifier)
    }

    /// Whether the bytes of its bitstreams are elsewhere, because it was exported without them.
    pub fn is_for_itself(&self) -> bool {
        self.bitstreams.iter().any(|bitstream| bitstream.file.contains("://"))
    }

    /// The files with further metadata that are no bitstreams, with their media types.
    pub fn others(&self) -> Vec<(&str, Option<&str>)> {
        let mut known: HashSet<&str> = self.bitstreams.iter().map(|bitstream| bitstream.file.as_str()).collect();
        let others = self.referenced.iter().filter(|(file, _)| known.insert(file));
        others.map(|(file, media_type)| (file.as_str(), media_type.as_deref())).collect()
    }

    /// Whether it says of anything who may do what with it.
    pub fn has_policies(&self) -> bool {
        let of_bundles = self.bundles.iter().map(|bundle| &bundle.policies);
        let of_bitstreams = self.bitstreams.iter().map(|bitstream| &bitstream.policies);
        std::iter::once(&self.policies).chain(of_bundles).chain(of_bitstreams).any(Option::is_some)
    }

    /// Whether an item is withdrawn.
    pub fn is_withdrawn(&self) -> bool {
        self.technical("rights", Some("accessRights")) == Some("WITHDRAWN")
    }

    /// The handles of further collections, or communities, that it is in.
    pub fn also_in(&self) -> impl Iterator<Item = &str> {
        let fields = self.technical.iter().filter(|field| field.is("relation", Some("isReferencedBy")));
        fields.map(|field| field.value.strip_prefix("hdl:").unwrap_or(&field.value))
    }
}

impl Bitstream {
    /// The name of its file in DSpace.
    pub fn name(&self) -> Option<&str> {
        Field::first(&self.technical, "title", None)
    }
}
