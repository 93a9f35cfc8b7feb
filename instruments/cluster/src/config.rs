//! A node's configuration files, as Cassandra 5.0 reads them.

use std::mem::discriminant;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::error::{Doing, Result};
use crate::plan::NodePlan;
use crate::spec::{CommitlogSync, Settings};
use crate::{cache, tls};

/// INFO and above into `system.log`, in a few files of bounded size.
const LOGBACK: &str = r#"<configuration>
  <appender name="SYSTEM" class="ch.qos.logback.core.rolling.RollingFileAppender">
    <file>${cassandra.logdir}/system.log</file>
    <rollingPolicy class="ch.qos.logback.core.rolling.FixedWindowRollingPolicy">
      <fileNamePattern>${cassandra.logdir}/system.log.%i</fileNamePattern>
      <maxIndex>3</maxIndex>
    </rollingPolicy>
    <triggeringPolicy class="ch.qos.logback.core.rolling.SizeBasedTriggeringPolicy">
      <maxFileSize>20MB</maxFileSize>
    </triggeringPolicy>
    <encoder>
      <pattern>%d{ISO8601} %-5level [%thread] %logger{20} - %msg%n</pattern>
    </encoder>
  </appender>
  <root level="INFO">
    <appender-ref ref="SYSTEM"/>
  </root>
</configuration>
"#;

/// Creates a node's folders and writes its files, replacing existing ones.
pub(crate) fn write(plan: &NodePlan, settings: &Settings) -> Result<()> {
    let config = plan.config_folder();
    for folder in [config.clone(), plan.log_folder(), plan.folder.join("tmp")] {
        std::fs::create_dir_all(&folder).doing("making the folder", &folder)?;
    }
    let encryption =
        if settings.client_tls { Some(tls::client_encryption_options(&plan.cluster_folder)?) } else { None };
    // JSON is YAML.
    cache::write(&config.join("cassandra.yaml"), &format!("{:#}\n", yaml(plan, settings, encryption)))?;
    let rackdc = format!("dc={}\nrack=rack1\n", plan.datacenter);
    cache::write(&config.join("cassandra-rackdc.properties"), &rackdc)?;
    write_logging(&config)
}

/// Writes what says where a program of Cassandra writes its log: `system.log` in its folder.
pub(crate) fn write_logging(config: &Path) -> Result<()> {
    cache::write(&config.join("logback.xml"), LOGBACK)
}

/// All options that differ from Cassandra's defaults.
fn yaml(plan: &NodePlan, settings: &Settings, client_encryption_options: Option<Value>) -> Value {
    let seeds = plan.seeds.iter().map(|seed| format!("{seed}:{}", plan.ports.storage)).collect::<Vec<_>>().join(",");
    let mut yaml = json!({
        "cluster_name": "penates",
        "num_tokens": 1,
        "initial_token": plan.token.to_string(),
        // Each node knows its token and starts empty or with its own data: there is nothing to
        // fetch from others.
        "auto_bootstrap": false,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "GossipingPropertyFileSnitch",
        "listen_address": plan.address,
        "rpc_address": plan.address,
        "storage_port": plan.ports.storage,
        "native_transport_port": plan.ports.cql,
        "seed_provider": [{
            "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
            "parameters": [{"seeds": seeds}],
        }],
    });
    if let Value::Object(ours) = &mut yaml {
        ours.extend(commitlog(sync(settings)));
        if settings.authentication {
            ours.insert("authenticator".to_owned(), json!("PasswordAuthenticator"));
            ours.insert("authorizer".to_owned(), json!("CassandraAuthorizer"));
        }
        ours.extend(client_encryption_options.map(|options| ("client_encryption_options".to_owned(), options)));
        ours.extend(settings.yaml.clone());
    }
    yaml
}

/// When the commit log is synced: as the given options say, or else as the settings do. A node does
/// not start with the time of another mode.
fn sync(settings: &Settings) -> CommitlogSync {
    let given: Option<CommitlogSync> =
        settings.yaml.get("commitlog_sync").and_then(Value::as_str).and_then(|mode| mode.parse().ok());
    let own = settings.commitlog_sync;
    given.filter(|given| discriminant(given) != discriminant(&own)).unwrap_or(own)
}

fn commitlog(sync: CommitlogSync) -> Map<String, Value> {
    let (mode, time) = match sync {
        CommitlogSync::Periodic { period } => ("periodic", Some(("commitlog_sync_period", period))),
        CommitlogSync::Batch => ("batch", None),
        CommitlogSync::Group { window } => ("group", Some(("commitlog_sync_group_window", window))),
    };
    let mut keys = Map::from_iter([("commitlog_sync".to_owned(), json!(mode))]);
    keys.extend(time.map(|(key, time)| (key.to_owned(), json!(milliseconds(time)))));
    keys
}

fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::spec::{NodeId, Ports};

    fn plan() -> NodePlan {
        let address = Ipv4Addr::new(127, 0, 7, 2);
        let seeds = vec![Ipv4Addr::new(127, 0, 7, 1), Ipv4Addr::new(127, 0, 7, 3)];
        let (ports, cluster_folder, folder) = (Ports::default(), ".".into(), "node2".into());
        NodePlan {
            id: NodeId(2),
            datacenter: "dc1".to_owned(),
            address,
            ports,
            token: -5,
            seeds,
            cluster_folder,
            folder,
        }
    }

    #[test]
    fn the_commit_log_is_synced_as_configured() {
        let sync = |commitlog_sync| yaml(&plan(), &Settings { commitlog_sync, ..Settings::default() }, None);
        let periodic = sync(CommitlogSync::default());
        assert_eq!(
            (&periodic["commitlog_sync"], &periodic["commitlog_sync_period"]),
            (&json!("periodic"), &json!("10000ms"))
        );
        let batch = sync(CommitlogSync::Batch);
        assert_eq!((&batch["commitlog_sync"], batch.get("commitlog_sync_period")), (&json!("batch"), None));
        let group = sync(CommitlogSync::Group { window: Duration::from_millis(5) });
        assert_eq!((&group["commitlog_sync"], &group["commitlog_sync_group_window"]), (&json!("group"), &json!("5ms")));
    }

    #[test]
    fn given_options_replace_the_defaults() {
        let asked = [("num_tokens", json!(16)), ("memtable_heap_space", json!("64MiB"))];
        let asked = asked.map(|(key, value)| (key.to_owned(), value)).into();
        let yaml = yaml(&plan(), &Settings { yaml: asked, ..Settings::default() }, None);
        assert_eq!((&yaml["num_tokens"], &yaml["memtable_heap_space"]), (&json!(16), &json!("64MiB")));
        assert_eq!(yaml["initial_token"], json!("-5"));
    }

    #[test]
    fn a_mode_of_the_commit_log_among_given_options_has_no_time_of_another_one() {
        let with = |options: &[(&str, Value)]| {
            let asked = options.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
            let yaml = yaml(&plan(), &Settings { yaml: asked, ..Settings::default() }, None);
            ["commitlog_sync", "commitlog_sync_period", "commitlog_sync_group_window"]
                .map(|key| yaml.get(key).and_then(Value::as_str).unwrap_or("none").to_owned())
        };
        assert_eq!(with(&[("commitlog_sync", json!("batch"))]), ["batch", "none", "none"]);
        assert_eq!(with(&[("commitlog_sync", json!("periodic"))]), ["periodic", "10000ms", "none"]);
        assert_eq!(with(&[("commitlog_sync", json!("group"))]), ["group", "none", "10ms"]);
        let window = ("commitlog_sync_group_window", json!("5ms"));
        assert_eq!(with(&[("commitlog_sync", json!("group")), window]), ["group", "none", "5ms"]);
        assert_eq!(with(&[("commitlog_sync_period", json!("1s"))]), ["periodic", "1s", "none"]);
    }

    #[test]
    fn every_seed_is_named() {
        let yaml = yaml(&plan(), &Settings::default(), None);
        assert_eq!(yaml["seed_provider"][0]["parameters"][0]["seeds"], json!("127.0.7.1:7000,127.0.7.3:7000"));
    }
}
