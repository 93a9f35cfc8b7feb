//! Prints the page of an invented run: for those that work on the page.

use std::f64::consts::TAU;

use jiff::Timestamp;
use testbed::beside::LogExcerpt;
use testbed::record::{CandidateRecord, FORMAT, Input, Machine, Program, RunRecord, WorkerRecord};
use testbed::report::{Ceiling, Inputs, page};
use testbed::results::{ErrorTally, Judgement, Second, StepTally, Summary, Tally, Times, Verdict};
use testbed::samples::{Marked, Samples};

const PLAN: &str = "name = \"ten-minutes\"\nseed = 7\n\n[[phase]]\nrate_per_s = 400\nduration = \"10m\"\n";

/// A share between 0 and 1 that looks random and is the same each time.
fn noise(at: i64, salt: u64) -> f64 {
    let mut mixed = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 40) as f64 / (1 << 24) as f64
}

/// How overloaded the server is, from 0 to 1: twice for half a minute.
fn overload(at_s: i64) -> f64 {
    let burst = |start: i64| if (start..start + 30).contains(&at_s) { (at_s - start) as f64 / 30.0 } else { 0.0 };
    burst(210) + burst(455)
}

fn second(at_s: i64) -> Second {
    let due = (400.0 + 60.0 * (at_s as f64 / 120.0 * TAU).sin() + 40.0 * noise(at_s, 1)) as u64;
    let due = if at_s < 0 { due / 2 } else { due };
    let slow = 1.0 + 40.0 * overload(at_s);
    let timed_out = (overload(at_s) * 30.0 * noise(at_s, 2)) as u64;
    let refused = if at_s > 455 { (overload(at_s) * 50.0 * noise(at_s, 3)) as u64 } else { 0 };
    let failed = (overload(at_s) * 12.0 * noise(at_s, 4)) as u64;
    let p50_ms = (4.0 + 2.0 * noise(at_s, 5)) * slow;
    Second {
        at_s,
        due,
        sent: due,
        done: due - timed_out - refused - failed,
        refused,
        failed,
        timed_out,
        too_late: timed_out + refused + failed,
        users: (due as f64 * p50_ms / 50.0) as u64 + 1,
        received_bytes: due * 21_000,
        p50_ms,
        p90_ms: p50_ms * (1.8 + noise(at_s, 6)),
        p99_ms: p50_ms * (4.0 + 3.0 * noise(at_s, 7)),
        max_ms: p50_ms * (9.0 + 30.0 * noise(at_s, 8).powi(3)),
    }
}

fn monitor() -> Samples {
    let columns = [
        "cpu",
        "cpu_user",
        "cpu_system",
        "cpu_iowait",
        "cpu_steal",
        "memory_used_bytes",
        "memory_cached_bytes",
        "disk_used",
        "disk_read_bytes_per_s",
        "disk_written_bytes_per_s",
        "disk_reads_per_s",
        "disk_writes_per_s",
        "disk_busy",
        "disk_latency_ms",
        "network_received_bytes_per_s",
        "network_sent_bytes_per_s",
        "pressure_cpu",
        "pressure_memory",
        "pressure_io",
        "server.cpu",
        "server.memory_bytes",
        "server.read_bytes_per_s",
        "server.written_bytes_per_s",
        "server.threads",
        "server.open_files",
        "metrics.gc_pause_ms",
        "metrics.cache_hit_ratio",
        "metrics.flush_queue",
        "metrics.segments_bytes",
    ];
    let row = |at_s: i64| {
        let (load, noise) = (0.35 + 0.4 * overload(at_s), |salt| noise(at_s, salt));
        let (system, wait) = (0.1 + 0.05 * noise(11), 0.02 + 0.08 * overload(at_s) * noise(12));
        let written = 8e6 * (1.0 + noise(13)) + if at_s % 90 < 6 { 6e7 } else { 0.0 };
        let memory = 1.1e9 + 6e5 * at_s as f64 + 5e6 * noise(14);
        let pause = if noise(15) > 0.97 { 5.0 + 60.0 * noise(16) } else { 0.0 };
        let values = vec![
            load + system + wait,
            load,
            system,
            wait,
            0.0,
            memory + 9e8,
            3.2e9 + 1e6 * at_s as f64,
            0.61,
            2e6 * noise(17),
            written,
            120.0 * noise(18),
            written / 16e3,
            0.1 + 0.7 * overload(at_s) + 0.1 * noise(19),
            0.4 + 3.0 * overload(at_s) + 0.3 * noise(20),
            2e5 + 4e4 * noise(21),
            8.4e6 + 4e5 * noise(22),
            0.03 + 0.4 * overload(at_s),
            0.0,
            0.01 + 0.2 * overload(at_s),
            (load + system) * 4.0,
            memory,
            2e6 * noise(17),
            written,
            24.0 + (8.0 * overload(at_s)).round(),
            310.0 + (40.0 * noise(23)).round(),
            pause,
            0.93 - 0.1 * overload(at_s) + 0.02 * noise(24),
            (20.0 * noise(25) * overload(at_s)).round(),
            2e8 + 3e5 * (at_s % 180) as f64,
        ];
        (at_s as f64 + 0.2, values.into_iter().map(Some).collect())
    };
    let columns = columns.map(str::to_owned).to_vec();
    Samples { name: "candidate on node-1".to_owned(), columns, rows: (-60..600).map(row).collect() }
}

fn times(count: u64, scale: f64) -> Times {
    Times {
        count,
        mean_ms: 9.8 * scale,
        min_ms: 0.31 * scale,
        p50_ms: 5.02 * scale,
        p90_ms: 14.7 * scale,
        p95_ms: 48.3 * scale,
        p99_ms: 402.0 * scale,
        p999_ms: 1_310.0 * scale,
        max_ms: 4_870.0 * scale,
    }
}

fn tally(seconds: &[Second], share: f64) -> Tally {
    let sum = |value: fn(&Second) -> u64| {
        (seconds.iter().filter(|second| second.at_s >= 0).map(value).sum::<u64>() as f64 * share) as u64
    };
    let done = sum(|second| second.done);
    Tally {
        due: sum(|second| second.due),
        sent: sum(|second| second.sent),
        late: 0,
        done,
        conflicts: 0,
        refused: sum(|second| second.refused),
        failed: sum(|second| second.failed + second.timed_out),
        dropped: 0,
        sent_bytes: (6e6 * share) as u64,
        received_bytes: sum(|second| second.received_bytes),
        response: times(done, 1.0),
        service: times(done, 0.97),
        first_byte: times(done, 0.6),
        lateness: times(done, 0.001),
    }
}

fn program(name: &str, version: &str) -> Program {
    Program {
        name: name.to_owned(),
        version: version.to_owned(),
        tag: Some(format!("v{version}")),
        sha256: Some("5f1c0e6f".repeat(8)),
        commit: Some("7dd939412ab8c1d05e6f".to_owned()),
        is_dirty: Some(name == "testbed"),
        repository: None,
    }
}

fn machine(name: &str, role: &str) -> Machine {
    Machine {
        id: None,
        boot_id: None,
        name: name.to_owned(),
        roles: vec![role.to_owned()],
        processor: Some("Example 9000 at 2.4 GHz".to_owned()),
        processors: 4,
        memory_bytes: Some(16_400_000_000),
        disk: Some("nvme0n1, ext4".to_owned()),
        kernel: Some("Linux 6.12.9".to_owned()),
        clock_source: Some("tsc".to_owned()),
        limits: vec![("open files".to_owned(), "1048576".to_owned()), ("memory".to_owned(), "none".to_owned())],
        is_container: None,
        busy_before: Some(0.04),
    }
}

fn record() -> RunRecord {
    let worker = |number| WorkerRecord {
        number,
        address: (number > 0).then(|| "10.0.0.7:7070".to_owned()),
        clock_offset_us: i64::from(number) * -420,
        clock_error_us: 35,
        cpu_s: 131.0,
        load_share: 0.218,
        longest_stall_ms: 0.0,
        memory_at_start_bytes: Some(31_200_000),
        memory_peak_bytes: Some(33_900_000),
        program: program("testbed", "0.1.0"),
        command: Some(["penates", "testbed", "worker", "--listen", "10.0.0.7:7070"].map(str::to_owned).to_vec()),
    };
    let command = ["penates", "serve", "--data", "/srv/penates data", "--listen", "0.0.0.0:8080"];
    RunRecord {
        format: FORMAT,
        id: "2026-01-15T09-30-00Z ten-minutes".to_owned(),
        who: "A. Librarian".to_owned(),
        started_at: Timestamp::from_second(1_768_469_400).unwrap_or_default(),
        ended_at: Timestamp::from_second(1_768_470_003).unwrap_or_default(),
        testbed: program("testbed", "0.1.0"),
        candidate: CandidateRecord {
            program: program("penates", "0.1.0"),
            url: "http://node-1:8080/".to_owned(),
            command: Some(command.map(str::to_owned).to_vec()),
            configuration: Some("[server]\nlisten = \"0.0.0.0:8080\"\n\n[store]\nkind = \"embedded\"\n".to_owned()),
            facts: vec![("nodes".to_owned(), "1".to_owned()), ("copies".to_owned(), "1".to_owned())],
        },
        inputs: ["plan.toml", "scenarios/read.toml", "feeds/ids.csv"]
            .map(|name| Input { name: name.to_owned(), sha256: "e3b0c442".repeat(8), bytes: Some(12_345) })
            .to_vec(),
        seed: 7,
        workers: vec![worker(0), worker(1)],
        machines: vec![machine("node-1", "candidate"), machine("node-2", "coordinator, workers 0 and 1")],
        preparation: "1,000,000 records were loaded; the server was started anew".to_owned(),
        missing: vec!["whether node-1 is a container".to_owned(), "the repository of the candidate".to_owned()],
        beside: testbed::beside::Beside::default(),
    }
}

fn main() {
    let seconds: Vec<_> = (-60..600).map(second).collect();
    let all = tally(&seconds, 1.0);
    let step = |step: &str, share| StepTally {
        scenario: "reader".to_owned(),
        step: step.to_owned(),
        tally: tally(&seconds, share),
    };
    let error = |kind: &str, count, first_at_us| ErrorTally {
        kind: kind.to_owned(),
        step: "reader/fetch".to_owned(),
        count,
        first_at_us,
    };
    let summary = Summary {
        done_per_s: 1.0,
        duration_s: 600.0,
        all: all.clone(),
        punctual: times(all.done, 0.999),
        steps: vec![step("search", 0.3), step("fetch", 0.7)],
        errors: vec![
            error("time-out", 428, 213_000_000),
            error("status 500", all.failed - 428, 216_400_000),
            error("refused", all.refused, 459_000_000),
        ],
        worker_cpu_shares: vec![0.218, 0.221],
    };
    let event = |at_s, what: &str| Marked { at_s, what: what.to_owned() };
    let inputs = Inputs {
        record: &record(),
        judgement: &Judgement {
            verdict: Verdict::Failed,
            reasons: vec![
                format!("{} requests failed, the first at 3:33: time-out.", all.failed),
                format!("{} requests were refused.", all.refused),
            ],
        },
        summary: &summary,
        seconds: &seconds,
        monitors: &[monitor()],
        events: &[event(180.0, "flush"), event(205.0, "compaction of level 2"), event(452.0, "node-3 added")],
        plan_toml: PLAN,
        logs: &[&LogExcerpt {
            at_s: 213.0,
            lines: vec!["WARN 3:32 a pause of 2.1 s".to_owned(), "ERROR 3:33 no answer from node-2".to_owned()],
            source: None,
        }],
        ceiling: Some(Ceiling { run: "2026-01-14T09-30-00Z get".to_owned(), rate: 41_000.0, workers: 2 }),
        files: &[],
    };
    println!("{}", page(&inputs));
}
