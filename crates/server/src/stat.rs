//! `GET /stat`: the amount of stored data.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use library::Library;
use serde::Serialize;

use crate::problem;

/// The response.
#[derive(Serialize)]
pub(crate) struct Stored {
    volumes: u64,
    pages: u64,
    /// Bytes of the pages' texts.
    size_bytes: u64,
    /// Bytes of the same texts as stored.
    frame_bytes: u64,
    damaged_volumes: u64,
    /// Pages, METS and records with damage marks.
    damaged_members: u64,
    /// Resources of the repository with damage marks.
    damaged_resources: u64,
}

/// Counts by reading the head of each volume.
pub(crate) async fn stored(State(library): State<Library>) -> Result<Json<Stored>, Response> {
    let statistics = library.statistics().await.map_err(|error| problem::of_library(&error))?;
    Ok(Json(Stored {
        volumes: statistics.volumes,
        pages: statistics.pages,
        size_bytes: statistics.bytes,
        frame_bytes: statistics.frame_bytes,
        damaged_volumes: statistics.damaged_volumes,
        damaged_members: statistics.damaged_members,
        damaged_resources: statistics.damaged_resources,
    }))
}
