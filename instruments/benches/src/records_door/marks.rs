//! The flushes and compactions of a measured server's store, as they are seen from outside.

use std::iter::repeat_n;
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, anyhow};
use testbed::beside::Follower;

use super::subject::Subject;
use crate::rig::client::{Client, Request};

/// The word by which a mark says that a memtable begins to be written to a file.
pub const FLUSH: &str = "flush";

/// The word by which a mark says that a compaction has ended.
pub const COMPACTION: &str = "compaction";

/// The metrics of the embedded engine that show them.
const UNFLUSHED: &str = "penates_embedded_memtables_unflushed";
const COMPACTIONS: &str = "penates_embedded_compactions_total";

/// The label of the database in which records are.
const OF_RECORDS: &str = "lane=\"records\"";

/// Where marks are found.
pub enum Marks {
    /// The metrics of a server with the embedded engine.
    Embedded(Metrics),
    /// The log of the Cassandra node. It also shows collections of garbage.
    Cassandra(Follower),
}

/// The metrics of a server, and what they were at the last look.
pub struct Metrics {
    client: Client<TcpStream>,
    before: Activity,
}

/// What the metrics say.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Activity {
    /// Memtables that wait to be written to files.
    unflushed: f64,
    /// Compactions that have ended.
    compactions: f64,
}

impl Marks {
    /// The marks of a server of Penates from now on.
    pub fn of(subject: &Subject) -> Result<Self> {
        match &subject.node {
            Some(node) => Ok(Self::Cassandra(Follower::of_cassandra(node.log()?).map_err(|error| anyhow!(error))?)),
            None => Ok(Self::Embedded(Metrics::of(subject.http.context("a server without metrics")?)?)),
        }
    }

    /// What happened since the last call, a few words each. A flush that begins and ends between
    /// two calls is missed in the embedded engine.
    pub fn look(&mut self) -> Result<Vec<String>> {
        match self {
            Self::Embedded(metrics) => metrics.look(),
            Self::Cassandra(log) => Ok(log.read()),
        }
    }
}

impl Metrics {
    fn of(address: SocketAddr) -> Result<Self> {
        let mut client = Client::connect(address)?;
        let before = Activity::read(&mut client)?;
        Ok(Self { client, before })
    }

    fn look(&mut self) -> Result<Vec<String>> {
        let now = Activity::read(&mut self.client)?;
        Ok(now.since(std::mem::replace(&mut self.before, now)))
    }
}

impl Activity {
    fn read(client: &mut Client<TcpStream>) -> Result<Self> {
        let mut text = Vec::new();
        client.fetch_into(&Request::get("/metrics"), |piece| {
            text.extend_from_slice(piece);
            Ok(())
        })?;
        Self::of(&String::from_utf8_lossy(&text)).context("the metrics do not show the database of records")
    }

    fn of(text: &str) -> Option<Self> {
        Some(Self { unflushed: sample(text, UNFLUSHED)?, compactions: sample(text, COMPACTIONS)? })
    }

    /// What began or ended since an earlier look.
    fn since(self, before: Self) -> Vec<String> {
        let grown = [(FLUSH, self.unflushed - before.unflushed), (COMPACTION, self.compactions - before.compactions)];
        // A negative number becomes 0.
        grown.into_iter().flat_map(|(what, count)| repeat_n(what.to_owned(), count as usize)).collect()
    }
}

/// The sample of the records' database, of a family in the text format of Prometheus.
fn sample(text: &str, family: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let (labels, value) = line.strip_prefix(family)?.rsplit_once(' ')?;
        (labels.starts_with('{') && labels.contains(OF_RECORDS)).then(|| value.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn metrics(unflushed: u32, compactions: u32) -> Activity {
        let text = format!(
            "# TYPE {COMPACTIONS} counter\n{COMPACTIONS}{{lane=\"text\"}} 99\n{COMPACTIONS}{{lane=\"records\"}} \
             {compactions}\n{UNFLUSHED}{{lane=\"service\"}} 9\n{UNFLUSHED}{{lane=\"records\"}} {unflushed}\n"
        );
        Activity::of(&text).unwrap()
    }

    #[test]
    fn a_flush_begins_when_more_memtables_wait_and_a_compaction_counts_when_it_has_ended() {
        assert_eq!(metrics(1, 7).since(metrics(0, 5)), [FLUSH, COMPACTION, COMPACTION]);
        assert!(metrics(0, 5).since(metrics(2, 5)).is_empty(), "a flush that ends is no mark");
        assert_eq!(Activity::of("other{lane=\"records\"} 1\n"), None);
    }
}
