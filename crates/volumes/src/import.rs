//! Imports a volume: reads, checks and frames its pages in one pass, puts the rows, then switches
//! the head once.

mod replace;

use std::io::{Read, Seek};

use bytes::Bytes;
use hathi::{Page, PagesOf, Record, VolumeId, VolumeParts, VolumeReader};
use heads::child::Creation;
use heads::claim::Holder;
use heads::containment::Container;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{Body, Head, HeadRow, ObjectState};
use heads::keys;
use heads::queue::WorkRecord;
use heads::queues::Queue;
use heads::revision::RevisionId;
use heads::surroundings::Compute;
use heads::switch::{Switch, Switched};
use heads::volume_body::VolumeBody;
use pack::Framer;
use sha2::{Digest, Sha256};
use store::{Class, NewRow, Step, Table, ValueKind, envelope};

use crate::directory::PageFixity;
use crate::generations::listing;
use crate::handle::Volumes;
use crate::packer::Packer;
use crate::waiting::{Caller, Waiting};

pub use replace::Replacement;

/// How often an import restarts because a sweeper took it for dead and fenced it.
const ATTEMPTS_MAX: u32 = 3;

/// How much larger than its payload a row may become in an engine. A step is filled up to its limit
/// less this.
const STEP_SLACK_BYTES: usize = 128 << 10;

/// The most characters of a record field in a head, because a head is a small row. The record
/// itself is stored whole.
const RECORD_FIELD_CHARS_MAX: usize = 1_000;

/// What to do with a volume that is already stored with the same digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// Leaves it as it is, without a new revision.
    Skip,
    /// Imports it again.
    Force,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The volume did not exist.
    New {
        /// The volume's id.
        id: VolumeId,
        /// Its revision.
        revision: RevisionId,
        /// Its pages.
        pages: u64,
        /// Bytes of their texts.
        bytes: u64,
    },
    /// It replaced another revision.
    Replaced {
        /// The volume's id.
        id: VolumeId,
        /// Its new revision.
        revision: RevisionId,
        /// Its pages.
        pages: u64,
        /// Bytes of their texts.
        bytes: u64,
    },
    /// The volume was stored with the same digests, and was left alone.
    Unchanged {
        /// The volume's id.
        id: VolumeId,
        /// The revision that stays.
        revision: RevisionId,
        /// Its pages.
        pages: u64,
        /// Bytes of their texts.
        bytes: u64,
    },
}

/// The progress of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportProgress {
    /// Pages that were read, checked and framed.
    pub pages: u64,
    /// Pages of the volume.
    pub pages_total: u64,
    /// Bytes of the texts of the pages that were read.
    pub bytes: u64,
}

/// The result of a check without a store: everything agrees with METS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The volume's id.
    pub id: VolumeId,
    /// Its pages.
    pub pages: u64,
    /// Bytes of their texts.
    pub bytes: u64,
}

/// Reads and checks a volume like an import, without storing it. It ends soon after its caller has
/// left.
pub async fn check<R: Read + Seek + Send + 'static>(source: VolumeParts<R>, pages: PagesOf) -> ObjectsResult<Checked> {
    let (caller, waiting) = Caller::new();
    let checked = Compute::Threads.run(move || -> ObjectsResult<Checked> {
        let mut reader = VolumeReader::of(source, pages)?;
        let mut bytes = 0;
        for index in 0..reader.page_count() {
            waiting.check()?;
            bytes += reader.read_page(index)?.text.len() as u64;
        }
        Ok(Checked { id: reader.id().clone(), pages: reader.page_count() as u64, bytes })
    });
    let checked = checked.await;
    drop(caller);
    checked?
}

impl Volumes {
    /// Imports a volume. Reading and compressing runs on tokio's blocking threads, one thread per
    /// volume; several imports may run at once. Rows are put as they are made, and at most one step
    /// of them is held in memory. Nothing is visible before the head is switched. An import that
    /// failed or was interrupted can be repeated. One whose caller has left ends at its next page.
    ///
    /// Fails with [`ObjectsError::Conflict`] if another writer changed the volume meanwhile;
    /// [`ObjectsError::Source`] if the source contradicts itself; [`ObjectsError::Unknown`] if it
    /// is impossible to find out whether the head was switched.
    pub async fn import<R: Read + Seek + Send + 'static>(
        &self,
        source: VolumeParts<R>,
        unchanged: Unchanged,
        progress: impl Fn(ImportProgress) + Send + Sync + 'static,
    ) -> ObjectsResult<Imported> {
        self.import_pages(source, PagesOf::Mets, unchanged, progress).await
    }

    /// The same, for a volume whose pages may have been replaced since its METS was made. What is
    /// stored is what replacing them one by one would store.
    pub async fn import_pages<R: Read + Seek + Send + 'static>(
        &self,
        source: VolumeParts<R>,
        pages: PagesOf,
        unchanged: Unchanged,
        progress: impl Fn(ImportProgress) + Send + Sync + 'static,
    ) -> ObjectsResult<Imported> {
        // Otherwise rows would be put for a head that cannot be switched from here.
        self.heads.store().check_home()?;
        let handle = self.clone();
        let (caller, waiting) = Caller::new();
        let work = move || async move {
            let mut reader = VolumeReader::of(source, pages)?;
            let id = reader.id().clone();
            let digests = Digests::of(&reader);
            for _ in 0..ATTEMPTS_MAX {
                let base = handle.heads.retry_transient(|| handle.head(&id)).await?;
                if unchanged == Unchanged::Skip
                    && let Some(same) = digests.unchanged(&handle, &id, base.as_ref())
                {
                    return Ok(same);
                }
                handle.check_generations(&id).await?;
                let mut attempt = Attempt::new(&handle, &id, base.as_ref());
                attempt.pages(&mut reader, &progress, &waiting).await?;
                let body = attempt.rest(&reader, &digests)?;
                if let Some(imported) = attempt.switch(base, body).await? {
                    return Ok(imported);
                }
            }
            Err(ObjectsError::Conflict(format!("the import of {id} was fenced off again and again")))
        };
        let imported = self.heads.surroundings().compute.drive(work).await;
        drop(caller);
        imported
    }

    /// The record that `revision` of a volume leaves rows to collect, or may leave some if its
    /// writer does not finish.
    pub fn work_record(&self, revision: RevisionId, id: &VolumeId) -> WorkRecord {
        let (subject, work) = (id.as_str().as_bytes(), envelope::seal(ValueKind::VolumeWork, &[]));
        self.heads.queued(Queue::Collecting, self.heads.now(), subject, keys::collecting(revision, id), work)
    }
}

/// The digests that distinguish one content of a volume from another, without inflating anything.
#[derive(Clone, Copy)]
struct Digests {
    members: [u8; 32],
    mets_sha256: [u8; 32],
    record_sha256: Option<[u8; 32]>,
}

impl Digests {
    fn of<R: Read + Seek>(reader: &VolumeReader<R>) -> Self {
        Self {
            members: reader.members_digest(),
            mets_sha256: Sha256::digest(reader.mets_bytes()).into(),
            record_sha256: reader.record_bytes().map(|record| Sha256::digest(record).into()),
        }
    }

    /// The result for a volume that is stored already with these digests, and undamaged.
    fn unchanged(&self, handle: &Volumes, id: &VolumeId, base: Option<&HeadRow>) -> Option<Imported> {
        let head = &base?.head;
        let body = head.live_volume()?;
        let same = body.members_digest == self.members
            && body.mets_sha256 == self.mets_sha256
            && body.record_sha256 == self.record_sha256
            && body.damaged == 0
            && handle.inner.unwritten_marks.of(id, head.revision).is_empty();
        same.then(|| Imported::Unchanged {
            id: id.clone(),
            revision: head.revision,
            pages: body.pages.count,
            bytes: body.pages.bytes,
        })
    }
}

/// One try of an import, under one revision.
struct Attempt<'a> {
    handle: &'a Volumes,
    id: &'a VolumeId,
    revision: RevisionId,
    framer: Framer,
    packer: Packer,
    /// The record that this try may leave rows behind, once it is made to go before the first rows.
    recorded: Option<WorkRecord>,
}

impl<'a> Attempt<'a> {
    fn new(handle: &'a Volumes, id: &'a VolumeId, base: Option<&HeadRow>) -> Self {
        let above = base.map_or(RevisionId::ZERO, |row| row.head.floor.max(row.head.revision));
        let revision = handle.heads.revisions().mint_above(above);
        let framer = Framer::new(handle.heads.options().frame_level);
        Self { handle, id, revision, framer, packer: Packer::new(revision), recorded: None }
    }

    /// Reads, checks, frames and packs all pages. Puts rows whenever a step is full.
    async fn pages<R: Read + Seek>(
        &mut self,
        reader: &mut VolumeReader<R>,
        progress: &impl Fn(ImportProgress),
        waiting: &Waiting,
    ) -> ObjectsResult<()> {
        let pages_total = reader.page_count() as u64;
        let mut bytes = 0;
        for index in 0..reader.page_count() {
            waiting.check()?;
            let page = reader.read_page(index)?;
            bytes += page.text.len() as u64;
            let file_name = reader.mets().pages.get(index).map(|page| page.file_name.clone()).unwrap_or_default();
            self.page(page, file_name)?;
            self.put_full_steps().await?;
            progress(ImportProgress { pages: index as u64 + 1, pages_total, bytes });
        }
        Ok(())
    }

    fn page(&mut self, page: Page, file_name: String) -> ObjectsResult<()> {
        let frame = self.framer.frame(&page.text).map_err(not_framed)?;
        let gzip = pack::gzip(&frame.bytes, frame.size, frame.crc32);
        let fixity = PageFixity {
            file_name,
            label: page.label,
            features: page.features,
            md5: page.md5,
            sha256: Sha256::digest(&page.text).into(),
            gzip_sha256: Sha256::digest(&gzip).into(),
        };
        self.packer.page(page.seq.get(), &frame, fixity)
    }

    /// Packs METS and record after the pages. Their facts go into the head.
    fn rest<R: Read + Seek>(&mut self, reader: &VolumeReader<R>, digests: &Digests) -> ObjectsResult<VolumeBody> {
        let mets = self.framer.frame(reader.mets_bytes()).map_err(not_framed)?;
        let mets = self.packer.member(0, &mets)?;
        let record = match reader.record_bytes() {
            Some(bytes) => {
                let frame = self.framer.frame(bytes).map_err(not_framed)?;
                Some(self.packer.member(0, &frame)?)
            }
            None => None,
        };
        let packed = self.packer.finish()?;
        let of_record = |field: fn(&Record) -> &Option<String>| {
            let text = reader.record().and_then(|record| field(record).as_deref());
            text.map(shortened)
        };
        Ok(VolumeBody {
            generation: self.revision,
            pages: packed.sums,
            pages_crc32: packed.crc32,
            mets,
            record,
            damaged: 0,
            members_digest: digests.members,
            mets_sha256: digests.mets_sha256,
            record_sha256: digests.record_sha256,
            rights: of_record(|record| &record.rights),
            access_profile: of_record(|record| &record.access_profile),
            title: of_record(|record| &record.title),
            pub_date: of_record(|record| &record.pub_date),
            language: of_record(|record| &record.language),
        })
    }

    fn step_bytes(&self) -> usize {
        self.handle.heads.store().limits().step_bytes.saturating_sub(STEP_SLACK_BYTES)
    }

    async fn put_full_steps(&mut self) -> ObjectsResult<()> {
        // Another row must still fit.
        if self.packer.rows_bytes() + STEP_SLACK_BYTES < self.step_bytes() {
            return Ok(());
        }
        for portion in self.full_rows() {
            let list = self.announced(portion);
            self.handle.heads.put_acknowledged(Class::Content, list).await?;
        }
        Ok(())
    }

    /// The full rows, in portions that fit a step: one step per partition, in the order of the
    /// rows.
    fn full_rows(&mut self) -> Vec<Vec<Step>> {
        let volume = keys::volume_partition(self.id);
        let steps = |portion: Vec<NewRow>| {
            let mut places: Vec<((Table, Bytes), Vec<NewRow>)> = Vec::new();
            for row in portion {
                let place = (keys::table_of(&row.sort), keys::partition_of(&volume, &row.sort));
                match places.iter_mut().find(|(of, _)| *of == place) {
                    Some((_, rows)) => rows.push(row),
                    None => places.push((place, vec![row])),
                }
            }
            places.into_iter().map(|((table, partition), rows)| Step::Put { table, partition, rows }).collect()
        };
        self.packer.take_rows(self.step_bytes()).into_iter().map(steps).collect()
    }

    /// Puts the record that rows may have to be collected before the first rows, and the entry in
    /// the list of generations before any rows. Through the entry, the collector also finds rows
    /// that arrive after it took the writer for dead.
    fn announced(&mut self, puts: Vec<Step>) -> Vec<Step> {
        let mut steps = Vec::with_capacity(puts.len() + 2);
        if self.recorded.is_none() {
            let record = self.recorded.insert(self.handle.work_record(self.revision, self.id));
            steps.push(record.put());
        }
        steps.push(listing(&keys::volume_partition(self.id), self.revision));
        steps.extend(puts);
        steps
    }

    /// Puts the last rows and switches the head. Returns `None` if the import was fenced and has to
    /// restart.
    async fn switch(&mut self, base: Option<HeadRow>, body: VolumeBody) -> ObjectsResult<Option<Imported>> {
        let (id, revision) = (self.id.clone(), self.revision);
        let (pages, bytes) = (body.pages.count, body.pages.bytes);
        let mut portions = self.full_rows();
        // The last portion goes with the head. All earlier ones are put by themselves, so that a
        // list stays as small as a step.
        let last = portions.pop();
        for portion in portions {
            let list = self.announced(portion);
            self.handle.heads.put_acknowledged(Class::Content, list).await?;
        }
        let last = match last {
            Some(portion) => self.announced(portion),
            None => Vec::new(),
        };
        let live = base.as_ref().filter(|row| row.head.state == ObjectState::Live);
        let (switched, imported) = match live {
            Some(live) => {
                let head = Head { revision, body: Body::Volume(body), ..live.head.clone() };
                let partition = keys::volume_partition(self.id);
                let holder = Holder::Nobody;
                let switched = Switch { partition, base, head, before: last, after: Vec::new(), unsure: false, holder };
                (self.handle.heads.switch(switched).await?, Imported::Replaced { id, revision, pages, bytes })
            }
            None => (self.create(base, body, last).await?, Imported::New { id, revision, pages, bytes }),
        };
        match switched {
            Switched::Applied => {
                self.handle.inner.unwritten_marks.forget(self.id, |_| true);
                Ok(Some(imported))
            }
            Switched::Fenced => Ok(None),
            Switched::Moved => {
                Err(ObjectsError::Conflict(format!("{} was changed by somebody else during its import", self.id)))
            }
            Switched::Required { .. } => {
                Err(ObjectsError::Overloaded(format!("the import of {}: the container changes all the time", self.id)))
            }
        }
    }

    async fn create(&mut self, base: Option<HeadRow>, body: VolumeBody, rows: Vec<Step>) -> ObjectsResult<Switched> {
        let handle = self.handle;
        let base = match base {
            Some(deleted) if deleted.head.state == ObjectState::Deleted => {
                let freed = handle.heads.free(&keys::volume_partition(self.id), deleted.head.revision).await?;
                // Another writer was faster with another change.
                if freed.is_none() {
                    return Ok(Switched::Moved);
                }
                freed
            }
            base => base,
        };
        let creation = Creation {
            parent: handle.heads.retry_transient(|| handle.heads.parent(&Container::Volumes)).await?,
            name: self.id.to_string(),
            incarnation: self.revision,
            base,
            body: Body::Volume(body),
            is_group: false,
            note: Bytes::new(),
            rows,
            after: self.recorded.iter().map(WorkRecord::done).collect(),
            holder: Holder::Nobody,
        };
        handle.heads.create_child(creation).await
    }
}

fn not_framed(error: pack::FrameError) -> ObjectsError {
    ObjectsError::Internal(error.to_string())
}

fn shortened(text: &str) -> String {
    text.chars().take(RECORD_FIELD_CHARS_MAX).collect()
}
