//! A selection of all volumes: creating it, and the first byte of its archive.

use anyhow::{Context, Result, ensure};

use super::bench::Bench;
use crate::rig::client::{Client, Head, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::penates::Server;

const MAKING_MS: Goal = Goal::AtMost(500.0);
const FIRST_BYTE_MS: Goal = Goal::AtMost(50.0);

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let server = bench.server()?;
    let volumes = bench.settings.volumes;
    // Two lists, so that neither finds the selection of the other.
    let lists = [bench.corpus.ids(volumes), bench.corpus.ids_from(1, volumes)];
    once(&server, &lists, &mut Figures::default())?; // warms caches up
    for _ in 0..bench.settings.repetitions {
        once(&server, &lists, &mut figures)?;
    }
    Ok(figures)
}

fn once(server: &Server, [asked, unasked]: &[String; 2], figures: &mut Figures) -> Result<()> {
    let connect = || Client::connect(server.http);

    let made = connect()?.fetch(&Request::post("/selections", asked))?;
    figures.hold("POST /selections: whole answer", "ms", MAKING_MS, made.whole.as_secs_f64() * 1e3);
    let selection = made.head.header("location").context("a selection without a location")?;

    let (head, first_byte) = connect()?.first_byte(&Request::get(selection))?;
    check(&head)?;
    figures.hold("GET of the selection: first byte", "ms", FIRST_BYTE_MS, first_byte.as_secs_f64() * 1e3);

    let (head, first_byte) = connect()?.first_byte(&Request::post("/volumes", unasked))?;
    check(&head)?;
    figures.hold("POST /volumes: first byte", "ms", MAKING_MS, first_byte.as_secs_f64() * 1e3);
    let unasked = head.header("content-location").context("a POST that makes no selection")?;

    for selection in [selection, unasked] {
        connect()?.fetch(&Request::delete(selection))?;
    }
    Ok(())
}

fn check(head: &Head) -> Result<()> {
    ensure!(head.content_length().is_some() && head.header("etag").is_some(), "no length or no ETag: {head:?}");
    Ok(())
}
