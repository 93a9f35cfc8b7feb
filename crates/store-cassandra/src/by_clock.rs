//! Lists of steps whose writes count by the clock: the last write wins
//! ([`store::Call::is_by_clock`]).
//!
//! All steps of a list are in one partition, so they are one write: each replica has all of it or
//! nothing. Each step has a write time of its own, later than that of the step before it. Only
//! replacements read. Their write time is the one after that of the row that they replace, so no
//! later write is lost by them, wherever it was acknowledged.

use std::collections::HashMap;

use bytes::Bytes;
use store::{Call, NewRow, Outcome, PlainValue, Removal, Row, Step, StoreError, StoreResult, Table};

use crate::engine::Engine;
use crate::failure::{Failure, readable};
use crate::requests::{Bound, Parameter};
use crate::statements::TableStatements;
use crate::value::{Cells, row_of, stored_partition, stored_value, time_to_live_s};

/// A replacement that is to be made, with its place in the list.
struct Replacement {
    step: usize,
    sort: Bytes,
    expect: PlainValue,
    then: Option<PlainValue>,
}

/// A row as it is stored: its value, also if it has expired, and its write time.
struct Seen {
    cell: Bytes,
    written_at: i64,
}

type SeenCells = (Bytes, Option<Bytes>, Option<i64>);

impl Engine {
    /// Runs a list as one write.
    pub(crate) async fn run_by_clock(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        let Some((table, partition)) = steps.first().map(|step| (step.table(), step.partition().clone())) else {
            return Ok(Outcome::Applied);
        };
        if steps.iter().any(|step| step.table() != table || *step.partition() != partition) {
            return Err(StoreError::Invalid("a list that counts by the clock has one partition".to_owned()));
        }
        call.wanted_of(table).require(self.levels.durability(table.class()))?;
        // A clock that is far ahead would hide what others write later.
        self.clocks.check()?;
        let statements = self.statements.of(table);
        let partition = stored_partition(&partition);
        let (mut writes, mut replacements) = (Vec::new(), Vec::new());
        for (index, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put { rows, .. } => {
                    let at = self.clock_times.next();
                    writes.extend(rows.into_iter().map(|row| self.put_at(statements, &partition, row, at)));
                }
                Step::Remove { rows, .. } => {
                    writes.extend(removals(statements, &partition, rows, self.clock_times.next()));
                }
                Step::Replace { sort, expect: Some(expect), then, .. } => {
                    replacements.push(Replacement { step: index, sort, expect, then });
                }
                Step::Replace { expect: None, .. } | Step::Require { .. } | Step::CompareAndWrite { .. } => {
                    return Err(StoreError::Invalid("such a step cannot count by the clock".to_owned()));
                }
            }
        }
        let mut seen = self.see(call, table, &partition, &replacements).await?;
        for Replacement { step, sort, expect, then } in replacements {
            let current = seen.remove(&sort);
            let expected = stored_value(&expect.value, expect.expires_at);
            let Some(current) = current.as_ref().filter(|current| current.cell == expected) else {
                let current = current.map(|current| self.row_of_cell(table, sort, current.cell)).transpose()?.flatten();
                return Ok(Outcome::Refused { step, current });
            };
            let after = current.written_at.saturating_add(1);
            // What this process writes next is later still.
            self.clock_times.observe_near(after);
            writes.push(match then {
                Some(PlainValue { value, expires_at }) => {
                    self.put_at(statements, &partition, NewRow { sort, value, expires_at }, after)
                }
                None => removal(statements, &partition, sort, current.written_at),
            });
        }
        let level = self.levels.write(table.class()).consistency();
        match self.requests.write(call.deadline, level, None, writes).await {
            Ok(()) => Ok(Outcome::Applied),
            Err(Failure::Refused(error)) => Err(error),
            Err(failure) => Ok(Outcome::Unknown { reason: failure.reason() }),
        }
    }

    /// The rows that are to be replaced, at the usual level of reads: what such a read misses wins
    /// over the replacement.
    async fn see(
        &self,
        call: Call,
        table: Table,
        partition: &Bytes,
        replacements: &[Replacement],
    ) -> StoreResult<HashMap<Bytes, Seen>> {
        if replacements.is_empty() {
            return Ok(HashMap::new());
        }
        let sorts: Vec<&Bytes> = replacements.iter().map(|replacement| &replacement.sort).collect();
        let level = self.levels.read(table.class(), call.strength).consistency();
        let statement = &self.statements.of(table).see;
        let rows = self.requests.rows(call.deadline, level, statement, (partition, sorts)).await?;
        let mut seen = HashMap::new();
        for cells in readable(rows.rows::<SeenCells>())? {
            if let (sort, Some(cell), Some(written_at)) = readable(cells)? {
                seen.insert(sort, Seen { cell, written_at });
            }
        }
        Ok(seen)
    }

    fn row_of_cell(&self, table: Table, sort: Bytes, cell: Bytes) -> StoreResult<Option<Row>> {
        row_of(table, sort, Cells { value: Some(cell), stamp: None, tag: None }, self.now_for(table))
    }

    fn put_at<'a>(&self, statements: &'a TableStatements, partition: &Bytes, row: NewRow, at: i64) -> Bound<'a> {
        let time_to_live = Parameter::Int(time_to_live_s(row.expires_at, self.now()));
        let value = Parameter::Blob(stored_value(&row.value, row.expires_at));
        let key = [partition.clone(), row.sort].map(Parameter::Blob);
        (&statements.put_at, [time_to_live, Parameter::BigInt(at), value].into_iter().chain(key).collect())
    }
}

fn removals<'a>(statements: &'a TableStatements, partition: &Bytes, rows: Removal, at: i64) -> Vec<Bound<'a>> {
    match rows {
        Removal::Rows(sorts) => sorts.into_iter().map(|sort| removal(statements, partition, sort, at)).collect(),
        Removal::Range(from, to) => {
            let statement = statements.remove_range(to.is_some());
            let keys = [Some(partition.clone()), Some(from), to].into_iter().flatten().map(Parameter::Blob);
            vec![(statement, std::iter::once(Parameter::BigInt(at)).chain(keys).collect())]
        }
    }
}

fn removal<'a>(statements: &'a TableStatements, partition: &Bytes, sort: Bytes, at: i64) -> Bound<'a> {
    let key = [partition.clone(), sort].map(Parameter::Blob);
    (&statements.remove, std::iter::once(Parameter::BigInt(at)).chain(key).collect())
}
