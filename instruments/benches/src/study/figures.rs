//! The results as charts.

use std::path::Path;

use anyhow::{Context, Result};
use pack::{Layout, Level};
use testbed::export::panels::{Chart, Dot, Panel, Scale, Series, categories};

use super::client::{Protocol, Task};
use super::history;
use super::links::{LinkKey, TASKS};
use super::outcome::{Outcome, Stage};
use super::server_alone::{PROTOCOLS, ServerKey};
use super::store_alone::{Cache, StoreKey};
use super::tables::{layout_name, level_name, protocol_name};
use super::together::{self, DoorKey};
use super::trial::{Point, Statistics};
use super::zip_alone::{self, LAYOUTS, ZipKey};

/// The position of level 0. Frames come before it; they are not a level and are not joined with it.
const LEVEL_0: Option<f64> = Some(1.0);

/// Selects the shown rate of a point.
type Rate<K> = fn(&Point<K>) -> Statistics;

/// Draws a chart of every stage that was run, as SVG files in the folder.
pub fn draw(outcome: &Outcome, folder: &Path) -> Result<()> {
    let charts = [
        ("store.svg", outcome.store.as_ref().map(store)),
        ("zip.svg", outcome.zip.as_ref().map(zip)),
        ("ratios.svg", outcome.zip.is_some().then(|| ratios(outcome))),
        ("together.svg", outcome.together.as_ref().map(|stage| together(stage, outcome.server.as_ref()))),
        ("links.svg", outcome.links.as_ref().map(links)),
    ];
    for (name, chart) in charts {
        if let Some(chart) = chart {
            let file = folder.join(name);
            std::fs::write(&file, chart.svg()?).with_context(|| format!("writing {}", file.display()))?;
        }
    }
    Ok(())
}

fn dot<K>(x: f64, point: Option<&Point<K>>, rate: Rate<K>) -> Option<Dot> {
    let Statistics { mean, standard_error, .. } = rate(point?);
    Some(Dot { x, mean, standard_error })
}

/// The dots of a series of levels, in their order.
fn by_level<K: PartialEq>(
    stage: &Stage<K>,
    levels: impl Iterator<Item = Level>,
    key: impl Fn(Level) -> K,
    rate: Rate<K>,
) -> Vec<Dot> {
    levels.enumerate().filter_map(|(index, level)| dot(index as f64, stage.point(&key(level)), rate)).collect()
}

fn store(stage: &Stage<StoreKey>) -> Chart {
    let panel = |title: &str, rate: Rate<StoreKey>| {
        let series = [(Cache::Cold, "page cache dropped"), (Cache::Warm, "in the page cache")].map(|(cache, name)| {
            let points = stage.points.iter().filter(|point| point.key.cache == cache);
            let dots = points.filter_map(|point| dot(point.key.readers as f64, Some(point), rate)).collect();
            Series { name: name.into(), dots, joined_from: Some(0.0) }
        });
        Panel {
            title: title.into(),
            x_label: "readers at once, of the whole service".into(),
            x_ticks: stage.settings.readers.iter().map(|readers| (*readers as f64, readers.to_string())).collect(),
            y_label: "MB/s".into(),
            y_scale: Scale::Linear,
            series: series.into(),
        }
    };
    Chart {
        title: "Out of the store alone (mean and standard error)".into(),
        columns: 2,
        panels: vec![panel("page text", Point::text_rate), panel("frames", Point::coded_rate)],
    }
}

fn zip(stage: &Stage<ZipKey>) -> Chart {
    let panel = |layout: Layout| {
        let series = |name: &str, rate: Rate<ZipKey>| {
            let dots = by_level(stage, zip_alone::levels(), |level| ZipKey { layout, level }, rate);
            Series { name: name.into(), dots, joined_from: LEVEL_0 }
        };
        Panel {
            title: layout_name(layout).into(),
            x_label: "DEFLATE level".into(),
            x_ticks: categories(zip_alone::levels().map(level_name)),
            y_label: "MB/s (logarithmic)".into(),
            y_scale: Scale::Logarithmic,
            series: vec![series("text in", Point::text_rate), series("ZIP out", Point::coded_rate)],
        }
    };
    Chart {
        title: "Into ZIP alone, pages from memory (mean and standard error)".into(),
        columns: LAYOUTS.len(),
        panels: LAYOUTS.map(panel).into(),
    }
}

fn ratios(outcome: &Outcome) -> Chart {
    let dots = |ratio: &dyn Fn(Level) -> Option<f64>| {
        let placed = zip_alone::levels()
            .enumerate()
            .filter_map(|(index, level)| Some(Dot { x: index as f64, mean: ratio(level)?, standard_error: 0.0 }));
        placed.collect()
    };
    let ours = LAYOUTS.map(|layout| Series {
        name: layout_name(layout).into(),
        dots: dots(&|level| outcome.ratio(ZipKey { layout, level })),
        joined_from: LEVEL_0,
    });
    let theirs = [(Layout::Pages, "pages apart, 2013"), (Layout::Volumes, "combined, 2013")].map(|(layout, name)| {
        Series { name: name.into(), dots: dots(&|level| history::ratio(layout, level)), joined_from: None }
    });
    let panel = Panel {
        title: "ZIP with everything in it".into(),
        x_label: "DEFLATE level".into(),
        x_ticks: categories(zip_alone::levels().map(level_name)),
        y_label: "bytes of ZIP for a byte of text".into(),
        y_scale: Scale::Linear,
        series: ours.into_iter().chain(theirs).collect(),
    };
    Chart { title: "Ratios".into(), columns: 1, panels: vec![panel] }
}

fn together(stage: &Stage<DoorKey>, server: Option<&Stage<ServerKey>>) -> Chart {
    let panel = |title: &str, protocol: Protocol, rate: Rate<DoorKey>| {
        let series = LAYOUTS.map(|layout| {
            let key = |level| DoorKey { layout, level, protocol };
            let dots = by_level(stage, together::LEVELS.into_iter(), key, rate);
            Series { name: layout_name(layout).into(), dots, joined_from: LEVEL_0 }
        });
        Panel {
            title: format!("{title}, {}", protocol_name(protocol)),
            x_label: "DEFLATE level".into(),
            x_ticks: categories(together::LEVELS.map(level_name)),
            y_label: "MB/s (logarithmic)".into(),
            y_scale: Scale::Logarithmic,
            series: series.into(),
        }
    };
    // The bound counts sent bytes, so it does not apply to a text that is sent as more or fewer
    // bytes.
    let bound = |protocol| {
        let point = server.and_then(|server| server.point(&ServerKey { protocol }));
        let last = (together::LEVELS.len() - 1) as f64;
        let dots = [0.0, last].into_iter().filter_map(|x| dot(x, point, Point::coded_rate)).collect();
        Series { name: "finished ZIP from memory (server alone)".into(), dots, joined_from: Some(0.0) }
    };
    let texts = PROTOCOLS.map(|protocol| panel("page text", protocol, Point::text_rate));
    let zips = PROTOCOLS.map(|protocol| {
        let mut panel = panel("bytes of ZIP", protocol, Point::coded_rate);
        panel.series.push(bound(protocol));
        panel
    });
    Chart {
        title: "All together, over loopback (mean and standard error)".into(),
        columns: 2,
        panels: texts.into_iter().chain(zips).collect(),
    }
}

fn links(stage: &Stage<LinkKey>) -> Chart {
    let panel = |task: Task| {
        let series = stage.settings.links.iter().map(|&link| {
            let key = |level| LinkKey { link, task, level };
            let dots = by_level(stage, together::LEVELS.into_iter(), key, Point::text_rate);
            Series { name: link.to_string(), dots, joined_from: LEVEL_0 }
        });
        Panel {
            title: match task {
                Task::Receives => "a client that only receives",
                Task::Unpacks => "a client that unpacks",
            }
            .into(),
            x_label: "DEFLATE level".into(),
            x_ticks: categories(together::LEVELS.map(level_name)),
            y_label: "MB/s of page text (logarithmic)".into(),
            y_scale: Scale::Logarithmic,
            series: series.collect(),
        }
    };
    Chart {
        title: "Over longer links (mean and standard error)".into(),
        columns: TASKS.len(),
        panels: TASKS.map(panel).into(),
    }
}
