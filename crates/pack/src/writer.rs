//! Small archives whose entries are made one after the other, such as token counts.

use crate::deflate::Deflater;
use crate::entry::{End, EntryHeader, Sink, Sizes};
use crate::frame::{FRAME_END, Frame, FrameError, MAX_TEXT_BYTES};
use crate::spec::{CENTRAL_BYTES, MAX_NAME_BYTES};
use bytes::{Bytes, BytesMut};

/// DEFLATE level of entries that are made on the fly.
const LEVEL: u8 = 6;

/// Why an entry cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ZipEntryError {
    /// The name is too long for the format.
    #[error("an entry name of {bytes} bytes is too long")]
    Name {
        /// Length of the name.
        bytes: usize,
    },
    /// The text cannot be compressed.
    #[error(transparent)]
    Text(#[from] FrameError),
}

/// A finished entry, ready to be added to a [`ZipWriter`]; it can be made on any thread.
#[derive(Clone, Debug)]
pub struct ZipEntry {
    name: Box<str>,
    entry: EntryHeader,
    content: Bytes,
}

impl ZipEntry {
    /// Bytes of its compressed content.
    pub fn len_bytes(&self) -> usize {
        self.content.len()
    }

    /// An entry of a text, compressed now.
    pub fn deflated(name: impl Into<Box<str>>, text: &[u8]) -> Result<Self, ZipEntryError> {
        if text.len() > MAX_TEXT_BYTES as usize {
            return Err(FrameError::TooLong { bytes: text.len() }.into());
        }
        let mut content = Vec::new();
        Deflater::new(LEVEL).deflate_into(text, &mut content)?;
        Self::new(name.into(), text.len() as u64, crc32fast::hash(text), content.into())
    }

    /// An entry of an unchanged frame.
    pub fn framed(name: impl Into<Box<str>>, frame: &Frame) -> Result<Self, ZipEntryError> {
        let content = [&frame.bytes[..], &FRAME_END].concat();
        Self::new(name.into(), u64::from(frame.size), frame.crc32, content.into())
    }

    fn new(name: Box<str>, size: u64, crc32: u32, content: Bytes) -> Result<Self, ZipEntryError> {
        if name.len() > MAX_NAME_BYTES {
            return Err(ZipEntryError::Name { bytes: name.len() });
        }
        let (utf8, compressed) = (!name.is_ascii(), content.len() as u64);
        Ok(Self {
            name,
            entry: EntryHeader { directory: false, utf8, size, compressed, crc32, sizes: Sizes::Ahead },
            content,
        })
    }
}

/// Writes an archive entry by entry. The caller may take written bytes at any time. The central
/// directory stays in memory until the end ([`ZipWriter::ENTRY_BYTES_MAX`] and its name per entry),
/// so this is not for millions of entries.
#[derive(Debug)]
pub struct ZipWriter {
    ready: BytesMut,
    written: u64,
    entries: u64,
    central: Vec<u8>,
}

impl ZipWriter {
    /// The most bytes of an entry in the central directory besides its name: its record, and an
    /// extra field with three numbers of 8 bytes (APPNOTE 4.3.12 and 4.5.3).
    pub const ENTRY_BYTES_MAX: usize = CENTRAL_BYTES + 4 + 3 * 8;

    /// An archive without entries, with room for a central directory of this length.
    pub fn new(directory_bytes: usize) -> Self {
        Self { ready: BytesMut::new(), written: 0, entries: 0, central: Vec::with_capacity(directory_bytes) }
    }

    /// Adds an entry.
    pub fn add(&mut self, added: &ZipEntry) {
        let name = added.name.as_bytes();
        added.entry.put_central(&mut self.central, name, self.written);
        added.entry.put_local(&mut self.ready, name);
        self.ready.put(&added.content);
        self.written += added.entry.len(name.len());
        self.entries += 1;
    }

    /// Takes what was written since the last call.
    pub fn take(&mut self) -> Bytes {
        self.ready.split().freeze()
    }

    /// Ends the archive and returns, in this order, what was not taken yet, the central directory
    /// and what is behind it. The directory is not copied.
    pub fn finish(self) -> [Bytes; 3] {
        let end = End { entries: self.entries, central_at: self.written, central_len: self.central.len() as u64 };
        let mut behind = BytesMut::new();
        end.put(&mut behind);
        [self.ready.freeze(), self.central.into(), behind.freeze()]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Cursor, Read};

    #[test]
    fn an_archive_taken_in_pieces_reads_back_entry_by_entry() {
        let mut writer = ZipWriter::new(0);
        let mut archive = Vec::new();
        let texts = [("a.count", "the 3\nof 2\n".repeat(500)), ("ü/00000001.count", String::new())];
        for (name, text) in &texts {
            writer.add(&ZipEntry::deflated(*name, text.as_bytes()).unwrap());
            archive.extend_from_slice(&writer.take());
        }
        let frame = crate::Framer::new(6).frame(b"framed").unwrap();
        writer.add(&ZipEntry::framed("framed", &frame).unwrap());
        archive.extend(writer.finish().concat());

        let mut zip = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
        let expected = texts.iter().map(|(name, text)| (*name, text.as_str())).chain([("framed", "framed")]);
        for (index, (name, text)) in expected.enumerate() {
            let mut entry = zip.by_index(index).unwrap();
            let mut read = String::new();
            entry.read_to_string(&mut read).unwrap();
            assert_eq!((entry.name().unwrap().as_ref(), read.as_str()), (name, text));
        }
        assert_eq!(zip.len(), 3);
    }

    #[test]
    fn a_name_that_is_too_long_for_the_format_is_refused() {
        let refused = ZipEntry::deflated("x".repeat(65_001), b"");
        assert!(matches!(refused, Err(ZipEntryError::Name { bytes: 65_001 })));
    }
}
