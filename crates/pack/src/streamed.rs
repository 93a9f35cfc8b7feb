//! Archives whose entries are written as they arrive, of any number and length. Each entry is
//! compressed while it is sent, with a data descriptor after it. The caller chooses where to keep
//! the central directory, for example in a temporary file.

use std::io::{self, Read, Seek, Write};

use bytes::{Bytes, BytesMut};
use flate2::{Compress, FlushCompress};

use crate::deflate::{append_deflated, stream_compressor};
use crate::entry::{End, EntryHeader, Sink, Sizes};

use crate::spec::{LIMIT32, MAX_NAME_BYTES};

/// DEFLATE level of the entries, which are made for one download.
const LEVEL: u8 = 1;

/// Bytes of the central directory that are read back at a time.
const CENTRAL_PIECE_BYTES: usize = 64 << 10;

/// How much longer than its content an entry may become: DEFLATE adds at most five bytes per stored
/// block of 64 KiB.
const GROWTH: u64 = 1_000;

/// Writes an archive. Calls of [`StreamedZip::begin`], [`StreamedZip::write`] and
/// [`StreamedZip::end`] make an entry. The caller may take written bytes at any time.
pub struct StreamedZip<C> {
    ready: BytesMut,
    /// Bytes written so far, taken or not.
    written: u64,
    entries: u64,
    central: C,
    central_len: u64,
    open: Option<Open>,
}

/// The entry that is being written.
struct Open {
    name: Box<str>,
    at: u64,
    entry: EntryHeader,
    compress: Compress,
    crc32: crc32fast::Hasher,
}

impl<C: Read + Write + Seek> StreamedZip<C> {
    /// An archive without entries. `central` is empty and receives the records of the central
    /// directory.
    pub fn new(central: C) -> Self {
        Self { ready: BytesMut::new(), written: 0, entries: 0, central, central_len: 0, open: None }
    }

    /// Adds a directory. Its name ends with a slash.
    pub fn directory(&mut self, name: &str) -> io::Result<()> {
        check(name)?;
        let (entry, at) = (EntryHeader::directory(name.as_bytes()), self.written);
        let before = self.ready.len();
        entry.put_local(&mut self.ready, name.as_bytes());
        self.count_from(before);
        self.keep(&entry, name, at)
    }

    /// Begins an entry of at most `size_max` bytes.
    pub fn begin(&mut self, name: &str, size_max: u64) -> io::Result<()> {
        check(name)?;
        if self.open.is_some() {
            return Err(io::Error::other("the entry before was not ended"));
        }
        let zip64 = size_max.saturating_add(size_max / GROWTH) >= LIMIT32;
        let sizes = Sizes::Described { zip64 };
        let entry = EntryHeader { directory: false, utf8: !name.is_ascii(), size: 0, compressed: 0, crc32: 0, sizes };
        let (at, before) = (self.written, self.ready.len());
        entry.put_local(&mut self.ready, name.as_bytes());
        self.count_from(before);
        let compress = stream_compressor(LEVEL);
        self.open = Some(Open { name: name.into(), at, entry, compress, crc32: crc32fast::Hasher::new() });
        Ok(())
    }

    /// Adds to the open entry.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.deflate(bytes, FlushCompress::None)
    }

    /// Ends the open entry.
    pub fn end(&mut self) -> io::Result<()> {
        self.deflate(&[], FlushCompress::Finish)?;
        let Some(Open { name, at, mut entry, crc32, .. }) = self.open.take() else { return Ok(()) };
        entry.crc32 = crc32.finalize();
        let before = self.ready.len();
        entry.put_descriptor(&mut self.ready);
        self.count_from(before);
        self.keep(&entry, &name, at)
    }

    fn deflate(&mut self, bytes: &[u8], flush: FlushCompress) -> io::Result<()> {
        let open = self.open.as_mut().ok_or_else(|| io::Error::other("no entry is open"))?;
        open.crc32.update(bytes);
        let mut compressed = Vec::new();
        append_deflated(&mut open.compress, bytes, flush, &mut compressed).map_err(io::Error::other)?;
        open.entry.size += bytes.len() as u64;
        open.entry.compressed += compressed.len() as u64;
        self.ready.put(&compressed);
        self.written += compressed.len() as u64;
        Ok(())
    }

    fn count_from(&mut self, before: usize) {
        self.written += (self.ready.len() - before) as u64;
    }

    fn keep(&mut self, entry: &EntryHeader, name: &str, at: u64) -> io::Result<()> {
        let mut record = Vec::new();
        entry.put_central(&mut record, name.as_bytes(), at);
        self.central_len += record.len() as u64;
        self.entries += 1;
        self.central.write_all(&record)
    }

    /// Number of bytes that can be taken.
    pub fn ready_bytes(&self) -> usize {
        self.ready.len()
    }

    /// Takes the bytes written since the last call.
    pub fn take(&mut self) -> Bytes {
        self.ready.split().freeze()
    }

    /// Ends the archive and returns the rest after the last entry, in pieces.
    pub fn finish(mut self) -> io::Result<impl Iterator<Item = io::Result<Bytes>> + use<C>> {
        let end = End { entries: self.entries, central_at: self.written, central_len: self.central_len };
        self.central.rewind()?;
        let first = Some(self.take()).filter(|rest| !rest.is_empty());
        let mut left = usize::try_from(self.central_len).unwrap_or(usize::MAX);
        let central = std::iter::from_fn(move || {
            let mut piece = vec![0; left.min(CENTRAL_PIECE_BYTES)];
            left -= piece.len();
            (!piece.is_empty()).then(|| self.central.read_exact(&mut piece).map(|()| Bytes::from(piece)))
        });
        let mut last = BytesMut::new();
        end.put(&mut last);
        Ok(first.map(Ok).into_iter().chain(central).chain([Ok(last.freeze())]))
    }
}

fn check(name: &str) -> io::Result<()> {
    match name.len() > MAX_NAME_BYTES {
        true => Err(io::Error::other(format!("an entry name of {} bytes is too long", name.len()))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Cursor;

    use super::*;

    fn archive(entries: &[(&str, Vec<Vec<u8>>)]) -> Vec<u8> {
        let mut zip = StreamedZip::new(Cursor::new(Vec::new()));
        let mut archive = Vec::new();
        for (name, pieces) in entries {
            if name.ends_with('/') {
                zip.directory(name).unwrap();
                continue;
            }
            zip.begin(name, pieces.iter().map(|piece| piece.len() as u64).sum()).unwrap();
            for piece in pieces {
                zip.write(piece).unwrap();
                archive.extend_from_slice(&zip.take());
            }
            zip.end().unwrap();
        }
        zip.finish().unwrap().for_each(|piece| archive.extend_from_slice(&piece.unwrap()));
        archive
    }

    #[test]
    fn an_archive_written_in_pieces_reads_back_entry_by_entry() {
        let noise: Vec<u8> = (0..200_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let entries = [
            ("a/", Vec::new()),
            ("a/empty", Vec::new()),
            ("a/text", vec![b"It was the best of times, ".repeat(100), b"it was".to_vec()]),
            ("a/\u{fc}", vec![noise.clone(), noise]),
        ];
        let archive = archive(&entries);
        let mut read = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
        assert_eq!(read.len(), entries.len());
        for (index, (name, pieces)) in entries.iter().enumerate() {
            let mut entry = read.by_index(index).unwrap();
            assert_eq!(entry.name().unwrap(), *name);
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            assert_eq!(content, pieces.concat(), "{name}");
        }
    }

    #[test]
    fn a_central_directory_of_many_pieces_is_whole() {
        let names: Vec<_> = (0..3_000).map(|n| format!("a-name-of-some-length/{n:08}")).collect();
        let entries: Vec<_> = names.iter().map(|name| (name.as_str(), vec![name.clone().into_bytes()])).collect();
        let mut read = zip::ZipArchive::new(Cursor::new(archive(&entries))).unwrap();
        assert_eq!(read.len(), 3_000);
        let mut last = String::new();
        read.by_name(&names[2_999]).unwrap().read_to_string(&mut last).unwrap();
        assert_eq!(last, names[2_999]);
    }

    #[test]
    fn an_entry_that_may_reach_4_gib_has_zip64_from_the_start() {
        let header = |size_max| {
            let mut zip = StreamedZip::new(Cursor::new(Vec::new()));
            zip.begin("a", size_max).unwrap();
            zip.take().len()
        };
        assert_eq!(header(LIMIT32) - header(1), 20);
    }
}
