//! The end of a log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How much of a log an error message shows.
const LINES: usize = 25;

/// How much of a line it shows: nodes log their whole class path.
const LINE_CHARS: usize = 300;

/// These lines are searched in this number of bytes before the end of a log.
const REACH_BYTES: u64 = 16 << 10;

/// The last lines of a log, or the reason why it cannot be read.
pub(crate) fn tail(log: &Path) -> String {
    let text = match read_end(log) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return format!("(cannot read it: {error})"),
    };
    let lines: Vec<_> = text.lines().collect();
    let shown = lines[lines.len().saturating_sub(LINES)..].iter().map(|line| cut(line));
    shown.collect::<Vec<_>>().join("\n")
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

fn read_end(log: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(log)?;
    let len_bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(len_bytes.saturating_sub(REACH_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(REACH_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_last_lines_are_returned_and_long_ones_are_truncated() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut lines: Vec<_> = (0..30).map(|n| format!("line {n}")).collect();
        lines.push("é".repeat(LINE_CHARS + 1));
        std::fs::write(&log, lines.join("\n")).unwrap();
        let output = tail(&log);
        let output: Vec<_> = output.lines().collect();
        assert_eq!((output.len(), output[0]), (LINES, "line 6"));
        assert_eq!(output[LINES - 1], "é".repeat(LINE_CHARS) + "…");
    }

    #[test]
    fn a_missing_log_is_reported() {
        assert!(tail("/no/such/log".as_ref()).starts_with("(cannot read it:"));
    }
}
