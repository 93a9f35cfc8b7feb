//! What is asked for.

use hathi::{Seq, VolumeId};
use pack::{Layout, Level};

/// A volume, or pages of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which volume.
    pub volume: VolumeId,
    /// Which pages, each once, in the order in which they are to come; `None`: all, in METS order.
    pub pages: Option<Vec<Seq>>,
}

impl Wanted {
    /// All of a volume.
    pub fn all(volume: VolumeId) -> Self {
        Self { volume, pages: None }
    }
}

/// A request for many volumes in one archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRequest {
    /// What is wanted, in the order in which it is to come, each volume once.
    pub wanted: Vec<Wanted>,
    /// How pages become entries.
    pub layout: Layout,
    /// How texts are compressed.
    pub level: Level,
    /// Whether each volume's METS follows its pages (never in [`Layout::WordSeq`]).
    pub mets: bool,
}

impl BulkRequest {
    /// Whole volumes, an entry a page, frames as they are stored, without METS.
    pub fn volumes(ids: impl IntoIterator<Item = VolumeId>) -> Self {
        Self {
            wanted: ids.into_iter().map(Wanted::all).collect(),
            layout: Layout::Pages,
            level: Level::Frames,
            mets: false,
        }
    }
}

/// What becomes of a stream that meets damage nobody knew of when its length was promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// It is broken off visibly; asked again, it comes whole, with `ERROR.err`.
    #[default]
    Break,
    /// No length is promised; what fails is left out at a page boundary and named in `ERROR.err`.
    Report,
}
