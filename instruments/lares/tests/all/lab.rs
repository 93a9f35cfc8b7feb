//! `lares lab`: whole studies of a made-up node, and the end of a real one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Ran, signal, wait_until};
use crate::lares;
use crate::validators::is_valid;

fn lab(folder: &Path, args: &[&str]) -> Ran {
    let mut command = lares(&[&["lab"], args].concat());
    command.current_dir(folder);
    Ran::of(command)
}

/// Writes a plan with so many repeats.
fn plan(folder: &Path, repeats: u32) {
    let text = format!(
        r#"
        name = "compaction"
        repeats = {repeats}
        objective = "p99_ms"
        beside = ["cpu_ms_per_operation"]
        design = {{ kind = "factorial" }}
        data = {{ records = 1000 }}
        workloads = [{{ name = "writes", mix = {{ write = 90, read = 10 }}, rate = 500, duration = "10s" }}]
        [[factors]]
        name = "compaction_throughput"
        default = "16MiB/s"
        values = ["32MiB/s"]
        [[factors]]
        name = "compaction"
        values = ["{{'class': 'UnifiedCompactionStrategy'}}"]
        "#
    );
    fs::write(folder.join("plan.toml"), text).unwrap();
}

/// The numbers of the runs that a study has kept whole.
fn kept(folder: &Path) -> Vec<u64> {
    let text = fs::read_to_string(folder.join("study/runs.jsonl")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.map(|line| line["number"].as_u64().unwrap()).collect()
}

#[test]
fn a_plan_says_what_would_run_in_which_order_and_how_long() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), 3);
    let printed = lab(folder.path(), &["plan", "plan.toml"]).ends_with(0);
    for part in ["factorial design: 4 settings", "3 blocks; 14 runs with 1 starts", "(control)"] {
        assert!(printed.text().contains(part), "{}", printed.text());
    }
    let runs = lab(folder.path(), &["plan", "thesis", "--scale", "0.01", "--repeats", "2", "--json"]).ends_with(0);
    let runs = runs.json_lines();
    // Three defaults and fourteen changes, twice, and two once, with controls.
    assert_eq!(runs.iter().filter(|run| run["is_control"] == false).count(), 2 * 17 + 2);
    assert!(printed.text().contains("at most 10 runs, about"), "{}", printed.text());
    let toml = lab(folder.path(), &["plan", "thesis", "--toml"]).ends_with(0);
    assert!(toml.text().contains("name = \"thesis\""), "{}", toml.text());
    let refused = lab(folder.path(), &["plan", "plan.toml", "--scale", "2"]).ends_with(2);
    assert!(refused.stderr.contains("for presets"), "{}", refused.stderr);
}

#[test]
fn a_study_recommends_what_is_better_and_says_the_way_back() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    plan(here, 4);
    let ran = lab(here, &["run", "plan.toml", "--folder", "study", "--simulated"]).ends_with(0);
    assert!(ran.stderr.contains("left"), "progress with time left: {}", ran.stderr);
    for part in [
        "p99 of latency under writes at 500 operations per second: −",
        "cassandra.yaml: set compaction_throughput: 32MiB/s (was 16MiB/s); delete compaction_throughput_mb_per_sec",
        "Back to the lab's default, not to what your node had: set compaction_throughput: 16MiB/s",
        "nodetool setcompactionthroughput 32; back to the lab's default: nodetool setcompactionthroughput 16",
        "compaction_throughput × compaction",
        "Front of Pareto",
        "What was selected, measured afresh",
        "That is what 5 fresh runs beside the default had.",
        "Defaults by mix (mean ± RMSE)",
        "KPI by value of compaction under writes",
        "the machine that was measured: simulated",
        "Does the limit of compactions make a difference? ",
    ] {
        assert!(ran.text().contains(part), "{part}: {}", ran.text());
    }
    let page = fs::read_to_string(here.join("study/report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("nodetool setcompactionthroughput 32"));
    // Names of XML are addresses, and nothing loads them.
    let loads = ["src=\"http", "href=\"http", "@import", "url(http"];
    assert!(loads.iter().all(|load| !page.contains(load)), "a page needs no network");
    let runs = fs::read_to_string(here.join("study/runs.csv")).unwrap();
    assert_eq!(runs.lines().count(), 1 + kept(here).len());
    let report = lab(here, &["report", "--folder", "study", "--json"]).ends_with(0).json();
    assert_eq!(report["recommendations"][0]["finding"]["found"], "better");
    let again = lab(here, &["run", "plan.toml", "--folder", "study", "--simulated"]).ends_with(2);
    assert!(again.stderr.contains("lares lab resume"), "{}", again.stderr);
    let args = ["apply", "--folder", "study", "--workload", "reads", "--cql", "127.0.0.1:1", "--jmx", "127.0.0.1:1"];
    let refused = lab(here, &args).ends_with(2);
    assert!(refused.stderr.contains("simulated node"), "{}", refused.stderr);
    let refused = lab(here, &[&args[..], &["--simulated"]].concat()).ends_with(2);
    assert!(refused.stderr.contains("no workload reads"), "{}", refused.stderr);
}

#[test]
fn a_study_of_a_candidate_of_ones_own_knows_its_whole_path() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().canonicalize().unwrap();
    let plan = r#"
        name = "own"
        candidate = { folder = "my-server" }
        repeats = 1
        confirm = 0
        control_every = 0
        design = { kind = "one-at-a-time" }
        workloads = [{ name = "w", mix = { write = 1, read = 1 }, rate = 100, duration = "10s" }]
        [[factors]]
        name = "cache"
        values = ["24MiB"]
    "#;
    fs::write(here.join("plan.toml"), plan).unwrap();
    lab(&here, &["run", "plan.toml", "--folder", "study", "--simulated"]).ends_with(0);
    let kept = fs::read_to_string(here.join("study/plan.toml")).unwrap();
    assert!(kept.contains(&format!("folder = \"{}/my-server\"", here.display())), "{kept}");
}

#[test]
fn settings_of_the_embedded_engine_are_studied_over_the_records_door() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let plan = r#"
        name = "engine"
        candidate = { name = "penates-records" }
        repeats = 1
        confirm = 0
        control_every = 0
        objective = "write_p99_ms"
        beside = ["disk_bytes"]
        design = { kind = "one-at-a-time" }
        data = { records = 200, record_bytes = 400 }
        lateness_max = "1h"
        workloads = [{ name = "even", mix = { write = 2, read = 2, delete = 1 }, rate = 100, warm_up = "0s", duration = "500ms" }]
        [[factors]]
        name = "records.durability"
        default = "sync"
        values = ["every 10ms"]
        [[factors]]
        name = "store.cache"
        values = ["24MiB"]
        [[factors]]
        name = "store.memtable"
        values = ["16MiB"]
    "#;
    fs::write(here.join("plan.toml"), plan).unwrap();
    let ran = lab(here, &["run", "plan.toml", "--folder", "study"]).ends_with(0);
    assert!(ran.text().contains("p99 of writes"), "{}", ran.text());
    let lines = fs::read_to_string(here.join("study/runs.jsonl")).unwrap();
    let runs: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(runs.len(), 4);
    let factors = ["records.durability", "store.cache", "store.memtable"];
    let in_force = |run: &Value| factors.map(|factor| run["read_back"][factor].to_string());
    let mut found: Vec<_> = runs.iter().map(in_force).collect();
    found.sort();
    let [every, cache, memtable, usual] = &found[..] else { panic!("{found:?}") };
    assert_eq!(usual, &["sync", "auto", "8MiB"].map(|value| format!("{value:?}")));
    assert!(every[0].contains("every 10ms") && every[1..] == usual[1..], "{found:?}");
    assert!(cache[1].contains("24MiB") && [&cache[0], &cache[2]] == [&usual[0], &usual[2]], "{found:?}");
    assert!(memtable[2].contains("16MiB") && memtable[..2] == usual[..2], "{found:?}");
    for run in &runs {
        assert_eq!(run["void"], serde_json::json!([]), "{run}");
        assert_eq!(run["metrics"]["failed_share"], 0.0, "{run}");
        let metrics = run["metrics"].as_object().unwrap();
        assert!(metrics["disk_bytes"].as_f64().unwrap() > 0.0 && metrics.contains_key("read_p99_ms"), "{run}");
        assert!(!metrics.contains_key("compactions"), "nobody counts them: {run}");
        // The files of a run say what it had.
        let of_run = format!("study/runs/{:05}-{}", run["number"].as_u64().unwrap(), run["attempt"]);
        let candidate = fs::read(here.join(of_run).join("candidate.json")).unwrap();
        let candidate: Value = serde_json::from_slice(&candidate).unwrap();
        assert_eq!(candidate["in_force"], run["read_back"], "{candidate}");
    }
    let refused = lab(
        here,
        &["apply", "--folder", "study", "--workload", "even", "--cql", "127.0.0.1:1", "--jmx", "127.0.0.1:1"],
    );
    assert!(refused.ends_with(2).stderr.contains("another server than Cassandra"));

    // What cannot be measured is refused before anything starts.
    for (wrong, right, why) in [
        ("applied = \"restart\"\n name = \"store.cache\"", "name = \"store.cache\"", "applied = \"setting\""),
        ("node = { count = 2 }\n repeats = 1", "repeats = 1", "it is of Cassandra"),
        ("objective = \"compactions\"", "objective = \"write_p99_ms\"", "only Cassandra has this metric"),
        ("candidate = { name = \"penates\" }", "candidate = { name = \"penates-records\" }", "`setting`"),
    ] {
        fs::write(here.join("wrong.toml"), plan.replace(right, wrong)).unwrap();
        let refused = lab(here, &["run", "wrong.toml", "--folder", "wrong"]);
        assert!(refused.code != 0 && refused.stderr.contains(why), "{wrong}: {}", refused.stderr);
    }
}

#[test]
fn settings_of_the_embedded_engine_are_studied_over_the_repository_door_and_the_data_door() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let plan = |door: &str, mix: &str, partitions: &str| {
        format!(
            r#"
            name = "doors"
            candidate = {{ name = "penates-records" }}
            door = "{door}"
            repeats = 1
            confirm = 0
            control_every = 0
            objective = "read_p99_ms"
            beside = ["disk_bytes"]
            design = {{ kind = "one-at-a-time" }}
            data = {{ records = 40, record_bytes = 200, partitions = {partitions} }}
            lateness_max = "1h"
            workloads = [{{ name = "w", mix = {{ {mix} }}, rate = 100, warm_up = "0s", duration = "300ms" }}]
            [[factors]]
            name = "store.cache"
            values = ["24MiB"]
            "#
        )
    };
    let studied = |door: &str, mix: &str, partitions: &str| {
        let file = format!("{door}.toml");
        fs::write(here.join(&file), plan(door, mix, partitions)).unwrap();
        lab(here, &["run", &file, "--folder", door]).ends_with(0);
        let lines = fs::read_to_string(here.join(door).join("runs.jsonl")).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    // Each waits most of the time until its server is quiet.
    let (resources, pages) = std::thread::scope(|scope| {
        let resources = scope.spawn(|| studied("repository", "write = 1, read = 1", "{ kind = \"single\" }"));
        let pages = studied("data", "read = 1", "{ kind = \"wide\", rows = 10 }");
        (resources.join().unwrap(), pages)
    });
    for (runs, has_writes) in [(resources, true), (pages, false)] {
        assert_eq!(runs.len(), 2);
        for run in &runs {
            assert_eq!(run["void"], serde_json::json!([]), "{run}");
            assert_eq!(run["metrics"]["failed_share"], 0.0, "{run}");
            let metrics = run["metrics"].as_object().unwrap();
            assert!(metrics["read_p99_ms"].as_f64().unwrap() > 0.0, "{run}");
            assert_eq!(metrics.contains_key("write_p99_ms"), has_writes, "{run}");
        }
    }
    let of_redis = plan("repository", "read = 1", "{ kind = \"single\" }").replace("penates-records", "redis");
    fs::write(here.join("redis.toml"), of_redis).unwrap();
    let refused = lab(here, &["run", "redis.toml", "--folder", "redis"]);
    assert!(refused.code != 0 && refused.stderr.contains("no address over HTTP"), "{}", refused.stderr);
}

#[test]
fn a_recommendation_is_a_difference_to_an_operators_own_file_and_leads_back() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    plan(here, 4);
    lab(here, &["run", "plan.toml", "--folder", "study", "--simulated"]).ends_with(0);
    let before = "# Ours.\ncluster_name: 'Shop'\n\n# As fast as the disks.\ncompaction_throughput: 16MiB/s  # 2024\n\
                  seed_provider:\n    - class_name: SimpleSeedProvider\n\n";
    let file = here.join("cassandra.yaml");
    fs::write(&file, before).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let recommend = |more: &[&str]| {
        let args = ["recommend", "--folder", "study", "--workload", "writes", "--yaml", "cassandra.yaml"];
        lab(here, &[&args, more].concat())
    };
    let printed = recommend(&[]).ends_with(0);
    let expected = "\
--- cassandra.yaml
+++ cassandra.yaml
@@ -2,7 +2,7 @@
 cluster_name: 'Shop'
 
 # As fast as the disks.
-compaction_throughput: 16MiB/s  # 2024
+compaction_throughput: 32MiB/s  # 2024
 seed_provider:
     - class_name: SimpleSeedProvider
 
";
    // The last line is empty, and a part of the difference.
    assert_eq!(printed.text(), expected);
    assert!(!printed.stderr.contains("not made yet"), "{}", printed.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), before, "it changes nothing by itself");

    let refused = recommend(&["--write"]).ends_with(2);
    assert!(refused.stderr.contains("simulated node"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let written = recommend(&["--write", "--simulated"]).ends_with(0);
    assert_eq!(written.text(), expected);
    let after = fs::read_to_string(&file).unwrap();
    assert_eq!(after, before.replace("16MiB/s", "32MiB/s"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    let named = |folder: &Path, prefix: &str| {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).collect::<Vec<_>>()
    };
    let copies = named(here, "cassandra.yaml.before-");
    assert_eq!(copies.len(), 1);
    assert_eq!(fs::read_to_string(&copies[0]).unwrap(), before);
    let again = recommend(&["--write", "--simulated"]).ends_with(0);
    assert!(again.text().is_empty() && again.stderr.contains("has all of it already"), "{}", again.stderr);

    // The way back, by the program that operators use.
    let back = named(&here.join("study"), "undo-writes-").pop().unwrap();
    let mut patch = Command::new("patch");
    patch.args(["-p0", "--input"]).arg(back).current_dir(here);
    assert!(patch.output().unwrap().status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), before);

    fs::write(&file, "compaction_throughput: 1MiB/s\ncompaction_throughput: 2MiB/s\n").unwrap();
    let refused = recommend(&["--write", "--simulated"]).ends_with(2);
    assert!(refused.stderr.contains("is there twice, in lines 1 and 2"), "{}", refused.stderr);

    // Without the last of the fresh runs.
    fs::write(&file, before).unwrap();
    let runs = here.join("study/runs.jsonl");
    let text = fs::read_to_string(&runs).unwrap();
    let (kept, _) = text.trim_end().rsplit_once('\n').unwrap();
    fs::write(&runs, format!("{kept}\n")).unwrap();
    let early = recommend(&[]).ends_with(2);
    let said = ["1 runs that are not made yet", "recommends nothing for writes"];
    assert!(said.iter().all(|part| early.stderr.contains(part)) && early.text().is_empty(), "{}", early.stderr);
}

#[test]
fn each_run_of_a_study_is_a_valid_bag_of_the_archive_which_later_runs_join() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    plan(here, 2);
    lab(here, &["run", "plan.toml", "--folder", "study", "--simulated"]).ends_with(0);
    let archive = || lab(here, &["archive", "--folder", "study", "--json"]).ends_with(0).json();
    let runs = kept(here).len();
    assert_eq!(archive(), serde_json::json!({"added": runs, "there": 0}));
    let mut bags: Vec<_> = fs::read_dir(here.join("lab-runs")).unwrap().map(|bag| bag.unwrap().path()).collect();
    bags.sort();
    assert_eq!(bags.len(), runs);
    assert!(is_valid(&bags[0]).unwrap(), "{}", bags[0].display());
    let run: Value = serde_json::from_slice(&fs::read(bags[0].join("data/run.json")).unwrap()).unwrap();
    assert!(bags.iter().all(|bag| bag.to_str().unwrap().contains("-compaction-")) && run["metrics"].is_object());
    let plan = fs::read(here.join("study/plan.toml")).unwrap();
    assert_eq!(fs::read(bags[0].join("data/plan.toml")).unwrap(), plan);
    // One that is missing comes back; the others stay as they are.
    fs::remove_dir_all(&bags[1]).unwrap();
    assert_eq!(archive(), serde_json::json!({"added": 1, "there": runs - 1}));
    assert!(is_valid(&bags[1]).unwrap(), "{}", bags[1].display());
}

#[test]
fn a_killed_study_has_lost_no_run_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    plan(here, 60);
    let mut command = lares(&["lab", "run", "plan.toml", "--folder", "study", "--simulated"]);
    command.current_dir(here).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    wait_until(|| kept(here).len() > 20);
    running.kill().unwrap();
    running.wait().unwrap();
    let before = kept(here);
    assert!(before.len() < 280, "it was killed in the middle: {}", before.len());
    lab(here, &["resume", "--folder", "study"]).ends_with(0);
    let all = kept(here);
    assert_eq!(all[..before.len()], before);
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
    let fresh = 2 * 5;
    assert_eq!(all.len(), 4 * 60 + (4 * 60 - 1) / 5 + fresh);
}

/// Processes whose command line has this text.
fn processes_with(text: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

#[test]
fn a_study_that_is_interrupted_or_killed_leaves_no_node_behind() {
    if !crate::cluster::can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().canonicalize().unwrap();
    plan(&here, 1);
    let node = here.join("study/node").to_str().unwrap().to_owned();
    let start = |args: &[&str]| {
        let mut command = lares(args);
        command.current_dir(&here).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = command.spawn().unwrap();
        wait_until(|| {
            assert!(running.try_wait().unwrap().is_none(), "it has ended by itself");
            processes_with(&node) > 0
        });
        running
    };
    let running = start(&["lab", "run", "plan.toml", "--folder", "study"]);
    signal(&running, "INT");
    let ended = running.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{said}");
    let told = ["The node or server ends now", "lares lab resume --folder study"];
    assert!(told.iter().all(|part| said.contains(part)), "{said}");
    wait_until(|| processes_with(&node) == 0);
    let mut running = start(&["lab", "resume", "--folder", "study"]);
    running.kill().unwrap();
    running.wait().unwrap();
    wait_until(|| processes_with(&node) == 0);
}
