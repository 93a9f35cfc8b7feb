//! Numbers as people read them: three significant digits, thin spaces and units.
//! `assets/charts.js` formats what the cursor shows in the same way.

use serde::Serialize;

/// A narrow space at which no line breaks.
pub const THIN_SPACE: char = '\u{202f}';

/// The text of a value that is not there.
pub const NONE: &str = "–";

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Anything, without a unit.
    Plain,
    /// Anything per second.
    PerSecond,
    /// Milliseconds.
    Milliseconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// A share, from 0 to 1.
    Share,
}

impl Unit {
    /// A value with its unit.
    pub(crate) fn format(self, value: f64) -> String {
        match self {
            Self::Plain => prefixed(value),
            Self::PerSecond => format!("{}/s", prefixed(value)),
            Self::Milliseconds => milliseconds(value),
            Self::Bytes => bytes(value),
            Self::BytesPerSecond => format!("{}/s", bytes(value)),
            Self::Share => format!("{}{THIN_SPACE}%", significant(value * 100.0)),
        }
    }
}

/// A count, with all of its digits.
pub(crate) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A time.
pub(crate) fn milliseconds(value: f64) -> String {
    let value = round(value);
    match value.abs() {
        size if size >= 1e3 => format!("{}{THIN_SPACE}s", significant(value / 1e3)),
        size if size >= 1.0 || size == 0.0 => format!("{}{THIN_SPACE}ms", significant(value)),
        _ => format!("{}{THIN_SPACE}µs", significant(value * 1e3)),
    }
}

/// A number of bytes, with decimal prefixes.
pub(crate) fn bytes(value: f64) -> String {
    let (value, prefix) = scaled(value, &["", "k", "M", "G", "T", "P"]);
    format!("{}{THIN_SPACE}{prefix}B", significant(value))
}

/// An instant in seconds since the start instant, as `4:05` or `1:04:05`, with a tenth if it has
/// one.
pub(crate) fn instant(at_s: f64) -> String {
    if !at_s.is_finite() {
        return NONE.to_owned();
    }
    let tenths = (at_s.abs() * 10.0).round() as u64;
    let (seconds, tenth) = (tenths / 10, tenths % 10);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let sign = if at_s < 0.0 && tenths > 0 { "−" } else { "" };
    let tenth = if tenth > 0 { format!(".{tenth}") } else { String::new() };
    match hours {
        0 => format!("{sign}{minutes}:{seconds:02}{tenth}"),
        _ => format!("{sign}{hours}:{minutes:02}:{seconds:02}{tenth}"),
    }
}

/// A number with three significant digits; integers below 1,000 as they are.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let value = round(value);
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        return format!("{value:.2e}").replace('-', "−");
    }
    let decimals = if value.fract() == 0.0 { 0 } else { (2 - magnitude(value)).max(0) };
    grouped(&format!("{value:.*}", decimals as usize)).replace('-', "−")
}

/// Large numbers get a prefix: `1.25 M`.
fn prefixed(value: f64) -> String {
    if round(value).abs() < 1e6 {
        return significant(value);
    }
    let (value, prefix) = scaled(value, &["", "k", "M", "G", "T", "P"]);
    format!("{}{THIN_SPACE}{prefix}", significant(value))
}

fn scaled(value: f64, prefixes: &[&'static str]) -> (f64, &'static str) {
    let value = round(value);
    let last = prefixes.len().saturating_sub(1);
    let power = ((magnitude(value) / 3).max(0) as usize).min(last);
    (value / 1000_f64.powi(power as i32), prefixes.get(power).copied().unwrap_or_default())
}

/// Three significant digits are left.
fn round(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// The power of ten of a number's first digit.
fn magnitude(value: f64) -> i32 {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    // A logarithm of 1,000 may fall below 3; the exponent of its text does not.
    let text = format!("{value:e}");
    text.rsplit_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// Groups of three digits before the point.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (sign, digits) = whole.split_at(whole.len() - whole.trim_start_matches('-').len());
    let mut out = sign.to_owned();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(THIN_SPACE);
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With an ordinary space, which is easier to read here.
    fn plain(text: String) -> String {
        text.replace(THIN_SPACE, " ")
    }

    #[test]
    fn three_digits_are_significant() {
        let texts: Vec<_> = [0.0, 5.0, 12.0, 1.2345, 12.345, 999.6, 12_345.0, 0.012_345, -1.5, -4_321.0, 1.5e-7]
            .into_iter()
            .map(|value| plain(significant(value)))
            .collect();
        assert_eq!(texts, ["0", "5", "12", "1.23", "12.3", "1 000", "12 300", "0.0123", "−1.50", "−4 320", "1.50e−7"]);
    }

    #[test]
    fn counts_keep_all_of_their_digits() {
        assert_eq!(plain(count(1_234_567)), "1 234 567");
        assert_eq!(plain(count(999)), "999");
    }

    #[test]
    fn units_follow_the_size_of_a_value() {
        assert_eq!(plain(milliseconds(0.25)), "250 µs");
        assert_eq!(plain(milliseconds(999.9)), "1 s");
        assert_eq!(plain(milliseconds(12.345)), "12.3 ms");
        assert_eq!(plain(bytes(999_999.0)), "1 MB");
        assert_eq!(plain(Unit::BytesPerSecond.format(1_536.0)), "1.54 kB/s");
        assert_eq!(plain(Unit::Share.format(0.4567)), "45.7 %");
        assert_eq!(plain(Unit::PerSecond.format(2_500_000.0)), "2.50 M/s");
    }

    #[test]
    fn instants_are_minutes_and_seconds() {
        assert_eq!(instant(-30.0), "−0:30");
        assert_eq!(instant(245.25), "4:05.3");
        assert_eq!(instant(3_845.0), "1:04:05");
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        assert_eq!(significant(f64::NAN), NONE);
        assert_eq!(instant(f64::INFINITY), NONE);
    }
}
