//! The time from start to readiness with all volumes stored, and the memory of an idle server.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::bench::Bench;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};

const READY_MS: Goal = Goal::AtMost(200.0);
const IDLE_MB: Goal = Goal::AtMost(60.0);
/// The longest idle time.
const IDLE: Duration = Duration::from_secs(3);

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let store = bench.work.store(&bench.corpus)?;
    for _ in 0..bench.settings.repetitions {
        let begun = Instant::now();
        let server = bench.work.penates().serve(store.as_os_str(), &store.with_extension("log"), None, &[])?;
        Client::connect(server.http)?.fetch(&Request::get("/readyz"))?;
        figures.hold("start until /readyz says so", "ms", READY_MS, begun.elapsed().as_secs_f64() * 1e3);
        thread::sleep(IDLE.min(Duration::from_secs_f64(bench.settings.seconds)));
        let memory = server.process.memory()?;
        figures.hold("resident when idle", "MB", IDLE_MB, memory.now_bytes / 1e6);
        figures.report("peak since the start", "MB", memory.peak_bytes / 1e6);
    }
    Ok(figures)
}
