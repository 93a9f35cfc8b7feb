//! All records.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use budget::{Party, Share};
use bytes::Bytes;
use futures::stream::{self, Stream};
use http::header;
use records::Record;
use serde::Deserialize;
use store::Deadline;

use super::asking::Asking;
use super::error::HttpError;
use super::{LINES, line};
use crate::Door;
use crate::pattern::matches;

/// Ids of a page, and about the most bytes of its records.
const PAGE: (usize, usize) = (1_000, 16 << 20);

/// What a listing may ask for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    /// A pattern of ids, as of `SCAN`.
    r#match: Option<String>,
    /// Whether records are listed with what they hold.
    #[serde(default)]
    values: bool,
}

/// `GET /records/`: each record that is there during the whole listing, once.
pub(super) async fn list(
    State(door): State<Arc<Door>>,
    asking: Asking,
    listing: Result<Query<Listing>, QueryRejection>,
) -> Response {
    let listing = match listing {
        Ok(Query(listing)) => listing,
        Err(error) => return HttpError::Malformed(error.body_text()).into_response(),
    };
    let lines = pages(door, asking.party, listing);
    ([(header::CONTENT_TYPE, LINES)], Body::from_stream(lines)).into_response()
}

struct Walk {
    door: Arc<Door>,
    party: Party,
    listing: Listing,
    from: Option<Bytes>,
    /// Memory for the page that is being sent.
    share: Option<Share>,
    has_ended: bool,
}

/// The lines, a page at a time. An error breaks the response, so that no client takes a part for
/// the whole.
fn pages(door: Arc<Door>, party: Party, listing: Listing) -> impl Stream<Item = Result<Bytes, HttpError>> + Send {
    let walk = Walk { door, party, listing, from: None, share: None, has_ended: false };
    stream::try_unfold(walk, async |mut walk| {
        if walk.has_ended {
            return Ok(None);
        }
        let page = walk.next().await?;
        Ok(Some((page, walk)))
    })
}

impl Walk {
    /// The next lines; there may be none in a page.
    async fn next(&mut self) -> Result<Bytes, HttpError> {
        self.share = None;
        let deadline = Deadline::within(self.door.settings.deadline_max);
        let pattern = self.listing.r#match.clone().map(Bytes::from);
        let is_wanted = |id: &Bytes| pattern.as_ref().is_none_or(|pattern| matches(pattern, id));
        let page = self.door.records.list(deadline, self.from.take(), PAGE, is_wanted).await?;
        self.has_ended = page.next.is_none();
        self.from = page.next;
        let bytes: usize = page.records.iter().map(|(_, record)| record.bytes()).sum();
        self.share = Some(self.door.memory.reserve(&self.party, 2 * bytes as u64).await?);
        let line = |(id, record): &(Bytes, Record)| match self.listing.values {
            true => line::found(id, Some(record), &None),
            false => line::id_alone(id),
        };
        Ok(page.records.iter().map(line).collect::<String>().into())
    }
}
