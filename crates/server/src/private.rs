//! Makes the files of a server private to its owner.

use rustix::fs::Mode;
use rustix::process::umask;

/// From now on, all files that this process makes are closed to other users, whichever library
/// makes them. This is for processes that serve: other processes write for their user, who may want
/// to share files.
pub fn keep_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
}
