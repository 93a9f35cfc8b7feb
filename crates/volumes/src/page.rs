//! Reads one page, the METS or the record of a volume.

use std::ops::Range;
use store::boxed;

use bytes::Bytes;
use hathi::{Seq, VolumeId};
use heads::error::{ObjectsError, ObjectsResult};
use heads::volume_body::Entry;

use crate::directory::PageFixity;
use crate::handle::Volumes;
use crate::read::Volume;
use crate::verify::VolumePart;

/// One page as it is stored.
#[derive(Clone, Debug)]
pub struct PageRead {
    /// The volume, at the revision that was current.
    pub volume: Volume,
    /// The page's index in METS order.
    pub index: u32,
    /// Its directory entry.
    pub entry: Entry,
    /// Its frame. It is not inflated yet, and so not checked yet.
    pub frame: Bytes,
    /// Name, label, features, digests.
    pub fixity: PageFixity,
}

/// The METS or the record of a volume as it is stored.
#[derive(Clone, Debug)]
pub struct MemberRead {
    /// The volume, at the revision that was current.
    pub volume: Volume,
    /// The member's index: the number of pages for METS, one more for the record.
    pub index: u32,
    /// Size, frame length, CRC-32.
    pub entry: Entry,
    /// Its frame. It is not inflated yet, and so not checked yet.
    pub frame: Bytes,
    /// SHA-256 of its text.
    pub sha256: [u8; 32],
}

/// A page's facts without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageInfo {
    /// Its sequence.
    pub seq: Seq,
    /// Bytes of its text.
    pub size: u32,
    /// Its file name in the source.
    pub file_name: String,
    /// `ORDERLABEL` of its METS div.
    pub label: Option<String>,
    /// `LABEL` of its METS div, split at commas.
    pub features: Vec<String>,
    /// MD5 of the text.
    pub md5: [u8; 16],
    /// SHA-256 of the text.
    pub sha256: [u8; 32],
}

impl PageRead {
    /// The text, checked against its CRC-32; a mismatch is [`ObjectsError::Damaged`].
    pub fn text(&self) -> ObjectsResult<Vec<u8>> {
        self.volume.text_of(self.index, &self.entry, &self.frame)
    }

    /// The page as a gzip file (RFC 1952), directly from the frame. The checksum of its pack was
    /// verified.
    pub fn gzip(&self) -> Bytes {
        pack::gzip(&self.frame, self.entry.member.size, self.entry.member.crc32)
    }
}

impl MemberRead {
    /// The text, checked against its CRC-32; a mismatch is [`ObjectsError::Damaged`].
    pub fn text(&self) -> ObjectsResult<Vec<u8>> {
        self.volume.text_of(self.index, &self.entry, &self.frame)
    }
}

impl Volume {
    /// The number of pages.
    pub fn page_count(&self) -> u32 {
        u32::try_from(self.body.pages.count).unwrap_or(u32::MAX)
    }

    /// The index under which damage of its METS is marked.
    pub fn mets_index(&self) -> u32 {
        self.page_count()
    }

    /// The index under which damage of its record is marked.
    pub fn record_index(&self) -> u32 {
        self.page_count().saturating_add(1)
    }

    /// What people call a member.
    pub(crate) fn called(&self, index: u32, entry: &Entry) -> VolumePart {
        match index.checked_sub(self.page_count()) {
            None => VolumePart::page(entry.seq),
            Some(0) => VolumePart::Mets,
            Some(_) => VolumePart::Record,
        }
    }

    fn text_of(&self, index: u32, entry: &Entry, frame: &Bytes) -> ObjectsResult<Vec<u8>> {
        pack::inflate(frame, entry.member.size, entry.member.crc32)
            .map_err(|error| self.damaged(index, &format!("{}: {error}", self.called(index, entry))))
    }
}

impl Volumes {
    /// Reads one page of the current revision, by its sequence. Fails with [`ObjectsError::Absent`]
    /// (`<volume id>[<sequence>]`) if the volume has no page of this sequence.
    #[boxed]
    pub async fn page(&self, id: &VolumeId, seq: Seq) -> ObjectsResult<PageRead> {
        self.page_of(self.volume(id).await?, seq).await
    }

    /// Reads one page of a revision, like [`Volumes::page`].
    #[boxed]
    pub async fn page_of(&self, volume: Volume, seq: Seq) -> ObjectsResult<PageRead> {
        let id = &volume.id;
        let found = self.resolve_pages(&volume, &[seq]).await?.pop().flatten();
        let (index, entry) = found.ok_or_else(|| ObjectsError::Absent(format!("{id}[{seq}]")))?;
        let generation = volume.body.generation;
        let one = index..index.saturating_add(1);
        let (mut frames, mut fixity) = futures::try_join!(
            self.frames(id, generation, std::slice::from_ref(&entry)),
            self.fixity(id, generation, one)
        )
        .map_err(|error| error.at_member(index, volume.called(index, &entry)))?;
        match (frames.pop(), fixity.pop()) {
            (Some(frame), Some(fixity)) => Ok(PageRead { volume, index, entry, frame, fixity }),
            _ => {
                let called = volume.called(index, &entry);
                Err(volume.damaged(index, &format!("{called}: its fixity segment is shorter than the head says")))
            }
        }
    }

    /// The METS of the current revision.
    #[boxed]
    pub async fn mets(&self, id: &VolumeId) -> ObjectsResult<MemberRead> {
        self.mets_of(self.volume(id).await?).await
    }

    /// The METS of a revision.
    #[boxed]
    pub async fn mets_of(&self, volume: Volume) -> ObjectsResult<MemberRead> {
        let (index, entry, sha256) = (volume.mets_index(), volume.body.mets, volume.body.mets_sha256);
        self.member(volume, index, entry, sha256).await
    }

    /// The metadata record of the current revision, if the source had one.
    #[boxed]
    pub async fn record(&self, id: &VolumeId) -> ObjectsResult<Option<MemberRead>> {
        self.record_of(self.volume(id).await?).await
    }

    /// The metadata record of a revision, if its source had one.
    #[boxed]
    pub async fn record_of(&self, volume: Volume) -> ObjectsResult<Option<MemberRead>> {
        let index = volume.record_index();
        match (volume.body.record, volume.body.record_sha256) {
            (Some(entry), Some(sha256)) => Ok(Some(self.member(volume, index, entry, sha256).await?)),
            _ => Ok(None),
        }
    }

    async fn member(&self, volume: Volume, index: u32, entry: Entry, sha256: [u8; 32]) -> ObjectsResult<MemberRead> {
        let frames = self.frames(&volume.id, volume.body.generation, std::slice::from_ref(&entry)).await;
        let called = |error: ObjectsError| error.at_member(index, volume.called(index, &entry));
        let frame = frames.map_err(called)?.pop().unwrap_or_default();
        Ok(MemberRead { volume, index, entry, frame, sha256 })
    }

    /// The facts of some pages of the current revision, by index in METS order. The range is cut at
    /// the volume's end.
    #[boxed]
    pub async fn page_list(&self, id: &VolumeId, pages: Range<u32>) -> ObjectsResult<Vec<PageInfo>> {
        let volume = self.volume(id).await?;
        let end = pages.end.min(volume.page_count());
        let pages = pages.start.min(end)..end;
        let generation = volume.body.generation;
        let (entries, fixity) = futures::try_join!(
            self.entries(id, generation, pages.clone()),
            self.fixity(id, generation, pages.clone())
        )?;
        if fixity.len() != entries.len() {
            return Err(volume.damaged(pages.start, "its fixity is shorter than its head says"));
        }
        let infos = pages.zip(entries).zip(fixity).map(|((index, entry), fixity)| {
            let seq = Seq::new(entry.seq).ok_or_else(|| volume.damaged(index, "a page without a sequence"))?;
            Ok(PageInfo {
                seq,
                size: entry.member.size,
                file_name: fixity.file_name,
                label: fixity.label,
                features: fixity.features,
                md5: fixity.md5,
                sha256: fixity.sha256,
            })
        });
        infos.collect()
    }

    /// Index in METS order and directory entry of the pages with these sequences, in the requested
    /// order; `None` if there is no such page. Usually the index is one less than the sequence, and
    /// then only the segments of those pages are read.
    #[boxed]
    pub async fn resolve_pages(&self, volume: &Volume, seqs: &[Seq]) -> ObjectsResult<Vec<Option<(u32, Entry)>>> {
        let count = volume.page_count();
        let guesses = seqs.iter().map(|seq| seq.get() - 1).filter(|index| *index < count);
        // Sequences rise and begin at 1 or later, but may have gaps.
        let (first, end) = (guesses.clone().min().unwrap_or(0), guesses.max().map_or(0, |last| last + 1));
        let near = self.entries(&volume.id, volume.body.generation, first..end).await?;
        let usual = |seq: &Seq| {
            let index = seq.get() - 1;
            if index >= count {
                return None;
            }
            let entry = near.get(index.checked_sub(first)? as usize)?;
            (entry.seq == seq.get()).then_some((index, *entry))
        };
        let found: Vec<_> = seqs.iter().map(usual).collect();
        if found.iter().all(Option::is_some) {
            return Ok(found);
        }
        let all = self.entries(&volume.id, volume.body.generation, 0..count).await?;
        Ok(seqs.iter().map(|seq| find(&all, *seq)).collect())
    }
}

/// Finds a page among all pages, which are sorted by sequence.
fn find(all: &[Entry], seq: Seq) -> Option<(u32, Entry)> {
    let index = all.binary_search_by_key(&seq.get(), |entry| entry.seq).ok()?;
    Some((u32::try_from(index).ok()?, all[index]))
}

impl Volume {
    /// The error for damage of one of its members.
    pub(crate) fn damaged(&self, member: u32, detail: &str) -> ObjectsError {
        ObjectsError::Damaged { volume: self.id.clone(), member: Some(member), detail: detail.to_owned() }
    }
}
