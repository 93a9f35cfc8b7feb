//! A cut: all files of a store as they were at one moment, while the store goes on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A cut of a store in a data folder: a folder in it that has the files under the paths that they
/// have in the data folder. Most of them are hard links.
///
/// The cut is deleted once nobody holds a lock on its file `lock`. The process that has the store
/// open holds one for [`Cut::HANDED_OVER_WITHIN`]; a program that reads the cut for longer locks
/// the file too, shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Its folder, relative to the data folder.
    pub folder: String,
    /// Identifies the store, and all copies of its data folder.
    pub store: String,
    /// The number of the store's level.
    pub level: u32,
    /// How many bytes of a file belong to the cut, for files that have more: by their paths. The
    /// others belong to it whole.
    pub lengths: BTreeMap<String, u64>,
    /// The XXH3-128 that the engine stored of a file, in hexadecimal digits: by their paths.
    pub checksums: BTreeMap<String, String>,
}

impl Cut {
    /// The folder in a data folder that has its cuts.
    pub const FOLDER: &str = "cuts";

    /// The file in a cut that its readers lock.
    pub const LOCK: &str = "lock";

    /// How long the process that has the store open keeps a cut that nobody has locked.
    pub const HANDED_OVER_WITHIN: std::time::Duration = std::time::Duration::from_secs(60);
}
