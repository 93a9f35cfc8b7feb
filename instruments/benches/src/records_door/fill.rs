//! Writes many records, and what they take: time, memory and disk.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Result, anyhow};

use super::bench::Bench;
use super::record;
use super::subject::connect;
use crate::rig::figures::{Figures, Goal};
use crate::rig::work::disk_bytes;

/// Connections that write at the same time.
const CONNECTIONS: u64 = 8;

/// Records that are sent before the first answer is read.
const AT_ONCE: u64 = 200;

/// The share of Redis's memory that the same records may take.
const MEMORY_SHARE: f64 = 0.2;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..bench.settings.repetitions {
        let mut resident = Vec::new();
        for kind in bench.settings.subjects.clone() {
            let Some(subject) = bench.start(kind)? else { continue };
            let began = Instant::now();
            fill(subject.address, bench.settings.records, None)?;
            let rate = bench.settings.records as f64 / began.elapsed().as_secs_f64();
            figures.report(format!("{kind}: written"), "records/s", rate);
            subject.process.settle()?;
            let memory_mb = subject.process.memory()?.now_bytes / 1e6;
            figures.report(format!("{kind}: resident"), "MB", memory_mb);
            figures.report(format!("{kind}: on disk"), "MB", disk_bytes(subject.folder.path())? as f64 / 1e6);
            resident.push((kind, memory_mb));
        }
        let of = |wanted| resident.iter().find(|(kind, _)| *kind == wanted).map(|(_, memory_mb)| *memory_mb);
        for (kind, ours) in &resident {
            if let Some(theirs) = kind.peer().and_then(of) {
                let what = format!("{kind}: memory over that of Redis");
                figures.hold(what, "times", Goal::AtMost(MEMORY_SHARE), ours / theirs);
            }
        }
    }
    Ok(figures)
}

/// Writes the records 0 to `records`, pipelined over some connections. With `expires_in_ms`, each
/// expires after as many milliseconds as that returns.
pub fn fill(address: SocketAddr, records: u64, expires_in_ms: Option<&(dyn Fn(u64) -> u64 + Sync)>) -> Result<()> {
    fill_named(address, records, record::id, expires_in_ms)
}

/// The same, with ids of another form.
pub fn fill_named(
    address: SocketAddr,
    records: u64,
    id: fn(u64) -> String,
    expires_in_ms: Option<&(dyn Fn(u64) -> u64 + Sync)>,
) -> Result<()> {
    let write = |connection: u64| -> Result<()> {
        let mut client = connect(address)?;
        let (from, to) = (begin_of(connection, records), begin_of(connection + 1, records));
        for first in (from..to).step_by(usize::try_from(AT_ONCE)?) {
            let mut pipe = redis::pipe();
            for number in first..to.min(first + AT_ONCE) {
                let id = id(number);
                pipe.add_command(record::set(&id, &mut record::random(number))).ignore();
                if let Some(expires_in_ms) = expires_in_ms {
                    pipe.cmd("PEXPIRE").arg(id).arg(expires_in_ms(number)).ignore();
                }
            }
            pipe.query::<()>(&mut client)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS).map(|connection| scope.spawn(move || write(connection))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a client panicked"))?)
    })
}

/// The first record that a connection writes.
fn begin_of(connection: u64, records: u64) -> u64 {
    records * connection / CONNECTIONS
}

/// The records that [`fill`] writes last, one of each connection.
pub fn last_written(records: u64) -> impl Iterator<Item = u64> {
    (1..=CONNECTIONS).filter_map(move |connection| begin_of(connection, records).checked_sub(1))
}
