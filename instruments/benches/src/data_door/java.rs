//! Bulk archives, compared with a Java program that makes its ZIP while it sends it
//! (`instruments/benches/java/ZipServer.java`).

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::slice;

use anyhow::{Context, Result, ensure};

use super::bench::Bench;
use crate::rig::client::{Client, Request};
use crate::rig::download::{check, downloads, measure, ways_of_asking};
use crate::rig::figures::{Figures, Goal};
use crate::rig::penates::listening;
use crate::rig::process::Process;
use crate::rig::work::{Zip, text_bytes};

/// How to install it.
pub const HOW_TO_GET: &str = "java and javac are not installed (apt-get install default-jdk-headless)";
/// The source of the program.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/java/ZipServer.java");
/// Downloads before anything is measured, because Java compiles while it runs.
const WARM_UPS: usize = 3;
/// DEFLATE levels, and the target: how many times as much page text per second Penates sends.
const LEVELS: [(u8, Goal); 2] = [(0, Goal::AtLeast(3.0)), (1, Goal::AtLeast(45.0))];

/// Its version, if it is installed.
pub fn version() -> Option<String> {
    let said = |program: &str| {
        let output = Command::new(program).arg("-version").output().ok()?;
        // Older versions print it on standard error.
        let said = [output.stdout, output.stderr].concat();
        let first_line = String::from_utf8_lossy(&said).lines().next()?.to_owned();
        output.status.success().then_some(first_line)
    };
    said("javac").and(said("java"))
}

/// Measures it with few volumes.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    if version().is_none() {
        bench.leave_out::<()>(HOW_TO_GET);
        return Ok(figures);
    }
    let volumes = bench.settings.few;
    let server = bench.server()?;
    let text_bytes = text_bytes(&server, &bench.corpus, volumes)?;
    let zip = bench.work.finished_zip(&server, &bench.corpus, volumes)?;
    let (java, address) = start(bench.work.running(), &zip)?;
    let mut by_java = Client::connect(address)?;
    let mut java_levels = Vec::new();
    for (level, target) in LEVELS {
        let request = Request::get(&format!("/{level}"));
        let mut bytes = 0;
        for _ in 0..WARM_UPS {
            bytes = by_java.fetch(&request)?.body_bytes;
        }
        ensure!(bytes > zip.bytes / 2, "{bytes} bytes of Java's cannot be the same pages");
        java_levels.push((level, target, request, bytes));
    }
    let mut ways = ways_of_asking(&server, &bench.corpus, volumes)?;
    let mut by_penates = Client::connect(server.http)?;
    for (_, asking) in &mut ways {
        check(&mut by_penates, &asking.request(), zip.crc32)?;
    }
    for _ in 0..bench.settings.repetitions {
        let mut ours = Vec::new();
        for (name, asking) in &mut ways {
            let requests = asking.requests(downloads(zip.bytes));
            let sample = measure(&mut by_penates, &requests, zip.bytes, &server.process)?;
            ours.push((*name, sample.rate_of(text_bytes)));
            figures.report(format!("{name}: page text"), "GB/s", sample.rate_of(text_bytes));
        }
        for (level, target, request, bytes) in &java_levels {
            let sample = measure(&mut by_java, slice::from_ref(request), *bytes, &java)?;
            let rate = sample.rate_of(text_bytes);
            figures.report(format!("Java, level {level}: page text"), "GB/s", rate);
            figures.report(format!("Java, level {level}: ZIP"), "GB/s", sample.gigabytes_per_second());
            for (name, our_rate) in &ours {
                figures.hold(format!("{name}: of Java's rate at level {level}"), "times", *target, our_rate / rate);
            }
        }
    }
    Ok(figures)
}

/// Compiles the program, and starts it with the pages of an archive.
fn start(folder: &Path, zip: &Zip) -> Result<(Process, SocketAddr)> {
    let classes = folder.join("classes");
    let compiled = Command::new("javac").arg("-d").arg(&classes).arg(SOURCE).status().context("cannot start javac")?;
    ensure!(compiled.success(), "{SOURCE} cannot be compiled");
    let mut command = Command::new("java");
    command.arg("-cp").arg(&classes).arg("ZipServer").arg(zip.folder.join(&zip.name));
    let mut process = Process::start(&mut command, &folder.join("java.log"))?;
    let address = process.wait_for(|said| listening(said, "http"))?;
    Ok((process, address))
}
