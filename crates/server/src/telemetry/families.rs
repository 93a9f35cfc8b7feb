//! The families of metrics: one table, so that each is registered at the start, with its text.
//! `docs/metrics.md` explains them; a test compares.

use door_http::Reason;
use door_records::METRICS as RECORDS;
use metrics::{Label, Unit};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use Kind::{Counter, Gauge, Histogram};
use Series::{Each, Kinds, One, Scraped};

/// Seconds until the head of a response. The name is OpenTelemetry's, in Prometheus's notation.
pub(super) const DURATION: &str = "http_server_request_duration_seconds";
pub(super) const ACTIVE: &str = "http_server_active_requests";
pub(super) const OPEN: &str = "http_server_open_connections";
pub(super) const SENT: &str = "http_server_response_body_bytes_total";
pub(super) const BROKEN: &str = "http_server_responses_broken_total";
pub(super) const PROBLEMS: &str = "penates_problems_total";

pub(super) const BUILD: &str = "penates_build_info";
pub(super) const READY: &str = "penates_ready";
pub(super) const DROPPED_LINES: &str = "penates_log_lines_dropped_total";
pub(crate) const OTLP_FAILED: &str = "penates_otlp_failed_total";
pub(super) const CERTIFICATE_ENDS: &str = "penates_tls_certificate_not_after_timestamp_seconds";
pub(super) const MEMORY: &str = "penates_memory_taken_bytes";
pub(super) const MEMORY_LIMIT: &str = "penates_memory_limit_bytes";
pub(super) const BULK: &str = "penates_bulk_requests_active";
pub(super) const TURNS_TAKEN: &str = "penates_bulk_turns_taken";
pub(super) const TURNS_WAITING: &str = "penates_bulk_turns_waiting";

pub(super) const ALLOCATED: &str = "penates_allocator_allocated_bytes";
pub(super) const ACTIVE_PAGES: &str = "penates_allocator_active_bytes";
pub(super) const RESIDENT: &str = "penates_allocator_resident_bytes";
pub(super) const MAPPED: &str = "penates_allocator_mapped_bytes";

pub(super) const AUDIT_LAG: &str = "penates_audit_lag_seconds";
pub(crate) const AUDIT_OLDEST: &str = "penates_audit_oldest_seconds";
pub(super) const AUDIT_WAITING: &str = "penates_audit_waiting_bytes";
pub(super) const AUDIT_FAILURES: &str = "penates_audit_failures_total";
pub(super) const DAMAGE: &str = "penates_damage_found_total";

pub(super) const TRANSACTIONS_OPEN: &str = "penates_transactions_open";
pub(super) const TRANSACTIONS: &str = "penates_transactions_total";
pub(super) const TRANSACTION_CONFLICTS: &str = "penates_transaction_conflicts_total";

/// When a task of the background last succeeded.
pub(crate) const TASK_SUCCESS: &str = "penates_background_last_success_timestamp_seconds";
/// How often it failed.
pub(crate) const TASK_FAILURES: &str = "penates_background_failures_total";
pub(super) const FAILED_RECORDS: &str = "penates_background_failed_records_total";
pub(super) const DUE: &str = "penates_background_due_records";
pub(super) const OLDEST_DUE: &str = "penates_background_oldest_due_seconds";

pub(super) const REFUSING: &str = "penates_store_refusing_writes";
pub(super) const FREE: &str = "penates_store_free_bytes";
pub(super) const UNKNOWN: &str = "penates_store_unknown_contents";
pub(super) const REPLICATION_LAG: &str = "penates_store_replication_lag_seconds";
pub(super) const RECLAIM_LAG: &str = "penates_records_reclaim_lag_seconds";
pub(super) const EXPIRING: &str = "penates_records_expiring";
pub(crate) const ATTRIBUTES_RECLAIMED: &str = "penates_records_attributes_reclaimed_bytes_total";

pub(crate) const FIXITY_ERRORS: &str = "penates_fixity_errors_total";
pub(super) const FIXITY_OLDEST: &str = "penates_fixity_oldest_check_seconds";
pub(super) const FIXITY_OBJECTS: &str = "penates_fixity_objects_total";
pub(super) const FIXITY_BYTES: &str = "penates_fixity_bytes_total";
pub(super) const FIXITY_DAMAGED: &str = "penates_fixity_damaged_total";
pub(super) const FIXITY_FAILED: &str = "penates_fixity_failed_total";

const WEBHOOK_LAG: &str = "penates_webhook_lag_seconds";
const WEBHOOK_PARKED: &str = "penates_webhook_parked";
const WEBHOOK_MESSAGES: &str = "penates_webhook_messages_total";

const BRIDGE_LAG: &str = "penates_bridge_lag_seconds";
const BRIDGE_PARKED: &str = "penates_bridge_parked";
const BRIDGE_MESSAGES: &str = "penates_bridge_messages_total";

pub(crate) const SEARCH_LAG: &str = "penates_search_lag_seconds";
pub(crate) const SEARCH_CHANGES: &str = "penates_search_changes_total";
pub(crate) const SEARCH_FAILURES: &str = "penates_search_failures_total";
pub(crate) const SEARCH_WRITING: &str = "penates_search_writing";
pub(crate) const SEARCH_COMPLETE: &str = "penates_search_complete";
pub(crate) const SEARCH_REBUILDING: &str = "penates_search_rebuilding";
pub(crate) const SEARCH_RESOURCES: &str = "penates_search_resources";

/// The tasks of the background that succeed or fail as a whole.
pub(crate) const TASKS: [&str; 4] = ["deletions", "reclaim", "sweep", "tokens"];

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The series that a family has from the start.
enum Series {
    /// One without labels.
    One,
    /// One for each combination of these values.
    Each(&'static [(&'static str, &'static [&'static str])]),
    /// One for each kind of problem.
    Kinds,
    /// Those that each scrape sets, or the part of the server that they measure.
    Scraped,
}

struct Family {
    name: &'static str,
    kind: Kind,
    series: Series,
    help: &'static str,
}

const fn family(name: &'static str, kind: Kind, series: Series, help: &'static str) -> Family {
    Family { name, kind, series, help }
}

const KINDS: (&str, &[&str]) = ("kind", &["read", "write"]);
const OUTCOMES: (&str, &[&str]) =
    ("outcome", &["answered", "refused", "limited", "deadline", "overloaded", "unknown", "damaged"]);
const OBJECTS: (&str, &[&str]) = ("kind", &["volume", "resource", "record"]);

const ENDS: (&str, &[&str]) = ("outcome", &["committed", "rolled_back", "expired"]);

const SIGNALS: (&str, &[&str]) = ("signal", &["metrics", "spans"]);

/// The scrape itself is a request.
const SCRAPE: [(&str, &[&str]); 3] =
    [("http_request_method", &["GET"]), ("http_route", &["/metrics"]), ("http_response_status_code", &["200"])];

const FAMILIES: &[Family] = &[
    family(DURATION, Histogram, Each(&SCRAPE), "Seconds until the head of a response"),
    family(ACTIVE, Gauge, One, "Requests whose response has not ended"),
    family(OPEN, Gauge, One, "Open connections"),
    family(SENT, Counter, One, "Bytes of response bodies"),
    family(BROKEN, Counter, One, "Responses that ended early"),
    family(PROBLEMS, Counter, Kinds, "Responses that refuse a request, by the kind of the problem"),
    family(BUILD, Gauge, Scraped, "Always 1; the label is the version of the program"),
    family(READY, Gauge, Scraped, "1 while /readyz answers 200"),
    family(DROPPED_LINES, Counter, One, "Lines of the log that were dropped: not read, or not written"),
    family(OTLP_FAILED, Counter, Each(&[SIGNALS]), "Messages that the collector did not take, by signal"),
    family(CERTIFICATE_ENDS, Gauge, Scraped, "When the server's certificate of TLS expires, in seconds since 1970"),
    family(MEMORY, Gauge, Scraped, "Memory of clients' bodies, lists, plans, graphs and updates"),
    family(MEMORY_LIMIT, Gauge, Scraped, "The most that this memory may be (limits.memory)"),
    family(BULK, Gauge, Scraped, "Bulk requests that are streaming"),
    family(TURNS_TAKEN, Gauge, Scraped, "Steps of bulk requests at work"),
    family(TURNS_WAITING, Gauge, Scraped, "Steps of bulk requests that wait for their turn"),
    family(ALLOCATED, Gauge, Scraped, "Bytes that the program has allocated"),
    family(ACTIVE_PAGES, Gauge, Scraped, "Bytes of pages with allocations"),
    family(RESIDENT, Gauge, Scraped, "Bytes of memory that the allocator holds"),
    family(MAPPED, Gauge, Scraped, "Bytes of addresses that the allocator has mapped"),
    family(AUDIT_LAG, Gauge, Scraped, "Age of the oldest unacknowledged audit record"),
    family(AUDIT_OLDEST, Gauge, One, "Age of the oldest hour of the audit, when old records were last deleted"),
    family(AUDIT_WAITING, Gauge, Scraped, "Bytes of unacknowledged audit records"),
    family(AUDIT_FAILURES, Counter, One, "Writes of audit records that failed or were not acknowledged"),
    family(DAMAGE, Counter, One, "Damage of volumes, resources and records that this server has found"),
    family(TRANSACTIONS_OPEN, Gauge, One, "Open transactions, as of the last pass, and those begun here since"),
    family(TRANSACTIONS, Counter, Each(&[ENDS]), "Transactions that this server ended"),
    family(TRANSACTION_CONFLICTS, Counter, One, "Requests and commits that were refused because of transactions"),
    family(TASK_SUCCESS, Gauge, Scraped, "When a task last succeeded, or the server started, in seconds since 1970"),
    family(TASK_FAILURES, Counter, Each(&[("task", &TASKS)]), "How often a task failed; it is tried again"),
    family(FAILED_RECORDS, Counter, Scraped, "Records that a background pass could not process, counted each time"),
    family(DUE, Gauge, Scraped, "Records of work that the last pass over a queue found"),
    family(OLDEST_DUE, Gauge, Scraped, "For how long the oldest of them was due, within ten minutes"),
    family(REFUSING, Gauge, Scraped, "1 while a lane of the store refuses writes"),
    family(FREE, Gauge, Scraped, "Free space on the store's disk"),
    family(UNKNOWN, Gauge, Scraped, "Files of contents that the database does not know, kept for a grace"),
    family(REPLICATION_LAG, Gauge, Scraped, "Greatest age of what is visible here of another data center"),
    family(RECLAIM_LAG, Gauge, Scraped, "How long ago the records had expired that the last sweep found, at most"),
    family(EXPIRING, Gauge, Scraped, "Records that expire in this hour of the clock (0) and in each after it"),
    family(ATTRIBUTES_RECLAIMED, Counter, One, "Bytes of expired attributes that a walk over all records deleted"),
    family(RECORDS.commands, Counter, Each(&[KINDS, OUTCOMES]), "Commands on records, by kind and outcome"),
    family(RECORDS.duration, Histogram, Each(&[KINDS]), "Seconds of commands on records"),
    family(FIXITY_ERRORS, Counter, One, "How often a fixity pass was interrupted by a failure"),
    family(FIXITY_OLDEST, Gauge, Scraped, "Everything stored so long ago was checked since; infinite before that"),
    family(FIXITY_OBJECTS, Counter, Each(&[OBJECTS]), "What this server's fixity auditor has read"),
    family(FIXITY_BYTES, Counter, One, "Bytes that this server's fixity auditor has read"),
    family(FIXITY_DAMAGED, Counter, One, "Damaged objects that this server's fixity auditor has found"),
    family(FIXITY_FAILED, Counter, One, "Objects that this server's fixity auditor could not read"),
    family(WEBHOOK_LAG, Gauge, Scraped, "Age of the oldest event that a webhook has not accepted; 0 if there is none"),
    family(WEBHOOK_PARKED, Gauge, Scraped, "1 while nothing is sent to a webhook until an operator resumes it"),
    family(BRIDGE_LAG, Gauge, Scraped, "Age of the oldest event that a broker has not confirmed; 0 if there is none"),
    family(BRIDGE_PARKED, Gauge, Scraped, "1 while nothing is sent over a bridge until an operator resumes it"),
    family(SEARCH_LAG, Gauge, One, "Age of the oldest change that is not in the search index"),
    family(SEARCH_CHANGES, Counter, One, "Changes that this server has written to the search index"),
    family(SEARCH_FAILURES, Counter, One, "How often writing the search index failed; it is tried again"),
    family(SEARCH_WRITING, Gauge, One, "1 while this server keeps the search index up to date"),
    family(SEARCH_COMPLETE, Gauge, One, "1 while this server writes the search index and nothing is missing in it"),
    family(SEARCH_REBUILDING, Gauge, One, "1 while this server makes the search index anew"),
    family(SEARCH_RESOURCES, Gauge, One, "About how many resources are in the search index that this server writes"),
    family(WEBHOOK_MESSAGES, Counter, Scraped, "Messages that this server has sent to a webhook, by outcome"),
    family(
        BRIDGE_MESSAGES,
        Counter,
        Scraped,
        "Events that a broker has confirmed, and attempts that failed, by outcome",
    ),
];

/// The metrics of receivers of one kind.
#[derive(Debug)]
pub(crate) struct ReceiverMetrics {
    /// The label that has the name of a receiver.
    pub(crate) label: &'static str,
    /// The age of the oldest event that waits.
    pub(crate) lag: &'static str,
    /// Whether it is parked.
    pub(crate) parked: &'static str,
    /// What was sent.
    pub(crate) messages: &'static str,
}

pub(crate) const OF_WEBHOOKS: ReceiverMetrics =
    ReceiverMetrics { label: "webhook", lag: WEBHOOK_LAG, parked: WEBHOOK_PARKED, messages: WEBHOOK_MESSAGES };

pub(crate) const OF_BRIDGES: ReceiverMetrics =
    ReceiverMetrics { label: "bridge", lag: BRIDGE_LAG, parked: BRIDGE_PARKED, messages: BRIDGE_MESSAGES };

/// Registers all families, so that the first scrape has them. Counters are 0.
pub(super) fn register() {
    for Family { name, kind, series, help } in FAMILIES {
        let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        match kind {
            Counter => describe_counter!(*name, *help),
            Gauge => describe_gauge!(*name, *help),
            Histogram => describe_histogram!(*name, unit, *help),
        }
        for labels in series.labels() {
            match kind {
                Counter => counter!(*name, labels).absolute(0),
                Gauge => gauge!(*name, labels).increment(0.0),
                Histogram => drop(histogram!(*name, labels)),
            }
        }
    }
}

impl Series {
    /// The labels of each series.
    fn labels(&self) -> Vec<Vec<Label>> {
        match self {
            One => vec![Vec::new()],
            Each(labels) => labels.iter().fold(vec![Vec::new()], |series, (name, values)| {
                let with = |labels: &Vec<Label>, value| [labels.as_slice(), &[Label::new(*name, value)]].concat();
                series.iter().flat_map(|labels| values.iter().map(move |value| with(labels, *value))).collect()
            }),
            Kinds => Reason::ALL.iter().map(|reason| vec![Label::new("kind", reason.kind)]).collect(),
            Scraped => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_rules_watch_all_that_the_guide_says_to_alert_on() {
        let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let read = |path: &str| std::fs::read_to_string(format!("{top}/{path}")).unwrap();
        let rules = read("packaging/prometheus/penates.rules.yml");
        let pages = std::fs::read_dir(format!("{top}/docs/operations")).unwrap();
        let pages = pages.map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap() + " ");
        let guide = pages.collect::<String>().replace('\n', " ");
        let sentences = guide.split("Alert on ").skip(1).filter_map(|rest| rest.split(". ").next());
        let names: Vec<_> =
            sentences.flat_map(|sentence| sentence.split('`')).filter(|word| word.starts_with("penates_")).collect();
        assert!(names.contains(&FIXITY_DAMAGED), "{names:?}");
        for name in names {
            assert!(rules.contains(name), "{name}");
        }
    }

    #[test]
    fn a_family_has_a_series_for_each_combination_of_its_labels() {
        assert_eq!(Each(&[KINDS, OUTCOMES]).labels().len(), 14);
        assert_eq!(One.labels(), [Vec::new()]);
        assert!(Scraped.labels().is_empty());
    }
}
