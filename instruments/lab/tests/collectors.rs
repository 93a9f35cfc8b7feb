//! What it costs to watch the machine and a node, and whether the figures are right. No two tests run
//! at the same time here: one measures the time of this process on the processors, another the disk.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testbed::monitor::{self, Settings, Watch};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// What runs alone.
static ALONE: Mutex<()> = Mutex::const_new(());

/// How often the lab takes a sample.
const INTERVAL: Duration = Duration::from_secs(1);

/// The time of this process on the processors.
fn processor_time() -> Duration {
    let stat = procfs::process::Process::myself().unwrap().stat().unwrap();
    Duration::from_secs_f64((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

#[tokio::test]
async fn watching_a_node_takes_less_than_a_hundredth_of_a_processor() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("monitor.csv");
    let settings = Settings {
        data: Some(folder.path().to_owned()),
        watches: vec![Watch { name: "node".to_owned(), pid: std::process::id() }],
        cgroups: Vec::new(),
        metrics: None,
        nodes: Vec::new(),
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

/// Bytes that each disk has written, as `iostat` (sysstat) has them.
fn iostat() -> BTreeMap<String, f64> {
    let output = Command::new("iostat").args(["-d", "-k", "-o", "JSON"]).output().unwrap();
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let disks = all["sysstat"]["hosts"][0]["statistics"][0]["disk"].as_array().unwrap().clone();
    let written = |disk: &serde_json::Value| {
        (disk["disk_device"].as_str().unwrap().to_owned(), disk["kB_wrtn"].as_f64().unwrap() * 1024.0)
    };
    disks.iter().map(written).collect()
}

/// Whether `iostat` is there. If not, that is reported, and is a failure if `CI` is set.
fn has_iostat() -> bool {
    let is_there = Command::new("iostat").arg("-V").output().is_ok_and(|output| output.status.success());
    if !is_there {
        let missing = "the figures of the disk beside iostat (package sysstat)";
        assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {missing}");
        eprintln!("not run: {missing}");
        if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
            let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
            writeln!(list, "{missing}").unwrap();
        }
    }
    is_there
}

/// Waits until the monitor has written so many samples.
async fn until_samples(file: &Path, count: usize) {
    let there = async {
        while std::fs::read_to_string(file).map_or(0, |text| text.lines().count()) <= count {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), there).await.unwrap();
}

/// How often the disk is measured, until nobody else writes at the beginning or at the end.
const TRIES: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn what_the_disk_has_written_agrees_with_iostat_within_a_fiftieth() {
    if !has_iostat() {
        return;
    }
    let _alone = ALONE.lock().await;
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let (monitor, iostat) = written().await;
        assert!(iostat >= f64::from(LARGE_MIB << 20), "{iostat}");
        if (monitor / iostat - 1.0).abs() < 0.02 {
            return;
        }
        seen.push((monitor, iostat));
    }
    panic!("what the monitor and iostat have is not the same: {seen:?}");
}

/// The size of the file that is written.
const LARGE_MIB: u32 = 256;

/// Bytes that the disk has written while a file was, by the monitor and by iostat.
async fn written() -> (f64, f64) {
    // What others have written is on the disk before.
    tokio::task::spawn_blocking(rustix::fs::sync).await.unwrap();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("monitor.csv");
    let settings = Settings {
        data: Some(folder.path().to_owned()),
        watches: Vec::new(),
        cgroups: Vec::new(),
        metrics: None,
        nodes: Vec::new(),
        others: false,
        interval: Duration::from_millis(100),
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let out = File::create(&file).unwrap();
    let monitor = tokio::spawn(async move {
        let end = async { drop(stopped.await) };
        monitor::run(&settings, Instant::now(), out, end).await
    });
    until_samples(&file, 2).await;
    let before = iostat();
    let large = folder.path().join("large");
    tokio::task::spawn_blocking(move || {
        let mut large = File::create(large).unwrap();
        let mebibyte = vec![0x5a; 1 << 20];
        for _ in 0..LARGE_MIB {
            large.write_all(&mebibyte).unwrap();
        }
        large.sync_all().unwrap();
    })
    .await
    .unwrap();
    let after = iostat();
    let samples = std::fs::read_to_string(&file).unwrap().lines().count();
    until_samples(&file, samples + 1).await;
    stop.send(()).unwrap();
    monitor.await.unwrap().unwrap();
    let seen = monitor::read("node", File::open(&file).unwrap()).unwrap();
    let column = seen.columns.iter().position(|name| name == "disk_written_bytes_per_s").unwrap();
    let pairs = seen.rows.windows(2);
    let of_monitor = pairs.map(|pair| pair[1].1[column].unwrap_or(0.0) * (pair[1].0 - pair[0].0)).sum();
    // The disk that has written most meanwhile is that of the file.
    let of_iostat = after.iter().map(|(disk, bytes)| bytes - before.get(disk).copied().unwrap_or(0.0));
    (of_monitor, of_iostat.fold(0.0, f64::max))
}
