//! Bytes to and from a broker, and signs of life in both directions.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until};

use crate::error::SendError;

/// Bytes that are read at once, about.
const READ_BYTES: usize = 8 << 10;

/// Bytes that wait to be written, at most, before nothing more is read: what is read may have to be
/// answered.
const OUT_BYTES_MAX: usize = 1 << 20;

/// How long the broker may take nothing of what is to be written.
const STALL_MAX: Duration = Duration::from_secs(30);

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
    fn next_frame(&mut self) -> Result<Option<Self::Frame>, SendError>;
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
    /// Whether TLS may hold what was written.
    needs_flush: bool,
    /// Since when something waits to be written, and nothing was; `None`: nothing waits, as far as
    /// the last look at it shows.
    stalled: Option<Instant>,
    /// The longest time in which the broker may send nothing.
    silence_max: Duration,
    heard: Instant,
}

impl<Io: AsyncRead + AsyncWrite, D: Decode> Wire<Io, D> {
    pub(crate) fn new(stream: Io) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let (decoder, out, now) = (D::default(), BytesMut::new(), Instant::now());
        Self {
            reader,
            writer,
            decoder,
            out,
            beat_every: NEVER,
            written: now,
            needs_flush: false,
            stalled: None,
            silence_max: NEVER,
            heard: now,
        }
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
        if let Some(frame) = self.decoder.next_frame()? {
            return Ok(Some(frame));
        }
        let has_out = !self.out.is_empty() || self.needs_flush;
        // What waits now may have been added long after the last look.
        let now = Instant::now();
        self.stalled = if has_out { self.stalled.or(Some(now)) } else { None };
        let stalled = self.stalled.unwrap_or(now);
        let may_read = self.out.len() < OUT_BYTES_MAX;
        if may_read {
            self.decoder.buffer().reserve(READ_BYTES);
        }
        tokio::select! {
            read = self.reader.read_buf(self.decoder.buffer()), if may_read => {
                if read? == 0 {
                    return Err(SendError::Closed);
                }
                self.heard = Instant::now();
            }
            wrote = write(&mut self.writer, &mut self.out, &mut self.needs_flush), if has_out => {
                wrote?;
                self.written = Instant::now();
                self.stalled = None;
            }
            () = sleep_until(self.written + self.beat_every), if !has_out => {
                self.out.extend_from_slice(D::BEAT);
            }
            () = sleep_until(stalled + STALL_MAX), if has_out => return Err(SendError::Stalled(STALL_MAX)),
            () = sleep_until(self.heard + self.silence_max) => return Err(SendError::Silent(self.silence_max)),
        }
        self.decoder.next_frame()
    }

    /// Writes what is left, and closes this side.
    pub(crate) async fn close(mut self) -> Result<(), SendError> {
        while !self.out.is_empty() || self.needs_flush {
            write(&mut self.writer, &mut self.out, &mut self.needs_flush).await?;
        }
        Ok(self.writer.shutdown().await?)
    }
}

/// Writes some bytes, and flushes once none is left: TLS holds them until then. It may be dropped at
/// any point and called again.
async fn write<Io: AsyncWrite>(
    writer: &mut WriteHalf<Io>,
    out: &mut BytesMut,
    needs_flush: &mut bool,
) -> std::io::Result<()> {
    if out.has_remaining() {
        writer.write_buf(out).await?;
        *needs_flush = true;
    }
    if !out.has_remaining() {
        writer.flush().await?;
        *needs_flush = false;
    }
    Ok(())
}
