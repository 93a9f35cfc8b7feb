//! `penates verify`

use clap::Args;
use futures::{StreamExt, TryStreamExt};
use hathi::VolumeId;
use http::Method;
use serde_json::{Value, json};

use crate::cli::{JobsArgs, OutputArgs, ReachArgs};
use crate::client::{self, Client, ClientError};
use crate::exit::{self, CliError};
use crate::ids::IdArgs;
use crate::output::{Output, cell};
use crate::progress;
use crate::reach::Reached;

/// Reads everything of some volumes, or of all, and checks it against every digest that was stored when it came in. What is
/// damaged is marked, so that downloads name it; a mark that is no longer true is taken away. The exit code is 1 if anything is
/// damaged.
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
    let (mut sound, mut damaged, mut failed) = (0u64, 0u64, 0u64);
    let reports = futures::stream::iter(volumes).map(|id| report(client, id)).buffer_unordered(args.jobs.count());
    let mut reports = std::pin::pin!(reports);
    while let Some((id, report)) = reports.next().await {
        bar.inc(1);
        match &report {
            Ok(report) if is_sound(report) => sound += 1,
            Ok(_) => damaged += 1,
            Err(_) => failed += 1,
        }
        bar.suspend(|| print(&id, &report, args.output, &mut output))?;
        bar.set_message(format!("{damaged} damaged, {failed} failed"));
    }
    bar.finish_and_clear();
    if !args.output.json {
        output.line(format!("{sound} sound, {damaged} damaged, {failed} failed"))?;
    }
    output.finish()?;
    if damaged + failed > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

/// The ids of all volumes.
async fn all(client: &Client) -> anyhow::Result<Vec<VolumeId>> {
    let lines = client.get_lines("/volumes/", "text/plain").await?;
    lines.map_err(anyhow::Error::from).and_then(async |line| Ok(VolumeId::parse(&line)?)).try_collect().await
}

async fn report(client: &Client, id: VolumeId) -> (VolumeId, Result<Value, ClientError>) {
    let report = client.ask_json(Method::POST, &format!("/volumes/{}/verify", client::segment(&id))).await;
    (id, report)
}

fn is_sound(report: &Value) -> bool {
    report["sound"] == json!(true)
}

fn print(
    id: &VolumeId,
    report: &Result<Value, ClientError>,
    form: OutputArgs,
    output: &mut Output,
) -> anyhow::Result<()> {
    match report {
        Ok(report) if form.json => output.json(report),
        Ok(report) if is_sound(report) => Ok(()),
        Ok(report) => output.line(format!("damaged {id}: {}", cell(&report["damaged"]))),
        Err(error) if form.json => output.json(&json!({"id": id, "error": exit::told(error)})),
        Err(error) => output.line(format!("failed {id}: {}", exit::told(error))),
    }
}
