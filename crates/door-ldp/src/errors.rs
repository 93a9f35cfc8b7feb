//! Errors of requests: one total match from the reason to the status.

use area::OutsideArea;
use axum::response::{IntoResponse, Response};
use budget::Overloaded;
use door_http::conditional::MalformedCondition;
use door_http::problem::INSUFFICIENT_SCOPE;
use door_http::{BodyError, DigestError, Made, PreconditionFailed, Problem, RangeNotSatisfiable, Reason};
use heads::{InvalidPath, ObjectsError, ResourcePath};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use rdf::ParseError;
use rdf::update::{HELD, UpdateError};
use repository::ResourceError;
use repository::UploadError;
use search::SearchError;
use thiserror::Error;

use crate::links;
use crate::version_name::{InvalidVersionName, VersionName};

/// Media types that a resource accepts for `PATCH` (RFC 5789, section 3.1; LDP 1.0, section 7.1).
pub(crate) const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");
/// Media types that a container accepts for `POST` (LDP 1.0, section 7.1).
pub(crate) const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");

/// Most statements that an answer names.
const STATEMENTS_NAMED_MAX: usize = 10;

/// Why a request is refused.
#[derive(Debug, Error)]
pub enum LdpError {
    /// An invalid path.
    #[error(transparent)]
    Path(#[from] InvalidPath),
    /// A path that is not UTF-8 once it is decoded.
    #[error("the path is not UTF-8")]
    NotUtf8,
    /// A reserved name.
    #[error("`{0}` is not a name for a resource: names that begin with `fcr:` are reserved")]
    ReservedName(String),
    /// A reserved path.
    #[error("/{0} is reserved for the volumes of the library; change them through the data door")]
    ReservedPath(String),
    /// A resource that is not in the container that it was sent to.
    #[error("{0} is not in this container")]
    Outside(String),
    /// A resource or a volume that is not within the client's area.
    #[error(transparent)]
    OutsideArea(#[from] OutsideArea),
    /// An invalid volume id.
    #[error("{0}")]
    Volume(String),
    /// An invalid host.
    #[error("`{0}` is not a host")]
    Host(String),
    /// A method that the resource does not support.
    #[error("this resource does not support {method}")]
    NotAllowed {
        /// The method.
        method: Method,
        /// The supported methods.
        allow: String,
    },
    /// An error of the domain.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// A condition of the request does not hold.
    #[error(transparent)]
    PreconditionFailed(#[from] PreconditionFailed),
    /// A condition of a change cannot be read.
    #[error(transparent)]
    Condition(#[from] MalformedCondition),
    /// A condition is missing.
    #[error("this server requires a condition: send `If-Match` with the resource's entity tag")]
    PreconditionRequired,
    /// A body of an unsupported type.
    #[error("a body of type `{found}` is not supported here; send {supported}")]
    UnsupportedMediaType {
        /// The type of the body.
        found: String,
        /// The supported types.
        supported: String,
    },
    /// A body with a content coding.
    #[error("content coding `{0}` is not supported; send the body without it")]
    UnsupportedCoding(String),
    /// No representation is acceptable to the client.
    #[error("none of the offered representations is acceptable to you: {0}")]
    NotAcceptable(String),
    /// All volumes were requested as one archive.
    #[error(
        "all volumes are not sent as one archive: POST the ids of those that you want to /selections, and GET the archive that it names; or \
         name a few in a request to /volumes"
    )]
    AllVolumes,
    /// A body over its limit.
    #[error("the body is larger than {max_bytes} bytes")]
    TooLarge {
        /// The limit.
        max_bytes: u64,
    },
    /// The body ended before it was complete.
    #[error("the body could not be read to its end: {0}")]
    BodyBroken(String),
    /// The client left before anything was changed.
    #[error("the client left, so nothing was changed")]
    GivenUp,
    /// A body that is not a graph.
    #[error("{0}")]
    Graph(#[from] ParseError),
    /// Statements among many resources that are none.
    #[error(transparent)]
    Quads(#[from] rdf::quads::Refused),
    /// A refused link to content stored elsewhere.
    #[error("{0}")]
    External(String),
    /// Content stored elsewhere that cannot be read.
    #[error("{url} cannot be read: {why}")]
    Elsewhere {
        /// Its address.
        url: String,
        /// The reason.
        why: String,
    },
    /// A line that is not a JSON-LD object.
    #[error("the line is not a JSON-LD object: {0}")]
    Line(String),
    /// An update that cannot be applied.
    #[error("{0}")]
    Update(#[source] UpdateError),
    /// An update that needs more memory than one may have.
    #[error("too large: more than {limit} {HELD} (ldp.update_memory, and what one request gets of limits.memory)")]
    UpdateMemory {
        /// Bytes that it may have.
        limit: usize,
    },
    /// An update that is not UTF-8.
    #[error("the update is not in UTF-8")]
    UpdateNotUtf8,
    /// A malformed header.
    #[error("the header `{name}` is malformed: {why}")]
    Header {
        /// Which.
        name: &'static str,
        /// Why.
        why: String,
    },
    /// A malformed parameter of the query.
    #[error("the parameter `{name}` is malformed: {why}")]
    Parameter {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
    /// A parameter that the route does not have.
    #[error("there is no parameter `{name}` here; there are {known}")]
    UnknownParameter {
        /// Its name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A malformed query.
    #[error("{0}")]
    Query(&'static str),
    /// A malformed search.
    #[error("{0}")]
    Search(String),
    /// There is no index to search.
    #[error(transparent)]
    Index(#[from] SearchError),
    /// A name that no version can have.
    #[error(transparent)]
    VersionName(#[from] InvalidVersionName),
    /// A version that there is not, or that is not kept.
    #[error("/{path} has no version {name}; {list} lists those that there are")]
    NoVersion {
        /// The resource.
        path: ResourcePath,
        /// The name.
        name: VersionName,
        /// The address of the list.
        list: String,
    },
    /// A time of which it is not known which volumes there were.
    #[error(
        "it is not known which volumes there were at {}: each second that is over has an address, as far back as \
         `history.volumes` keeps them", .0.second().http()
    )]
    NoVolumesThen(VersionName),
    /// A transaction that there is not, at its address.
    #[error("{0}")]
    AbsentTransaction(ResourceError),
    /// A name that no transaction can have.
    #[error("there is no transaction `{0}`")]
    NoTransactionName(String),
    /// A transaction that has ended, at its address.
    #[error("{0}")]
    EndedTransaction(ResourceError),
    /// A container that is being deleted.
    #[error("/{0} is still being deleted; try again later")]
    BeingDeleted(ResourcePath),
    /// Some members of a container could not be brought back.
    #[error("/{path} is restored, but {count} of what was in it cannot come back: {}", first.join("; "))]
    NotAllRestored {
        /// The container.
        path: ResourcePath,
        /// How many.
        count: u64,
        /// The first ones, with the reasons.
        first: Vec<String>,
    },
    /// An error of what was to follow a change that is made.
    #[error("{0}")]
    AfterChange(Box<LdpError>),
    /// No versions are kept.
    #[error("no earlier versions are kept here (history.resources, history.trees)")]
    NoVersions,
    /// An interaction model that is not possible.
    #[error("{0}")]
    Model(String),
    /// A fixity check of a resource without bytes.
    #[error("/{0} has no bytes, so it has no fixity; `penates verify` checks descriptions")]
    NoBytes(ResourcePath),
    /// A feature that this server does not have, and must not ignore silently.
    #[error("{0}")]
    NotOffered(String),
    /// The body states something that only the server may state.
    #[error("{why}: {}", named(statements))]
    Constraint {
        /// Why not.
        why: &'static str,
        /// The statements, as N-Triples.
        statements: Vec<String>,
    },
    /// An announced digest is malformed, or does not match.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// The range lies outside the representation.
    #[error(transparent)]
    RangeNotSatisfiable(#[from] RangeNotSatisfiable),
    /// A defect of this program.
    #[error("internal error: {0}")]
    Internal(String),
}

fn named(statements: &[String]) -> String {
    let mut text = statements.iter().take(STATEMENTS_NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
    if statements.len() > STATEMENTS_NAMED_MAX {
        text += &format!("; and {} more", statements.len() - STATEMENTS_NAMED_MAX);
    }
    text
}

impl LdpError {
    /// The refusal of a parameter of the query.
    pub fn parameter(name: &str, why: impl Into<String>) -> Self {
        Self::Parameter { name: name.to_owned(), why: why.into() }
    }

    /// The same error, after something was changed.
    pub fn after_change(self) -> Self {
        Self::AfterChange(Box::new(self))
    }

    /// Whether something was changed all the same.
    pub fn is_after_change(&self) -> bool {
        matches!(self, Self::AfterChange(_))
    }

    /// Its place in the table of reasons.
    fn reason(&self) -> Reason {
        match self {
            Self::Path(InvalidPath::NameTooLong { .. } | InvalidPath::PathTooLong { .. }) => Reason::PATH_TOO_LONG,
            Self::Path(_) | Self::Resource(ResourceError::Path(_)) => Reason::INVALID_PATH,
            Self::NotUtf8 => Reason::NOT_UTF_8,
            Self::ReservedName(_) => Reason::RESERVED_NAME,
            Self::ReservedPath(_) => Reason::RESERVED_PATH,
            Self::Outside(_) => Reason::OUTSIDE,
            Self::OutsideArea(_) => Reason::INSUFFICIENT_SCOPE,
            Self::Volume(_) => Reason::INVALID_VOLUME_ID,
            Self::Host(_) => Reason::INVALID_HOST,
            Self::NotAllowed { .. } | Self::Resource(ResourceError::Root) => Reason::NOT_ALLOWED,
            Self::Resource(ResourceError::Absent(_) | ResourceError::NoVersion(_)) | Self::NoBytes(_) => Reason::ABSENT,
            Self::Resource(ResourceError::CurrentVersion(_)) => Reason::CONFLICT,
            Self::Resource(ResourceError::NotReceived(_)) => Reason::NOT_OFFERED,
            Self::AbsentTransaction(_) | Self::NoTransactionName(_) => Reason::ABSENT,
            Self::Resource(ResourceError::Gone { .. }) | Self::EndedTransaction(_) => Reason::GONE,
            Self::Resource(
                ResourceError::NoTransaction(_)
                | ResourceError::TransactionOver { .. }
                | ResourceError::Committing { .. },
            ) => Reason::TRANSACTION,
            Self::Resource(ResourceError::TooManyTransactions { .. }) => Reason::TOO_MANY_TRANSACTIONS,
            Self::Resource(ResourceError::NotInTransaction(_)) => Reason::NOT_IN_TRANSACTION,
            Self::Resource(ResourceError::Exists(_)) => Reason::EXISTS,
            Self::Resource(ResourceError::NotAContainer(_)) => Reason::NOT_A_CONTAINER,
            Self::Resource(ResourceError::Moved(_) | ResourceError::Deleting { .. }) | Self::BeingDeleted(_) => {
                Reason::CHANGED_MEANWHILE
            }
            Self::NotAllRestored { .. } => Reason::CONFLICT,
            Self::AfterChange(error) => error.reason(),
            Self::Resource(ResourceError::Objects(error)) => error.into(),
            Self::PreconditionFailed(_) => Reason::PRECONDITION_FAILED,
            Self::PreconditionRequired => Reason::PRECONDITION_REQUIRED,
            Self::UnsupportedMediaType { .. } | Self::UnsupportedCoding(_) => Reason::UNSUPPORTED_MEDIA_TYPE,
            Self::NotAcceptable(_) | Self::AllVolumes => Reason::NOT_ACCEPTABLE,
            Self::TooLarge { .. } | Self::UpdateMemory { .. } => Reason::TOO_LARGE,
            Self::BodyBroken(_) => Reason::BODY_BROKEN,
            // No client reads it: it is given up when the client has left.
            Self::GivenUp | Self::Graph(ParseError::Cancelled) | Self::Update(UpdateError::Cancelled) => {
                Reason::CANCELLED
            }
            Self::Graph(error) if error.is_too_large() => Reason::TOO_LARGE,
            Self::Quads(refused) if refused.error.is_too_large() => Reason::TOO_LARGE,
            Self::External(_) => Reason::EXTERNAL_CONTENT,
            Self::Elsewhere { .. } => Reason::ELSEWHERE,
            Self::Line(_) | Self::Graph(_) | Self::Quads(_) => Reason::MALFORMED_GRAPH,
            Self::Update(error) if error.is_too_large() => Reason::TOO_LARGE,
            Self::Update(UpdateError::NotSupported { .. } | UpdateError::Pattern { .. }) => {
                Reason::UPDATE_NOT_SUPPORTED
            }
            Self::Update(_) | Self::UpdateNotUtf8 => Reason::MALFORMED_UPDATE,
            Self::Header { .. } | Self::Condition(_) => Reason::MALFORMED_HEADER,
            Self::Parameter { .. } | Self::UnknownParameter { .. } => Reason::MALFORMED_PARAMETER,
            Self::Query(_) | Self::Search(_) => Reason::MALFORMED_QUERY,
            Self::Index(SearchError::None) => Reason::UNAVAILABLE,
            Self::Index(SearchError::Objects(error)) => error.into(),
            Self::VersionName(_) => Reason::INVALID_PATH,
            Self::NoVersion { .. } | Self::NoVersions | Self::NoVolumesThen(_) => Reason::ABSENT,
            Self::Model(_) | Self::Resource(ResourceError::InGroup { .. }) => Reason::INTERACTION_MODEL,
            Self::NotOffered(_) => Reason::NOT_OFFERED,
            Self::Constraint { .. } | Self::Resource(ResourceError::TooManyGive(_)) => Reason::CONSTRAINT,
            Self::Digest(DigestError::Malformed { .. }) => Reason::MALFORMED_HEADER,
            Self::Digest(DigestError::Mismatch { .. }) => Reason::DIGEST_MISMATCH,
            Self::RangeNotSatisfiable(_) => Reason::RANGE_NOT_SATISFIABLE,
            Self::Internal(_) => Reason::INTERNAL,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        self.reason().status == StatusCode::SERVICE_UNAVAILABLE || self.reason() == Reason::UNKNOWN_OUTCOME
    }

    /// After how many seconds the same request may succeed, if that is known.
    pub fn retry_after_s(&self) -> Option<u32> {
        self.reason().retry_after_s
    }

    /// Whether the client gets the details of an internal error: of damaged data it may have a
    /// copy.
    fn reveals_inside(&self) -> bool {
        matches!(self, Self::Resource(ResourceError::Objects(ObjectsError::DamagedResource { .. })))
    }

    /// The message for one of many.
    pub fn status_and_detail(&self) -> (StatusCode, String) {
        let reason = self.reason();
        (reason.status, Problem::new(reason, self, self.reveals_inside()).into_detail())
    }

    /// Whether to link to the page about constraints. LDP 1.0, section 4.2.1.6, requires it for
    /// every refused body.
    pub fn is_explained(&self) -> bool {
        matches!(
            self,
            Self::PreconditionRequired
                | Self::UnsupportedMediaType { .. }
                | Self::Graph(_)
                | Self::Update(_)
                | Self::UpdateMemory { .. }
                | Self::Model(_)
                | Self::Resource(ResourceError::InGroup { .. } | ResourceError::TooManyGive(_))
                | Self::NotOffered(_)
                | Self::External(_)
                | Self::Constraint { .. }
                | Self::TooLarge { .. }
        )
    }

    /// The headers that belong to a reason.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut insert = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        };
        match self {
            Self::NotAllowed { allow, .. } => insert(header::ALLOW, allow),
            Self::UnsupportedMediaType { supported, .. } => insert(header::ACCEPT, supported),
            Self::OutsideArea(_) => {
                headers.insert(header::WWW_AUTHENTICATE, INSUFFICIENT_SCOPE);
            }
            Self::RangeNotSatisfiable(RangeNotSatisfiable { len_bytes }) => {
                insert(header::CONTENT_RANGE, &format!("bytes */{len_bytes}"));
            }
            _ => {}
        }
        headers
    }
}

impl From<ObjectsError> for LdpError {
    fn from(error: ObjectsError) -> Self {
        Self::Resource(error.into())
    }
}

impl From<Overloaded> for LdpError {
    fn from(error: Overloaded) -> Self {
        ObjectsError::from(error).into()
    }
}

impl From<UpdateError> for LdpError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::NoRoom(why) => Overloaded(why).into(),
            UpdateError::TooLarge { of: HELD, limit } => Self::UpdateMemory { limit },
            error => Self::Update(error),
        }
    }
}

impl From<BodyError> for LdpError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge { max_bytes } => Self::TooLarge { max_bytes },
            BodyError::Broken(error) => Self::BodyBroken(error),
            BodyError::Memory(error) => error.into(),
        }
    }
}

impl From<UploadError<Self>> for LdpError {
    fn from(error: UploadError<Self>) -> Self {
        match error {
            UploadError::Source(error) => error,
            UploadError::Objects(error) => error.into(),
        }
    }
}

impl IntoResponse for LdpError {
    fn into_response(self) -> Response {
        let reason = self.reason();
        let mut response =
            Problem::new(reason, &self, self.reveals_inside()).with_headers(self.headers()).into_response();
        if !matches!(reason.status, StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::BAD_REQUEST) {
            links::append(response.headers_mut(), rdf::vocab::ldp::RESOURCE.as_str(), "type");
        }
        if self.is_after_change() {
            response.extensions_mut().insert(Made);
        }
        response
    }
}
