//! The page for people, in a real browser, if one is installed.

use std::process::{Command, Stdio};

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
async fn a_browser_shows_the_volumes_one_volume_and_one_page() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    import_samples(store.clone(), &["t0ks80527", "t8ff3zh99"]).await;
    let server = Server::serve(on_free_ports(), store).await;
    let base = format!("http://{}/", server.http());

    let list = document(browser, base.clone()).await;
    assert!(list.contains("2 volumes"), "{list}");
    for shown in ["An introduction to Combinatory analysis", "Salmon fry production", "92 pages"] {
        assert!(list.contains(shown), "`{shown}` is not in the list of volumes: {list}");
    }

    let volume = document(browser, format!("{base}#/v/uc2.ark%3A%2F13960%2Ft8ff3zh99")).await;
    for shown in ["1920", "table of contents", "layout=volumes", "#/v/uc2.ark%3A%2F13960%2Ft8ff3zh99/92"] {
        assert!(volume.contains(shown), "`{shown}` is not on the page of the volume: {volume}");
    }

    let page = document(browser, format!("{base}#/v/uc2.ark%3A%2F13960%2Ft8ff3zh99/9")).await;
    for shown in ["MAJOR P. A. MACMAHON", "of 92", "t8ff3zh99/8\"", "t8ff3zh99/10\""] {
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
    let without_script = page.split("<noscript>").nth(1).unwrap();
    for place in ["volumes/?format=html", "rest/", "rest/fcr:search", "openapi.json"] {
        assert!(without_script.contains(&format!("href=\"{place}\"")), "{place}: {page}");
        // The index of the search may not be there yet.
        until(place, async || server.get(&format!("/{place}")).await.status.is_success()).await;
    }
    assert!(page.contains("\"assets/page.js\"") && !page.contains(VOLUME));
}
