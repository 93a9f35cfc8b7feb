//! Page frames, and ZIP archives made of them. The crate handles bytes, names and numbers; it knows
//! no store and no HTTP.
//!
//! A page is compressed once into a [`Frame`]: raw DEFLATE (RFC 1951) without a final block that
//! ends on a byte boundary. Every response is assembled from such frames without compressing again:
//! a ZIP entry of one page, a ZIP entry of a whole volume, a gzip response.
//!
//! ```
//! use futures::TryStreamExt;
//! use pack::memory::{MemorySource, MemoryVolume};
//! use pack::{Archive, Framer, Layout, Level};
//! use std::sync::Arc;
//!
//! # futures::executor::block_on(async {
//! let page = Framer::new(6).frame(b"It was the best of times")?;
//! let pages = vec![(1, page)];
//! let volume = MemoryVolume { name: "uc2.x".into(), pages, selected: None, mets: None };
//! let source = Arc::new(MemorySource::new(vec![volume]));
//! let groups = source.groups();
//! let (layout, level) = (Layout::Pages, Level::Frames);
//! let archive = Archive { layout, level, groups, errors: None, descriptors: false };
//! let len = archive.len(&*source).await?.unwrap_or_default();
//! let stream = pack::stream(Arc::new(archive), source, 0..len);
//! let pieces: Vec<bytes::Bytes> = stream.try_collect().await?;
//! assert_eq!(pieces.concat().len() as u64, len);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! How to read it, from the bottom up:
//!
//! - [`frame`] defines frames and wraps them. [`Framer`] makes frames and checks that they read
//!   back, and [`inflate`](inflate()) opens them. `deflate` has the compressors. [`sums`] adds up
//!   what the length of an archive is computed from.
//! - [`spec`] holds the numbers of the ZIP format, and `entry` writes single records of it. From
//!   these [`writer`] makes small archives in memory, and [`streamed`] makes large ones whose
//!   entries are not known beforehand.
//! - [`archive`] describes what to send (an [`Archive`] of groups, a layout, a level), and
//!   [`layout`] how pages become entries, with a file per layout. [`source`] defines where the
//!   frames come from (the [`Source`] trait). [`memory`] is a source for tests and benches.
//! - `exact` produces archives of known length, placed by `map`. `described` produces archives with
//!   data descriptors, which `encode` compresses again. Both write through `out`, which keeps to
//!   the requested range and cuts pieces.
//! - [`stream`](stream()) produces the bytes. [`Archive::len`] returns their number beforehand.

pub mod archive;
mod deflate;
mod described;
mod encode;
mod entry;
mod exact;
pub mod frame;
mod framer;
mod inflate;
pub mod layout;
mod map;
pub mod memory;
mod names;
mod out;
mod reader;
pub mod source;
pub mod spec;
mod stream;
pub mod streamed;
pub mod sums;
pub mod writer;

pub use archive::{Archive, Group, GroupPages, Level, Member, PageMember};
pub use frame::{FRAME_END, Frame, FrameError, crc32_combine, gzip, stored_len};
pub use framer::Framer;
pub use inflate::inflate;
pub use layout::Layout;
pub use source::{ArchiveError, Pass, Source};
pub use stream::{WHOLE, stream};
pub use streamed::StreamedZip;
pub use sums::Sums;
pub use writer::{ZipEntry, ZipEntryError, ZipWriter};
