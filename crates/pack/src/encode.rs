//! Encoding frames that are not sent unchanged, as stored blocks or as a DEFLATE stream of another
//! level. This inflates and compresses, so it runs on a pool: at most one job per processor,
//! whatever the number of streams.

use crate::deflate::{Deflater, append_deflated, stream_compressor};
use crate::entry::Sink;
use crate::frame::{FrameError, stored_blocks, stored_len};
use crate::inflate::Inflater;
use crate::reader::JOB_TEXT_BYTES;
use crate::{Level, Member};
use bytes::Bytes;
use flate2::FlushCompress;
use futures::channel::oneshot;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::LazyLock;

/// A frame to encode: the index of its page (`None`: a METS document), its description, and the
/// frame.
pub(crate) type Input = (Option<u32>, Member, Bytes);

/// An encoded frame: the index of its page as above, and its content within an entry.
pub(crate) type Output = (Option<u32>, Result<Bytes, FrameError>);

/// Batches of a stream in the pool per thread: one that is being encoded, and one that is ready, so
/// that no thread waits while finished batches are written.
const AHEAD: usize = 2;

/// Most batches of one stream in the pool.
pub(crate) fn batches_max() -> usize {
    AHEAD * parallelism()
}

/// Number of jobs that run at a time. Read once: it comes from files of the system, and reading
/// them took 3 % of recompressing.
fn parallelism() -> usize {
    static PROCESSORS: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    *PROCESSORS
}

/// One thread per processor. Each takes the next job by itself, because a processor is idle while
/// another thread is being woken. `None` if the system gives no threads.
static POOL: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let pool = ThreadPoolBuilder::new().num_threads(parallelism()).thread_name(|index| format!("encode-{index}"));
    // A panic is printed on stderr, the waiting stream gets an error, and the process continues.
    pool.panic_handler(|_| ()).build().ok()
});

/// The result of a job. The error means that it panicked, or that there are no threads.
pub(crate) type Pending<T> = oneshot::Receiver<T>;

/// Queues a job, first come, first served. If the returned value is dropped before the job begins,
/// the job is skipped.
fn start<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
    let (sender, receiver) = oneshot::channel();
    if let Some(pool) = &*POOL {
        pool.spawn_fifo(move || {
            if !sender.is_canceled() {
                // The receiver may be gone.
                let _ = sender.send(job());
            }
        });
    }
    receiver
}

/// The encoded form of a batch of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One entry per frame.
    Entries,
    /// Parts of one entry, whose text continues before and after them.
    Text,
}

/// Frames that are being encoded.
pub(crate) enum Encoding {
    /// Unchanged frames: nothing to do and nothing to wait for.
    Done(Vec<Output>),
    /// A job on the pool.
    Running(Pending<Vec<Output>>),
}

impl Encoding {
    /// Starts to encode frames at a level. Entries become stored blocks without an end, or whole
    /// DEFLATE streams. Parts of a text become blocks that end on a byte boundary; none of them is
    /// final.
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

/// Turns each frame into stored blocks.
fn stored(frames: &[Input]) -> Vec<Output> {
    encoded(frames, |text, contents| {
        // A long text alone has more than the room of a batch.
        contents.reserve(stored_len(text.len() as u64) as usize);
        put_stored(contents, text);
        Ok(())
    })
}

/// Appends a text as stored blocks, none of them final.
pub(crate) fn put_stored(out: &mut impl Sink, text: &[u8]) {
    for (header, block) in stored_blocks(text) {
        out.put(&header);
        out.put(block);
    }
}

/// Some members as an archive contains them. An error names the page (`None`: the METS document).
pub(crate) type Members = Result<Vec<u8>, (Option<u32>, FrameError)>;

/// Starts to inflate frames and to encode them. `put` receives the text of a member and appends the
/// encoded member. All members together have `len` bytes.
pub(crate) fn start_members(
    frames: Vec<Input>,
    len: usize,
    mut put: impl FnMut(&mut Vec<u8>, usize, &[u8]) + Send + 'static,
) -> Pending<Members> {
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

/// Turns each frame into a whole DEFLATE stream.
fn recompressed(level: u8, frames: &[Input]) -> Vec<Output> {
    let mut deflater = Deflater::new(level);
    encoded(frames, |text, contents| deflater.append(text, contents))
}

/// Compresses the texts of all frames as one. The last good frame gets all of the content. A
/// damaged frame adds nothing.
///
/// The content does not refer to earlier batches, so batches are compressed side by side. With
/// batches of [`JOB_TEXT_BYTES`] that costs less than 1 % in size.
fn recompressed_text(level: u8, frames: &[Input]) -> Vec<Output> {
    let mut joined = Vec::with_capacity(room_bytes(frames));
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

/// Inflates each frame, checks the text, and encodes it: `encode` appends to a buffer, of which the
/// outputs are parts. So a batch takes memory once, and not for each of its pages.
fn encoded(frames: &[Input], mut encode: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), FrameError>) -> Vec<Output> {
    let mut contents = Vec::with_capacity(room_bytes(frames));
    let parts = inflated(frames, |text| {
        let from = contents.len();
        encode(text, &mut contents)?;
        Ok(from..contents.len())
    });
    let contents = Bytes::from(contents);
    parts.into_iter().map(|(page, part)| (page, part.map(|part| contents.slice(part)))).collect()
}

/// Inflates each frame, checks the text, and makes something of it.
fn inflated<T>(
    frames: &[Input],
    mut make: impl FnMut(&[u8]) -> Result<T, FrameError>,
) -> Vec<(Option<u32>, Result<T, FrameError>)> {
    let (mut inflater, mut text) = (Inflater::new(), Vec::new());
    let made = frames.iter().map(|(page, member, frame)| {
        let inflated = inflater.inflate_into(frame, member.size, member.crc32, &mut text);
        (*page, inflated.and_then(|()| make(&text)))
    });
    made.collect()
}

/// Room for the texts of some frames as stored blocks, in bytes: not more than twice the text that a
/// job usually has, because what a damaged directory says of a page may be wrong.
fn room_bytes(frames: &[Input]) -> usize {
    let blocks_bytes = frames.iter().map(|(_, member, _)| stored_len(u64::from(member.size))).sum::<u64>();
    blocks_bytes.min(2 * JOB_TEXT_BYTES) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Framer, inflate};

    #[test]
    fn stored_blocks_of_a_batch_fit_into_the_room_that_is_taken_for_it_at_first() {
        let mut framer = Framer::new(6);
        let frames = (0..4_000).map(|n: usize| framer.frame("text".repeat(n % 30).as_bytes()).unwrap());
        let inputs: Vec<Input> =
            (0..).zip(frames).map(|(page, frame)| (Some(page), frame.member(), frame.bytes)).collect();
        let outputs = stored(&inputs);
        let blocks_bytes: usize = outputs.iter().map(|(_, content)| content.as_ref().unwrap().len()).sum();
        assert_eq!(room_bytes(&inputs), blocks_bytes);
        // What a damaged directory says takes no memory.
        let (page, member, frame) = inputs[0].clone();
        let damaged = (page, Member { size: u32::MAX, ..member }, frame);
        assert_eq!(room_bytes(&[damaged]) as u64, 2 * JOB_TEXT_BYTES);
    }

    #[test]
    fn each_output_of_a_batch_is_that_of_its_page_alone_and_a_damaged_page_has_none() {
        let text = |n: usize| format!("page {n}, ").repeat(n * 7 % 80).into_bytes();
        let texts: Vec<Vec<u8>> = (0..90).map(text).collect();
        let mut framer = Framer::new(6);
        let frames = texts.iter().map(|text| framer.frame(text).unwrap());
        let mut inputs: Vec<Input> =
            (0..).zip(frames).map(|(page, frame)| (Some(page), frame.member(), frame.bytes)).collect();
        for damaged in [0, 41, 89] {
            inputs[damaged].1.crc32 ^= 1;
        }
        for level in [0, 1, 9] {
            let form = |inputs: &[Input]| if level == 0 { stored(inputs) } else { recompressed(level, inputs) };
            let outputs = form(&inputs);
            assert_eq!(outputs.len(), texts.len());
            for ((page, content), input) in outputs.into_iter().zip(&inputs) {
                assert_eq!(page, input.0);
                let index = page.unwrap() as usize;
                let Ok(content) = content else {
                    assert!([0, 41, 89].contains(&index), "page {index} is not damaged");
                    continue;
                };
                let alone = form(std::slice::from_ref(input)).remove(0).1.unwrap();
                assert_eq!(content, alone, "page {index}");
                assert_eq!(inflate(&content, input.1.size, input.1.crc32).unwrap(), texts[index], "page {index}");
            }
        }
    }
}
