//! The formats of many records: lines of JSON, which have everything, and CSV, which has the values
//! of named attributes and the expiry of the record.

use std::collections::HashSet;
use std::path::Path;

use clap::ValueEnum;
use indexmap::IndexMap;
use serde_json::{Value, json};

/// The columns of CSV that are no attributes.
pub const ID: &str = "id";
pub const EXPIRES_AT: &str = "expires_at";

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line of JSON for each record.
    Ndjson,
    /// Comma-separated values (RFC 4180), with the names of the columns in the first line.
    Csv,
}

impl Format {
    /// The format of a file, by the ending of its name.
    pub fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "ndjson" | "jsonl" | "json" => Some(Self::Ndjson),
            _ => None,
        }
    }
}

/// A line of JSON as a row of CSV; `None`: it has what CSV has not (a text, or bytes that are not
/// UTF-8).
pub fn row_of(line: &Value, names: &[String]) -> Option<Vec<String>> {
    let cell = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some(String::new()),
        Value::Object(long) => long.get("value")?.as_str().map(str::to_owned),
        _ => None,
    };
    let attributes = line["attributes"].as_object()?;
    let expires_at = line[EXPIRES_AT].as_u64().map(|at| at.to_string());
    let first = [line[ID].as_str()?.to_owned(), expires_at.unwrap_or_default()].map(Some);
    let values = names.iter().map(|name| attributes.get(name).map_or(Some(String::new()), cell));
    first.into_iter().chain(values).collect()
}

/// How many of the named attributes of a line expire by themselves, which a row of CSV does not
/// say.
pub fn expiring(line: &Value, names: &[String]) -> usize {
    let attributes = &line["attributes"];
    names.iter().filter(|name| attributes[name.as_str()].get(EXPIRES_AT).is_some()).count()
}

/// The first column that there is twice.
pub fn repeated<'a>(mut columns: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    columns.find(|name| !seen.insert(*name))
}

/// A row of CSV as a line of JSON. An empty cell is no attribute. The error says what is wrong.
pub fn line_of(names: &csv::StringRecord, row: &csv::StringRecord) -> Result<Value, String> {
    if row.len() < names.len() {
        let absent: Vec<_> = names.iter().skip(row.len()).map(|name| format!("`{name}`")).collect();
        return Err(format!("it has no field for {}", absent.join(", ")));
    }
    if row.len() > names.len() {
        return Err(format!("it has {} fields for {} columns", row.len(), names.len()));
    }
    let mut line = json!({});
    let mut attributes: IndexMap<&str, &str> = IndexMap::new();
    for (name, cell) in names.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
        match name {
            ID => line[ID] = cell.into(),
            EXPIRES_AT => {
                let at: u64 = cell.parse().map_err(|_| format!("expires_at is not a time in milliseconds: {cell}"))?;
                line[EXPIRES_AT] = at.into();
            }
            name => drop(attributes.insert(name, cell)),
        }
    }
    if line.get(ID).is_none() {
        return Err("there is no id".to_owned());
    }
    line["attributes"] = json!(attributes);
    Ok(line)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_row_has_what_its_line_has() {
        let line =
            json!({"id": "a", "attributes": {"x": "1", "y": {"value": "2,3", "expires_at": 9}}, "expires_at": 7});
        let names = ["y", "none", "x"].map(str::to_owned);
        let row = row_of(&line, &names).unwrap();
        assert_eq!(row, ["a", "7", "2,3", "", "1"]);
        assert_eq!((expiring(&line, &names), expiring(&line, &names[1..])), (1, 0));
        let columns: csv::StringRecord = [ID, EXPIRES_AT, "y", "none", "x"].iter().collect();
        let back = line_of(&columns, &row.iter().collect()).unwrap();
        assert_eq!(back, json!({"id": "a", "attributes": {"x": "1", "y": "2,3"}, "expires_at": 7}));
        for other in [json!({"id": "a", "text": "t"}), json!({"id": {"base64": "/w=="}, "attributes": {}})] {
            assert_eq!(row_of(&other, &names), None, "{other}");
        }
        for (row, why) in [
            (vec!["", "7", "", "", ""], "there is no id"),
            (vec!["a", "soon", "", "", ""], "expires_at is not a time in milliseconds: soon"),
            (vec!["a", "7", "2"], "it has no field for `none`, `x`"),
            (vec!["a", "7", "2", "3", "4", "5"], "it has 6 fields for 5 columns"),
        ] {
            assert_eq!(line_of(&columns, &row.iter().collect()), Err(why.to_owned()));
        }
    }

    #[test]
    fn a_column_that_there_is_twice_is_found() {
        assert_eq!(repeated([ID, EXPIRES_AT, "x"].into_iter()), None);
        assert_eq!(repeated([ID, "x", ID].into_iter()), Some(ID));
        assert_eq!(repeated(["x", "y", "y", "x"].into_iter()), Some("y"));
    }

    #[test]
    fn the_format_follows_the_name() {
        let of = |name: &str| Format::of(Path::new(name));
        assert_eq!(
            [of("a.csv"), of("a.NDJSON"), of("a.jsonl"), of("a")],
            [Some(Format::Csv), Some(Format::Ndjson), Some(Format::Ndjson), None]
        );
    }
}
