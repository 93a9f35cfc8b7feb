//! Resources as objects of OCFL: the identifier of an object, and the logical paths of its files.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::about::About;
use crate::names;

/// What is said about the resource.
pub const ABOUT: &str = "about.json";
/// The statements of clients about it, as N-Triples.
pub const DESCRIPTION: &str = "description.nt";

/// The folder of its bytes, which have the name of the resource there, so that tools know the
/// format by the ending.
const BYTES: &str = "bytes/";

/// The start of identifiers.
const PREFIX: &str = "penates:/";

/// Characters of names that are not encoded (RFC 3986, section 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The identifier of the object for a resource, by the names in its path.
pub fn id<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|name| utf8_percent_encode(name, UNRESERVED).to_string()).collect();
    format!("{PREFIX}{}", names.join("/"))
}

/// The logical path of the bytes of a resource.
pub fn bytes(about: &About) -> String {
    format!("{BYTES}{}", names::encoded(about.names().last().unwrap_or("bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_an_identifier_of_its_own() {
        assert_eq!(id([].into_iter()), "penates:/");
        assert_eq!(id(["a b", "\u{fc}/1.txt"].into_iter()), "penates:/a%20b/%C3%BC%2F1.txt");
    }
}
