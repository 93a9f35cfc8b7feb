//! Portals over archives of invented runs.
use std::fs;
use std::path::{Path, PathBuf};

use crate::invented::{Invented, add};
use serde_json::Value;
use testbed::archive::ArchivedRun;
use testbed::portal::{PortalError, publish};
use testbed::results::Verdict;

/// A name as an attacker would choose it.
const HOSTILE: &str = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>";

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn with(runs: &[Invented]) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(place.archive()).unwrap();
        runs.iter().for_each(|run| drop(add(&place.archive(), run).unwrap()));
        place
    }

    fn archive(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("portal")
    }

    fn publish(&self) -> testbed::portal::Published {
        publish(&self.archive(), &self.out()).unwrap()
    }

    fn page(&self) -> String {
        fs::read_to_string(self.out().join("index.html")).unwrap()
    }

    fn runs(&self) -> Vec<Value> {
        serde_json::from_slice(&fs::read(self.out().join("runs.json")).unwrap()).unwrap()
    }

    fn data(&self, id: &str) -> Value {
        let script = fs::read_to_string(self.out().join("runs").join(id).join("data.js")).unwrap();
        serde_json::from_str(script.strip_prefix("portal.receive(").unwrap().trim_end().strip_suffix(");").unwrap())
            .unwrap()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_portal_holds_a_page_the_runs_and_what_to_download() {
    let failed = Invented { day: 1, verdict: Verdict::Failed, is_traceable: false, ..Invented::default() };
    let place = Place::with(&[Invented::default(), failed]);
    assert_eq!(place.publish().runs, 2);
    assert_eq!(names(&place.out()), ["index.html", "portal.json", "runs", "runs.json"]);

    let runs = place.runs();
    let ids: Vec<_> = runs.iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["2026-01-16T093000Z-ingest", "2026-01-15T093000Z-ingest"]);
    assert_eq!((&runs[0]["verdict"], &runs[0]["traceable"]), (&"failed".into(), &false.into()));
    assert_eq!((&runs[1]["plan"], &runs[1]["engine"]), (&"ingest".into(), &"embedded".into()));
    assert_eq!(runs[1]["rate_due"], 60.0);
    let run = place.out().join("runs").join(ids[1]);
    for file in ["summary.json", "record.json", "seconds.csv", "latencies.hlog", "plan.toml"] {
        let archived = place.archive().join(ids[1]).join("data").join(file);
        assert_eq!(fs::read(run.join(file)).unwrap(), fs::read(archived).unwrap(), "{file}");
    }
    let page = place.page();
    assert_eq!(page.matches(">untraceable</em>").count(), 1);
    assert!(page.contains("href=\"runs/2026-01-15T093000Z-ingest/report.html\""));
}

#[test]
fn a_page_that_a_run_has_brought_along_is_not_published() {
    let foreign = Invented { report: Some("<script>alert(document.domain)</script>"), ..Invented::default() };
    let place = Place::with(&[foreign]);
    place.publish();
    let id = "2026-01-15T093000Z-ingest";
    let archived = fs::read_to_string(place.archive().join(id).join("data/report.html")).unwrap();
    assert!(archived.contains("alert(document.domain)"));
    let published = fs::read_to_string(place.out().join("runs").join(id).join("report.html")).unwrap();
    assert!(!published.contains("alert(document.domain)"));
    // What the data of the run say is there.
    assert!(published.contains(&format!("<h1>{id}</h1>")) && published.contains("A. Librarian"));
}

#[test]
fn a_report_links_to_the_files_that_lie_with_it_in_the_archive_and_in_a_portal() {
    let place = Place::with(&[Invented { is_watched: true, ..Invented::default() }]);
    place.publish();
    let id = "2026-01-15T093000Z-ingest";
    let (archived, published) = (place.archive().join(id).join("data"), place.out().join("runs").join(id));
    for (folder, wanted) in [(archived, 7), (published, 5)] {
        let report = fs::read_to_string(folder.join("report.html")).unwrap();
        let links = report.split("<a href=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0);
        let files: Vec<_> = links.filter(|link| !link.starts_with('#')).collect();
        assert!(files.contains(&"record.json") && files.len() == wanted, "{files:?}");
        assert!(files.iter().all(|file| folder.join(file).is_file()), "{files:?}");
    }
}

#[test]
fn a_run_whose_response_times_cannot_be_read_is_published_without_intervals() {
    let place = Place::with(&[Invented { latencies: Some("no log\n"), ..Invented::default() }]);
    let published = place.publish();
    assert_eq!((published.runs, published.refused.len()), (1, 0));
    let data = place.data("2026-01-15T093000Z-ingest");
    assert!(data["resamples"].is_null() && data["curve"].as_array().unwrap().is_empty());
    assert!(data["unread"].as_str().unwrap().starts_with("latencies.hlog: "), "{}", data["unread"]);
    assert!(!data["over_time"]["at_s"].as_array().unwrap().is_empty());
}

#[test]
fn the_data_of_a_run_have_its_seconds_its_percentiles_and_its_settings() {
    let place = Place::with(&[Invented::default()]);
    place.publish();
    let data = place.data("2026-01-15T093000Z-ingest");
    let summary = &place.runs()[0]["response"];
    // The warm-up is drawn and does not count.
    assert_eq!(data["over_time"]["at_s"][0], -2.0);
    let curve = data["curve"].as_array().unwrap();
    let highest_ms = curve.last().unwrap()[1].as_f64().unwrap();
    assert!((highest_ms / summary["max_ms"].as_f64().unwrap() - 1.0).abs() < 0.002, "{highest_ms}");
    assert!(data["unread"].is_null());
    let p50 = data["resamples"]["p50_ms"].as_array().unwrap();
    assert_eq!(p50.len(), 1_000);
    let around = summary["p50_ms"].as_f64().unwrap();
    let near = p50.iter().filter(|ms| (ms.as_f64().unwrap() / around - 1.0).abs() < 0.1).count();
    assert!(near > 900, "{near}");
    let settings = data["settings"].as_array().unwrap();
    let setting = |name: &str| &settings.iter().find(|setting| setting[0] == name).unwrap()[1];
    assert_eq!(*setting("configuration"), "listen = \"127.0.0.1:${port}\"\nnodes = 1\n");
    assert_eq!(*setting("seed"), "7");
}

#[test]
fn runs_of_one_configuration_are_found_together_though_each_had_ports_of_its_own() {
    let of = |day, nodes| Invented { day, nodes, ..Invented::default() };
    let place = Place::with(&[of(0, 1), of(1, 1), of(2, 3)]);
    place.publish();
    let runs = place.runs();
    let sha256 = |run: usize| runs[run]["configuration_sha256"].as_str().unwrap();
    assert_eq!(sha256(1), sha256(2));
    assert_ne!(sha256(0), sha256(1), "three nodes are another configuration than one");
    let page = place.page();
    let (_, choice) = page.split_once("<select name=\"configuration_sha256\">").unwrap();
    let (choice, _) = choice.split_once("</select>").unwrap();
    assert_eq!(choice.matches("<option").count(), 3, "{choice}");
    let option = format!("<option value=\"{}\">penates {}</option>", sha256(0), &sha256(0)[..10]);
    assert!(choice.contains(&option), "{choice}");
    let setting = |id: &str, name: &str| {
        let data = place.data(id);
        data["settings"].as_array().unwrap().iter().find(|setting| setting[0] == name).unwrap()[1].clone()
    };
    for name in ["configuration", "command line"] {
        let [one, other] = ["2026-01-15T093000Z-ingest", "2026-01-16T093000Z-ingest"].map(|id| setting(id, name));
        assert_eq!(one, other);
    }
}

#[test]
fn each_run_has_the_ceiling_of_its_generator_as_soon_as_that_was_measured() {
    let null = |day, rate, verdict| Invented {
        candidate: ("null", "0.1.0", "7dd939412ab8c1d05e6f"),
        day,
        rate,
        verdict,
        ..Invented::default()
    };
    let elsewhere = Invented { day: 1, nodes: 3, ..Invented::default() };
    let place = Place::with(&[Invented::default(), elsewhere]);
    place.publish();
    assert!(place.runs().iter().all(|run| run["ceiling"].is_null()));
    assert!(place.page().contains("not measured from the same machines: lares testbed find get --candidate null"));
    for run in [null(2, 300, Verdict::Held), null(3, 200, Verdict::Held), null(4, 400, Verdict::Failed)] {
        add(&place.archive(), &run).unwrap();
    }
    // What was published before gets it too.
    place.publish();
    let runs = place.runs();
    let [of_other_machine, of_first] = [3, 4].map(|run: usize| &runs[run]);
    assert_eq!(of_first["id"], "2026-01-15T093000Z-ingest");
    assert_eq!(of_first["ceiling"]["run"], "2026-01-17T093000Z-ingest");
    assert_eq!((&of_first["ceiling"]["rate"], &of_first["ceiling"]["workers"]), (&runs[2]["rate_done"], &2.into()));
    assert!(of_other_machine["ceiling"].is_null(), "{of_other_machine}");
    assert!(place.page().contains("<a href=\"runs/2026-01-17T093000Z-ingest/report.html\">"));
    // A report has what was known when its run was made.
    let report = |id: &str| fs::read_to_string(place.archive().join(id).join("data/report.html")).unwrap();
    assert!(report("2026-01-15T093000Z-ingest").contains("not measured from the same machines"));
    let link = "href=\"../../2026-01-17T093000Z-ingest/data/report.html\"";
    assert!(report("2026-01-19T093000Z-ingest").contains(link));
    // A published one has what is known now.
    let published = |id: &str| fs::read_to_string(place.out().join("runs").join(id).join("report.html")).unwrap();
    for id in ["2026-01-15T093000Z-ingest", "2026-01-19T093000Z-ingest"] {
        assert!(published(id).contains(link), "{id}");
    }
    assert!(published("2026-01-16T093000Z-ingest").contains("not measured from the same machines"));
}

#[test]
fn a_run_over_the_redis_protocol_has_the_ceiling_of_that_protocol() {
    let of = |name, scheme, day, rate| Invented {
        candidate: (name, "0.1.0", "7dd939412ab8c1d05e6f"),
        scheme,
        day,
        rate,
        ..Invented::default()
    };
    let (of_http, of_redis) = (of("null", "http", 2, 300), of("null-redis", "redis", 3, 200));
    let place = Place::with(&[of("penates", "http", 0, 60), of("redis", "redis", 1, 60), of_http]);
    place.publish();
    let missing = "not measured from the same machines: lares testbed find records-90-10 --candidate null-redis";
    assert!(place.page().contains(missing));
    // The faster one over HTTP says nothing of it.
    assert!(place.runs()[1]["ceiling"].is_null());
    add(&place.archive(), &of_redis).unwrap();
    place.publish();
    let ceilings: Vec<_> = place.runs().iter().map(|run| run["ceiling"]["run"].clone()).collect();
    let [http, redis] = ["2026-01-17T093000Z-ingest", "2026-01-18T093000Z-ingest"];
    assert_eq!(ceilings, [redis, http, redis, http]);
    let report = fs::read_to_string(place.out().join("runs/2026-01-16T093000Z-ingest/report.html")).unwrap();
    assert!(report.contains(&format!("href=\"../../{redis}/data/report.html\"")));
    assert!(!place.page().contains(missing));
}

#[test]
fn a_portal_is_continued_and_unchanged_runs_are_kept() {
    let place = Place::with(&[Invented::default(), Invented { day: 1, ..Invented::default() }]);
    place.publish();
    let [newer, older] = ["2026-01-16T093000Z-ingest", "2026-01-15T093000Z-ingest"];
    let kept = place.out().join("runs").join(newer).join("data.js");
    fs::write(&kept, "kept").unwrap();
    fs::remove_dir_all(place.archive().join(older)).unwrap();
    add(&place.archive(), &Invented { day: 2, ..Invented::default() }).unwrap();

    assert_eq!(place.publish().runs, 2);
    assert_eq!(names(&place.out().join("runs")), [newer, "2026-01-17T093000Z-ingest"]);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
    assert!(!place.page().contains(older));
}

#[test]
fn what_another_version_has_written_is_made_anew() {
    let place = Place::with(&[Invented::default()]);
    place.publish();
    let data = place.out().join("runs/2026-01-15T093000Z-ingest/data.js");
    fs::write(&data, "old").unwrap();
    fs::write(place.out().join("portal.json"), "{\"portal\":0}\n").unwrap();
    place.publish();
    assert!(fs::read_to_string(&data).unwrap().starts_with("portal.receive("));
}

#[test]
fn damaged_and_foreign_folders_are_listed_with_the_reason() {
    let place = Place::with(&[Invented::default(), Invented { day: 1, ..Invented::default() }]);
    let damaged = place.archive().join("2026-01-16T093000Z-ingest/data/report.html");
    fs::write(&damaged, "another report").unwrap();
    fs::create_dir(place.archive().join(HOSTILE.replace('/', "-"))).unwrap();
    let unfinished = place.archive().join("2026-01-17T093000Z-ingest.unfinished");
    fs::create_dir_all(unfinished.join("data")).unwrap();
    // As far as it was written it looks like a run.
    for file in ["bagit.txt", "data/record.json"] {
        fs::copy(place.archive().join("2026-01-15T093000Z-ingest").join(file), unfinished.join(file)).unwrap();
    }

    let published = place.publish();
    assert_eq!(published.runs, 1);
    let reasons: Vec<_> = published.refused.iter().map(|one| one.reason.as_str()).collect();
    assert_eq!(reasons.len(), 3);
    assert!(reasons[0].contains("not finished") && reasons[1].contains("no bag"), "{reasons:?}");
    assert!(reasons[2].contains("report.html") && reasons[2].contains("digest"), "{reasons:?}");
    let page = place.page();
    assert!(page.contains("2026-01-16T093000Z-ingest</th>"));
    assert!(!page.contains("<img"));
}

#[test]
fn a_run_under_another_name_is_refused() {
    let place = Place::with(&[Invented::default()]);
    let run = place.archive().join("2026-01-15T093000Z-ingest");
    fs::rename(&run, place.archive().join("renamed")).unwrap();
    let refused = place.publish().refused;
    assert!(refused[0].reason.contains("2026-01-15T093000Z-ingest"), "{refused:?}");
}

#[test]
fn a_folder_with_anything_else_is_refused_and_stays_as_it_is() {
    let place = Place::with(&[Invented::default()]);
    fs::create_dir(place.out()).unwrap();
    fs::write(place.out().join("thesis.tex"), "years of work").unwrap();
    let refused = publish(&place.archive(), &place.out()).unwrap_err();
    assert!(matches!(&refused, PortalError::Foreign { name, .. } if name == "thesis.tex"), "{refused}");
    assert_eq!(names(&place.out()), ["thesis.tex"]);

    fs::remove_file(place.out().join("thesis.tex")).unwrap();
    place.publish();
    fs::write(place.out().join("thesis.tex"), "years of work").unwrap();
    assert!(publish(&place.archive(), &place.out()).unwrap_err().to_string().contains("thesis.tex"));
}

#[test]
fn a_missing_archive_leaves_no_portal() {
    let place = Place::with(&[]);
    let missing = place.folder.path().join("nowhere");
    assert!(publish(&missing, &place.out()).is_err());
    assert_eq!(names(place.folder.path()), ["archive"]);
}

#[test]
fn hostile_names_stay_text() {
    let hostile = Invented { candidate: (HOSTILE, HOSTILE, HOSTILE), ..Invented::default() };
    let place = Place::with(&[hostile]);
    place.publish();
    let page = place.page();
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
    assert_eq!(page.matches("</script>").count(), page.matches("<script").count());
    assert_eq!(place.runs()[0]["candidate"], HOSTILE);
    let id = "2026-01-15T093000Z-ingest";
    let script = fs::read_to_string(place.out().join("runs").join(id).join("data.js")).unwrap();
    assert!(!script.contains('<'), "{script}");
    assert!(place.data(id)["settings"].to_string().contains("onerror=alert"));
}

#[test]
fn a_page_loads_nothing_but_the_data_of_its_runs() {
    let place = Place::with(&[Invented::default()]);
    place.publish();
    let page = place.page();
    assert!(page.contains("content=\"default-src 'none'; "));
    assert!(page.contains("'strict-dynamic'\""));
    // The name of SVG is no address that is fetched.
    let own = page
        .replace(include_str!("../../assets/uplot/uPlot.iife.min.js"), "")
        .replace("http://www.w3.org/2000/svg", "");
    for reference in [" src=", "@import", "url(", "<link", "http://", "https://"] {
        let at = own.find(reference);
        assert_eq!(at, None, "{}", at.map_or("", |at| &own[at.saturating_sub(200)..at + 60]));
    }
}

#[test]
fn an_archive_without_runs_has_a_page() {
    let place = Place::with(&[]);
    assert_eq!(place.publish().runs, 0);
    assert!(place.page().contains("0 runs of 0 candidates"));
    assert!(place.runs().is_empty());
}

#[test]
fn latencies_are_read_back_by_second_and_the_warm_up_is_before_the_start() {
    let place = Place::with(&[Invented::default()]);
    let run = ArchivedRun::all(&place.archive()).unwrap().remove(0);
    let latencies = run.latencies().unwrap();
    let seconds = run.seconds().unwrap();
    assert_eq!(latencies.unit_s, 1);
    let read = |is_one: fn(i64) -> bool| -> Vec<(i64, u64)> {
        let units = latencies.units.iter().filter(|(at_s, _)| is_one(*at_s));
        units.map(|(at_s, histogram)| (*at_s, histogram.len())).collect()
    };
    let warm_up = seconds.iter().filter(|one| one.done > 0 && one.at_s < 0);
    assert_eq!(read(|at_s| at_s < 0), warm_up.map(|one| (one.at_s, one.done)).collect::<Vec<_>>());
    assert_eq!(read(|at_s| at_s < 0)[0].0, -2);
    // What was due in the warm-up and ended later counts for nothing.
    let counted = read(|at_s| at_s >= 0).iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!(counted, run.outcome().unwrap().summary.all.done);
}
