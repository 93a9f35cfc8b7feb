//! The formats of a list.

use http::HeaderValue;
use serde_json::{Map, Value};
use volumes::find::{Described, Field};

use super::asked::Asked;
use super::page;

/// The format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One id per line.
    Text,
    /// `{"volumes":[{"id":…},…],"next":…}`.
    Json,
    /// `{"id":…}`, one per line.
    Lines,
    /// A line of names, and a line for each volume (RFC 4180).
    Csv,
    /// For people.
    Html,
}

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
const CSV: &str = "text/csv";
const HTML: &str = "text/html";

/// In the server's order of preference.
pub const FORMATS: [(&str, Format); 5] =
    [(TEXT, Format::Text), (JSON, Format::Json), (LINES, Format::Lines), (CSV, Format::Csv), (HTML, Format::Html)];

/// Where a list ends.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// The token with which it goes on.
    pub next: Option<String>,
    /// The address at which it goes on.
    pub address: Option<String>,
    /// How many volumes there are in all, if that is known.
    pub total: Option<u64>,
}

impl Format {
    /// Its media type with its encoding.
    pub fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Text => "text/plain; charset=utf-8",
            Self::Json => JSON,
            Self::Lines => LINES,
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Html => "text/html; charset=utf-8",
        })
    }

    /// Its value of the parameter `format`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Lines => "ndjson",
            Self::Csv => "csv",
            Self::Html => "html",
        }
    }

    /// What is before the first volume.
    pub fn begin(self, asked: &Asked) -> String {
        match self {
            Self::Text | Self::Lines => String::new(),
            Self::Json => "{\"volumes\":[".to_owned(),
            Self::Csv => csv_line(asked.fields.iter().map(|field| field.name().to_owned())),
            Self::Html => page::begin(asked),
        }
    }

    /// A volume.
    pub fn item(self, asked: &Asked, volume: &Described, is_first: bool) -> String {
        let fields = &asked.fields;
        match self {
            Self::Text => format!("{}\n", volume.id),
            Self::Lines => format!("{}\n", json(fields, volume)),
            Self::Json => format!("{}{}", if is_first { "\n" } else { ",\n" }, json(fields, volume)),
            Self::Csv => csv_line(fields.iter().map(|field| cell(*field, volume))),
            Self::Html => page::row(asked, volume),
        }
    }

    /// What is behind the last volume.
    pub fn end(self, end: &End) -> String {
        match self {
            Self::Text | Self::Lines | Self::Csv => String::new(),
            Self::Json => {
                let total = end.total.map(|total| format!(",\"total\":{total}")).unwrap_or_default();
                format!("],\"next\":{}{total}}}\n", Value::from(end.next.clone()))
            }
            Self::Html => page::end(end),
        }
    }
}

fn json(fields: &[Field], volume: &Described) -> Value {
    let value = |field: Field| match field.is_number() {
        true => Value::from(volume.number(field)),
        false => Value::from(volume.text(field)),
    };
    Value::Object(fields.iter().map(|field| (field.name().to_owned(), value(*field))).collect::<Map<_, _>>())
}

/// A field as text; empty if the volume has none.
pub fn cell(field: Field, volume: &Described) -> String {
    match field.is_number() {
        true => volume.number(field).map(|number| number.to_string()).unwrap_or_default(),
        false => volume.text(field).unwrap_or_default().to_owned(),
    }
}

/// A line of CSV. Programs for tables run a text that begins like a formula, so it gets an
/// apostrophe before it; control characters become spaces.
pub fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let harmless = |text: String| {
        let text = text.replace(char::is_control, " ");
        if text.trim_start().starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
    };
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    // Writing to memory never fails.
    let _ = writer.write_record(cells.map(harmless));
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_csv_is_quoted_and_never_a_formula() {
        let line = |cells: &[&str]| csv_line(cells.iter().map(|cell| (*cell).to_owned()));
        assert_eq!(line(&["a,b", "say \"hi\"", "1847"]), "\"a,b\",\"say \"\"hi\"\"\",1847\r\n");
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r\n=1"] {
            let expected = format!("'{}\r\n", formula.replace(char::is_control, " "));
            assert_eq!(line(&[formula]).replace('"', ""), expected, "{formula:?}");
        }
        assert_eq!(line(&["a\nb\u{0}\u{1b}[31mc"]), "a b  [31mc\r\n");
        assert_eq!(line(&["", ""]), ",\r\n");
    }
}
