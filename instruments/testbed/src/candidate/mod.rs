//! Candidates: what is measured. A candidate is a folder with a file `candidate.toml`, which says how
//! it is started, when it is ready, and how its version and its configuration are read.
//!
//! - `spec.rs`: the file; `shipped.rs`: the candidates that come with the program.
//! - `running.rs`: a candidate that runs, and `beside.rs`: what it does at stated instants and shows
//!   meanwhile; `command.rs`: its commands; `look.rs`: whether it answers; `version.rs`: which version
//!   it has.

mod beside;
pub mod command;
mod look;
mod running;
mod shipped;
mod spec;
mod version;

use std::path::{Path, PathBuf};

use include_dir::Dir;
use thiserror::Error;

pub use command::INHERITED;
pub(crate) use running::served_version;
pub use running::{RunningCandidate, found};
pub use spec::{CandidateSpec, FolderSpec};
pub use version::{Given, Versions};

use command::Places;

use crate::plan::{PlanError, invalid};
use crate::reach::FieldSource;
use crate::record::Input;

/// A candidate with the files of its folder.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What its file says.
    pub spec: CandidateSpec,
    /// The names and values of settings, which [`CandidateSpec::setting`] gives it when it starts.
    settings: Vec<(String, String)>,
    files: Files,
}

/// Where the files of a candidate are.
#[derive(Clone, Debug)]
enum Files {
    Folder(PathBuf),
    /// In this program.
    Shipped(&'static Dir<'static>),
}

impl Candidate {
    /// A candidate that comes with the program.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn shipped(name: &str) -> Result<Self, CandidateError> {
        let Some((files, text)) = shipped::find(name) else {
            let known = shipped::names().collect::<Vec<_>>().join(", ");
            return Err(invalid("candidate", format!("name a folder with candidate.toml, or one of {known}")).into());
        };
        Ok(Self { spec: CandidateSpec::parse(text)?, settings: Vec::new(), files: Files::Shipped(files) })
    }

    /// The names of the candidates that come with the program.
    pub fn shipped_names() -> impl Iterator<Item = &'static str> {
        shipped::names()
    }

    /// Reads the candidate of a folder.
    ///
    /// # Errors
    /// The file is missing or invalid.
    pub fn read(folder: &Path) -> Result<Self, CandidateError> {
        let path = folder.join(shipped::FILE);
        let failed = |error| CandidateError::Io { path: path.clone(), error };
        let spec = CandidateSpec::parse(&std::fs::read_to_string(&path).map_err(failed)?)?;
        // Its commands may run in another folder.
        let folder = std::path::absolute(folder).map_err(failed)?;
        Ok(Self { spec, settings: Vec::new(), files: Files::Folder(folder) })
    }

    /// The same with settings: names and values.
    ///
    /// # Errors
    /// It takes none.
    pub fn with_settings(self, settings: Vec<(String, String)>) -> Result<Self, CandidateError> {
        match settings.is_empty() || !self.spec.setting.is_empty() {
            true => Ok(Self { settings, ..self }),
            false => {
                let place = format!("candidate {}", self.spec.name);
                Err(invalid(place, "it takes no settings: its file has no `setting`").into())
            }
        }
    }

    /// The digests and sizes of the files of its folder, without those of folders in it, and of what
    /// it needs in folders that the user names. Files with values of header fields are left out: they
    /// are secrets.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn digests(&self) -> Result<Vec<Input>, CandidateError> {
        let in_folder = |name: &str| format!("candidate's {name}");
        let mut digests = match &self.files {
            Files::Shipped(files) => {
                let digest = |file: &include_dir::File<'_>| {
                    let name = file.path().file_name().unwrap_or_default().to_string_lossy();
                    Input::of(in_folder(&name), file.contents())
                };
                files.files().map(digest).collect()
            }
            Files::Folder(folder) => {
                let failed = |error| CandidateError::Io { path: folder.clone(), error };
                let mut digests = Vec::new();
                for entry in std::fs::read_dir(folder).map_err(failed)? {
                    let entry = entry.map_err(failed)?;
                    // A link is what it names.
                    if entry.path().is_file() {
                        let name = in_folder(&entry.file_name().to_string_lossy());
                        digests.push(Input::of_file(name, &entry.path()).map_err(failed)?);
                    }
                }
                digests
            }
        };
        let is_secret = |input: &Input| {
            let sources = self.spec.headers.values();
            sources.into_iter().any(|source| matches!(source, FieldSource::File(file) if input.name == in_folder(file)))
        };
        digests.retain(|input| !is_secret(input));
        for spec in self.spec.folders.values() {
            let Some(folder) = spec.folder() else { continue };
            for file in &spec.files {
                let path = folder.join(file);
                let input = Input::of_file(in_folder(file), &path);
                digests.push(input.map_err(|error| CandidateError::Io { path, error })?);
            }
        }
        digests.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(digests)
    }

    /// The digests of the programs that are measured: of this one, which is `itself`, and of `penates`, if a
    /// command names them, and of the one that the candidate declares or starts. What is not there yet is left out.
    pub fn program_digests(&self, itself: &Path) -> Vec<Input> {
        let spec = &self.spec;
        let is_named = |place: &str| {
            let commands = spec.prepare.iter().chain([&spec.start]).chain(spec.commands.values());
            commands.flatten().chain(&spec.program).any(|word| word.contains(place))
        };
        let own = is_named("${self}").then(|| ("this program", itself.to_owned()));
        let penates = is_named("${penates}").then(|| ("penates", command::penates(itself)));
        // What is only known when it runs stays as it is, and is no file.
        let places = Places {
            data: PathBuf::from("${data}"),
            folder: match &self.files {
                Files::Folder(folder) => folder.clone(),
                Files::Shipped(_) => PathBuf::from("${folder}"),
            },
            program: itself.to_owned(),
            ports: [0; 4],
            folders: spec.folders.iter().filter_map(|(name, of)| Some((name.clone(), of.folder()?))).collect(),
        };
        let measured = spec.program.as_ref().or(spec.start.first()).map(|program| places.fill(program));
        let measured = measured.and_then(|program| command::find(&program)).map(|path| ("program", path));
        let digest = |(name, path): (&str, PathBuf)| Input::of_file(format!("candidate's {name}"), &path).ok();
        // Usually it is the measured one.
        let is_another = |path: &Path| measured.as_ref().is_none_or(|(_, measured)| measured != path);
        let named = own.into_iter().chain(penates).filter(|(_, path)| is_another(path));
        named.chain(measured.clone()).filter_map(digest).collect()
    }

    /// The folder of its files. Those that come with the program are written to a folder in `work`.
    fn folder(&self, work: &Path) -> Result<PathBuf, CandidateError> {
        match &self.files {
            Files::Folder(folder) => Ok(folder.clone()),
            Files::Shipped(files) => {
                let folder = work.join(files.path());
                let written = std::fs::create_dir_all(&folder).and_then(|()| files.extract(work));
                written.map_err(|error| CandidateError::Io { path: folder.clone(), error })?;
                Ok(folder)
            }
        }
    }
}

/// Why a candidate cannot be measured.
#[derive(Debug, Error)]
pub enum CandidateError {
    /// Its file is invalid.
    #[error(transparent)]
    Spec(#[from] PlanError),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// A command fails.
    #[error("candidate {name}: `{command}`: {message}")]
    Command {
        /// The candidate.
        name: String,
        /// The command.
        command: String,
        /// What is wrong.
        message: String,
    },
    /// Programs that it needs are not installed.
    #[error("candidate {name} needs {}, which this machine does not have{}", programs.join(", "), hint(install))]
    Missing {
        /// The candidate.
        name: String,
        /// The programs.
        programs: Vec<String>,
        /// How they can be had.
        install: Option<String>,
    },
    /// Nobody can run it here.
    #[error("candidate {name} cannot be run: {reason}")]
    NotRun {
        /// The candidate.
        name: String,
        /// Why.
        reason: String,
    },
    /// It is not ready in time, or has ended.
    #[error("candidate {name} {message}; its log ends with:\n{log}")]
    NotReady {
        /// The candidate.
        name: String,
        /// What is wrong.
        message: String,
        /// The end of its log.
        log: String,
    },
}

fn hint(install: &Option<String>) -> String {
    install.as_ref().map(|how| format!(" (`{how}`)")).unwrap_or_default()
}
