//! The archive of runs: a folder with one bag (BagIt 1.0) for each run, which is never changed.
//!
//! | file | |
//! |---|---|
//! | `plan.toml` | the plan with all defaults |
//! | `scenarios/NAME.toml` | its scenarios |
//! | `record.json` | [`RunRecord`] |
//! | `summary.json` | [`Outcome`] |
//! | `seconds.csv` | [`Second`] in each line |
//! | `latencies.hlog` | response times by second and step, as HdrHistogram log (V2) |
//! | `times.hlog` | response, service, first byte and lateness of all requests and of each step, in the same form |
//! | `events/worker-NNN.csv.gz` | a line for each request |
//! | `monitor/NAME.csv` | what a monitor has sampled |
//! | `marks.csv` | [`Marked`] in each line: flushes, compactions, pauses, events of the plan |
//! | `report.html` | the report, for people |
//! | `requests.svg`, `durations.svg` | charts, for papers |
//! | `k6-summary.json`, `junit.xml` | the results in the forms of other tools |

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use preservation::bagit::{Bag, BagWriter};
use preservation::read::ReadError;
use preservation::write::WriteError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::beside::LogExcerpt;
use crate::latencies;
pub use crate::latencies::Latencies;
use crate::monitor;
use crate::record::{FORMAT, RunRecord};
use crate::results::{Judgement, Second, Summary};
use crate::samples::{Marked, Samples};
use crate::saturation::Saturation;

/// The most bytes of a file that is read whole.
const WHOLE_BYTES_MAX: u64 = 256 << 20;

/// What a run showed: `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The verdict.
    pub judgement: Judgement,
    /// The results.
    pub summary: Summary,
    /// What was saturated, the first of it first, if the load was not held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saturated: Vec<Saturation>,
    /// What the candidate printed around the first error, if the load was not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogExcerpt>,
    /// What further logs of the candidate say around it, and logs that monitors on other machines followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs_elsewhere: Vec<LogExcerpt>,
}

impl Outcome {
    /// What was logged around the first error: by the candidate that the testbed started, and on other machines.
    pub fn logs(&self) -> impl Iterator<Item = &LogExcerpt> {
        self.log.iter().chain(&self.logs_elsewhere)
    }
}

/// What every form of a record has.
#[derive(Deserialize)]
struct Form {
    format: u32,
}

/// Why a run cannot be kept or read.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// The bag cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The bag cannot be read, or is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file of the run cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A file of the run makes no sense.
    #[error("{name}: {message}")]
    Invalid {
        /// The file.
        name: String,
        /// What is wrong.
        message: String,
    },
}

/// The name of the monitor on the machine of the coordinator.
pub(crate) const CANDIDATE: &str = "candidate";
/// What ends the name of the folder of a run that is not finished, or was interrupted.
pub(crate) const UNFINISHED: &str = ".unfinished";

/// A run that is written to the archive. It is deleted with this value, unless it is finished.
pub struct RunWriter {
    bag: BagWriter,
    place: PathBuf,
    files: Vec<String>,
    /// After the bag, whose files are closed then.
    _unfinished: Unfinished,
}

/// The folder of a run that is not finished.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // A finished run has another folder. One that cannot be deleted is unfinished, as its name says.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl RunWriter {
    /// Begins a run in an archive, which is made if it is missing.
    ///
    /// # Errors
    /// There is a run of this id, or the folder cannot be written.
    pub fn create(archive: &Path, id: &str) -> Result<Self, ArchiveError> {
        fs::create_dir_all(archive).map_err(|error| ArchiveError::Io { path: archive.to_owned(), error })?;
        let place = archive.join(id);
        let bag = BagWriter::create(&place)?;
        let unfinished = Unfinished(bag.folder().to_owned());
        Ok(Self { bag, place, files: Vec::new(), _unfinished: unfinished })
    }

    /// The names of the files that were added.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// Adds a file with this content.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, name: &str, content: &[u8]) -> Result<(), ArchiveError> {
        let mut file = self.bag.file_at(name)?;
        file.write(content)?;
        self.bag.finish_file(file)?;
        self.files.push(name.to_owned());
        Ok(())
    }

    /// Adds a file as JSON.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add_json(&mut self, name: &str, value: &impl Serialize) -> Result<(), ArchiveError> {
        let invalid =
            |error: serde_json::Error| ArchiveError::Invalid { name: name.to_owned(), message: error.to_string() };
        let mut text = serde_json::to_vec_pretty(value).map_err(invalid)?;
        text.push(b'\n');
        self.add(name, &text)
    }

    /// Adds a copy of a file.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn add_copy(&mut self, name: &str, path: &Path) -> Result<(), ArchiveError> {
        let failed = |error| ArchiveError::Io { path: path.to_owned(), error };
        let (mut from, mut piece) = (File::open(path).map_err(failed)?, vec![0; 128 << 10]);
        let mut file = self.bag.file_at(name)?;
        loop {
            match from.read(&mut piece).map_err(failed)? {
                0 => break,
                len => file.write(&piece[..len])?,
            }
        }
        self.bag.finish_file(file)?;
        self.files.push(name.to_owned());
        Ok(())
    }

    /// Finishes the run. Returns its folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self, record: &RunRecord) -> Result<PathBuf, ArchiveError> {
        let info = [
            ("External-Identifier", record.id.clone()),
            ("Bagging-Date", record.ended_at.strftime("%Y-%m-%d").to_string()),
            ("Contact-Name", record.who.clone()),
            ("Bag-Software-Agent", format!("{} {}", record.testbed.name, record.testbed.version)),
        ];
        self.bag.finish(&info)?;
        Ok(self.place)
    }
}

/// The results of each second as CSV.
pub fn seconds_csv(seconds: &[Second]) -> Vec<u8> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    // A vector takes everything.
    let _ = seconds.iter().try_for_each(|second| csv.serialize(second));
    csv.into_inner().unwrap_or_default()
}

/// What happened when, as CSV.
pub fn marks_csv(marks: &[Marked]) -> Vec<u8> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    // A vector takes everything.
    let _ = marks.iter().try_for_each(|mark| csv.serialize(mark));
    csv.into_inner().unwrap_or_default()
}

/// A run of an archive.
pub struct ArchivedRun {
    folder: PathBuf,
}

impl ArchivedRun {
    /// The runs of an archive, the newest first. Folders that are no runs, and runs that are not finished,
    /// are left out.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all(archive: &Path) -> Result<Vec<Self>, ArchiveError> {
        let failed = |error| ArchiveError::Io { path: archive.to_owned(), error };
        let mut folders = Vec::new();
        for entry in fs::read_dir(archive).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let folder = entry.path();
            let is_finished = !entry.file_name().to_string_lossy().ends_with(UNFINISHED);
            if is_finished && folder.join("bagit.txt").is_file() && folder.join("data/record.json").is_file() {
                folders.push(folder);
            }
        }
        // Ids begin with the time.
        folders.sort_unstable_by(|one, other| other.cmp(one));
        Ok(folders.into_iter().map(|folder| Self { folder }).collect())
    }

    /// The run in a folder.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Compares all its files with their digests.
    ///
    /// # Errors
    /// A file is damaged or missing.
    pub fn verify(&self) -> Result<(), ArchiveError> {
        Ok(Bag::checked(&self.folder).map(drop)?)
    }

    /// Its record.
    ///
    /// # Errors
    /// The file is missing or makes no sense.
    pub fn record(&self) -> Result<RunRecord, ArchiveError> {
        let name = "record.json";
        let Form { format } = self.json(name)?;
        match format {
            FORMAT => self.json(name),
            newer => {
                let message = format!("it has the format {newer}, and this program knows {FORMAT}");
                Err(ArchiveError::Invalid { name: name.to_owned(), message })
            }
        }
    }

    /// What it showed.
    ///
    /// # Errors
    /// The file is missing or makes no sense.
    pub fn outcome(&self) -> Result<Outcome, ArchiveError> {
        self.json("summary.json")
    }

    /// Its seconds.
    ///
    /// # Errors
    /// The file is missing or makes no sense.
    pub fn seconds(&self) -> Result<Vec<Second>, ArchiveError> {
        self.lines("seconds.csv")
    }

    /// A file of the run, as text.
    ///
    /// # Errors
    /// The file is missing or is no text.
    pub fn text(&self, name: &str) -> Result<String, ArchiveError> {
        let mut text = String::new();
        let path = self.folder.join("data").join(name);
        self.open(name)?.read_to_string(&mut text).map_err(|error| ArchiveError::Io { path, error })?;
        Ok(text)
    }

    /// The response times of each second, of all steps together; of a long run, those of several seconds
    /// together.
    ///
    /// # Errors
    /// The file is missing or makes no sense.
    pub fn latencies(&self) -> Result<Latencies, ArchiveError> {
        let name = "latencies.hlog";
        let (_, file) = self.file(name)?;
        let read = latencies::read(BufReader::new(file));
        read.map_err(|message| ArchiveError::Invalid { name: name.to_owned(), message })
    }

    /// What each monitor has sampled; that on the machine of the coordinator comes first.
    ///
    /// # Errors
    /// A file cannot be read or makes no sense.
    pub fn monitors(&self) -> Result<Vec<Samples>, ArchiveError> {
        let folder = self.folder.join("data/monitor");
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| ArchiveError::Io { path: folder.clone(), error })?,
        };
        let mut names: Vec<String> = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| ArchiveError::Io { path: folder.clone(), error })?;
            names.extend(entry.file_name().to_string_lossy().strip_suffix(".csv").map(str::to_owned));
        }
        names.sort_unstable_by_key(|name| (name != CANDIDATE, name.clone()));
        let read = |name: String| {
            let path = format!("monitor/{name}.csv");
            let (_, file) = self.file(&path)?;
            monitor::read(&name, file)
                .map_err(|error| ArchiveError::Invalid { name: path.clone(), message: error.to_string() })
        };
        names.into_iter().map(read).collect()
    }

    /// What happened when, as far as it was marked.
    ///
    /// # Errors
    /// The file cannot be read or makes no sense.
    pub fn marks(&self) -> Result<Vec<Marked>, ArchiveError> {
        let name = "marks.csv";
        // A run without marks has no such file.
        if !self.folder.join("data").join(name).exists() {
            return Ok(Vec::new());
        }
        self.lines(name)
    }

    fn file(&self, name: &str) -> Result<(PathBuf, File), ArchiveError> {
        let path = self.folder.join("data").join(name);
        match File::open(&path) {
            Ok(file) => Ok((path, file)),
            Err(error) => Err(ArchiveError::Io { path, error }),
        }
    }

    /// A file that is read whole. One that is too long for that is refused: a part of it would look like all.
    fn open(&self, name: &str) -> Result<BufReader<File>, ArchiveError> {
        let (path, file) = self.file(name)?;
        match file.metadata() {
            Ok(found) if found.len() <= WHOLE_BYTES_MAX => Ok(BufReader::new(file)),
            Ok(_) => {
                let error = io::Error::other(format!("it has more than {} MiB", WHOLE_BYTES_MAX >> 20));
                Err(ArchiveError::Io { path, error })
            }
            Err(error) => Err(ArchiveError::Io { path, error }),
        }
    }

    /// The lines of a CSV file.
    fn lines<T: for<'a> Deserialize<'a>>(&self, name: &str) -> Result<Vec<T>, ArchiveError> {
        let invalid = |error: csv::Error| ArchiveError::Invalid { name: name.to_owned(), message: error.to_string() };
        csv::Reader::from_reader(self.open(name)?).deserialize().collect::<Result<_, _>>().map_err(invalid)
    }

    fn json<T: for<'a> Deserialize<'a>>(&self, name: &str) -> Result<T, ArchiveError> {
        let invalid =
            |error: serde_json::Error| ArchiveError::Invalid { name: name.to_owned(), message: error.to_string() };
        serde_json::from_reader(self.open(name)?).map_err(invalid)
    }
}

/// Writes to a file in a folder, for a run that is not archived yet.
pub fn write_file(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<PathBuf, ArchiveError> {
    let path = folder.join(name);
    let written = File::create(&path).and_then(|mut file| {
        write(&mut file)?;
        file.flush()
    });
    match written {
        Ok(()) => Ok(path),
        Err(error) => Err(ArchiveError::Io { path, error }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A folder that looks like a run.
    fn add(archive: &Path, name: &str) {
        fs::create_dir_all(archive.join(name).join("data")).unwrap();
        fs::write(archive.join(name).join("bagit.txt"), "").unwrap();
        fs::write(archive.join(name).join("data/record.json"), "{}").unwrap();
    }

    #[test]
    fn a_run_that_is_given_up_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunWriter::create(folder.path(), "2026-01-15T093000Z-get").unwrap();
        run.add("plan.toml", b"name = \"get\"\n").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(run);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_run_that_is_not_finished_is_no_run_of_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        add(folder.path(), "2026-01-15T093000Z-get");
        add(folder.path(), "2026-01-16T093000Z-get.unfinished");
        let runs = ArchivedRun::all(folder.path()).unwrap();
        let names: Vec<_> = runs.iter().map(|run| run.folder().file_name().unwrap()).collect();
        assert_eq!(names, ["2026-01-15T093000Z-get"]);
    }

    #[test]
    fn a_file_that_is_too_long_is_refused_and_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        add(folder.path(), "run");
        let file = File::create(folder.path().join("run/data/plan.toml")).unwrap();
        let run = ArchivedRun::at(&folder.path().join("run"));
        assert_eq!(run.text("plan.toml").unwrap(), "");
        // Without a block on the disk.
        file.set_len(WHOLE_BYTES_MAX + 1).unwrap();
        let error = run.text("plan.toml").unwrap_err().to_string();
        assert!(error.ends_with("plan.toml: it has more than 256 MiB"), "{error}");
    }

    #[test]
    fn the_monitor_of_the_coordinator_comes_before_those_of_other_machines() {
        let folder = tempfile::tempdir().unwrap();
        add(folder.path(), "run");
        let run = ArchivedRun::at(&folder.path().join("run"));
        assert_eq!((run.monitors().unwrap(), run.marks().unwrap()), (Vec::new(), Vec::new()));
        fs::create_dir(folder.path().join("run/data/monitor")).unwrap();
        for name in ["0-node-2.csv", "candidate.csv"] {
            fs::write(folder.path().join("run/data/monitor").join(name), "at_s,cpu\n1,0.5\n").unwrap();
        }
        fs::write(folder.path().join("run/data/marks.csv"), "at_s,what\n2.5,flush\n").unwrap();
        let monitors = run.monitors().unwrap();
        assert_eq!(monitors.iter().map(|samples| samples.name.as_str()).collect::<Vec<_>>(), [CANDIDATE, "0-node-2"]);
        assert_eq!(monitors[1].rows, [(1.0, vec![Some(0.5)])]);
        assert_eq!(run.marks().unwrap(), [Marked { at_s: 2.5, what: "flush".to_owned() }]);
    }
}
