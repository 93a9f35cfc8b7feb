//! Drops old buckets of the feed.
//!
//! A bucket is dropped in this order, so that a pass that dies half way leaves nothing behind and
//! hides nothing: the mark moves behind its last announcement, which refuses readers that still need
//! one; its partitions are emptied; it is removed from its list. The next pass finds a bucket that
//! is below the mark and still in its list.
//!
//! The mark jumps to the present when changes are not announced, or may be lost. So a pass does not
//! begin at the mark, but where an earlier pass has noted that all before is removed. If none has,
//! it looks through all lists once.

use bytes::Bytes;
use heads::announce::{FEED_SHARDS, LISTED_BUCKETS, feed_bucket_of, position_of};
use heads::feed_mark::{FeedMark, first_position_of};
use heads::rewrite::DROPPED_ROWS_MAX;
use heads::{ObjectsError, ObjectsResult, RevisionId, keys};
use store::{Class, Direction, Removal, Scan, Step, Table, boxed};

use crate::buckets::next_listed;
use crate::reader::Feed;

/// Buckets that a pass looks through: those of 79 years, in lists of a week.
const LOOKED_THROUGH: u32 = 4_096 * LISTED_BUCKETS;

/// Tries to move the mark while others move it too.
const TRIES_MAX: usize = 3;

impl Feed {
    /// Refuses all cursors of until now from now on, because some changes may be lost.
    #[boxed]
    pub async fn forget(&self) -> ObjectsResult<()> {
        // Rows are of different moments: buckets may be listed that a pass had removed.
        let cleared = self.heads.feed_cleared().await?;
        self.heads.note_feed_cleared(&cleared, 0).await?;
        match self.mark_the_present().await? {
            true => Ok(()),
            false => Err(ObjectsError::Conflict("the mark of the change feed could not be moved".to_owned())),
        }
    }

    /// Refuses all cursors of until now if changes are not announced, because those that come now
    /// are missing once they are announced again. To be called before changes are made.
    #[boxed]
    pub async fn forget_if_off(&self) -> ObjectsResult<()> {
        if !self.heads.announces() && self.heads.is_home() {
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
    #[boxed]
    pub async fn drop_old(&self) -> ObjectsResult<u64> {
        let heads = &self.heads;
        if !heads.is_home() {
            return Ok(0);
        }
        self.forget_if_off().await?;
        // Writers whose clocks lag still announce in buckets below the horizon's, but not below
        // those that are kept anyway.
        let end = feed_bucket_of(RevisionId::first_at(self.oldest_promised().min(heads.horizon())));
        let mut mark = heads.feed_mark().await?;
        if mark.position == RevisionId::ZERO {
            // The feed is new.
            if !heads.move_feed_mark(&mark, first_position_of(end)).await? {
                return Ok(0);
            }
            mark = heads.feed_mark().await?;
        }
        let cleared = heads.feed_cleared().await?;
        // A list is one read, wherever in it a pass begins.
        let mut from = cleared.bucket / LISTED_BUCKETS * LISTED_BUCKETS;
        let end = end.min(from.saturating_add(LOOKED_THROUGH));
        let (mut dropped, mut rows_left) = (0, DROPPED_ROWS_MAX);
        loop {
            let Some(bucket) = next_listed(heads, from..end, Direction::Forward).await? else {
                from = end;
                break;
            };
            from = bucket;
            if !self.drop_bucket(bucket, &mut mark, &mut rows_left).await? {
                break;
            }
            dropped += 1;
            from = bucket + 1;
        }
        heads.note_feed_cleared(&cleared, from).await?;
        Ok(dropped)
    }

    /// Drops a bucket. Returns false if another server does the same, or if so many rows are removed
    /// that the next pass has to continue.
    async fn drop_bucket(&self, bucket: u32, mark: &mut FeedMark, rows_left: &mut u64) -> ObjectsResult<bool> {
        let heads = &self.heads;
        if let Some(last) = self.last_of(bucket).await?
            && last >= mark.position
        {
            if !heads.move_feed_mark(mark, last.successor()).await? {
                return Ok(false);
            }
            *mark = heads.feed_mark().await?;
        }
        for shard in 0..FEED_SHARDS {
            if !heads.remove_all(Table::Work, &keys::feed(bucket, shard), rows_left).await? {
                return Ok(false);
            }
        }
        let rows = Removal::Rows(vec![keys::feed_bucket(bucket)]);
        let partition = keys::feed_buckets(bucket / LISTED_BUCKETS);
        let removed = Step::Remove { table: Table::Work, partition, rows };
        heads.put_acknowledged(Class::Description, vec![removed]).await?;
        Ok(true)
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
