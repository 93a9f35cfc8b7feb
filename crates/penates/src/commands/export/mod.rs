//! `penates export`

mod bag;
mod ocfl;
mod ocfl_volumes;
mod source;
mod volumes;

pub(super) use ocfl_volumes::ListedPage;
pub(super) use volumes::record;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::cli::ReachArgs;
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
}

/// What is left of an export that failed, and what to do about it.
fn unfinished(destination: &Path) -> String {
    format!("{}.unfinished is not whole, and the same command continues it", destination.display())
}

/// Runs it.
pub async fn run(args: ExportArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let exported = match args.form {
        Form::Bagit => bag::export(&args, &reached.client).await,
        Form::Ocfl => ocfl::export(&args, &reached.client).await,
    };
    reached.close().await?;
    let Exported { resources, volumes, bytes } = exported?;
    let mut output = Output::stdout();
    let (size, place) = (human_bytes(bytes), args.destination.display());
    let volumes = if volumes > 0 { format!(" and {volumes} volumes") } else { String::new() };
    output.line(format!("exported {resources} resources{volumes} ({size} of bytes) to {place}"))?;
    output.finish()
}
