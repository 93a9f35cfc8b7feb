//! `penates audit --follow`

use std::pin::pin;

use ::audit::AuditEntry;
use futures::StreamExt;
use jiff::Timestamp;
use serde::Deserialize;
use store::UnixMillis;

use super::Listed;
use crate::client::{Client, ClientError};
use crate::exit::CliError;
use crate::interrupt;
use crate::output::{self, Output};
use crate::reach::Reached;
use crate::resuming::Pauses;

/// How far the server has read: all before this time was sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Until {
    until: Timestamp,
}

/// How far this command has read.
struct Read {
    /// Everything before was printed.
    from: Timestamp,
    /// Entries of exactly that time that were printed.
    printed: u64,
}

impl Read {
    /// Notes an entry. Returns false if it was printed before.
    fn is_new(&mut self, entry: &AuditEntry, seen: &mut u64) -> bool {
        let at = timestamp(at(entry));
        if at > self.from {
            *self = Self { from: at, printed: 1 };
            *seen = 1;
            return true;
        }
        *seen += 1;
        if *seen <= self.printed {
            return false;
        }
        self.printed = *seen;
        true
    }
}

fn at(entry: &AuditEntry) -> UnixMillis {
    match entry {
        AuditEntry::Record(record) => record.at,
        AuditEntry::Event(record) => record.at,
        AuditEntry::Damaged(damaged) => damaged.at,
    }
}

fn timestamp(at: UnixMillis) -> Timestamp {
    Timestamp::from_millisecond(i64::try_from(at.0).unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX)
}

/// Prints what is recorded, until the process is asked to end or nobody reads its output. Then it
/// says where to go on.
pub(super) async fn run(args: &Listed, reached: &Reached) -> anyhow::Result<()> {
    if reached.holds_folder() {
        let why = "--follow needs a running server: while this command held the data folder, none could start";
        return Err(CliError::Usage(why.to_owned()).into());
    }
    let asked_to_end = interrupt::asked_to_end()?;
    let mut read = Read { from: args.from.unwrap_or_else(Timestamp::now), printed: 0 };
    let ended = tokio::select! {
        () = asked_to_end => Ok(()),
        () = output::reader_left() => Ok(()),
        followed = follow(args, &reached.client, &mut read) => followed,
    };
    note!("To go on: --from {}", read.from);
    ended
}

/// Prints what is recorded, and resumes whenever the stream breaks.
async fn follow(args: &Listed, client: &Client, read: &mut Read) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let (form, mut pauses) = (args.form(), Pauses::default());
    loop {
        let path = format!("/admin/audit?{}", args.query_from(Some(read.from)));
        let broken: ClientError = match client.get_lines(&path, "application/x-ndjson").await {
            Ok(lines) => {
                let mut lines = pin!(lines);
                // Entries of the first time of this stream.
                let mut seen = 0;
                loop {
                    match lines.next().await {
                        Some(Ok(line)) => match serde_json::from_str::<Until>(&line) {
                            Ok(Until { until }) => {
                                output.flush()?;
                                pauses = Pauses::default();
                                if until > read.from {
                                    (*read, seen) = (Read { from: until, printed: 0 }, 0);
                                }
                            }
                            Err(_) => {
                                let entry = serde_json::from_str::<AuditEntry>(&line)?;
                                if read.is_new(&entry, &mut seen) {
                                    form.show(&entry, &mut output)?;
                                }
                            }
                        },
                        Some(Err(error)) => break error,
                        None => break ClientError::Broken("the server has ended the stream".into()),
                    }
                }
            }
            Err(error) => error,
        };
        output.flush()?;
        pauses.wait(broken).await?;
    }
}

#[cfg(test)]
mod tests {
    use ::audit::DamagedRecord;

    use super::*;

    #[test]
    fn an_entry_that_comes_again_is_not_printed_again() {
        let entry = |at| AuditEntry::Damaged(DamagedRecord { at: UnixMillis(at), damage: String::new() });
        let mut read = Read { from: timestamp(UnixMillis(5)), printed: 0 };
        let mut seen = 0;
        assert!([5, 5, 7, 7].iter().all(|at| read.is_new(&entry(*at), &mut seen)));
        assert_eq!((read.from, read.printed), (timestamp(UnixMillis(7)), 2));
        // The stream begins again at 7, where one more was recorded.
        let mut seen = 0;
        let new: Vec<_> = [7, 7, 7, 8].iter().map(|at| read.is_new(&entry(*at), &mut seen)).collect();
        assert_eq!(new, [false, false, true, true]);
    }
}
