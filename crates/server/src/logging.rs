//! The log: lines on standard error. Lines of requests are written together, because a system call
//! for each took a tenth of the time of a small request. Warnings and errors, with all lines before
//! them, are written at once.

use std::io::{self, IsTerminal, Stderr, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{LogConfig, LogFormat};
use crate::error::ServerError;

/// How long a line waits for others.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// This number of bytes is written at once, without waiting.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// Starts logging to standard error, once per process. Drop the result last: it then writes the
/// lines that wait.
#[must_use = "lines that wait are written when it is dropped"]
pub fn init_logging(config: &LogConfig) -> Result<Logging, ServerError> {
    let failed = |error: String| ServerError::Telemetry(format!("logging: {error}"));
    let filter = EnvFilter::try_new(&config.level)
        .map_err(|error| ServerError::Telemetry(format!("log.level `{}`: {error}", config.level)))?;
    let lines = Arc::new(Lines::new(io::stderr()));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Log(lines.clone()))
        .with_ansi(io::stderr().is_terminal());
    let begun = match config.format {
        LogFormat::Text => subscriber.try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
    };
    begun.map_err(|error| failed(error.to_string()))?;
    let writing = lines.clone();
    let writer = std::thread::Builder::new().name("log".to_owned());
    writer.spawn(move || writing.write_in_time()).map_err(|error| failed(error.to_string()))?;
    Ok(Logging(lines))
}

/// The log of the process. Dropping it writes the lines that wait.
#[must_use = "lines that wait are written when it is dropped"]
pub struct Logging(Arc<Lines<Stderr>>);

impl Drop for Logging {
    fn drop(&mut self) {
        self.0.waiting.lock().write();
    }
}

/// Lines that wait to be written.
struct Lines<W> {
    waiting: Mutex<Waiting<W>>,
    /// Notified when a line begins to wait.
    begun: Condvar,
}

struct Waiting<W> {
    lines: Vec<u8>,
    out: W,
}

impl<W: Write> Waiting<W> {
    /// Writes the lines that wait. A failure does not stop the server, and there is nowhere to
    /// report it.
    fn write(&mut self) {
        let _ = self.out.write_all(&self.lines);
        let _ = self.out.flush();
        self.lines.clear();
    }
}

impl<W: Write> Lines<W> {
    fn new(out: W) -> Self {
        Self { waiting: Mutex::new(Waiting { lines: Vec::new(), out }), begun: Condvar::new() }
    }

    fn add(&self, line: &[u8], is_urgent: bool) {
        let mut waiting = self.waiting.lock();
        let is_first = waiting.lines.is_empty();
        waiting.lines.extend_from_slice(line);
        if is_urgent || waiting.lines.len() >= WAITING_BYTES_MAX {
            waiting.write();
        } else if is_first {
            self.begun.notify_one();
        }
    }

    /// Writes lines that have waited long enough, as long as the process lives.
    fn write_in_time(&self) {
        loop {
            {
                let mut waiting = self.waiting.lock();
                self.begun.wait_while(&mut waiting, |waiting| waiting.lines.is_empty());
            }
            std::thread::sleep(WAIT_MAX);
            self.waiting.lock().write();
        }
    }
}

/// The writer of the subscriber.
struct Log<W>(Arc<Lines<W>>);

/// Takes one line: the subscriber writes each line with one call.
struct Line<'log, W> {
    lines: &'log Lines<W>,
    is_urgent: bool,
}

impl<'log, W: Write + 'static> MakeWriter<'log> for Log<W> {
    type Writer = Line<'log, W>;

    fn make_writer(&'log self) -> Self::Writer {
        Line { lines: &self.0, is_urgent: true }
    }

    fn make_writer_for(&'log self, meta: &Metadata<'_>) -> Self::Writer {
        Line { lines: &self.0, is_urgent: *meta.level() <= Level::WARN }
    }
}

impl<W: Write> Write for Line<'_, W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.lines.add(line, self.is_urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The written bytes, call by call.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<String>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().push(String::from_utf8(bytes.to_vec()).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log of `work`, without the thread that writes in time.
    fn logged(work: impl FnOnce()) -> (Vec<String>, Arc<Lines<Written>>) {
        let written = Written::default();
        let lines = Arc::new(Lines::new(written.clone()));
        let subscriber = tracing_subscriber::fmt().without_time().with_ansi(false).with_writer(Log(lines.clone()));
        tracing::subscriber::with_default(subscriber.finish(), work);
        let written = written.0.lock().clone();
        (written, lines)
    }

    #[test]
    fn lines_wait_for_others_until_a_warning_comes() {
        let (written, lines) = logged(|| {
            tracing::info!("first");
            tracing::info!("second");
            tracing::warn!("third");
            tracing::info!("fourth");
        });
        let [together] = &written[..] else { panic!("{written:?}") };
        let order: Vec<_> = together.lines().map(|line| line.split_whitespace().last().unwrap()).collect();
        assert_eq!(order, ["first", "second", "third"]);
        assert!(String::from_utf8_lossy(&lines.waiting.lock().lines).contains("fourth"));
    }

    #[test]
    fn many_lines_are_written_without_waiting() {
        let text = "x".repeat(1_000);
        let (written, lines) = logged(|| (0..100).for_each(|_| tracing::info!("{text}")));
        let [together] = &written[..] else { panic!("{} writes", written.len()) };
        let waiting = String::from_utf8(lines.waiting.lock().lines.clone()).unwrap();
        assert!(together.len() >= WAITING_BYTES_MAX && waiting.len() < WAITING_BYTES_MAX);
        assert_eq!(together.lines().count() + waiting.lines().count(), 100);
    }

    #[test]
    fn a_single_line_is_written_in_time() {
        let written = Written::default();
        let lines = Arc::new(Lines::new(written.clone()));
        let writing = lines.clone();
        std::thread::spawn(move || writing.write_in_time());
        lines.add(b"alone\n", false);
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while written.0.lock().is_empty() {
            assert!(std::time::Instant::now() < deadline, "it was never written");
            std::thread::yield_now();
        }
        assert_eq!(*written.0.lock(), ["alone\n"]);
    }
}
