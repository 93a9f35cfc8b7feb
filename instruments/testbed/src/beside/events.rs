//! Events of a plan: commands of the candidate that run at stated instants of the load. They add or
//! kill servers and nodes, for example.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::candidate::RunningCandidate;
use crate::plan::{PlanError, check_duration, invalid};
use crate::samples::Marked;

/// The most events of a plan.
const EVENTS_MAX: usize = 1_000;
/// The most bytes of the end of a command's output that are kept.
const OUTPUT_BYTES_MAX: u64 = 4 << 10;

/// An event of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedEvent {
    /// When it begins, since the start instant.
    #[serde(with = "humantime_serde")]
    pub at: Duration,
    /// A command of the candidate's file, or an executable file of its folder.
    pub run: String,
    /// Further words of the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// How long it may take.
    #[serde(default = "a_minute", with = "humantime_serde")]
    pub within: Duration,
}

fn a_minute() -> Duration {
    Duration::from_secs(60)
}

/// What an event of a plan has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventRecord {
    /// When it was due, in seconds since the start instant.
    pub at_s: f64,
    /// The command, with its arguments.
    pub run: Vec<String>,
    /// When it began, in seconds since the start instant; `None`: the load had ended before.
    pub begun_s: Option<f64>,
    /// When it ended; `None`: it was killed because its time was over, or did not begin.
    pub ended_s: Option<f64>,
    /// The exit code; `None` if a signal has ended it.
    pub exit_code: Option<i32>,
    /// The end of what it has printed.
    pub output: String,
    /// Why it has failed.
    pub failure: Option<String>,
}

/// Checks the events of a plan whose users arrive for so long from the start instant on.
pub(crate) fn check(events: &[PlannedEvent], measured: Duration) -> Result<(), PlanError> {
    if events.len() > EVENTS_MAX {
        return Err(invalid("plan: events", format!("at most {EVENTS_MAX}")));
    }
    for (number, event) in events.iter().enumerate() {
        let refuse = |key: &str, message: &str| Err(invalid(format!("plan: events[{number}].{key}"), message));
        // A plan of somebody else runs nothing but what the candidate's folder has.
        if event.run.is_empty() || event.run.starts_with('.') || event.run.contains(['/', '\\']) {
            return refuse("run", "a command of candidate.toml, or an executable file beside it, without a path");
        }
        if event.at >= measured {
            return refuse("at", "before the load ends; it counts from the start instant, after the warm-up");
        }
        check_duration(&format!("plan: events[{number}].within"), event.within, "60s")?;
    }
    Ok(())
}

/// Runs the events at their instants. Those that have not begun when `is_over` becomes true do not
/// begin. `folder` gets what they print.
pub(crate) async fn run(
    events: &[PlannedEvent],
    candidate: &RunningCandidate,
    start: Instant,
    folder: &Path,
    is_over: &watch::Receiver<bool>,
) -> Vec<EventRecord> {
    let all = events.iter().enumerate().map(|(number, event)| {
        let (mut is_over, file) = (is_over.clone(), folder.join(format!("event-{number}.log")));
        async move {
            let mut record = EventRecord {
                at_s: event.at.as_secs_f64(),
                run: [std::slice::from_ref(&event.run), &event.arguments].concat(),
                ..EventRecord::default()
            };
            let is_begun = tokio::select! {
                biased;
                _ = is_over.wait_for(|is_over| *is_over) => false,
                () = sleep_until(start + event.at) => true,
            };
            match is_begun {
                true => one(event, candidate, start, &file, &mut record).await,
                false => record.failure = Some("the load had ended before".to_owned()),
            }
            record
        }
    });
    let mut records = join_all(all).await;
    records.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
    records
}

/// Runs an event now.
async fn one(event: &PlannedEvent, candidate: &RunningCandidate, start: Instant, file: &Path, into: &mut EventRecord) {
    let since = || start.elapsed().as_secs_f64();
    into.begun_s = Some(since());
    let started = match File::create(file) {
        Ok(out) => candidate.start_command(&event.run, &event.arguments, out).await,
        Err(error) => Err(error),
    };
    let mut running = match started {
        Ok(running) => running,
        Err(error) => {
            into.failure = Some(error.to_string());
            return;
        }
    };
    match timeout(event.within, running.process.wait()).await {
        Ok(Ok(status)) => {
            into.ended_s = Some(since());
            into.exit_code = status.code();
            into.failure = (!status.success()).then(|| status.to_string());
        }
        Ok(Err(error)) => into.failure = Some(error.to_string()),
        Err(_) => {
            running.kill();
            into.failure = Some(format!("it has not ended within {}", humantime::format_duration(event.within)));
        }
    }
    // What it has left running ends with the candidate.
    candidate.keep(running);
    into.output = end_of(file).unwrap_or_default();
}

fn end_of(file: &Path) -> std::io::Result<String> {
    let mut file = File::open(file)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(OUTPUT_BYTES_MAX)))?;
    let mut end = Vec::new();
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).trim().to_owned())
}

impl EventRecord {
    /// Its marks in the report: when it began, and when it ended.
    pub fn marks(&self) -> impl Iterator<Item = Marked> {
        let command = self.run.join(" ");
        let begun = self.begun_s.map(|at_s| Marked { at_s, what: command.clone() });
        let ended = self.begun_s.zip(self.ended_s).map(|(begun_s, at_s)| {
            let how = if self.failure.is_some() { "failed" } else { "done" };
            Marked { at_s, what: format!("{command}: {how} after {:.1} s", at_s - begun_s) }
        });
        begun.into_iter().chain(ended)
    }

    /// Why the run says nothing, if the event has failed.
    pub fn void(&self) -> Option<String> {
        let why = self.failure.as_ref()?;
        // Signs that steer a terminal are no words.
        let words = |line: &str| line.chars().filter(|sign| !sign.is_control()).collect::<String>();
        let said = self.output.lines().last().map(words);
        let said = said.map(|said| format!(" (it says: {said})")).unwrap_or_default();
        Some(format!("The event `{}` at {:.0} s failed: {why}{said}.", self.run.join(" "), self.at_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_event_says_its_last_line_without_signs_that_steer_a_terminal() {
        let (run, failure) = (vec!["add".to_owned()], Some("exit status: 1".to_owned()));
        let output = "one\n\u{1b}[31mno\u{0} node".to_owned();
        let event = EventRecord { run, failure, output, ..EventRecord::default() };
        let why = event.void();
        assert_eq!(why.as_deref(), Some("The event `add` at 0 s failed: exit status: 1 (it says: [31mno node)."));
    }
}
