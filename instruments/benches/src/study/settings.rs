//! The amount of data, and the number of trials.

use serde::{Deserialize, Serialize};

use super::Stage;
use testbed::link::Link;

/// The amount of data, and the number of trials. The same `seed` draws the same volumes, and fewer
/// volumes are the first of more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Trials of each point.
    pub trials: u32,
    /// The seed by which volumes are drawn.
    pub seed: u64,
    /// Pages of each volume; `None`: as many as drawn real ones.
    pub pages_per_volume: Option<u32>,
    /// Volumes read from the store alone.
    pub store_volumes: usize,
    /// Volumes made into ZIPs from memory.
    pub zip_volumes: usize,
    /// Volumes of the finished ZIP, and volumes that the whole server sends.
    pub door_volumes: usize,
    /// Volumes sent over links.
    pub link_volumes: usize,
    /// Volumes sent over links of less than 1 Gbit/s, where more would only take longer.
    pub slow_link_volumes: usize,
    /// How often frames are requested, or read from the page cache, in one trial, one after the
    /// other: a single pass takes only some milliseconds.
    pub passes: u32,
    /// Readers of the store at the same time.
    pub readers: Vec<usize>,
    /// The links.
    pub links: Vec<Link>,
}

/// Loopback itself, then 1 Gbit/s and 100 Mbit/s, each without delay and with a round trip of 40
/// ms. At 300 Mbit/s the study's rule no longer recommends compression, although compressing and
/// sending at the same time could still help.
fn links() -> Vec<Link> {
    let longer = [(1_000, 0), (1_000, 40), (300, 0), (100, 0), (100, 40)];
    let longer = longer.map(|(rate, round_trip_ms)| Link { mbit_per_s: Some(rate), round_trip_ms });
    std::iter::once(Link::LOOPBACK).chain(longer).collect()
}

impl Settings {
    /// Minutes.
    pub fn short() -> Self {
        Self {
            trials: 5,
            seed: 1,
            pages_per_volume: None,
            store_volumes: 400,
            zip_volumes: 60,
            door_volumes: 60,
            link_volumes: 40,
            slow_link_volumes: 12,
            passes: 20,
            readers: vec![1, 4, 8, 12, 16],
            links: links(),
        }
    }

    /// As many volumes as the original's sample, as far as that is bearable: more than an hour, and
    /// 5 GB of memory.
    pub fn full() -> Self {
        Self {
            store_volumes: 5_000,
            zip_volumes: 600,
            door_volumes: 600,
            link_volumes: 200,
            slow_link_volumes: 60,
            ..Self::short()
        }
    }

    /// Seconds, for tests: its figures mean nothing.
    pub fn tiny() -> Self {
        Self {
            trials: 2,
            pages_per_volume: Some(3),
            store_volumes: 4,
            zip_volumes: 2,
            door_volumes: 3,
            link_volumes: 2,
            slow_link_volumes: 1,
            passes: 2,
            readers: vec![1, 3],
            links: vec![Link::LOOPBACK, Link { mbit_per_s: Some(900), round_trip_ms: 2 }],
            ..Self::short()
        }
    }

    /// The number of volumes of a stage.
    pub fn volumes(&self, stage: Stage) -> usize {
        match stage {
            Stage::Store => self.store_volumes,
            Stage::Zip => self.zip_volumes,
            Stage::Server | Stage::Together => self.door_volumes,
            Stage::Links => self.link_volumes,
        }
    }
}
