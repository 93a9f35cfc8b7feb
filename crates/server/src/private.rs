//! Files of a server are for its owner alone.

use rustix::fs::Mode;
use rustix::process::umask;

/// From now on, whatever this process makes is closed to other users, whichever library makes it. For processes that serve: what others
/// write is for their user, who may want to share it.
pub fn keep_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
}
