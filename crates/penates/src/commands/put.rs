//! `penates put`

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use http::{HeaderValue, Method, StatusCode, header};
use rdf::ContentType;
use serde_json::json;
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{self, Body, ClientError};
use crate::exit::CliError;
use crate::output::Output;
use crate::reach::Reached;
use crate::resources::BaseArgs;

/// Arguments of `penates put`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates put letters/scan.png scan.png
  penates put letters/ description.ttl
  penates put letters/note - --type text/plain < note.txt")]
pub struct PutArgs {
    /// Path of the resource from the root of the repository. Missing containers above it are
    /// created. With a slash at its end it is a container, which needs a graph.
    resource: String,
    /// The content; `-` for standard input.
    file: PathBuf,
    /// Its media type [default: by the ending of the file's name]
    #[arg(long = "type", value_name = "TYPE")]
    media_type: Option<String>,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: PutArgs) -> anyhow::Result<()> {
    let media_type = args.media_type.as_deref().unwrap_or_else(|| media_type_of(&args.file));
    refuse_bytes_as_container(&args, media_type)?;
    let is_none = |_| CliError::Usage(format!("--type {media_type:?} is not a media type"));
    let request = http::Request::builder()
        .method(Method::PUT)
        .header(header::CONTENT_TYPE, HeaderValue::try_from(media_type).map_err(is_none)?);
    let body = read(&args.file).await?;
    let reached = Reached::open_or_make(&args.reach).await?;
    let answered = reached.client.ask(&args.base.address(&args.resource), request, body).await;
    reached.close().await?;
    let is_new = answered.map_err(with_way_out)?.status() == StatusCode::CREATED;
    let mut output = Output::stdout();
    match args.output.json {
        true => output.json(&json!({"resource": args.resource, "new": is_new}))?,
        false => output.line(format!("{} {}", if is_new { "made" } else { "replaced" }, args.resource))?,
    }
    output.finish()
}

/// A slash at the end means a container, which needs a graph. A user who sends bytes means a place
/// in it.
fn refuse_bytes_as_container(args: &PutArgs, media_type: &str) -> Result<(), CliError> {
    let PutArgs { resource, file, .. } = args;
    if !resource.ends_with('/') || ContentType::parse(media_type).is_some() {
        return Ok(());
    }
    let name = file.file_name().filter(|name| *name != "-").map_or("NAME".into(), |name| name.to_string_lossy());
    Err(CliError::Usage(format!(
        "{resource} names a container, and {media_type} is not a graph: name a place in it, as in {resource}{name}"
    )))
}

/// Adds to the error for a deleted resource what to do about it.
fn with_way_out(error: ClientError) -> anyhow::Error {
    match error.status() {
        Some(StatusCode::GONE) => anyhow!("{error}; `penates rm --forget` frees its name"),
        _ => error.into(),
    }
}

async fn read(file: &Path) -> anyhow::Result<Body> {
    if file == Path::new("-") {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
        return Ok(stream_of(File::from_std(stdin.into())));
    }
    let cannot = |why: String| CliError::Usage(format!("{} cannot be read: {why}", file.display()));
    let opened = File::open(file).await.map_err(|error| cannot(error.to_string()))?;
    match opened.metadata().await.is_ok_and(|metadata| metadata.is_dir()) {
        true => Err(cannot("it is a folder".to_owned()).into()),
        false => Ok(stream_of(opened)),
    }
}

fn stream_of(file: File) -> Body {
    client::stream(ReaderStream::new(file))
}

/// The media type for the extension of a name; unknown bytes have one too.
pub(super) fn media_type_of(file: &Path) -> &'static str {
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
