//! An archive of runs: a folder with one bag (BagIt 1.0) for each run, which is never changed.
//!
//! | file | |
//! |---|---|
//! | `run.json` | [`Line`] |
//! | `plan.toml`, `facts.json` | the plan, and what was measured on what |
//! | `record.json`, `summary.json` | the run as one of the testbed, whose portal shows it |
//! | `seconds.csv`, `latencies.hlog`, `monitor/candidate.csv` | its figures over time, where the testbed has them |
//! | all others | what the run has kept in its folder |

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use preservation::bagit::BagWriter;
use preservation::write::WriteError;
use serde::Serialize;
use thiserror::Error;
use walkdir::WalkDir;

use crate::filed;
use crate::line::Line;
use crate::load::watch;
use crate::plan::PlanError;
use crate::study::Study;

/// The file that says which run it is.
const RUN: &str = "run.json";

/// Where the testbed has what a monitor has sampled on the machine of the candidate.
const MONITOR: &str = "monitor/candidate.csv";

/// Why a run is not archived.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// Its bag cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Its plan cannot be written.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A file cannot be read, or the archive cannot be made.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// How many runs of a study an archive has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// Runs that the archive has now.
    pub added: usize,
    /// Runs that it had before.
    pub there: usize,
}

fn io_at<T>(path: &Path, result: io::Result<T>) -> Result<T, ArchiveError> {
    result.map_err(|error| ArchiveError::Io { path: path.to_owned(), error })
}

/// The name of a run in archives. A run of another study that began in the same second may have it too, as
/// those of simulated nodes do: the second of them in an archive has `-2` behind it, and so on.
pub fn id(study: &Study, line: &Line) -> String {
    let Line { planned, attempt, at, .. } = line;
    format!("{}-{}-{:05}-{attempt}", at.strftime("%Y%m%dT%H%M%SZ"), study.plan().name, planned.number)
}

/// Adds all runs of a study to an archive, void ones too. Those that it has are left as they are.
///
/// # Errors
/// A file cannot be read or written. The runs before it are in the archive.
pub fn archive(study: &Study, archive: &Path) -> Result<Archived, ArchiveError> {
    io_at(archive, fs::create_dir_all(archive))?;
    let mut archived = Archived::default();
    for line in study.lines() {
        match free_id(archive, &id(study, line), line)? {
            None => archived.there += 1,
            Some(id) => {
                add(study, line, archive, &id)?;
                archived.added += 1;
            }
        }
    }
    Ok(archived)
}

/// The name that a run gets in an archive, by its usual one; `None`: the archive has it already.
fn free_id(archive: &Path, usual: &str, line: &Line) -> Result<Option<String>, ArchiveError> {
    let (mut id, mut number) = (usual.to_owned(), 1);
    while archive.join(&id).exists() {
        if archived_run(&archive.join(&id))? == *line {
            return Ok(None);
        }
        number += 1;
        id = format!("{usual}-{number}");
    }
    Ok(Some(id))
}

/// The run of a bag.
fn archived_run(place: &Path) -> Result<Line, ArchiveError> {
    let path = place.join("data").join(RUN);
    let json = io_at(&path, fs::read(&path))?;
    io_at(&path, serde_json::from_slice(&json).map_err(io::Error::from))
}

fn add(study: &Study, line: &Line, archive: &Path, id: &str) -> Result<(), ArchiveError> {
    let place = &archive.join(id);
    let mut bag = BagWriter::create(place)?;
    put_json(&mut bag, RUN, line, place)?;
    put_json(&mut bag, "record.json", &filed::record(study, line, id.to_owned())?, place)?;
    put_json(&mut bag, "summary.json", &filed::outcome(study, line), place)?;
    for name in ["plan.toml", "facts.json"] {
        copy(&mut bag, name, &study.folder().join(name))?;
    }
    let folder = study.run_folder(line);
    let entries = WalkDir::new(&folder).sort_by_file_name();
    for entry in entries {
        let entry = entry.map_err(io::Error::from);
        let entry = io_at(&folder, entry)?;
        let within = entry.path().strip_prefix(&folder).ok().and_then(Path::to_str);
        if let Some(name) = within.filter(|_| entry.file_type().is_file()) {
            let name = if name == watch::FILE { MONITOR } else { name };
            copy(&mut bag, name, entry.path())?;
        }
    }
    // A run without figures over time has files of nothing: the portal copies them.
    let names = filed::NAMES_OF_SECONDS.join(",") + "\n";
    for (name, text) in [(filed::SECONDS, names.as_str()), (filed::LATENCIES, "")] {
        if !folder.join(name).exists() {
            put(&mut bag, name, &mut text.as_bytes(), place)?;
        }
    }
    let Line { planned, .. } = line;
    let described = format!(
        "run {} of the study {} under {}: {}",
        planned.number,
        study.plan().name,
        planned.workload,
        planned.setting
    );
    let info = [
        ("External-Identifier", id.to_owned()),
        ("External-Description", described),
        ("Bagging-Date", line.at.strftime("%Y-%m-%d").to_string()),
        ("Bag-Software-Agent", format!("lares lab {}", env!("CARGO_PKG_VERSION"))),
    ];
    Ok(bag.finish(&info)?)
}

fn put_json(bag: &mut BagWriter, name: &str, value: &impl Serialize, place: &Path) -> Result<(), ArchiveError> {
    let mut json = io_at(place, serde_json::to_vec_pretty(value).map_err(io::Error::from))?;
    json.push(b'\n');
    put(bag, name, &mut &json[..], place)
}

fn copy(bag: &mut BagWriter, name: &str, path: &Path) -> Result<(), ArchiveError> {
    put(bag, name, &mut io_at(path, File::open(path))?, path)
}

/// Adds a file with the bytes of a reader; `path` is named in errors.
fn put(bag: &mut BagWriter, name: &str, from: &mut dyn Read, path: &Path) -> Result<(), ArchiveError> {
    let mut file = bag.file_at(name)?;
    let mut piece = vec![0; 128 << 10];
    loop {
        match io_at(path, from.read(&mut piece))? {
            0 => return Ok(bag.finish_file(file)?),
            len => file.write(&piece[..len])?,
        }
    }
}
