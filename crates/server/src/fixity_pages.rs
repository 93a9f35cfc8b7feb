//! `/fixity`: what the fixity auditor has read and found, as JSON for programs and as a page for
//! people. It names what is stored, so it needs the right of operators.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytesize::ByteSize;
use door_http::accept::{self, Offer};
use door_http::page::{self, STYLE_PATH, wide};
use door_http::{Page, Path, Place, Reason};
use fixity::{Auditor, PassReport, ReportedFinding};
use heads::ObjectsError;
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;
use store::UnixMillis;

use crate::problem;

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
    records: u64,
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
    /// `volume`, `resource`, `record` or `records`.
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
    /// `description`, `bytes`, `page 21 (printed 7)`, `METS`; empty for all of it.
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
            records: report.records,
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
    Ok(if html { shown_page("Fixity", "./", &overview_page(&overview)) } else { sent(Json(overview)) })
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
    Ok(if html {
        shown_page(&format!("Fixity pass {number}"), "../", &report_page(&report))
    } else {
        sent(Json(report))
    })
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

fn shown_page(title: &str, to_root: &str, content: &Markup) -> Response {
    let page = Page {
        title: title.to_owned(),
        style: format!("{to_root}{STYLE_PATH}"),
        home: to_root.to_owned(),
        places: vec![Place::new("Volumes", to_root), Place::new("Fixity", format!("{to_root}fixity"))],
        ..Page::default()
    };
    let headers = [
        (header::CONTENT_TYPE, page::TYPE),
        (header::CONTENT_SECURITY_POLICY, page::SECURITY_POLICY),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    sent((headers, page.with(content)))
}

fn overview_page(overview: &Overview) -> Markup {
    let running = overview.present.iter().filter(|pass| pass.ended.is_none());
    let passes: Vec<_> = running.chain(&overview.passes).collect();
    html! {
        @match (&overview.present, overview.oldest_check_seconds) {
            (None, _) => p { "No pass has begun yet." },
            (_, None) => p { "Not everything was checked yet." },
            (_, Some(seconds)) => p { "Everything that was stored " (seconds / 3_600) " hours ago was checked since." },
        }
        @if !passes.is_empty() { (wide(None, &table_of(&passes))) }
        @if overview.unreadable_reports > 0 {
            p { "Reports that are damaged: " (overview.unreadable_reports) "." }
        }
    }
}

/// Passes, with links to their reports.
fn table_of(passes: &[&ShownPass]) -> Markup {
    html! {
        table {
            thead {
                tr {
                    @for heading in ["Pass", "Begun", "Ended"] { th scope="col" { (heading) } }
                    @for heading in ["Read", "Damaged", "Failed"] { th.number scope="col" { (heading) } }
                }
            }
            tbody {
                @for pass in passes {
                    tr {
                        th scope="row" { a href={ "fixity/" (pass.pass) } { (pass.pass) } }
                        td { (time(&pass.begun)) }
                        td { (ended(pass)) }
                        td.number { (size(pass.size_bytes)) }
                        td.number { (pass.damaged) }
                        td.number { (pass.failed) }
                    }
                }
            }
        }
    }
}

fn ended(pass: &ShownPass) -> Markup {
    html! { @if let Some(text) = &pass.ended { (time(text)) } @else { "running" } }
}

/// A time as people read it, of one in RFC 3339.
fn time(text: &str) -> Markup {
    let shown = match text.split_once('T') {
        Some((day, clock)) => format!("{day} {} UTC", clock.get(..8).unwrap_or(clock)),
        None => text.to_owned(),
    };
    html! { time datetime=(text) { (shown) } }
}

/// A size in bytes, in decimal units.
fn size(len_bytes: u64) -> String {
    ByteSize::b(len_bytes).display().si().to_string()
}

fn report_page(report: &Report) -> Markup {
    let pass = &report.pass;
    let counts = [
        ("Volumes", pass.volumes),
        ("Resources", pass.resources),
        ("Records", pass.records),
        ("Damaged", pass.damaged),
        ("Failed", pass.failed),
    ];
    html! {
        dl.about {
            dt { "Begun" } dd { (time(&pass.begun)) }
            dt { "Ended" } dd { (ended(pass)) }
            dt { "Read" } dd { (size(pass.size_bytes)) }
            @for (name, count) in counts { dt { (name) } dd { (count) } }
        }
        @if report.findings.is_empty() {
            p { "Nothing was found damaged." }
        } @else {
            h2 { "Findings" }
            (findings(&report.findings))
        }
        @if report.unlisted > 0 { p { (report.unlisted) " more are not listed; the log names them." } }
    }
}

fn findings(findings: &[ShownFinding]) -> Markup {
    let table = html! {
        table {
            thead {
                tr { @for heading in ["Kind", "Name", "Found", "What", "Details"] { th scope="col" { (heading) } } }
            }
            tbody {
                @for finding in findings {
                    tr {
                        td { (finding.kind) }
                        td { (finding.name) }
                        td { (time(&finding.at)) }
                        td { @if finding.damaged { "damaged" } @else { "not readable" } }
                        td { (details(finding)) }
                    }
                }
            }
        }
    };
    wide(Some("Findings"), &table)
}

fn details(finding: &ShownFinding) -> String {
    let details = finding.parts.iter().map(|part| match part.part.is_empty() {
        true => part.detail.clone(),
        false => format!("{}: {}", part.part, part.detail),
    });
    let mut details: Vec<_> = details.collect();
    details.extend((finding.more > 0).then(|| format!("and {} more parts", finding.more)));
    details.join("; ")
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
        let table = findings(&[finding]).into_string();
        assert!(table.starts_with("<div class=\"wide\" tabindex=\"0\" role=\"region\""), "{table}");
        assert!(table.contains("<td>/&lt;b&gt;&amp;&quot;'</td>"), "{table}");
        assert!(table.contains("<td>bytes: &lt;script&gt;; and 2 more parts</td>"), "{table}");
    }
}
