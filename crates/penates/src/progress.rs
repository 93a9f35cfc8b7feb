//! Progress bars: on standard error, and only where that is a terminal.

use std::io::{self, IsTerminal};

use indicatif::style::ProgressTracker;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const IMPORT: &str =
    "{summary}  {decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left  {wide_bar}";
const BYTES: &str = "{decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left  {wide_bar}";
const BYTES_WITHOUT_END: &str = "{spinner} {decimal_bytes}  {decimal_bytes_per_sec}";
const COPY: &str = "{prefix}: {pos}/{len}  {msg}  {per_sec}  {wide_bar}";
const VOLUMES: &str = "{pos}/{len} volumes{msg}  {per_sec}  {eta} left  {wide_bar}";

const RESOURCES: &str = "{pos}/{len} resources{msg}  {per_sec}  {eta} left  {wide_bar}";
const RESOURCES_WITHOUT_END: &str = "{spinner} {pos} resources{msg}  {per_sec}";

const VERSIONS: &str = "{pos}/{len} versions  {per_sec}  {eta} left  {wide_bar}";
const OBJECTS: &str = "{pos}/{len} objects checked  {per_sec}  {eta} left  {wide_bar}";
const OBJECTS_WITHOUT_END: &str = "{spinner} {pos} objects checked  {per_sec}";
const VERIFIED: &str = "{pos}/{len} resources verified  {per_sec}  {eta} left  {wide_bar}";

const RECORDS: &str = "{spinner} {pos} records  {per_sec}";
const RANGES: &str = "{pos}/{len} ranges  {eta} left  {wide_bar}";
const ROWS: &str = "{spinner} {pos} rows  {per_sec}";

/// The progress of an import: the text of `summary` (volumes and pages), bytes of ZIPs, rate and time
/// left.
pub fn import(zip_bytes: u64, summary: impl ProgressTracker + 'static) -> ProgressBar {
    ProgressBar::new(zip_bytes).with_style(style(IMPORT).with_key("summary", summary))
}

/// The progress of a work measured in bytes: bytes, rate and time left. Without a known length it
/// shows the bytes so far.
pub fn bytes(len_bytes: Option<u64>) -> ProgressBar {
    match len_bytes {
        Some(len_bytes) => ProgressBar::new(len_bytes).with_style(style(BYTES)),
        None => ProgressBar::no_length().with_style(style(BYTES_WITHOUT_END)),
    }
}

/// The progress of a copy: the stage as its prefix, the number of compared partitions, and a
/// message of the caller's.
pub fn copy() -> ProgressBar {
    ProgressBar::no_length().with_style(style(COPY))
}

/// The progress of a work measured in volumes, and a message of the caller's.
pub fn volumes(count: u64) -> ProgressBar {
    ProgressBar::new(count).with_style(style(VOLUMES))
}

/// The same measured in resources. Their total number is not known.
pub fn resources(count: Option<u64>) -> ProgressBar {
    match count {
        Some(count) => ProgressBar::new(count).with_style(style(RESOURCES)),
        None => ProgressBar::no_length().with_style(style(RESOURCES_WITHOUT_END)),
    }
}

/// The progress of a load, measured in versions.
pub fn versions(count: u64) -> ProgressBar {
    ProgressBar::new(count).with_style(style(VERSIONS))
}

/// The progress of a check of objects, whose number may not be known.
pub fn objects(count: Option<u64>) -> ProgressBar {
    match count {
        Some(count) => ProgressBar::new(count).with_style(style(OBJECTS)),
        None => ProgressBar::no_length().with_style(style(OBJECTS_WITHOUT_END)),
    }
}

/// The progress of a check of what was loaded, measured in resources.
pub fn verified(count: u64) -> ProgressBar {
    ProgressBar::new(count).with_style(style(VERIFIED))
}

/// The progress of a work measured in records, whose total number is not known.
pub fn records() -> ProgressBar {
    ProgressBar::no_length().with_style(style(RECORDS))
}

/// The same for a work that prints a line for each of them. On a terminal these are the progress.
pub fn printed_records() -> ProgressBar {
    let bar = records();
    if io::stdout().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

/// The progress of reading rows, whose total number is not known.
pub fn rows() -> ProgressBar {
    ProgressBar::no_length().with_style(style(ROWS))
}

/// The progress of a work measured in ranges of a ring, whose number is learned soon.
pub fn ranges() -> ProgressBar {
    ProgressBar::no_length().with_style(style(RANGES))
}

/// indicatif refuses a template only because of a defect, which the tests find. Then a plain bar is
/// shown.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// What bars draw, for tests.
#[cfg(test)]
pub(crate) mod drawn {
    use std::sync::Arc;

    use indicatif::TermLike;
    use parking_lot::Mutex;

    use super::*;

    /// A terminal that keeps what is drawn on it.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Drawn(Arc<Mutex<String>>);

    impl Drawn {
        /// The terminal of a bar from now on.
        pub(crate) fn of(bar: &ProgressBar) -> Self {
            let drawn = Self::default();
            bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(drawn.clone())));
            drawn
        }

        /// The bar as it is now.
        pub(crate) fn now(&self, bar: &ProgressBar) -> String {
            self.0.lock().clear();
            bar.force_draw();
            self.0.lock().clone()
        }

        fn draw(&self, text: &str) -> io::Result<()> {
            self.0.lock().push_str(text);
            Ok(())
        }
    }

    impl TermLike for Drawn {
        fn width(&self) -> u16 {
            100
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, line: &str) -> io::Result<()> {
            self.draw(line)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.draw(text)
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn indicatif_accepts_every_template() {
        for template in
            [IMPORT, BYTES, BYTES_WITHOUT_END, COPY, VOLUMES, RESOURCES, RESOURCES_WITHOUT_END, RECORDS, RANGES, ROWS]
        {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn a_bar_without_length_has_none() {
        assert_eq!(bytes(None).length(), None);
        assert_eq!(bytes(Some(7)).length(), Some(7));
        assert_eq!(volumes(3).length(), Some(3));
        assert_eq!((resources(None).length(), resources(Some(3)).length()), (None, Some(3)));
    }
}
