//! Penates as it comes.

use anyhow::Result;
use tempfile::TempDir;

use super::subject::{Kind, Subject};
use crate::rig::penates::{Penates, Server};

/// Starts it over a new store. Writing is open; everything else is as it is by default.
pub fn start(penates: &Penates, folder: TempDir) -> Result<Subject> {
    let Server { process, http, .. } = penates.serve(&folder.path().join("data"), None)?;
    Ok(Subject {
        kind: Kind::Penates,
        process,
        address: http,
        root: "/rest/",
        container_suffix: "",
        authorization: None,
        folder,
    })
}
