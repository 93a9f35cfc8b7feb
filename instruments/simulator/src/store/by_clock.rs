//! Lists whose writes count by the clock, as the Cassandra engine writes them: each is one write of
//! one partition, and the last write of a row wins. Only replacements read. The write time of a
//! replacement is the next one after that of the row that it replaces.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use store::{Call, Clock, Outcome, PlainValue, Removal, Step, StoreError, StoreResult};

use super::{SimStore, readable, unavailable, unknown};
use crate::store::replica::{Cell, Mutation, Partition, Place, Tombstone};
use crate::turns::{Fate, Kind};

/// A server follows the write times of others, unless they are further ahead of its clock than
/// this, in microseconds.
const AHEAD_MAX: i64 = 1_000_000;

impl SimStore {
    pub(super) async fn run_by_clock(&self, call: Call, steps: &[Step]) -> StoreResult<Outcome> {
        let Some(first) = steps.first() else { return Ok(Outcome::Applied) };
        let place: Place = (first.table(), first.partition().clone());
        if steps.iter().any(|step| step.table() != place.0 || *step.partition() != place.1) {
            return Err(StoreError::Invalid("a list that counts by the clock has one partition".to_owned()));
        }
        let call = call.of(place.0.class());
        let reads = steps.iter().any(|step| matches!(step, Step::Replace { .. }));
        let seen = if reads { self.see(call, &place).await? } else { Partition::default() };
        let mut mutation = Mutation::remove(place.clone(), Vec::new());
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Put { rows, .. } => {
                    mutation.puts.extend(Mutation::put(place.clone(), rows, self.write_time()).puts);
                }
                Step::Remove { rows, .. } => mutation.tombstones.extend(removed(rows, self.write_time())),
                Step::Replace { sort, expect: Some(expect), then, .. } => {
                    let cell = seen.cells.get(sort).filter(|cell| is_as_expected(cell, expect));
                    let Some(Cell { time, .. }) = cell else {
                        return Ok(Outcome::Refused { step: index, current: seen.row(sort, self.clock.now()) });
                    };
                    self.replace_by_clock(&mut mutation, sort, then.as_ref(), *time);
                }
                Step::Replace { expect: None, .. } | Step::Require { .. } | Step::CompareAndWrite { .. } => {
                    return Err(StoreError::Invalid("such a step cannot count by the clock".to_owned()));
                }
            }
        }
        self.write_by_clock(call, mutation).await
    }

    /// A partition as it is now, also with what has expired.
    async fn see(&self, call: Call, place: &Place) -> StoreResult<Partition> {
        self.read_turn(format!("see {} {}", place.0, readable(&place.1))).await?;
        let mut world = self.world.lock();
        let reach = world.setup.read_reach(call);
        world.read(self.center, reach, place, &Bytes::new(), None).ok_or_else(|| unavailable("too few replicas"))
    }

    /// Adds to a mutation what replaces a row of that write time.
    fn replace_by_clock(&self, mutation: &mut Mutation, sort: &Bytes, then: Option<&PlainValue>, time: i64) {
        match then {
            Some(PlainValue { value, expires_at }) => {
                let after = time.saturating_add(1);
                let cell = Cell { value: value.clone(), expires_at: *expires_at, time: after };
                mutation.puts.push((sort.clone(), cell));
                let now = i64::try_from(self.clock.now().0.saturating_mul(1_000)).unwrap_or(i64::MAX);
                if after.saturating_sub(now) <= AHEAD_MAX {
                    self.last_write.fetch_max(after, Ordering::SeqCst);
                }
            }
            None => mutation.tombstones.push(of_row(sort, time)),
        }
    }

    /// Writes a mutation when its turn comes.
    async fn write_by_clock(&self, call: Call, mutation: Mutation) -> StoreResult<Outcome> {
        let what = format!("by clock {} {}", mutation.place.0, readable(&mutation.place.1));
        let write = {
            let mut world = self.world.lock();
            let step = world.step;
            world.model.fast.begun(self.op(), self.center, &mutation, step)
        };
        let fate = self.turn(Kind::Record, what).await;
        let mut world = self.world.lock();
        let reach = world.setup.write_reach(call.class);
        match fate {
            Fate::Go => {
                let (is_made, step) = (world.change(mutation, self.center, reach, true), world.step);
                if is_made {
                    world.model.fast.made(write, step);
                    return Ok(Outcome::Applied);
                }
                world.model.fast.refused(write);
                return Err(unavailable("too few replicas"));
            }
            Fate::Fail => {
                world.model.fast.refused(write);
                return Err(unavailable("it was not taken"));
            }
            Fate::UnknownApplied => {
                world.change(mutation, self.center, reach, false);
            }
            Fate::UnknownLate(after) => world.change_late(mutation, after),
            Fate::UnknownLost => {}
        }
        Ok(unknown("the write was not answered"))
    }
}

/// Whether a row is as its replacement expects it, even if it has expired.
fn is_as_expected(cell: &Cell, expect: &PlainValue) -> bool {
    cell.value == expect.value && cell.expires_at == expect.expires_at
}

/// What removes rows, whatever is there.
fn removed(rows: &Removal, time: i64) -> Vec<Tombstone> {
    match rows {
        Removal::Rows(sorts) => sorts.iter().map(|sort| of_row(sort, time)).collect(),
        Removal::Range(from, to) => vec![Tombstone { from: from.clone(), to: to.clone(), time }],
    }
}

fn of_row(sort: &Bytes, time: i64) -> Tombstone {
    Tombstone { from: sort.clone(), to: Some(Bytes::from([&sort[..], &[0]].concat())), time }
}
