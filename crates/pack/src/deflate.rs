//! Compressing. libdeflate compresses whole texts: it is the fastest and makes the smallest streams
//! (see the benchmarks). flate2 compresses streams that continue from one text to the next, or must
//! end on a byte boundary, which libdeflate cannot do.

use flate2::{Compress, Compression, FlushCompress, Status};
use libdeflater::{CompressionLvl, Compressor};

use crate::FrameError;

/// Highest level in this crate.
const LEVEL_MAX: u8 = 9;

/// Compresses whole texts. The same text always gives the same bytes. It reuses its memory.
pub(crate) struct Deflater(Compressor);

impl Deflater {
    /// With a level from 0 (stored) to 9 (smallest). Higher levels count as 9.
    pub(crate) fn new(level: u8) -> Self {
        // libdeflate has levels from 0 to 12.
        let level = CompressionLvl::new(i32::from(level.min(LEVEL_MAX))).unwrap_or_default();
        Self(Compressor::new(level))
    }

    /// Replaces `output` by the DEFLATE stream of a text, which ends with a final block.
    pub(crate) fn deflate_into(&mut self, text: &[u8], output: &mut Vec<u8>) -> Result<(), FrameError> {
        output.clear();
        self.append(text, output)
    }

    /// Appends the DEFLATE stream of a text, which ends with a final block, to `output`.
    pub(crate) fn append(&mut self, text: &[u8], output: &mut Vec<u8>) -> Result<(), FrameError> {
        let from = output.len();
        output.resize(from + self.0.deflate_compress_bound(text.len()), 0);
        let written = self.0.deflate_compress(text, &mut output[from..]);
        output.truncate(from + *written.as_ref().unwrap_or(&0));
        written.map_err(|error| FrameError::Compress(error.to_string()))?;
        Ok(())
    }
}

/// A compressor for streams that continue.
pub(crate) fn stream_compressor(level: u8) -> Compress {
    // flate2 panics at higher levels.
    Compress::new(Compression::new(u32::from(level.min(LEVEL_MAX))), false)
}

/// Compresses all of `input` and appends it to `output`, as far as `flush` releases it.
pub(crate) fn append_deflated(
    compress: &mut Compress,
    input: &[u8],
    flush: FlushCompress,
    output: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let end = compress.total_in() + input.len() as u64;
    output.reserve(input.len() / 2 + 64);
    loop {
        let rest = input.len() - (end - compress.total_in()) as usize;
        let result = compress.compress_vec(&input[rest..], output, flush);
        let status = result.map_err(|error| FrameError::Compress(error.to_string()))?;
        // Room left over means that the compressor had nothing more to write.
        if status == Status::StreamEnd || (compress.total_in() == end && output.len() < output.capacity()) {
            return Ok(());
        }
        output.reserve(output.len().max(64));
    }
}
