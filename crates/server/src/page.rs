//! The page for people at `/`, and the routes as `/openapi.json`, with a page that shows them.
//! Embedded, without a build step, and without requests to other servers.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use door_http::page::{STYLE, STYLE_PATH};

/// Allows only what this server serves, so that markup in a stored text can neither load nor run
/// anything.
const SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                               form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The files change with the program, so a browser checks them at each visit; they are small.
const CACHE: &str = "no-cache";

/// What the page has in the place of the address of the repository.
const REPOSITORY: &str = "REPOSITORY/";

pub(crate) fn routes(repository: &str) -> Router {
    let index = include_str!("../assets/index.html").replace(REPOSITORY, repository.trim_start_matches('/'));
    Router::new()
        .route("/", get(async move || asset("text/html; charset=utf-8", index)))
        .route(&format!("/{STYLE_PATH}"), get(async || asset("text/css; charset=utf-8", STYLE)))
        .route(
            "/assets/page.js",
            get(async || asset("text/javascript; charset=utf-8", include_str!("../assets/page.js"))),
        )
        .route(
            "/assets/openapi.js",
            get(async || asset("text/javascript; charset=utf-8", include_str!("../assets/openapi.js"))),
        )
        .route("/openapi", get(async || asset("text/html; charset=utf-8", include_str!("../assets/openapi.html"))))
        .route("/openapi.json", get(async || asset("application/json", include_str!("../assets/openapi.json"))))
        .route("/assets/icon.svg", get(async || asset("image/svg+xml", include_str!("../assets/icon.svg"))))
}

fn asset(content_type: &'static str, text: impl IntoResponse) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, CACHE),
        (header::CONTENT_SECURITY_POLICY, SECURITY_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, text)
}
