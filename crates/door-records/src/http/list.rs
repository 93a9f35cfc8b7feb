//! All records.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use budget::Party;
use bytes::Bytes;
use door_http::body::with_share;
use futures::future::ready;
use futures::stream::{self, Stream, StreamExt};
use http::header;
use records::Record;
use serde::Deserialize;
use store::{Deadline, StoreError};

use super::asking::Asking;
use super::error::HttpError;
use super::{LINES, line};
use crate::Door;
use crate::meters::Outcome;
use crate::pattern::Pattern;
use crate::run::READ_AT_ONCE;

/// Ids of a page.
const PAGE_IDS: usize = 1_000;

/// Bytes of the largest record. A page may have one record more than fit.
const RECORD_BYTES: usize = 64 << 10;

/// About the most bytes of the records of a page.
const PAGE_BYTES: usize = 1 << 20;

/// Likewise where ids are read first, and then as many records as certainly fit.
const PAGE_BYTES_BY_IDS: usize = READ_AT_ONCE * RECORD_BYTES;

/// Memory per byte of a page while it is read, for what is stored and for the records.
const PAGE_TIMES: usize = 2;

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
        Ok(Query(listing)) => Walk::begin(door.clone(), &asking, listing).await,
        Err(error) => Err(HttpError::Malformed(error.body_text())),
    };
    door.note(begun.as_ref().map_or_else(HttpError::outcome, |_| Outcome::Answered), false, asking.began);
    match begun {
        Ok((first, walk)) => ([(header::CONTENT_TYPE, LINES)], Body::from_stream(pages(first, walk))).into_response(),
        Err(error) => error.into_response(),
    }
}

struct Walk {
    door: Arc<Door>,
    party: Party,
    pattern: Option<Pattern>,
    /// Whether records are listed with what they hold.
    values: bool,
    from: Option<Bytes>,
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
        let (party, Listing { r#match, values }) = (asking.party.clone(), listing);
        let pattern = r#match.map(|pattern| Pattern::new(pattern.as_bytes())).transpose()?;
        let mut walk = Self { door, party, pattern, values, from: None, has_ended: false };
        let first = walk.next(asking.deadline()).await?;
        Ok((first, walk))
    }

    /// The next lines, with the share of the memory that they take until they are sent; there may be
    /// none in a page. The share for the page comes before it is read.
    async fn next(&mut self, deadline: Deadline) -> Result<Bytes, HttpError> {
        let door = self.door.clone();
        let page_bytes = if door.records.lists_in_one_pass() { PAGE_BYTES } else { PAGE_BYTES_BY_IDS };
        let mut bytes = PAGE_TIMES * (page_bytes + RECORD_BYTES);
        loop {
            let mut share = door.share_by(deadline, &self.party, bytes as u64).await?;
            let _place = door.admission.places(1, deadline).await?;
            let pattern = self.pattern.as_ref();
            let is_wanted = |id: &Bytes| !deadline.passed() && pattern.is_none_or(|pattern| pattern.matches(id));
            let page = door.records.list(deadline, self.from.clone(), (PAGE_IDS, page_bytes), is_wanted).await?;
            if deadline.passed() {
                return Err(HttpError::Records(StoreError::DeadlinePassed.into()));
            }
            let line_bytes: usize = page.records.iter().map(|(id, record)| self.line_bytes(id, record)).sum();
            bytes = line_bytes + page.records.iter().map(|(_, record)| record.bytes()).sum::<usize>();
            if bytes as u64 > share.bytes() && share.resize(bytes as u64).is_err() {
                // The page is read again once there is memory for it. Nothing is held meanwhile,
                // because others may wait for that.
                continue;
            }
            let mut lines = String::with_capacity(line_bytes);
            page.records.iter().for_each(|(id, record)| lines.push_str(&self.line(id, record)));
            lines.shrink_to_fit();
            self.has_ended = page.next.is_none();
            self.from = page.next;
            return Ok(with_share(lines, share)?);
        }
    }

    fn line(&self, id: &Bytes, record: &Record) -> String {
        if self.values { line::found(id, Some(record), &None) } else { line::id_alone(id) }
    }

    /// At most so many bytes has the line of a record.
    fn line_bytes(&self, id: &Bytes, record: &Record) -> usize {
        line::found_bytes(id, self.values.then_some(record), &None)
    }
}
