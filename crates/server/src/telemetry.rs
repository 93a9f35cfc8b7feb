//! Logs and metrics of each request. No label and no log line contains a secret. No label contains
//! an address or an id, so that the number of labels is bounded.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{BoxError, response};
use bytes::Bytes;
use door_records::METRICS as RECORDS;
use fixity::Auditor;
use heads::Chore;
use http::{Method, StatusCode, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use library::Library;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use store::{Health, Lane};

use crate::error::ServerError;
use crate::logging;
use crate::request_id::RequestId;
use crate::trace_context::TraceParent;

/// Seconds until the head of a response. The name is OpenTelemetry's, in Prometheus's notation.
const DURATION: &str = "http_server_request_duration_seconds";
const ACTIVE: &str = "http_server_active_requests";
const OPEN: &str = "http_server_open_connections";
const SENT: &str = "http_server_response_body_bytes_total";
const BROKEN: &str = "http_server_responses_broken_total";

const DROPPED_LINES: &str = "penates_log_lines_dropped_total";
const CERTIFICATE_ENDS: &str = "penates_tls_certificate_not_after_timestamp_seconds";
const FAILED_RECORDS: &str = "penates_background_failed_records_total";
const AUDIT_LAG: &str = "penates_audit_lag_seconds";
pub(crate) const AUDIT_OLDEST: &str = "penates_audit_oldest_seconds";
const MEMORY: &str = "penates_memory_taken_bytes";
const REFUSING: &str = "penates_store_refusing_writes";
const FREE: &str = "penates_store_free_bytes";
const UNKNOWN: &str = "penates_store_unknown_contents";
const REPLICATION_LAG: &str = "penates_store_replication_lag_seconds";
const RECLAIM_LAG: &str = "penates_records_reclaim_lag_seconds";
const EXPIRING: &str = "penates_records_expiring";

pub(crate) const FIXITY_ERRORS: &str = "penates_fixity_errors_total";
const FIXITY_OLDEST: &str = "penates_fixity_oldest_check_seconds";
const FIXITY_OBJECTS: &str = "penates_fixity_objects_total";
const FIXITY_BYTES: &str = "penates_fixity_bytes_total";
const FIXITY_DAMAGED: &str = "penates_fixity_damaged_total";
const FIXITY_FAILED: &str = "penates_fixity_failed_total";

pub(crate) const WEBHOOK_LAG: &str = "penates_webhook_lag_seconds";
pub(crate) const WEBHOOK_PARKED: &str = "penates_webhook_parked";
pub(crate) const WEBHOOK_MESSAGES: &str = "penates_webhook_messages_total";

/// How long a scrape waits for the state of the fixity auditor.
const FIXITY_PATIENCE: Duration = Duration::from_secs(2);

/// Characters of a path in the log.
const PATH_CHARS_MAX: usize = 1_024;

/// Characters of a method in the log. A client may send one of any length.
const METHOD_CHARS_MAX: usize = 32;

/// Bounds of the histogram's buckets in seconds: from a cached page to a big plan.
const BUCKETS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Likewise for commands on records.
const RECORDS_BUCKETS: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];

/// The process's metrics; the recorder is installed at the first call.
pub(crate) fn metrics() -> Result<&'static PrometheusHandle, ServerError> {
    static HANDLE: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
    HANDLE.get_or_init(install).as_ref().map_err(|error| ServerError::Telemetry(format!("metrics: {error}")))
}

fn install() -> Result<PrometheusHandle, String> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(DURATION.to_owned()), &BUCKETS)
        .and_then(|builder| {
            builder.set_buckets_for_metric(Matcher::Full(RECORDS.duration.to_owned()), &RECORDS_BUCKETS)
        })
        .map_err(|error| error.to_string())?
        .install_recorder()
        .map_err(|error| error.to_string())?;
    describe_histogram!(DURATION, "Seconds until the head of a response");
    describe_gauge!(ACTIVE, "Requests whose response has not ended");
    describe_gauge!(OPEN, "Open connections");
    describe_counter!(SENT, "Bytes of response bodies");
    describe_counter!(BROKEN, "Responses that ended early");
    describe_counter!(
        DROPPED_LINES,
        "Lines of the log that were dropped, because nobody read those before them or writing failed"
    );
    describe_gauge!(CERTIFICATE_ENDS, "When the certificate of HTTPS expires, in seconds since 1970");
    describe_counter!(FAILED_RECORDS, "Records that a background pass could not process, counted each time");
    describe_gauge!(AUDIT_LAG, "Age of the oldest unacknowledged audit record");
    describe_gauge!(AUDIT_OLDEST, "Age of the oldest hour of the audit, when old records were last deleted");
    describe_gauge!(MEMORY, "Memory of clients' bodies, lists, plans and graphs, of limits.memory");
    describe_gauge!(REFUSING, "1 while a lane of the store refuses writes");
    describe_gauge!(FREE, "Free space on the store's disk");
    describe_gauge!(UNKNOWN, "Files of contents that the database does not know, kept for a grace");
    describe_gauge!(REPLICATION_LAG, "Greatest age of what is visible here of another data center");
    describe_gauge!(RECLAIM_LAG, "How long ago the records had expired that the last sweep deleted, at most");
    describe_gauge!(EXPIRING, "Records that expire in this hour of the clock (0) and in each after it");
    describe_counter!(RECORDS.commands, "Commands on records, by kind and outcome");
    describe_histogram!(RECORDS.duration, "Seconds of commands on records");
    describe_counter!(FIXITY_ERRORS, "How often a fixity pass was interrupted by a failure");
    describe_gauge!(FIXITY_OLDEST, "Everything that was stored so long ago was checked since; infinite before that");
    describe_counter!(FIXITY_OBJECTS, "Volumes and resources that this server's fixity auditor has read");
    describe_counter!(FIXITY_BYTES, "Bytes that this server's fixity auditor has read");
    describe_counter!(FIXITY_DAMAGED, "Damaged objects that this server's fixity auditor has found");
    describe_counter!(FIXITY_FAILED, "Objects that this server's fixity auditor could not read");
    describe_gauge!(WEBHOOK_LAG, "Age of the oldest event that a webhook has not accepted; 0 if there is none");
    describe_gauge!(WEBHOOK_PARKED, "1 while nothing is sent to a webhook until an operator resumes it");
    describe_counter!(WEBHOOK_MESSAGES, "Messages that this server has sent to a webhook, by outcome");
    Ok(handle)
}

/// The text of `/metrics`, with the library's present state.
pub(crate) async fn render(handle: &PrometheusHandle, library: &Library, fixity: Option<&Auditor>) -> Response {
    if let Some(auditor) = fixity {
        tell_fixity(auditor).await;
    }
    tell(library.store().health().await);
    gauge!(AUDIT_LAG).set(library.audit.auditor().lag().as_secs_f64());
    gauge!(MEMORY).set(library.memory.taken_bytes() as f64);
    for chore in Chore::ALL {
        counter!(FAILED_RECORDS, "pass" => chore.name()).absolute(library.heads.failed_records(chore));
    }
    counter!(DROPPED_LINES).absolute(logging::dropped_lines());
    handle.run_upkeep();
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (content_type, handle.render()).into_response()
}

/// Sets the metrics of the fixity auditor.
async fn tell_fixity(auditor: &Auditor) {
    let read = auditor.read_here();
    counter!(FIXITY_OBJECTS, "kind" => "volume").absolute(read.volumes);
    counter!(FIXITY_OBJECTS, "kind" => "resource").absolute(read.resources);
    counter!(FIXITY_BYTES).absolute(read.bytes);
    counter!(FIXITY_DAMAGED).absolute(read.damaged);
    counter!(FIXITY_FAILED).absolute(read.failed);
    let age = auditor.oldest_check_within(FIXITY_PATIENCE).await;
    gauge!(FIXITY_OLDEST).set(age.map_or(f64::INFINITY, |age| age.as_secs_f64()));
}

/// Sets the gauges of a store.
fn tell(health: Health) {
    for lane in Lane::ALL {
        let refuses = health.refusing_writes.contains_key(&lane);
        gauge!(REFUSING, "lane" => lane.name()).set(if refuses { 1.0 } else { 0.0 });
    }
    if let Some(free) = health.free_bytes {
        gauge!(FREE).set(free as f64);
    }
    gauge!(UNKNOWN).set(health.unknown_contents as f64);
    if let Some(lag) = health.reclaim_lag {
        gauge!(RECLAIM_LAG).set(lag.as_secs_f64());
    }
    for (hour, count) in health.expiring.into_iter().enumerate() {
        gauge!(EXPIRING, "hour" => hour.to_string()).set(count as f64);
    }
    for (datacenter, lag) in health.replication_lag {
        gauge!(REPLICATION_LAG, "datacenter" => datacenter).set(lag.as_secs_f64());
    }
}

/// Reports when the certificate of HTTPS expires.
pub(crate) fn tell_certificate(not_after: i64) {
    gauge!(CERTIFICATE_ENDS).set(not_after as f64);
}

/// Counts a connection as long as it lives.
pub(crate) struct OpenConnection(());

impl OpenConnection {
    pub(crate) fn begin() -> Self {
        gauge!(OPEN).increment(1);
        Self(())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        gauge!(OPEN).decrement(1);
    }
}

/// A layer: counts and times each request, and logs how it ended.
pub(crate) async fn observe(request: Request, next: Next) -> response::Response {
    let mut observed = Observed::begin(&request);
    let response = next.run(request).await;
    observed.answered(&response);
    response.map(|body| Body::new(ObservedBody { body, observed }))
}

/// A request, from its beginning to the end of its response's body.
struct Observed {
    method: Method,
    path: String,
    route: String,
    request_id: Option<RequestId>,
    trace: Option<TraceParent>,
    begun: Instant,
    answered_after: Duration,
    status: Option<StatusCode>,
    bytes_promised: Option<u64>,
    bytes_sent: u64,
    is_ended: bool,
}

impl Observed {
    fn begin(request: &Request) -> Self {
        gauge!(ACTIVE).increment(1);
        let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str);
        Self {
            method: request.method().clone(),
            path: cut(request.uri().path(), PATH_CHARS_MAX).into_owned(),
            route: route.to_owned(),
            request_id: request.extensions().get::<RequestId>().cloned(),
            trace: TraceParent::of(request.headers()),
            begun: Instant::now(),
            answered_after: Duration::ZERO,
            status: None,
            bytes_promised: None,
            bytes_sent: 0,
            is_ended: false,
        }
    }

    fn answered(&mut self, response: &Response) {
        let status = response.status();
        self.status = Some(status);
        self.bytes_promised = response.body().size_hint().exact().or_else(|| content_length(response));
        self.is_ended = self.method == Method::HEAD || response.body().is_end_stream();
        self.answered_after = self.begun.elapsed();
        let labels = [
            ("http_request_method", method_label(&self.method).to_owned()),
            ("http_route", self.route.clone()),
            ("http_response_status_code", status.as_u16().to_string()),
        ];
        histogram!(DURATION, &labels).record(self.answered_after.as_secs_f64());
    }

    /// A body of known length need not be polled for its end.
    fn is_whole(&self) -> bool {
        self.is_ended || self.bytes_promised == Some(self.bytes_sent)
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        gauge!(ACTIVE).decrement(1);
        counter!(SENT).increment(self.bytes_sent);
        let is_broken = !self.is_whole();
        if is_broken {
            counter!(BROKEN).increment(1);
        }
        tracing::info!(
            request_id = self.request_id.as_ref().map_or("", RequestId::as_str),
            trace_id = self.trace.as_ref().map(|trace| &trace.trace_id),
            parent_id = self.trace.as_ref().map(|trace| &trace.parent_id),
            method = %cut(self.method.as_str(), METHOD_CHARS_MAX),
            path = self.path,
            status = self.status.map(|status| status.as_u16()),
            bytes = self.bytes_sent,
            answered_ms = millis(self.answered_after),
            ended_ms = millis(self.begun.elapsed()),
            broken = is_broken,
            "request"
        );
    }
}

/// A text of a client for the log. A long one is cut: lines that wait take memory.
fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// The length of a streamed body is in its header.
fn content_length(response: &Response) -> Option<u64> {
    response.headers().get(http::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The known methods, so that a client cannot make labels by inventing methods.
fn method_label(method: &Method) -> &str {
    match *method {
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::DELETE | Method::OPTIONS => method.as_str(),
        _ => "_OTHER",
    }
}

/// A response body whose bytes are counted.
struct ObservedBody {
    body: Body,
    observed: Observed,
}

impl HttpBody for ObservedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                this.observed.bytes_sent += frame.data_ref().map_or(0, |data| data.len() as u64);
                this.observed.is_ended = this.body.is_end_stream();
            }
            Poll::Ready(Some(Err(error))) => {
                tracing::warn!(
                    request_id = this.observed.request_id.as_ref().map_or("", RequestId::as_str),
                    %error,
                    "a response ended early"
                );
            }
            Poll::Ready(None) => this.observed.is_ended = true,
            Poll::Pending => {}
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn the_lag_of_each_other_data_center_is_a_gauge() {
        let handle = metrics().unwrap();
        let lags = [("dc2", 1_500), ("dc3", 0)].map(|(name, ms)| (name.to_owned(), Duration::from_millis(ms)));
        tell(Health { replication_lag: lags.into(), ..Health::default() });
        let told = handle.render();
        for line in [
            "penates_store_replication_lag_seconds{datacenter=\"dc2\"} 1.5\n",
            "penates_store_replication_lag_seconds{datacenter=\"dc3\"} 0\n",
        ] {
            assert!(told.contains(line), "{line} is not in\n{told}");
        }
    }

    /// A request whose response has `body`, after `frames` of it were taken.
    async fn observed(method: Method, body: Body, frames: usize) -> Observed {
        let request = Request::builder().method(method).body(Body::empty()).unwrap();
        let mut observed = Observed::begin(&request);
        let response = Response::new(body);
        observed.answered(&response);
        let mut body = ObservedBody { body: response.into_body(), observed };
        for _ in 0..frames {
            let _ = body.frame().await;
        }
        body.observed
    }

    fn stream() -> Body {
        Body::from_stream(futures::stream::iter(["one", "two"].map(Ok::<_, std::convert::Infallible>)))
    }

    #[tokio::test]
    async fn a_response_is_whole_once_all_of_it_is_taken() {
        assert!(!observed(Method::GET, stream(), 2).await.is_whole());
        let whole = observed(Method::GET, stream(), 3).await;
        assert!(whole.is_whole());
        assert_eq!(whole.bytes_sent, 6);
        assert!(!observed(Method::GET, Body::from("text"), 0).await.is_whole());
        assert!(observed(Method::GET, Body::from("text"), 1).await.is_whole(), "its length is known");
        assert!(observed(Method::GET, Body::empty(), 0).await.is_whole());
        assert!(observed(Method::HEAD, stream(), 0).await.is_whole(), "nothing of it is sent");
    }

    /// The log of `work`, on this thread.
    fn logged(work: impl FnOnce()) -> String {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::fmt().json().with_writer(Lines(lines.clone())).finish();
        tracing::subscriber::with_default(subscriber, work);
        String::from_utf8(lines.lock().clone()).unwrap()
    }

    #[derive(Clone)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl tracing_subscriber::fmt::MakeWriter<'_> for Lines {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn a_request_is_logged_with_its_trace_and_without_its_secrets() {
        let line = logged(|| {
            let request = Request::builder()
                .uri("/volumes?volumeIDs=a.secret")
                .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
                .header("authorization", "Bearer a-secret");
            drop(Observed::begin(&request.body(Body::empty()).unwrap()));
        });
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["fields"]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(line["fields"]["parent_id"], "b7ad6b7169203331");
        assert!(!line.to_string().contains("secret"), "{line}");
        let untraced = logged(|| drop(Observed::begin(&Request::new(Body::empty()))));
        assert!(!untraced.contains("trace_id"), "{untraced}");
    }

    #[test]
    fn a_line_of_a_request_is_bounded_whatever_the_client_sends() {
        let line = logged(|| {
            let request =
                Request::builder().method("M".repeat(100_000).as_str()).uri(format!("/{}", "p".repeat(60_000)));
            drop(Observed::begin(&request.body(Body::empty()).unwrap()));
        });
        assert!(line.len() < 2 * PATH_CHARS_MAX, "{} bytes", line.len());
        assert!(line.contains(&format!("\"{}…\"", "M".repeat(METHOD_CHARS_MAX))), "{line}");
    }

    #[tokio::test]
    async fn a_response_that_fails_is_not_whole() {
        let broken = futures::stream::iter([Ok("one"), Err(std::io::Error::other("damaged"))]);
        assert!(!observed(Method::GET, Body::from_stream(broken), 2).await.is_whole());
    }
}
