//! The first page, at `/`: a search for volumes, and what else is here. And the routes as
//! `/openapi.json`, with a page that shows them (`openapi.rs`).
//!
//! These pages need no script and name nothing that is stored. On the first page a script adds a
//! list of all volumes, of which people choose some and download them. All this is embedded,
//! without a build step, and without requests to other servers.

use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use axum::{Extension, Router};
use door_http::page::{ICON_PATH, STYLE, STYLE_PATH};
use door_http::{MayRead, Page};
use maud::{Markup, html};

use crate::places::Places;
use crate::{openapi, sign_in};

/// Allows only what this server serves, so that markup in a stored text can neither load nor run
/// anything.
const SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                               form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The files change with the program, so a browser checks them at each visit; they are small.
const CACHE: &str = "no-cache";

const HTML: &str = "text/html; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// What pages load: the path from the root of the server, the media type and the text. Each is
/// constant and in memory.
const ASSETS: [(&str, &str, &str); 4] = [
    ("assets/page.js", JAVASCRIPT, include_str!("../assets/page.js")),
    ("assets/openapi.js", JAVASCRIPT, include_str!("../assets/openapi.js")),
    (STYLE_PATH, "text/css; charset=utf-8", STYLE),
    (ICON_PATH, "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// The way from these pages to the root of the server.
const TO_ROOT: &str = "./";

/// The list that searches and sorts volumes.
const VOLUMES: &str = "volumes/?format=html";

/// The parameters of the list by which the first page searches, with their names and a hint.
const SEARCHED: [(&str, &str, &str); 5] = [
    ("title", "Title", "salmon"),
    ("author", "Author", "Frost"),
    ("year", "Year", "1847 or 1800..1900"),
    ("language", "Language", "eng"),
    ("id", "Beginning of the id", "yale."),
];

/// The orders of the list. Without one it has any number of parts.
const ORDERS: [(&str, &str); 5] =
    [("", "as stored"), ("title", "by title"), ("author", "by author"), ("year", "by year"), ("-year", "newest first")];

pub(crate) fn routes(places: Places) -> Router {
    let pages = Router::new()
        .route("/", shown(|may_read| page(&places, may_read, "The library", &front(&places, may_read))))
        .route("/openapi", shown(|may_read| page(&places, may_read, "Routes", &openapi::shown())))
        .route("/openapi.json", get(async || asset("application/json", openapi::JSON)));
    ASSETS.into_iter().fold(pages, |routes, (path, content_type, text)| {
        routes.route(&format!("/{path}"), get(async move || asset(content_type, text)))
    })
}

/// Whether a path is that of something that pages load. It is sent whatever the limits of clients
/// are, so that the page of a refusal has its style. It costs no more than the refusal.
pub(crate) fn is_asset(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|path| ASSETS.iter().any(|(asset, ..)| *asset == path))
}

/// A page for those who may read, and for others.
fn shown(page: impl Fn(Option<&MayRead>) -> String) -> MethodRouter {
    let (of_reader, of_stranger) = (page(Some(&MayRead)), page(None));
    get(async move |reader: Option<Extension<MayRead>>| {
        asset(HTML, if reader.is_some() { of_reader } else { of_stranger })
    })
}

/// What surrounds the content of a page, as on all pages of this server.
fn page(places: &Places, may_read: Option<&MayRead>, title: &str, content: &Markup) -> String {
    let page = Page {
        title: title.to_owned(),
        style: STYLE_PATH.to_owned(),
        home: TO_ROOT.to_owned(),
        places: places.named(TO_ROOT, VOLUMES, Some(sign_in::PATH)),
        search: places.search(TO_ROOT, may_read),
        way: Vec::new(),
    };
    page.with(content)
}

fn front(places: &Places, may_read: Option<&MayRead>) -> Markup {
    let repository = format!("{TO_ROOT}{}", places.repository.trim_start_matches('/'));
    html! {
        p.lead { "Volumes with their pages, and a repository of descriptions and files." }
        @if may_read.is_some() {
            h2 { "Find volumes" }
            (find())
        } @else {
            p.note { "To read, " a href=(sign_in::PATH) { "sign in" } " with a token." }
        }
        h2 { "What is here" }
        (contents(places, &repository))
        @if may_read.is_some() { (choose(&repository)) }
    }
}

/// The form that searches volumes.
fn find() -> Markup {
    html! {
        form action="volumes/" role="search" aria-label="Find volumes" {
            input type="hidden" name="format" value="html";
            div.fields {
                @for (name, label, hint) in SEARCHED { label { (label) input name=(name) placeholder=(hint); } }
                label {
                    "Order"
                    select name="sort" { @for (name, words) in ORDERS { option value=(name) { (words) } } }
                }
            }
            p.row { button.primary { "Find" } }
        }
    }
}

/// Links to all that the server shows. `repository` is the address of the repository.
fn contents(places: &Places, repository: &str) -> Markup {
    html! {
        ul {
            li {
                a href={ (repository) "volumes" } { "All volumes" }
                " with their titles: to read them, and to download several as one ZIP"
            }
            li {
                "Volumes "
                a href={ (VOLUMES) "&sort=title" } { "by title" } ", "
                a href={ (VOLUMES) "&sort=author" } { "by author" } " and "
                a href={ (VOLUMES) "&sort=year" } { "by year" }
            }
            li { a href="volumes/?format=text" { "Ids of all volumes" } ", one a line" }
            li { a href=(repository) { "Repository" } ": containers, files and descriptions" }
            @if places.has_search { li { a href={ (repository) "fcr:search" } { "Search in the repository" } } }
            li { a href="openapi" { "Documentation of all routes" } ", also " a href="openapi.json" { "for programs" } }
            li { "Health: whether the server " a href="healthz" { "runs" } " and " a href="readyz" { "is ready" } }
        }
    }
}

/// Where the script lists all volumes, of which people choose some. Without a script the page of all
/// volumes has the same.
fn choose(repository: &str) -> Markup {
    html! {
        section id="choose" hidden data-repository=(repository) aria-labelledby="choose-title" {
            h2 id="choose-title" tabindex="-1" { "Choose and download" }
            p.visually-hidden id="status" role="status" {}
        }
        script src="assets/page.js" type="module" {}
    }
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
