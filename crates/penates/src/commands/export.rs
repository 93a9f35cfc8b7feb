//! `penates export`

use std::path::PathBuf;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, ValueEnum};
use heads::VOLUMES;
use http::{HeaderMap, HeaderName, Method, Request, Response, header};
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;
use preservation::about::{ABOUT, About, DESCRIPTION};
use preservation::bagit::{BagWriter, PayloadFile};

use crate::cli::ReachArgs;
use crate::client::{self, Body, Client, ClientError};
use crate::commands::tree::{children, is_away, is_container};
use crate::output::{Output, human_bytes};
use crate::reach::Reached;
use crate::resources::{BaseArgs, OWN_STATEMENTS, repository};

/// Arguments of `penates export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates export letters letters-2026 --as bagit
  penates export \"\" everything --as bagit")]
pub struct ExportArgs {
    /// Path of the resource from the root of the repository, with all that is in it. Volumes are
    /// not exported: `penates get` downloads them.
    resource: String,
    /// The folder to make; nothing may be there.
    destination: PathBuf,
    /// The form: a bag (BagIt 1.0, RFC 8493).
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
    Bagit,
}

/// Runs it.
pub async fn run(args: ExportArgs) -> anyhow::Result<()> {
    let Form::Bagit = args.form;
    let reached = Reached::open(&args.reach).await?;
    let outcome = export(&args, &reached.client).await;
    reached.close().await?;
    outcome
}

async fn export(args: &ExportArgs, client: &Client) -> anyhow::Result<()> {
    let mut bag = BagWriter::create(&args.destination)?;
    match fill(args, client, &mut bag).await {
        Ok(exported) => {
            bag.finish(&exported.info)?;
            let mut output = Output::stdout();
            let Exported { resources, bytes, .. } = exported;
            let (size, place) = (human_bytes(bytes), args.destination.display());
            output.line(format!("exported {resources} resources ({size} of bytes) to {place}"))?;
            output.finish()
        }
        Err(error) => {
            bag.abandon()?;
            Err(error)
        }
    }
}

/// What was written into a bag.
struct Exported {
    resources: u64,
    bytes: u64,
    /// The lines of `bag-info.txt`.
    info: Vec<(&'static str, String)>,
}

async fn fill(args: &ExportArgs, client: &Client, bag: &mut BagWriter) -> anyhow::Result<Exported> {
    let resource = args.resource.trim_matches('/');
    let names: Vec<String> = resource.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let (mut resources, mut bytes) = (0_u64, 0_u64);
    let repository = repository(client, &args.base).await?;
    let mut waiting = vec![(args.base.address(resource), names)];
    while let Some((address, names)) = waiting.pop() {
        let exported = one(client, &repository, &address, &names, bag).await;
        let is_top = resources == 0;
        let (is_container, len_bytes) = match exported {
            // It was deleted since it was listed.
            Err(error) if !is_top && error.downcast_ref().is_some_and(is_away) => continue,
            exported => exported.with_context(|| format!("/{}", names.join("/")))?,
        };
        resources += 1;
        bytes += len_bytes;
        let is_volumes = names.len() == 1 && names[0] == VOLUMES;
        if !is_container || is_volumes {
            continue;
        }
        for child in children(client, &address).await? {
            let name = child.rsplit('/').next().unwrap_or_default();
            let name = percent_decode_str(name).decode_utf8().context("a name of a resource")?.into_owned();
            if names.is_empty() && name == VOLUMES {
                continue;
            }
            waiting.push((child, names.iter().cloned().chain([name]).collect()));
        }
    }
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
    let agent = format!("penates {}", env!("CARGO_PKG_VERSION"));
    let source = format!("/{resource}");
    let info = vec![("Bag-Software-Agent", agent), ("Bagging-Date", today), ("External-Identifier", source)];
    Ok(Exported { resources, bytes, info })
}

/// Exports one resource. Returns whether it is a container, and how many bytes it has.
async fn one(
    client: &Client,
    repository: &str,
    address: &str,
    names: &[String],
    bag: &mut BagWriter,
) -> anyhow::Result<(bool, u64)> {
    let is_container = is_container(client, address).await?;
    // A redirection is one to bytes that are stored elsewhere. They are not fetched.
    let request = Request::builder().method(Method::GET).header(header::ACCEPT, "application/n-triples, */*;q=0.9");
    let request = request.header("prefer", OWN_STATEMENTS);
    let response = client.send(address, request, client::empty()).await?;
    if !response.status().is_success() && !response.status().is_redirection() {
        return Err(ClientError::of_response(response).await.into());
    }
    let headers = response.headers().clone();
    let is_binary = links(&headers).any(|link| link.starts_with("<http://www.w3.org/ns/ldp#NonRDFSource>"));
    let about = About {
        repository: repository.to_owned(),
        path: names.join("/"),
        types: types(&headers).into_iter().map(str::to_owned).collect(),
        content_type: text(&headers, header::CONTENT_TYPE).filter(|_| is_binary),
        content_disposition: text(&headers, header::CONTENT_DISPOSITION),
        last_modified: text(&headers, header::LAST_MODIFIED),
        stored_at: text(&headers, header::LOCATION),
    };
    let mut file = bag.file(names.iter().map(String::as_str), ABOUT)?;
    file.write(&serde_json::to_vec(&about)?)?;
    file.write(b"\n")?;
    bag.finish_file(file)?;
    let mut len_bytes = 0;
    let graph = match is_binary {
        false => response,
        true => {
            if response.status().is_success() {
                let promised = text(&headers, HeaderName::from_static("repr-digest"));
                let file = bag.file(names.iter().map(String::as_str), "")?;
                let (file, len) = received(response, file).await?;
                let digest = format!("sha-256=:{}:", BASE64.encode(file.sha256()));
                anyhow::ensure!(promised.is_none_or(|promised| promised == digest), "its bytes have another digest");
                bag.finish_file(file)?;
                len_bytes = len;
            }
            let request = Request::builder().method(Method::GET).header(header::ACCEPT, "application/n-triples");
            let request = request.header("prefer", OWN_STATEMENTS);
            client.ask(&format!("{}/fcr:metadata", address.trim_end_matches('/')), request, client::empty()).await?
        }
    };
    let file = bag.file(names.iter().map(String::as_str), DESCRIPTION)?;
    let (file, _) = received(graph, file).await?;
    bag.finish_file(file)?;
    Ok((is_container, len_bytes))
}

/// Writes a response into a file of the bag. Returns it with its length.
async fn received(response: Response<Body>, mut file: PayloadFile) -> anyhow::Result<(PayloadFile, u64)> {
    let (mut body, mut len_bytes) = (response.into_body(), 0);
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame.map_err(|error| ClientError::Broken(error.into()))?.into_data() {
            file.write(&piece)?;
            len_bytes += piece.len() as u64;
        }
    }
    Ok((file, len_bytes))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    Some(String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned())
}

fn links(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers.get_all(header::LINK).iter().filter_map(|link| link.to_str().ok())
}

/// The classes that links of the relation `type` name.
fn types(headers: &HeaderMap) -> Vec<&str> {
    let typed = links(headers).filter(|link| link.contains("rel=\"type\""));
    typed.filter_map(|link| Some(link.strip_prefix('<')?.split_once('>')?.0)).collect()
}
