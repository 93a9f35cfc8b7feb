//! Reads the part of a log that belongs to a worker, ahead of its load.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::{Entry, METHODS};

/// So many requests are read ahead: the thread of the load never waits for a disk.
const AHEAD: usize = 8_192;

/// The requests of a part, with their instants since the beginning of the load.
pub(crate) fn entries(part: &Path) -> io::Result<impl Iterator<Item = io::Result<(Duration, Entry)>> + use<>> {
    let part = BufReader::new(File::open(part)?);
    let (sender, receiver) = sync_channel(AHEAD);
    thread::spawn(move || read(part, &sender));
    Ok(receiver.into_iter())
}

fn read(part: impl BufRead, to: &SyncSender<io::Result<(Duration, Entry)>>) {
    for line in part.lines() {
        let entry = line.and_then(|line| entry(&line).ok_or_else(|| io::Error::other("a damaged part of a log")));
        // If nobody waits for it any more, the load has ended.
        if to.send(entry).is_err() {
            return;
        }
    }
}

fn entry(line: &str) -> Option<(Duration, Entry)> {
    let (after_us, rest) = line.split_once(' ')?;
    let (method, target) = rest.split_once(' ')?;
    let method = METHODS.iter().find(|known| **known == method)?;
    Some((Duration::from_micros(after_us.parse().ok()?), Entry { method, target: target.to_owned() }))
}
