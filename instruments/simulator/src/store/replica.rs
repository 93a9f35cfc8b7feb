//! One replica: cells with write times, of which the newest wins, and tombstones for removed rows.
//! Mutations give the same result in any order, also if applied twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use store::{Guard, NewRow, Row, Table, UnixMillis};

/// A plain row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) value: Bytes,
    pub(crate) expires_at: Option<UnixMillis>,
    pub(crate) time: i64,
}

/// A guarded row at one of its versions; `row` is `None` if it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guarded {
    pub(crate) version: u64,
    pub(crate) row: Option<(Guard, Bytes)>,
}

/// A range of sort keys in which all plain rows of that time or earlier are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub(crate) from: Bytes,
    pub(crate) to: Option<Bytes>,
    pub(crate) time: i64,
}

impl Tombstone {
    /// Whether it removes what was written to a row at a time.
    pub(crate) fn covers(&self, sort: &Bytes, time: i64) -> bool {
        time <= self.time && *sort >= self.from && self.to.as_ref().is_none_or(|to| sort < to)
    }

    /// Whether it overlaps a range of sort keys.
    fn meets(&self, from: &Bytes, to: Option<&Bytes>) -> bool {
        to.is_none_or(|to| self.from < *to) && self.to.as_ref().is_none_or(|to| from < to)
    }
}

/// What a replica holds of a partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    pub(crate) cells: BTreeMap<Bytes, Cell>,
    pub(crate) guarded: BTreeMap<Bytes, Guarded>,
    pub(crate) tombstones: Vec<Tombstone>,
}

/// Identifies a partition.
pub(crate) type Place = (Table, Bytes);

/// A change of one partition, as replicas receive it.
#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    pub(crate) place: Place,
    pub(crate) puts: Vec<(Bytes, Cell)>,
    pub(crate) guarded: Vec<(Bytes, Guarded)>,
    pub(crate) tombstones: Vec<Tombstone>,
}

impl Mutation {
    /// The mutation that puts rows at a time.
    pub(crate) fn put(place: Place, rows: &[NewRow], time: i64) -> Self {
        let cell = |row: &NewRow| Cell { value: row.value.clone(), expires_at: row.expires_at, time };
        let puts = rows.iter().map(|row| (row.sort.clone(), cell(row))).collect();
        Self { place, puts, guarded: Vec::new(), tombstones: Vec::new() }
    }

    /// The mutation that removes rows.
    pub(crate) fn remove(place: Place, tombstones: Vec<Tombstone>) -> Self {
        Self { place, puts: Vec::new(), guarded: Vec::new(), tombstones }
    }
}

impl Partition {
    pub(crate) fn apply(&mut self, mutation: &Mutation) {
        for tombstone in &mutation.tombstones {
            if !self.tombstones.contains(tombstone) {
                self.cells.retain(|sort, cell| !tombstone.covers(sort, cell.time));
                self.tombstones.push(tombstone.clone());
            }
        }
        for (sort, cell) in &mutation.puts {
            let is_removed = self.tombstones.iter().any(|tombstone| tombstone.covers(sort, cell.time));
            let is_newer = |current: &Cell| match mutation.place.0 {
                // Of two values of the same time the greater one counts, as in Cassandra.
                Table::Records => (current.time, &current.value) < (cell.time, &cell.value),
                _ => current.time < cell.time,
            };
            if !is_removed && self.cells.get(sort).is_none_or(is_newer) {
                self.cells.insert(sort.clone(), cell.clone());
            }
        }
        for (sort, guarded) in &mutation.guarded {
            if self.guarded.get(sort).is_none_or(|current| current.version < guarded.version) {
                self.guarded.insert(sort.clone(), guarded.clone());
            }
        }
    }

    /// The contents of a range of sort keys, as a mutation.
    pub(crate) fn part(&self, place: Place, from: &Bytes, to: Option<&Bytes>) -> Mutation {
        fn within<T: Clone>(rows: &BTreeMap<Bytes, T>, from: &Bytes, to: Option<&Bytes>) -> Vec<(Bytes, T)> {
            let rows = rows.range(from.clone()..).take_while(|(sort, _)| to.is_none_or(|to| *sort < to));
            rows.map(|(sort, row)| (sort.clone(), row.clone())).collect()
        }
        let tombstones = self.tombstones.iter().filter(|tombstone| tombstone.meets(from, to)).cloned().collect();
        Mutation { place, puts: within(&self.cells, from, to), guarded: within(&self.guarded, from, to), tombstones }
    }

    /// Whether it holds no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.guarded.is_empty()
    }

    /// A row as a reader at a time sees it.
    pub(crate) fn row(&self, sort: &Bytes, now: UnixMillis) -> Option<Row> {
        let guarded = self.guarded.get(sort).and_then(|guarded| guarded.row.as_ref());
        if let Some((guard, value)) = guarded {
            return Some(Row {
                sort: sort.clone(),
                value: value.clone(),
                guard: Some(guard.clone()),
                expires_at: None,
            });
        }
        let cell = self.cells.get(sort).filter(|cell| cell.expires_at.is_none_or(|at| at > now))?;
        Some(Row { sort: sort.clone(), value: cell.value.clone(), guard: None, expires_at: cell.expires_at })
    }

    /// The keys of all rows, including expired rows and guarded rows that are gone.
    pub(crate) fn sorts(&self, from: &Bytes, to: Option<&Bytes>) -> Vec<Bytes> {
        let within = |sort: &&Bytes| *sort >= from && to.is_none_or(|to| *sort < to);
        let mut sorts: Vec<_> = self.cells.keys().chain(self.guarded.keys()).filter(within).cloned().collect();
        sorts.sort_unstable();
        sorts.dedup();
        sorts
    }
}

/// The contents of one replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replica {
    pub(crate) partitions: BTreeMap<Place, Partition>,
}

impl Replica {
    pub(crate) fn apply(&mut self, mutation: &Mutation) {
        self.partitions.entry(mutation.place.clone()).or_default().apply(mutation);
    }
}

/// A mutation for several replicas.
pub(crate) type Shared = Arc<Mutation>;
