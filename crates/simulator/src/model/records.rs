//! What records must say, by what the store decided.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;
use records::Record;
use store::{PlainValue, UnixMillis, stored};

use super::Reply;
use crate::trace::Op;
use crate::work::{Counted, Found, RecordChange, RecordWork};

/// A state of a record that was decided.
#[derive(Clone, Debug)]
struct Decision {
    /// The step at which it was decided.
    step: u64,
    /// `None`: there is no record from then on.
    then: Option<(Counted, Option<UnixMillis>)>,
    /// The step from which every strong read finds it, or a later state.
    settled: Option<u64>,
}

/// The past of all records, and what clients got.
#[derive(Debug, Default)]
pub(crate) struct RecordsPast {
    decided: BTreeMap<Bytes, Vec<Decision>>,
    /// The changes of each operation that ended or whose server died.
    ended: BTreeMap<Op, (RecordWork, Reply)>,
}

/// When an operation ran.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    /// The steps from its beginning to its end.
    pub(crate) steps: RangeInclusive<u64>,
    /// The time of its server when it began.
    pub(crate) from: UnixMillis,
    /// The time of its server when it ended.
    pub(crate) to: UnixMillis,
    /// Whether its server's reads see every finished change.
    pub(crate) sees_all: bool,
    /// Whether what its server read of a change without an answer is seen by all later readers. In
    /// another data center it may not be.
    pub(crate) settles: bool,
}

impl RecordsPast {
    /// A state was decided. Every strong read finds it if `is_settled`.
    pub(crate) fn decided(&mut self, id: &Bytes, step: u64, then: Option<&PlainValue>, is_settled: bool) {
        let counted = |value: &PlainValue| {
            let record: Record = stored::open(&value.value).ok()?;
            Some((Counted::of(&record)?, record.expires_at))
        };
        let settled = is_settled.then_some(step);
        self.decided.entry(id.clone()).or_default().push(Decision { step, then: then.and_then(counted), settled });
    }

    /// Every strong read finds all that was decided of a record.
    pub(crate) fn settled(&mut self, id: &Bytes, step: u64) {
        for decision in self.decided.get_mut(id).into_iter().flatten() {
            decision.settled.get_or_insert(step);
        }
    }

    /// An operation ended. Returns what is wrong with what it found.
    pub(crate) fn ended(
        &mut self,
        op: Op,
        work: &RecordWork,
        reply: Reply,
        found: &Found,
        ran: &Ran,
    ) -> Option<String> {
        let is_done = matches!(reply, Reply::Done(_));
        self.ended.insert(op, (work.clone(), reply));
        if !is_done {
            return None;
        }
        if found.len() != work.ids.len() {
            return Some(format!("it found {found:?}"));
        }
        work.ids.iter().zip(found).find_map(|(id, found)| match work.what {
            RecordChange::Read => self.wrong_read(id, *found, ran),
            RecordChange::Count { .. } => self.wrong_change(id, *found, ran, |then| then.is_some_and(|is| is.by == op)),
            RecordChange::Delete if found.is_none() => self.wrong_read(id, None, ran),
            RecordChange::Delete => self.wrong_change(id, *found, ran, |then| then.is_none()),
        })
    }

    /// What is wrong with the answer to a change: it must have been made while it ran, of what the
    /// answer says.
    fn wrong_change(
        &self,
        id: &Bytes,
        found: Option<Counted>,
        ran: &Ran,
        is_mine: impl Fn(Option<Counted>) -> bool,
    ) -> Option<String> {
        let decided = self.decided.get(id).map(Vec::as_slice).unwrap_or_default();
        let before = |at: usize| at.checked_sub(1).and_then(|before| decided[before].then);
        let mut mine = decided.iter().enumerate().filter(|(_, decision)| {
            ran.steps.contains(&decision.step) && is_mine(decision.then.map(|(counted, _)| counted))
        });
        let is_right = |(at, _): (usize, &Decision)| may_be_seen_as(before(at), found, ran);
        (!mine.any(is_right)).then(|| format!("it found {found:?} of {}, which became {decided:?}", id.escape_ascii()))
    }

    /// What is wrong with what was read: it must have been so while it was read.
    fn wrong_read(&mut self, id: &Bytes, found: Option<Counted>, ran: &Ran) -> Option<String> {
        let decided = self.decided.get_mut(id).map(Vec::as_mut_slice).unwrap_or_default();
        let settled = decided.iter().rposition(|decision| decision.settled.is_some_and(|at| at < *ran.steps.start()));
        let least = settled.filter(|_| ran.sees_all);
        let was_absent = least.is_none() && found.is_none();
        let from = least.unwrap_or(0);
        let seen = (from..decided.len()).rev().find(|at| may_be_seen_as(decided[*at].then, found, ran));
        match seen {
            // Reading brings what was read to as many replicas as the next reader asks.
            Some(at) if ran.settles && decided[at].then.is_some_and(|(is, _)| Some(is) == found) => {
                decided[..=at].iter_mut().for_each(|decision| {
                    decision.settled.get_or_insert(*ran.steps.end());
                });
                None
            }
            Some(_) => None,
            None if was_absent => None,
            None => Some(format!("reads {found:?} of {}, which became {decided:?}", id.escape_ascii())),
        }
    }

    /// What is wrong with the number of changes that each operation made, at the end of a run.
    pub(crate) fn wrong_in_the_end(&self) -> Vec<String> {
        let changes = |op: Op, id: &Bytes| {
            let decided = self.decided.get(id).map(Vec::as_slice).unwrap_or_default();
            decided.iter().filter(|decision| decision.then.is_some_and(|(is, _)| is.by == op)).count()
        };
        let counts = self.ended.iter().filter(|(_, (work, _))| matches!(work.what, RecordChange::Count { .. }));
        counts
            .filter_map(|(op, (work, reply))| {
                let made: Vec<usize> = work.ids.iter().map(|id| changes(*op, id)).collect();
                let is_right = match reply {
                    Reply::Done(_) => made.iter().all(|made| *made == 1),
                    Reply::Refused(_) => made.iter().all(|made| *made == 0),
                    Reply::Unknown(_) => made.iter().all(|one| *one <= 1 && *one == made[0]),
                };
                (!is_right).then(|| format!("op {op} ({work:?}) ended with {reply:?}, and made {made:?} changes"))
            })
            .collect()
    }
}

/// Whether an operation can find this of a state. What had expired when it began is never found.
fn may_be_seen_as(then: Option<(Counted, Option<UnixMillis>)>, found: Option<Counted>, ran: &Ran) -> bool {
    match (then, found) {
        (Some((is, expires_at)), Some(found)) => is == found && expires_at.is_none_or(|at| at > ran.from),
        (Some((_, expires_at)), None) => expires_at.is_some_and(|at| at <= ran.to),
        (None, found) => found.is_none(),
    }
}
