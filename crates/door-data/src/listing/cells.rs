//! What the formats of a list have in common: where a part of it is, fields as text, and lines of
//! CSV.

use std::fmt::Display;

use ::audit::form::csv_cell;
use volumes::find::{Described, Field};

/// Where a part of a list begins and ends.
#[derive(Clone, Debug, Default)]
pub struct Edges {
    /// The token of the place where it begins; `None`: at the first volume.
    pub begins: Option<String>,
    /// The token with which the list goes on; `None`: there is no more.
    pub next: Option<String>,
    /// How many volumes there are in all, if that is known.
    pub total: Option<u64>,
}

impl Edges {
    /// Those of a part that begins behind a place, and of which the next one begins behind another.
    pub fn of<P: Display>(begins: Option<&P>, next: Option<&P>, total: Option<u64>) -> Self {
        Self { begins: begins.map(P::to_string), next: next.map(P::to_string), total }
    }
}

/// A field as text; empty if the volume has none.
pub fn cell(field: Field, volume: &Described) -> String {
    match field.is_number() {
        true => volume.number(field).map(|number| number.to_string()).unwrap_or_default(),
        false => volume.text(field).unwrap_or_default().to_owned(),
    }
}

/// A line of CSV. No cell of it is a formula ([`csv_cell`]).
pub fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    // Writing to memory never fails.
    let _ = writer.write_record(cells.map(|text| csv_cell(&text)));
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_csv_is_quoted_and_never_a_formula() {
        let line = |cells: &[&str]| csv_line(cells.iter().map(|cell| (*cell).to_owned()));
        assert_eq!(line(&["a,b", "say \"hi\"", "1847"]), "\"a,b\",\"say \"\"hi\"\"\",1847\r\n");
        assert_eq!(line(&[" =1", "a\nb\u{0}\u{1b}[31mc"]), "' =1,a b  [31mc\r\n");
        assert_eq!(line(&["", ""]), ",\r\n");
    }
}
