//! The first page, in a real browser, if one is installed.

use std::process::{Command, Stdio};

use http::{Method, StatusCode};
use server::config::Access;

use crate::support::{PATIENCE, Server, VOLUME, import_samples, not_run, on_free_ports, open_store, until};

/// The names under which Chromium is installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The browser, or `None` after reporting that the test did not run.
pub fn browser() -> Option<&'static str> {
    let found = BROWSERS.into_iter().find(|name| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|end| end.success())
    });
    if found.is_none() {
        not_run("the page for people in a browser: no Chromium is installed");
    }
    found
}

/// The document after the page's scripts have finished.
async fn document(browser: &'static str, address: String) -> String {
    let profile = tempfile::tempdir().unwrap();
    let mut command = tokio::process::Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"])
        .args(["--disable-background-networking", "--disable-component-update", "--virtual-time-budget=10000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--dump-dom", &address])
        .kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("the browser took too long").unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn with_a_script_the_first_page_lists_volumes_and_old_addresses_lead_to_their_pages() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    import_samples(store.clone(), &["t0ks80527", "t8ff3zh99"]).await;
    let server = Server::serve(on_free_ports(), store).await;
    let base = format!("http://{}/", server.http());

    let list = document(browser, base.clone()).await;
    assert!(list.contains("2 volumes"), "{list}");
    for shown in [
        "An introduction to Combinatory analysis",
        "Salmon fry production",
        "92 pages",
        "href=\"./rest/volumes/uc2.ark",
        "Choose all of these",
    ] {
        assert!(list.contains(shown), "`{shown}` is not in the list of volumes: {list}");
    }

    // Addresses of earlier versions lead to the pages of the repository.
    let volume = document(browser, format!("{base}#/v/uc2.ark%3A%2F13960%2Ft8ff3zh99")).await;
    for shown in ["1920", "table of contents", "layout=volumes", "/rest/volumes/uc2.ark+=13960=t8ff3zh99/pages/92\""] {
        assert!(volume.contains(shown), "`{shown}` is not on the page of the volume: {volume}");
    }

    let page = document(browser, format!("{base}#/v/uc2.ark%3A%2F13960%2Ft8ff3zh99/9")).await;
    for shown in ["MAJOR P. A. MACMAHON", "of 92", "t8ff3zh99/pages/8\"", "t8ff3zh99/pages/10\""] {
        assert!(page.contains(shown), "`{shown}` is not on the page of the page: {page}");
    }

    let absent = document(browser, format!("{base}#/v/no.such")).await;
    assert!(absent.contains("no.such is not in the store"), "{absent}");
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere() {
    let (server, _folder) = Server::start(|_| {}).await;
    for path in ["/", "/assets/page.js", "/assets/page.css", "/assets/icon.svg"] {
        let answer = server.get(path).await;
        assert!(answer.status.is_success(), "{path}");
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
        let text = answer.text().replace("http://www.w3.org/2000/svg", "");
        for elsewhere in ["http://", "https://", "src=\"//", "@import", "innerHTML"] {
            assert!(!text.contains(elsewhere), "{path} contains {elsewhere}");
        }
    }
    let page = server.get("/").await.text();
    assert!(page.contains("\"assets/page.js\"") && !page.contains(VOLUME));
}

#[tokio::test]
async fn the_scripts_of_pages_have_no_shortcuts_of_single_keys() {
    let (server, _folder) = Server::start(|_| {}).await;
    for path in ["/assets/page.js", "/assets/openapi.js"] {
        let script = server.get(path).await.text();
        assert!(!script.contains("keydown") && !script.contains("( / )"), "{path}: {script}");
    }
}

#[tokio::test]
async fn without_a_script_the_first_page_finds_volumes_and_leads_to_all_that_is_here() {
    let (server, _folder) = Server::start(|_| {}).await;
    let page = server.get("/").await.text();
    assert!(page.contains("<h1>The library</h1>") && !page.contains("<noscript>"), "{page}");
    for place in [
        "volumes/?format=html",
        "volumes/?format=html&amp;sort=title",
        "volumes/?format=html&amp;sort=author",
        "volumes/?format=html&amp;sort=year",
        "volumes/?format=text",
        "./rest/volumes",
        "./rest/",
        "./rest/fcr:search",
        "openapi",
        "openapi.json",
        "healthz",
        "readyz",
        "sign-in",
    ] {
        assert!(page.contains(&format!("href=\"{place}\"")), "{place}: {page}");
        let path = format!("/{}", place.trim_start_matches("./").replace("&amp;", "&"));
        // The index of the search may not be there yet.
        until(place, async || server.get(&path).await.status.is_success()).await;
    }
    // What its form sends; a field that is left empty is no condition.
    assert!(page.contains("<form action=\"volumes/\""), "{page}");
    for name in ["format", "title", "author", "year", "language", "id", "sort"] {
        assert!(page.contains(&format!("name=\"{name}\"")), "{name}: {page}");
    }
    for (found, count) in [("title=SALMON&year=1900..&sort=-year", 1), ("title=whale&sort=", 0), ("id=psia.", 1)] {
        let list = server.get(&format!("/volumes/?format=html&author=&language=&{found}")).await;
        assert_eq!(list.status, StatusCode::OK, "{found}: {}", list.text());
        assert_eq!(list.text().matches("rest/volumes/psia.ark").count(), count, "{found}: {}", list.text());
    }
}

#[tokio::test]
async fn the_first_page_offers_a_stranger_who_may_not_read_to_sign_in() {
    let (server, _folder) = Server::start(|config| config.auth.read = Access::Token).await;
    let page = server.get("/").await.text();
    assert!(page.contains("href=\"sign-in\">sign in</a>"), "{page}");
    assert!(!page.contains("assets/page.js") && !page.contains("<form action=\"volumes/\""), "{page}");
    let token = format!("Bearer {}", server.token("reader").await);
    let page = server.ask(Method::GET, "/", &[("authorization", &token)]).await.text();
    assert!(page.contains("assets/page.js") && page.contains("<form action=\"volumes/\""), "{page}");
}
