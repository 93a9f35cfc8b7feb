//! Counts the stored volumes and resources.

use futures::FutureExt;
use futures::future::BoxFuture;
use hathi::VolumeId;
use heads::error::ObjectsResult;
use store::{Class, Strength, Table};

use crate::library::Library;

/// Volumes that are read in one batch.
const BATCH_VOLUMES: usize = 1_000;

/// Sums over all volumes in the listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Volumes.
    pub volumes: u64,
    /// Their pages.
    pub pages: u64,
    /// Bytes of the pages' texts.
    pub bytes: u64,
    /// Bytes of the pages' frames.
    pub frame_bytes: u64,
    /// Volumes with damage marks.
    pub damaged_volumes: u64,
    /// Members with damage marks.
    pub damaged_members: u64,
    /// Resources of the repository with damage marks.
    pub damaged_resources: u64,
}

impl Library {
    /// Counts all volumes by walking the listing, with one read of a head per volume. Of resources,
    /// reads only those with damage marks.
    pub fn statistics(&self) -> BoxFuture<'_, ObjectsResult<Statistics>> {
        async move {
            let damaged_resources = self.damaged_resources().await?;
            let mut statistics = Statistics { damaged_resources, ..Statistics::default() };
            let mut after = None;
            loop {
                let page = self.volumes.list(after.as_ref(), BATCH_VOLUMES).await?;
                self.count(&page.volumes, &mut statistics).await?;
                after = page.next;
                if after.is_none() {
                    return Ok(statistics);
                }
            }
        }
        .boxed()
    }

    async fn damaged_resources(&self) -> ObjectsResult<u64> {
        let (mut count, mut from) = (0, None);
        loop {
            let call = self.heads.call(Class::Description);
            let page = self.heads.store().walk(call, Table::Damage, from, BATCH_VOLUMES).await?;
            count += self.repository.count_damaged_resources(&page.partitions).await?;
            from = page.next;
            if from.is_none() {
                return Ok(count);
            }
        }
    }

    async fn count(&self, ids: &[VolumeId], statistics: &mut Statistics) -> ObjectsResult<()> {
        for head in self.volumes.heads(ids, Strength::Usual).await? {
            let head = match head {
                Err(error) if error.is_damage() => {
                    statistics.volumes += 1;
                    statistics.damaged_volumes += 1;
                    continue;
                }
                head => head?,
            };
            // It was deleted after it was listed, so it does not count.
            let Some(volume) = head.as_ref().and_then(|row| row.head.live_volume()) else { continue };
            statistics.volumes += 1;
            statistics.pages += volume.pages.count;
            statistics.bytes += volume.pages.bytes;
            statistics.frame_bytes += volume.pages.frame_bytes;
            statistics.damaged_volumes += u64::from(volume.damaged > 0);
            statistics.damaged_members += u64::from(volume.damaged);
        }
        Ok(())
    }
}
