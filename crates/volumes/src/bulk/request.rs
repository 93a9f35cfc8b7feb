//! Bulk requests.

use hathi::{Seq, VolumeId};
use heads::RevisionId;
use pack::{Layout, Level};

/// A volume, or pages of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The volume's id.
    pub volume: VolumeId,
    /// The pages, each once, in the order of the archive; `None` means all, in METS order.
    pub pages: Option<Vec<Seq>>,
}

impl Wanted {
    /// A whole volume.
    pub fn all(volume: VolumeId) -> Self {
        Self { volume, pages: None }
    }
}

/// A request for many volumes in one archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRequest {
    /// The volumes, each once, in the order of the archive.
    pub wanted: Vec<Wanted>,
    /// How pages become entries.
    pub layout: Layout,
    /// How texts are compressed.
    pub level: Level,
    /// Whether each volume's METS follows its pages (only if [`Layout::has_mets`]).
    pub mets: bool,
    /// The state that is requested: when exactly the changes below this position had been made
    /// ([`heads::Head::since`]); `None` means the present one.
    pub as_of: Option<RevisionId>,
}

impl BulkRequest {
    /// Requests whole volumes, one entry per page, with frames as stored and without METS.
    pub fn volumes(ids: impl IntoIterator<Item = VolumeId>) -> Self {
        Self {
            wanted: ids.into_iter().map(Wanted::all).collect(),
            layout: Layout::Pages,
            level: Level::Frames,
            mets: false,
            as_of: None,
        }
    }
}

/// What a stream does when it meets damage that was unknown when its length was promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// The stream breaks off visibly. The next request gets a whole archive, with `ERROR.err`.
    #[default]
    Break,
    /// No length is promised. What fails is left out at a page boundary and listed in `ERROR.err`.
    Report,
}
