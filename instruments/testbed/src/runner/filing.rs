//! Counts, judges and files a run.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::watching::Sampled;
use super::work::Work;
use super::{Filed, Runner, RunnerError};
use crate::archive::{ArchiveError, Outcome, RunWriter, marks_csv, seconds_csv, write_file};
use crate::beside::marks::{self, Marks};
use crate::beside::{EventRecord, FillRecord, Log};
use crate::coordinator::Collected;
use crate::export;
use crate::export::late::LateChart;
use crate::record::RunRecord;
use crate::report;
use crate::results::{Costs, Verdict};
use crate::saturation::{self, Saturation};
use crate::scenario::Scenario;
use crate::tally::{self, Window};
use crate::verdict::judge;

/// So many bytes of the end of the candidate's log are kept.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// What monitors have seen.
pub(super) struct Monitored {
    /// By the monitor on this machine, unless it was lost.
    pub sampled: Option<Sampled>,
    /// By the monitors on other machines.
    pub elsewhere: Vec<Sampled>,
    pub marks: Marks,
    /// The logs of the candidate on this machine. What its processes print is the first.
    pub logs: Vec<Log>,
}

impl Runner<'_> {
    /// What was made before the load.
    pub(super) fn count_fill(&self, collected: &Collected, work: &Work) -> Result<Option<FillRecord>, RunnerError> {
        let (Some(filled), Some(scenario)) = (&collected.fill, &work.fill) else { return Ok(None) };
        let window = Window {
            started_at: filled.begun_at,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs_f64(filled.seconds.max(1e-6)),
            late_from: None,
        };
        let names = vec![scenario.names()];
        let measured = tally::count(&filled.events, &names, window, &[], &mut std::io::sink())?;
        let (scenario, units, seconds) = (scenario.name.clone(), filled.units, filled.seconds);
        let wanted = self.inputs.plan.fill.as_ref().map(|fill| fill.units).unwrap_or_default();
        Ok(Some(FillRecord { scenario, units, wanted, seconds, summary: measured.summary }))
    }

    /// Counts, judges and files.
    pub(super) fn file(
        &self,
        mut run: RunWriter,
        work: &Work,
        record: RunRecord,
        collected: &Collected,
        Monitored { sampled, elsewhere, marks, logs }: Monitored,
        void: Vec<String>,
    ) -> Result<Filed, RunnerError> {
        let plan = &self.inputs.plan;
        let of_counters = match (&sampled, &work.running) {
            (Some(sampled), Some(running)) => marks::of_counters(running.marks(), &sampled.samples),
            _ => Vec::new(),
        };
        let of_events = record.beside.events.iter().flat_map(EventRecord::marks).collect();
        let marks = marks.with(of_counters, of_events);
        let names = work.scenarios.iter().map(Scenario::names).collect();
        let window = Window::of(plan, record.started_at, collected.replay.as_ref());
        // What a lost worker has left is no file that could be read.
        let events: &[PathBuf] = if collected.lost.is_none() { &collected.events } else { &[] };
        let latencies = work.folder.path().join("latencies.hlog");
        let failed = |error| ArchiveError::Io { path: latencies.clone(), error };
        let mut log = BufWriter::new(File::create(&latencies).map_err(failed)?);
        let mut measured = tally::count(events, &names, window, &collected.users, &mut log)?;
        log.flush().map_err(failed)?;
        let times = export::times::log(record.started_at, &measured)?;
        measured.summary.worker_cpu_shares = collected.workers.iter().map(|worker| worker.load_share).collect();
        let watched = elsewhere.iter().chain(sampled.as_ref().filter(|_| self.is_candidate_here()));
        let duration_s = measured.summary.duration_s;
        let costs = watched.filter_map(|sampled| sampled.samples.costs(duration_s));
        measured.summary.costs = costs.reduce(|one, other| Costs {
            cpu_s: one.cpu_s + other.cpu_s,
            memory_peak_bytes: one.memory_peak_bytes + other.memory_peak_bytes,
        });
        let mut judgement = judge(plan, &measured, void);
        let (saturated, reasons) = self.saturated(judgement.verdict, sampled.as_ref(), &elsewhere);
        judgement.reasons.extend(reasons);
        let first_error_us = measured.first_error_us.filter(|_| judgement.verdict != Verdict::Held);
        let first_error_s = first_error_us.map(|at_us| at_us as f64 / 1e6);
        let mut excerpts = logs.iter().map(|log| log.around(first_error_s?));
        let log = excerpts.next().flatten();
        let further = excerpts.flatten().filter(|excerpt| !excerpt.lines.is_empty());
        let logs_around = |at_s| elsewhere.iter().flat_map(move |sampled| sampled.logs_around(at_s));
        let logs_elsewhere = further.chain(first_error_s.into_iter().flat_map(logs_around)).collect();
        let outcome = Outcome { judgement, summary: measured.summary, saturated, log, logs_elsewhere };

        run.add("plan.toml", plan.to_toml().as_bytes())?;
        for (name, text) in &self.inputs.scenarios {
            let name = name.strip_suffix(".toml").unwrap_or(name).replace('/', "-");
            run.add(&format!("scenarios/{name}.toml"), text.as_bytes())?;
        }
        if let Some((name, text)) = &self.inputs.fill {
            let name = name.strip_suffix(".toml").unwrap_or(name).replace('/', "-");
            run.add(&format!("fill/{name}.toml"), text.as_bytes())?;
        }
        run.add_json("record.json", &record)?;
        run.add_json("summary.json", &outcome)?;
        run.add("seconds.csv", &seconds_csv(&measured.seconds))?;
        run.add_copy("latencies.hlog", &latencies)?;
        run.add("times.hlog", &times)?;
        for (worker, path) in collected.fill.iter().flat_map(|fill| &fill.events).enumerate() {
            run.add_copy(&format!("fill/worker-{worker:03}.csv.gz"), path)?;
        }
        for (worker, path) in events.iter().enumerate() {
            run.add_copy(&format!("events/worker-{worker:03}.csv.gz"), path)?;
        }
        for sampled in sampled.iter().chain(&elsewhere) {
            run.add_copy(&format!("monitor/{}.csv", sampled.name), &sampled.csv)?;
        }
        if !marks.is_empty() {
            run.add("marks.csv", &marks_csv(&marks))?;
        }
        if let Some(running) = &work.running {
            run.add_copy("candidate.log", &end_of(running.log(), work.folder.path())?)?;
        }
        run.add_json("k6-summary.json", &export::k6::summary(&outcome.summary))?;
        run.add("junit.xml", &export::junit::report(&record, &outcome.judgement, &outcome.summary)?)?;
        run.add("requests.svg", export::svg::requests(&record.id, &measured.seconds)?.as_bytes())?;
        run.add("durations.svg", export::svg::durations(&record.id, &measured.seconds)?.as_bytes())?;
        if let Some(late_from) = plan.late_from() {
            let reads = sampled.as_ref().map(|sampled| sampled.samples.disk_reads_per_s()).unwrap_or_default();
            let chart = LateChart { late_from, seconds: &measured.seconds, reads: &reads, marks: &marks };
            run.add("late.svg", chart.draw(&record.id)?.as_bytes())?;
        }
        let page = report::page(&report::Inputs {
            record: &record,
            judgement: &outcome.judgement,
            summary: &outcome.summary,
            seconds: &measured.seconds,
            monitors: &sampled.into_iter().chain(elsewhere).map(|sampled| sampled.samples).collect::<Vec<_>>(),
            events: &marks,
            plan_toml: &plan.to_toml(),
            logs: &outcome.logs().collect::<Vec<_>>(),
            ceiling: report::Ceiling::find(self.archive, &record),
            files: &run.files().collect::<Vec<_>>(),
        });
        run.add("report.html", page.as_bytes())?;
        let folder = run.finish(&record)?;
        Ok(Filed { folder, record, outcome })
    }

    /// What was saturated in a run that did not hold, and the reasons that say so.
    fn saturated(
        &self,
        verdict: Verdict,
        sampled: Option<&Sampled>,
        elsewhere: &[Sampled],
    ) -> (Vec<Saturation>, Vec<String>) {
        if verdict == Verdict::Held {
            return (Vec::new(), Vec::new());
        }
        // What the machine of the coordinator does says nothing of a candidate elsewhere.
        let watched = sampled.filter(|_| self.is_candidate_here()).into_iter().chain(elsewhere);
        let watched: Vec<_> = watched.map(|sampled| (&sampled.samples, &sampled.machine)).collect();
        let found = saturation::find(&watched, !elsewhere.is_empty());
        let mut reasons = saturation::sentences(&found);
        if found.is_empty() && verdict != Verdict::Void {
            let why = match watched.is_empty() {
                false => "Nothing was found saturated: no processors, no memory and no disk.",
                true => {
                    "It is not known what was saturated: the candidate is watched neither on this machine nor by a \
                     monitor on another one."
                }
            };
            reasons.push(why.to_owned());
        }
        (found, reasons)
    }
}

/// The end of a log, as a file.
fn end_of(log: &Path, folder: &Path) -> Result<PathBuf, ArchiveError> {
    write_file(folder, "candidate-end.log", |out| {
        let mut file = File::open(log)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(LOG_BYTES_MAX)))?;
        std::io::copy(&mut file.take(LOG_BYTES_MAX), out).map(drop)
    })
}
