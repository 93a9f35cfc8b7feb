//! Selections: `POST /selections` stores a plan and answers with an address whose bytes stay the
//! same until it ends; `GET|HEAD|DELETE /selections/{selection}`. Any client that knows the address
//! may use it, unless it is limited to other volumes: it cannot be guessed.

use std::sync::Arc;
use std::time::Duration;

use ::audit::Requester;
use area::{Area, OutsideArea};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use door_http::Path;
use door_http::accept::{self, Offer};
use heads::ObjectsError;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Serialize;
use volumes::{BulkPlan, SelectionInfo, SelectionTerms};

use crate::DataDoor;
use crate::archive::{self, ZipName};
use crate::asking::{Asking, Mount, Within};
use crate::errors::{AsProblem, DoorError};
use crate::list_request::ListRequest;
use crate::params::Params;
use crate::time::rfc3339;

const ZIP: &str = "application/zip";
const JSON: &str = "application/json";

/// Longest lifetime of a selection that the client did not request: enough to resume a broken
/// download.
const UNASKED_LIFE: Duration = Duration::from_secs(24 * 3_600);

/// The address of a selection, as the client sees it.
pub fn address(mount: &Mount, id: &str) -> String {
    format!("{}/selections/{id}", mount.0)
}

/// The description of a selection.
#[derive(Serialize)]
struct Description {
    id: String,
    /// Its path.
    address: String,
    created: String,
    /// When it ends.
    ends: String,
    /// Length of its ZIP.
    len_bytes: u64,
    /// Entity tag of its ZIP, as in the header.
    etag: String,
    entries: u64,
    volumes: u64,
    missing: u64,
}

impl Description {
    fn new(info: SelectionInfo, mount: &Mount) -> Self {
        Self {
            address: address(mount, &info.id),
            created: rfc3339(info.created),
            ends: rfc3339(info.ends),
            len_bytes: info.len_bytes,
            etag: format!("\"{}\"", info.etag),
            entries: info.entries,
            volumes: info.volumes,
            missing: info.missing,
            id: info.id,
        }
    }
}

/// `POST /selections`: the parameters of `/volumes` or `/pages`, and `life_s`, its lifetime in
/// seconds.
pub async fn create(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    mount: Mount,
    request: Request,
) -> Result<Response, AsProblem> {
    let asked = ListRequest::read(&door, None, request, &requester).await?;
    let life = life(&door, &asked.params)?;
    asked.check_pages(&door).await?;
    let terms = SelectionTerms { life, owned_max: door.settings.selections_per_requester_max, reuse: false };
    let selection = match asked.turn.select(&asked.bulk, &requester, terms).await {
        // The lifetime is within its limit. So the requester has too many selections, or one of the
        // volumes is in too many.
        Err(ObjectsError::OverLimit(detail)) => return Err(DoorError::TooManySelections(detail).into()),
        selected => selected?,
    };
    drop(asked);
    door.library.volumes.plan_selected(&selection.plan, &requester).await?;
    let description = Description::new(selection.info, &mount);
    let location = HeaderValue::try_from(description.address.as_str());
    let mut response = (StatusCode::CREATED, Json(description)).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

fn life(door: &DataDoor, params: &Params) -> Result<Option<Duration>, DoorError> {
    let max = door.library.options().selection_life_max;
    let within = |word: &str| word.parse().ok().map(Duration::from_secs).filter(|life| !life.is_zero() && *life <= max);
    params.keyword("life_s", "a number of seconds within the limit of selections", within)
}

/// A plan with a selection of it, if the requester may have another one; otherwise the plan alone.
/// For clients that do not know of selections, and must not fail for lack of one.
pub async fn select_if_allowed(
    door: &DataDoor,
    asked: &ListRequest<'_>,
    requester: &Requester,
) -> Result<(Arc<BulkPlan>, Option<String>), DoorError> {
    asked.check_pages(door).await?;
    let Some(owned_max) = unasked_max(door.settings.selections_per_requester_max) else {
        return Ok((asked.plan(door).await?, None));
    };
    let life = Some(door.library.options().selection_life.min(UNASKED_LIFE));
    match asked.turn.select(&asked.bulk, requester, SelectionTerms { life, owned_max, reuse: true }).await {
        Ok(selection) => Ok((selection.plan, Some(selection.info.id))),
        Err(error) => {
            tracing::debug!(%error, "a response names no selection");
            Ok((asked.plan(door).await?, None))
        }
    }
}

/// Most selections without a request for one, of the `max` that a requester may have (0: any
/// number): half. `None` if there is room for only one, which is left to explicit requests.
fn unasked_max(max: u64) -> Option<u64> {
    match max {
        0 => Some(0),
        1 => None,
        max => Some(max / 2),
    }
}

/// `GET|HEAD /selections/{selection}`: its ZIP, or its description if the client asks for JSON.
pub async fn send(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    Within(area): Within,
    mount: Mount,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    let not_acceptable = || DoorError::NotAcceptable(format!("{ZIP}, {JSON}"));
    let offers = [ZIP, JSON].map(|media_type| Offer::new(media_type, media_type));
    let mut response = match *accept::media_type(&headers, &offers).ok_or_else(not_acceptable)? {
        JSON => {
            check_within(&door, &id, &requester, &area).await?;
            Json(Description::new(door.library.volumes.selection_info(&id).await?, &mount)).into_response()
        }
        _ => {
            let plan = door.library.volumes.selection(&id, &requester.party()).await?;
            within(&id, &plan, &area)?;
            archive::send(&door.library, ZipName::Selection, plan, requester, &method, &headers).await?
        }
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// `DELETE /selections/{selection}`.
pub async fn delete(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    Within(area): Within,
    Path(id): Path<String>,
) -> Result<StatusCode, AsProblem> {
    check_within(&door, &id, &requester, &area).await?;
    door.library.volumes.delete_selection(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses a selection with volumes that are not within the client's area, without naming them.
async fn check_within(door: &DataDoor, id: &str, requester: &Requester, area: &Area) -> Result<(), DoorError> {
    if !area.is_limited() {
        return Ok(());
    }
    within(id, &*door.library.volumes.selection(id, &requester.party()).await?, area)
}

fn within(id: &str, plan: &BulkPlan, area: &Area) -> Result<(), DoorError> {
    plan.check_within(area)?.map_err(|_| OutsideArea { what: format!("all of the selection `{id}`") }.into())
}
