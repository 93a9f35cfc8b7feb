//! Drops old buckets of the feed.
//!
//! A bucket is dropped in this order, so that a pass that dies half way leaves nothing behind and
//! hides nothing: the mark moves behind its last announcement, which refuses readers that still need
//! one; its partitions are emptied; it is removed from its list. The next pass finds a bucket that
//! is below the mark and still in its list.

use bytes::Bytes;
use heads::announce::{FEED_SHARDS, LISTED_BUCKETS, feed_bucket_of, position_of};
use heads::feed_mark::first_position_of;
use heads::rewrite::DROPPED_ROWS_MAX;
use heads::{ObjectsError, ObjectsResult, RevisionId, keys};
use store::{Class, Direction, FormatLevel, Removal, Scan, Step, Table};

use crate::buckets::next_listed;
use crate::reader::Feed;

/// Buckets below the mark that a pass looks at: two months.
const LOOKED_BACK: u32 = 8 * LISTED_BUCKETS;

/// Tries to move the mark while others move it too.
const TRIES_MAX: usize = 3;

impl Feed {
    /// Refuses all cursors of until now from now on, because some changes may be lost.
    pub async fn forget(&self) -> ObjectsResult<()> {
        match self.heads.store().level() < FormatLevel::ARCHIVE || self.mark_the_present().await? {
            true => Ok(()),
            false => Err(ObjectsError::Conflict("the mark of the change feed could not be moved".to_owned())),
        }
    }

    /// Refuses all cursors of until now if changes are not announced, because those that come now
    /// are missing once they are announced again. To be called before changes are made.
    pub async fn forget_if_off(&self) -> ObjectsResult<()> {
        if !self.heads.announces() && self.heads.store().level() >= FormatLevel::ARCHIVE && self.heads.is_home() {
            // A read-only store has no changes.
            self.mark_the_present().await?;
        }
        Ok(())
    }

    /// Moves the mark to the present. Returns false if that is impossible now.
    async fn mark_the_present(&self) -> ObjectsResult<bool> {
        let present = self.heads.present_position().await?;
        for _ in 0..TRIES_MAX {
            let mark = self.heads.feed_mark().await?;
            if mark.position >= present || self.heads.move_feed_mark(&mark, present).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops the buckets whose changes are all older than `feed_keep`. Returns how many. A pass
    /// drops a bounded number of changes; the next one continues.
    pub async fn drop_old(&self) -> ObjectsResult<u64> {
        let heads = &self.heads;
        if heads.store().level() < FormatLevel::ARCHIVE || !heads.is_home() {
            return Ok(0);
        }
        self.forget_if_off().await?;
        // Writers whose clocks lag still announce in buckets below the horizon's, but not below
        // those that are kept anyway.
        let end = feed_bucket_of(RevisionId::first_at(self.oldest_promised().min(heads.horizon())));
        let mut mark = heads.feed_mark().await?;
        if mark.position == RevisionId::ZERO {
            // The feed is new. Without a mark, passes would look through all weeks since 1970.
            if !heads.move_feed_mark(&mark, first_position_of(end)).await? {
                return Ok(0);
            }
            mark = heads.feed_mark().await?;
        }
        let (mut dropped, mut rows_left) = (0, DROPPED_ROWS_MAX);
        // Besides the bucket of a pass that died, there may be older ones that were forgotten.
        let from = feed_bucket_of(mark.position).min(end).saturating_sub(1 + LOOKED_BACK);
        let mut from = from / LISTED_BUCKETS * LISTED_BUCKETS;
        while let Some(bucket) = next_listed(heads, from..end, Direction::Forward).await? {
            if let Some(last) = self.last_of(bucket).await?
                && last >= mark.position
            {
                if !heads.move_feed_mark(&mark, last.successor()).await? {
                    // Another server does the same.
                    return Ok(dropped);
                }
                mark = heads.feed_mark().await?;
            }
            for shard in 0..FEED_SHARDS {
                if !heads.remove_all(Table::Work, &keys::feed(bucket, shard), &mut rows_left).await? {
                    return Ok(dropped);
                }
            }
            let rows = Removal::Rows(vec![keys::feed_bucket(bucket)]);
            let partition = keys::feed_buckets(bucket / LISTED_BUCKETS);
            heads
                .put_acknowledged(Class::Description, vec![Step::Remove { table: Table::Work, partition, rows }])
                .await?;
            dropped += 1;
            from = bucket + 1;
        }
        Ok(dropped)
    }

    /// The last position of a bucket at which something is announced.
    async fn last_of(&self, bucket: u32) -> ObjectsResult<Option<RevisionId>> {
        let last = Scan { direction: Direction::Backward, ..Scan::prefix(Bytes::new(), 1) };
        let read = || async {
            let scans = (0..FEED_SHARDS).map(|shard| (Table::Work, keys::feed(bucket, shard), last.clone()));
            let call = self.heads.call(Class::Description).strong();
            Ok(self.heads.store().scan_many(call, scans.collect()).await?)
        };
        let pages = self.heads.retry_transient(read).await?;
        let positions = pages.iter().filter_map(|page| page.rows.first()).map(|row| position_of(&row.sort));
        positions.collect::<ObjectsResult<Vec<_>>>().map(|positions| positions.into_iter().max())
    }
}
