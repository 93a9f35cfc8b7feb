//! All records.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use budget::{Party, Share};
use bytes::Bytes;
use futures::future::ready;
use futures::stream::{self, Stream, StreamExt};
use http::header;
use records::Record;
use serde::Deserialize;
use store::Deadline;

use super::asking::Asking;
use super::error::HttpError;
use super::{LINES, line};
use crate::Door;
use crate::pattern::matches;
use crate::run::note;

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

/// `GET /records/`: each record that is there during the whole listing, once. The first page has the
/// time that the request may take. Each further one has the longest time, because the response has
/// begun.
pub(super) async fn list(
    State(door): State<Arc<Door>>,
    asking: Asking,
    listing: Result<Query<Listing>, QueryRejection>,
) -> Response {
    let begun = match listing {
        Ok(Query(listing)) => Walk::begin(door, &asking, listing).await,
        Err(error) => Err(HttpError::Malformed(error.body_text())),
    };
    note(begun.as_ref().map_or_else(HttpError::outcome, |_| "answered"), false, asking.began);
    match begun {
        Ok((first, walk)) => ([(header::CONTENT_TYPE, LINES)], Body::from_stream(pages(first, walk))).into_response(),
        Err(error) => error.into_response(),
    }
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
fn pages(first: Bytes, walk: Walk) -> impl Stream<Item = Result<Bytes, HttpError>> + Send {
    let others = stream::try_unfold(walk, async |mut walk: Walk| {
        if walk.has_ended {
            return Ok(None);
        }
        let page = walk.next(Deadline::within(walk.door.settings.deadline_max)).await?;
        Ok::<_, HttpError>(Some((page, walk)))
    });
    stream::once(ready(Ok(first))).chain(others)
}

impl Walk {
    /// The first lines, and where the others are.
    async fn begin(door: Arc<Door>, asking: &Asking, listing: Listing) -> Result<(Bytes, Self), HttpError> {
        let party = asking.party.clone();
        let mut walk = Self { door, party, listing, from: None, share: None, has_ended: false };
        let first = walk.next(asking.deadline()).await?;
        Ok((first, walk))
    }

    /// The next lines; there may be none in a page.
    async fn next(&mut self, deadline: Deadline) -> Result<Bytes, HttpError> {
        self.share = None;
        let pattern = self.listing.r#match.clone().map(Bytes::from);
        let is_wanted = |id: &Bytes| pattern.as_ref().is_none_or(|pattern| matches(pattern, id));
        let page = self.door.records.list(deadline, self.from.take(), PAGE, is_wanted).await?;
        self.has_ended = page.next.is_none();
        self.from = page.next;
        let bytes: usize = page.records.iter().map(|(_, record)| record.bytes()).sum();
        self.share = Some(self.door.share_by(deadline, &self.party, 2 * bytes as u64).await?);
        let line = |(id, record): &(Bytes, Record)| match self.listing.values {
            true => line::found(id, Some(record), &None),
            false => line::id_alone(id),
        };
        Ok(page.records.iter().map(line).collect::<String>().into())
    }
}
