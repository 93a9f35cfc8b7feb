//! The two kinds of requests for many volumes.

use std::fmt;

use pack::Layout;

/// The parameter with volumes.
pub const VOLUME_IDS: &str = "volumeIDs";
/// The parameter with pages of volumes.
pub const PAGE_IDS: &str = "pageIDs";

/// The kind of request, named after the two original routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retrieval {
    /// `/volumes`: whole volumes.
    Volumes,
    /// `/pages`: pages by number.
    Pages,
}

impl Retrieval {
    /// The required parameter.
    pub fn required(self) -> &'static str {
        match self {
            Self::Volumes => VOLUME_IDS,
            Self::Pages => PAGE_IDS,
        }
    }

    /// The layout that `concat=true` means.
    pub fn concatenated(self) -> Layout {
        match self {
            Self::Volumes => Layout::Volumes,
            Self::Pages => Layout::WordSeq,
        }
    }
}

impl fmt::Display for Retrieval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Volumes => "volume",
            Self::Pages => "page",
        })
    }
}
