//! `penates demo`

use bytes::Bytes;
use clap::Args;
use hathi::{VolumeId, VolumeReader};
use server::Addresses;

use crate::cli::{JobsArgs, StoreArgs};
use crate::commands::serve::ListenArgs;
use crate::exit::CliError;
use crate::ingest::{FailedList, Ingest, MemoryVolume, Mode, Source, Summary, Target};
use crate::samples::{self, SampleParts};
use crate::settings::{self, Flags};
use crate::{interrupt, local, progress};

/// Imports the sample volumes that come with the program, unless they are there already, serves them on this machine, and
/// prints what to try. Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates demo --store ./data")]
pub struct DemoArgs {
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
    /// Where to listen.
    #[command(flatten)]
    listen: ListenArgs,
}

/// Runs it.
pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let mut flags = Flags::of(&args.store)?;
    args.listen.apply(&mut flags);
    let config = settings::load(&args.store, flags)?.config;
    server::init_logging(&config.log)?;
    let store = local::open_store(&config).await.map_err(local::cannot_open)?;
    let target = Target::Library(local::open_library(&config, store.clone()).await?);
    let summary = import_samples(&target).await?;
    eprintln!(
        "{} sample volumes with {} pages are in {}.",
        summary.sound(),
        summary.pages,
        config.store.path.display()
    );
    server::serve(config, store, tell, interrupt::asked_to_end()?).await?;
    eprintln!("Ended. The next run finds its data again.");
    Ok(())
}

async fn import_samples(target: &Target) -> anyhow::Result<Summary> {
    let volumes: Vec<Source> = samples::volumes().into_iter().map(source).collect();
    let bar = progress::bytes(Some(volumes.iter().map(Source::zip_bytes).sum()));
    let jobs = JobsArgs { jobs: None }.count();
    let stop = tokio_util::sync::CancellationToken::new();
    let ingest = Ingest { target, mode: Mode::Import, jobs, bar, stop };
    let volumes = futures::stream::iter(volumes.into_iter().map(Ok));
    let summary = ingest.run(volumes, &mut FailedList::new(None)?).await?;
    ingest.bar.finish_and_clear();
    if summary.failed > 0 { Err(CliError::Incomplete.into()) } else { Ok(summary) }
}

fn source(parts: SampleParts) -> Source {
    Source::Memory(MemoryVolume {
        zip: Bytes::from_static(parts.zip.into_inner()),
        mets: parts.mets.into(),
        record: parts.record.map(Bytes::from),
    })
}

/// Says what to try, with the last of the samples: its id needs no percent-encoding anywhere.
fn tell(addresses: Addresses) {
    let (Some(http), Some(id)) = (addresses.http, samples::volumes().pop().and_then(id)) else { return };
    let base = format!("http://{http}");
    eprintln!(
        "
Open in a browser:          {base}/
One page:                   curl '{base}/volumes/{id}/pages/13'
One volume as a ZIP:        curl -o volume.zip '{base}/volumes?volumeIDs={id}'
All volumes as one ZIP:     curl '{base}/volumes/?format=text' | curl -o volumes.zip -H 'Content-Type: text/plain' --data-binary @- '{base}/volumes'

Ctrl-C ends it."
    );
}

fn id(parts: SampleParts) -> Option<VolumeId> {
    Some(VolumeReader::new(parts).ok()?.id().clone())
}
