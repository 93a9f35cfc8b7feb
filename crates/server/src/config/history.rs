//! `[history]`

use documented::DocumentedFields;
use heads::{History, HistoryTrees, Keep, ResourcePath};
use serde::{Deserialize, Serialize};

use super::{ConfigError, refused};

/// `[history]`: `all`, `none`, how many (`10`), for how long (`30days`), or `explicit`: those that
/// clients ask for.
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryConfig {
    /// Versions of resources of the repository: `all`, `none`, how many (`10`), for how long
    /// (`30days`), or `explicit`: those that clients ask for.
    pub resources: Keep,
    /// Versions of volumes, likewise, but not `explicit`.
    pub volumes: Keep,
    /// Trees of which more or fewer versions are kept than of other resources.
    pub trees: Vec<TreeConfig>,
}

/// `[[history.trees]]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeConfig {
    /// The path of a resource. What is said here is for it, and for everything below it.
    pub path: String,
    /// Versions of these.
    pub resources: Keep,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        let History { resources, volumes } = History::default();
        Self { resources, volumes, trees: Vec::new() }
    }
}

impl HistoryConfig {
    /// What is kept in trees of the repository.
    pub(super) fn trees(&self) -> Result<HistoryTrees, ConfigError> {
        if self.volumes == Keep::Explicit {
            return Err(refused("history.volumes: nobody can ask for a version of a volume, so `explicit` keeps none"));
        }
        let mut trees: Vec<(ResourcePath, Keep)> = Vec::new();
        for TreeConfig { path, resources } in &self.trees {
            let refused = |why: &str| refused(format!("history.trees `{path}`: {why}"));
            let tree = ResourcePath::parse(path).map_err(|error| refused(&error.to_string()))?;
            if tree.is_root() {
                return Err(refused("history.resources says what is kept of the root"));
            }
            if tree.names().next() == Some(heads::VOLUMES) {
                return Err(refused("history.volumes says what is kept of volumes"));
            }
            if trees.iter().any(|(other, _)| *other == tree) {
                return Err(refused("it is there twice"));
            }
            trees.push((tree, *resources));
        }
        Ok(HistoryTrees::new(trees))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;

    fn with_trees(trees: &[(&str, &str)]) -> Config {
        let trees = trees.iter().map(|(path, resources)| serde_json::json!({"path": path, "resources": resources}));
        let history = serde_json::json!({"trees": trees.collect::<Vec<_>>()});
        Config { history: serde_json::from_value(history).unwrap(), ..Config::default() }
    }

    #[test]
    fn a_tree_says_what_is_kept_of_it_and_senseless_ones_are_refused() {
        let config = with_trees(&[("tmp", "none"), ("tmp/daily", "30days")]);
        config.check().unwrap();
        let kept_at = |path: &str| config.library_options().kept_at(&path.parse().unwrap());
        assert_eq!([kept_at("a"), kept_at("tmp/a")], [Keep::All, Keep::None]);
        assert!(matches!(kept_at("tmp/daily/1"), Keep::For(_)));
        for (trees, why) in [
            (&[("", "none")][..], "history.resources"),
            (&[("/tmp", "none")], "empty"),
            (&[("volumes/a", "none")], "history.volumes"),
            (&[("tmp", "none"), ("tmp", "all")], "twice"),
        ] {
            let error = with_trees(trees).check().unwrap_err().to_string();
            assert!(error.contains("history.trees `") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn explicit_versions_are_those_of_resources() {
        with_trees(&[("drafts", "explicit")]).check().unwrap();
        let history = serde_json::from_value(serde_json::json!({"volumes": "explicit"})).unwrap();
        let error = Config { history, ..Config::default() }.check().unwrap_err().to_string();
        assert!(error.contains("history.volumes"), "{error}");
    }
}
