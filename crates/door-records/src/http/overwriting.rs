//! Changes in mode fast: they are written without being read.

use bytes::Bytes;
use http::{HeaderMap, header};
use records::{Draft, Overwrite, RecordsError};
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
        self.records.overwrite(deadline, id, change.unread(now)?).await?;
        if let Change::Patch(patch, life) = change
            && let Some(at) = life.end(now)
        {
            let is_there = self.expire(deadline, id, at).await?;
            if !is_there && patch.0.is_empty() {
                return Err(HttpError::Absent);
            }
        }
        Ok(Changed::unknown())
    }

    /// Sets the expiry of what a patch has not set, and returns whether there is a record. The patch
    /// was written, so no failure says that nothing was.
    async fn expire(&self, deadline: Deadline, id: &Bytes, at: UnixMillis) -> Result<bool, HttpError> {
        let expire = |drafts: &mut [Draft]| {
            let set = |draft: &mut Draft| draft.change_record(|record| record.expires_at = Some(at)).is_some();
            drafts.iter_mut().any(set)
        };
        let expired = self.records.change(deadline, std::slice::from_ref(id), expire).await;
        expired.map_err(|error| match error {
            error @ RecordsError::Unknown(_) => error.into(),
            error => {
                RecordsError::Unknown(format!("attributes were set, and the expiry of others perhaps not: {error}"))
                    .into()
            }
        })
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
