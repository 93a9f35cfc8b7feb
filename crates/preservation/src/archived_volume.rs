//! Volumes as objects of OCFL: the identifier of an object, and the logical paths of its files.
//!
//! METS and record have the names that they have in a pairtree, and each page is a file of its own
//! in the folder `pages`. So a page that stays the same is stored once for all versions.

use std::borrow::Cow;
use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::archived;
use crate::names;
use crate::ocfl::inventory::Version;
use crate::ocfl::{Content, Object};
use crate::read::{ReadResult, invalid};

/// The start of the identifiers of volumes. No resource has such a path, because its first name is
/// the server's own.
const PREFIX: &str = "penates:/volumes/";

/// The folder of its pages.
const PAGES: &str = "pages/";

/// The identifier of the object for a volume.
pub fn id(volume: &str) -> String {
    archived::id(["volumes", volume].into_iter())
}

/// The id of the volume that an object with this identifier is of; `None` if it is of none.
pub fn volume(object: &str) -> Option<String> {
    let volume = percent_decode_str(object.strip_prefix(PREFIX)?).decode_utf8().ok()?;
    (id(&volume) == object).then(|| volume.into_owned())
}

/// The logical path of the METS, by the name of the volume in a pairtree. One that is too long for a
/// file is cut.
pub fn mets(stem: &str) -> String {
    format!("{}.mets.xml", cut(stem))
}

/// The logical path of the record.
pub fn record(stem: &str) -> String {
    format!("{}.json", cut(stem))
}

fn cut(stem: &str) -> Cow<'_, str> {
    match stem.len() <= names::ENCODED_BYTES_MAX {
        true => stem.into(),
        false => names::encoded(stem).into(),
    }
}

/// The logical path of the page with a sequence.
pub fn page(seq: u32) -> String {
    format!("{PAGES}{seq:08}.txt")
}

/// A version of a volume in an object.
#[derive(Clone, Debug)]
pub struct ArchivedVolume {
    /// The METS.
    pub mets: Content,
    /// The metadata record, if it has one.
    pub record: Option<Content>,
    /// The texts of its pages, by their sequences.
    pub pages: BTreeMap<u32, Content>,
}

impl ArchivedVolume {
    /// The volume in a version of an object. `stem` is its name in a pairtree.
    ///
    /// # Errors
    /// [`ReadError`](crate::read::ReadError) if the files are not those of a volume.
    pub fn read(object: &Object, version: &Version, stem: &str) -> ReadResult<Self> {
        let mut files = object.files(version);
        let wrong = |why: String| invalid(object.id(), why);
        let found = files.remove(&mets(stem));
        let mets = found.ok_or_else(|| wrong(format!("penates did not write it: there is no {stem}.mets.xml")))?;
        let record = files.remove(&record(stem));
        let mut pages = BTreeMap::new();
        for (path, content) in files {
            let digits = path.strip_prefix(PAGES).and_then(|name| name.strip_suffix(".txt"));
            let seq = digits.and_then(|digits| digits.parse().ok()).filter(|seq| *seq > 0 && page(*seq) == path);
            let seq = seq.ok_or_else(|| wrong(format!("{path:?} is no file of a volume")))?;
            pages.insert(seq, content);
        }
        Ok(Self { mets, record, pages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_long_id_have_names_that_every_file_system_takes() {
        let long = "x".repeat(998);
        for (short, name) in [(mets("ark+=1"), "ark+=1.mets.xml"), (record("ark+=1"), "ark+=1.json")] {
            assert_eq!(short, name);
        }
        assert!(mets(&long).len() <= 255 && record(&long).len() <= 255);
        assert_ne!(mets(&long), mets(&format!("{long}x")));
    }

    #[test]
    fn the_identifier_of_an_object_names_one_volume_and_nothing_else() {
        assert_eq!(id("uc2.ark:/13960/t1"), "penates:/volumes/uc2.ark%3A%2F13960%2Ft1");
        assert_eq!(volume(&id("uc2.ark:/13960/t1")).as_deref(), Some("uc2.ark:/13960/t1"));
        for other in ["penates:/volumes", "penates:/letters/a.b", "penates:/volumes/a.b/1", "penates:/volumes/%61.b"] {
            assert_eq!(volume(other), None, "{other}");
        }
    }
}
