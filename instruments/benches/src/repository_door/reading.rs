//! GET of a small RDF source and of a binary of 1 KB, over 32 connections.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;

use super::bench::Bench;
use super::subject::Kind;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::load::closed;

/// The number of connections.
const CONNECTIONS: usize = 32;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let resources = bench.settings.resources as usize;
    for kind in bench.settings.subjects.clone() {
        let Some(subject) = bench.start(kind)? else { continue };
        let mut client = Client::connect(subject.address)?;
        for n in 0..resources {
            client.fetch(&subject.make_container(&format!("r{n}")))?;
            client.fetch(&subject.make_binary(&format!("r{n}/bytes")))?;
        }
        for (what, rate, path) in [
            ("RDF source", 20_000.0, (|n| format!("r{n}")) as fn(usize) -> String),
            ("binary of 1 KB", 30_000.0, (|n| format!("r{n}/bytes")) as fn(usize) -> String),
        ] {
            let is_binary = path(0).contains('/');
            let get = |n: usize| {
                let path = if is_binary { subject.path(&path(n)) } else { subject.container(&path(n)) };
                subject.authorized(Request::get(&path))
            };
            for _ in 0..bench.settings.repetitions {
                let next = AtomicUsize::new(0);
                let before = subject.process.usage()?;
                let (get, next) = (&get, &next);
                let request = |_| get(next.fetch_add(1, Ordering::Relaxed) % resources).bytes();
                let load = closed(subject.address, CONNECTIONS, bench.duration(), request)?;
                let used = subject.process.usage()?.since(before);
                let name = |figure: &str| format!("{kind}, {what}: {figure}");
                match kind {
                    Kind::Penates => figures.hold(name("rate"), "requests/s", Goal::AtLeast(rate), load.rate()),
                    _ => figures.report(name("rate"), "requests/s", load.rate()),
                }
                figures.report(name("p99"), "ms", load.times().p99_ms);
                figures.report(name("CPU of the server"), "µs per request", used.cpu_s * 1e6 / load.answers as f64);
            }
        }
    }
    Ok(figures)
}
