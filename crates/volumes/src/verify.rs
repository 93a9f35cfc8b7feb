//! Verifies volumes: checks all that is stored of a volume against the digests from its import.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use store::boxed;

use budget::Pace;
use bytes::Bytes;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::revision::RevisionId;
use heads::volume_body::Entry;
use md5::Md5;
use pack::Sums;
use sha2::{Digest, Sha256};

use crate::damage::WHOLE_VOLUME;
use crate::directory::{ENTRY_BYTES, FIXITY_SEGMENT_PAGES, PageFixity, SEGMENT_PAGES};
use crate::handle::Volumes;
use crate::read::Volume;
use crate::versions::{Then, VersionInfo};

/// Earlier versions that are listed at once.
const VERSIONS_AT_ONCE: usize = 100;

/// Bytes of frames that are read at once.
const BATCH_BYTES: u64 = 8 << 20;

/// The most bytes of a printed number where a page is named. METS may have whole headings there.
const SHOWN_LABEL_BYTES_MAX: usize = 40;

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The volume's id.
    pub id: VolumeId,
    /// The revision that was verified; [`RevisionId::ZERO`] if its head cannot be read.
    pub revision: RevisionId,
    /// Members that were read: pages, METS, record.
    pub members: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// The damaged members. They are marked now.
    pub damaged: Vec<DamagedMember>,
}

/// A damaged member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedMember {
    /// The index of a page in METS order, the number of pages for METS, one more for the record,
    /// [`WHOLE_VOLUME`].
    pub member: u32,
    /// What that is.
    pub part: VolumePart,
    /// How the damage was noticed.
    pub detail: String,
}

/// A part of a volume as people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumePart {
    /// A page.
    Page {
        /// Its sequence.
        seq: u32,
        /// The number that is printed on it, as METS has it; none where its digests are damaged
        /// too.
        label: Option<String>,
    },
    /// The METS.
    Mets,
    /// The record.
    Record,
    /// All of it: its head, its directory or its damage marks.
    Whole,
}

impl VolumePart {
    /// A page of which only the sequence is known.
    pub(crate) fn page(seq: u32) -> Self {
        Self::Page { seq, label: None }
    }
}

impl fmt::Display for VolumePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page { seq, label: None } => write!(f, "page {seq}"),
            Self::Page { seq, label: Some(label) } => {
                let shown = &label[..label.floor_char_boundary(SHOWN_LABEL_BYTES_MAX)];
                // It must not command a terminal.
                write!(f, "page {seq} (printed {})", shown.replace(char::is_control, " "))
            }
            Self::Mets => f.write_str("METS"),
            Self::Record => f.write_str("record"),
            Self::Whole => f.write_str("all of it"),
        }
    }
}

/// The result of verifying the earlier versions of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedVersions {
    /// Bytes of texts that were read.
    pub bytes: u64,
    /// The damaged members of versions.
    pub damaged: Vec<(RevisionId, DamagedMember)>,
}

/// The findings so far.
#[derive(Default)]
struct Findings {
    members: u64,
    bytes: u64,
    damaged: Vec<DamagedMember>,
}

impl Volumes {
    /// Reads all of a volume's current revision again. Checks the checksum of each row; CRC-32,
    /// SHA-256 and MD5 of each page; SHA-256 of its gzip form; digests of METS and record; and the
    /// directory's sums against the head. Marks damage by member, and clears marks on sound
    /// members. Passing failures are errors, never damage. An unreadable row, whichever it is, is a
    /// finding and not an error. A damaged head needs no mark, because every reader finds it.
    #[boxed]
    pub async fn verify(&self, id: &VolumeId) -> ObjectsResult<Verified> {
        self.verify_at(id, Pace::unlimited()).await
    }

    /// Does the same at a pace.
    #[boxed]
    pub async fn verify_at(&self, id: &VolumeId, pace: &Pace) -> ObjectsResult<Verified> {
        let volume = match self.heads.retry_transient(|| self.volume(id)).await {
            Err(error) if error.is_damage() => {
                let mut findings = Findings::default();
                findings.whole(error.to_string());
                return Ok(findings.of(id, RevisionId::ZERO));
            }
            volume => volume?,
        };
        let mut findings = self.read_whole(&volume, pace).await?;
        self.mark_findings(&volume, &mut findings).await?;
        Ok(findings.of(id, volume.revision))
    }

    /// Reads all earlier versions of a volume that the history keeps, also if it is deleted. A page
    /// that several versions have in common is read for each. Nothing is marked: marks are about
    /// the current version. Nothing is found where there never was a volume.
    #[boxed]
    pub async fn verify_versions(&self, id: &VolumeId, pace: &Pace) -> ObjectsResult<VerifiedVersions> {
        let mut verified = VerifiedVersions::default();
        let versions = match self.versions(id).await {
            Err(ObjectsError::Absent(_)) => return Ok(verified),
            versions => versions?,
        };
        let mut from = RevisionId::ZERO;
        loop {
            let page = versions.list(from, VERSIONS_AT_ONCE).await?;
            let Some(last) = page.last() else { return Ok(verified) };
            from = last.revision.successor();
            for VersionInfo { revision, .. } in page.into_iter().filter(|version| !version.is_current) {
                let Then::Version(version) = versions.version(revision).await? else { continue };
                let findings = self.read_whole(&version, pace).await?;
                verified.bytes += findings.bytes;
                // What was collected meanwhile is not damaged.
                if !findings.damaged.is_empty() && self.is_kept(id, revision).await? {
                    verified.damaged.extend(findings.damaged.into_iter().map(|damaged| (revision, damaged)));
                }
            }
        }
    }

    async fn is_kept(&self, id: &VolumeId, revision: RevisionId) -> ObjectsResult<bool> {
        Ok(matches!(self.versions(id).await?.version(revision).await?, Then::Version(_)))
    }

    /// Reads everything of a revision.
    async fn read_whole(&self, volume: &Volume, pace: &Pace) -> ObjectsResult<Findings> {
        let mut findings = Findings::default();
        match self.verify_pages(volume, pace, &mut findings).await {
            Err(error) if error.is_damage() => findings.whole(error.to_string()),
            done => done?,
        }
        let body = &volume.body;
        self.verify_member(volume, VolumePart::Mets, body.mets, body.mets_sha256, pace, &mut findings).await?;
        if let (Some(record), Some(sha256)) = (body.record, body.record_sha256) {
            self.verify_member(volume, VolumePart::Record, record, sha256, pace, &mut findings).await?;
        }
        Ok(findings)
    }

    /// Marks what was found, and clears the marks on all other members. Unreadable marks are one
    /// more finding. Away from the heads' home what was found is only counted.
    async fn mark_findings(&self, volume: &Volume, findings: &mut Findings) -> ObjectsResult<()> {
        if !self.heads.is_home() {
            for damaged in &findings.damaged {
                self.mark_damaged(&volume.id, volume.revision, damaged.member, &damaged.described()).await?;
            }
            return Ok(());
        }
        let found: Vec<_> = findings.damaged.iter().map(|damage| (damage.member, damage.described())).collect();
        let members: HashSet<u32> = found.iter().map(|(member, _)| *member).collect();
        let is_sound = |member: u32| !members.contains(&member);
        match self.change_damage(&volume.id, volume.revision, &found, is_sound).await {
            Err(error) if error.is_damage() => {
                findings.whole(format!("its damage marks: {error}"));
                Ok(())
            }
            changed => changed,
        }
    }

    /// Verifies pages. Damage of a directory is an error; that of a page is added to the findings.
    async fn verify_pages(&self, volume: &Volume, pace: &Pace, findings: &mut Findings) -> ObjectsResult<()> {
        let count = volume.page_count();
        let mut sums = Sums::default();
        let mut crc32 = 0;
        for start in (0..count).step_by(FIXITY_SEGMENT_PAGES as usize) {
            let pages = start..count.min(start + FIXITY_SEGMENT_PAGES);
            let entries =
                self.heads.retry_transient(|| self.entries(&volume.id, volume.body.generation, pages.clone())).await?;
            pace.took(directory_bytes(count)).await;
            for entry in &entries {
                sums.add(Sums::of(&entry.member));
                crc32 = pack::crc32_combine(crc32, entry.member.crc32, u64::from(entry.member.size));
            }
            self.verify_segment(volume, pages, &entries, pace, findings).await?;
        }
        if sums != volume.body.pages || crc32 != volume.body.pages_crc32 {
            return Err(volume.damaged(WHOLE_VOLUME, "its directory does not add up to what its head says"));
        }
        Ok(())
    }

    async fn verify_segment(
        &self,
        volume: &Volume,
        pages: Range<u32>,
        entries: &[Entry],
        pace: &Pace,
        findings: &mut Findings,
    ) -> ObjectsResult<()> {
        let fixity =
            self.heads.retry_transient(|| self.fixity(&volume.id, volume.body.generation, pages.clone())).await;
        let fixity = match fixity {
            Ok(fixity) if fixity.len() == entries.len() => fixity,
            Ok(_) => {
                let found = pages.clone().map(|page| (page, "its digests are missing".to_owned()));
                findings.pages(pages.start, entries, &[], found.collect());
                return Ok(());
            }
            Err(error) if error.is_damage() => {
                let found = pages.clone().map(|page| (page, error.to_string()));
                findings.pages(pages.start, entries, &[], found.collect());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        pace.took(fixity.iter().map(PageFixity::stored_bytes).sum()).await;
        let labels: Vec<_> = fixity.iter().map(|fixity| fixity.label.clone()).collect();
        let mut found = Vec::new();
        let mut first = pages.start;
        let mut rest: &[Entry] = entries;
        let mut fixity = fixity.into_iter();
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(batch_len(rest));
            let checked = self.readable(volume, first, batch, &mut found).await?;
            let checked: Vec<_> = checked.into_iter().zip(fixity.by_ref()).collect();
            pace.took(batch.iter().map(|entry| u64::from(entry.member.frame_len)).sum()).await;
            findings.members += batch.len() as u64;
            findings.bytes += batch.iter().map(|entry| u64::from(entry.member.size)).sum::<u64>();
            let damaged = self.heads.surroundings().compute.run(move || check_pages(first, checked)).await?;
            found.extend(damaged);
            first += u32::try_from(batch.len()).unwrap_or(u32::MAX);
            rest = after;
        }
        findings.pages(pages.start, entries, &labels, found);
        Ok(())
    }

    /// The frames of some members with their entries; `None` and a finding for each that cannot be
    /// read.
    async fn readable(
        &self,
        volume: &Volume,
        first: u32,
        entries: &[Entry],
        found: &mut Vec<(u32, String)>,
    ) -> ObjectsResult<Vec<Option<(Entry, Bytes)>>> {
        let generation = volume.body.generation;
        match self.heads.retry_transient(|| self.frames(&volume.id, generation, entries)).await {
            Ok(frames) => return Ok(entries.iter().copied().zip(frames).map(Some).collect()),
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
        let mut readable = Vec::with_capacity(entries.len());
        for (index, entry) in (first..).zip(entries) {
            match self.heads.retry_transient(|| self.frames(&volume.id, generation, std::slice::from_ref(entry))).await
            {
                Ok(mut frames) => readable.push(frames.pop().map(|frame| (*entry, frame))),
                Err(error) if error.is_damage() => {
                    found.push((index, error.to_string()));
                    readable.push(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(readable)
    }

    /// Verifies the METS or the record.
    async fn verify_member(
        &self,
        volume: &Volume,
        part: VolumePart,
        entry: Entry,
        sha256: [u8; 32],
        pace: &Pace,
        findings: &mut Findings,
    ) -> ObjectsResult<()> {
        findings.members += 1;
        findings.bytes += u64::from(entry.member.size);
        let member = if part == VolumePart::Record { volume.record_index() } else { volume.mets_index() };
        let mut found = Vec::new();
        let read = self.readable(volume, member, &[entry], &mut found).await?;
        pace.took(u64::from(entry.member.frame_len)).await;
        for (entry, frame) in read.into_iter().flatten() {
            match pack::inflate(&frame, entry.member.size, entry.member.crc32) {
                Ok(text) if <[u8; 32]>::from(Sha256::digest(&text)) == sha256 => {}
                Ok(_) => found.push((member, "its SHA-256 is another".to_owned())),
                Err(error) => found.push((member, error.to_string())),
            }
        }
        let damaged = found.into_iter().map(|(member, detail)| DamagedMember { member, part: part.clone(), detail });
        findings.damaged.extend(damaged);
        Ok(())
    }
}

impl Findings {
    fn of(self, id: &VolumeId, revision: RevisionId) -> Verified {
        let Self { members, bytes, damaged } = self;
        Verified { id: id.clone(), revision, members, bytes, damaged }
    }

    fn whole(&mut self, detail: String) {
        self.damaged.push(DamagedMember { member: WHOLE_VOLUME, part: VolumePart::Whole, detail });
    }

    /// Adds what was found of the pages of a segment, whose first has index `first`. Without labels
    /// nothing is known of what is printed on them.
    fn pages(&mut self, first: u32, entries: &[Entry], labels: &[Option<String>], mut found: Vec<(u32, String)>) {
        found.sort_by_key(|(member, _)| *member);
        self.damaged.extend(found.into_iter().map(|(member, detail)| {
            let index = member.saturating_sub(first) as usize;
            let seq = entries.get(index).map_or(0, |entry| entry.seq);
            let label = labels.get(index).cloned().flatten();
            DamagedMember { member, part: VolumePart::Page { seq, label }, detail }
        }));
    }
}

impl DamagedMember {
    /// Which part is damaged, and how that was noticed.
    fn described(&self) -> String {
        match self.part {
            VolumePart::Whole => self.detail.clone(),
            _ => format!("{}: {}", self.part, self.detail),
        }
    }
}

/// Bytes of the directory segment that is read for pages of a volume with so many pages.
fn directory_bytes(pages: u32) -> u64 {
    u64::from(pages.min(SEGMENT_PAGES)) * ENTRY_BYTES as u64
}

/// How many of the first entries to read at once: at least one.
fn batch_len(entries: &[Entry]) -> usize {
    let mut batch_bytes = 0;
    let fits = entries.iter().take_while(|entry| {
        batch_bytes += u64::from(entry.member.frame_len);
        batch_bytes <= BATCH_BYTES
    });
    fits.count().max(1)
}

/// Checks the texts of pages that could be read. The first has index `first`.
fn check_pages(first: u32, pages: Vec<(Option<(Entry, Bytes)>, PageFixity)>) -> Vec<(u32, String)> {
    let check = |(member, (read, fixity)): (u32, (Option<(Entry, Bytes)>, PageFixity))| {
        let (entry, frame) = read?;
        let detail = check_page(&entry, &frame, &fixity).err()?;
        Some((member, detail))
    };
    (first..).zip(pages).filter_map(check).collect()
}

fn check_page(entry: &Entry, frame: &Bytes, fixity: &PageFixity) -> Result<(), String> {
    let text = pack::inflate(frame, entry.member.size, entry.member.crc32).map_err(|error| error.to_string())?;
    if <[u8; 32]>::from(Sha256::digest(&text)) != fixity.sha256 {
        return Err("its SHA-256 is another".to_owned());
    }
    if <[u8; 16]>::from(Md5::digest(&text)) != fixity.md5 {
        return Err("its MD5 is another".to_owned());
    }
    let gzip = pack::gzip(frame, entry.member.size, entry.member.crc32);
    if <[u8; 32]>::from(Sha256::digest(&gzip)) != fixity.gzip_sha256 {
        return Err("the SHA-256 of its gzip form is another".to_owned());
    }
    Ok(())
}
