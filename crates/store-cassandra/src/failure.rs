//! Decides what a failed request to the cluster means: certainly not carried out, or unknown.

use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use store::{Deadline, StoreError, StoreResult};

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was certainly not carried out.
    Refused(StoreError),
    /// It may have been carried out, or may still be.
    Unsure(String),
    /// Like `Unsure`, and the deadline has passed.
    Late,
    /// A read met more removed rows than a node reads for one request. A read of a smaller range
    /// may succeed.
    TooManyRemoved(String),
}

impl Failure {
    /// The meaning for a read.
    pub(crate) fn of_read(self) -> StoreError {
        match self {
            Failure::Refused(error) => error,
            Failure::Unsure(reason) | Failure::TooManyRemoved(reason) => StoreError::Unavailable(reason),
            Failure::Late => StoreError::DeadlinePassed,
        }
    }

    /// The meaning if a single try has its own time limit before the deadline.
    pub(crate) fn seen_at(self, deadline: Deadline) -> Self {
        match self {
            Failure::Late if !deadline.passed() => Failure::Unsure("a node did not answer in time".to_owned()),
            failure => failure,
        }
    }

    /// Whether the same request may succeed in a moment.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Failure::Unsure(_) | Failure::Refused(StoreError::Unavailable(_)))
    }

    /// The reason why the outcome is unknown.
    pub(crate) fn reason(&self) -> String {
        match self {
            Failure::Refused(error) => error.to_string(),
            Failure::Unsure(reason) | Failure::TooManyRemoved(reason) => reason.clone(),
            Failure::Late => "the cluster did not answer by the deadline".to_owned(),
        }
    }
}

/// Why a write has no answer.
pub(crate) enum NotAnswered {
    /// It was not sent by the deadline: too many other requests are under way.
    NotSent,
    /// It was sent.
    Failed(Box<ExecutionError>),
}

impl From<NotAnswered> for Failure {
    fn from(not_answered: NotAnswered) -> Self {
        match not_answered {
            NotAnswered::NotSent => {
                Failure::Refused(StoreError::Overloaded("too many requests to the cluster are waiting".to_owned()))
            }
            NotAnswered::Failed(error) => (*error).into(),
        }
    }
}

impl Failure {
    /// The meaning for a lightweight transaction. It has several rounds, and an error of a later
    /// round (missing or overloaded replicas) does not undo what an earlier one decided. Only if
    /// too few replicas were available to decide was nothing decided.
    pub(crate) fn of_transaction(not_answered: NotAnswered) -> Self {
        let decided_nothing = match &not_answered {
            NotAnswered::NotSent => true,
            NotAnswered::Failed(error) => match error.as_ref() {
                ExecutionError::LastAttemptError(RequestAttemptError::DbError(answer, _)) => match answer {
                    DbError::Unavailable { consistency, .. } => consistency.is_serial(),
                    DbError::Overloaded => false,
                    _ => true,
                },
                _ => true,
            },
        };
        match Self::from(not_answered) {
            Failure::Refused(error) if !decided_nothing => Failure::Unsure(error.to_string()),
            failure => failure,
        }
    }
}

impl From<ExecutionError> for Failure {
    fn from(error: ExecutionError) -> Self {
        match error {
            ExecutionError::RequestTimeout(_) => Failure::Late,
            ExecutionError::LastAttemptError(attempt) => of_attempt(attempt),
            ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => {
                Failure::Refused(StoreError::Unavailable(format!("no node of the data center answers: {error}")))
            }
            ExecutionError::BadQuery(_) | ExecutionError::PrepareError(_) | ExecutionError::UseKeyspaceError(_) => {
                Failure::Refused(StoreError::Invalid(error.to_string()))
            }
            _ => Failure::Unsure(error.to_string()),
        }
    }
}

fn of_attempt(attempt: RequestAttemptError) -> Failure {
    let said = attempt.to_string();
    match attempt {
        RequestAttemptError::DbError(error, _) => of_answer(error, said),
        RequestAttemptError::UnableToAllocStreamId => Failure::Refused(StoreError::Overloaded(said)),
        RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => {
            Failure::Refused(StoreError::Invalid(said))
        }
        _ => Failure::Unsure(said),
    }
}

/// Whether a node says that too few replicas are up. Any other failure may be that of nodes that live: they
/// are overloaded, or answer too late.
pub(crate) fn too_few_are_up(error: &ExecutionError) -> bool {
    let ExecutionError::LastAttemptError(RequestAttemptError::DbError(answer, _)) = error else { return false };
    matches!(answer, DbError::Unavailable { .. })
}

/// The guardrail of Cassandra (4.1 and later) with which nodes refuse writes before a disk is full.
const DISK_GUARDRAIL: &str = "replica_disk_usage";

/// How a node (5.0 and later) reports that it met more tombstones than
/// `tombstone_failure_threshold`, 100,000 by default.
const TOO_MANY_TOMBSTONES: &str = "READ_TOO_MANY_TOMBSTONES";

fn of_answer(error: DbError, said: String) -> Failure {
    match error {
        DbError::Invalid if said.contains(DISK_GUARDRAIL) => {
            Failure::Refused(StoreError::Full(format!("a node's disk is as full as Cassandra allows: {said}")))
        }
        DbError::ReadFailure { .. } if said.contains(TOO_MANY_TOMBSTONES) => Failure::TooManyRemoved(said),
        DbError::Unavailable { consistency, required, alive, .. } => Failure::Refused(StoreError::Unavailable(
            format!("{required} replicas must answer at level {consistency}, but only {alive} are up"),
        )),
        // A node that has forgotten a statement does not begin to execute it. The driver prepares it
        // again, but a node with many others may forget it at once.
        DbError::IsBootstrapping | DbError::Unprepared { .. } => Failure::Refused(StoreError::Unavailable(said)),
        DbError::Overloaded | DbError::RateLimitReached { .. } => Failure::Refused(StoreError::Overloaded(said)),
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::ConfigError
        | DbError::ProtocolError
        | DbError::Unauthorized
        | DbError::AuthenticationError => Failure::Refused(StoreError::Invalid(said)),
        _ => Failure::Unsure(said),
    }
}

/// Maps an answer that is not of the expected form to an error.
pub(crate) fn readable<T>(answer: Result<T, impl std::fmt::Display>) -> StoreResult<T> {
    answer.map_err(|error| StoreError::Unavailable(format!("the cluster's answer cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use scylla::statement::Consistency;

    use super::*;

    fn said(error: DbError) -> NotAnswered {
        NotAnswered::Failed(Box::new(RequestAttemptError::DbError(error, String::new()).into()))
    }

    fn unavailable(consistency: Consistency) -> NotAnswered {
        said(DbError::Unavailable { consistency, required: 2, alive: 1 })
    }

    #[test]
    fn an_undecided_transaction_was_not_applied_and_an_uncommitted_one_may_be() {
        let too_few = Failure::of_transaction(unavailable(Consistency::Serial));
        assert!(matches!(too_few, Failure::Refused(StoreError::Unavailable(_))), "{too_few:?}");
        for later in [unavailable(Consistency::Quorum), said(DbError::Overloaded)] {
            let failure = Failure::of_transaction(later);
            assert!(matches!(failure, Failure::Unsure(_)), "{failure:?}");
        }
        assert!(matches!(Failure::of_transaction(NotAnswered::NotSent), Failure::Refused(StoreError::Overloaded(_))));
    }

    #[test]
    fn a_plain_write_that_was_refused_was_not_carried_out() {
        assert!(matches!(unavailable(Consistency::Quorum).into(), Failure::Refused(StoreError::Unavailable(_))));
        assert!(matches!(said(DbError::Overloaded).into(), Failure::Refused(StoreError::Overloaded(_))));
        let unprepared = || said(DbError::Unprepared { statement_id: bytes::Bytes::new() });
        assert!(matches!(unprepared().into(), Failure::Refused(StoreError::Unavailable(_))));
        assert!(matches!(Failure::of_transaction(unprepared()), Failure::Refused(StoreError::Unavailable(_))));
        assert!(matches!(said(DbError::ServerError).into(), Failure::Unsure(_)));
        assert!(matches!(ExecutionError::RequestTimeout(std::time::Duration::ZERO).into(), Failure::Late));
    }
}
