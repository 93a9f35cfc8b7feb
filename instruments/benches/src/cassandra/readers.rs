//! Readers of the whole service, as in the HTRC study: how many at the same time, with the node's
//! key cache and row cache on or off, and a warm or a cold page cache. They read whole volumes
//! through the same library as the data door, without ZIP and HTTP.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hathi::VolumeId;
use store::{Store, Table};
use testbed::export::panels::{Chart, Dot, Panel, Scale, Series};

use super::bench::Bench;
use super::node::Node;
use crate::corpus::Sizes;
use crate::rig::figures::Figures;
use crate::rig::page_cache;
use crate::study::store_alone::{Cache, open_library, read_all};
use crate::study::trial::{Point, Statistics, Trial, in_turn};

/// The varied parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    readers: usize,
    caches: Caches,
    page_cache: Cache,
}

/// The node's own caches in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Caches {
    keys: bool,
    rows: bool,
}

impl Caches {
    const ALL: [Caches; 4] = [
        Caches { keys: false, rows: false },
        Caches { keys: true, rows: false },
        Caches { keys: false, rows: true },
        Caches { keys: true, rows: true },
    ];

    fn name(self) -> &'static str {
        match (self.keys, self.rows) {
            (false, false) => "no cache of its own",
            (true, false) => "key cache",
            (false, true) => "row cache",
            (true, true) => "key cache and row cache",
        }
    }
}

fn page_cache_name(cache: Cache) -> &'static str {
    match cache {
        Cache::Cold => "cold page cache",
        Cache::Warm => "warm page cache",
    }
}

/// Measures it, and draws `readers.svg`.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let keyspace = bench.volumes()?;
    let ids: Result<Arc<[VolumeId]>> =
        (0..bench.corpus.volumes).map(|index| Ok(VolumeId::parse(&bench.corpus.id(index))?)).collect();
    let ids = ids?;
    let mut keys = Vec::new();
    // The schema changes as rarely as possible.
    for caches in Caches::ALL {
        for page_cache in [Cache::Cold, Cache::Warm] {
            keys.extend(bench.settings.readers.iter().map(|&readers| Key { readers, caches, page_cache }));
        }
    }
    let node = &bench.node;
    let trial = async |key: Key| trial(node, keyspace, &ids, key).await;
    let points = bench.runtime.block_on(in_turn("readers", bench.settings.repetitions, keys, trial))?;
    std::fs::create_dir_all(&bench.charts)?;
    let file = bench.charts.join("readers.svg");
    std::fs::write(&file, chart(&points, &bench.settings.readers).svg()?)
        .with_context(|| format!("writing {}", file.display()))?;
    Ok(figures(&points))
}

/// One trial. A cold page cache is empty at its start; a warm one has everything, because it was
/// read just before.
async fn trial(node: &Node, keyspace: &str, ids: &Arc<[VolumeId]>, key: Key) -> Result<Trial> {
    set(node, keyspace, key.caches).await?;
    let store: Arc<dyn Store> = node.open(keyspace).await?;
    let library = open_library(&store).await?;
    match key.page_cache {
        Cache::Warm => drop(read_all(&library, ids, key.readers).await?),
        Cache::Cold => {
            forget(node, key.caches)?;
            page_cache::forget(&node.data()?).context("dropping the page cache of the node's files")?;
        }
    }
    let (before, begun) = (node.usage()?, Instant::now());
    let sizes: Sizes = read_all(&library, ids, key.readers).await?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(sizes.text_bytes > 0, "there is nothing to read");
    let device_bytes = node.usage()?.since(before).disks.map(|disks| disks.read as u64);
    drop(library);
    store.close().await?;
    Ok(Trial { seconds, text_bytes: sizes.text_bytes, coded_bytes: sizes.frame_bytes, device_bytes })
}

/// Makes the node use these caches for the tables of volumes.
async fn set(node: &Node, keyspace: &str, caches: Caches) -> Result<()> {
    let which = |is_on: bool| if is_on { "ALL" } else { "NONE" };
    let (keys, rows) = (which(caches.keys), which(caches.rows));
    let session = node.session().await?;
    for table in [Table::Objects, Table::Packs] {
        let alter = format!(
            "ALTER TABLE {keyspace}.{table} WITH caching = {{'keys': '{keys}', 'rows_per_partition': '{rows}'}}"
        );
        session.query_unpaged(alter, ()).await?;
    }
    Ok(())
}

/// Empties those of the node's caches that it uses.
fn forget(node: &Node, caches: Caches) -> Result<()> {
    for (is_on, command) in [(caches.keys, "invalidatekeycache"), (caches.rows, "invalidaterowcache")] {
        if is_on {
            node.nodetool(&[command])?;
        }
    }
    Ok(())
}

fn figures(points: &[Point<Key>]) -> Figures {
    let mut figures = Figures::default();
    for Point { key, trials } in points {
        let Key { readers, caches, page_cache } = key;
        let what =
            |what: &str| format!("{}, {}, {readers} readers: {what}", page_cache_name(*page_cache), caches.name());
        for trial in trials {
            figures.report(what("page text"), "MB/s", trial.text_rate());
            let from_disk = trial.device_bytes.unwrap_or_default() as f64 / trial.coded_bytes as f64;
            figures.report(what("fetched from the disk"), "bytes per byte of frames", from_disk);
        }
    }
    figures
}

fn chart(points: &[Point<Key>], readers: &[usize]) -> Chart {
    let series = |page_cache: Cache, caches: Caches| {
        let points = points.iter().filter(|point| point.key.page_cache == page_cache && point.key.caches == caches);
        let dot = |point: &Point<Key>| {
            let Statistics { mean, standard_error, .. } = point.text_rate();
            Dot { x: point.key.readers as f64, mean, standard_error }
        };
        Series { name: caches.name().into(), dots: points.map(dot).collect(), joined_from: Some(0.0) }
    };
    let panel = |page_cache: Cache| Panel {
        title: page_cache_name(page_cache).into(),
        x_label: "readers at once, of the whole service".into(),
        x_ticks: readers.iter().map(|readers| (*readers as f64, readers.to_string())).collect(),
        y_label: "MB/s of page text".into(),
        y_scale: Scale::Linear,
        series: Caches::ALL.map(|caches| series(page_cache, caches)).into(),
    };
    Chart {
        title: "Out of Cassandra (mean and standard error)".into(),
        columns: 2,
        panels: vec![panel(Cache::Cold), panel(Cache::Warm)],
    }
}
