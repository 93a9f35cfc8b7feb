//! What a failed request to the cluster means: was it surely not carried out, or does nobody know?

use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use store::{StoreError, StoreResult};

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was surely not carried out.
    Refused(StoreError),
    /// It may have been carried out, or may still be.
    Unsure(String),
    /// The same, and the deadline has passed.
    Late,
}

impl Failure {
    /// What it means for a read.
    pub(crate) fn of_read(self) -> StoreError {
        match self {
            Failure::Refused(error) => error,
            Failure::Unsure(reason) => StoreError::Unavailable(reason),
            Failure::Late => StoreError::DeadlinePassed,
        }
    }

    /// Whether the same request may fare better in a moment.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Failure::Unsure(_) | Failure::Refused(StoreError::Unavailable(_)))
    }

    /// What to say to who asks why nobody knows.
    pub(crate) fn reason(&self) -> String {
        match self {
            Failure::Refused(error) => error.to_string(),
            Failure::Unsure(reason) => reason.clone(),
            Failure::Late => "the cluster did not answer by the deadline".to_owned(),
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

fn of_answer(error: DbError, said: String) -> Failure {
    match error {
        DbError::Unavailable { consistency, required, alive, .. } => Failure::Refused(StoreError::Unavailable(
            format!("{required} replicas have to answer at level {consistency}, {alive} are there"),
        )),
        DbError::IsBootstrapping => Failure::Refused(StoreError::Unavailable(said)),
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

/// What an answer holds, or that it cannot be what was asked for.
pub(crate) fn readable<T>(answer: Result<T, impl std::fmt::Display>) -> StoreResult<T> {
    answer.map_err(|error| StoreError::Unavailable(format!("the cluster's answer cannot be read: {error}")))
}
