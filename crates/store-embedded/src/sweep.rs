//! Taking away what nobody can read any more: expired rows, and what crashes left of uploads.

use std::ffi::OsString;
use std::path::Path;

use bytes::Bytes;
use store::{ContentId, ContentState, Deadline, Lane, Outcome, StoreError, StoreResult, Table};

use crate::contents::id_of_file;
use crate::engine::EmbeddedStore;
use crate::folder::io_error;
use crate::plan::{Change, Plan};
use crate::tables::Space;
use crate::{expiry, read};

/// Expired rows that are taken away in one commit.
const ROWS_PER_COMMIT: usize = 1_000;

/// Contents that are looked at in one read.
const CONTENTS_PER_PAGE: usize = 1_000;

impl EmbeddedStore {
    /// Takes away expired rows (counted as the list of expiries does), condemned contents, and what crashes left of uploads.
    /// Costs a read, and two more for each content.
    pub(crate) async fn reclaim(&self, deadline: Deadline) -> StoreResult<u64> {
        // What one lane refuses does not keep the other from being swept.
        let service = self.sweep_rows(deadline, Lane::Service).await;
        let text = self.sweep_rows(deadline, Lane::Text).await?;
        let contents = self.sweep_contents(deadline).await? + self.sweep_files(deadline).await?;
        Ok(service? + text + contents)
    }

    async fn sweep_rows(&self, deadline: Deadline, lane: Lane) -> StoreResult<u64> {
        let mut swept = 0;
        loop {
            let now = self.now();
            let entries = self
                .read(deadline, lane, move |view| {
                    let due = view.range(Space::Expiries, expiry::due(now))?.take(ROWS_PER_COMMIT);
                    due.map(|entry| entry.map(|(key, _)| key)).collect::<StoreResult<Vec<Bytes>>>()
                })
                .await?;
            if entries.is_empty() {
                return Ok(swept);
            }
            let count = entries.len() as u64;
            match self.submit(deadline, Plan::of(lane, vec![Change::Reclaim { entries }])).await? {
                Outcome::Unknown { reason } => return Err(StoreError::Unavailable(reason)),
                Outcome::Applied | Outcome::Refused { .. } => swept += count,
            }
        }
    }

    async fn sweep_contents(&self, deadline: Deadline) -> StoreResult<u64> {
        let (mut swept, mut from) = (0, None);
        loop {
            let now = self.now();
            let page = self
                .read(deadline, Table::Contents.lane(), move |view| {
                    read::walk(view, Table::Contents, from, CONTENTS_PER_PAGE, now, deadline)
                })
                .await?;
            for partition in page.partitions {
                if let Ok(id) = <[u8; 16]>::try_from(&partition[..]) {
                    swept += u64::from(self.sweep_content(deadline, ContentId(id)).await?);
                }
            }
            from = page.next;
            if from.is_none() {
                return Ok(swept);
            }
        }
    }

    /// Takes a content away if it is condemned, or an upload whose lease has run out. An upload that ends meanwhile stays.
    async fn sweep_content(&self, deadline: Deadline, id: ContentId) -> StoreResult<bool> {
        let Some((stamp, header)) = self.header(deadline, id).await? else { return Ok(false) };
        let left_over = match header.state {
            ContentState::Sealed => false,
            ContentState::Uploading if header.lease_until > self.now() => false,
            ContentState::Uploading => self.condemn_as_read(deadline, id, stamp, header).await?,
            ContentState::Condemned => true,
        };
        if left_over { self.delete(deadline, id).await } else { Ok(false) }
    }

    /// Takes away files that no header tells of.
    async fn sweep_files(&self, deadline: Deadline) -> StoreResult<u64> {
        let contents = self.engine()?.folder.contents();
        let mut swept = 0;
        for shard in names(&contents).await? {
            for name in names(&contents.join(shard)).await? {
                let Some(id) = name.to_str().and_then(id_of_file) else { continue };
                if self.header(deadline, id).await?.is_none() {
                    self.remove_file(id).await?;
                    swept += 1;
                }
            }
        }
        Ok(swept)
    }
}

/// The names in a folder.
async fn names(folder: &Path) -> StoreResult<Vec<OsString>> {
    let listing = |error| io_error("listing", folder, error);
    let mut files = tokio::fs::read_dir(folder).await.map_err(listing)?;
    let mut names = Vec::new();
    while let Some(file) = files.next_entry().await.map_err(listing)? {
        names.push(file.file_name());
    }
    Ok(names)
}
