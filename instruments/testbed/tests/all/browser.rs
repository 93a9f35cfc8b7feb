//! Reports and the portal in a real browser, if one is installed: as files, without any network.
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::chromium::Page;
use crate::invented::{add, runs};

/// Widths of a window on a desk, and of a phone.
const WIDTHS: [(&str, u32); 2] = [("desktop", 1_280), ("phone", 390)];

/// Waits until charts are drawn, also those that are drawn again because the width has changed.
const DRAWN: &str = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))";

/// A portal over invented runs. Returns its folder, that of a run that has held, and that of a
/// failed one with a monitor and events.
fn portal(folder: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let (archive, out) = (folder.join("archive"), folder.join("portal"));
    let folders = runs(30).into_iter().map(|run| (add(&archive, &run).unwrap(), run));
    let (watched, others): (Vec<_>, Vec<_>) = folders.partition(|(_, run)| run.is_watched);
    testbed::portal::publish(&archive, &out).unwrap();
    (out, others[0].0.clone(), watched[0].0.clone())
}

/// Looks at a page at all widths, in the light and in the dark, and as it is printed.
fn look(page: &mut Page, name: &str) {
    let mut pages = Vec::new();
    for (device, width) in WIDTHS {
        for (light, is_dark) in [("light", false), ("dark", true)] {
            page.view(width, is_dark);
            page.until(&format!("innerWidth === {width}"));
            page.value(DRAWN);
            let too_wide = page.value("document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert!(too_wide.as_f64() <= Some(0.0), "{name}, {device}: the page is {too_wide} pixels too wide");
            pages.push(page.value("getComputedStyle(document.body).backgroundColor"));
            page.keep_image(&format!("{name}-{device}-{light}"));
        }
    }
    assert!(pages[0] == pages[2] && pages[1] == pages[3] && pages[0] != pages[1], "{pages:?}");
    // On paper nothing leads anywhere, and it is light.
    let prints = "document.documentElement.classList.contains('prints')";
    let leads = "getComputedStyle(document.querySelector('nav')).display !== 'none'";
    page.print(true);
    page.until(&format!("{prints} && !({leads})"));
    assert_eq!(page.value("getComputedStyle(document.body).backgroundColor"), pages[0], "{name}");
    page.keep_image(&format!("{name}-print"));
    page.print(false);
    page.until(&format!("!{prints} && {leads}"));
}

#[track_caller]
fn assert_no_complaint(page: &Page) {
    assert!(page.complaints.is_empty(), "{}", page.complaints.join("\n"));
}

#[test]
fn a_report_opens_without_a_network_and_draws_its_charts() {
    let Some(mut page) = Page::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (out, run, failed) = portal(folder.path());
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

    marks_errors_and_events(&mut page, &failed);
}

/// Of each chart: its title, whether something has the colour of errors, and how many lines from
/// top to bottom have that of events.
const MARKED: &str = "[...document.querySelectorAll('#charts figure')].map((chart) => {
    const canvas = chart.querySelector('canvas');
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const columns = (name) => {
        const hex = getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
        const wanted = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
        const counts = new Array(canvas.width).fill(0);
        for (let at = 0; at < pixels.length; at += 4) {
            if (wanted.every((value, part) => pixels[at + part] === value)) counts[at / 4 % canvas.width] += 1;
        }
        return counts;
    };
    // Half of a dashed line.
    const lines = columns('muted').filter((count) => count > canvas.height / 5).length;
    const title = chart.querySelector('figcaption').firstChild.textContent;
    return [title, columns('bad1').some((count) => count > 0), lines];
})";

/// In a failed run errors and events are marked in all charts: in those of the requests and in
/// those of the monitor.
fn marks_errors_and_events(page: &mut Page, failed: &Path) {
    page.view(WIDTHS[0].1, false);
    page.open(&failed.join("data/report.html"));
    page.until("[...document.querySelectorAll('#charts figure')].every((chart) => chart.querySelector('canvas'))");
    page.value(DRAWN);
    let titles = [
        "Requests per second",
        "Response time",
        "Active users",
        "Bodies received",
        "Processors, by process",
        "Memory, by process",
        "Time in collections of garbage",
        "Disk busy and full",
    ];
    assert_eq!(page.value(MARKED), json!(titles.map(|title| json!([title, true, 2]))));
    page.keep_image("report-failed");
    assert_no_complaint(page);
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

/// Each further filter: by what the newest run says, by days, by scenario, by rate, and by words.
fn filters_by_all_else(page: &mut Page, rows: &[Value]) {
    let ids = |is_asked_for: &dyn Fn(&Value) -> bool| -> Vec<String> {
        rows.iter().filter(|row| is_asked_for(row)).map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for name in ["version", "commit", "plan", "workers", "machine", "engine"] {
        let wanted = text(&rows[0][name]);
        filter(page, name, &wanted);
        assert_eq!(shown(page), ids(&|row| text(&row[name]) == wanted), "{name}");
        page.value("document.getElementById('all').click()");
    }
    let day = |row: &Value| row["started_at"].as_str().unwrap()[..10].to_owned();
    let (from, to) = (day(&rows[rows.len() - 2]), day(&rows[1]));
    filter(page, "date_from", &from);
    filter(page, "date_to", &to);
    let between = ids(&|row| (&from..=&to).contains(&&day(row)));
    assert!(between.len() > 1 && between.len() < rows.len());
    assert_eq!(shown(page), between);
    page.value("document.getElementById('all').click()");

    let mut shows = |filters: &[(&str, &str)], is_asked_for: &dyn Fn(&Value) -> bool| {
        filters.iter().for_each(|(name, value)| filter(page, name, value));
        let wanted = ids(is_asked_for);
        assert!(!wanted.is_empty() && wanted.len() < rows.len(), "{filters:?}: {wanted:?}");
        assert_eq!(shown(page), wanted, "{filters:?}");
        page.value("document.getElementById('all').click()");
    };
    for scenario in ["ingest", "read"] {
        shows(&[("scenario", scenario)], &|row| row["scenarios"].get(scenario).is_some());
    }
    let rate = |row: &Value| row["rate_due"].as_f64().unwrap();
    shows(&[("rate_from", "60")], &|row| rate(row) >= 60.0);
    shows(&[("rate_to", "60")], &|row| rate(row) <= 60.0);
    shows(&[("rate_from", "30"), ("rate_to", "100")], &|row| (30.0..=100.0).contains(&rate(row)));
    // All words, wherever they are, in small letters or capitals.
    let is_found = |row: &Value| row["candidate"] == "fedora" && row["machine"] == "node-3";
    shows(&[("text", "NODE-3  Fedora")], &is_found);
}

/// The trend over commits, and the rates against nodes and workers.
fn trend_and_rates(page: &mut Page, rows: &[Value]) {
    let end = "Number(document.querySelector('#trend .plot').getAttribute('aria-valuemax'))";
    let mut end_by = |by: &str| {
        filter(page, "trend_by", by);
        page.until("document.querySelectorAll('#trend figure canvas').length === 2");
        page.value(end).as_f64().unwrap()
    };
    // Most runs are of one plan and candidate, and of three commits: these are 0, 1 and 2 on the axis.
    let (of_commits, of_dates) = (end_by("commit"), end_by("date"));
    assert!(of_commits > 2.0 && of_commits < 3.0 && of_dates > 1e9, "{of_commits} {of_dates}");

    let of_table = |what: &str| {
        format!("[...document.querySelectorAll('#rates .drawn > .scroll tbody {what}')].map((it) => it.textContent)")
    };
    for (by, numbers) in [("workers", ["2", "4"]), ("nodes", ["1", "3"])] {
        filter(page, "rates_by", by);
        assert_eq!(page.value(&of_table("th")), json!(numbers), "{by}");
    }
    // By candidate and number of nodes, the fastest run that has held its load.
    let rate = |row: &&Value| row["rate_done"].as_f64().unwrap();
    let fastest = |candidate: &str, nodes: &str| {
        let is_it = |row: &&Value| row["candidate"] == candidate && row["facts"]["nodes"] == nodes;
        let held = rows.iter().rev().filter(|row| is_it(row) && row["verdict"] == "held");
        held.max_by(|one, other| rate(one).total_cmp(&rate(other))).unwrap()["id"].clone()
    };
    let wanted = ["1", "3"].map(|nodes| ["fedora", "penates"].map(|candidate| fastest(candidate, nodes))).concat();
    assert_eq!(page.value(&of_table("a")), json!(wanted));
}

/// The numbers in small letters of each cell of a row of the comparison: the difference from the
/// baseline, 95, and the two ends of the interval.
const OF_MEDIANS: &str = "[...[...document.querySelectorAll('#compared tbody tr')]
    .find((row) => row.cells[0].textContent === 'p50').cells].slice(1)
    .map((cell) => [...cell.querySelectorAll('small')].map((small) => small.textContent).join(' ')
        .replaceAll('\u{2212}', '-').match(/-?[0-9.]+/g)?.map(Number) ?? [])";

/// Of three runs the first is the baseline. Each other one has the interval of its difference from it.
fn has_intervals_of_three(page: &mut Page) {
    page.until("document.querySelector('#compared thead tr')?.cells.length === 4");
    let compared = page.value("document.getElementById('compared').textContent");
    let compared = compared.as_str().unwrap();
    assert!(compared.contains("95\u{202f}%: ") && !compared.contains("no interval"), "{compared}");
    let medians = page.value(OF_MEDIANS);
    assert_eq!((medians.as_array().map(Vec::len), &medians[0]), (Some(3), &json!([])), "{medians}");
    // The other two are faster by so much that there is no doubt.
    for at in [1_usize, 2] {
        let [share, low, high] = [0_usize, 2, 3].map(|part| medians[at][part].as_f64().unwrap());
        assert!(low <= share && share <= high && high < 0.0, "{medians}");
    }
}

#[test]
fn a_portal_opens_without_a_network_filters_runs_and_compares_them() {
    let Some(mut page) = Page::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (out, ..) = portal(folder.path());
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

    page.value("document.getElementById('all').click()");
    filters_by_all_else(&mut page, &rows);
    trend_and_rates(&mut page, &rows);
    filter(&mut page, "configuration_sha256", configuration);

    // The address is the view: the same page shows it again.
    let address = page.value("location.hash");
    assert!(address.as_str().unwrap().contains(configuration), "{address}");
    page.value("document.getElementById('all').click()");

    let held = ids(&|row| row["candidate"] == "penates" && row["verdict"] == "held");
    let (two, third) = (&held[..2], &held[2]);
    let choose = |id: &str| format!("document.querySelector('tr[data-id=\"{id}\"] input').click()");
    for id in two {
        page.value(&choose(id));
    }
    page.until("document.querySelectorAll('#compared figure canvas').length === 4");
    let compared = page.value("document.getElementById('compared').textContent");
    let compared = compared.as_str().unwrap();
    for text in ["Same configuration?", "baseline", two[0].as_str(), two[1].as_str(), "p99"] {
        assert!(compared.contains(text), "{text}: {compared}");
    }
    look(&mut page, "portal");
    page.value(&choose(third));
    has_intervals_of_three(&mut page);
    page.value("document.getElementById('none').click()");
    page.until("document.querySelectorAll('#compared figure').length === 0");
    assert_no_complaint(&page);
}
