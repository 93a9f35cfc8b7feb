//! Records: plain rows that are replaced if they are as their writer read them, and lists that one
//! thread decides in their order.

use bytes::Bytes;
use store::{PlainValue, Row, Step, Table, UnixMillis};

use super::delivery::Late;
use super::{Decided, World};
use crate::setup::Engine;
use crate::store::replica::{Cell, Mutation, Tombstone};

/// A replacement of a plain row.
#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    key: super::Key,
    expect: Option<PlainValue>,
    then: Option<PlainValue>,
    /// The time by which its server decides what has expired.
    now: UnixMillis,
}

impl Replacement {
    /// The replacement of a step, if it is one.
    pub(crate) fn of(step: &Step, now: UnixMillis) -> Option<Self> {
        let Step::Replace { table, partition, sort, expect, then } = step else { return None };
        let key = (*table, partition.clone(), sort.clone());
        Some(Self { key, expect: expect.clone(), then: then.clone(), now })
    }
}

impl World {
    /// Decides a replacement. If it is not `is_sure`, it is decided too, but the replicas that know
    /// it are drawn.
    pub(crate) fn replace(&mut self, replacement: &Replacement, center: usize, is_sure: bool) -> Decided {
        let Replacement { key, expect, then, now } = replacement;
        self.finish_decisions(key, center);
        let (table, partition, sort) = key.clone();
        let register = self.registers.entry(key.clone()).or_default();
        let live = register.plain.as_ref().filter(|plain| plain.expires_at.is_none_or(|at| at > *now));
        let is_expected = match expect {
            Some(expect) => register.plain.as_ref() == Some(expect),
            None => live.is_none(),
        };
        if !is_expected {
            let row = |plain: &PlainValue| Row {
                sort: sort.clone(),
                value: plain.value.clone(),
                guard: None,
                expires_at: plain.expires_at,
            };
            return Decided::Refused(live.map(row));
        }
        register.version += 1;
        register.plain.clone_from(then);
        // The cluster orders its decisions itself.
        let time = i64::try_from(register.version).unwrap_or(i64::MAX);
        let place = (table, partition.clone());
        let mutation = match then {
            Some(PlainValue { value, expires_at }) => {
                let cell = Cell { value: value.clone(), expires_at: *expires_at, time };
                Mutation { puts: vec![(sort, cell)], ..Mutation::remove(place.clone(), Vec::new()) }
            }
            None => {
                let to = Some(Bytes::from([&sort[..], &[0]].concat()));
                Mutation::remove(place.clone(), vec![Tombstone { from: sort, to, time }])
            }
        };
        self.touched.insert(place);
        let surely = match is_sure {
            true => self.quorum(center, self.setup.commit_reach()).unwrap_or_default(),
            false => Vec::new(),
        };
        if surely.is_empty()
            && let Some(register) = self.registers.get_mut(key)
        {
            register.undelivered.push(std::sync::Arc::new(mutation.clone()));
        }
        if table == Table::Records {
            self.model.records.decided(&partition, self.step, then.as_ref(), !surely.is_empty());
        }
        self.spread(mutation, &surely, center);
        Decided::Applied
    }

    /// Whether a plain row is as a replacement expects it, in a store of one copy; and the row.
    pub(super) fn is_as_expected(&self, step: &Step, now: UnixMillis) -> (bool, Option<Row>) {
        let Step::Replace { table, partition, sort, expect, .. } = step else { return (true, None) };
        let rows = self.all_of(*table, partition);
        let current = rows.row(sort, now);
        let is_expected = match expect {
            // It counts also if it has expired meanwhile.
            Some(expect) => rows.row(sort, UnixMillis(0)).as_ref().map(PlainValue::of).as_ref() == Some(expect),
            None => current.is_none(),
        };
        (is_expected, current)
    }

    /// Replaces a plain row in a store of one copy.
    pub(super) fn replace_at_once(&mut self, step: &Step, time: i64) {
        let Step::Replace { table, partition, sort, then, .. } = step else { return };
        let place = (*table, partition.clone());
        let mutation = match then {
            Some(PlainValue { value, expires_at }) => {
                let row = store::NewRow { expires_at: *expires_at, ..store::NewRow::new(sort.clone(), value.clone()) };
                Mutation::put(place, &[row], time)
            }
            None => {
                let to = Some(Bytes::from([&sort[..], &[0]].concat()));
                Mutation::remove(place, vec![Tombstone { from: sort.clone(), to, time }])
            }
        };
        self.apply(0, &mutation);
    }

    /// Decides a replacement later, if it holds then.
    pub(crate) fn replace_late(&mut self, replacement: Replacement, after: u64) {
        self.late.push((self.step + after, Late::Replacement(Box::new(replacement))));
    }

    /// Notes the states of records that a list has made, in a store of one copy.
    pub(super) fn note_records(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Put { table: Table::Records, partition, rows } => rows.iter().for_each(|row| {
                    let plain = PlainValue { value: row.value.clone(), expires_at: row.expires_at };
                    self.model.records.decided(partition, self.step, Some(&plain), true);
                }),
                Step::Remove { table: Table::Records, partition, .. } => {
                    self.model.records.decided(partition, self.step, None, true);
                }
                Step::Replace { table: Table::Records, partition, then, .. } => {
                    self.model.records.decided(partition, self.step, then.as_ref(), true);
                }
                _ => {}
            }
        }
    }

    /// Decides all lists that are on their way. One thread decides on the lists of a lane in their
    /// order, so this happens before a later one.
    pub(crate) fn finish_lists(&mut self, now: UnixMillis) {
        if self.setup.keeps_records && self.setup.engine == Engine::OneCommit {
            self.decide_all_late(now);
        }
    }

    /// The server of a data folder dies: of the lists on their way, the first few were decided.
    pub(crate) fn lose_lists(&mut self, now: UnixMillis) {
        if self.setup.keeps_records && self.setup.engine == Engine::OneCommit {
            let made = self.chance.place(self.late.len() + 1);
            self.late.truncate(made);
            self.decide_all_late(now);
        }
    }
}
