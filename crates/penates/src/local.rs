//! A store that this process holds itself.

use std::path::Path;
use std::sync::Arc;

use objects::Library;
use server::config::Config;
use store::{Store, StoreError, StoreResult, SystemClock};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::exit::CliError;

/// Opens the store in the configured folder, and makes one where there is none.
pub async fn open_store(config: &Config) -> StoreResult<Arc<dyn Store>> {
    let folder = config.store.path.clone();
    let options = EmbeddedOptions { cache_bytes: config.store.cache, ..EmbeddedOptions::default() };
    let opening = move || EmbeddedStore::open(&folder, options, Arc::new(SystemClock));
    let store = tokio::task::spawn_blocking(opening).await;
    Ok(store.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?)
}

/// The library in a store.
pub async fn open_library(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<Library> {
    Ok(Library::open(store, Arc::new(SystemClock), config.library_options()).await?)
}

/// Why a store cannot be opened, with the exit code for it.
pub fn cannot_open(error: StoreError) -> anyhow::Error {
    let hint = match error {
        StoreError::Held { .. } => " (a server, perhaps): stop that, or name another folder with --store",
        _ => "",
    };
    CliError::Unreachable(format!("{error}{hint}")).into()
}

/// Whether a folder holds nothing at all: no store was ever made there.
pub fn is_vacant(folder: &Path) -> bool {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
