//! Output that waits for a client that does not read yet: in memory if it is little, otherwise in a
//! temporary file. Many clients read nothing of a response before they have sent the whole request,
//! and the server must not wait for them.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, Stream};
use parking_lot::Mutex;
use tempfile::SpooledTempFile;
use tokio::sync::Notify;

/// Most bytes that wait in memory.
const MEMORY_BYTES: usize = 1 << 20;
/// Bytes of a piece of output.
const PIECE_BYTES: usize = 64 << 10;

/// The writing end. If it is dropped before [`Writer::finish`], the response ends with an error.
pub struct Writer(Arc<Spool>);

struct Spool {
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    file: SpooledTempFile,
    written_bytes: u64,
    read_bytes: u64,
    end: Option<End>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    Broken,
}

/// Makes both ends.
pub fn new() -> (Writer, impl Stream<Item = io::Result<Bytes>> + Send + 'static) {
    let file = SpooledTempFile::new(MEMORY_BYTES);
    let state = Mutex::new(State { file, written_bytes: 0, read_bytes: 0, end: None });
    let spool = Arc::new(Spool { state, changed: Notify::new() });
    let pieces = stream::unfold(Some(spool.clone()), |spool| async move {
        let spool = spool?;
        loop {
            match spool.state.lock().next() {
                Ok(Next::Piece(piece)) => break Some((Ok(piece), Some(spool.clone()))),
                Ok(Next::End) => break None,
                Ok(Next::Later) => {}
                Err(error) => break Some((Err(error), None)),
            }
            spool.changed.notified().await;
        }
    });
    (Writer(spool), pieces)
}

impl Writer {
    /// Adds something.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.state.lock().write(bytes)?;
        self.0.changed.notify_one();
        Ok(())
    }

    /// Ends the output.
    pub fn finish(self) {
        self.0.state.lock().end = Some(End::Whole);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.state.lock().end.get_or_insert(End::Broken);
        self.0.changed.notify_one();
    }
}

/// The next output.
enum Next {
    Piece(Bytes),
    Later,
    End,
}

impl State {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.written_bytes))?;
        self.file.write_all(bytes)?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    fn next(&mut self) -> io::Result<Next> {
        let waiting_bytes = self.written_bytes - self.read_bytes;
        if waiting_bytes == 0 {
            return match self.end {
                None => Ok(Next::Later),
                Some(End::Whole) => Ok(Next::End),
                Some(End::Broken) => Err(io::Error::other("the response was not completed")),
            };
        }
        let mut piece = vec![0; waiting_bytes.min(PIECE_BYTES as u64) as usize];
        self.file.seek(SeekFrom::Start(self.read_bytes))?;
        self.file.read_exact(&mut piece)?;
        self.read_bytes += piece.len() as u64;
        if self.read_bytes == self.written_bytes {
            // It stays small if the client reads.
            self.file.set_len(0)?;
            (self.written_bytes, self.read_bytes) = (0, 0);
        }
        Ok(Next::Piece(piece.into()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::{StreamExt, TryStreamExt};

    use super::*;

    #[tokio::test]
    async fn any_amount_of_unread_output_waits() {
        let (writer, pieces) = new();
        let line = [b'x'; 1_000];
        (0..3_000).for_each(|_| writer.write(&line).unwrap());
        writer.finish();
        let read: Vec<Bytes> = pieces.try_collect().await.unwrap();
        assert_eq!(read.iter().map(Bytes::len).sum::<usize>(), 3_000_000);
        assert!(read.concat().iter().all(|byte| *byte == b'x'));
    }

    #[tokio::test]
    async fn a_reader_gets_everything_in_order_and_the_end() {
        let (writer, pieces) = new();
        let writing = tokio::spawn(async move {
            for n in 0..500 {
                writer.write(format!("{n}\n").as_bytes()).unwrap();
                tokio::task::yield_now().await;
            }
            writer.finish();
        });
        let read: Vec<Bytes> = pieces.try_collect().await.unwrap();
        writing.await.unwrap();
        let expected: String = (0..500).map(|n| format!("{n}\n")).collect();
        assert_eq!(read.concat(), expected.as_bytes());
    }

    #[tokio::test]
    async fn a_dropped_writer_breaks_the_response() {
        let (writer, pieces) = new();
        writer.write(b"some").unwrap();
        drop(writer);
        let read: Vec<io::Result<Bytes>> = pieces.collect().await;
        assert!(matches!(&read[..], [Ok(piece), Err(_)] if piece == "some"));
    }
}
