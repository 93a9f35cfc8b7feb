//! Documents: what can be searched for of a path.

use heads::{ResourcePath, RevisionId};
use serde::{Deserialize, Serialize};
use store::{Stored, UnixMillis, ValueKind};

use crate::keys::{self, Facet, List};
use crate::kinds::Kind;

/// The most types of its own that are indexed of a resource.
pub const OWN_TYPES_MAX: usize = 64;

/// The most bytes of all of them together.
pub const OWN_TYPES_BYTES_MAX: usize = 8 << 10;

/// The most bytes of a media type that are indexed.
const MEDIA_TYPE_BYTES_MAX: usize = 1 << 10;

/// The most bytes of a stored document: its texts, their lengths, and its numbers.
pub const DOCUMENT_BYTES_MAX: usize = OWN_TYPES_BYTES_MAX + 3 * OWN_TYPES_MAX + MEDIA_TYPE_BYTES_MAX + 128;

/// What a resource is, and what follows from that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// A graph.
    RdfSource,
    /// A Basic Container.
    BasicContainer,
    /// A Direct Container.
    DirectContainer,
    /// An Indirect Container.
    IndirectContainer,
    /// Bytes, with a description.
    Binary {
        /// When they were changed last.
        modified: UnixMillis,
        /// How many they are; `None` if they are stored elsewhere.
        len_bytes: Option<u64>,
        /// Their media type; may be empty.
        media_type: String,
    },
}

/// What can be searched for of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// When the resource was created.
    pub created: UnixMillis,
    /// When its description was changed last.
    pub described: UnixMillis,
    /// What it is.
    pub shape: Shape,
    /// The types that its description gives it, sorted; as many as are indexed.
    pub own_types: Vec<String>,
}

/// The value of a row of [`List::Documents`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Indexed {
    /// There is a resource.
    Live(Document),
    /// It was deleted. The row stays until the index is rebuilt, so that no late writer brings the
    /// resource back.
    Deleted,
}

impl Stored for Indexed {
    const KIND: ValueKind = ValueKind::SearchDocument;
}

/// The value of a row of the other lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed;

impl Stored for Listed {
    const KIND: ValueKind = ValueKind::SearchEntry;
}

impl Document {
    /// A document with as many types as are indexed.
    pub fn new(created: UnixMillis, described: UnixMillis, mut shape: Shape, mut own_types: Vec<String>) -> Self {
        own_types.sort_unstable();
        own_types.dedup();
        let mut room = OWN_TYPES_BYTES_MAX;
        own_types.retain(|iri| {
            let fits = iri.len() <= room;
            room -= if fits { iri.len() } else { 0 };
            fits
        });
        own_types.truncate(OWN_TYPES_MAX);
        if let Shape::Binary { media_type, .. } = &mut shape {
            let end = media_type.floor_char_boundary(MEDIA_TYPE_BYTES_MAX);
            media_type.truncate(end);
        }
        Self { created, described, shape, own_types }
    }

    /// What there is at its path.
    pub fn facets(&self) -> &'static [Facet] {
        match self.shape {
            Shape::Binary { .. } => &[Facet::Itself, Facet::Description],
            _ => &[Facet::Itself],
        }
    }

    /// What a facet of it is.
    pub fn kind(&self, facet: Facet) -> Kind {
        match (facet, &self.shape) {
            (Facet::Description, _) => Kind::Description,
            (_, Shape::RdfSource) => Kind::RdfSource,
            (_, Shape::BasicContainer) => Kind::BasicContainer,
            (_, Shape::DirectContainer) => Kind::DirectContainer,
            (_, Shape::IndirectContainer) => Kind::IndirectContainer,
            (_, Shape::Binary { .. }) => Kind::Binary,
        }
    }

    /// When a facet of it was changed last.
    pub fn modified(&self, facet: Facet) -> UnixMillis {
        match (facet, &self.shape) {
            (Facet::Itself, Shape::Binary { modified, .. }) => *modified,
            _ => self.described,
        }
    }

    /// The size of a facet of it in bytes; `None` if it has none, or none that is known.
    pub fn len_bytes(&self, facet: Facet) -> Option<u64> {
        match (facet, &self.shape) {
            (Facet::Itself, Shape::Binary { len_bytes, .. }) => *len_bytes,
            _ => None,
        }
    }

    /// The media type of a facet of it; `None` if it has none.
    pub fn media_type(&self, facet: Facet) -> Option<&str> {
        match (facet, &self.shape) {
            (Facet::Itself, Shape::Binary { media_type, .. }) if !media_type.is_empty() => Some(media_type),
            _ => None,
        }
    }

    /// All types of a facet of it: those that the server gives, and its own.
    pub fn types(&self, facet: Facet) -> impl Iterator<Item = &str> {
        let own = self.own_types.iter().filter(move |_| facet == Facet::Itself);
        self.kind(facet).types().iter().copied().chain(own.map(String::as_str))
    }

    /// The values of a facet of it in a list.
    pub(crate) fn values(&self, list: List, facet: Facet) -> Vec<Vec<u8>> {
        match list {
            List::Documents => vec![Vec::new()],
            List::Types => {
                let own = self.own_types.iter().filter(|_| facet == Facet::Itself);
                let mut values = vec![keys::of_kind(self.kind(facet))];
                values.extend(own.map(|iri| keys::of_own_type(iri)));
                // Two long ones may have the same value.
                values.dedup();
                values
            }
            List::MediaTypes => vec![keys::of_media_type(self.media_type(facet).unwrap_or_default())],
            List::Created => vec![keys::of_time(self.created.0)],
            List::Modified => vec![keys::of_time(self.modified(facet).0)],
            List::Sizes => vec![keys::of_size(self.len_bytes(facet))],
        }
    }

    /// The keys of all entries of it, with the revision.
    pub(crate) fn entries(&self, path: &ResourcePath, revision: RevisionId) -> Vec<(List, bytes::Bytes)> {
        let lists = List::ALL.into_iter().filter(|list| *list != List::Documents);
        let of_list = |list: List| {
            self.facets().iter().flat_map(move |facet| {
                let place = |value: Vec<u8>| keys::place(&value, path.as_str(), *facet);
                self.values(list, *facet).into_iter().map(move |value| (list, keys::entry(&place(value), revision)))
            })
        };
        lists.flat_map(of_list).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::stored;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A change of these bytes is a change of the stored format.
    #[test]
    fn the_bytes_of_stored_documents_do_not_change() {
        let types = vec!["b".to_owned(), "a".to_owned()];
        let plain = Document::new(UnixMillis(1), UnixMillis(2), Shape::RdfSource, types);
        assert_eq!(hex(&stored::encode(&Indexed::Live(plain.clone())).unwrap()), "00010200020161".to_owned() + "0162");
        let shape = Shape::Binary { modified: UnixMillis(3), len_bytes: Some(4), media_type: "t/x".to_owned() };
        let binary = Document::new(UnixMillis(1), UnixMillis(2), shape, Vec::new());
        assert_eq!(hex(&stored::encode(&Indexed::Live(binary)).unwrap()), "000102040301040374".to_owned() + "2f7800");
        assert_eq!(hex(&stored::encode(&Indexed::Deleted).unwrap()), "01");
        assert_eq!(stored::encode(&Listed).unwrap(), [0_u8; 0]);
        let sealed = stored::seal(&Indexed::Live(plain.clone())).unwrap();
        assert_eq!(stored::open::<Indexed>(&sealed).unwrap(), Indexed::Live(plain));
    }

    #[test]
    fn only_so_many_types_are_indexed_as_fit() {
        let many = (0..1_000).map(|n| format!("urn:t:{n:03}")).collect();
        let document = Document::new(UnixMillis(0), UnixMillis(0), Shape::RdfSource, many);
        assert_eq!(document.own_types.len(), OWN_TYPES_MAX);
        let long = vec!["x".repeat(OWN_TYPES_BYTES_MAX + 1), "y".repeat(OWN_TYPES_BYTES_MAX)];
        let media_type = "ü".repeat(10_000);
        let shape = Shape::Binary { modified: UnixMillis(u64::MAX), len_bytes: Some(u64::MAX), media_type };
        let document = Document::new(UnixMillis(u64::MAX), UnixMillis(u64::MAX), shape, long);
        assert_eq!(document.own_types.len(), 1);
        assert!(stored::seal(&Indexed::Live(document)).unwrap().len() <= DOCUMENT_BYTES_MAX);
    }

    #[test]
    fn bytes_have_entries_of_their_own_and_of_their_description() {
        let shape = Shape::Binary { modified: UnixMillis(3), len_bytes: Some(4), media_type: "t/x".to_owned() };
        let document = Document::new(UnixMillis(1), UnixMillis(2), shape, vec!["urn:t".to_owned()]);
        let path = ResourcePath::parse("a").unwrap();
        // Five lists for each facet, and the type of its own.
        assert_eq!(document.entries(&path, RevisionId::ZERO).len(), 11);
        assert_eq!(document.modified(Facet::Itself), UnixMillis(3));
        assert_eq!(document.modified(Facet::Description), UnixMillis(2));
        assert!(document.types(Facet::Itself).any(|iri| iri == "urn:t"));
        assert!(document.types(Facet::Description).all(|iri| iri != "urn:t"));
    }
}
