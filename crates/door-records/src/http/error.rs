//! Why a request over HTTP is refused: each reason and its status, in one match.

use axum::response::{IntoResponse, Response};
use budget::Overloaded;
use door_http::conditional::{MalformedCondition, Unmet};
use door_http::{BodyError, PreconditionFailed, Problem, Reason};
use records::{RecordError, RecordsError};
use store::StoreError;
use thiserror::Error;

use crate::admission::NoPlace;
use crate::meters::Outcome;
use crate::pattern::LongPattern;

/// Why a request is refused.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    /// The request, or a line of it, cannot be understood.
    #[error("{0}")]
    Malformed(String),
    /// A pattern of ids is too long.
    #[error(transparent)]
    Pattern(#[from] LongPattern),
    /// JSON has no form for it.
    #[error("{0} is not UTF-8 text, so this form cannot have it")]
    NotText(&'static str),
    /// There is no such record.
    #[error("there is no such record")]
    Absent,
    /// A condition depends on what is stored, and in mode fast nothing is read before a change.
    #[error("a condition depends on what is stored, and is not offered in mode fast")]
    NotFast,
    /// A condition does not hold.
    #[error(transparent)]
    Precondition(#[from] PreconditionFailed),
    /// A condition of a change cannot be read.
    #[error(transparent)]
    Condition(#[from] MalformedCondition),
    /// The body cannot be held.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// There is no memory for it now.
    #[error(transparent)]
    Memory(#[from] Overloaded),
    /// The body did not arrive in time.
    #[error("the request did not arrive by its deadline; nothing was changed")]
    Late,
    /// Those before it take too long.
    #[error("{}; nothing was changed", crate::error::CROWDED)]
    Crowded,
    /// The record does not do what it is asked for.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The store refuses it.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

impl HttpError {
    /// Its place in the table of reasons.
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Malformed(_) | Self::Pattern(_) => Reason::INVALID,
            Self::NotText(_) => Reason::NOT_UTF_8,
            Self::Absent => Reason::ABSENT,
            Self::NotFast => Reason::NOT_OFFERED,
            Self::Precondition(_) => Reason::PRECONDITION_FAILED,
            Self::Condition(_) => Reason::MALFORMED_HEADER,
            Self::Body(BodyError::TooLarge { .. }) => Reason::TOO_LARGE,
            Self::Body(BodyError::Broken(_)) => Reason::BODY_BROKEN,
            Self::Body(BodyError::Memory(_)) | Self::Memory(_) | Self::Crowded => Reason::OVERLOADED,
            Self::Record(_) => Reason::CONFLICT,
            Self::Late | Self::Records(RecordsError::Store(StoreError::DeadlinePassed)) => Reason::DEADLINE,
            Self::Records(RecordsError::Store(error)) => error.into(),
            Self::Records(RecordsError::Unknown(_)) => Reason::UNKNOWN_OUTCOME,
            Self::Records(RecordsError::Id(_) | RecordsError::Name(_)) => Reason::INVALID,
            Self::Records(RecordsError::OtherMode { .. } | RecordsError::FastAlone) => Reason::CONFLICT,
            Self::Records(RecordsError::TooLarge { .. }) => Reason::TOO_LARGE,
            Self::Records(RecordsError::Damaged(_)) => Reason::DAMAGED,
        }
    }

    /// What metrics call it.
    pub(super) fn outcome(&self) -> Outcome {
        match self.reason() {
            Reason::DEADLINE => Outcome::Deadline,
            Reason::OVERLOADED => Outcome::Overloaded,
            Reason::UNKNOWN_OUTCOME => Outcome::Unknown,
            Reason::DAMAGED => Outcome::Damaged,
            _ => Outcome::Refused,
        }
    }

    pub(super) fn problem(&self) -> Problem {
        Problem::new(self.reason(), self, false)
    }
}

impl From<Unmet> for HttpError {
    fn from(unmet: Unmet) -> Self {
        match unmet {
            Unmet::Failed(failed) => failed.into(),
            Unmet::Malformed(malformed) => malformed.into(),
        }
    }
}

impl From<NoPlace> for HttpError {
    fn from(reason: NoPlace) -> Self {
        match reason {
            NoPlace::Overloaded => Self::Crowded,
            NoPlace::Late => Self::Records(StoreError::DeadlinePassed.into()),
        }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        self.problem().into_response()
    }
}
