//! Where events go while a worker measures: to a thread that writes them to a file. It also counts
//! them, for those who watch.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::event::{Event, EventError, EventWriter, Outcome, StepNames};
use crate::wire::Progress;

/// How many events go to the thread at once.
const BATCH: usize = 256;
/// So many of these wait for the thread, some twenty megabytes. If the disk is slower for longer, the load waits
/// for it and is late, which shows, instead of taking all memory.
const BATCHES_MAX: usize = 512;

/// The events of a worker.
pub struct Log {
    batch: RefCell<Vec<Event>>,
    to_thread: RefCell<Option<SyncSender<Vec<Event>>>>,
    thread: RefCell<Option<JoinHandle<Result<(), EventError>>>>,
    progress: Cell<Progress>,
}

impl Log {
    /// Writes to a file.
    pub fn create(file: &Path, names: StepNames) -> Result<Self, EventError> {
        Self::over(BufWriter::new(File::create(file)?), names, BATCHES_MAX)
    }

    /// Writes elsewhere. So many batches wait at most.
    fn over(out: impl Write + Send + 'static, names: StepNames, batches_max: usize) -> Result<Self, EventError> {
        let writer = EventWriter::new(out, names)?;
        let (to_thread, batches) = sync_channel(batches_max);
        let thread = std::thread::spawn(move || write(writer, &batches));
        Ok(Self {
            batch: RefCell::new(Vec::with_capacity(BATCH)),
            to_thread: RefCell::new(Some(to_thread)),
            thread: RefCell::new(Some(thread)),
            progress: Cell::default(),
        })
    }

    /// Adds an event.
    pub fn add(&self, event: Event) {
        self.count(|progress| {
            progress.sent += u64::from(event.sent_us.is_some());
            match &event.outcome {
                Outcome::Done | Outcome::Conflict => progress.done += 1,
                Outcome::Refused => progress.refused += 1,
                Outcome::TimeOut | Outcome::Dropped | Outcome::Failed(_) => progress.failed += 1,
            }
        });
        let mut batch = self.batch.borrow_mut();
        batch.push(event);
        if batch.len() == BATCH {
            self.send(std::mem::replace(&mut *batch, Vec::with_capacity(BATCH)));
        }
    }

    /// Changes the counts.
    pub fn count(&self, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.progress.get();
        change(&mut progress);
        self.progress.set(progress);
    }

    /// The counts so far.
    pub fn progress(&self) -> Progress {
        self.progress.get()
    }

    /// Ends the file. Returns when all is in it.
    pub async fn finish(&self) -> Result<(), EventError> {
        self.send(self.batch.take());
        self.to_thread.take();
        let failed = || EventError::Io(std::io::Error::other("the thread that writes events has failed"));
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // Others go on meanwhile.
        match tokio::task::spawn_blocking(|| thread.join()).await {
            Ok(Ok(written)) => written,
            _ => Err(failed()),
        }
    }

    /// Whether the thread still takes events. It ends early if they cannot be written.
    pub fn is_written(&self) -> bool {
        self.thread.borrow().as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn send(&self, batch: Vec<Event>) {
        if let Some(to_thread) = &*self.to_thread.borrow() {
            // If the thread has failed, `finish` says why.
            let _ = to_thread.send(batch);
        }
    }
}

fn write<W: Write>(mut writer: EventWriter<W>, batches: &Receiver<Vec<Event>>) -> Result<(), EventError> {
    while let Ok(batch) = batches.recv() {
        batch.iter().try_for_each(|event| writer.write(event))?;
    }
    writer.finish()?.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// A disk that takes nothing until all events are added, or until it is clear that they wait for it.
    struct SlowDisk {
        all_added: Receiver<()>,
        is_waited_for: SyncSender<bool>,
        is_fast: bool,
    }

    impl Write for SlowDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.is_fast {
                self.is_fast = true;
                let is_waited_for = self.all_added.recv_timeout(Duration::from_millis(300)).is_err();
                self.is_waited_for.send(is_waited_for).unwrap();
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn events_that_the_disk_does_not_take_hold_the_load_up_and_do_not_fill_the_memory() {
        let ((added, all_added), (is_waited_for, waited)) = (channel(), sync_channel(1));
        let disk = SlowDisk { all_added, is_waited_for, is_fast: false };
        let log = Log::over(disk, vec![("get".to_owned(), vec!["get".to_owned()])], 2).unwrap();
        let event = |user: u64| Event {
            user,
            scenario: 0,
            step: 0,
            due_us: 1_000_000,
            begun_us: 1_000_000,
            sent_us: Some(1_000_000),
            first_byte_us: None,
            done_us: 1_000_000,
            outcome: Outcome::Done,
            status: Some(200),
            sent_bytes: 0,
            received_bytes: 0,
        };
        let events = 16 * BATCH as u64;
        (0..events).for_each(|user| log.add(event(user)));
        // Nobody listens any more if the disk was waited for.
        let _ = added.send(());
        assert!(waited.recv().unwrap(), "all events were taken while the disk took nothing");
        assert_eq!(log.progress().done, events);
    }
}
