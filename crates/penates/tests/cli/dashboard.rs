//! The dashboard in `packaging/`. No Grafana runs here, so the tests check what it imports: the
//! fields are those of its schema, panels have their places, variables and labels are defined, and
//! Prometheus parses each expression.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;
use serde_json::{Value, json};

use crate::documentation::file;
use crate::watch::{named, promtool};

/// The version of Grafana's schema (`kinds/dashboard/dashboard_kind.cue` there) that is checked.
const SCHEMA_VERSION: u64 = 39;

/// Kinds of panels that Grafana itself has.
const KINDS: [&str; 2] = ["stat", "timeseries"];

/// Units that Grafana knows.
const UNITS: [&str; 7] = ["Bps", "bytes", "none", "ops", "percentunit", "reqps", "s"];

/// Columns of Grafana's grid.
const COLUMNS: u64 = 24;

/// The longest `uid` of a dashboard that Grafana takes.
const UID_CHARS: usize = 40;

/// Variables that Grafana itself defines.
const BUILT_IN: [&str; 1] = ["__rate_interval"];

/// Labels that each series has: Prometheus adds them, or the kind of the metric.
const EVERYWHERE: [&str; 3] = ["instance", "job", "le"];

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(file("packaging/grafana/penates.json")).unwrap()).unwrap()
}

fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object[name].as_array().unwrap()
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap()
}

/// What its panels show: objects with an expression and a legend.
fn targets(dashboard: &Value) -> Vec<&Value> {
    list(dashboard, "panels").iter().filter_map(|panel| panel["targets"].as_array()).flatten().collect()
}

/// The expressions of its panels, as Grafana has them: with variables.
pub fn expressions() -> Vec<String> {
    targets(&dashboard()).into_iter().map(|target| text(target, "expr").to_owned()).collect()
}

/// What its variables ask Prometheus for.
pub fn queries() -> Vec<String> {
    let dashboard = dashboard();
    let asking = list(&dashboard["templating"], "list").iter().filter(|variable| variable["type"] == "query");
    asking.map(|variable| text(variable, "query").to_owned()).collect()
}

/// Fails unless an object has all required fields, and of others only optional ones.
#[track_caller]
fn assert_fields(object: &Value, required: &[&str], optional: &[&str]) {
    let fields: BTreeSet<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    for name in required {
        assert!(fields.contains(name), "{name} is not in {object}");
    }
    for name in fields {
        assert!(required.contains(&name) || optional.contains(&name), "{name} is in {object}");
    }
}

/// What the first group of a pattern matches in a text.
fn found(pattern: &str, text: &str) -> BTreeSet<String> {
    Regex::new(pattern).unwrap().captures_iter(text).map(|found| found[1].to_owned()).collect()
}

#[test]
fn the_dashboard_has_the_fields_of_grafanas_schema_and_the_variables_that_it_uses() {
    let dashboard = dashboard();
    assert_fields(
        &dashboard,
        &["uid", "title", "schemaVersion", "time", "templating", "panels"],
        // A number `id` would be the one of a certain Grafana.
        &["description", "tags", "editable", "refresh"],
    );
    assert_eq!(dashboard["schemaVersion"], SCHEMA_VERSION);
    assert!(text(&dashboard, "uid").len() <= UID_CHARS);
    assert_fields(&dashboard["time"], &["from", "to"], &[]);
    assert_fields(&dashboard["templating"], &["list"], &[]);
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let mut variables: BTreeSet<String> = BUILT_IN.iter().map(|&name| name.to_owned()).collect();
    for variable in list(&dashboard["templating"], "list") {
        match text(variable, "type") {
            "datasource" => assert_fields(variable, &["name", "type", "query"], &["label"]),
            "query" => {
                let optional = ["label", "multi", "includeAll", "current"];
                assert_fields(variable, &["name", "type", "query", "datasource", "refresh"], &optional);
                assert_eq!(variable["datasource"], source, "{variable}");
            }
            _ => panic!("{variable}"),
        }
        variables.insert(text(variable, "name").to_owned());
    }

    for panel in list(&dashboard, "panels") {
        if panel["type"] == "row" {
            assert_fields(panel, &["id", "type", "title", "gridPos", "collapsed", "panels"], &[]);
            assert!(panel["collapsed"] == false && list(panel, "panels").is_empty(), "{panel}");
            continue;
        }
        let required = ["id", "type", "title", "gridPos", "datasource", "fieldConfig", "targets"];
        assert_fields(panel, &required, &["description"]);
        assert!(KINDS.contains(&text(panel, "type")), "{panel}");
        assert_eq!(panel["datasource"], source, "{panel}");
        assert_fields(&panel["fieldConfig"], &["defaults", "overrides"], &[]);
        assert_fields(&panel["fieldConfig"]["defaults"], &["unit"], &["min"]);
        assert!(UNITS.contains(&text(&panel["fieldConfig"]["defaults"], "unit")), "{panel}");
        let mut names = BTreeSet::new();
        for target in list(panel, "targets") {
            assert_fields(target, &["refId", "expr", "legendFormat"], &[]);
            assert!(names.insert(text(target, "refId")), "{panel}");
        }
        assert!(!names.is_empty(), "{panel}");
    }

    let all = [expressions(), queries(), vec![source.to_string()]].concat().join("\n");
    let used = found(r"\$\{?(\w+)", &all);
    assert!(used.is_subset(&variables), "{used:?} and {variables:?}");
    assert!(variables.is_subset(&used), "{used:?} and {variables:?}");
}

#[test]
fn the_panels_of_the_dashboard_have_numbers_and_places_of_their_own() {
    let dashboard = dashboard();
    let (mut ids, mut places) = (BTreeSet::new(), Vec::new());
    for panel in list(&dashboard, "panels") {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert_fields(&panel["gridPos"], &["x", "y", "w", "h"], &[]);
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|name| panel["gridPos"][name].as_u64().unwrap());
        assert!(w > 0 && h > 0 && x + w <= COLUMNS, "{panel}");
        let is_beside = |&[left, top, right, bottom]: &[u64; 4]| {
            let is_right_or_left = x >= right || x + w <= left;
            is_right_or_left || y >= bottom || y + h <= top
        };
        assert!(places.iter().all(is_beside), "{panel} covers another one");
        places.push([x, y, x + w, y + h]);
    }
}

#[test]
fn prometheus_parses_every_expression_of_the_dashboard() {
    // As Grafana fills them in, if all servers are chosen.
    let chosen = [("$__rate_interval", "1m"), ("$job", ".*"), ("$instance", ".*")];
    let filled = expressions().into_iter().map(|expression| {
        let filled = chosen.iter().fold(expression, |text, (variable, value)| text.replace(variable, value));
        assert!(!filled.contains('$'), "{filled}");
        filled
    });
    let rule = |(number, expression): (usize, String)| json!({"record": format!("panel:{number}"), "expr": expression});
    let rules: Vec<Value> = filled.enumerate().map(rule).collect();
    let count = rules.len();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dashboard.yml");
    // JSON is YAML.
    fs::write(&path, json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string()).unwrap();
    let Some((is_sound, said)) = promtool(&["check", "rules", path.to_str().unwrap()], "") else { return };
    assert!(is_sound && said.contains(&format!("{count} rules found")), "{said}");
}

#[test]
fn the_dashboard_names_labels_that_its_metrics_have() {
    let guide = fs::read_to_string(file("docs/metrics.md")).unwrap();
    let tables: Vec<&str> = guide.split("\n## ").collect();
    for target in targets(&dashboard()) {
        let (expression, legend) = (text(target, "expr"), text(target, "legendFormat"));
        let shown = found(r"\{\{(\w+)\}\}", legend);
        let grouped = found(r"by \(([^)]*)\)", expression);
        let grouped: BTreeSet<String> = grouped.iter().flat_map(|group| group.split(", ")).map(str::to_owned).collect();
        assert!(!expression.contains("sum") || shown.is_subset(&grouped), "{legend} is not in {expression}");
        let conditions = found(r#"(\w+)=~?""#, expression);
        let metric = named(expression).into_iter().next().unwrap();
        let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| metric.strip_suffix(part));
        let row = format!("| `{}` |", histogram.unwrap_or(&metric));
        let table = tables.iter().find(|table| table.contains(&row)).unwrap_or_else(|| panic!("{metric}"));
        for label in [shown, grouped, conditions].into_iter().flatten() {
            let is_known = EVERYWHERE.contains(&label.as_str()) || table.contains(&format!("`{label}`"));
            assert!(is_known, "{metric} has no label {label}");
        }
    }
}
