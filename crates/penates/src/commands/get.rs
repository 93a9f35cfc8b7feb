//! `penates get`

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::json;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{Client, query_value};
use crate::download::{self, Destination};
use crate::exit::CliError;
use crate::ids::IdArgs;
use crate::output::{Output, human_bytes};
use crate::reach::Reached;

/// Arguments of `penates get`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates get -o two.zip uc2.ark:/13960/t8ff3zh99 yale.39002015008130
  penates get --ids wanted.txt --layout volumes -o wanted.zip
  penates get --ids wanted.txt --as-of 2025-06-15T15:06:40Z -o then.zip
  penates get --pages 'uc2.ark:/13960/t8ff3zh99[5,6]|yale.39002015008130[1]' > pages.zip
  penates ls | penates get --ids - --mets -o all.zip")]
pub struct GetArgs {
    /// Which volumes.
    #[command(flatten)]
    volumes: IdArgs,
    /// Pages, as VOLUME[1,2,4], several volumes separated by `|`; may be repeated.
    #[arg(long, value_name = "LIST", conflicts_with_all = ["ids", "ids_file"])]
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
    /// How often to try without progress.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    tries: u32,
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

impl GetArgs {
    /// The route and the form of the request.
    fn request(&self) -> anyhow::Result<(&'static str, String)> {
        let (route, parameter, list) = if self.pages.is_empty() {
            let ids = self.volumes.volumes()?;
            ("/volumes", "volumeIDs", ids.iter().map(|id| id.as_str()).collect::<Vec<_>>().join("|"))
        } else {
            let list = self.pages.join("|");
            hathi::parse_page_ids(&list, || true).map_err(|error| CliError::Usage(error.to_string()))?;
            ("/pages", "pageIDs", list)
        };
        let mut form = format!(
            "{parameter}={}&layout={}&level={}&mets={}",
            query_value(&list),
            self.layout.as_str(),
            self.level,
            self.mets
        );
        if let Some(time) = &self.as_of {
            form += &format!("&as_of={}", query_value(time));
        }
        Ok((route, form))
    }

    fn to_stdout(&self) -> bool {
        self.output == Path::new("-")
    }
}

/// Runs it.
pub async fn run(args: GetArgs) -> anyhow::Result<()> {
    if args.to_stdout() && std::io::stdout().is_terminal() {
        return Err(CliError::Usage("refusing to write a ZIP to a terminal: use -o FILE, or a pipe".to_owned()).into());
    }
    let (route, form) = args.request()?;
    let target = Destination::at(&args.output)?;
    let reached = Reached::open(&args.reach).await?;
    let outcome = download(&args, &reached.client, route, &form, target).await;
    reached.close().await?;
    let (len_bytes, missing) = outcome?;
    tell(&args, len_bytes, missing)?;
    if missing > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

/// Returns how many bytes arrived, and how many entries are missing.
async fn download(
    args: &GetArgs,
    client: &Client,
    route: &str,
    form: &str,
    target: Destination<'_>,
) -> anyhow::Result<(u64, u64)> {
    if matches!(args.level, Level::Number(1..)) {
        return download::unresumable(client, route, form, target).await;
    }
    let selection = download::resumed(client, form, target, args.tries).await?;
    Ok((selection.len_bytes, selection.missing))
}

fn tell(args: &GetArgs, len_bytes: u64, missing: u64) -> anyhow::Result<()> {
    if missing > 0 {
        eprintln!("{missing} requested members are missing or damaged: the ZIP's entry ERROR.err names them.");
    }
    if args.to_stdout() {
        return Ok(());
    }
    let mut output = Output::stdout();
    if args.form.json {
        output.json(&json!({"file": args.output, "bytes": len_bytes, "missing": missing}))?;
    } else {
        output.line(format!("{} ({})", args.output.display(), human_bytes(len_bytes)))?;
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
