//! The audit over HTTP: to read and follow it, and, for the administrator alone, to erase a person
//! from it.

use std::net::IpAddr;
use std::sync::Arc;

use audit::{AuditEntry, Conditions, Erased, Reading, Requester, WantedKind, Whom, form};
use axum::body::{Body, Bytes};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{BoxError, Extension, Json, Router};
use door_http::accept::{Offer, media_type};
use door_http::{Query, Reason};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use heads::ObjectsError;
use http::{HeaderMap, header};
use jiff::Timestamp;
use library::Library;
use serde::{Deserialize, Serialize};
use store::UnixMillis;
use tokio_util::sync::CancellationToken;

use crate::access::Standing;
use crate::feed::{Consumers, Place};
use crate::problem;

/// The path of the audit for clients over a network.
pub(crate) const PATH: &str = "/audit";

const LINES: &str = "application/x-ndjson";
const CSV: &str = "text/csv";

/// What the routes need.
#[derive(Clone)]
pub(crate) struct AuditDoor {
    pub(crate) library: Library,
    /// The places of those who follow.
    pub(crate) consumers: Arc<Consumers>,
    /// Ends whoever follows.
    pub(crate) stopping: CancellationToken,
}

/// The routes of the administrator.
pub(crate) fn routes(door: AuditDoor) -> Router {
    Router::new().route("/admin/audit", get(read_raw)).route("/admin/audit/erase", post(erase)).with_state(door)
}

/// The route of everybody whose token allows it.
pub(crate) fn network_routes(door: AuditDoor) -> Router {
    Router::new().route(PATH, get(read_shown)).with_state(door)
}

/// The query: a period (from, inclusive, to, exclusive, RFC 3339), conditions, and whether what is
/// written from now on is wanted too. For the administrator: whether only the most requested
/// volumes are wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuditQuery {
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    top: Option<usize>,
    token: Option<String>,
    address: Option<IpAddr>,
    target: Option<String>,
    kind: Option<WantedKind>,
    result: Option<String>,
    #[serde(default)]
    follow: bool,
    format: Option<AuditFormat>,
}

/// The form of a response, if the query says it.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AuditFormat {
    Ndjson,
    Csv,
}

/// How an entry is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// As this program reads it.
    Raw,
    Json,
    Csv,
}

impl Shown {
    fn begin(self) -> Bytes {
        match self {
            Self::Raw | Self::Json => Bytes::new(),
            Self::Csv => form::csv_line(&form::CSV_COLUMNS.map(str::to_owned)).into(),
        }
    }

    fn line(self, entry: &AuditEntry) -> Result<Bytes, ObjectsError> {
        match self {
            Self::Raw => json_line(entry).map(Bytes::from),
            Self::Json => json_line(&form::json(entry)).map(Bytes::from),
            Self::Csv => Ok(form::csv_line(&form::csv_cells(entry)).into()),
        }
    }
}

/// What a follower has read: all before this time (RFC 3339). A reader from there misses nothing.
#[derive(Serialize)]
struct Until {
    until: String,
}

/// `GET /admin/audit`, for commands: JSON, one object per line, or, with `top`, one summary.
async fn read_raw(
    State(door): State<AuditDoor>,
    Extension(requester): Extension<Requester>,
    Query(query): Query<AuditQuery>,
) -> Result<Response, Response> {
    match query.top {
        Some(most) => {
            let (from, to) = query.period();
            let top = door.library.audit.top(from, to, most).await.map_err(|error| problem::of_library(&error))?;
            let line = json_line(&top).map_err(|error| problem::of_library(&error))?;
            Ok(([(header::CONTENT_TYPE, LINES)], line).into_response())
        }
        None => read(door, requester, query, Shown::Raw, None).map_err(|refusal| *refusal),
    }
}

/// `GET /audit`: NDJSON or CSV, as `penates audit` prints them.
async fn read_shown(
    State(door): State<AuditDoor>,
    Extension(requester): Extension<Requester>,
    Extension(standing): Extension<Standing>,
    headers: HeaderMap,
    Query(query): Query<AuditQuery>,
) -> Result<Response, Response> {
    if query.top.is_some() {
        return Err(problem::respond(Reason::INVALID, "`top` is for commands: count the lines instead"));
    }
    let offers =
        [Offer::new(LINES, Shown::Json), Offer::new("application/json", Shown::Json), Offer::new(CSV, Shown::Csv)];
    let shown = match query.format {
        Some(AuditFormat::Ndjson) => Shown::Json,
        Some(AuditFormat::Csv) => Shown::Csv,
        None => *media_type(&headers, &offers)
            .ok_or_else(|| problem::respond(Reason::NOT_ACCEPTABLE, "the audit is application/x-ndjson or text/csv"))?,
    };
    read(door, requester, query, shown, Some(standing)).map_err(|refusal| *refusal)
}

impl AuditQuery {
    fn period(&self) -> (UnixMillis, UnixMillis) {
        (self.from.map_or(UnixMillis(0), unix_millis), self.to.map_or(UnixMillis(u64::MAX), unix_millis))
    }
}

/// The entries in order as a stream.
fn read(
    door: AuditDoor,
    requester: Requester,
    query: AuditQuery,
    shown: Shown,
    standing: Option<Standing>,
) -> Result<Response, Box<Response>> {
    let (from, to) = query.period();
    let AuditQuery { token, address, target, kind, result, follow, .. } = query;
    let result = result.map(|text| text.parse()).transpose();
    let result = result.map_err(|why: String| problem::respond(Reason::INVALID, &why))?;
    if follow && (query.to.is_some() || shown == Shown::Csv) {
        let detail = "what is followed has no end and is NDJSON: leave out `to` and CSV";
        return Err(Box::new(problem::respond(Reason::CONFLICTING_PARAMETERS, detail)));
    }
    let party = requester.party();
    let reading = Reading { request_id: requester.request_id, since: door.library.heads.now() };
    let conditions = Conditions { token, address, target, kind, result, except: Some(reading) };
    let lines = match follow {
        false => lines(door.library.audit.read_where(from, to, conditions), shown),
        true => {
            let place = door.consumers.take(party).ok_or_else(|| {
                let detail = "too many clients follow the audit or the feed (feed.consumers_max); try again later";
                Box::new(problem::respond(Reason::OVERLOADED, detail))
            })?;
            followed(Follower { door, conditions, shown, standing, from, has_looked: false, _place: place })
        }
    };
    let begin = stream::iter([Ok(shown.begin())]);
    let media_type = if shown == Shown::Csv { "text/csv; charset=utf-8; header=present" } else { LINES };
    let headers = [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "no-store"), (header::VARY, "accept")];
    Ok((headers, Body::from_stream(begin.chain(lines))).into_response())
}

/// The lines of a response.
type Lines = BoxStream<'static, Result<Bytes, BoxError>>;

fn lines(entries: BoxStream<'static, Result<AuditEntry, ObjectsError>>, shown: Shown) -> Lines {
    entries.map(move |entry| Ok(shown.line(&entry?)?)).boxed()
}

/// A reader that waits for what is written.
struct Follower {
    door: AuditDoor,
    conditions: Conditions,
    shown: Shown,
    /// Whether the client still may read; `None`: the administrator always may.
    standing: Option<Standing>,
    /// Everything before was read.
    from: UnixMillis,
    has_looked: bool,
    _place: Place,
}

/// The entries from the follower's place on, and those that are written later. After each look a
/// line says how far it has come. It ends when the server stops, or when the client's token is
/// revoked.
fn followed(follower: Follower) -> Lines {
    let looks = stream::try_unfold(follower, |mut follower| async move {
        let Some(lines) = follower.look().await? else { return Ok::<_, BoxError>(None) };
        Ok(Some((lines, follower)))
    });
    looks.try_flatten().boxed()
}

impl Follower {
    /// What is new since the last look; `None`: it ends.
    async fn look(&mut self) -> Result<Option<Lines>, ObjectsError> {
        let audit = &self.door.library.audit;
        if self.has_looked {
            tokio::select! {
                () = self.door.stopping.cancelled() => return Ok(None),
                () = tokio::time::sleep(audit.look_every()) => {}
            }
        }
        if self.standing.as_ref().is_some_and(|standing| !standing.holds()) {
            tracing::info!("a reader of the audit lost its right to read it");
            return Ok(None);
        }
        let until = audit.written_until().await?.max(self.from);
        let entries = match self.has_looked {
            true => audit.read_new(self.from, until),
            false => audit.read(self.from, until),
        };
        (self.from, self.has_looked) = (until, true);
        let conditions = self.conditions.clone();
        let wanted = entries.try_filter(move |entry| std::future::ready(conditions.hold(entry))).boxed();
        let place = json_line(&Until { until: rfc_3339(until) })?;
        Ok(Some(lines(wanted, self.shown).chain(stream::iter([Ok(place.into())])).boxed()))
    }
}

/// The form of `POST /admin/audit/erase`: a token, an address or a user, until when, and whether
/// records that cannot be read are replaced too. It is a form, so that neither the log nor the
/// audit names the person.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErasedPerson {
    token: Option<String>,
    address: Option<IpAddr>,
    user: Option<String>,
    before: Option<Timestamp>,
    #[serde(default)]
    damaged: bool,
}

/// How many records named the person, how many cannot be read, and until when (RFC 3339) all others
/// name the person no more.
#[derive(Serialize)]
struct ErasedRecords {
    records: u64,
    damaged: u64,
    until: String,
}

async fn erase(
    State(AuditDoor { library, .. }): State<AuditDoor>,
    person: Result<Form<ErasedPerson>, FormRejection>,
) -> Result<Json<ErasedRecords>, Response> {
    let Form(person) = person.map_err(|refused| problem::of_body(refused.status(), &refused.body_text()))?;
    let whom = match (person.token, person.address, person.user) {
        (Some(token), None, None) => Whom::Token(token),
        (None, Some(address), None) => Whom::Address(address),
        (None, None, Some(user)) => Whom::User(user),
        _ => return Err(problem::respond(Reason::INVALID, "name a token, an address or a user, and one of them only")),
    };
    let before = person.before.map_or(UnixMillis(u64::MAX), unix_millis);
    let erased = library.audit.erase(&whom, before, person.damaged).await;
    let Erased { records, damaged, until } = erased.map_err(|error| problem::of_library(&error))?;
    Ok(Json(ErasedRecords { records, damaged, until: rfc_3339(until) }))
}

fn rfc_3339(time: UnixMillis) -> String {
    let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX).to_string()
}

fn unix_millis(time: Timestamp) -> UnixMillis {
    UnixMillis(u64::try_from(time.as_millisecond()).unwrap_or(0))
}

fn json_line(value: &impl Serialize) -> Result<String, ObjectsError> {
    serde_json::to_string(value).map(|line| line + "\n").map_err(|error| ObjectsError::Internal(error.to_string()))
}
