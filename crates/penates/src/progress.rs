//! Progress bars: on standard error, and only where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// How far a work measured in bytes is: the bar, bytes, rate and time left, and a message of the caller's. Without a known
/// length it shows what is done so far.
pub fn bytes(len_bytes: Option<u64>) -> ProgressBar {
    match len_bytes {
        Some(len_bytes) => styled(
            ProgressBar::new(len_bytes),
            "{bar:16} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} left  {wide_msg}",
        ),
        None => styled(ProgressBar::no_length(), "{spinner} {binary_bytes}  {binary_bytes_per_sec}  {wide_msg}"),
    }
}

/// How far a work measured in volumes is.
pub fn volumes(count: u64) -> ProgressBar {
    styled(ProgressBar::new(count), "{bar:16} {pos}/{len} volumes  {per_sec}  {eta} left  {wide_msg}")
}

/// A template that indicatif does not take is a defect, which the tests find; a plain bar is shown then.
fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_bar_without_length_has_none_and_nothing_is_drawn_off_a_terminal() {
        assert_eq!(bytes(None).length(), None);
        assert_eq!(bytes(Some(7)).length(), Some(7));
        assert_eq!(volumes(3).length(), Some(3));
    }
}
