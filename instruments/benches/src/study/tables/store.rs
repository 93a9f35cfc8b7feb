//! From the store alone.

use super::heading;
use super::markdown::{NONE, Table, figure, rate};
use crate::study::history;
use crate::study::outcome::Stage;
use crate::study::store_alone::{Cache, StoreKey};
use crate::study::trial::{Point, Statistics};

pub(super) fn section(stage: &Stage<StoreKey>) -> String {
    let mut table = Table::new(["readers", "page cache", "text", "frames", "MB from devices, median"]);
    for point in &stage.points {
        table.push([
            point.key.readers.to_string(),
            match point.key.cache {
                Cache::Cold => "dropped",
                Cache::Warm => "warm",
            }
            .to_owned(),
            rate(Some(point.text_rate())),
            rate(Some(point.coded_rate())),
            from_devices(point),
        ]);
    }
    let (cold, warm) = history::STORE_RATES;
    format!(
        "{}\nWhat is warm is read {} times in a trial.\n\n{table}\nThe study of 2013, at best (12 to 16 fetch threads): {cold} MB/s cold, {warm} MB/s warm.\n",
        heading("Out of the store alone", stage),
        stage.settings.passes,
    )
}

fn from_devices(point: &Point<StoreKey>) -> String {
    let bytes: Option<Vec<u64>> = point.trials.iter().map(|trial| trial.device_bytes).collect();
    let median = |bytes: Vec<u64>| figure(Statistics::of(bytes.into_iter().map(|bytes| bytes as f64 / 1e6)).median);
    bytes.map_or_else(|| NONE.to_owned(), median)
}
