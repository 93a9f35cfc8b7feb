//! `penates history`

use clap::Args;
use hathi::VolumeId;
use http::header::{ACCEPT, LINK};
use http::{HeaderMap, Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{self, Client, ClientError};
use crate::exit::CliError;
use crate::output::{Output, human_bytes};
use crate::reach::Reached;
use crate::resources::BaseArgs;

/// The end of the address to which a list links if clients have to ask for versions.
const EXPLICIT_VERSIONS: &str = "constraints#explicit-versions";

/// The time of a version in a graph of versions.
const CREATED: &str = "<http://purl.org/dc/terms/created>";

/// Arguments of `penates history`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates history letters
  penates history letters/scan.png --json
  penates history --volume yale.39002015008130
  penates cat letters/fcr:versions/20250615150640")]
pub struct HistoryArgs {
    /// Path of the resource from the root of the repository. It may be deleted.
    #[arg(default_value = "")]
    resource: String,
    /// RESOURCE is the id of a volume.
    #[arg(long, requires = "resource")]
    volume: bool,
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
pub async fn run(args: HistoryArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let outcome = match args.volume {
        true => report_volume(&reached.client, &args).await,
        false => report(&reached.client, &args).await,
    };
    reached.close().await?;
    outcome
}

async fn report(client: &Client, args: &HistoryArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let list = args.base.versions(&args.resource);
    let mut page = Some(list.clone());
    while let Some(address) = page {
        let request = http::Request::builder().method(Method::GET).header(ACCEPT, "application/link-format");
        let response = client.ask(&address, request, client::empty()).await?;
        page = next_query(response.headers()).map(|query| format!("{list}?{query}"));
        let map = client::whole(response).await?;
        for (version, datetime) in String::from_utf8_lossy(&map).lines().filter_map(memento) {
            match args.output.json {
                true => output.json(&json!({"resource": args.resource, "version": version, "datetime": datetime}))?,
                false => output.line(format!("{version}\t{datetime}"))?,
            }
        }
    }
    output.finish()
}

/// The names and times (RFC 3339, in milliseconds) of the versions of the resource at an address,
/// oldest first; `None` if the server keeps none.
pub(super) async fn versions(client: &Client, address: &str) -> Result<Option<VersionList>, ClientError> {
    let list = format!("{}/fcr:versions", address.trim_end_matches('/'));
    let mut found = VersionList::default();
    let mut page = Some(list.clone());
    while let Some(address) = page {
        let response = match client.get(&address, "application/n-triples").await {
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => return Ok(None),
            response => response?,
        };
        page = next_query(response.headers()).map(|query| format!("{list}?{query}"));
        found.are_explicit = has_link_to(response.headers(), EXPLICIT_VERSIONS);
        let map = client::whole(response).await?;
        found.versions.extend(String::from_utf8_lossy(&map).lines().filter_map(created));
    }
    Ok(Some(found))
}

/// The versions of a resource.
#[derive(Default)]
pub(super) struct VersionList {
    /// Their names and times, oldest first.
    pub versions: Vec<(String, String)>,
    /// Whether only those are kept that clients ask for, so that the current state may be none.
    pub are_explicit: bool,
}

/// The name and the time of the version in a statement of a graph of versions.
fn created(line: &str) -> Option<(String, String)> {
    let (memento, said) = line.strip_prefix('<')?.split_once("> ")?;
    let (created, _) = said.strip_prefix(CREATED)?.trim_start().strip_prefix('"')?.split_once('"')?;
    Some((memento.rsplit('/').next()?.to_owned(), created.to_owned()))
}

/// A part of the list of a volume's versions.
#[derive(Deserialize)]
struct Part {
    versions: Vec<VolumeVersion>,
    next: Option<String>,
    deleted: Option<String>,
}

/// The versions of a volume that are kept.
pub(super) struct VolumeVersions {
    /// Oldest first.
    pub versions: Vec<VolumeVersion>,
    /// When the volume was deleted (RFC 3339), if it is.
    pub deleted: Option<String>,
}

/// A version of a volume.
#[derive(Deserialize, Serialize)]
pub(super) struct VolumeVersion {
    /// Its revision, which is its name.
    pub revision: String,
    /// When it became current (RFC 3339).
    pub time: String,
    current: bool,
    pages: u64,
    size_bytes: u64,
}

/// The versions of a volume, also if it is deleted; `None` if the server keeps none, or never had the volume.
pub(super) async fn versions_of_volume(
    client: &Client,
    volume: &VolumeId,
) -> Result<Option<VolumeVersions>, ClientError> {
    let list = format!("/volumes/{}/versions/", client::segment(volume));
    let (mut versions, mut deleted) = (Vec::new(), None);
    let mut from = Some(String::new());
    while let Some(first) = from {
        let query = if first.is_empty() { first } else { format!("?from={first}") };
        let part: Part = match client.get_json(&format!("{list}{query}")).await {
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => return Ok(None),
            part => part?,
        };
        versions.extend(part.versions);
        (deleted, from) = (part.deleted, part.next);
    }
    Ok(Some(VolumeVersions { versions, deleted }))
}

async fn report_volume(client: &Client, args: &HistoryArgs) -> anyhow::Result<()> {
    let list = volume_versions(&args.resource)?;
    let mut output = Output::stdout();
    let mut from = Some(String::new());
    while let Some(first) = from {
        let query = if first.is_empty() { first } else { format!("?from={first}") };
        let part: Part = client.get_json(&format!("{list}{query}")).await?;
        for version in part.versions {
            if args.output.json {
                output.json(&version)?;
                continue;
            }
            let VolumeVersion { revision, time, pages, size_bytes, .. } = &version;
            let current = if version.current { "\tcurrent" } else { "" };
            output.line(format!("{revision}\t{time}\t{pages} pages, {}{current}", human_bytes(*size_bytes)))?;
        }
        from = part.next;
    }
    output.finish()
}

/// The address of the list of a volume's versions.
pub(super) fn volume_versions(volume: &str) -> anyhow::Result<String> {
    Ok(format!("/volumes/{}/versions/", client::segment(&volume_id(volume)?)))
}

/// The id of a volume, as it is given.
pub(super) fn volume_id(volume: &str) -> anyhow::Result<VolumeId> {
    VolumeId::parse(volume).map_err(|error| CliError::Usage(error.to_string()).into())
}

/// The name and the time of the version in a line of a TimeMap (RFC 7089, section 5).
fn memento(line: &str) -> Option<(&str, &str)> {
    let (address, parameters) = line.strip_prefix('<')?.split_once('>')?;
    let is_memento = parameters.contains("memento\"");
    let (_, datetime) = parameters.split_once("datetime=\"")?;
    let (datetime, _) = datetime.split_once('"')?;
    is_memento.then_some((address.rsplit('/').next()?, datetime))
}

/// Whether a response links to an address that ends like this.
fn has_link_to(headers: &HeaderMap, end: &str) -> bool {
    let links = headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok());
    links.filter_map(|link| link.split_once('>')).any(|(address, _)| address.ends_with(end))
}

/// The query of the next page.
fn next_query(headers: &HeaderMap) -> Option<&str> {
    let links = headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok());
    let next = links.filter(|link| link.ends_with("rel=\"next\"")).find_map(|link| link.split_once('>'))?;
    next.0.split_once('?').map(|(_, query)| query)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_lines_of_versions_name_one() {
        let line = "<http://h/rest/a/fcr:versions/20250615150640-007>; rel=\"first memento\"; datetime=\"Sun, 15 Jun 2025 15:06:40 GMT\",";
        assert_eq!(memento(line), Some(("20250615150640-007", "Sun, 15 Jun 2025 15:06:40 GMT")));
        for line in ["<http://h/rest/a>; rel=\"original\",", "", "<>", "<http://h/rest/a>; rel=\"memento\""] {
            assert_eq!(memento(line), None, "{line}");
        }
    }

    #[test]
    fn the_time_of_a_version_is_in_its_statement() {
        let line = "<http://h/rest/a/fcr:versions/20250615150640-007> <http://purl.org/dc/terms/created> \
                    \"2025-06-15T15:06:40.007Z\"^^<http://www.w3.org/2001/XMLSchema#dateTime> .";
        let expected = ("20250615150640-007".to_owned(), "2025-06-15T15:06:40.007Z".to_owned());
        assert_eq!(created(line), Some(expected));
        assert_eq!(created("<http://h/a> <http://www.w3.org/ns/ldp#contains> <http://h/b> ."), None);
    }

    #[test]
    fn the_next_page_is_found_among_the_links() {
        let link = |link: &'static str| (LINK, http::HeaderValue::from_static(link));
        let headers = HeaderMap::from_iter([
            link("<http://h/rest/a>; rel=\"original\""),
            link("<http://h/rest/a/fcr:versions?from=20250615150640&limit=3>; rel=\"next\""),
        ]);
        // Of equal names the last one stays; both orders are tried.
        assert_eq!(next_query(&headers), Some("from=20250615150640&limit=3"));
        assert_eq!(next_query(&HeaderMap::new()), None);
    }
}
