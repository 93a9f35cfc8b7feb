//! The path below which a server has all of its routes, so that a proxy can have other servers
//! beside it.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::uri::PathAndQuery;
use http::{HeaderValue, StatusCode, Uri, header};
use tower::ServiceExt;

/// Puts routes below a path. What is outside goes to other routes. Routes below see the rest of the
/// path, and what was asked as axum's `OriginalUri`.
pub(crate) fn below(base_path: &str, within: Router, outside: Router) -> Router {
    let base_path: Arc<str> = base_path.trim_end_matches('/').into();
    if base_path.is_empty() {
        return within;
    }
    let route = tower::service_fn(move |mut request: Request| {
        let (base_path, within, outside) = (base_path.clone(), within.clone(), outside.clone());
        async move {
            let uri = request.uri();
            if uri.path() == &*base_path {
                return Ok::<_, Infallible>(slash_added(&base_path, uri.query()));
            }
            match rest(uri, &base_path) {
                Some(rest) => {
                    *request.uri_mut() = rest;
                    within.oneshot(request).await
                }
                None => outside.oneshot(request).await,
            }
        }
    });
    Router::new().fallback_service(route)
}

/// An address without the base path; `None` if it does not have it.
fn rest(uri: &Uri, base_path: &str) -> Option<Uri> {
    let below = uri.path().strip_prefix(base_path)?.strip_prefix('/')?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("/{below}{query}")).ok()?);
    Uri::from_parts(parts).ok()
}

/// The page for people names its parts relative to a path that ends with a slash.
fn slash_added(base_path: &str, query: Option<&str>) -> Response {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = StatusCode::PERMANENT_REDIRECT.into_response();
    let location = HeaderValue::try_from(format!("{base_path}/{query}"));
    response.headers_mut().extend(location.ok().map(|location| (header::LOCATION, location)));
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_keeps_its_host_and_its_query_below_the_path() {
        let rest = |uri: &str| rest(&uri.parse().unwrap(), "/penates").map(|uri| uri.to_string());
        assert_eq!(rest("/penates/volumes/a?x=%2F").as_deref(), Some("/volumes/a?x=%2F"));
        assert_eq!(rest("http://a.example/penates//rest/").as_deref(), Some("http://a.example//rest/"));
        for outside in ["/penatesx/a", "/", "/volumes/", "/Penates/a", "/%70enates/a", "*"] {
            assert_eq!(rest(outside), None, "{outside}");
        }
    }
}
