//! Drops old buckets of the feed.
//!
//! A bucket is dropped in this order, so that a pass that dies half way leaves nothing behind and
//! hides nothing: the mark of what is kept moves past it, which refuses readers that still need it;
//! its partitions are emptied; it is removed from its list. The next pass finds a bucket that is
//! below the mark and still in its list.

use bytes::Bytes;
use heads::announce::{FEED_SHARDS, LISTED_BUCKETS, feed_bucket_of, open_bucket};
use heads::rewrite::DROPPED_ROWS_MAX;
use heads::{Heads, ObjectsError, ObjectsResult, RevisionId, keys};
use store::{
    Class, Direction, Expect, FormatLevel, Guard, Outcome, Removal, Step, StoreError, Table, UnixMillis, ValueKind,
    envelope,
};

use crate::buckets::next_listed;
use crate::reader::Feed;

/// Buckets below the mark that a pass looks at: two months.
const LOOKED_BACK: u32 = 8 * LISTED_BUCKETS;

impl Feed {
    /// Refuses all cursors before the present bucket from now on, because some changes may be lost.
    pub async fn forget(&self) -> ObjectsResult<()> {
        let heads = &self.heads;
        if heads.store().level() < FormatLevel::ARCHIVE {
            return Ok(());
        }
        let now = feed_bucket_of(RevisionId::first_at(heads.now()));
        let (mark, stands) = read_mark(heads).await?;
        if mark < now && !set_mark(heads, now, stands).await? {
            return Err(ObjectsError::Conflict("another server drops changes of the feed".to_owned()));
        }
        Ok(())
    }

    /// Drops the buckets whose changes are all older than `feed_keep`. Returns how many. A pass
    /// drops a bounded number of changes; the next one continues.
    pub async fn drop_old(&self) -> ObjectsResult<u64> {
        let heads = &self.heads;
        if heads.store().level() < FormatLevel::ARCHIVE || !heads.is_home() {
            return Ok(0);
        }
        let keep = u64::try_from(heads.options().feed_keep.as_millis()).unwrap_or(u64::MAX);
        // Writers whose clocks lag still announce in buckets below the horizon's, but not below
        // those that are kept anyway.
        let oldest = UnixMillis(heads.now().0.saturating_sub(keep)).min(heads.horizon());
        let end = feed_bucket_of(RevisionId::first_at(oldest));
        let (mut mark, mut stands) = read_mark(heads).await?;
        if mark == 0 {
            // The feed is new. Without a mark, passes would look through all weeks since 1970.
            if !set_mark(heads, end, stands).await? {
                return Ok(0);
            }
            (mark, stands) = read_mark(heads).await?;
        }
        let (mut dropped, mut rows_left) = (0, DROPPED_ROWS_MAX);
        // Besides the bucket of a pass that died, there may be older ones that were forgotten.
        let from = mark.min(end).saturating_sub(1 + LOOKED_BACK);
        let mut from = from / LISTED_BUCKETS * LISTED_BUCKETS;
        while let Some(bucket) = next_listed(heads, from..end, Direction::Forward).await? {
            if bucket >= mark {
                if !set_mark(heads, bucket + 1, stands).await? {
                    // Another server does the same.
                    return Ok(dropped);
                }
                (mark, stands) = read_mark(heads).await?;
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
}

/// The first bucket that is kept, 0 without a mark; and what a change of the mark compares with.
async fn read_mark(heads: &Heads) -> ObjectsResult<(u32, Expect)> {
    let read = || async {
        let call = heads.call(Class::Description).strong();
        Ok(heads.store().get(call, Table::Work, &keys::feed_ends(), &keys::feed_dropped()).await?)
    };
    let Some(row) = heads.retry_transient(read).await? else { return Ok((0, Expect::Absent)) };
    let stands = row.guard.as_ref().map_or(Expect::Absent, |guard| Expect::Stamp(guard.stamp));
    Ok((open_bucket(&row.value)?, stands))
}

/// Moves the mark; returns false if another server was first, or the outcome is unknown.
async fn set_mark(heads: &Heads, bucket: u32, expect: Expect) -> ObjectsResult<bool> {
    let mark = Step::CompareAndWrite {
        table: Table::Work,
        partition: keys::feed_ends(),
        sort: keys::feed_dropped(),
        expect,
        guard: Guard { stamp: heads.stamp(), tag: Bytes::new() },
        value: envelope::seal(ValueKind::FeedBucket, &bucket.to_be_bytes()),
    };
    match heads.store().run(heads.call(Class::Description).removing(), vec![mark]).await {
        Ok(outcome) => Ok(matches!(outcome, Outcome::Applied)),
        Err(StoreError::ReadOnly(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
