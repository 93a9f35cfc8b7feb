//! The inventory of an object (OCFL 1.1, section 3.5).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha512};

/// Its type.
pub const TYPE_1_1: &str = "https://ocfl.io/1.1/spec/#inventory";

/// Digests, with the paths that have them.
pub type Paths = BTreeMap<String, Vec<String>>;

/// An inventory.
#[expect(clippy::manual_non_exhaustive, reason = "the private field is read, and then checked")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// The object's identifier.
    pub id: String,
    /// The version of OCFL.
    #[serde(rename = "type")]
    pub kind: String,
    /// The algorithm of its digests.
    pub digest_algorithm: String,
    /// The newest version.
    pub head: String,
    /// The folder of contents in the folder of each version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_directory: Option<String>,
    /// The files of the object, by their digests.
    #[serde(deserialize_with = "unrepeated")]
    pub manifest: Paths,
    /// The versions, by their names.
    #[serde(deserialize_with = "unrepeated")]
    pub versions: BTreeMap<String, Version>,
    /// Digests of other algorithms. They are not kept: only that none is there twice is checked.
    #[serde(default, skip_serializing, deserialize_with = "checked_fixity")]
    fixity: (),
}

/// A version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// When it was made (RFC 3339).
    pub created: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// The logical paths of its files, by their digests.
    #[serde(deserialize_with = "unrepeated")]
    pub state: Paths,
}

/// Who made a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The name.
    pub name: String,
    /// An address, as a URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

impl Inventory {
    /// The inventory of an object without versions.
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            kind: TYPE_1_1.to_owned(),
            digest_algorithm: "sha512".to_owned(),
            head: "v0".to_owned(),
            content_directory: None,
            manifest: Paths::new(),
            versions: BTreeMap::new(),
            fixity: (),
        }
    }

    /// The number of its newest version.
    pub fn newest(&self) -> Option<u32> {
        number(&self.head)
    }

    /// The newest version.
    pub fn newest_version(&self) -> Option<&Version> {
        self.versions.get(&self.head)
    }

    /// As a file, with the text of its sidecar.
    pub fn written(&self) -> (Vec<u8>, String) {
        // Maps with text as keys are written without an error.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        let sidecar = format!("{}  inventory.json\n", hex::encode(Sha512::digest(&text)));
        (text, sidecar)
    }
}

/// A map in which each key is there once. Of several values with one key, others keep the last.
struct Unrepeated<V>(BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Unrepeated<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// Reads the entries of such a map.
struct Entries<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
    type Value = Unrepeated<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map: BTreeMap<String, V> = BTreeMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            match map.entry(key) {
                Entry::Vacant(vacant) => _ = vacant.insert(value),
                Entry::Occupied(there) => return Err(A::Error::custom(format!("{:?} is there twice", there.key()))),
            }
        }
        Ok(Unrepeated(map))
    }
}

fn unrepeated<'de, V, D>(deserializer: D) -> Result<BTreeMap<String, V>, D::Error>
where
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Unrepeated::<V>::deserialize(deserializer).map(|map| map.0)
}

fn checked_fixity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    Unrepeated::<Unrepeated<IgnoredAny>>::deserialize(deserializer).map(drop)
}

/// The number in the name of a version: `v` and digits, with or without zeros in front.
pub fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix('v').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
    digits.parse().ok()
}
