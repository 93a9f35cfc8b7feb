//! `penates get`

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use hathi::VolumeId;
use jiff::Timestamp;
use serde_json::json;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{Client, query_value};
use crate::download::{self, Destination, Downloaded, PatienceArgs, Wanted, parse_duration};
use crate::exit::CliError;
use crate::ids::IdArgs;
use crate::output::{Output, human_bytes};
use crate::reach::Reached;
use crate::wanted::WhereArgs;

/// Arguments of `penates get`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates get -o two.zip uc2.ark:/13960/t8ff3zh99 yale.39002015008130
  penates get --ids wanted.txt --layout volumes -o wanted.zip
  penates get --ids wanted.txt --as-of 2025-06-15T15:06:40Z -o then.zip
  penates get --where 'year<1900 and language=eng' --unzip before-1900
  penates get yale.39002015008130 --text -o zachary.txt
  penates get --pages 'uc2.ark:/13960/t8ff3zh99[5,6]|yale.39002015008130[1]' > pages.zip
  penates ls | penates get --ids - --mets -o all.zip")]
pub struct GetArgs {
    /// Which volumes.
    #[command(flatten)]
    volumes: IdArgs,
    /// Which volumes, by their records.
    #[command(flatten)]
    which: WhereArgs,
    /// Pages by their sequence in the volume (1 is the first scan, whatever number is printed on
    /// it), as VOLUME[1,2,4], several volumes separated by `|`; may be repeated.
    #[arg(long, value_name = "LIST", conflicts_with_all = ["ids", "ids_file", "where_text"])]
    pages: Vec<String>,
    /// The layout of the ZIP.
    #[arg(long, value_enum, default_value_t)]
    layout: Layout,
    /// `auto`: the stored bytes; 0 to 9: compressed again (0: not at all).
    #[arg(long, default_value = "auto", value_parser = parse_level)]
    level: Level,
    /// Add each volume's METS.
    #[arg(long)]
    mets: bool,
    /// The volumes as they were at this time (RFC 3339), as far as the server keeps their versions.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    as_of: Option<String>,
    /// The file to write; `-` is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Unpack the ZIP into this folder. Files that are there with other contents are an error.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "force"])]
    unzip: Option<PathBuf>,
    /// Download the text of one volume, its pages joined, without a ZIP.
    #[arg(long, conflicts_with_all = ["pages", "unzip", "mets", "layout", "level", "as_of", "where_text"])]
    text: bool,
    /// Replace the file of -o if it exists.
    #[arg(long)]
    force: bool,
    /// How long it tries.
    #[command(flatten)]
    patience: PatienceArgs,
    /// How long the download may take in all. What arrived by then is kept for the next run.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max_time: Option<Duration>,
    /// The form of the output (not on standard output if the ZIP goes there).
    #[command(flatten)]
    form: OutputArgs,
    /// Where from.
    #[command(flatten)]
    reach: ReachArgs,
}

/// The layout of a ZIP.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Layout {
    /// One entry per page.
    #[default]
    Pages,
    /// One entry per volume.
    Volumes,
    /// One entry with all pages.
    Wordseq,
}

impl Layout {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Volumes => "volumes",
            Self::Wordseq => "wordseq",
        }
    }
}

/// How entries are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Auto,
    Number(u8),
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Number(level) => level.fmt(f),
        }
    }
}

fn parse_level(text: &str) -> Result<Level, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(Level::Auto),
        (_, Ok(level @ 0..=9)) => Ok(Level::Number(level)),
        _ => Err("must be `auto` or a number from 0 to 9".to_owned()),
    }
}

/// A time, as it was written: without a fraction it means the whole second.
fn parse_time(text: &str) -> Result<String, String> {
    let time: Result<Timestamp, _> = text.parse();
    time.map(|_| text.to_owned()).map_err(|error| format!("must be a time like 2025-06-15T15:06:40Z: {error}"))
}

/// The volumes or pages, as a parameter.
struct Named {
    route: &'static str,
    parameter: &'static str,
    list: String,
}

impl Named {
    fn volumes(ids: &[VolumeId]) -> Self {
        Self { route: "/volumes", parameter: "volumeIDs", list: download::joined(ids) }
    }
}

impl GetArgs {
    /// What is named on the command line; `None` if conditions say it.
    fn named(&self) -> anyhow::Result<Option<Named>> {
        self.which.check()?;
        if self.which.text().is_some() {
            return match self.volumes.is_empty() {
                true => Ok(None),
                false => Err(CliError::Usage("name volumes, or conditions with --where, not both".to_owned()).into()),
            };
        }
        if self.pages.is_empty() {
            return Ok(Some(Named::volumes(&self.volumes.volumes()?)));
        }
        let list = self.pages.join("|");
        hathi::parse_page_ids(&list, || true).map_err(|error| CliError::Usage(error.to_string()))?;
        Ok(Some(Named { route: "/pages", parameter: "pageIDs", list }))
    }

    /// The parameters besides the list.
    fn form(&self) -> String {
        let mut form = format!("layout={}&level={}&mets={}", self.layout.as_str(), self.level, self.mets);
        if let Some(time) = &self.as_of {
            form += &format!("&as_of={}", query_value(time));
        }
        form
    }

    /// The volume of which the text is wanted.
    fn text_of(&self) -> anyhow::Result<Option<VolumeId>> {
        if !self.text {
            return Ok(None);
        }
        match <[VolumeId; 1]>::try_from(self.volumes.volumes()?) {
            Ok([id]) => Ok(Some(id)),
            Err(_) => {
                let hint = "several come with --layout volumes --unzip DIR";
                Err(CliError::Usage(format!("--text takes one volume; {hint}")).into())
            }
        }
    }

    fn to_stdout(&self) -> bool {
        self.unzip.is_none() && self.output == Path::new("-")
    }

    fn destination(&self) -> anyhow::Result<Destination<'_>> {
        match &self.unzip {
            Some(folder) => Destination::folder(folder),
            None => Destination::at(&self.output, self.force),
        }
    }
}

/// Runs it.
pub async fn run(args: GetArgs) -> anyhow::Result<()> {
    if args.to_stdout() && !args.text && std::io::stdout().is_terminal() {
        return Err(CliError::Usage("refusing to write a ZIP to a terminal: use -o FILE, or a pipe".to_owned()).into());
    }
    if args.unzip.is_some() && matches!(args.level, Level::Number(1..)) {
        return Err(CliError::Usage("--unzip needs --level auto or 0".to_owned()).into());
    }
    let text = args.text_of()?;
    let named = if text.is_some() { None } else { args.named()? };
    let target = args.destination()?;
    let reached = Reached::open(&args.reach).await?;
    let download = download(&args, &reached.client, text, named, target);
    let outcome = match args.max_time {
        Some(max_time) => tokio::time::timeout(max_time, download).await.unwrap_or_else(|_| {
            let hint = "give the same command again to continue";
            Err(anyhow::anyhow!("the download took longer than {max_time:?} (--max-time): {hint}"))
        }),
        None => download.await,
    };
    reached.close().await?;
    let downloaded = outcome?;
    report(&args, &downloaded)?;
    if downloaded.missing > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

async fn download(
    args: &GetArgs,
    client: &Client,
    text: Option<VolumeId>,
    named: Option<Named>,
    target: Destination<'_>,
) -> anyhow::Result<Downloaded> {
    let patience = args.patience.patience();
    if let Some(id) = text {
        return download::resumed(client, &Wanted::Text(id), target, patience).await;
    }
    let is_resumable = !matches!(args.level, Level::Number(1..));
    let named = match named {
        Some(named) => named,
        None if is_resumable => {
            let wanted = Wanted::Found { which: args.which.clone(), rest: args.form() };
            return download::resumed(client, &wanted, target, patience).await;
        }
        None => Named::volumes(&args.which.volumes(client, patience).await?),
    };
    let form = format!("{}={}&{}", named.parameter, query_value(&named.list), args.form());
    if !is_resumable {
        return download::unresumable(client, named.route, &form, target, patience).await;
    }
    download::resumed(client, &Wanted::Zip { route: named.route, form }, target, patience).await
}

fn report(args: &GetArgs, downloaded: &Downloaded) -> anyhow::Result<()> {
    let Downloaded { len_bytes, missing, unpacked } = downloaded;
    if let Some(errors) = unpacked.as_ref().and_then(|unpacked| unpacked.errors.as_ref()) {
        errors.lines().for_each(|line| note!("{line}"));
    } else if *missing > 0 {
        note!("{missing} requested members are missing or damaged: the ZIP's entry ERROR.err names them.");
    }
    if args.to_stdout() {
        return Ok(());
    }
    let mut output = Output::stdout();
    match (unpacked, &args.unzip, args.form.json) {
        (Some(unpacked), Some(folder), true) => {
            let (files, present) = (unpacked.files, unpacked.present);
            output.json(&json!({"folder": folder, "files": files, "present": present, "missing": missing}))?;
        }
        (Some(unpacked), Some(folder), false) => {
            let files = unpacked.files + unpacked.present;
            output.line(format!("{} ({files} files, {})", folder.display(), human_bytes(*len_bytes)))?;
        }
        (_, _, true) => output.json(&json!({"file": args.output, "bytes": len_bytes, "missing": missing}))?,
        (_, _, false) => output.line(format!("{} ({})", args.output.display(), human_bytes(*len_bytes)))?,
    }
    output.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_auto_or_a_digit() {
        assert_eq!(parse_level("auto"), Ok(Level::Auto));
        assert_eq!(parse_level("0"), Ok(Level::Number(0)));
        assert_eq!(parse_level("9"), Ok(Level::Number(9)));
        assert!(parse_level("10").is_err() && parse_level("-1").is_err() && parse_level("best").is_err());
    }
}
