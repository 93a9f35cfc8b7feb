//! A client that unpacks while it receives: it inflates every entry, checks CRC-32 and sizes, and
//! forgets the text.
//!
//! It reads local headers only (APPNOTE 4.3.7), as with a stream it must. It supports what the data
//! door sends: directories, and DEFLATE with the sizes in the header or in a data descriptor.
//! Entries of 4 GiB are refused.

use anyhow::{Result, bail, ensure};
use flate2::{Decompress, FlushDecompress, Status};
use pack::spec;

/// Bytes of text per step.
const TEXT_BYTES: usize = 64 << 10;

/// The contents of a ZIP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Contents {
    /// Bytes of the whole ZIP.
    pub zip_bytes: u64,
    /// Entries, directories included.
    pub entries: u64,
    /// Bytes of all entries, inflated.
    pub text_bytes: u64,
    /// Bytes of the DEFLATE streams of all entries, without headers, descriptors and directory.
    pub deflate_bytes: u64,
}

/// Unpacks one ZIP.
pub struct Unpacker {
    contents: Contents,
    state: State,
    /// The received bytes of an incomplete header or descriptor.
    held: Vec<u8>,
    inflater: Decompress,
    text: Vec<u8>,
}

#[derive(Clone, Copy)]
enum State {
    /// At a signature, or in the fields after it.
    Header,
    /// Within the DEFLATE stream of an entry.
    Stream(Entry),
    /// After it, at sizes and CRC.
    Descriptor(Entry),
    /// In the central directory, which contains nothing new.
    Central,
}

/// An entry, as far as it is known.
#[derive(Clone, Copy)]
struct Entry {
    /// As stated in the header; zeros if a descriptor follows.
    stated: Told,
    described: bool,
    crc32: u32,
}

/// CRC-32 and sizes in a header or a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    crc32: u32,
    deflate_bytes: u32,
    text_bytes: u32,
}

impl Told {
    /// Decodes its twelve bytes.
    fn of(bytes: &[u8]) -> Self {
        Self { crc32: u32_at(bytes, 0), deflate_bytes: u32_at(bytes, 4), text_bytes: u32_at(bytes, 8) }
    }
}

impl Default for Unpacker {
    fn default() -> Self {
        let (inflater, text) = (Decompress::new(false), Vec::with_capacity(TEXT_BYTES));
        Self { contents: Contents::default(), state: State::Header, held: Vec::new(), inflater, text }
    }
}

impl Unpacker {
    /// Takes the next bytes of the ZIP.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.contents.zip_bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Header => self.header(bytes)?,
                State::Stream(entry) => self.stream(entry, bytes)?,
                State::Descriptor(entry) => self.descriptor(entry, bytes)?,
                State::Central => return Ok(()),
            };
        }
        Ok(())
    }

    /// Ends the ZIP. Returns its contents.
    pub fn end(self) -> Result<Contents> {
        ensure!(matches!(self.state, State::Central), "the ZIP ends before its central directory");
        Ok(self.contents)
    }

    /// Holds bytes until there are `wanted` of them. Returns the rest, and whether there are
    /// enough.
    fn gather<'a>(&mut self, wanted: usize, bytes: &'a [u8]) -> (&'a [u8], bool) {
        let missing = wanted.saturating_sub(self.held.len()).min(bytes.len());
        self.held.extend_from_slice(&bytes[..missing]);
        (&bytes[missing..], self.held.len() >= wanted)
    }

    fn header<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let (bytes, there) = self.gather(4, bytes);
        if !there {
            return Ok(bytes);
        }
        match u32_at(&self.held, 0) {
            spec::LOCAL_SIGNATURE => {}
            spec::CENTRAL_SIGNATURE | spec::END_SIGNATURE => {
                self.state = State::Central;
                return Ok(bytes);
            }
            other => bail!("{other:08x} is not the signature of a header"),
        }
        let (bytes, there) = self.gather(spec::LOCAL_BYTES, bytes);
        if !there {
            return Ok(bytes);
        }
        let (name_bytes, extra_bytes) = (u16_at(&self.held, 26), u16_at(&self.held, 28));
        ensure!(extra_bytes == 0, "an entry has an extra field, as those of 4 GiB do");
        let (bytes, there) = self.gather(spec::LOCAL_BYTES + usize::from(name_bytes), bytes);
        if there {
            let described = u16_at(&self.held, 6) & spec::FLAG_DESCRIPTOR != 0;
            let entry = Entry { stated: Told::of(&self.held[14..]), described, crc32: 0 };
            self.state = match u16_at(&self.held, 8) {
                spec::METHOD_DEFLATE => State::Stream(entry),
                spec::METHOD_STORED if entry.stated.text_bytes == 0 => State::Header,
                method => bail!("an entry has method {method}"),
            };
            self.contents.entries += 1;
            self.inflater.reset(false);
            self.held.clear();
        }
        Ok(bytes)
    }

    fn stream<'a>(&mut self, mut entry: Entry, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let before = self.inflater.total_in();
        self.text.clear();
        let status = self.inflater.decompress_vec(bytes, &mut self.text, FlushDecompress::None)?;
        entry.crc32 = continued(entry.crc32, &self.text, self.inflater.total_out());
        let rest = &bytes[(self.inflater.total_in() - before) as usize..];
        ensure!(
            status != Status::BufError || !self.text.is_empty() || rest.len() < bytes.len(),
            "an entry cannot be inflated"
        );
        self.state = State::Stream(entry);
        if status == Status::StreamEnd {
            self.contents.text_bytes += self.inflater.total_out();
            self.contents.deflate_bytes += self.inflater.total_in();
            self.state = if entry.described { State::Descriptor(entry) } else { self.ended(entry, entry.stated)? };
        }
        Ok(rest)
    }

    fn descriptor<'a>(&mut self, entry: Entry, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let (bytes, there) = self.gather(spec::DESCRIPTOR_BYTES, bytes);
        if there {
            ensure!(u32_at(&self.held, 0) == spec::DESCRIPTOR_SIGNATURE, "an entry's data descriptor is missing");
            self.state = self.ended(entry, Told::of(&self.held[4..]))?;
            self.held.clear();
        }
        Ok(bytes)
    }

    fn ended(&self, entry: Entry, stated: Told) -> Result<State> {
        let found = Told {
            crc32: entry.crc32,
            deflate_bytes: u32::try_from(self.inflater.total_in())?,
            text_bytes: u32::try_from(self.inflater.total_out())?,
        };
        ensure!(found == stated, "an entry is {found:?}, but its header says {stated:?}");
        Ok(State::Header)
    }
}

/// The CRC-32 of a text of `total_bytes` that ends with `more`, given the `crc32` of what comes
/// before.
fn continued(crc32: u32, more: &[u8], total_bytes: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial_len(crc32, total_bytes - more.len() as u64);
    hasher.update(more);
    hasher.finalize()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use futures::TryStreamExt;
    use pack::memory::{MemorySource, MemoryVolume};
    use pack::{Archive, Framer, Layout, Level};

    use super::*;

    const TEXTS: [&str; 4] = ["", "a page", "It was the best of times, it was the worst of times.", "x"];

    async fn zip(layout: Layout, level: Level) -> Vec<u8> {
        let mut framer = Framer::new(6);
        let pages = (1..).zip(TEXTS).map(|(seq, text)| (seq, framer.frame(text.as_bytes()).unwrap())).collect();
        let volume = MemoryVolume { name: "uc2.x".into(), pages, selected: None, mets: None };
        let source = Arc::new(MemorySource::new(vec![volume.clone(), volume]));
        let archive = Archive { layout, level, groups: source.groups(), errors: None, descriptors: false };
        let pieces = pack::stream(Arc::new(archive), source, pack::WHOLE).try_collect::<Vec<_>>();
        pieces.await.unwrap().concat()
    }

    fn unpack(zip: &[u8], piece_bytes: usize) -> Result<Contents> {
        let mut unpacker = Unpacker::default();
        zip.chunks(piece_bytes).try_for_each(|piece| unpacker.take(piece))?;
        unpacker.end()
    }

    #[tokio::test]
    async fn every_layout_at_every_level_unpacks_in_any_pieces() {
        let text_bytes = 2 * TEXTS.iter().map(|text| text.len() as u64).sum::<u64>();
        for (layout, entries) in [(Layout::Pages, 10), (Layout::Volumes, 2), (Layout::WordSeq, 1)] {
            for level in [Level::Frames, Level::Stored, Level::Recompressed(1), Level::Recompressed(9)] {
                let zip = zip(layout, level).await;
                for piece_bytes in [1, 7, zip.len()] {
                    let contents = unpack(&zip, piece_bytes).unwrap();
                    assert_eq!((contents.entries, contents.text_bytes), (entries, text_bytes), "{layout:?} {level:?}");
                    assert_eq!(contents.zip_bytes, zip.len() as u64);
                    assert!(contents.deflate_bytes < contents.zip_bytes);
                }
            }
        }
    }

    fn position(zip: &[u8], of: &[u8]) -> usize {
        zip.windows(of.len()).position(|window| window == of).unwrap()
    }

    #[tokio::test]
    async fn a_changed_byte_of_text_is_detected() {
        let mut zip = zip(Layout::Volumes, Level::Stored).await;
        let at = position(&zip, b"best of times");
        zip[at] = b'B';
        assert!(unpack(&zip, 64).is_err());
    }

    #[tokio::test]
    async fn a_descriptor_that_contradicts_its_entry_is_detected() {
        let mut zip = zip(Layout::Volumes, Level::Recompressed(6)).await;
        let at = position(&zip, &spec::DESCRIPTOR_SIGNATURE.to_le_bytes());
        zip[at + 4] ^= 1;
        assert!(unpack(&zip, 64).is_err());
    }

    #[tokio::test]
    async fn a_truncated_zip_is_detected() {
        let zip = zip(Layout::Pages, Level::Frames).await;
        assert!(unpack(&zip[..zip.len() / 3], 64).is_err());
    }
}
