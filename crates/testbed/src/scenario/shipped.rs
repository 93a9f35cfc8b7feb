//! The scenarios that come with the program.

/// A name, and the text.
const SCENARIOS: [(&str, &str); 3] = [
    ("get", include_str!("../../scenarios/get.toml")),
    ("ingest", include_str!("../../scenarios/ingest.toml")),
    ("read", include_str!("../../scenarios/read.toml")),
];

/// The text of a scenario.
pub fn text(name: &str) -> Option<&'static str> {
    SCENARIOS.iter().find_map(|(known, text)| (*known == name).then_some(*text))
}

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::inputs::Files;
    use crate::scenario::{Scenario, ScenarioSpec};

    #[test]
    fn every_shipped_scenario_can_be_run() {
        for name in super::names() {
            let spec = ScenarioSpec::parse(name, super::text(name).unwrap()).unwrap();
            assert!(!spec.description.is_empty(), "{name}");
            Scenario::new(spec, &Files::default()).unwrap();
        }
    }
}
