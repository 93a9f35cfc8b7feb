//! MBeans of a Cassandra node, which Jolokia shows over HTTP: their names, how they are read, and flushes,
//! compactions and pauses by them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::monitor::{Endpoint, FetchError, MetricsSource, MonitorError};

/// An attribute of an MBean: its name and that of the attribute. A name may be a pattern.
pub type Attribute<'a> = (&'a str, &'a str);

/// Collections of garbage in a Java machine, and the milliseconds that they took.
pub const GC_COUNT: Attribute<'static> = ("java.lang:type=GarbageCollector,name=*", "CollectionCount");
/// See [`GC_COUNT`].
pub const GC_MS: Attribute<'static> = ("java.lang:type=GarbageCollector,name=*", "CollectionTime");
/// Compactions of a node of Cassandra 5.0 that have ended.
pub const COMPACTIONS: Attribute<'static> =
    ("org.apache.cassandra.metrics:type=Compaction,name=TotalCompactionsCompleted", "Count");
/// Bytes that its compactions have read.
pub const COMPACTED_BYTES: Attribute<'static> =
    ("org.apache.cassandra.metrics:type=Compaction,name=BytesCompacted", "Count");
/// Its compactions that wait or run.
pub const PENDING_COMPACTIONS: Attribute<'static> =
    ("org.apache.cassandra.metrics:type=Compaction,name=PendingTasks", "Value");
/// Messages of other nodes that it was too late to answer, of all kinds.
pub const DROPPED_MESSAGES: Attribute<'static> =
    ("org.apache.cassandra.metrics:type=DroppedMessage,scope=*,name=Dropped", "Count");
/// Reads of clients that timed out.
pub const READ_TIMEOUTS: Attribute<'static> =
    ("org.apache.cassandra.metrics:type=ClientRequest,scope=Read,name=Timeouts", "Count");
/// Writes of clients that timed out.
pub const WRITE_TIMEOUTS: Attribute<'static> =
    ("org.apache.cassandra.metrics:type=ClientRequest,scope=Write,name=Timeouts", "Count");
/// Flushes that were begun, of all tables.
pub const MEMTABLE_SWITCHES: Attribute<'static> =
    ("org.apache.cassandra.metrics:type=Table,keyspace=*,scope=*,name=MemtableSwitchCount", "Count");
/// Bytes of the files that are read, of all tables.
pub const LIVE_BYTES: Attribute<'static> =
    ("org.apache.cassandra.metrics:type=Table,keyspace=*,scope=*,name=LiveDiskSpaceUsed", "Count");

/// Jolokia in a Java machine.
#[derive(Debug)]
pub struct Agent {
    endpoint: Endpoint,
}

impl Agent {
    /// The Jolokia that answers at this address, such as `http://127.0.0.1:8778/jolokia`.
    ///
    /// # Errors
    /// The address is malformed.
    pub fn new(url: &str) -> Result<Self, MonitorError> {
        let url = format!("{}/", url.trim_end_matches('/'));
        Ok(Self { endpoint: Endpoint::new(&MetricsSource { url, token: None, prefixes: Vec::new() })? })
    }

    /// Waits so long for an answer, instead of nine tenths of a second.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.endpoint.set_patience(patience);
        self
    }

    /// Reads attributes that are numbers, all by one request: each as the sum over all MBeans that have
    /// the name, and `None` where there are none.
    ///
    /// # Errors
    /// There is no answer, or it makes no sense.
    pub async fn read(&self, attributes: &[Attribute<'_>]) -> Result<Vec<Option<f64>>, FetchError> {
        let asked =
            attributes.iter().map(|(mbean, attribute)| json!({"type": "read", "mbean": mbean, "attribute": attribute}));
        let answers = self.ask(&asked.collect()).await?;
        let found = answers.as_array().filter(|answers| answers.len() == attributes.len());
        let answers = found.ok_or_else(|| FetchError::Answer("it has not one part for each attribute".to_owned()))?;
        let value = |(answer, (_, attribute)): (&Value, &Attribute<'_>)| sum(answer.get("value"), attribute);
        Ok(answers.iter().zip(attributes).map(value).collect())
    }

    /// Calls an operation of an MBean, and waits for its end.
    ///
    /// # Errors
    /// There is no answer, or the operation fails.
    pub async fn call(&self, mbean: &str, operation: &str, arguments: Value) -> Result<(), FetchError> {
        let asked = json!({"type": "exec", "mbean": mbean, "operation": operation, "arguments": arguments});
        let answer = self.ask(&asked).await?;
        match answer.get("error") {
            Some(error) => Err(FetchError::Answer(error.as_str().unwrap_or_default().to_owned())),
            None => Ok(()),
        }
    }

    async fn ask(&self, question: &Value) -> Result<Value, FetchError> {
        let answer = self.endpoint.post(question.to_string().into_bytes()).await?;
        serde_json::from_str(&answer).map_err(|error| FetchError::Answer(error.to_string()))
    }
}

/// What is read for marks. Each is a count, or milliseconds.
const COUNTS: [Attribute<'static>; 4] = [GC_COUNT, GC_MS, MEMTABLE_SWITCHES, COMPACTIONS];

/// What a node has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    pauses: Option<f64>,
    pauses_ms: Option<f64>,
    flushes: Option<f64>,
    compactions: Option<f64>,
}

/// A node.
#[derive(Debug)]
pub struct Jolokia {
    agent: Agent,
    last: Counts,
}

impl Jolokia {
    /// A node whose Jolokia answers at this address.
    ///
    /// # Errors
    /// The address is malformed.
    pub fn new(url: &str) -> Result<Self, MonitorError> {
        Ok(Self { agent: Agent::new(url)?, last: Counts::default() })
    }

    /// The marks since the last call. A node that does not answer has none.
    pub async fn read(&mut self) -> Vec<String> {
        let values = self.agent.read(&COUNTS).await.unwrap_or_default();
        let of = |at: usize| values.get(at).copied().flatten();
        let now = Counts { pauses: of(0), pauses_ms: of(1), flushes: of(2), compactions: of(3) };
        let grown = |before: Option<f64>, now: Option<f64>| Some(now? - before?).filter(|grown| *grown >= 1.0);
        let last = self.last;
        self.last = Counts {
            pauses: now.pauses.or(last.pauses),
            pauses_ms: now.pauses_ms.or(last.pauses_ms),
            flushes: now.flushes.or(last.flushes),
            compactions: now.compactions.or(last.compactions),
        };
        let pauses = grown(last.pauses, now.pauses).map(|count| {
            let ms = grown(last.pauses_ms, now.pauses_ms).unwrap_or_default();
            format!("GC × {count}: {ms} ms")
        });
        let flushes = grown(last.flushes, now.flushes).map(|count| format!("flush × {count}"));
        let compactions = grown(last.compactions, now.compactions).map(|count| format!("compaction × {count}"));
        [pauses, flushes, compactions].into_iter().flatten().collect()
    }
}

/// The sum of an attribute over all MBeans of an answer: a number for one MBean and attribute, or an
/// object by the name of each MBean.
fn sum(value: Option<&Value>, attribute: &str) -> Option<f64> {
    match value? {
        Value::Object(beans) => {
            let found: Vec<_> = beans.values().filter_map(|bean| bean.get(attribute)?.as_f64()).collect();
            (!found.is_empty()).then(|| found.iter().sum())
        }
        value => value.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::monitor::test_server::{Reply, Server};

    use super::*;

    /// With a time limit that no answer reaches.
    fn patient(url: &str) -> Agent {
        Agent::new(url).unwrap().with_patience(Duration::from_secs(60))
    }

    #[tokio::test]
    async fn what_a_node_does_not_have_and_what_it_refuses_are_said() {
        let server = Server::start(|number, _| {
            let missing = json!({"status": 404, "error": "javax.management.InstanceNotFoundException"});
            Reply::page(&match number {
                0 => json!([{"value": 1.5, "status": 200}, missing]).to_string(),
                1 => json!([{"value": 1.5}]).to_string(),
                2 => missing.to_string(),
                _ => json!({"value": null, "status": 200}).to_string(),
            })
        })
        .await;
        let agent = patient(&server.url);
        let two = [("a:type=b", "Count"), ("a:type=absent", "Count")];
        assert_eq!(agent.read(&two).await.unwrap(), [Some(1.5), None]);
        assert!(matches!(agent.read(&two).await, Err(FetchError::Answer(_))), "an answer is missing");
        let failed = agent.call("a:type=b", "flush", json!(["lab"])).await.unwrap_err();
        assert!(failed.to_string().contains("InstanceNotFoundException"), "{failed}");
        agent.call("a:type=b", "flush", json!(["lab"])).await.unwrap();
    }

    #[tokio::test]
    async fn counts_that_grow_are_marks_and_a_node_that_is_silent_for_a_while_loses_none() {
        let server = Server::start(|number, _| {
            if number == 1 {
                return Reply::Status(503);
            }
            let count = 5 + number;
            let of_collectors = |attribute: &str, value: u64| {
                json!({"value": {
                    "java.lang:name=G1 Young Generation,type=GarbageCollector": {attribute: value},
                    "java.lang:name=G1 Old Generation,type=GarbageCollector": {attribute: 0},
                }, "status": 200})
            };
            let flushes = json!({"value": {"a": {"Count": count}, "b": {"Count": count}}, "status": 200});
            let answer = json!([
                of_collectors("CollectionCount", count),
                of_collectors("CollectionTime", count * 100),
                flushes,
                {"value": 7, "status": 200},
            ]);
            Reply::page(&answer.to_string())
        })
        .await;
        let url = server.url.trim_end_matches("/metrics");
        let mut jolokia = Jolokia { agent: patient(url), last: Counts::default() };
        assert!(jolokia.read().await.is_empty(), "the first look only learns");
        assert!(jolokia.read().await.is_empty());
        assert_eq!(jolokia.read().await, ["GC × 2: 200 ms", "flush × 4"]);
    }

    #[test]
    fn an_answer_that_makes_no_sense_has_no_counts() {
        assert_eq!(sum(Some(&serde_json::json!({"a": 1, "b": {"Count": "x"}})), "Count"), None);
        assert_eq!(sum(Some(&serde_json::json!([1])), "Count"), None);
        assert_eq!(sum(None, "Count"), None);
    }
}
