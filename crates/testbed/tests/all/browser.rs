//! Reports and the portal in a real browser, if one is installed: as files, without any network.
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::chromium::Page;
use crate::invented::{add, runs};

/// Widths of a window on a desk, and of a phone.
const WIDTHS: [(&str, u32); 2] = [("desktop", 1_280), ("phone", 390)];

/// A portal over invented runs. Returns its folder and that of one of the runs.
fn portal(folder: &Path) -> (PathBuf, PathBuf) {
    let (archive, out) = (folder.join("archive"), folder.join("portal"));
    let folders: Vec<_> = runs(30).iter().map(|run| add(&archive, run).unwrap()).collect();
    testbed::portal::publish(&archive, &out).unwrap();
    (out, folders[0].clone())
}

/// Looks at a page at all widths, in the light and in the dark.
fn look(page: &mut Page, name: &str) {
    let mut pages = Vec::new();
    for (device, width) in WIDTHS {
        for (light, is_dark) in [("light", false), ("dark", true)] {
            page.view(width, is_dark);
            page.until(&format!("innerWidth === {width}"));
            // Charts are drawn again when the width has changed.
            page.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
            let too_wide = page.value("document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert!(too_wide.as_f64() <= Some(0.0), "{name}, {device}: the page is {too_wide} pixels too wide");
            pages.push(page.value("getComputedStyle(document.body).backgroundColor"));
            page.keep_image(&format!("{name}-{device}-{light}"));
        }
    }
    assert!(pages[0] == pages[2] && pages[1] == pages[3] && pages[0] != pages[1], "{pages:?}");
}

#[track_caller]
fn assert_no_complaint(page: &Page) {
    assert!(page.complaints.is_empty(), "{}", page.complaints.join("\n"));
}

#[test]
fn a_report_opens_without_a_network_and_draws_its_charts() {
    let Some(mut page) = Page::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (out, run) = portal(folder.path());
    page.open(&run.join("data/report.html"));
    page.until("document.querySelectorAll('#charts figure canvas').length >= 4");
    let (title, heading) = (page.value("document.title"), page.value("document.querySelector('h1').textContent"));
    assert!(title.as_str().unwrap().starts_with(heading.as_str().unwrap()), "{title} {heading}");
    // A line is hidden and shown again by its name in the legend.
    let line = "document.querySelector('#charts figure tbody button')";
    for is_shown in ["false", "true"] {
        page.value(&format!("{line}.click()"));
        assert_eq!(page.value(&format!("{line}.getAttribute('aria-pressed')")), is_shown);
    }
    look(&mut page, "report");
    assert_no_complaint(&page);

    // The report of the same run in the portal.
    page.open(&out.join("runs").join(run.file_name().unwrap()).join("report.html"));
    page.until("document.querySelectorAll('#charts figure canvas').length >= 4");
    assert_no_complaint(&page);
}

/// The ids of the runs that the table of a portal shows.
fn shown(page: &mut Page) -> Vec<String> {
    let rows = "[...document.querySelectorAll('#runs tr[data-id]')].filter((row) => !row.hidden)";
    let rows = page.value(&format!("{rows}.map((row) => row.dataset.id)"));
    rows.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// Sets a filter, as a reader does.
fn filter(page: &mut Page, name: &str, value: &str) {
    let field = format!("document.getElementById('filters').elements[{}]", json!(name));
    page.value(&format!("{field}.value = {}; {field}.dispatchEvent(new Event('input'))", json!(value)));
    assert_eq!(page.value(&format!("{field}.value")), value, "{name}");
}

#[test]
fn a_portal_opens_without_a_network_filters_runs_and_compares_two() {
    let Some(mut page) = Page::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (out, _) = portal(folder.path());
    let rows: Vec<Value> = serde_json::from_slice(&std::fs::read(out.join("runs.json")).unwrap()).unwrap();
    let ids = |is_asked_for: &dyn Fn(&Value) -> bool| -> Vec<String> {
        rows.iter().filter(|row| is_asked_for(row)).map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    page.open(&out.join("index.html"));
    page.until("document.getElementById('shown').textContent !== ''");
    assert_eq!(shown(&mut page), ids(&|_| true), "the newest first");

    filter(&mut page, "candidate", "fedora");
    let of_fedora = ids(&|row| row["candidate"] == "fedora");
    assert!(of_fedora.len() > 1 && of_fedora.len() < rows.len());
    assert_eq!(shown(&mut page), of_fedora);
    filter(&mut page, "verdict", "failed");
    assert_eq!(shown(&mut page), ids(&|row| row["candidate"] == "fedora" && row["verdict"] == "failed"));
    page.value("document.getElementById('all').click()");
    assert_eq!(shown(&mut page).len(), rows.len());
    let configuration = rows[rows.len() - 1]["configuration_sha256"].as_str().unwrap();
    filter(&mut page, "configuration_sha256", configuration);
    let of_configuration = ids(&|row| row["configuration_sha256"] == configuration);
    assert!(of_configuration.len() > 1 && of_configuration.len() < rows.len());
    assert_eq!(shown(&mut page), of_configuration);

    // The address is the view: the same page shows it again.
    let address = page.value("location.hash");
    assert!(address.as_str().unwrap().contains(configuration), "{address}");
    page.value("document.getElementById('all').click()");

    let two = &ids(&|row| row["candidate"] == "penates" && row["verdict"] == "held")[..2];
    for id in two {
        page.value(&format!("document.querySelector('tr[data-id=\"{id}\"] input').click()"));
    }
    page.until("document.querySelectorAll('#compared figure canvas').length === 4");
    let compared = page.value("document.getElementById('compared').textContent");
    let compared = compared.as_str().unwrap();
    for text in ["Same configuration?", "baseline", two[0].as_str(), two[1].as_str(), "p99"] {
        assert!(compared.contains(text), "{text}: {compared}");
    }
    look(&mut page, "portal");
    page.value("document.getElementById('none').click()");
    page.until("document.querySelectorAll('#compared figure').length === 0");
    assert_no_complaint(&page);
}
