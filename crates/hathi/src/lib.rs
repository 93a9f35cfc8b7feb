//! What libraries have: volume identifiers, pairtree folders, METS, metadata records and ZIPs of page texts, read with checks; and
//! making more of the like for load tests. The crate knows nothing of stores and HTTP.
//!
//! How to read it, in the order in which a volume is read:
//!
//! - [`VolumeId`] and [`Seq`] (`id.rs`) name volumes and pages; `idlist.rs` reads the lists of them that clients send.
//! - [`discover`] and [`locate`] (`pairtree.rs`) find a volume's files.
//! - [`Mets`] (`mets.rs`) tells which file is which page, [`Record`] (`record.rs`) what the volume is and who may read it.
//! - [`VolumeReader`] (`volume.rs`, over `archive.rs` and `buffered.rs`) brings these together with the ZIP and gives out page texts that are proved to be right.
//! - [`Sampler`] (`synth.rs`) makes volumes of any number out of real pages.
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
//! What comes from strangers is parsed by pure functions with limits, so that it can be fuzzed: [`VolumeId::parse`],
//! [`VolumeId::from_path_segment`], [`parse_volume_ids`], [`parse_page_ids`], [`parse_volume_lines`], [`Mets::parse`],
//! [`Record::parse`], and [`VolumeReader`] over a `Cursor`.

pub mod archive;
mod buffered;
pub mod error;
pub mod id;
pub mod idlist;
pub mod mets;
pub mod pairtree;
pub mod record;
pub mod synth;
pub mod volume;

pub use error::{PageName, VolumeError};
pub use id::{CleanedId, InvalidVolumeId, Seq, VolumeId};
pub use idlist::{ListError, PageList, parse_page_ids, parse_volume_ids, parse_volume_lines};
pub use mets::{Mets, MetsError, MetsPage};
pub use pairtree::{DiscoverError, VolumeFiles, discover, locate, pairtree_path};
pub use record::{Record, RecordError};
pub use synth::{Sampler, SynthOptions, SynthVolume};
pub use volume::{Page, VolumeParts, VolumeReader};
