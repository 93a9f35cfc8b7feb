//! Copying large contents: under their ids, whole or not at all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::StreamExt;

use super::patience::{Patience, call};
use super::{Copier, CopyError};
use crate::{ContentHeader, ContentId, ContentState, Store, StoreError, StoreResult};

/// The content whose header stands in a partition.
pub(super) fn id_of(partition: &Bytes) -> StoreResult<ContentId> {
    let id = partition[..].try_into().map_err(|_| StoreError::Invalid("a content's id is not of 16 bytes".to_owned()));
    id.map(ContentId)
}

/// The header of a sealed content; `None`: it is not there, or is not sealed.
pub(super) async fn sealed(patience: Patience, store: &dyn Store, id: ContentId) -> StoreResult<Option<ContentHeader>> {
    let header = patience.with(|| store.content_header(call(), id)).await?;
    Ok(header.filter(|header| header.state == ContentState::Sealed))
}

impl Copier {
    /// Makes a content of the target like that of the source. Answers whether there was anything to do.
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
                if let Some(header) = wanted {
                    self.put_content(id, header).await?;
                }
                Ok(true)
            }
        }
    }

    /// Takes away what the target has under an id, also what a copy that was broken off has left there.
    async fn take_away(&self, id: ContentId) -> Result<(), CopyError> {
        let taken = self.patience.with(|| async {
            if !self.target.condemn_content(call(), id).await? {
                let left = "an upload that was broken off has not run out yet";
                return Err(StoreError::Unavailable(format!("content {id}: {left}")));
            }
            self.target.delete_content(call(), id).await
        });
        taken.await?;
        Ok(())
    }

    async fn put_content(&self, id: ContentId, header: ContentHeader) -> Result<(), CopyError> {
        let Some(content) = self.patience.with(|| self.source.read_content(call(), id, 0..header.len)).await? else {
            // It was taken away meanwhile; the next pass sees that.
            return Ok(());
        };
        let progress = Arc::clone(&self.progress);
        let counted = content.inspect(move |piece| {
            let bytes = piece.as_ref().map_or(0, Bytes::len);
            progress.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        });
        Ok(self.target.put_content_as(call(), id, header.owner, counted.boxed()).await?)
    }
}
