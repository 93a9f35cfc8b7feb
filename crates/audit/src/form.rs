//! Entries of the audit as JSON and as CSV, for whoever reads them outside this program.

use serde_json::{Value, json};
use store::UnixMillis;

use crate::event::{Event, EventRecord};
use crate::record::{AuditEntry, AuditRecord, AuditedVolume, DamagedRecord};

/// The columns of CSV.
pub const CSV_COLUMNS: [&str; 16] = [
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
    "transaction",
];

/// A time in RFC 3339.
fn time(at: UnixMillis) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// An entry as an object.
pub fn json(entry: &AuditEntry) -> Value {
    match entry {
        AuditEntry::Record(record) => json_of_record(record),
        AuditEntry::Event(record) => json_of_event(record),
        AuditEntry::Damaged(DamagedRecord { at, damage }) => json!({"at": time(*at), "damage": damage}),
    }
}

fn json_of_record(record: &AuditRecord) -> Value {
    json!({
        "at": time(record.at),
        "kind": "text",
        "action": record.action.as_str(),
        "name": record.requester.name,
        "address": record.requester.address,
        "request_id": record.requester.request_id,
        "plan": record.plan,
        "part": record.part,
        "volumes": record.volumes,
    })
}

fn json_of_event(EventRecord { at, event }: &EventRecord) -> Value {
    let Event { kind, actor, request_id, action, target, detail, made, revision, bytes, result, count, transaction } =
        event;
    json!({
        "at": time(*at),
        "kind": kind.as_str(),
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
        "result": result.to_string(),
        "count": count,
        "transaction": transaction,
    })
}

/// An entry as cells of a table.
pub fn csv_cells(entry: &AuditEntry) -> [String; CSV_COLUMNS.len()] {
    let some = |text: &Option<String>| text.clone().unwrap_or_default();
    match entry {
        AuditEntry::Record(record) => {
            let requester = &record.requester;
            let targets = record.volumes.iter().map(|volume| format!("/volumes/{}", named(volume)));
            [
                time(record.at),
                "text".to_owned(),
                record.action.as_str().to_owned(),
                some(&requester.name),
                String::new(),
                requester.address.map(|address| address.to_string()).unwrap_or_default(),
                String::new(),
                requester.request_id.clone(),
                targets.collect::<Vec<_>>().join("|"),
                some(&record.plan),
                String::new(),
                String::new(),
                String::new(),
                "ok".to_owned(),
                "1".to_owned(),
                String::new(),
            ]
        }
        AuditEntry::Event(EventRecord { at, event }) => [
            time(*at),
            event.kind.as_str().to_owned(),
            event.action.clone(),
            some(&event.actor.token),
            some(&event.actor.user),
            event.actor.address.map(|address| address.to_string()).unwrap_or_default(),
            some(&event.actor.agent),
            event.request_id.clone(),
            event.target.clone(),
            some(&event.detail),
            some(&event.made),
            some(&event.revision),
            event.bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            event.result.to_string(),
            event.count.to_string(),
            some(&event.transaction),
        ],
        AuditEntry::Damaged(DamagedRecord { at, damage }) => {
            let mut cells = [(); CSV_COLUMNS.len()].map(|()| String::new());
            [cells[0], cells[1], cells[9]] = [time(*at), "damaged".to_owned(), damage.clone()];
            cells
        }
    }
}

/// A volume with its requested pages.
pub fn named(audited: &AuditedVolume) -> String {
    match &audited.pages {
        None => audited.volume.to_string(),
        Some(pages) => {
            let pages: Vec<String> = pages.iter().map(u32::to_string).collect();
            format!("{}[{}]", audited.volume, pages.join(","))
        }
    }
}

/// A line of CSV (RFC 4180).
pub fn csv_line(cells: &[String; CSV_COLUMNS.len()]) -> Vec<u8> {
    let mut line = Vec::new();
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(&mut line);
    // Writing into memory never fails.
    let _ = writer.write_record(cells.iter().map(|cell| csv_cell(cell)));
    let _ = writer.flush();
    drop(writer);
    line
}

/// A text from outside as a cell of CSV. Programs for tables run a text that begins like a formula,
/// so it gets an apostrophe before it. Control characters become spaces.
pub fn csv_cell(text: &str) -> String {
    let text = text.replace(char::is_control, " ");
    if text.trim_start().starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, EventResult};

    #[test]
    fn a_text_in_a_cell_is_no_formula_and_has_no_control_characters() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r\n=1"] {
            assert_eq!(csv_cell(formula), format!("'{}", formula.replace(char::is_control, " ")), "{formula:?}");
        }
        assert_eq!(csv_cell("a\nb\u{0}\u{1b}[31m\u{9b}=c"), "a b  [31m =c");
        assert_eq!(csv_cell(""), "");
    }

    #[test]
    fn no_cell_of_an_entry_is_a_formula() {
        let event =
            Event { detail: Some("=1+1".to_owned()), ..Event::of(EventKind::Change, "PUT", "/a,b", EventResult::Done) };
        let line = csv_line(&csv_cells(&AuditEntry::Event(EventRecord { at: UnixMillis(1_000), event })));
        let line = String::from_utf8_lossy(&line).into_owned();
        assert_eq!(line, "1970-01-01T00:00:01Z,change,PUT,,,,,,\"/a,b\",'=1+1,,,,done,1,\r\n");
    }
}
