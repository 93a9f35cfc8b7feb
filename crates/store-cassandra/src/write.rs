//! Runs lists of steps, one step after the other.

use bytes::Bytes;
use futures::{StreamExt, stream};
use store::{Call, Direction, Durability, NewRow, Outcome, Removal, Step, StoreError, StoreResult, Strength, Table};

use crate::compare::{Become, Change, Ended};
use crate::engine::Engine;
use crate::failure::{Failure, readable};
use crate::parts::{Parts, RangeRead, successor};
use crate::read::{SeenCells, SeenRow};
use crate::replace::Replacement;
use crate::requests::{Bound, Parameter};
use crate::statements::TableStatements;
use crate::value::{stored_partition, stored_value, time_to_live_s};

/// Bytes of rows per request; a larger row is sent alone.
const REQUEST_BYTES: usize = 512 << 10;

/// Rows per request.
const REQUEST_ROWS: usize = 512;

/// Requests of one step at the same time.
const AT_ONCE: usize = 8;

/// Rows that a removal reads in one request.
const LOOKED_AT_ROWS: usize = 200;

/// The outcome of a step.
type StepResult = Result<Ended, Failure>;

impl Engine {
    pub(crate) async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        Step::lane_of(&steps)?;
        if call.is_by_clock {
            return self.run_by_clock(call, steps).await;
        }
        steps.iter().try_for_each(|step| call.wanted_of(step.table()).require(self.given(step)))?;
        if steps.iter().any(|step| matches!(step, Step::CompareAndWrite { .. } | Step::Replace { .. })) {
            // Before the first step, so that the list is certainly not carried out.
            self.may_switch()?;
        }
        let mut something_applied = false;
        for (index, step) in steps.into_iter().enumerate() {
            let changes = !matches!(step, Step::Require { .. });
            match self.step(call, step).await {
                Ok(Ended::Applied) => something_applied |= changes,
                Ok(Ended::Refused(current)) => return Ok(Outcome::Refused { step: index, current }),
                Err(Failure::Refused(error)) if !something_applied => return Err(error),
                Err(failure) => return Ok(Outcome::Unknown { reason: failure.reason() }),
            }
        }
        Ok(Outcome::Applied)
    }

    /// What an acknowledged step survives. A requirement writes nothing that could be lost.
    fn given(&self, step: &Step) -> Durability {
        match step {
            Step::CompareAndWrite { .. } | Step::Replace { .. } => self.levels.committed_durability(),
            Step::Put { table, .. } | Step::Remove { table, .. } => self.levels.durability(table.class()),
            Step::Require { .. } => Durability::Replicated,
        }
    }

    async fn step(&self, call: Call, step: Step) -> StepResult {
        match step {
            Step::Put { table, partition, rows } => self.put(call, table, &partition, rows).await,
            Step::Require { table, partition, sort, condition } => {
                let call = Call { strength: Strength::Strong, ..call };
                let current = self.get(call, table, &partition, &sort).await.map_err(Failure::Refused)?;
                Ok(if condition.holds(current.as_ref()) { Ended::Applied } else { Ended::Refused(current) })
            }
            Step::CompareAndWrite { table, partition, sort, expect, guard, value } => {
                let then = Become::Changed { guard, value };
                self.compare_and_write(call, &Change { table, partition, sort, expect, then }).await
            }
            Step::Replace { table, partition, sort, expect, then } => {
                self.replace(call, &Replacement { table, partition, sort, expect, then }).await
            }
            Step::Remove { table, partition, rows } => match rows {
                Removal::Rows(sorts) => self.remove_rows(call, table, &partition, &sorts).await,
                Removal::Range(from, to) => self.remove_range(call, table, &partition, from, to).await,
            },
        }
    }

    async fn put(&self, call: Call, table: Table, partition: &[u8], rows: Vec<NewRow>) -> StepResult {
        let statements = self.statements.of(table);
        let partition = stored_partition(partition);
        let (at, level) = (self.write_times.next(), self.levels.write(table.class()).consistency());
        let requests = portions(rows).into_iter().map(|rows| {
            let bound = rows.iter().map(|row| self.put_statement(statements, &partition, row)).collect();
            self.requests.write(call.deadline, level, Some(at), bound)
        });
        all_written(stream::iter(requests).buffer_unordered(AT_ONCE).collect().await)
    }

    fn put_statement<'a>(&self, statements: &'a TableStatements, stored_partition: &Bytes, row: &NewRow) -> Bound<'a> {
        let time_to_live = Parameter::Int(time_to_live_s(row.expires_at, self.now()));
        let value = stored_value(&row.value, row.expires_at);
        let blobs = [value, stored_partition.clone(), row.sort.clone()].map(Parameter::Blob);
        (&statements.put, std::iter::once(time_to_live).chain(blobs).collect())
    }

    async fn remove_rows(&self, call: Call, table: Table, partition: &[u8], sorts: &[Bytes]) -> StepResult {
        let statements = self.statements.of(table);
        let partition = stored_partition(partition);
        let look = self.levels.strong(table.class()).consistency();
        let mut written = Vec::new();
        for sorts in sorts.chunks(LOOKED_AT_ROWS) {
            let rows = self.requests.rows(call.deadline, look, &statements.look_at, (&partition, sorts)).await;
            let rows = rows.map_err(|error| not_done(&written, error))?;
            let seen = seen_rows(table, &rows).map_err(|error| not_done(&written, error))?;
            let removals =
                seen.iter().filter(|row| !row.is_guarded).map(|row| self.removal(statements, &partition, row));
            written.push(self.write_removals(call, table, removals.collect()).await);
        }
        all_written(written)
    }

    /// Removes a row as it was seen, and nothing that is written later.
    fn removal<'a>(&self, statements: &'a TableStatements, stored_partition: &Bytes, seen: &SeenRow) -> Bound<'a> {
        self.write_times.observe(seen.written_at);
        let key = [stored_partition, &seen.sort].map(|key| Parameter::Blob(key.clone()));
        let parameters = std::iter::once(Parameter::BigInt(seen.written_at)).chain(key).collect();
        (&statements.remove, parameters)
    }

    async fn write_removals(&self, call: Call, table: Table, removals: Vec<Bound<'_>>) -> Result<(), Failure> {
        if removals.is_empty() {
            return Ok(());
        }
        let level = self.levels.write(table.class()).consistency();
        self.requests.write(call.deadline, level, None, removals).await
    }

    /// Removes the plain rows of a range: each gap before, between and after guarded rows, as one
    /// range.
    async fn remove_range(
        &self,
        call: Call,
        table: Table,
        partition: &[u8],
        from: Bytes,
        to: Option<Bytes>,
    ) -> StepResult {
        if to.as_ref().is_some_and(|to| *to <= from) {
            return Ok(Ended::Applied);
        }
        let statements = self.statements.of(table);
        let partition = stored_partition(partition);
        let mut looking = RangeRead {
            requests: &self.requests,
            deadline: call.deadline,
            level: self.levels.strong(table.class()).consistency(),
            statements: [true, false].map(|has_end| statements.look_over(has_end)),
            partition: partition.clone(),
            parts: Parts::of(from.clone(), to.clone(), Direction::Forward),
        };
        let (mut gaps, mut gap) = (Vec::new(), Gap { from, newest: None });
        loop {
            let looked = looking.page(LOOKED_AT_ROWS as i32).await;
            let Some(rows) = looked.map_err(|failure| Failure::Refused(failure.of_read()))? else { break };
            for row in seen_rows(table, &rows).map_err(Failure::Refused)? {
                looking.parts.seen(&row.sort);
                if row.is_guarded {
                    let next = Gap { from: successor(&row.sort), newest: None };
                    gaps.push((std::mem::replace(&mut gap, next), Some(row.sort)));
                } else {
                    gap.newest = gap.newest.max(Some(row.written_at));
                }
            }
        }
        gaps.push((gap, to));
        let removals = gaps.into_iter().filter_map(|(gap, to)| self.range_removal(statements, &partition, gap, to));
        self.write_removals(call, table, removals.collect()).await.map(|()| Ended::Applied)
    }

    fn range_removal<'a>(
        &self,
        statements: &'a TableStatements,
        stored_partition: &Bytes,
        gap: Gap,
        to: Option<Bytes>,
    ) -> Option<Bound<'a>> {
        // Nothing was seen in it, so there is nothing to remove.
        let newest = gap.newest?;
        self.write_times.observe(newest);
        let statement = statements.remove_range(to.is_some());
        let keys = [Some(stored_partition.clone()), Some(gap.from), to].into_iter().flatten().map(Parameter::Blob);
        Some((statement, std::iter::once(Parameter::BigInt(newest)).chain(keys).collect()))
    }
}

/// A part of a range without guarded rows.
struct Gap {
    from: Bytes,
    /// The write time of the newest plain row in it; `None`: there is none.
    newest: Option<i64>,
}

fn seen_rows(table: Table, rows: &scylla::response::query_result::QueryRowsResult) -> StoreResult<Vec<SeenRow>> {
    readable(rows.rows::<SeenCells>())?.map(|cells| SeenRow::of(table, readable(cells)?)).collect()
}

/// Splits rows into portions, one per request.
fn portions(rows: Vec<NewRow>) -> Vec<Vec<NewRow>> {
    let mut portions: Vec<Vec<NewRow>> = Vec::new();
    let mut bytes = 0;
    for row in rows {
        let size = row.sort.len() + row.value.len();
        match portions.last_mut() {
            Some(portion) if bytes + size <= REQUEST_BYTES && portion.len() < REQUEST_ROWS => {
                bytes += size;
                portion.push(row);
            }
            _ => {
                bytes = size;
                portions.push(vec![row]);
            }
        }
    }
    portions
}

/// Combines the writes of one step: if one was carried out, a failed step is not certainly undone.
fn all_written(written: Vec<Result<(), Failure>>) -> StepResult {
    let some_written = written.iter().any(Result::is_ok);
    let mut failure = None;
    for failed in written.into_iter().filter_map(Result::err) {
        let unsure = some_written || !matches!(failed, Failure::Refused(_));
        failure = match failure {
            Some(Failure::Unsure(reason)) => Some(Failure::Unsure(reason)),
            _ if unsure => Some(Failure::Unsure(failed.reason())),
            _ => Some(failed),
        };
    }
    failure.map_or(Ok(Ended::Applied), Err)
}

/// A read that failed within a step: nothing was carried out, unless an earlier write was.
fn not_done(written: &[Result<(), Failure>], error: StoreError) -> Failure {
    if written.is_empty() { Failure::Refused(error) } else { Failure::Unsure(error.to_string()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rows(sizes: &[usize]) -> Vec<NewRow> {
        sizes.iter().map(|size| NewRow::new("", vec![0; *size])).collect()
    }

    #[test]
    fn rows_are_split_by_bytes_and_by_number_and_none_is_lost() {
        let sizes = |rows| portions(rows).iter().map(Vec::len).collect::<Vec<_>>();
        assert!(sizes(rows(&[])).is_empty());
        assert_eq!(sizes(rows(&[REQUEST_BYTES, 1, REQUEST_BYTES - 1, 1])), [1, 2, 1]);
        assert_eq!(sizes(rows(&[REQUEST_BYTES + 1, 0])), [1, 1]);
        assert_eq!(sizes(rows(&[0; REQUEST_ROWS + 1])), [REQUEST_ROWS, 1]);
    }

    #[test]
    fn a_failure_after_a_write_is_unsure() {
        let refused = || Err(Failure::Refused(StoreError::Overloaded(String::new())));
        assert!(matches!(all_written(vec![]), Ok(Ended::Applied)));
        assert!(matches!(all_written(vec![refused(), refused()]), Err(Failure::Refused(_))));
        assert!(matches!(all_written(vec![Ok(()), refused()]), Err(Failure::Unsure(_))));
        assert!(matches!(all_written(vec![Err(Failure::Late), refused()]), Err(Failure::Unsure(_))));
        assert!(matches!(all_written(vec![refused(), Err(Failure::Late)]), Err(Failure::Unsure(_))));
    }
}
