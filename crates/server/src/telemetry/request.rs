//! Counts, times and logs each request. No log line contains a secret. No label contains an address
//! or an id, so that the number of labels is bounded.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use bytes::Bytes;
use door_http::Reason;
use http::{Method, StatusCode};
use http_body::{Body as _, Frame};
use metrics::{counter, gauge, histogram};
use opentelemetry::trace::{
    FutureExt, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
};
use opentelemetry::{Context as TraceContext, KeyValue};

use super::families::{ACTIVE, BROKEN, DURATION, OPEN, PROBLEMS, SENT};
use crate::access::TokenName;
use crate::next::Next;
use crate::observed_body::{ObservedBody, Observer, bytes_of};
use crate::otlp;
use crate::peer::Peer;
use crate::places::Places;
use crate::request_id::RequestId;
use crate::trace_context::TraceParent;

/// Characters of a path in the log.
const PATH_CHARS_MAX: usize = 1_024;

/// Characters of a method in the log. A client may send one of any length.
const METHOD_CHARS_MAX: usize = 32;

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
pub(crate) async fn observe(places: &Places, request: Request, next: impl Next) -> Response {
    let mut observed = Observed::begin(&request, &places.repository);
    let response = match &observed.span {
        Some(span) => next.run(request).with_context(span.clone()).await,
        None => next.run(request).await,
    };
    observed.answered(&response);
    response.map(|body| Body::new(ObservedBody { body, observer: observed }))
}

/// A request, from its beginning to the end of its response's body.
struct Observed {
    method: Method,
    path: String,
    route: String,
    /// The door that serves it.
    door: &'static str,
    client: Option<IpAddr>,
    token: Option<String>,
    request_id: Option<RequestId>,
    trace: Option<TraceParent>,
    /// Its span, if it is traced.
    span: Option<TraceContext>,
    begun: Instant,
    answered_after: Duration,
    status: Option<StatusCode>,
    bytes_promised: Option<u64>,
    bytes_sent: u64,
    is_ended: bool,
}

impl Observed {
    /// `repository`: as in [`Places`].
    fn begin(request: &Request, repository: &str) -> Self {
        gauge!(ACTIVE).increment(1);
        let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str);
        let trace = TraceParent::of(request.headers());
        let span = begin_span(request.method(), route, trace.as_ref());
        Self {
            span,
            method: request.method().clone(),
            path: cut(request.uri().path(), PATH_CHARS_MAX).into_owned(),
            route: route.to_owned(),
            door: door_of(route, repository),
            client: request.extensions().get::<Peer>().map(|peer| peer.address),
            token: None,
            request_id: request.extensions().get::<RequestId>().cloned(),
            trace,
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
        self.token = response.extensions().get().map(|TokenName(name)| name.clone());
        if let Some(Reason { kind, .. }) = response.extensions().get() {
            counter!(PROBLEMS, "kind" => *kind).increment(1);
        }
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

    /// Ends its span, with what is known of the response. Unlike the line of the log, a span names
    /// neither the client nor its token: a collector may be elsewhere.
    fn end_span(&self, is_broken: bool) {
        let Some(span) = &self.span else { return };
        let span = span.span();
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let status = self.status.map_or(0, |status| status.as_u16());
        span.set_attribute(KeyValue::new("url.path", self.path.clone()));
        span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        span.set_attribute(KeyValue::new("http.response.body.size", number(self.bytes_sent)));
        span.set_attribute(KeyValue::new("penates.door", self.door));
        if let Some(id) = &self.request_id {
            span.set_attribute(KeyValue::new("penates.request_id", id.as_str().to_owned()));
        }
        if status >= 500 || is_broken {
            span.set_status(Status::error(if is_broken { "the response ended early" } else { "" }));
        }
        span.end();
    }

    /// A body of known length need not be polled for its end.
    fn is_whole(&self) -> bool {
        self.is_ended || self.bytes_promised == Some(self.bytes_sent)
    }
}

impl Observer for Observed {
    fn taken(&mut self, frame: Option<Result<&Frame<Bytes>, &axum::Error>>, is_last: bool) {
        match frame {
            Some(Ok(frame)) => {
                self.bytes_sent += bytes_of(frame);
                self.is_ended = is_last;
            }
            Some(Err(error)) => {
                let request_id = self.request_id.as_ref().map_or("", RequestId::as_str);
                tracing::warn!(request_id, %error, "a response ended early");
            }
            None => self.is_ended = true,
        }
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
        self.end_span(is_broken);
        tracing::info!(
            request_id = self.request_id.as_ref().map_or("", RequestId::as_str),
            trace_id = self.trace.as_ref().map(|trace| &trace.trace_id),
            parent_id = self.trace.as_ref().map(|trace| &trace.parent_id),
            client = self.client.map(tracing::field::display),
            token = self.token,
            door = self.door,
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

/// Begins the span of a request, if there is a tracer: within the client's trace, if it has one.
fn begin_span(method: &Method, route: &str, trace: Option<&TraceParent>) -> Option<TraceContext> {
    let tracer = otlp::tracer()?;
    let parent = trace
        .and_then(span_context)
        .map_or_else(TraceContext::new, |parent| TraceContext::new().with_remote_span_context(parent));
    let method = method_label(method);
    let attributes =
        [KeyValue::new("http.request.method", method.to_owned()), KeyValue::new("http.route", route.to_owned())];
    let span = tracer.span_builder(format!("{method} {route}")).with_kind(SpanKind::Server).with_attributes(attributes);
    Some(parent.with_span(tracer.build_with_context(span, &parent)))
}

/// The client's span.
fn span_context(trace: &TraceParent) -> Option<SpanContext> {
    let (trace_id, parent) = (TraceId::from_hex(&trace.trace_id).ok()?, SpanId::from_hex(&trace.parent_id).ok()?);
    let flags = if trace.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    Some(SpanContext::new(trace_id, parent, flags, true, TraceState::default()))
}

/// The door that serves a route. `repository` is the path of the repository, with a slash at the
/// end.
fn door_of(route: &str, repository: &str) -> &'static str {
    if route.starts_with(repository) || route == repository.trim_end_matches('/') {
        return "repository";
    }
    let first = route.trim_start_matches('/').split('/').next().unwrap_or_default();
    match first {
        "feed" => "feed",
        name if name.starts_with("records") => "records",
        "" | "other" | "healthz" | "readyz" | "metrics" | "stat" | "fixity" | "audit" | "admin" | "assets"
        | "sign-in" | "sign-out" => "server",
        name if name.starts_with("openapi") => "server",
        _ => "data",
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
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH | Method::DELETE | Method::OPTIONS => {
            method.as_str()
        }
        _ => "_OTHER",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use parking_lot::Mutex;

    use super::*;

    /// A request whose response has `body`, after `frames` of it were taken.
    async fn observed(method: Method, body: Body, frames: usize) -> Observed {
        let request = Request::builder().method(method).body(Body::empty()).unwrap();
        let mut observed = Observed::begin(&request, "/rest/");
        let response = Response::new(body);
        observed.answered(&response);
        let mut body = ObservedBody { body: response.into_body(), observer: observed };
        for _ in 0..frames {
            let _ = body.frame().await;
        }
        body.observer
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
            drop(Observed::begin(&request.body(Body::empty()).unwrap(), "/rest/"));
        });
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["fields"]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(line["fields"]["parent_id"], "b7ad6b7169203331");
        assert!(!line.to_string().contains("secret"), "{line}");
        let untraced = logged(|| drop(Observed::begin(&Request::new(Body::empty()), "/rest/")));
        assert!(!untraced.contains("trace_id"), "{untraced}");
    }

    #[test]
    fn a_method_that_is_served_is_a_label_and_an_invented_one_is_not() {
        assert_eq!(method_label(&Method::PATCH), "PATCH");
        assert_eq!(method_label(&Method::from_bytes(b"BREW").unwrap()), "_OTHER");
    }

    #[test]
    fn each_route_belongs_to_a_door() {
        let doors = [
            "/volumes/{id}",
            "/data/pages",
            "/rest/{*path}",
            "/rest",
            "/records:batchGet",
            "/feed",
            "/openapi.json",
            "/audit",
            "/",
        ];
        let expected = ["data", "data", "repository", "repository", "records", "feed", "server", "server", "server"];
        assert_eq!(doors.map(|route| door_of(route, "/rest/")), expected);
        let elsewhere = ["/books/rest/", "/books/rest/volumes/{id}", "/books/restored", "/rest/{*path}"];
        let expected = ["repository", "repository", "data", "data"];
        assert_eq!(elsewhere.map(|route| door_of(route, "/books/rest/")), expected);
    }

    #[test]
    fn a_line_of_a_request_is_bounded_whatever_the_client_sends() {
        let line = logged(|| {
            let request =
                Request::builder().method("M".repeat(100_000).as_str()).uri(format!("/{}", "p".repeat(60_000)));
            drop(Observed::begin(&request.body(Body::empty()).unwrap(), "/rest/"));
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
