//! Pages for people in a real browser: a person signs in, fills forms in and sends them, at two
//! sizes of the window, in light and dark, and axe-core finds nothing that is hard to use. Each kind
//! of page is visited, also those of errors and of damage, and each that has scripts with and
//! without them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use fixity::{Auditor, FixityOptions, Step};
use http::{Method, StatusCode};
use library::Library;
use serde_json::Value;
use server::config::{Access, Config};
use store::{Store, SystemClock};
use tokio::process::Command;

use crate::browser::browser;
use crate::support::{Server, VOLUME, not_run, on_free_ports, open_store, soon, until};

/// What Node.js needs: a driver of browsers, and checks of accessibility.
const PACKAGES: [&str; 2] = ["puppeteer-core@24.43.1", "axe-core@4.14.1"];

/// How long the browser may take: it reads each page four times, with checks, beside other tests.
const VISIT_PATIENCE: Duration = Duration::from_mins(15);

/// The folder with the packages, which are fetched once and kept from run to run.
async fn packages() -> PathBuf {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(PACKAGES.join("-").replace('@', "-"));
    if !kept.join("node_modules/axe-core/package.json").exists() {
        std::fs::create_dir_all(&kept).unwrap();
        let mut install = Command::new("npm");
        install.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&kept);
        let installed = soon("the packages", install.args(PACKAGES).kill_on_drop(true).output()).await.unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    }
    kept
}

/// Whether Node.js is installed. If not, that is reported.
fn has_node() -> bool {
    let tried = std::process::Command::new("npm").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = tried.is_ok_and(|end| end.success());
    if !is_there {
        not_run("forms in a browser: npm is not installed");
    }
    is_there
}

/// Makes files that have a look each, one that is stored in a file of the data folder, and an
/// archival group.
async fn put_files_and_a_group(server: &Server, authorization: &str) {
    let image = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"8\" height=\"8\"><path d=\"M0 0h8v8z\"/></svg>";
    let part = |n: u32| format!("<div ORDER=\"{n}\" LABEL=\"Page\"><fptr FILEID=\"F\"/></div>");
    let parts: String = (1..=60).map(part).collect();
    let mets = format!(
        "<mets xmlns=\"http://www.loc.gov/METS/\" xmlns:x=\"http://www.w3.org/1999/xlink\" LABEL=\"A book\">\
         <fileSec><fileGrp><file ID=\"F\"><FLocat x:href=\"{}.txt\"/></file></fileGrp></fileSec>\
         <structMap>{parts}</structMap></mets>",
        "x".repeat(500)
    );
    let group = "<http://fedora.info/definitions/v4/repository#ArchivalGroup>; rel=\"type\"";
    let bytes = "<http://www.w3.org/ns/ldp#NonRDFSource>; rel=\"type\"";
    let scan = "x".repeat(300_000);
    let title = "<> <http://purl.org/dc/terms/title> \"An archival group\" .";
    for (path, media_type, link, body) in [
        ("/rest/seal.svg", "image/svg+xml", bytes, image),
        ("/rest/mets.xml", "application/mets+xml", bytes, mets.as_str()),
        ("/rest/talk.mp3", "audio/mpeg", bytes, "no sound"),
        ("/rest/walk.mp4", "video/mp4", bytes, "no film"),
        ("/rest/scan.txt", "text/plain", bytes, scan.as_str()),
        ("/rest/group", "text/turtle", group, title),
        ("/rest/group/part", "text/turtle", "<http://www.w3.org/ns/ldp#RDFSource>; rel=\"type\"", ""),
    ] {
        let headers = [("authorization", authorization), ("content-type", media_type), ("link", link)];
        let put = server.ask_with(Method::PUT, path, &headers, body).await;
        assert_eq!(put.status, StatusCode::CREATED, "{path}");
    }
}

/// Changes a byte of the only content that is in a file.
fn damage_the_scan(data_folder: &Path) {
    let folders = std::fs::read_dir(data_folder.join("contents")).unwrap().map(|folder| folder.unwrap().path());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    let mut content = std::fs::read(file).unwrap();
    content[1_000] ^= 1;
    std::fs::write(file, content).unwrap();
}

/// Makes one pass of the fixity auditor, which leaves a report.
async fn audit(store: Arc<dyn Store>) {
    let library = Library::open(store, Arc::new(SystemClock), Default::default()).await.unwrap();
    let auditor = Auditor::new(library, FixityOptions { bytes_per_second: 0, ..FixityOptions::default() });
    loop {
        match auditor.step().await.unwrap() {
            Step::Rests { .. } => return,
            step => assert!(matches!(step, Step::Read(_) | Step::Moved), "{step:?}"),
        }
    }
}

#[tokio::test]
async fn a_person_signs_in_and_creates_uploads_edits_restores_and_deletes_without_a_script() {
    let Some(browser) = browser() else { return };
    if !has_node() {
        return;
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let browser =
        std::env::split_paths(&folders).map(|folder| folder.join(browser)).find(|file| file.exists()).unwrap();
    let with_tokens = |config: &mut Config| config.auth.write = Access::Token;
    let (server, folder) = Server::start(with_tokens).await;
    let token = server.token("jane").await;
    let operator = server.token_for("operator", "read admin").await;
    // Long words must not make a list wider than a phone.
    let long = "x".repeat(500);
    let titled = format!("<> <http://purl.org/dc/terms/title> \"{}\" .", "y".repeat(500));
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "text/turtle")];
    let put = server.ask_with(Method::PUT, &format!("/rest/{long}"), &headers, &titled).await;
    assert_eq!(put.status, StatusCode::CREATED);
    put_files_and_a_group(&server, &authorization).await;
    server.end().await;
    damage_the_scan(folder.path());
    let store = open_store(folder.path());
    audit(store.clone()).await;
    let mut config = on_free_ports();
    with_tokens(&mut config);
    let server = Server::serve(config, store).await;
    let search = "/rest/fcr:search?fedora_id=seal*";
    until("the search index", async || server.get(search).await.text().contains("seal.svg")).await;
    let (closed, _closed_folder) = Server::start(|config| config.auth.read = Access::Token).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serving/people/visit.mjs");
    let upload = folder.path().join("letter.txt");
    std::fs::write(&upload, "Dear Jane").unwrap();
    let screenshots = std::env::var_os("PENATES_SCREENSHOTS").unwrap_or_default();
    let mut visit = Command::new("node");
    visit.arg(&script).arg(packages().await).arg(browser);
    visit.args([&server, &closed].map(|server| format!("http://{}/", server.http())));
    visit.args([&token, &operator]).arg(&upload).arg(VOLUME).arg(screenshots).kill_on_drop(true);
    let output =
        tokio::time::timeout(VISIT_PATIENCE, visit.output()).await.expect("the browser took too long").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["violations"], Value::Array(Vec::new()), "{seen:#}");
    assert_eq!(seen["overflows"], Value::Array(Vec::new()), "{seen:#}");
    assert!(seen["pages"].as_u64().unwrap() >= 82, "{seen:#}");
    let titles: Vec<_> = seen["titles"].as_array().unwrap().iter().map(|title| title.as_str().unwrap()).collect();
    for title in [
        "Sign in",
        "Repository",
        "Letters from <b>Rome</b>",
        "Pages of a <i>book</i>",
        "Changed",
        "Deleted from /",
        "letter.txt",
        "Change letter.txt",
        "Versions of /Letters-from-b-Rome-b/letter.txt",
        "Changes of /Letters-from-b-Rome-b/letter.txt",
        "Fixity of /Letters-from-b-Rome-b/letter.txt",
        "Deleted from /Letters-from-b-Rome-b",
        "Search",
        "The library",
        "Page 2",
        "Routes",
        "Volumes",
        "What this repository refuses",
        "seal.svg",
        "mets.xml",
        "METS",
        "talk.mp3",
        "walk.mp4",
        "An archival group",
        "/group",
        "scan.txt",
        "Fixity of /scan.txt",
        "Fixity",
        "Fixity pass 1",
        "Unauthorized",
        "Forbidden",
        "Not Found",
        "Gone",
        "Payload Too Large",
        "Internal Server Error",
    ] {
        assert!(titles.contains(&title), "{title}: {titles:?}");
    }
    assert_eq!(server.get("/rest/Letters-from-b-Rome-b").await.status, StatusCode::GONE);

    // Each change is in the audit, as the person's, and as the request that it was.
    let events = server.admin(Method::GET, "/admin/audit?kind=change&token=jane").await.text();
    for change in ["\"POST\"", "\"PUT\"", "\"DELETE\""] {
        assert!(events.contains(change), "{change} is not in {events}");
    }
    let of_forms = events.lines().filter(|event| event.contains("fcr:forms"));
    let of_forms = of_forms.map(|event| serde_json::from_str::<Value>(event).unwrap());
    let mut refused: Vec<_> = of_forms.map(|event| event["event"]["result"]["status"].as_u64().unwrap()).collect();
    refused.sort_unstable();
    assert_eq!(refused, [400, 400, 409, 412, 413], "only the refused forms are: {events}");
    server.end().await;
    closed.end().await;
}
