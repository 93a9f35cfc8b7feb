//! Partitions and sort keys of the index, all in [`store::Table::Work`].
//!
//! A generation of the index has six lists. Each is divided into shards by the path, so that no
//! partition grows without bound. A sort key of a document is its path, NUL, and its revision. That
//! of an entry is its value, its path, NUL, its facet, and its revision. Paths have no NUL.

use bytes::{BufMut, Bytes, BytesMut};
use heads::{ResourcePath, RevisionId};
use serde::{Deserialize, Serialize};

use crate::kinds::Kind;

/// All partitions of the index begin with this. What begins with `local/` is not copied.
const PREFIX: &[u8] = b"local/search";

/// The most bytes of a text in the key of an entry. Longer ones are cut there, and the document
/// decides.
pub const VALUE_BYTES_MAX: usize = 512;

/// The bytes of a revision.
const REVISION_BYTES: usize = size_of::<RevisionId>();

/// A list of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// Documents, by path.
    Documents,
    /// Entries by kind, and by each type of a resource's own.
    Types,
    /// Entries by media type; no media type is an empty one.
    MediaTypes,
    /// Entries by the time of creation.
    Created,
    /// Entries by the time of the last change.
    Modified,
    /// Entries by size; no size comes first.
    Sizes,
}

impl List {
    /// All lists.
    pub const ALL: [Self; 6] =
        [Self::Documents, Self::Types, Self::MediaTypes, Self::Created, Self::Modified, Self::Sizes];

    fn letter(self) -> u8 {
        match self {
            Self::Documents => b'd',
            Self::Types => b't',
            Self::MediaTypes => b'm',
            Self::Created => b'c',
            Self::Modified => b'u',
            Self::Sizes => b's',
        }
    }

    /// The length of the value in a sort key.
    fn value_len(self, sort: &[u8]) -> Option<usize> {
        match self {
            Self::Documents => Some(0),
            Self::Types | Self::MediaTypes => sort.iter().position(|byte| *byte == 0).map(|end| end + 1),
            Self::Created | Self::Modified => Some(8),
            Self::Sizes => Some(9),
        }
    }
}

/// What of a path a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Facet {
    /// The resource.
    Itself,
    /// The description of its bytes, which clients of Fedora address as a resource of its own.
    Description,
}

impl Facet {
    fn byte(self) -> u8 {
        match self {
            Self::Itself => 0,
            Self::Description => 1,
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Itself),
            1 => Some(Self::Description),
            _ => None,
        }
    }
}

/// The partition with the state of the index.
pub fn state_partition() -> Bytes {
    Bytes::from_static(PREFIX)
}

/// The state of the index.
pub fn state() -> Bytes {
    Bytes::from_static(b"state")
}

/// The key with which cursors are sealed.
pub fn cursor_key() -> Bytes {
    Bytes::from_static(b"cursor key")
}

/// A shard of a list of a generation.
pub fn partition(generation: u32, list: List, shard: u16) -> Bytes {
    let letter = [list.letter()];
    Bytes::from([PREFIX, b"/", &generation.to_be_bytes(), &letter, &shard.to_be_bytes()].concat())
}

/// The list of a partition; `None` if it is not one of the index's lists.
pub fn list_of_partition(partition: &[u8]) -> Option<List> {
    let rest = partition.strip_prefix(PREFIX)?.strip_prefix(b"/")?;
    let letter = *rest.get(4).filter(|_| rest.len() == 7)?;
    List::ALL.into_iter().find(|list| list.letter() == letter)
}

/// Whether a sort key is one of a partition's list.
pub fn is_in_list(partition: &[u8], sort: &[u8]) -> bool {
    match list_of_partition(partition) {
        Some(List::Documents) => document_of(sort).is_some(),
        Some(list) => entry_of(list, sort).is_some(),
        None => false,
    }
}

/// The shard of a path.
pub fn shard_of(path: &str, shards: u16) -> u16 {
    u16::try_from(crc32fast::hash(path.as_bytes()) % u32::from(shards.max(1))).unwrap_or(0)
}

/// The prefix of all documents of a path.
pub fn documents_of(path: &str) -> Bytes {
    Bytes::from([path.as_bytes(), &[0]].concat())
}

/// The end of all documents of a path (exclusive).
pub fn after_documents_of(path: &str) -> Bytes {
    Bytes::from([path.as_bytes(), &[1]].concat())
}

/// The document of a path at a revision.
pub fn document(path: &str, revision: RevisionId) -> Bytes {
    Bytes::from([path.as_bytes(), &[0], &revision.0].concat())
}

/// The path and the revision of a document.
pub fn document_of(sort: &[u8]) -> Option<(ResourcePath, RevisionId)> {
    let (rest, revision) = split_revision(sort)?;
    Some((path(rest.strip_suffix(&[0])?)?, revision))
}

/// An entry without its revision: the place of a result in the order of the list.
pub fn place(value: &[u8], path: &str, facet: Facet) -> Bytes {
    let mut key = BytesMut::with_capacity(value.len() + path.len() + 2 + REVISION_BYTES);
    key.put_slice(value);
    key.put_slice(path.as_bytes());
    key.put_slice(&[0, facet.byte()]);
    key.freeze()
}

/// The entry at a place, of a revision.
pub fn entry(place: &[u8], revision: RevisionId) -> Bytes {
    Bytes::from([place, &revision.0].concat())
}

/// What an entry names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryKey {
    /// How many bytes of the key are its value.
    pub value_len: usize,
    /// How many bytes of the key are its place.
    pub place_len: usize,
    /// The path.
    pub path: ResourcePath,
    /// What of the path it is.
    pub facet: Facet,
}

/// What an entry of a list names.
pub fn entry_of(list: List, sort: &[u8]) -> Option<EntryKey> {
    let value_len = list.value_len(sort)?;
    let (place, _) = split_revision(sort)?;
    let [path_bytes @ .., 0, facet] = place.get(value_len..)? else { return None };
    let (path, facet) = (path(path_bytes)?, Facet::of_byte(*facet)?);
    Some(EntryKey { value_len, place_len: place.len(), path, facet })
}

/// Whether these bytes may be a place of a list: a value, a path, and what of it.
pub fn is_place(list: List, bytes: &[u8]) -> bool {
    let rest = list.value_len(bytes).and_then(|value_len| bytes.get(value_len..));
    rest.and_then(path_of_place).is_some()
}

/// Splits the path and the facet off a place in the order of paths.
pub fn path_of_place(place: &[u8]) -> Option<(ResourcePath, Facet)> {
    let [path_bytes @ .., 0, facet] = place else { return None };
    Some((path(path_bytes)?, Facet::of_byte(*facet)?))
}

fn split_revision(sort: &[u8]) -> Option<(&[u8], RevisionId)> {
    let (rest, revision) = sort.split_last_chunk::<REVISION_BYTES>()?;
    Some((rest, RevisionId(*revision)))
}

fn path(bytes: &[u8]) -> Option<ResourcePath> {
    ResourcePath::parse(std::str::from_utf8(bytes).ok()?).ok()
}

/// The value of a time.
pub fn of_time(millis: u64) -> Vec<u8> {
    millis.to_be_bytes().to_vec()
}

/// The value of a size.
pub fn of_size(bytes: Option<u64>) -> Vec<u8> {
    let mut value = vec![u8::from(bytes.is_some())];
    value.extend(bytes.unwrap_or_default().to_be_bytes());
    value
}

/// The value of a media type.
pub fn of_media_type(media_type: &str) -> Vec<u8> {
    text(&[], media_type)
}

/// The value of a kind.
pub fn of_kind(kind: Kind) -> Vec<u8> {
    vec![KIND, kind.number(), 0]
}

/// The value of a type of a resource's own.
pub fn of_own_type(iri: &str) -> Vec<u8> {
    text(&[OWN_TYPE], iri)
}

/// The first byte of the value of a kind. The numbers of kinds are not 0.
const KIND: u8 = 1;

/// The first byte of the value of a type of a resource's own.
const OWN_TYPE: u8 = 2;

/// A text up to its first NUL, cut if it is long, and a NUL.
fn text(prefix: &[u8], text: &str) -> Vec<u8> {
    let text = text.as_bytes();
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len()).min(VALUE_BYTES_MAX);
    [prefix, &text[..end], &[0]].concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_entry_says_what_it_names() {
        let path = ResourcePath::parse("a/ü b").unwrap();
        for (list, value) in [
            (List::Types, of_own_type("http://a.example/T")),
            (List::Types, of_kind(Kind::Binary)),
            (List::MediaTypes, of_media_type("")),
            (List::Created, of_time(0)),
            (List::Modified, of_time(u64::MAX)),
            (List::Sizes, of_size(None)),
            (List::Sizes, of_size(Some(0))),
        ] {
            let place = place(&value, path.as_str(), Facet::Description);
            let key = entry_of(list, &entry(&place, RevisionId([7; 16]))).unwrap();
            let expected = EntryKey {
                value_len: value.len(),
                place_len: place.len(),
                path: path.clone(),
                facet: Facet::Description,
            };
            assert_eq!(key, expected, "{list:?}");
        }
        let sort = document(path.as_str(), RevisionId([7; 16]));
        assert_eq!(document_of(&sort).unwrap(), (path, RevisionId([7; 16])));
        assert_eq!(document_of(b"short"), None);
        assert_eq!(entry_of(List::Created, b"short"), None);
    }

    #[test]
    fn a_long_value_is_cut_and_the_longest_key_is_one_that_stores_take() {
        let longest = place(&of_own_type(&"x".repeat(100_000)), &"p".repeat(2_048), Facet::Itself);
        assert!(entry(&longest, RevisionId::ZERO).len() <= store::Limits::default().key_bytes);
        assert_eq!(of_media_type("text/a\0b"), b"text/a\0");
    }

    #[test]
    fn partitions_say_which_list_they_are() {
        for list in List::ALL {
            assert_eq!(list_of_partition(&partition(7, list, 3)), Some(list));
        }
        assert_eq!(list_of_partition(&state_partition()), None);
        assert_eq!(list_of_partition(b"local/webhooks"), None);
    }

    #[test]
    fn sizes_are_in_order_and_no_size_comes_first() {
        let sizes = [None, Some(0), Some(1), Some(256), Some(u64::MAX)].map(of_size);
        assert!(sizes.is_sorted());
    }
}
