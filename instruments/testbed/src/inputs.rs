//! What a run reads: the plan, its scenarios, and the files of their feeds. All of it is digested for
//! the record, and sent to the workers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use preservation::bagit::text::is_inside;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::arrivals::Shape;
use crate::machine::sha256_of_file;
use crate::plan::{Plan, PlanError, invalid};
use crate::plans;
use crate::record::Input;
use crate::scenario::feed::{Order, Source};
use crate::scenario::{Protocol, Scenario, ScenarioSpec, shipped};

/// The most bytes of all files of feeds: workers hold them in memory.
const FILES_BYTES_MAX: u64 = 256 << 20;

/// Files by name, with `/` between folders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files(BTreeMap<String, Bytes>);

impl Files {
    /// Files with these names and texts.
    pub fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        Self(files.into_iter().map(|(name, text)| (name.to_owned(), Bytes::copy_from_slice(text.as_bytes()))).collect())
    }

    /// A file as text.
    pub(crate) fn text(&self, name: &str) -> Result<&str, PlanError> {
        let bytes = self.0.get(name).ok_or_else(|| invalid(name, "there is no such file"))?;
        std::str::from_utf8(bytes).map_err(|_| invalid(name, "it is not UTF-8"))
    }

    /// The files of a folder, without those of folders in it.
    pub(crate) fn of_folder(&self, folder: &str) -> impl Iterator<Item = (&str, &Bytes)> {
        let prefix = format!("{folder}/");
        let inside = self.0.iter().filter_map(move |(name, bytes)| Some((name.strip_prefix(&prefix)?, bytes)));
        // Another feed may read a folder in it.
        inside.filter(|(name, _)| !name.contains('/'))
    }
}

/// What a run reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// The plan.
    pub plan: Plan,
    /// Its scenarios, in its order, as text.
    pub scenarios: Vec<(String, String)>,
    /// The scenario of the fill.
    pub fill: Option<(String, String)>,
    /// The files of their feeds.
    pub files: Files,
    /// Where the files are that the plan names.
    pub folder: PathBuf,
    /// The access log that is replayed. It stays with the coordinator.
    #[serde(skip)]
    pub log: Option<Log>,
}

/// An access log that is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Where it is.
    pub path: PathBuf,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// How many bytes it has.
    pub bytes: u64,
}

/// Why inputs cannot be read.
#[derive(Debug, Error)]
pub enum InputError {
    /// The plan or a scenario is invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
}

impl Inputs {
    /// Reads a plan and everything that it names. Files are looked for beside it. If there is no such
    /// file, it is the name of a plan that comes with the program.
    ///
    /// # Errors
    /// [`InputError`] names the file or the key.
    pub fn read(plan: &Path) -> Result<Self, InputError> {
        if !plan.exists() {
            let name = plan.to_str().unwrap_or_default();
            let text = plans::text(name).ok_or_else(|| {
                let known = plans::names().collect::<Vec<_>>().join(", ");
                invalid(plan.display().to_string(), format!("there is no such file; plans that need none are {known}"))
            })?;
            return Self::of_plan(Plan::parse(text)?, Path::new("."));
        }
        let folder = plan.parent().unwrap_or(Path::new("."));
        Self::of_plan(Plan::parse(&text_of(plan)?)?, folder)
    }

    /// Reads everything that a plan names, from a folder.
    ///
    /// # Errors
    /// [`InputError`] names the file or the key.
    pub fn of_plan(plan: Plan, folder: &Path) -> Result<Self, InputError> {
        let (mut scenarios, mut files) = (Vec::new(), Files::default());
        for share in &plan.scenarios {
            scenarios.push(scenario("plan: scenarios", &share.scenario, folder, &mut files)?);
        }
        let fill = plan.fill.as_ref().map(|fill| scenario("plan: fill.scenario", &fill.scenario, folder, &mut files));
        let (fill, log) = (fill.transpose()?, log(&plan.load, folder)?);
        Ok(Self { plan, scenarios, fill, files, folder: folder.to_owned(), log })
    }

    /// The scenarios, ready to run.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] names the key and what to write there.
    pub fn compiled(&self) -> Result<Vec<Scenario>, PlanError> {
        let scenarios = self.scenarios.iter().map(|named| self.compile(named)).collect::<Result<Vec<_>, _>>()?;
        let is_replay = matches!(self.plan.load, Shape::Replay { .. });
        if let Some(scenario) = scenarios.iter().find(|scenario| scenario.is_replay() != is_replay) {
            let message = match is_replay {
                true => "has no feed of the kind `replay`, so it sends nothing of the log; `replay` has one",
                false => "has a feed of the kind `replay`, which needs a load of the shape `replay`",
            };
            return Err(invalid("plan: scenarios", format!("`{}` {message}", scenario.name)));
        }
        let of_fill = self.compiled_fill()?;
        if of_fill.as_ref().is_some_and(Scenario::is_replay) {
            return Err(invalid("plan: fill.scenario", "a fill replays nothing"));
        }
        let of = |protocol| scenarios.iter().chain(&of_fill).find(|scenario| scenario.protocol == protocol);
        match (of(Protocol::Http), of(Protocol::Resp)) {
            (Some(http), Some(resp)) => Err(invalid(
                "plan: scenarios",
                format!(
                    "`{}` speaks HTTP and `{}` the Redis protocol; a run speaks one of them: make two plans",
                    http.name, resp.name
                ),
            )),
            _ => Ok(scenarios),
        }
    }

    /// The scenario of the fill, ready to run.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] names the key and what to write there.
    pub fn compiled_fill(&self) -> Result<Option<Scenario>, PlanError> {
        self.fill.as_ref().map(|named| self.compile(named)).transpose()
    }

    fn compile(&self, (name, text): &(String, String)) -> Result<Scenario, PlanError> {
        Scenario::new(ScenarioSpec::parse(name, text)?, &self.files)
    }

    /// The digests and sizes of everything that was read.
    pub fn digests(&self) -> Vec<Input> {
        let input = |name: String, text: &str| Input::of(name, text.as_bytes());
        let plan = input("plan".to_owned(), &self.plan.to_toml());
        let scenarios = self.scenarios.iter().map(|(name, text)| input(format!("scenario {name}"), text));
        let files = self.files.0.iter().map(|(name, bytes)| Input::of(format!("file {name}"), bytes));
        let fill = self.fill.iter().map(|(name, text)| input(format!("scenario of the fill {name}"), text));
        let log = self.log.iter().map(|log| Input {
            name: "access log".to_owned(),
            sha256: log.sha256.clone(),
            bytes: Some(log.bytes),
        });
        std::iter::once(plan).chain(scenarios).chain(fill).chain(files).chain(log).collect()
    }
}

/// The place of a file or a folder that a plan names. A plan of somebody else reads nothing but what came
/// with it: links that lead elsewhere are refused, too.
///
/// # Errors
/// It is not below the folder of the plan. What is missing is no error here.
pub(crate) fn inside(folder: &Path, name: &str) -> Result<PathBuf, PlanError> {
    if !is_inside(name) {
        return Err(invalid(name, "name a place below the folder of the plan"));
    }
    let path = folder.join(name);
    // Who reads it says what is missing.
    let Ok(found) = path.canonicalize() else { return Ok(path) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match folder.canonicalize() {
        Ok(folder) if found.starts_with(&folder) => Ok(found),
        _ => Err(invalid(name, "it is a link to a place that is not below the folder of the plan")),
    }
}

/// The text of a scenario of a plan. The files of its feeds are read.
fn scenario(key: &str, name: &str, folder: &Path, files: &mut Files) -> Result<(String, String), InputError> {
    let text = match shipped::text(name) {
        Some(text) => text.to_owned(),
        None if name.ends_with(".toml") => text_of(&inside(folder, name)?)?,
        None => {
            let message = format!(
                "there is no scenario `{name}`; name a file (….toml) or one of {}",
                shipped::names().collect::<Vec<_>>().join(", ")
            );
            return Err(invalid(key, message).into());
        }
    };
    let spec = ScenarioSpec::parse(name, &text)?;
    for feed in &spec.feeds {
        read_files(&feed.source, folder, files)?;
    }
    for file in spec.steps.iter().filter_map(|step| step.check.isomorphic_to.as_ref()) {
        read_files(&Source::Lines { file: file.clone(), order: Order::default() }, folder, files)?;
    }
    Ok((name.to_owned(), text))
}

/// The access log of a replay.
fn log(load: &Shape, folder: &Path) -> Result<Option<Log>, InputError> {
    let Shape::Replay { file, .. } = load else { return Ok(None) };
    let path = inside(folder, file)?;
    let failed = |error| InputError::Io { path: path.clone(), error };
    let metadata = fs::metadata(&path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(invalid(file.as_str(), "it is no file").into());
    }
    let sha256 = sha256_of_file(&path).map_err(failed)?;
    Ok(Some(Log { path, sha256, bytes: metadata.len() }))
}

fn read_files(source: &Source, folder: &Path, files: &mut Files) -> Result<(), InputError> {
    let mut add = |name: String, path: PathBuf| {
        let known: u64 = files.0.values().map(|bytes| bytes.len() as u64).sum();
        let failed = |error| InputError::Io { path: path.clone(), error };
        if !fs::metadata(&path).map_err(failed)?.is_file() {
            return Err(invalid(name, "it is no file").into());
        }
        let (mut bytes, left) = (Vec::new(), FILES_BYTES_MAX.saturating_sub(known));
        let mut file = File::open(&path).map_err(failed)?.take(left + 1);
        if file.read_to_end(&mut bytes).map_err(failed)? as u64 > left {
            return Err(invalid(name, "the files of all feeds together have at most 256 MiB").into());
        }
        files.0.insert(name, bytes.into());
        Ok(())
    };
    match source {
        Source::Lines { file, .. } | Source::Csv { file, .. } | Source::Ndjson { file, .. } => {
            add(file.clone(), inside(folder, file)?)
        }
        Source::Files { folder: name, .. } => {
            let place = inside(folder, name)?;
            let failed = |error| InputError::Io { path: place.clone(), error };
            for entry in fs::read_dir(&place).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                if entry.file_type().map_err(failed)?.is_file() {
                    add(format!("{name}/{}", entry.file_name().to_string_lossy()), entry.path())?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn text_of(path: &Path) -> Result<String, InputError> {
    fs::read_to_string(path).map_err(|error| InputError::Io { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_plan_reads_only_files_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let read = |file: &str| {
            let scenario = format!(
                "feeds = [{{ name = \"f\", kind = \"lines\", file = \"{file}\" }}]\n\
                 [[steps]]\nname = \"get\"\npath = \"/${{f}}\"\n"
            );
            fs::write(folder.path().join("own.toml"), scenario).unwrap();
            let plan = "name = \"x\"\nscenarios = [{ scenario = \"own.toml\" }]\n\
                        load = { shape = \"constant\", rate = 1, duration = \"1s\" }\n";
            Inputs::of_plan(Plan::parse(plan).unwrap(), folder.path()).map(|inputs| inputs.digests().len())
        };
        fs::write(folder.path().join("words.txt"), "a\nb\n").unwrap();
        assert_eq!(read("words.txt").unwrap(), 3);
        for elsewhere in ["/etc/hostname", "../words.txt", "/dev/zero", "a/../../b"] {
            assert!(read(elsewhere).unwrap_err().to_string().contains("below the folder"), "{elsewhere}");
        }
        assert!(read(".").is_err());
    }

    #[test]
    fn a_plan_reads_nothing_by_a_link_that_leads_out_of_its_folder() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("secret.txt"), "s3cret").unwrap();
        fs::write(folder.path().join("words.txt"), "a").unwrap();
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
        link(&elsewhere.path().join("secret.txt"), "file.txt");
        link(elsewhere.path(), "folder");
        link(Path::new("words.txt"), "same.txt");
        for name in ["file.txt", "folder", "folder/secret.txt"] {
            let error = inside(folder.path(), name).unwrap_err().to_string();
            assert!(error.contains("not below the folder of the plan"), "{error}");
        }
        for name in ["same.txt", "words.txt", "none.txt"] {
            assert!(inside(folder.path(), name).is_ok(), "{name}");
        }
        let files = Source::Files { folder: "folder".to_owned(), order: Order::default() };
        assert!(read_files(&files, folder.path(), &mut Files::default()).is_err());
    }
}
