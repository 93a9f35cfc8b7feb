//! Decides whether a list of steps applies, and what it writes. It is checked against the committed
//! rows and against the rows that earlier lists of the same group are about to write.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;
use store::{Outcome, Row, StoreError, StoreResult, Table, UnixMillis};

use crate::forecast::{Moved, hour_of};
use crate::key::KeyRange;
use crate::plan::{Change, Plan, PlannedRow, RowAddress, is_looked_up, put_plainly};
use crate::space::Space;
use crate::tables::{View, live};
use crate::{expiry, value};

/// Writes that are decided but not yet committed; `None` removes.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    writes: BTreeMap<(Space, Bytes), Option<Bytes>>,
    moved: Moved,
}

impl Pending {
    /// Appends the writes of an accepted list, which replace earlier ones of the same keys.
    pub(crate) fn append(&mut self, list: Pending) {
        // The fewer ones are added to the others. (`BTreeMap::append` would build the whole map again
        // for each list.)
        if self.writes.len() < list.writes.len() {
            for (key, value) in std::mem::replace(&mut self.writes, list.writes) {
                self.writes.entry(key).or_insert(value);
            }
        } else {
            self.writes.extend(list.writes);
        }
        for (hour, by) in list.moved {
            *self.moved.entry(hour).or_default() += by;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The changes to write, each key once, and how they move expiries.
    pub(crate) fn into_changes(self) -> (impl Iterator<Item = (Space, Bytes, Option<Bytes>)>, Moved) {
        (self.writes.into_iter().map(|((space, key), value)| (space, key, value)), self.moved)
    }

    fn get(&self, space: Space, key: &Bytes) -> Option<&Option<Bytes>> {
        self.writes.get(&(space, key.clone()))
    }

    fn keys(&self, space: Space, range: &KeyRange) -> impl Iterator<Item = &Bytes> {
        let bound = |bound: &Bound<Vec<u8>>| bound.as_ref().map(|key| (space, Bytes::copy_from_slice(key)));
        let from = match bound(&range.0) {
            Bound::Unbounded => Bound::Included((space, Bytes::new())),
            from => from,
        };
        self.writes
            .range((from, bound(&range.1)))
            .map(|((found, key), _)| (found, key))
            .filter_map(move |(found, key)| (*found == space).then_some(key))
    }
}

/// The decision on a list.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It applies and writes this.
    Accepted(Pending),
    /// It does not apply.
    Refused(Outcome),
}

/// Decides on one list.
pub(crate) fn evaluate(plan: &Plan, view: &View<'_>, group: &Pending, now: UnixMillis) -> StoreResult<Verdict> {
    let mut list = List { view, group, writes: Pending::default(), now };
    for (step, change) in plan.changes.iter().enumerate() {
        if let Err(current) = list.apply(change)? {
            return Ok(Verdict::Refused(Outcome::Refused { step, current }));
        }
    }
    Ok(Verdict::Accepted(list.writes))
}

/// A list under decision.
struct List<'a> {
    view: &'a View<'a>,
    group: &'a Pending,
    writes: Pending,
    now: UnixMillis,
}

/// Done, or refused because of the stored row.
type Applied = Result<(), Option<Row>>;

impl List<'_> {
    fn apply(&mut self, change: &Change) -> StoreResult<Applied> {
        match change {
            Change::Put { table, rows } => self.put(*table, rows)?,
            Change::Require { target, condition } => {
                let current = self.row(target)?;
                return Ok(if condition.holds(current.as_ref()) { Ok(()) } else { Err(current) });
            }
            Change::CompareAndWrite { target, expect, value } => {
                let current = self.row(target)?;
                if !expect.holds(current.as_ref()) {
                    return Ok(Err(current));
                }
                self.write(Space::Rows(target.table), &target.key, Some(value.clone()));
            }
            Change::Replace { target, expect, then } => {
                let raw = self.raw(Space::Rows(target.table), &target.key)?;
                let is_expected = match expect {
                    Some(expect) => raw.as_ref() == Some(&value::encode_plain(&expect.value, expect.expires_at)),
                    None => self.row(target)?.is_none(),
                };
                if !is_expected {
                    return Ok(Err(self.row(target)?));
                }
                match then {
                    Some(row) => self.put(target.table, std::slice::from_ref(row))?,
                    None => {
                        self.write(Space::Rows(target.table), &target.key, None);
                        self.expire(target.table, &target.key, raw.as_ref(), None);
                    }
                }
            }
            Change::RemoveRows { table, keys } => {
                for key in keys {
                    self.remove_plain(*table, key)?;
                }
            }
            Change::RemoveRange { table, range } => {
                if let Some(range) = range {
                    for key in self.keys(Space::Rows(*table), range)? {
                        self.remove_plain(*table, &key)?;
                    }
                }
            }
            Change::DropGuarded { target, expect } => {
                let current = self.row(target)?;
                if !expect.holds(current.as_ref()) {
                    return Ok(Err(current));
                }
                self.write(Space::Rows(target.table), &target.key, None);
            }
            Change::Reclaim { entries } => {
                for entry in entries {
                    self.reclaim(entry)?;
                }
            }
        }
        Ok(Ok(()))
    }

    fn put(&mut self, table: Table, rows: &[PlannedRow]) -> StoreResult<()> {
        let is_looked_up = is_looked_up(table);
        for row in rows {
            let before = match is_looked_up.then(|| self.raw(Space::Rows(table), &row.key)) {
                // It cannot be read and is about to be replaced. Its entry goes when it is due.
                None | Some(Err(StoreError::Corrupt { .. })) => None,
                Some(before) => before?,
            };
            if before.as_ref().is_some_and(|raw| value::is_guarded(raw)) {
                return Err(put_plainly(table));
            }
            self.write(Space::Rows(table), &row.key, Some(row.value.clone()));
            self.expire(table, &row.key, before.as_ref(), row.expiry.as_ref());
        }
        Ok(())
    }

    /// Removes a row unless it is guarded.
    fn remove_plain(&mut self, table: Table, key: &Bytes) -> StoreResult<()> {
        let Some(raw) = self.raw(Space::Rows(table), key)? else { return Ok(()) };
        if value::decode(&raw).is_none_or(|value| value.guard.is_none()) {
            self.write(Space::Rows(table), key, None);
            self.expire(table, key, Some(&raw), None);
        }
        Ok(())
    }

    /// Removes a row by its entry, and the entry.
    fn reclaim(&mut self, entry: &Bytes) -> StoreResult<()> {
        let Some((table, key)) = expiry::decode(entry) else {
            self.write(Space::Expiries, entry, None);
            return Ok(());
        };
        let raw = self.raw(Space::Rows(table), &key)?;
        let expires_at = raw.as_deref().and_then(value::expires_at);
        if expires_at.is_some_and(|expires_at| expires_at <= self.now) {
            self.write(Space::Rows(table), &key, None);
            self.expire(table, &key, raw.as_ref(), None);
        }
        // The entry of a row that is due only later stays: the clock was set back. It is written
        // again, so that the next sweep begins with it.
        let is_early = expires_at.is_some_and(|expires_at| expires_at > self.now);
        let stays = is_early && expires_at == expiry::time(entry);
        self.write(Space::Expiries, entry, stays.then(Bytes::new));
        Ok(())
    }

    /// A row was replaced, or removed: replaces its entry in the list of expiries. `after` is the
    /// entry of the new row.
    fn expire(&mut self, table: Table, key: &Bytes, before: Option<&Bytes>, after: Option<&Bytes>) {
        let before = before.and_then(|raw| value::expires_at(raw));
        let before = before.map(|expires_at| expiry::encode(expires_at, table, key));
        if before.as_ref() == after {
            return;
        }
        for (entry, by) in [(before.as_ref(), -1), (after, 1)] {
            if let Some(entry) = entry {
                self.write(Space::Expiries, entry, (by > 0).then(Bytes::new));
                let hour = expiry::time(entry).map(hour_of).unwrap_or_default();
                *self.writes.moved.entry(hour).or_default() += by;
            }
        }
    }

    fn write(&mut self, space: Space, key: &Bytes, value: Option<Bytes>) {
        self.writes.writes.insert((space, key.clone()), value);
    }

    fn raw(&self, space: Space, key: &Bytes) -> StoreResult<Option<Bytes>> {
        match self.writes.get(space, key).or_else(|| self.group.get(space, key)) {
            Some(pending) => Ok(pending.clone()),
            None => self.view.newest(space, key),
        }
    }

    fn row(&self, target: &RowAddress) -> StoreResult<Option<Row>> {
        let Some(raw) = self.raw(Space::Rows(target.table), &target.key)? else { return Ok(None) };
        let value = live(target.table, &raw, self.now)?;
        Ok(value.map(|value| value.into_row(target.sort.clone())))
    }

    /// All keys of a range, committed or pending; some may be removed already.
    fn keys(&self, space: Space, range: &KeyRange) -> StoreResult<BTreeSet<Bytes>> {
        let committed = self.view.range(space, range.clone())?.map(|row| row.map(|(key, _)| key));
        let mut keys = committed.collect::<StoreResult<BTreeSet<_>>>()?;
        keys.extend(self.group.keys(space, range).cloned());
        keys.extend(self.writes.keys(space, range).cloned());
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::{Expect, Guard, NewRow, Removal, Stamp, Step};

    use super::*;
    use crate::options::EmbeddedOptions;
    use crate::tables::Tables;

    const TABLE: Table = Table::Objects;

    fn put(sort: &'static str) -> Step {
        Step::Put { table: TABLE, partition: "p".into(), rows: vec![NewRow::new(sort, "v")] }
    }

    fn write_head(expect: Expect, stamp: Stamp) -> Step {
        Step::CompareAndWrite {
            table: TABLE,
            partition: "p".into(),
            sort: "head".into(),
            expect,
            guard: Guard { stamp, tag: Bytes::new() },
            value: "v".into(),
        }
    }

    type Change = (Space, Bytes, Option<Bytes>);

    /// Decides on lists as one group over an empty database. Returns which are accepted, and how
    /// many keys are left to write.
    fn decide(lists: Vec<Vec<Step>>) -> (Vec<bool>, usize) {
        let (accepted, changes) = decided(lists);
        (accepted, changes.iter().filter(|(_, _, value)| value.is_some()).count())
    }

    /// What is left to write of lists that are accepted.
    fn written(lists: Vec<Vec<Step>>) -> Vec<Change> {
        decided(lists).1
    }

    fn decided(lists: Vec<Vec<Step>>) -> (Vec<bool>, Vec<Change>) {
        let folder = tempfile::tempdir().unwrap();
        let (database, options) = (folder.path().join("text"), EmbeddedOptions::default().of_lane(TABLE.lane()));
        Tables::make(&database, TABLE.lane(), &options).unwrap();
        let tables = Tables::check(&database, TABLE.lane(), None).unwrap().open(&options).unwrap();
        let view = tables.view();
        let mut group = Pending::default();
        let mut accepted = Vec::new();
        for list in lists {
            match evaluate(&Plan::new(list).unwrap(), &view, &group, UnixMillis(0)).unwrap() {
                Verdict::Accepted(writes) => {
                    group.append(writes);
                    accepted.push(true);
                }
                Verdict::Refused(_) => accepted.push(false),
            }
        }
        (accepted, group.into_changes().0.collect())
    }

    #[test]
    fn a_list_is_checked_against_the_earlier_lists_of_its_group() {
        let [first, second, third] = [(); 3].map(|()| Stamp::fresh());
        let lists = vec![
            vec![write_head(Expect::Absent, first)],
            vec![write_head(Expect::Absent, second)],
            vec![write_head(Expect::Stamp(first), second)],
            vec![write_head(Expect::Stamp(first), third)],
        ];
        assert_eq!(decide(lists), (vec![true, false, true, false], 1));
    }

    #[test]
    fn of_lists_that_write_the_same_row_the_last_one_counts_whichever_writes_more() {
        let row = |sort: &'static str, value: &'static str| Step::Put {
            table: TABLE,
            partition: "p".into(),
            rows: vec![NewRow::new(sort, value)],
        };
        let few = |value| vec![row("b", value)];
        let more = |value| vec![row("a", value), row("b", value), row("c", value)];
        for (lists, rows) in [(vec![few("1"), more("2"), few("3")], 3), (vec![more("1"), few("2"), few("3")], 3)] {
            let last = written(vec![few("3")]).pop().unwrap();
            let all = written(lists);
            assert_eq!(all.len(), rows);
            assert!(all.contains(&last), "{all:?}");
        }
        assert_eq!(written(vec![few("1"), more("2")]), written(vec![more("2")]));
    }

    #[test]
    fn a_refused_list_adds_nothing_to_its_group() {
        let lists = vec![vec![put("a"), write_head(Expect::Stamp(Stamp::fresh()), Stamp::fresh())], vec![put("b")]];
        assert_eq!(decide(lists), (vec![false, true], 1));
    }

    #[test]
    fn a_range_is_removed_with_what_earlier_lists_of_the_group_put_there() {
        let everything = Removal::Range(Bytes::new(), None);
        let lists = vec![
            vec![put("a"), put("b"), write_head(Expect::Absent, Stamp::fresh())],
            vec![Step::Remove { table: TABLE, partition: "p".into(), rows: everything }],
        ];
        assert_eq!(decide(lists), (vec![true, true], 1), "only the head is left to write");
    }
}
