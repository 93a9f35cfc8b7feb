//! The names of limits.

use std::fmt;

/// A limit, with its name in the original service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Volumes in a request.
    Volumes,
    /// Pages in a request.
    Pages,
    /// Pages of one volume in a request.
    PagesPerVolume,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Volumes => "Max Volumes Allowed",
            Self::Pages => "Max Total Pages Allowed",
            Self::PagesPerVolume => "Max Pages Per Volume Allowed",
        })
    }
}
