//! Invented runs in an archive: for tests, and for those that work on the portal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal};
use sha2::{Digest, Sha256};
use testbed::archive::{Outcome, RunWriter, marks_csv, seconds_csv};
use testbed::beside::Beside;
use testbed::event::{self, Event, EventWriter};
use testbed::record::{CandidateRecord, FORMAT, Input, Machine, Program, RunRecord, WorkerRecord};
use testbed::report;
use testbed::results::{Judgement, Verdict};
use testbed::samples::{Marked, Samples};
use testbed::tally::{self, Measured, Window};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What is invented of a run; the rest follows from it.
#[derive(Clone, Debug)]
pub struct Invented {
    /// The candidate's name, version and commit.
    pub candidate: (&'static str, &'static str, &'static str),
    /// The scheme of its address.
    pub scheme: &'static str,
    /// The only scenario of its plan, which has the same name.
    pub scenario: &'static str,
    /// Days after the first run.
    pub day: i64,
    pub nodes: u32,
    pub workers: u32,
    /// Requests per second.
    pub rate: u32,
    pub seconds: u32,
    pub warm_up_s: u32,
    pub p50_ms: f64,
    pub verdict: Verdict,
    pub is_traceable: bool,
    /// Whether a monitor has sampled it, and events have happened meanwhile.
    pub is_watched: bool,
    /// What is there instead of its report and of its response times.
    pub report: Option<&'static str>,
    pub latencies: Option<&'static str>,
}

impl Default for Invented {
    fn default() -> Self {
        Self {
            candidate: ("penates", "0.1.0", "7dd939412ab8c1d05e6f0a1b2c3d4e5f60718293"),
            scheme: "http",
            scenario: "ingest",
            day: 0,
            nodes: 1,
            workers: 2,
            rate: 60,
            seconds: 30,
            warm_up_s: 2,
            p50_ms: 4.0,
            verdict: Verdict::Held,
            is_traceable: true,
            is_watched: false,
            report: None,
            latencies: None,
        }
    }
}

/// Runs of two candidates, with several versions, nodes, scenarios and verdicts.
#[allow(dead_code, reason = "tests and the example do not use all")]
pub fn runs(seconds: u32) -> Vec<Invented> {
    let penates = Invented { seconds, ..Invented::default() };
    let second = ("penates", "0.2.0", "f1f122e0a1b2c3d4e5f607182937dd939412ab8c");
    let third = ("penates", "0.3.0", "15cb8b97182937dd939412ab8cf1f122e0a1b2c3");
    let other = ("fedora", "6.5.1", "951de9a0d1c2b3a49586776859504132231f0e1d");
    let failed = Invented { verdict: Verdict::Failed, is_watched: true, ..penates.clone() };
    vec![
        penates.clone(),
        Invented { candidate: second, day: 3, p50_ms: 3.6, ..penates.clone() },
        Invented { candidate: second, day: 3, p50_ms: 3.65, ..penates.clone() },
        Invented { candidate: third, day: 9, p50_ms: 6.1, verdict: Verdict::Degrading, ..penates.clone() },
        Invented { candidate: other, day: 10, p50_ms: 38.0, verdict: Verdict::Failed, ..penates.clone() },
        Invented { candidate: other, day: 11, p50_ms: 21.0, rate: 25, ..penates.clone() },
        Invented { candidate: second, day: 12, nodes: 3, workers: 4, rate: 150, p50_ms: 5.2, ..penates.clone() },
        Invented { candidate: other, day: 12, nodes: 3, workers: 4, rate: 40, p50_ms: 24.0, ..penates.clone() },
        Invented { candidate: third, day: 13, scenario: "read", ..failed },
        Invented { candidate: third, day: 14, verdict: Verdict::Void, is_traceable: false, ..penates },
    ]
}

/// Adds a run to an archive. Returns its folder.
pub fn add(archive: &Path, run: &Invented) -> Result<PathBuf> {
    let mut started_at = Timestamp::from_second(1_768_469_400)?.checked_add((run.day * 24).hours())?;
    while archive.join(run.id(started_at)).exists() {
        started_at = started_at.checked_add(30.minutes())?;
    }
    let id = run.id(started_at);
    let mut log = Vec::new();
    let measured = run.measured(started_at, &id, &mut log)?;
    let record = run.record(id, started_at)?;
    let reasons = match run.verdict {
        Verdict::Held => Vec::new(),
        Verdict::Degrading => vec!["The median of the last quarter is 1.7 times that of the second.".to_owned()],
        Verdict::Failed => vec!["Requests failed: status 500.".to_owned()],
        Verdict::Void => vec!["The generator was late.".to_owned()],
    };
    let judgement = Judgement { verdict: run.verdict, reasons };
    let summary = measured.summary;
    let outcome = Outcome { judgement, summary, saturated: Vec::new(), log: None, logs_elsewhere: Vec::new() };
    let (monitors, marks) = if run.is_watched { (vec![run.samples()], marks()) } else { (Vec::new(), Vec::new()) };
    let mut writer = RunWriter::create(archive, &record.id)?;
    writer.add("plan.toml", run.plan().as_bytes())?;
    writer.add_json("record.json", &record)?;
    writer.add_json("summary.json", &outcome)?;
    writer.add("seconds.csv", &seconds_csv(&measured.seconds))?;
    writer.add("latencies.hlog", run.latencies.map_or(log.as_slice(), str::as_bytes))?;
    for samples in &monitors {
        writer.add(&format!("monitor/{}.csv", samples.name), csv(samples).as_bytes())?;
    }
    if !marks.is_empty() {
        writer.add("marks.csv", &marks_csv(&marks))?;
    }
    let page = report::page(&report::Inputs {
        record: &record,
        judgement: &outcome.judgement,
        summary: &outcome.summary,
        seconds: &measured.seconds,
        monitors: &monitors,
        events: &marks,
        plan_toml: &run.plan(),
        logs: &outcome.logs().collect::<Vec<_>>(),
        ceiling: report::Ceiling::find(archive, &record),
        files: &writer.files().collect::<Vec<_>>(),
    });
    writer.add("report.html", run.report.map_or(page.as_bytes(), str::as_bytes))?;
    Ok(writer.finish(&record)?)
}

/// Samples as a monitor writes them.
fn csv(samples: &Samples) -> String {
    let shown = |value: &Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let line = |(at_s, values): &(f64, Vec<Option<f64>>)| {
        format!("{at_s},{}\n", values.iter().map(shown).collect::<Vec<_>>().join(","))
    };
    format!("at_s,{}\n{}", samples.columns.join(","), samples.rows.iter().map(line).collect::<String>())
}

/// Two events, so near to each other that their labels do not fit into one row.
fn marks() -> Vec<Marked> {
    let mark = |at_s, what: &str| Marked { at_s, what: what.to_owned() };
    vec![mark(10.0, "node1: compaction of 12.3 MB"), mark(11.0, "add-node")]
}

impl Invented {
    fn id(&self, started_at: Timestamp) -> String {
        format!("{}-{}", started_at.strftime("%Y-%m-%dT%H%M%SZ"), self.scenario)
    }

    fn plan(&self) -> String {
        let Self { scenario, workers, rate, .. } = self;
        format!("name = \"{scenario}\"\nseed = 7\nworkers = {workers}\n\n[load]\nrate = {rate}.0\n")
    }

    /// What a monitor has sampled: of a process, of a node of Cassandra and of the machine.
    fn samples(&self) -> Samples {
        let columns = ["server.cpu", "server.memory_bytes", "node1.gc_share", "disk_busy"].map(str::to_owned).to_vec();
        let row = |at_s: i64| {
            let share = at_s.rem_euclid(7) as f64 / 7.0;
            (at_s as f64, vec![Some(1.0 + share), Some(3e8 + 1e6 * share), Some(share / 10.0), Some(share)])
        };
        let rows = (-i64::from(self.warm_up_s)..i64::from(self.seconds)).map(row).collect();
        Samples { name: "candidate".to_owned(), columns, rows }
    }

    /// Response times vary from second to second, and slow spans come now and then.
    fn measured(&self, started_at: Timestamp, id: &str, log: &mut Vec<u8>) -> Result<Measured> {
        let names = vec![(self.scenario.to_owned(), vec!["container".to_owned(), "binary".to_owned()])];
        let mut random = ChaCha8Rng::from_seed(Sha256::digest(id).into());
        let all_s = self.warm_up_s + self.seconds;
        let mut events = Vec::new();
        for at_s in 0..all_s {
            let slow = if random.random_bool(0.04) { 3.0 } else { 1.0 };
            let growing =
                if self.verdict == Verdict::Degrading { 1.0 + f64::from(at_s) / f64::from(all_s) } else { 1.0 };
            let times = LogNormal::new((self.p50_ms * 1e3 * slow * growing).ln(), 0.45)?;
            for number in 0..self.rate {
                let due_us = (i64::from(at_s) - i64::from(self.warm_up_s)) * 1_000_000
                    + i64::from(number) * 1_000_000 / i64::from(self.rate);
                let is_bad = self.verdict == Verdict::Failed && random.random_bool(0.01);
                events.push(Event {
                    user: u64::from(at_s * self.rate + number),
                    scenario: 0,
                    step: (number % 2) as usize,
                    due_us,
                    begun_us: due_us + 10,
                    sent_us: Some(due_us + 20),
                    first_byte_us: Some(due_us + 30),
                    done_us: due_us + 40 + times.sample(&mut random) as i64,
                    outcome: if is_bad {
                        event::Outcome::Failed("status 500".to_owned())
                    } else {
                        event::Outcome::Done
                    },
                    status: Some(if is_bad { 500 } else { 201 }),
                    sent_bytes: 1_000,
                    received_bytes: 20,
                });
            }
        }
        events.sort_by_key(|event| event.done_us);
        let file = tempfile::NamedTempFile::new()?;
        let mut writer = EventWriter::new(file.reopen()?, names.clone())?;
        events.iter().try_for_each(|event| writer.write(event))?;
        writer.finish()?;
        let window = Window {
            started_at,
            warm_up: Duration::from_secs(self.warm_up_s.into()),
            duration: Duration::from_secs(self.seconds.into()),
            late_from: None,
        };
        Ok(tally::count(&[file.path().to_owned()], &names, window, &[], log)?)
    }

    fn record(&self, id: String, started_at: Timestamp) -> Result<RunRecord> {
        let (name, version, commit) = self.candidate;
        let digest = |text: &str| hex::encode(Sha256::digest(text));
        let program = |name: &str, version: &str, commit: &str| Program {
            name: name.to_owned(),
            version: version.to_owned(),
            tag: None,
            sha256: Some(digest(commit)),
            commit: Some(commit.to_owned()),
            is_dirty: Some(false),
            repository: None,
        };
        let testbed = program("testbed", "0.1.0", "7dd939412ab8c1d05e6f");
        let port = 40_000 + self.day * 7;
        let command = format!("{name} serve --store /tmp/.tmpAb{:04}/data --listen 127.0.0.1:{port}", port % 10_000);
        let of_worker = ["penates", "testbed", "worker", "--listen", "127.0.0.1:0", "--once"].map(str::to_owned);
        let worker = |number| WorkerRecord {
            number,
            clock_error_us: 20,
            cpu_s: 3.0,
            load_share: 0.1,
            memory_at_start_bytes: Some(31_000_000),
            memory_peak_bytes: Some(33_000_000),
            program: testbed.clone(),
            command: Some(of_worker.to_vec()),
            ..WorkerRecord::default()
        };
        let machine = Machine {
            id: None,
            boot_id: None,
            name: format!("node-{}", self.nodes),
            roles: ["coordinator", "candidate", "worker 0"].map(str::to_owned).to_vec(),
            processor: Some("Example 9000 at 2.4 GHz".to_owned()),
            processors: 4,
            memory_bytes: Some(16_400_000_000),
            disk: Some("nvme0n1, ext4".to_owned()),
            kernel: Some("Linux 6.12.9".to_owned()),
            clock_source: Some("tsc".to_owned()),
            limits: vec![("open files".to_owned(), "1048576".to_owned())],
            is_container: Some(false),
            busy_before: Some(0.04),
        };
        let input = |name: &str, text: &str| Input::of(name, text.as_bytes());
        let engine = if self.nodes > 1 { "cassandra" } else { "embedded" };
        let facts = [("engine", engine), ("nodes", &self.nodes.to_string())];
        let missing = if self.is_traceable { Vec::new() } else { vec!["the candidate's configuration".to_owned()] };
        Ok(RunRecord {
            format: FORMAT,
            id,
            who: "A. Librarian".to_owned(),
            started_at,
            ended_at: started_at.checked_add(i64::from(self.warm_up_s + self.seconds).seconds())?,
            testbed: testbed.clone(),
            candidate: CandidateRecord {
                program: program(name, version, commit),
                url: format!("{}://127.0.0.1:{port}/", self.scheme),
                command: Some(command.split(' ').map(str::to_owned).collect()),
                configuration: self
                    .is_traceable
                    .then(|| format!("listen = \"127.0.0.1:{port}\"\nnodes = {}\n", self.nodes)),
                facts: facts.map(|(name, fact)| (name.to_owned(), fact.to_owned())).to_vec(),
            },
            inputs: vec![input("plan", &self.plan()), input(&format!("scenario {}", self.scenario), self.scenario)],
            seed: 7,
            workers: (0..self.workers).map(worker).collect(),
            machines: vec![machine],
            preparation: "none".to_owned(),
            missing,
            beside: Beside::default(),
        })
    }
}
