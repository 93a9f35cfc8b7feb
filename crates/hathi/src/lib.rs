//! Library formats: volume identifiers, pairtree folders, METS, metadata records and ZIPs of page
//! texts, read with checks. It also makes synthetic volumes for load tests. The crate knows no
//! store and no HTTP.
//!
//! How to read it, in the order in which a volume is read:
//!
//! - [`VolumeId`] and [`Seq`] (`id.rs`) name volumes and pages; `idlist.rs` reads the lists of them
//!   that clients send.
//! - [`discover`] and [`locate`] (`pairtree.rs`) find a volume's files.
//! - [`Mets`] (`mets.rs`) says which file is which page. [`Record`] (`record.rs`) says what the
//!   volume is and who may read it.
//! - [`Outline`](outline::Outline) (`outline.rs`) is what any METS lists, for people.
//! - [`VolumeReader`] (`volume.rs`, over `archive.rs` and `buffered.rs`) combines these with the
//!   ZIP and returns checked page texts.
//! - [`Sampler`] (`synth.rs`) makes any number of volumes from real pages.
//!
//! ```
//! use hathi::{VolumeId, VolumeReader, locate};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let id = VolumeId::parse("uc2.ark:/13960/fk3hx15z7z")?;
//! let files = locate("../../samples/pairtree".as_ref(), &id)?;
//! let mut volume = VolumeReader::new(files.open()?)?;
//! let page = volume.read_page(6)?;
//! assert_eq!(page.seq.get(), 7);
//! assert_eq!(volume.mets().pages[6].file_name, "00000009.txt");
//! # Ok(())
//! # }
//! ```
//!
//! Pure functions with limits parse the input of strangers, so they can be fuzzed:
//! [`VolumeId::parse`], [`VolumeId::from_path_segment`], [`parse_volume_ids`], [`parse_page_ids`],
//! [`parse_volume_lines`], [`Mets::parse`], [`Outline::of`](outline::Outline::of), [`Record::parse`],
//! and [`VolumeReader`] over a `Cursor`.

pub mod archive;
mod buffered;
pub mod error;
pub mod id;
pub mod idlist;
pub mod mets;
pub mod outline;
pub mod pairtree;
pub mod record;
pub mod synth;
pub mod volume;

pub use error::{PageName, VolumeError};
pub use id::{CleanedId, InvalidVolumeId, Seq, VolumeId};
pub use idlist::{ListError, PageList, parse_page_ids, parse_volume_ids, parse_volume_lines};
pub use mets::{Mets, MetsError, MetsPage};
pub use pairtree::{DiscoverError, VolumeFiles, discover, id_at, locate, pairtree_path, zip_path};
pub use record::{Record, RecordError, record_names};
pub use synth::{Sampler, SynthOptions, SynthVolume};
pub use volume::{Page, PagesOf, VolumeParts, VolumeReader};
