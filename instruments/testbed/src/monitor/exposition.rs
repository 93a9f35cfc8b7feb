//! The Prometheus text format: lines of series.
//!
//! This is a reader of its own because it skips series that nobody chose before it looks at their
//! values: a page may have megabytes, and it is read each second.

/// A line that says something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line<'a> {
    /// `# TYPE name kind`.
    Type {
        /// The name.
        name: &'a str,
        /// `counter`, `gauge`, `histogram`, …
        kind: &'a str,
    },
    /// A value of a series.
    Series(Series<'a>),
}

/// A series and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series<'a> {
    /// The name.
    pub name: &'a str,
    /// What is between the braces, as written; empty if there are none.
    pub labels: &'a str,
    /// The value; `None` if it is no finite number.
    pub value: Option<f64>,
}

impl Series<'_> {
    /// `name{label="x"}`, or the name if there are no labels.
    pub fn key(&self) -> String {
        if self.labels.is_empty() { self.name.to_owned() } else { format!("{}{{{}}}", self.name, self.labels) }
    }

    /// Whether it is one bucket of a histogram.
    pub fn is_bucket(&self) -> bool {
        let mut labels = self.labels.split(',').filter_map(|label| label.split_once('='));
        self.name.ends_with("_bucket") && labels.any(|(name, _)| name.trim() == "le")
    }
}

/// The lines of a page that have a type, or a series whose name begins with one of `prefixes`.
/// Other lines and malformed ones are left out.
pub fn lines<'a>(page: &'a str, prefixes: &'a [String]) -> impl Iterator<Item = Line<'a>> {
    let is_chosen = move |line: &str| prefixes.iter().any(|prefix| line.starts_with(prefix.as_str()));
    page.lines().map(str::trim).filter_map(move |line| match line.strip_prefix('#') {
        Some(comment) => type_line(comment),
        None if is_chosen(line) => series(line).map(Line::Series),
        None => None,
    })
}

fn type_line(comment: &str) -> Option<Line<'_>> {
    let mut words = comment.split_ascii_whitespace();
    if words.next()? != "TYPE" {
        return None;
    }
    Some(Line::Type { name: words.next()?, kind: words.next()? })
}

/// Reads `name{labels} value time`. Labels, the time and what follows may be absent.
fn series(line: &str) -> Option<Series<'_>> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = line.find(|c| !is_of_name(c))?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_start();
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => split_at_brace(rest)?,
        None => ("", rest),
    };
    let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Series { name, labels: labels.trim(), value: Some(value).filter(|value| value.is_finite()) })
}

/// The text before and behind the closing brace. Label values may have braces too, and quotes
/// behind a backslash.
fn split_at_brace(text: &str) -> Option<(&str, &str)> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = text.bytes().position(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_quoted,
            b'"' => is_quoted = !is_quoted,
            b'}' => return !is_quoted,
            _ => {}
        }
        false
    })?;
    Some((&text[..end], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn all(page: &str) -> Vec<(String, Option<f64>)> {
        let prefixes = [String::new()];
        let series = lines(page, &prefixes).filter_map(|line| match line {
            Line::Series(series) => Some((series.key(), series.value)),
            Line::Type { .. } => None,
        });
        series.collect()
    }

    #[test]
    fn series_have_labels_values_and_times() {
        let page = "# HELP up Whether it runs.\n# TYPE up gauge\nup 1\nup{} 2\nrequests_total{code=\"200\"} 1027 1395066363000\n\
            \r\n  spaced  { a = \"b\", }   -3.5e3  \r\nns:sub_total 7\n";
        let wanted = [
            ("up", 1.0),
            ("up", 2.0),
            ("requests_total{code=\"200\"}", 1027.0),
            ("spaced{a = \"b\",}", -3500.0),
            ("ns:sub_total", 7.0),
        ];
        let wanted: Vec<_> = wanted.into_iter().map(|(key, value)| (key.to_owned(), Some(value))).collect();
        assert_eq!(all(page), wanted);
    }

    #[test]
    fn braces_quotes_and_backslashes_in_label_values_are_part_of_them() {
        let page = r#"odd{path="C:\\dir\\",text="a \"} b\" {"} 5"#;
        assert_eq!(all(page), [(r#"odd{path="C:\\dir\\",text="a \"} b\" {"}"#.to_owned(), Some(5.0))]);
    }

    #[test]
    fn values_that_are_no_finite_numbers_are_none() {
        let none = |name: &str| (name.to_owned(), None);
        assert_eq!(all("a NaN\nb +Inf\nc -Inf\n"), [none("a"), none("b"), none("c")]);
    }

    #[test]
    fn malformed_lines_are_left_out() {
        let page = "<html>\n{\"a\": 1}\nname\nname \nname{a=\"b\" 1\nname{a=\"b\"} x\n9lives 1\nü 1\nname{a=\"ü\"} 4\n";
        assert_eq!(all(page), [("name{a=\"ü\"}".to_owned(), Some(4.0))]);
    }

    #[test]
    fn only_chosen_series_and_types_remain() {
        let prefixes = ["http_".to_owned()];
        let page = "# TYPE other counter\nother 1\nhttp_total 2\n#TYPE late gauge\n# TYPE\n# a comment\n";
        let wanted = [
            Line::Type { name: "other", kind: "counter" },
            Line::Series(Series { name: "http_total", labels: "", value: Some(2.0) }),
            Line::Type { name: "late", kind: "gauge" },
        ];
        assert_eq!(lines(page, &prefixes).collect::<Vec<_>>(), wanted);
        assert_eq!(lines("a 1\n", &[]).count(), 0);
    }

    #[test]
    fn a_bucket_has_a_limit() {
        let series = |name, labels| Series { name, labels, value: None };
        assert!(series("time_bucket", "code=\"200\",le=\"0.5\"").is_bucket());
        assert!(!series("time_bucket", "title=\"le\"").is_bucket());
        assert!(!series("time_sum", "le=\"0.5\"").is_bucket());
    }
}
