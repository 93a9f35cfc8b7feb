//! From the server alone, and all together.

use super::markdown::{NONE, Table, rate};
use super::{heading, layout_name, level_name, protocol_name};
use crate::study::client::Protocol;
use crate::study::history;
use crate::study::outcome::Stage;
use crate::study::server_alone::{PROTOCOLS, ServerKey};
use crate::study::together::{DoorKey, LEVELS};
use crate::study::trial::Point;
use crate::study::zip_alone::LAYOUTS;

pub(super) fn server_section(stage: &Stage<ServerKey>) -> String {
    let mut table = Table::new(["", "text", "ZIP"]);
    for Point { key, .. } in &stage.points {
        let point = stage.point(key);
        let (text, zip) = (rate(point.map(Point::text_rate)), rate(point.map(Point::coded_rate)));
        table.push([protocol_name(key.protocol).to_owned(), text, zip]);
    }
    let mut theirs = Table::new(["2013, by distance", "HTTP", "HTTPS"]);
    for (distance, http, https) in history::SERVER_RATES {
        theirs.push([distance.to_owned(), http.to_string(), https.to_string()]);
    }
    let title = heading("Out of the server alone: a finished ZIP from memory", stage);
    let passes = stage.settings.passes;
    format!(
        "{title}\nPages apart, frames; fetched {passes} times in a trial, on one connection.\n\n{table}\n{theirs}\n"
    )
}

pub(super) fn section(stage: &Stage<DoorKey>, server: Option<&Stage<ServerKey>>) -> String {
    let columns = PROTOCOLS
        .map(protocol_name)
        .map(|name| [format!("{name}: text"), format!("{name}: ZIP"), format!("{name}: of the server alone")]);
    let mut table = Table::new(["layout", "level"].map(str::to_owned).into_iter().chain(columns.into_iter().flatten()));
    for (layout, level) in LAYOUTS.into_iter().flat_map(|layout| LEVELS.map(|level| (layout, level))) {
        let cells = PROTOCOLS.map(|protocol| {
            let point = stage.point(&DoorKey { layout, level, protocol });
            let text = rate(point.map(Point::text_rate));
            [text, rate(point.map(Point::coded_rate)), of_bound(point, protocol, server)]
        });
        let names = [layout_name(layout).to_owned(), level_name(level)];
        table.push(names.into_iter().chain(cells.into_iter().flatten()));
    }
    let passes = stage.settings.passes;
    let title = heading("All together, over loopback", stage);
    format!("{title}\nOne client. Frames are fetched {passes} times in a trial, on one connection.\n\n{table}\n")
}

/// The share of the bytes that the server alone sends.
fn of_bound(point: Option<&Point<DoorKey>>, protocol: Protocol, server: Option<&Stage<ServerKey>>) -> String {
    let bound = server.and_then(|server| server.point(&ServerKey { protocol })).map(|point| point.coded_rate().mean);
    let part = point.zip(bound).map(|(point, bound)| point.coded_rate().mean / bound);
    part.map_or_else(|| NONE.to_owned(), |part| format!("{:.0} %", part * 100.0))
}
