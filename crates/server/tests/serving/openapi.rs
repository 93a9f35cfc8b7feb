//! `/openapi.json` agrees with the routes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use http::{Method, StatusCode};
use serde_json::Value;
use server::config::Config;

use crate::support::*;

/// Folders with routes for clients. The rest is for administrators, who have commands.
const SOURCES: [&str; 3] = ["door-data/src", "door-records/src/http", "server/src"];

/// Routes of an administrator and of a copy, and files of pages.
const NOT_DOCUMENTED: [&str; 3] = ["/admin/", "/assets/", "/store"];

/// The path of a request for a documented path.
fn sample(path: &str) -> String {
    let id = if path.starts_with("/records") { "user" } else { VOLUME };
    let sampled = path.replace("{id}", id).replace("{seq}", "1").replace("{path}", "x");
    ["{revision}", "{selection}", "{pass}"].iter().fold(sampled, |path, part| path.replace(part, "1"))
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn every_documented_route_has_exactly_the_documented_methods() {
    let (server, _folder) = Server::start(|_| {}).await;
    let document = document(&server.get("/openapi.json").await.text());
    for (path, operations) in document["paths"].as_object().unwrap() {
        let documented: BTreeSet<String> =
            operations.as_object().unwrap().keys().map(|name| name.to_uppercase()).collect();
        if path.starts_with("/rest/") || path.contains("{revision}") {
            // One handler takes all requests for resources, and a version has to be there first.
            continue;
        }
        let refused = server.admin(Method::from_bytes(b"BREW").unwrap(), &sample(path)).await;
        assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED, "{path}: {}", refused.text());
        let allowed = refused.header("allow").split(',').map(|name| name.trim().to_owned());
        let allowed: BTreeSet<String> = allowed.filter(|name| name != "HEAD").collect();
        assert_eq!(allowed, documented, "{path}");
    }
}

#[tokio::test]
async fn every_operation_says_what_it_does_and_names_the_parameters_of_its_path() {
    let (server, _folder) = Server::start(|_| {}).await;
    let document = document(&server.get("/openapi.json").await.text());
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            assert!(operation["summary"].as_str().unwrap().ends_with('.'), "{method} {path}");
            assert!(operation["responses"].as_object().unwrap().len() > 1, "{method} {path}");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let of_path = parameters.iter().filter(|parameter| parameter["in"] == "path");
            let named: BTreeSet<&str> = of_path.map(|parameter| parameter["name"].as_str().unwrap()).collect();
            let in_path = path.split('{').skip(1).map(|rest| rest.split_once('}').unwrap().0);
            assert_eq!(named, in_path.collect(), "{method} {path}");
        }
    }
}

/// The routes that the sources write out, but for the page at the root, and the files they are in.
fn routes() -> Vec<(String, PathBuf)> {
    let mut routes = Vec::new();
    for folder in SOURCES {
        for file in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)) {
            let text = std::fs::read_to_string(&file).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap();
            let written = text.split(".route(").skip(1).filter_map(|route| {
                let path = route.trim_start().strip_prefix('"')?.split('"').next()?;
                (path != "/").then(|| (path.to_owned(), file.clone()))
            });
            routes.extend(written);
        }
    }
    routes
}

#[test]
fn every_route_of_the_doors_is_documented() {
    let document = document(include_str!("../../assets/openapi.json"));
    let documented: BTreeSet<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let is_public = |path: &str| !NOT_DOCUMENTED.iter().any(|start| path.starts_with(start));
    let mut found = 0;
    for (path, file) in routes().iter().filter(|(path, _)| is_public(path)) {
        assert!(documented.contains(path.as_str()), "{path} of {} is not documented", file.display());
        found += 1;
    }
    assert!(found > 20, "only {found} routes were found");
}

#[test]
fn the_repository_is_at_the_path_of_no_route() {
    let document = document(include_str!("../../assets/openapi.json"));
    let documented = document["paths"].as_object().unwrap().keys().cloned();
    // What pages load has its routes from a table.
    let loaded = "/assets/page.js".to_owned();
    let paths = routes().into_iter().map(|(path, _)| path).chain(documented).chain([loaded]);
    let firsts = paths.filter_map(|path| path.split('/').nth(1).map(str::to_owned));
    let firsts: BTreeSet<String> = firsts.filter(|first| !first.is_empty() && first != "rest").collect();
    assert!(["admin", "audit", "feed"].iter().all(|first| firsts.contains(*first)), "{firsts:?}");
    for first in firsts {
        let mut config = Config::default();
        config.ldp.base = format!("/{first}/");
        assert!(config.check().is_err(), "a repository at /{first}/ would have the path of a route");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let nested = entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    let is_test = |path: &Path| path.file_stem().is_some_and(|stem| stem == "tests");
    nested.filter(|path| path.extension().is_some_and(|ending| ending == "rs") && !is_test(path)).collect()
}

#[tokio::test]
async fn the_page_that_shows_the_routes_needs_no_script_and_asks_no_other_server() {
    let (server, _folder) = Server::start(|_| {}).await;
    let page = server.get("/openapi").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    for part in ["name=\"viewport\"", "<h1>Routes</h1>", "<code>GET /volumes</code> A ZIP of volumes."] {
        assert!(page.text().contains(part), "{part} is not in {}", page.text());
    }
    assert!(!page.text().contains("<noscript"), "{}", page.text());
    for path in ["/openapi", "/assets/openapi.js"] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert!(!answer.text().contains("http://") && !answer.text().contains("https://"), "{path}");
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
    }
}
