//! The mark of the change feed: below it changes may be missing, because they were dropped or never
//! announced.

use bytes::Bytes;
use store::{Class, Expect, Guard, Outcome, Step, StoreError, Table, UnixMillis, ValueKind, envelope};

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

impl Heads {
    /// Reads the mark.
    pub async fn feed_mark(&self) -> ObjectsResult<FeedMark> {
        let read = || async {
            let call = self.call(Class::Description).strong();
            Ok(self.store().get(call, Table::Work, &keys::feed_ends(), &keys::feed_dropped()).await?)
        };
        let Some(row) = self.retry_transient(read).await? else {
            return Ok(FeedMark { position: RevisionId::ZERO, compared: Expect::Absent });
        };
        let compared = row.guard.as_ref().map_or(Expect::Absent, |guard| Expect::Stamp(guard.stamp));
        Ok(FeedMark { position: open(&row.value)?, compared })
    }

    /// Moves the mark. Returns false if another server was first, if the outcome is unknown, or if
    /// the store is read-only.
    pub async fn move_feed_mark(&self, mark: &FeedMark, position: RevisionId) -> ObjectsResult<bool> {
        let moved = Step::CompareAndWrite {
            table: Table::Work,
            partition: keys::feed_ends(),
            sort: keys::feed_dropped(),
            expect: mark.compared,
            guard: Guard { stamp: self.stamp(), tag: Bytes::new() },
            value: seal(position),
        };
        match self.store().run(self.call(Class::Description).removing(), vec![moved]).await {
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
