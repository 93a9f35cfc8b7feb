//! Operations on records. A record is a text of two numbers: how often it was changed since it was
//! created, and the operation that changed it last. So each answer shows what the change began with.

use std::time::Duration;

use bytes::Bytes;
use records::{Draft, Record, Records, RecordsError};
use store::Deadline;

use super::{Came, Seen};
use crate::model::Reply;
use crate::trace::Op;

/// Ids of records: few, so that operations meet.
pub(crate) const IDS: [&str; 3] = ["r0", "r1", "r2"];

/// An operation on records.
#[derive(Clone, Debug)]
pub(crate) struct RecordWork {
    pub(crate) ids: Vec<Bytes>,
    pub(crate) what: RecordChange,
    /// The time within which it has to end.
    pub(crate) within: Duration,
}

/// What it does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordChange {
    /// Reads one record.
    Read,
    /// Changes records, all of them or none. They expire after that time, if there is one.
    Count { life: Option<Duration> },
    /// Deletes one record.
    Delete,
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The changes since it was created.
    pub(crate) changes: u64,
    /// The operation that changed it last.
    pub(crate) by: Op,
}

impl Counted {
    /// Reads what a record says.
    pub(crate) fn of(record: &Record) -> Option<Self> {
        let text = std::str::from_utf8(record.as_text().ok()?).ok()?;
        let (changes, by) = text.split_once(' ')?;
        Some(Self { changes: changes.parse().ok()?, by: by.parse().ok()? })
    }

    fn record(self) -> Record {
        Record::text(Bytes::from(format!("{} {}", self.changes, self.by)))
    }
}

/// What an operation found, in the order of its ids.
pub(crate) type Found = Vec<Option<Counted>>;

impl RecordWork {
    /// Runs it.
    pub(crate) async fn run(self, op: Op, records: &Records) -> Came {
        let deadline = Deadline::within(self.within);
        let counted = |draft: &Draft| draft.record().and_then(Counted::of);
        let found = match self.what {
            RecordChange::Read => {
                let read = records.read(deadline, &self.ids[0]).await;
                read.map(|record| vec![record.as_ref().and_then(Counted::of)])
            }
            RecordChange::Count { life } => {
                let count = |drafts: &mut [Draft]| {
                    let count_one = |draft: &mut Draft| {
                        let before = counted(draft);
                        let changes = before.map_or(0, |before| before.changes) + 1;
                        let expires_at = life.map(|life| draft.now.plus(life));
                        draft.put(Record { expires_at, ..Counted { changes, by: op }.record() });
                        before
                    };
                    drafts.iter_mut().map(count_one).collect()
                };
                records.change(deadline, &self.ids, count).await
            }
            RecordChange::Delete => {
                let delete = |drafts: &mut [Draft]| {
                    let delete_one = |draft: &mut Draft| {
                        let before = counted(draft);
                        draft.delete();
                        before
                    };
                    drafts.iter_mut().map(delete_one).collect()
                };
                records.change(deadline, &self.ids, delete).await
            }
        };
        match found {
            Ok(found) => Came::seen(Seen::Records(found)),
            Err(RecordsError::Unknown(why)) => Came::replied(Reply::Unknown(why)),
            Err(error) => Came::replied(Reply::Refused(error.to_string())),
        }
    }
}
