//! Lightweight transactions on plain rows: they compare the value.
//!
//! A value may come back, so a lost answer leaves the outcome unknown: neither a read nor another
//! try can find it out. (With a stamp, `compare.rs` can.)

use bytes::Bytes;
use store::{Call, Deadline, PlainValue, Row, StoreResult, Table};

use crate::compare::Ended;
use crate::engine::Engine;
use crate::failure::{Failure, readable};
use crate::requests::{Bound, Parameter, Tries};
use crate::statements::TableStatements;
use crate::value::{Cells, row_of, stored_partition, stored_value, time_to_live_s};

/// A plain row, its expected state and its new state.
pub(crate) struct Replacement {
    pub(crate) table: Table,
    pub(crate) partition: Bytes,
    pub(crate) sort: Bytes,
    pub(crate) expect: Option<PlainValue>,
    pub(crate) then: Option<PlainValue>,
}

impl Engine {
    /// Replaces a plain row if it is as expected.
    pub(crate) async fn replace(&self, call: Call, change: &Replacement) -> Result<Ended, Failure> {
        let _turn = self.turns.enter(call, change.table, &change.partition).await?;
        let statements = self.statements.of(change.table);
        let (commit, serial) = (self.levels.commit().consistency(), self.levels.serial().consistency());
        let mut expected = change.expect.as_ref().map(|row| stored_value(&row.value, row.expires_at));
        let mut tries = Tries::new(call.deadline);
        let mut nth = 0;
        loop {
            // Before each try: once the home is left, or the clock is wrong, nothing more is
            // decided here.
            self.may_switch().map_err(Failure::Refused)?;
            if let Some(sent) = self.replacement(statements, change, expected.as_ref()) {
                match self.requests.transact(call.deadline, commit, serial, sent, nth).await {
                    Ok(true) => return Ok(Ended::Applied),
                    Ok(false) => {}
                    Err(failure @ Failure::Refused(_)) if failure.may_pass() && tries.again().await => {
                        nth += 1;
                        continue;
                    }
                    Err(failure) => return Err(failure),
                }
            }
            let (cell, current) = self.cell_and_row(call.deadline, change).await.map_err(Failure::Refused)?;
            if change.expect.is_some() || current.is_some() {
                return Ok(Ended::Refused(current));
            }
            if change.then.is_none() {
                return Ok(Ended::Applied);
            }
            // Nobody sees a row there, but Cassandra has not deleted the expired one yet.
            expected = cell;
            nth += 1;
        }
    }

    /// `None`: there is nothing to write, and what is stored decides.
    fn replacement<'a>(
        &self,
        statements: &'a TableStatements,
        change: &Replacement,
        expected: Option<&Bytes>,
    ) -> Option<Bound<'a>> {
        let key = [stored_partition(&change.partition), change.sort.clone()].map(Parameter::Blob);
        let condition = expected.map_or(Parameter::Null, |cell| Parameter::Blob(cell.clone()));
        match &change.then {
            Some(then) => {
                let time_to_live = Parameter::Int(time_to_live_s(then.expires_at, self.now()));
                let value = Parameter::Blob(stored_value(&then.value, then.expires_at));
                let [partition, sort] = key;
                Some((&statements.replace, vec![time_to_live, value, partition, sort, condition]))
            }
            None if expected.is_some() => Some((&statements.remove_if, key.into_iter().chain([condition]).collect())),
            None => None,
        }
    }

    /// The value as it is stored, also if it has expired, and the row as it is seen.
    async fn cell_and_row(
        &self,
        deadline: Deadline,
        change: &Replacement,
    ) -> StoreResult<(Option<Bytes>, Option<Row>)> {
        let Replacement { table, partition, sort, .. } = change;
        let (statement, level) = (&self.statements.of(*table).get, self.levels.serial().read());
        let rows = self.requests.rows(deadline, level, statement, (stored_partition(partition), sort)).await?;
        let found = readable(rows.maybe_first_row::<(Option<Bytes>, Option<Bytes>, Option<Bytes>)>())?;
        let Some((value, stamp, tag)) = found else { return Ok((None, None)) };
        let cells = Cells { value: value.clone(), stamp, tag };
        Ok((value, row_of(*table, sort.clone(), cells, self.now_for(*table))?))
    }
}
