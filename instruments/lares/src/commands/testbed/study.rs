//! `lares testbed study`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use testbed::candidate::Candidate;
use testbed::find::{Next, PlanSearch};
use testbed::inputs::Inputs;
use testbed::plan::Plan;
use testbed::record::Input;
use testbed::results::{Judgement, Verdict};
use testbed::runner::{Filed, RunnerError};
use testbed::saturation::sentences;
use testbed::study::{Found, RowTrial, Study, StudySpec, digest, replace};

use super::find::{add, shown};
use super::measure::{RunsArgs, Subject, candidate};
use terminal::OutputArgs;
use terminal::exit::CliError;
use terminal::output::Output;

/// Arguments of `lares testbed study`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares testbed study repositories.toml --workers 2 --archive /srv/runs --data /mnt/disk/study
  lares testbed study repositories.toml --workers 2 --candidates penates,fedora")]
pub struct StudyArgs {
    /// The file that names candidates and plans (TOML). The table is written beside it:
    /// NAME.results.json and NAME.results.md.
    #[arg(value_name = "FILE")]
    study: PathBuf,
    /// Make only the rows with this number of workers. Others stay in the table as they are.
    #[arg(long, value_name = "N", conflicts_with = "worker")]
    workers: Option<u32>,
    /// Make only the rows of these candidates of the study. Others stay in the table as they are.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    candidates: Vec<String>,
    /// Where candidates keep their data, instead of temporary folders.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How runs are made and kept.
    #[command(flatten)]
    runs: RunsArgs,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// A search that is to be made.
struct Cell<'a> {
    name: &'a str,
    candidate: Candidate,
    inputs: Inputs,
    /// What writes the data that it reads.
    fill: Option<Inputs>,
    digest: String,
}

/// Makes the searches that have no answer yet, and prints the table.
pub async fn run(args: StudyArgs) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&args.study).with_context(|| format!("reading {}", args.study.display()))?;
    let mut spec = StudySpec::parse(&text).map_err(|error| CliError::Usage(error.to_string()))?;
    let wanted = args.runs.workers()?.or(args.workers);
    if let Some(workers) = wanted {
        spec.add_workers(workers).map_err(|error| CliError::Usage(error.to_string()))?;
    }
    args.check_candidates(&spec)?;
    let cells = cells(&args, &spec)?;
    let results = args.study.with_extension("results.json");
    let mut study = Study::read(&results).with_context(|| format!("reading {}", results.display()))?;
    study.name.clone_from(&spec.name);
    let is_of_study = |row: &testbed::study::Row| {
        // With a number of workers of the command line, rows with any other stay.
        let is = |cell: &Cell<'_>| {
            let plan = &cell.inputs.plan;
            let is_of_row = wanted.is_some() || plan.workers == row.workers;
            is_of_row && (cell.name, &plan.name) == (&row.candidate, &row.plan)
        };
        cells.iter().any(is)
    };
    study.rows.retain(is_of_study);
    let (mut output, mut are_answered) = (Output::stdout(), true);
    let is_wanted = |cell: &&Cell<'_>| {
        args.has_candidate(cell.name) && wanted.is_none_or(|workers| cell.inputs.plan.workers == workers)
    };
    for cell in cells.iter().filter(is_wanted) {
        let plan = &cell.inputs.plan;
        let index = study.row(cell.name, &plan.name, plan.workers, &cell.digest);
        if study.rows[index].found.is_none() {
            if !args.output.json {
                output.line(format!("{} with {}, {} workers", plan.name, cell.name, plan.workers))?;
                output.flush()?;
            }
            search(&args, &spec, cell, &mut study, index, &results, &mut output).await?;
        }
        are_answered &= !matches!(study.rows[index].found, None | Some(Found::NoAnswer(_)));
        if args.output.json {
            output.json(&study.rows[index])?;
            output.flush()?;
        }
    }
    if !args.output.json {
        output.line(format!("\n{}", study.to_markdown().trim_end()))?;
    }
    output.finish()?;
    if are_answered { Ok(()) } else { Err(CliError::Incomplete.into()) }
}

impl StudyArgs {
    /// Whether rows of this candidate are made.
    fn has_candidate(&self, name: &str) -> bool {
        self.candidates.is_empty() || self.candidates.iter().any(|candidate| candidate == name)
    }

    /// Refuses candidates that the study does not have.
    fn check_candidates(&self, spec: &StudySpec) -> Result<(), CliError> {
        match self.candidates.iter().find(|name| !spec.candidates.contains(name)) {
            None => Ok(()),
            Some(name) => {
                let known = spec.candidates.join(", ");
                Err(CliError::Usage(format!("--candidates: the study has no `{name}`; it has {known}")))
            }
        }
    }
}

/// All searches of the study, with everything that they name.
fn cells<'a>(args: &StudyArgs, spec: &'a StudySpec) -> anyhow::Result<Vec<Cell<'a>>> {
    let folder = args.study.parent().unwrap_or(Path::new(""));
    let inputs_of = |name: &str, workers: Option<u32>| -> anyhow::Result<Inputs> {
        let mut inputs = Inputs::read(&beside(folder, name)).map_err(|error| CliError::Usage(error.to_string()))?;
        inputs.plan.workers = workers.unwrap_or(inputs.plan.workers);
        inputs.plan.validate().map_err(|error| CliError::Usage(error.to_string()))?;
        Ok(inputs)
    };
    let (mut cells, mut candidates) = (Vec::<Cell<'_>>::new(), BTreeMap::new());
    for name in &spec.candidates {
        candidates.insert(name.as_str(), candidate_of(&beside(folder, name))?);
    }
    for (name, plan, workers) in spec.rows() {
        let Some((candidate, of_candidate)) = candidates.get(name).cloned() else { continue };
        let inputs = inputs_of(&plan.plan, workers)?;
        let fill = plan.fill.as_deref().map(|fill| inputs_of(fill, workers)).transpose()?;
        // All are checked before the first run: a later row may come hours later.
        search_of(&inputs.plan, spec)?;
        let of_row = (name, &inputs.plan.name, inputs.plan.workers);
        if cells.iter().any(|cell| (cell.name, &cell.inputs.plan.name, cell.inputs.plan.workers) == of_row) {
            let (plan, workers) = (&inputs.plan.name, inputs.plan.workers);
            let message = format!(
                "study: two rows have the plan `{plan}`, the candidate {name} and the number of workers {workers}, and \
                 would replace each other; a copy of a plan needs a `name` of its own"
            );
            return Err(CliError::Usage(message).into());
        }
        let mut digests = of_candidate;
        digests.extend(inputs.digests());
        digests.extend(fill.iter().flat_map(Inputs::digests));
        let digest = digest(&digests, spec);
        cells.push(Cell { name, candidate, inputs, fill, digest });
    }
    Ok(cells)
}

/// The search for the greatest load of a plan.
fn search_of(plan: &Plan, spec: &StudySpec) -> Result<PlanSearch, CliError> {
    PlanSearch::new(plan, spec.search_precision())
        .ok_or_else(|| CliError::Usage(format!("{}: a closed loop or a replay has no rate to be found", plan.name)))
}

/// A candidate, with the digests of its files and of the programs that are measured. What is not there yet
/// has no digest, and changes the inputs when it comes.
fn candidate_of(name: &Path) -> anyhow::Result<(Candidate, Vec<Input>)> {
    let candidate = candidate(name)?;
    let mut digests = candidate.digests().unwrap_or_default();
    let itself = std::env::current_exe().context("finding the program")?;
    digests.extend(candidate.program_digests(&itself));
    Ok((candidate, digests))
}

/// A file or folder beside the study; otherwise the name of something that comes with the program.
fn beside(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    if path.exists() { path } else { PathBuf::from(name) }
}

/// Searches from where the row is to its end, and keeps the row after each run.
async fn search(
    args: &StudyArgs,
    spec: &StudySpec,
    cell: &Cell<'_>,
    study: &mut Study,
    index: usize,
    results: &Path,
    output: &mut Output,
) -> anyhow::Result<()> {
    let mut search = search_of(&cell.inputs.plan, spec)?;
    for trial in &study.rows[index].trials {
        search.add(trial.factor, trial.verdict, trial.due_per_s);
    }
    // A search that was interrupted fills a folder again.
    let mut folder = None;
    let found = loop {
        let factor = match search.next() {
            Next::Try(factor) => factor,
            Next::Found(bracket) => break Found::Bracket(search.rates(bracket)),
            Next::Ended(why) => break why.into(),
        };
        let made = match filled(args, cell, &mut folder).await {
            Ok(()) => {
                let inputs = search.inputs(&cell.inputs, factor, cell.fill.is_some());
                measure(args, cell, &inputs, &folder).await
            }
            Err(error) => Err(error),
        };
        let filed = match made {
            Ok(filed) => filed,
            Err(error) => match reason(&error) {
                Some(reason) => break Found::NotRun(reason),
                None => return Err(error),
            },
        };
        let due_per_s = add(&mut search, factor, &filed);
        if !args.output.json {
            output.line(shown(&search, factor, &filed))?;
            output.flush()?;
        }
        let row = &mut study.rows[index];
        row.version.clone_from(&filed.record.candidate.program.version);
        row.trials.push(RowTrial {
            run: filed.record.id,
            factor,
            due_per_s,
            verdict: filed.outcome.judgement.verdict,
            reason: filed.outcome.judgement.reasons.into_iter().next(),
            saturated: sentences(&filed.outcome.saturated).into_iter().next(),
            p99_ms: filed.outcome.summary.all.response.p99_ms,
        });
        keep(study, results)?;
    };
    study.rows[index].found = Some(found);
    keep(study, results)
}

fn keep(study: &Study, results: &Path) -> anyhow::Result<()> {
    let kept = study.write(results);
    let kept = kept.and_then(|()| replace(&results.with_extension("md"), study.to_markdown().as_bytes()));
    kept.with_context(|| format!("writing {}", results.display()))
}

/// Fills a folder with what the runs of a row read, unless that is done.
async fn filled(args: &StudyArgs, cell: &Cell<'_>, folder: &mut Option<tempfile::TempDir>) -> anyhow::Result<()> {
    let (Some(fill), None) = (&cell.fill, &*folder) else { return Ok(()) };
    let new = temporary(args)?;
    let data = new.path().join("data");
    let filed = args.runs.measure(fill, Subject::started(cell.candidate.clone(), Some(&data))).await?;
    check_fill(&filed.outcome.judgement)?;
    *folder = Some(new);
    Ok(())
}

/// Whether a run has written what it should: a void one may have broken off.
fn check_fill(judgement: &Judgement) -> Result<(), NotFilled> {
    let what = match judgement.verdict {
        Verdict::Held | Verdict::Degrading => return Ok(()),
        Verdict::Failed => "the data could not be written",
        Verdict::Void => "it is not known whether all data are written",
    };
    let reason = judgement.reasons.first().map_or("", String::as_str);
    Err(NotFilled(format!("{what}: {reason}")))
}

async fn measure(
    args: &StudyArgs,
    cell: &Cell<'_>,
    inputs: &Inputs,
    folder: &Option<tempfile::TempDir>,
) -> anyhow::Result<Filed> {
    let own = match (folder, &args.data) {
        (None, Some(_)) => Some(temporary(args)?),
        _ => None,
    };
    let data = folder.as_ref().or(own.as_ref()).map(|folder| folder.path().join("data"));
    args.runs.measure(inputs, Subject::started(cell.candidate.clone(), data.as_deref())).await
}

/// A folder that goes with its value, on the disk that matters.
fn temporary(args: &StudyArgs) -> anyhow::Result<tempfile::TempDir> {
    let made = match &args.data {
        Some(data) => std::fs::create_dir_all(data).and_then(|()| tempfile::tempdir_in(data)),
        None => tempfile::tempdir(),
    };
    made.context("making a folder for the candidate's data")
}

/// What a row reads could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotFilled(String);

/// Why a candidate was not run, if it is about this candidate and this plan alone.
fn reason(error: &anyhow::Error) -> Option<String> {
    if let Some(error) = error.downcast_ref::<NotFilled>() {
        return Some(error.to_string());
    }
    match error.downcast_ref::<RunnerError>()? {
        error @ (RunnerError::Candidate(_)
        | RunnerError::Version { .. }
        | RunnerError::Plan(_)
        | RunnerError::Run(_)) => Some(error.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_or_a_void_run_has_written_is_no_fill() {
        let of = |verdict| {
            let judgement = Judgement { verdict, reasons: vec!["A reason.".to_owned(), "Another.".to_owned()] };
            check_fill(&judgement).map_err(|error| error.to_string())
        };
        assert_eq!((of(Verdict::Held), of(Verdict::Degrading)), (Ok(()), Ok(())));
        assert_eq!(of(Verdict::Failed), Err("the data could not be written: A reason.".to_owned()));
        assert_eq!(of(Verdict::Void), Err("it is not known whether all data are written: A reason.".to_owned()));
    }
}
