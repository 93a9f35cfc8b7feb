//! Bulk archives, beside nginx that sends the same archive as a finished file.

use anyhow::Result;

use super::bench::{Bench, text_bytes};
use super::client::{Client, Request};
use super::download::{Sample, check, downloads, measure};
use super::figures::{Figures, Target};
use super::nginx::{self, Nginx};
use super::syscalls;
use super::work::Zip;

/// Page text a second, in GB.
const TEXT_RATE: Target = Target::AtLeast(3.0);
/// Of nginx's rate.
const OF_NGINX: Target = Target::AtLeast(1.1);

/// Measures it for few volumes and for all.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for volumes in [bench.settings.few, bench.settings.volumes] {
        for_volumes(bench, volumes, &mut figures)?;
    }
    Ok(figures)
}

fn for_volumes(bench: &mut Bench, volumes: u64, figures: &mut Figures) -> Result<()> {
    let ids = bench.corpus.ids(volumes);
    let server = bench.server()?;
    let text_bytes = text_bytes(&server, &bench.corpus, volumes)?;
    let zip = bench.work.finished_zip(&server, &bench.corpus, volumes)?;
    let nginx = match nginx::version() {
        Some(_) => Some(Nginx::start(bench.work.running(), &zip.folder, &bench.identity)?),
        None => bench.leave_out(nginx::HOW_TO_GET),
    };
    let selection = server.select(&ids)?;
    // What a request of its own costs, and what only a stored plan does: a GET as nginx answers it.
    let mut contestants = vec![
        ("selection", Request::get(&selection), Client::connect(server.http)?, &server.process),
        ("POST of ids", Request::post("/volumes", &ids), Client::connect(server.http)?, &server.process),
    ];
    if let Some(nginx) = &nginx {
        let request = Request::get(&format!("/{}", zip.name));
        contestants.push(("nginx", request, Client::connect(nginx.http)?, &nginx.process));
    }
    for (_, request, client, _) in &mut contestants {
        check(client, request, zip.crc32)?;
    }
    let times = downloads(zip.bytes);
    for _ in 0..bench.settings.repetitions {
        let mut samples = Vec::new();
        for (name, request, client, process) in &mut contestants {
            let sample = measure(client, request, zip.bytes, times, process)?;
            tell(figures, volumes, name, &sample, text_bytes);
            samples.push((*name, sample.gigabytes_per_second()));
        }
        if let [rest @ .., ("nginx", by_nginx)] = samples.as_slice() {
            for (name, rate) in rest {
                figures.hold(format!("{volumes} volumes, {name}: of nginx's rate"), "times", OF_NGINX, rate / by_nginx);
            }
        }
    }
    for (name, request, client, process) in &mut contestants {
        if let Some(calls) = syscalls::count(process, || client.fetch(request).map(drop))? {
            figures.tell(format!("{volumes} volumes, {name}: system calls"), "a MB", calls as f64 / megabytes(&zip));
        }
    }
    Ok(())
}

fn tell(figures: &mut Figures, volumes: u64, name: &str, sample: &Sample, text_bytes: u64) {
    let what = |what: &str| format!("{volumes} volumes, {name}: {what}");
    figures.tell(what("ZIP"), "GB/s", sample.gigabytes_per_second());
    if name == "nginx" {
        figures.tell(what("page text"), "GB/s", sample.rate_of(text_bytes));
    } else {
        figures.hold(what("page text"), "GB/s", TEXT_RATE, sample.rate_of(text_bytes));
    }
    figures.tell(what("CPU of the server"), "ms a GB of ZIP", sample.cpu_ms_per_gigabyte(sample.server_cpu_seconds));
    figures.tell(what("CPU of the client"), "ms a GB of ZIP", sample.cpu_ms_per_gigabyte(sample.client_cpu_seconds));
}

fn megabytes(zip: &Zip) -> f64 {
    zip.bytes as f64 / 1e6
}
