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

    /// The user's name or, if the system does not know it, `uid` and the number.
    pub(crate) fn name(self) -> String {
        static NAMES: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
        let user = || User::from_uid(Uid::from_raw(self.0));
        self.name_among(&mut NAMES.lock(), || Ok(user()?.map(|user| user.name)))
    }

    /// The name, which the system is asked for once: it may have to ask another machine. If that
    /// fails, it is asked again the next time.
    fn name_among(
        self,
        names: &mut BTreeMap<u32, String>,
        ask: impl FnOnce() -> nix::Result<Option<String>>,
    ) -> String {
        if let Some(name) = names.get(&self.0) {
            return name.clone();
        }
        let number = format!("uid {}", self.0);
        let Ok(found) = ask() else { return number };
        names.entry(self.0).or_insert(found.unwrap_or(number)).clone()
    }
}

/// The name of the user of this process, for the audit.
pub fn user_of_this_process() -> String {
    LocalUser::of_this_process().name()
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn a_user_without_a_name_has_a_number() {
        assert_eq!(LocalUser(0).name(), "root");
        assert_eq!(LocalUser(3_999_999_999).name(), "uid 3999999999");
    }

    #[test]
    fn a_name_is_asked_for_again_only_if_the_system_could_not_tell() {
        let (user, mut names) = (LocalUser(7), BTreeMap::new());
        assert_eq!(user.name_among(&mut names, || Err(Errno::EIO)), "uid 7");
        assert_eq!(user.name_among(&mut names, || Ok(Some("ann".to_owned()))), "ann");
        assert_eq!(user.name_among(&mut names, || panic!("it is known")), "ann");
        assert_eq!(LocalUser(8).name_among(&mut names, || Ok(None)), "uid 8");
        assert_eq!(LocalUser(8).name_among(&mut names, || panic!("it is known")), "uid 8");
    }
}
