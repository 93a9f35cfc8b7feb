//! The change feed over HTTP: a collection of Activity Streams 2.0 in pages, and a stream of
//! Server-Sent Events at the same address.
//!
//! `activity.rs` writes an event as an activity; `collection.rs` responds with the collection and
//! its pages; `stream.rs` follows.

pub(crate) mod activity;
mod collection;
mod stream;

use std::sync::Arc;

use ::feed::{Cursor, Event, Feed, FeedError, Subject};
use area::Area;
use audit::Requester;
use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use budget::{Memory, Party, Share, Shares};
use bytes::Bytes;
use door_http::accept::{Offer, media_type};
use door_http::{Problem, Reason};
use door_ldp::{LdpDoor, Site};
use heads::ObjectsError;
use heads::path::PATH_BYTES_MAX;
use http::header;
use parking_lot::Mutex;
use store::UnixMillis;
use tokio_util::sync::CancellationToken;

use crate::access::Standing;

/// The path of the feed.
pub(crate) const PATH: &str = "/feed";

/// Events of a page, if the request does not say.
const PAGE_EVENTS: usize = 100;

/// The most events of a page.
const PAGE_EVENTS_MAX: usize = 1_000;

/// Bytes that an event of a page takes at most: its path twice, as read and percent-encoded, and
/// the rest.
const EVENT_BYTES_MAX: usize = 4 * PATH_BYTES_MAX + (1 << 10);

/// The feed, and what its routes need besides.
pub(crate) struct FeedDoor {
    pub(crate) feed: Feed,
    /// Has the addresses of what events are about.
    pub(crate) ldp: Arc<LdpDoor>,
    pub(crate) consumers: Arc<Consumers>,
    pub(crate) memory: Memory,
    pub(crate) stopping: CancellationToken,
}

/// The places of those who follow the feed or the audit.
pub(crate) struct Consumers(Mutex<Shares>);

/// A place, until it is dropped.
pub(crate) struct Place {
    consumers: Arc<Consumers>,
    party: Party,
}

impl Consumers {
    pub(crate) fn new(places: usize) -> Self {
        Self(Mutex::new(Shares::new(places as u64)))
    }

    pub(crate) fn take(self: &Arc<Self>, party: Party) -> Option<Place> {
        let has = self.0.lock().take(&party, 1);
        has.then(|| Place { consumers: self.clone(), party })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.consumers.0.lock().give_back(&self.party, 1);
    }
}

/// Whether an event is about something within a client's area.
fn is_within(event: &Event, area: &Area) -> bool {
    match &event.subject {
        Subject::Volume(id) => area.has_volume(id),
        Subject::Resource(path) => area.has_resource(path),
    }
}

/// The route of the feed. A limited client gets the events of its area.
pub(crate) fn routes(door: FeedDoor) -> Router {
    Router::new().route(PATH, get(respond)).with_state(Arc::new(door))
}

/// Why a request gets no events.
pub(crate) struct Refused(pub(crate) Reason, pub(crate) String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        Problem::new(self.0, &self.1, false).into_response()
    }
}

impl From<ObjectsError> for Refused {
    fn from(error: ObjectsError) -> Self {
        FeedError::from(error).into()
    }
}

impl From<FeedError> for Refused {
    fn from(error: FeedError) -> Self {
        let reason = match &error {
            FeedError::Off => Reason::ABSENT,
            FeedError::Dropped { .. } => Reason::EXPIRED,
            FeedError::Objects(error) => error.into(),
        };
        Self(reason, error.to_string())
    }
}

/// The form of a response.
#[derive(Clone, Copy)]
enum Form {
    Collection(&'static str),
    Stream,
}

const FORMS: [Offer<Form>; 4] = [
    Offer::new("application/activity+json", Form::Collection("application/activity+json")),
    Offer::new(
        "application/ld+json",
        Form::Collection("application/ld+json; profile=\"https://www.w3.org/ns/activitystreams\""),
    ),
    Offer::new("application/json", Form::Collection("application/json")),
    Offer::new("text/event-stream", Form::Stream),
];

/// What a request asks for.
#[derive(Default)]
struct Wanted {
    after: Option<Start>,
    before: Option<Start>,
    limit: Option<usize>,
}

/// A place in the feed, as a request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// `start`: before all that is kept.
    Beginning,
    /// `now`: behind all that there is.
    Now,
    /// A cursor.
    At(Cursor),
    /// A time: what happened then or later, or before it.
    Time(UnixMillis),
}

impl Start {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let time = || {
            let time: jiff::Timestamp = text.parse().ok()?;
            Some(Self::Time(UnixMillis(u64::try_from(time.as_millisecond()).ok()?)))
        };
        match text {
            "start" => Some(Self::Beginning),
            "now" => Some(Self::Now),
            _ => Cursor::parse(text).map(Self::At).or_else(time),
        }
    }

    /// The cursor of a reader that begins here.
    pub(crate) async fn cursor(self, feed: &Feed) -> Result<Cursor, FeedError> {
        match self {
            Self::Beginning => Ok(Cursor::BEGINNING),
            Self::Now => feed.now().await,
            Self::At(cursor) => Ok(cursor),
            Self::Time(time) => feed.since(time).await,
        }
    }
}

impl Wanted {
    /// From the query. Parameters that are not known or given twice are refused: a reader that
    /// misspells one would read other events than it believes.
    fn parse(query: &str) -> Result<Self, Refused> {
        let malformed = |detail: String| Refused(Reason::MALFORMED_PARAMETER, detail);
        let mut wanted = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            // The plus sign of a time may not be encoded. It reads as a space, which no value has.
            let value = value.replace(' ', "+");
            let start = || {
                Start::parse(&value).ok_or_else(|| {
                    malformed(format!(
                        "`{name}` is a cursor (32 hexadecimal digits, as in the id of an event), a time \
                         (2026-11-22T00:00:00Z), `start` or `now`"
                    ))
                })
            };
            let is_repeated = match &*name {
                "after" => wanted.after.replace(start()?).is_some(),
                "before" => wanted.before.replace(start()?).is_some(),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=PAGE_EVENTS_MAX).contains(limit));
                    let limit = limit.ok_or_else(|| malformed(format!("`limit` is 1 to {PAGE_EVENTS_MAX}")))?;
                    wanted.limit.replace(limit).is_some()
                }
                _ => return Err(malformed("the feed has the parameters `after`, `before` and `limit`".to_owned())),
            };
            if is_repeated {
                return Err(malformed(format!("`{name}` is given more than once")));
            }
        }
        if wanted.after.is_some() && wanted.before.is_some() {
            let detail = "a page is `after` or `before` a place, not both".to_owned();
            return Err(Refused(Reason::CONFLICTING_PARAMETERS, detail));
        }
        Ok(wanted)
    }
}

/// The client of a stream.
struct Client {
    party: Party,
    area: Area,
    standing: Standing,
}

/// The text of a page. It holds its share of the memory until it is sent.
struct Held {
    text: String,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

async fn respond(
    State(door): State<Arc<FeedDoor>>,
    Extension(requester): Extension<Requester>,
    Extension(standing): Extension<Standing>,
    Extension(area): Extension<Area>,
    request: Request,
) -> Result<Response, Refused> {
    let headers = request.headers();
    let site = Site::of(door.ldp.settings(), request.uri(), headers, request.extensions())
        .map_err(|error| Refused(Reason::INVALID_HOST, error.to_string()))?;
    let wanted = Wanted::parse(request.uri().query().unwrap_or_default())?;
    match media_type(headers, &FORMS) {
        None => {
            let detail = "the feed is application/activity+json, application/ld+json, application/json or \
                          text/event-stream";
            Err(Refused(Reason::NOT_ACCEPTABLE, detail.to_owned()))
        }
        Some(Form::Collection(content_type)) => {
            let bytes = wanted.limit.unwrap_or(PAGE_EVENTS) * EVENT_BYTES_MAX;
            let mut share = door.memory.reserve(&requester.party(), bytes as u64).await.map_err(ObjectsError::from)?;
            let text = collection::body(&door.feed, &site, &area, &wanted).await?.to_string();
            share.resize(text.len() as u64).map_err(ObjectsError::from)?;
            let headers = [(header::CONTENT_TYPE, *content_type), (header::CACHE_CONTROL, "private, no-cache")];
            Ok((headers, [(header::VARY, "Accept")], Bytes::from_owner(Held { text, _share: share })).into_response())
        }
        Some(Form::Stream) => {
            let last_id = headers.get("last-event-id").map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
            let client = Client { party: requester.party(), area, standing };
            stream::respond(&door, site, &wanted, last_id, client).await
        }
    }
}

#[cfg(test)]
mod tests;
