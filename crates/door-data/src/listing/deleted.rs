//! `GET /volumes/?deleted=true`: the volumes that were deleted and have versions that are kept, as
//! lines of JSON.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use door_http::accept::{self, Offer};
use futures::stream::{self, StreamExt, TryStreamExt};
use heads::ObjectsError;
use http::{HeaderMap, HeaderValue, header};
use serde::Serialize;

use super::format::{FORMATS, Format};
use crate::DataDoor;
use crate::asking::{Asking, Within};
use crate::errors::DoorError;
use crate::params::Params;
use crate::time::rfc3339;

/// The parameter that asks for it.
pub const DELETED: &str = "deleted";

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    /// When it was deleted.
    deleted: String,
}

/// Whether a request is one for deleted volumes. It has no other parameters.
pub fn is_asked(query: Option<&str>) -> Result<bool, DoorError> {
    let params = Params::of_query(query);
    if params.value(DELETED)?.is_none() {
        return Ok(false);
    }
    let params = params.only(&[DELETED])?.filled();
    let is_true = |word: &str| (word == "true").then_some(true);
    Ok(params.keyword(DELETED, "true", is_true)?.unwrap_or(false))
}

/// The list, streamed.
pub async fn list(
    door: &DataDoor,
    Asking(requester): Asking,
    Within(area): Within,
    headers: &HeaderMap,
) -> Result<Response, DoorError> {
    if !door.library.volumes.keeps_versions() {
        return Err(DoorError::NoVersions);
    }
    let media_types = FORMATS.iter().filter(|(_, format)| *format == Format::Lines);
    let offers: Vec<_> = media_types.map(|(media_type, _)| Offer::new(media_type, *media_type)).collect();
    let lines = accept::media_type(headers, &offers).ok_or_else(|| DoorError::NotAcceptable("lines of JSON".into()))?;
    let mut pages = Box::pin(door.library.volumes.deleted(area, requester.party()).await?);
    // The first page is read before the response begins, so that an early error has its status.
    let first = pages.try_next().await?;
    let written = stream::iter(first.map(Ok)).chain(pages).and_then(async |page| {
        let mut text = Vec::new();
        for volume in page {
            let line = Line { id: volume.id.as_str(), deleted: rfc3339(volume.since.time()) };
            serde_json::to_writer(&mut text, &line).map_err(|error| ObjectsError::Internal(error.to_string()))?;
            text.push(b'\n');
        }
        Ok(Bytes::from(text))
    });
    let mut response = Response::new(Body::from_stream(written));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(lines));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}
