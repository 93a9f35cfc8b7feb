//! The response with the ZIP of a plan: all of it, ranges of it, or its headers.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use ::audit::Requester;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use door_http::conditional::{self, Condition};
use door_http::ranges::{self, BodyStream, Validators};
use futures::stream::{self, StreamExt, TryStreamExt};
use headers::{ETag, HeaderMapExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use library::Library;
use volumes::BulkPlan;

use crate::errors::DoorError;
use crate::retrieval::Retrieval;

/// Number of entries of the ZIP.
const PENATES_ENTRIES: HeaderName = HeaderName::from_static("penates-entries");

/// Number of requested members that are not in the ZIP; its `ERROR.err` names them.
const PENATES_MISSING: HeaderName = HeaderName::from_static("penates-missing");

/// The file name of a ZIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZipName {
    /// Of `/volumes`.
    Volumes,
    /// Of `/pages`.
    Pages,
    /// Of `/tokencount`.
    TokenCount,
    /// Of a selection.
    Selection,
}

impl ZipName {
    /// Content-Disposition (RFC 6266); the first three names are the original service's.
    pub fn disposition(self) -> &'static str {
        match self {
            Self::Volumes => "attachment; filename=\"volumes.zip\"",
            Self::Pages => "attachment; filename=\"pages.zip\"",
            Self::TokenCount => "attachment; filename=\"tokencount.zip\"",
            Self::Selection => "attachment; filename=\"selection.zip\"",
        }
    }
}

impl From<Retrieval> for ZipName {
    fn from(retrieval: Retrieval) -> Self {
        match retrieval {
            Retrieval::Volumes => Self::Volumes,
            Retrieval::Pages => Self::Pages,
        }
    }
}

/// Responds with the ZIP of a plan: all of it, ranges of it, or its headers.
pub async fn send(
    library: &Library,
    name: ZipName,
    plan: Arc<BulkPlan>,
    requester: Requester,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, DoorError> {
    let etag = plan.etag.as_deref().and_then(conditional::strong_etag);
    let validators = Validators { etag: etag.as_ref(), last_modified: None };
    let mut response = Response::new(Body::empty());
    insert_headers(response.headers_mut(), name, &plan, etag.as_ref());
    let reading = matches!(*method, Method::GET | Method::HEAD);
    if reading && conditional::evaluate(headers, validators)? == Condition::NotModified {
        library.volumes.plan_requested(&plan, &requester).await?;
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    let extent = match plan.len_bytes {
        Some(len_bytes) => Some((ranges::extent(method, headers, len_bytes, validators)?, len_bytes)),
        None => None,
    };
    if *method == Method::HEAD {
        library.volumes.plan_requested(&plan, &requester).await?;
        return Ok(with_length(response, plan.len_bytes));
    }
    // One request, whatever the number of ranges.
    let download = Arc::new(library.volumes.download(&plan, requester).await?);
    let open = move |range: Range<u64>| open(download.clone(), range);
    match extent {
        Some((extent, len_bytes)) => ranges::respond(response, extent, len_bytes, open).await,
        None => {
            *response.body_mut() = Body::from_stream(open(pack::WHOLE).await?);
            Ok(response)
        }
    }
}

/// Opens a range of the ZIP.
async fn open(download: Arc<volumes::Download>, range: Range<u64>) -> Result<BodyStream, DoorError> {
    let pieces = download.stream(range).await?;
    Ok(pieces.map_err(axum::BoxError::from).boxed())
}

/// The common headers of GET and HEAD.
fn insert_headers(headers: &mut HeaderMap, name: ZipName, plan: &BulkPlan, etag: Option<&ETag>) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(name.disposition()));
    let ranges = if plan.len_bytes.is_some() { "bytes" } else { "none" };
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static(ranges));
    headers.insert(PENATES_ENTRIES, plan.entries.into());
    headers.insert(PENATES_MISSING, plan.missing.len().into());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Some(etag) = etag {
        headers.typed_insert(etag.clone());
    }
}

/// The response to HEAD, with the length that GET has, if known.
fn with_length(mut response: Response, len_bytes: Option<u64>) -> Response {
    match len_bytes {
        Some(len_bytes) => {
            response.headers_mut().insert(header::CONTENT_LENGTH, len_bytes.into());
        }
        // A body of unknown length, so that no layer below adds a length of 0.
        None => *response.body_mut() = Body::from_stream(stream::empty::<Result<Bytes, Infallible>>()),
    }
    response
}
