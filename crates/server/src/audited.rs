//! Records in the audit what was changed, by whom and how it ended; refusals; and reads of
//! resources, if they are to be recorded. (The data door itself records requests for text.)
//!
//! A change has one record, when its outcome is known and before its answer. If nobody waits for
//! the outcome any more, or the handler fails, the record says that it is unknown. Single records
//! of the records door are not recorded: there are too many.
//!
//! What is requested in a transaction of the repository has not happened yet. It is recorded as
//! staged, and the commit as the change. Both name the transaction.

use std::sync::Arc;

use audit::{Actor, Audit, Event, EventKind, EventResult, Requester};
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use door_http::{Acted, Made, Reason};
use door_ldp::LdpSettings;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use percent_encoding::percent_decode_str;

use crate::access::Via;
use crate::audit_routes;
use crate::config::{AuditConfig, AuditMode, Config};
use crate::local_user::LocalUser;
use crate::next::Next;
use crate::problem;

/// Routes whose POST changes nothing: a request may be too long for a URL. The data door records
/// what is requested there.
const READ_BY_POST: [&str; 4] = ["/volumes", "/pages", "/tokencount", "/selections"];

/// Routes whose POST reads everything again, and changes nothing.
const VERIFYING: [&str; 2] = ["/volumes/{id}/verify", "/fcr:verify"];

/// How routes of records begin.
const RECORDS: [&str; 2] = ["/records/", "/records:"];

/// The route of a selection. Whoever may read may delete one, so failures of that are not recorded.
const SELECTION: &str = "/selections/{selection}";

/// Where people sign in and out with a browser, which changes nothing here.
const SIGNING: [&str; 2] = ["/sign-in", "/sign-out"];

/// The routes of the audit. Whoever reads it is recorded.
const AUDIT: [&str; 2] = ["/admin/audit", audit_routes::PATH];

/// What begins the addresses of transactions, in the path of the repository.
const TRANSACTIONS: &str = "fcr:tx/";

/// The route that makes tokens. The name is in the query.
const TOKENS: &str = "/admin/tokens";

/// What is recorded of one way in.
pub(crate) struct Trail {
    audit: Audit,
    changes: AuditMode,
    resource_reads: AuditMode,
    is_for_admins: bool,
    /// The path below which clients see the server, which is in no record; empty: they see it at the
    /// root.
    mount: String,
    /// The path of the repository.
    base: String,
    /// The second path of the data door.
    prefix: String,
    /// The user of this process, for requests that it makes itself.
    user: Option<String>,
}

impl Trail {
    /// `None`: nothing is to be recorded.
    pub(crate) fn new(via: Via, audit: Audit, config: &Config, ldp: &LdpSettings) -> Option<Arc<Self>> {
        let AuditConfig { changes, resource_reads, .. } = config.audit;
        if [changes, resource_reads] == [AuditMode::Off; 2] {
            return None;
        }
        let user = (via == Via::InProcess).then(|| LocalUser::of_this_process().name());
        Some(Arc::new(Self {
            audit,
            changes,
            resource_reads,
            is_for_admins: via.is_admin(),
            mount: ldp.mount.clone(),
            base: ldp.base.clone(),
            prefix: config.data.prefix.clone(),
            user,
        }))
    }

    fn mode(&self, kind: EventKind, route: &str) -> AuditMode {
        match kind {
            EventKind::Read if !AUDIT.contains(&route) => self.resource_reads,
            _ => self.changes,
        }
    }

    /// What is to be recorded of a request for a route, and how.
    fn wanted(&self, method: &Method, route: &str) -> Option<(EventKind, AuditMode)> {
        let kind = self.kind(method, route)?;
        let mode = self.mode(kind, route);
        (mode != AuditMode::Off).then_some((kind, mode))
    }

    fn kind(&self, method: &Method, route: &str) -> Option<EventKind> {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        if is_read && (AUDIT.contains(&route) || self.is_resource(route)) {
            return Some(EventKind::Read);
        }
        let is_reading = *method == Method::POST && self.is_read_by_post(route);
        let is_record = RECORDS.iter().any(|begin| route.starts_with(begin));
        let is_other = method.is_safe() || is_reading || is_record || is_copying(route) || SIGNING.contains(&route);
        (!is_other).then_some(EventKind::Change)
    }

    /// The transaction that a request is about, and whether it only stages something: everything
    /// but a commit does.
    fn transaction(&self, request: &Request, route: &str) -> Option<(String, bool)> {
        if !self.is_resource(route) {
            return None;
        }
        let path = decoded(request.uri().path());
        let below = path.strip_prefix(self.base.as_str()).map(|below| below.trim_start_matches('/'))?;
        if let Some(id) = below.strip_prefix(TRANSACTIONS) {
            return Some((id.to_owned(), request.method() != Method::PUT));
        }
        let named = request.headers().get(door_ldp::ATOMIC_ID)?.to_str().ok()?;
        let (_, id) = named.rsplit_once(TRANSACTIONS)?;
        // The door makes no transaction in one.
        (below != TRANSACTIONS.trim_end_matches('/')).then(|| (id.to_owned(), true))
    }

    fn is_read_by_post(&self, route: &str) -> bool {
        let of_data = self.of_data(route);
        let of_resources = route.strip_prefix(self.base.as_str()).unwrap_or(route);
        READ_BY_POST.contains(&of_data) || VERIFYING.contains(&of_data) || VERIFYING.contains(&of_resources)
    }

    /// A route without the second path of the data door.
    fn of_data<'a>(&self, route: &'a str) -> &'a str {
        let below = route.strip_prefix(self.prefix.as_str()).filter(|below| below.starts_with('/'));
        below.unwrap_or(route)
    }

    /// A path that clients see, as the server itself names it.
    fn own<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(self.mount.as_str()).filter(|below| below.starts_with('/')).unwrap_or(path)
    }

    /// The path of what was made, decoded, if the target does not say it.
    fn made(&self, address: &str, target: &str) -> Option<String> {
        let path = path_of(address);
        Some(self.own(&path).to_owned()).filter(|made| made != target)
    }

    fn is_resource(&self, route: &str) -> bool {
        let below = route.strip_prefix(self.base.as_str());
        below.is_some_and(|below| below.is_empty() || below == "/" || below == "/{*path}")
    }
}

/// Whether the route is one of those that copies of the whole store read from.
fn is_copying(route: &str) -> bool {
    [store::wire::PATH, store::wire::CONTENT_PATH, store::wire::CHANGES_PATH].contains(&route)
}

/// A layer: records what its requests do.
pub(crate) async fn record(trail: &Trail, request: Request, next: impl Next) -> Response {
    let auditor = trail.audit.auditor();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("", MatchedPath::as_str);
    let wanted = if route.is_empty() { None } else { trail.wanted(request.method(), route) };
    let transaction = trail.transaction(&request, route);
    let asked = Asked { transaction, ..Asked::of(&request, trail.user.as_ref()) };
    let Some((kind, mode)) = wanted else {
        let response = next.run(request).await;
        if is_refusal(response.status()) && trail.changes != AuditMode::Off {
            auditor.refused(asked.event(trail, EventKind::Refusal, &response));
        }
        return response;
    };
    let lag = auditor.check_lag();
    if let (Err(error), false) = (&lag, trail.is_for_admins) {
        return problem::of_library(error);
    }
    let mut open = Open { trail, asked: (kind == EventKind::Change).then(|| asked.clone()) };
    let response = next.run(request).await;
    open.asked = None;
    let status = response.status();
    if is_refusal(status) {
        if trail.changes != AuditMode::Off {
            auditor.refused(asked.event(trail, EventKind::Refusal, &response));
        }
        return response;
    }
    let is_open_to_readers = trail.of_data(route) == SELECTION;
    let is_nothing = status == StatusCode::METHOD_NOT_ALLOWED || (kind == EventKind::Change && is_moved(status));
    if is_nothing || (is_open_to_readers && !status.is_success()) {
        return response;
    }
    let event = asked.event(trail, kind, &response);
    // An administrator must not wait for what is broken, in order to repair it. What is staged
    // is no change yet: the record of the commit is written behind it and is waited for.
    let is_awaited = mode != AuditMode::Queued && event.kind != EventKind::Staged;
    if !is_awaited || !event.result.is_ok() || lag.is_err() {
        auditor.event_later(&event);
        return response;
    }
    let recorded = match mode {
        AuditMode::Synced => auditor.synced_event(&event).await,
        _ => auditor.event(&event).await,
    };
    match recorded {
        Ok(()) => response,
        Err(error) => {
            tracing::error!(%error, action = event.action, target = event.target, "the audit could not record it");
            not_recorded(kind)
        }
    }
}

fn not_recorded(kind: EventKind) -> Response {
    match kind {
        EventKind::Change => {
            let detail =
                "the change was made, but the audit could not record it: ask for its state before you repeat it";
            problem::respond(Reason::UNKNOWN_OUTCOME, detail)
        }
        EventKind::Read | EventKind::Refusal | EventKind::Staged => {
            problem::respond(Reason::OVERLOADED, "the audit could not record the request")
        }
    }
}

/// Whether a request was refused because of who made it, or how many there were.
fn is_refusal(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS)
}

/// Whether a request did nothing, because it is to be sent to another address.
fn is_moved(status: StatusCode) -> bool {
    matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
}

/// A change that has not ended. If it is dropped before, its outcome is unknown.
struct Open<'trail> {
    trail: &'trail Trail,
    asked: Option<Asked>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(asked) = self.asked.take() {
            let event = asked.with(self.trail, EventKind::Change, EventResult::Unknown, &HeaderMap::new());
            self.trail.audit.auditor().event_later(&event);
        }
    }
}

/// What is known of a request before its answer.
#[derive(Clone)]
struct Asked {
    method: Method,
    uri: Uri,
    requester: Requester,
    user: Option<String>,
    agent: Option<HeaderValue>,
    bytes: Option<HeaderValue>,
    /// The transaction that it is about, and whether it only stages something.
    transaction: Option<(String, bool)>,
}

impl Asked {
    fn of(request: &Request, user: Option<&String>) -> Self {
        let (headers, extensions) = (request.headers(), request.extensions());
        let local = || extensions.get::<LocalUser>().map(|user| user.name());
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            requester: extensions.get::<Requester>().cloned().unwrap_or_default(),
            user: user.cloned().or_else(local),
            agent: headers.get(header::USER_AGENT).cloned(),
            bytes: headers.get(header::CONTENT_LENGTH).cloned(),
            transaction: None,
        }
    }

    fn event(mut self, trail: &Trail, kind: EventKind, response: &Response) -> Event {
        // A form is recorded as the request that it made.
        let acted = response.extensions().get::<Acted>();
        if let Some(acted) = acted {
            self.method = acted.method.clone();
            self.uri = trail.own(&acted.path).parse().unwrap_or(self.uri);
        }
        let result = match response.extensions().get::<Made>() {
            Some(Made) => EventResult::Done,
            None => EventResult::Status(response.status().as_u16()),
        };
        let event = self.with(trail, kind, result, response.headers());
        let made = acted.and_then(|acted| trail.made(acted.made.as_deref()?, &event.target));
        Event { made: made.or(event.made.clone()), ..event }
    }

    fn with(self, trail: &Trail, kind: EventKind, result: EventResult, answered: &HeaderMap) -> Event {
        let Requester { name, address, request_id } = self.requester;
        let (target, detail) = target_of(&self.uri, kind);
        let text = |name: HeaderName| Some(answered.get(name)?.to_str().ok()?.to_owned());
        // Elsewhere the field leads to another page.
        let is_made = kind == EventKind::Change && result == EventResult::Status(StatusCode::CREATED.as_u16());
        let made = text(header::LOCATION).filter(|_| is_made).and_then(|made| trail.made(&made, &target));
        let (kind, transaction) = match self.transaction {
            Some((id, true)) if kind == EventKind::Change => (EventKind::Staged, Some(id)),
            Some((id, _)) if kind != EventKind::Refusal => (kind, Some(id)),
            _ => (kind, None),
        };
        Event {
            transaction,
            actor: Actor { token: name, user: self.user, address, agent: as_text(self.agent.as_ref()) },
            request_id,
            detail,
            made,
            revision: text(header::ETAG),
            bytes: as_text(self.bytes.as_ref()).and_then(|bytes| bytes.parse().ok()),
            ..Event::of(kind, self.method.as_str(), &target, result)
        }
    }
}

fn as_text(value: Option<&HeaderValue>) -> Option<String> {
    Some(String::from_utf8_lossy(value?.as_bytes()).into_owned())
}

/// The path, decoded, and the query. The name of a token that is made is in the query, and belongs
/// to the path as it does when the token is revoked. Refusals have no query: strangers send those.
fn target_of(uri: &Uri, kind: EventKind) -> (String, Option<String>) {
    let path = decoded(uri.path());
    let query = uri.query().filter(|query| !query.is_empty() && kind != EventKind::Refusal);
    let Some(query) = query else { return (path, None) };
    if path != TOKENS {
        let query = without_secrets(query, AUDIT.contains(&path.as_str()));
        return (path, Some(query));
    }
    let (names, others): (Vec<_>, Vec<_>) =
        form_urlencoded::parse(query.as_bytes()).partition(|(key, _)| key == "name");
    let name: String = names.into_iter().map(|(_, name)| name).collect();
    let others: Vec<String> = others.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    (format!("{TOKENS}/{name}"), Some(others.join("&")).filter(|others| !others.is_empty()))
}

/// A query without secrets (RFC 6750, section 2.3) and, if it reads the audit, without the person
/// whom it asks for: an erasure does not look into queries.
fn without_secrets(query: &str, reads_audit: bool) -> String {
    let fields = query.split('&').map(|field| {
        let Some((key, _)) = field.split_once('=') else { return field.to_owned() };
        // As the reader of a query takes it.
        let is_hidden = match decoded(key).as_str() {
            "access_token" => true,
            "token" | "address" => reads_audit,
            _ => false,
        };
        if is_hidden { format!("{key}=…") } else { field.to_owned() }
    });
    fields.collect::<Vec<_>>().join("&")
}

fn decoded(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// The path of an address, decoded.
fn path_of(address: &str) -> String {
    address.parse::<Uri>().map_or_else(|_| address.to_owned(), |uri| decoded(uri.path()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ::audit::AuditEntry;
    use axum::Router;
    use axum::body::Body;
    use futures::{FutureExt, TryStreamExt};
    use store::faults::Faults;
    use store::{Lane, SystemClock, UnixMillis};
    use store_embedded::{EmbeddedOptions, EmbeddedStore};
    use tower::ServiceExt;

    use super::*;
    use crate::app::App;

    async fn app() -> (App, Arc<Faults>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
        let faults = Arc::new(Faults::new(store));
        (App::open(Config::default(), faults.clone()).await.unwrap(), faults, folder)
    }

    fn request(method: Method, path: &str) -> Request {
        Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
    }

    async fn status(router: &Router, method: Method, path: &str) -> StatusCode {
        router.clone().oneshot(request(method, path)).await.unwrap().status()
    }

    async fn events(app: &App) -> Vec<Event> {
        app.library().audit.auditor().finish().await;
        let entries = app.library().audit.read(UnixMillis(0), UnixMillis(u64::MAX));
        let of = |entry| match entry {
            AuditEntry::Event(record) => Some(record.event),
            AuditEntry::Record(_) | AuditEntry::Damaged(_) => None,
        };
        entries.try_collect::<Vec<_>>().await.unwrap().into_iter().filter_map(of).collect()
    }

    #[tokio::test]
    async fn a_change_that_the_audit_cannot_record_is_answered_as_of_unknown_outcome() {
        let (app, faults, _folder) = app().await;
        let router = app.router(Via::InProcess);
        faults.set_poisoned(Lane::Service, true);
        assert_eq!(status(&router, Method::PUT, "/rest/a").await, StatusCode::GATEWAY_TIMEOUT);
        faults.set_poisoned(Lane::Service, false);
        assert_eq!(status(&router, Method::GET, "/rest/a").await, StatusCode::OK, "it was made");
        assert_eq!(status(&router, Method::DELETE, "/rest/a").await, StatusCode::NO_CONTENT);
        assert_eq!(events(&app).await.len(), 1);
    }

    #[tokio::test]
    async fn a_change_whose_client_has_gone_is_recorded_as_of_unknown_outcome() {
        let (app, _faults, _folder) = app().await;
        let asked = app.router(Via::InProcess).oneshot(request(Method::PUT, "/rest/a"));
        assert!(asked.now_or_never().is_none(), "it was at work");
        let events = events(&app).await;
        assert_eq!((events.len(), events[0].target.as_str(), events[0].result), (1, "/rest/a", EventResult::Unknown));
        assert!(events[0].actor.user.is_some());
    }

    #[tokio::test]
    async fn a_change_that_is_redirected_leaves_no_record_until_it_is_made() {
        let (app, _faults, _folder) = app().await;
        let router = app.router(Via::InProcess);
        assert_eq!(status(&router, Method::PUT, "/rest/a/").await, StatusCode::PERMANENT_REDIRECT);
        assert_eq!(status(&router, Method::PUT, "/rest/a").await, StatusCode::CREATED);
        let events = events(&app).await;
        let targets: Vec<_> = events.iter().map(|event| event.target.as_str()).collect();
        assert_eq!(targets, ["/rest/a"]);
    }

    #[tokio::test]
    async fn a_restoration_that_leaves_something_out_is_recorded_as_done_if_it_made_something() {
        let (app, _faults, _folder) = app().await;
        let router = app.router(Via::InProcess);
        for path in ["/rest/c/was-container/inside", "/rest/c/comes-back"] {
            assert_eq!(status(&router, Method::PUT, path).await, StatusCode::CREATED);
        }
        for path in ["/rest/c", "/rest/c/fcr:tombstone"] {
            assert_eq!(status(&router, Method::DELETE, path).await, StatusCode::NO_CONTENT);
        }
        assert_eq!(status(&router, Method::PUT, "/rest/c/was-container").await, StatusCode::CREATED);
        for _ in 0..2 {
            let restored = status(&router, Method::POST, "/rest/c/fcr:versions?restore=&contents=true").await;
            assert_eq!(restored, StatusCode::CONFLICT);
        }
        assert_eq!(status(&router, Method::GET, "/rest/c/comes-back").await, StatusCode::OK);
        let events = events(&app).await;
        let restorations = events.iter().filter(|event| event.action == "POST");
        let results: Vec<_> = restorations.map(|event| event.result).collect();
        assert_eq!(results, [EventResult::Done, EventResult::Status(409)]);
    }

    #[tokio::test]
    async fn what_is_a_change_depends_on_the_route_and_not_on_how_it_looks() {
        let (app, _faults, _folder) = app().await;
        let config = Config::default();
        let ldp = LdpSettings { base: "/recordsets/volumes".to_owned(), ..LdpSettings::default() };
        let trail = Trail::new(Via::Network, app.library().audit.clone(), &config, &ldp).unwrap();
        let is_change = |method: Method, route: &str| trail.kind(&method, route) == Some(EventKind::Change);
        for route in
            ["/recordsets/volumes", "/recordsets/volumes/", "/recordsets/volumes/{*path}", "/selections/{selection}"]
        {
            assert!(is_change(Method::POST, route) && is_change(Method::DELETE, route), "{route}");
        }
        for route in [
            "/volumes",
            "/data-api/pages",
            "/volumes/{id}/verify",
            "/data-api/volumes/{id}/verify",
            "/recordsets/volumes/fcr:verify",
            "/records/{id}",
            "/records:batchWrite",
        ] {
            assert!(!is_change(Method::POST, route), "{route}");
        }
    }

    #[test]
    fn a_target_is_the_path_as_people_write_it() {
        let target = |uri: &str, kind| target_of(&uri.parse().unwrap(), kind);
        assert_eq!(target("/volumes/uc2.ark%3A%2F1", EventKind::Change), ("/volumes/uc2.ark:/1".to_owned(), None));
        assert_eq!(
            target("/admin/tokens?scope=read%20write&name=a%40b", EventKind::Change),
            ("/admin/tokens/a@b".to_owned(), Some("scope=read write".to_owned()))
        );
        assert_eq!(target("/admin/tokens?name=a", EventKind::Change), ("/admin/tokens/a".to_owned(), None));
        assert_eq!(target("/rest/?x=y", EventKind::Refusal), ("/rest/".to_owned(), None));
        let asked = target("/admin/audit?token=jane&address=1.2.3.4&kind=read", EventKind::Read);
        assert_eq!(asked.1.as_deref(), Some("token=…&address=…&kind=read"), "it names nobody");
        let asked = target("/audit?t%6Fken=jane&%61ddress=1.2.3.4&kind=read", EventKind::Read);
        assert_eq!(asked.1.as_deref(), Some("t%6Fken=…&%61ddress=…&kind=read"), "however it is written");
        let secret = target("/rest/a?access_token=s&x=1", EventKind::Change);
        assert_eq!(secret.1.as_deref(), Some("access_token=…&x=1"));
        assert_eq!(path_of("http://h:1/rest/a%20b"), "/rest/a b");
    }
}
