//! What happens beside the load of a run, for its record and its report.
//!
//! - `fill.rs`: what is made before it.
//! - `events.rs`: commands of the candidate at stated instants.
//! - `marks.rs`: which flushes, compactions and collections of garbage a candidate shows, and how;
//!   `follow.rs` finds them in logs, `jolokia.rs` in MBeans, and `watch.rs` does both while a load runs.
//! - `log.rs`: what the candidate prints around the first error; `tail.rs` keeps logs of other machines for
//!   that. `growing.rs` reads what was added to a file.

pub mod events;
pub mod fill;
mod follow;
mod growing;
pub mod jolokia;
mod log;
pub mod marks;
mod tail;
mod watch;

use serde::{Deserialize, Serialize};

use crate::link::Link;
use crate::record::{MonitorRecord, ProcessRecord};
use crate::replay::ReplayRecord;

pub use events::{EventRecord, PlannedEvent};
pub use fill::{Fill, FillRecord};
pub use follow::Follower;
pub use log::LogExcerpt;
pub(crate) use log::{Lengths, Log, note_lengths};
pub use marks::MarkSpec;
pub(crate) use tail::{Kept, LOG_BYTES_MAX, Tail, keep};
pub use tail::{LOGS_MAX, check_log};
pub(crate) use watch::watch;

/// What was done beside the load, for the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Beside {
    /// The events of the plan, in the order in which they were due.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventRecord>,
    /// What was made before the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<FillRecord>,
    /// What was replayed of an access log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayRecord>,
    /// The monitors on other machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub monitors: Vec<MonitorRecord>,
    /// What the monitor on the coordinator's machine could not sample, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_sampled: Vec<String>,
    /// The link between each worker and the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Processors that others used on the coordinator's machine during the load, on average; `None` if the
    /// candidate may be among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_during: Option<f64>,
}

impl Beside {
    /// What it says, for people: names and facts.
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        if let Some(FillRecord { scenario, units, seconds, summary, .. }) = &self.fill {
            let rate = *units as f64 / seconds.max(1e-3);
            let failed = summary.all.failed + summary.all.refused;
            let fact = format!("{units} units of {scenario} in {seconds:.1} s ({rate:.0}/s), {failed} requests failed");
            facts.push(("fill".to_owned(), fact));
        }
        if let Some(replay) = &self.replay {
            let wrong = replay.first_unreadable.as_ref().map(|first| format!(" ({first})")).unwrap_or_default();
            let cut = if replay.is_cut { "; the log goes on" } else { "" };
            let fact = format!(
                "{} requests of {} lines; {} lines unreadable{wrong}, {} with other methods, {} out of order{cut}",
                replay.requests, replay.lines, replay.unreadable, replay.other_methods, replay.out_of_order
            );
            facts.push(("access log".to_owned(), fact));
        }
        facts.extend(self.link.map(|link| ("link".to_owned(), link.to_string())));
        facts.extend(self.busy_during.map(|busy| ("processors that others used".to_owned(), format!("{busy:.2}"))));
        facts.extend(self.monitors.iter().map(|monitor| {
            let (offset_ms, error_ms) = (monitor.clock_offset_us as f64 / 1e3, monitor.clock_error_us as f64 / 1e3);
            let others = monitor.busy_during.map(|busy| format!("; others used {busy:.2} processors"));
            let (machine, others) = (&monitor.machine, others.unwrap_or_default());
            let fact = format!("{machine}; its clock is ahead by {offset_ms:.3} ms, ± {error_ms:.3} ms{others}");
            (format!("monitor {}", monitor.address), fact)
        }));
        facts.extend(self.monitors.iter().flat_map(|monitor| {
            let name = format!("process watched by monitor {}", monitor.address);
            monitor.processes.iter().map(move |process| (name.clone(), shown(process)))
        }));
        facts.extend(self.not_sampled.iter().map(|what| ("not sampled".to_owned(), what.clone())));
        facts.extend(self.monitors.iter().flat_map(|monitor| {
            let name = format!("not sampled by monitor {}", monitor.address);
            monitor.not_sampled.iter().map(move |what| (name.clone(), what.clone()))
        }));
        facts.extend(self.events.iter().map(|event| {
            let fact = match (&event.failure, event.begun_s.zip(event.ended_s)) {
                (Some(failure), _) => format!("failed: {failure}"),
                (None, Some((begun_s, ended_s))) => format!("from {begun_s:.1} s to {ended_s:.1} s"),
                (None, None) => String::new(),
            };
            (format!("event `{}`", event.run.join(" ")), fact)
        }));
        facts
    }
}

/// A process of the candidate, for people.
fn shown(process: &ProcessRecord) -> String {
    let ProcessRecord { pid, name, sha256, command } = process;
    let name = if name.is_empty() { "not known" } else { name.as_str() };
    let sha256 = sha256.as_deref().unwrap_or("not known");
    let command = command.as_ref().map_or("not known".to_owned(), |words| words.join(" "));
    format!("{pid}; program: {name}; SHA-256: {sha256}; command line: {command}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_that_monitors_watch_are_facts() {
        let process = ProcessRecord {
            pid: 7,
            name: "penates".to_owned(),
            sha256: Some("ab12".to_owned()),
            command: Some(["penates", "serve"].map(str::to_owned).to_vec()),
        };
        let processes = vec![process, ProcessRecord { pid: 8, ..ProcessRecord::default() }];
        let monitor = MonitorRecord { address: "node-2:1".to_owned(), processes, ..MonitorRecord::default() };
        let facts = Beside { monitors: vec![monitor], ..Beside::default() }.facts();
        let of_processes = facts.iter().filter(|(name, _)| name == "process watched by monitor node-2:1");
        let of_processes: Vec<_> = of_processes.map(|(_, fact)| fact.as_str()).collect();
        let gone = "8; program: not known; SHA-256: not known; command line: not known";
        assert_eq!(of_processes, ["7; program: penates; SHA-256: ab12; command line: penates serve", gone]);
    }
}
