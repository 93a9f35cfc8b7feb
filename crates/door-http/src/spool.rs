//! Output that waits for a client that does not read yet: in memory if it is little, otherwise in a
//! temporary file, up to a limit. Many clients read nothing of a response before they have sent the
//! whole request, and the server does not wait for them before that limit.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use store::boxed;

use bytes::Bytes;
use futures::stream::{self, Stream};
use parking_lot::Mutex;
use tempfile::SpooledTempFile;
use tokio::sync::Notify;

/// Most bytes that wait in memory.
const MEMORY_BYTES: usize = 1 << 20;
/// Most bytes of the temporary file. A writer waits for its reader then.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a piece of output.
const PIECE_BYTES: usize = 64 << 10;

/// The writing end. If it is dropped before [`Writer::finish`], the response ends with an error.
pub struct Writer(Arc<Spool>);

struct Spool {
    state: Mutex<State>,
    /// Something was written, or the writer is gone.
    changed: Notify,
    /// The file is empty again, or the reader is gone.
    has_room: Notify,
}

/// The reading end.
struct Reader(Arc<Spool>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.state.lock().is_unread = true;
        self.0.has_room.notify_one();
    }
}

struct State {
    file: SpooledTempFile,
    written_bytes: u64,
    read_bytes: u64,
    end: Option<End>,
    /// Whether nobody reads any more.
    is_unread: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    Broken,
}

/// Makes both ends.
pub fn new() -> (Writer, impl Stream<Item = io::Result<Bytes>> + Send + 'static) {
    let file = SpooledTempFile::new(MEMORY_BYTES);
    let state = Mutex::new(State { file, written_bytes: 0, read_bytes: 0, end: None, is_unread: false });
    let spool = Arc::new(Spool { state, changed: Notify::new(), has_room: Notify::new() });
    let pieces = stream::unfold(Some(Reader(spool.clone())), |reader| async move {
        let reader = reader?;
        loop {
            let next = reader.0.state.lock().next();
            match next {
                Ok(Next::Piece(piece)) => {
                    reader.0.has_room.notify_one();
                    break Some((Ok(piece), Some(reader)));
                }
                Ok(Next::End) => break None,
                Ok(Next::Later) => {}
                Err(error) => break Some((Err(error), None)),
            }
            reader.0.changed.notified().await;
        }
    });
    (Writer(spool), pieces)
}

impl Writer {
    /// Adds something. Waits while very much waits for the reader. What nobody will read is dropped.
    #[boxed]
    pub async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        loop {
            {
                let mut state = self.0.state.lock();
                if state.is_unread {
                    return Ok(());
                }
                if state.written_bytes < FILE_BYTES_MAX {
                    state.write(bytes)?;
                    break;
                }
            }
            self.0.has_room.notified().await;
        }
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
    async fn a_writer_waits_while_very_much_is_unread_and_for_nobody_once_the_reader_is_gone() {
        let (writer, pieces) = new();
        let piece = vec![b'x'; 1 << 20];
        let writing = tokio::spawn(async move {
            for _ in 0..100 {
                writer.write(&piece).await.unwrap();
            }
            writer.finish();
        });
        let mut pieces = Box::pin(pieces);
        let mut read_bytes = 0;
        while let Some(piece) = pieces.try_next().await.unwrap() {
            read_bytes += piece.len();
            tokio::task::yield_now().await;
        }
        assert_eq!(read_bytes, 100 << 20);
        writing.await.unwrap();

        let (writer, pieces) = new();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..64 {
            writer.write(&piece).await.unwrap();
        }
        let waiting = futures::poll!(Box::pin(writer.write(&piece)));
        assert!(waiting.is_pending(), "the file does not grow further");
        drop(pieces);
        for _ in 0..1_000 {
            writer.write(&piece).await.unwrap();
        }
    }

    #[tokio::test]
    async fn output_waits_in_a_file_for_a_client_that_does_not_read_yet() {
        let (writer, pieces) = new();
        let line = [b'x'; 1_000];
        for _ in 0..3_000 {
            writer.write(&line).await.unwrap();
        }
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
                writer.write(format!("{n}\n").as_bytes()).await.unwrap();
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
        writer.write(b"some").await.unwrap();
        drop(writer);
        let read: Vec<io::Result<Bytes>> = pieces.collect().await;
        assert!(matches!(&read[..], [Ok(piece), Err(_)] if piece == "some"));
    }
}
