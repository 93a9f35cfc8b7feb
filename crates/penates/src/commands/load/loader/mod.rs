//! Creates resources as they were exported. What is there already stays: it is compared, so an
//! interrupted load is continued by the same command.
//!
//! Files in reading order: `state.rs` is what a resource should be; `send.rs` makes and changes
//! resources; `look.rs` reads what is there; `compare.rs` compares the two; `headers.rs` says what
//! headers have of a resource.

mod compare;
mod headers;
mod look;
mod send;
mod state;

use std::pin::pin;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;

use crate::client::{Client, ClientError};
use crate::exit::full_message;
use crate::ingest::Summary;
use crate::resources::BaseArgs;

pub use headers::{check_headers, model_name};
pub use send::{IS_DELETED, Sent};
pub use state::{DESCRIPTION_BYTES_MAX, State, Statements, parsed};

/// Resources of one container that are loaded at the same time.
const LOADED_AT_ONCE: usize = 4;

/// Loads resources into a repository.
pub struct Loader {
    /// The way to it.
    pub client: Client,
    /// Where it is.
    pub base: BaseArgs,
    /// The address that its statements have for its root.
    pub root: String,
}

/// What came of the resources.
#[derive(Debug, Default)]
pub struct Counts {
    /// Created, or completed.
    pub new: u64,
    /// There already, the same.
    pub unchanged: u64,
    /// Not loaded. The reasons were printed.
    pub failed: u64,
    /// Bytes of binaries that were sent.
    pub bytes: u64,
}

impl Loader {
    /// Loads resources that come in this order: a container before the resources in it, and the
    /// resources of a container one after the other. `failed` learns of each that is not loaded,
    /// and why.
    pub async fn load_all(
        &self,
        states: &mut mpsc::Receiver<State>,
        failed: &mut (dyn FnMut(&str, &str) + Send),
    ) -> anyhow::Result<Counts> {
        let mut counts = Counts::default();
        let mut container = None;
        let mut running = FuturesUnordered::new();
        while let Some(state) = states.recv().await {
            let above = state.about.path.rsplit_once('/').map(|(above, _)| above.to_owned());
            // The container must be there first, or the server would make another one.
            let running_max = if container == Some(above.clone()) { LOADED_AT_ONCE - 1 } else { 0 };
            while running.len() > running_max {
                if let Some(done) = running.next().await {
                    counts.add(done, failed)?;
                }
            }
            container = Some(above);
            running.push(async move {
                let loaded = self.load(&state).await;
                (state.about.path, loaded)
            });
        }
        while let Some(done) = running.next().await {
            counts.add(done, failed)?;
        }
        Ok(counts)
    }

    /// Compares resources that are there with what they should be. `differing` learns of each that
    /// is not the same, and why. Returns how many are.
    pub async fn verify_all(
        &self,
        states: &mut mpsc::Receiver<State>,
        differing: &mut (dyn FnMut(&str, &str) + Send),
    ) -> anyhow::Result<u64> {
        let compare = async |state: State| {
            let compared = self.compare(&state, false).await;
            (state.about.path, compared)
        };
        let states = futures::stream::poll_fn(|context| states.poll_recv(context));
        let mut compared = pin!(states.map(compare).buffer_unordered(LOADED_AT_ONCE));
        let mut count = 0;
        while let Some((path, compared)) = compared.next().await {
            match compared {
                Ok(_) => count += 1,
                Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => return Err(error),
                Err(error) => {
                    let why = full_message(error.as_ref());
                    note!("/{path}: {why}");
                    differing(&path, &why);
                }
            }
        }
        Ok(count)
    }

    /// Loads a resource. Returns whether anything changed, and how many bytes were sent.
    async fn load(&self, state: &State) -> anyhow::Result<(bool, u64)> {
        let (sent, bytes) = self.create(state).await?;
        match sent {
            // A graph is created with its statements.
            Sent::Made => {
                if state.about.is_binary() && !state.statements.is_empty() {
                    self.replace_statements(state).await?;
                }
                Ok((true, bytes))
            }
            // A load that was interrupted leaves a description empty; and every repository has a root.
            Sent::IsThere => Ok((self.compare(state, true).await?, 0)),
        }
    }

    fn address(&self, state: &State) -> String {
        self.base.address(&state.about.path)
    }

    /// The address of the statements about a resource.
    fn graph(&self, state: &State) -> String {
        let address = self.address(state);
        if state.about.is_binary() { format!("{}/fcr:metadata", address.trim_end_matches('/')) } else { address }
    }
}

impl Counts {
    /// With volumes that were imported.
    pub fn with(self, volumes: &Summary) -> Self {
        Self {
            new: self.new + volumes.new + volumes.replaced,
            unchanged: self.unchanged + volumes.unchanged,
            failed: self.failed + volumes.failed + u64::from(volumes.interrupted),
            bytes: self.bytes + volumes.zip_bytes,
        }
    }

    fn add(
        &mut self,
        (path, loaded): (String, anyhow::Result<(bool, u64)>),
        failed: &mut (dyn FnMut(&str, &str) + Send),
    ) -> anyhow::Result<()> {
        match loaded {
            Ok((is_new, bytes)) => {
                *(if is_new { &mut self.new } else { &mut self.unchanged }) += 1;
                self.bytes += bytes;
                Ok(())
            }
            Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => Err(error),
            Err(error) => {
                let why = full_message(error.as_ref());
                note!("/{path}: {why}");
                failed(&path, &why);
                self.failed += 1;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
impl Loader {
    /// A loader that sends to a router.
    pub fn of(router: axum::Router) -> Self {
        use clap::Parser as _;
        /// Arguments without a command.
        #[derive(clap::Parser)]
        struct Args {
            #[command(flatten)]
            base: BaseArgs,
        }
        let root = "http://localhost/rest/".to_owned();
        Self { client: Client::in_process(router), base: Args::parse_from(["load"]).base, root }
    }
}
