//! Verifying resources: a list of all resources, page by page, and a report on one. Both are
//! extensions of this server, in JSON, for `penates verify` and other clients.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use budget::Pace;
use bytes::Bytes;
use door_http::Query;
use heads::ResourcePath;
use repository::VerifiedResource;
use serde::{Deserialize, Serialize};

use crate::LdpDoor;
use crate::errors::LdpError;

/// The routes. They need the right to write: verifying marks damage, and the list includes
/// resources in deleted containers.
pub fn routes(door: Arc<LdpDoor>) -> Router {
    let base = &door.settings.base;
    Router::new()
        .route(&format!("{base}/fcr:resources"), get(list))
        .route(&format!("{base}/fcr:verify"), post(verify))
        .with_state(door.clone())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    after: Option<String>,
}

/// Some resources.
#[derive(Serialize)]
struct Page {
    /// Their paths from the root, with slashes between names.
    resources: Vec<String>,
    /// The value of `after` for the next page; none if this was the last.
    next: Option<String>,
}

/// `GET {base}/fcr:resources`: some resources, the next ones with `?after=`.
async fn list(State(door): State<Arc<LdpDoor>>, Query(query): Query<ListQuery>) -> Result<Response, LdpError> {
    let after = query.after.map(|text| token(&text)).transpose()?;
    let page = door.library.repository.resources(after).await?;
    let resources = page.paths.iter().map(ToString::to_string).collect();
    let next = page.next.map(|next| next.iter().map(|byte| format!("{byte:02x}")).collect());
    Ok(Json(Page { resources, next }).into_response())
}

fn token(text: &str) -> Result<Bytes, LdpError> {
    let byte = |at: usize| text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
    bytes.map(Bytes::from).ok_or(LdpError::Query("`after` is not the `next` of an earlier page"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerifyQuery {
    path: String,
}

/// The result of verifying.
#[derive(Serialize)]
struct Report {
    resource: String,
    revision: String,
    /// Of its description and its bytes.
    size_bytes: u64,
    /// Whether nothing is damaged.
    sound: bool,
    damaged: Vec<Damage>,
}

/// A damaged part.
#[derive(Serialize)]
struct Damage {
    /// `description` or `bytes`; none if nothing of it can be reached.
    part: Option<&'static str>,
    detail: String,
}

impl From<VerifiedResource> for Report {
    fn from(verified: VerifiedResource) -> Self {
        let damage = verified.damaged.into_iter();
        let damaged: Vec<_> = damage
            .map(|damaged| Damage { part: damaged.part.map(|part| part.name()), detail: damaged.detail })
            .collect();
        Self {
            resource: verified.path.to_string(),
            revision: verified.revision.to_string(),
            size_bytes: verified.bytes,
            sound: damaged.is_empty(),
            damaged,
        }
    }
}

/// `POST {base}/fcr:verify?path=`: reads all of a resource again, and reports in JSON.
async fn verify(State(door): State<Arc<LdpDoor>>, Query(query): Query<VerifyQuery>) -> Result<Response, LdpError> {
    let path: ResourcePath = query.path.parse()?;
    let verified = door.library.repository.once().verify_at(&path, Pace::unlimited()).await?;
    Ok(Json(Report::from(verified)).into_response())
}
