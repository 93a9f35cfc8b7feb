//! The buckets of time that have announcements.

use std::ops::Range;

use heads::announce::{LISTED_BUCKETS, open_bucket};
use heads::{Heads, ObjectsResult, keys};
use store::{Direction, Scan, Table};

/// Finds the first bucket of a range that has announcements, or the last one. Reads one list of
/// buckets after the other; a list covers a week.
pub(crate) async fn next_listed(heads: &Heads, range: Range<u32>, direction: Direction) -> ObjectsResult<Option<u32>> {
    if range.is_empty() {
        return Ok(None);
    }
    let (first, last) = (range.start / LISTED_BUCKETS, (range.end - 1) / LISTED_BUCKETS);
    let (from, to) = (keys::feed_bucket(range.start), Some(keys::feed_bucket(range.end)));
    for step in 0..=last - first {
        let list = match direction {
            Direction::Forward => first + step,
            Direction::Backward => last - step,
        };
        let scan = Scan { from: from.clone(), to: to.clone(), direction, max_bytes: 1 };
        let rows = heads.first_rows(Table::Work, &keys::feed_buckets(list), scan).await?;
        if let Some(row) = rows.first() {
            return open_bucket(&row.value).map(Some);
        }
    }
    Ok(None)
}
