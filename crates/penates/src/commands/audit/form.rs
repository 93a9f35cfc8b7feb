//! The forms in which the audit is printed: for people, as NDJSON, as CSV. Each entry is printed as
//! it arrives.

use ::audit::{AuditEntry, Event, EventRecord, form};
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

impl Form {
    /// Prints what is before all entries.
    pub(super) fn begin(self, output: &mut Output) -> anyhow::Result<()> {
        match self {
            Self::Csv => output.bytes(&form::csv_line(&form::CSV_COLUMNS.map(str::to_owned))),
            Self::Text | Self::Json => Ok(()),
        }
    }

    /// Prints an entry; returns how many of it cannot be read.
    pub(super) fn show(self, entry: &AuditEntry, output: &mut Output) -> anyhow::Result<u64> {
        match self {
            Self::Csv => output.bytes(&form::csv_line(&form::csv_cells(entry)))?,
            Self::Json => output.json(&form::json(entry))?,
            Self::Text => output.line(text(entry)?)?,
        }
        Ok(u64::from(matches!(entry, AuditEntry::Damaged(_))))
    }
}

/// A line for people.
fn text(entry: &AuditEntry) -> anyhow::Result<String> {
    Ok(match entry {
        AuditEntry::Record(record) => {
            let volumes = record.volumes.iter().map(form::named).collect::<Vec<_>>();
            let (at, action) = (time(record.at)?, record.action.as_str());
            format!("{at}  {}  {action}  {}", record.requester.identity(), volumes.join("|"))
        }
        AuditEntry::Event(EventRecord { at, event }) => {
            let (at, identity) = (time(*at)?, event.actor.identity());
            let Event { kind, action, target, detail, made, result, count, .. } = event;
            let query = detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
            let made = made.as_ref().map(|made| format!(" -> {made}")).unwrap_or_default();
            let times = if *count > 1 { format!("  {count} times") } else { String::new() };
            let kind = kind.as_str();
            plain(&format!("{at}  {identity}  {kind}  {action} {target}{query}{made}  {result}{times}"))
        }
        AuditEntry::Damaged(damaged) => format!("{}  a record cannot be read: {}", time(damaged.at)?, damaged.damage),
    })
}

/// Text of one line that does nothing to a terminal.
fn plain(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().map(escaped).collect()
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
    /// By how much the number of a volume may be too low.
    volumes_margin: u64,
    requesters: Vec<(String, u64)>,
    requesters_margin: u64,
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
            "volumes_margin": top.volumes_margin,
            "requesters": counted("name", &top.requesters),
            "requesters_margin": top.requesters_margin,
        }))?;
        return Ok(top.damaged);
    }
    let rows = |counts: &[(String, u64)]| -> Vec<Vec<String>> {
        counts.iter().map(|(name, requests)| vec![requests.to_string(), name.clone()]).collect()
    };
    output.table(&["requests", "volume"], &rows(&top.volumes))?;
    output.line("")?;
    output.table(&["requests", "requester"], &rows(&top.requesters))?;
    for (counted, margin) in [("volume", top.volumes_margin), ("requester", top.requesters_margin)] {
        if margin > 0 {
            output.line(format!("\nthe requests of each {counted} are approximate: up to {margin} may be missing"))?;
        }
    }
    if top.damaged > 0 {
        output.line(format!("\n{} records cannot be read and are not counted", top.damaged))?;
    }
    Ok(top.damaged)
}
