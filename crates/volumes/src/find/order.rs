//! Orders of volumes, and places in a sorted list.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use serde::{Deserialize, Serialize};

use super::{Described, Field};

/// The most characters of a text by which volumes are sorted. A place has this text, and an address
/// has a place.
const TEXT_CHARS_MAX: usize = 256;

/// An order of volumes. Volumes without a value are last; equal ones are in the order of their ids.
/// Texts are compared without regard to case, and by their first 256 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Order {
    /// The field.
    pub by: Field,
    /// Whether the greatest comes first.
    pub descending: bool,
}

impl Order {
    /// The place of a volume.
    pub(super) fn place_of(self, volume: &Described) -> Place {
        let rank = match (self.value(volume), self.descending) {
            (None, _) => Rank::Missing,
            (Some(value), false) => Rank::Ascending(value),
            (Some(value), true) => Rank::Descending(Reverse(value)),
        };
        Place { order: self, rank, id: volume.id.clone() }
    }

    fn value(self, volume: &Described) -> Option<Value> {
        match self.by.is_number() {
            true => volume.number(self.by).map(Value::Number),
            false => volume.text(self.by).map(|text| Value::Text(beginning(text).to_lowercase())),
        }
    }
}

/// The part of a text that is compared.
fn beginning(text: &str) -> &str {
    text.char_indices().nth(TEXT_CHARS_MAX).map_or(text, |(at, _)| &text[..at])
}

/// The place of a volume in a sorted list. Those of one list are in its order. It stays a place
/// when the volume changes or is deleted. Its text is opaque and safe in a URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    order: Order,
    rank: Rank,
    id: VolumeId,
}

/// What volumes are sorted by. The order of the variants counts: volumes without a value are last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Rank {
    Ascending(Value),
    Descending(Reverse<Value>),
    Missing,
}

/// A value of a field. All values of one field are of one variant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Value {
    Number(i64),
    Text(String),
}

impl Place {
    /// The order in which it is a place.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Approximate bytes of memory. The volume that is there has the id too.
    pub(super) fn memory_bytes(&self) -> u64 {
        let text = match &self.rank {
            Rank::Ascending(Value::Text(text)) | Rank::Descending(Reverse(Value::Text(text))) => text.len(),
            _ => 0,
        };
        (text + size_of::<Self>()) as u64
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = postcard::to_stdvec(self).map_err(|_| fmt::Error)?;
        f.write_str(&hex::encode(bytes))
    }
}

impl FromStr for Place {
    type Err = ObjectsError;

    fn from_str(text: &str) -> ObjectsResult<Self> {
        let invalid = || ObjectsError::Invalid(format!("{text:?} is no place in a sorted list"));
        let bytes = hex::decode(text).map_err(|_| invalid())?;
        match postcard::take_from_bytes(&bytes) {
            Ok((place, [])) => Ok(place),
            _ => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn titled(id: &str, title: Option<&str>) -> Described {
        Described { title: title.map(str::to_owned), ..Described::named(id.parse().unwrap()) }
    }

    #[test]
    fn a_place_reads_back_from_its_text_and_rubbish_is_refused() {
        let orders = [(Field::Title, false), (Field::Title, true), (Field::Year, true), (Field::Pages, false)];
        for (by, descending) in orders {
            let order = Order { by, descending };
            let place = order.place_of(&titled("uc2.ark:/13960/ü", Some("Ä\n\u{0}b")));
            let text = place.to_string();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{text}");
            assert_eq!(text.parse::<Place>().unwrap(), place);
            assert_eq!(place.order(), order);
            for rubbish in [&text[2..], &text[..text.len() - 2], format!("{text}00").as_str()] {
                assert!(rubbish.parse::<Place>().is_err(), "{rubbish:?} of {text:?}");
            }
        }
        for rubbish in ["", "0", "00", "ü", "AAEAAA", "ffffffffffffffffffff"] {
            assert!(rubbish.parse::<Place>().is_err(), "{rubbish:?}");
        }
    }

    #[test]
    fn a_text_is_compared_without_case_by_its_beginning_and_then_its_id() {
        let long = |end: &str| format!("{}{end}", "ä".repeat(TEXT_CHARS_MAX));
        for descending in [false, true] {
            let order = Order { by: Field::Title, descending };
            let place = |id: &str, title: Option<&str>| order.place_of(&titled(id, title));
            assert!(place("t.1", Some("ÉCOLE")) < place("t.2", Some("école")));
            assert!(place("t.1", Some(&long("z"))) < place("t.2", Some(&long("a"))));
            assert!(place("t.1", Some(&long("z"))).to_string().len() < 2_000);
            assert_eq!(place("t.1", Some("a")) < place("t.2", Some("B")), !descending);
            assert!(place("t.2", Some("a")) < place("t.1", None));
            assert!(place("t.1", None) < place("t.2", None));
        }
    }
}
