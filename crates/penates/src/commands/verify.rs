//! `penates verify`

use clap::Args;
use futures::{Stream, StreamExt, TryStreamExt};
use hathi::VolumeId;
use http::{Method, StatusCode};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::{JOBS_PER_PROCESSOR, JobsArgs, OutputArgs, ReachArgs};
use crate::client::{self, Client, ClientError, query_value};
use crate::exit::{self, CliError};
use crate::ids::IdArgs;
use crate::output::{Output, in_line};
use crate::progress;
use crate::reach::Reached;
use crate::resources::BaseArgs;

/// Most bytes that are shown of the number that is printed on a page.
const SHOWN_LABEL_BYTES_MAX: usize = 40;

/// Arguments of `penates verify`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates verify
  penates verify --json uc2.ark:/13960/t8ff3zh99
  penates verify --resource letters/1.tiff")]
pub struct VerifyArgs {
    /// Which volumes. Without volumes and resources: all of both, and all records.
    #[command(flatten)]
    volumes: IdArgs,
    /// Path of a resource from the root of the repository; may be repeated.
    #[arg(long = "resource", value_name = "PATH")]
    resources: Vec<String>,
    /// Leave out the records: reading them all keeps the disk at work, and displaces what the
    /// operating system keeps in memory.
    #[arg(long)]
    no_records: bool,
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

impl VerifyArgs {
    /// The arguments for some resources.
    pub fn of_resources(
        resources: Vec<String>,
        base: BaseArgs,
        jobs: JobsArgs,
        output: OutputArgs,
        reach: ReachArgs,
    ) -> Self {
        Self { volumes: IdArgs::default(), resources, no_records: true, base, jobs, output, reach }
    }
}

/// Runs it.
pub async fn run(args: VerifyArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let outcome = verify(&args, &reached.client).await;
    reached.close().await?;
    outcome
}

async fn verify(args: &VerifyArgs, client: &Client) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let is_all = args.volumes.is_empty() && args.resources.is_empty();
    let mut unsound = 0;
    if is_all || !args.volumes.is_empty() {
        let volumes = if is_all { all_volumes(client).await? } else { args.volumes.volumes()? };
        let bar = progress::volumes(volumes.len() as u64);
        let volumes = futures::stream::iter(volumes).map(Ok);
        unsound +=
            verify_each(args, volumes, async |id| of_volume(client, id).await, &bar, &mut output, "volumes").await?;
    }
    if is_all || !args.resources.is_empty() {
        let bar = progress::resources((!is_all).then_some(args.resources.len() as u64));
        let resources = match is_all {
            true => all_resources(client, &args.base).boxed_local(),
            false => futures::stream::iter(args.resources.clone()).map(Ok).boxed_local(),
        };
        let of_resource = async |path| of_resource(client, &args.base, path, is_all).await;
        unsound += verify_each(args, resources, of_resource, &bar, &mut output, "resources").await?;
    }
    if is_all && !args.no_records {
        unsound += u64::from(!verify_records(client, args.output, &mut output).await?);
    }
    output.finish()?;
    if unsound > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

/// Reads all records, each with its checksum. Whether all could be read: those behind a damaged
/// block are out of reach.
async fn verify_records(client: &Client, form: OutputArgs, output: &mut Output) -> anyhow::Result<bool> {
    let (mut sound, mut last) = (0_u64, None);
    let bar = progress::records();
    let reading = async {
        let mut lines = std::pin::pin!(client.get_lines("/records/?values=true", "application/x-ndjson").await?);
        while let Some(line) = lines.try_next().await? {
            (sound, last) = (sound + 1, Some(line));
            bar.inc(1);
        }
        Ok::<_, ClientError>(())
    };
    let read = reading.await;
    bar.finish_and_clear();
    let why = match read {
        // A token that is limited to volumes or trees.
        Err(error) if error.status() == Some(StatusCode::FORBIDDEN) => {
            note!("The records are not verified: {}", exit::full_message(&error));
            return Ok(true);
        }
        Ok(()) if sound == 0 => return Ok(true),
        Ok(()) => None,
        Err(error) if error.stops_all() => return Err(error.into()),
        Err(error) => Some(exit::full_message(&error)),
    };
    let after = last.and_then(|line| Some(serde_json::from_str::<Value>(&line).ok()?.get("id")?.to_string()));
    match (&why, form.json) {
        (_, true) => output.json(&json!({ "records": sound, "sound": why.is_none(), "after": after, "error": why }))?,
        (None, false) => output.line(format!("records: {sound} sound"))?,
        (Some(why), false) => {
            let after = after.unwrap_or_else(|| "the beginning".to_owned());
            let hint = "`penates salvage` copies what can be read behind it too";
            output.line(format!("records: {sound} sound; none could be read after {after}: {why}; {hint}"))?;
        }
    }
    Ok(why.is_none())
}

/// Verifies objects, several at once, and holds no more of them in memory. Returns how many are not
/// known to be sound.
async fn verify_each<Name, Of: Future<Output = Option<Verified>>>(
    args: &VerifyArgs,
    names: impl Stream<Item = anyhow::Result<Name>>,
    of: impl Fn(Name) -> Of,
    bar: &ProgressBar,
    output: &mut Output,
    what: &str,
) -> anyhow::Result<u64> {
    let mut count = Count::default();
    let reports = names.map_ok(|name| async { Ok(of(name).await) });
    let mut reports = std::pin::pin!(reports.try_buffer_unordered(args.jobs.count(JOBS_PER_PROCESSOR)));
    while let Some(verified) = reports.try_next().await? {
        bar.inc(1);
        let Some(verified) = verified else { continue };
        bar.suspend(|| count.report(verified, args.output, output))?;
        bar.set_message(format!(", {} damaged, {} failed", count.damaged, count.failed));
    }
    bar.finish_and_clear();
    if !args.output.json {
        output.line(format!("{what}: {} sound, {} damaged, {} failed", count.sound, count.damaged, count.failed))?;
    }
    Ok(count.damaged + count.failed)
}

/// The ids of all volumes.
async fn all_volumes(client: &Client) -> anyhow::Result<Vec<VolumeId>> {
    let lines = client.get_lines("/volumes/", "text/plain").await?;
    lines.map_err(anyhow::Error::from).and_then(async |line| Ok(VolumeId::parse(&line)?)).try_collect().await
}

/// Some resources, as the server lists them.
#[derive(Deserialize)]
struct ResourcePage {
    resources: Vec<String>,
    next: Option<String>,
}

/// The paths of all resources, requested page by page as needed.
fn all_resources<'a>(client: &'a Client, base: &'a BaseArgs) -> impl Stream<Item = anyhow::Result<String>> + 'a {
    let pages = futures::stream::try_unfold(Some(None::<String>), async move |from| {
        let Some(after) = from else { return Ok::<_, anyhow::Error>(None) };
        let after = after.map_or(String::new(), |after| format!("?after={}", query_value(&after)));
        let page: ResourcePage = client.get_json(&format!("{}{after}", base.address("fcr:resources"))).await?;
        Ok(Some((futures::stream::iter(page.resources).map(Ok), page.next.map(Some))))
    });
    pages.try_flatten()
}

/// An object, and the result of verifying it.
struct Verified {
    /// The member of JSON objects that names it.
    kind: &'static str,
    name: String,
    report: Result<Report, ClientError>,
}

async fn of_volume(client: &Client, id: VolumeId) -> Option<Verified> {
    let address = format!("/volumes/{}/verify", client::segment(&id));
    let report = client.ask_json::<VolumeReport>(Method::POST, &address).await.map(Report::Volume);
    Some(Verified { kind: "id", name: id.to_string(), report })
}

/// `None` if it was deleted since it was listed.
async fn of_resource(client: &Client, base: &BaseArgs, path: String, was_listed: bool) -> Option<Verified> {
    let address = format!("{}?path={}", base.address("fcr:verify"), query_value(path.trim_matches('/')));
    let report = client.ask_json::<ResourceReport>(Method::POST, &address).await.map(Report::Resource);
    let is_away = |error: &ClientError| matches!(error.status(), Some(StatusCode::NOT_FOUND | StatusCode::GONE));
    if was_listed && report.as_ref().is_err_and(is_away) {
        return None;
    }
    Some(Verified { kind: "resource", name: format!("/{}", path.trim_matches('/')), report })
}

/// The server's report on one object.
#[derive(Serialize)]
#[serde(untagged)]
enum Report {
    Volume(VolumeReport),
    Resource(ResourceReport),
}

/// The report on a volume.
#[derive(Serialize, Deserialize)]
struct VolumeReport {
    id: VolumeId,
    revision: String,
    /// Members that were read: pages, METS, record.
    members: u64,
    size_bytes: u64,
    sound: bool,
    damaged: Vec<DamagedMember>,
}

/// A damaged member.
#[derive(Serialize, Deserialize)]
struct DamagedMember {
    /// The place of a page, from 0; the number of pages for METS, one more for the record; none for
    /// the whole volume.
    member: Option<u32>,
    /// `page`, `mets`, `record` or `volume`.
    part: String,
    /// The sequence of a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u32>,
    /// The number that is printed on it, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    detail: String,
}

/// The report on a resource of the repository.
#[derive(Serialize, Deserialize)]
struct ResourceReport {
    resource: String,
    revision: String,
    size_bytes: u64,
    sound: bool,
    damaged: Vec<DamagedPart>,
}

/// A damaged part.
#[derive(Serialize, Deserialize)]
struct DamagedPart {
    /// `description` or `bytes`; none if nothing of it can be reached.
    part: Option<String>,
    detail: String,
}

impl Report {
    fn is_sound(&self) -> bool {
        match self {
            Self::Volume(volume) => volume.sound,
            Self::Resource(resource) => resource.sound,
        }
    }

    /// The damage, for people: which pages or parts, and how the first was noticed.
    fn summary(&self) -> String {
        match self {
            Self::Volume(volume) => {
                let which = in_line(&which(&volume.damaged));
                let how = volume.damaged.first().map_or("", |damage| &damage.detail);
                format!("damaged {}: {which}: {how}", volume.id)
            }
            Self::Resource(resource) => {
                let parts: Vec<&str> = resource.damaged.iter().filter_map(|damage| damage.part.as_deref()).collect();
                let which = if parts.is_empty() { "all of it".to_owned() } else { parts.join(" and ") };
                let how = resource.damaged.first().map_or("", |damage| &damage.detail);
                format!("damaged /{}: {which}: {how}", resource.resource)
            }
        }
    }
}

/// The damaged parts of a volume: `pages 1-14, 16-24 (printed 2-10), METS`. Pages that follow each
/// other are joined if all of them have printed numbers, or none.
fn which(damaged: &[DamagedMember]) -> String {
    let pages: Vec<_> = damaged.iter().filter_map(|damage| Some((damage.seq?, damage.label.as_deref()))).collect();
    let runs = pages.chunk_by(|a, b| a.0 + 1 == b.0 && a.1.is_some() == b.1.is_some());
    let mut parts: Vec<String> = runs.filter_map(|run| Some(joined(*run.first()?, *run.last()?))).collect();
    if let Some(first) = parts.first_mut() {
        let word = if pages.len() == 1 { "page" } else { "pages" };
        *first = format!("{word} {first}");
    }
    let other = |part: &str| damaged.iter().any(|damage| damage.part == part);
    parts.extend(other("mets").then(|| "METS".to_owned()));
    parts.extend(other("record").then(|| "record".to_owned()));
    if parts.is_empty() || other("volume") {
        parts.insert(0, "all of it".to_owned());
    }
    parts.join(", ")
}

/// A run of pages: the sequences, and the printed numbers, of the first and the last one.
fn joined(first: (u32, Option<&str>), last: (u32, Option<&str>)) -> String {
    let shown = |label: &str| label[..label.floor_char_boundary(SHOWN_LABEL_BYTES_MAX)].to_owned();
    let printed = first.1.zip(last.1).map(|(from, to)| format!(" (printed {})", range(&shown(from), &shown(to))));
    format!("{}{}", range(&first.0.to_string(), &last.0.to_string()), printed.unwrap_or_default())
}

fn range(from: &str, to: &str) -> String {
    if from == to { from.to_owned() } else { format!("{from}-{to}") }
}

/// Number of objects per result.
#[derive(Default)]
struct Count {
    sound: u64,
    damaged: u64,
    failed: u64,
}

impl Count {
    /// Counts a report and prints it; reports of sound objects only as JSON. Returns an error that
    /// all others would have too.
    fn report(&mut self, verified: Verified, form: OutputArgs, output: &mut Output) -> anyhow::Result<()> {
        let Verified { kind, name, report } = verified;
        let report = match report {
            Ok(report) => report,
            Err(error) if error.stops_all() => return Err(error.into()),
            Err(error) => {
                self.failed += 1;
                let reason = exit::full_message(&error);
                return if form.json {
                    output.json(&json!({kind: name, "error": reason}))
                } else {
                    output.line(format!("failed {name}: {reason}"))
                };
            }
        };
        *(if report.is_sound() { &mut self.sound } else { &mut self.damaged }) += 1;
        match (form.json, report.is_sound()) {
            (true, _) => output.json(&report),
            (false, true) => Ok(()),
            (false, false) => output.line(report.summary()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn damaged(part: &str, seq: Option<u32>, label: Option<&str>) -> DamagedMember {
        let (part, label) = (part.to_owned(), label.map(str::to_owned));
        DamagedMember { member: seq.map(|seq| seq - 1), part, seq, label, detail: String::new() }
    }

    #[test]
    fn damaged_pages_are_joined_with_their_printed_numbers() {
        let page = |seq, label| damaged("page", Some(seq), label);
        assert_eq!(which(&[page(21, Some("7"))]), "page 21 (printed 7)");
        let pages = [page(1, None), page(2, None), page(3, Some("i")), page(4, Some("ii")), page(9, None)];
        assert_eq!(which(&pages), "pages 1-2, 3-4 (printed i-ii), 9");
        let [mets, record, whole] = ["mets", "record", "volume"].map(|part| damaged(part, None, None));
        let all = [page(2, None), mets, record];
        assert_eq!(which(&all), "page 2, METS, record");
        assert_eq!(which(&[whole]), "all of it");
        assert_eq!(which(&[page(1, Some(&"é".repeat(50)))]), format!("page 1 (printed {})", "é".repeat(20)));
    }

    #[test]
    fn a_printed_number_commands_no_terminal() {
        let damaged = vec![damaged("page", Some(2), Some("7\u{9b}2J"))];
        let id = "t.a".parse().unwrap();
        let revision = String::new();
        let report = Report::Volume(VolumeReport { id, revision, members: 1, size_bytes: 1, sound: false, damaged });
        assert_eq!(report.summary(), "damaged t.a: page 2 (printed 7 2J): ");
    }
}
