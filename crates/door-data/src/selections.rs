//! Selections: `POST /selections` stores a plan and answers with an address whose bytes stay the same until it ends;
//! `GET|HEAD|DELETE /selections/{selection}`. Whoever knows the address may use it: it cannot be guessed.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use objects::{BulkPlan, ObjectsError, Party, Requester, SelectionInfo, SelectionTerms};
use serde::Serialize;

use crate::DataDoor;
use crate::asking::{Asking, Mount};
use crate::audit;
use crate::bulk::{self, Asked, Download};
use crate::errors::{AsProblem, DoorError};
use crate::params::Params;
use crate::time::rfc3339;

const ZIP: &str = "application/zip";
const JSON: &str = "application/json";

/// How long a selection lasts at most that nobody asked for: enough to resume a download that has broken off.
const UNASKED_LIFE: Duration = Duration::from_secs(24 * 3_600);

/// Where a selection is, as the client sees it.
pub fn address(mount: &Mount, id: &str) -> String {
    format!("{}/selections/{id}", mount.0)
}

/// What is told of a selection.
#[derive(Serialize)]
struct Told {
    id: String,
    /// Its path.
    address: String,
    created: String,
    /// Until when it can be read.
    ends: String,
    /// Of its ZIP.
    len_bytes: u64,
    /// Of its ZIP, as the header has it.
    etag: String,
    entries: u64,
    volumes: u64,
    missing: u64,
}

impl Told {
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

/// `POST /selections`: parameters as of `/volumes` or `/pages`, and `life_s`, how many seconds it is to last.
pub async fn create(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    mount: Mount,
    request: Request,
) -> Result<Response, AsProblem> {
    let asked = bulk::read_request(&door, None, request, &requester).await?;
    let life = life(&door, &asked.params)?;
    asked.check_pages(&door).await?;
    let terms = SelectionTerms { life, owned_max: door.settings.selections_per_requester_max, reuse: false };
    let selection = match asked.turn.select(&asked.bulk, &requester, terms).await {
        // The life is within its limit, so it is the number that is over its.
        Err(ObjectsError::OverLimit(detail)) => return Err(DoorError::TooManySelections(detail).into()),
        selected => selected?,
    };
    drop(asked);
    audit::plan_selected(&door.library, &selection.plan, &requester).await?;
    let told = Told::new(selection.info, &mount);
    let location = HeaderValue::try_from(told.address.as_str());
    let mut response = (StatusCode::CREATED, Json(told)).into_response();
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

/// A plan with the selection that keeps it, where the requester may have one more; otherwise a plan alone. For clients that do
/// not know of selections and must not fail for want of one.
pub async fn select_if_allowed(
    door: &DataDoor,
    asked: &Asked<'_>,
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
            tracing::debug!(%error, "an answer goes without a selection");
            Ok((asked.plan(door).await?, None))
        }
    }
}

/// Of the selections that a requester may have (0: any number), those that come unasked leave half to those that are asked for.
/// `None`: there is room for one only, which is kept for whoever asks.
fn unasked_max(max: u64) -> Option<u64> {
    match max {
        0 => Some(0),
        1 => None,
        max => Some(max / 2),
    }
}

/// `GET|HEAD /selections/{selection}`: its ZIP, or what is known of it where the client asks for JSON.
pub async fn send(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    mount: Mount,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    let not_acceptable = || DoorError::NotAcceptable(format!("{ZIP}, {JSON}"));
    let mut response = match crate::negotiate::media_type(&headers, &[ZIP, JSON]).ok_or_else(not_acceptable)? {
        JSON => Json(Told::new(door.library.selection_info(&id).await?, &mount)).into_response(),
        _ => {
            let plan = door.library.selection(&id, &Party::of(&requester)).await?;
            bulk::send(&door.library, Download::Selection, plan, requester, &method, &headers).await?
        }
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// `DELETE /selections/{selection}`.
pub async fn delete(State(door): State<Arc<DataDoor>>, Path(id): Path<String>) -> Result<StatusCode, AsProblem> {
    door.library.delete_selection(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}
