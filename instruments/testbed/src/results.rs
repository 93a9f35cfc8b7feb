//! What a run measured, as its files say it.

use serde::{Deserialize, Serialize};

/// The results of a whole run: `summary.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// How long users arrive from the start instant on, in seconds. The warm-up is before it.
    pub duration_s: f64,
    /// Requests that were done per second while users arrived. What was done later does not count:
    /// a server that is offered too much would seem to do it all.
    pub done_per_s: f64,
    /// All requests.
    pub all: Tally,
    /// Response times of all requests that were done, without the lateness of the generator: from the
    /// instant when it took a request up.
    pub punctual: Times,
    /// The requests of each step, in the order of the scenarios and their steps.
    pub steps: Vec<StepTally>,
    /// What went wrong, by kind, in the order of the first occurrence. After a hundred kinds all
    /// further ones are `other kinds`, unless they are the generator's.
    pub errors: Vec<ErrorTally>,
    /// The share of a processor that the thread of each worker's load used until the last user had arrived
    /// (1 is one whole processor).
    pub worker_cpu_shares: Vec<f64>,
    /// What the candidate took; `None` where no process of it was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
}

/// What the watched processes of a candidate took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Seconds of processor time while users arrived.
    pub cpu_s: f64,
    /// The most resident memory during the load.
    pub memory_peak_bytes: f64,
}

impl Summary {
    /// Bytes of bodies received per second while users arrived.
    pub fn received_bytes_per_s(&self) -> f64 {
        self.done_per_s * self.all.received_bytes as f64 / self.all.done.max(1) as f64
    }

    /// Milliseconds of the candidate's processor time for a request that was done, and for a gigabyte of bodies
    /// received.
    pub fn cpu_ms(&self) -> Option<(f64, f64)> {
        let cpu_ms_per_s = self.costs?.cpu_s * 1e3 / self.duration_s;
        Some((cpu_ms_per_s / self.done_per_s, cpu_ms_per_s / (self.received_bytes_per_s() / 1e9)))
    }
}

/// The requests of one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepTally {
    /// The scenario's name.
    pub scenario: String,
    /// The step's name.
    pub step: String,
    /// Its requests.
    pub tally: Tally,
}

/// Counts and times of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that were sent more than 100 ms after they were due.
    pub late: u64,
    /// Requests that were answered as the checks of their steps want it.
    pub done: u64,
    /// Those of them that met a conflict with another user, which their steps allow; 0 in results of older
    /// programs, whose steps allowed none.
    pub conflicts: u64,
    /// Requests that were refused with 503.
    pub refused: u64,
    /// Requests that failed in any other way.
    pub failed: u64,
    /// Requests that were due and never sent.
    pub dropped: u64,
    /// Bytes of bodies sent.
    pub sent_bytes: u64,
    /// Bytes of bodies received.
    pub received_bytes: u64,
    /// From the instant when a request was due to the end of its response; requests that were done.
    pub response: Times,
    /// From sending to the end of the response; requests that were done.
    pub service: Times,
    /// From sending to the first byte of the response; requests that were done.
    pub first_byte: Times,
    /// From the instant when a request was due until the generator took it up; all requests.
    pub lateness: Times,
}

/// Times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// The mean.
    pub mean_ms: f64,
    /// The least.
    pub min_ms: f64,
    /// The median.
    pub p50_ms: f64,
    /// 90 % are at most this.
    pub p90_ms: f64,
    /// 95 % are at most this.
    pub p95_ms: f64,
    /// 99 % are at most this.
    pub p99_ms: f64,
    /// 99.9 % are at most this.
    pub p999_ms: f64,
    /// The greatest.
    pub max_ms: f64,
}

/// Errors of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorTally {
    /// The kind: `status 404`, `error ERR`, `time-out`, `refused`, `reset`, `check: …`, `dropped` and so on.
    pub kind: String,
    /// The step where it happened first, as `scenario/step`.
    pub step: String,
    /// How many.
    pub count: u64,
    /// When the first of them was due, in microseconds since the start instant.
    pub first_at_us: u64,
}

/// One second of a run: a line of `seconds.csv`. Requests are counted in the second in which they
/// were due, sent or done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the start instant; negative during the warm-up.
    pub at_s: i64,
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that were done.
    pub done: u64,
    /// Requests that were refused with 503.
    pub refused: u64,
    /// Requests that failed, without time-outs.
    pub failed: u64,
    /// Requests whose time was out.
    pub timed_out: u64,
    /// Requests that ended in this second without success, or later than the plan's objective of a
    /// late share allows. 0 if the plan has none.
    #[serde(default)]
    pub too_late: u64,
    /// Users that were active at the end of the second.
    pub users: u64,
    /// Bytes of bodies received.
    pub received_bytes: u64,
    /// The median response time in milliseconds of what was done in this second.
    pub p50_ms: f64,
    /// 90 % were at most this.
    pub p90_ms: f64,
    /// 99 % were at most this.
    pub p99_ms: f64,
    /// The greatest.
    pub max_ms: f64,
}

impl Second {
    /// The share of the requests that ended in this second which were too late; `None` if none
    /// ended.
    pub fn late_share(&self) -> Option<f64> {
        let ended = self.done + self.refused + self.failed + self.timed_out;
        (ended > 0).then(|| self.too_late as f64 / ended as f64)
    }
}

/// What a run shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// In one word.
    pub verdict: Verdict,
    /// The reasons, one sentence each; none if it held.
    pub reasons: Vec<String>,
}

/// In one word: does the candidate hold this load?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No error, everything was sent in time, and durations do not grow.
    Held,
    /// No error, but durations or the backlog grow.
    Degrading,
    /// An error, a time-out, a missed objective, or a step most of whose requests met a conflict.
    Failed,
    /// The run says nothing about the candidate: the generator was late, for example.
    Void,
}
