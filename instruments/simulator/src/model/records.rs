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
    then: Option<Record>,
    /// The step from which every strong read finds it, or a later state.
    settled: Option<u64>,
}

/// The past of all records, and what clients got.
#[derive(Debug, Default)]
pub(crate) struct RecordsPast {
    decided: BTreeMap<Bytes, Vec<Decision>>,
    /// The changes of each operation that ended or whose server died. Several that arrived together are
    /// of the same operation.
    ended: Vec<(Op, RecordWork, Reply)>,
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
    /// Whether it sees every change that had finished when it began.
    pub(crate) sees_all: bool,
    /// Whether what its server read of a change without an answer is seen by all later readers. In
    /// another data center it may not be.
    pub(crate) settles: bool,
}

impl RecordsPast {
    /// A state was decided. Every strong read finds it if `is_settled`.
    pub(crate) fn decided(&mut self, id: &Bytes, step: u64, then: Option<&PlainValue>, is_settled: bool) {
        let then = then.and_then(|value| stored::open(&value.value).ok());
        let settled = is_settled.then_some(step);
        self.decided.entry(id.clone()).or_default().push(Decision { step, then, settled });
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
        self.ended.push((op, work.clone(), reply));
        if !is_done {
            return None;
        }
        if found.len() != work.ids.len() {
            return Some(format!("it found {found:?}"));
        }
        work.ids.iter().zip(found).find_map(|(id, found)| match work.what {
            RecordChange::Read => self.wrong_read(id, found.as_ref(), ran),
            RecordChange::Count { .. } | RecordChange::Attribute { .. } => {
                self.wrong_change(id, found.as_ref(), ran, |then| is_by(then, op))
            }
            RecordChange::Delete if found.is_none() => self.wrong_read(id, None, ran),
            RecordChange::Delete => self.wrong_change(id, found.as_ref(), ran, |then| then.is_none()),
        })
    }

    /// What is wrong with the answer to a change: it must have been made while it ran, of what the
    /// answer says.
    fn wrong_change(
        &self,
        id: &Bytes,
        found: Option<&Record>,
        ran: &Ran,
        is_mine: impl Fn(Option<&Record>) -> bool,
    ) -> Option<String> {
        let decided = self.decided.get(id).map(Vec::as_slice).unwrap_or_default();
        let before = |at: usize| at.checked_sub(1).and_then(|before| decided[before].then.as_ref());
        let mut mine = decided
            .iter()
            .enumerate()
            .filter(|(_, decision)| ran.steps.contains(&decision.step) && is_mine(decision.then.as_ref()));
        let is_right = |(at, _): (usize, &Decision)| may_be_seen_as(before(at), found, ran);
        (!mine.any(is_right)).then(|| format!("it found {found:?} of {}, which became {decided:?}", id.escape_ascii()))
    }

    /// What is wrong with what was read: it must have been so while it was read.
    fn wrong_read(&mut self, id: &Bytes, found: Option<&Record>, ran: &Ran) -> Option<String> {
        let decided = self.decided.get_mut(id).map(Vec::as_mut_slice).unwrap_or_default();
        let settled = decided.iter().rposition(|decision| decision.settled.is_some_and(|at| at < *ran.steps.start()));
        let least = settled.filter(|_| ran.sees_all);
        let was_absent = least.is_none() && found.is_none();
        let from = least.unwrap_or(0);
        let seen = (from..decided.len()).rev().find(|at| may_be_seen_as(decided[*at].then.as_ref(), found, ran));
        // Without a note of its operation, what was read may be one of several decisions.
        let is_known = found.and_then(Counted::of).is_some();
        match seen {
            // Reading brings what was read to as many replicas as the next reader asks.
            Some(at) if ran.settles && is_known => {
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

    /// What is wrong at the end of a run with the number of changes that each operation made, and with
    /// their order.
    pub(crate) fn wrong_in_the_end(&self) -> Vec<String> {
        let changes = |op: Op, id: &Bytes| {
            let decided = self.decided.get(id).map(Vec::as_slice).unwrap_or_default();
            decided.iter().filter(|decision| is_by(decision.then.as_ref(), op)).count()
        };
        let counts = self
            .ended
            .iter()
            .filter(|(_, work, _)| matches!(work.what, RecordChange::Count { .. } | RecordChange::Attribute { .. }));
        counts
            .filter_map(|(op, work, reply)| {
                let made: Vec<usize> = work.ids.iter().map(|id| changes(*op, id)).collect();
                let is_right = match reply {
                    Reply::Done(_) => made.iter().all(|made| *made == 1),
                    Reply::Refused(_) => made.iter().all(|made| *made == 0),
                    Reply::Unknown(_) => made.iter().all(|one| *one <= 1 && *one == made[0]),
                };
                (!is_right).then(|| format!("op {op} ({work:?}) ended with {reply:?}, and made {made:?} changes"))
            })
            .chain(self.overwritten())
            .collect()
    }

    /// Changes that were overwritten by others which did not begin with them.
    fn overwritten(&self) -> impl Iterator<Item = String> {
        self.decided.iter().filter_map(|(id, decided)| {
            let mut before = None;
            for then in decided.iter().map(|decision| decision.then.as_ref()) {
                if !follows(then, before) {
                    return Some(format!("{} was {before:?}, and then {then:?}", id.escape_ascii()));
                }
                before = then;
            }
            None
        })
    }
}

/// Whether an operation has made a state.
fn is_by(then: Option<&Record>, op: Op) -> bool {
    then.and_then(Counted::of).is_some_and(|is| is.by == op)
}

/// Whether a change can begin with a state: it counts on from there, or from 1 if that may have expired.
fn follows(then: Option<&Record>, before: Option<&Record>) -> bool {
    let Some(Counted { changes, .. }) = then.and_then(Counted::of) else { return true };
    let counts_on = before.and_then(Counted::of).is_some_and(|before| before.changes + 1 == changes);
    let may_be_gone = before.is_none_or(|before| expiries(before).next().is_some());
    counts_on || (may_be_gone && changes == 1)
}

/// When parts of a record expire, and all of it.
fn expiries(record: &Record) -> impl Iterator<Item = UnixMillis> {
    let of_attributes = record.as_attributes().into_iter().flat_map(|attributes| attributes.iter());
    of_attributes.filter_map(|(_, attribute)| attribute.expires_at).chain(record.expires_at)
}

/// Whether an operation can find this of a state. What had expired when it began is never found.
fn may_be_seen_as(then: Option<&Record>, found: Option<&Record>, ran: &Ran) -> bool {
    let Some(then) = then else { return found.is_none() };
    // It looks alike until something of it expires.
    let meanwhile = expiries(then).filter(|at| ran.from < *at && *at <= ran.to);
    std::iter::once(ran.from).chain(meanwhile).any(|now| then.clone().live(now).as_ref() == found)
}

#[cfg(test)]
mod tests {
    use records::{Attribute, Attributes};

    use super::*;

    fn record(attributes: &[(&'static str, Option<u64>)]) -> Record {
        let attribute = |&(name, at): &(&'static str, Option<u64>)| {
            let name = Bytes::from_static(name.as_bytes());
            (name.clone(), Attribute { value: name, expires_at: at.map(UnixMillis) })
        };
        Record::attributes(attributes.iter().map(attribute).collect::<Attributes>())
    }

    #[test]
    fn attributes_are_missed_in_the_order_in_which_they_expire() {
        let ran = Ran { steps: 1..=9, from: UnixMillis(100), to: UnixMillis(110), sees_all: true, settles: true };
        let then = record(&[("a", Some(100)), ("b", Some(104)), ("c", Some(106)), ("d", None)]);
        let is_found = |rest: &[_]| may_be_seen_as(Some(&then), Some(&record(rest)), &ran);
        assert!(is_found(&[("b", Some(104)), ("c", Some(106)), ("d", None)]));
        assert!(is_found(&[("c", Some(106)), ("d", None)]) && is_found(&[("d", None)]));
        assert!(!is_found(&[("b", Some(104)), ("d", None)]), "one is gone, and one that expires earlier is there");
        assert!(!is_found(&[("a", Some(100)), ("b", Some(104)), ("c", Some(106)), ("d", None)]), "one had expired");
        assert!(!is_found(&[("d", Some(200))]) && !may_be_seen_as(Some(&then), None, &ran));
        assert!(may_be_seen_as(Some(&record(&[("a", Some(110))])), None, &ran));
        assert!(!may_be_seen_as(Some(&record(&[("a", Some(111))])), None, &ran));
    }

    #[test]
    fn a_change_counts_on_from_the_one_before_it_unless_that_may_have_expired() {
        let text = |text: &'static str, expires_at: Option<u64>| {
            let expires_at = expires_at.map(UnixMillis);
            Record { expires_at, ..Record::text(Bytes::from_static(text.as_bytes())) }
        };
        let (first, second, short) = (text("1 7", None), text("2 8", None), text("1 7", Some(100)));
        assert!(follows(Some(&first), None) && follows(Some(&second), Some(&first)) && follows(None, Some(&first)));
        assert!(follows(Some(&first), Some(&short)) && follows(Some(&second), Some(&short)));
        assert!(!follows(Some(&first), Some(&second)), "it did not see what was there");
        assert!(!follows(Some(&second), Some(&second)) && !follows(Some(&second), None), "it saw what was not there");
    }
}
