//! The feed as a stream of Server-Sent Events (HTML, section 9.2).
//!
//! The id of each event is the cursor of a reader that has it, so `Last-Event-ID` resumes the
//! stream on any server. A consumer that takes nothing of its response is cut off like every other
//! client (`limits.stall`), and resumes. What it holds meanwhile is its cursor and
//! one batch, which it shares with the others.

use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;

use ::feed::{Consumer, Cursor, Events, FeedError};
use area::Area;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use door_http::Reason;
use door_ldp::Site;
use futures::stream;
use http::header;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::activity::with_context;
use super::{Client, FeedDoor, Place, Refused, Start, Wanted, is_within};
use crate::access::Standing;

/// The longest silence. Proxies end connections that are silent for longer, and a comment finds out
/// that a client has gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// How often the client's right is looked at again.
const STANDING: Duration = Duration::from_secs(2);

/// After how many milliseconds a client connects again.
const RETRY_MS: u32 = 3_000;

/// Bytes of one piece of the response, and of an event more.
const PIECE_BYTES: usize = 16 << 10;

/// A response that is under way.
struct Following {
    consumer: Consumer,
    /// Read, and not all sent yet.
    waiting: Option<Events>,
    site: Site,
    area: Area,
    standing: Standing,
    stopping: CancellationToken,
    _place: Place,
    looked: Instant,
    sent: Instant,
    is_begun: bool,
}

/// Follows the feed behind `Last-Event-ID`, or behind `after`, or from now on.
pub(super) async fn respond(
    door: &FeedDoor,
    site: Site,
    wanted: &Wanted,
    last_id: Option<String>,
    Client { party, area, standing }: Client,
) -> Result<Response, Refused> {
    if wanted.before.is_some() || wanted.limit.is_some() {
        let detail = "a stream has the parameter `after` only".to_owned();
        return Err(Refused(Reason::CONFLICTING_PARAMETERS, detail));
    }
    // An empty id is that of a client that has none (HTML, section 9.2.4).
    let cursor = match (last_id.filter(|id| !id.is_empty()), wanted.after) {
        (Some(id), _) => Cursor::parse(&id).ok_or_else(|| {
            Refused(Reason::MALFORMED_HEADER, "`Last-Event-ID` is not the id of an event of this feed".to_owned())
        })?,
        (None, after) => after.unwrap_or(Start::Now).cursor(&door.feed).await?,
    };
    let place = door.consumers.take(party).ok_or_else(|| {
        let detail = "too many consumers follow the feed (feed.consumers_max); read its pages, or try again later";
        Refused(Reason::OVERLOADED, detail.to_owned())
    })?;
    let following = Following {
        consumer: door.feed.follow(cursor).await?,
        waiting: None,
        site,
        area,
        standing,
        stopping: door.stopping.clone(),
        _place: place,
        looked: Instant::now(),
        sent: Instant::now(),
        is_begun: false,
    };
    let pieces = stream::unfold(following, async |mut following| {
        let piece = following.next().await?;
        Some((Ok::<_, Infallible>(piece), following))
    });
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::CACHE_CONTROL.as_str(), "no-store"),
        (header::VARY.as_str(), "Accept"),
        // nginx would gather events.
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

impl Following {
    /// The next piece of the response; `None`: it ends.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.is_begun {
            self.is_begun = true;
            // With an id, so that a client that loses its connection before the first event resumes
            // here.
            return Some(format!("retry: {RETRY_MS}\nid: {}\n\n", self.consumer.cursor()).into());
        }
        loop {
            if self.looked.elapsed() >= STANDING {
                if !self.standing.holds() {
                    tracing::info!("a consumer of the feed lost its right to read");
                    return None;
                }
                self.looked = Instant::now();
            }
            if let Some(piece) = self.piece() {
                self.sent = Instant::now();
                return Some(piece);
            }
            if self.sent.elapsed() >= SILENCE_MAX {
                self.sent = Instant::now();
                // An id without data moves the client's cursor and shows it nothing.
                return Some(format!(": nothing new\nid: {}\n\n", self.consumer.cursor()).into());
            }
            tokio::select! {
                () = self.stopping.cancelled() => return None,
                events = self.consumer.next() => match events {
                    Ok(events) => self.waiting = Some(events),
                    Err(error) => return self.ended_by(&error),
                },
            }
        }
    }

    /// Some of the events that wait.
    fn piece(&mut self) -> Option<Bytes> {
        let mut text = String::new();
        while text.len() < PIECE_BYTES
            && let Some(event) = self.waiting.as_mut()?.take_next()
        {
            if is_within(event, &self.area) {
                // Writing into a string never fails; JSON has no line feeds.
                let _ = write!(text, "id: {}\ndata: {}\n\n", event.cursor, with_context(event, &self.site));
            }
        }
        (!text.is_empty()).then(|| text.into())
    }

    /// The client connects again and gets the reason as a problem.
    fn ended_by(&self, error: &FeedError) -> Option<Bytes> {
        tracing::warn!(%error, cursor = %self.consumer.cursor(), "a stream of the feed ends");
        None
    }
}
