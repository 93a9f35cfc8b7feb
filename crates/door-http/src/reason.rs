//! The reasons for which doors refuse requests: one table, so that a reason has the same status and
//! the same word everywhere.

use heads::ObjectsError;
use http::StatusCode;
use store::StoreError;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The status of the response.
    pub status: StatusCode,
    /// The word by which programs distinguish reasons with one status (`kind` in the problem).
    pub kind: &'static str,
    /// After how many seconds the same request may succeed (`Retry-After`), if it may at all.
    pub retry_after_s: Option<u32>,
}

/// The load may have passed.
const SOON_S: u32 = 2;
/// An operator has to do something first.
const LATER_S: u32 = 60;

impl Reason {
    /// A reason that stays.
    pub const fn new(status: StatusCode, kind: &'static str) -> Self {
        Self { status, kind, retry_after_s: None }
    }

    const fn passing(status: StatusCode, kind: &'static str, retry_after_s: u32) -> Self {
        Self { status, kind, retry_after_s: Some(retry_after_s) }
    }
}

macro_rules! reasons {
    ($($name:ident = $status:ident $kind:literal $(in $retry_after_s:ident)?;)*) => {
        impl Reason {
            $(#[doc = concat!("`", $kind, "`")]
            pub const $name: Self = reasons!(@ $status $kind $($retry_after_s)?);)*

            /// All of them. Volumes that cannot be read have more kinds: those of
            /// `hathi::VolumeError`.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
    (@ $status:ident $kind:literal) => { Self::new(StatusCode::$status, $kind) };
    (@ $status:ident $kind:literal $retry_after_s:ident) => {
        Self::passing(StatusCode::$status, $kind, $retry_after_s)
    };
}

reasons! {
    // What the request says.
    BODY_BROKEN = BAD_REQUEST "body-broken";
    CONFLICTING_PARAMETERS = BAD_REQUEST "conflicting-parameters";
    EXTERNAL_CONTENT = BAD_REQUEST "external-content";
    INVALID = BAD_REQUEST "invalid";
    INVALID_FORWARDED = BAD_REQUEST "invalid-forwarded";
    INVALID_HOST = BAD_REQUEST "invalid-host";
    INVALID_PATH = BAD_REQUEST "invalid-path";
    INVALID_VOLUME_ID = BAD_REQUEST "invalid-volume-id";
    MALFORMED_GRAPH = BAD_REQUEST "malformed-graph";
    MALFORMED_HEADER = BAD_REQUEST "malformed-header";
    MALFORMED_LIST = BAD_REQUEST "malformed-list";
    MALFORMED_PARAMETER = BAD_REQUEST "malformed-parameter";
    MALFORMED_QUERY = BAD_REQUEST "malformed-query";
    MALFORMED_UPDATE = BAD_REQUEST "malformed-update";
    MISSING_PARAMETER = BAD_REQUEST "missing-parameter";
    MISSING_PART = BAD_REQUEST "missing-part";
    MULTIPART = BAD_REQUEST "multipart";
    NOT_UTF_8 = BAD_REQUEST "not-utf-8";
    RESERVED_NAME = BAD_REQUEST "reserved-name";
    TOO_GREEDY = BAD_REQUEST "too-greedy";
    NOT_ALLOWED = METHOD_NOT_ALLOWED "not-allowed";
    NOT_ACCEPTABLE = NOT_ACCEPTABLE "not-acceptable";
    OVER_LIMIT = PAYLOAD_TOO_LARGE "over-limit";
    TOO_LARGE = PAYLOAD_TOO_LARGE "too-large";
    TOO_MANY_IDS = PAYLOAD_TOO_LARGE "too-many-ids";
    PATH_TOO_LONG = URI_TOO_LONG "path-too-long";
    UNSUPPORTED_MEDIA_TYPE = UNSUPPORTED_MEDIA_TYPE "unsupported-media-type";
    RANGE_NOT_SATISFIABLE = RANGE_NOT_SATISFIABLE "range-not-satisfiable";
    UPDATE_NOT_SUPPORTED = UNPROCESSABLE_ENTITY "update-not-supported";
    PRECONDITION_REQUIRED = PRECONDITION_REQUIRED "precondition-required";
    TOO_SLOW = REQUEST_TIMEOUT "too-slow";

    // Who sends it, and to whom.
    UNAUTHORIZED = UNAUTHORIZED "unauthorized";
    CROSS_SITE = FORBIDDEN "cross-site";
    INSUFFICIENT_SCOPE = FORBIDDEN "insufficient-scope";
    HOST_NOT_SERVED = MISDIRECTED_REQUEST "host-not-served";

    // What is stored.
    ABSENT = NOT_FOUND "absent";
    GONE = GONE "gone";
    EXPIRED = GONE "expired";
    CHANGED_MEANWHILE = CONFLICT "changed-meanwhile";
    CONFLICT = CONFLICT "conflict";
    CONSTRAINT = CONFLICT "constraint";
    DIGEST_MISMATCH = CONFLICT "digest-mismatch";
    EXISTS = CONFLICT "exists";
    HELD = CONFLICT "held";
    INTERACTION_MODEL = CONFLICT "interaction-model";
    NOT_A_CONTAINER = CONFLICT "not-a-container";
    NOT_IN_TRANSACTION = CONFLICT "not-in-transaction";
    NOT_OFFERED = CONFLICT "not-offered";
    OUTSIDE = CONFLICT "outside";
    RESERVED_PATH = CONFLICT "reserved-path";
    TRANSACTION = CONFLICT "transaction";
    PRECONDITION_FAILED = PRECONDITION_FAILED "precondition-failed";
    TOO_MANY_REQUESTS = TOO_MANY_REQUESTS "too-many-requests" in SOON_S;
    TOO_MANY_SELECTIONS = TOO_MANY_REQUESTS "too-many-selections" in LATER_S;
    TOO_MANY_TRANSACTIONS = TOO_MANY_REQUESTS "too-many-transactions" in LATER_S;

    // The state of the server and of its store.
    DAMAGED = INTERNAL_SERVER_ERROR "damaged";
    INTERNAL = INTERNAL_SERVER_ERROR "internal";
    SPOOL = INTERNAL_SERVER_ERROR "spool";
    SOURCE_IO = INTERNAL_SERVER_ERROR "io";
    ELSEWHERE = BAD_GATEWAY "elsewhere";
    CANCELLED = SERVICE_UNAVAILABLE "cancelled" in SOON_S;
    DEADLINE_PASSED = SERVICE_UNAVAILABLE "deadline-passed" in SOON_S;
    OVERLOADED = SERVICE_UNAVAILABLE "overloaded" in SOON_S;
    STOPPING = SERVICE_UNAVAILABLE "stopping" in SOON_S;
    UNAVAILABLE = SERVICE_UNAVAILABLE "unavailable" in SOON_S;
    WARMING = SERVICE_UNAVAILABLE "warming" in SOON_S;
    READ_ONLY = SERVICE_UNAVAILABLE "read-only" in LATER_S;
    REFUSES_WRITES = SERVICE_UNAVAILABLE "refuses-writes" in LATER_S;
    DEADLINE = GATEWAY_TIMEOUT "deadline";
    UNKNOWN_OUTCOME = GATEWAY_TIMEOUT "unknown-outcome";
    FULL = INSUFFICIENT_STORAGE "full";
}

impl From<&ObjectsError> for Reason {
    fn from(error: &ObjectsError) -> Self {
        match error {
            ObjectsError::Absent(_) => Self::ABSENT,
            ObjectsError::Gone(_) => Self::GONE,
            ObjectsError::Expired(_) => Self::EXPIRED,
            ObjectsError::Conflict(_) => Self::CONFLICT,
            ObjectsError::Held { .. } => Self::HELD,
            ObjectsError::Invalid(_) => Self::INVALID,
            ObjectsError::OverLimit(_) => Self::OVER_LIMIT,
            ObjectsError::Overloaded(_) => Self::OVERLOADED,
            ObjectsError::Damaged { .. } | ObjectsError::DamagedResource { .. } => Self::DAMAGED,
            // An invalid volume is the client's fault, unless storing it failed.
            ObjectsError::Source(error) => match error.kind() {
                "io" => Self::SOURCE_IO,
                kind => Self::new(StatusCode::UNPROCESSABLE_ENTITY, kind),
            },
            ObjectsError::Unknown(_) => Self::UNKNOWN_OUTCOME,
            ObjectsError::Store(error) => error.into(),
            ObjectsError::Internal(_) => Self::INTERNAL,
        }
    }
}

impl From<&StoreError> for Reason {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Limit { .. } => Self::OVER_LIMIT,
            StoreError::Overloaded(_) => Self::OVERLOADED,
            StoreError::DeadlinePassed => Self::DEADLINE_PASSED,
            StoreError::Unavailable(_) => Self::UNAVAILABLE,
            StoreError::Poisoned(_) | StoreError::NotDurable { .. } => Self::REFUSES_WRITES,
            StoreError::ReadOnly(_) => Self::READ_ONLY,
            StoreError::Full(_) => Self::FULL,
            StoreError::Corrupt { .. } => Self::DAMAGED,
            StoreError::Held { .. }
            | StoreError::Format { .. }
            | StoreError::Unreleased { .. }
            | StoreError::Unreadable { .. }
            | StoreError::Invalid(_)
            | StoreError::Io { .. } => Self::INTERNAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_one_status() {
        for (n, reason) in Reason::ALL.iter().enumerate() {
            let same = Reason::ALL[..n].iter().find(|other| other.kind == reason.kind);
            assert_eq!(same, None, "{} is there twice", reason.kind);
        }
    }

    #[test]
    fn a_client_learns_when_to_come_again_wherever_the_reason_passes() {
        for reason in Reason::ALL {
            let passes = matches!(reason.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(reason.retry_after_s.is_some(), passes, "{}", reason.kind);
        }
        assert!(Reason::OVERLOADED.retry_after_s < Reason::READ_ONLY.retry_after_s);
    }
}
