//! `/fixity`: what the fixity auditor has read and found, as JSON for programs and as a page for
//! people. It names what is stored, so it needs the right of operators.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use door_http::Reason;
use door_http::accept::{self, Offer};
use fixity::{Auditor, PassReport, ReportedFinding};
use heads::ObjectsError;
use http::{HeaderMap, header};
use jiff::Timestamp;
use serde::Serialize;
use store::UnixMillis;

use crate::problem;

/// A page may load only its own stylesheet, and run nothing.
const SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(crate) fn routes(auditor: Arc<Auditor>) -> Router {
    Router::new().route("/fixity", get(overview)).route("/fixity/{pass}", get(report)).with_state(auditor)
}

/// A pass, in JSON.
#[derive(Serialize)]
struct ShownPass {
    pass: u32,
    begun: String,
    /// None while it runs.
    ended: Option<String>,
    volumes: u64,
    resources: u64,
    size_bytes: u64,
    /// Objects with damage.
    damaged: u64,
    /// Objects that could not be read for another reason.
    failed: u64,
}

/// The state of the auditor, in JSON.
#[derive(Serialize)]
struct Overview {
    /// From the beginning of a pass to that of the next one.
    every_seconds: u64,
    /// Most bytes per second of this server; 0: no limit.
    rate: u64,
    /// Everything that was stored so long ago was checked since.
    oldest_check_seconds: Option<u64>,
    /// Servers that are reading now.
    readers: usize,
    /// The present pass, or the last one.
    present: Option<ShownPass>,
    /// The passes that have ended, the last one first.
    passes: Vec<ShownPass>,
    /// How many reports are damaged and therefore missing here.
    unreadable_reports: usize,
}

/// A report, in JSON.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    pass: ShownPass,
    findings: Vec<ShownFinding>,
    /// How many more findings there are: too many, or damaged themselves.
    unlisted: u64,
}

/// What is wrong with an object.
#[derive(Serialize)]
struct ShownFinding {
    /// `volume` or `resource`.
    kind: &'static str,
    name: String,
    at: String,
    /// Whether it is damaged; otherwise it could not be read.
    damaged: bool,
    parts: Vec<ShownPart>,
    /// How many more parts are damaged.
    more: u32,
}

/// A damaged part.
#[derive(Serialize)]
struct ShownPart {
    /// `description`, `bytes`, `member 3`; empty for all of it.
    part: String,
    detail: String,
}

impl From<&PassReport> for ShownPass {
    fn from(report: &PassReport) -> Self {
        let found = report.found;
        Self {
            pass: report.number,
            begun: shown(report.begun),
            ended: report.ended.map(shown),
            volumes: found.volumes,
            resources: found.resources,
            size_bytes: found.bytes,
            damaged: found.damaged,
            failed: found.failed,
        }
    }
}

impl From<ReportedFinding> for ShownFinding {
    fn from(finding: ReportedFinding) -> Self {
        let ReportedFinding { kind, name, at, is_damaged, parts, more } = finding;
        let parts = parts.into_iter().map(|(part, detail)| ShownPart { part, detail }).collect();
        Self { kind, name, at: shown(at), damaged: is_damaged, parts, more }
    }
}

/// A time in RFC 3339.
fn shown(time: UnixMillis) -> String {
    let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX).to_string()
}

/// `GET /fixity`.
async fn overview(State(auditor): State<Arc<Auditor>>, headers: HeaderMap) -> Result<Response, Response> {
    let html = wants_html(&headers).ok_or_else(not_acceptable)?;
    let status = auditor.status().await.map_err(|error| problem::of_library(&error))?;
    let reports = auditor.reports().await.map_err(|error| problem::of_library(&error))?;
    let overview = Overview {
        every_seconds: auditor.options().every.as_secs(),
        rate: auditor.options().bytes_per_second,
        oldest_check_seconds: status.oldest_check(auditor.now()).map(|age| age.as_secs()),
        readers: status.readers,
        present: status.present.as_ref().map(ShownPass::from),
        passes: reports.passes.iter().rev().map(ShownPass::from).collect(),
        unreadable_reports: reports.unreadable,
    };
    Ok(if html { page("Fixity", &overview_page(&overview)) } else { sent(Json(overview)) })
}

/// `GET /fixity/{pass}`.
async fn report(
    State(auditor): State<Arc<Auditor>>,
    Path(pass): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let html = wants_html(&headers).ok_or_else(not_acceptable)?;
    let absent = || problem::of_library(&ObjectsError::Absent(format!("a report on fixity pass {pass}")));
    let number = pass.parse().map_err(|_| absent())?;
    let (report, findings) = auditor.report(number).await.map_err(|error| problem::of_library(&error))?;
    let unlisted = (report.found.damaged + report.found.failed).saturating_sub(findings.len() as u64);
    let findings = findings.into_iter().map(ShownFinding::from).collect();
    let report = Report { pass: ShownPass::from(&report), findings, unlisted };
    Ok(if html { page(&format!("Fixity pass {number}"), &report_page(&report)) } else { sent(Json(report)) })
}

/// Whether a client prefers a page; `None`: it accepts neither that nor JSON.
fn wants_html(headers: &HeaderMap) -> Option<bool> {
    let offers = [Offer::new("application/json", false), Offer::new("text/html", true)];
    accept::media_type(headers, &offers).copied()
}

fn not_acceptable() -> Response {
    problem::respond(Reason::NOT_ACCEPTABLE, "this is offered as application/json and as text/html")
}

fn sent(body: impl IntoResponse) -> Response {
    ([(header::VARY, "accept"), (header::CACHE_CONTROL, "no-store")], body).into_response()
}

fn page(title: &str, main: &str) -> Response {
    let title = escaped(title);
    let html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title><link rel=\"stylesheet\" \
         href=\"/assets/page.css\"></head>\n<body><main><h1>{title}</h1>\n{main}</main></body></html>\n"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, SECURITY_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    sent((headers, html))
}

const HEADINGS: [&str; 8] = ["Pass", "Begun", "Ended", "Volumes", "Resources", "Bytes", "Damaged", "Failed"];

fn overview_page(overview: &Overview) -> String {
    let mut html = match (&overview.present, overview.oldest_check_seconds) {
        (None, _) => "<p>No pass has begun yet.</p>\n".to_owned(),
        (_, None) => "<p>Not everything was checked yet.</p>\n".to_owned(),
        (_, Some(seconds)) => {
            let hours = seconds / 3_600;
            format!("<p>Everything that was stored {hours} hours ago was checked since.</p>\n")
        }
    };
    let running = overview.present.iter().filter(|pass| pass.ended.is_none());
    html += &table(&HEADINGS, running.chain(&overview.passes).map(pass_cells));
    if overview.unreadable_reports > 0 {
        let _ = writeln!(html, "<p>Reports that are damaged: {}.</p>", overview.unreadable_reports);
    }
    html
}

fn pass_cells(pass: &ShownPass) -> Vec<String> {
    let mut cells = vec![
        format!("<a href=\"/fixity/{}\">{}</a>", pass.pass, pass.pass),
        pass.begun.clone(),
        pass.ended.clone().unwrap_or_else(|| "running".to_owned()),
    ];
    let numbers = [pass.volumes, pass.resources, pass.size_bytes, pass.damaged, pass.failed];
    cells.extend(numbers.map(|number| number.to_string()));
    cells
}

fn report_page(report: &Report) -> String {
    let mut html = table(&HEADINGS, [pass_cells(&report.pass)]);
    if report.findings.is_empty() {
        html += "<p>Nothing was found damaged.</p>\n";
        return html;
    }
    html += "<h2>Findings</h2>\n";
    html += &table(&["Kind", "Name", "Found", "What", "Details"], report.findings.iter().map(finding_cells));
    if report.unlisted > 0 {
        let _ = writeln!(html, "<p>{} more are not listed; the log names them.</p>", report.unlisted);
    }
    html
}

fn finding_cells(finding: &ShownFinding) -> Vec<String> {
    let details = finding.parts.iter().map(|part| match part.part.is_empty() {
        true => part.detail.clone(),
        false => format!("{}: {}", part.part, part.detail),
    });
    let mut details: Vec<_> = details.collect();
    details.extend((finding.more > 0).then(|| format!("and {} more parts", finding.more)));
    vec![
        finding.kind.to_owned(),
        escaped(&finding.name),
        finding.at.clone(),
        if finding.damaged { "damaged" } else { "not readable" }.to_owned(),
        escaped(&details.join("; ")),
    ]
}

/// A table of cells that are HTML already.
fn table(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut html = "<table><thead><tr>".to_owned();
    headings.iter().for_each(|heading| html += &format!("<th scope=\"col\">{heading}</th>"));
    html += "</tr></thead><tbody>\n";
    for row in rows {
        html += "<tr>";
        row.iter().for_each(|cell| html += &format!("<td>{cell}</td>"));
        html += "</tr>\n";
    }
    html + "</tbody></table>\n"
}

/// Text with markup characters as references.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_details_in_a_page_are_escaped() {
        let part = ShownPart { part: "bytes".to_owned(), detail: "<script>".to_owned() };
        let finding = ShownFinding {
            kind: "resource",
            name: "/<b>&\"'".to_owned(),
            at: shown(UnixMillis(0)),
            damaged: true,
            parts: vec![part],
            more: 2,
        };
        let cells = finding_cells(&finding);
        assert_eq!(cells[1], "/&lt;b&gt;&amp;&quot;&#39;");
        assert_eq!(cells[4], "bytes: &lt;script&gt;; and 2 more parts");
    }
}
