//! `penates config`

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use records::Mode;
use rustix::fs::Access;
use serde_json::{Map, Value, json};
use server::Finding;
use store::Hidden;

use crate::cli::{OutputArgs, StoreArgs};
use crate::client::Client;
use crate::commands::serve::ListenArgs;
use crate::exit::{CliError, full_message};
use crate::output::{Output, cell};
use crate::settings::{self, Flags, Origin, Setting, Settings, StoreLocation};
use crate::{local, reach};

/// Arguments of `penates config`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates config --config penates.toml --listen 127.0.0.1:9000
  penates config --check --config penates.toml
  penates config --running --store /srv/penates
  penates config --running --socket /run/penates/admin.sock
  penates config --sample > penates.toml
  penates config --sample --config earlier.toml > penates.toml
  penates config --reference > settings.md")]
pub struct ConfigArgs {
    /// Check the configuration, also by opening all that it names: files, certificates, addresses
    /// and the data folder. The exit code is 2 if a server could not work with it.
    #[arg(long)]
    check: bool,
    /// Print a sample file (TOML) with all settings, their meanings and defaults. What differs from
    /// the defaults is set in it; the rest are comments.
    #[arg(long, conflicts_with = "check")]
    sample: bool,
    /// Print all settings with their meanings and defaults (Markdown).
    #[arg(long, conflicts_with_all = ["check", "sample"])]
    reference: bool,
    /// Print the values that are in force in the server that holds the data folder. They differ from
    /// the file if that was changed since the server read it, or if it needs a restart for them.
    #[arg(long, conflicts_with_all = ["check", "sample", "reference"])]
    running: bool,
    /// The administrator's socket of that server: that of `listen.admin`. Otherwise it is that of
    /// the data folder or, if the store is in Cassandra, that of the configuration.
    #[arg(long, value_name = "PATH", requires = "running", conflicts_with = "store")]
    socket: Option<PathBuf>,
    /// Print the value of this setting only, such as `store.path`.
    #[arg(long, value_name = "SETTING", conflicts_with_all = ["check", "sample", "reference"])]
    name: Option<String>,
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
pub async fn run(args: ConfigArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    if args.reference {
        output.line(settings::reference().trim_end())?;
        return output.finish();
    }
    let mut flags = Flags::of(&args.store)?;
    args.listen.apply(&mut flags);
    if args.running {
        let server = match &args.socket {
            Some(socket) => reach::administrator(socket)?,
            None => {
                let settings = settings::load(&args.store, flags)?.settings;
                reach::holder(&settings, "its configuration is that of its start and of the last SIGHUP")?
            }
        };
        return report_running(&server, args.name.as_deref(), args.output).await;
    }
    let loaded = settings::load(&args.store, flags)?;
    if args.sample {
        let set = loaded.explain().into_iter().filter(|setting| setting.origin != Origin::Default);
        let set: Vec<Setting> = set.collect();
        output.line(settings::sample(&set).trim_end())?;
        output.finish()?;
        let hidden = set.iter().filter(|setting| setting.value.to_string().contains(Hidden::SHOWN));
        let hidden: Vec<&str> = hidden.map(|setting| setting.key.as_str()).collect();
        if !hidden.is_empty() {
            note!("not printed, take them over by hand: {}", hidden.join(", "));
        }
        return Ok(());
    }
    let mut findings = loaded.settings.check_files();
    if args.check {
        findings.extend(server::check_addresses(&loaded.settings.server));
        findings.extend(check_store(&loaded.settings).err().map(|error| Finding::fault(full_message(error.as_ref()))));
        if findings.is_empty() {
            output.line("the configuration is sound")?;
        }
        output.finish()?;
        return report(&findings);
    }
    let mut settings = loaded.explain();
    if let Some(name) = &args.name {
        settings.retain(|setting| setting.key == *name);
        let [only] = &settings[..] else { return Err(unknown(name)) };
        output.line(cell(&only.value))?;
    } else if args.output.json {
        settings.iter().try_for_each(|setting| output.json(setting))?;
    } else {
        let row = |setting: &Setting| vec![setting.key.clone(), cell(&setting.value), setting.origin.to_string()];
        let rows: Vec<_> = settings.iter().map(row).collect();
        output.table(&["setting", "value", "from"], &rows)?;
    }
    output.finish()?;
    report(&findings)
}

fn unknown(name: &str) -> anyhow::Error {
    CliError::Usage(format!("there is no setting `{name}`; `penates config --reference` lists all")).into()
}

/// Prints the values that are in force in a server that runs.
async fn report_running(server: &Client, name: Option<&str>, form: OutputArgs) -> anyhow::Result<()> {
    let sections: Map<String, Value> = server.get_json("/admin/config").await?;
    let of_section = |(section, values): (String, Value)| {
        let values = if let Value::Object(values) = values { values } else { Map::new() };
        values.into_iter().map(move |(name, value)| (format!("{section}.{name}"), value))
    };
    let mut output = Output::stdout();
    let mut rows = sections.into_iter().flat_map(of_section);
    if let Some(name) = name {
        let (_, value) = rows.find(|(key, _)| key == name).ok_or_else(|| unknown(name))?;
        output.line(cell(&value))?;
    } else if form.json {
        rows.map(|(key, value)| json!({"key": key, "value": value})).try_for_each(|row| output.json(&row))?;
    } else {
        let rows: Vec<_> = rows.map(|(key, value)| vec![key, cell(&value)]).collect();
        output.table(&["setting", "value"], &rows)?;
    }
    output.finish()
}

/// Refuses what would keep a server from opening the store, as far as that can be seen beside a
/// server that has it open.
fn check_store(settings: &Settings) -> anyhow::Result<()> {
    local::refuse_without_store(settings)?;
    let StoreLocation::Folder(folder) = settings.place() else { return Ok(()) };
    if settings.server.records.mode == Mode::Fast {
        bail!("records.mode = \"fast\" is for stores in Cassandra: a data folder has the mode `atomic`");
    }
    let access = rustix::fs::access(folder, Access::WRITE_OK);
    Ok(access.map_err(|error| local::no_access(folder, "written", &error.into()))?)
}

/// Prints what was found. One fault is an error.
fn report(findings: &[Finding]) -> anyhow::Result<()> {
    for finding in findings.iter().filter(|finding| !finding.is_fault) {
        note!("warning: {}", finding.what);
    }
    let faults: Vec<&str> =
        findings.iter().filter(|finding| finding.is_fault).map(|finding| finding.what.as_str()).collect();
    if faults.is_empty() { Ok(()) } else { Err(CliError::Usage(faults.join("\n")).into()) }
}
