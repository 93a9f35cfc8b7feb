//! One module per command: its arguments, its help, its run.

pub mod audit;
pub mod backup;
pub mod cat;
pub mod completions;
pub mod config;
pub mod copy;
pub mod delete;
pub mod demo;
pub mod export;
pub mod feed;
pub mod fixity;
pub mod get;
pub mod history;
#[cfg(feature = "cassandra")]
pub mod home;
pub mod import;
pub mod init;
pub mod load;
pub mod ls;
pub mod man;
pub mod plan;
pub mod promote;
pub mod put;
pub mod read_only;
pub mod receivers;
pub mod records;
pub mod reload;
pub mod restore;
pub mod rm;
pub mod salvage;
pub mod search;
pub mod serve;
pub mod stat;
pub mod synth;
pub mod token;
pub mod tokens;
pub mod tree;
pub mod upgrade;
pub mod verify;
#[cfg(feature = "cassandra")]
pub mod warm;

use serde_json::json;

use receivers::Receivers;

use crate::cli::{Command, OutputArgs};
use crate::client::ClientError;
use crate::exit::{full_message, without_name};
use crate::output::Output;

/// Runs a command.
pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(args) => demo::run(args).await,
        Command::Serve(args) => serve::run(args).await,
        Command::Init(args) => init::run(args).await,
        Command::Import(args) => import::run(args).await,
        Command::Get(args) => get::run(args).await,
        Command::Ls(args) => ls::run(args).await,
        Command::Tokens(args) => tokens::run(args).await,
        Command::Stat(args) => stat::run(args).await,
        Command::Verify(args) => verify::run(args).await,
        Command::Fixity(args) => fixity::run(args).await,
        Command::Export(args) => export::run(args).await,
        Command::Load(args) => load::run(args).await,
        Command::Delete(args) => delete::run(args).await,
        Command::Put(args) => put::run(args).await,
        Command::Cat(args) => cat::run(args).await,
        Command::Rm(args) => rm::run(args).await,
        Command::Tree(args) => tree::run(args).await,
        Command::History(args) => history::run(args).await,
        Command::Restore(args) => restore::run(args).await,
        Command::Records(args) => records::run(args).await,
        Command::Salvage(args) => salvage::run(args).await,
        Command::Backup(args) => backup::run(args).await,
        Command::Copy(args) => copy::run(args).await,
        Command::Promote(args) => promote::run(args).await,
        Command::ReadOnly(args) => read_only::run(args).await,
        #[cfg(feature = "cassandra")]
        Command::Home(args) => home::run(args).await,
        Command::Upgrade(args) => upgrade::run(args).await,
        Command::Feed(args) => feed::run(args).await,
        Command::Webhooks(args) => receivers::run(Receivers::Webhooks, args).await,
        Command::Bridges(args) => receivers::run(Receivers::Bridges, args).await,
        Command::Search(args) => search::run(args).await,
        Command::Synth(args) => synth::run(args).await,
        Command::Audit(args) => audit::run(args).await,
        Command::Token(args) => token::run(args).await,
        #[cfg(feature = "cassandra")]
        Command::Warm(args) => warm::run(args).await,
        Command::Reload(args) => reload::run(args).await,
        Command::Plan(args) => plan::run(&args),
        Command::Config(args) => config::run(args).await,
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}

/// Reports that one of several operations failed: for people on standard error, for programs as a
/// JSON object, where `key` names what failed. If all others would fail too, it returns the error.
fn report_failure(
    key: &str,
    name: &str,
    error: ClientError,
    form: OutputArgs,
    output: &mut Output,
) -> anyhow::Result<()> {
    if error.stops_all() {
        return Err(error.into());
    }
    let reason = full_message(&error);
    if form.json {
        return output.json(&json!({key: name, "error": reason}));
    }
    note!("failed: {name}: {}", without_name(&reason, name));
    Ok(())
}
