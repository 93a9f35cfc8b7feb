//! A large binary, sent and fetched, compared with a server that only copies through the same HTTP
//! library: into a file that it syncs, and from it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::routing::put;
use futures::StreamExt;
use tokio::io::AsyncWriteExt;

use super::bench::Bench;
use crate::rig::client::{Client, Received, Request};
use crate::rig::figures::{Figures, Goal};

/// Bytes per write.
const PIECE_BYTES: usize = 256 << 10;
/// The target, as a share of the rate of plain copying.
const RATE: Goal = Goal::AtLeast(0.5);
const MEMORY_MB: Goal = Goal::AtMost(64.0);

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let piece: Vec<u8> = (0..PIECE_BYTES).map(|n| (n % 251) as u8).collect();
    let pieces = (bench.settings.large_bytes as usize / PIECE_BYTES).max(1);
    let bytes = (pieces * PIECE_BYTES) as f64;
    let plain = plain_copying(bench.folder().join("plain"))?;
    for _ in 0..bench.settings.repetitions {
        let subject = bench.penates()?;
        let mut rates = Vec::new();
        for (name, address, path) in [("Penates", subject.address, "/rest/large"), ("plain copying", plain, "/large")] {
            let rate = |received: &Received| bytes / 1e6 / received.whole.as_secs_f64();
            let up = Client::connect(address)?.upload(path, "application/x-bytes", &piece, pieces)?;
            let down = Client::connect(address)?.fetch(&Request::get(path))?;
            anyhow::ensure!(down.body_bytes as f64 == bytes, "{name} sent {} bytes", down.body_bytes);
            figures.report(format!("{name}: up"), "MB/s", rate(&up));
            figures.report(format!("{name}: down"), "MB/s", rate(&down));
            rates.push((rate(&up), rate(&down)));
        }
        if let [(up, down), (plain_up, plain_down)] = rates[..] {
            figures.hold("up, of plain copying", "times", RATE, up / plain_up);
            figures.hold("down, of plain copying", "times", RATE, down / plain_down);
        }
        figures.hold("peak memory of the server", "MB", MEMORY_MB, subject.process.memory()?.peak_bytes / 1e6);
    }
    std::fs::remove_file(bench.folder().join("plain"))?;
    Ok(figures)
}

/// A server in this process that takes one file and returns it.
fn plain_copying(file: PathBuf) -> Result<SocketAddr> {
    let (report, message) = mpsc::channel();
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            report.send(listener.local_addr()?)?;
            let routes = Router::new().route("/large", put(take).get(give)).with_state(file);
            axum::serve(listener, routes).await?;
            Ok(())
        })
    });
    message.recv().context("the copying server did not start")
}

async fn take(State(file): State<PathBuf>, request: HttpRequest) -> Result<(), String> {
    let message = |error: &dyn std::fmt::Display| error.to_string();
    let mut file = tokio::fs::File::create(file).await.map_err(|error| message(&error))?;
    let mut pieces = request.into_body().into_data_stream();
    while let Some(piece) = pieces.next().await {
        file.write_all(&piece.map_err(|error| message(&error))?).await.map_err(|error| message(&error))?;
    }
    file.sync_all().await.map_err(|error| message(&error))
}

async fn give(State(file): State<PathBuf>) -> Result<Body, String> {
    let mut file = tokio::fs::File::open(file).await.map_err(|error| error.to_string())?;
    file.set_max_buf_size(PIECE_BYTES);
    let pieces = futures::stream::try_unfold(file, async |mut file| {
        let mut piece = vec![0; PIECE_BYTES];
        let read = tokio::io::AsyncReadExt::read(&mut file, &mut piece).await?;
        piece.truncate(read);
        Ok::<_, std::io::Error>((read > 0).then_some((piece, file)))
    });
    Ok(Body::from_stream(pieces))
}
