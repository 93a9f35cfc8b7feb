//! Archives from a store in Cassandra, compared with the driver alone reading the same packs.

use std::time::Instant;

use anyhow::Result;

use super::bench::Bench;
use super::driver::Packs;
use crate::rig::client::Client;
use crate::rig::download::{check, downloads, measure, ways_of_asking};
use crate::rig::figures::{Figures, Goal};
use crate::rig::work::text_bytes;

/// Megabytes of page text per second.
const TEXT: Goal = Goal::AtLeast(500.0);
const OF_BARE: Goal = Goal::AtLeast(0.7);
/// Bytes that the server reads ahead for one download: half of a request's greatest share.
const READ_AHEAD_BYTES: u64 = 4 << 20;

/// Measures it with a few volumes.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let keyspace = bench.volumes()?;
    let server = bench.server_on_node(keyspace)?;
    let (corpus, volumes) = (bench.few.clone(), bench.settings.few);
    let text_bytes = text_bytes(&server, &corpus, volumes)?;
    let zip = bench.work.finished_zip(&server, &corpus, volumes)?;
    let address = bench.node()?.address()?;
    let packs = bench.runtime.block_on(Packs::of(address, keyspace, &corpus))?;
    let (times, at_once) = (downloads(zip.bytes), packs.volumes_in(READ_AHEAD_BYTES));
    figures.report("bare program: volumes at once", "volumes", at_once as f64);
    let mut asked = ways_of_asking(&server, &corpus, volumes)?;
    let mut client = Client::connect(server.http)?;
    for (_, asking) in &mut asked {
        check(&mut client, &asking.request(), zip.crc32)?;
    }
    let begun = Instant::now();
    loop {
        for (_, asking) in &mut asked {
            client.fetch(&asking.request())?;
        }
        bench.runtime.block_on(packs.read(1, at_once))?;
        if begun.elapsed() >= bench.warm_up() {
            break;
        }
    }
    for _ in 0..bench.settings.repetitions {
        let before = bench.node()?.usage()?;
        let bare_seconds = bench.runtime.block_on(packs.read(times, at_once))?.as_secs_f64();
        let used = bench.node()?.usage()?.since(before);
        let text_mb = text_bytes as f64 * times as f64 / 1e6;
        figures.report("bare program: page text", "MB/s", text_mb / bare_seconds);
        figures.report("bare program: CPU of the node", "ms per GB of text", used.cpu_s * 1e6 / text_mb);
        for (name, asking) in &mut asked {
            let before = bench.node()?.usage()?;
            let sample = measure(&mut client, &asking.requests(times), zip.bytes, &server.process)?;
            let used = bench.node()?.usage()?.since(before);
            let what = |what: &str| format!("{name}: {what}");
            figures.hold(what("page text"), "MB/s", TEXT, text_mb / sample.seconds);
            figures.hold(what("of the bare program's rate"), "times", OF_BARE, bare_seconds / sample.seconds);
            figures.report(what("CPU of the server"), "ms per GB of text", sample.server_cpu_seconds * 1e6 / text_mb);
            figures.report(what("CPU of the node"), "ms per GB of text", used.cpu_s * 1e6 / text_mb);
        }
    }
    Ok(figures)
}
