//! `penates ls`

use std::borrow::Cow;

use audit::form::csv_cell;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hathi::VolumeId;
use http::HeaderMap;
use http::header::LINK;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::io::AsyncBufReadExt;
use tokio_util::io::StreamReader;
use volumes::find::Field;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{self, Client, ClientError};
use crate::exit::CliError;
use crate::output::{Output, cell, human_bytes, in_line};
use crate::reach::Reached;
use crate::wanted::{WhereArgs, list_address};

/// The most volumes of one part of a list.
const PART_MAX: u64 = 10_000;

/// Arguments of `penates ls`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates ls
  penates ls --long --where 'year<1900 and title~salmon'
  penates ls --csv --sort year > volumes.csv
  penates ls uc2.ark:/13960/t8ff3zh99
  penates ls --json --server http://127.0.0.1:8080")]
pub struct LsArgs {
    /// List the pages of this volume.
    #[arg(value_name = "ID", conflicts_with_all = ["where_text", "sort", "reverse", "limit", "long"])]
    volume: Option<String>,
    /// Print title, author, year, language, rights, pages and bytes too.
    #[arg(short, long, conflicts_with_all = ["json", "csv"])]
    long: bool,
    /// Which volumes.
    #[command(flatten)]
    which: WhereArgs,
    /// List the volumes by this field. The server reads what it knows of all of them for each
    /// 10,000 in the list.
    #[arg(long, value_name = "FIELD", value_parser = field())]
    sort: Option<Field>,
    /// The greatest first.
    #[arg(long, requires = "sort")]
    reverse: bool,
    /// At most so many volumes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Print CSV with a line of names.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// How.
    #[command(flatten)]
    output: OutputArgs,
    /// Where from.
    #[command(flatten)]
    reach: ReachArgs,
}

fn field() -> impl TypedValueParser<Value = Field> {
    let named = |name: String| Field::named(&name).ok_or("there is no such field");
    PossibleValuesParser::new(Field::ALL.map(Field::name)).try_map(named)
}

/// Runs it.
pub async fn run(args: LsArgs) -> anyhow::Result<()> {
    let volume = args.volume.as_deref().map(VolumeId::parse).transpose();
    let volume = volume.map_err(|error| CliError::Usage(error.to_string()))?;
    args.which.check()?;
    let reached = Reached::open(&args.reach).await?;
    let outcome = match volume {
        Some(id) => pages(&reached.client, &id, &args).await,
        None => volumes(&reached.client, &args).await,
    };
    reached.close().await?;
    outcome
}

async fn volumes(client: &Client, args: &LsArgs) -> anyhow::Result<()> {
    let accept = match args {
        LsArgs { csv: true, .. } => "text/csv",
        LsArgs { output: OutputArgs { json: true, .. }, .. } | LsArgs { long: true, .. } => "application/x-ndjson",
        _ => "text/plain",
    };
    let limit = args.limit.or(args.sort.map(|_| PART_MAX)).map(|limit| limit.min(PART_MAX));
    let sort = args.sort.map(|field| format!("{}{field}", if args.reverse { "-" } else { "" }));
    let parameters = [("sort", sort), ("limit", limit.map(|limit| limit.to_string()))];
    let first = list_address(args.which.text(), parameters);
    let mut output = Output::stdout();
    if args.long {
        output.line(long_line(["ID", "YEAR", "LANG", "RIGHTS", "PAGES", "BYTES", "AUTHOR", "TITLE"]))?;
    }
    let broken = |error: std::io::Error| ClientError::Broken(error.into());
    let (mut room, mut next) = (args.limit.unwrap_or(u64::MAX), Some(first));
    let mut is_first = true;
    while room > 0
        && let Some(address) = next
    {
        let response = client.get(&address, accept).await?;
        next = next_part(response.headers());
        let mut lines = StreamReader::new(response.into_body().into_data_stream()).lines();
        if args.csv {
            // Each part begins with the names of the fields.
            let names = lines.next_line().await.map_err(broken)?;
            if let Some(names) = names.filter(|_| is_first) {
                output.line(names)?;
            }
        }
        is_first = false;
        while room > 0
            && let Some(line) = lines.next_line().await.map_err(broken)?
        {
            room -= 1;
            match args.long {
                true => output.line(long(&serde_json::from_str(&line)?))?,
                false => output.line(line)?,
            }
        }
    }
    output.finish()
}

/// The address of the next part of a list.
fn next_part(headers: &HeaderMap) -> Option<String> {
    let links = headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok());
    let is_next = |(_, relation): &(&str, &str)| relation.ends_with("rel=\"next\"");
    let next = links.filter_map(|link| link.strip_prefix('<')?.split_once('>')).find(is_next);
    next.map(|(query, _)| format!("/volumes/{query}"))
}

/// A volume as a line for people.
fn long(volume: &Value) -> String {
    let text = |field: Field| cell(&volume[field.name()]);
    let bytes = volume["bytes"].as_u64().map(human_bytes).unwrap_or_default();
    long_line([
        &text(Field::Id),
        &text(Field::Year),
        &text(Field::Language),
        &text(Field::Rights),
        &text(Field::Pages),
        &bytes,
        &cut(&text(Field::Author), 30),
        &text(Field::Title),
    ])
}

fn long_line([id, year, language, rights, pages, bytes, author, title]: [&str; 8]) -> String {
    let line =
        format!("{id:<28}  {year:>4}  {language:<4}  {rights:<6}  {pages:>6}  {bytes:>9}  {author:<30}  {title}");
    in_line(&line).trim_end().to_owned()
}

/// The beginning of a text.
fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some(_) => text.chars().take(chars_max - 1).chain(['…']).collect::<String>().into(),
        None => text.into(),
    }
}

async fn pages(client: &Client, id: &VolumeId, args: &LsArgs) -> anyhow::Result<()> {
    let pages: Vec<Value> = client.get_json(&format!("/volumes/{}/pages/", client::segment(id))).await?;
    let mut output = Output::stdout();
    let columns = ["seq", "label", "size_bytes", "features"];
    let rows = || pages.iter().map(|page| columns.iter().map(|column| cell(&page[column])).collect::<Vec<_>>());
    if args.output.json {
        pages.iter().try_for_each(|page| output.json(page))?;
    } else if args.csv {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(columns)?;
        rows().try_for_each(|row| writer.write_record(row.iter().map(|text| csv_cell(text))))?;
        output.bytes(&writer.into_inner()?)?;
    } else {
        output.table(&columns, &rows().collect::<Vec<_>>())?;
    }
    output.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_on_at_the_next_part() {
        let headers = |link: &'static str| HeaderMap::from_iter([(LINK, http::HeaderValue::from_static(link))]);
        let next = next_part(&headers("<?after=00&limit=10000&format=csv&sort=year>; rel=\"next\""));
        assert_eq!(next.as_deref(), Some("/volumes/?after=00&limit=10000&format=csv&sort=year"));
        assert_eq!(next_part(&headers("<?before=00>; rel=\"prev\"")), None);
        assert_eq!(next_part(&HeaderMap::new()), None);
    }

    #[test]
    fn a_long_line_cannot_command_the_terminal() {
        let volume = serde_json::json!({"id": "a.b", "title": "red \u{1b}[31m\u{9b}2J\nend", "bytes": 1_000});
        let line = long(&volume);
        assert!(line.starts_with("a.b ") && line.ends_with("red  [31m 2J end"), "{line:?}");
    }
}
