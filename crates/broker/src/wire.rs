//! Bytes to and from a broker, and signs of life in both directions.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until};

use crate::error::SendError;

/// Bytes that are read at once, about.
const READ_BYTES: usize = 8 << 10;

/// Longer than any connection lives.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

/// Makes frames of bytes that come in pieces.
pub(crate) trait Decode: Default + Send {
    /// A frame.
    type Frame: Send;

    /// What a side sends to show that it is there.
    const BEAT: &'static [u8];

    /// Where the next bytes are added.
    fn buffer(&mut self) -> &mut BytesMut;

    /// The next frame that is complete.
    fn next(&mut self) -> Result<Option<Self::Frame>, SendError>;
}

/// A connection, as bytes.
pub(crate) struct Wire<Io, D> {
    reader: ReadHalf<Io>,
    writer: WriteHalf<Io>,
    decoder: D,
    /// What is to be written.
    pub(crate) out: BytesMut,
    /// The longest time in which this side may write nothing.
    beat_every: Duration,
    written: Instant,
    /// The longest time in which the broker may send nothing.
    silence_max: Duration,
    heard: Instant,
}

impl<Io: AsyncRead + AsyncWrite, D: Decode> Wire<Io, D> {
    pub(crate) fn new(stream: Io) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let (decoder, out, now) = (D::default(), BytesMut::new(), Instant::now());
        Self { reader, writer, decoder, out, beat_every: NEVER, written: now, silence_max: NEVER, heard: now }
    }

    /// What was agreed: how often this side shows that it is there, and how long the broker may be
    /// silent.
    pub(crate) fn agree(&mut self, beat_every: Option<Duration>, silence_max: Option<Duration>) {
        self.beat_every = beat_every.unwrap_or(NEVER);
        self.silence_max = silence_max.unwrap_or(NEVER);
    }

    /// Waits for the next frame, and writes meanwhile.
    pub(crate) async fn frame(&mut self) -> Result<D::Frame, SendError> {
        loop {
            if let Some(frame) = self.progress().await? {
                return Ok(frame);
            }
        }
    }

    /// Reads, writes or waits until something has happened. Returns a frame if one is complete. It
    /// may be dropped at any point.
    pub(crate) async fn progress(&mut self) -> Result<Option<D::Frame>, SendError> {
        if let Some(frame) = self.decoder.next()? {
            return Ok(Some(frame));
        }
        self.decoder.buffer().reserve(READ_BYTES);
        let has_out = !self.out.is_empty();
        tokio::select! {
            read = self.reader.read_buf(self.decoder.buffer()) => {
                if read? == 0 {
                    return Err(SendError::Closed);
                }
                self.heard = Instant::now();
            }
            wrote = write(&mut self.writer, &mut self.out), if has_out => {
                wrote?;
                self.written = Instant::now();
            }
            () = sleep_until(self.written + self.beat_every), if !has_out => {
                self.out.extend_from_slice(D::BEAT);
            }
            () = sleep_until(self.heard + self.silence_max) => return Err(SendError::Silent(self.silence_max)),
        }
        self.decoder.next()
    }

    /// Writes what is left, and closes this side.
    pub(crate) async fn close(mut self) -> Result<(), SendError> {
        while !self.out.is_empty() {
            write(&mut self.writer, &mut self.out).await?;
        }
        Ok(self.writer.shutdown().await?)
    }
}

/// Writes some bytes. TLS holds them until it is flushed.
async fn write<Io: AsyncWrite>(writer: &mut WriteHalf<Io>, out: &mut BytesMut) -> std::io::Result<()> {
    if out.has_remaining() {
        writer.write_buf(out).await?;
    }
    writer.flush().await
}
