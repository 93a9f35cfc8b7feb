//! Deletes one volume.

use hathi::VolumeId;
use heads::containment::Container;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{Body, Head, HeadRow, ObjectState};
use heads::retries::{Tries, changes_all_the_time};
use heads::switch::{Switch, Switched};
use store::boxed;

use crate::handle::Volumes;

impl Volumes {
    /// Deletes a volume. Its rows are kept for the grace and for selections that pin them, and then
    /// collected.
    ///
    /// Fails with [`ObjectsError::Absent`] if it never existed, [`ObjectsError::Gone`] if it was
    /// deleted already.
    #[boxed]
    pub async fn delete(&self, id: &VolumeId) -> ObjectsResult<()> {
        let mut tries = Tries::default();
        loop {
            let base = self.heads.retry_transient(|| self.head(id)).await?;
            let live = match base {
                Some(row) if row.head.state == ObjectState::Live => row,
                Some(row) if matches!(row.head.state, ObjectState::Deleted | ObjectState::Deleting) => {
                    return Err(ObjectsError::Gone(id.to_string()));
                }
                _ => return Err(ObjectsError::Absent(id.to_string())),
            };
            let revision = self.heads.revisions().mint_above(live.head.revision.max(live.head.floor));
            let head = Head { state: ObjectState::Deleted, revision, body: Body::Nothing, ..live.head.clone() };
            if self.switch_to_deleted(id, &live, head, &mut tries).await? {
                self.inner.unwritten_marks.forget(id, |_| true);
                return Ok(());
            }
            // It was replaced meanwhile, so the new revision has to be deleted.
            if !tries.again().await {
                return Err(changes_all_the_time(id, false));
            }
        }
    }

    /// Deletes the revision that was read, whatever shards the container has. Returns false if
    /// another revision is current now.
    async fn switch_to_deleted(
        &self,
        id: &VolumeId,
        live: &HeadRow,
        head: Head,
        tries: &mut Tries,
    ) -> ObjectsResult<bool> {
        let mut unsure = false;
        loop {
            let parent = self.heads.retry_transient(|| self.heads.parent(&Container::Volumes)).await;
            let parent = parent.map_err(|error| error.if_unsure(unsure))?;
            let record = vec![self.work_record(head.revision, id).put()];
            let switch = parent.removal(id.as_str(), live.clone(), head.clone(), record);
            match self.heads.switch(Switch { unsure, ..switch }).await? {
                Switched::Applied => return Ok(true),
                Switched::Moved | Switched::Fenced => return Ok(false),
                Switched::Required { unsure: maybe } => unsure = maybe,
            }
            if !tries.again().await {
                return Err(changes_all_the_time(id, unsure));
            }
        }
    }
}
