//! A storage root that a real Fedora wrote, for tests.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Unpacks the root of a Fedora that made versions on request.
pub fn unpacked() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/fedora/roots/on-request.tar.gz");
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--gzip", "--file"]).arg(recorded).arg("--directory").arg(folder.path());
    assert!(tar.status().unwrap().success());
    folder
}
