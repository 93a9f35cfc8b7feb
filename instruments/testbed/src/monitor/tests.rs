//! Monitors of this machine, of real processes and of a small server.
#![allow(clippy::unwrap_used)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};

use super::test_server::{Reply, Server};
use super::*;
use crate::samples::Samples;

/// How long a test waits for anything before it fails.
const BOUND: Duration = Duration::from_secs(120);

/// A file in memory that is read while it is written.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    /// The samples so far.
    fn samples(&self) -> Samples {
        let bytes = self.0.lock().unwrap();
        let whole_lines = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole_lines == 0 { Samples::default() } else { read("test", &bytes[..whole_lines]).unwrap() }
    }

    /// Waits until the samples are as wanted.
    async fn wait_until(&self, mut is_wanted: impl FnMut(&Samples) -> bool) {
        let poll = async {
            while !is_wanted(&self.samples()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(tokio::time::timeout(BOUND, poll).await.is_ok(), "never came: {:?}", self.samples());
    }
}

/// A process that ends with the test.
struct Process(Child);

impl Process {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        Self(command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn watch(&self, name: &str) -> Watch {
        Watch { name: name.to_owned(), pid: self.0.id() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// What a process that has ended has left running in its group. It ends with the test.
struct Left(Pid);

impl Left {
    fn by(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let mut first = command.spawn().unwrap();
        let left = Self(Pid::from_child(&first));
        first.wait().unwrap();
        left
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        kill_process_group(self.0, Signal::KILL).unwrap();
    }
}

fn settings(watches: Vec<Watch>) -> Settings {
    let interval = Duration::from_millis(50);
    let (cgroups, nodes) = (Vec::new(), Vec::new());
    Settings { data: None, watches, cgroups, others: false, metrics: None, nodes, interval }
}

/// The values of a column.
fn column(samples: &Samples, name: &str) -> Vec<Option<f64>> {
    let place = samples.columns.iter().position(|column| column == name);
    let place = place.unwrap_or_else(|| panic!("no column {name} in {:?}", samples.columns));
    samples.rows.iter().map(|(_, values)| values[place]).collect()
}

/// Whether a column has a value above zero.
fn rises(samples: &Samples, name: &str) -> bool {
    !samples.rows.is_empty() && column(samples, name).into_iter().flatten().any(|value| value > 0.0)
}

/// Runs a monitor until its samples are as wanted.
async fn monitor(settings: &Settings, is_wanted: impl FnMut(&Samples) -> bool) -> (Samples, Totals) {
    let buffer = Buffer::default();
    let until = buffer.wait_until(is_wanted);
    let totals = run(settings, Instant::now(), buffer.clone(), until).await.unwrap();
    (buffer.samples(), totals)
}

#[tokio::test]
async fn a_process_that_computes_uses_processors_and_the_machine_too() {
    let process = Process::start("while :; do :; done");
    let settings = settings(vec![process.watch("busy")]);
    let (samples, totals) = monitor(&settings, |samples| {
        ["busy.cpu", "busy.cpu_user", "cpu", "cpu_user"].iter().all(|name| rises(samples, name))
    })
    .await;
    assert_eq!(totals, Totals { samples: samples.rows.len() as u64, ..Totals::default() });
    assert!(rises(&samples, "busy.memory_bytes"));
    assert!(rises(&samples, "busy.open_files"));
    assert_eq!(column(&samples, "busy.threads")[0], Some(1.0));
    assert!(column(&samples, "cpu").into_iter().flatten().all(|share| (0.0..=1.0).contains(&share)));
}

#[tokio::test]
async fn what_others_use_is_the_last_column_if_it_is_wanted() {
    let wanted = Settings { others: true, ..settings(vec![]) };
    let (samples, _) = monitor(&wanted, |samples| samples.rows.len() > 1).await;
    assert_eq!(samples.columns.last().unwrap(), "cpu_others");
    assert!(column(&samples, "cpu_others").into_iter().all(|used| used.is_some_and(|used| used >= 0.0)));
}

#[tokio::test]
async fn children_count_also_if_they_end_at_once() {
    let process = Process::start("while :; do sh -c 'i=0; while [ $i -lt 99 ]; do i=$((i+1)); done'; done");
    let settings = settings(vec![process.watch("parent")]);
    let (samples, _) = monitor(&settings, |samples| {
        rises(samples, "parent.cpu") && column(samples, "parent.threads").contains(&Some(2.0))
    })
    .await;
    assert!(column(&samples, "parent.cpu").iter().flatten().all(|processors| *processors >= 0.0));
}

#[tokio::test]
async fn what_another_process_has_left_running_belongs_to_the_watched_one_if_its_group_does() {
    let (process, left) = (Process::start("read line"), Left::by("while :; do :; done &"));
    let (settings, groups) = (settings(vec![process.watch("server")]), Groups::default());
    groups.add(left.0);
    let buffer = Buffer::default();
    let until = buffer.wait_until(|samples| rises(samples, "server.cpu"));
    run_with(&settings, &groups, Instant::now(), buffer.clone(), until).await.unwrap();
    assert_eq!(column(&buffer.samples(), "server.threads").last(), Some(&Some(2.0)));
}

#[tokio::test]
async fn a_process_that_ends_in_the_middle_leaves_its_fields_empty() {
    let mut process = Process::start("read line");
    let settings = settings(vec![process.watch("short"), Watch { name: "absent".into(), pid: u32::MAX }]);
    let (samples, _) = monitor(&settings, |samples| {
        if rises(samples, "short.memory_bytes") {
            drop(process.0.stdin.take());
        }
        // It is not reaped before the test ends.
        samples.rows.len() > 1 && column(samples, "short.memory_bytes").last() == Some(&None)
    })
    .await;
    for name in ["cpu", "memory_bytes", "read_bytes_per_s", "threads", "open_files"] {
        assert_eq!(column(&samples, &format!("short.{name}")).last(), Some(&None));
    }
    assert!(column(&samples, "absent.threads").iter().all(Option::is_none));
    assert!(samples.rows.iter().all(|(_, values)| values[5].is_some()), "the machine is still sampled");
}

#[tokio::test]
async fn the_data_path_has_a_share_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let data = Some(directory.path().to_owned());
    let (samples, _) = monitor(&Settings { data, ..settings(vec![]) }, |samples| !samples.rows.is_empty()).await;
    assert!((0.0..=1.0).contains(&column(&samples, "disk_used")[0].unwrap()));
    let data = Some(directory.path().join("absent"));
    let (samples, _) = monitor(&Settings { data, ..settings(vec![]) }, |samples| !samples.rows.is_empty()).await;
    assert_eq!(column(&samples, "disk_used")[0], None);
}

#[tokio::test]
async fn times_begin_at_the_start_and_grow() {
    let buffer = Buffer::default();
    let start = Instant::now() + Duration::from_millis(200);
    let until = buffer.wait_until(|samples| samples.rows.len() >= 3);
    run(&settings(vec![]), start, buffer.clone(), until).await.unwrap();
    let times: Vec<f64> = buffer.samples().rows.iter().map(|row| row.0).collect();
    assert!(times[0] >= 0.0 && times.is_sorted_by(|a, b| a < b), "{times:?}");
}

#[tokio::test]
async fn a_monitor_that_ends_before_it_begins_writes_the_columns_only() {
    let buffer = Buffer::default();
    let start = Instant::now() + BOUND;
    let out = buffer.clone();
    // A monitor may move between threads.
    let monitor = tokio::spawn(async move { run(&settings(vec![]), start, out, async {}).await });
    assert_eq!(monitor.await.unwrap().unwrap(), Totals::default());
    let samples = buffer.samples();
    assert_eq!((samples.columns.len(), samples.rows.len()), (20, 0));
}

fn metrics(server: &Server) -> Settings {
    let metrics = MetricsSource { url: server.url.clone(), token: None, prefixes: vec!["http_".into()] };
    Settings { metrics: Some(metrics), ..settings(vec![]) }
}

#[tokio::test]
async fn an_endpoint_has_rates_and_gauges() {
    let server = Server::start(|number, _| {
        let mut page = format!("# TYPE http_requests counter\nhttp_requests{{code=\"200\"}} {}\n", 100 * number);
        page += "# TYPE http_open gauge\nhttp_open 7\nother 1\n";
        if number > 3 {
            page += "http_new 1\n";
        }
        Reply::page(&page)
    })
    .await;
    let (samples, totals) = monitor(&metrics(&server), |samples| {
        samples.rows.len() > 5 && column(samples, "metrics.http_open").last() == Some(&Some(7.0))
    })
    .await;
    assert_eq!(samples.columns[20..], ["metrics.http_requests{code=\"200\"}", "metrics.http_open"]);
    let rates = column(&samples, "metrics.http_requests{code=\"200\"}");
    assert!(rates.last().unwrap().unwrap() > 0.0);
    assert_eq!(totals.series_left_out, 1);
}

#[tokio::test]
async fn an_endpoint_that_fails_leaves_its_fields_empty_until_it_answers_again() {
    let server = Server::start(|number, _| match number {
        3 => Reply::Never,
        4 => Reply::Body(Bytes::from_static(b"http_open \xff\n")),
        5 => Reply::Body(Bytes::from(vec![b'\n'; 20 << 20])),
        6 => Reply::page("<html>busy</html>"),
        7 => Reply::Status(500),
        _ => Reply::page("http_open 7\n"),
    })
    .await;
    let (samples, totals) = monitor(&metrics(&server), |samples| {
        samples.rows.len() > 6 && column(samples, "metrics.http_open").last() == Some(&Some(7.0))
    })
    .await;
    let empty = column(&samples, "metrics.http_open").iter().filter(|value| value.is_none()).count();
    assert!(empty >= 5, "{samples:?}");
    assert!(totals.failed_fetches >= 4);
    assert!(totals.last_failure.is_some());
}

#[tokio::test]
async fn an_endpoint_that_never_answers_has_no_columns_and_stops_nothing() {
    let server = Server::start(|_, _| Reply::Never).await;
    let (samples, totals) = monitor(&metrics(&server), |samples| !samples.rows.is_empty()).await;
    assert_eq!(samples.columns.len(), 20);
    assert!(totals.failed_fetches >= 2);
}

#[tokio::test]
async fn the_figures_of_a_node_are_columns_before_those_of_the_endpoint() {
    let agent = Server::start(|_, _| {
        let figures = [r#"{"value": 7}"#; 12].join(",");
        Reply::page(&format!("[{figures}]"))
    })
    .await;
    let server = Server::start(|_, _| Reply::page("http_open 7\n")).await;
    let nodes = vec![NodeSource { name: "node1".into(), url: agent.url.clone() }];
    let settings = Settings { nodes, ..metrics(&server) };
    let wanted = |samples: &Samples| rises(samples, "node1.pending_compactions") && rises(samples, "metrics.http_open");
    let (samples, _) = monitor(&settings, |samples| samples.columns.len() > 20 && wanted(samples)).await;
    assert_eq!(samples.columns[20], "node1.pending_compactions");
    assert_eq!(samples.columns[27..], ["node1.live_bytes", "metrics.http_open"]);
}

#[tokio::test]
async fn two_watches_with_one_name_are_an_error() {
    let watch = Watch { name: "server".into(), pid: 1 };
    let settings = settings(vec![watch.clone(), watch]);
    let error = run(&settings, Instant::now(), Vec::new(), async {}).await.unwrap_err();
    assert_eq!(error.to_string(), "two columns have the name \"server.cpu\"");
}

#[test]
fn the_token_is_not_shown() {
    let source = MetricsSource { url: "http://localhost/".into(), token: Some("secret".into()), prefixes: vec![] };
    assert!(!format!("{source:?}").contains("secret"));
}

#[tokio::test]
async fn what_others_use_during_a_window_is_a_number_of_processors() {
    let busy = others_during(Duration::from_millis(20), Vec::new(), Vec::new()).await.unwrap();
    assert!(busy >= 0.0 && busy.is_finite(), "{busy}");
}
