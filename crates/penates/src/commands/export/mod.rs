//! `penates export`

mod bag;
mod ocfl;
mod ocfl_volumes;
mod source;
mod volumes;

pub(super) use ocfl_volumes::ListedPage;
pub(super) use volumes::{record, sha256};

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use hathi::VolumeId;
use http::{Method, Request};

use volumes::Named;

use crate::cli::ReachArgs;
use crate::client::{self, Client, segment};
use crate::commands::tree::is_away;
use crate::exit::CliError;
use crate::output::{Output, human_bytes};
use crate::reach::Reached;
use crate::resources::BaseArgs;

/// Arguments of `penates export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates export letters letters-2026 --as bagit
  penates export letters archive --as ocfl
  penates export volumes/yale.39002015008130 zachary --as ocfl
  penates export \"\" everything --as bagit")]
pub struct ExportArgs {
    /// Path of the resource from the root of the repository, with all that is in it. `volumes` are
    /// all volumes, and `volumes/ID` is one.
    resource: String,
    /// The folder to make. A bag needs a place where nothing is. A storage root gets what is new
    /// since it was made. Until it is whole it is named `….unfinished`.
    destination: PathBuf,
    /// The form.
    #[arg(long = "as", value_enum)]
    form: Form,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// The form of an export.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// A bag of the current state (BagIt 1.0, RFC 8493).
    Bagit,
    /// Objects with all of their versions (OCFL 1.1, storage layout 0003).
    Ocfl,
}

/// What was exported.
struct Exported {
    resources: u64,
    volumes: u64,
    bytes: u64,
    /// What is missing, if anything is: a number and the reason. It was named already.
    left_out: Option<String>,
}

/// What is left of an export that failed, and what to do about it.
fn unfinished(destination: &Path) -> String {
    format!("{}.unfinished is not whole, and the same command continues it", destination.display())
}

/// Whether there are versions of a volume.
async fn has_versions(client: &Client, id: &VolumeId) -> bool {
    client.get(&format!("/volumes/{}/versions/?limit=1", segment(id)), "application/json").await.is_ok()
}

/// Refuses to export what there is not. Other errors are those of the export.
async fn check_is_there(args: &ExportArgs, client: &Client) -> anyhow::Result<()> {
    let resource = args.resource.trim_matches('/');
    let (method, address) = match Named::by(resource)? {
        Named::None => (Method::OPTIONS, args.base.address(resource)),
        // A deleted volume may have versions.
        Named::One(id) if matches!(args.form, Form::Ocfl) && has_versions(client, &id).await => return Ok(()),
        Named::One(id) => (Method::GET, format!("/volumes/{}", segment(&id))),
        Named::All => return Ok(()),
    };
    match client.ask(&address, Request::builder().method(method), client::empty()).await {
        Err(error) if is_away(&error) => {
            Err(anyhow::Error::from(error).context(format!("/{resource}: nothing was exported")))
        }
        _ => Ok(()),
    }
}

/// Runs it.
pub async fn run(args: ExportArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let exported = async {
        // Before a folder is made.
        check_is_there(&args, &reached.client).await?;
        match args.form {
            Form::Bagit => bag::export(&args, &reached.client).await,
            Form::Ocfl => ocfl::export(&args, &reached.client).await,
        }
    };
    let exported = exported.await;
    reached.close().await?;
    let Exported { resources, volumes, bytes, left_out } = exported?;
    let mut output = Output::stdout();
    let (size, place) = (human_bytes(bytes), args.destination.display());
    let volumes = if volumes > 0 { format!(" and {volumes} volumes") } else { String::new() };
    output.line(format!("exported {resources} resources{volumes} ({size} of bytes) to {place}"))?;
    left_out.iter().try_for_each(|line| output.line(line))?;
    output.finish()?;
    if left_out.is_some() { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
