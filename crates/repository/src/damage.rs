//! Damage marks on parts of resources.
//!
//! Every read checks what it reads, so wrong bytes are never sent even without a mark. With a mark,
//! bytes that cannot be sent completely are refused at once, not after half of them; an archive
//! leaves them out and reports it; and an operator can list what has to be stored again.
//!
//! A mark is a row of [`Table::Damage`], in the partition of its version. It names the part and the
//! revision that wrote the part. Parts that are written again have no mark, and a replaced version
//! keeps its marks as long as it is kept. Unlike a volume's head, a resource's head does not count
//! its marks: they are read where they matter. So marking needs no compare-and-write and works
//! wherever rows can be put.

use bytes::Bytes;
use heads::error::{ObjectsError, ObjectsResult};
use heads::keys;
use heads::path::ResourcePath;
use heads::resource_body::Part;
use heads::revision::RevisionId;
use store::{Class, NewRow, Outcome, Removal, Step, StoreError, Table, ValueKind, boxed, envelope};

use crate::handle::Repository;
use crate::resource::Resource;

impl Resource {
    /// The parts that are stored here, each with the revision that wrote it.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Part, RevisionId)> {
        let bytes = self.body.binary().filter(|binary| binary.elsewhere().is_none());
        let bytes = bytes.map(|binary| (Part::Bytes, binary.revision));
        std::iter::once((Part::Description, self.body.description.revision)).chain(bytes)
    }
}

/// The step that removes the mark on a part of a revision.
pub(super) fn unmark(object: &Bytes, part: Part, revision: RevisionId) -> Step {
    let partition = keys::version(object, revision);
    let rows = Removal::Rows(vec![keys::damage(revision, part.number())]);
    Step::Remove { table: Table::Damage, partition, rows }
}

impl Repository {
    /// The parts of a resource that are marked as damaged.
    pub async fn damaged_parts(&self, resource: &Resource) -> ObjectsResult<Vec<Part>> {
        let mut damaged = Vec::new();
        for (part, revision) in resource.parts() {
            if self.is_marked(&resource.path, part, revision).await? {
                damaged.push(part);
            }
        }
        Ok(damaged)
    }

    /// Refuses a part that is marked as damaged, with [`ObjectsError::DamagedResource`].
    #[boxed]
    pub async fn refuse_marked(&self, resource: &Resource, part: Part) -> ObjectsResult<()> {
        let revision = resource.parts().find(|(of, _)| *of == part).map(|(_, revision)| revision);
        match revision {
            Some(revision) if self.is_marked(&resource.path, part, revision).await? => {
                let why = "it was found damaged before; store it again, or restore it and verify it";
                Err(damaged(&resource.path, part, why))
            }
            _ => Ok(()),
        }
    }

    /// Whether a part is marked. An unreadable mark counts as none, because a further read finds
    /// the damage.
    async fn is_marked(&self, path: &ResourcePath, part: Part, revision: RevisionId) -> ObjectsResult<bool> {
        let partition = keys::version(&keys::resource_partition(path), revision);
        let sort = keys::damage(revision, part.number());
        match self.heads.store().get(self.heads.call(Class::Description), Table::Damage, &partition, &sort).await {
            Ok(mark) => Ok(mark.is_some()),
            Err(StoreError::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The error for a reader that found damage. Marks and logs damage that is new. Passes other
    /// errors on.
    pub(super) async fn noted(
        &self,
        path: &ResourcePath,
        part: Part,
        revision: RevisionId,
        error: ObjectsError,
    ) -> ObjectsError {
        // Away from the heads' home nothing is marked, because what was read there may be old.
        if !error.is_damage() || !self.heads.is_home() {
            return error;
        }
        let detail = error.to_string();
        // Repeated reads of the same damage make only one row.
        let marked = self.is_marked(path, part, revision).await;
        // While the marks do not answer, the damage may be one that is known already.
        if matches!(marked, Ok(false)) {
            self.heads.note_damage();
        }
        if !matches!(marked, Ok(true)) {
            match self.mark(path, part, revision).await {
                Ok(()) => tracing::warn!(resource = %path, %part, %revision, detail, "marked as damaged"),
                // The next reader finds it again.
                Err(error) => {
                    tracing::warn!(resource = %path, %part, %revision, detail, %error, "damaged, and the mark cannot be written");
                }
            }
        }
        damaged(path, part, &detail)
    }

    /// Puts a mark. It consists of its key alone, so that all writers of a mark put the same row.
    async fn mark(&self, path: &ResourcePath, part: Part, revision: RevisionId) -> ObjectsResult<()> {
        let rows = vec![NewRow::new(keys::damage(revision, part.number()), envelope::seal(ValueKind::DamageMark, &[]))];
        let partition = keys::version(&keys::resource_partition(path), revision);
        let step = Step::Put { table: Table::Damage, partition, rows };
        match self.heads.store().run(self.heads.call(Class::Description), vec![step]).await? {
            Outcome::Applied => Ok(()),
            Outcome::Unknown { reason } => Err(StoreError::Unavailable(reason).into()),
            Outcome::Refused { .. } => Err(ObjectsError::Internal("a mark was refused".to_owned())),
        }
    }

    /// The error for what a head names and even a strong read does not find. Away from the heads'
    /// home it may not have arrived yet, so there it is out of reach, and never damage: servers at
    /// home find that.
    pub(super) fn missing(&self, table: Table, what: &str) -> ObjectsError {
        if self.heads.is_home() {
            return ObjectsError::corrupt(table, &format!("{what} is missing"));
        }
        let why = format!("{what} is missing here: it may not have arrived from another data center yet");
        StoreError::Unavailable(why).into()
    }

    /// Of the parts that were read, marks the damaged ones, and removes the marks on the others.
    /// Away from the heads' home nothing is changed, because what was read there may be old. Damage
    /// is counted there too.
    pub(super) async fn set_marks(
        &self,
        resource: &Resource,
        read: &[Part],
        found: &[(Part, String)],
    ) -> ObjectsResult<()> {
        let path = &resource.path;
        for (part, revision) in resource.parts().filter(|(part, _)| read.contains(part)) {
            let detail = found.iter().find(|(damaged, _)| *damaged == part).map(|(_, detail)| detail);
            if !self.heads.is_home() {
                if let Some(detail) = detail {
                    self.heads.note_damage();
                    tracing::warn!(resource = %path, %part, %revision, detail, "damaged; servers at the heads' home mark it");
                }
                continue;
            }
            match (detail, self.heads.retry_transient(|| self.is_marked(path, part, revision)).await?) {
                (Some(detail), false) => {
                    self.heads.retry_transient(|| self.mark(path, part, revision)).await?;
                    self.heads.note_damage();
                    tracing::warn!(resource = %path, %part, %revision, detail, "marked as damaged");
                }
                (None, true) => {
                    let step = unmark(&keys::resource_partition(path), part, revision);
                    self.heads.put_acknowledged(Class::Description, vec![step]).await?;
                    tracing::info!(resource = %path, %part, %revision, "found sound; it is no longer marked as damaged");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Counts the existing resources with a mark on a current part, by partitions of
    /// [`Table::Damage`]. A resource with marks in two partitions counts for the first of them.
    #[boxed]
    pub async fn count_damaged_resources(&self, partitions: &[Bytes]) -> ObjectsResult<u64> {
        let mut count = 0;
        for partition in partitions {
            let Some(path) = keys::resource_of_partition(&keys::object_of(partition)) else { continue };
            let Ok(resource) = self.resource(&path).await else { continue };
            let damaged = self.damaged_parts(&resource).await?;
            let first = resource.parts().find(|(part, _)| damaged.contains(part)).map(|(_, revision)| revision);
            count += u64::from(first.is_some() && first == keys::version_of(partition));
        }
        Ok(count)
    }
}

fn damaged(path: &ResourcePath, part: Part, detail: &str) -> ObjectsError {
    ObjectsError::DamagedResource { path: path.clone(), part, detail: detail.to_owned() }
}
