//! Deletes one volume.

use hathi::VolumeId;
use store::{ValueKind, envelope};

use crate::containment::Container;
use crate::error::{ObjectsError, ObjectsResult};
use crate::head::{Body, Head, HeadRow, State};
use crate::library::Library;
use crate::switch::{Switch, Switched, Tries};

impl Library {
    /// Deletes a volume. Its rows are kept for the grace and for selections that pin them, and then
    /// collected.
    ///
    /// Fails with [`ObjectsError::Absent`] if it never existed, [`ObjectsError::Gone`] if it was
    /// deleted already.
    pub async fn delete(&self, id: &VolumeId) -> ObjectsResult<()> {
        let mut tries = Tries::new();
        loop {
            let base = self.patiently(|| self.head(id)).await?;
            let live = match base {
                Some(row) if row.head.state == State::Live => row,
                Some(row) if matches!(row.head.state, State::Deleted | State::Deleting) => {
                    return Err(ObjectsError::Gone(id.to_string()));
                }
                _ => return Err(ObjectsError::Absent(id.to_string())),
            };
            let revision = self.inner.revisions.mint_above(live.head.revision.max(live.head.floor));
            let head = Head { state: State::Deleted, revision, body: Body::Nothing, ..live.head.clone() };
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
            let parent = self.patiently(|| self.parent(&Container::Volumes)).await;
            let parent = parent.map_err(|error| error.if_unsure(unsure))?;
            let record = vec![self.work_record(head.revision, id).put(envelope::seal(ValueKind::VolumeWork, &[]))];
            let switch = parent.removal(id.as_str(), live.clone(), head.clone(), record);
            match self.switch(Switch { unsure, ..switch }).await? {
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

/// The error after many tries during which other writers were always faster.
pub(crate) fn changes_all_the_time(what: impl std::fmt::Display, unsure: bool) -> ObjectsError {
    let reason = format!("{what} is being changed again and again");
    if unsure { ObjectsError::Unknown(reason) } else { ObjectsError::Overloaded(reason) }
}
