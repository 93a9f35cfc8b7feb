//! The mark of the change feed: below it changes may be missing, because they were dropped or never
//! announced.
//!
//! The mark may jump to the present. So it does not say what is removed already: a second row does.

use bytes::Bytes;
use store::{Class, Expect, Guard, Outcome, Row, Step, StoreError, Table, UnixMillis, ValueKind, boxed, envelope};

use crate::announce::{LISTED_BUCKETS, open_bucket};
use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::keys;
use crate::queue::BUCKET;
use crate::revision::RevisionId;

/// The mark, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct FeedMark {
    /// The first position behind which nothing is missing; zero if there is no mark yet.
    pub position: RevisionId,
    /// What a change of the mark compares with.
    compared: Expect,
}

/// What is removed of the feed, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct FeedCleared {
    /// No bucket before this one is listed any more; zero if that is not known.
    pub bucket: u32,
    /// What a change of it compares with.
    compared: Expect,
}

/// The first position of a bucket of the feed.
pub fn first_position_of(bucket: u32) -> RevisionId {
    let time = u128::from(bucket) * BUCKET.as_millis();
    RevisionId::first_at(UnixMillis(u64::try_from(time).unwrap_or(u64::MAX)))
}

fn seal(position: RevisionId) -> Bytes {
    envelope::seal(ValueKind::FeedBucket, &position.0)
}

/// Opens a mark. It is a position, or, as it was first written, a bucket: the first one that is
/// whole.
fn open(value: &Bytes) -> ObjectsResult<RevisionId> {
    let payload = envelope::open(ValueKind::FeedBucket, value).unwrap_or_default();
    let position = <[u8; 16]>::try_from(&payload[..]).map(RevisionId);
    let bucket = || <[u8; 4]>::try_from(&payload[..]).map(|bucket| first_position_of(u32::from_be_bytes(bucket)));
    position.or_else(|_| bucket()).map_err(|_| ObjectsError::corrupt(Table::Work, "no mark of the feed"))
}

/// What a change of a row compares with.
fn compared(row: Option<&Row>) -> Expect {
    row.and_then(|row| row.guard.as_ref()).map_or(Expect::Absent, |guard| Expect::Stamp(guard.stamp))
}

impl Heads {
    /// Reads the mark.
    #[boxed]
    pub async fn feed_mark(&self) -> ObjectsResult<FeedMark> {
        let row = self.feed_end(&keys::feed_dropped()).await?;
        let position = row.as_ref().map_or(Ok(RevisionId::ZERO), |row| open(&row.value))?;
        Ok(FeedMark { position, compared: compared(row.as_ref()) })
    }

    /// Moves the mark. Returns false if another server was first, if the outcome is unknown, or if
    /// the store is read-only.
    #[boxed]
    pub async fn move_feed_mark(&self, mark: &FeedMark, position: RevisionId) -> ObjectsResult<bool> {
        self.write_feed_end(keys::feed_dropped(), mark.compared, seal(position)).await
    }

    /// Reads up to where the feed is removed. If that cannot be read, nothing is known of it.
    #[boxed]
    pub async fn feed_cleared(&self) -> ObjectsResult<FeedCleared> {
        let row = self.feed_end(&keys::feed_cleared()).await?;
        let bucket = row.as_ref().and_then(|row| open_bucket(&row.value).ok());
        Ok(FeedCleared { bucket: bucket.unwrap_or(0), compared: compared(row.as_ref()) })
    }

    /// Notes that no bucket before this one is listed any more, if that is another list of buckets
    /// than the one that was noted. If another server was first, what it noted is as good.
    #[boxed]
    pub async fn note_feed_cleared(&self, cleared: &FeedCleared, bucket: u32) -> ObjectsResult<()> {
        if bucket / LISTED_BUCKETS != cleared.bucket / LISTED_BUCKETS {
            let value = envelope::seal(ValueKind::FeedBucket, &bucket.to_be_bytes());
            self.write_feed_end(keys::feed_cleared(), cleared.compared, value).await?;
        }
        Ok(())
    }

    async fn feed_end(&self, sort: &Bytes) -> ObjectsResult<Option<Row>> {
        let read = || async {
            let call = self.call(Class::Description).strong();
            Ok(self.store().get(call, Table::Work, &keys::feed_ends(), sort).await?)
        };
        self.retry_transient(read).await
    }

    async fn write_feed_end(&self, sort: Bytes, expect: Expect, value: Bytes) -> ObjectsResult<bool> {
        let guard = Guard { stamp: self.stamp(), tag: Bytes::new() };
        let partition = keys::feed_ends();
        let step = Step::CompareAndWrite { table: Table::Work, partition, sort, expect, guard, value };
        match self.store().run(self.call(Class::Description).removing(), vec![step]).await {
            Ok(outcome) => Ok(matches!(outcome, Outcome::Applied)),
            Err(StoreError::ReadOnly(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn marks_have_these_bytes_and_are_read_from_them_and_from_those_of_a_bucket() {
        let position = RevisionId([7; 16]);
        assert_eq!(seal(position), envelope::seal_version(ValueKind::FeedBucket, 1, &[7; 16]));
        assert_eq!(open(&seal(position)).unwrap(), position);
        let bucket = envelope::seal(ValueKind::FeedBucket, &9_u32.to_be_bytes());
        assert_eq!(open(&bucket).unwrap(), RevisionId::first_at(UnixMillis(9 * 600_000)));
        for broken in [envelope::seal(ValueKind::FeedBucket, &[7; 5]), Bytes::from_static(b"none")] {
            open(&broken).unwrap_err();
        }
    }
}
