//! `/openapi.json` agrees with the routes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use heads::Keep;
use http::{Method, StatusCode};
use serde_json::Value;
use server::config::{Access, Config};

use crate::support::*;

/// Names in the texts of routes, each with what it means.
type Names = &'static [(&'static str, &'static [&'static str])];

/// The path of a version of a volume.
const VERSION: &str = "/volumes/{id}/versions/{revision}";

/// Folders with routes for clients, and the names in them. The rest is for administrators, who have
/// commands.
const SOURCES: [(&str, Names); 4] = [
    ("door-data/src", &[("address", &["/volumes/{id}", VERSION]), ("version", &[VERSION])]),
    (
        "door-ldp/src",
        &[("base", &["/rest"]), ("member", &["pages/{seq}", "mets", "record"]), ("VERSIONS", &["fcr:versions"])],
    ),
    ("door-records/src/http", &[]),
    ("server/src", &[]),
];

/// Routes of an administrator and of a copy, and files of pages.
const NOT_DOCUMENTED: [&str; 3] = ["/admin/", "/assets/", "/store"];

/// What the parts of documented paths are in requests. The volume and the resource exist.
const SAMPLES: [(&str, &str); 8] = [
    ("{seq}", "1"),
    ("{revision}", "1"),
    ("{selection}", "1"),
    ("{pass}", "1"),
    ("{path}", "x"),
    ("{version}", "20250615150640"),
    ("{second}", "20250615150640"),
    ("{transaction}", "00000000-0000-0000-0000-000000000000"),
];

/// Routes that refuse parameters that they do not have. The third part is a query with which some
/// of them have others.
const STRICT: [(&str, &str, &str); 16] = [
    ("get", "/volumes/", ""),
    ("put", "/volumes/{id}", ""),
    ("get", "/volumes/{id}/versions/", ""),
    ("post", "/volumes/{id}/versions/", ""),
    ("get", "/rest/fcr:search", ""),
    ("get", "/rest/fcr:resources", ""),
    ("post", "/rest/fcr:verify", ""),
    ("get", "/rest/{path}/fcr:versions", "members=deleted"),
    ("post", "/rest/{path}/fcr:versions", ""),
    ("get", "/rest/{path}/fcr:forms", ""),
    ("get", "/records/", ""),
    ("get", "/records/{id}", ""),
    ("put", "/records/{id}", ""),
    ("patch", "/records/{id}", ""),
    ("get", "/feed", ""),
    ("get", "/audit", ""),
];

/// Routes that ignore parameters that they do not have, unless one is misspelt.
const LENIENT: [(&str, &str); 12] = [
    ("get", "/volumes"),
    ("post", "/volumes"),
    ("get", "/pages"),
    ("post", "/pages"),
    ("get", "/tokencount"),
    ("post", "/tokencount"),
    ("post", "/selections"),
    ("get", "/rest/"),
    ("get", "/rest/{path}"),
    ("get", "/rest/volumes"),
    ("get", "/rest/volumes/{id}"),
    ("get", "/rest/{path}/fcr:versions/{version}"),
];

/// Routes whose parameters are not tested here: the page for people ignores what it does not know,
/// and the state of the volumes is there a second later only.
const UNTESTED: [(&str, &str); 2] = [("get", "/sign-in"), ("get", "/rest/volumes/fcr:versions/{second}")];

/// The methods that some resources have, and others have not.
const OF_RESOURCES: [&str; 5] = ["DELETE", "PUT", "POST", "PATCH", "GET"];

/// The path of a request for a documented path.
pub fn sample(path: &str) -> String {
    let id = if path.starts_with("/records") { "user" } else { VOLUME };
    SAMPLES.iter().fold(path.replace("{id}", id), |path, (part, sampled)| path.replace(part, sampled))
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A method as the document writes it.
fn method(written: &str) -> Method {
    Method::from_bytes(written.to_uppercase().as_bytes()).unwrap()
}

/// The parameters that an operation has in its query.
fn parameters(operation: &Value) -> BTreeSet<String> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let of_query = parameters.filter(|parameter| parameter["in"] == "query");
    of_query.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect()
}

/// The parameters that a refusal of another one lists.
fn listed(refusal: &str) -> BTreeSet<String> {
    let begins = ["there are ", "expected one of ", "expected ", "has the parameters "];
    let list = begins.iter().find_map(|begin| refusal.split_once(*begin));
    let (_, list) = list.unwrap_or_else(|| panic!("{refusal}"));
    let words = list.split('"').next().unwrap().split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
    words.filter(|word| !["", "and", "or"].contains(word)).map(str::to_owned).collect()
}

#[tokio::test]
async fn every_documented_route_has_exactly_the_documented_methods() {
    let (server, _folder) = Server::start(|config| {
        (config.history.volumes, config.ldp.delete_versions) = (Keep::All, true);
    })
    .await;
    let document = document(&server.get("/openapi.json").await.text());
    let versions = server.get(&format!("/volumes/{VOLUME}/versions/")).await.json();
    let revision = versions["versions"][0]["revision"].as_str().unwrap();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let documented: BTreeSet<String> =
            operations.as_object().unwrap().keys().map(|name| name.to_uppercase()).collect();
        let sampled = sample(&path.replace("{revision}", revision));
        // One handler takes all requests for resources. It refuses methods that one does not have.
        let others: &[&str] = if path.starts_with("/rest/") { &OF_RESOURCES } else { &[] };
        let other = others.iter().find(|other| !documented.contains(**other)).unwrap_or(&"BREW");
        let mut refused = server.admin(method(other), &sampled).await;
        if refused.status == StatusCode::CONFLICT {
            assert!(path.starts_with("/rest/volumes"), "{path}: the data door changes volumes");
            refused = server.admin(Method::OPTIONS, &sampled).await;
        } else {
            assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED, "{path}: {}", refused.text());
        }
        let allowed = refused.header("allow").split(',').map(|name| name.trim().to_owned());
        let allowed: BTreeSet<String> = allowed.filter(|name| name != "HEAD").collect();
        assert_eq!(allowed, documented, "{path}");
    }
}

#[tokio::test]
async fn every_parameter_that_a_route_takes_is_documented_and_no_other() {
    let (server, _folder) = Server::start(|config| {
        (config.auth.write, config.history.volumes) = (Access::Open, Keep::All);
    })
    .await;
    let made = server.ask_with(Method::PUT, "/rest/x", &[("content-type", "text/turtle")], "").await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    let version = server.ask(Method::POST, "/rest/x/fcr:versions", &[]).await;
    let version = version.header("location").rsplit('/').next().unwrap();
    let document = document(include_str!("../../assets/openapi.json"));
    for (name, path, more) in STRICT {
        let documented = parameters(&document["paths"][path][name]);
        let send = async |query: String| server.admin(method(name), &format!("{}?{query}", sample(path))).await.text();
        let refusal = send("invented=1".to_owned()).await;
        let mut known = listed(&refusal);
        for parameter in &documented {
            known.extend(listed(&send(format!("invented=1&{parameter}=1")).await));
            let refusal = refusal.replace("invented", parameter);
            let is_known = send(format!("{parameter}=1")).await != refusal
                || send(format!("{more}&{parameter}=1")).await != refusal;
            assert!(is_known, "{name} {path}: {refusal}");
        }
        if path == "/audit" {
            // It is for commands, which go another way.
            assert!(known.remove("top"), "{known:?}");
        }
        assert_eq!(known, documented, "{name} {path}");
    }
    for (name, path) in LENIENT {
        for parameter in parameters(&document["paths"][path][name]) {
            let misspelt = format!("{}?{}=1", sample(&path.replace("{version}", version)), parameter.to_uppercase());
            let mut is_known = false;
            for accepted in ["*/*", "text/html", "application/zip"] {
                let answer = server.ask(method(name), &misspelt, &[("accept", accepted)]).await;
                is_known |= answer.status == StatusCode::BAD_REQUEST && answer.text().contains("is written");
            }
            assert!(is_known, "{name} {misspelt}");
        }
    }
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (name, operation) in operations.as_object().unwrap() {
            let route = (name.as_str(), path.as_str());
            let is_strict = STRICT.iter().any(|(name, path, _)| (*name, *path) == route);
            let is_tested = is_strict || LENIENT.contains(&route) || UNTESTED.contains(&route);
            assert!(is_tested || parameters(operation).is_empty(), "{name} {path}");
        }
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
    for (folder, names) in SOURCES {
        for file in files(&source(folder)) {
            let text = without_tests(&file);
            let paths = text.split(".route(").skip(1).flat_map(|call| paths(call, names));
            routes.extend(paths.filter(|path| path != "/").map(|path| (path, file.clone())));
        }
    }
    routes
}

/// A file or a folder of the sources.
fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn without_tests(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap().split("#[cfg(test)]").next().unwrap().to_owned()
}

/// The paths that a call of `route` begins with: a text, a text with names, or a name.
fn paths(call: &str, names: Names) -> BTreeSet<String> {
    let call = call.trim_start();
    if let Some(text) = call.strip_prefix('"') {
        return BTreeSet::from([text.split('"').next().unwrap().to_owned()]);
    }
    if names.is_empty() {
        return BTreeSet::new();
    }
    let text = match call.strip_prefix("&format!(\"") {
        Some(text) => text.split('"').next().unwrap().to_owned(),
        None => format!("{{{}}}", call.split(',').next().unwrap()),
    };
    let mut paths = vec![text.replace("{{", "<").replace("}}", ">")];
    for (name, values) in names {
        let name = format!("{{{name}}}");
        let with = |value: &str| -> Vec<String> { paths.iter().map(|path| path.replace(&name, value)).collect() };
        paths = values.iter().flat_map(|value| with(value)).collect();
    }
    paths.iter().map(|path| path.replace('<', "{").replace('>', "}").replace("{*", "{")).collect()
}

#[test]
fn every_route_of_the_doors_is_documented() {
    let document = document(include_str!("../../assets/openapi.json"));
    let documented: BTreeSet<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let is_public = |path: &str| !NOT_DOCUMENTED.iter().any(|start| path.starts_with(start));
    let mut found = 0;
    for (path, file) in routes().iter().filter(|(path, _)| is_public(path)) {
        // The root of the repository answers without its slash, too.
        let path = if path == "/rest" { "/rest/" } else { path.as_str() };
        assert!(documented.contains(path), "{path} of {} is not documented", file.display());
        found += 1;
    }
    assert!(found > 40, "only {found} routes were found");

    // Parts of resources have reserved names. Their pages load `fcr:style`.
    let address = without_tests(&source("door-ldp/src/address.rs"));
    let parts = address.split("Some(Some(\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    for part in parts.chain(["forms", "versions", "tx"]).filter(|part| *part != "style") {
        let part = format!("fcr:{part}");
        assert!(documented.iter().any(|path| path.split('/').any(|name| name == part)), "{part} is not documented");
    }
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
