//! The formats of a list.

use http::HeaderValue;

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
}
