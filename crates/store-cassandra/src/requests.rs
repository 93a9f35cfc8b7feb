//! Sends every request to the cluster: deadline, level, retries and outcome.
//!
//! The driver repeats reads only: all other requests have profiles that send them once
//! (`routing.rs`). To mark a request as not idempotent is not enough, because the driver's usual
//! policy repeats what is refused as unavailable all the same. Requests that are repeated here are
//! repeated at the same level.

use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::session::Session;
use scylla::response::PagingState;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::serialize::SerializationError;
use scylla::serialize::row::SerializeRow;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::CqlValue;
use store::{Deadline, Measure, StoreResult};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout_at;

use crate::failure::{Failure, NotAnswered, readable};
use crate::routing::{Asks, Routes};
use crate::traffic::{Operation, Traffic};

/// How often a read is tried that fails for a passing reason, and a write that certainly was not
/// carried out.
const TRIES_MAX: u32 = 4;

/// The time limit of one try, longer than the time-outs of the nodes themselves (2 s). Otherwise a
/// node that hangs would hold a call until its deadline, although others could answer it.
pub(crate) const TRY_MAX: Duration = Duration::from_secs(3);

/// The pause before the second try; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(10);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A parameter of a statement, for batches whose statements have different ones.
#[derive(Clone, Debug)]
pub(crate) enum Parameter {
    Blob(bytes::Bytes),
    Int(i32),
    BigInt(i64),
    /// A text.
    Text(String),
    /// No value.
    Null,
}

impl SerializeValue for Parameter {
    fn serialize<'b>(
        &self,
        typ: &scylla::frame::response::result::ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        match self {
            Parameter::Blob(bytes) => bytes.serialize(typ, writer),
            Parameter::Int(number) => number.serialize(typ, writer),
            Parameter::BigInt(number) => number.serialize(typ, writer),
            Parameter::Text(text) => text.serialize(typ, writer),
            Parameter::Null => Ok(writer.set_null()),
        }
    }
}

/// A statement of a batch with its parameters.
pub(crate) type Bound<'a> = (&'a PreparedStatement, Vec<Parameter>);

/// Sends requests.
pub(crate) struct Requests {
    session: Arc<Session>,
    routes: Routes,
    permits: Semaphore,
    requests_max: usize,
    traffic: Traffic,
}

impl Requests {
    /// The session, to prepare statements.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn new(session: Arc<Session>, routes: Routes, requests_max: usize) -> Self {
        let requests_max = requests_max.max(1);
        Self { session, routes, permits: Semaphore::new(requests_max), requests_max, traffic: Traffic::default() }
    }

    /// Whether the last write was refused because a disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.traffic.is_full()
    }

    /// What is measured of them.
    pub(crate) fn measures(&self) -> Vec<Measure> {
        let at_work = self.requests_max.saturating_sub(self.permits.available_permits());
        self.traffic.measures(at_work, &self.session)
    }

    /// All rows of a read: for reads with few rows.
    pub(crate) async fn rows(
        &self,
        deadline: Deadline,
        level: Consistency,
        statement: &PreparedStatement,
        parameters: impl SerializeRow + Sync,
    ) -> StoreResult<QueryRowsResult> {
        self.try_rows(deadline, level, Asks::TwoIfSlow, statement, parameters).await.map_err(Failure::of_read)
    }

    /// The same, for callers that handle a failure.
    pub(crate) async fn try_rows(
        &self,
        deadline: Deadline,
        level: Consistency,
        asks: Asks,
        statement: &PreparedStatement,
        parameters: impl SerializeRow + Sync,
    ) -> Result<QueryRowsResult, Failure> {
        Ok(self.read(deadline, level, asks, statement, &parameters, None).await?.0)
    }

    /// A page of the rows of a read (with a limit and a beginning), and where the next one begins.
    pub(crate) async fn page(
        &self,
        deadline: Deadline,
        level: Consistency,
        asks: Asks,
        statement: &PreparedStatement,
        parameters: impl SerializeRow + Sync,
        page: (i32, PagingState),
    ) -> Result<(QueryRowsResult, Option<PagingState>), Failure> {
        self.read(deadline, level, asks, statement, &parameters, Some(page)).await
    }

    async fn read(
        &self,
        deadline: Deadline,
        level: Consistency,
        asks: Asks,
        statement: &PreparedStatement,
        parameters: &(impl SerializeRow + Sync),
        page: Option<(i32, PagingState)>,
    ) -> Result<(QueryRowsResult, Option<PagingState>), Failure> {
        let mut statement = self.read_at(level, asks, statement);
        let mut tries = Tries::new(deadline);
        loop {
            let began = Instant::now();
            let Some(permit) = self.permit(deadline).await else {
                self.traffic.tried::<()>(Operation::Read, began, &Err(Failure::Late));
                return Err(Failure::Late);
            };
            statement.set_request_timeout(Some(deadline.remaining().min(TRY_MAX)));
            let answer = match &page {
                None => self.session.execute_unpaged(&statement, parameters).await.map(|answer| (answer, None)),
                Some((rows, from)) => {
                    statement.set_page_size(*rows);
                    let answer = self.session.execute_single_page(&statement, parameters, from.clone()).await;
                    answer.map(|(answer, rest)| (answer, rest.into_paging_control_flow().continue_value()))
                }
            };
            drop(permit);
            let answer = answer.map_err(|error| Failure::from(error).seen_at(deadline));
            self.traffic.tried(Operation::Read, began, &answer);
            match answer {
                Ok((answer, rest)) => {
                    let rows = readable(answer.into_rows_result()).map_err(Failure::Refused)?;
                    return Ok((rows, rest));
                }
                Err(failure) if failure.may_pass() && tries.again().await => self.traffic.retried(Operation::Read),
                Err(failure) => return Err(failure),
            }
        }
    }

    fn read_at(&self, level: Consistency, asks: Asks, statement: &PreparedStatement) -> PreparedStatement {
        let mut statement = statement.clone();
        statement.set_is_idempotent(true);
        statement.set_consistency(level);
        statement.set_execution_profile_handle(Some(self.routes.read(asks)));
        statement
    }

    /// Plain writes within one partition, all with the write time `at` (or their own), repeated
    /// until they are acknowledged. Writing them twice changes nothing.
    pub(crate) async fn write(
        &self,
        deadline: Deadline,
        level: Consistency,
        at: Option<i64>,
        statements: Vec<Bound<'_>>,
    ) -> Result<(), Failure> {
        let (mut batch, parameters) = batch_of(statements);
        batch.set_consistency(level);
        batch.set_timestamp(at);
        let (mut tries, mut unsure) = (Tries::new(deadline), None);
        let mut nth = 0;
        loop {
            batch.set_execution_profile_handle(Some(self.routes.write(nth)));
            let began = Instant::now();
            let answer = self.send(deadline, &mut batch, &parameters).await;
            let answer = answer.map_err(|not_answered| Failure::from(not_answered).seen_at(deadline));
            self.traffic.tried(Operation::Write, began, &answer);
            let Err(failure) = answer else { return Ok(()) };
            if let Failure::Unsure(reason) = &failure {
                // It must be acknowledged, so only the deadline ends this.
                unsure = Some(reason.clone());
                tries.left = TRIES_MAX;
            }
            if !failure.may_pass() || !tries.again().await {
                // Once it may have been written, a later refusal does not undo that.
                return Err(unsure.map_or(failure, Failure::Unsure));
            }
            self.traffic.retried(Operation::Write);
            nth += 1;
        }
    }

    /// A lightweight transaction, sent once, as the nth try (from 0). Returns whether it was
    /// applied.
    pub(crate) async fn transact(
        &self,
        deadline: Deadline,
        commit: Consistency,
        serial: SerialConsistency,
        statement: Bound<'_>,
        nth: usize,
    ) -> Result<bool, Failure> {
        let (mut batch, parameters) = batch_of(vec![statement]);
        batch.set_consistency(commit);
        batch.set_serial_consistency(Some(serial));
        batch.set_execution_profile_handle(Some(self.routes.transaction(nth)));
        if nth > 0 {
            self.traffic.retried(Operation::Transaction);
        }
        let began = Instant::now();
        let answer = self.send(deadline, &mut batch, &parameters).await;
        let answer = answer.map_err(|not_answered| Failure::of_transaction(not_answered).seen_at(deadline));
        self.traffic.tried(Operation::Transaction, began, &answer);
        applied(answer?).map_err(|error| Failure::Unsure(error.to_string()))
    }

    async fn send(
        &self,
        deadline: Deadline,
        batch: &mut Batch,
        parameters: &Vec<Vec<Parameter>>,
    ) -> Result<QueryResult, NotAnswered> {
        let _permit = self.permit(deadline).await.ok_or(NotAnswered::NotSent)?;
        batch.set_request_timeout(Some(deadline.remaining().min(TRY_MAX)));
        self.session.batch(batch, parameters).await.map_err(|error| NotAnswered::Failed(Box::new(error)))
    }

    /// A permit to send a request; `None`: the deadline passed first.
    async fn permit(&self, deadline: Deadline) -> Option<SemaphorePermit<'_>> {
        if deadline.passed() {
            return None;
        }
        let _waiting = self.traffic.wait();
        timeout_at(deadline.0, self.permits.acquire()).await.ok()?.ok()
    }
}

fn batch_of(statements: Vec<Bound<'_>>) -> (Batch, Vec<Vec<Parameter>>) {
    // All of it is in one partition, so it is one write in any case: a logged batch would only cost
    // more.
    let mut batch = Batch::new(BatchType::Unlogged);
    let mut parameters = Vec::with_capacity(statements.len());
    for (statement, of_statement) in statements {
        batch.append_statement(statement.clone());
        parameters.push(of_statement);
    }
    batch.set_is_idempotent(false);
    (batch, parameters)
}

/// The value of `[applied]` in the first row of an answer. The other columns depend on the stored
/// row.
pub(crate) fn applied(answer: QueryResult) -> StoreResult<bool> {
    let rows = readable(answer.into_rows_result())?;
    let column = rows.column_specs().get_by_name("[applied]").map(|(index, _)| index);
    let row: scylla::value::Row = readable(rows.first_row())?;
    match column.and_then(|index| row.columns.into_iter().nth(index)) {
        Some(Some(CqlValue::Boolean(applied))) => Ok(applied),
        _ => readable(Err("it does not say whether a transaction was applied")),
    }
}

/// A limit on tries, with pauses between them.
pub(crate) struct Tries {
    deadline: Deadline,
    left: u32,
    pause: Duration,
}

impl Tries {
    pub(crate) fn new(deadline: Deadline) -> Self {
        Self { deadline, left: TRIES_MAX, pause: PAUSE_FIRST }
    }

    /// Tries that only the deadline ends.
    pub(crate) fn until(deadline: Deadline) -> Self {
        Self { left: u32::MAX, ..Self::new(deadline) }
    }

    /// Pauses. Returns false if there were enough tries or no time is left.
    pub(crate) async fn again(&mut self) -> bool {
        self.left -= 1;
        if self.left == 0 || self.deadline.remaining() <= self.pause {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}
