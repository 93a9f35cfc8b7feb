//! `penates synth`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use futures::{Stream, StreamExt, TryStreamExt};
use hathi::{Mets, Sampler, SynthOptions, SynthVolume, VolumeReader};
use indicatif::ProgressBar;

use crate::cli::{JOBS_PER_PROCESSOR, JobsArgs, OutputArgs, WriteArgs};
use crate::commands::import;
use crate::ingest::{FailedList, Ingest, MemoryVolume, Meter, Mode, Source, Summary};
use crate::{interrupt, progress, reach, samples};

/// Arguments of `penates synth`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates synth --volumes 5000
  penates synth --volumes 100 --pages 340 --page-scale 1.7 --seed 7 --out ./corpus")]
pub struct SynthArgs {
    /// How many volumes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    volumes: u64,
    /// Seed for drawing pages.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Pages of each volume [default: as many as the samples have]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pages: Option<u32>,
    /// Factor for the size of pages; 1 is real.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_scale)]
    page_scale: f64,
    /// Write a pairtree into this folder instead of importing into a store.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["store", "server", "init"])]
    out: Option<PathBuf>,
    /// How many at once.
    #[command(flatten)]
    jobs: JobsArgs,
    /// How the summary is printed.
    #[command(flatten)]
    output: OutputArgs,
    /// Where to.
    #[command(flatten)]
    write: WriteArgs,
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=1_000.0).contains(&scale) => Ok(scale),
        _ => Err("must be a number from 0.001 to 1000".to_owned()),
    }
}

impl SynthArgs {
    fn options(&self) -> SynthOptions {
        SynthOptions {
            seed: self.seed,
            volumes: self.volumes,
            pages_per_volume: self.pages,
            page_scale: self.page_scale,
        }
    }
}

/// Runs it.
pub async fn run(args: SynthArgs) -> anyhow::Result<()> {
    let sampler = Arc::new(sampler()?);
    let jobs = args.jobs.count(JOBS_PER_PROCESSOR);
    let bar = progress::volumes(args.volumes);
    let made = made(sampler, args.options(), jobs);
    let summary = match &args.out {
        Some(folder) => write_pairtree(made, folder, jobs, &bar).await?,
        None => import_all(&args, made, &bar).await?,
    };
    bar.finish_and_clear();
    import::print(&summary, args.output)?;
    import::outcome(&summary)
}

fn sampler() -> anyhow::Result<Sampler> {
    let volumes = samples::volumes().into_iter().map(VolumeReader::new).collect::<Result<Vec<_>, _>>();
    volumes.and_then(Sampler::from_volumes).context("reading the bundled samples")
}

/// The volumes, some of them made ahead.
fn made(sampler: Arc<Sampler>, options: SynthOptions, jobs: usize) -> impl Stream<Item = SynthVolume> {
    let options = Arc::new(options);
    futures::stream::iter(0..options.volumes)
        .map(move |index| {
            let (sampler, options) = (sampler.clone(), options.clone());
            blocking(move || sampler.volume(&options, index))
        })
        .buffered(jobs)
}

async fn write_pairtree(
    made: impl Stream<Item = SynthVolume>,
    folder: &Path,
    jobs: usize,
    bar: &ProgressBar,
) -> anyhow::Result<Summary> {
    let written = made.map(|volume| {
        let folder = folder.to_path_buf();
        blocking(move || write_volume(&volume, &folder))
    });
    written
        .buffer_unordered(jobs)
        .try_fold(Summary::default(), async |mut summary, (pages, zip_bytes)| {
            bar.inc(1);
            summary.new += 1;
            summary.pages += pages;
            summary.zip_bytes += zip_bytes;
            Ok(summary)
        })
        .await
}

/// Writes one volume. Returns its number of pages and the bytes of its ZIP.
fn write_volume(volume: &SynthVolume, folder: &Path) -> anyhow::Result<(u64, u64)> {
    let pages = Mets::parse(&volume.mets).context("reading the METS that was made")?.pages.len();
    volume.write_pairtree(folder).with_context(|| format!("writing into {}", folder.display()))?;
    Ok((pages as u64, volume.zip.len() as u64))
}

async fn import_all(
    args: &SynthArgs,
    made: impl Stream<Item = SynthVolume>,
    bar: &ProgressBar,
) -> anyhow::Result<Summary> {
    let stop = interrupt::stop_token()?;
    let target = import::into_target(reach::find_to_write(&args.write).await?).await?;
    // The bar counts volumes. The bar of the ingest would count bytes, whose sum is not known yet.
    let sources = made.map(|volume| Ok(source(volume))).inspect(|_| bar.inc(1));
    let ingest = Ingest {
        target: &target,
        mode: Mode::Import,
        jobs: args.jobs.count(target.jobs_per_processor()),
        meter: Meter::hidden(),
        stop,
    };
    let ended = ingest.run(sources, &mut FailedList::shown()).await;
    import::close(target).await?;
    ended
}

fn source(volume: SynthVolume) -> Source {
    Source::Memory(MemoryVolume {
        zip: volume.zip.into(),
        mets: volume.mets.into(),
        record: Some(Bytes::from(volume.record)),
    })
}

/// Runs work that uses a processor for a while.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
