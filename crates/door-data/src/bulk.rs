//! Many volumes or pages as one ZIP: `GET|HEAD|POST /volumes` and `/pages`, compatible with the
//! HTRC Data API.

use std::sync::Arc;

use ::audit::Requester;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderValue, Method, header};
use pack::Level;
use volumes::{BulkRequest, OnDamage};

use crate::DataDoor;
use crate::archive;
use crate::asking::{Asking, Mount};
use crate::errors::{AsText, DoorError};
use crate::list_request::ListRequest;
use crate::retrieval::Retrieval;
use crate::selections;

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
    let asked = ListRequest::read(door, Some(retrieval), request, &requester).await?;
    let selectable = method == Method::POST && door.settings.post_selection && can_be_selected(door, &asked.bulk);
    let (plan, selection) = if selectable {
        selections::select_if_allowed(door, &asked, &requester).await?
    } else {
        (asked.plan(door).await?, None)
    };
    // The plan has everything: the list and the turn are no longer needed.
    drop(asked);
    let mut response = archive::send(&door.library, retrieval.into(), plan, requester, &method, &headers).await?;
    if let Some(address) = selection.and_then(|id| HeaderValue::try_from(selections::address(&mount, &id)).ok()) {
        response.headers_mut().insert(header::CONTENT_LOCATION, address);
    }
    Ok(response)
}

/// Whether the archive is deterministic, which a selection requires.
fn can_be_selected(door: &DataDoor, bulk: &BulkRequest) -> bool {
    door.settings.on_damage == OnDamage::Break && !matches!(bulk.level, Level::Recompressed(_))
}
