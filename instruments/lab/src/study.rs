//! The folder of a study: its plan, and a line for each run, written so that no finished run is
//! lost.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::line::Line;
use crate::plan::{Plan, PlanError, Restart};
use crate::rig::Facts;

const PLAN: &str = "plan.toml";
const RUNS: &str = "runs.jsonl";
const FACTS: &str = "facts.json";
const LOCK: &str = "study.lock";

/// The fact that says what made the runs.
const BUILD: &str = "build";

/// The way in which runs are ordered, made and checked. It changes with each change that could make
/// runs before and after it differ, so that builds without a commit are told apart too.
const PROCEDURE: u32 = 7;

/// Why a study cannot be used.
#[derive(Debug, Error)]
pub enum StudyError {
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A line in the middle makes no sense.
    #[error("{}: line {line}: {error}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why.
        #[source]
        error: serde_json::Error,
    },
    /// What was measured, on what, makes no sense.
    #[error("{}: {error}. Without it nobody knows with what the runs were made", path.display())]
    Facts {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: serde_json::Error,
    },
    /// There are runs, and nothing says with what they were made.
    #[error("{} has runs and no facts.json, so nobody knows with what they were made; begin a new study", .0.display())]
    NoFacts(PathBuf),
    /// Another build made the runs.
    #[error(
        "the study was begun by {before}, and this is {now}, which may measure otherwise; go on with that one, or begin a new study"
    )]
    OtherBuild {
        /// What began it.
        before: String,
        /// What this is.
        now: String,
    },
    /// The folder has a study already.
    #[error("{} has a study already; `lares lab resume` continues it", .0.display())]
    Exists(PathBuf),
    /// The folder has none.
    #[error("{} has no study", .0.display())]
    Absent(PathBuf),
    /// Another process makes its runs.
    #[error("another process works on the study in {}", .0.display())]
    Held(PathBuf),
}

/// A study in a folder.
#[derive(Debug)]
pub struct Study {
    folder: PathBuf,
    plan: Plan,
    facts: Facts,
    lines: Vec<Line>,
}

/// A study to which this process, and no other, adds runs.
#[derive(Debug)]
pub struct OpenStudy {
    study: Study,
    runs: File,
    _lock: File,
}

fn io_at<T>(path: &Path, result: io::Result<T>) -> Result<T, StudyError> {
    result.map_err(|error| StudyError::Io { path: path.to_owned(), error })
}

impl Study {
    /// Reads a study. The end of a line that was being written when its process was killed is left
    /// out.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn read(folder: &Path) -> Result<Self, StudyError> {
        let path = folder.join(PLAN);
        if !path.exists() {
            return Err(StudyError::Absent(folder.to_owned()));
        }
        let plan = Plan::read(&path)?;
        let facts = facts(&folder.join(FACTS))?;
        let (lines, _) = lines(&folder.join(RUNS))?;
        Ok(Self { folder: folder.to_owned(), plan, facts, lines })
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// All runs, void ones too, in the order in which they were made.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The folder with the files of a run.
    pub fn run_folder(&self, line: &Line) -> PathBuf {
        self.folder_of(line.planned.number, line.attempt)
    }

    fn folder_of(&self, number: u32, attempt: u32) -> PathBuf {
        self.folder.join("runs").join(format!("{number:05}-{attempt}"))
    }

    /// What was measured, on what; empty before the first run.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }
}

/// The facts of a file; none if it is absent.
fn facts(path: &Path) -> Result<Facts, StudyError> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Facts::default()),
        text => {
            let text = io_at(path, text)?;
            serde_json::from_slice(&text).map_err(|error| StudyError::Facts { path: path.to_owned(), error })
        }
    }
}

/// What makes the runs: the version of this program, and its commit, if it was known when it was
/// built.
fn build() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let commit = option_env!("PENATES_COMMIT").map_or_else(String::new, |commit| format!(" (commit {commit})"));
    format!("{version}{commit}, procedure {PROCEDURE}")
}

/// The lines of a file, and how many bytes of it they are.
fn lines(path: &Path) -> Result<(Vec<Line>, u64), StudyError> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        text => io_at(path, text)?,
    };
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let parse = |(number, line): (usize, &[u8])| {
        serde_json::from_slice(line).map_err(|error| StudyError::Line {
            path: path.to_owned(),
            line: number + 1,
            error,
        })
    };
    let split = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok((split.enumerate().map(parse).collect::<Result<_, _>>()?, whole as u64))
}

impl OpenStudy {
    /// Makes a study in a folder, which is created if it is absent.
    ///
    /// # Errors
    /// The folder has one already, or cannot be written.
    pub fn create(folder: &Path, plan: &Plan) -> Result<Self, StudyError> {
        plan.check()?;
        let text = plan.to_toml()?;
        io_at(folder, make_folder(folder))?;
        let lock = lock(folder)?;
        let path = folder.join(PLAN);
        if path.exists() {
            return Err(StudyError::Exists(folder.to_owned()));
        }
        io_at(&path, write_whole(&path, text.as_bytes()))?;
        Self::open_locked(folder, lock)
    }

    /// Opens a study to continue it.
    ///
    /// # Errors
    /// There is none, it is damaged, or another process works on it.
    pub fn open(folder: &Path) -> Result<Self, StudyError> {
        if !folder.join(PLAN).exists() {
            return Err(StudyError::Absent(folder.to_owned()));
        }
        let lock = lock(folder)?;
        Self::open_locked(folder, lock)
    }

    fn open_locked(folder: &Path, lock: File) -> Result<Self, StudyError> {
        let study = Study::read(folder)?;
        let path = folder.join(RUNS);
        let (_, whole) = lines(&path)?;
        let runs = io_at(&path, OpenOptions::new().create(true).append(true).open(&path))?;
        // The next line must not follow the beginning of one that was never finished.
        io_at(&path, runs.set_len(whole))?;
        io_at(folder, sync_folder(folder))?;
        Ok(Self { study, runs, _lock: lock })
    }

    /// The study.
    pub fn study(&self) -> &Study {
        &self.study
    }

    /// The folder for files of a run. It is made, and is empty.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn run_folder(&self, number: u32, attempt: u32) -> Result<PathBuf, StudyError> {
        let folder = self.study.folder_of(number, attempt);
        // An attempt that was killed left it.
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return io_at(&folder, Err(error)),
            _ => {}
        }
        io_at(&folder, fs::create_dir_all(&folder))?;
        Ok(folder)
    }

    /// Adds a run. When this returns, it is on the disk.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, line: Line) -> Result<(), StudyError> {
        let path = self.study.folder.join(RUNS);
        let text = serde_json::to_vec(&line).map_err(io::Error::from);
        let mut text = io_at(&path, text)?;
        text.push(b'\n');
        io_at(&path, self.runs.write_all(&text).and_then(|()| self.runs.sync_data()))?;
        self.study.lines.push(line);
        Ok(())
    }

    /// Whether this build may add runs.
    ///
    /// # Errors
    /// Another build made runs, or nothing says with what they were made.
    pub fn can_go_on(&self) -> Result<(), StudyError> {
        let facts = &self.study.facts.facts;
        if facts.is_empty() {
            let is_new = self.study.lines.is_empty();
            return if is_new { Ok(()) } else { Err(StudyError::NoFacts(self.study.folder.clone())) };
        }
        let before = facts.get(BUILD).cloned().unwrap_or_else(|| "an older build".to_owned());
        let now = build();
        if before == now { Ok(()) } else { Err(StudyError::OtherBuild { before, now }) }
    }

    /// Keeps what is measured, on what, by which build and by which plan. If the study has facts
    /// already, they stay, and what differs is returned: (fact, before, now).
    ///
    /// # Errors
    /// They cannot be written.
    pub fn set_facts(&mut self, facts: &Facts) -> Result<Vec<(String, String, String)>, StudyError> {
        let Study { folder, plan, facts: known, .. } = &mut self.study;
        let mut facts = facts.clone();
        let path = folder.join(PLAN);
        let restart = if plan.restarts() == Restart::EveryRun { "before every run" } else { "when it is needed" };
        let of_plan = [
            (PLAN, digest(&io_at(&path, fs::read(&path))?)),
            // With what the plan does not say, and what is usual then.
            ("plan as used", digest(plan.to_toml()?.as_bytes())),
            ("restart", restart.to_owned()),
            ("confirm", plan.confirm.to_string()),
            ("jmx", plan.node.jmx.to_string()),
            (BUILD, build()),
        ];
        facts.facts.extend(of_plan.map(|(fact, value)| (fact.to_owned(), value)));
        let path = folder.join(FACTS);
        if known.facts.is_empty() {
            let text = io_at(&path, serde_json::to_vec_pretty(&facts).map_err(io::Error::from))?;
            io_at(&path, write_whole(&path, &text))?;
            *known = facts;
            return Ok(Vec::new());
        }
        let names: BTreeSet<_> = known.facts.keys().chain(facts.facts.keys()).collect();
        let of = |facts: &Facts, name: &str| facts.facts.get(name).cloned().unwrap_or_else(|| "unknown".to_owned());
        let all = names.into_iter().map(|name| (name.clone(), of(known, name), of(&facts, name)));
        Ok(all.filter(|(_, before, now)| before != now).collect())
    }
}

/// SHA-256 in hexadecimal digits.
fn digest(bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

fn lock(folder: &Path) -> Result<File, StudyError> {
    let path = folder.join(LOCK);
    let file = io_at(&path, File::create(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StudyError::Held(folder.to_owned())),
        Err(TryLockError::Error(error)) => io_at(&path, Err(error)),
    }
}

/// Makes a folder with those above it, and their names durable.
fn make_folder(folder: &Path) -> io::Result<()> {
    let absent: Vec<_> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    fs::create_dir_all(folder)?;
    absent.into_iter().filter_map(Path::parent).try_for_each(sync_folder)
}

/// Makes the names in a folder durable. An empty path is the current folder.
fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

/// Writes a file so that there is all of it or nothing, and its name is durable.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}
