//! Deleting one volume.

use hathi::VolumeId;

use crate::containment::Mark;
use crate::error::{ObjectsError, ObjectsResult};
use crate::head::{Body, Head, State};
use crate::keys;
use crate::library::Library;
use crate::switch::{Switch, Switched, Tries};

impl Library {
    /// Deletes a volume. What it held is kept for the grace and for selections that pin it, then collected.
    ///
    /// [`ObjectsError::Absent`] if it never was here, [`ObjectsError::Gone`] if it was deleted already.
    pub async fn delete(&self, id: &VolumeId) -> ObjectsResult<()> {
        let partition = keys::volume_partition(id);
        let mut tries = Tries::new();
        loop {
            let base = self.patiently(|| self.head(id)).await?;
            let Some(live) = base.as_ref().filter(|row| row.head.state == State::Live) else {
                return Err(match base.map(|row| row.head.state) {
                    Some(State::Deleted | State::Deleting) => ObjectsError::Gone(id.to_string()),
                    _ => ObjectsError::Absent(id.to_string()),
                });
            };
            let incarnation = live.head.incarnation;
            let revision = self.inner.revisions.mint_above(live.head.revision.max(live.head.floor));
            let head = Head { state: State::Deleted, revision, body: Body::Nothing, ..live.head.clone() };
            let parent = self.patiently(|| self.parent()).await?;
            let switch = Switch {
                partition: partition.clone(),
                before: vec![
                    self.work_record(revision, id)?,
                    parent.mark(id, incarnation, Mark::Removing),
                    parent.require(),
                ],
                after: vec![parent.mark(id, incarnation, Mark::Removed)],
                base,
                head,
            };
            let unsure = match self.switch(switch).await? {
                Switched::Applied => {
                    self.inner.unwritten_marks.forget(id, |_| true);
                    return Ok(());
                }
                // Replaced meanwhile, or the shard is being rewritten: it is still to be deleted.
                Switched::Moved | Switched::Fenced => false,
                Switched::Required { unsure } => unsure,
            };
            if !tries.again().await {
                let reason = format!("{id} is being changed again and again");
                return Err(if unsure { ObjectsError::Unknown(reason) } else { ObjectsError::Overloaded(reason) });
            }
        }
    }
}
