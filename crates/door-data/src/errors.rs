//! Errors of requests: one total match from the reason to the status.
//!
//! The routes of the HTRC Data API respond with plain text, as the original did ([`AsText`]); the
//! others answer `application/problem+json` (RFC 9457, [`AsProblem`]).

use std::io::ErrorKind;

use area::OutsideArea;
use axum::response::{IntoResponse, Response};
use budget::Overloaded;
use door_http::conditional::{MalformedCondition, Unmet};
use door_http::problem::INSUFFICIENT_SCOPE;
use door_http::{BodyError, DigestError, PreconditionFailed, Problem, RangeNotSatisfiable, Reason};
use hathi::{InvalidVolumeId, ListError};
use heads::ObjectsError;
use http::{HeaderMap, HeaderValue, header};
use thiserror::Error;

use crate::policy::Policy;
use crate::retrieval::Retrieval;

/// Why a request is refused. The messages of the first four are those of the original service.
#[derive(Debug, Error)]
pub enum DoorError {
    /// A missing parameter.
    #[error("Missing required parameter {0}")]
    MissingParameter(&'static str),
    /// A malformed list of ids.
    #[error(transparent)]
    List(#[from] ListError),
    /// More than the configuration allows.
    #[error("Request too greedy. Request violates {policy} {max}. Offending ID: {id}")]
    TooGreedy {
        /// What is limited.
        policy: Policy,
        /// The limit.
        max: u64,
        /// The id that exceeds the limit.
        id: String,
    },
    /// Two parameters that exclude each other.
    #[error("Conflicting parameters in {retrieval} retrieval. Offending Parameters: {first}, {second}")]
    Conflicting {
        /// The kind of request.
        retrieval: Retrieval,
        /// One parameter.
        first: &'static str,
        /// The other parameter.
        second: &'static str,
    },
    /// A parameter with an invalid value.
    #[error("Malformed parameter {name}. Offending value: {value} (expected {expected})")]
    MalformedParameter {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// The valid values.
        expected: &'static str,
    },
    /// A parameter that is given more than once.
    #[error("Malformed parameter {0}. It is given more than once")]
    RepeatedParameter(&'static str),
    /// An unknown parameter whose name is that of another one, but for its spelling.
    #[error("Malformed parameter {name}. It is written {meant}")]
    Misspelt {
        /// Its name.
        name: String,
        /// The name of the other one.
        meant: &'static str,
    },
    /// A time on a route of one volume.
    #[error("there is no parameter {name} here; versions/ of the volume has its earlier states")]
    NotOfOneVolume {
        /// The name of the parameter.
        name: String,
    },
    /// A parameter that the route does not have.
    #[error("there is no parameter {name} here; there are {known}")]
    UnknownParameter {
        /// Its name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// Conditions that cannot be read.
    #[error("Malformed parameter where, {0}")]
    Conditions(volumes::find::ConditionError),
    /// A text that is not UTF-8.
    #[error("the {0} is not UTF-8 text")]
    NotUtf8(&'static str),
    /// The request's body ended before it was complete.
    #[error("the body could not be read to its end: {0}")]
    BodyBroken(String),
    /// A body, or a part of one, that exceeds its limit.
    #[error("{what} is larger than {max_bytes} bytes")]
    TooLarge {
        /// What.
        what: String,
        /// The limit.
        max_bytes: u64,
    },
    /// A list that is too long for one request.
    #[error("the request names more than {max} volumes and pages; split it into several requests")]
    TooManyIds {
        /// The limit.
        max: u64,
    },
    /// A list of which so much may be missing that it could not be reported.
    #[error(
        "ERROR.err, which names what is missing, could have {bytes} bytes, at most {max} are allowed; split the \
         request into several"
    )]
    TooMuchMissing {
        /// The bytes that `ERROR.err` has if all is missing.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// A body of an unsupported type.
    #[error("a body of type {found} is not supported here; send {supported}")]
    UnsupportedMediaType {
        /// The type of the body.
        found: String,
        /// The supported types.
        supported: &'static str,
    },
    /// No representation is acceptable to the client.
    #[error("none of the offered representations is acceptable to you: {0}")]
    NotAcceptable(String),
    /// A condition of the request does not hold.
    #[error(transparent)]
    PreconditionFailed(#[from] PreconditionFailed),
    /// A condition of a change cannot be read.
    #[error(transparent)]
    Condition(#[from] MalformedCondition),
    /// An announced digest is malformed, or does not match.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// The range lies outside the representation.
    #[error(transparent)]
    RangeNotSatisfiable(#[from] RangeNotSatisfiable),
    /// An invalid volume id in a path.
    #[error(transparent)]
    InvalidVolumeId(#[from] InvalidVolumeId),
    /// A volume that is not within the client's area.
    #[error(transparent)]
    OutsideArea(#[from] OutsideArea),
    /// The server keeps no earlier versions.
    #[error("this server keeps no earlier versions of volumes (history.volumes)")]
    NoVersions,
    /// A volume that is there, of which a request names no version to restore.
    #[error("{0} is not deleted: name the version to restore by its revision (restore) or a time (Accept-Datetime)")]
    NotDeleted(String),
    /// Something that a volume does not have.
    #[error("{volume} has no {what}")]
    NotInVolume {
        /// The volume.
        volume: String,
        /// What.
        what: String,
    },
    /// A multipart body without a required part.
    #[error("the part `{0}` is missing: send `zip`, `mets` and, optional, `record`, each once")]
    MissingPart(&'static str),
    /// A body that is not multipart/form-data, or has other parts.
    #[error("the body cannot be read as multipart/form-data: {0}")]
    Multipart(String),
    /// The operating system could not store an upload.
    #[error("the upload could not be stored: {0}")]
    Spool(#[from] std::io::Error),
    /// A requester has the greatest allowed number of selections.
    #[error("you cannot have another selection now: {0}")]
    TooManySelections(String),
    /// An error of the domain.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

impl From<Overloaded> for DoorError {
    fn from(error: Overloaded) -> Self {
        Self::Objects(error.into())
    }
}

impl From<Unmet> for DoorError {
    fn from(unmet: Unmet) -> Self {
        match unmet {
            Unmet::Failed(failed) => failed.into(),
            Unmet::Malformed(malformed) => malformed.into(),
        }
    }
}

impl From<BodyError> for DoorError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge { max_bytes } => Self::TooLarge { what: "the body".to_owned(), max_bytes },
            BodyError::Broken(error) => Self::BodyBroken(error),
            BodyError::Memory(error) => error.into(),
        }
    }
}

impl DoorError {
    /// Its place in the table of reasons.
    fn reason(&self) -> Reason {
        match self {
            Self::MissingParameter(_) => Reason::MISSING_PARAMETER,
            Self::List(_) => Reason::MALFORMED_LIST,
            Self::TooGreedy { .. } => Reason::TOO_GREEDY,
            Self::Conflicting { .. } => Reason::CONFLICTING_PARAMETERS,
            Self::MalformedParameter { .. }
            | Self::RepeatedParameter(_)
            | Self::Misspelt { .. }
            | Self::NotOfOneVolume { .. }
            | Self::UnknownParameter { .. }
            | Self::NotDeleted(_)
            | Self::Conditions(_) => Reason::MALFORMED_PARAMETER,
            Self::NotUtf8(_) => Reason::NOT_UTF_8,
            Self::BodyBroken(_) => Reason::BODY_BROKEN,
            Self::TooLarge { .. } => Reason::TOO_LARGE,
            Self::TooManyIds { .. } | Self::TooMuchMissing { .. } => Reason::TOO_MANY_IDS,
            Self::UnsupportedMediaType { .. } => Reason::UNSUPPORTED_MEDIA_TYPE,
            Self::NotAcceptable(_) => Reason::NOT_ACCEPTABLE,
            Self::PreconditionFailed(_) => Reason::PRECONDITION_FAILED,
            Self::Condition(_) | Self::Digest(DigestError::Malformed { .. }) => Reason::MALFORMED_HEADER,
            Self::Digest(DigestError::Mismatch { .. }) => Reason::DIGEST_MISMATCH,
            Self::RangeNotSatisfiable(_) => Reason::RANGE_NOT_SATISFIABLE,
            Self::InvalidVolumeId(_) => Reason::INVALID_VOLUME_ID,
            Self::OutsideArea(_) => Reason::INSUFFICIENT_SCOPE,
            Self::NotInVolume { .. } | Self::NoVersions => Reason::ABSENT,
            Self::MissingPart(_) => Reason::MISSING_PART,
            Self::Multipart(_) => Reason::MULTIPART,
            Self::Spool(error) if error.kind() == ErrorKind::StorageFull => Reason::FULL,
            Self::Spool(_) => Reason::SPOOL,
            Self::TooManySelections(_) => Reason::TOO_MANY_SELECTIONS,
            Self::Objects(error) => error.into(),
        }
    }

    /// The headers for a reason.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        match self {
            Self::RangeNotSatisfiable(RangeNotSatisfiable { len_bytes }) => {
                if let Ok(value) = HeaderValue::try_from(format!("bytes */{len_bytes}")) {
                    headers.insert(header::CONTENT_RANGE, value);
                }
            }
            Self::OutsideArea(_) => {
                headers.insert(header::WWW_AUTHENTICATE, INSUFFICIENT_SCOPE);
            }
            // RFC 9110, section 15.5.16: the supported types.
            Self::UnsupportedMediaType { supported, .. } => {
                headers.insert(header::ACCEPT, HeaderValue::from_static(supported));
            }
            _ => {}
        }
        headers
    }

    /// The response. Errors that need attention are logged.
    fn problem(&self) -> Problem {
        Problem::new(self.reason(), self, matches!(self, Self::Objects(ObjectsError::Damaged { .. })))
            .with_headers(self.headers())
    }
}

/// An error of the routes of the HTRC Data API: plain text.
#[derive(Debug)]
pub struct AsText(pub DoorError);

impl<E: Into<DoorError>> From<E> for AsText {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for AsText {
    fn into_response(self) -> Response {
        self.0.problem().as_text()
    }
}

/// An error of the other routes: `application/problem+json`.
#[derive(Debug)]
pub struct AsProblem(pub DoorError);

impl<E: Into<DoorError>> From<E> for AsProblem {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for AsProblem {
    fn into_response(self) -> Response {
        self.0.problem().into_response()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::body::to_bytes;
    use hathi::VolumeError;
    use http::StatusCode;
    use serde_json::Value;
    use store::StoreError;

    use super::*;

    async fn text(response: Response) -> String {
        String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
    }

    #[test]
    fn each_outcome_that_a_client_can_act_on_has_a_status_of_its_own() {
        let id = || "yale.1".to_owned();
        for (error, status) in [
            (ObjectsError::Absent(id()), 404),
            (ObjectsError::Gone(id()), 410),
            (ObjectsError::Expired(id()), 410),
            (ObjectsError::Conflict(id()), 409),
            (ObjectsError::Overloaded(id()), 503),
            (ObjectsError::Unknown(id()), 504),
            (ObjectsError::Store(StoreError::Full(id())), 507),
            (ObjectsError::Store(StoreError::DeadlinePassed), 503),
            (ObjectsError::Source(VolumeError::ZipSlip("../x".into())), 422),
        ] {
            assert_eq!(AsProblem::from(error).into_response().status().as_u16(), status);
        }
    }

    #[test]
    fn a_client_refused_because_of_load_is_told_when_to_retry() {
        let response = AsText::from(ObjectsError::Overloaded("busy".into())).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
    }

    #[tokio::test]
    async fn a_problem_has_the_members_of_rfc_9457() {
        let response = AsProblem::from(ObjectsError::Gone("yale.1".into())).into_response();
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
        let problem: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!((&problem["status"], &problem["title"]), (&Value::from(410), &Value::from("Gone")));
        assert_eq!((&problem["kind"], &problem["detail"]), (&Value::from("gone"), &Value::from("yale.1 was deleted")));
    }

    #[tokio::test]
    async fn internal_errors_are_not_revealed() {
        let error = ObjectsError::Internal("/secret/path".into());
        assert!(!text(AsProblem::from(error).into_response()).await.contains("secret"));
    }

    #[tokio::test]
    async fn a_message_that_quotes_a_huge_request_is_truncated() {
        let error = ListError::MalformedVolume { token: "ä".repeat(1 << 20) };
        let message = text(AsText::from(error).into_response()).await;
        assert!(message.starts_with("Malformed Volume ID list. Offending token: ä") && message.len() < 5_000);
    }

    #[tokio::test]
    async fn an_unsatisfiable_range_reports_the_length() {
        let response = AsProblem::from(DoorError::from(RangeNotSatisfiable { len_bytes: 7 })).into_response();
        assert_eq!(response.status(), StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(response.headers()[header::CONTENT_RANGE], "bytes */7");
    }
}
