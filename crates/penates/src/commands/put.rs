//! `penates put`

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use http::{Method, header};
use serde_json::json;
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{self, Body};
use crate::output::Output;
use crate::reach::Reached;
use crate::resources::BaseArgs;

/// Arguments of `penates put`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates put letters/scan.png scan.png
  penates put letters description.ttl
  penates put letters/note - --type text/plain < note.txt")]
pub struct PutArgs {
    /// The resource, from the root of the repository on; containers above it that are missing are made.
    resource: String,
    /// What to put there; `-` for standard input.
    file: PathBuf,
    /// Its media type [default: by the ending of the file's name]
    #[arg(long = "type", value_name = "TYPE")]
    media_type: Option<String>,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// How what was done is told.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: PutArgs) -> anyhow::Result<()> {
    let media_type = args.media_type.as_deref().unwrap_or_else(|| media_type_of(&args.file));
    let body = read(&args.file).await?;
    let reached = Reached::open_or_make(&args.reach).await?;
    let request = http::Request::builder().method(Method::PUT).header(header::CONTENT_TYPE, media_type);
    let answered = reached.client.ask(&args.base.address(&args.resource), request, body).await;
    let is_new = answered.as_ref().is_ok_and(|response| response.status() == http::StatusCode::CREATED);
    reached.close().await?;
    answered?;
    let mut output = Output::stdout();
    match args.output.json {
        true => output.json(&json!({"resource": args.resource, "new": is_new}))?,
        false => output.line(format!("{} {}", if is_new { "made" } else { "replaced" }, args.resource))?,
    }
    output.finish()
}

async fn read(file: &Path) -> anyhow::Result<Body> {
    if file == Path::new("-") {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
        return Ok(stream_of(File::from_std(stdin.into())));
    }
    Ok(stream_of(File::open(file).await.with_context(|| file.display().to_string())?))
}

fn stream_of(file: File) -> Body {
    client::stream(ReaderStream::new(file))
}

/// The media type that the ending of a name tells; bytes that nothing is known of have one too.
fn media_type_of(file: &Path) -> &'static str {
    match file.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("ttl") => "text/turtle",
        Some("nt") => "application/n-triples",
        Some("jsonld") => "application/ld+json",
        Some("rdf") => "application/rdf+xml",
        Some("txt") => "text/plain",
        Some("xml") => "application/xml",
        Some("json") => "application/json",
        Some("html") => "text/html",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("tif" | "tiff") => "image/tiff",
        Some("pdf") => "application/pdf",
        Some("zip") => "application/zip",
        _ => "application/octet-stream",
    }
}
