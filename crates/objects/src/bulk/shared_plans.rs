//! Equal plans are held once: many clients fetch the same list, and a download manager asks for many ranges of one selection.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use pack::Archive;
use parking_lot::Mutex;

use super::plan::PlannedVolume;

/// What is big of a plan.
type Contents = (Arc<Archive>, Arc<[PlannedVolume]>);

/// The same, as long as somebody holds it.
type WeakContents = (Weak<Archive>, Weak<[PlannedVolume]>);

/// The plans that somebody reads from now, by entity tag: equal tags mean equal contents.
#[derive(Debug, Default)]
pub(crate) struct SharedPlans(Mutex<HashMap<String, WeakContents>>);

impl SharedPlans {
    /// The contents under this tag that somebody holds already; or these, from now on.
    pub(crate) fn share(&self, etag: &str, archive: Arc<Archive>, volumes: Arc<[PlannedVolume]>) -> Contents {
        let mut plans = self.0.lock();
        if let Some(held) = plans.get(etag).and_then(|(archive, volumes)| archive.upgrade().zip(volumes.upgrade())) {
            return held;
        }
        plans.retain(|_, (archive, _)| archive.strong_count() > 0);
        plans.insert(etag.to_owned(), (Arc::downgrade(&archive), Arc::downgrade(&volumes)));
        (archive, volumes)
    }
}

#[cfg(test)]
mod tests {
    use pack::{Layout, Level};

    use super::*;

    fn contents() -> Contents {
        let archive =
            Archive { layout: Layout::Pages, level: Level::Frames, groups: vec![], errors: None, descriptors: false };
        (Arc::new(archive), Vec::new().into())
    }

    #[test]
    fn equal_plans_are_held_once_and_only_as_long_as_somebody_reads_them() {
        let plans = SharedPlans::default();
        let (first, second, other) = (contents(), contents(), contents());
        let first = plans.share("a", first.0, first.1);
        let second = plans.share("a", second.0, second.1);
        let other = plans.share("b", other.0, other.1);
        assert!(Arc::ptr_eq(&first.0, &second.0) && Arc::ptr_eq(&first.1, &second.1));
        assert!(!Arc::ptr_eq(&first.0, &other.0));

        drop((first, second));
        let next = contents();
        plans.share("c", next.0.clone(), next.1.clone());
        assert_eq!(plans.0.lock().len(), 2, "what nobody reads any more is forgotten");
    }
}
