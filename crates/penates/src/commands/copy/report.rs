//! How far a copy that follows its source is behind it: lines, JSON, and a file of metrics.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::json;
use store::copying::{Followed, Progress};
use store::{Clock, SystemClock, UnixMillis};

use super::CopyArgs;
use crate::exit::full_message;
use crate::output::{Output, human_bytes};

/// What the follower is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    FirstPass,
    Following,
    Unreachable,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::FirstPass => "first pass",
            Self::Following => "following",
            Self::Unreachable => "unreachable",
        }
    }
}

/// Reports now and then, and whenever the state changes.
pub(super) struct Report {
    is_json: bool,
    metrics: Option<PathBuf>,
    every: Duration,
    printed: Option<(State, Instant)>,
    progress: Option<Arc<Progress>>,
    /// What earlier connections had copied.
    before: (u64, u64),
    /// The time until which all changes are copied, the lag at some moment, and that moment.
    up_to: Option<(UnixMillis, Duration, Instant)>,
    damaged: u64,
    followed: Option<Followed>,
}

impl Report {
    pub(super) fn new(args: &CopyArgs) -> Self {
        Self {
            is_json: args.output.json,
            metrics: args.metrics.clone(),
            every: args.report_every,
            printed: None,
            progress: None,
            before: (0, 0),
            up_to: None,
            damaged: 0,
            followed: None,
        }
    }

    /// A connection to the source begins.
    pub(super) fn begin(&mut self, progress: Arc<Progress>) {
        self.before = self.copied();
        self.progress = Some(progress);
    }

    /// At a moment the target had all changes until a time, and that was so long ago.
    pub(super) fn is_up_to(&mut self, until: UnixMillis, lag: Duration, at: Instant) {
        self.up_to = Some((until, lag, at));
    }

    /// An object is damaged in the source, and stays in the target as it was.
    pub(super) fn damaged(&mut self, object: &Bytes, why: &str) {
        self.damaged += 1;
        note!("not copied, because it is damaged in the source: {}: {why}", object.escape_ascii());
    }

    /// The source failed, and will be tried again.
    pub(super) fn failed(&mut self, error: &anyhow::Error) -> anyhow::Result<()> {
        note!("{}; trying again", full_message(error.as_ref()));
        self.report_as(State::Unreachable)
    }

    /// The copy is at a place.
    pub(super) fn report(&mut self, followed: &Followed) -> anyhow::Result<()> {
        self.followed = Some(followed.clone());
        self.report_as(if followed.whole.is_some() { State::Following } else { State::FirstPass })
    }

    fn report_as(&mut self, state: State) -> anyhow::Result<()> {
        if self.printed.is_some_and(|(printed, at)| printed == state && at.elapsed() < self.every) {
            return Ok(());
        }
        self.printed = Some((state, Instant::now()));
        if let Some(metrics) = &self.metrics {
            write_whole(metrics, &self.metrics_text(state))?;
        }
        let (changed, bytes) = self.copied();
        let until = self.until().map(rfc_3339);
        let mut output = Output::stdout();
        if self.is_json {
            output.json(&json!({
                "state": state.name(),
                "until": until,
                "lag_seconds": self.lag().map(|lag| lag.as_secs_f64()),
                "cursor": self.followed.as_ref().map(|followed| &followed.cursor),
                "whole_pass": self.followed.as_ref().and_then(|followed| followed.whole).map(rfc_3339),
                "changed": changed,
                "bytes": bytes,
                "damaged": self.damaged,
            }))?;
        } else {
            let behind = match (until, self.lag()) {
                (Some(until), Some(lag)) => format!("up to date until {until}, {} behind", rounded(lag)),
                _ => "not complete yet".to_owned(),
            };
            let state = state.name();
            output.line(format!("{state}: {behind}; {changed} parts copied, {}", human_bytes(bytes)))?;
        }
        output.finish()
    }

    fn copied(&self) -> (u64, u64) {
        let of = |progress: &Arc<Progress>| {
            (progress.changed.load(Ordering::Relaxed), progress.bytes.load(Ordering::Relaxed))
        };
        let (changed, bytes) = self.progress.as_ref().map_or((0, 0), of);
        (self.before.0 + changed, self.before.1 + bytes)
    }

    fn until(&self) -> Option<UnixMillis> {
        self.up_to.map(|(until, ..)| until).or_else(|| self.followed.as_ref()?.until)
    }

    /// How long ago the source was as the copy is now. It is measured by the source's clock as far
    /// as this process has reached the source.
    fn lag(&self) -> Option<Duration> {
        let since_then = |(_, lag, at): (UnixMillis, Duration, Instant)| lag + at.elapsed();
        self.up_to.map(since_then).or_else(|| Some(SystemClock.now().since(self.until()?)))
    }

    fn metrics_text(&self, state: State) -> String {
        let (changed, bytes) = self.copied();
        let seconds = |time: Option<UnixMillis>| time.map_or(0.0, |time| time.0 as f64 / 1_000.0);
        let lag = self.lag().map_or(f64::INFINITY, |lag| lag.as_secs_f64());
        let lag = if lag.is_finite() { lag.to_string() } else { "+Inf".to_owned() };
        let metrics = [
            ("penates_copy_lag_seconds", "gauge", "How long ago the source was as the copy is now", lag),
            (
                "penates_copy_until_timestamp_seconds",
                "gauge",
                "Until when the copy has all changes, in seconds since 1970",
                seconds(self.until()).to_string(),
            ),
            (
                "penates_copy_whole_pass_timestamp_seconds",
                "gauge",
                "When the last pass over everything that has ended began, in seconds since 1970",
                seconds(self.followed.as_ref().and_then(|followed| followed.whole)).to_string(),
            ),
            (
                "penates_copy_reachable",
                "gauge",
                "1 while the source can be reached",
                u8::from(state != State::Unreachable).to_string(),
            ),
            (
                "penates_copy_changed_total",
                "counter",
                "Parts that were copied: partitions of rows, and contents",
                changed.to_string(),
            ),
            ("penates_copy_bytes_total", "counter", "Bytes that were copied", bytes.to_string()),
            (
                "penates_copy_damaged_total",
                "counter",
                "Objects that are damaged in the source",
                self.damaged.to_string(),
            ),
        ];
        let family = |(name, kind, help, value): (&str, &str, &str, String)| {
            format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n")
        };
        metrics.map(family).concat()
    }
}

fn rfc_3339(time: UnixMillis) -> String {
    let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX).to_string()
}

fn rounded(lag: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(lag.as_secs()))
}

/// Replaces a file as one, so that no reader gets a part of it.
fn write_whole(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    written.with_context(|| format!("writing {}", path.display()))
}
