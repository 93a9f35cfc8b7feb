//! Programs of Python that validate what Penates writes. Tests of the instruments have this file too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The validator of bags, as its registry names it.
const BAGIT: &str = "bagit==1.9.0";

/// A folder of programs with a package of Python, which is fetched once and kept from run to run.
pub fn programs(package: &str) -> Result<PathBuf, String> {
    // Tests that run at the same time must not fetch it into each other's folder.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package.replace("==", "-"));
    let programs = kept.join("bin");
    if !kept.join("fetched").exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&kept))?;
        run(Command::new(programs.join("python3")).args(["-m", "pip", "install", "--quiet", package]))?;
        fs::write(kept.join("fetched"), "").map_err(|error| error.to_string())?;
    }
    Ok(programs)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Whether the validator finds a bag valid; an error if it cannot run.
pub fn is_valid(bag: &Path) -> Result<bool, String> {
    let python = programs(BAGIT)?.join("python3");
    Ok(run(Command::new(python).args(["-m", "bagit", "--validate", "--quiet"]).arg(bag)).is_ok())
}
