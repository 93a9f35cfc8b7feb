//! The place of an object in a storage root: community extension 0003 with its default parameters.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The name of the extension.
pub const EXTENSION: &str = "0003-hash-and-id-n-tuple-storage-layout";

/// Names of folders that come from the digest, and their length in characters.
const TUPLES: usize = 3;
const TUPLE_CHARACTERS: usize = 3;

/// The longest name of an object's folder without its digest, in characters.
const NAME_MAX: usize = 100;

/// Its parameters, as they are in `config.json`.
pub fn parameters() -> serde_json::Value {
    serde_json::json!({
        "extensionName": EXTENSION,
        "digestAlgorithm": "sha256",
        "tupleSize": TUPLE_CHARACTERS,
        "numberOfTuples": TUPLES,
    })
}

/// The path of an object's folder from the storage root.
pub fn place(id: &str) -> String {
    let digest = hex::encode(Sha256::digest(id));
    let mut path = String::new();
    for n in 0..TUPLES {
        path.push_str(&digest[n * TUPLE_CHARACTERS..(n + 1) * TUPLE_CHARACTERS]);
        path.push('/');
    }
    let mut name = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            true => name.push(char::from(byte)),
            // Writing into a string does not fail.
            false => _ = write!(name, "%{byte:02x}"),
        }
    }
    if name.len() > NAME_MAX {
        name.truncate(NAME_MAX);
        name = format!("{name}-{digest}");
    }
    path + &name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_at_the_places_of_the_examples_of_the_extension() {
        let long = "abcdefghij".repeat(10);
        let digest = "5cc73e648fbcff136510e330871180922ddacf193b68fdeff855683a01464220";
        for (id, path) in [
            ("object-01", "3c0/ff4/240/object-01"),
            ("..hor/rib:le-$id", "487/326/d8c/%2e%2ehor%2frib%3ale-%24id"),
            ("..Hor/rib:l\u{e8}-$id", "373/529/21a/%2e%2eHor%2frib%3al%c3%a8-%24id"),
            (&format!("{long}a"), &format!("5cc/73e/648/{long}-{digest}")),
        ] {
            assert_eq!(place(id), path);
        }
    }
}
