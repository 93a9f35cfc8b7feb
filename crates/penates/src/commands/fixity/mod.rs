//! `penates fixity`

#[cfg(feature = "cassandra")]
pub mod copies;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::{JobsArgs, OutputArgs, ReachArgs};
use crate::client::{self, Client};
use crate::commands::verify::{self, VerifyArgs};
use crate::exit::CliError;
use crate::output::{Output, human_bytes};
use crate::reach::Reached;
use crate::resources::BaseArgs;

/// Arguments of `penates fixity`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates fixity status
  penates fixity report
  penates fixity report 3 --html > fixity-3.html
  penates fixity check letters/1.tiff
  penates fixity copies --store cassandra://node1/books")]
pub struct FixityArgs {
    /// What to do.
    #[command(subcommand)]
    command: FixityCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum FixityCommand {
    /// Show how far the present pass is, and the passes before.
    Status(StatusArgs),
    /// Show the report on a pass, with everything that was found damaged. The exit code is 1 if
    /// something was.
    Report(ReportArgs),
    /// Read resources now, and compare them with their digests, like `penates verify --resource`.
    Check(CheckArgs),
    /// Compare the copies that Cassandra keeps of each row, and name the nodes whose copies are wrong.
    /// The exit code is 1 if there are any.
    #[cfg(feature = "cassandra")]
    Copies(copies::CopiesArgs),
}

/// Arguments of `penates fixity status`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates fixity status --json")]
struct StatusArgs {
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Arguments of `penates fixity report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates fixity report
  penates fixity report 3 --html > fixity-3.html")]
struct ReportArgs {
    /// The number of the pass; by default the last one that has ended.
    pass: Option<u32>,
    /// Print a page for people (HTML).
    #[arg(long, conflicts_with = "json")]
    html: bool,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Arguments of `penates fixity check`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates fixity check letters/1.tiff")]
struct CheckArgs {
    /// Paths of resources from the root of the repository.
    #[arg(required = true, value_name = "PATH")]
    resources: Vec<String>,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// How many at once.
    #[command(flatten)]
    jobs: JobsArgs,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// The state of the auditor.
#[derive(Deserialize)]
struct Overview {
    oldest_check_seconds: Option<u64>,
    present: Option<Pass>,
    passes: Vec<Pass>,
    unreadable_reports: usize,
}

/// A pass.
#[derive(Serialize, Deserialize)]
struct Pass {
    pass: u32,
    begun: String,
    ended: Option<String>,
    volumes: u64,
    resources: u64,
    records: u64,
    size_bytes: u64,
    damaged: u64,
    failed: u64,
}

/// The report on a pass.
#[derive(Serialize, Deserialize)]
struct Report {
    #[serde(flatten)]
    pass: Pass,
    findings: Vec<Finding>,
    unlisted: u64,
}

/// What is wrong with an object.
#[derive(Serialize, Deserialize)]
struct Finding {
    kind: String,
    name: String,
    at: String,
    damaged: bool,
    parts: Vec<Part>,
    more: u32,
}

/// A damaged part.
#[derive(Serialize, Deserialize)]
struct Part {
    part: String,
    detail: String,
}

/// Runs it.
pub async fn run(args: FixityArgs) -> anyhow::Result<()> {
    match args.command {
        FixityCommand::Status(args) => {
            let reached = Reached::open(&args.reach).await?;
            let outcome = status(&args, &reached.client).await;
            reached.close().await?;
            outcome
        }
        FixityCommand::Report(args) => {
            let reached = Reached::open(&args.reach).await?;
            let outcome = report(&args, &reached.client).await;
            reached.close().await?;
            outcome
        }
        FixityCommand::Check(CheckArgs { resources, base, jobs, output, reach }) => {
            verify::run(VerifyArgs::of_resources(resources, base, jobs, output, reach)).await
        }
        #[cfg(feature = "cassandra")]
        FixityCommand::Copies(args) => copies::run(args).await,
    }
}

async fn status(args: &StatusArgs, client: &Client) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&client.get_json::<Value>("/fixity").await?)?;
        return output.finish();
    }
    let overview: Overview = client.get_json("/fixity").await?;
    let running = overview.present.iter().filter(|pass| pass.ended.is_none());
    for pass in running.chain(&overview.passes) {
        output.line(pass.summary())?;
    }
    if overview.unreadable_reports > 0 {
        output.line(format!("reports that are damaged: {}", overview.unreadable_reports))?;
    }
    match (overview.present, overview.oldest_check_seconds) {
        (None, _) => output.line("no fixity pass has begun yet; servers begin one (`fixity.every`)")?,
        (_, None) => output.line("not everything was checked yet")?,
        (_, Some(seconds)) => {
            let age = std::time::Duration::from_secs(seconds);
            output.line(format!(
                "everything that was stored {} ago was checked since",
                humantime::format_duration(age)
            ))?;
        }
    }
    output.finish()
}

async fn report(args: &ReportArgs, client: &Client) -> anyhow::Result<()> {
    let pass = match args.pass {
        Some(pass) => pass,
        None => {
            let overview: Overview = client.get_json("/fixity").await?;
            let last = overview.passes.first().map(|pass| pass.pass);
            last.ok_or_else(|| anyhow::anyhow!("no fixity pass has ended yet: see `penates fixity status`"))?
        }
    };
    let mut output = Output::stdout();
    let address = format!("/fixity/{pass}");
    let report: Report = client.get_json(&address).await?;
    if args.html {
        output.bytes(&client::whole(client.get(&address, "text/html").await?).await?)?;
    } else if args.output.json {
        output.json(&report)?;
    } else {
        output.line(report.pass.summary())?;
        report.findings.iter().try_for_each(|finding| output.line(finding.summary()))?;
        if report.unlisted > 0 {
            output.line(format!("and {} more, which the log names", report.unlisted))?;
        }
    }
    output.finish()?;
    let is_clean = report.pass.damaged + report.pass.failed == 0;
    if is_clean { Ok(()) } else { Err(CliError::Incomplete.into()) }
}

impl Pass {
    fn summary(&self) -> String {
        let Self { pass, begun, volumes, resources, records, damaged, failed, .. } = self;
        let size = human_bytes(self.size_bytes);
        let when = match &self.ended {
            Some(ended) => format!("from {begun} to {ended}"),
            None => format!("running since {begun}"),
        };
        format!(
            "pass {pass}, {when}: {volumes} volumes, {resources} resources and {records} records read ({size}), \
             {damaged} damaged, {failed} failed"
        )
    }
}

impl Finding {
    fn summary(&self) -> String {
        let Self { name, more, .. } = self;
        let what = if self.damaged { "damaged" } else { "failed" };
        let parts = self.parts.iter().map(|part| match part.part.is_empty() {
            true => part.detail.clone(),
            false => format!("{}: {}", part.part, part.detail),
        });
        let rest = if *more > 0 { format!("; and {more} more parts") } else { String::new() };
        format!("{what} {name}: {}{rest}", parts.collect::<Vec<_>>().join("; "))
    }
}
