//! Operations on records. A record is a text of two numbers: how often it was changed since it was
//! created, and the operation that changed it last. So each answer shows what the change began
//! with. A record of attributes says the same in one of them.

use std::time::Duration;

use bytes::Bytes;
use records::{Attribute, Draft, ExpiryRule, Record, Records, RecordsError};
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
    /// Changes one record of attributes, and notes the operation in an attribute of its own, which
    /// expires by itself after `noted`. A text is replaced.
    Attribute { change: AttributeChange, noted: Option<Duration> },
    /// Deletes one record.
    Delete,
}

/// A change of the attributes of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AttributeChange {
    /// Sets one, which expires by itself after that time, if there is one.
    Set { name: &'static str, life: Option<Duration> },
    /// Lets one that is there expire by itself after that time.
    Expire { name: &'static str, life: Duration },
    /// Lets one that is there expire no more by itself.
    Persist { name: &'static str },
    /// Deletes one.
    Drop { name: &'static str },
    /// Lets the whole record expire after that time.
    ExpireAll { life: Duration },
}

/// The attribute in which an operation is noted.
const NOTE: &[u8] = b"by";

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
        let text = match record.as_attributes() {
            Ok(attributes) => &attributes.get(NOTE)?.value,
            Err(_) => record.as_text().ok()?,
        };
        let text = std::str::from_utf8(text).ok()?;
        let (changes, by) = text.split_once(' ')?;
        Some(Self { changes: changes.parse().ok()?, by: by.parse().ok()? })
    }

    /// What an operation makes of it.
    fn next(before: Option<&Record>, by: Op) -> Self {
        Self { changes: before.and_then(Self::of).map_or(0, |before| before.changes) + 1, by }
    }

    fn text(self) -> Bytes {
        Bytes::from(format!("{} {}", self.changes, self.by))
    }
}

/// What an operation found, in the order of its ids.
pub(crate) type Found = Vec<Option<Record>>;

impl RecordWork {
    /// Runs it.
    pub(crate) async fn run(self, op: Op, records: &Records) -> Came {
        match self.attempt(op, Deadline::within(self.within), records).await {
            Ok(found) => Came::seen(Seen::Records(found)),
            Err(error) => Came::replied(reply_of(&error)),
        }
    }

    /// Runs it by a deadline.
    pub(super) async fn attempt(&self, op: Op, deadline: Deadline, records: &Records) -> Result<Found, RecordsError> {
        if matches!(self.what, RecordChange::Read) {
            return Ok(vec![records.read(deadline, &self.ids[0]).await?]);
        }
        let change =
            |drafts: &mut [Draft]| -> Found { drafts.iter_mut().map(|draft| self.what.make(op, draft)).collect() };
        records.change(deadline, &self.ids, change).await
    }
}

impl RecordChange {
    /// Makes the change of one record, and returns what was there.
    pub(super) fn make(self, op: Op, draft: &mut Draft) -> Option<Record> {
        let before = draft.record().cloned();
        match self {
            Self::Read => {}
            Self::Count { life } => {
                let expires_at = life.map(|life| draft.now.plus(life));
                let text = Counted::next(before.as_ref(), op).text();
                draft.put(Record { expires_at, ..Record::text(text) });
            }
            Self::Attribute { change, noted } => change_attribute(draft, before.as_ref(), op, change, noted),
            Self::Delete => {
                draft.delete();
            }
        }
        before
    }
}

/// What a client learns from an error.
pub(super) fn reply_of(error: &RecordsError) -> Reply {
    match error {
        RecordsError::Unknown(why) => Reply::Unknown(why.clone()),
        error => Reply::Refused(error.to_string()),
    }
}

/// Changes an attribute of what was there.
fn change_attribute(
    draft: &mut Draft,
    before: Option<&Record>,
    op: Op,
    change: AttributeChange,
    noted: Option<Duration>,
) {
    let now = draft.now;
    let note = Counted::next(before, op).text();
    let mut attributes = before.and_then(|record| record.as_attributes().ok().cloned()).unwrap_or_default();
    let mut expires_at = before.and_then(|record| record.expires_at);
    match change {
        AttributeChange::Set { name, life } => {
            let value = Attribute { value: Bytes::from(op.to_string()), expires_at: life.map(|life| now.plus(life)) };
            attributes.set(Bytes::from_static(name.as_bytes()), value);
        }
        AttributeChange::Expire { name, life } => {
            attributes.expire(name.as_bytes(), now.plus(life), ExpiryRule::default(), now);
        }
        AttributeChange::Persist { name } => {
            attributes.persist(name.as_bytes());
        }
        AttributeChange::Drop { name } => {
            attributes.delete(name.as_bytes());
        }
        AttributeChange::ExpireAll { life } => expires_at = Some(now.plus(life)),
    }
    let note = Attribute { value: note, expires_at: noted.map(|life| now.plus(life)) };
    attributes.set(Bytes::from_static(NOTE), note);
    draft.put(Record { expires_at, ..Record::attributes(attributes) });
}
