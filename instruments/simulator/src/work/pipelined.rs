//! Changes of several records by a client that does not wait in between. They run as the door for
//! records runs them: those whose turns are free as one, and the others each by itself.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use records::{Draft, Records, RecordsError};
use store::{Deadline, StoreError};

use super::records::reply_of;
use super::{Came, Found, RecordWork, Seen};
use crate::model::Reply;
use crate::trace::Op;

/// Changes that arrive together.
#[derive(Clone, Debug)]
pub(crate) struct Pipelined {
    /// Each is of one record, and no two are of the same one.
    pub(crate) changes: Vec<RecordWork>,
    /// The time within which all of them have to end.
    pub(crate) within: Duration,
    /// Whether turns are given back before their writes have ended. That is a mistake.
    pub(crate) is_careless: bool,
}

/// The answer to one of the changes: its reply, and what it began with.
pub(crate) type Answer = (Reply, Found);

impl Pipelined {
    /// Runs them. There is an answer to each, in their order.
    pub(crate) async fn run(self, op: Op, records: &Records) -> Came {
        let deadline = Deadline::within(self.within);
        let as_one = self.as_one(op, deadline, records).await;
        let each: Vec<_> = self
            .changes
            .iter()
            .zip(as_one)
            .map(|(change, answer)| answer_to(change, answer, op, deadline, records))
            .collect();
        Came::seen(Seen::Pipelined(join_all(each).await))
    }

    /// Makes those changes as one whose turns are free. The others have no answer then, and none has
    /// one if all were refused.
    async fn as_one(&self, op: Op, deadline: Deadline, records: &Records) -> Vec<Option<Answer>> {
        let (turns, are_free) = records.free_turns(&ids_of(self.changes.iter()));
        let free = self.changes.iter().zip(&are_free).filter(|(_, is_free)| **is_free);
        let free: Vec<&RecordWork> = free.map(|(change, _)| change).collect();
        // Those that are kept here end with this call, even if a write goes on.
        let (turns, _kept) = if self.is_careless { (records.free_turns(&[]).0, Some(turns)) } else { (turns, None) };
        let change = |drafts: &mut [Draft]| -> Found {
            free.iter().zip(drafts).map(|(change, draft)| change.what.make(op, draft)).collect()
        };
        let ids = ids_of(free.iter().copied());
        let answers: Vec<Answer> = match records.change_in_turn(deadline, turns, &ids, change).await {
            Ok(found) => found.into_iter().map(|found| (Reply::Done(None), vec![found])).collect(),
            Err(error @ (RecordsError::Unknown(_) | RecordsError::Store(StoreError::Overloaded(_)))) => {
                ids.iter().map(|_| (reply_of(&error), Found::new())).collect()
            }
            Err(_) => Vec::new(),
        };
        let mut answers = answers.into_iter();
        are_free.into_iter().map(|is_free| if is_free { answers.next() } else { None }).collect()
    }
}

fn ids_of<'a>(changes: impl Iterator<Item = &'a RecordWork>) -> Vec<Bytes> {
    changes.flat_map(|change| change.ids.iter().cloned()).collect()
}

/// The answer to a change. If there is none yet, it is made by itself.
async fn answer_to(
    change: &RecordWork,
    answer: Option<Answer>,
    op: Op,
    deadline: Deadline,
    records: &Records,
) -> Answer {
    if let Some(answer) = answer {
        return answer;
    }
    match change.attempt(op, deadline, records).await {
        Ok(found) => (Reply::Done(None), found),
        Err(error) => (reply_of(&error), Found::new()),
    }
}
