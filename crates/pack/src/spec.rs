//! The numbers of the ZIP format, with the clauses of PKWARE's APPNOTE.TXT 6.3.10 that they come
//! from.

/// Local file header (4.3.7).
pub const LOCAL_SIGNATURE: u32 = 0x0403_4b50;
/// Data descriptor (4.3.9.3).
pub const DESCRIPTOR_SIGNATURE: u32 = 0x0807_4b50;
/// Central directory file header (4.3.12).
pub const CENTRAL_SIGNATURE: u32 = 0x0201_4b50;
/// ZIP64 end of central directory record (4.3.14).
pub const END64_SIGNATURE: u32 = 0x0606_4b50;
/// ZIP64 end of central directory locator (4.3.15).
pub const LOCATOR64_SIGNATURE: u32 = 0x0706_4b50;
/// End of central directory record (4.3.16).
pub const END_SIGNATURE: u32 = 0x0605_4b50;

/// Fixed part of a local file header in bytes (4.3.7).
pub const LOCAL_BYTES: usize = 30;
/// Fixed part of a central directory file header in bytes (4.3.12).
pub const CENTRAL_BYTES: usize = 46;
/// Data descriptor in bytes (4.3.9).
pub const DESCRIPTOR_BYTES: usize = 16;
/// Data descriptor with ZIP64 sizes in bytes (4.3.9.2).
pub const DESCRIPTOR64_BYTES: usize = 24;
/// End of central directory record in bytes, without comment (4.3.16).
pub const END_BYTES: u64 = 22;
/// ZIP64 end of central directory record in bytes (4.3.14).
pub const END64_BYTES: u64 = 56;
/// ZIP64 end of central directory locator in bytes (4.3.15).
pub const LOCATOR64_BYTES: u64 = 20;

/// Version needed for directories and DEFLATE (4.4.3.2).
pub const VERSION_DEFLATE: u16 = 20;
/// Version needed for ZIP64 (4.4.3.2).
pub const VERSION_ZIP64: u16 = 45;
/// Made by: Unix in the upper byte, so that external attributes hold a mode, version 4.5 in the
/// lower (4.4.2).
pub const MADE_BY: u16 = (3 << 8) | VERSION_ZIP64;

/// Flag, bit 3: sizes and CRC follow the content in a data descriptor (4.4.4).
pub const FLAG_DESCRIPTOR: u16 = 1 << 3;
/// Flag, bit 11: the name is UTF-8 (4.4.4, appendix D).
pub const FLAG_UTF8: u16 = 1 << 11;

/// Method of an entry without content (4.4.5).
pub const METHOD_STORED: u16 = 0;
/// Method of an entry with content (4.4.5).
pub const METHOD_DEFLATE: u16 = 8;

/// 1980-01-01 in MS-DOS form (4.4.6); the time of day is 0.
pub const DOS_DATE: u16 = (1 << 5) | 1;

/// Unix mode of a regular file, 0644, in the upper half of the external attributes (4.4.15).
pub const FILE_ATTRIBUTES: u32 = 0o100_644 << 16;
/// Unix mode of a directory, 0755, and the MS-DOS directory bit (4.4.15).
pub const DIRECTORY_ATTRIBUTES: u32 = (0o040_755 << 16) | 0x10;

/// Tag of the ZIP64 extended information extra field (4.5.3).
pub const ZIP64_TAG: u16 = 0x0001;
/// A size or an offset of this or more is in the ZIP64 extra field, with this mark in its place
/// (4.4.1.4).
pub const LIMIT32: u64 = 0xffff_ffff;
/// A number of entries of this or more is in the ZIP64 end record, with this mark in its place
/// (4.4.1.4).
pub const LIMIT16: u64 = 0xffff;

/// Longest name of a group in bytes: 65,535 (4.4.10) minus what is appended to it, rounded.
pub const MAX_NAME_BYTES: usize = 65_000;
