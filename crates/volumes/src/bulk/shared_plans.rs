//! Holds equal plans once: many clients fetch the same list, and a download manager requests many
//! ranges of one selection.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use budget::Share;
use pack::Archive;
use parking_lot::Mutex;

use super::planned::PlannedVolume;

/// The large parts of a plan, and its share of memory.
pub(crate) type Contents = (Arc<Archive>, Arc<[PlannedVolume]>, Arc<Share>);

/// The same contents, without keeping them alive.
type WeakContents = (Weak<Archive>, Weak<[PlannedVolume]>, Weak<Share>);

/// The plans in use, by entity tag: equal tags mean equal contents.
#[derive(Debug, Default)]
pub(crate) struct SharedPlans(Mutex<HashMap<String, WeakContents>>);

impl SharedPlans {
    /// The contents that are in use under this tag, if there are any.
    pub(crate) fn held(&self, etag: &str) -> Option<Contents> {
        self.0.lock().get(etag).and_then(upgrade)
    }

    /// Shares contents under their tag, unless others are in use under it meanwhile: then returns
    /// those.
    pub(crate) fn share(&self, etag: &str, contents: Contents) -> Contents {
        let mut plans = self.0.lock();
        if let Some(held) = plans.get(etag).and_then(upgrade) {
            return held;
        }
        plans.retain(|_, (archive, ..)| archive.strong_count() > 0);
        let (archive, volumes, share) = &contents;
        plans.insert(etag.to_owned(), (Arc::downgrade(archive), Arc::downgrade(volumes), Arc::downgrade(share)));
        contents
    }
}

fn upgrade((archive, volumes, share): &WeakContents) -> Option<Contents> {
    Some((archive.upgrade()?, volumes.upgrade()?, share.upgrade()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use pack::{Layout, Level};

    use budget::Memory;
    use budget::Party;

    use super::*;

    fn share(plans: &SharedPlans, memory: &Memory, etag: &str) -> Contents {
        let archive =
            Archive { layout: Layout::Pages, level: Level::Frames, groups: vec![], errors: None, descriptors: false };
        let reserved = Arc::new(memory.try_reserve(&Party::Local, 1_000).unwrap());
        plans.share(etag, (Arc::new(archive), Vec::new().into(), reserved))
    }

    #[test]
    fn equal_plans_are_held_and_paid_for_once_and_only_as_long_as_somebody_reads_them() {
        let (plans, memory) = (SharedPlans::default(), Memory::new(1 << 20));
        let (first, second, other) =
            (share(&plans, &memory, "a"), share(&plans, &memory, "a"), share(&plans, &memory, "b"));
        assert!(Arc::ptr_eq(&first.0, &second.0) && Arc::ptr_eq(&first.1, &second.1));
        assert!(!Arc::ptr_eq(&first.0, &other.0));
        assert!(plans.held("a").is_some_and(|held| Arc::ptr_eq(&first.0, &held.0)));
        assert_eq!(memory.taken_bytes(), 2_000);

        drop((first, second));
        assert!(plans.held("a").is_none());
        assert_eq!(memory.taken_bytes(), 1_000);
        let _next = share(&plans, &memory, "c");
        assert_eq!(plans.0.lock().len(), 2, "what nobody reads any more is forgotten");
    }
}
