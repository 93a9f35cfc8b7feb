//! The settings of a node for a setting of the study.

use std::collections::BTreeMap;

use cluster::{Java, Settings};
use serde_json::{Map, Value, json};

use crate::catalogue;
use crate::deployment::{self, Levels};
use crate::factor::{Applied, Factor, Setting};
use crate::plan::Plan;
use crate::sync;
use crate::value;

/// What a node starts with. Live factors have what the plan calls their default: a running node
/// gets other values later.
pub(super) fn settings(plan: &Plan, setting: &Setting) -> Settings {
    let mut settings = Settings {
        heap_mib: plan.node.heap_mib,
        jvm_options: plan.node.jvm_options.clone(),
        yaml: plan.node.yaml.clone(),
        limits: value_of(plan, setting, deployment::CONTAINER).and_then(deployment::limits),
        ..Settings::default()
    };
    // Tables are dropped before each run: snapshots of them would fill the disk.
    settings.yaml.insert("auto_snapshot".to_owned(), Value::Bool(false));
    if plan.factor(catalogue::MEMTABLE).is_some() || plan.node.table.contains_key(catalogue::MEMTABLE) {
        // All runs have the same, so that the table alone says which one is in force.
        settings.yaml.entry(catalogue::MEMTABLE.to_owned()).or_insert_with(memtables);
    }
    // All runs have the same here too: what is compared are the formats.
    let mode = plan.compatibility().map(|mode| (catalogue::COMPATIBILITY.to_owned(), Value::from(mode)));
    settings.yaml.extend(mode);
    for factor in &plan.factors {
        let value = match factor.applied() {
            Applied::Live => factor.default.as_deref(),
            _ => setting.value(factor),
        };
        let Some(value) = value else { continue };
        match factor.applied() {
            // Its keys depend on its mode, and those of the plan may be of another one.
            _ if factor.name == sync::NAME => {
                sync::KEYS.iter().for_each(|key| _ = settings.yaml.remove(*key));
                settings.commitlog_sync = sync::mode(value).unwrap_or_default();
            }
            Applied::Restart | Applied::Live => {
                let value = yaml(&catalogue::for_yaml(&factor.name, value));
                insert(&mut settings.yaml, &factor.name, value);
            }
            Applied::Heap => settings.heap_mib = value.parse().ok().or(settings.heap_mib),
            Applied::Jvm if factor.name == catalogue::JDK => settings.java_home = Some(Java::home_named(value)),
            Applied::Jvm if factor.is_young() => settings.jvm_options.push(format!("-Xmn{value}m")),
            Applied::Jvm => settings.jvm_options.extend(value.split_whitespace().map(str::to_owned)),
            // The rest lies around the node.
            Applied::Table | Applied::Cluster | Applied::Keyspace | Applied::Setting => {}
        }
    }
    settings
}

/// The memtables that a table may name.
fn memtables() -> Value {
    let classes = catalogue::MEMTABLES.iter();
    let classes = classes.map(|(name, class)| ((*name).to_owned(), json!({ "class_name": class })));
    json!({ "configurations": classes.collect::<Map<_, _>>() })
}

/// The value that a factor of this name is to have; `None` if there is none, or it has its own.
fn value_of<'a>(plan: &'a Plan, setting: &'a Setting, name: &str) -> Option<&'a str> {
    setting.value(plan.factor(name)?)
}

/// How many nodes there are with a setting.
pub(super) fn nodes(plan: &Plan, setting: &Setting) -> u8 {
    value_of(plan, setting, deployment::NODES).and_then(deployment::count).unwrap_or(plan.node.count)
}

/// How many of them keep a record.
pub(super) fn copies(plan: &Plan, setting: &Setting) -> u8 {
    value_of(plan, setting, deployment::COPIES).and_then(deployment::count).unwrap_or(plan.node.copies)
}

/// How many of these have to answer.
pub(super) fn levels(plan: &Plan, setting: &Setting) -> Levels {
    let value = value_of(plan, setting, deployment::CONSISTENCY).unwrap_or(&plan.node.consistency);
    Levels::parse(value).unwrap_or_default()
}

/// Sets a key. A dot leads to a key below another, as `system_views.settings` names it.
fn insert(keys: &mut BTreeMap<String, Value>, name: &str, value: Value) {
    let mut names = name.split('.');
    let mut place = keys.entry(names.next().unwrap_or_default().to_owned()).or_default();
    for name in names {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[name];
    }
    *place = value;
}

/// A value of `cassandra.yaml`: JSON, or else a word.
fn yaml(value: &str) -> Value {
    serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))
}

/// The options of the table: `compaction = {…}` and so on. What a factor says is in force, not what
/// the plan says of its table.
pub(super) fn table_options(plan: &Plan, setting: &Setting) -> Vec<String> {
    let mut all: BTreeMap<&str, &str> = BTreeMap::new();
    all.extend(plan.node.table.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let of_table = plan.factors.iter().filter(|factor| factor.applied() == Applied::Table);
    all.extend(of_table.filter_map(|factor| Some((factor.name.as_str(), setting.value(factor)?))));
    all.into_iter().filter_map(|(name, value)| Some(format!("{name} = {}", value::option(name, value)?))).collect()
}

/// The heap in MiB of a command line of Java: the last option counts.
pub(super) fn heap_of(words: &[String]) -> Option<String> {
    mib_of(words, "-Xmx")
}

/// What of the heap is for young objects, in MiB; `none` if the command line does not say it.
pub(super) fn young_of(words: &[String]) -> String {
    mib_of(words, "-Xmn").unwrap_or_else(|| "none".to_owned())
}

fn mib_of(words: &[String], option: &str) -> Option<String> {
    let of = |word: &String| Some(word.strip_prefix(option)?.strip_suffix('m')?.to_owned());
    words.iter().rev().find_map(of)
}

/// Which options of a factor's values a command line has; `none` if it has none.
pub(super) fn options_of(factor: &Factor, words: &[String]) -> String {
    let own: Vec<_> = factor.values.iter().chain(&factor.default).flat_map(|value| value.split_whitespace()).collect();
    let found: Vec<_> = words.iter().map(String::as_str).filter(|word| own.contains(word)).collect();
    if found.is_empty() { "none".to_owned() } else { found.join(" ") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn plan() -> Plan {
        Plan::parse(
            r#"
            name = "x"
            design = { kind = "one-at-a-time" }
            workloads = [{ name = "w", mix = { write = 1 }, rate = 10, duration = "1s" }]
            [[factors]]
            name = "memtable_heap_space"
            values = ["64MiB"]
            [[factors]]
            name = "concurrent_compactors"
            default = 1
            values = [4]
            [[factors]]
            name = "compaction"
            values = ["{'class': 'LeveledCompactionStrategy'}"]
            [[factors]]
            name = "heap"
            values = [512]
            [[factors]]
            name = "collector"
            values = ["-XX:-UseSerialGC -XX:+UseG1GC"]
            "#,
        )
        .unwrap()
    }

    #[test]
    fn a_node_starts_with_restart_factors_and_the_defaults_of_live_ones() {
        let plan = plan();
        let values =
            [("memtable_heap_space", Some("64MiB")), ("concurrent_compactors", Some("4")), ("heap", Some("512"))];
        let settings = settings(&plan, &Setting::of(values));
        assert_eq!(settings.yaml["memtable_heap_space"], Value::from("64MiB"));
        assert_eq!(settings.yaml["concurrent_compactors"], Value::from(1));
        assert_eq!((settings.heap_mib, settings.yaml.get("compaction")), (Some(512), None));
        // So another value of a live factor or of the table needs no restart.
        let live = [("concurrent_compactors", Some("4")), ("compaction", Some("{'class': 'X'}"))];
        assert_eq!(super::settings(&plan, &Setting::of(live)), super::settings(&plan, &Setting::default()));
        assert_eq!(table_options(&plan, &Setting::of(live)), ["compaction = {'class': 'X'}"]);
    }

    #[test]
    fn the_table_of_the_thesis_is_uncompressed_and_size_tiered() {
        let mut plan = crate::preset::find("thesis", crate::preset::Scale::default()).unwrap();
        let options = table_options(&plan, &Setting::default());
        let expected = ["compaction = {'class': 'SizeTieredCompactionStrategy'}", "compression = {'enabled': 'false'}"];
        assert_eq!(options, expected);
        // A factor that is copied into the plan varies it, beside what its default is.
        plan.factors.push(with_value("compression", "{'class': 'LZ4Compressor'}").factors.remove(0));
        plan.check().unwrap();
        assert_eq!(table_options(&plan, &Setting::default()), expected);
        let compressed = Setting::of([("compression", Some("{'class': 'LZ4Compressor'}"))]);
        assert_eq!(table_options(&plan, &compressed)[1], "compression = {'class': 'LZ4Compressor'}");
    }

    #[test]
    fn all_nodes_of_a_plan_with_a_format_that_cassandra_4_has_not_are_compatible_with_none() {
        let plan = with_value("sstable.selected_format", "bti");
        let bti = Setting::of([("sstable.selected_format", Some("bti"))]);
        for setting in [Setting::default(), bti] {
            assert_eq!(settings(&plan, &setting).yaml["storage_compatibility_mode"], "NONE", "{setting}");
        }
        let mut said = plan.clone();
        said.node.yaml.insert("storage_compatibility_mode".to_owned(), json!("UPGRADING"));
        assert_eq!(settings(&said, &Setting::default()).yaml["storage_compatibility_mode"], "UPGRADING");
        let mut of_plan = self::plan();
        assert!(!settings(&of_plan, &Setting::default()).yaml.contains_key("storage_compatibility_mode"));
        of_plan.node.yaml.insert("sstable".to_owned(), json!({"selected_format": "bti"}));
        assert_eq!(settings(&of_plan, &Setting::default()).yaml["storage_compatibility_mode"], "NONE");
    }

    #[test]
    fn a_table_names_a_memtable_that_all_nodes_have() {
        let mut plan = plan();
        assert!(!settings(&plan, &Setting::default()).yaml.contains_key("memtable"));
        let (name, values) = ("memtable".to_owned(), vec!["trie".to_owned()]);
        plan.factors[0] = Factor { name, default: None, values, repeats: None, applied: None };
        plan.check().unwrap();
        let trie = Setting::of([("memtable", Some("trie"))]);
        assert_eq!(table_options(&plan, &trie), ["memtable = 'trie'"]);
        let node = settings(&plan, &trie);
        assert_eq!(node, settings(&plan, &Setting::default()), "no restart is needed for it");
        assert_eq!(node.yaml["memtable"]["configurations"]["trie"]["class_name"], "TrieMemtable");
        // Those of the plan stay.
        plan.node.yaml.insert("memtable".to_owned(), serde_json::json!({"configurations": {}}));
        assert_eq!(settings(&plan, &trie).yaml["memtable"], plan.node.yaml["memtable"]);
        plan.factors[0].values = vec!["Trie'".to_owned()];
        assert!(plan.check().unwrap_err().to_string().contains("memtable with a name"));
    }

    #[test]
    fn a_name_with_a_dot_is_a_key_below_another_one_which_keeps_its_others() {
        let mut plan = plan();
        plan.node.yaml.insert("sstable".to_owned(), serde_json::json!({"format": {"bti": {}}}));
        plan.factors[0] = Factor {
            name: "sstable.selected_format".to_owned(),
            default: None,
            values: vec!["bti".to_owned()],
            repeats: None,
            applied: None,
        };
        plan.check().unwrap();
        let bti = settings(&plan, &Setting::of([("sstable.selected_format", Some("bti"))]));
        assert_eq!(bti.yaml["sstable"], serde_json::json!({"format": {"bti": {}}, "selected_format": "bti"}));
        assert!(!bti.yaml.contains_key("sstable.selected_format"), "{:?}", bti.yaml);
        assert_eq!(settings(&plan, &Setting::default()).yaml["sstable"], plan.node.yaml["sstable"]);
    }

    #[test]
    fn a_node_has_the_keys_of_the_mode_of_its_commit_log_only() {
        let mut plan = plan();
        let (name, values) = (sync::NAME.to_owned(), vec!["group:5ms".to_owned()]);
        plan.factors[0] = Factor { name, default: None, values, repeats: None, applied: None };
        plan.check().unwrap();
        let group = settings(&plan, &Setting::of([(sync::NAME, Some("group:5ms"))]));
        assert_eq!(group.commitlog_sync, cluster::CommitlogSync::Group { window: std::time::Duration::from_millis(5) });
        assert!(!group.yaml.contains_key(sync::NAME), "{:?}", group.yaml);
        assert_eq!(settings(&plan, &Setting::default()).commitlog_sync, cluster::CommitlogSync::default());
        // What the plan says of all runs is the default, and no part of the others.
        plan.node.yaml.insert(sync::NAME.to_owned(), json!("batch"));
        assert_eq!(settings(&plan, &Setting::default()).yaml[sync::NAME], "batch");
        let group = settings(&plan, &Setting::of([(sync::NAME, Some("group:5ms"))]));
        assert!(!group.yaml.contains_key(sync::NAME), "{:?}", group.yaml);
        plan.factors[0].values = vec!["often".to_owned()];
        assert!(plan.check().unwrap_err().to_string().contains("group:TIME"));
    }

    #[test]
    fn what_lies_around_the_nodes_is_that_of_the_setting_or_of_the_plan() {
        let mut plan = plan();
        plan.node.count = 3;
        plan.node.copies = 2;
        plan.factors =
            ["nodes = [1]", "copies = [1]", "consistency = ['TWO/ONE']", "container = ['memory=1GiB cpus=1']"]
                .map(|factor| {
                    let (name, values) = factor.split_once(" = ").unwrap();
                    toml::from_str(&format!("name = \"{name}\"\nvalues = {values}")).unwrap()
                })
                .into();
        let usual = Setting::default();
        assert_eq!((nodes(&plan, &usual), copies(&plan, &usual), levels(&plan, &usual)), (3, 2, Levels::default()));
        assert_eq!(settings(&plan, &usual).limits, None);
        let values = plan.factors.iter().map(|factor| (factor.name.as_str(), Some(factor.values[0].as_str())));
        let other = Setting::of(values);
        assert_eq!((nodes(&plan, &other), copies(&plan, &other)), (1, 1));
        assert_eq!(levels(&plan, &other), Levels::parse("TWO/ONE").unwrap());
        assert_eq!(settings(&plan, &other).limits, deployment::limits("memory=1GiB cpus=1"));
    }

    #[test]
    fn options_of_java_are_read_back_from_the_command_line() {
        let plan = plan();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (collector, started) =
            (plan.factor("collector").unwrap(), words("java -XX:+UseSerialGC -Xmx256m -Xmx512m"));
        assert_eq!((options_of(collector, &started), heap_of(&started)), ("none".to_owned(), Some("512".to_owned())));
        let started = words("java -XX:+UseSerialGC -XX:-UseSerialGC -XX:+UseG1GC");
        assert_eq!(options_of(collector, &started), "-XX:-UseSerialGC -XX:+UseG1GC");
        let value = [("collector", Some("-XX:-UseSerialGC -XX:+UseG1GC"))];
        assert_eq!(settings(&plan, &Setting::of(value)).jvm_options, ["-XX:-UseSerialGC", "-XX:+UseG1GC"]);
    }

    #[test]
    fn the_part_of_the_heap_for_young_objects_is_an_option_of_java_and_is_read_back() {
        let plan = with_value("young", "128");
        let node = settings(&plan, &Setting::of([("young", Some("128"))]));
        assert_eq!(node.jvm_options, ["-Xmn128m"]);
        assert_eq!(young_of(&node.jvm_options), "128");
        let usual = settings(&plan, &Setting::default());
        assert!(usual.jvm_options.is_empty() && young_of(&usual.jvm_options) == "none");
        let refused = |plan: &Plan| plan.check().unwrap_err().to_string();
        let mut wrong = plan.clone();
        wrong.factors[0].values = vec!["128m".to_owned()];
        assert!(refused(&wrong).contains("whole numbers of MiB"));
        // It has to be a part of the heap.
        wrong.factors[0].values = vec!["512".to_owned()];
        wrong.node.heap_mib = Some(512);
        assert!(refused(&wrong).contains("less than the least heap"), "{}", refused(&wrong));
    }

    #[test]
    fn a_node_starts_on_the_java_of_the_setting() {
        let mut plan = plan();
        plan.factors[4] = Factor {
            name: catalogue::JDK.to_owned(),
            default: None,
            values: vec!["/opt/jdk-17".to_owned(), "temurin-11".to_owned()],
            repeats: None,
            applied: None,
        };
        plan.check().unwrap();
        let of = |jdk| settings(&plan, &Setting::of([(catalogue::JDK, jdk)]));
        let home = |jdk| of(jdk).java_home.map(|home| home.display().to_string());
        assert_eq!(home(Some("/opt/jdk-17")).as_deref(), Some("/opt/jdk-17"));
        assert_eq!(home(Some("temurin-11")).as_deref(), Some("/usr/lib/jvm/temurin-11"));
        assert_eq!(home(None), None, "the one that is found");
        assert!(of(Some("/opt/jdk-17")).jvm_options.is_empty(), "it is no option of Java");
        assert_ne!(of(Some("/opt/jdk-17")), of(None), "a restart is needed");
    }

    /// A plan with one factor and one value.
    fn with_value(name: &str, value: &str) -> Plan {
        let mut plan = plan();
        let (name, values) = (name.to_owned(), vec![value.to_owned()]);
        plan.factors = vec![Factor { name, default: None, values, repeats: None, applied: None }];
        plan.check().unwrap();
        plan
    }

    #[test]
    fn a_rate_is_in_the_nodes_file_as_the_file_takes_it() {
        for (default, expected) in [("0", "0MiB/s"), ("1.5GiB/s", "1536MiB/s"), ("16MiB", "16MiB/s")] {
            let mut plan = with_value("compaction_throughput", "32MiB/s");
            plan.factors[0].default = Some(default.to_owned());
            plan.check().unwrap();
            assert_eq!(settings(&plan, &Setting::default()).yaml["compaction_throughput"], expected);
        }
    }

    #[test]
    fn each_setting_of_the_catalogue_that_needs_a_restart_becomes_a_key_of_the_nodes_file() {
        let all = [
            ("memtable_heap_space", "64MiB", json!("64MiB")),
            ("memtable_offheap_space", "64MiB", json!("64MiB")),
            ("memtable_allocation_type", "offheap_objects", json!("offheap_objects")),
            ("memtable_flush_writers", "2", json!(2)),
            ("memtable_cleanup_threshold", "0.2", json!(0.2)),
            ("snapshot_before_compaction", "true", json!(true)),
            ("partition_size_warn_threshold", "50MiB", json!("50MiB")),
            ("native_transport_max_threads", "64", json!(64)),
            ("key_cache_size", "0MiB", json!("0MiB")),
            ("row_cache_size", "16MiB", json!("16MiB")),
            ("commitlog_sync_period", "1s", json!("1s")),
            ("commitlog_segment_size", "16MiB", json!("16MiB")),
            ("disk_access_mode", "mmap_index_only", json!("mmap_index_only")),
            ("flush_compression", "table", json!("table")),
            ("trickle_fsync", "true", json!(true)),
            ("file_cache_size", "64MiB", json!("64MiB")),
            ("column_index_size", "16KiB", json!("16KiB")),
            ("sstable.selected_format", "bti", json!({"selected_format": "bti"})),
        ];
        for (name, value, expected) in &all {
            let plan = with_value(name, value);
            let node = settings(&plan, &Setting::of([(*name, Some(*value))]));
            let key = name.split('.').next().unwrap_or_default();
            assert_eq!(node.yaml.get(key), Some(expected), "{name}");
            assert_eq!(settings(&plan, &Setting::default()).yaml.get(key), None, "{name} as the node has it");
        }
        // The mode of the commit log has keys of its own.
        let known = catalogue::KNOWN.iter().filter(|known| known.applied == Applied::Restart);
        let known = known.map(|known| known.name).filter(|name| *name != sync::NAME);
        let shown: Vec<_> = all.iter().map(|(name, ..)| *name).collect();
        assert!(known.clone().all(|name| shown.contains(&name)), "{:?}", known.collect::<Vec<_>>());
    }

    #[test]
    fn each_option_of_a_table_is_written_as_cql() {
        for (name, value, expected) in [
            ("compaction", "{'class': 'X', 'fanout_size': 10}", "compaction = {'class': 'X', 'fanout_size': '10'}"),
            ("compression", "{'enabled': false}", "compression = {'enabled': 'false'}"),
            ("caching", "{'rows_per_partition': 10}", "caching = {'rows_per_partition': '10'}"),
            ("memtable", "skiplist_sharded", "memtable = 'skiplist_sharded'"),
            ("memtable", "trie", "memtable = 'trie'"),
        ] {
            let options = table_options(&with_value(name, value), &Setting::of([(name, Some(value))]));
            assert_eq!(options, [expected]);
        }
    }
}
