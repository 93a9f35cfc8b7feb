//! Routes for the administrator alone: tokens and sweeping (`audit_routes.rs` has the audit). They
//! exist on the Unix socket and within the process, and nowhere else.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use door_http::{Path, Problem, Query, Reason};
use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use library::Library;
use serde::{Deserialize, Serialize};
use store::UnixMillis;

use crate::background::{self, Swept};
use crate::problem;
use crate::tokens::{NewToken, TokenError, TokenInfo, Tokens};

/// The state of the routes.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) library: Library,
}

pub(crate) fn routes(admin: Admin) -> Router {
    Router::new()
        .route("/admin/tokens", get(list_tokens).post(create_token))
        .route("/admin/tokens/{name}", delete(revoke_token))
        .route("/admin/sweep", post(sweep))
        .with_state(admin)
}

/// The query of `POST /admin/tokens`: `scope` as in [`Scopes`], `expires` in RFC 3339.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenQuery {
    name: String,
    scope: Option<String>,
    expires: Option<Timestamp>,
}

/// A new token. Its text is shown only here.
#[derive(Serialize)]
struct CreatedToken<'a> {
    name: &'a str,
    token: &'a str,
    expires: Option<String>,
}

/// A token in a list, with times in RFC 3339.
#[derive(Serialize)]
struct ListedToken {
    name: String,
    created: String,
    scopes: String,
    expires: Option<String>,
    revoked: Option<String>,
}

impl From<TokenInfo> for ListedToken {
    fn from(info: TokenInfo) -> Self {
        let TokenInfo { name, created, revoked, scopes, expires } = info;
        Self {
            name,
            created: rfc_3339(created),
            scopes: scopes.to_string(),
            expires: expires.map(rfc_3339),
            revoked: revoked.map(rfc_3339),
        }
    }
}

fn rfc_3339(time: UnixMillis) -> String {
    let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX).to_string()
}

async fn list_tokens(State(admin): State<Admin>) -> Result<Json<Vec<ListedToken>>, TokenError> {
    Ok(Json(admin.tokens.list().await?.into_iter().map(ListedToken::from).collect()))
}

async fn create_token(State(admin): State<Admin>, Query(query): Query<TokenQuery>) -> Result<Response, TokenError> {
    let TokenQuery { name, scope, expires } = &query;
    let scopes = scope.as_deref().map(str::parse).transpose()?;
    let expires = expires.map(unix_millis);
    let secret = admin.tokens.create(NewToken { name, scopes, expires }).await?;
    let created = Json(CreatedToken { name, token: secret.reveal(), expires: expires.map(rfc_3339) });
    let mut response = (StatusCode::CREATED, created).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

async fn revoke_token(State(admin): State<Admin>, Path(name): Path<String>) -> Result<Json<ListedToken>, TokenError> {
    Ok(Json(admin.tokens.revoke(&name).await?.into()))
}

fn unix_millis(time: Timestamp) -> UnixMillis {
    UnixMillis(u64::try_from(time.as_millisecond()).unwrap_or(0))
}

/// `POST /admin/sweep`: runs a background pass now.
async fn sweep(State(admin): State<Admin>) -> Result<Json<Swept>, Response> {
    background::sweep(&admin.library).await.map(Json).map_err(|error| problem::of_library(&error))
}

impl IntoResponse for TokenError {
    fn into_response(self) -> Response {
        let reason = match &self {
            TokenError::Absent(_) => Reason::ABSENT,
            TokenError::Exists(_) => Reason::EXISTS,
            TokenError::TooMany { .. } => Reason::CONFLICT,
            TokenError::Name | TokenError::Scopes(_) | TokenError::Expired => Reason::INVALID,
            TokenError::Unsure(_) => Reason::UNKNOWN_OUTCOME,
            TokenError::Random(_) => Reason::INTERNAL,
            TokenError::Store(error) => error.into(),
        };
        Problem::new(reason, &self, true).into_response()
    }
}
