//! Replaces one member of a volume: makes a new generation from the present frames and one new
//! frame. Only the new frame is compressed. A version is restored in the same way, from its frames
//! alone. Each frame that is reused is inflated once, so that damage is not passed on as sound.

use std::collections::{BTreeMap, HashMap};
use store::boxed;

use hathi::{Mets, MetsPage, Page, Seq};
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::HeadRow;
use heads::revision::RevisionId;
use heads::volume_body::Entry;
use heads::volume_body::VolumeBody;
use md5::Md5;
use sha2::{Digest, Sha256};

use super::{ATTEMPTS_MAX, Attempt, not_framed};
use crate::damage::WHOLE_VOLUME;
use crate::directory::{FIXITY_SEGMENT_PAGES, PageFixity};
use crate::handle::Volumes;
use crate::read::Volume;
use crate::waiting::{Caller, Waiting};

/// The new content of a member.
#[derive(Clone, Debug)]
pub enum Replacement {
    /// The text of the page with this sequence. The size and digest in METS stay as they are.
    Page(Seq, Vec<u8>),
    /// The METS. Order, labels and features of the pages follow it. It must name exactly the
    /// present files, each as often as it is a page. Their sequences distinguish the pages of
    /// one file, whose texts differ after one of them was replaced.
    Mets(Vec<u8>),
}

/// A page of the new generation.
struct Planned {
    /// Its index in the present generation.
    index: usize,
    seq: u32,
    label: Option<String>,
    features: Vec<String>,
}

impl Volumes {
    /// Replaces a member of a volume, as it was read. Returns the new revision. Selections and
    /// running streams keep the rows they read.
    ///
    /// Fails with [`ObjectsError::Conflict`] if another writer changed the volume since it was
    /// read, or the METS does not match its pages; [`ObjectsError::Absent`] if there is no such
    /// page; [`ObjectsError::Source`] if the METS cannot be read; [`ObjectsError::Damaged`] if a
    /// reused member is damaged.
    #[boxed]
    pub async fn replace_member(&self, volume: &Volume, replacement: Replacement) -> ObjectsResult<RevisionId> {
        let (handle, volume) = (self.clone(), volume.clone());
        self.heads.store().check_home()?;
        let (caller, waiting) = Caller::new();
        let work = move || async move {
            let replacing = Replacing { handle: &handle, volume: &volume, waiting: &waiting };
            for _ in 0..ATTEMPTS_MAX {
                let replaced = replacing.attempt(Some(&replacement)).await?;
                if let Some(revision) = replaced {
                    return Ok(revision);
                }
            }
            Err(ObjectsError::Conflict(format!("a change of {} was fenced off again and again", volume.id)))
        };
        let replaced = self.heads.surroundings().compute.drive(work).await;
        drop(caller);
        replaced
    }

    /// Makes an earlier version of a volume the current one: a new revision with a copy of its
    /// rows. The volume may be deleted. Returns the new revision, or that of the version if it is
    /// current.
    ///
    /// Fails with [`ObjectsError::Conflict`] if another writer changed the volume meanwhile,
    /// [`ObjectsError::Damaged`] if a member of the version is damaged.
    #[boxed]
    pub async fn restore(&self, version: &Volume) -> ObjectsResult<RevisionId> {
        let (handle, volume) = (self.clone(), version.clone());
        self.heads.store().check_home()?;
        let (caller, waiting) = Caller::new();
        let work = move || async move {
            let restoring = Replacing { handle: &handle, volume: &volume, waiting: &waiting };
            for _ in 0..ATTEMPTS_MAX {
                let restored = restoring.attempt(None).await?;
                if let Some(revision) = restored {
                    return Ok(revision);
                }
            }
            Err(ObjectsError::Conflict(format!("restoring {} was fenced off again and again", volume.id)))
        };
        let restored = self.heads.surroundings().compute.drive(work).await;
        drop(caller);
        restored
    }
}

/// A running replacement.
struct Replacing<'a> {
    handle: &'a Volumes,
    /// The version whose members are reused.
    volume: &'a Volume,
    /// Whether the caller still waits. The work ends at the next page if not.
    waiting: &'a Waiting,
}

impl Replacing<'_> {
    /// Makes the next revision from this one, with a replacement, or without one from any earlier
    /// version. Returns `None` if it was fenced and has to restart.
    async fn attempt(&self, replacement: Option<&Replacement>) -> ObjectsResult<Option<RevisionId>> {
        let Volume { id, revision, .. } = self.volume;
        let base: Option<HeadRow> = self.handle.heads.retry_transient(|| self.handle.head(id)).await?;
        let is_current =
            base.as_ref().is_some_and(|row| row.head.live_volume().is_some() && row.head.revision == *revision);
        match replacement {
            Some(_) if !is_current => return Err(ObjectsError::Conflict(format!("{id} was changed by somebody else"))),
            None if is_current => return Ok(Some(*revision)),
            _ => {}
        }
        self.handle.check_generations(id).await?;
        let mut attempt = Attempt::new(self.handle, id, base.as_ref());
        let current = self.current().await?;
        let pages = self.plan(replacement, &current)?;
        let members_digest = self.pages(&mut attempt, replacement, pages, &current).await?;
        let body = self.rest(&mut attempt, replacement, members_digest).await?;
        let made = attempt.revision;
        Ok(attempt.switch(base, body).await?.map(|_| made))
    }

    /// All present pages.
    async fn current(&self) -> ObjectsResult<Vec<(Entry, PageFixity)>> {
        let Volume { id, body, .. } = self.volume;
        let count = self.volume.page_count();
        let entries = self.handle.entries(id, body.generation, 0..count).await?;
        let mut fixity = Vec::with_capacity(entries.len());
        for start in (0..count).step_by(FIXITY_SEGMENT_PAGES as usize) {
            let pages = start..count.min(start + FIXITY_SEGMENT_PAGES);
            fixity.extend(self.handle.fixity(id, body.generation, pages).await?);
        }
        if entries.len() != count as usize || fixity.len() != entries.len() {
            return Err(self.volume.damaged(WHOLE_VOLUME, "its directory is shorter than its head says"));
        }
        Ok(entries.into_iter().zip(fixity).collect())
    }

    /// The pages of the new generation, in order.
    fn plan(&self, replacement: Option<&Replacement>, current: &[(Entry, PageFixity)]) -> ObjectsResult<Vec<Planned>> {
        let id = &self.volume.id;
        match replacement {
            None | Some(Replacement::Page(..)) => {
                if let Some(Replacement::Page(seq, _)) = replacement
                    && !current.iter().any(|(entry, _)| entry.seq == seq.get())
                {
                    return Err(ObjectsError::Absent(format!("{id}[{seq}]")));
                }
                let planned = |(index, (entry, known)): (usize, &(Entry, PageFixity))| Planned {
                    index,
                    seq: entry.seq,
                    label: known.label.clone(),
                    features: known.features.clone(),
                };
                Ok(current.iter().enumerate().map(planned).collect())
            }
            Some(Replacement::Mets(bytes)) => {
                let mets = Mets::parse(bytes).map_err(hathi::VolumeError::from)?;
                if mets.id.as_deref().is_some_and(|said| said != id.as_str()) {
                    return Err(ObjectsError::Conflict(format!("the METS is of another volume than {id}")));
                }
                let indices = self.present(&mets.pages, current)?;
                let planned = |(page, index): (MetsPage, usize)| {
                    let MetsPage { seq, label, features, .. } = page;
                    Planned { index, seq: seq.get(), label, features }
                };
                Ok(mets.pages.into_iter().zip(indices).map(planned).collect())
            }
        }
    }

    /// For each page of a METS, the index of the present page that it is: one of its file, and each
    /// once. Of several pages of a file it is the one with the same sequence, if there is one. The
    /// others follow each other in the same order.
    fn present(&self, pages: &[MetsPage], current: &[(Entry, PageFixity)]) -> ObjectsResult<Vec<usize>> {
        let id = &self.volume.id;
        let mut left: HashMap<&str, BTreeMap<u32, usize>> = HashMap::new();
        for (index, (entry, known)) in current.iter().enumerate() {
            left.entry(known.file_name.as_str()).or_default().insert(entry.seq, index);
        }
        let with_this_seq = |page: &MetsPage| left.get_mut(page.file_name.as_str())?.remove(&page.seq.get());
        let mut found: Vec<Option<usize>> = pages.iter().map(with_this_seq).collect();
        for (page, found) in pages.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            let name = &page.file_name;
            let of_file = left
                .get_mut(name.as_str())
                .ok_or_else(|| ObjectsError::Conflict(format!("the METS names {name}, which {id} does not have")))?;
            let next = of_file.pop_first().ok_or_else(|| {
                ObjectsError::Conflict(format!("the METS names {name} for more pages than {id} has of it"))
            })?;
            *found = Some(next.1);
        }
        let found: Vec<usize> = found.into_iter().flatten().collect();
        if found.len() != current.len() {
            let (named, there) = (found.len(), current.len());
            return Err(ObjectsError::Conflict(format!("the METS names {named} of the {there} pages of {id}")));
        }
        Ok(found)
    }

    /// Packs the pages, and returns the digest by which an import recognises them.
    async fn pages(
        &self,
        attempt: &mut Attempt<'_>,
        replacement: Option<&Replacement>,
        pages: Vec<Planned>,
        current: &[(Entry, PageFixity)],
    ) -> ObjectsResult<[u8; 32]> {
        let mut digest = Sha256::new();
        for Planned { index, seq, label, features } in pages {
            self.waiting.check()?;
            let (entry, known) = &current[index];
            let (size, crc32) = match replacement {
                Some(Replacement::Page(replaced, text)) if replaced.get() == seq => {
                    let md5 = Md5::digest(text).into();
                    let new = Page { seq: *replaced, label, features, md5, text: text.clone() };
                    attempt.page(new, known.file_name.clone())?;
                    (u32::try_from(text.len()).unwrap_or(u32::MAX), crc32fast::hash(text))
                }
                _ => {
                    let frame = self.frame(u32::try_from(index).unwrap_or(WHOLE_VOLUME), entry).await?;
                    attempt.packer.page(seq, &frame, PageFixity { label, features, ..known.clone() })?;
                    (frame.size, frame.crc32)
                }
            };
            attempt.put_full_steps().await?;
            digest.update(seq.to_le_bytes());
            digest.update(u64::from(size).to_le_bytes());
            digest.update(crc32.to_le_bytes());
        }
        Ok(digest.finalize().into())
    }

    /// A frame of the present generation, verified.
    async fn frame(&self, index: u32, entry: &Entry) -> ObjectsResult<pack::Frame> {
        let Volume { id, body, .. } = self.volume;
        let read = self.handle.frames(id, body.generation, std::slice::from_ref(entry));
        let called = self.volume.called(index, entry);
        let frame = read.await.map_err(|error| error.at_member(index, &called))?.pop();
        let bytes = frame.ok_or_else(|| self.volume.damaged(index, &format!("{called}: its frame is missing")))?;
        pack::inflate(&bytes, entry.member.size, entry.member.crc32)
            .map_err(|error| self.volume.damaged(index, &format!("{called}: {error}")))?;
        Ok(pack::Frame { bytes, size: entry.member.size, crc32: entry.member.crc32 })
    }

    /// Packs METS and record after the pages.
    async fn rest(
        &self,
        attempt: &mut Attempt<'_>,
        replacement: Option<&Replacement>,
        members_digest: [u8; 32],
    ) -> ObjectsResult<VolumeBody> {
        let body = &self.volume.body;
        let (mets, mets_sha256) = match replacement {
            Some(Replacement::Mets(bytes)) => {
                (attempt.framer.frame(bytes).map_err(not_framed)?, <[u8; 32]>::from(Sha256::digest(bytes)))
            }
            _ => (self.frame(self.volume.mets_index(), &body.mets).await?, body.mets_sha256),
        };
        let mets = attempt.packer.member(0, &mets)?;
        let record = match &body.record {
            Some(entry) => Some(attempt.packer.member(0, &self.frame(self.volume.record_index(), entry).await?)?),
            None => None,
        };
        let packed = attempt.packer.finish()?;
        Ok(VolumeBody {
            generation: attempt.revision,
            pages: packed.sums,
            pages_crc32: packed.crc32,
            mets,
            record,
            damaged: 0,
            members_digest,
            mets_sha256,
            ..body.clone()
        })
    }
}
