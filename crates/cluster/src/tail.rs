//! The end of a log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How much of a log an error message shows.
const LINES: usize = 25;

/// How far back from the end of a log these lines are looked for.
const REACH_BYTES: u64 = 16 << 10;

/// The last lines of a log; of one that cannot be read, why.
pub(crate) fn tail(log: &Path) -> String {
    let text = match read_end(log) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return format!("(cannot read it: {error})"),
    };
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

fn read_end(log: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(log)?;
    let len_bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(len_bytes.saturating_sub(REACH_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(REACH_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
