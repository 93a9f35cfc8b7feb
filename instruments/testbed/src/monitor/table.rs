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

/// The most values that are held at once: 64 MiB. A day with 48 columns has as many.
const VALUES_MAX: usize = 4 << 20;

/// Reads such a file again; `name` is the monitor's. If it has more than four million values, each row
/// is the mean of several lines that follow each other, so that a long run needs no more memory than a
/// short one.
///
/// # Errors
/// If it is no CSV, its first column is not the time, or a field is neither empty nor a number.
pub fn read(name: &str, csv: impl Read) -> Result<Samples, MonitorError> {
    read_at_most(VALUES_MAX, name, csv)
}

fn read_at_most(values_max: usize, name: &str, csv: impl Read) -> Result<Samples, MonitorError> {
    let mut reader = csv::Reader::from_reader(csv);
    let headers = reader.headers()?.clone();
    if headers.get(0) != Some(TIME) {
        return Err(MonitorError::NoTime);
    }
    let columns: Vec<String> = headers.iter().skip(1).map(str::to_owned).collect();
    let mut rows = Rows::new(values_max / columns.len().max(1));
    for record in reader.records() {
        rows.add(row(&headers, &record?)?);
    }
    Ok(Samples { name: name.to_owned(), columns, rows: rows.finish() })
}

/// An instant, and one value per column.
type Row = (f64, Vec<Option<f64>>);

/// Rows whose number is bounded: when there are too many, two neighbours become one.
struct Rows {
    /// An even number.
    rows_max: usize,
    /// How many lines make a row.
    lines_of_row: usize,
    /// The lines of the next row.
    next: Mean,
    rows: Vec<Row>,
}

impl Rows {
    fn new(rows_max: usize) -> Self {
        Self { rows_max: (rows_max / 2 * 2).max(2), lines_of_row: 1, next: Mean::default(), rows: Vec::new() }
    }

    fn add(&mut self, line: Row) {
        self.next.add(line);
        if self.next.lines < self.lines_of_row {
            return;
        }
        self.rows.push(std::mem::take(&mut self.next).row());
        if self.rows.len() < self.rows_max {
            return;
        }
        let mut all = std::mem::take(&mut self.rows).into_iter();
        while let Some(row) = all.next() {
            let mut both = Mean::default();
            both.add(row);
            all.next().into_iter().for_each(|row| both.add(row));
            self.rows.push(both.row());
        }
        self.lines_of_row *= 2;
    }

    fn finish(mut self) -> Vec<Row> {
        if self.next.lines > 0 {
            self.rows.push(self.next.row());
        }
        self.rows
    }
}

/// The mean of lines that follow each other, at the instant of the last one.
#[derive(Default)]
struct Mean {
    at_s: f64,
    lines: usize,
    /// Of each column: the sum, and how many values are known.
    sums: Vec<(f64, u32)>,
}

impl Mean {
    fn add(&mut self, (at_s, values): Row) {
        self.sums.resize(values.len(), (0.0, 0));
        for ((sum, count), value) in self.sums.iter_mut().zip(values) {
            if let Some(value) = value {
                *sum += value;
                *count += 1;
            }
        }
        self.at_s = at_s;
        self.lines += 1;
    }

    fn row(self) -> Row {
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        (self.at_s, self.sums.into_iter().map(mean).collect())
    }
}

fn row(headers: &StringRecord, record: &StringRecord) -> Result<Row, MonitorError> {
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
    fn a_long_file_needs_no_more_memory_than_a_short_one_because_rows_become_means() {
        let mut csv = "at_s,a,b\n".to_owned();
        (1..=10).for_each(|line| csv += &format!("{line},{line},{}\n", if line == 10 { "7" } else { "" }));
        // Eight values of two columns are four rows: four lines make one in the end.
        let read = read_at_most(8, "long", csv.as_bytes()).unwrap();
        let rows = vec![(4.0, vec![Some(2.5), None]), (8.0, vec![Some(6.5), None]), (10.0, vec![Some(9.5), Some(7.0)])];
        assert_eq!(read.rows, rows);
        let lines = (0..100_000).map(|line| format!("{line},{line},\n")).collect::<String>();
        let many = read_at_most(2_000, "long", format!("at_s,a,b\n{lines}").as_bytes()).unwrap();
        assert!((500..=1_000).contains(&many.rows.len()), "{}", many.rows.len());
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
