//! Users of this machine, who need no network: over the administrator's socket, and in commands.

use std::collections::BTreeMap;

use nix::unistd::{Uid, User};
use parking_lot::Mutex;

/// The user at the other end of the administrator's socket; an extension of its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalUser(pub(crate) u32);

impl LocalUser {
    /// The user of this process.
    pub(crate) fn of_this_process() -> Self {
        Self(Uid::effective().as_raw())
    }

    /// The user's name or, if the system does not know it, `uid` and the number. It is asked for
    /// once: the system may have to ask another machine.
    pub(crate) fn name(self) -> String {
        static NAMES: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
        let name = || match User::from_uid(Uid::from_raw(self.0)) {
            Ok(Some(user)) => user.name,
            Ok(None) | Err(_) => format!("uid {}", self.0),
        };
        NAMES.lock().entry(self.0).or_insert_with(name).clone()
    }
}

/// The name of the user of this process, for the audit.
pub fn user_of_this_process() -> String {
    LocalUser::of_this_process().name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_name_has_a_number() {
        assert_eq!(LocalUser(0).name(), "root");
        assert_eq!(LocalUser(3_999_999_999).name(), "uid 3999999999");
    }
}
