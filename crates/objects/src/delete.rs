//! Deleting one volume.

use hathi::VolumeId;

use crate::containment::Container;
use crate::error::{ObjectsError, ObjectsResult};
use crate::head::{Body, Head, State};
use crate::library::Library;
use crate::switch::{Switched, Tries};

impl Library {
    /// Deletes a volume. What it held is kept for the grace and for selections that pin it, then collected.
    ///
    /// [`ObjectsError::Absent`] if it never was here, [`ObjectsError::Gone`] if it was deleted already.
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
            let parent = self.patiently(|| self.parent(&Container::Volumes)).await?;
            let switch = parent.removal(id.as_str(), live, head, vec![self.work_record(revision, id)?]);
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
                return Err(changes_all_the_time(id, unsure));
            }
        }
    }
}

/// What to say when something was tried again and again, and others were always faster.
pub(crate) fn changes_all_the_time(what: impl std::fmt::Display, unsure: bool) -> ObjectsError {
    let reason = format!("{what} is being changed again and again");
    if unsure { ObjectsError::Unknown(reason) } else { ObjectsError::Overloaded(reason) }
}
