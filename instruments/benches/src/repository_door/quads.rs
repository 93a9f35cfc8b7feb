//! Many resources in one request.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::bench::Bench;
use super::subject::Subject;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};

/// The greatest number of resources in one request: bodies are made beforehand.
const IN_ONE_REQUEST: u64 = 100_000;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..bench.settings.repetitions {
        let subject = bench.penates()?;
        let rate = fill(&subject, "many", bench.settings.many)?;
        figures.hold("N-Quads: rate", "resources/s", Goal::AtLeast(20_000.0), rate);
    }
    Ok(figures)
}

/// Fills a container with a number of resources. Returns resources per second.
pub fn fill(subject: &Subject, container: &str, count: u64) -> Result<f64> {
    let mut client = Client::connect(subject.address)?;
    client.fetch(&subject.make_container(container))?;
    let mut seconds = 0.0;
    for first in (0..count).step_by(IN_ONE_REQUEST as usize) {
        let last = count.min(first + IN_ONE_REQUEST);
        let mut body = String::new();
        for n in first..last {
            let name = format!("<http://localhost{}/{n:07}>", subject.container(container));
            // Writing into a string never fails.
            let _ = writeln!(body, "{name} <http://purl.org/dc/terms/title> \"{n}\" {name} .");
        }
        let request = Request::sending("POST", &subject.container(container), "application/n-quads", body.as_bytes());
        let request = request.with("link", "<http://www.w3.org/ns/ldp#RDFSource>; rel=\"type\"");
        let begun = Instant::now();
        let (_, told) = client.text(&request)?;
        seconds += begun.elapsed().as_secs_f64();
        let made = told.lines().filter(|line| line.contains("\"status\":201")).count() as u64;
        ensure!(made == last - first, "only {made} of {} were made", last - first);
    }
    Ok(count as f64 / seconds)
}
