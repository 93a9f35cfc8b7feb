//! Identifies clients, and decides what they may do.
//!
//! A wider access control belongs here: [`Right`] names what a request can require, and
//! [`Policy::allows`] decides.
//!
//! A token may be limited to some volumes and resources (its [`Area`]). Then the doors decide about
//! single objects, and here is decided which routes it may use at all: those that declare that they
//! keep to an area, and no others. A limited client has no right that it does not need the token
//! for: it is held to its limits also where reading is open to everybody.

use std::sync::Arc;

use area::Area;
use audit::Requester;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use door_http::problem::INSUFFICIENT_SCOPE;
use door_http::{MayRead, ReadsOnly, Reason};
use door_ldp::SeenAs;
use heads::actor;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri, header};

use crate::config::{Access, AuthConfig};
use crate::cors::Origins;
use crate::next::Next;
use crate::peer::Peer;
use crate::problem;
use crate::request_id::RequestId;
use crate::sign_in;
use crate::tokens::{Holder, Tokens};

/// The most bytes of the name of a program that the change feed keeps.
const AGENT_BYTES_MAX: usize = 256;

const _: () = assert!(AGENT_BYTES_MAX == library::bounds::FEED_AGENT_BYTES);

/// How a request reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Over a network: rights come from the configuration and tokens.
    Network,
    /// Over a Unix socket that only the user of the server may open: the administrator.
    AdminSocket,
    /// From within this process: the administrator.
    InProcess,
}

impl Via {
    /// Whether a client that comes this way is the administrator.
    pub(crate) fn is_admin(self) -> bool {
        match self {
            Via::Network => false,
            Via::AdminSocket | Via::InProcess => true,
        }
    }
}

/// What a route requires. Routes for the administrator alone need no right: they exist for nobody
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Read,
    Write,
    /// To read metrics and statistics, which reveal nothing about single objects.
    Metrics,
    /// To see what operators see: names of everything that is stored, also of what cannot be
    /// requested.
    Operate,
    /// To read the audit, which says what people read. It is never open to everybody.
    Audit,
    /// To read the whole store, row by row, with the audit and the hashes of tokens.
    Copy,
}

/// The client: the holder of a token, if it sent a valid one.
#[derive(Clone, Debug, Default)]
struct Identity(Option<Holder>);

/// The name of the valid token that a client sent; an extension of the response.
#[derive(Clone, Debug)]
pub(crate) struct TokenName(pub(crate) String);

/// The rights on one way in.
pub(crate) struct Policy {
    pub(crate) via: Via,
    pub(crate) config: AuthConfig,
    pub(crate) tokens: Arc<Tokens>,
    /// The origins whose pages may change something.
    pub(crate) origins: Arc<Origins>,
    /// Whether the change feed names the tokens and programs with which something is changed.
    pub(crate) names_actors: bool,
    /// The routes that keep to the area of a limited client.
    pub(crate) limited: LimitedRoutes,
}

/// Which routes keep to the area of a limited client.
#[derive(Clone, Debug)]
pub(crate) struct LimitedRoutes {
    /// The second path of the data door.
    pub(crate) prefix: String,
    /// The path of the repository.
    pub(crate) base: String,
}

impl LimitedRoutes {
    fn have(&self, route: &str) -> bool {
        let of_data = |path: &str| route.strip_prefix(path).is_some_and(door_data::keeps_to_area);
        let Self { prefix, base } = self;
        of_data("") || of_data(prefix) || door_ldp::keeps_to_area(base, route) || route == crate::feed::PATH
    }
}

impl Policy {
    /// The area of a client.
    fn area(&self, holder: Option<&Holder>) -> Area {
        let limited = holder.filter(|_| !self.via.is_admin());
        limited.map_or_else(Area::everywhere, |holder| holder.scopes.area().clone())
    }

    /// Whether a client has a right within its area.
    pub(crate) fn allows_within_area(&self, holder: Option<&Holder>, right: Right) -> bool {
        match holder.filter(|_| self.area(holder).is_limited()) {
            Some(limited) => matches!(right, Right::Read | Right::Write) && limited.scopes.allow(right),
            None => self.allows(holder, right),
        }
    }

    /// Whether a client has a right everywhere.
    pub(crate) fn allows(&self, holder: Option<&Holder>, right: Right) -> bool {
        if self.area(holder).is_limited() {
            return false;
        }
        let holds = holder.is_some_and(|holder| holder.scopes.allow(right));
        let needed = match right {
            Right::Audit => return self.via.is_admin() || holds,
            Right::Read | Right::Metrics => self.config.read,
            Right::Write | Right::Operate => self.config.write,
            Right::Copy => {
                let named = holder.is_some_and(|holder| self.config.copy.contains(&holder.name));
                return self.via.is_admin() || named;
            }
        };
        self.via.is_admin() || needed == Access::Open || holds
    }
}

/// A layer: identifies the client and passes it to the doors as a [`Requester`]. An unknown token
/// is no error here: clients send tokens of other issuers, which do no harm where no token is
/// needed.
pub(crate) async fn identify(policy: &Policy, mut request: Request, next: impl Next) -> Response {
    let shown = shown_token(&request, &policy.origins);
    let is_cookie = shown.as_ref().is_some_and(|(_, means)| *means == Means::Cookie);
    let holder = shown.and_then(|(text, _)| policy.tokens.holder_of(&text));
    if !policy.allows_within_area(holder.as_ref(), Right::Write) {
        request.extensions_mut().insert(ReadsOnly);
    }
    let may_read = policy.allows_within_area(holder.as_ref(), Right::Read).then_some(MayRead);
    if let Some(may_read) = may_read {
        request.extensions_mut().insert(may_read);
    }
    let extensions = request.extensions();
    let requester = Requester {
        name: holder.as_ref().map(|holder| holder.name.clone()),
        address: extensions.get::<Peer>().map(|peer| peer.address),
        request_id: extensions.get::<RequestId>().map(|id| id.as_str().to_owned()).unwrap_or_default(),
    };
    let token = requester.name.clone().map(TokenName);
    request.extensions_mut().insert(policy.area(holder.as_ref()));
    request.extensions_mut().insert(requester);
    request.extensions_mut().insert(Identity(holder));
    let mut response = match token.as_ref().filter(|_| policy.names_actors) {
        Some(TokenName(name)) => {
            let agent = agent_of(request.headers());
            actor::acting(name, agent, next.run(request)).await
        }
        None => next.run(request).await,
    };
    if let Some(token) = token {
        response.extensions_mut().insert(token);
    }
    if let Some(may_read) = may_read {
        response.extensions_mut().insert(may_read);
    }
    // Caches that people share know that `Authorization` makes a response private (RFC 9111,
    // section 3.5). Of cookies they do not know it.
    if is_cookie && !response.headers().contains_key(header::CACHE_CONTROL) {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    }
    response
}

/// The program that sent a request, as it names itself.
fn agent_of(headers: &HeaderMap) -> Option<Arc<str>> {
    let agent = headers.get(header::USER_AGENT)?.to_str().ok()?.trim();
    // Such a text is ASCII.
    let agent = agent.get(..AGENT_BYTES_MAX).unwrap_or(agent);
    (!agent.is_empty()).then(|| agent.into())
}

/// The arguments of [`require`].
pub(crate) type Required = (Arc<Policy>, Right);

/// Whether the client of a long response still has the right that it had at first. A token may be
/// revoked meanwhile.
#[derive(Clone)]
pub(crate) struct Standing {
    policy: Arc<Policy>,
    token: Option<String>,
    right: Right,
}

impl Standing {
    /// Looks now.
    pub(crate) fn holds(&self) -> bool {
        let holder = self.token.as_ref().and_then(|text| self.policy.tokens.holder_of(text));
        self.policy.allows_within_area(holder.as_ref(), self.right)
    }
}

/// A layer in front of routes with long responses: passes a [`Standing`] to them.
pub(crate) async fn keep_standing(
    State((policy, right)): State<Required>,
    mut request: Request,
    next: middleware::Next,
) -> Response {
    let token = shown_token(&request, &policy.origins).map(|(text, _)| text);
    request.extensions_mut().insert(Standing { policy, token, right });
    next.run(request).await
}

/// A layer in front of routes that need a right.
pub(crate) async fn require(
    State((policy, right)): State<Required>,
    request: Request,
    next: middleware::Next,
) -> Response {
    if right == Right::Write && is_foreign(&request, &policy.origins) {
        return problem::respond(Reason::CROSS_SITE, "pages of other sites must not change anything here");
    }
    let Identity(holder) = request.extensions().get::<Identity>().cloned().unwrap_or_default();
    let route = request.extensions().get::<MatchedPath>();
    let keeps_to_area = route.is_some_and(|route| policy.limited.have(route.as_str()));
    let is_allowed = match keeps_to_area {
        true => policy.allows_within_area(holder.as_ref(), right),
        false => policy.allows(holder.as_ref(), right),
    };
    match holder {
        _ if is_allowed => next.run(request).await,
        Some(holder) if policy.area(Some(&holder)).is_limited() && holder.scopes.allow(right) => beyond(&holder),
        Some(holder) => insufficient(&holder, right),
        None => unauthorized(right),
    }
}

/// Whether a page of another site made the request, which the configuration does not name.
fn is_foreign(request: &Request, origins: &Origins) -> bool {
    is_from_another_site(request) && !origins.names_origin_of(request.headers())
}

/// Whether the browser says that another site's page made the request. A browser can reach servers
/// on loopback, and it also sends a token with which a person has signed in before.
///
/// Browsers send Fetch Metadata (W3C) over HTTPS and to loopback only. Elsewhere there is `Origin`
/// (RFC 6454, section 7), which they send with each request that may change something.
pub(crate) fn is_from_another_site(request: &Request) -> bool {
    let headers = request.headers();
    match headers.get("sec-fetch-site") {
        Some(site) => site == "cross-site" || site == "same-site",
        None => headers.get(header::ORIGIN).is_some_and(|origin| !is_host_of(request, origin)),
    }
}

/// Whether an origin has the host and the port for which a request asks.
fn is_host_of(request: &Request, origin: &HeaderValue) -> bool {
    let seen = request.extensions().get::<SeenAs>().and_then(|seen| seen.host.clone());
    let named = || request.headers().get(header::HOST)?.to_str().ok()?.parse::<Authority>().ok();
    let asked = seen.or_else(|| request.uri().authority().cloned()).or_else(named);
    let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    match (asked, origin.as_ref().and_then(Uri::authority)) {
        (Some(asked), Some(origin)) => asked.as_str().eq_ignore_ascii_case(origin.as_str()),
        _ => false,
    }
}

/// The answer to a client whose token does not allow what it wants (RFC 6750, section 3.1).
fn insufficient(holder: &Holder, right: Right) -> Response {
    let Holder { name, scopes } = holder;
    let (needed, scope) = match right {
        Right::Read => ("the scope `read`", Some("read")),
        Right::Write => ("the scope `write`", Some("write")),
        Right::Metrics => ("the scope `metrics`", Some("metrics")),
        Right::Operate | Right::Audit => ("the scope `admin`", Some("admin")),
        Right::Copy => ("its name in auth.copy", None),
    };
    let detail = format!("the token `{name}` has the scopes `{scopes}`; this request needs {needed}");
    let mut response = problem::respond(Reason::INSUFFICIENT_SCOPE, &detail);
    let scope = scope.map(|scope| format!(", scope=\"{scope}\"")).unwrap_or_default();
    let challenge = format!("Bearer realm=\"Penates\", error=\"insufficient_scope\"{scope}");
    if let Ok(challenge) = HeaderValue::try_from(challenge) {
        response.headers_mut().append(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// The answer to a limited client on a route that knows no limits.
fn beyond(holder: &Holder) -> Response {
    let detail = format!("the token `{}` is limited, and this request is not for limited tokens", holder.name);
    let mut response = problem::respond(Reason::INSUFFICIENT_SCOPE, &detail);
    response.headers_mut().append(header::WWW_AUTHENTICATE, INSUFFICIENT_SCOPE);
    response
}

/// The challenges (RFC 9110, section 11.6.1). With Basic, a browser asks its user for the token.
fn unauthorized(right: Right) -> Response {
    let what = match right {
        Right::Read => "reading needs",
        Right::Write => "changing needs",
        Right::Metrics => "reading metrics needs",
        Right::Operate => "operating needs",
        Right::Audit => "reading the audit needs",
        Right::Copy => "copying the store needs a name in auth.copy and",
    };
    let detail =
        format!("{what} an access token: `Authorization: Bearer <token>`, or Basic with the token as password");
    let mut response = problem::respond(Reason::UNAUTHORIZED, &detail);
    for challenge in ["Bearer realm=\"Penates\"", "Basic realm=\"Penates\", charset=\"UTF-8\""] {
        response.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    response
}

/// How a client shows a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// In `Authorization`.
    Header,
    /// In the cookie of a person who has signed in.
    Cookie,
}

/// The token that a client shows. Without `Authorization` it is that of the cookie, except that
/// pages of other sites act in nobody's name: a browser sends the cookie along.
fn shown_token(request: &Request, origins: &Origins) -> Option<(String, Means)> {
    let headers = request.headers();
    if headers.contains_key(header::AUTHORIZATION) {
        return Some((authorizing_token(headers)?, Means::Header));
    }
    if !request.method().is_safe() && is_foreign(request, origins) {
        return None;
    }
    let is_encrypted = sign_in::is_encrypted(request.extensions());
    Some((sign_in::token_in(headers, is_encrypted)?, Means::Cookie))
}

/// The token in `Authorization`: that of Bearer (RFC 6750), or the password of Basic (RFC 7617).
fn authorizing_token(headers: &HeaderMap) -> Option<String> {
    let (scheme, credentials) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let credentials = credentials.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(credentials.to_owned());
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let decoded = String::from_utf8(BASE64.decode(credentials).ok()?).ok()?;
        return Some(decoded.split_once(':')?.1.to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn token_in(value: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        authorizing_token(&headers)
    }

    #[test]
    fn a_token_is_found_in_bearer_and_in_basic() {
        assert_eq!(token_in("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token_in("bearer  abc ").as_deref(), Some("abc"));
        assert_eq!(token_in("Basic dXNlcjphOmM=").as_deref(), Some("a:c"));
        assert_eq!(token_in("Basic OmFiYw==").as_deref(), Some("abc"));
    }

    #[test]
    fn a_header_without_credentials_has_no_token() {
        for value in ["", "Bearer", "Basic ???", "Basic dXNlcg==", "Basic /////w==", "Digest abc", "abc"] {
            assert_eq!(token_in(value), None, "{value}");
        }
    }
}
