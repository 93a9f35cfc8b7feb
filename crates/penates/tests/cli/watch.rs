//! What monitors see: the metrics of servers that have just started, their documentation, the rules
//! in `packaging/`, and the lines of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use regex::Regex;
use serde_json::Value;
use store_cassandra::testing::not_run;

use crate::dashboard;
use crate::documentation::{file, operations};
use crate::harness::*;

/// The heading of `docs/metrics.md` above metrics that only some configurations have.
const CONFIGURED: &str = "Only where it is configured";

/// The heading of what `penates copy --follow` measures.
const FOLLOWER: &str = "A copy that follows";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Name and type of the documented metrics, by heading.
fn documented() -> BTreeMap<String, BTreeMap<String, String>> {
    let mut tables: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut heading = String::new();
    for line in fs::read_to_string(file("docs/metrics.md")).unwrap().lines() {
        if let Some(title) = line.strip_prefix("## ") {
            heading = title.to_owned();
        }
        if let Some((name, rest)) = line.strip_prefix("| `").and_then(|row| row.split_once("` | ")) {
            let kind = rest.split(' ').next().unwrap();
            tables.entry(heading.clone()).or_default().insert(name.to_owned(), kind.to_owned());
        }
    }
    tables
}

/// The families of a scrape with their types. Fails if one breaks a convention of Prometheus.
fn families(scrape: &str) -> BTreeMap<String, String> {
    let (mut texts, mut families, mut series) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    for line in scrape.lines().filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, help] => assert!(!help.is_empty() && texts.insert(name), "{line}"),
            ["#", "TYPE", name, kind] => {
                assert!(texts.contains(name), "{name} has no text");
                assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} is there twice");
            }
            _ => {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert!(series.insert(name), "{name} is there twice");
                assert!(!value.parse::<f64>().unwrap().is_nan(), "{line}");
                let name = name.split('{').next().unwrap();
                let family = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
                let is_known =
                    families.contains_key(name) || family.is_some_and(|family| families.contains_key(family));
                assert!(is_known, "{line} has no type");
            }
        }
    }
    let words = Regex::new("^[a-z][a-z_]*$").unwrap();
    let units = Regex::new("(_ms|_millis|_milliseconds|_minutes|_percent|_kb|_mb|_kib|_mib)(_|$)").unwrap();
    for (name, kind) in &families {
        assert!(words.is_match(name), "{name}");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        assert!(name.ends_with("_seconds") || kind != "histogram", "{name} is a {kind}");
        assert!(!units.is_match(name), "{name} has no base unit");
    }
    families
}

/// The answer of a command that reads `input`; `None`: there is no such program, which is reported.
pub fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        not_run("checks of metrics and rules: there is no promtool (Debian package prometheus)");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8(said).unwrap()))
}

/// Checks the first scrape of a server against the documentation. `lacks` are headings of metrics
/// that it does not have.
pub fn assert_documented(served: &Served, lacks: &[&str]) {
    let scrape = Command::new("curl").args(["-sf", &format!("{}/metrics", served.url)]).output().unwrap();
    let scrape = String::from_utf8(scrape.stdout).unwrap();
    let has = families(&scrape);
    let tables = documented();
    let all: BTreeMap<_, _> = tables.values().flatten().collect();
    for (name, kind) in &has {
        assert_eq!(all.get(name), Some(&kind), "{name} is a {kind}, and is not documented as one");
    }
    let others = [lacks, &[CONFIGURED, FOLLOWER]].concat();
    let expected = tables.iter().filter(|(heading, _)| !others.contains(&heading.as_str()));
    for name in expected.flat_map(|(_, table)| table.keys()) {
        assert!(has.contains_key(name), "{name} is documented, and is not in the first scrape");
    }
    if let Some((is_sound, said)) = promtool(&["check", "metrics"], &scrape) {
        assert!(is_sound && said.is_empty(), "{said}");
    }
}

/// Checks the file of metrics that `penates copy --follow` writes.
pub fn assert_follower_documented(written: &str) {
    assert_eq!(families(written), documented()[FOLLOWER]);
}

#[test]
fn the_first_scrape_of_a_server_has_every_metric_and_each_is_documented() {
    let store = TestStore::vacant();
    let configuration = store.beside("penates.toml");
    let hook = "[[feed.webhooks]]\nname = \"index\"\nurl = \"https://127.0.0.1:1/\"\n\
                secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n";
    let bridge = "[[feed.bridges]]\nname = \"fedora\"\nurl = \"amqp://127.0.0.1:1\"\n";
    let networks = "webhooks_networks = [\"127.0.0.0/8\"]\nbridges_networks = [\"127.0.0.0/8\"]\n";
    let text_of_it = format!("[ldp]\norigin = \"http://books.test\"\n[feed]\n{networks}{hook}{bridge}");
    fs::write(&configuration, text_of_it).unwrap();
    let listens = ["serve", "--init", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0"];
    let served = Served::start(store.command(&[&listens[..], &["--config", text(&configuration)]].concat()));
    assert_documented(&served, &["Cassandra"]);
    let scrape = Command::new("curl").args(["-sf", &format!("{}/metrics", served.url)]).output().unwrap();
    let has = families(&String::from_utf8(scrape.stdout).unwrap());
    for name in documented()[CONFIGURED].keys().filter(|name| !name.contains("replication")) {
        assert!(has.contains_key(name), "{name}");
    }
}

/// The names of metrics in expressions.
pub fn named(expressions: &str) -> BTreeSet<String> {
    let names = Regex::new("(penates|http_server|process)_[a-z_]+").unwrap();
    names.find_iter(expressions).map(|name| name.as_str().to_owned()).collect()
}

#[test]
fn rules_dashboard_and_guide_name_metrics_that_exist() {
    let tables = documented();
    let families: BTreeMap<_, _> = tables.values().flatten().collect();
    let shown = [dashboard::expressions(), dashboard::queries()].concat();
    assert!(shown.len() > 50, "{} expressions", shown.len());
    let rules = fs::read_to_string(file("packaging/prometheus/penates.rules.yml")).unwrap();
    for name in named(&[shown.join("\n"), rules, operations::text()].concat()) {
        let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
        let is_histogram = |name: &str| families.get(&name.to_owned()).is_some_and(|kind| *kind == "histogram");
        let is_there = families.contains_key(&name) || parts.into_iter().any(is_histogram);
        assert!(is_there, "{name} is no metric of docs/metrics.md");
    }
}

#[test]
fn the_rules_raise_their_alerts_and_no_others() {
    for arguments in [
        ["check", "rules", "penates.rules.yml"],
        ["test", "rules", "penates.rules.test.yml"],
        ["test", "rules", "penates.rules.weeks.test.yml"],
    ] {
        let path = file("packaging/prometheus").join(arguments[2]);
        let Some((is_sound, said)) = promtool(&[arguments[0], arguments[1], text(&path)], "") else { return };
        assert!(is_sound, "{said}");
    }
}

/// A real Prometheus, which ends with the test.
pub struct Prometheus {
    child: Child,
    url: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts it in a folder, with a configuration. It trusts the certificates in `authorities`, if
    /// they are given. Returns `None` if it is not installed.
    pub fn start(folder: &Path, configuration: &str, authorities: Option<&Path>) -> Option<Self> {
        if Command::new("prometheus").arg("--version").output().is_err() {
            not_run("a server is scraped: there is no prometheus (Debian package prometheus)");
            return None;
        }
        fs::write(folder.join("prometheus.yml"), configuration).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = fs::File::create(folder.join("prometheus.log")).unwrap();
        let mut command = Command::new("prometheus");
        command.arg("--config.file=prometheus.yml").arg("--storage.tsdb.path=samples");
        command.arg(format!("--web.listen-address=127.0.0.1:{port}")).current_dir(folder);
        command.envs(authorities.map(|authorities| ("SSL_CERT_FILE", authorities)));
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Some(Self { child, url: format!("http://127.0.0.1:{port}") })
    }

    /// What its API says; null while it does not answer.
    fn ask(&self, path: &str) -> Value {
        let output = Command::new("curl").args(["-sf", &format!("{}/api/v1/{path}", self.url)]).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).map_or(Value::Null, |mut answer| answer["data"].take())
    }

    /// The first value of a query, which is encoded as in an address; `None` while it has none.
    pub fn value(&self, query: &str) -> Option<String> {
        let found = self.ask(&format!("query?query={query}"));
        found["result"][0]["value"][1].as_str().map(str::to_owned)
    }
}

#[test]
fn prometheus_scrapes_a_server_by_a_token_that_may_do_nothing_else() {
    let store = TestStore::with(&[SMALL]);
    let token = store.run(&["token", "create", "prometheus", "--scope", "metrics"]).ends_with(0);
    let served = store.serve(&["--set", "auth.read=token"]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("penates-token"), token.text().trim()).unwrap();
    let rules = file("packaging/prometheus/penates.rules.yml");
    fs::copy(rules, folder.path().join("penates.rules.yml")).unwrap();
    let address = served.url.strip_prefix("http://").unwrap();
    let job = |name: &str, authorization: &str| {
        format!("  - {{ job_name: {name}, {authorization}static_configs: [{{ targets: [\"{address}\"] }}] }}\n")
    };
    let configuration = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [penates.rules.yml]\n\
         scrape_configs:\n{}{}",
        job("penates", "authorization: { credentials_file: penates-token }, "),
        job("without-token", ""),
    );
    let Some(prometheus) = Prometheus::start(folder.path(), &configuration, None) else { return };
    wait_until(|| prometheus.value("penates_ready").as_deref() == Some("1"));
    wait_until(|| prometheus.value("up%7Bjob=%22without-token%22%7D").as_deref() == Some("0"));
    // A scrape may take too long on a busy machine. The next one then succeeds.
    wait_until(|| prometheus.value("up%7Bjob=%22penates%22%7D").as_deref() == Some("1"));
    // Prometheus has the rules, and each was evaluated without an error.
    let rules = || -> Vec<Value> {
        let found = prometheus.ask("rules");
        let groups = found["groups"].as_array().cloned().unwrap_or_default();
        groups.into_iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect()
    };
    wait_until(|| !rules().is_empty() && rules().iter().all(|rule| rule["health"] != "unknown"));
    let (rules, none) = (rules(), Value::from(""));
    assert!(rules.len() >= 10, "{} rules", rules.len());
    let failing = rules.iter().find(|rule| rule["health"] != "ok" || rule.get("lastError").unwrap_or(&none) != &none);
    assert_eq!(failing, None);
    // The token opens nothing else.
    let bearer = format!("Authorization: Bearer {}", token.text().trim());
    let url = format!("{}/volumes/", served.url);
    let refused =
        Command::new("curl").args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", &bearer, &url]).output();
    assert_eq!(refused.unwrap().stdout, b"403");
    served.stop("TERM");
}

/// The fields of the log's line about a request, as the operations guide lists them.
fn documented_fields() -> Vec<String> {
    let guide = fs::read_to_string(file("docs/operations/reference.md")).unwrap();
    let (_, table) = guide.split_once("| field | meaning |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let fields: String = rows.map(|row| row.split('|').nth(1).unwrap()).collect();
    Regex::new("`([a-z_]+)`").unwrap().captures_iter(&fields).map(|field| field[1].to_owned()).collect()
}

#[test]
fn a_line_of_the_log_says_who_asked_which_door_and_what_was_sent() {
    let store = TestStore::with(&[SMALL]);
    let token = store.run(&["token", "create", "reader", "--scope", "read"]).ends_with(0);
    let served = store.serve(&["--set", "log.format=json", "--set", "auth.read=token"]);
    let asks = |path: &str, more: &[&str]| {
        let url = format!("{}{path}", served.url);
        Command::new("curl").args(["-s", "-o", "/dev/null"]).args(more).arg(url).status().unwrap();
    };
    let bearer = format!("Authorization: Bearer {}", token.text().trim());
    let traced = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    asks(&format!("/volumes?volumeIDs={SMALL}"), &["-H", &bearer, "-H", traced]);
    asks("/rest/", &[]);
    asks("/records/a", &["-H", &bearer]);
    asks("/healthz", &[]);
    let (code, log) = served.stop("TERM");
    assert_eq!(code, 0);
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let requests: Vec<_> = lines.filter(|line| line["message"] == "request").collect();
    let mut printed: Vec<_> = requests
        .iter()
        .map(|line| [&line["door"], &line["token"], &line["status"]].map(Value::to_string).join(" "))
        .collect();
    printed.sort();
    assert_eq!(
        printed,
        ["\"data\" \"reader\" 200", "\"records\" \"reader\" 404", "\"repository\" null 401", "\"server\" null 200"]
    );
    for line in &requests {
        assert_eq!(line["client"], "127.0.0.1", "{line}");
        assert!(line["bytes"].is_u64() && line["ended_ms"].is_u64() && line["answered_ms"].is_u64(), "{line}");
        assert!(!line.to_string().contains(token.text().trim()), "{line}");
    }
    let download = requests.iter().find(|line| line["door"] == "data").unwrap();
    assert!(download["bytes"].as_u64().unwrap() > 10_000, "{download}");
    let fields = documented_fields();
    assert!(fields.len() > 10, "{fields:?}");
    for field in fields {
        assert!(!download[&field].is_null(), "{field} is not in {download}");
    }
}

/// What a collector has received.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
}

impl Collector {
    /// Receives on a free port of loopback, on its own thread; returns its address.
    fn start(&self) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let traces = async |State(collector): State<Self>, body: axum::body::Bytes| {
            let message = ExportTraceServiceRequest::decode(body).unwrap();
            let scopes = message.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
            collector.spans.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
        };
        let metrics = async |State(collector): State<Self>, body: axum::body::Bytes| {
            collector.metrics.lock().unwrap().push(ExportMetricsServiceRequest::decode(body).unwrap());
        };
        let routes = Router::new().route("/v1/traces", post(traces)).route("/v1/metrics", post(metrics));
        let routes = routes.with_state(self.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), routes).await })
        });
        address
    }
}

#[test]
fn a_collector_receives_the_span_of_a_request_in_its_clients_trace_and_the_metrics() {
    let collector = Collector::default();
    let store = TestStore::with(&[SMALL]);
    let served = store.serve(&["--set", &format!("telemetry.otlp={}", collector.start())]);
    let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let url = format!("{}/volumes?volumeIDs={SMALL}", served.url);
    for flags in ["01", "00"] {
        let traced = format!("traceparent: 00-{trace}-{parent}-{flags}");
        Command::new("curl").args(["-sf", "-o", "/dev/null", "-H", &traced, &url]).status().unwrap();
    }
    wait_until(|| collector.spans.lock().unwrap().iter().any(|span| hex(&span.parent_span_id) == parent));
    assert_eq!(served.stop("TERM").0, 0);

    let spans = collector.spans.lock().unwrap();
    let of_client: Vec<_> = spans.iter().filter(|span| hex(&span.parent_span_id) == parent).collect();
    let [request] = &of_client[..] else { panic!("the client samples one of two requests: {of_client:?}") };
    assert_eq!((request.name.as_str(), hex(&request.trace_id).as_str()), ("GET /volumes", trace));
    let calls: Vec<_> = spans.iter().filter(|span| span.parent_span_id == request.span_id).collect();
    assert!(calls.iter().any(|call| call.name.starts_with("store.")), "{spans:?}");

    let messages = collector.metrics.lock().unwrap();
    let resource = &messages.last().unwrap().resource_metrics[0];
    let names: BTreeSet<_> = resource.scope_metrics[0].metrics.iter().map(|metric| metric.name.clone()).collect();
    for name in documented()["Requests"].keys() {
        assert!(names.contains(name), "{name}");
    }
    let attributes = &resource.resource.as_ref().unwrap().attributes;
    assert!(attributes.iter().any(|attribute| attribute.key == "service.name"), "{attributes:?}");
}

#[test]
fn a_server_whose_collector_is_away_serves_and_stops() {
    let store = TestStore::vacant();
    let served = store.serve(&["--set", "telemetry.otlp=http://127.0.0.1:1"]);
    let traced = ["-H", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"];
    let answered = Command::new("curl").args(["-sf", "-o", "/dev/null"]).args(traced).arg(&served.url).status();
    assert!(answered.unwrap().success());
    // Metrics are sent, in vain, before it listens. What it says then is not kept here.
    wait_until(|| served.said().contains("spans cannot be sent by OTLP"));
    assert_eq!(served.stop("TERM").0, 0);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
