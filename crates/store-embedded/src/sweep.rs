//! Deletes what nobody can read any more: expired rows, and leftovers of interrupted uploads.

use bytes::Bytes;
use store::lifecycle::{self, ToSweep};
use store::{ContentId, ContentState, Deadline, Expect, Lane, Outcome, Store, StoreError, StoreResult, Table};

use crate::engine::EmbeddedStore;
use crate::header::header_in;
use crate::plan::{Change, Plan};
use crate::tables::Space;
use crate::{expiry, read};

/// Expired rows that are removed in one commit.
const ROWS_PER_COMMIT: usize = 1_000;

/// Contents that one read checks.
const CONTENTS_PER_PAGE: usize = 1_000;

impl EmbeddedStore {
    /// Deletes expired rows (and counts them as the list of expiries does), condemned contents, and
    /// leftovers of interrupted uploads. Of the contents and their files it checks the next ones in
    /// turn.
    pub(crate) async fn reclaim(&self, deadline: Deadline) -> StoreResult<u64> {
        // One lane is swept even if another fails.
        let lanes = Lane::ALL.into_iter().filter(|lane| lane.is_in(self.level()));
        let mut swept = Vec::new();
        for lane in lanes {
            swept.push(self.sweep_rows(deadline, lane).await);
        }
        let contents = self.sweep_contents(deadline).await?;
        let files = self.sweep_files(deadline).await?;
        let rows: u64 = swept.into_iter().sum::<StoreResult<u64>>()?;
        Ok(rows + contents + files)
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

    /// Checks some contents, the next ones in turn.
    async fn sweep_contents(&self, deadline: Deadline) -> StoreResult<u64> {
        let (mut swept, mut left) = (0, self.options().contents_per_sweep);
        while left > 0 {
            let from = self.sweep_position.lock().content.clone();
            let max = left.min(CONTENTS_PER_PAGE);
            left -= max;
            let (unsealed, next) = match self.unsealed_contents(deadline, from, max).await {
                Err(StoreError::DeadlinePassed) => return Ok(swept),
                page => page?,
            };
            for id in unsealed {
                match self.sweep_content(deadline, id).await {
                    Ok(is_swept) => swept += u64::from(is_swept),
                    Err(StoreError::DeadlinePassed) => return Ok(swept),
                    // It does not prevent others from being swept.
                    Err(error @ StoreError::Corrupt { .. }) => {
                        tracing::warn!(content = %id, %error, "a content cannot be swept");
                    }
                    Err(error) => return Err(error),
                }
                self.sweep_position.lock().content = Some(Bytes::copy_from_slice(&id.0));
            }
            let is_over = next.is_none();
            self.sweep_position.lock().content = next;
            if is_over {
                break;
            }
        }
        Ok(swept)
    }

    /// Contents of a page that are not sealed, and where the next page begins.
    async fn unsealed_contents(
        &self,
        deadline: Deadline,
        from: Option<Bytes>,
        max: usize,
    ) -> StoreResult<(Vec<ContentId>, Option<Bytes>)> {
        let now = self.now();
        let read = self.read(deadline, Table::Contents.lane(), move |view| {
            let page = read::walk(view, Table::Contents, from, max, now, deadline)?;
            let ids = page.partitions.iter().filter_map(|id| id[..].try_into().ok().map(ContentId));
            let is_sealed = |id| {
                let header = header_in(view, id, now);
                matches!(header, Ok(Some((_, header))) if header.state == ContentState::Sealed)
            };
            Ok((ids.filter(|id| !is_sealed(*id)).collect(), page.next))
        });
        read.await
    }

    /// Sweeps one content, and returns whether it was deleted.
    async fn sweep_content(&self, deadline: Deadline, id: ContentId) -> StoreResult<bool> {
        match lifecycle::to_sweep(self.header(deadline, id).await?, self.now()) {
            ToSweep::Leave => Ok(false),
            ToSweep::Condemn(stamp, header) => {
                match self.change_header(deadline, id, Expect::Stamp(stamp), &header, Vec::new()).await? {
                    Some(_) => self.delete(deadline, id).await,
                    None => Ok(false),
                }
            }
            ToSweep::Delete => self.delete(deadline, id).await,
        }
    }
}
