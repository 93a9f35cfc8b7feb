//! The state that all servers share: replicas, registers of guarded rows, and mutations on their
//! way. It is complete, which enables the model to check it.

mod delivery;
mod replacing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use heads::{Head, ObjectState, RevisionId, Rule, head};
use store::{Class, Expect, Guard, Outcome, PlainValue, Removal, Row, Step, Table, UnixMillis};
use tokio::time::Instant;

use self::delivery::Late;
pub(crate) use self::replacing::Replacement;
use crate::chance::{Chance, Purpose};
use crate::model::Model;
use crate::setup::{Engine, REPLICAS, Reach, Serial, Setup};
use crate::store::replica::{Cell, Guarded, Mutation, Partition, Place, Replica, Shared, Tombstone};
use crate::trace::{Op, Trace};

/// Identifies a guarded row.
pub(crate) type Key = (Table, Bytes, Bytes);

/// A row as the replicas decide it together: a register in which all see the same value.
#[derive(Default)]
struct Register {
    version: u64,
    /// The value of a guarded row.
    value: Option<(Guard, Bytes)>,
    /// The value of a plain row that is replaced.
    plain: Option<PlainValue>,
    /// Decisions that may not have reached a majority yet.
    undelivered: Vec<Shared>,
}

/// A compare-and-write.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub(crate) key: Key,
    pub(crate) expect: Expect,
    /// `None` deletes the row.
    pub(crate) then: Option<(Guard, Bytes)>,
    /// The mutation that is decided together with it.
    pub(crate) with: Option<Mutation>,
    pub(crate) by: Option<Op>,
    pub(crate) time: i64,
}

/// The outcome of a compare-and-write.
pub(crate) enum Decided {
    Applied,
    Refused(Option<Row>),
}

/// The whole state.
pub(crate) struct World {
    began: Instant,
    pub(crate) setup: Setup,
    pub(crate) step: u64,
    pub(crate) trace: Trace,
    pub(crate) model: Model,
    pub(crate) chance: Chance,
    /// Whether the data centers are cut off from each other.
    pub(crate) is_cut: bool,
    /// A replica that is down, and the step until which it is.
    down: Option<(usize, u64)>,
    /// Partitions in which something changed since the last check.
    pub(crate) touched: BTreeSet<Place>,
    /// The time of the last list that was committed, in a store of one copy.
    last_commit: i64,
    replicas: Vec<Replica>,
    registers: BTreeMap<Key, Register>,
    late: Vec<(u64, Late)>,
    lost: Vec<(usize, Shared)>,
}

impl World {
    pub(crate) fn new(seed: u64, setup: Setup, began: Instant) -> Self {
        let replicas = vec![Replica::default(); setup.replicas()];
        Self {
            began,
            model: Model::new(),
            setup,
            step: 0,
            trace: Trace::default(),
            chance: Chance::new(seed, Purpose::Replicas),
            is_cut: false,
            down: None,
            touched: BTreeSet::new(),
            last_commit: i64::MIN + 1,
            replicas,
            registers: BTreeMap::new(),
            late: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Milliseconds of true time since the run began.
    pub(crate) fn true_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Replicas of a data center.
    fn of_center(&self, center: usize) -> Vec<usize> {
        let each = self.replicas.len() / self.setup.centers();
        (center * each..(center + 1) * each).collect()
    }

    /// More than half of these replicas, all of them up.
    fn majority(&mut self, of: &[usize]) -> Vec<usize> {
        let up: Vec<usize> = of.iter().copied().filter(|replica| self.is_up(*replica)).collect();
        self.chance.some_of(&up, of.len() / 2 + 1)
    }

    /// Enough replicas for a reach, of those that a data center can reach; `None` if there are too
    /// few.
    fn quorum(&mut self, center: usize, reach: Reach) -> Option<Vec<usize>> {
        let centers: Vec<usize> = match reach {
            Reach::One => {
                let mut up = self.of_center(center);
                up.retain(|replica| self.is_up(*replica));
                return Some(vec![*self.chance.one_of(&up)]);
            }
            Reach::Local => vec![center],
            Reach::Each => (0..self.setup.centers()).collect(),
        };
        if self.is_cut && centers.len() > 1 {
            return None;
        }
        Some(
            centers
                .into_iter()
                .flat_map(|center| {
                    let all = self.of_center(center);
                    self.majority(&all)
                })
                .collect(),
        )
    }

    fn apply(&mut self, replica: usize, mutation: &Mutation) {
        self.replicas[replica].apply(mutation);
        self.touched.insert(mutation.place.clone());
    }

    /// Puts or removes rows, with certainty or with an unknown outcome. Returns false if too few
    /// replicas can be reached; then nothing is done.
    pub(crate) fn change(&mut self, mutation: Mutation, center: usize, reach: Reach, is_sure: bool) -> bool {
        let surely = match is_sure {
            true => match self.quorum(center, reach) {
                Some(surely) => surely,
                None => return false,
            },
            false => Vec::new(),
        };
        self.spread(mutation, &surely, center);
        true
    }

    /// The merged contents of a range on some replicas, which have all of it afterwards. `None` if
    /// too few can be reached.
    pub(crate) fn read(
        &mut self,
        center: usize,
        reach: Reach,
        place: &Place,
        from: &Bytes,
        to: Option<&Bytes>,
    ) -> Option<Partition> {
        let view = self.quorum(center, reach)?;
        let merged = self.merged(&view, place, from, to);
        if view.len() > 1 {
            let repair = merged.part(place.clone(), from, to);
            view.iter().for_each(|replica| self.replicas[*replica].apply(&repair));
        }
        Some(merged)
    }

    /// The merged contents of a range on some replicas.
    pub(crate) fn merged(&self, view: &[usize], place: &Place, from: &Bytes, to: Option<&Bytes>) -> Partition {
        let mut merged = Partition::default();
        for partition in view.iter().filter_map(|replica| self.replicas[*replica].partitions.get(place)) {
            merged.apply(&partition.part(place.clone(), from, to));
        }
        merged
    }

    /// The plain rows that one replica holds of a partition.
    pub(crate) fn held(&self, replica: usize, place: &Place) -> Option<&BTreeMap<Bytes, Cell>> {
        self.replicas[replica].partitions.get(place).map(|partition| &partition.cells)
    }

    /// The partitions of a table with rows on some replicas, in order.
    pub(crate) fn partitions(
        &mut self,
        center: usize,
        reach: Reach,
        table: Table,
        now: UnixMillis,
    ) -> Option<Vec<Bytes>> {
        let view = self.quorum(center, reach)?;
        Some(self.partitions_within(&view, table, now))
    }

    fn partitions_within(&self, view: &[usize], table: Table, now: UnixMillis) -> Vec<Bytes> {
        let of_table = |replica: &usize| {
            let from_it = self.replicas[*replica].partitions.range((table, Bytes::new())..);
            from_it.take_while(|((of, _), _)| *of == table)
        };
        let filled = view.iter().flat_map(of_table).filter(|(_, partition)| !partition.is_empty());
        let filled: BTreeSet<Bytes> = filled.map(|((_, partition), _)| partition.clone()).collect();
        let holds = |partition: &Bytes| {
            let merged = self.merged(view, &(table, partition.clone()), &Bytes::new(), None);
            merged.sorts(&Bytes::new(), None).iter().any(|sort| merged.row(sort, now).is_some())
        };
        filled.into_iter().filter(|partition| holds(partition)).collect()
    }

    /// All replicas.
    pub(crate) fn everywhere(&self) -> Vec<usize> {
        (0..self.replicas.len()).collect()
    }

    /// The merged contents of a partition on all replicas.
    pub(crate) fn all_of(&self, table: Table, partition: &Bytes) -> Partition {
        self.merged(&self.everywhere(), &(table, partition.clone()), &Bytes::new(), None)
    }

    /// All partitions of a table that have rows.
    pub(crate) fn all_partitions(&self, table: Table, now: UnixMillis) -> Vec<Bytes> {
        self.partitions_within(&self.everywhere(), table, now)
    }

    /// A guarded row in its decided state.
    pub(crate) fn decided(&self, key: &Key) -> Option<&(Guard, Bytes)> {
        self.registers.get(key).and_then(|register| register.value.as_ref())
    }

    /// The replicas that decide, and whether a data center can reach enough of them.
    fn deciders(&self, center: usize) -> (Vec<usize>, bool) {
        match self.setup.engine {
            Engine::Replicated { serial: Serial::Home, .. } => (self.of_center(0), !self.is_cut || center == 0),
            _ => (self.everywhere(), !self.is_cut || self.replicas.len() <= REPLICAS),
        }
    }

    /// Whether a compare-and-write can be decided from a data center now.
    pub(crate) fn can_decide(&self, center: usize) -> bool {
        self.deciders(center).1
    }

    /// Brings the decisions on a row to a majority of the deciding replicas, as each later decision
    /// does first.
    fn finish_decisions(&mut self, key: &Key, center: usize) {
        let undelivered = match self.registers.get_mut(key) {
            Some(register) => std::mem::take(&mut register.undelivered),
            None => return,
        };
        let (deciders, _) = self.deciders(center);
        for mutation in undelivered {
            for replica in self.majority(&deciders) {
                self.apply(replica, &mutation);
            }
        }
    }

    /// Brings the decisions on a partition to where strong reads find them. Returns false if too
    /// few replicas can be reached.
    pub(crate) fn finish_partition(&mut self, table: Table, partition: &Bytes, center: usize) -> bool {
        let reach = self.setup.commit_reach();
        if !self.can_decide(center) || self.quorum(center, reach).is_none() {
            return false;
        }
        let of_partition = |key: &&Key| key.0 == table && key.1 == *partition;
        let keys: Vec<Key> = self.registers.keys().filter(of_partition).cloned().collect();
        for key in keys {
            let undelivered = self.registers.get_mut(&key).map(|register| std::mem::take(&mut register.undelivered));
            for mutation in undelivered.into_iter().flatten() {
                for replica in self.quorum(center, reach).unwrap_or_default() {
                    self.apply(replica, &mutation);
                }
                self.model.settled(partition, self.step);
                self.model.records.settled(partition, self.step);
            }
        }
        true
    }

    /// Reads a guarded row in its decided state.
    pub(crate) fn serial_read(&mut self, key: &Key, center: usize) -> Option<Option<Row>> {
        if !self.can_decide(center) {
            return None;
        }
        self.finish_decisions(key, center);
        Some(self.decided_row(key))
    }

    fn decided_row(&self, key: &Key) -> Option<Row> {
        let (guard, value) = self.decided(key)?;
        Some(Row { sort: key.2.clone(), value: value.clone(), guard: Some(guard.clone()), expires_at: None })
    }

    /// Decides a compare-and-write. If it is not `is_sure`, it is decided too, but the replicas
    /// that know it are drawn.
    pub(crate) fn decide(&mut self, proposal: &Proposal, center: usize, is_sure: bool) -> Decided {
        self.finish_decisions(&proposal.key, center);
        let current = self.decided_row(&proposal.key);
        if !proposal.expect.holds(current.as_ref()) {
            return Decided::Refused(current);
        }
        let (table, partition, sort) = proposal.key.clone();
        let mut then = proposal.then.clone();
        // Without that rule, the row of a removed tombstone is deleted.
        if self.setup.left_out == Some(Rule::KeepFree) && table == Table::Objects && is_free_again(&then) {
            then = None;
        }
        let register = self.registers.entry(proposal.key.clone()).or_default();
        register.version += 1;
        register.value.clone_from(&then);
        let guarded = Guarded { version: register.version, row: then };
        let mut mutation = Mutation::put((table, partition.clone()), &[], proposal.time);
        mutation.guarded.push((sort.clone(), guarded));
        self.touched.insert((table, partition.clone()));
        self.model.decided(self.step, proposal, is_sure);
        let surely = match is_sure {
            true => self.quorum(center, self.setup.commit_reach()).unwrap_or_default(),
            false => Vec::new(),
        };
        for mutation in std::iter::once(mutation).chain(proposal.with.clone()) {
            if surely.is_empty()
                && let Some(register) = self.registers.get_mut(&proposal.key)
            {
                register.undelivered.push(Arc::new(mutation.clone()));
            }
            self.spread(mutation, &surely, center);
        }
        Decided::Applied
    }

    /// Removes plain rows, but nothing that is written later than what was read. `None` if too few
    /// replicas can be reached.
    pub(crate) fn removal(
        &mut self,
        place: &Place,
        removal: &Removal,
        center: usize,
        class: Class,
    ) -> Option<Option<Mutation>> {
        let reach = self.setup.strong_reach(class);
        let (from, to) = match removal {
            Removal::Rows(_) => (Bytes::new(), None),
            Removal::Range(from, to) => (from.clone(), to.clone()),
        };
        let seen = self.read(center, reach, place, &from, to.as_ref())?;
        let tombstones: Vec<Tombstone> = match removal {
            Removal::Rows(sorts) => {
                let end = |sort: &Bytes| Some(Bytes::from([&sort[..], &[0]].concat()));
                let cells = sorts.iter().filter_map(|sort| Some((sort, seen.cells.get(sort)?)));
                cells.map(|(sort, cell)| Tombstone { from: sort.clone(), to: end(sort), time: cell.time }).collect()
            }
            Removal::Range(..) => {
                let newest = seen.cells.values().map(|cell| cell.time).max();
                newest.map(|time| Tombstone { from, to, time }).into_iter().collect()
            }
        };
        Some((!tombstones.is_empty()).then(|| Mutation::remove(place.clone(), tombstones)))
    }

    /// Runs a list as one commit: all of it, or nothing if a step is refused.
    pub(crate) fn commit(&mut self, steps: &[Step], by: Option<Op>, now: UnixMillis, time: i64) -> Outcome {
        // Later steps of the list see the effect of earlier ones on guarded rows. Plain rows are
        // never required.
        for (index, step) in steps.iter().enumerate() {
            let (table, partition, sort) = match step {
                Step::Require { table, partition, sort, .. } | Step::CompareAndWrite { table, partition, sort, .. } => {
                    (*table, partition.clone(), sort.clone())
                }
                Step::Replace { .. } => match self.is_as_expected(step, now) {
                    (true, _) => continue,
                    (false, current) => return Outcome::Refused { step: index, current },
                },
                Step::Put { .. } | Step::Remove { .. } => continue,
            };
            let current = self.all_of(table, &partition).row(&sort, now);
            let holds = match step {
                Step::Require { condition, .. } => condition.holds(current.as_ref()),
                Step::CompareAndWrite { expect, .. } => expect.holds(current.as_ref()),
                Step::Put { .. } | Step::Replace { .. } | Step::Remove { .. } => true,
            };
            if !holds {
                return Outcome::Refused { step: index, current };
            }
        }
        // Lists count in the order of their commits, not in that in which they were prepared.
        let time = time.max(self.last_commit + 1);
        self.last_commit = time;
        for step in steps {
            match step {
                Step::Require { .. } => {}
                Step::Put { table, partition, rows } => {
                    self.model.put(*table, partition, rows);
                    self.apply(0, &Mutation::put((*table, partition.clone()), rows, time));
                }
                Step::Remove { table, partition, rows } => {
                    let removal = self.removal(&(*table, partition.clone()), rows, 0, Class::Description);
                    if let Some(Some(mutation)) = removal {
                        self.apply(0, &mutation);
                    }
                }
                Step::Replace { .. } => self.replace_at_once(step, time),
                Step::CompareAndWrite { .. } => {
                    if let Some(proposal) = Proposal::of(step, by, time) {
                        self.decide(&proposal, 0, true);
                    }
                }
            }
        }
        self.note_records(steps);
        Outcome::Applied
    }
}

/// Whether this is the head of a deleted object whose name can be used again.
fn is_free_again(row: &Option<(Guard, Bytes)>) -> bool {
    let head = row.as_ref().and_then(|(_, value)| head::open::<Head>(Table::Objects, value).ok());
    head.is_some_and(|head| head.state == ObjectState::Free && head.revision != RevisionId::ZERO)
}

impl Proposal {
    /// The compare-and-write of a step.
    pub(crate) fn of(step: &Step, by: Option<Op>, time: i64) -> Option<Self> {
        let Step::CompareAndWrite { table, partition, sort, expect, guard, value } = step else { return None };
        let key = (*table, partition.clone(), sort.clone());
        let then = Some((guard.clone(), value.clone()));
        Some(Self { key, expect: *expect, then, with: None, by, time })
    }
}
