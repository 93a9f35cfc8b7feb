//! Missing parts of an archive, and `ERROR.err`, which lists them in the form of the HTRC Data API
//! where its clients look for it.

use std::fmt::Write as _;

use bytes::Bytes;
use hathi::{Seq, VolumeId};
use serde::{Deserialize, Serialize};

/// The first line of `ERROR.err`, as the HTRC Data API writes it.
const HEADING: &str = "Caught the following errors while generating the ZIP file.  \
                       This ZIP file is likely to be incomplete and missing some entries.\n";

/// Something that was requested and is not in the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The volume's id.
    pub volume: VolumeId,
    /// The missing part of it.
    pub part: MissingPart,
    /// The reason.
    pub reason: MissingReason,
}

/// What of a volume is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MissingPart {
    /// All of it.
    Volume,
    /// The page of this sequence.
    Page(u32),
    /// Its METS.
    Mets,
}

/// Why something is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MissingReason {
    /// It is not in the store, or not any more.
    Absent,
    /// What is stored differs from what was imported.
    Damaged,
    /// It could not be read for now, despite several tries.
    Unavailable,
    /// The history does not keep the version of the requested time.
    NotKept,
}

impl Missing {
    /// A volume that is missing as a whole.
    pub fn volume(volume: VolumeId, reason: MissingReason) -> Self {
        Self { volume, part: MissingPart::Volume, reason }
    }

    /// A page that is missing.
    pub fn page(volume: VolumeId, seq: Seq, reason: MissingReason) -> Self {
        Self { volume, part: MissingPart::Page(seq.get()), reason }
    }

    /// Writes its line of `ERROR.err`. The offending key comes last, because clients take the last
    /// word of the line.
    fn write_line(&self, text: &mut String) {
        let reason = match self.reason {
            MissingReason::Absent => "edu.indiana.d2i.htrc.access.exception.KeyNotFoundException: Offending key: ",
            MissingReason::Damaged => "RepositoryException: damaged: ",
            MissingReason::Unavailable => "RepositoryException: unavailable: ",
            MissingReason::NotKept => "RepositoryException: the version of that time is not kept: ",
        };
        text.push_str(reason);
        text.push_str(self.volume.as_str());
        match self.part {
            MissingPart::Volume => {}
            // Writing to a String never fails.
            MissingPart::Page(seq) => drop(write!(text, "[{seq}]")),
            MissingPart::Mets => text.push_str("[mets]"),
        }
        text.push('\n');
    }
}

/// The text of `ERROR.err`; `None` where nothing is missing.
pub fn error_text<'a>(missing: impl IntoIterator<Item = &'a Missing>) -> Option<Bytes> {
    let mut text = String::new();
    for missing in missing {
        if text.is_empty() {
            text.push_str(HEADING);
        }
        missing.write_line(&mut text);
    }
    (!text.is_empty()).then(|| Bytes::from(text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_missing_thing_has_a_line_that_ends_with_its_name() {
        let id = VolumeId::parse("uc2.ark:/13960/t8ff3zh99").unwrap();
        let missing = [
            Missing::volume(id.clone(), MissingReason::Absent),
            Missing::page(id.clone(), Seq::new(7).unwrap(), MissingReason::Absent),
            Missing::page(id.clone(), Seq::new(8).unwrap(), MissingReason::Damaged),
            Missing { volume: id, part: MissingPart::Mets, reason: MissingReason::Damaged },
        ];
        let expected = "\
            Caught the following errors while generating the ZIP file.  This ZIP file is likely to be incomplete and \
            missing some entries.\n\
            edu.indiana.d2i.htrc.access.exception.KeyNotFoundException: Offending key: uc2.ark:/13960/t8ff3zh99\n\
            edu.indiana.d2i.htrc.access.exception.KeyNotFoundException: Offending key: uc2.ark:/13960/t8ff3zh99[7]\n\
            RepositoryException: damaged: uc2.ark:/13960/t8ff3zh99[8]\n\
            RepositoryException: damaged: uc2.ark:/13960/t8ff3zh99[mets]\n";
        assert_eq!(error_text(&missing).unwrap(), expected);
    }

    #[test]
    fn where_nothing_is_missing_there_is_no_text() {
        assert_eq!(error_text([]), None);
    }
}
