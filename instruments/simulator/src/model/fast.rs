//! What records in mode fast must say, by what was written: of each row the last write counts.
//!
//! A read sees some of the writes: all that were acknowledged to where it reads before it began,
//! perhaps others that were sent before it ended, and none that was refused. A write of several
//! rows is seen as a whole.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use records::Record;
use store::{UnixMillis, stored};

use super::Reply;
use crate::store::replica::{Cell, Mutation, Partition, Tombstone};
use crate::trace::Op;
use crate::work::{ATTRIBUTES, FastChange, FastFound, FastWork};

/// Sort keys of attributes begin with this, as in the crate `records`.
const ATTRIBUTE: u8 = b'a';

/// The sort key of a text.
const TEXT: &[u8] = b"t";

/// A write that was sent.
#[derive(Clone, Debug)]
struct Write {
    /// `None`: what was there when everything had healed.
    by: Option<Op>,
    /// The data center in which it was sent; `None`: all have it.
    center: Option<usize>,
    mutation: Mutation,
    /// The step at which it was sent.
    sent: u64,
    end: End,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Perhaps it is made, now or later.
    Unknown,
    /// It was acknowledged at that step.
    Made(u64),
    /// It is never made.
    Refused,
}

/// All writes, in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct FastPast(Vec<Write>);

/// When and where an operation ran.
#[derive(Clone, Debug)]
pub(crate) struct RanFast {
    /// The steps from its beginning to its end.
    pub(crate) steps: RangeInclusive<u64>,
    /// The time of its server when it began.
    pub(crate) from: UnixMillis,
    /// The time of its server when it ended.
    pub(crate) to: UnixMillis,
    /// The data centers whose acknowledged writes its reads see.
    pub(crate) sees: Vec<usize>,
}

impl FastPast {
    /// A write is sent. Returns its number.
    pub(crate) fn begun(&mut self, by: Option<Op>, center: usize, mutation: &Mutation, step: u64) -> usize {
        let mutation = mutation.clone();
        self.0.push(Write { by, center: Some(center), mutation, sent: step, end: End::Unknown });
        self.0.len() - 1
    }

    /// A write was acknowledged at a step.
    pub(crate) fn made(&mut self, write: usize, step: u64) {
        self.0[write].end = End::Made(step);
    }

    /// A write is never made.
    pub(crate) fn refused(&mut self, write: usize) {
        self.0[write].end = End::Refused;
    }

    /// An operation ended, or its server died. Returns what is wrong with its reply and with what
    /// it found.
    pub(crate) fn ended(
        &self,
        op: Op,
        work: &FastWork,
        reply: &Reply,
        found: Option<&FastFound>,
        ran: &RanFast,
    ) -> Option<String> {
        let mine: Vec<&Write> = self.0.iter().filter(|write| write.by == Some(op)).collect();
        let has = |end: fn(End) -> bool| mine.iter().any(|write| end(write.end));
        match reply {
            Reply::Refused(_) if has(|end| end != End::Refused) => Some(format!("was refused, and wrote {mine:?}")),
            Reply::Done(_) if has(|end| !matches!(end, End::Made(_))) => {
                Some(format!("was done, and has not surely written {mine:?}"))
            }
            Reply::Done(_) => match (&work.what, found) {
                (FastChange::Read, Some(found)) => self.wrong_read(&work.id, found, ran),
                (FastChange::Read, None) => Some("has read nothing".to_owned()),
                (change, _) => self.wrong_writes(op, change, &mine, ran),
            },
            Reply::Refused(_) | Reply::Unknown(_) => None,
        }
    }

    /// What is wrong with what a change has written.
    fn wrong_writes(&self, op: Op, change: &FastChange, mine: &[&Write], ran: &RanFast) -> Option<String> {
        let is_right = match (change, mine) {
            (FastChange::Expire { .. } | FastChange::Persist { .. }, []) => true,
            (FastChange::Expire { name, life }, [write]) => {
                let is_within = |at: UnixMillis| at <= ran.to.plus(*life);
                self.is_refresh(write, name) && write.mutation.puts[0].1.expires_at.is_some_and(is_within)
            }
            (FastChange::Persist { name }, [write]) => self.is_refresh(write, name),
            (FastChange::Set { names, life, of_record }, [write]) => {
                let life = life.iter().chain(of_record).min().copied();
                puts(write, op, names, life, ran) && removes(write, TEXT)
            }
            (FastChange::Put { life }, [write]) => {
                let names = ATTRIBUTES.map(|name| Bytes::from_static(name.as_bytes()));
                puts(write, op, &names, *life, ran) && removes_all(write)
            }
            (FastChange::Drop { name }, [write]) => {
                write.mutation.puts.is_empty() && removes(write, &sort_of(name)) && !removes_all(write)
            }
            (FastChange::Delete, [write]) => write.mutation.puts.is_empty() && removes_all(write),
            _ => false,
        };
        (!is_right).then(|| format!("has written {mine:?}"))
    }

    /// Whether a write puts one attribute as an earlier write had left it, at the next write time.
    /// So it adds nothing, and loses no later write.
    fn is_refresh(&self, write: &Write, name: &Bytes) -> bool {
        let Mutation { place, puts, tombstones, .. } = &write.mutation;
        let [(sort, cell)] = &puts[..] else { return false };
        let is_before = |(other, before): &(Bytes, Cell)| {
            other == sort && before.time + 1 == cell.time && value_of(before) == value_of(cell)
        };
        let earlier = self.0.iter().filter(|earlier| earlier.mutation.place == *place && earlier.end != End::Refused);
        tombstones.is_empty()
            && sort[..] == sort_of(name)[..]
            && earlier.flat_map(|earlier| &earlier.mutation.puts).any(is_before)
    }

    /// What is wrong with what was read.
    fn wrong_read(&self, id: &Bytes, found: &FastFound, ran: &RanFast) -> Option<String> {
        let wrong = |what: &str, name: &[u8]| {
            let of_id: Vec<&Write> = self.0.iter().filter(|write| write.mutation.place.1 == *id).collect();
            Some(format!("reads {found:?}: {what} {}; written were {of_id:?}", name.escape_ascii()))
        };
        let may: Vec<&Write> = self.0.iter().filter(|write| write.may_be_seen(id, ran)).collect();
        let mut seen = Partition::default();
        may.iter().filter(|write| write.must_be_seen(ran)).for_each(|write| seen.apply(&write.mutation));
        // The writes that a value can be from. If there is only one, all of it was seen.
        let mut of_found = Vec::new();
        for (name, (value, expires_at)) in found {
            let (sort, mut from) = (sort_of(name), Vec::new());
            for write in &may {
                let is_it = |(other, cell): &&(Bytes, Cell)| {
                    *other == sort && cell.expires_at == *expires_at && value_of(cell).as_ref() == Some(value)
                };
                from.extend(write.mutation.puts.iter().filter(is_it).map(|(_, cell)| (*write, cell)));
            }
            match from[..] {
                [] => return wrong("nobody wrote this value of", name),
                [(write, _)] => seen.apply(&write.mutation),
                _ => {}
            }
            if expires_at.is_some_and(|at| at <= ran.from) {
                return wrong("before that had expired", name);
            }
            of_found.push((name, sort, from));
        }
        for (name, sort, from) in &of_found {
            if from.iter().all(|(_, cell)| is_overwritten(&seen, sort, cell)) {
                return wrong("a later write has changed", name);
            }
        }
        let is_found = |sort: &Bytes| of_found.iter().any(|(_, other, _)| other == sort);
        let lost = seen.cells.iter().find(|(sort, cell)| {
            let is_gone = cell.expires_at.is_some_and(|at| at <= ran.to);
            !is_found(sort) && !is_gone && !may.iter().any(|write| write.may_hide(sort, cell, ran))
        });
        lost.and_then(|(sort, _)| wrong("it misses the row", sort))
    }

    /// Everything has healed, and this is what all replicas have of a record. Returns what is wrong
    /// with it. From then on it is what was written, as if by one write.
    pub(crate) fn healed(&mut self, id: &Bytes, now: &Partition, step: u64) -> Option<String> {
        let (of_id, others): (Vec<Write>, Vec<Write>) =
            std::mem::take(&mut self.0).into_iter().partition(|write| write.mutation.place.1 == *id);
        let puts = |write: &Write| write.mutation.puts.clone();
        let sent: Vec<(Bytes, Cell)> = of_id.iter().filter(|write| write.end != End::Refused).flat_map(puts).collect();
        let made: Vec<(Bytes, Cell)> =
            of_id.iter().filter(|write| matches!(write.end, End::Made(_))).flat_map(puts).collect();
        let removed: Vec<&Tombstone> = of_id
            .iter()
            .filter(|write| matches!(write.end, End::Made(_)))
            .flat_map(|write| &write.mutation.tombstones)
            .collect();
        let is_unwritten = |(sort, cell): &(&Bytes, &Cell)| !sent.iter().any(|(at, put)| at == *sort && put == *cell);
        let is_back = |(sort, cell): &(&Bytes, &Cell)| removed.iter().any(|gone| gone.covers(sort, cell.time));
        let is_there = |sort: &Bytes, cell: &Cell| {
            let is_removed = now.tombstones.iter().any(|gone| gone.covers(sort, cell.time));
            is_removed || now.cells.get(sort).is_some_and(|is| (is.time, &is.value) >= (cell.time, &cell.value))
        };
        let wrong = if now.cells.iter().any(|row| is_unwritten(&row)) {
            Some("nobody wrote what is there")
        } else if now.cells.iter().any(|row| is_back(&row)) {
            Some("something that was removed is there")
        } else if made.iter().any(|(sort, cell)| !is_there(sort, cell)) {
            Some("an acknowledged write is lost")
        } else {
            None
        };
        let wrong = wrong.map(|what| format!("{}: {what}: {now:?} of {of_id:?}", id.escape_ascii()));
        self.0 = others;
        if let Some(place) = of_id.first().map(|write| write.mutation.place.clone()) {
            let mutation = now.part(place, &Bytes::new(), None);
            self.0.push(Write { by: None, center: None, mutation, sent: step, end: End::Made(step) });
        }
        wrong
    }
}

impl Write {
    fn may_be_seen(&self, id: &Bytes, ran: &RanFast) -> bool {
        self.mutation.place.1 == *id && self.end != End::Refused && self.sent <= *ran.steps.end()
    }

    fn must_be_seen(&self, ran: &RanFast) -> bool {
        let is_seen_there = self.center.is_none_or(|center| ran.sees.contains(&center));
        is_seen_there && matches!(self.end, End::Made(step) if step < *ran.steps.start())
    }

    /// Whether this hides a row from a read: it removes it, or replaces it by something that has
    /// expired.
    fn may_hide(&self, sort: &Bytes, cell: &Cell, ran: &RanFast) -> bool {
        let replaces = |(other, put): &(Bytes, Cell)| {
            let is_later = (put.time, &put.value) > (cell.time, &cell.value);
            other == sort && is_later && put.expires_at.is_some_and(|at| at <= ran.to)
        };
        self.mutation.tombstones.iter().any(|gone| gone.covers(sort, cell.time))
            || self.mutation.puts.iter().any(replaces)
    }
}

/// Whether a later write that was seen has changed or removed a row.
fn is_overwritten(seen: &Partition, sort: &Bytes, cell: &Cell) -> bool {
    let is_removed = seen.tombstones.iter().any(|gone| gone.covers(sort, cell.time));
    is_removed || seen.cells.get(sort).is_some_and(|is| (is.time, &is.value) > (cell.time, &cell.value))
}

/// Whether a write puts these attributes and no others, each with the number of its operation and
/// an expiry that was set while it ran.
fn puts(write: &Write, op: Op, names: &[Bytes], life: Option<Duration>, ran: &RanFast) -> bool {
    let value = Bytes::from(op.to_string());
    let is_right = |name: &Bytes| {
        let sort = sort_of(name);
        let cell = write.mutation.puts.iter().find(|(other, _)| *other == sort).map(|(_, cell)| cell);
        cell.is_some_and(|cell| value_of(cell).as_ref() == Some(&value) && has_life(cell, life, ran))
    };
    write.mutation.puts.len() == names.len() && names.iter().all(is_right)
}

fn has_life(cell: &Cell, life: Option<Duration>, ran: &RanFast) -> bool {
    match (cell.expires_at, life) {
        (Some(at), Some(life)) => (ran.from.plus(life)..=ran.to.plus(life)).contains(&at),
        (None, None) => true,
        _ => false,
    }
}

fn removes(write: &Write, sort: &[u8]) -> bool {
    let sort = Bytes::copy_from_slice(sort);
    write.mutation.tombstones.iter().any(|gone| gone.covers(&sort, gone.time))
}

/// Whether a write removes all rows that there were.
fn removes_all(write: &Write) -> bool {
    let is_all = |gone: &Tombstone| gone.from.is_empty() && gone.to.is_none();
    let puts_after = |gone: &Tombstone| write.mutation.puts.iter().all(|(_, cell)| cell.time > gone.time);
    write.mutation.tombstones.iter().any(|gone| is_all(gone) && puts_after(gone))
}

fn sort_of(name: &[u8]) -> Bytes {
    Bytes::from([&[ATTRIBUTE], name].concat())
}

/// The value of the attribute that a row holds.
fn value_of(cell: &Cell) -> Option<Bytes> {
    let record: Record = stored::open(&cell.value).ok()?;
    let (_, attribute) = record.as_attributes().ok()?.at(0)?;
    Some(attribute.value.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use records::{Attribute, Attributes};
    use store::{NewRow, Table};

    use super::*;

    const ID: Bytes = Bytes::from_static(b"r0");

    fn name(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn put(attributes: &[&'static str], op: Op, expires_at: Option<u64>, time: i64) -> Mutation {
        let expires_at = expires_at.map(UnixMillis);
        let row = |&attribute: &&'static str| {
            let value = Attribute { value: op.to_string().into(), expires_at };
            let attributes: Attributes = [(name(attribute), value)].into_iter().collect();
            let value = stored::seal(&Record::attributes(attributes)).unwrap();
            NewRow { expires_at, ..NewRow::new(sort_of(attribute.as_bytes()), value) }
        };
        let rows: Vec<NewRow> = attributes.iter().map(row).collect();
        Mutation::put((Table::Records, ID), &rows, time)
    }

    fn found(attributes: &[(&'static str, Op, Option<u64>)]) -> FastFound {
        let one = |&(attribute, op, at): &(&'static str, Op, Option<u64>)| {
            (name(attribute), (Bytes::from(op.to_string()), at.map(UnixMillis)))
        };
        attributes.iter().map(one).collect()
    }

    fn ran(steps: RangeInclusive<u64>) -> RanFast {
        RanFast { steps, from: UnixMillis(100), to: UnixMillis(110), sees: vec![0] }
    }

    /// A write by operation 1 of two attributes, and by operation 2 of one of them.
    fn two_writes() -> FastPast {
        let mut past = FastPast::default();
        let first = past.begun(Some(1), 0, &put(&["a", "b"], 1, None, 1_000), 1);
        past.made(first, 2);
        let second = past.begun(Some(2), 0, &put(&["a"], 2, Some(105), 2_000), 5);
        past.made(second, 6);
        past
    }

    #[test]
    fn a_read_sees_all_that_was_acknowledged_before_it_and_perhaps_what_was_sent_meanwhile() {
        let past = two_writes();
        let reads = |attributes: &[_], steps| past.wrong_read(&ID, &found(attributes), &ran(steps)).is_none();
        let (first, second) = ([("a", 1, None), ("b", 1, None)], [("a", 2, Some(105)), ("b", 1, None)]);
        assert!(reads(&first, 3..=4) && !reads(&second, 3..=4), "the second is not sent yet");
        assert!(reads(&first, 3..=7) && reads(&second, 3..=7), "the second is sent meanwhile");
        assert!(!reads(&first, 7..=8) && reads(&second, 7..=8));
        assert!(reads(&[("b", 1, None)], 7..=8), "the second may have expired");
        assert!(!reads(&[], 7..=8) && !reads(&[("a", 2, Some(105))], 7..=8), "the first may not");
        assert!(reads(&[], 0..=8) && !reads(&[("a", 1, None)], 0..=4), "a write is seen as a whole");
        assert!(!reads(&[("b", 3, None)], 0..=8), "nobody wrote it");
    }

    #[test]
    fn a_refused_write_is_never_seen_and_one_elsewhere_need_not_be() {
        let mut past = two_writes();
        past.refused(1);
        let second = found(&[("a", 2, Some(105)), ("b", 1, None)]);
        assert!(past.wrong_read(&ID, &second, &ran(7..=8)).is_some());
        let far = RanFast { sees: vec![1], ..ran(7..=8) };
        assert!(past.wrong_read(&ID, &found(&[]), &far).is_none());
        assert!(past.wrong_read(&ID, &found(&[]), &ran(7..=8)).is_some());
    }

    #[test]
    fn what_has_expired_when_a_read_begins_is_not_seen() {
        let mut past = FastPast::default();
        past.begun(Some(1), 0, &put(&["a"], 1, Some(100), 1_000), 1);
        assert!(past.wrong_read(&ID, &found(&[("a", 1, Some(100))]), &ran(0..=9)).is_some());
    }

    #[test]
    fn a_refresh_puts_what_was_there_at_the_next_write_time() {
        let mut past = two_writes();
        past.begun(Some(3), 0, &put(&["a"], 2, Some(120), 2_001), 7);
        assert!(past.is_refresh(&past.0[2], &name("a")) && !past.is_refresh(&past.0[2], &name("b")));
        past.begun(Some(4), 0, &put(&["a"], 2, Some(120), 2_009), 8);
        assert!(!past.is_refresh(&past.0[3], &name("a")), "it could hide a write of between");
        past.begun(Some(5), 0, &put(&["a"], 1, None, 2_001), 9);
        assert!(!past.is_refresh(&past.0[4], &name("a")), "it is another value");
    }

    #[test]
    fn an_acknowledged_write_that_is_not_there_in_the_end_is_a_violation() {
        let mut now = Partition::default();
        now.apply(&put(&["a", "b"], 1, None, 1_000));
        let wrong = two_writes().healed(&ID, &now, 9).unwrap();
        assert!(wrong.contains("an acknowledged write is lost"), "{wrong}");
        now.apply(&put(&["a"], 2, Some(105), 2_000));
        let mut past = two_writes();
        assert_eq!(past.healed(&ID, &now, 9), None);
        assert_eq!(past.0.len(), 1, "it is one write from then on");
        assert!(past.wrong_read(&ID, &found(&[("a", 2, Some(105)), ("b", 1, None)]), &ran(10..=11)).is_none());
    }
}
