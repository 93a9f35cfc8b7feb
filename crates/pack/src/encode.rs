//! What a frame becomes where it is not sent as it is: stored blocks, or a DEFLATE stream of another level. This inflates
//! and compresses, and so it runs on a pool: never more jobs than there are processors, whatever the number of streams.

use crate::deflate::{Deflater, append_deflated, stream_compressor};
use crate::entry::Sink;
use crate::frame::{FrameError, stored_blocks};
use crate::inflate::Inflater;
use crate::{Level, Member, stored_len};
use bytes::Bytes;
use flate2::FlushCompress;
use futures::channel::oneshot;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::LazyLock;

/// A frame to encode: the index of its page (`None`: a METS document), what it should be, and the frame.
pub(crate) type Input = (Option<u32>, Member, Bytes);

/// An encoded frame: the index of its page as above, and its content of an entry.
pub(crate) type Output = (Option<u32>, Result<Bytes, FrameError>);

/// How many batches of a stream the pool has for each of its threads: one that is being encoded, and one that is ready, so that no thread
/// waits while what is done is written.
const AHEAD: usize = 2;

/// How many batches of a stream the pool has at most.
pub(crate) fn batches_max() -> usize {
    AHEAD * parallelism()
}

/// How many jobs run at a time. Asked once: the answer comes out of files of the system, which took 3 % of all recompressing.
fn parallelism() -> usize {
    static PROCESSORS: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    *PROCESSORS
}

/// A thread for each processor, which goes on with the next job by itself: where another thread has to be woken for it, a processor
/// stands idle meanwhile. `None`: the system gives no threads.
static POOL: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let pool = ThreadPoolBuilder::new().num_threads(parallelism()).thread_name(|index| format!("encode-{index}"));
    // A job that panics has been told on stderr, and whoever waits for it learns of it; the process goes on.
    pool.panic_handler(|_| ()).build().ok()
});

/// What a job will come to; the error says that it panicked, or that there are no threads.
pub(crate) type Job<T> = oneshot::Receiver<T>;

/// Starts a job as soon as the pool has a thread for it, first come, first served; it is left out if it has not begun when what is
/// returned is dropped.
fn start<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Job<T> {
    let (sender, receiver) = oneshot::channel();
    if let Some(pool) = &*POOL {
        pool.spawn_fifo(move || {
            if !sender.is_canceled() {
                // Whoever waits may have gone away meanwhile.
                let _ = sender.send(job());
            }
        });
    }
    receiver
}

/// What the frames of a batch become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Each is an entry of its own.
    Entries,
    /// All are parts of one entry, whose text goes on before and after them.
    Text,
}

/// Frames that are being encoded.
pub(crate) enum Encoding {
    /// Frames as they are: there is nothing to do, and nothing to wait for.
    Done(Vec<Output>),
    /// A job on the pool.
    Running(Job<Vec<Output>>),
}

impl Encoding {
    /// Starts to encode frames at a level. Entries become stored blocks without an end, or whole DEFLATE streams. Parts of a text
    /// become blocks that end on a byte boundary, none of them final.
    pub(crate) fn start(level: Level, form: Form, frames: Vec<Input>) -> Self {
        match level {
            Level::Frames => Self::Done(frames.into_iter().map(|(page, _, frame)| (page, Ok(frame))).collect()),
            Level::Stored => Self::Running(start(move || stored(&frames))),
            Level::Recompressed(level) => Self::Running(start(move || match form {
                Form::Entries => recompressed(level, &frames),
                Form::Text => recompressed_text(level, &frames),
            })),
        }
    }

    /// Waits for the contents; `None`: the job panicked, or there are no threads.
    pub(crate) async fn finish(self) -> Option<Vec<Output>> {
        match self {
            Self::Done(outputs) => Some(outputs),
            Self::Running(job) => job.await.ok(),
        }
    }
}

/// Makes each frame stored blocks.
fn stored(frames: &[Input]) -> Vec<Output> {
    inflated(frames, |text| {
        let mut content = Vec::with_capacity(stored_len(text.len() as u64) as usize);
        put_stored(&mut content, text);
        Ok(content.into())
    })
}

/// Appends a text as stored blocks, none of them final.
pub(crate) fn put_stored(out: &mut impl Sink, text: &[u8]) {
    for (header, block) in stored_blocks(text) {
        out.put(&header);
        out.put(block);
    }
}

/// Some members as they stand in an archive; an error names the page (`None`: the METS document).
pub(crate) type Members = Result<Vec<u8>, (Option<u32>, FrameError)>;

/// Starts to inflate frames and to write what becomes of them: `put` appends the member of that place, whose text it is given. All
/// of them have `len` bytes.
pub(crate) fn start_members(
    frames: Vec<Input>,
    len: usize,
    mut put: impl FnMut(&mut Vec<u8>, usize, &[u8]) + Send + 'static,
) -> Job<Members> {
    start(move || {
        let (mut inflater, mut text, mut out) = (Inflater::new(), Vec::new(), Vec::with_capacity(len));
        for (nth, (page, member, frame)) in frames.iter().enumerate() {
            let inflated = inflater.inflate_into(frame, member.size, member.crc32, &mut text);
            inflated.map_err(|error| (*page, error))?;
            put(&mut out, nth, &text);
        }
        Ok(out)
    })
}

/// Makes each frame a whole DEFLATE stream.
fn recompressed(level: u8, frames: &[Input]) -> Vec<Output> {
    let (mut deflater, mut content) = (Deflater::new(level), Vec::new());
    inflated(frames, |text| {
        deflater.deflate_into(text, &mut content)?;
        Ok(Bytes::copy_from_slice(&content))
    })
}

/// Compresses the texts of all frames as one; the last good frame has all of the content. A frame that is damaged adds nothing.
///
/// The content does not refer to what came before it, so that batches are compressed side by side. With batches of
/// [`JOB_TEXT_BYTES`](crate::reader::JOB_TEXT_BYTES) that costs less than 1 % of the size.
fn recompressed_text(level: u8, frames: &[Input]) -> Vec<Output> {
    let mut joined = Vec::new();
    let mut outputs = inflated(frames, |text| {
        joined.extend_from_slice(text);
        Ok(Bytes::new())
    });
    if let Some((_, last)) = outputs.iter_mut().rfind(|(_, content)| content.is_ok()) {
        let mut content = Vec::new();
        let sync = FlushCompress::Sync;
        *last = append_deflated(&mut stream_compressor(level), &joined, sync, &mut content).map(|()| content.into());
    }
    outputs
}

/// Inflates each frame, checks the text, and encodes it.
fn inflated(frames: &[Input], mut encode: impl FnMut(&[u8]) -> Result<Bytes, FrameError>) -> Vec<Output> {
    let (mut inflater, mut text) = (Inflater::new(), Vec::new());
    let encoded = frames.iter().map(|(page, member, frame)| {
        let inflated = inflater.inflate_into(frame, member.size, member.crc32, &mut text);
        (*page, inflated.and_then(|()| encode(&text)))
    });
    encoded.collect()
}
