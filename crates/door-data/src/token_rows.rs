//! Token counts as rows: CSV, JSON and NDJSON.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use door_http::accept::{self, Offer};
use hathi::VolumeId;
use http::{HeaderMap, HeaderValue};
use serde_json::{Map, Value};
use volumes::{Missing, MissingPart, MissingReason, TokenCount, TokenLevel, TokenRows};

use crate::errors::DoorError;
use crate::listing::csv_line;
use crate::params::Params;

/// A form of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// A line of names, and a line per row.
    Csv,
    /// An array of objects.
    Json,
    /// An object per line.
    Lines,
}

/// In the server's order of preference; `None` is the ZIP.
const OFFERS: [Offer<Option<RowFormat>>; 4] = [
    Offer::new("application/zip", None),
    Offer::new("text/csv", Some(RowFormat::Csv)),
    Offer::new("application/json", Some(RowFormat::Json)),
    Offer::new("application/x-ndjson", Some(RowFormat::Lines)),
];

/// The form that `Accept` prefers. A client that accepts none of them gets a ZIP, as from the
/// original service.
pub fn accepted(headers: &HeaderMap) -> Option<RowFormat> {
    accept::media_type(headers, &OFFERS).copied().flatten()
}

/// The form that the parameter `format` names.
pub fn asked(params: &Params) -> Result<Option<Option<RowFormat>>, DoorError> {
    params.keyword("format", "zip, csv, json or ndjson", |word| match word {
        "zip" => Some(None),
        "csv" => Some(Some(RowFormat::Csv)),
        "json" => Some(Some(RowFormat::Json)),
        "ndjson" => Some(Some(RowFormat::Lines)),
        _ => None,
    })
}

impl RowFormat {
    /// Its media type with its encoding.
    pub fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Json => "application/json",
            Self::Lines => "application/x-ndjson",
        })
    }

    /// Rows of this form.
    pub fn rows(self, level: TokenLevel) -> Arc<dyn TokenRows> {
        Arc::new(Rows { format: self, level, begun: AtomicBool::new(false) })
    }
}

/// Rows of a response.
#[derive(Debug)]
struct Rows {
    format: RowFormat,
    level: TokenLevel,
    /// Whether there was a row. Rows are made one after the other.
    begun: AtomicBool,
}

/// The content of a row, besides volume and sequence.
enum Row<'a> {
    Count(&'a str, u64),
    Problem(&'a str),
}

impl Rows {
    fn row(&self, volume: &VolumeId, seq: Option<u32>, row: &Row<'_>) -> String {
        if self.format == RowFormat::Csv {
            return self.csv(volume, seq, row);
        }
        let mut object = Map::from_iter([("volume".to_owned(), Value::from(volume.as_str()))]);
        object.extend(seq.map(|seq| ("seq".to_owned(), seq.into())));
        object.extend(match row {
            Row::Count(token, count) => {
                vec![("token".to_owned(), Value::from(*token)), ("count".to_owned(), (*count).into())]
            }
            Row::Problem(problem) => vec![("problem".to_owned(), Value::from(*problem))],
        });
        let object = Value::Object(object);
        match (self.format, self.begun.swap(true, Ordering::Relaxed)) {
            (RowFormat::Json, true) => format!(",\n{object}"),
            (RowFormat::Json, false) => format!("\n{object}"),
            _ => format!("{object}\n"),
        }
    }

    fn csv(&self, volume: &VolumeId, seq: Option<u32>, row: &Row<'_>) -> String {
        let (token, count, problem) = match row {
            Row::Count(token, count) => ((*token).to_owned(), count.to_string(), String::new()),
            Row::Problem(problem) => (String::new(), String::new(), (*problem).to_owned()),
        };
        let seq = (self.level == TokenLevel::Page).then(|| seq.map(|seq| seq.to_string()).unwrap_or_default());
        csv_line(std::iter::once(volume.to_string()).chain(seq).chain([token, count, problem]))
    }
}

impl TokenRows for Rows {
    fn begin(&self) -> Vec<u8> {
        let names = match self.level {
            TokenLevel::Volume => &["volume", "token", "count", "problem"][..],
            TokenLevel::Page => &["volume", "seq", "token", "count", "problem"],
        };
        match self.format {
            RowFormat::Csv => csv_line(names.iter().map(|name| (*name).to_owned())).into(),
            RowFormat::Json => b"[".to_vec(),
            RowFormat::Lines => Vec::new(),
        }
    }

    fn counts(&self, volume: &VolumeId, seq: Option<u32>, counts: &[TokenCount]) -> Vec<u8> {
        let row = |(token, count): &TokenCount| self.row(volume, seq, &Row::Count(token, *count));
        counts.iter().map(row).collect::<String>().into()
    }

    fn missing(&self, missing: &Missing) -> Vec<u8> {
        let problem = match missing.reason {
            MissingReason::Absent => "it is not in the store",
            MissingReason::Damaged => "it is damaged",
            MissingReason::Unavailable => "it cannot be read for now",
            MissingReason::NotKept => "the version of that time is not kept",
        };
        let seq = match missing.part {
            MissingPart::Page(seq) => Some(seq),
            MissingPart::Volume | MissingPart::Mets => None,
        };
        self.row(&missing.volume, seq, &Row::Problem(problem)).into()
    }

    fn end(&self) -> Vec<u8> {
        if self.format == RowFormat::Json { b"\n]\n".to_vec() } else { Vec::new() }
    }
}
