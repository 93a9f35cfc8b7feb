//! Marks of a candidate in the report: flushes, compactions, pauses for the collection of garbage.
//! The candidate's file states how they are found.

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::plan::{PlanError, invalid};
use crate::samples::{Marked, Samples};

/// The most ways of a candidate.
const SPECS_MAX: usize = 100;
/// The most marks of a run.
const MARKS_MAX: usize = 10_000;
/// The most characters of a mark: a log may have anything in it.
const WHAT_CHARS_MAX: usize = 200;

/// What Cassandra 5.0 logs at its usual level, and what a mark says of it.
const OF_CASSANDRA: [(&str, &str); 3] = [
    (r" - (.+?) GC in (\d+)ms", "GC $1: $2 ms"),
    (r"Enqueuing flush of ([^\s,]+), Reason: (\w+)", "flush of $1 ($2)"),
    (r"Compacted \([^)]*\) (\d+) sstables to .* in ([\d,]+)ms\.", "compaction of $1 tables: $2 ms"),
];

/// How marks of one kind are found. It has exactly one of `counter`, `log`, `cassandra` and `jolokia`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MarkSpec {
    /// A counter of `metrics`, with or without labels: each second in which it grows is a mark.
    pub counter: Option<String>,
    /// A regular expression for lines of a log.
    pub log: Option<String>,
    /// The log of a Cassandra node: flushes, compactions and pauses.
    pub cassandra: Option<String>,
    /// The address of Jolokia in a Cassandra node: the same by its MBeans.
    pub jolokia: Option<String>,
    /// What the mark says. `$1` is the first group of `log`.
    pub what: Option<String>,
    /// The file of `log`; the candidate's own log unless set.
    pub file: Option<String>,
}

/// Marks that are bounded while a load runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    all: Vec<Marked>,
    left_out: u64,
}

impl Marks {
    /// Adds a mark, if there is a place.
    pub fn add(&mut self, mark: Marked) {
        match self.all.len() < MARKS_MAX {
            true => self.all.push(mark),
            false => self.left_out += 1,
        }
    }

    /// These, further ones and those of the events of the plan, in the order of their instants.
    /// Events are few, and all of them have a place. Of the others the first ones are kept, and one
    /// more mark says how many are not.
    pub fn with(mut self, further: Vec<Marked>, events: Vec<Marked>) -> Vec<Marked> {
        self.all.extend(further);
        sort(&mut self.all);
        let places = MARKS_MAX.saturating_sub(events.len());
        if self.left_out > 0 || self.all.len() > places {
            let kept = self.all.len().min(places.saturating_sub(1));
            let left_out = self.left_out + (self.all.len() - kept) as u64;
            self.all.truncate(kept);
            let at_s = self.all.last().map_or(0.0, |mark| mark.at_s);
            self.all.push(Marked { at_s, what: format!("{left_out} more marks are not kept") });
        }
        self.all.extend(events);
        sort(&mut self.all);
        self.all
    }
}

fn sort(marks: &mut [Marked]) {
    marks.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
}

/// A pattern for the lines of a log.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    what: Option<String>,
}

/// A log with its patterns.
#[derive(Clone, Debug)]
pub(crate) struct LogMarks {
    /// The file, with places to fill; `None`: the candidate's own log.
    pub file: Option<String>,
    /// What is looked for.
    pub patterns: Vec<Pattern>,
}

impl Pattern {
    fn new(regex: &str, what: Option<&str>) -> Result<Self, String> {
        let regex = Regex::new(regex).map_err(|error| error.to_string())?;
        Ok(Self { regex, what: what.map(str::to_owned) })
    }

    /// What a mark for this line says.
    pub fn find(&self, line: &str) -> Option<String> {
        let found = self.regex.captures(line)?;
        let mut what = String::new();
        match &self.what {
            Some(template) => found.expand(template, &mut what),
            None => what.push_str(found.get(0)?.as_str()),
        }
        Some(what.trim().chars().filter(|char| !char.is_control()).take(WHAT_CHARS_MAX).collect())
    }
}

impl MarkSpec {
    /// The log that it is about, with its patterns.
    pub(crate) fn of_log(&self) -> Result<Option<LogMarks>, String> {
        if let Some(file) = &self.cassandra {
            return Ok(Some(LogMarks { file: Some(file.clone()), patterns: of_cassandra()? }));
        }
        let Some(regex) = &self.log else { return Ok(None) };
        let pattern = Pattern::new(regex, self.what.as_deref())?;
        Ok(Some(LogMarks { file: self.file.clone(), patterns: vec![pattern] }))
    }
}

/// The patterns for the log of a Cassandra node.
pub(crate) fn of_cassandra() -> Result<Vec<Pattern>, String> {
    OF_CASSANDRA.iter().map(|(regex, what)| Pattern::new(regex, Some(what))).collect()
}

/// Checks how a candidate shows marks.
pub(crate) fn check(specs: &[MarkSpec], has_metrics: bool) -> Result<(), PlanError> {
    if specs.len() > SPECS_MAX {
        return Err(invalid("candidate: marks", format!("at most {SPECS_MAX}")));
    }
    for (number, spec) in specs.iter().enumerate() {
        let refuse = |message: &str| Err(invalid(format!("candidate: marks[{number}]"), message));
        let ways = [&spec.counter, &spec.log, &spec.cassandra, &spec.jolokia];
        if ways.iter().filter(|way| way.is_some()).count() != 1 {
            return refuse("exactly one of `counter`, `log`, `cassandra` and `jolokia`");
        }
        if spec.counter.is_some() && !has_metrics {
            return refuse("a `counter` needs `metrics`, the path or the address where the candidate reports it");
        }
        if spec.file.is_some() && spec.log.is_none() {
            return refuse("`file` belongs to `log`");
        }
        if spec.what.is_some() && spec.log.is_none() && spec.counter.is_none() {
            return refuse("`what` belongs to `log` or `counter`");
        }
        if let Err(message) = spec.of_log() {
            return refuse(&message);
        }
    }
    Ok(())
}

/// The marks of the counters of a candidate, by what its monitor has sampled.
pub(crate) fn of_counters(specs: &[MarkSpec], samples: &Samples) -> Vec<Marked> {
    let mut marks = Vec::new();
    for (counter, spec) in specs.iter().filter_map(|spec| Some((spec.counter.as_ref()?, spec))) {
        let (name, labelled) = (format!("metrics.{counter}"), format!("metrics.{counter}{{"));
        let is_of = |column: &String| *column == name || column.starts_with(&labelled);
        let columns: Vec<_> = (0..samples.columns.len()).filter(|at| is_of(&samples.columns[*at])).collect();
        let mut before_s = None;
        for (at_s, values) in &samples.rows {
            // The column is a rate: what was counted is the rate times the time since the row before.
            let seconds = at_s - before_s.replace(at_s).unwrap_or(&(at_s - 1.0));
            let rate: f64 = columns.iter().filter_map(|at| values.get(*at).copied().flatten()).sum();
            let count = (rate * seconds).round();
            if count >= 1.0 {
                let what = spec.what.as_deref().unwrap_or(counter);
                let what = if count > 1.0 { format!("{what} × {count}") } else { what.to_owned() };
                marks.push(Marked { at_s: *at_s, what });
            }
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Lines as a node of Cassandra 5.0.6 writes them.
    const LOG: [&str; 4] = [
        "2026-01-15 09:30:01,204 WARN  [Service Thread] o.a.c.service.GCInspector - G1 Young Generation GC in 1204ms.  \
         G1 Eden Space: 1 -> 0; G1 Old Gen: 2 -> 3;",
        "INFO  [NonPeriodicTasks:1] 2026-01-15 09:30:02,000 ColumnFamilyStore.java:1052 - Enqueuing flush of \
         penates.rows, Reason: COMMITLOG_DIRTY, Usage: 1.234MiB (0%) on-heap, 0.000KiB (0%) off-heap",
        "INFO  [CompactionExecutor:2] 2026-01-15 09:30:03,000 CompactionTask.java:252 - Compacted \
         (d7c3e8a0-f1f3-11f0-9d3b-7f0000000001) 4 sstables to [/data/nb-5-big,] to level=0.  76.500MiB to 76.300MiB \
         (~99% of original) in 18,700ms.  Read Throughput = 4.1MiB/s, Write Throughput = 4.1MiB/s, Row Throughput = \
         ~6,000/s.  112,000 total partitions merged to 112,000.  Partition merge counts were {1:112000, }. Time spent \
         writing keys = 5,000ms",
        "INFO  [main] 2026-01-15 09:30:04,000 CassandraDaemon.java:1 - Startup complete",
    ];

    #[test]
    fn pauses_flushes_and_compactions_of_cassandra_are_found_in_its_log() {
        let spec = MarkSpec { cassandra: Some("system.log".to_owned()), ..MarkSpec::default() };
        let patterns = spec.of_log().unwrap().unwrap().patterns;
        let found = LOG.map(|line| patterns.iter().find_map(|pattern| pattern.find(line)));
        let wanted = [
            Some("GC G1 Young Generation: 1204 ms"),
            Some("flush of penates.rows (COMMITLOG_DIRTY)"),
            Some("compaction of 4 tables: 18,700 ms"),
            None,
        ];
        assert_eq!(found.each_ref().map(Option::as_deref), wanted);
    }

    #[test]
    fn a_counter_that_grows_is_a_mark_with_how_much_it_has_grown() {
        let specs = [MarkSpec {
            counter: Some("flushes_total".to_owned()),
            what: Some("flush".to_owned()),
            ..MarkSpec::default()
        }];
        let columns = [
            "cpu",
            "metrics.flushes_total{table=\"a\"}",
            "metrics.flushes_total{table=\"b\"}",
            "metrics.flushes_total_other",
        ];
        let row = |at_s, a, b| (at_s, vec![Some(1.0), Some(a), Some(b), Some(9.0)]);
        let samples = Samples {
            name: "candidate".to_owned(),
            columns: columns.map(str::to_owned).to_vec(),
            rows: vec![row(0.0, 0.0, 0.0), row(1.0, 1.0, 0.0), row(3.0, 1.0, 0.5), row(4.0, 0.0, 0.0)],
        };
        let mark = |at_s, what: &str| Marked { at_s, what: what.to_owned() };
        assert_eq!(of_counters(&specs, &samples), [mark(1.0, "flush"), mark(3.0, "flush × 3")]);
    }

    #[test]
    fn a_run_has_so_many_marks_at_most_whatever_they_come_from_and_all_of_its_events() {
        let mark = |at_s: usize| Marked { at_s: at_s as f64, what: "flush".to_owned() };
        let event = Marked { at_s: 50_000.5, what: "add-node".to_owned() };
        let mut seen = Marks::default();
        (0..MARKS_MAX + 5).for_each(|at_s| seen.add(mark(2 * at_s)));
        // A counter grows each second of a day.
        let all = seen.with((0..86_400).map(mark).collect(), vec![event.clone()]);
        assert_eq!((all.len(), all.last()), (MARKS_MAX, Some(&event)));
        // The first ones are kept. Both have one in each even second.
        assert_eq!(all[..4], [mark(0), mark(0), mark(1), mark(2)]);
        let left_out = 86_400 + MARKS_MAX + 5 - (MARKS_MAX - 2);
        assert_eq!(all[MARKS_MAX - 2].what, format!("{left_out} more marks are not kept"));
        let few = Marks::default().with(vec![mark(3), mark(1)], vec![event.clone()]);
        assert_eq!(few, [mark(1), mark(3), event]);
    }

    #[test]
    fn a_mark_has_one_way_to_be_found_and_the_error_names_it() {
        let check = |spec: MarkSpec| super::check(&[spec], false).unwrap_err().to_string();
        let some = |text: &str| Some(text.to_owned());
        assert!(check(MarkSpec::default()).starts_with("candidate: marks[0]: exactly one of"));
        assert!(check(MarkSpec { counter: some("x"), ..MarkSpec::default() }).contains("needs `metrics`"));
        assert!(check(MarkSpec { log: some("("), ..MarkSpec::default() }).contains("unclosed group"));
        assert!(check(MarkSpec { cassandra: some("x"), file: some("y"), ..MarkSpec::default() }).contains("`file`"));
    }

    #[test]
    fn what_a_hostile_log_says_is_short_and_has_no_control_characters() {
        let pattern = Pattern::new("x(.*)", Some("$1")).unwrap();
        let found = pattern.find(&format!("x\u{1b}[31m{}", "a".repeat(1_000_000))).unwrap();
        assert_eq!((found.chars().count(), &found[..5]), (200, "[31ma"));
    }
}
