//! Many volumes or pages as one ZIP: `GET|HEAD|POST /volumes` and `/pages`, compatible with the
//! HTRC Data API. Also turns the plan of a ZIP or of a selection into a response.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use headers::{ETag, HeaderMapExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use objects::{BulkPlan, BulkRequest, Library, OnDamage, Party, Planning, Requester, Share};
use pack::Level;

use crate::DataDoor;
use crate::asking::{Asking, Mount};
use crate::audit;
use crate::errors::{AsText, DoorError};
use crate::params::{Params, Retrieval};
use crate::policies;
use crate::selections;
use door_http::conditional::{self, Condition};
use door_http::ranges::{self, BodyStream, Validators};

/// Number of entries of the ZIP.
const PENATES_ENTRIES: HeaderName = HeaderName::from_static("penates-entries");

/// Number of requested members that are not in the ZIP; its `ERROR.err` names them.
const PENATES_MISSING: HeaderName = HeaderName::from_static("penates-missing");

/// Approximate bytes per id of a request: in the list, and in the plan that is made of it.
pub const NAMED_BYTES: u64 = 256;

/// The file name of a ZIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Download {
    /// Of `/volumes`.
    Volumes,
    /// Of `/pages`.
    Pages,
    /// Of `/tokencount`.
    TokenCount,
    /// Of a selection.
    Selection,
}

impl Download {
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

impl From<Retrieval> for Download {
    fn from(retrieval: Retrieval) -> Self {
        match retrieval {
            Retrieval::Volumes => Self::Volumes,
            Retrieval::Pages => Self::Pages,
        }
    }
}

/// `GET|HEAD|POST /volumes`.
pub async fn volumes(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    mount: Mount,
    request: Request,
) -> Result<Response, AsText> {
    Ok(retrieve(&door, Retrieval::Volumes, requester, mount, request).await?)
}

/// `GET|HEAD|POST /pages`.
pub async fn pages(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    mount: Mount,
    request: Request,
) -> Result<Response, AsText> {
    Ok(retrieve(&door, Retrieval::Pages, requester, mount, request).await?)
}

async fn retrieve(
    door: &DataDoor,
    retrieval: Retrieval,
    requester: Requester,
    mount: Mount,
    request: Request,
) -> Result<Response, DoorError> {
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let asked = read_request(door, Some(retrieval), request, &requester).await?;
    let selectable = method == Method::POST && door.settings.post_selection && can_be_selected(door, &asked.bulk);
    let (plan, selection) = if selectable {
        selections::select_if_allowed(door, &asked, &requester).await?
    } else {
        (asked.plan(door).await?, None)
    };
    // The plan has everything: the list and the turn are no longer needed.
    drop(asked);
    let mut response = send(&door.library, retrieval.into(), plan, requester, &method, &headers).await?;
    if let Some(address) = selection.and_then(|id| HeaderValue::try_from(selections::address(&mount, &id)).ok()) {
        response.headers_mut().insert(header::CONTENT_LOCATION, address);
    }
    Ok(response)
}

/// A parsed request, and its turn to be planned.
pub struct Asked<'door> {
    /// The requested volumes or pages.
    pub bulk: BulkRequest,
    /// Its turn.
    pub turn: Planning<'door>,
    /// Its parameters.
    pub params: Params,
    /// The share of memory for all this until it is planned.
    pub _share: Share,
}

/// Reads a request, and checks the policies as far as that is possible without the store. With
/// `None` the parameters decide between volumes and pages.
pub async fn read_request<'door>(
    door: &'door DataDoor,
    retrieval: Option<Retrieval>,
    request: Request,
    requester: &Requester,
) -> Result<Asked<'door>, DoorError> {
    let (memory, party) = (door.library.memory(), Party::of(requester));
    let (params, mut share) = Params::of_request(request, door.settings.form_bytes_max, memory, &party).await?;
    policies::check_length(&door.settings, &params)?;
    let turn = door.library.planning(params.named_at_most(), party).await?;
    share.resize(share.bytes() + params.named_at_most() * NAMED_BYTES)?;
    // A list may have 100,000 ids and more: reading it would block a thread that serves other
    // requests.
    let read = tokio::task::spawn_blocking(move || {
        let retrieval = retrieval.map_or_else(|| params.retrieval(), Ok)?;
        params.bulk(retrieval).map(|bulk| (bulk, params))
    });
    let (bulk, params) = read.await.map_err(|error| objects::ObjectsError::Internal(error.to_string()))??;
    policies::check_request(&door.settings, &bulk.wanted)?;
    Ok(Asked { bulk, turn, params, _share: share })
}

impl Asked<'_> {
    /// The plan for it, within the policies.
    pub async fn plan(&self, door: &DataDoor) -> Result<Arc<BulkPlan>, DoorError> {
        let plan = self.turn.plan(&self.bulk, door.settings.on_damage).await?;
        policies::check_plan(&door.settings, &plan)?;
        Ok(plan)
    }

    /// Checks the policies about pages for callers that make no plan. It makes a plan only if there
    /// are such policies.
    pub async fn check_pages(&self, door: &DataDoor) -> Result<(), DoorError> {
        if policies::limits_pages(&door.settings) {
            self.plan(door).await?;
        }
        Ok(())
    }
}

/// Whether the archive is deterministic, which a selection requires.
fn can_be_selected(door: &DataDoor, bulk: &BulkRequest) -> bool {
    door.settings.on_damage == OnDamage::Break && !matches!(bulk.level, Level::Recompressed(_))
}

/// Responds with the ZIP of a plan: all of it, ranges of it, or its headers.
pub async fn send(
    library: &Library,
    download: Download,
    plan: Arc<BulkPlan>,
    requester: Requester,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, DoorError> {
    let etag = plan.etag.as_deref().and_then(conditional::strong_etag);
    let validators = Validators { etag: etag.as_ref(), last_modified: None };
    let mut response = Response::new(Body::empty());
    insert_headers(response.headers_mut(), download, &plan, etag.as_ref());
    let reading = matches!(*method, Method::GET | Method::HEAD);
    if reading && conditional::evaluate(headers, validators)? == Condition::NotModified {
        audit::plan_requested(library, &plan, &requester).await?;
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    let extent = match plan.len_bytes {
        Some(len_bytes) => Some((ranges::extent(method, headers, len_bytes, validators)?, len_bytes)),
        None => None,
    };
    if *method == Method::HEAD {
        audit::plan_requested(library, &plan, &requester).await?;
        return Ok(with_length(response, plan.len_bytes));
    }
    // One request, whatever the number of ranges.
    let download = Arc::new(library.download(&plan, requester).await?);
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
async fn open(download: Arc<objects::Download>, range: Range<u64>) -> Result<BodyStream, DoorError> {
    let pieces = download.stream(range).await?;
    Ok(pieces.map_err(axum::BoxError::from).boxed())
}

/// The common headers of GET and HEAD.
fn insert_headers(headers: &mut HeaderMap, download: Download, plan: &BulkPlan, etag: Option<&ETag>) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(download.disposition()));
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
