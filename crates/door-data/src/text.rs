//! The text of a volume, its pages joined: `GET|HEAD /volumes/{id}/text`.

use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use door_http::conditional::{self, Condition};
use door_http::ranges::{self, BodyStream, Validators};
use futures::stream::{StreamExt, TryStreamExt};
use headers::HeaderMapExt;
use heads::ObjectsError;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use volumes::{BulkRequest, OnDamage};

use crate::DataDoor;
use crate::asking::{Asking, VolumePath};
use crate::errors::{AsProblem, DoorError};
use crate::params::Params;
use crate::policies;

/// The handler. A volume with a page that is known to be damaged has no text.
pub async fn text(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    VolumePath(id): VolumePath,
    method: Method,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    Params::refuse_as_of(query.as_deref())?;
    let volumes = &door.library.volumes;
    // It says why there is none.
    volumes.volume(&id).await?;
    let turn = volumes.planning(1, requester.party()).await?;
    let plan = turn.plan(&BulkRequest::volumes([id.clone()]), OnDamage::Break).await?;
    drop(turn);
    policies::check_plan(&door.settings, &plan)?;
    if !plan.missing.is_empty() {
        let detail = format!("{} of its parts cannot be read; its pages can be read one by one", plan.missing.len());
        return Err(ObjectsError::Damaged { volume: id, member: None, detail }.into());
    }
    let len_bytes = plan.text_bytes();
    // The plan's tag names the revision of the volume.
    let etag = plan.etag.as_deref().and_then(|etag| conditional::strong_etag(&format!("{etag}-text")));
    let validators = Validators { etag: etag.as_ref(), last_modified: None };
    let mut response = Response::new(Body::empty());
    let of_response = response.headers_mut();
    of_response.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    of_response.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    of_response.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Some(etag) = &etag {
        of_response.typed_insert(etag.clone());
    }
    if conditional::evaluate(&headers, validators).map_err(DoorError::from)? == Condition::NotModified {
        volumes.plan_requested(&plan, &requester).await?;
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    let extent = ranges::extent(&method, &headers, len_bytes, validators).map_err(DoorError::from)?;
    if method == Method::HEAD {
        volumes.plan_requested(&plan, &requester).await?;
        response.headers_mut().insert(header::CONTENT_LENGTH, len_bytes.into());
        return Ok(response);
    }
    let download = Arc::new(volumes.download(&plan, requester).await?);
    let open = move |range: Range<u64>| {
        let download = download.clone();
        async move {
            let pieces = download.text(range).await?;
            Ok::<BodyStream, DoorError>(pieces.map_err(axum::BoxError::from).boxed())
        }
    };
    Ok(ranges::respond(response, extent, len_bytes, open).await?)
}
