//! `penates serve`

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use server::config::{ListenAddress, ListenConfig};
use server::{Addresses, HangUps, Reload, Reread, ServerError};

use crate::cli::StoreArgs;
use crate::settings::{self, Flags};
use crate::{interrupt, local};

/// Arguments of `penates serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates serve
  penates serve --init --store ./data
  penates serve --store /srv/penates --listen 127.0.0.1:9000 --tls-listen off
  penates serve --config penates.toml --set data.max_volumes=5000")]
pub struct ServeArgs {
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Where to listen.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Make the store if the folder has none, as `penates init` does.
    #[arg(long)]
    init: bool,
}

/// Where to listen. Other values come from the configuration.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Listening")]
pub struct ListenArgs {
    /// Address of HTTP, or `off` [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Address of HTTPS, or `off` [default: 127.0.0.1:8443]
    #[arg(long, value_name = "ADDRESS")]
    pub tls_listen: Option<String>,
    /// Address of the Redis protocol, or `off` [default: off]
    #[arg(long, value_name = "ADDRESS")]
    pub records_listen: Option<String>,
    /// The certificate (PEM); without it the server makes one for loopback.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

impl ListenArgs {
    /// Adds the given values to the flags.
    pub fn apply(&self, flags: &mut Flags) {
        let path = |path: &PathBuf| path.display().to_string();
        let settings = [
            ("listen.http", self.listen.clone()),
            ("listen.tls", self.tls_listen.clone()),
            ("records.listen", self.records_listen.clone()),
            ("listen.tls_cert", self.tls_cert.as_ref().map(path)),
            ("listen.tls_key", self.tls_key.as_ref().map(path)),
        ];
        for (key, value) in settings {
            if let Some(value) = value {
                flags.set(key, value);
            }
        }
    }
}

/// Runs it.
pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    // First of all: opening a large store takes a while. A hang-up must not kill the server then,
    // and a request to end must end it, also where it is the first process of a container.
    let hang_ups = HangUps::catch()?;
    let mut ended = Box::pin(interrupt::asked_to_end()?);
    let mut flags = Flags::of(&args.store)?;
    args.listen.apply(&mut flags);
    let settings = settings::load(&args.store, flags.clone())?.settings;
    if !args.init {
        local::refuse_without_store(&settings)?;
    }
    let _logging = server::init_logging(&settings.server.log)?;
    server::keep_files_private();
    let store = tokio::select! {
        biased;
        opened = local::open_store(&settings) => opened.map_err(local::cannot_open)?,
        // A thread may go on opening until the process is gone. That harms the store no more than a
        // kill.
        () = &mut ended => {
            note!("Stopped before the store was open.");
            return Ok(());
        }
    };
    let listen = settings.server.listen.clone();
    let again = move || {
        let settings = settings::load(&args.store, flags.clone()).map_err(|error| error.to_string())?.settings;
        Ok(Reread { values: settings.values(), config: settings.server })
    };
    let reload = Reload { hang_ups, values: settings.values(), read: Box::new(again) };
    let served = server::serve_reloading(settings.server, store, reload, report, ended).await;
    served.map_err(|error| cannot_serve(error, &listen))
}

/// The error of a server that does not start. If an address is in use, it names the flag that
/// chooses another.
pub(super) fn cannot_serve(error: ServerError, listen: &ListenConfig) -> anyhow::Error {
    let flag = match &error {
        ServerError::Bind { address, source } if source.kind() == ErrorKind::AddrInUse => {
            let is = |configured: Option<SocketAddr>| configured.is_some_and(|known| known.to_string() == *address);
            match (is(listen.http.as_ref().and_then(ListenAddress::tcp)), is(listen.tls)) {
                (true, _) => "--listen",
                (false, true) => "--tls-listen",
                (false, false) if is(listen.redirect) || address.starts_with('/') => return error.into(),
                (false, false) => "--records-listen",
            }
        }
        _ => return error.into(),
    };
    anyhow::anyhow!("{error}; choose another address with {flag}, e.g. {flag} 127.0.0.1:0 for any free port")
}

/// Prints where the server listens, for the person or script that started it.
fn report(addresses: Addresses) {
    if let Some(http) = addresses.http {
        note!("Listening on http://{http}/");
    }
    if let Some(socket) = addresses.http_socket {
        note!("Listening on unix:{}", socket.display());
    }
    if let Some(tls) = addresses.tls {
        note!("Listening on https://{tls}/");
    }
    if let Some(records) = addresses.records {
        let scheme = if addresses.records_tls { "rediss" } else { "redis" };
        note!("Listening on {scheme}://{records}/");
    }
}
