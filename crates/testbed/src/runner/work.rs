//! What a run is made in: the candidate, and where it is reached.

use std::path::{Path, PathBuf};

use super::{Measured, Runner, RunnerError};
use crate::candidate::{self, RunningCandidate};
use crate::plan::invalid;
use crate::reach::Reach;
use crate::record::{CandidateRecord, Input};
use crate::scenario::Scenario;

/// What a run is made in.
pub(super) struct Work {
    pub scenarios: Vec<Scenario>,
    pub fill: Option<Scenario>,
    pub reach: Reach,
    pub cgroup: Option<PathBuf>,
    pub candidate: CandidateRecord,
    pub candidate_files: Vec<Input>,
    /// It ends before its folder is deleted.
    pub running: Option<RunningCandidate>,
    pub folder: tempfile::TempDir,
}

impl Runner<'_> {
    /// Starts what is measured, if the testbed does so.
    pub(super) async fn prepare(&self) -> Result<Work, RunnerError> {
        let (scenarios, fill) = (self.inputs.compiled()?, self.inputs.compiled_fill()?);
        let folder = tempfile::tempdir()?;
        let (reach, candidate, candidate_files, running) = match &self.measured {
            Measured::Url(url, id) => {
                if !self.inputs.plan.events.is_empty() {
                    let message = "they are commands of a candidate that the testbed starts; name it by --candidate";
                    return Err(invalid("plan: events", message).into());
                }
                let reach = Reach::of_plan(self.inputs, url)?;
                let mut record = candidate::found(&reach).await;
                if let Some(id) = id {
                    record.describe_process(*id);
                }
                (reach, record, Vec::new(), None)
            }
            Measured::Candidate(candidate) => {
                candidate.check_events(&self.inputs.plan.events)?;
                let data = match self.data {
                    Some(data) => data.to_owned(),
                    None => folder.path().join("data"),
                };
                let running = RunningCandidate::start(candidate, &data, folder.path(), self.program_path).await?;
                let reach = running.reach().clone().with_plan(self.inputs)?;
                (reach, running.record().await?, candidate.digests()?, Some(running))
            }
        };
        let (workers, addresses) = (self.inputs.plan.workers as usize, reach.urls.len());
        if workers < addresses {
            let message = format!("at least {addresses}: the candidate has {addresses} addresses");
            return Err(invalid("plan: workers", message).into());
        }
        let cgroup = match &running {
            Some(running) => running.cgroup().await?,
            None => self.cgroup.map(Path::to_owned),
        };
        Ok(Work { scenarios, fill, reach, cgroup, candidate, candidate_files, running, folder })
    }

    /// Where the candidate keeps its data, as far as is known.
    pub(super) fn data_folder<'b>(&'b self, work: &'b Work) -> &'b Path {
        self.data.unwrap_or(work.folder.path())
    }

    /// Whether the candidate runs on this machine.
    pub(super) fn is_candidate_here(&self) -> bool {
        matches!(self.measured, Measured::Candidate(_) | Measured::Url(_, Some(_)))
    }
}
