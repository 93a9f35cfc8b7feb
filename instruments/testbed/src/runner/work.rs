//! What a run is made in: the candidate, and where it is reached.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;

use super::{Measured, Runner, RunnerError};
use crate::candidate::{self, RunningCandidate, Versions};
use crate::monitor::{NodeSource, Watcher};
use crate::plan::invalid;
use crate::reach::Reach;
use crate::record::{CandidateRecord, Input, ProcessRecord};
use crate::scenario::Scenario;

/// How long a candidate may take to print its version after the load.
const VERSION_MAX: Duration = Duration::from_secs(30);

/// How a candidate was prepared that nobody has prepared, by the folder of its data before it starts.
fn prepared(data: &Path) -> &'static str {
    match std::fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_some()) {
        true => "none: the candidate began with what was in the folder of its data",
        false => "none: the candidate began with an empty folder",
    }
}

/// What a run is made in.
pub(super) struct Work {
    pub scenarios: Vec<Scenario>,
    pub fill: Option<Scenario>,
    pub reach: Reach,
    pub cgroup: Option<PathBuf>,
    /// Nodes of Cassandra whose figures are sampled, and why others have none.
    pub nodes: (Vec<NodeSource>, Vec<String>),
    pub candidate: CandidateRecord,
    /// Its versions before the load.
    pub versions: Versions,
    pub candidate_files: Vec<Input>,
    /// How the candidate was prepared; empty if nobody says so.
    pub preparation: String,
    /// It ends before its folder is deleted.
    pub running: Option<RunningCandidate>,
    pub folder: tempfile::TempDir,
}

impl Runner<'_> {
    /// Starts what is measured, if the testbed does so.
    pub(super) async fn prepare(&self) -> Result<Work, RunnerError> {
        let (scenarios, fill) = (self.inputs.compiled()?, self.inputs.compiled_fill()?);
        let folder = tempfile::tempdir()?;
        let mut preparation = self.inputs.plan.preparation.clone();
        let (reach, candidate, versions, candidate_files, running) = match &self.measured {
            Measured::Url(url, id) => {
                if !self.inputs.plan.events.is_empty() {
                    let message = "they are commands of a candidate that the testbed starts; name it by --candidate";
                    return Err(invalid("plan: events", message).into());
                }
                let reach = Reach::of_plan(self.inputs, url)?;
                let mut record = candidate::found(&reach).await;
                if let Some(id) = id {
                    record.describe(&ProcessRecord::find(*id));
                }
                record.add(&self.given);
                let served = candidate::served_version(&reach).await;
                let versions = Versions { program: self.given.tag.clone(), served };
                let facts = versions.facts(&record.program.name);
                record.facts.extend(facts);
                (reach, record, versions, Vec::new(), None)
            }
            Measured::Candidate(candidate) => {
                candidate.check_events(&self.inputs.plan.events)?;
                // It may take minutes to start.
                self.check_workers(1 + candidate.spec.further_urls.len())?;
                let data = match self.data {
                    Some(data) => data.to_owned(),
                    None => folder.path().join("data"),
                };
                if preparation.is_empty() {
                    preparation = prepared(&data).to_owned();
                }
                let running = RunningCandidate::start(candidate, &data, folder.path(), self.program_path).await?;
                let reach = running.reach().clone().with_plan(self.inputs)?;
                let (record, versions) = (running.record().await?, running.versions().await?);
                (reach, record, versions, candidate.digests()?, Some(running))
            }
        };
        self.check_version(&candidate.program.name, &versions)?;
        let cgroup = match &running {
            Some(running) => running.cgroup().await?,
            None => self.cgroup.map(Path::to_owned),
        };
        let nodes = match &running {
            Some(running) => running.nodes().await?,
            None => Default::default(),
        };
        Ok(Work {
            scenarios,
            fill,
            reach,
            cgroup,
            nodes,
            candidate,
            versions,
            candidate_files,
            preparation,
            running,
            folder,
        })
    }

    /// Adds what is known of the candidate from elsewhere: what monitors say of its processes, if none is
    /// known here, and what the testbed knows of its own source, if that is the same commit.
    pub(super) fn complete(&self, candidate: &mut CandidateRecord, watchers: &[Watcher]) {
        if !self.is_candidate_here() {
            let processes: Vec<_> = watchers.iter().flat_map(|watcher| &watcher.record.processes).collect();
            candidate.describe_one_of(&processes);
        }
        if candidate.program.commit.is_some() && candidate.program.commit == self.program.commit {
            let (program, own) = (&mut candidate.program, &self.program);
            program.tag = program.tag.take().or_else(|| own.tag.clone());
            program.repository = program.repository.take().or_else(|| own.repository.clone());
            program.is_dirty = program.is_dirty.or(own.is_dirty);
        }
    }

    /// Whether there are so many workers that each address has one.
    fn check_workers(&self, addresses: usize) -> Result<(), RunnerError> {
        if self.inputs.plan.workers as usize >= addresses {
            return Ok(());
        }
        let message = format!("at least {addresses}: the candidate has {addresses} addresses");
        Err(invalid("plan: workers", message).into())
    }

    /// Whether the candidate has all versions that are expected of it.
    fn check_version(&self, name: &str, versions: &Versions) -> Result<(), RunnerError> {
        let of_candidate = match &self.measured {
            Measured::Candidate(candidate) => candidate.spec.expect_version.as_deref(),
            Measured::Url(..) => None,
        };
        let of_plan = self.inputs.plan.expect_version.as_deref();
        let mut all = self.expect_version.into_iter().chain(of_plan).chain(of_candidate);
        match all.find(|expected| !versions.are(expected, name)) {
            None => Ok(()),
            Some(expected) => Err(RunnerError::Version { expected: expected.to_owned(), reported: versions.shown() }),
        }
    }

    /// Why a run says nothing about the candidate of its record, if another one answers after the load.
    pub(super) async fn version_reason(&self, work: &Work) -> Option<String> {
        let looking = async {
            match &work.running {
                // A candidate that has failed may have no version to show.
                Some(running) => running.versions().await.unwrap_or_default(),
                None => {
                    let served = candidate::served_version(&work.reach).await;
                    Versions { program: self.given.tag.clone(), served }
                }
            }
        };
        let later = timeout(VERSION_MAX, looking).await.unwrap_or_default();
        let (before, after) = (work.versions.shown(), later.shown());
        let reason = || format!("The candidate is not the one recorded: it reported {before}, and now {after}.");
        work.versions.differ(&later).then(reason)
    }

    /// Where the candidate keeps its data, as far as is known: the disk of another folder may be another one.
    pub(super) fn data_folder<'b>(&'b self, work: &'b Work) -> Option<&'b Path> {
        let of_started = matches!(self.measured, Measured::Candidate(_)).then(|| work.folder.path());
        self.data.or(of_started)
    }

    /// Whether the candidate runs on this machine.
    pub(super) fn is_candidate_here(&self) -> bool {
        matches!(self.measured, Measured::Candidate(_) | Measured::Url(_, Some(_)))
    }
}
