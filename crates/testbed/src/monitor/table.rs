//! Samples as CSV.

use std::io::{Read, Write};

use csv::StringRecord;

use super::MonitorError;
use crate::samples::Samples;

/// The first column: seconds since the start instant.
const TIME: &str = "at_s";

/// A CSV file that grows by a line per sample.
pub struct Table<W: Write> {
    writer: csv::Writer<W>,
}

impl<W: Write> Table<W> {
    /// A table with columns. The line of their names is written.
    ///
    /// # Errors
    /// If it cannot be written, or two columns have the same name.
    pub fn new(out: W, columns: &[String]) -> Result<Self, MonitorError> {
        let mut names: Vec<&str> = columns.iter().map(String::as_str).chain([TIME]).collect();
        names.sort_unstable();
        if let Some(double) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(MonitorError::DoubleColumn(double[0].to_owned()));
        }
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record([TIME].into_iter().chain(columns.iter().map(String::as_str)))?;
        writer.flush().map_err(csv::Error::from)?;
        Ok(Self { writer })
    }

    /// Writes a line at once, so that it is there if this program ends suddenly.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, at_s: f64, values: &[Option<f64>]) -> Result<(), MonitorError> {
        self.writer.write_field(format!("{at_s:.3}"))?;
        for value in values {
            self.writer.write_field(value.map(number).unwrap_or_default())?;
        }
        self.writer.write_record(None::<&[u8]>)?;
        self.writer.flush().map_err(csv::Error::from)?;
        Ok(())
    }
}

/// A number with at most six decimals.
fn number(value: f64) -> String {
    if value.fract() == 0.0 {
        return value.to_string();
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reads such a file again; `name` is the monitor's.
///
/// # Errors
/// If it is no CSV, its first column is not the time, or a field is neither empty nor a number.
pub fn read(name: &str, csv: impl Read) -> Result<Samples, MonitorError> {
    let mut reader = csv::Reader::from_reader(csv);
    let headers = reader.headers()?.clone();
    if headers.get(0) != Some(TIME) {
        return Err(MonitorError::NoTime);
    }
    let columns: Vec<String> = headers.iter().skip(1).map(str::to_owned).collect();
    let rows = reader.records().map(|record| row(&headers, &record?)).collect::<Result<_, _>>()?;
    Ok(Samples { name: name.to_owned(), columns, rows })
}

fn row(headers: &StringRecord, record: &StringRecord) -> Result<(f64, Vec<Option<f64>>), MonitorError> {
    let field = |(column, text): (&str, &str)| {
        let value = if text.is_empty() { Ok(None) } else { text.parse().map(Some) };
        value.map_err(|_| malformed(record, column, text))
    };
    let mut values = headers.iter().zip(record).map(field);
    let at_s = values.next().transpose()?.flatten().ok_or_else(|| malformed(record, TIME, ""))?;
    Ok((at_s, values.collect::<Result<_, _>>()?))
}

fn malformed(record: &StringRecord, column: &str, text: &str) -> MonitorError {
    let line = record.position().map_or(0, csv::Position::line);
    MonitorError::Field { line, column: column.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let columns = names(&["cpu", "metrics.odd{a=\"x,\ny\"}"]);
        let mut bytes = Vec::new();
        let mut table = Table::new(&mut bytes, &columns).unwrap();
        table.write(-0.9994, &[Some(0.25), None]).unwrap();
        table.write(1.0, &[Some(1.0 / 3.0), Some(24_684_096_001.0)]).unwrap();
        table.write(2.0, &[None, None]).unwrap();
        drop(table);
        let rows = vec![
            (-0.999, vec![Some(0.25), None]),
            (1.0, vec![Some(0.333_333), Some(24_684_096_001.0)]),
            (2.0, vec![None, None]),
        ];
        assert_eq!(read("server", &bytes[..]).unwrap(), Samples { name: "server".into(), columns, rows });
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, -0.0, 12.5, 1e15, 0.000_000_4, 2.999_999_9, 100.0].map(number);
        assert_eq!(numbers, ["0", "-0", "12.5", "1000000000000000", "0", "3", "100"]);
    }

    #[test]
    fn a_line_is_there_at_once() {
        let mut bytes = Vec::new();
        let mut table = Table::new(&mut bytes, &names(&["cpu"])).unwrap();
        table.write(1.0, &[None]).unwrap();
        assert_eq!(table.writer.get_ref().as_slice(), b"at_s,cpu\n1.000,\n");
    }

    #[test]
    fn two_columns_with_one_name_are_an_error() {
        let error = Table::new(Vec::new(), &names(&["a.cpu", "b.cpu", "a.cpu"])).err().unwrap();
        assert!(matches!(error, MonitorError::DoubleColumn(name) if name == "a.cpu"));
        assert!(Table::new(Vec::new(), &names(&["at_s"])).is_err());
    }

    #[test]
    fn a_file_that_is_no_table_of_samples_is_an_error() {
        assert!(matches!(read("x", &b""[..]), Err(MonitorError::NoTime)));
        assert!(matches!(read("x", &b"time,cpu\n1,2\n"[..]), Err(MonitorError::NoTime)));
        assert!(matches!(read("x", &b"at_s,cpu\n1\n"[..]), Err(MonitorError::Csv(_))));
        let error = read("x", &b"at_s,cpu\n1,0.5\n2,much\n"[..]).unwrap_err();
        assert!(matches!(error, MonitorError::Field { line: 3, column, text } if column == "cpu" && text == "much"));
        assert!(matches!(read("x", &b"at_s,cpu\n,1\n"[..]), Err(MonitorError::Field { line: 2, .. })));
    }
}
