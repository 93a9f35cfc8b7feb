//! What it costs to watch the machine and a node. It is the only test of its process, whose time on
//! the processors it measures.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::time::Duration;

use testbed::monitor::{self, Settings, Watch};
use tokio::time::{Instant, sleep};

/// How often the lab takes a sample.
const INTERVAL: Duration = Duration::from_secs(1);

/// The time of this process on the processors.
fn processor_time() -> Duration {
    let stat = procfs::process::Process::myself().unwrap().stat().unwrap();
    Duration::from_secs_f64((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

#[tokio::test]
async fn watching_a_node_takes_less_than_a_hundredth_of_a_processor() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("monitor.csv");
    let settings = Settings {
        data: Some(folder.path().to_owned()),
        watches: vec![Watch { name: "node".to_owned(), pid: std::process::id() }],
        cgroups: Vec::new(),
        metrics: None,
        others: false,
        // Often, because the kernel counts in hundredths of a second.
        interval: INTERVAL / 100,
    };
    let before = processor_time();
    monitor::run(&settings, Instant::now(), File::create(&file).unwrap(), sleep(2 * INTERVAL)).await.unwrap();
    let took = processor_time() - before;
    let samples = monitor::read("node", File::open(&file).unwrap()).unwrap().rows.len();
    assert!(samples >= 20, "{samples} samples");
    let share = took.as_secs_f64() / samples as f64 / INTERVAL.as_secs_f64();
    assert!(share < 0.01, "{samples} samples took {took:?}: {share} of a processor at one a second");
}
