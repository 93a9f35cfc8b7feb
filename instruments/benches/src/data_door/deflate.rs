//! DEFLATE libraries behind one trait, each making a raw stream of one text.

use anyhow::{Context, Result, anyhow, ensure};
use flate2::{Compress, Compression, FlushCompress, Status};
use libdeflater::{CompressionLvl, Compressor};

/// Space that DEFLATE may need beyond the text, at any level and in any of the libraries.
const ROOM_BYTES: usize = 256;

/// A library at one level.
pub trait Deflate {
    /// Makes a raw DEFLATE stream (RFC 1951) of a text.
    fn deflate(&mut self, text: &[u8]) -> Result<&[u8]>;
}

/// flate2 with the backend that the workspace chose. Penates uses it for streams that continue.
pub struct Flate2 {
    compress: Compress,
    out: Vec<u8>,
}

impl Flate2 {
    /// At a level from 0 to 9.
    pub fn new(level: u8) -> Self {
        Self { compress: Compress::new(Compression::new(level.into()), false), out: Vec::new() }
    }
}

impl Deflate for Flate2 {
    fn deflate(&mut self, text: &[u8]) -> Result<&[u8]> {
        self.compress.reset();
        self.out.clear();
        self.out.reserve(room(text));
        let status = self.compress.compress_vec(text, &mut self.out, FlushCompress::Finish)?;
        ensure!(status == Status::StreamEnd, "flate2 wants more room than {}", room(text));
        Ok(&self.out)
    }
}

/// zlib-rs without flate2.
pub struct ZlibRs {
    deflate: zlib_rs::Deflate,
    out: Vec<u8>,
}

impl ZlibRs {
    /// At a level from 0 to 9.
    pub fn new(level: u8) -> Self {
        Self { deflate: zlib_rs::Deflate::new(level.into(), false, 15), out: Vec::new() }
    }
}

impl Deflate for ZlibRs {
    fn deflate(&mut self, text: &[u8]) -> Result<&[u8]> {
        self.deflate.reset();
        self.out.resize(room(text), 0);
        let status = self.deflate.compress(text, &mut self.out, zlib_rs::DeflateFlush::Finish);
        let status = status.map_err(|error| anyhow!("zlib-rs: {}", error.as_str()))?;
        ensure!(status == zlib_rs::Status::StreamEnd, "zlib-rs wants more room than {}", room(text));
        Ok(&self.out[..usize::try_from(self.deflate.total_out())?])
    }
}

/// libdeflate: whole buffers only, no flush. Penates uses it for frames and for the layout `pages`.
pub struct Libdeflate {
    compressor: Compressor,
    out: Vec<u8>,
}

impl Libdeflate {
    /// At a level from 0 to 12.
    pub fn new(level: u8) -> Result<Self> {
        let level = CompressionLvl::new(level.into()).map_err(|_| anyhow!("libdeflate has no level {level}"))?;
        Ok(Self { compressor: Compressor::new(level), out: Vec::new() })
    }
}

impl Deflate for Libdeflate {
    fn deflate(&mut self, text: &[u8]) -> Result<&[u8]> {
        self.out.resize(room(text), 0);
        let bytes = self.compressor.deflate_compress(text, &mut self.out)?;
        self.out.get(..bytes).context("libdeflate made more than it had room for")
    }
}

/// Enough space for any text.
fn room(text: &[u8]) -> usize {
    text.len() + text.len() / 8 + ROOM_BYTES
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read;

    use super::*;

    #[test]
    fn every_library_makes_streams_of_any_text_that_read_back() {
        let noise: Vec<u8> = (0..5_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let texts: [&[u8]; 4] = [b"", b"a", &b"page ".repeat(900), &noise];
        for level in [0, 1, 6, 9] {
            let libraries: [Box<dyn Deflate>; 3] =
                [Box::new(Flate2::new(level)), Box::new(ZlibRs::new(level)), Box::new(Libdeflate::new(level).unwrap())];
            for (index, mut library) in libraries.into_iter().enumerate() {
                for text in texts {
                    let mut back = Vec::new();
                    let stream = library.deflate(text).unwrap();
                    flate2::read::DeflateDecoder::new(stream).read_to_end(&mut back).unwrap();
                    assert!(back == text, "library {index}, level {level}, {} bytes", text.len());
                }
            }
        }
    }
}
