//! Tables and figures in Markdown.

use std::fmt;

use crate::study::trial::Statistics;

/// The text of an empty cell.
pub(super) const NONE: &str = "-";

/// A table: its head and its rows.
pub(super) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |out: &mut fmt::Formatter<'_>, cells: &[String]| writeln!(out, "| {} |", cells.join(" | "));
        line(out, &self.head)?;
        writeln!(out, "|{}", "---|".repeat(self.head.len()))?;
        self.rows.iter().try_for_each(|row| line(out, row))
    }
}

/// A rate: median, mean and standard error.
pub(super) fn rate(statistics: Option<Statistics>) -> String {
    match statistics {
        None => NONE.to_owned(),
        Some(Statistics { median, mean, standard_error }) => {
            format!("{} ({} ± {})", figure(median), figure(mean), figure(standard_error))
        }
    }
}

/// A figure with its significant digits.
pub(super) fn figure(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A ratio, with three decimal places like the original's.
pub(super) fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| NONE.to_owned(), |ratio| format!("{ratio:.3}"))
}

/// A share in per cent, with its sign.
pub(super) fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| NONE.to_owned(), |part| format!("{:+.1} %", part * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown() {
        let mut table = Table::new(["what", "MB/s"]);
        table.push(["one".to_owned(), figure(12.34)]);
        assert_eq!(table.to_string(), "| what | MB/s |\n|---|---|\n| one | 12.3 |\n");
    }

    #[test]
    fn a_rate_is_printed_with_its_error() {
        let statistics = Statistics { median: 120.4, mean: 119.0, standard_error: 2.5 };
        assert_eq!(rate(Some(statistics)), "120 (119 ± 2.50)");
        assert_eq!(rate(None), "-");
    }
}
