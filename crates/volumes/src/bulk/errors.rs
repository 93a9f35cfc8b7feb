//! Missing parts of an archive, and `ERROR.err`, which lists them in the form of the HTRC Data API
//! where its clients look for it.
//!
//! Each line repeats the volume's id, which may have 1,000 bytes, so the text may be several
//! hundred times as long as the request. Its length and digest are known without making it.
//!
//! Stored plans do not have the text (`stored_plan.rs`): it is part of what the layouts promise,
//! and never changes.

use std::fmt;

use bytes::Bytes;
use hathi::{Seq, VolumeId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::request::Wanted;

/// The first line of `ERROR.err`, as the HTRC Data API writes it.
const HEADING: &str = "Caught the following errors while generating the ZIP file.  \
                       This ZIP file is likely to be incomplete and missing some entries.\n";

/// How the line of something absent begins: the longest of all beginnings.
const ABSENT: &str = "edu.indiana.d2i.htrc.access.exception.KeyNotFoundException: Offending key: ";

/// The most bytes of a line for the sequence of a page, in brackets, and for its end.
const SEQ_BYTES_MAX: u64 = "[4294967295]\n".len() as u64;

/// Approximate bytes for the id of a volume, besides its text.
const ID_BYTES: usize = 16;

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

    /// The sequence of the page that is missing, if it is one.
    pub(super) fn page_seq(&self) -> Option<u32> {
        match self.part {
            MissingPart::Page(seq) => Some(seq),
            MissingPart::Volume | MissingPart::Mets => None,
        }
    }

    /// Writes its line of `ERROR.err`. The offending key comes last, because clients take the last
    /// word of the line.
    fn write_line(&self, text: &mut impl fmt::Write) -> fmt::Result {
        let reason = match self.reason {
            MissingReason::Absent => ABSENT,
            MissingReason::Damaged => "RepositoryException: damaged: ",
            MissingReason::Unavailable => "RepositoryException: unavailable: ",
            MissingReason::NotKept => "RepositoryException: the version of that time is not kept: ",
        };
        text.write_str(reason)?;
        text.write_str(self.volume.as_str())?;
        match self.part {
            MissingPart::Volume => {}
            MissingPart::Page(seq) => write!(text, "[{seq}]")?,
            MissingPart::Mets => text.write_str("[mets]")?,
        }
        text.write_char('\n')
    }
}

/// Writes the text of `ERROR.err`; nothing where nothing is missing.
fn write_text(missing: &[Missing], text: &mut impl fmt::Write) -> fmt::Result {
    if missing.is_empty() {
        return Ok(());
    }
    text.write_str(HEADING)?;
    missing.iter().try_for_each(|missing| missing.write_line(text))
}

/// The text of `ERROR.err`; `None` where nothing is missing.
pub(super) fn error_text(missing: &[Missing]) -> Option<Bytes> {
    let mut text = String::with_capacity(error_bytes(missing));
    // Writing to a String never fails.
    let _ = write_text(missing, &mut text);
    (!text.is_empty()).then(|| Bytes::from(text))
}

/// The length of that text in bytes.
pub(super) fn error_bytes(missing: &[Missing]) -> usize {
    let mut counted = Counted(0);
    // Counting never fails.
    let _ = write_text(missing, &mut counted);
    counted.0
}

/// Digests that text after its length.
pub(super) fn digest_errors(digest: &mut Sha256, missing: &[Missing]) {
    digest.update((error_bytes(missing) as u64).to_be_bytes());
    // Digesting never fails.
    let _ = write_text(missing, &mut Digested(digest));
}

/// The most bytes that the text has if all that a request names is absent. What is damaged is not
/// counted: it is in the store.
pub fn error_bytes_at_most(wanted: &[Wanted]) -> u64 {
    let lines = wanted.iter().map(|wanted| {
        let lines = wanted.pages.as_ref().map_or(1, |pages| pages.len() as u64);
        lines.saturating_mul(ABSENT.len() as u64 + wanted.volume.as_str().len() as u64 + SEQ_BYTES_MAX)
    });
    lines.fold(HEADING.len() as u64, u64::saturating_add)
}

/// Approximate bytes of memory for missing things. Those of one volume that follow each other share
/// its id.
pub(super) fn memory_bytes(missing: &[Missing]) -> usize {
    size_of_val(missing) + by_volume(missing).map(|some| some[0].volume.as_str().len() + ID_BYTES).sum::<usize>()
}

/// Missing things of one volume that follow each other, none of the groups empty.
pub(super) fn by_volume(missing: &[Missing]) -> impl Iterator<Item = &[Missing]> {
    missing.chunk_by(|one, next| one.volume == next.volume)
}

/// Counts the bytes of a text.
struct Counted(usize);

impl fmt::Write for Counted {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// Digests a text.
struct Digested<'a>(&'a mut Sha256);

impl fmt::Write for Digested<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
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
        assert_eq!(error_bytes(&missing), expected.len());
    }

    #[test]
    fn the_text_has_the_digest_that_is_made_without_it() {
        let id = VolumeId::parse("uc2.x").unwrap();
        let page = |seq| Missing::page(id.clone(), Seq::new(seq).unwrap(), MissingReason::Absent);
        for missing in [vec![], vec![page(1)], (1..2_000).map(page).collect()] {
            let text = error_text(&missing).unwrap_or_default();
            let mut expected = Sha256::new();
            expected.update((text.len() as u64).to_be_bytes());
            expected.update(&text);
            let mut digest = Sha256::new();
            digest_errors(&mut digest, &missing);
            assert_eq!(digest.finalize(), expected.finalize());
        }
    }

    #[test]
    fn no_text_is_longer_than_a_request_can_make_it() {
        let id = VolumeId::parse(&format!("x.{}", "y".repeat(998))).unwrap();
        let seqs: Vec<Seq> = [1, 99, u32::MAX].into_iter().map(|seq| Seq::new(seq).unwrap()).collect();
        let missing: Vec<Missing> = std::iter::once(Missing::volume(id.clone(), MissingReason::NotKept))
            .chain(seqs.iter().map(|seq| Missing::page(id.clone(), *seq, MissingReason::Absent)))
            .collect();
        let wanted = [Wanted::all(id.clone()), Wanted { volume: id, pages: Some(seqs) }];
        let (exact, at_most) = (error_bytes(&missing) as u64, error_bytes_at_most(&wanted));
        assert!(exact <= at_most && at_most < exact + 200, "{exact} of at most {at_most}");
    }

    #[test]
    fn missing_pages_of_a_volume_share_its_id() {
        let id = |name: &str| VolumeId::parse(&format!("{name}.{}", "y".repeat(990))).unwrap();
        let (a, b) = (id("a"), id("b"));
        let page = |id: &VolumeId, seq| Missing::page(id.clone(), Seq::new(seq).unwrap(), MissingReason::Absent);
        let missing: Vec<Missing> = (1..=1_000).map(|seq| page(if seq <= 500 { &a } else { &b }, seq)).collect();
        assert_eq!(by_volume(&missing).map(<[Missing]>::len).collect::<Vec<_>>(), [500, 500]);
        assert!(memory_bytes(&missing) < 1_000 * 64 + 2_100, "{}", memory_bytes(&missing));
    }

    #[test]
    fn where_nothing_is_missing_there_is_no_text() {
        assert_eq!((error_text(&[]), error_bytes(&[])), (None, 0));
    }
}
