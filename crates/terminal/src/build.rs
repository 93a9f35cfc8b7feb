//! From what the program was built.

use std::sync::LazyLock;

/// The commit from which this program was built, if `PENATES_COMMIT` was set then.
pub const COMMIT: Option<&str> = option_env!("PENATES_COMMIT");
/// The tag of that commit, if `PENATES_TAG` was set then.
pub const TAG: Option<&str> = option_env!("PENATES_TAG");
/// Where its source is, if `PENATES_REPOSITORY` was set then.
pub const REPOSITORY: Option<&str> = option_env!("PENATES_REPOSITORY");

/// The version, with the commit if it is known.
pub static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    COMMIT.map_or_else(|| version.to_owned(), |commit| format!("{version} (commit {commit})"))
});
