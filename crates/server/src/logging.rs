//! The log: lines on standard error. Logging never waits for a reader: a thread of its own
//! writes, and lines that it has no room for are dropped and counted. Lines of requests are
//! written together, because a system call for each took a tenth of the time of a small request.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::{LogConfig, LogFormat};
use crate::error::ServerError;

/// How long a line waits for others.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// This number of bytes is written at once, without waiting.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// Lines that may wait for the thread that writes them.
const LINES_MAX: usize = 8_192;

/// How long the end of the process waits for the lines that wait.
const END_MAX: Duration = Duration::from_millis(1_200);

/// The log of this process, once it has begun.
static LOG: OnceLock<Begun> = OnceLock::new();

struct Begun {
    /// Lines that had no room.
    dropped: ErrorCounter,
    /// Lines that could not be written.
    lost: Arc<AtomicU64>,
    level: Handle<EnvFilter, Registry>,
}

/// Whether the environment asks for text without colours (<https://no-color.org>).
fn asks_for_no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Starts logging to standard error, once per process. Drop the result last: it then writes the
/// lines that wait. From the call on, a panic is a line of the log.
#[must_use = "lines that wait are written when it is dropped"]
pub fn init_logging(config: &LogConfig) -> Result<Logging, ServerError> {
    let (filter, level) = reload::Layer::new(config.filter()?);
    let (urgent, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (lines, worker) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES_MAX)
        .thread_name("log")
        .finish(Together::new(io::stderr(), urgent.clone(), lost.clone()));
    let dropped = lines.error_counter();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(Log { lines, urgent: urgent.clone() })
        .with_ansi(io::stderr().is_terminal() && !asks_for_no_colour());
    let layer = match config.format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let begun = tracing_subscriber::registry().with(filter).with(layer).try_init();
    begun.map_err(|error| ServerError::Telemetry(format!("logging: {error}")))?;
    // It is set once, since logging begins once.
    let _ = LOG.set(Begun { dropped, lost, level });
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
        tracing::error!(%panic, backtrace, "a thread panicked");
    }));
    Ok(Logging { urgent, worker: Some(worker) })
}

/// The number of lines that were dropped, because nobody took those before them or they could not
/// be written.
pub(crate) fn dropped_lines() -> u64 {
    let of = |log: &Begun| log.dropped.dropped_lines() as u64 + log.lost.load(Ordering::Relaxed);
    LOG.get().map_or(0, of)
}

/// Changes what is logged from now on.
pub(crate) fn set_level(config: &LogConfig) -> Result<(), ServerError> {
    let filter = config.filter()?;
    match LOG.get() {
        Some(Begun { level, .. }) => {
            level.reload(filter).map_err(|error| ServerError::Telemetry(format!("log.level: {error}")))
        }
        None => Ok(()),
    }
}

/// The log of the process. Dropping it writes the lines that wait, for about a second at most.
#[must_use = "lines that wait are written when it is dropped"]
pub struct Logging {
    urgent: Arc<AtomicBool>,
    worker: Option<WorkerGuard>,
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.urgent.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            end_within(END_MAX, worker);
        }
    }
}

/// Drops a value on a thread of its own, and waits for that at most so long. A worker that cannot
/// end prints why to standard output, which may be the same pipe that nobody reads.
fn end_within<T: Send + 'static>(time: Duration, value: T) {
    let (ended, end) = mpsc::channel();
    let ending = std::thread::Builder::new().name("log-end".to_owned()).spawn(move || {
        drop(value);
        let _ = ended.send(());
    });
    if ending.is_ok() {
        let _ = end.recv_timeout(time);
    }
}

/// Writes lines together. The thread flushes whenever it has no further line.
struct Together<W> {
    waiting: Vec<u8>,
    lines_waiting: u64,
    /// Lines that could not be written.
    lost: Arc<AtomicU64>,
    /// Whether one of the lines is a warning or an error.
    urgent: Arc<AtomicBool>,
    out: W,
}

impl<W: Write> Together<W> {
    fn new(out: W, urgent: Arc<AtomicBool>, lost: Arc<AtomicU64>) -> Self {
        Self { waiting: Vec::new(), lines_waiting: 0, lost, urgent, out }
    }

    /// If it fails, some of the lines may have been written; all of them count as lost.
    fn write_waiting(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.waiting).and_then(|()| self.out.flush());
        self.waiting.clear();
        let lines = std::mem::take(&mut self.lines_waiting);
        if written.is_err() {
            self.lost.fetch_add(lines, Ordering::Relaxed);
        }
        written
    }
}

impl<W: Write> Write for Together<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(line);
        self.lines_waiting += 1;
        if self.waiting.len() >= WAITING_BYTES_MAX {
            self.write_waiting()?;
        }
        Ok(line.len())
    }

    /// Waits for other lines, which meanwhile wait for the thread, unless a line is urgent.
    fn flush(&mut self) -> io::Result<()> {
        if !self.urgent.swap(false, Ordering::Relaxed) {
            std::thread::sleep(WAIT_MAX);
        }
        self.write_waiting()
    }
}

/// The writer of the subscriber.
struct Log {
    lines: NonBlocking,
    urgent: Arc<AtomicBool>,
}

impl<'log> MakeWriter<'log> for Log {
    type Writer = NonBlocking;

    fn make_writer(&'log self) -> Self::Writer {
        self.lines.clone()
    }

    fn make_writer_for(&'log self, meta: &Metadata<'_>) -> Self::Writer {
        if *meta.level() <= Level::WARN {
            self.urgent.store(true, Ordering::Relaxed);
        }
        self.lines.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use parking_lot::Mutex;

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

    fn together() -> (Together<Written>, Written) {
        let written = Written::default();
        (Together::new(written.clone(), Arc::default(), Arc::default()), written)
    }

    #[test]
    fn lines_are_written_with_one_call() {
        let (mut lines, written) = together();
        lines.write_all(b"first\n").unwrap();
        lines.write_all(b"second\n").unwrap();
        assert!(written.0.lock().is_empty());
        lines.flush().unwrap();
        assert_eq!(*written.0.lock(), ["first\nsecond\n"]);
    }

    #[test]
    fn many_lines_are_written_without_a_flush() {
        let (mut lines, written) = together();
        let line = "x".repeat(999) + "\n";
        (0..100).for_each(|_| lines.write_all(line.as_bytes()).unwrap());
        let [together] = &written.0.lock()[..] else { panic!("not one write") };
        assert!(together.len() >= WAITING_BYTES_MAX && lines.waiting.len() < WAITING_BYTES_MAX);
        assert_eq!(together.len() + lines.waiting.len(), 100_000);
    }

    /// A writer that always fails, as a full disk.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let lost = Arc::new(AtomicU64::new(0));
        let mut lines = Together::new(Full, Arc::default(), lost.clone());
        lines.write_all(b"first\n").unwrap();
        lines.write_all(b"second\n").unwrap();
        lines.flush().unwrap_err();
        assert_eq!(lost.load(Ordering::Relaxed), 2);
        lines.write_all(b"third\n").unwrap();
        lines.flush().unwrap_err();
        assert_eq!(lost.load(Ordering::Relaxed), 3);
    }

    /// A value whose end waits for a lock.
    struct Held(Arc<Mutex<()>>);

    impl Drop for Held {
        fn drop(&mut self) {
            drop(self.0.lock());
        }
    }

    #[test]
    fn an_end_that_is_stuck_is_not_waited_for() {
        let lock = Arc::new(Mutex::new(()));
        let stuck = lock.lock();
        end_within(Duration::from_millis(1), Held(lock.clone()));
        drop(stuck);
    }

    /// A writer that never comes back, as a full pipe that nobody reads.
    struct Stuck(Arc<Mutex<()>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _never = self.0.lock();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_nobody_takes_are_dropped_and_counted() {
        let (pipe, urgent) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(true)));
        let read_by_nobody = pipe.lock();
        let out = Together::new(Stuck(pipe.clone()), urgent.clone(), Arc::default());
        let (lines, worker) = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(10).finish(out);
        let dropped = lines.error_counter();
        let subscriber = tracing_subscriber::fmt().with_writer(Log { lines, urgent }).finish();
        // A line has more than 40 bytes, so the thread holds fewer than half of them before it
        // writes, and is stuck then. It may take none before all were sent.
        let sent = WAITING_BYTES_MAX / 20;
        tracing::subscriber::with_default(subscriber, || (0..sent).for_each(|_| tracing::warn!("a line")));
        assert!(dropped.dropped_lines() >= sent / 2 - 10, "{} of {sent}", dropped.dropped_lines());
        drop(read_by_nobody);
        drop(worker);
    }
}
