//! The logs of a candidate on the machine of a monitor: what is added to them while a load runs, in bounded
//! memory and with a bounded length. The coordinator gets it after the load.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::growing::{self, Growing};
use super::log::{Lengths, LogExcerpt, seconds_since};

/// The most logs of a monitor, and the most further ones of a candidate.
pub const LOGS_MAX: usize = 16;
/// The most bytes of a log that are kept: the first ones, because the first error is looked for.
pub(crate) const LOG_BYTES_MAX: u64 = 16 << 20;
/// The most bytes of a log that are kept of one look: the last ones.
const LOOK_BYTES_MAX: u64 = 64 << 10;
/// From look to look.
const INTERVAL: Duration = Duration::from_secs(1);

/// A log that is copied while it grows, from its end at the beginning on.
#[derive(Debug)]
pub(crate) struct Tail {
    log: Growing,
    kept: Kept,
    /// Bytes that were read and not kept, because enough was.
    left_out_bytes: u64,
    /// Why nothing is known of it, at the last look.
    failure: Option<String>,
}

/// What was kept of a log.
#[derive(Debug)]
pub(crate) struct Kept {
    /// It goes with this value.
    pub file: File,
    /// How many bytes of it there were, and when.
    pub lengths: Lengths,
}

impl Kept {
    /// An empty one.
    ///
    /// # Errors
    /// There is no room for a temporary file.
    pub fn new() -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile()?, lengths: Lengths::new() })
    }

    /// What it says around an instant. `None`: nothing, or it cannot be read. `source` is its machine and
    /// its file.
    pub fn around(&self, at_s: f64, source: String) -> Option<LogExcerpt> {
        let excerpt = LogExcerpt::around(&self.file, &self.lengths, at_s).ok()?;
        (!excerpt.lines.is_empty()).then_some(LogExcerpt { source: Some(source), ..excerpt })
    }
}

impl Tail {
    /// Follows a file, which may not be there yet.
    ///
    /// # Errors
    /// There is no room for a temporary file.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        Ok(Self { log: Growing::new(path), kept: Kept::new()?, left_out_bytes: 0, failure: None })
    }

    /// Keeps what was added since the last look. `start` is the start instant.
    fn look(&mut self, start: Instant) {
        let kept = self.log.read(LOOK_BYTES_MAX).and_then(|all| {
            let len = self.kept.lengths.last().map_or(0, |(_, len)| *len);
            let mut now = len;
            for added in all {
                // A line that is cut off is not joined to another one.
                let parted: &[u8] = if added.follows || now == 0 { b"" } else { b"\n" };
                for bytes in [parted, added.bytes.as_slice()] {
                    let room = usize::try_from(LOG_BYTES_MAX - now).unwrap_or(usize::MAX);
                    let (some, rest) = bytes.split_at(bytes.len().min(room));
                    self.kept.file.write_all(some)?;
                    now += some.len() as u64;
                    self.left_out_bytes += rest.len() as u64;
                }
            }
            if now > len || self.kept.lengths.is_empty() {
                self.kept.lengths.push((seconds_since(start), now));
            }
            Ok(())
        });
        self.failure = kept.err().map(|error| error.to_string());
    }

    /// The name of its file.
    pub fn name(&self) -> String {
        self.log.path().display().to_string()
    }

    /// What is not known of it, and why.
    pub fn not_kept(&self) -> Vec<String> {
        let name = self.name();
        let bytes = self.log.skipped_bytes + self.left_out_bytes;
        let left_out = (bytes > 0).then(|| format!("{name}: {bytes} bytes of this log, because it grew too fast"));
        let failure = self.failure.iter().map(|why| format!("{name}: {why}"));
        failure.chain(left_out).collect()
    }

    /// When it was how long.
    pub fn lengths(&self) -> &Lengths {
        &self.kept.lengths
    }

    /// What was kept, from its beginning.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn into_reader(mut self) -> io::Result<impl Read> {
        self.kept.file.seek(SeekFrom::Start(0))?;
        Ok(self.kept.file)
    }
}

/// Why a log cannot be followed, for people. A file that a program will make later must be there, too: its
/// name may be a mistake.
///
/// # Errors
/// It is not there, is no plain file, or may not be read.
pub fn check_log(path: &Path) -> Result<(), String> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("there is no file {}", path.display()),
        _ => format!("{} cannot be followed: {error}", path.display()),
    };
    growing::open(path).map(drop).map_err(failed)
}

/// Follows logs until `is_over` becomes true.
pub(crate) async fn keep(mut tails: Vec<Tail>, start: Instant, mut is_over: watch::Receiver<bool>) -> Vec<Tail> {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !tails.is_empty() {
        let is_last = tokio::select! {
            biased;
            _ = is_over.wait_for(|is_over| *is_over) => true,
            _ = ticks.tick() => false,
        };
        // Files may be slow to read.
        let looked = tokio::task::spawn_blocking(move || {
            tails.iter_mut().for_each(|tail| tail.look(start));
            tails
        });
        // It does not panic, and is interrupted only with the program.
        tails = looked.await.unwrap_or_default();
        if is_last {
            break;
        }
    }
    tails
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    fn add(path: &Path, text: &str) {
        fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn text(tail: Tail) -> String {
        let mut text = String::new();
        tail.into_reader().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn what_is_added_is_kept_with_its_instants_and_another_file_begins_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        add(&path, "before\n");
        let mut tail = Tail::new(path.clone()).unwrap();
        let start = Instant::now();
        tail.look(start);
        add(&path, "one\nhalf a l");
        tail.look(start);
        tail.look(start);
        fs::rename(&path, folder.path().join("log.1")).unwrap();
        add(&path, "two\n");
        tail.look(start);
        let lengths: Vec<_> = tail.lengths().iter().map(|(_, len)| *len).collect();
        assert_eq!((lengths, tail.not_kept()), (vec![0, 12, 17], Vec::<String>::new()));
        let around = tail.kept.around(1e9, "node-2: log".to_owned()).unwrap();
        assert_eq!(around.lines, ["one", "half a l", "two"]);
        assert_eq!(around.source.as_deref(), Some("node-2: log"));
        assert_eq!(text(tail), "one\nhalf a l\ntwo\n");
    }

    #[test]
    fn a_log_that_grows_too_fast_is_kept_in_part_and_this_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        add(&path, "");
        let (mut tail, start) = (Tail::new(path.clone()).unwrap(), Instant::now());
        add(&path, &"x".repeat(LOOK_BYTES_MAX as usize + 7));
        tail.look(start);
        assert_eq!(tail.lengths().last().unwrap().1, LOOK_BYTES_MAX);
        let said = tail.not_kept();
        assert!(said.len() == 1 && said[0].ends_with("log: 7 bytes of this log, because it grew too fast"), "{said:?}");
        // Enough is kept.
        tail.kept.lengths.push((1.0, LOG_BYTES_MAX - 2));
        add(&path, "last\n");
        tail.look(start);
        tail.look(start);
        assert_eq!(tail.lengths().last().unwrap().1, LOG_BYTES_MAX);
        assert!(tail.not_kept()[0].ends_with("log: 10 bytes of this log, because it grew too fast"));
    }

    #[test]
    fn a_log_that_is_missing_is_named_with_the_reason_until_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (mut tail, start) = (Tail::new(path.clone()).unwrap(), Instant::now());
        tail.look(start);
        let said = tail.not_kept();
        assert!(said.len() == 1 && said[0].contains("log: No such file or directory"), "{said:?}");
        add(&path, "here\n");
        tail.look(start);
        assert_eq!((tail.not_kept(), text(tail)), (Vec::new(), "here\n".to_owned()));
        assert!(check_log(&path).is_ok());
        let missing = check_log(&folder.path().join("nowhere")).unwrap_err();
        assert!(missing.starts_with("there is no file ") && missing.ends_with("nowhere"), "{missing}");
        let no_file = check_log(folder.path()).unwrap_err();
        assert!(no_file.ends_with(" cannot be followed: it is no plain file"), "{no_file}");
    }

    #[tokio::test]
    async fn what_is_added_just_before_the_end_is_kept_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let tail = Tail::new(path.clone()).unwrap();
        let (_end, is_over) = watch::channel(true);
        add(&path, "the end\n");
        let tails = keep(vec![tail], Instant::now(), is_over).await;
        assert_eq!(tails.into_iter().map(text).collect::<Vec<_>>(), ["the end\n"]);
    }
}
