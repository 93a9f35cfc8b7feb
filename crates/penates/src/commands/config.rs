//! `penates config`

use clap::Args;

use crate::cli::{OutputArgs, StoreArgs};
use crate::commands::serve::ListenArgs;
use crate::output::{Output, cell};
use crate::settings::{self, Flags, Setting};

/// Arguments of `penates config`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates config --config penates.toml --listen 127.0.0.1:9000")]
pub struct ConfigArgs {
    /// How.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
    /// Where to listen.
    #[command(flatten)]
    listen: ListenArgs,
}

/// Runs it.
pub fn run(args: ConfigArgs) -> anyhow::Result<()> {
    let mut flags = Flags::of(&args.store)?;
    args.listen.apply(&mut flags);
    let settings = settings::load(&args.store, flags)?.explain();
    let mut output = Output::stdout();
    if args.output.json {
        settings.iter().try_for_each(|setting| output.json(setting))?;
    } else {
        let row = |setting: &Setting| vec![setting.key.clone(), cell(&setting.value), setting.origin.to_string()];
        let rows: Vec<_> = settings.iter().map(row).collect();
        output.table(&["setting", "value", "from"], &rows)?;
    }
    output.finish()
}
