//! Penates with its default settings.

use std::ffi::OsStr;

use anyhow::Result;
use tempfile::TempDir;

use super::subject::{Kind, Subject};
use crate::rig::penates::{Penates, Server};

/// Starts it over a new store. Writing is open; all other settings are the defaults.
pub fn start(penates: &Penates, folder: TempDir) -> Result<Subject> {
    let store = folder.path().join("data");
    over(penates, store.as_os_str(), folder, &[])
}

/// Starts it over a store anywhere, with more settings; its log is in the folder.
pub fn over(penates: &Penates, store: &OsStr, folder: TempDir, more: &[&str]) -> Result<Subject> {
    let Server { process, http, .. } = penates.serve(store, &folder.path().join("log"), None, more)?;
    Ok(Subject {
        kind: Kind::Penates,
        process,
        address: http,
        root: "/rest/",
        container_suffix: "",
        fields: &[],
        folder,
    })
}
