//! Into ZIP alone: rates, the thirty ratios, and what a window over many pages gains and costs.

use pack::{Layout, Level};

use super::markdown::{Table, percent, rate, ratio};
use super::{heading, layout_name, level_name};
use crate::study::history;
use crate::study::outcome::{Outcome, Stage};
use crate::study::trial::Point;
use crate::study::unpack::Contents;
use crate::study::zip_alone::{LAYOUTS, ZipKey, levels};

pub(super) fn section(stage: &Stage<ZipKey>, outcome: &Outcome) -> String {
    format!(
        "{}\nLevels 0 to 9 inflate the frames in memory first.\n\n{}\n\
         ### Ratios: bytes of ZIP for a byte of text\n\n{}\n\
         What the study of 2013 tells beside them is given where it is known to us, its other ratios are not.\n\n\
         ### What a window over many pages gains and costs\n\n{}\n\
         Streams: bytes of DEFLATE for a byte of text, without the headers, descriptors and directory of ZIP. Smaller, faster: \
         against pages apart at the same level.\n\n\
         ### What entries cost\n\n{}\n",
        heading("Into ZIP alone", stage),
        rates(stage),
        ratios(outcome),
        window(stage, outcome),
        entries(outcome),
    )
}

fn rates(stage: &Stage<ZipKey>) -> Table {
    let columns = LAYOUTS.map(|layout| [format!("{}: text in", layout_name(layout)), "ZIP out".to_owned()]);
    let mut table = Table::new(std::iter::once("level".to_owned()).chain(columns.into_iter().flatten()));
    for level in levels() {
        let cells = LAYOUTS.map(|layout| {
            let point = stage.point(&ZipKey { layout, level });
            [rate(point.map(Point::text_rate)), rate(point.map(Point::coded_rate))]
        });
        table.push(std::iter::once(level_name(level)).chain(cells.into_iter().flatten()));
    }
    table
}

fn ratios(outcome: &Outcome) -> Table {
    let ours = LAYOUTS.map(|layout| layout_name(layout).to_owned());
    let theirs = ["2013: pages apart", "2013: combined"].map(str::to_owned);
    let mut table = Table::new(std::iter::once("level".to_owned()).chain(ours).chain(theirs));
    for level in levels() {
        let ours = LAYOUTS.map(|layout| ratio(outcome.ratio(ZipKey { layout, level })));
        let theirs = [Layout::Pages, Layout::Volumes].map(|layout| ratio(history::ratio(layout, level)));
        table.push(std::iter::once(level_name(level)).chain(ours).chain(theirs));
    }
    table
}

fn contents(outcome: &Outcome, layout: Layout, level: Level) -> Option<Contents> {
    let key = ZipKey { layout, level };
    outcome.contents.iter().find(|measured| measured.key == key).map(|measured| measured.contents)
}

fn window(stage: &Stage<ZipKey>, outcome: &Outcome) -> Table {
    let head = [
        "level",
        "streams: pages apart",
        "volumes",
        "wordseq",
        "volumes: smaller",
        "volumes: faster",
        "wordseq: smaller",
        "wordseq: faster",
    ];
    let mut table = Table::new(head);
    for level in levels() {
        let stream = |layout| {
            let contents = contents(outcome, layout, level)?;
            Some(contents.deflate_bytes as f64 / contents.text_bytes as f64)
        };
        let speed = |layout| stage.point(&ZipKey { layout, level }).map(|point| point.text_rate().mean);
        let against =
            |value: &dyn Fn(Layout) -> Option<f64>, layout| Some(value(layout)? / value(Layout::Pages)? - 1.0);
        let compared = [Layout::Volumes, Layout::WordSeq]
            .map(|layout| [percent(against(&stream, layout).map(|change| -change)), percent(against(&speed, layout))]);
        let streams = LAYOUTS.map(|layout| ratio(stream(layout)));
        table.push(std::iter::once(level_name(level)).chain(streams).chain(compared.into_iter().flatten()));
    }
    table
}

fn entries(outcome: &Outcome) -> Table {
    let mut table = Table::new([
        "layout",
        "entries",
        "ZIP over text at level 0",
        "2013",
        "bytes around an entry's stream at level 0",
    ]);
    for layout in LAYOUTS {
        let Some(contents) = contents(outcome, layout, Level::Stored) else { continue };
        let over = contents.zip_bytes as f64 / contents.text_bytes as f64 - 1.0;
        let around = (contents.zip_bytes - contents.deflate_bytes) as f64 / contents.entries.max(1) as f64;
        table.push([
            layout_name(layout).to_owned(),
            contents.entries.to_string(),
            percent(Some(over)),
            percent(history::ratio(layout, Level::Stored).map(|ratio| ratio - 1.0)),
            format!("{around:.0}"),
        ]);
    }
    table
}
