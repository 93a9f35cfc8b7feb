//! What is kept of a run: one line of JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schedule::Planned;

/// A run that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The run, as it was planned.
    #[serde(flatten)]
    pub planned: Planned,
    /// Which attempt it was, from 1: a void run is made again.
    pub attempt: u32,
    /// When it began.
    pub at: Timestamp,
    /// How long it took in all, in seconds.
    pub took_s: f64,
    /// Whether the node was started again for it.
    pub was_restarted: bool,
    /// The values that were in force, as they were read back.
    pub read_back: BTreeMap<String, String>,
    /// What was measured.
    pub metrics: BTreeMap<String, f64>,
    /// Why it does not count. Empty: it counts.
    pub void: Vec<String>,
    /// What else should be known of it.
    pub notes: Vec<String>,
}

impl Line {
    /// Whether it counts.
    pub fn is_valid(&self) -> bool {
        self.void.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::factor::Setting;

    #[test]
    fn a_line_that_is_read_again_has_the_same_figures_to_the_last_bit() {
        // A reader that rounds twice is a bit off at each of these.
        let figures = [23.149463950321806, 3.7219280164528117, 13.916228627589241, 27.141396270733022];
        let named = figures.iter().enumerate().map(|(number, figure)| (number.to_string(), *figure));
        let planned = Planned {
            number: 1,
            stage: 1,
            block: 1,
            workload: "w".to_owned(),
            setting: Setting::of([("heap", Some("512"))]),
            is_control: false,
            seed: 1,
        };
        let line = Line {
            planned,
            attempt: 1,
            at: Timestamp::UNIX_EPOCH,
            took_s: figures[0],
            was_restarted: true,
            read_back: BTreeMap::new(),
            metrics: named.collect(),
            void: Vec::new(),
            notes: Vec::new(),
        };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
