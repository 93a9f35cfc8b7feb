//! `penates demo`

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use clap::Args;
use hathi::{VolumeId, VolumeReader};
use server::Addresses;

use crate::cli::{JobsArgs, StoreArgs};
use crate::client;
use crate::commands::serve::{self, ListenArgs};
use crate::exit::CliError;
use crate::ingest::{FailedList, ImportTarget, Ingest, Local, MemoryVolume, Meter, Mode, Source, Summary};
use crate::output::Output;
use crate::samples::{self, SampleParts};
use crate::settings::{self, Flags};
use crate::{interrupt, local};

/// The page of the examples: the first page of text.
const EXAMPLE_PAGE: u32 = 9;

/// Where the demo offers records over the Redis protocol: where its clients look first.
const RECORDS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6379);

/// Arguments of `penates demo`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates demo --store ./data")]
#[command(mut_arg("tls_listen", |arg| arg.help("Address of HTTPS, or `off` [default: off]")))]
#[command(mut_arg("records_listen", |arg| {
    arg.help("Address of the Redis protocol, or `off` [default: 127.0.0.1:6379, if it is free]")
}))]
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
    let loaded = settings::load(&args.store, flags)?;
    let mut settings = loaded.settings.clone();
    if loaded.is_default("listen.tls") {
        settings.server.listen.tls = None;
    }
    if loaded.is_default("records.listen") {
        settings.server.records.listen = Some(RECORDS);
        // A Redis server may listen there already.
        settings.server.records.gives_way = true;
    }
    // What to try stays on the screen.
    if loaded.is_default("log.level") {
        settings.server.log.level = "warn".to_owned();
    }
    let _logging = server::init_logging(&settings.server.log)?;
    server::keep_files_private();
    let store = local::open_store(&settings).await.map_err(local::cannot_open)?;
    let target = ImportTarget::Library(Local::new(local::open_library(&settings, store.clone()).await?, &settings));
    let summary = import_samples(&target).await?;
    note!("{} sample volumes with {} pages are in {}.", summary.sound(), summary.pages, settings.path.display());
    let listen = settings.server.listen.clone();
    let ready = |addresses| {
        if let Err(error) = report(&addresses) {
            note!("cannot print what to try: {error}");
        }
    };
    let served = server::serve(settings.server, store, ready, interrupt::asked_to_end()?).await;
    served.map_err(|error| serve::cannot_serve(error, &listen))?;
    note!("Stopped. The next run reuses the data.");
    Ok(())
}

async fn import_samples(target: &ImportTarget) -> anyhow::Result<Summary> {
    let volumes: Vec<Source> = samples::volumes().into_iter().map(source).collect();
    let meter = Meter::shown(volumes.iter().map(Source::zip_bytes).sum());
    let jobs = JobsArgs { jobs: None }.count(target.jobs_per_processor());
    let stop = tokio_util::sync::CancellationToken::new();
    let ingest = Ingest { target, mode: Mode::Import, jobs, meter, stop };
    let volumes = futures::stream::iter(volumes.into_iter().map(Ok));
    let summary = ingest.run(volumes, &mut FailedList::shown()).await?;
    ingest.meter.clear();
    if summary.failed > 0 { Err(CliError::Incomplete.into()) } else { Ok(summary) }
}

fn source(parts: SampleParts) -> Source {
    Source::Memory(MemoryVolume {
        zip: Bytes::from_static(parts.zip.into_inner()),
        mets: parts.mets.into(),
        record: parts.record.map(Bytes::from),
    })
}

/// Prints what to try.
fn report(addresses: &Addresses) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    if let (Some((base, curl)), Some(id)) = (way_in(addresses), example()?) {
        output.line(what_to_try(&base, &curl, &id))?;
        if let Some(records) = addresses.records {
            output.line(records_to_try(records))?;
        }
        output.line("\nCtrl-C ends it.")?;
    }
    output.finish()
}

/// The address of the examples, and the curl command for it: over HTTPS with the certificate to
/// trust.
fn way_in(addresses: &Addresses) -> Option<(String, String)> {
    match addresses {
        Addresses { http: Some(http), .. } => Some((format!("http://{http}"), "curl".to_owned())),
        Addresses { tls: Some(tls), tls_cert: Some(cert), .. } => {
            Some((format!("https://{tls}"), format!("curl --cacert '{}'", cert.display())))
        }
        _ => None,
    }
}

fn what_to_try(base: &str, curl: &str, id: &VolumeId) -> String {
    let id = client::segment(id);
    format!(
        "
Open in a browser:          {base}/
One page:                   {curl} '{base}/volumes/{id}/pages/{EXAMPLE_PAGE}'
One volume as a ZIP:        {curl} -o volume.zip '{base}/volumes?volumeIDs={id}'
All volumes as one ZIP:     {curl} -s '{base}/volumes/?format=text' | {curl} -o volumes.zip -H 'Content-Type: text/plain' --data-binary @- '{base}/volumes'"
    )
}

fn records_to_try(records: SocketAddr) -> String {
    let (host, port) = (records.ip(), records.port());
    format!("Records, like a Redis server: redis-cli -h {host} -p {port} DBSIZE")
}

/// The volume of the examples: the first of the samples.
fn example() -> anyhow::Result<Option<VolumeId>> {
    let first = samples::volumes().into_iter().next().map(VolumeReader::new).transpose()?;
    Ok(first.map(|volume| volume.id().clone()))
}
