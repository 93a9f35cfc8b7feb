#![allow(clippy::unwrap_used)]

use jiff::Timestamp;

use super::*;
use crate::record::{CandidateRecord, FORMAT, Input, Machine, Program, WorkerRecord};
use crate::results::{ErrorTally, StepTally, Tally, Times, Verdict};

/// A name as an attacker would choose it.
const HOSTILE: &str = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{2028}&amp;";

struct Run {
    record: RunRecord,
    judgement: Judgement,
    summary: Summary,
    seconds: Vec<Second>,
    monitors: Vec<Samples>,
    events: Vec<Marked>,
    plan_toml: String,
    logs: Vec<LogExcerpt>,
    ceiling: Option<Ceiling>,
    files: Vec<String>,
}

impl Run {
    /// A run in which each text is `name`.
    fn named(name: &str, seconds: i64) -> Self {
        let text = || name.to_owned();
        let program = Program {
            name: text(),
            version: text(),
            tag: Some(text()),
            sha256: Some(text()),
            commit: Some(text()),
            is_dirty: Some(false),
            repository: Some(text()),
        };
        let worker = WorkerRecord {
            number: 0,
            address: Some(text()),
            clock_offset_us: 1,
            clock_error_us: 2,
            cpu_s: 3.0,
            load_share: 0.25,
            longest_stall_ms: 0.0,
            memory_at_start_bytes: Some(30_000_000),
            memory_peak_bytes: Some(31_000_000),
            program: program.clone(),
            command: Some(vec![text(), text()]),
        };
        let machine = Machine {
            name: text(),
            roles: vec![text()],
            processor: Some(text()),
            disk: Some(text()),
            limits: vec![(text(), text())],
            ..Machine::default()
        };
        let candidate = CandidateRecord {
            program: program.clone(),
            url: text(),
            command: Some(vec![text(), text()]),
            configuration: Some(text()),
            facts: vec![(text(), text())],
        };
        let record = RunRecord {
            format: FORMAT,
            id: text(),
            who: text(),
            started_at: Timestamp::UNIX_EPOCH,
            ended_at: Timestamp::from_second(seconds).unwrap(),
            testbed: program,
            candidate,
            inputs: vec![Input { name: text(), sha256: text(), bytes: None }],
            seed: 1,
            workers: vec![worker],
            machines: vec![machine],
            preparation: text(),
            missing: Vec::new(),
            beside: crate::beside::Beside::default(),
        };
        let times = Times { count: 5, p50_ms: 1.0, p99_ms: 2.0, max_ms: 3.0, ..Times::default() };
        let all = Tally { due: 10, sent: 10, done: 5, failed: 5, response: times, ..Tally::default() };
        let summary = Summary {
            done_per_s: 1.0,
            duration_s: seconds as f64,
            all: all.clone(),
            punctual: Times { p99_ms: 1.25, ..times },
            steps: vec![StepTally { scenario: text(), step: text(), tally: all }],
            errors: vec![ErrorTally { kind: text(), step: text(), count: 5, first_at_us: 1_500_000 }],
            worker_cpu_shares: vec![0.25],
            costs: None,
        };
        let second = |at_s| Second {
            at_s,
            due: 1_000,
            sent: 1_000,
            done: 999,
            p50_ms: 12.345,
            max_ms: 99.0,
            ..Second::default()
        };
        let sampled = |at_s: i64| (at_s as f64, vec![Some(at_s as f64), Some((at_s % 7) as f64)]);
        Self {
            record,
            judgement: Judgement { verdict: Verdict::Failed, reasons: vec![text()] },
            summary,
            seconds: (0..seconds).map(second).collect(),
            monitors: vec![Samples {
                name: text(),
                columns: vec![format!("metrics.{name}"), format!("{name}.cpu")],
                rows: (0..seconds).map(sampled).collect(),
            }],
            events: vec![Marked { at_s: 1.0, what: text() }],
            plan_toml: text(),
            logs: vec![LogExcerpt { at_s: 1.5, lines: vec![text(), "2 < 3".to_owned()], source: None }],
            ceiling: None,
            files: vec![text()],
        }
    }

    fn page(&self) -> String {
        page(&Inputs {
            record: &self.record,
            judgement: &self.judgement,
            summary: &self.summary,
            seconds: &self.seconds,
            monitors: &self.monitors,
            events: &self.events,
            plan_toml: &self.plan_toml,
            logs: &self.logs.iter().collect::<Vec<_>>(),
            ceiling: self.ceiling.clone(),
            files: &self.files.iter().map(String::as_str).collect::<Vec<_>>(),
        })
    }
}

/// What the page's script reads.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(json).unwrap()
}

#[test]
fn hostile_names_stay_text() {
    let page = Run::named(HOSTILE, 10).page();
    assert!(!page.contains("<script>alert"));
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("<script").count(), 4);
    assert_eq!(page.matches("</script>").count(), 4);
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
    assert_eq!(data(&page)["events"][0]["what"], HOSTILE);
}

#[test]
fn a_page_loads_nothing() {
    let page = Run::named("x", 10).page();
    assert!(page.contains("content=\"default-src 'none'; "));
    let own = page.replace(script::UPLOT, "");
    for reference in [" src=", "@import", "url(", "<link", "http://", "https://"] {
        assert!(!own.contains(reference), "{reference}");
    }
}

#[test]
fn the_verdict_and_its_reasons_are_in_words() {
    let mut run = Run::named("a reason", 10);
    for (verdict, word) in [
        (Verdict::Held, "held"),
        (Verdict::Degrading, "degrading"),
        (Verdict::Failed, "failed"),
        (Verdict::Void, "void"),
    ] {
        run.judgement.verdict = verdict;
        let page = run.page();
        assert!(page.contains(&format!("<strong>{word}</strong>")));
        assert!(page.contains("<li>a reason</li>"));
    }
}

#[test]
fn times_are_also_shown_without_the_lateness_of_the_generator() {
    let mut run = Run::named("x", 10);
    let row = "<th class=\"kind\" scope=\"row\">punctual response</th>";
    let page = run.page();
    assert_eq!(page.matches(row).count(), 1);
    let (_, rest) = page.split_once(row).unwrap();
    let (cells, _) = rest.split_once("</tr>").unwrap();
    assert!(cells.contains(&crate::page::number::milliseconds(1.25)), "{cells}");
    // A run of an earlier program.
    run.summary.punctual = Times::default();
    assert!(!run.page().contains(row));
}

#[test]
fn a_run_that_lacks_a_fact_is_called_untraceable_in_its_title() {
    let mut run = Run::named("x", 10);
    assert!(!run.page().contains("Untraceable"));
    run.record.missing = vec!["the commit of the candidate".to_owned()];
    let page = run.page();
    assert!(page.contains("<title>Untraceable: x – failed</title>"));
    assert!(page.contains("<li>the commit of the candidate</li>"));
}

#[test]
fn the_generators_ceiling_is_named_with_its_run_or_with_what_measures_it() {
    let mut run = Run::named("x", 10);
    let missing = "not measured from the same machines: <code>lares testbed find get --candidate null</code>";
    assert!(run.page().contains(missing));
    run.ceiling = Some(Ceiling { run: "2026-01-15T093000Z-get".to_owned(), rate: 41_234.0, workers: 4 });
    let page = run.page();
    assert!(page.contains("41\u{202f}200/s with 4 workers") && !page.contains(missing));
    assert!(page.contains("<a href=\"../../2026-01-15T093000Z-get/data/report.html\""));
    run.ceiling = None;
    run.record.candidate.url = "redis://127.0.0.1:6379".to_owned();
    let missing =
        "not measured from the same machines: <code>lares testbed find records-90-10 --candidate null-redis</code>";
    assert!(run.page().contains(missing));
}

#[test]
fn the_record_links_to_the_repository_and_to_the_files_of_the_run() {
    let mut run = Run::named("x", 10);
    let link = |address: &str| format!("<a href=\"{address}\">{address}</a>");
    run.files = ["record.json", "events/worker-000.csv.gz", "scenarios/a#b.toml"].map(str::to_owned).to_vec();
    run.record.candidate.program.repository = Some("https://example.org/server?a=1".to_owned());
    run.record.testbed.repository = Some("http://example.org/testbed".to_owned());
    let page = run.page();
    for address in ["record.json", "events/worker-000.csv.gz", "https://example.org/server?a=1"] {
        assert!(page.contains(&link(address)), "{address}");
    }
    assert!(page.contains(&link("http://example.org/testbed")));
    assert!(page.contains("<li>scenarios/a#b.toml</li>"));
    // What is no address of the web is none that a reader may follow.
    for other in ["javascript:alert(1)", "data:text/html,x", "git@example.org:a/b", "//example.org", HOSTILE] {
        run.record.candidate.program.repository = Some(other.to_owned());
        run.record.testbed.repository = Some(other.to_owned());
        let links = page_links(&run.page());
        assert!(links.iter().all(|link| run.files.contains(link) || link.starts_with('#')), "{links:?}");
    }
    run.record.candidate.program.repository = Some(format!("https://{HOSTILE}"));
    let page = run.page();
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
    run.files.clear();
    assert!(!run.page().contains("Files of the run"));
}

/// Where the links of a page lead.
fn page_links(page: &str) -> Vec<String> {
    page.split(" href=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

#[test]
fn conflicts_are_shown_apart_among_the_requests_that_were_done() {
    let mut run = Run::named("x", 10);
    assert!(!run.page().contains(" conflicts</dd>"));
    run.summary.all.conflicts = 3;
    let page = run.page();
    assert!(page.contains(", 3 conflicts</dd>"), "{page}");
    assert!(page.contains("<td class=\"number\">5</td><td class=\"number\">3</td>"), "{page}");
}

#[test]
fn a_long_run_is_thinned_to_a_small_page() {
    let mut run = Run::named("x", 100_000);
    if let Some(second) = run.seconds.get_mut(77_777) {
        second.failed = 3;
    }
    let page = run.page();
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert!(page.contains("Each point sums up 25"));
    let data = data(&page);
    let at_s = data["panels"][0]["at_s"].as_array().unwrap();
    assert_eq!(at_s.len(), 4_000);
    let errors = data["panels"][0]["charts"][0]["series"][3]["values"].as_array().unwrap();
    assert_eq!(errors.len(), 4_000);
    assert_eq!(errors[77_777 / 25], 3.0);
    assert_eq!(data["spans_with_errors"], serde_json::json!([[77_777, 77_778]]));
}

#[test]
fn a_run_with_many_metrics_makes_a_page_of_a_few_megabytes() {
    let mut run = Run::named("x", 4_000);
    let columns: Vec<_> = (0..500).map(|number| format!("metrics.metric_{number}")).collect();
    let row = |at_s: i32| (f64::from(at_s), vec![Some(f64::from(at_s) * 1.234_567_8); 500]);
    let samples =
        |name: &str| Samples { name: name.to_owned(), columns: columns.clone(), rows: (0..4_000).map(row).collect() };
    run.monitors = ["a", "b", "c"].map(samples).to_vec();
    let page = run.page();
    assert!(page.len() < 6_000_000, "{} bytes", page.len());
}

#[test]
fn a_run_without_seconds_monitors_or_errors_has_a_page() {
    let mut run = Run::named("x", 10);
    (run.seconds, run.monitors, run.events) = (Vec::new(), Vec::new(), Vec::new());
    run.summary = Summary::default();
    let page = run.page();
    assert!(page.contains("<h2>Errors</h2><p>None.</p>"));
    assert_eq!(data(&page)["panels"], serde_json::json!([{ "at_s": [], "charts": [] }]));
}

#[test]
fn errors_are_red_dashed_lines_and_all_charts_share_the_time_axis_with_events() {
    let mut run = Run::named("x", 10);
    run.monitors[0].columns = ["server.cpu", "node1.gc_share"].map(str::to_owned).to_vec();
    let event = |at_s, what: &str| Marked { at_s, what: what.to_owned() };
    run.events = vec![event(3.5, "node1: flush"), event(4.0, "add-node")];
    let page = run.page();
    let data = data(&page);
    let requests = data["panels"][0]["charts"][0]["series"].as_array().unwrap();
    for (name, colour) in [("errors", "bad1"), ("refused", "bad2"), ("time-outs", "bad3")] {
        let line = &requests.iter().find(|series| series["label"] == name).unwrap()["line"];
        assert!(line["colour"] == colour && !line["dash"].as_array().unwrap().is_empty(), "{name}: {line}");
        // In the light and in the dark.
        let colours: Vec<_> = page.split(&format!("--{colour}: #")).skip(1).map(|rest| &rest[..6]).collect();
        assert_eq!(colours.len(), 2);
        for colour in colours {
            let [red, green, blue] = [0, 2, 4].map(|at| u8::from_str_radix(&colour[at..at + 2], 16).unwrap());
            assert!(red >= 0xa0 && red > green && red > blue, "{name}: #{colour}");
        }
    }
    let monitor = &data["panels"][1];
    let titles: Vec<_> = monitor["charts"].as_array().unwrap().iter().map(|chart| &chart["title"]).collect();
    assert_eq!(titles, ["Processors, by process", "Time in collections of garbage"]);
    // One start and one end for all of them.
    assert_eq!((&data["start_s"], &data["end_s"]), (&0.0.into(), &10.0.into()));
    assert_eq!(monitor["at_s"], data["panels"][0]["at_s"]);
    let events: Vec<_> = data["events"].as_array().unwrap().iter().map(|event| &event["what"]).collect();
    assert_eq!(events, ["node1: flush", "add-node"]);
}

#[test]
fn instants_that_are_no_numbers_are_left_out() {
    let mut run = Run::named("x", 10);
    run.seconds.clear();
    for (row, at_s) in run.monitors[0].rows.iter_mut().zip([f64::INFINITY, f64::NAN]) {
        row.0 = at_s;
    }
    run.events[0].at_s = f64::NAN;
    let data = data(&run.page());
    assert_eq!((&data["start_s"], &data["end_s"]), (&2.0.into(), &9.0.into()));
    assert_eq!(data["events"], serde_json::json!([]));
}

#[test]
fn each_table_has_a_caption_and_each_heading_a_scope() {
    let page = Run::named("x", 10).page();
    assert!(page.matches("<table").count() > 10);
    assert_eq!(page.matches("<table").count(), page.matches("<caption").count());
    assert_eq!(page.matches("<th ").count() + page.matches("<th>").count(), page.matches("scope=\"").count());
}

#[test]
fn many_events_are_listed_in_part_and_the_page_says_so() {
    let mut run = Run::named("x", 10);
    run.events = (0..5_000).map(|at| Marked { at_s: f64::from(at) / 500.0, what: "compaction".to_owned() }).collect();
    let page = run.page();
    assert!(page.contains("Events, the first 1\u{202f}000 of 5\u{202f}000"));
    assert_eq!(data(&page)["events"].as_array().unwrap().len(), 1_000);
}

#[test]
fn what_the_candidate_printed_around_the_first_error_is_beside_the_errors() {
    let mut run = Run::named("some text", 10);
    let page = run.page();
    assert!(page.contains("<pre>some text\n2 &lt; 3</pre>"), "{page}");
    let elsewhere = LogExcerpt { source: Some(HOSTILE.to_owned()), ..run.logs[0].clone() };
    run.logs.push(elsewhere);
    let page = run.page();
    assert_eq!(page.matches("<h3>What the candidate printed around ").count(), 2, "{page}");
    assert!(page.contains(" (&lt;/script&gt;") && !page.contains("<script>alert"), "{page}");
    run.logs.clear();
    assert!(!run.page().contains("What the candidate printed"));
}
