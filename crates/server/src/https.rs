//! What makes clients use HTTPS where TLS is the server's own: a redirect, and HTTP Strict
//! Transport Security (RFC 6797).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use door_http::Reason;
use http::{HeaderValue, StatusCode, header};

use crate::hosts::named;
use crate::problem;

/// The port of HTTPS that an address need not name.
pub(crate) const USUAL_PORT: u16 = 443;

/// For how long browsers use HTTPS only where the server redirects to it: 180 days.
pub(crate) const STRICT_FOR: Duration = Duration::from_secs(180 * 24 * 3_600);

/// Where HTTPS is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// At one scheme and authority, whichever name the client uses.
    Origin(Arc<str>),
    /// At this port of the name that the client uses.
    Port(u16),
}

/// Routes that redirect every request.
pub(crate) fn redirecting(site: Site) -> Router {
    Router::new().fallback(async move |request: Request| redirect(&site, &request))
}

fn redirect(site: &Site, request: &Request) -> Response {
    // The host of a probe is not checked.
    if matches!(request.uri().path(), "/healthz" | "/readyz") {
        return StatusCode::NO_CONTENT.into_response();
    }
    let origin = match site {
        Site::Origin(origin) => Some(origin.to_string()),
        // It was checked already.
        Site::Port(port) => named(request).ok().flatten().map(|authority| match *port {
            USUAL_PORT => format!("https://{}", authority.host()),
            port => format!("https://{}:{port}", authority.host()),
        }),
    };
    let Some(origin) = origin else {
        return problem::respond(Reason::INVALID_HOST, "the request names no host to which it could be redirected");
    };
    // `OPTIONS *` has no path.
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path } else { "/" };
    let mut response = StatusCode::PERMANENT_REDIRECT.into_response();
    match HeaderValue::try_from(format!("{origin}{path}")) {
        Ok(location) => response.headers_mut().insert(header::LOCATION, location),
        Err(_) => return problem::respond(Reason::INVALID_PATH, "the path cannot be redirected"),
    };
    response
}

/// Adds to each response for how long a browser uses HTTPS only.
pub(crate) fn strict_for(time: Option<Duration>, routes: Router) -> Router {
    let Some(time) = time else { return routes };
    let Ok(value) = HeaderValue::try_from(format!("max-age={}", time.as_secs())) else { return routes };
    routes.layer(from_fn(move |request: Request, next: Next| {
        let value = value.clone();
        async move {
            let mut response = next.run(request).await;
            response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, value);
            response
        }
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::body::Body;

    use super::*;

    #[test]
    fn a_redirect_keeps_the_name_the_path_and_the_query() {
        let to = |site: &Site, host: &str, path: &str| {
            let request = Request::builder().uri(path).header(header::HOST, host).body(Body::empty()).unwrap();
            let response = redirect(site, &request);
            let location = response.headers().get(header::LOCATION).map(|at| at.to_str().unwrap().to_owned());
            (response.status().as_u16(), location.unwrap_or_default())
        };
        let path = "/rest/a%20b?c=d%2F";
        for (site, host, expected) in [
            (Site::Port(443), "books.example.org", "https://books.example.org"),
            (Site::Port(443), "books.example.org:80", "https://books.example.org"),
            (Site::Port(8443), "[::1]:8080", "https://[::1]:8443"),
            (Site::Origin("https://library.example".into()), "other.example", "https://library.example"),
        ] {
            assert_eq!(to(&site, host, path), (308, format!("{expected}{path}")));
        }
        // HTTP/1.0 needs no host.
        let request = Request::builder().version(http::Version::HTTP_10).uri("/a").body(Body::empty()).unwrap();
        assert_eq!(redirect(&Site::Port(443), &request).status(), StatusCode::BAD_REQUEST);
    }
}
