//! `penates testbed null`

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use testbed::null::Null;
use tokio::net::TcpListener;

use crate::output::Output;

/// Arguments of `penates testbed null`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates testbed null --listen 127.0.0.1:8090 --body-bytes 1024")]
pub struct NullArgs {
    /// Address of HTTP.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Bytes of the body of each response.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    body_bytes: usize,
    /// How long it waits before it answers.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    delay: Duration,
}

/// Serves until it is killed.
pub async fn run(args: NullArgs) -> anyhow::Result<()> {
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
    let mut output = Output::stdout();
    output.line(format!("Listening on http://{}/", listener.local_addr()?))?;
    output.finish()?;
    match Null::new(args.body_bytes, args.delay).serve(listener).await {}
}
