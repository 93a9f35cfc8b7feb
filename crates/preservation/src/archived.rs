//! Resources as objects of OCFL: the identifier of an object, and the logical paths of its files.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::about::{ABOUT_BYTES_MAX, About};
use crate::names;
use crate::ocfl::{Content, Object};
use crate::read::{ReadResult, invalid, read_small};

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

/// A version of a resource in an object.
#[derive(Clone, Debug)]
pub struct ArchivedVersion {
    /// When it was made (RFC 3339).
    pub created: String,
    /// The state; `None` if the resource was deleted. Such a version has no files.
    pub state: Option<ArchivedState>,
}

/// A state of a resource in an object.
#[derive(Clone, Debug)]
pub struct ArchivedState {
    /// What is said about it.
    pub about: About,
    /// The statements of clients about it.
    pub statements: Content,
    /// Its bytes.
    pub bytes: Option<Content>,
}

impl ArchivedVersion {
    /// The versions in an object, oldest first.
    ///
    /// # Errors
    /// [`ReadError`](crate::read::ReadError) if it is not an object that `penates export` wrote.
    pub fn all(object: &Object) -> ReadResult<Vec<Self>> {
        let mut abouts: BTreeMap<Vec<u8>, About> = BTreeMap::new();
        let mut versions = Vec::new();
        for version in object.versions() {
            let mut files = object.files(version);
            let wrong = |why: &str| invalid(object.id(), why);
            if files.is_empty() {
                if versions.is_empty() {
                    return Err(wrong("its first version has no files"));
                }
                versions.push(Self { created: version.created.clone(), state: None });
                continue;
            }
            let file = files.remove(ABOUT).ok_or_else(|| wrong("penates did not write it: there is no about.json"))?;
            let about = match abouts.get(&file.digest) {
                Some(about) => about.clone(),
                None => {
                    let text = read_small(&file.place, object.id(), ABOUT_BYTES_MAX)?;
                    let about: About = serde_json::from_slice(&text).map_err(|error| wrong(&error.to_string()))?;
                    abouts.insert(file.digest, about.clone());
                    about
                }
            };
            if id(about.names()) != object.id() || about.names().collect::<Vec<_>>().join("/") != about.path {
                return Err(wrong("it speaks about another resource"));
            }
            let statements = files.remove(DESCRIPTION).ok_or_else(|| wrong("there are no statements"))?;
            let bytes = files.remove(&bytes(&about));
            if bytes.is_some() != about.has_bytes() || !files.is_empty() {
                return Err(wrong("its files are not those of the resource"));
            }
            let state = ArchivedState { about, statements, bytes };
            versions.push(Self { created: version.created.clone(), state: Some(state) });
        }
        Ok(versions)
    }
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
