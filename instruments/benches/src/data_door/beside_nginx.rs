//! Compares an archive from Penates with the same archive as a finished file from nginx, measured
//! in turn with the same client.

use std::io::{Read, Write};
use std::net::SocketAddr;

use anyhow::Result;

use super::bench::Bench;
use super::nginx::{self, Nginx};
use super::syscalls;
use crate::rig::client::Client;
use crate::rig::download::{Asking, Sample, check, downloads, measure, ways_of_asking};
use crate::rig::figures::{Figures, Goal};
use crate::rig::penates::Server;
use crate::rig::process::Process;
use crate::rig::tls::Identity;
use crate::rig::work::text_bytes;

/// The connections of a comparison, and its targets.
pub struct Comparison<S> {
    /// Connects.
    pub connect: fn(&Identity, SocketAddr) -> Result<Client<S>>,
    /// The address of Penates.
    pub penates: fn(&Server) -> Result<SocketAddr>,
    /// The address of nginx.
    pub nginx: fn(&Nginx) -> SocketAddr,
    /// Gigabytes of page text per second.
    pub text: Option<Goal>,
    /// Penates' rate over nginx's.
    pub of_nginx: Goal,
}

/// A server, and the requests to it.
struct Contestant<'a, S> {
    name: &'static str,
    asking: Asking,
    client: Client<S>,
    process: &'a Process,
}

impl<S: Read + Write> Comparison<S> {
    /// Measures it with few volumes and with all.
    pub fn run(&self, bench: &mut Bench) -> Result<Figures> {
        let mut figures = Figures::default();
        let mut sizes = vec![bench.settings.few, bench.settings.volumes];
        sizes.dedup();
        for volumes in sizes {
            self.of_volumes(bench, volumes, &mut figures)?;
        }
        Ok(figures)
    }

    fn of_volumes(&self, bench: &mut Bench, volumes: u64, figures: &mut Figures) -> Result<()> {
        let server = bench.server()?;
        let text_bytes = text_bytes(&server, &bench.corpus, volumes)?;
        let zip = bench.work.finished_zip(&server, &bench.corpus, volumes)?;
        let nginx = match nginx::version() {
            Some(_) => Some(Nginx::start(bench.work.running(), &zip.folder, &bench.identity)?),
            None => bench.leave_out(nginx::HOW_TO_GET),
        };
        let mut contestants = Vec::new();
        for (name, asking) in ways_of_asking(&server, &bench.corpus, volumes)? {
            let client = (self.connect)(&bench.identity, (self.penates)(&server)?)?;
            contestants.push(Contestant { name, asking, client, process: &server.process });
        }
        if let Some(nginx) = &nginx {
            let asking = Asking::Get(format!("/{}", zip.name));
            let client = (self.connect)(&bench.identity, (self.nginx)(nginx))?;
            contestants.push(Contestant { name: "nginx", asking, client, process: &nginx.process });
        }
        for Contestant { asking, client, .. } in &mut contestants {
            check(client, &asking.request(), zip.crc32)?;
        }
        let times = downloads(zip.bytes);
        for _ in 0..bench.settings.repetitions {
            let mut rates = Vec::new();
            for Contestant { name, asking, client, process } in &mut contestants {
                let sample = measure(client, &asking.requests(times), zip.bytes, process)?;
                self.report(figures, volumes, name, &sample, text_bytes);
                rates.push((*name, sample.gigabytes_per_second()));
            }
            if let [ours @ .., ("nginx", by_nginx)] = rates.as_slice() {
                for (name, rate) in ours {
                    let what = format!("{volumes} volumes, {name}: of nginx's rate");
                    figures.hold(what, "times", self.of_nginx, rate / by_nginx);
                }
            }
        }
        for Contestant { name, asking, client, process } in &mut contestants {
            let request = asking.request();
            if let Some(calls) = syscalls::count(process, || client.fetch(&request).map(drop))? {
                let what = format!("{volumes} volumes, {name}: system calls of the server");
                figures.report(what, "per MB of ZIP", calls as f64 / (zip.bytes as f64 / 1e6));
            }
        }
        Ok(())
    }

    fn report(&self, figures: &mut Figures, volumes: u64, name: &str, sample: &Sample, text_bytes: u64) {
        let what = |what: &str| format!("{volumes} volumes, {name}: {what}");
        figures.report(what("ZIP"), "GB/s", sample.gigabytes_per_second());
        match self.text.filter(|_| name != "nginx") {
            Some(target) => figures.hold(what("page text"), "GB/s", target, sample.rate_of(text_bytes)),
            None => figures.report(what("page text"), "GB/s", sample.rate_of(text_bytes)),
        }
        let cpu = [("server", sample.server_cpu_seconds), ("client", sample.client_cpu_seconds)];
        for (whose, seconds) in cpu {
            figures.report(
                what(&format!("CPU of the {whose}")),
                "ms per GB of ZIP",
                sample.cpu_ms_per_gigabyte(seconds),
            );
        }
    }
}
