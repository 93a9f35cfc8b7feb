//! `lares testbed jolokia`

use anyhow::Context;
use clap::Args;

use terminal::output::Output;

/// Jolokia's own port.
const PORT: u16 = 8_778;

/// Arguments of `lares testbed jolokia`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lares cluster up --jvm-option \"$(lares testbed jolokia)\"")]
pub struct JolokiaArgs {
    /// The port of each node's own address at which the agent answers.
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
}

/// Fetches the agent, unless it is there, and prints the option.
pub async fn run(args: JolokiaArgs) -> anyhow::Result<()> {
    let agent = tokio::task::spawn_blocking(cluster::jolokia_agent).await.context("fetching the agent")??;
    let mut output = Output::stdout();
    output.line(cluster::jolokia_option(&agent, args.port))?;
    output.finish()
}
