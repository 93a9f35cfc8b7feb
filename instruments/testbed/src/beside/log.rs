//! What a candidate prints around the first error of a run. While the load runs, only the length of its
//! log is noted. `tail.rs` does so with logs of other machines.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// From note to note.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most lines that are kept, half of them before the instant.
const LINES_MAX: usize = 20;
/// The most characters of a line.
const CHARS_MAX: usize = 500;
/// The most bytes that are looked at on each side of the instant.
const BYTES_MAX: u64 = 64 << 10;

/// What the candidate printed around the first error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogExcerpt {
    /// When the first request ended that was not done, in seconds since the start instant.
    pub at_s: f64,
    /// Lines of its log from before and after that instant, as far as a second says it. At most 20.
    pub lines: Vec<String>,
    /// The file of a further log of the candidate, with its machine if a monitor on another one follows it;
    /// `None`: the candidate printed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// How long a log was, when it had grown: seconds since the start instant, bytes.
pub(crate) type Lengths = Vec<(f64, u64)>;

/// A log of a candidate on this machine.
pub(crate) struct Log {
    /// That of [`LogExcerpt`].
    pub source: Option<String>,
    pub path: PathBuf,
    pub lengths: Lengths,
}

impl Log {
    /// What it says around an instant; `None`: it is not there, or cannot be read.
    pub fn around(&self, at_s: f64) -> Option<LogExcerpt> {
        let excerpt = LogExcerpt::around(&File::open(&self.path).ok()?, &self.lengths, at_s).ok()?;
        Some(LogExcerpt { source: self.source.clone(), ..excerpt })
    }
}

/// Notes once a second how long logs are, until `is_over` becomes true.
pub(crate) async fn note_lengths(
    logs: impl Iterator<Item = Log>,
    start: Instant,
    is_over: &watch::Receiver<bool>,
) -> Vec<Log> {
    let noted = logs.map(|log| async {
        let lengths = lengths(&log.path, start, is_over.clone()).await;
        Log { lengths, ..log }
    });
    join_all(noted).await
}

async fn lengths(log: &Path, start: Instant, mut is_over: watch::Receiver<bool>) -> Lengths {
    let mut lengths = Lengths::new();
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let is_last = tokio::select! {
            biased;
            _ = is_over.wait_for(|is_over| *is_over) => true,
            _ = ticks.tick() => false,
        };
        let at_s = seconds_since(start);
        let bytes = log.metadata().map_or(0, |file| file.len());
        if lengths.last().is_none_or(|(_, known)| *known != bytes) {
            lengths.push((at_s, bytes));
        }
        if is_last {
            return lengths;
        }
    }
}

/// The time from an instant until now, in seconds; negative before it.
pub(super) fn seconds_since(start: Instant) -> f64 {
    let now = Instant::now();
    now.saturating_duration_since(start).as_secs_f64() - start.saturating_duration_since(now).as_secs_f64()
}

impl LogExcerpt {
    /// The lines around an instant of a log whose lengths were noted.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(crate) fn around(mut file: &File, lengths: &[(f64, u64)], at_s: f64) -> io::Result<Self> {
        let at = length_at(lengths, at_s).min(file.metadata()?.len());
        let from = at.saturating_sub(BYTES_MAX);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(2 * BYTES_MAX).read_to_end(&mut bytes)?;
        let before = &bytes[..bytes.len().min((at - from) as usize)];
        // The line that was printed at the instant belongs to what follows.
        let split = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut before = lines(&bytes[..split]);
        let mut lines_kept = before.split_off(before.len().saturating_sub(LINES_MAX / 2));
        let left = LINES_MAX - lines_kept.len();
        lines_kept.extend(lines(&bytes[split..]).into_iter().take(left));
        Ok(Self { at_s, lines: lines_kept, source: None })
    }
}

/// How long a log was at an instant, as if it had grown evenly since the note before.
fn length_at(lengths: &[(f64, u64)], at_s: f64) -> u64 {
    let next = lengths.partition_point(|(noted_s, _)| *noted_s < at_s);
    let before = next.checked_sub(1).map_or(0, |last| lengths[last].1);
    let Some((noted_s, after)) = lengths.get(next) else { return before };
    let interval_s = INTERVAL.as_secs_f64();
    let share = ((at_s - (noted_s - interval_s)) / interval_s).clamp(0.0, 1.0);
    // Whatever a monitor says.
    before.saturating_add((after.saturating_sub(before) as f64 * share) as u64)
}

/// Lines that are not empty, short and without control characters.
fn lines(bytes: &[u8]) -> Vec<String> {
    let line = |bytes: &[u8]| -> String {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end().replace('\t', "    ");
        text.chars().filter(|char| !char.is_control()).take(CHARS_MAX).collect()
    };
    bytes.split(|byte| *byte == b'\n').map(line).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A log of numbered lines of ten bytes.
    fn log(folder: &Path, lines: u32) -> std::path::PathBuf {
        let path = folder.join("candidate.log");
        std::fs::write(&path, (0..lines).map(|line| format!("line {line:04}\n")).collect::<String>()).unwrap();
        path
    }

    #[test]
    fn the_lines_around_an_instant_are_found_by_the_lengths_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), 1_000);
        // A hundred lines a second from the third second on, after a long silence.
        let lengths = [(-1.0, 1_000), (3.0, 2_000), (4.0, 3_000), (5.0, 10_000)];
        let log = File::open(log).unwrap();
        let around = |at_s: f64| LogExcerpt::around(&log, &lengths, at_s).unwrap().lines;
        let of = |lines: std::ops::Range<u32>| lines.map(|line| format!("line {line:04}")).collect::<Vec<_>>();
        assert_eq!(around(3.5), of(240..260));
        assert_eq!(around(1.5), of(90..110), "nothing was printed before the last second");
        assert_eq!(around(9.0), of(990..1_000), "it ends there");
        assert_eq!(around(-9.0), of(0..20));
    }

    #[tokio::test]
    async fn a_log_that_is_not_there_yet_is_noted_and_one_that_never_is_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (tell, is_over) = watch::channel(false);
        let log =
            |name: &str| Log { source: Some(name.to_owned()), path: folder.path().join(name), lengths: Lengths::new() };
        let start = Instant::now();
        let made = async {
            std::fs::write(folder.path().join("later.log"), "one\ntwo\n").unwrap();
            tell.send_replace(true);
        };
        let logs = ["later.log", "never.log"].map(log).into_iter();
        let (logs, ()) = tokio::join!(note_lengths(logs, start, &is_over), made);
        let later = logs[0].around(0.0).unwrap();
        assert_eq!((later.source.as_deref(), later.lines), (Some("later.log"), vec!["one".into(), "two".into()]));
        assert_eq!(logs[1].around(0.0), None);
    }

    #[test]
    fn a_hostile_log_gives_short_lines_without_control_characters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("candidate.log");
        std::fs::write(&path, format!("\n\n\u{1b}[31m{}\r\n\tat main\n", "x".repeat(10_000))).unwrap();
        let lines = LogExcerpt::around(&File::open(&path).unwrap(), &[], 1.0).unwrap().lines;
        assert_eq!((lines.len(), lines[0].len(), &lines[0][..5], lines[1].as_str()), (2, 500, "[31mx", "    at main"));
    }
}
