//! `penates promote`

use std::sync::Arc;

use clap::Args;
use jiff::Timestamp;
use library::SetRight;
use serde_json::json;
use store::{Store, UnixMillis, copying};

use crate::cli::{OutputArgs, StoreArgs};
use crate::exit::CliError;
use crate::output::Output;
use crate::settings::{self, Flags};
use crate::{audited, local};

/// Arguments of `penates promote`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates promote --store ./standby")]
pub struct PromoteArgs {
    /// How the summary is printed.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs it.
pub async fn run(args: PromoteArgs) -> anyhow::Result<()> {
    let settings = settings::load(&args.store, Flags::of(&args.store)?)?.settings;
    let store = local::open_ungated(&settings).await.map_err(local::cannot_open)?;
    let promoted = promote(&settings, store.clone()).await;
    store.close().await?;
    let (until, found) = promoted?;
    print(&args, until, &found)
}

async fn promote(settings: &settings::Settings, store: Arc<dyn Store>) -> anyhow::Result<(UnixMillis, SetRight)> {
    let Some(origin) = copying::unfinished(store.as_ref()).await? else {
        return Err(CliError::Usage("the store is no unfinished copy: it takes changes already".to_owned()).into());
    };
    let Some(until) = copying::followed(store.as_ref()).await?.and_then(|followed| followed.until) else {
        let part = "it has never been a whole copy: `penates copy --follow` had not copied everything once";
        return Err(CliError::Usage(format!("{part}. Copy {origin} again")).into());
    };
    let library = local::open_library(settings, store.clone()).await?;
    let found = library.agree(true).await?;
    drop(library);
    copying::end_without_source(store.as_ref(), &origin).await?;
    audited::note(settings, store, "promote", None).await?;
    Ok((until, found))
}

fn print(args: &PromoteArgs, until: UnixMillis, found: &SetRight) -> anyhow::Result<()> {
    let until = Timestamp::from_millisecond(i64::try_from(until.0).unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX);
    let mut output = Output::stdout();
    let lost = found.lost.iter().map(ToString::to_string);
    let lost: Vec<_> = lost.chain(found.lost_resources.iter().map(|path| format!("/{path}"))).collect();
    if args.output.json {
        output.json(&json!({"until": until.to_string(), "volumes": found.volumes, "incomplete": lost}))?;
    } else {
        output
            .line(format!("the store takes changes now; it has all changes until {until}, and perhaps later ones"))?;
        for name in &lost {
            output.line(format!("incomplete, because it had just begun to arrive: {name}"))?;
        }
        output.line("check it with `penates verify`")?;
    }
    output.finish()
}
