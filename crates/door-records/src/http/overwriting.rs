//! Changes in mode fast: they are written without being read.

use bytes::Bytes;
use http::{HeaderMap, header};
use records::{Draft, Overwrite, Record, RecordsError};
use store::{Deadline, UnixMillis};

use super::error::HttpError;
use super::one::{Change, Changed};
use crate::Door;

impl Door {
    /// Writes a change of a record. There must be no condition.
    pub(super) async fn overwrite_by(
        &self,
        deadline: Deadline,
        id: &Bytes,
        change: &Change,
        headers: &HeaderMap,
    ) -> Result<Changed, HttpError> {
        if headers.contains_key(header::IF_MATCH) || headers.contains_key(header::IF_NONE_MATCH) {
            return Err(HttpError::NotFast);
        }
        let now = self.records.now();
        let overwrite = change.unread(now)?;
        let Change::Patch(patch, life) = change else {
            self.records.overwrite(deadline, id, overwrite).await?;
            return Ok(Changed::unknown());
        };
        let is_there = if life.persist {
            // Before the patch: what that sets does not expire. A record of which a part does not
            // expire has no expiry as a whole, which could be removed.
            let found = self.expire(deadline, id, None).await?;
            let written = self.records.overwrite(deadline, id, overwrite).await;
            written.map_err(|error| if found == Some(true) { in_part(error) } else { error })?;
            found.is_some()
        } else {
            self.records.overwrite(deadline, id, overwrite).await?;
            match life.end(now) {
                Some(at) => self.expire(deadline, id, Some(at)).await.map_err(in_part)?.is_some(),
                None => true,
            }
        };
        if !is_there && patch.0.is_empty() {
            return Err(HttpError::Absent);
        }
        Ok(Changed::unknown())
    }

    /// Sets the expiry of a record. Returns whether it had another one; `None`: there is no record.
    async fn expire(
        &self,
        deadline: Deadline,
        id: &Bytes,
        at: Option<UnixMillis>,
    ) -> Result<Option<bool>, RecordsError> {
        let set = |record: &mut Record| std::mem::replace(&mut record.expires_at, at) != at;
        let expire = |drafts: &mut [Draft]| drafts.iter_mut().find_map(|draft| draft.change_record(set));
        self.records.change(deadline, std::slice::from_ref(id), expire).await
    }
}

/// The failure of one of the two writes of a patch, after the other one.
fn in_part(error: RecordsError) -> RecordsError {
    match error {
        error @ RecordsError::Unknown(_) => error,
        error => RecordsError::Unknown(format!("a part of the patch was written: {error}")),
    }
}

impl Change {
    fn unread(&self, now: UnixMillis) -> Result<Overwrite, HttpError> {
        let mut overwrite = Overwrite::new(now);
        match self {
            Self::Put(content, life) => overwrite.put(content.record(*life, now)?),
            Self::Delete => overwrite.delete(),
            Self::Patch(patch, life) => {
                for (name, attribute) in &patch.0 {
                    let name = Bytes::copy_from_slice(name.as_bytes());
                    match attribute {
                        Some(attribute) => overwrite.set(name, attribute.at(now), life.end(now)),
                        None => overwrite.delete_attribute(name),
                    }
                }
            }
        }
        Ok(overwrite)
    }
}
