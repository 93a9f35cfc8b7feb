//! Progress bars: on standard error, and only where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

const WORKER: &str = "{prefix}  {pos}/{len} s  {msg}";
const STUDY: &str = "{pos}/{len} runs  {msg}  {wide_bar}";

/// The progress of a worker of the testbed: the seconds of its load, and a message of the caller's.
pub fn worker(number: u32, seconds: u64) -> ProgressBar {
    ProgressBar::new(seconds).with_style(style(WORKER)).with_prefix(format!("worker {number}"))
}

/// The progress of a study of the lab: runs, and a message of the caller's. Their number may grow.
pub fn study() -> ProgressBar {
    ProgressBar::new(0).with_style(style(STUDY))
}

/// indicatif refuses a template only because of a defect, which the test finds. Then a plain bar is
/// shown.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indicatif_accepts_every_template() {
        for template in [WORKER, STUDY] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
