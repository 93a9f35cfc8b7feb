//! Operations on records in mode fast. The value of an attribute is the operation that wrote it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use records::{Attribute, Attributes, Draft, ExpiryRule, Overwrite, Record, Records, RecordsError};
use store::{Deadline, UnixMillis};

use super::{Came, Seen};
use crate::model::Reply;
use crate::trace::Op;

/// Names of attributes: few, so that operations meet.
pub(crate) const ATTRIBUTES: [&str; 3] = ["a", "b", "c"];

/// An operation on a record in mode fast.
#[derive(Clone, Debug)]
pub(crate) struct FastWork {
    pub(crate) id: Bytes,
    pub(crate) what: FastChange,
    /// The time within which it has to end.
    pub(crate) within: Duration,
}

/// What it does.
#[derive(Clone, Debug)]
pub(crate) enum FastChange {
    /// Reads the record.
    Read,
    /// Sets attributes without reading. Each expires by itself after `life`, and as a part of the
    /// record after `of_record`.
    Set { names: Vec<Bytes>, life: Option<Duration>, of_record: Option<Duration> },
    /// Puts all attributes in the place of what there is. They expire together.
    Put { life: Option<Duration> },
    /// Deletes an attribute without reading.
    Drop { name: Bytes },
    /// Deletes the record without reading.
    Delete,
    /// Lets an attribute that is there expire after that time.
    Expire { name: Bytes, life: Duration },
    /// Lets an attribute that is there expire no more by itself.
    Persist { name: Bytes },
}

/// What a read shows: the value of each attribute, and when it expires.
pub(crate) type FastFound = BTreeMap<Bytes, (Bytes, Option<UnixMillis>)>;

impl FastWork {
    /// Runs it.
    pub(crate) async fn run(self, op: Op, records: &Records) -> Came {
        let Self { id, what, within } = self;
        let deadline = Deadline::within(within);
        let ended = match what {
            FastChange::Read => match records.read(deadline, &id).await {
                Ok(record) => return shown(record.as_ref()),
                Err(error) => Err(error),
            },
            FastChange::Expire { name, life } => {
                let expire = |attributes: &mut Attributes, now: UnixMillis| {
                    attributes.expire(&name, now.plus(life), ExpiryRule::default(), now);
                };
                refresh(records, deadline, id, expire).await
            }
            FastChange::Persist { name } => {
                let persist = |attributes: &mut Attributes, _: UnixMillis| {
                    attributes.persist(&name);
                };
                refresh(records, deadline, id, persist).await
            }
            written => records.overwrite(deadline, &id, overwrite(&written, op, records.now())).await,
        };
        match ended {
            Ok(()) => Came::replied(Reply::Done(None)),
            Err(RecordsError::Unknown(why)) => Came::replied(Reply::Unknown(why)),
            Err(error) => Came::replied(Reply::Refused(error.to_string())),
        }
    }
}

/// What is written without being read. A change that reads writes nothing here.
fn overwrite(change: &FastChange, op: Op, now: UnixMillis) -> Overwrite {
    let value = |life: Option<Duration>| Attribute {
        value: Bytes::from(op.to_string()),
        expires_at: life.map(|life| now.plus(life)),
    };
    let mut overwrite = Overwrite::new(now);
    match change {
        FastChange::Set { names, life, of_record } => {
            let of_record = of_record.map(|life| now.plus(life));
            names.iter().for_each(|name| overwrite.set(name.clone(), value(*life), of_record));
        }
        FastChange::Put { life } => {
            let attributes = ATTRIBUTES.map(|name| (Bytes::from_static(name.as_bytes()), value(None)));
            let record = Record::attributes(attributes.into_iter().collect());
            overwrite.put(Record { expires_at: life.map(|life| now.plus(life)), ..record });
        }
        FastChange::Drop { name } => overwrite.delete_attribute(name.clone()),
        FastChange::Delete => overwrite.delete(),
        FastChange::Read | FastChange::Expire { .. } | FastChange::Persist { .. } => {}
    }
    overwrite
}

/// Changes the attributes that are there, at a time.
async fn refresh(
    records: &Records,
    deadline: Deadline,
    id: Bytes,
    change: impl Fn(&mut Attributes, UnixMillis),
) -> Result<(), RecordsError> {
    let change_all = |drafts: &mut [Draft]| {
        for draft in drafts {
            let now = draft.now;
            draft.change_record(|record| record.as_attributes_mut().map(|attributes| change(attributes, now)));
        }
    };
    records.change(deadline, &[id], change_all).await
}

/// What a record shows.
fn shown(record: Option<&Record>) -> Came {
    let Some(record) = record else { return Came::seen(Seen::Fast(FastFound::new())) };
    let Ok(attributes) = record.as_attributes() else {
        return Came::seen(Seen::Wrong(format!("a record of attributes is {record:?}")));
    };
    let shown = attributes.iter().map(|(name, attribute)| {
        // What comes first, the expiry of the attribute or that of the record.
        let expires_at = attribute.expires_at.into_iter().chain(record.expires_at).min();
        (name.clone(), (attribute.value.clone(), expires_at))
    });
    Came::seen(Seen::Fast(shown.collect()))
}
