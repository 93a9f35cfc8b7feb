//! Where events go while a worker measures: to a thread that writes them to a file. It also counts
//! them, for those who watch.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::event::{Event, EventError, EventWriter, Outcome, StepNames};
use crate::wire::Progress;

/// How many events go to the thread at once.
const BATCH: usize = 256;

/// The events of a worker.
pub struct Log {
    batch: RefCell<Vec<Event>>,
    to_thread: RefCell<Option<Sender<Vec<Event>>>>,
    thread: RefCell<Option<JoinHandle<Result<(), EventError>>>>,
    progress: Cell<Progress>,
}

impl Log {
    /// Writes to a file.
    pub fn create(file: &Path, names: StepNames) -> Result<Self, EventError> {
        let writer = EventWriter::new(BufWriter::new(File::create(file)?), names)?;
        let (to_thread, batches) = channel();
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
                Outcome::Done => progress.done += 1,
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
