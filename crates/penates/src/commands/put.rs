//! `penates put`

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use futures::StreamExt;
use http::{HeaderValue, Method, StatusCode, header};
use preservation::about::ARCHIVAL_GROUP;
use rdf::ContentType;
use serde_json::json;
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use crate::cli::{OutputArgs, WriteArgs};
use crate::client::{self, Body, ClientError};
use crate::exit::CliError;
use crate::output::Output;
use crate::reach::Reached;
use crate::resources::{BaseArgs, encoded};

/// The media type of Turtle.
const TURTLE: &str = "text/turtle";

/// Arguments of `penates put`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates put letters/scan.png scan.png
  penates put letters/ description.ttl
  penates put letters/note - --type text/plain < note.txt
  penates put book/pages --model direct --member-of book --relation http://purl.org/dc/terms/hasPart
  penates put book --model archival-group")]
pub struct PutArgs {
    /// Path of the resource from the root of the repository. Missing containers above it are
    /// created. With a slash at its end it is a container, which needs a graph.
    resource: String,
    /// The content; `-` for standard input. A container that is made by --model needs none.
    #[arg(required_unless_present = "model")]
    file: Option<PathBuf>,
    /// Its media type [default: by the ending of the file's name]
    #[arg(long = "type", value_name = "TYPE")]
    media_type: Option<String>,
    /// What it is.
    #[command(flatten)]
    model: ModelArgs,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    write: WriteArgs,
}

/// What a new resource is, if its content does not say it.
#[derive(Debug, Default, Args)]
pub struct ModelArgs {
    /// Its interaction model. A direct container lists what is put into it as members of another
    /// resource; an indirect one lists what these name.
    #[arg(long, value_enum)]
    model: Option<Model>,
    /// Path of the resource that gets the members.
    #[arg(long, value_name = "RESOURCE", required_if_eq_any = [("model", "direct"), ("model", "indirect")])]
    member_of: Option<String>,
    /// The IRI of the statement from that resource to a member [default: ldp:member]
    #[arg(long, value_name = "IRI", requires = "member_of")]
    relation: Option<String>,
    /// The IRI of a statement from the member to that resource, instead.
    #[arg(long, value_name = "IRI", requires = "member_of", conflicts_with = "relation")]
    inverse_relation: Option<String>,
    /// The IRI of the statement by which what is put into an indirect container names the member.
    #[arg(long, value_name = "IRI", required_if_eq("model", "indirect"))]
    named_by: Option<String>,
}

/// An interaction model of LDP or Fedora.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Model {
    /// A container.
    Basic,
    /// A container with members of another resource.
    Direct,
    /// A container whose contents name members of another resource.
    Indirect,
    /// A container whose contents belong together, as in Fedora.
    ArchivalGroup,
    /// A graph that contains nothing.
    Source,
    /// Bytes.
    Binary,
}

impl Model {
    fn class(self) -> String {
        let name = match self {
            Self::Basic => "BasicContainer",
            Self::Direct => "DirectContainer",
            Self::Indirect => "IndirectContainer",
            Self::ArchivalGroup => return ARCHIVAL_GROUP.to_owned(),
            Self::Source => "RDFSource",
            Self::Binary => "NonRDFSource",
        };
        format!("{LDP}{name}")
    }
}

const LDP: &str = "http://www.w3.org/ns/ldp#";

impl ModelArgs {
    /// The link that says the model.
    fn link(&self) -> Option<String> {
        self.model.map(|model| format!("<{}>; rel=\"type\"", model.class()))
    }

    /// The statements of a container about its members, in Turtle.
    fn statements(&self, resource: &str) -> Result<Option<String>, CliError> {
        let Some(member_of) = &self.member_of else { return Ok(None) };
        if !matches!(self.model, Some(Model::Direct | Model::Indirect)) {
            return Err(CliError::Usage("--member-of needs --model direct or indirect".to_owned()));
        }
        if self.model == Some(Model::Direct) && self.named_by.is_some() {
            return Err(CliError::Usage("--named-by needs --model indirect".to_owned()));
        }
        let member = format!("{LDP}member");
        let (property, relation) = match (&self.inverse_relation, &self.relation) {
            (Some(inverse), _) => ("isMemberOfRelation", inverse),
            (None, relation) => ("hasMemberRelation", relation.as_ref().unwrap_or(&member)),
        };
        let statement = |property: &str, value: &str| format!("<> <{LDP}{property}> <{value}> .\n");
        let mut text = statement("membershipResource", &relative(resource, member_of));
        text += &statement(property, iri(relation)?);
        if let Some(named_by) = &self.named_by {
            text += &statement("insertedContentRelation", iri(named_by)?);
        }
        Ok(Some(text))
    }
}

/// An IRI that can be written in Turtle as it is.
fn iri(text: &str) -> Result<&str, CliError> {
    let is_safe = |c: char| !c.is_whitespace() && !c.is_control() && !"<>\"{}|^`\\".contains(c);
    match text.contains(':') && text.chars().all(is_safe) {
        true => Ok(text),
        false => Err(CliError::Usage(format!("{text:?} is no IRI, such as http://purl.org/dc/terms/hasPart"))),
    }
}

/// The reference from one resource of the repository to another.
fn relative(from: &str, to: &str) -> String {
    let names = |path: &str| path.split('/').filter(|name| !name.is_empty()).map(encoded).collect::<Vec<_>>();
    let up = "../".repeat(names(from).len().saturating_sub(1));
    format!("{}{}", if up.is_empty() { "./" } else { &up }, names(to).join("/"))
}

/// Runs it.
pub async fn run(args: PutArgs) -> anyhow::Result<()> {
    let statements = args.model.statements(&args.resource)?;
    let media_type = match (&args.media_type, &args.file) {
        (Some(media_type), _) => media_type,
        (None, Some(file)) => media_type_of(file),
        (None, None) => TURTLE,
    };
    if statements.is_some() && media_type != TURTLE {
        return Err(
            CliError::Usage(format!("--member-of is added to {TURTLE}, and the content is {media_type}")).into()
        );
    }
    refuse_bytes_as_container(&args, media_type)?;
    let is_none = |_| CliError::Usage(format!("--type {media_type:?} is not a media type"));
    let request = http::Request::builder()
        .method(Method::PUT)
        .header(header::CONTENT_TYPE, HeaderValue::try_from(media_type).map_err(is_none)?);
    let request = match args.model.link() {
        Some(link) => request.header(header::LINK, link),
        None => request,
    };
    let body = match &args.file {
        Some(file) => read(file, statements).await?,
        None => client::full(statements.unwrap_or_default()),
    };
    let reached = Reached::open_or_make(&args.write).await?;
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
    let name = file
        .as_ref()
        .and_then(|file| file.file_name())
        .filter(|name| *name != "-")
        .map_or("NAME".into(), |name| name.to_string_lossy());
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

/// Statements, and the content of a file after them: a base in the file would change what the
/// statements are about.
async fn read(file: &Path, statements: Option<String>) -> anyhow::Result<Body> {
    if file == Path::new("-") {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
        return Ok(stream_of(File::from_std(stdin.into()), statements));
    }
    let cannot = |why: String| CliError::Usage(format!("{} cannot be read: {why}", file.display()));
    let opened = File::open(file).await.map_err(|error| cannot(error.to_string()))?;
    match opened.metadata().await.is_ok_and(|metadata| metadata.is_dir()) {
        true => Err(cannot("it is a folder".to_owned()).into()),
        false => Ok(stream_of(opened, statements)),
    }
}

fn stream_of(file: File, statements: Option<String>) -> Body {
    let statements = futures::stream::iter(statements.map(|text| Ok(Bytes::from(text))));
    client::stream(statements.chain(ReaderStream::new(file)))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_base_in_a_file_comes_after_the_statements_about_the_model() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ttl");
        std::fs::write(&path, "@base <http://a.example/> .").unwrap();
        let body = read(&path, Some("<> <b:c> <d:e> .\n".to_owned())).await.unwrap();
        let text = body.collect().await.unwrap().to_bytes();
        assert_eq!(text, "<> <b:c> <d:e> .\n@base <http://a.example/> .");
    }

    #[test]
    fn a_resource_refers_to_another_by_the_way_between_them() {
        assert_eq!(relative("book", "book"), "./book");
        assert_eq!(relative("book/pages", "book"), "../book");
        assert_eq!(relative("/a/b/c/", "x y/z"), "../../x%20y/z");
        assert_eq!(relative("a", ""), "./");
    }

    #[test]
    fn what_is_no_iri_is_refused() {
        assert!(iri("http://purl.org/dc/terms/hasPart").is_ok());
        for wrong in ["hasPart", "http://a b", "http://a>", "a:\u{7}", "a:\\"] {
            assert!(iri(wrong).is_err(), "{wrong}");
        }
    }
}
