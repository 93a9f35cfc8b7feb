//! `penates verify`

use clap::Args;
use futures::{StreamExt, TryStreamExt};
use hathi::VolumeId;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::{JOBS_PER_PROCESSOR, JobsArgs, OutputArgs, ReachArgs};
use crate::client::{self, Client, ClientError};
use crate::exit::{self, CliError};
use crate::ids::IdArgs;
use crate::output::Output;
use crate::progress;
use crate::reach::Reached;

/// Arguments of `penates verify`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates verify
  penates verify --json uc2.ark:/13960/t8ff3zh99")]
pub struct VerifyArgs {
    /// Which volumes; none: all.
    #[command(flatten)]
    volumes: IdArgs,
    /// How many at once.
    #[command(flatten)]
    jobs: JobsArgs,
    /// How what was found is told.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: VerifyArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let outcome = verify(&args, &reached.client).await;
    reached.close().await?;
    outcome
}

async fn verify(args: &VerifyArgs, client: &Client) -> anyhow::Result<()> {
    let volumes = if args.volumes.is_empty() { all(client).await? } else { args.volumes.volumes()? };
    let bar = progress::volumes(volumes.len() as u64);
    let mut output = Output::stdout();
    let mut count = Count::default();
    let reports = futures::stream::iter(volumes)
        .map(|id| report(client, id))
        .buffer_unordered(args.jobs.count(JOBS_PER_PROCESSOR));
    let mut reports = std::pin::pin!(reports);
    while let Some((id, report)) = reports.next().await {
        bar.inc(1);
        bar.suspend(|| count.tell(&id, report, args.output, &mut output))?;
        bar.set_message(format!(", {} damaged, {} failed", count.damaged, count.failed));
    }
    bar.finish_and_clear();
    if !args.output.json {
        output.line(format!("{} sound, {} damaged, {} failed", count.sound, count.damaged, count.failed))?;
    }
    output.finish()?;
    if count.damaged + count.failed > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

/// The ids of all volumes.
async fn all(client: &Client) -> anyhow::Result<Vec<VolumeId>> {
    let lines = client.get_lines("/volumes/", "text/plain").await?;
    lines.map_err(anyhow::Error::from).and_then(async |line| Ok(VolumeId::parse(&line)?)).try_collect().await
}

async fn report(client: &Client, id: VolumeId) -> (VolumeId, Result<Report, ClientError>) {
    let report = client.ask_json(Method::POST, &format!("/volumes/{}/verify", client::segment(&id))).await;
    (id, report)
}

/// What verifying one volume found, as the server tells it.
#[derive(Serialize, Deserialize)]
struct Report {
    id: VolumeId,
    revision: String,
    /// Members that were read: pages, METS, record.
    members: u64,
    size_bytes: u64,
    sound: bool,
    damaged: Vec<Damage>,
}

/// A member that is not what came in.
#[derive(Serialize, Deserialize)]
struct Damage {
    /// The place of a page, from 0; the number of pages for METS, one more for the record; none for the whole volume.
    member: Option<u32>,
    detail: String,
}

impl Report {
    /// What is damaged, for a person: which members, and how the first of them was noticed.
    fn told(&self) -> String {
        let members: Vec<u32> = self.damaged.iter().filter_map(|damage| damage.member).collect();
        let which = if members.is_empty() { "all of it".to_owned() } else { format!("members {}", ranges(&members)) };
        let how = self.damaged.first().map_or("", |damage| &damage.detail);
        format!("damaged {}: {which}: {how}", self.id)
    }
}

/// Ascending numbers, with runs of them drawn together: `0-8,10`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// How many volumes are how.
#[derive(Default)]
struct Count {
    sound: u64,
    damaged: u64,
    failed: u64,
}

impl Count {
    /// Counts a report, and tells it: those of sound volumes only to programs. An error that all others would have too is one.
    fn tell(
        &mut self,
        id: &VolumeId,
        report: Result<Report, ClientError>,
        form: OutputArgs,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        let report = match report {
            Ok(report) => report,
            Err(error) if error.stops_all() => return Err(error.into()),
            Err(error) => {
                self.failed += 1;
                let reason = exit::told(&error);
                return if form.json {
                    output.json(&json!({"id": id, "error": reason}))
                } else {
                    output.line(format!("failed {id}: {reason}"))
                };
            }
        };
        *(if report.sound { &mut self.sound } else { &mut self.damaged }) += 1;
        match (form.json, report.sound) {
            (true, _) => output.json(&report),
            (false, true) => Ok(()),
            (false, false) => output.line(report.told()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_members_are_drawn_together() {
        assert_eq!(ranges(&[0, 1, 2, 4, 7, 8]), "0-2,4,7-8");
        assert_eq!(ranges(&[]), "");
    }
}
