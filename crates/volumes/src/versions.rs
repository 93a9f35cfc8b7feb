//! Earlier versions of volumes, as far as the history keeps them: what was in force at a time, and
//! the list of a volume's versions.
//!
//! A version is a live head, in the log or at present. Its generation holds its rows. The times of
//! all versions stay known. Whether the rows of one can be read depends on the history
//! ([`heads::History::volumes`]) and on what was collected before. A collector removes the
//! directory of a generation first, and its entry in the list of generations last. So a generation
//! without both is gone. One without a directory that is listed, and that no collector is about to
//! remove, is damaged: its version stays in the list.

use bytes::Bytes;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{Head, HeadRow};
use heads::keys;
use heads::revision::RevisionId;
use heads::timeline::Timeline;
use store::{Class, Table, boxed};

use crate::handle::Volumes;
use crate::read::Volume;

/// What there was of a volume at some time.
#[derive(Clone, Debug, PartialEq)]
pub enum Then {
    /// This version was in force.
    Version(Box<Volume>),
    /// A version was in force, and is not kept any more.
    NotKept,
    /// The volume did not exist, or was deleted.
    Absent,
}

/// A version in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInfo {
    /// Its revision.
    pub revision: RevisionId,
    /// When it became current ([`Head::since`]).
    pub since: RevisionId,
    /// Whether it is current.
    pub is_current: bool,
    /// Its pages.
    pub pages: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// SHA-256 of its METS.
    pub mets_sha256: [u8; 32],
}

/// The versions of a volume, as of one strong read of its head.
pub struct Versions {
    handle: Volumes,
    id: VolumeId,
    timeline: Timeline,
}

impl Volumes {
    /// Whether earlier versions of volumes are kept.
    pub fn keeps_versions(&self) -> bool {
        self.heads.options().history.volumes.keeps_versions()
    }

    /// The versions of a volume, also if it is deleted. Fails with [`ObjectsError::Absent`] if it
    /// never existed.
    #[boxed]
    pub async fn versions(&self, id: &VolumeId) -> ObjectsResult<Versions> {
        let row = self.heads.retry_transient(|| self.head(id)).await?;
        let row = row.ok_or_else(|| ObjectsError::Absent(id.to_string()))?;
        self.versions_before(id, row).await
    }

    /// The versions of a volume whose head was read strongly.
    pub(crate) async fn versions_before(&self, id: &VolumeId, row: HeadRow) -> ObjectsResult<Versions> {
        let keep = self.heads.options().history.volumes;
        let timeline = self.heads.timeline_before(&keys::volume_partition(id), row, keep).await;
        let timeline = timeline.map_err(|error| error.of_volume(id))?;
        Ok(Versions { handle: self.clone(), id: id.clone(), timeline })
    }

    /// Whether all rows of a revision that was current at some time should be there, and stay for a
    /// grace at least. A reader finds those that are lost.
    pub(crate) async fn holds(&self, id: &VolumeId, head: &Head, revision: RevisionId) -> ObjectsResult<bool> {
        let partition = keys::volume_partition(id);
        if head.keeps(revision) {
            return Ok(true);
        }
        let keep = self.heads.options().history.volumes;
        let is_spared = || async { self.heads.spares(&partition, head, keep, revision).await };
        if !self.heads.retry_transient(is_spared).await? {
            return Ok(false);
        }
        if self.has_row(&keys::part(&partition, revision, 0), &keys::directory(revision, 0)).await? {
            return Ok(true);
        }
        // While something is condemned, a collector under earlier settings may be removing it.
        Ok(head.condemned.is_none() && self.has_row(&partition, &keys::generation(revision)).await?)
    }

    /// Whether a row is there.
    async fn has_row(&self, partition: &Bytes, sort: &Bytes) -> ObjectsResult<bool> {
        let read = || async {
            let call = self.heads.call(Class::Description).strong();
            Ok(self.heads.store().get(call, Table::Objects, partition, sort).await?)
        };
        match self.heads.retry_transient(read).await {
            Ok(row) => Ok(row.is_some()),
            // It is there, and damaged: a reader reports that.
            Err(error) if error.is_damage() => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl Versions {
    /// The head that was read.
    pub(crate) fn head(&self) -> &Head {
        &self.timeline.current().head
    }

    /// Whether the volume is there now.
    pub fn is_live(&self) -> bool {
        self.head().live_volume().is_some()
    }

    /// What was in force when exactly the changes below a position had been made.
    #[boxed]
    pub async fn then(&self, below: RevisionId) -> ObjectsResult<Then> {
        self.opened(self.timeline.then(below).await).await
    }

    /// The incarnation of the version, kept or not, that was in force when exactly the changes below
    /// a position had been made; `None` if there was none.
    pub(crate) async fn incarnation_then(&self, below: RevisionId) -> ObjectsResult<Option<RevisionId>> {
        let row = self.timeline.then(below).await.map_err(|error| error.of_volume(&self.id))?;
        Ok(row.map(|row| row.head.incarnation))
    }

    /// The version that begins with a revision.
    #[boxed]
    pub async fn version(&self, revision: RevisionId) -> ObjectsResult<Then> {
        self.opened(self.timeline.version(revision).await).await
    }

    /// When a version became current; `None` if there is no such version.
    #[boxed]
    pub async fn since(&self, revision: RevisionId) -> ObjectsResult<Option<RevisionId>> {
        Ok(self.timeline.version(revision).await?.map(|row| row.head.since()))
    }

    /// The last version below a revision, if it can be read. If it cannot, no earlier one can.
    #[boxed]
    pub async fn before(&self, revision: RevisionId) -> ObjectsResult<Option<VersionInfo>> {
        let row = self.timeline.newest_below(revision, |_| true).await.map_err(|error| error.of_volume(&self.id))?;
        let Some(version) = row.and_then(|row| self.info(&row.head)) else { return Ok(None) };
        Ok(self.is_kept(version.revision).await?.then_some(version))
    }

    /// The last version before a position, also if the volume was deleted in between; or else the
    /// first one that is kept (RFC 7089, section 4.5.3). `None` if none is kept.
    #[boxed]
    pub async fn nearest(&self, below: RevisionId) -> ObjectsResult<Option<Volume>> {
        let mut revision = below;
        while let Some(row) = self.timeline.newest_below(revision, |_| true).await? {
            revision = row.head.revision;
            if row.head.since() >= below {
                continue;
            }
            match self.open(row.head).await? {
                Then::Version(version) => return Ok(Some(*version)),
                Then::NotKept | Then::Absent => break,
            }
        }
        let first = self.list(RevisionId::ZERO, 1).await?.pop();
        let Some(first) = first else { return Ok(None) };
        match self.version(first.revision).await? {
            Then::Version(version) => Ok(Some(*version)),
            Then::NotKept | Then::Absent => Ok(None),
        }
    }

    /// At most `max` versions that can be read, from a revision on, oldest first.
    #[boxed]
    pub async fn list(&self, from: RevisionId, max: usize) -> ObjectsResult<Vec<VersionInfo>> {
        let version = |head: &Head| self.info(head);
        let mut from = from.max(self.timeline.kept_from());
        let mut listed = Vec::new();
        while listed.len() < max {
            let left = max - listed.len();
            let page = self.timeline.page(from, RevisionId::LAST, left, |_| true, version).await;
            let page: Vec<_> = page.map_err(|error| error.of_volume(&self.id))?.into_iter().flatten().collect();
            let Some(last) = page.last() else { break };
            from = last.revision.successor();
            for version in page {
                if self.is_kept(version.revision).await? {
                    listed.push(version);
                }
            }
        }
        Ok(listed)
    }

    /// A head as a version in a list; `None` if it is none.
    fn info(&self, head: &Head) -> Option<VersionInfo> {
        head.live_volume().map(|body| VersionInfo {
            revision: head.revision,
            since: head.since(),
            is_current: head.revision == self.head().revision,
            pages: body.pages.count,
            bytes: body.pages.bytes,
            mets_sha256: body.mets_sha256,
        })
    }

    /// Whether a version can be read, unless its rows are damaged.
    async fn is_kept(&self, revision: RevisionId) -> ObjectsResult<bool> {
        Ok(revision >= self.timeline.kept_from() && self.handle.holds(&self.id, self.head(), revision).await?)
    }

    async fn opened(&self, found: ObjectsResult<Option<HeadRow>>) -> ObjectsResult<Then> {
        match found.map_err(|error| error.of_volume(&self.id))? {
            Some(row) => self.open(row.head).await,
            None => Ok(Then::Absent),
        }
    }

    /// The version that begins with a head.
    async fn open(&self, head: Head) -> ObjectsResult<Then> {
        let revision = head.revision;
        let Some(mut body) = head.live_volume().cloned() else { return Ok(Then::Absent) };
        if revision != self.head().revision {
            if !self.is_kept(revision).await? {
                return Ok(Then::NotKept);
            }
            // The log does not count marks.
            let marks = self.handle.damaged_members(&self.id, revision).await?;
            body.damaged = u32::try_from(marks.len()).unwrap_or(u32::MAX);
        }
        Ok(Then::Version(Box::new(Volume { id: self.id.clone(), revision, body })))
    }
}
