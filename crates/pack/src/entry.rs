//! Single records of the ZIP format (APPNOTE 4.3): local headers, data descriptors, the central
//! directory and its end.

use crate::spec::*;

/// Something that bytes are appended to.
pub(crate) trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for bytes::BytesMut {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Where an entry has its sizes and CRC, besides the central directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// In the local header.
    Ahead,
    /// In a data descriptor after the content. With `zip64` its sizes have 8 bytes, and a ZIP64
    /// extra field in the local header says so (4.3.9.2). This is decided before the content is
    /// known, by the length of the text: streaming readers expect 8 bytes from 4 GiB on.
    Described { zip64: bool },
}

/// What the records of an entry say about it, except its name and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryHeader {
    pub(crate) directory: bool,
    pub(crate) utf8: bool,
    /// Bytes of the text.
    pub(crate) size: u64,
    /// Bytes of the entry's content.
    pub(crate) compressed: u64,
    pub(crate) crc32: u32,
    pub(crate) sizes: Sizes,
}

/// A ZIP64 extra field of up to three values (4.5.3).
struct Extra {
    bytes: [u8; 28],
    len: usize,
}

impl Extra {
    fn new(values: impl IntoIterator<Item = u64>) -> Self {
        let mut extra = Self { bytes: [0; 28], len: 0 };
        for value in values {
            let at = extra.len.max(4);
            extra.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            extra.len = at + 8;
        }
        if extra.len > 0 {
            extra.bytes[0..2].copy_from_slice(&ZIP64_TAG.to_le_bytes());
            extra.bytes[2..4].copy_from_slice(&((extra.len - 4) as u16).to_le_bytes());
        }
        extra
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Writes numbers one after the other into a record of fixed length. It is always inlined, which
/// leaves a few stores: every page has two records.
struct Record<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Record<N> {
    #[inline(always)]
    fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }

    #[inline(always)]
    fn put<const M: usize>(&mut self, value: [u8; M]) -> &mut Self {
        self.bytes[self.at..self.at + M].copy_from_slice(&value);
        self.at += M;
        self
    }

    #[inline(always)]
    fn u16(&mut self, value: u16) -> &mut Self {
        self.put(value.to_le_bytes())
    }

    #[inline(always)]
    fn u32(&mut self, value: u32) -> &mut Self {
        self.put(value.to_le_bytes())
    }

    #[inline(always)]
    fn u64(&mut self, value: u64) -> &mut Self {
        self.put(value.to_le_bytes())
    }

    #[inline(always)]
    fn finish(&self) -> &[u8; N] {
        debug_assert_eq!(self.at, N);
        &self.bytes
    }
}

/// A value in its 32-bit field, or the mark that the ZIP64 extra field has it.
fn field32(value: u64) -> u32 {
    value.min(LIMIT32) as u32
}

impl EntryHeader {
    /// A directory: no content.
    pub(crate) fn directory(name: &[u8]) -> Self {
        Self { directory: true, utf8: !name.is_ascii(), size: 0, compressed: 0, crc32: 0, sizes: Sizes::Ahead }
    }

    /// Whether the local header has a ZIP64 extra field.
    fn local_zip64(&self) -> bool {
        match self.sizes {
            Sizes::Ahead => self.size >= LIMIT32 || self.compressed >= LIMIT32,
            Sizes::Described { zip64 } => zip64,
        }
    }

    fn flags(&self) -> u16 {
        let descriptor = if self.sizes == Sizes::Ahead { 0 } else { FLAG_DESCRIPTOR };
        descriptor | if self.utf8 { FLAG_UTF8 } else { 0 }
    }

    fn method(&self) -> u16 {
        if self.directory { METHOD_STORED } else { METHOD_DEFLATE }
    }

    /// Length in bytes of the local header.
    pub(crate) fn local_len(&self, name_len: usize) -> u64 {
        (LOCAL_BYTES + name_len + if self.local_zip64() { 20 } else { 0 }) as u64
    }

    /// Length in bytes of the data descriptor, 0 if there is none.
    pub(crate) fn descriptor_len(&self) -> u64 {
        match self.sizes {
            Sizes::Ahead => 0,
            Sizes::Described { zip64: false } => DESCRIPTOR_BYTES as u64,
            Sizes::Described { zip64: true } => DESCRIPTOR64_BYTES as u64,
        }
    }

    /// Length in bytes of local header, content and descriptor.
    pub(crate) fn len(&self, name_len: usize) -> u64 {
        self.local_len(name_len) + self.compressed + self.descriptor_len()
    }

    /// Length in bytes of the central directory's record of the entry at this offset.
    pub(crate) fn central_len(&self, name_len: usize, offset: u64) -> u64 {
        (CENTRAL_BYTES + name_len + self.central_extra(offset).len) as u64
    }

    fn central_extra(&self, offset: u64) -> Extra {
        Extra::new([self.size, self.compressed, offset].into_iter().filter(|&value| value >= LIMIT32))
    }

    /// Writes the local file header (4.3.7).
    pub(crate) fn put_local(&self, out: &mut impl Sink, name: &[u8]) {
        let zip64 = self.local_zip64();
        let (crc32, size, compressed) = match self.sizes {
            Sizes::Ahead => (self.crc32, self.size, self.compressed),
            Sizes::Described { .. } => (0, 0, 0),
        };
        // The local ZIP64 field must hold both sizes (4.5.3), and so both are marked.
        let (size32, compressed32) = if zip64 { (u32::MAX, u32::MAX) } else { (size as u32, compressed as u32) };
        let mut record = Record::<LOCAL_BYTES>::new();
        let header = record
            .u32(LOCAL_SIGNATURE)
            .u16(if zip64 { VERSION_ZIP64 } else { VERSION_DEFLATE })
            .u16(self.flags())
            .u16(self.method())
            .u16(0)
            .u16(DOS_DATE)
            .u32(crc32)
            .u32(compressed32)
            .u32(size32)
            .u16(name.len() as u16)
            .u16(if zip64 { 20 } else { 0 });
        out.put(header.finish());
        out.put(name);
        if zip64 {
            out.put(Extra::new([size, compressed]).as_slice());
        }
    }

    /// Writes the data descriptor (4.3.9), if there is one.
    pub(crate) fn put_descriptor(&self, out: &mut impl Sink) {
        match self.sizes {
            Sizes::Ahead => {}
            Sizes::Described { zip64: false } => {
                let mut record = Record::<DESCRIPTOR_BYTES>::new();
                let record = record.u32(DESCRIPTOR_SIGNATURE).u32(self.crc32);
                out.put(record.u32(self.compressed as u32).u32(self.size as u32).finish());
            }
            Sizes::Described { zip64: true } => {
                let mut record = Record::<DESCRIPTOR64_BYTES>::new();
                let record = record.u32(DESCRIPTOR_SIGNATURE).u32(self.crc32);
                out.put(record.u64(self.compressed).u64(self.size).finish());
            }
        }
    }

    /// Writes the central directory's record (4.3.12) of the entry at this offset.
    pub(crate) fn put_central(&self, out: &mut impl Sink, name: &[u8], offset: u64) {
        let extra = self.central_extra(offset);
        let zip64 = extra.len > 0 || self.local_zip64();
        let mut record = Record::<CENTRAL_BYTES>::new();
        let header = record
            .u32(CENTRAL_SIGNATURE)
            .u16(MADE_BY)
            .u16(if zip64 { VERSION_ZIP64 } else { VERSION_DEFLATE })
            .u16(self.flags())
            .u16(self.method())
            .u16(0)
            .u16(DOS_DATE)
            .u32(self.crc32)
            .u32(field32(self.compressed))
            .u32(field32(self.size))
            .u16(name.len() as u16)
            .u16(extra.len as u16)
            .u16(0) // comment
            .u16(0) // disk
            .u16(0) // internal attributes
            .u32(if self.directory { DIRECTORY_ATTRIBUTES } else { FILE_ATTRIBUTES })
            .u32(field32(offset));
        out.put(header.finish());
        out.put(name);
        out.put(extra.as_slice());
    }
}

/// The end of an archive, with the place of its central directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) entries: u64,
    pub(crate) central_at: u64,
    pub(crate) central_len: u64,
}

impl End {
    fn zip64(&self) -> bool {
        self.entries >= LIMIT16 || self.central_at >= LIMIT32 || self.central_len >= LIMIT32
    }

    /// Length in bytes of the records that end the archive.
    pub(crate) fn len(&self) -> u64 {
        END_BYTES + if self.zip64() { END64_BYTES + LOCATOR64_BYTES } else { 0 }
    }

    /// Writes the end of the central directory (4.3.16), with the ZIP64 records (4.3.14, 4.3.15)
    /// before it where needed.
    pub(crate) fn put(&self, out: &mut impl Sink) {
        if self.zip64() {
            let mut record = Record::<{ END64_BYTES as usize }>::new();
            let end64 = record
                .u32(END64_SIGNATURE)
                .u64(END64_BYTES - 12) // of what follows this field
                .u16(MADE_BY)
                .u16(VERSION_ZIP64)
                .u32(0) // this disk
                .u32(0) // disk of the central directory
                .u64(self.entries)
                .u64(self.entries)
                .u64(self.central_len)
                .u64(self.central_at);
            out.put(end64.finish());
            let mut record = Record::<{ LOCATOR64_BYTES as usize }>::new();
            let locator = record
                .u32(LOCATOR64_SIGNATURE)
                .u32(0) // disk of the ZIP64 end record
                .u64(self.central_at + self.central_len)
                .u32(1); // disks in all
            out.put(locator.finish());
        }
        let entries = self.entries.min(LIMIT16) as u16;
        let mut record = Record::<{ END_BYTES as usize }>::new();
        let end = record
            .u32(END_SIGNATURE)
            .u16(0) // this disk
            .u16(0) // disk of the central directory
            .u16(entries)
            .u16(entries)
            .u32(field32(self.central_len))
            .u32(field32(self.central_at))
            .u16(0); // comment
        out.put(end.finish());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(entries: u64, central_at: u64, central_len: u64) -> (u64, usize) {
        let (end, mut written) = (End { entries, central_at, central_len }, Vec::new());
        end.put(&mut written);
        (end.len(), written.len())
    }

    #[test]
    fn zip64_end_records_appear_exactly_where_a_number_does_not_fit() {
        let (short, long) = ((22, 22), (98, 98));
        assert_eq!(end(65_534, LIMIT32 - 1, LIMIT32 - 1), short);
        assert_eq!(end(65_535, 0, 0), long);
        assert_eq!(end(0, LIMIT32, 0), long);
        assert_eq!(end(0, 0, LIMIT32), long);
    }

    #[test]
    fn records_have_the_computed_length_on_both_sides_of_4_gib() {
        let values = [0, LIMIT32 - 1, LIMIT32, LIMIT32 + 1];
        let sizes = [Sizes::Ahead, Sizes::Described { zip64: false }, Sizes::Described { zip64: true }];
        for (size, compressed, offset) in
            values.iter().flat_map(|a| values.map(|b| (*a, b))).flat_map(|(a, b)| values.map(|c| (a, b, c)))
        {
            for sizes in sizes {
                let entry = EntryHeader { directory: false, utf8: true, size, compressed, crc32: 7, sizes };
                let (mut local, mut central) = (Vec::new(), Vec::new());
                entry.put_local(&mut local, b"name");
                assert_eq!(local.len() as u64, entry.local_len(4));
                entry.put_descriptor(&mut local);
                assert_eq!(local.len() as u64 + compressed, entry.len(4));
                entry.put_central(&mut central, b"name", offset);
                assert_eq!(central.len() as u64, entry.central_len(4, offset));
                let extra_values = [size, compressed, offset].iter().filter(|&&value| value >= LIMIT32).count();
                let extra = if extra_values == 0 { 0 } else { 4 + 8 * extra_values };
                assert_eq!(central.len(), 46 + 4 + extra);
            }
        }
    }
}
