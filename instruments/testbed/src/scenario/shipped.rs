//! The scenarios that come with the program.

use include_dir::{Dir, include_dir};

static SCENARIOS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/scenarios");

/// The text of a scenario.
pub fn text(name: &str) -> Option<&'static str> {
    SCENARIOS.get_file(format!("{name}.toml"))?.contents_utf8()
}

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.files().filter_map(|file| file.path().to_str()?.strip_suffix(".toml"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::inputs::Files;
    use crate::scenario::{Scenario, ScenarioSpec};

    #[test]
    fn every_shipped_scenario_can_be_run() {
        let files = Files::of([("ids.txt", "a\nb\n")]);
        let names: Vec<_> = super::names().collect();
        assert!(names.contains(&"ingest") && names.contains(&"records-read"), "{names:?}");
        for name in names {
            let spec = ScenarioSpec::parse(name, super::text(name).unwrap()).unwrap();
            assert!(!spec.description.is_empty(), "{name}");
            Scenario::new(spec, &files).unwrap();
        }
    }
}
