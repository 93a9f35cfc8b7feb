//! The fields of a volume in lists.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A field of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Field {
    /// The id.
    Id,
    /// `title` of its record.
    Title,
    /// `names` of its record, joined by `; `.
    Author,
    /// The year in `pubDate` of its record.
    Year,
    /// `language` of its record.
    Language,
    /// `rightsAttributes` of its record.
    Rights,
    /// How many pages it has.
    Pages,
    /// Bytes of its pages' texts.
    Bytes,
}

impl Field {
    /// All fields, in the order in which they are listed.
    pub const ALL: [Self; 8] =
        [Self::Id, Self::Title, Self::Author, Self::Year, Self::Language, Self::Rights, Self::Pages, Self::Bytes];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Title => "title",
            Self::Author => "author",
            Self::Year => "year",
            Self::Language => "language",
            Self::Rights => "rights",
            Self::Pages => "pages",
            Self::Bytes => "bytes",
        }
    }

    /// The field of a name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name().eq_ignore_ascii_case(name))
    }

    /// Whether its values are whole numbers.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Year | Self::Pages | Self::Bytes)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
