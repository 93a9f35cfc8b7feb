//! The page for people at `/`, and the routes as `/openapi.json`, with a page that shows them.
//! Embedded, without a build step, and without requests to other servers.

use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Router};
use door_http::MayRead;
use door_http::page::{STYLE, STYLE_PATH, search_box};

use crate::places::Places;

/// Allows only what this server serves, so that markup in a stored text can neither load nor run
/// anything.
const SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                               form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The files change with the program, so a browser checks them at each visit; they are small.
const CACHE: &str = "no-cache";

/// What the page has in the place of the address of the repository.
const REPOSITORY: &str = "REPOSITORY/";

/// What the page has in the place of the box by which people search the repository.
const SEARCH_BOX: &str = "<!-- SEARCH -->";

pub(crate) fn routes(places: Places) -> Router {
    let index = |may_read: Option<&MayRead>| {
        let search = places.search("./", may_read).map(|address| search_box(&address).into_string());
        let index = include_str!("../assets/index.html").replace(REPOSITORY, places.repository.trim_start_matches('/'));
        index.replace(SEARCH_BOX, &search.unwrap_or_default())
    };
    let (of_reader, of_stranger) = (index(Some(&MayRead)), index(None));
    let index = async move |reader: Option<Extension<MayRead>>| {
        asset("text/html; charset=utf-8", if reader.is_some() { of_reader } else { of_stranger })
    };
    Router::new()
        .route("/", get(index))
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
