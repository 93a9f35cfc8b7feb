//! Whole studies on real nodes: two factors, two mixes and three short repeats on one node, and two
//! nodes in containers. They ask nothing of the speed of the machine.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::analysis::analyse;
use lab::apply::{ApplyError, State, Target};
use lab::catalogue::{self, find};
use lab::checks::settings_in_force;
use lab::execute::execute;
use lab::factor::{Applied, Factor, Setting};
use lab::node::{InForce, Node, in_force};
use lab::plan::{Plan, Restart};
use lab::recommend::recommend;
use lab::rig::{Rig, RigError, THROTTLE};
use lab::schedule::first_stage;
use lab::study::OpenStudy;
use lab::workload::{Data, PageCache, Partitions, Workload};
use lab::yaml::{Edits, YamlError, edited};
use scylla::client::session_builder::SessionBuilder;
use walkdir::WalkDir;

/// Whether nodes can be started here. If not, that is reported, and is a failure if `CI` is set.
fn can_run() -> bool {
    let Err(error) = cluster::prerequisites() else { return true };
    let missing = format!("the lab with a real node: {error}");
    assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {missing}");
    report_not_run(&missing);
    false
}

fn report_not_run(missing: &str) {
    eprintln!("not run: {missing}");
    if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(list, "{missing}").unwrap();
    }
}

/// Options of Java with which a node starts in less time: it compiles once, and does not measure
/// again what Cassandra 5.0 counts for a partition of a memtable. These bytes are what it measures.
const QUICK: [&str; 2] = ["-XX:TieredStopAtLevel=1", "-Dcassandra.memtable.row_overhead_size=181"];

/// One factor of a running node and one of the table, so that the node starts once.
const PLAN: &str = r#"
    name = "small"
    repeats = 3
    control_every = 0
    confirm = 0
    objective = "p99_ms"
    beside = ["disk_bytes"]
    design = { kind = "one-at-a-time" }
    data = { records = 200, record_bytes = 600, compressible = true }
    node = { heap_mib = 512 }
    lateness_max = "1h"
    workloads = [
        { name = "even", mix = { write = 50, read = 40, delete = 10 }, rate = 100, duration = "400ms" },
        { name = "writes", mix = { write = 70, read = 30 }, rate = 100, duration = "400ms" },
    ]
    [[factors]]
    name = "compaction_throughput"
    values = ["16MiB/s"]
    [[factors]]
    name = "compression"
    values = ["{'enabled': 'false'}"]
"#;

/// The plan in that of a hundred random orders in which the throughput of compactions changes least
/// often: for each change `nodetool` starts, which takes a second or more.
fn plan() -> Plan {
    let mut plan = Plan::parse(PLAN).unwrap();
    plan.node.jvm_options = QUICK.map(str::to_owned).to_vec();
    let changes = |plan: &Plan| {
        let runs = first_stage(plan);
        runs.windows(2).filter(|pair| pair[0].setting.get(THROTTLE) != pair[1].setting.get(THROTTLE)).count()
    };
    (1..=100).map(|seed| Plan { seed, ..plan.clone() }).min_by_key(changes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_study_of_a_real_node_sees_what_settings_do() {
    if !can_run() {
        return;
    }
    let plan = plan();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("node");
    let mut node = tokio::task::spawn_blocking({
        let plan = plan.clone();
        move || Node::open(&plan, &data).unwrap()
    })
    .await
    .unwrap();
    let mut study = OpenStudy::create(folder.path(), &plan).unwrap();
    execute(&mut study, &mut node, |progress| {
        if let Some(line) = progress.last {
            println!("{:.1} s, {:?} {:?}", line.took_s, line.planned.setting.0, line.void);
        }
    })
    .await
    .unwrap();
    let study = study.study();
    assert_eq!(study.facts().facts["cassandra"], cluster::CASSANDRA_VERSION);
    let valid: Vec<_> = study.lines().iter().filter(|line| line.is_valid()).collect();
    assert_eq!(valid.len(), 3 * 2 * 3, "{:?}", study.lines().iter().map(|line| &line.void).collect::<Vec<_>>());
    // Each setting was measured once in each block, under each mix.
    let made = valid.iter().map(|line| (&line.planned.setting, &line.planned.workload, line.planned.block));
    assert_eq!(made.collect::<BTreeSet<_>>().len(), valid.len());
    // What was asked for was in force, and the other runs had what the node has by itself.
    for line in &valid {
        let of = |factor: &str| line.planned.setting.get(factor).is_some();
        let throughput = if of(THROTTLE) { "16MiB/s" } else { "64MiB/s" };
        assert_eq!(line.read_back[THROTTLE], throughput);
        assert_eq!(line.read_back["compression"].contains("'enabled': 'false'"), of("compression"), "{line:?}");
        assert!(["mean_ms", "write_p99_ms", "read_p99_ms"].iter().all(|name| line.metrics[*name] > 0.0), "{line:?}");
        // The flush of the drain writes what the memtables have kept during the load.
        for cost in ["node_written_bytes", "cpu_ms_per_operation", "write_amplification", "compacted_bytes"] {
            let drained = line.metrics[&format!("{cost}_drained")];
            assert!(drained >= line.metrics[cost], "{cost}: {line:?}");
        }
        assert!(line.metrics["node_written_bytes_drained"] > line.metrics["node_written_bytes"], "{line:?}");
    }
    // On a busy machine a short load may have no samples, so not each run has to. Linux counts the
    // time of processors in steps, so a short load may also show none of it.
    let sampled = |name: &str| -> Vec<f64> {
        let values: Vec<_> = valid.iter().filter_map(|line| line.metrics.get(name).copied()).collect();
        assert!(!values.is_empty() && values.iter().all(|value| *value >= 0.0), "{name}: {values:?}");
        values
    };
    for name in [
        "memory_used_share",
        "memory_cached_bytes",
        "cpu",
        "cpu_user",
        "cpu_system",
        "node_cpu",
        "packet_round_trip_ms",
    ] {
        assert!(sampled(name).iter().any(|value| *value > 0.0), "{name}");
    }
    // This may be zero in all of them.
    sampled("running_compactions");
    // What cannot be had is named as not measured, and CI can have it.
    let has_mbeans = study.facts().facts["figures of JMX"] == format!("Jolokia {}", cluster::JOLOKIA_VERSION);
    if has_mbeans {
        for line in &valid {
            let of = |name: &str| line.metrics[name];
            assert!(of("bytes_flushed_drained") > 0.0 && of("memtable_switches_drained") >= 1.0, "{line:?}");
            let counters = [
                "gc_ms",
                "memtable_waits",
                "commitlog_commit_waits",
                "timeouts",
                "dropped_messages",
                "jmx_compacted_bytes",
                "compaction_tasks",
                "jmx_compactions",
            ];
            assert!(counters.iter().all(|name| of(name) >= 0.0), "{line:?}");
            // Short compactions may run between the looks at MBeans: only counts have to agree.
            assert!(!line.notes.iter().any(|note| note.contains("MBeans counted")), "{line:?}");
        }
        assert!(sampled("sstables_per_read").iter().any(|tables| *tables > 0.0));
        assert!(sampled("sstables").iter().any(|tables| *tables >= 1.0));
        sampled("pending_compactions");
        sampled("compaction_rate_bytes_per_s");
    } else {
        let missing = format!("the figures of MBeans: {}", study.facts().facts["figures of JMX"]);
        assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {missing}");
        report_not_run(&missing);
    }
    // Nobody can know the latencies here. But records of four different bytes are smaller
    // compressed.
    let analysis = analyse(&plan, study.lines());
    let disks: Vec<_> = analysis.tables.iter().filter(|table| table.metric == "disk_bytes").collect();
    assert_eq!(disks.len(), plan.workloads.len());
    for disk in disks {
        let plain = disk.rows.iter().find(|row| row.setting.get("compression").is_some()).unwrap();
        let difference = plain.difference.as_ref().unwrap();
        assert!(difference.change > 0.2 && difference.blocks == 3, "{}: {difference:?}", disk.workload);
    }
    assert_eq!(recommend(&plan, study.lines(), &analysis).len(), plan.workloads.len());
    let run = std::fs::read_dir(folder.path().join("runs")).unwrap().next().unwrap().unwrap().path();
    for file in ["monitor.csv", "seconds.csv", "latencies.hlog", "cassandra.yaml", "node.json", "tasks.csv"] {
        assert!(run.join(file).exists(), "{file}");
    }
    assert_eq!(run.join("jmx.csv").exists(), has_mbeans);
    // Each run keeps what it ran with.
    for line in &valid {
        let run = folder.path().join(format!("runs/{:05}-{}", line.planned.number, line.attempt));
        let table = std::fs::read_to_string(run.join("table.cql")).unwrap();
        let is_plain = line.planned.setting.get("compression").is_some();
        assert_eq!(table.contains("'enabled': 'false'"), is_plain, "{table}");
    }
    assert!(study.facts().facts["jars"].starts_with("sha256:"), "{:?}", study.facts());
    if has_mbeans {
        each_second_of_a_load_has_all_figures_of_mbeans(&mut node, &plan).await;
    }
    records_lie_in_partitions_as_the_plan_says(&mut node, &plan, folder.path()).await;
    a_setting_that_the_node_refuses_is_a_void_run(&mut node).await;
    what_a_running_node_takes_is_applied_and_read_back(&plan, &folder.path().join("node")).await;
    a_node_that_has_ended_is_started_again(&mut node, folder.path()).await;
    a_node_starts_with_a_file_that_was_changed(folder.path()).await;
    each_known_setting_of_a_node_and_of_a_table_gets_into_force(folder.path()).await;
}

/// Known settings, each with a value that is none by itself.
const KNOWN: [(&str, &str); 29] = [
    ("memtable_heap_space", "64MiB"),
    ("memtable_offheap_space", "65MiB"),
    ("memtable_allocation_type", "offheap_objects"),
    ("memtable_flush_writers", "3"),
    ("memtable_cleanup_threshold", "0.2"),
    ("concurrent_compactors", "3"),
    ("compaction_throughput", "24MiB/s"),
    ("snapshot_before_compaction", "true"),
    ("partition_size_warn_threshold", "50MiB"),
    ("concurrent_reads", "17"),
    ("concurrent_writes", "18"),
    ("native_transport_max_threads", "64"),
    ("key_cache_size", "9MiB"),
    ("row_cache_size", "7MiB"),
    ("commitlog_sync", "group:5ms"),
    ("commitlog_segment_size", "16MiB"),
    ("disk_access_mode", "mmap"),
    ("flush_compression", "table"),
    ("trickle_fsync", "true"),
    ("file_cache_size", "66MiB"),
    ("column_index_size", "16KiB"),
    ("sstable.selected_format", "bti"),
    ("heap", "384"),
    ("young", "128"),
    ("collector", "-XX:-UseSerialGC -XX:+UseG1GC"),
    ("compaction", "{'class': 'UnifiedCompactionStrategy'}"),
    ("compression", "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}"),
    ("caching", "{'keys': 'ALL', 'rows_per_partition': 10}"),
    ("memtable", "trie"),
];

/// Known settings that lie around the node, that another one excludes, or that need another Java.
const ELSEWHERE: [&str; 6] = ["commitlog_sync_period", "nodes", "container", "copies", "consistency", "jdk"];

/// By one start of a node.
async fn each_known_setting_of_a_node_and_of_a_table_gets_into_force(folder: &Path) {
    let mut plan = plan();
    let factor = |(name, value): (&str, &str)| Factor {
        name: name.to_owned(),
        default: None,
        values: vec![value.to_owned()],
        repeats: None,
        // The catalogue knows it; what a running node takes need not cost a second each here.
        applied: (find(name).unwrap().applied == Applied::Live).then_some(Applied::Restart),
    };
    plan.factors = KNOWN.map(factor).to_vec();
    plan.check().unwrap();
    let data = folder.join("known");
    let opening = tokio::task::spawn_blocking({
        let plan = plan.clone();
        move || Node::open(&plan, &data).unwrap()
    });
    let mut node = opening.await.unwrap();
    let all = Setting::of(KNOWN.map(|(name, value)| (name, Some(value))));
    assert!(node.apply(&all, Restart::WhenChanged).await.unwrap());
    node.recreate(&all).await.unwrap();
    let read = node.read_back().await.unwrap();
    assert_eq!(settings_in_force(&plan, &all, &read, &BTreeMap::new()), [""; 0], "{read:?}");
    let shown: BTreeSet<_> = KNOWN.iter().map(|(name, _)| *name).chain(ELSEWHERE).collect();
    let known: BTreeSet<_> = catalogue::KNOWN.iter().map(|known| known.name).collect();
    assert_eq!(shown, known, "each has a place");
}

/// How often a load is made at most: on a busy machine a second may pass without a sample.
const TRIES: usize = 10;

/// On the records of the last run.
async fn each_second_of_a_load_has_all_figures_of_mbeans(node: &mut Node, plan: &Plan) {
    let seconds = 0..3;
    let duration = Duration::from_secs(seconds.end);
    let workload = Workload { rate: 20.0, duration, ..plan.workloads[0].clone() };
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let files = tempfile::tempdir().unwrap();
        node.load(&workload, 1, files.path()).await.unwrap();
        let text = std::fs::read_to_string(files.path().join("jmx.csv")).unwrap();
        let mut lines = text.lines();
        assert!(lines.next().is_some_and(|names| names.starts_with("at_s,bytes_flushed,")), "{text}");
        // A node that does not answer in time has none.
        let figures = |line: &str| line.split(',').map(|figure| figure.parse().ok()).collect::<Option<Vec<f64>>>();
        let sampled: BTreeSet<_> = lines.filter_map(figures).map(|figures| figures[0] as u64).collect();
        if seconds.clone().all(|second| sampled.contains(&second)) {
            return;
        }
        seen.push(text);
    }
    panic!("no load has all figures in each of its seconds: {seen:?}");
}

/// Two nodes that keep each record twice; a run in which both have to answer, and one in which each
/// node has a container.
const CLUSTER: &str = r#"
    name = "around"
    repeats = 1
    control_every = 0
    confirm = 0
    objective = "p99_ms"
    design = { kind = "one-at-a-time" }
    data = { records = 200 }
    node = { heap_mib = 384, count = 2, copies = 2 }
    restart = "when-changed"
    lateness_max = "1h"
    workloads = [
        { name = "even", mix = { write = 50, read = 50 }, rate = 100, duration = "500ms" },
    ]
    [[factors]]
    name = "consistency"
    values = ["ALL/ONE"]
"#;

const CONTAINER: &str = r#"
    [[factors]]
    name = "container"
    values = ["memory=1GiB cpus=1.5"]
"#;

/// Whether it can be read back that the page cache is cold. If not, that is reported.
fn can_be_cold() -> bool {
    let is_there = Command::new("fincore").arg("--version").output().is_ok();
    if !is_there {
        let missing = "a cold page cache, which fincore reads back (package util-linux-extra)";
        assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {missing}");
        report_not_run(missing);
    }
    is_there
}

/// The text of a plan with containers, where control groups can be made. If not, that is reported.
fn with_containers(plan: &str) -> (String, usize) {
    let limits = cluster::Limits { memory_bytes: Some(1 << 30), cpus: Some(1.0) };
    let Err(error) = cluster::ControlGroup::new("penates-lab-test", limits) else {
        return (format!("{plan}{CONTAINER}"), 3);
    };
    let missing = format!("the lab's containers: {error}");
    assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {missing}");
    report_not_run(&missing);
    (plan.to_owned(), 2)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_keep_two_copies_answer_as_asked_and_are_limited_by_containers() {
    if !can_run() {
        return;
    }
    let (text, settings) = with_containers(CLUSTER);
    let mut plan = Plan::parse(&text).unwrap();
    plan.node.jvm_options = QUICK.map(str::to_owned).to_vec();
    plan.data.page_cache = if can_be_cold() { PageCache::Cold } else { PageCache::AsLeft };
    // On a disk: files of a file system in memory are never cold.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let data = folder.path().join("node");
    let opening = tokio::task::spawn_blocking({
        let plan = plan.clone();
        move || Node::open(&plan, &data).unwrap()
    });
    let mut node = opening.await.unwrap();
    let mut study = OpenStudy::create(folder.path(), &plan).unwrap();
    execute(&mut study, &mut node, |_| {}).await.unwrap();
    // On a machine that does much else, a run may be void. It is made again.
    let lines: Vec<_> = study.study().lines().iter().filter(|line| line.is_valid()).collect();
    assert_eq!(lines.len(), settings, "{:?}", study.study().lines());
    for line in lines {
        let of = |factor: &str| line.planned.setting.get(factor).is_some();
        assert_eq!(line.read_back["consistency"], if of("consistency") { "ALL/ONE" } else { "ONE" });
        if let Some(container) = line.read_back.get("container") {
            let is_limited = container.contains("memory=1073741824B") && container.contains("cpus=1.5");
            assert_eq!(is_limited, of("container"), "{container}");
        }
        assert!(line.metrics["disk_bytes"] > 0.0 && line.metrics["mean_ms"] > 0.0, "{line:?}");
        // Nodes have mapped little more than the indexes of their tables.
        let is_cold = line.metrics.get("records_in_memory_share").is_some_and(|share| *share < 1.0);
        assert!(is_cold || plan.data.page_cache == PageCache::AsLeft, "{line:?}");
        // What a container uses is known in both versions of groups.
        let of_container = ["container_cpu", "container_memory_bytes"].map(|name| line.metrics.contains_key(name));
        assert_eq!(of_container, [of("container") && line.metrics.contains_key("node_cpu"); 2], "{line:?}");
    }
}

/// Kills the node, and returns its command line.
fn kill(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.contains(folder) && line.contains("CassandraDaemon") {
            let words: Vec<_> = line.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
            // The shell that watches the node has its command line too.
            if words[0].ends_with("java") {
                found = words;
            }
            let killed = Command::new("kill").arg("-KILL").arg(process.file_name()).status();
            assert!(killed.unwrap().success());
        }
    }
    assert!(!found.is_empty(), "the node runs");
    found
}

/// A process that ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Cassandra reads what was changed line by line, and has it in force.
async fn a_node_starts_with_a_file_that_was_changed(folder: &Path) {
    let node = folder.join("node");
    let spec = cluster::Cluster::spec_in(&node).unwrap().unwrap();
    let cluster::Network::Fixed(network) = spec.network else { panic!("it has one") };
    let cql = SocketAddr::from(([127, 0, network, 1], spec.ports.cql));
    let files = WalkDir::new(&node).into_iter().map(|entry| entry.unwrap().into_path());
    let file = files.into_iter().find(|path| path.ends_with("cassandra.yaml")).unwrap();
    // The lab's own file is JSON, which is refused; with a key on each line it is like others.
    let text = std::fs::read_to_string(&file).unwrap();
    let set = [("compaction_throughput", "32MiB/s"), ("concurrent_reads", "17"), ("commitlog_sync_period", "3000ms")];
    let set = set.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let edits = Edits { set, delete: vec!["auto_bootstrap".to_owned()], ..Edits::default() };
    assert_eq!(edited(&text, &edits), Err(YamlError::NoKey(1)));
    let keys: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert!(keys.contains_key("commitlog_sync_period") && keys.contains_key("auto_bootstrap"), "{keys:?}");
    let lines: String = keys.iter().map(|(key, value)| format!("# About {key}.\n{key}: {value}\n")).collect();
    let command = kill(folder);
    std::fs::write(&file, edited(&lines, &edits).unwrap()).unwrap();
    let log = std::fs::File::create(folder.join("changed.log")).unwrap();
    let mut start = Command::new(&command[0]);
    start.args(&command[1..]).process_group(0).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let mut started = Started(start.spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(300);
    let InForce { versions, settings } = loop {
        if let Ok(said) = in_force(cql).await {
            break said;
        }
        let log = || std::fs::read_to_string(folder.join("changed.log")).unwrap();
        assert!(started.0.try_wait().unwrap().is_none() && Instant::now() < deadline, "{}", log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let of = |name: &str| settings[name].as_str();
    assert_eq!([of("compaction_throughput"), of("concurrent_reads")], ["32MiB/s", "17"]);
    assert_eq!([of("commitlog_sync_period"), of("auto_bootstrap")], ["3000ms", "true"]);
    assert!(versions["cassandra"].starts_with("5.") && !versions["java"].is_empty(), "{versions:?}");
}

async fn a_node_that_has_ended_is_started_again(node: &mut Node, folder: &Path) {
    kill(folder);
    assert!(node.apply(&Setting::default(), Restart::WhenChanged).await.unwrap(), "it was started");
    assert!(!node.apply(&Setting::default(), Restart::EveryRun).await.unwrap(), "no run was made since");
    assert_eq!(node.read_back().await.unwrap()["compaction_throughput"], "64MiB/s");
}

/// Rows of the table, on the node that runs already.
async fn count(node: &Path, query: &str) -> i64 {
    let spec = cluster::Cluster::spec_in(node).unwrap().unwrap();
    let cluster::Network::Fixed(network) = spec.network else { panic!("it has one") };
    let cql = SocketAddr::from(([127, 0, network, 1], spec.ports.cql));
    let session = SessionBuilder::new().known_node_addr(cql).build().await.unwrap();
    let rows = session.query_unpaged(query, ()).await.unwrap().into_rows_result().unwrap();
    rows.single_row::<(i64,)>().unwrap().0
}

async fn records_lie_in_partitions_as_the_plan_says(node: &mut Node, plan: &Plan, folder: &Path) {
    let workload = &plan.workloads[0];
    let data = folder.join("node");
    let shapes = [
        (Partitions::Wide { rows: 50 }, "SELECT count(*) FROM lab.standard1 WHERE key = textAsBlob('0000000003')", 50),
        // Two of the two hundred are of the last series, before the load.
        (
            Partitions::TimeSeries { series: 100, read: 10 },
            "SELECT count(*) FROM lab.standard1 WHERE key = textAsBlob('0000000099')",
            2,
        ),
    ];
    for (partitions, query, expected) in shapes {
        node.set_data(Data { partitions, ttl: Some(Duration::from_secs(3_600)), ..plan.data });
        node.recreate(&Setting::default()).await.unwrap();
        node.prefill(1).await.unwrap();
        assert_eq!(count(&data, query).await, expected, "{partitions:?}");
        let with_ttl = query.replace("count(*)", "cast(max(ttl(\"C0\")) AS bigint)");
        assert!((1..=3_600).contains(&count(&data, &with_ttl).await), "{partitions:?}");
        let before = node.counters().await.unwrap();
        let files = tempfile::tempdir().unwrap();
        let loaded = node.load(workload, 1, files.path()).await.unwrap();
        assert!(loaded.due > 0 && loaded.done == loaded.due, "{loaded:?}");
        assert!(node.counters().await.unwrap().reads > before.reads, "{partitions:?}");
        let state = node.drain().await.unwrap();
        assert_eq!(state.keys().collect::<Vec<_>>(), ["disk_bytes"], "how many records there are is not known");
    }
    node.set_data(plan.data);
}

/// On the node that runs already.
async fn a_setting_that_the_node_refuses_is_a_void_run(node: &mut Node) {
    let wrong = Setting::of([("compaction_throughput", Some("fast"))]);
    let Err(RigError::Run(why)) = node.apply(&wrong, Restart::WhenChanged).await else { panic!("it is no setting") };
    assert!(why.contains("cannot be set to fast"), "{why}");
    assert!(!node.apply(&Setting::default(), Restart::WhenChanged).await.unwrap(), "the node runs on");
}

async fn what_a_running_node_takes_is_applied_and_read_back(plan: &Plan, folder: &Path) {
    let spec = cluster::Cluster::spec_in(folder).unwrap().unwrap();
    let cluster::Network::Fixed(network) = spec.network else { panic!("it has one") };
    let at = |port| SocketAddr::from(([127, 0, network, 1], port));
    let table = Some("lab.standard1".to_owned());
    let target = Target { cql: at(spec.ports.cql), jmx: at(spec.ports.jmx), table };
    let asked = [("compaction_throughput", Some("16MiB/s")), ("compression", Some("{'enabled': 'false'}"))];
    let applied = target
        .apply(plan, &Setting::of(asked), |script| {
            assert!(script.contains("setcompactionthroughput 64\n") && script.contains("ALTER TABLE"), "{script}");
            Ok(())
        })
        .await
        .unwrap();
    assert!(applied.error.is_none());
    let applied = applied.done;
    assert!(applied.iter().all(|one| one.state == State::InForce), "{applied:?}");
    let before: Vec<_> = applied.iter().map(|one| one.before.as_deref()).collect();
    assert_eq!(before[0], Some("64MiB/s"));
    assert_eq!(applied[0].after.as_deref(), Some("16MiB/s"));
    let absent = Target { table: Some("lab.Standard1".to_owned()), ..target };
    assert!(matches!(absent.apply(plan, &Setting::of(asked), |_| Ok(())).await, Err(ApplyError::Absent(_))));
    let wrong = Target { table: Some("no table".to_owned()), ..absent };
    assert!(matches!(wrong.apply(plan, &Setting::of(asked), |_| Ok(())).await, Err(ApplyError::Table(_))));
}
