//! The forms in which the audit is printed: for people, as NDJSON, as CSV. Each entry is printed as
//! it arrives.

use ::audit::{AuditEntry, AuditRecord, AuditedVolume, DamagedRecord, Event, EventRecord};
use serde::Deserialize;
use serde_json::{Value, json};
use store::UnixMillis;

use crate::cli::OutputArgs;
use crate::output::Output;

/// The form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
    Csv,
}

/// The columns of CSV.
const COLUMNS: [&str; 15] = [
    "at",
    "kind",
    "action",
    "token",
    "user",
    "address",
    "agent",
    "request_id",
    "target",
    "detail",
    "made",
    "revision",
    "bytes",
    "result",
    "count",
];

impl Form {
    /// Prints what is before all entries.
    pub(super) fn begin(self, output: &mut Output) -> anyhow::Result<()> {
        match self {
            Self::Csv => csv_line(&COLUMNS.map(str::to_owned), output),
            Self::Text | Self::Json => Ok(()),
        }
    }

    /// Prints an entry; returns how many of it cannot be read.
    pub(super) fn show(self, entry: AuditEntry, output: &mut Output) -> anyhow::Result<u64> {
        match entry {
            AuditEntry::Record(record) => self.show_record(&record, output).map(|()| 0),
            AuditEntry::Event(record) => self.show_event(record, output).map(|()| 0),
            AuditEntry::Damaged(damaged) => self.show_damaged(&damaged, output).map(|()| 1),
        }
    }

    fn show_record(self, record: &AuditRecord, output: &mut Output) -> anyhow::Result<()> {
        let at = time(record.at)?;
        let (action, requester) = (record.action.as_str(), &record.requester);
        let volumes = || record.volumes.iter().map(shown).collect::<Vec<_>>();
        match self {
            Self::Json => output.json(&json!({
                "at": at,
                "kind": "text",
                "action": action,
                "name": requester.name,
                "address": requester.address,
                "request_id": requester.request_id,
                "plan": record.plan,
                "part": record.part,
                "volumes": record.volumes,
            })),
            Self::Text => output.line(format!("{at}  {}  {action}  {}", requester.identity(), volumes().join("|"))),
            Self::Csv => {
                let targets: Vec<_> = volumes().into_iter().map(|volume| format!("/volumes/{volume}")).collect();
                let address = requester.address.map(|address| address.to_string()).unwrap_or_default();
                let line = [
                    at,
                    "text".to_owned(),
                    action.to_owned(),
                    requester.name.clone().unwrap_or_default(),
                    String::new(),
                    address,
                    String::new(),
                    requester.request_id.clone(),
                    targets.join("|"),
                    record.plan.clone().unwrap_or_default(),
                    String::new(),
                    String::new(),
                    String::new(),
                    "ok".to_owned(),
                    "1".to_owned(),
                ];
                csv_line(&line, output)
            }
        }
    }

    fn show_event(self, EventRecord { at, event }: EventRecord, output: &mut Output) -> anyhow::Result<()> {
        let at = time(at)?;
        let identity = event.actor.identity();
        let Event { kind, actor, request_id, action, target, detail, made, revision, bytes, result, count } = event;
        let (kind, result) = (kind.as_str(), result.to_string());
        match self {
            Self::Json => output.json(&json!({
                "at": at,
                "kind": kind,
                "action": action,
                "token": actor.token,
                "user": actor.user,
                "address": actor.address,
                "agent": actor.agent,
                "request_id": request_id,
                "target": target,
                "detail": detail,
                "made": made,
                "revision": revision,
                "bytes": bytes,
                "result": result,
                "count": count,
            })),
            Self::Text => {
                let query = detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
                let made = made.map(|made| format!(" -> {made}")).unwrap_or_default();
                let times = if count > 1 { format!("  {count} times") } else { String::new() };
                output
                    .line(plain(&format!("{at}  {identity}  {kind}  {action} {target}{query}{made}  {result}{times}")))
            }
            Self::Csv => {
                let some = |text: Option<String>| text.unwrap_or_default();
                let line = [
                    at,
                    kind.to_owned(),
                    action,
                    some(actor.token),
                    some(actor.user),
                    some(actor.address.map(|address| address.to_string())),
                    some(actor.agent),
                    request_id,
                    target,
                    some(detail),
                    some(made),
                    some(revision),
                    some(bytes.map(|bytes| bytes.to_string())),
                    result,
                    count.to_string(),
                ];
                csv_line(&line, output)
            }
        }
    }

    fn show_damaged(self, damaged: &DamagedRecord, output: &mut Output) -> anyhow::Result<()> {
        let at = time(damaged.at)?;
        match self {
            Self::Json => output.json(&json!({"at": at, "damage": damaged.damage})),
            Self::Text => output.line(format!("{at}  a record cannot be read: {}", damaged.damage)),
            Self::Csv => {
                let mut line = [(); COLUMNS.len()].map(|()| String::new());
                [line[0], line[1], line[9]] = [at, "damaged".to_owned(), damaged.damage.clone()];
                csv_line(&line, output)
            }
        }
    }
}

/// A cell that no spreadsheet takes for a formula. Strangers write some of them.
fn harmless(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula { format!("'{cell}") } else { cell.to_owned() }
}

/// Text of one line that does nothing to a terminal.
fn plain(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().map(escaped).collect()
}

/// Prints a line of CSV (RFC 4180).
fn csv_line(cells: &[String; COLUMNS.len()], output: &mut Output) -> anyhow::Result<()> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(cells.iter().map(|cell| harmless(cell)))?;
    output.bytes(&writer.into_inner().map_err(|error| error.into_error())?)
}

/// A volume with its requested pages.
fn shown(audited: &AuditedVolume) -> String {
    match &audited.pages {
        None => audited.volume.to_string(),
        Some(pages) => {
            let pages: Vec<String> = pages.iter().map(u32::to_string).collect();
            format!("{}[{}]", audited.volume, pages.join(","))
        }
    }
}

fn time(at: UnixMillis) -> anyhow::Result<String> {
    Ok(jiff::Timestamp::from_millisecond(i64::try_from(at.0)?)?.to_string())
}

/// The most requested volumes from the server, each with its number of requests.
#[derive(Deserialize)]
pub(super) struct Top {
    requests: u64,
    /// Number of records that cannot be read.
    damaged: u64,
    volumes: Vec<(String, u64)>,
    requesters: Vec<(String, u64)>,
}

/// Prints the most requested volumes; returns how many records cannot be read.
pub(super) fn show_top(top: &Top, form: OutputArgs, output: &mut Output) -> anyhow::Result<u64> {
    if form.json {
        let counted = |what: &str, counts: &[(String, u64)]| -> Vec<Value> {
            counts.iter().map(|(name, requests)| json!({what: name, "requests": requests})).collect()
        };
        output.json(&json!({
            "requests": top.requests,
            "damaged": top.damaged,
            "volumes": counted("id", &top.volumes),
            "requesters": counted("name", &top.requesters),
        }))?;
        return Ok(top.damaged);
    }
    let rows = |counts: &[(String, u64)]| -> Vec<Vec<String>> {
        counts.iter().map(|(name, requests)| vec![requests.to_string(), name.clone()]).collect()
    };
    output.table(&["requests", "volume"], &rows(&top.volumes))?;
    output.line("")?;
    output.table(&["requests", "requester"], &rows(&top.requesters))?;
    if top.damaged > 0 {
        output.line(format!("\n{} records cannot be read and are not counted", top.damaged))?;
    }
    Ok(top.damaged)
}
