//! The *area* of a client: the volumes and resources of the repository to which it is limited. It
//! knows ids and paths, and nothing of tokens, HTTP or stores.
//!
//! `limit.rs` has one limit, as it is written in the scope of a token; `pattern.rs` the patterns of
//! volumes. [`Area`] below is what the doors ask.
//!
//! An area says what may be touched, and never what exists: whether something is within it depends
//! on its name alone. So a refusal tells nothing about what is stored.

mod limit;
mod pattern;

use std::sync::Arc;

use hathi::VolumeId;
use heads::{ResourcePath, VOLUMES};
use thiserror::Error;

pub use limit::{LIMIT_BYTES_MAX, Limit, NotALimit};
pub use pattern::VolumePattern;

/// The volumes and resources that a client may touch. Cheap to clone. A request extension: a
/// request without one may touch everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Area(Option<Arc<[Limit]>>);

/// Something is not in a client's area.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("your token is limited, and {what} is not within its limits")]
pub struct OutsideArea {
    /// What.
    pub what: String,
}

impl Area {
    /// Everything.
    pub fn everywhere() -> Self {
        Self(None)
    }

    /// What at least one of these limits covers; nothing if there are none.
    pub fn within(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self(Some(limits.into_iter().collect()))
    }

    /// Whether anything is outside.
    pub fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Its limits; none if it is everywhere.
    pub fn limits(&self) -> &[Limit] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether a volume is within, with everything of it.
    pub fn has_volume(&self, id: &VolumeId) -> bool {
        let covers = |limit: &Limit| matches!(limit, Limit::Volumes(pattern) if pattern.matches(id));
        !self.is_limited() || self.limits().iter().any(covers)
    }

    /// Whether a resource of the repository is within. Volumes are no such resources, although they
    /// have addresses there: see [`Area::has_volume`].
    pub fn has_resource(&self, path: &ResourcePath) -> bool {
        !self.is_limited() || self.tree_of(path).is_some()
    }

    /// The trees of the repository that are within. They have no volumes.
    pub fn trees(&self) -> impl Iterator<Item = &ResourcePath> {
        self.limits().iter().filter_map(|limit| match limit {
            Limit::Resources(tree) => Some(tree),
            Limit::Volumes(_) => None,
        })
    }

    /// The greatest tree within that has a resource; `None` if the area has no limits, or if the
    /// resource is outside.
    pub fn tree_of(&self, path: &ResourcePath) -> Option<&ResourcePath> {
        if path.names().next() == Some(VOLUMES) {
            return None;
        }
        self.trees().filter(|tree| path.is_within(tree)).min_by_key(|tree| tree.as_str().len())
    }

    /// Refuses a volume that is not within.
    pub fn check_volume(&self, id: &VolumeId) -> Result<(), OutsideArea> {
        match self.has_volume(id) {
            true => Ok(()),
            false => Err(OutsideArea { what: format!("the volume `{id}`") }),
        }
    }

    /// Refuses a resource that is not within.
    pub fn check_resource(&self, path: &ResourcePath) -> Result<(), OutsideArea> {
        match self.has_resource(path) {
            true => Ok(()),
            false => Err(OutsideArea { what: format!("/{path}") }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn area(limits: &[&str]) -> Area {
        Area::within(limits.iter().map(|limit| limit.parse().unwrap()))
    }

    fn has(area: &Area, path: &str) -> bool {
        area.has_resource(&path.parse().unwrap())
    }

    #[test]
    fn an_area_without_limits_has_everything_and_one_of_no_limits_has_nothing() {
        let (id, path) = ("a.1".parse().unwrap(), "a".parse().unwrap());
        assert!(Area::everywhere().has_volume(&id) && Area::everywhere().has_resource(&path));
        assert!(!area(&[]).has_volume(&id) && !area(&[]).has_resource(&path));
    }

    #[test]
    fn a_tree_has_its_top_and_all_below_it_and_nothing_beside_it() {
        let area = area(&["rest:/a/b"]);
        for within in ["a/b", "a/b/c", "a/b/c/d", "a/b/..."] {
            assert!(has(&area, within), "{within}");
        }
        for outside in ["", "a", "a/bc", "a/b;x", "a/B", "b", "b/a/b"] {
            assert!(!has(&area, outside), "{outside}");
        }
    }

    #[test]
    fn volumes_are_no_resources_of_the_repository() {
        let root = area(&["rest:/"]);
        assert!(has(&root, "") && has(&root, "a/b") && has(&root, "volumesx"));
        assert!(!has(&root, "volumes") && !has(&root, "volumes/a.1"));
        assert!(!root.has_volume(&"a.1".parse().unwrap()));
        assert!(!has(&area(&["volumes:*"]), "volumes/a.1"));
    }

    #[test]
    fn several_limits_add_up_and_the_greatest_tree_counts() {
        let area = area(&["rest:/a/b", "rest:/a", "volumes:x.*", "volumes:y.1"]);
        assert_eq!(area.tree_of(&"a/b/c".parse().unwrap()), Some(&"a".parse().unwrap()));
        let has = |id: &str| area.has_volume(&id.parse().unwrap());
        assert!(has("x.9") && has("y.1") && !has("y.12") && !has("z.1"));
    }
}
