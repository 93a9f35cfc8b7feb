//! Figures of nodes of Cassandra, which the agent of Jolokia in each of them shows.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::{MonitorError, rate_of};
use crate::beside::jolokia::{
    Agent, Attribute, COMPACTED_BYTES, DROPPED_MESSAGES, GC_COUNT, GC_MS, LIVE_BYTES, MEMTABLE_SWITCHES,
    PENDING_COMPACTIONS, READ_TIMEOUTS, WRITE_TIMEOUTS,
};

/// How long an agent may take to answer before the load: its first answer is its slowest.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(5);

/// A node of Cassandra with an agent of Jolokia.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSource {
    /// The name before its columns.
    pub name: String,
    /// The address of the agent, such as `http://127.0.0.1:8778/jolokia`.
    pub url: String,
}

/// What becomes of the sum of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It stays as it is.
    State,
    /// It only grows: how much per second.
    Rate,
    /// Milliseconds that only grow: their share of the time.
    Share,
}

/// A column of a node.
#[derive(Clone, Copy, Debug)]
struct Figure {
    name: &'static str,
    kind: Kind,
    of: &'static [Attribute<'static>],
}

/// Requests that timed out: the latter three are ranges, and reads and writes with a condition.
const TIMEOUTS: [Attribute<'static>; 5] = [
    READ_TIMEOUTS,
    WRITE_TIMEOUTS,
    ("org.apache.cassandra.metrics:type=ClientRequest,scope=RangeSlice,name=Timeouts", "Count"),
    ("org.apache.cassandra.metrics:type=ClientRequest,scope=CASRead,name=Timeouts", "Count"),
    ("org.apache.cassandra.metrics:type=ClientRequest,scope=CASWrite,name=Timeouts", "Count"),
];

/// The columns of each node, behind its name.
const FIGURES: [Figure; 8] = [
    figure("pending_compactions", Kind::State, &[PENDING_COMPACTIONS]),
    figure("compacted_bytes_per_s", Kind::Rate, &[COMPACTED_BYTES]),
    figure("memtable_switches_per_s", Kind::Rate, &[MEMTABLE_SWITCHES]),
    figure("gc_per_s", Kind::Rate, &[GC_COUNT]),
    figure("gc_share", Kind::Share, &[GC_MS]),
    figure("dropped_messages_per_s", Kind::Rate, &[DROPPED_MESSAGES]),
    figure("timeouts_per_s", Kind::Rate, &TIMEOUTS),
    figure("live_bytes", Kind::State, &[LIVE_BYTES]),
];

const fn figure(name: &'static str, kind: Kind, of: &'static [Attribute<'static>]) -> Figure {
    Figure { name, kind, of }
}

impl Figure {
    /// Its value from one look to the next. What goes back has none: the node was started again.
    fn value(&self, before: Option<(Instant, f64)>, (at, now): (Instant, f64)) -> Option<f64> {
        let rate = || {
            let (before_at, before) = before?;
            rate_of(now - before, at.saturating_duration_since(before_at).as_secs_f64())
        };
        match self.kind {
            Kind::State => Some(now),
            Kind::Rate => rate(),
            Kind::Share => rate().map(|ms_per_s| ms_per_s / 1e3),
        }
    }
}

/// The columns of nodes, in the order of [`Nodes::values`].
pub fn columns(sources: &[NodeSource]) -> impl Iterator<Item = String> {
    sources.iter().flat_map(|source| FIGURES.map(|figure| format!("{}.{}", source.name, figure.name)))
}

/// The nodes whose agents answer, and why each of the others has no columns.
pub async fn answering(sources: Vec<NodeSource>) -> (Vec<NodeSource>, Vec<String>) {
    let asked = sources.into_iter().map(|source| async move {
        match ask(&source.url).await {
            Ok(()) => Ok(source),
            Err(why) => Err(format!("{}: {why} ({})", source.name, source.url)),
        }
    });
    let (mut known, mut silent) = (Vec::new(), Vec::new());
    for asked in join_all(asked).await {
        match asked {
            Ok(source) => known.push(source),
            Err(why) => silent.push(why),
        }
    }
    (known, silent)
}

/// Whether an agent answers for a node of Cassandra; if not, why.
async fn ask(url: &str) -> Result<(), String> {
    let agent = Agent::new(url).map_err(|error| error.to_string())?.with_patience(FIRST_ANSWER_MAX);
    let read = agent.read(&[PENDING_COMPACTIONS]).await.map_err(|error| error.to_string())?;
    match read.first().copied().flatten() {
        Some(_) => Ok(()),
        None => Err("it has no figures of Cassandra".to_owned()),
    }
}

/// Nodes that are sampled.
#[derive(Debug)]
pub struct Nodes(Vec<Node>);

#[derive(Debug)]
struct Node {
    agent: Agent,
    /// When each figure was read last, and what it was.
    last: [Option<(Instant, f64)>; FIGURES.len()],
}

impl Nodes {
    /// Nodes of which nothing is known yet.
    ///
    /// # Errors
    /// An address is malformed.
    pub fn new(sources: &[NodeSource]) -> Result<Self, MonitorError> {
        let node = |source: &NodeSource| {
            Ok::<_, MonitorError>(Node { agent: Agent::new(&source.url)?, last: [None; FIGURES.len()] })
        };
        Ok(Self(sources.iter().map(node).collect::<Result<_, _>>()?))
    }

    /// What they say now, a value per column. All are asked at once.
    pub async fn values(&mut self) -> Vec<Option<f64>> {
        join_all(self.0.iter_mut().map(Node::values)).await.concat()
    }
}

impl Node {
    /// Rates are since it said something last.
    async fn values(&mut self) -> Vec<Option<f64>> {
        let attributes: Vec<Attribute<'_>> = FIGURES.iter().flat_map(|figure| figure.of).copied().collect();
        // A node that does not answer in time has no values.
        let mut read = self.agent.read(&attributes).await.unwrap_or_default().into_iter();
        let at = Instant::now();
        let value = |(figure, last): (&Figure, &mut Option<(Instant, f64)>)| {
            let known: Vec<f64> = read.by_ref().take(figure.of.len()).flatten().collect();
            if known.is_empty() {
                return None;
            }
            let now = (at, known.iter().sum());
            figure.value(last.replace(now), now)
        };
        FIGURES.iter().zip(&mut self.last).map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::test_server::{Reply, Server};
    use super::*;

    fn source(name: &str, server: &Server) -> NodeSource {
        NodeSource { name: name.to_owned(), url: server.url.clone() }
    }

    /// What an agent says if each of its attributes has this value.
    fn answer(value: u64) -> Reply {
        let of_pattern = |attribute: &str| json!({ "value": { "a": { attribute: value } }, "status": 200 });
        let one = |(mbean, attribute): &Attribute<'static>| match mbean.contains('*') {
            true => of_pattern(attribute),
            false => json!({ "value": value, "status": 200 }),
        };
        let all: Vec<Value> = FIGURES.iter().flat_map(|figure| figure.of).map(one).collect();
        Reply::page(&Value::from(all).to_string())
    }

    #[tokio::test]
    async fn states_stay_and_what_grows_is_a_rate_also_over_a_time_without_an_answer() {
        let server = Server::start(|number, _| match number {
            0 => answer(1_000),
            1 => Reply::Status(503),
            // The node was started again.
            3 => answer(5),
            _ => answer(3_000),
        })
        .await;
        let sources = [source("node1", &server)];
        let agent = Agent::new(&server.url).map(|agent| agent.with_patience(Duration::from_secs(60)));
        let node = agent.map(|agent| Node { agent, last: [None; FIGURES.len()] });
        let mut nodes = Nodes(node.into_iter().collect());
        let first = nodes.values().await;
        assert_eq!(first, [Some(1_000.0), None, None, None, None, None, None, Some(1_000.0)]);
        assert_eq!(nodes.values().await, [None::<f64>; 8]);
        let later = nodes.values().await;
        let named: std::collections::BTreeMap<_, _> = columns(&sources).zip(later).collect();
        let of = |name: &str| named.get(&format!("node1.{name}")).copied().flatten();
        assert_eq!((of("pending_compactions"), of("live_bytes")), (Some(3_000.0), Some(3_000.0)));
        let per_s = of("gc_per_s");
        assert!(per_s > Some(0.0) && of("gc_share") == per_s.map(|rate| rate / 1e3), "{named:?}");
        // They are the sum of five.
        let times = of("timeouts_per_s").zip(per_s).map(|(timeouts, one)| timeouts / one);
        assert!(times.is_some_and(|times| (times - 5.0).abs() < 1e-9), "{named:?}");
        assert_eq!(nodes.values().await[1..7], [None::<f64>; 6], "a counter that goes back has no rate");
    }

    #[tokio::test]
    async fn a_node_without_an_agent_is_left_out_with_the_reason() {
        let node = Server::start(|_, _| Reply::page("[{\"value\": 3, \"status\": 200}]")).await;
        let other = Server::start(|_, _| Reply::page("[{\"status\": 404}]")).await;
        let gone = Server::start(|_, _| Reply::Never).await;
        let sources = vec![source("node1", &node), source("node2", &other), source("node3", &gone)];
        gone.stop().await;
        let (known, silent) = answering(sources).await;
        assert_eq!(known, [source("node1", &node)]);
        assert_eq!(silent.len(), 2, "{silent:?}");
        assert_eq!(silent[0], format!("node2: it has no figures of Cassandra ({})", other.url));
        assert!(silent[1].starts_with("node3: the request failed: "), "{silent:?}");
    }
}
