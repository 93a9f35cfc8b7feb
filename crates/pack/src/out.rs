//! The output of a stream: a window of the archive's bytes, cut into pieces.

use crate::FrameError;
use crate::encode::{self, Members, Pending};
use crate::entry::Sink;
use crate::reader::Reader;
use crate::source::{ArchiveError, Source};
use bytes::{Bytes, BytesMut};
use futures::SinkExt;
use futures::channel::mpsc::Sender;
use std::collections::VecDeque;
use std::ops::Range;

/// A frame of this length or more is a piece of its own and is not copied.
const OWN_PIECE_BYTES: usize = 64 * 1024;

/// Least size of a piece in bytes, whatever the source returns, so that 0 does not stop the stream.
const PIECE_BYTES_MIN: usize = 4 * 1024;

/// Takes the bytes of an archive in order, keeps what lies in the requested window, and sends it in
/// pieces.
///
/// Appending never waits: full pieces queue up until [`drain`](Self::drain) sends them. Producers
/// drain after each batch that they read, which bounds the queue.
pub(crate) struct Out<S> {
    reader: Reader<S>,
    sender: Sender<Bytes>,
    window: Range<u64>,
    /// Offset in the archive of the next byte.
    position: u64,
    piece: BytesMut,
    /// Room left in the piece, in bytes; 0 if there is no piece.
    room: usize,
    queue: VecDeque<Queued>,
    /// How many elements of the queue the pool still works on.
    encoding: usize,
}

/// An element of the queue.
enum Queued {
    Piece(Bytes),
    /// Members of a group that are being encoded; a part of them is requested.
    Encoding {
        group: usize,
        job: Pending<Members>,
        wanted: Range<usize>,
    },
}

impl<S: Source> Out<S> {
    pub(crate) fn new(reader: Reader<S>, sender: Sender<Bytes>, window: Range<u64>) -> Self {
        let (piece, queue) = (BytesMut::new(), VecDeque::new());
        Self { reader, sender, window, position: 0, piece, room: 0, queue, encoding: 0 }
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The first requested byte.
    pub(crate) fn start(&self) -> u64 {
        self.window.start
    }

    /// Continues at another offset of the archive.
    pub(crate) fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// Whether the next `len` bytes end before the window.
    pub(crate) fn is_ahead(&self, len: u64) -> bool {
        self.position + len <= self.window.start
    }

    /// Whether the window has ended.
    pub(crate) fn is_past(&self) -> bool {
        self.position >= self.window.end
    }

    /// Most bytes that are still to come.
    pub(crate) fn remaining(&self) -> u64 {
        self.window.end.saturating_sub(self.position)
    }

    /// Skips bytes that are not requested.
    pub(crate) fn skip(&mut self, len: u64) {
        self.position += len;
    }

    /// Returns the part of the next `len` bytes that lies in the window, and continues behind them.
    fn pass(&mut self, len: usize) -> Range<usize> {
        let from = self.window.start.saturating_sub(self.position).min(len as u64) as usize;
        let to = self.remaining().min(len as u64) as usize;
        self.position += len as u64;
        from.min(to)..to
    }

    /// Appends a frame. A large one is not copied.
    pub(crate) fn put_frame(&mut self, frame: &Bytes) {
        if frame.len() < OWN_PIECE_BYTES {
            return self.put(frame);
        }
        let wanted = self.pass(frame.len());
        self.end_piece();
        self.queue.push_back(Queued::Piece(frame.slice(wanted)));
    }

    /// Appends members of a group that the pool encodes, of known length. More can be appended at
    /// once.
    pub(crate) fn put_encoding(&mut self, group: usize, len: usize, job: Pending<Members>) {
        let wanted = self.pass(len);
        self.end_piece();
        self.encoding += 1;
        self.queue.push_back(Queued::Encoding { group, job, wanted });
    }

    fn piece_bytes(&self) -> usize {
        self.reader.source.piece_bytes().max(PIECE_BYTES_MIN)
    }

    fn end_piece(&mut self) {
        if !self.piece.is_empty() {
            self.queue.push_back(Queued::Piece(std::mem::take(&mut self.piece).freeze()));
        }
        self.room = 0;
    }

    fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.room == 0 {
                self.end_piece();
                // At most the bytes that remain, so that a short response takes little memory.
                let to_come = self.remaining().saturating_add(bytes.len() as u64);
                self.room = (self.piece_bytes() as u64).min(to_come) as usize;
                self.piece = BytesMut::with_capacity(self.room);
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.room));
            self.piece.extend_from_slice(now);
            self.room -= now.len();
            bytes = later;
        }
    }

    /// Sends finished elements, and waits until they are taken. Elements after one that is being
    /// encoded must wait for it. The call waits for such an element only if the pool has enough to
    /// do.
    pub(crate) async fn drain(&mut self) -> Result<(), ArchiveError<S::Error>> {
        self.send_until(encode::batches_max()).await
    }

    /// Sends the rest.
    pub(crate) async fn finish(&mut self) -> Result<(), ArchiveError<S::Error>> {
        self.end_piece();
        self.send_until(0).await
    }

    /// Sends the queue until at most `encoding_max` elements that are being encoded are left.
    async fn send_until(&mut self, encoding_max: usize) -> Result<(), ArchiveError<S::Error>> {
        while let Some(queued) = self.queue.front() {
            if matches!(queued, Queued::Encoding { .. }) && self.encoding <= encoding_max {
                return Ok(());
            }
            let bytes = match self.queue.pop_front() {
                Some(Queued::Piece(piece)) => piece,
                Some(Queued::Encoding { group, job, wanted }) => {
                    self.encoding -= 1;
                    let encoded = job.await.map_err(|_| ArchiveError::Interrupted)?;
                    Bytes::from(encoded.map_err(|(page, error)| self.damaged(group, page, error))?).slice(wanted)
                }
                None => return Ok(()),
            };
            self.send(bytes).await?;
        }
        Ok(())
    }

    async fn send(&mut self, mut bytes: Bytes) -> Result<(), ArchiveError<S::Error>> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(self.piece_bytes().min(bytes.len()));
            self.sender.send(piece).await.map_err(|_| ArchiveError::Interrupted)?;
        }
        Ok(())
    }

    fn damaged(&self, group: usize, page: Option<u32>, error: FrameError) -> ArchiveError<S::Error> {
        // There is nothing to leave out here: the length is promised.
        self.reader.source.omit_damaged(group, page, &error);
        ArchiveError::Damaged { group: self.reader.archive.groups[group].name.clone(), error }
    }
}

impl<S: Source> Sink for Out<S> {
    fn put(&mut self, bytes: &[u8]) {
        let len = bytes.len() as u64;
        let inside = self.position >= self.window.start && len <= self.remaining();
        if inside && bytes.len() <= self.room {
            // Nearly every call ends here.
            self.position += len;
            self.room -= bytes.len();
            self.piece.extend_from_slice(bytes);
        } else {
            let wanted = self.pass(bytes.len());
            self.append(&bytes[wanted]);
        }
    }
}
