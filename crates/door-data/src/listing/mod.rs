//! `GET /volumes/`: the volumes that satisfy conditions, or all of them, with fields of their
//! records.
//!
//! A list is streamed in the order of the store, which is stable and not alphabetical. With
//! `limit=N` (at most 10,000) it is one part of the list. The end of a part names the next (`next`,
//! and `Link` with `rel="next"`), for `after=`. With `sort=` it is always one part of the list by a
//! field, and all volumes are looked at for each part. A page for people also leads to the one
//! before it (`before=`, `back.rs`).
//!
//! Ids alone are read from the listing. Everything else needs heads, which cost more: such a list
//! takes a place among the bulk requests, a share of memory, and turns at the store. It is read as
//! fast as its client takes it, and ends when the client leaves. A client that is limited to some
//! volumes gets such a list of those: no token of it names another volume.
//!
//! `deleted=true` asks for another list: `deleted.rs`.

mod asked;
mod back;
mod cells;
mod deleted;
mod format;
mod page;
mod written;

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{OriginalUri, State};
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use hathi::VolumeId;
use heads::{ListToken, ObjectsResult};
use http::{HeaderMap, HeaderValue, header};
use library::Library;
use volumes::find::{Described, Found, Held, Sorted};

use crate::DataDoor;
use crate::asking::{Asking, Within};
use crate::errors::{AsProblem, DoorError};
use asked::Asked;
use cells::Edges;
pub use cells::csv_line;
use format::Format;

/// Volumes read from the store at a time.
const AT_ONCE: usize = 1_000;

/// Bytes of a part that are sent at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A part of a list, made of ids or of heads.
type Rows = BoxStream<'static, ObjectsResult<Vec<Described>>>;

/// The handler.
pub async fn list(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    Within(area): Within,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    if deleted::is_asked(uri.query())? {
        return Ok(deleted::list(&door, Asking(requester), Within(area), &headers).await?);
    }
    let repository = door.settings.repository.clone();
    let mut asked = Asked { area, repository, ..Asked::read(&uri, &headers)? };
    let (library, party) = (&door.library, requester.party());
    if let (Some(before), Some(limit)) = (asked.before.take(), asked.limit) {
        asked.after = back::beginning(library, &asked, before, limit, &party).await?;
    }
    let mut response = match (asked.sort, asked.limit) {
        (Some(order), limit) => {
            let (part, limit) = (asked.part.clone(), limit.unwrap_or(AT_ONCE));
            let sorted = library.volumes.find_sorted(asked.finding(), order, part, limit, party).await?;
            let Sorted { volumes, begins, next, total, held } = sorted;
            of_found(&asked, volumes, &Edges::of(begins.as_ref(), next.as_ref(), Some(total)), held)?
        }
        (None, Some(limit)) if asked.is_of_ids() => {
            let (ids, next) = first_ids(library, asked.after.clone(), limit).await?;
            let volumes: Vec<_> = ids.into_iter().map(Described::named).collect();
            part(&asked, &volumes, &Edges::of(asked.after.as_ref(), next.as_ref(), None)).map(Body::from)
        }
        (None, Some(limit)) => {
            let Found { volumes, next, held } = library.volumes.find_first(asked.finding(), limit, party).await?;
            of_found(&asked, volumes, &Edges::of(asked.after.as_ref(), next.as_ref(), None), held)?
        }
        (None, None) if asked.is_of_ids() => whole(&asked, ids(library.clone(), asked.after.clone())).await?,
        (None, None) => {
            let pages = library.volumes.find(asked.finding(), party).await?;
            whole(&asked, pages.map_ok(|page| page.volumes).boxed()).await?
        }
    };
    let content_type = asked.format.content_type();
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    if asked.format == Format::Html {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, door_http::page::SECURITY_POLICY);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// One part of what was found. Its place and its memory are held until it is sent.
fn of_found(asked: &Asked, volumes: Vec<Described>, edges: &Edges, mut held: Held) -> Result<Response, DoorError> {
    let (parts, body) = part(asked, &volumes, edges).into_parts();
    drop(volumes);
    held.resize(body.len() as u64)?;
    let length = body.len().into();
    let pieces = stream::unfold((Bytes::from(body), held), async |(mut rest, held)| {
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        (!piece.is_empty()).then_some((Ok::<_, Infallible>(piece), (rest, held)))
    });
    let mut response = Response::from_parts(parts, Body::from_stream(pieces));
    response.headers_mut().insert(header::CONTENT_LENGTH, length);
    Ok(response)
}

/// One part, with the start of the next.
fn part(asked: &Asked, volumes: &[Described], edges: &Edges) -> http::Response<String> {
    let item = |(index, volume)| asked.format.item(asked, volume, index == 0);
    let items: String = match volumes.is_empty() {
        true => asked.format.nothing(asked, edges),
        false => volumes.iter().enumerate().map(item).collect(),
    };
    let body = [asked.format.begin(asked), items, asked.format.end(asked, edges)].concat();
    let mut response = http::Response::new(body);
    let link = |next: &String| HeaderValue::try_from(format!("<{}>; rel=\"next\"", asked.next(next))).ok();
    let link = edges.next.as_ref().and_then(link);
    if let Some(link) = link {
        response.headers_mut().insert(header::LINK, link);
    }
    response
}

/// The whole rest of the list, streamed.
async fn whole(asked: &Asked, mut rows: Rows) -> Result<Response, DoorError> {
    // The first volumes are read before the response begins, so that an early error has its status.
    let first = rows.try_next().await?;
    let (format, of_items) = (asked.format, asked.clone());
    let mut count = 0_u64;
    let items = stream::iter(first.map(Ok)).chain(rows).map_ok(move |volumes| {
        let mut text = String::new();
        for volume in &volumes {
            text.push_str(&format.item(&of_items, volume, count == 0));
            count += 1;
        }
        Bytes::from(text)
    });
    let piece = |text: String| stream::iter([Ok(Bytes::from(text))]);
    let body = piece(format.begin(asked)).chain(items).chain(piece(format.end(asked, &Edges::default())));
    Ok(Response::new(Body::from_stream(body)))
}

/// The first ids after a place, and where the list goes on.
async fn first_ids(
    library: &Library,
    mut after: Option<ListToken>,
    limit: usize,
) -> ObjectsResult<(Vec<VolumeId>, Option<ListToken>)> {
    let mut ids = Vec::new();
    while ids.len() < limit {
        let listing = library.volumes.list(after.as_ref(), limit - ids.len()).await?;
        ids.extend(listing.volumes);
        after = listing.next;
        if after.is_none() {
            break;
        }
    }
    Ok((ids, after))
}

/// All ids after a place.
fn ids(library: Library, after: Option<ListToken>) -> Rows {
    let read = |(library, after): (Library, Option<Option<ListToken>>)| async move {
        let Some(after) = after else { return Ok(None) };
        let listing = library.volumes.list(after.as_ref(), AT_ONCE).await?;
        let next = listing.next.map(Some);
        let named = listing.volumes.into_iter().map(Described::named).collect();
        Ok(Some((named, (library, next))))
    };
    stream::try_unfold((library, Some(after)), read).boxed()
}
