//! What is asked for.

use bytes::Bytes;
use heads::ResourcePath;

use crate::document::Document;
use crate::glob::Glob;
use crate::keys::{self, Facet, List};

/// What follows the path of bytes in the address of their description.
pub(crate) const DESCRIPTION_SUFFIX: &str = "/fcr:metadata";

/// A field that results are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The path; a description comes right after its bytes.
    Path,
    /// The time of creation.
    Created,
    /// The time of the last change.
    Modified,
    /// The size; no size comes first.
    Size,
    /// The media type; none comes first.
    MediaType,
}

impl Field {
    /// The list in the order of the field.
    pub(crate) fn list(self) -> List {
        match self {
            Self::Path => List::Documents,
            Self::Created => List::Created,
            Self::Modified => List::Modified,
            Self::Size => List::Sizes,
            Self::MediaType => List::MediaTypes,
        }
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `=`
    Equal,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
}

impl Comparison {
    /// Whether it holds.
    pub fn holds<T: PartialOrd>(self, one: T, other: T) -> bool {
        match self {
            Self::Less => one < other,
            Self::LessOrEqual => one <= other,
            Self::Equal => one == other,
            Self::GreaterOrEqual => one >= other,
            Self::Greater => one > other,
        }
    }
}

/// A condition on results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The id, which is the path, and `/fcr:metadata` of a description.
    Id(Glob),
    /// The id, compared with another.
    IdOrder(Comparison, String),
    /// The time of creation, in milliseconds since 1970.
    Created(Comparison, u64),
    /// The time of the last change, in milliseconds since 1970.
    Modified(Comparison, u64),
    /// The size in bytes.
    Size(Comparison, u64),
    /// The media type.
    MediaType(Glob),
    /// The media type, compared with another.
    MediaTypeOrder(Comparison, String),
    /// One of the types.
    Type(Glob),
}

/// A place in the order of results. It stays valid whatever changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub(crate) Bytes);

impl Place {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// All of them must hold.
    pub conditions: Vec<Condition>,
    /// The order; `None`: the one that is fastest, which follows from the conditions alone.
    pub order_by: Option<Field>,
    /// Whether the order is reversed.
    pub is_descending: bool,
    /// The most results.
    pub max: usize,
    /// Results that are left out at the beginning.
    pub offset: usize,
    /// Only results behind this place.
    pub after: Option<Place>,
    /// Whether all results are counted.
    pub counts: bool,
}

/// The id of a facet of a path.
pub fn id_of(path: &ResourcePath, facet: Facet) -> String {
    match facet {
        Facet::Itself => path.as_str().to_owned(),
        Facet::Description => format!("{path}{DESCRIPTION_SUFFIX}"),
    }
}

/// The path to which an id with the prefix `id` may belong besides those that begin with `id`: that
/// of the bytes, if `id` ends in the address of a description.
pub fn described_by(id: &str) -> Option<&str> {
    let of_len = |len: usize| id.strip_suffix(&DESCRIPTION_SUFFIX[..len]).filter(|path| !path.is_empty());
    (1..=DESCRIPTION_SUFFIX.len()).rev().find_map(of_len)
}

impl Query {
    /// A search for everything, in pages of `max`.
    pub fn all(max: usize) -> Self {
        Self {
            conditions: Vec::new(),
            order_by: None,
            is_descending: false,
            max,
            offset: 0,
            after: None,
            counts: false,
        }
    }

    /// Whether a result meets all conditions.
    pub fn matches(&self, path: &ResourcePath, facet: Facet, document: &Document) -> bool {
        self.conditions.iter().all(|condition| condition.holds(path, facet, document))
    }

    /// The order of the results.
    pub fn order(&self) -> Field {
        if let Some(field) = self.order_by {
            return field;
        }
        let is_by_path = |condition: &Condition| match condition {
            Condition::Id(glob) => !glob.is_any(),
            Condition::IdOrder(..) => true,
            Condition::MediaType(glob) | Condition::Type(glob) => glob.literal().is_some(),
            _ => false,
        };
        if self.conditions.iter().any(is_by_path) {
            return Field::Path;
        }
        let field = |condition: &Condition| match condition {
            Condition::Created(..) => Some(Field::Created),
            Condition::Modified(..) => Some(Field::Modified),
            Condition::Size(..) => Some(Field::Size),
            _ => None,
        };
        self.conditions.iter().find_map(field).unwrap_or(Field::Path)
    }
}

impl Condition {
    fn holds(&self, path: &ResourcePath, facet: Facet, document: &Document) -> bool {
        match self {
            Self::Id(glob) => match glob.literal() {
                Some(text) if facet == Facet::Itself => path.as_str() == text,
                _ => glob.matches(&id_of(path, facet)),
            },
            Self::IdOrder(comparison, text) => comparison.holds(id_of(path, facet).as_str(), text.as_str()),
            Self::Created(comparison, time) => comparison.holds(document.created.0, *time),
            Self::Modified(comparison, time) => comparison.holds(document.modified(facet).0, *time),
            Self::Size(comparison, bytes) => {
                document.len_bytes(facet).is_some_and(|len_bytes| comparison.holds(len_bytes, *bytes))
            }
            Self::MediaType(glob) => document.media_type(facet).is_some_and(|media_type| glob.matches(media_type)),
            Self::MediaTypeOrder(comparison, text) => {
                document.media_type(facet).is_some_and(|media_type| comparison.holds(media_type, text.as_str()))
            }
            Self::Type(glob) => document.types(facet).any(|iri| glob.matches(iri)),
        }
    }
}

impl Document {
    /// The place of a facet of it in an order.
    pub(crate) fn place(&self, field: Field, path: &ResourcePath, facet: Facet) -> Place {
        let value = match field {
            Field::Path => Vec::new(),
            field => self.values(field.list(), facet).pop().unwrap_or_default(),
        };
        Place(keys::place(&value, path.as_str(), facet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_ends_like_a_description_may_belong_to_its_bytes() {
        for (id, path) in [
            ("a/", Some("a")),
            ("a/fcr", Some("a")),
            ("a/b/fcr:metadata", Some("a/b")),
            ("a/fcr:metadata/x", None),
            ("a", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(described_by(id), path, "{id}");
        }
    }
}
