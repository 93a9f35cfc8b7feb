//! The files that are made of the reference: the tables of `docs/configuration.md`, and the
//! configuration of the service. `cargo xtask configuration` writes them.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use super::reference::sections;
use super::{Setting, load, sample};

/// If this variable is set, the files are written, and otherwise compared.
const WRITE: &str = "PENATES_WRITE_CONFIGURATION";

/// The first lines of the configuration of the service.
const SERVICE: &str = "\
# The configuration of the service `penates`. After a change, as root:
#   runuser -u penates -- penates config --check --config /etc/penates/penates.toml --store /var/lib/penates/data
#   systemctl reload penates
";

/// The settings of version 0.1.0. The meaning of each other one ends with the version since which
/// it exists. Until 0.1.0 is released, a new setting is one of these.
const OF_0_1_0: &str = "\
store.path store.grace store.plan_life store.clock_skew_max store.call_timeout store.frame_level
store.sweep_interval store.cache store.memtable store.journals store.block store.merge_files
store.workers
history.resources history.volumes history.trees
cassandra.user cassandra.password cassandra.password_file cassandra.tls_ca cassandra.datacenter
cassandra.description_read cassandra.description_write cassandra.content_read
cassandra.content_write cassandra.record_read cassandra.record_write cassandra.audit_read
cassandra.audit_write cassandra.serial cassandra.speculative_after cassandra.requests_max
cassandra.connect_timeout
listen.http listen.http_mode listen.http_proxy_protocol listen.tls listen.tls_proxy_protocol
listen.redirect listen.admin listen.tls_cert listen.tls_key
http.hosts http.cors_origins http.trusted_proxies http.proxy_fields http.base_path http.hsts
auth.read auth.write auth.read_open_anywhere auth.write_open_anywhere auth.copy
data.prefix data.max_volumes data.max_pages data.max_pages_per_volume data.ids_max
data.post_selection data.on_damage data.form_max data.import_max data.selections_max
data.selection_life data.selection_life_max data.read_ahead data.bulk_requests_max
ldp.base ldp.origin ldp.default_model ldp.require_condition ldp.deleted_versions ldp.delete_versions
ldp.receive_versions ldp.rdf_max ldp.triples_max ldp.update_memory ldp.binary_max
ldp.transaction_timeout ldp.transaction_operations_max ldp.transaction_bytes_max
ldp.transactions_max ldp.transactions_per_client ldp.external
feed.keep feed.consumers_max feed.actors feed.webhooks feed.webhooks_networks feed.bridges
feed.bridges_networks
records.listen records.tls records.proxy_protocol records.mode records.durability records.warm
records.warm_max records.deadline records.deadline_max records.silence_max records.request_max
search.index search.rows_max search.time_max search.results_max
audit.max_lag audit.changes audit.resource_reads audit.keep
fixity.every fixity.rate
log.format log.level
telemetry.otlp telemetry.every telemetry.sample_one_of telemetry.service
limits.connections limits.http2_streams limits.header_time limits.body_pause limits.body_rate
limits.request_rate limits.request_burst limits.command_rate limits.command_burst
limits.requests_at_once limits.bytes_per_day limits.memory limits.stall limits.drain
limits.shutdown_time
";

/// What the service sets.
const OF_SERVICE: [(&str, &str); 3] =
    [("listen.http", "127.0.0.1:8080"), ("listen.tls", "off"), ("log.format", "json")];

/// The document with the tables of all sections. Each is below the heading of its section.
fn with_tables(document: &str) -> String {
    let sections = sections();
    let (mut text, mut written) = (String::new(), Vec::new());
    let mut heading = "";
    let mut lines = document.lines().peekable();
    while let Some(line) = lines.next() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        match sections.iter().find(|section| section.name == heading) {
            Some(section) if line.starts_with("| setting |") => {
                text.push_str(&section.table());
                written.push(heading);
                while lines.next_if(|line| line.starts_with('|')).is_some() {}
            }
            _ => text.extend([line, "\n"]),
        }
    }
    for section in sections {
        assert!(written.contains(&section.name), "there is no table below the heading `## {}`", section.name);
    }
    text
}

/// The sample with what the service sets.
fn service() -> String {
    let set =
        OF_SERVICE.map(|(key, value)| Setting { key: key.to_owned(), value: value.into(), origin: load::Origin::Flag });
    format!("{SERVICE}#\n{}", sample(&set))
}

#[test]
fn a_setting_that_0_1_0_does_not_have_says_since_when_there_is_one() {
    let of_first: Vec<&str> = OF_0_1_0.split_whitespace().collect();
    let sections = sections();
    let all = sections.iter().flat_map(|section| section.settings.iter().map(move |setting| (section.name, setting)));
    let all: Vec<(String, &str)> =
        all.map(|(section, known)| (format!("{section}.{}", known.name), known.meaning.as_str())).collect();
    let is_version = |text: &str| text.split('.').filter(|number| number.parse::<u32>().is_ok()).count() == 3;
    for (key, meaning) in &all {
        let since = meaning.rsplit_once(" Since ").and_then(|(_, version)| version.strip_suffix('.'));
        let is_of_first = of_first.contains(&key.as_str());
        assert_eq!(since.is_some_and(is_version), !is_of_first, "{key}: {meaning}");
    }
    for name in of_first {
        assert!(all.iter().any(|(key, _)| key == name), "there is no setting {name} any more");
    }
}

#[test]
fn the_documents_are_made_of_the_code() {
    let file = |path: &str| -> PathBuf { Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path) };
    let (reference, configuration) = (file("docs/configuration.md"), file("packaging/penates.toml"));
    let documents =
        [(with_tables(&std::fs::read_to_string(&reference).unwrap()), reference), (service(), configuration)];
    for (text, path) in documents {
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(path, text).unwrap();
            continue;
        }
        let found = std::fs::read_to_string(&path).unwrap();
        let differing = text.lines().zip(found.lines()).find(|(wanted, found)| wanted != found);
        let is_same = text == found;
        assert!(is_same, "`cargo xtask configuration` writes {}: {differing:?}", path.display());
    }
}
