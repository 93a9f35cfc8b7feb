//! All stages side by side, for the one request that all of them support: layout `pages`, frames.

use pack::{Layout, Level};

use super::markdown::{Table, rate};
use super::protocol_name;
use crate::study::outcome::Outcome;
use crate::study::server_alone::{PROTOCOLS, ServerKey};
use crate::study::store_alone::Cache;
use crate::study::together::DoorKey;
use crate::study::trial::{Point, Statistics};
use crate::study::zip_alone::ZipKey;

/// `None`: no stage was run.
pub(super) fn section(outcome: &Outcome) -> Option<String> {
    let mut table = Table::new(["stage (pages apart, frames)", "text", "frames or ZIP"]);
    let mut push = |name: String, text: Option<Statistics>, coded: Option<Statistics>| {
        if text.is_some() {
            table.push([name, rate(text), rate(coded)]);
        }
        text.is_some()
    };
    let mut any = false;
    for (cache, name) in [(Cache::Cold, "page cache dropped"), (Cache::Warm, "warm")] {
        let points = outcome.store.iter().flat_map(|stage| &stage.points).filter(|point| point.key.cache == cache);
        let best = points.max_by(|a, b| a.text_rate().mean.total_cmp(&b.text_rate().mean));
        let readers = best.map_or(0, |point| point.key.readers);
        let name = format!("out of the store alone, {name}, {readers} readers (the best number)");
        any |= push(name, best.map(Point::text_rate), best.map(Point::coded_rate));
    }
    let (layout, level) = (Layout::Pages, Level::Frames);
    let point = outcome.zip.as_ref().and_then(|stage| stage.point(&ZipKey { layout, level }));
    any |= push("into ZIP alone".to_owned(), point.map(Point::text_rate), point.map(Point::coded_rate));
    for protocol in PROTOCOLS {
        let name = protocol_name(protocol);
        let point = outcome.server.as_ref().and_then(|stage| stage.point(&ServerKey { protocol }));
        let alone = format!("out of the server alone, {name}");
        any |= push(alone, point.map(Point::text_rate), point.map(Point::coded_rate));
        let point = outcome.together.as_ref().and_then(|stage| stage.point(&DoorKey { layout, level, protocol }));
        let together = format!("**all together, {name}**");
        any |= push(together, point.map(Point::text_rate), point.map(Point::coded_rate));
    }
    any.then(|| format!("## Stage by stage\n\nMB (10⁶ bytes) per second: median (mean ± standard error).\n\n{table}\n"))
}
