//! `lares testbed publish`

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::ArchiveArgs;
use terminal::OutputArgs;
use terminal::output::Output;

/// Arguments of `lares testbed publish`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares testbed publish /srv/www/runs
  lares testbed publish portal --archive /srv/runs")]
pub struct PublishArgs {
    /// The folder of the pages: a new one, an empty one, or one that this command has written.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where runs are kept.
    #[command(flatten)]
    archive: ArchiveArgs,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// Publishes the runs, and names what is none.
pub fn run(args: &PublishArgs) -> anyhow::Result<()> {
    let (archive, folder) = (&args.archive.archive, &args.folder);
    let published = testbed::portal::publish(archive, folder)
        .with_context(|| format!("publishing the archive {}", archive.display()))?;
    let mut output = Output::stdout();
    let page = folder.join("index.html");
    if args.output.json {
        output.json(&json!({ "page": page, "runs": published.runs, "refused": published.refused }))?;
        return output.finish();
    }
    for refused in &published.refused {
        output.line(format!("not published: {}: {}", refused.name, refused.reason))?;
    }
    output.line(format!("{} runs: {}", published.runs, page.display()))?;
    output.finish()
}
