//! Flushes, compactions and pauses of a Cassandra node by its MBeans, which Jolokia shows over HTTP.

use serde_json::Value;

use crate::monitor::{Endpoint, MetricsSource, MonitorError};

/// What is read, and what a mark says of it. Each is a count.
const PAUSES: &str = "java.lang:type=GarbageCollector,name=*/CollectionCount,CollectionTime";
const FLUSHES: &str = "org.apache.cassandra.metrics:type=Table,name=MemtableSwitchCount,*/Count";
const COMPACTIONS: &str = "org.apache.cassandra.metrics:type=Compaction,name=TotalCompactionsCompleted/Count";

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
    endpoints: [Endpoint; 3],
    last: Counts,
}

impl Jolokia {
    /// A node whose Jolokia answers at this address, such as `http://127.0.0.1:8778/jolokia`.
    ///
    /// # Errors
    /// The address is malformed.
    pub fn new(url: &str) -> Result<Self, MonitorError> {
        let endpoint = |what: &str| {
            let url = format!("{}/read/{what}", url.trim_end_matches('/'));
            Endpoint::new(&MetricsSource { url, token: None, prefixes: Vec::new() })
        };
        Ok(Self { endpoints: [endpoint(PAUSES)?, endpoint(FLUSHES)?, endpoint(COMPACTIONS)?], last: Counts::default() })
    }

    /// The marks since the last call. A node that does not answer has none.
    pub async fn read(&mut self) -> Vec<String> {
        let mut values = [const { None }; 3];
        // One after the other: Jolokia's agent answers one request at a time.
        for (value, endpoint) in values.iter_mut().zip(&self.endpoints) {
            let answer = endpoint.fetch().await.ok().and_then(|page| serde_json::from_str::<Value>(&page).ok());
            *value = answer.and_then(|mut answer| Some(answer.get_mut("value")?.take()));
        }
        let [pauses, flushes, compactions] = values;
        let now = Counts {
            pauses: sum(pauses.as_ref(), "CollectionCount"),
            pauses_ms: sum(pauses.as_ref(), "CollectionTime"),
            flushes: sum(flushes.as_ref(), "Count"),
            compactions: sum(compactions.as_ref(), "Count"),
        };
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

    #[tokio::test]
    async fn counts_that_grow_are_marks_and_a_node_that_is_silent_for_a_while_loses_none() {
        let server = Server::start(|number, _| {
            let poll = number / 3;
            if poll == 1 {
                return Reply::Status(503);
            }
            let count = 5 + poll;
            Reply::page(&match number % 3 {
                0 => format!(
                    "{{\"value\":{{\"java.lang:name=G1 Young Generation,type=GarbageCollector\":\
                     {{\"CollectionCount\":{count},\"CollectionTime\":{}}},\
                     \"java.lang:name=G1 Old Generation,type=GarbageCollector\":\
                     {{\"CollectionCount\":0,\"CollectionTime\":0}}}},\"status\":200}}",
                    count * 100
                ),
                1 => {
                    format!("{{\"value\":{{\"a\":{{\"Count\":{count}}},\"b\":{{\"Count\":{count}}}}},\"status\":200}}")
                }
                _ => "{\"value\":7,\"status\":200}".to_owned(),
            })
        })
        .await;
        let mut jolokia = Jolokia::new(server.url.trim_end_matches("/metrics")).unwrap();
        for endpoint in &mut jolokia.endpoints {
            endpoint.set_patience(std::time::Duration::from_secs(60));
        }
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
