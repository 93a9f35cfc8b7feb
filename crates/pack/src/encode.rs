//! What a frame becomes where it is not sent as it is: stored blocks, or a DEFLATE stream of another level. This inflates
//! and compresses, and so it runs on a pool: never more jobs than there are processors, whatever the number of streams.

use crate::deflate::{Deflater, append_deflated, stream_compressor};
use crate::frame::{FrameError, stored_blocks};
use crate::inflate::Inflater;
use crate::{Level, Member, stored_len};
use bytes::Bytes;
use flate2::{Compress, FlushCompress};
use futures::channel::oneshot;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::LazyLock;

/// A frame to encode: the index of its page (`None`: a METS document), what it should be, and the frame.
pub(crate) type Input = (Option<u32>, Member, Bytes);

/// An encoded frame: the index of its page as above, and its content of an entry.
pub(crate) type Output = (Option<u32>, Result<Bytes, FrameError>);

/// How many batches are with the pool for each of its places: one that is being encoded, and one that is ready, so that no place waits
/// while what is done is written.
pub(crate) const AHEAD: usize = 2;

/// How many jobs run at a time. Asked once: the answer comes out of files of the system, which took 3 % of all recompressing.
pub(crate) fn parallelism() -> usize {
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
type Job<T> = oneshot::Receiver<T>;

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

/// Runs a job on the pool and waits for it; `None`: it panicked, or there are no threads.
pub(crate) async fn on_pool<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    start(job).await.ok()
}

/// Entries that are being encoded.
pub(crate) enum Encoding {
    /// Frames as they are: there is nothing to do, and nothing to wait for.
    Done(Vec<Output>),
    /// A job on the pool.
    Running(Job<Vec<Output>>),
}

impl Encoding {
    /// Starts to encode frames that are entries of their own; see [`entries`].
    pub(crate) fn start(level: Level, frames: Vec<Input>) -> Self {
        match level {
            Level::Frames => Self::Done(entries(level, frames)),
            level => Self::Running(start(move || entries(level, frames))),
        }
    }

    /// Waits for the entries; `None` as with [`on_pool`].
    pub(crate) async fn finish(self) -> Option<Vec<Output>> {
        match self {
            Self::Done(outputs) => Some(outputs),
            Self::Running(job) => job.await.ok(),
        }
    }
}

/// Encodes frames that are entries of their own: as stored blocks without an end, or as whole DEFLATE streams.
fn entries(level: Level, frames: Vec<Input>) -> Vec<Output> {
    match level {
        Level::Frames => frames.into_iter().map(|(page, _, frame)| (page, Ok(frame))).collect(),
        Level::Stored => stored(&frames),
        Level::Recompressed(level) => {
            let (mut deflater, mut content) = (Deflater::new(level), Vec::new());
            inflated(&frames, |text| {
                deflater.deflate_into(text, &mut content)?;
                Ok(Bytes::copy_from_slice(&content))
            })
        }
    }
}

/// Makes frames into stored blocks, none of them final.
pub(crate) fn stored(frames: &[Input]) -> Vec<Output> {
    inflated(frames, |text| {
        let mut content = Vec::with_capacity(stored_len(text.len() as u64) as usize);
        for (header, block) in stored_blocks(text) {
            content.extend_from_slice(&header);
            content.extend_from_slice(block);
        }
        Ok(content.into())
    })
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

/// Encodes frames one after the other into a single entry.
pub(crate) enum Joiner {
    /// As they are, or as stored blocks.
    Blocks(Level),
    /// As one DEFLATE stream of another level.
    Deflate(Box<Compress>),
}

impl Joiner {
    pub(crate) fn new(level: Level) -> Self {
        match level {
            Level::Recompressed(level) => Self::Deflate(Box::new(stream_compressor(level))),
            level => Self::Blocks(level),
        }
    }

    /// The content that these frames add; what the compressor holds back comes with the next or with the end. A frame that
    /// is damaged adds nothing.
    pub(crate) fn join(&mut self, frames: Vec<Input>) -> Vec<Output> {
        match self {
            Self::Blocks(level) => entries(*level, frames),
            Self::Deflate(compress) => inflated(&frames, |text| {
                let mut content = Vec::new();
                append_deflated(compress, text, FlushCompress::None, &mut content)?;
                Ok(content.into())
            }),
        }
    }

    /// What ends the entry.
    pub(crate) fn end(self) -> Result<Bytes, FrameError> {
        match self {
            Self::Blocks(_) => Ok(Bytes::from_static(&crate::FRAME_END)),
            Self::Deflate(mut compress) => {
                let mut content = Vec::new();
                append_deflated(&mut compress, &[], FlushCompress::Finish, &mut content)?;
                Ok(content.into())
            }
        }
    }
}
