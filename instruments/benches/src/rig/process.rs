//! Servers. The testbed starts and ends them as candidates, so none outlives the benchmark, however that
//! ends.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use testbed::candidate::{Candidate, RunningCandidate};
use testbed::monitor::{Counters, Resident};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// A server that ends when the value is dropped.
pub struct Process {
    id: u32,
    /// A thread with a runtime of its own holds it, because benchmarks are no tasks.
    held: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Process {
    /// Starts a command, and waits until it answers over HTTP at an address: with success at the path
    /// `ready`.
    pub fn start(command: Vec<String>, address: SocketAddr, ready: &str) -> Result<Self> {
        let mut candidate = Candidate::shipped("penates")?;
        candidate.spec.start = command;
        candidate.spec.url = format!("http://{address}");
        candidate.spec.ready = Some(ready.to_owned());
        let (started, has_started) = mpsc::channel();
        let (end, is_over) = oneshot::channel();
        let holding = async move {
            match begin(&candidate).await {
                Ok((running, id, _folder)) => {
                    let _ = started.send(Ok(id));
                    // The sender is dropped with the value.
                    let _ = is_over.await;
                    running.end().await;
                }
                Err(error) => drop(started.send(Err(error))),
            }
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = thread::spawn(move || runtime.block_on(holding));
        let id = has_started.recv().context("a server was not started")??;
        Ok(Self { id, held: Some((end, thread)) })
    }

    /// What the server and its children have used so far.
    pub fn usage(&self) -> Result<Counters> {
        Ok(Counters::with_children(self.id)?)
    }

    /// Its present memory.
    pub fn memory(&self) -> Result<Resident> {
        Ok(Resident::of(self.id)?)
    }
}

/// Starts it, with its log in a folder of its own.
async fn begin(candidate: &Candidate) -> Result<(RunningCandidate, u32, tempfile::TempDir)> {
    let folder = tempfile::tempdir()?;
    let running = RunningCandidate::start(candidate, folder.path(), folder.path(), Path::new("lares")).await?;
    let id = running.id().context("a server has ended")?;
    Ok((running, id, folder))
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.held.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

/// An address of loopback that was free a moment ago.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_server_has_memory_and_ends_when_dropped_and_one_that_ends_at_once_is_an_error() {
        let address = free_address().unwrap();
        let port = address.port().to_string();
        let command = ["python3", "-m", "http.server", "--bind", "127.0.0.1", &port].map(str::to_owned).to_vec();
        let server = Process::start(command, address, "/").unwrap();
        let memory = server.memory().unwrap();
        assert!(memory.now_bytes > 0.0 && memory.peak_bytes >= memory.now_bytes, "{memory:?}");
        let id = server.id;
        drop(server);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
        let error = Process::start(["sh", "-c", "echo no; exit 3"].map(str::to_owned).to_vec(), address, "/");
        let error = error.err().unwrap().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no"), "{error}");
    }
}
