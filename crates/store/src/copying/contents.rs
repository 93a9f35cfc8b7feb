//! Copies large contents under their ids, whole or not at all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::StreamExt;

use super::patience::{Patience, call};
use super::{Copier, CopyError};
use crate::{ContentHeader, ContentId, ContentState, Store, StoreError, StoreResult};

/// The content whose header is stored in a partition.
pub(super) fn id_of(partition: &Bytes) -> StoreResult<ContentId> {
    let id = partition[..].try_into().map_err(|_| StoreError::Invalid("a content's id is not of 16 bytes".to_owned()));
    id.map(ContentId)
}

/// The header of a sealed content; `None`: it does not exist or is not sealed.
pub(super) async fn sealed(patience: Patience, store: &dyn Store, id: ContentId) -> StoreResult<Option<ContentHeader>> {
    let header = patience.with(|| store.content_header(call(), id)).await?;
    Ok(header.filter(|header| header.state == ContentState::Sealed))
}

impl Copier {
    /// Makes a content of the target like that of the source. Returns whether there was anything to
    /// do.
    pub(super) async fn copy_content(&self, partition: &Bytes) -> Result<bool, CopyError> {
        let id = id_of(partition)?;
        let wanted = sealed(self.patience, self.source.as_ref(), id).await?;
        let there = sealed(self.patience, self.target.as_ref(), id).await?;
        match (wanted, there) {
            (None, None) => Ok(false),
            // Bytes of sealed contents do not change.
            (Some(wanted), Some(there)) if (&wanted.owner, wanted.len) == (&there.owner, there.len) => Ok(false),
            (wanted, _) => {
                self.take_away(id).await?;
                match wanted {
                    Some(header) => self.put_content(id, header).await,
                    None => Ok(true),
                }
            }
        }
    }

    /// Skips a content that is damaged in the source, so that it does not keep the others from
    /// being copied. The objects that name it are then damaged in the target as they are in the
    /// source.
    pub(super) fn leave_out(&self, id: ContentId) {
        self.damaged.lock().insert(id);
    }

    /// The contents that were left out because they are damaged in the source.
    pub fn damaged_contents(&self) -> Vec<ContentId> {
        self.damaged.lock().iter().copied().collect()
    }

    /// Deletes the content that the target has under an id, and anything that an interrupted copy
    /// left there.
    async fn take_away(&self, id: ContentId) -> Result<(), CopyError> {
        let taken = self.patience.with(|| async {
            if !self.target.condemn_content(call(), id).await? {
                let left = "the lease of an interrupted upload has not expired yet";
                return Err(StoreError::Unavailable(format!("content {id}: {left}")));
            }
            self.target.delete_content(call(), id).await
        });
        taken.await?;
        Ok(())
    }

    /// Returns false if the content is damaged and was left out.
    async fn put_content(&self, id: ContentId, header: ContentHeader) -> Result<bool, CopyError> {
        let content = match self.patience.with(|| self.source.read_content(call(), id, 0..header.len)).await {
            Ok(Some(content)) => content,
            // It was deleted meanwhile; the next pass sees that.
            Ok(None) => return Ok(true),
            Err(StoreError::Corrupt { .. }) => {
                self.leave_out(id);
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        let progress = Arc::clone(&self.progress);
        let counted = content.inspect(move |piece| {
            let bytes = piece.as_ref().map_or(0, Bytes::len);
            progress.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        });
        match self.target.put_content_as(call(), id, header.owner, counted.boxed()).await {
            Ok(()) => {
                // It was damaged before and has been restored meanwhile.
                self.damaged.lock().remove(&id);
                Ok(true)
            }
            // If the stream fails, the upload fails with the same error.
            Err(StoreError::Corrupt { .. }) => {
                self.leave_out(id);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}
