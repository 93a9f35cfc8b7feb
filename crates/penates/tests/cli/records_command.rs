//! `penates records`

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::harness::*;

#[test]
fn records_are_set_read_and_listed() {
    let store = TestStore::vacant();
    store.run(&["records", "set", "user:1", "city=Ulm", "visits=1", "--ttl", "1h"]).ends_with(0);
    store.run(&["records", "set", "user:2", "city=Bonn=Beuel"]).ends_with(0);
    store.run(&["records", "set", "user:1", "plan=free", "--unset", "visits"]).ends_with(0);
    let read = store.run(&["records", "get", "user:1", "--json"]).ends_with(0).json();
    assert_eq!(read, json!({"city": "Ulm", "plan": "free"}));
    let part = store.run(&["records", "get", "user:2", "--attributes", "city,none", "--json"]).ends_with(0).json();
    assert_eq!(part, json!({"city": "Bonn=Beuel"}));
    store.run(&["records", "set", "user:2", "plan=paid", "--replace"]).ends_with(0);
    assert_eq!(store.run(&["records", "get", "user:2", "--json"]).ends_with(0).json(), json!({"plan": "paid"}));
    store.run(&["records", "set", "a b/c", "x=y"]).ends_with(0);
    let mut ids: Vec<String> = store.run(&["records", "scan"]).ends_with(0).text().lines().map(str::to_owned).collect();
    ids.sort();
    assert_eq!(ids, ["a b/c", "user:1", "user:2"]);
    assert_eq!(store.run(&["records", "scan", "--match", "user:[2-9]"]).ends_with(0).text(), "user:2\n");
    let missing = store.run(&["records", "get", "user:3"]).ends_with(1);
    assert!(missing.stderr.contains("there is no such record"), "{}", missing.stderr);
    // There is nothing that could expire.
    let missing = store.run(&["records", "set", "user:3", "--ttl", "1h"]).ends_with(1);
    assert!(missing.stderr.contains("there is no such record"), "{}", missing.stderr);
    store.run(&["records", "set", "user:3"]).ends_with(2);
}

#[test]
fn records_come_back_from_both_formats() {
    let (store, folder) = (TestStore::vacant(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let lines: String = (0..2_500)
        .map(|n| {
            json!({"id": format!("r{n:04}"), "attributes": {"n": n.to_string(), "t": "a, \"b\""}}).to_string() + "\n"
        })
        .collect();
    fs::write(path("in.ndjson"), &lines).unwrap();
    let output = store.run(&["records", "import", &path("in.ndjson")]).ends_with(0);
    assert_eq!(output.text(), "2500 stored, 0 refused\n");
    store.run(&["records", "set", "r0001", "more=1", "--ttl", "1h"]).ends_with(0);

    let exported = store.run(&["records", "export"]).ends_with(0).text().to_owned();
    assert_eq!(exported.lines().count(), 2_500);
    fs::write(path("out.ndjson"), &exported).unwrap();
    let other = TestStore::vacant();
    other.run(&["records", "import", &path("out.ndjson")]).ends_with(0);
    assert_eq!(sorted_lines(other.run(&["records", "export"]).ends_with(0).text()), sorted_lines(&exported));

    let csv = ["records", "export", "--format", "csv", "--attributes", "t,n,more"];
    let csv = store.run(&csv).ends_with(0).text().to_owned();
    assert_eq!(csv.lines().next(), Some("id,expires_at,t,n,more"));
    fs::write(path("out.csv"), &csv).unwrap();
    let third = TestStore::vacant();
    assert_eq!(third.run(&["records", "import", &path("out.csv")]).ends_with(0).text(), "2500 stored, 0 refused\n");
    let read = third.run(&["records", "get", "r0001", "--json"]).ends_with(0).json();
    assert_eq!(read, json!({"t": "a, \"b\"", "n": "1", "more": "1"}));
}

#[test]
fn a_reader_that_leaves_ends_an_import_quietly() {
    let store = TestStore::vacant();
    let mut command = store.command(&["records", "import", "-", "--format", "ndjson"]);
    command.stdin(Stdio::piped());
    let (mut child, stdout) = piped(command);
    drop(stdout);
    child.stdin.take().unwrap().write_all(b"{\"id\":\"a\",\"text\":\"t\"}\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(store.run(&["records", "get", "a"]).ends_with(0).text(), "t\n");
}

#[test]
fn records_that_are_refused_are_named_and_the_others_stored() {
    let (store, folder) = (TestStore::vacant(), tempfile::tempdir().unwrap());
    let file = folder.path().join("in.jsonl");
    let large = json!({"id": "large", "attributes": {"a": "x".repeat(70_000)}});
    fs::write(&file, format!("{{\"id\":\"a\",\"text\":\"t\"}}\nno json\n{large}\n{{\"id\":\"b\",\"text\":\"t\"}}\n"))
        .unwrap();
    let output = store.run(&["records", "import", file.to_str().unwrap()]).ends_with(1);
    assert_eq!(output.text(), "2 stored, 2 refused\n");
    assert!(output.stderr.contains("refused: number 2, ?:"), "{}", output.stderr);
    assert!(output.stderr.contains("refused: number 3, large: a record has at most"), "{}", output.stderr);
    assert_eq!(store.run(&["records", "get", "b"]).ends_with(0).text(), "t\n");
    let csv = store.run(&["records", "export", "--format", "csv", "--attributes", "a"]).ends_with(1);
    assert!(csv.stderr.contains("CSV has no form for it"), "{}", csv.stderr);
    let text = folder.path().join("in.txt");
    fs::write(&text, "").unwrap();
    store.run(&["records", "import", text.to_str().unwrap()]).ends_with(2);
}

#[test]
fn lines_of_csv_that_are_no_records_are_named_and_the_others_stored() {
    let (store, folder) = (TestStore::vacant(), tempfile::tempdir().unwrap());
    let file = folder.path().join("in.csv");
    let large = "x".repeat(70_000);
    let lines = format!("id,expires_at,city,visits\na,,Ulm,1\nb,,Bonn\n,,Ulm,1\nc,soon,,\nd,,,1,2\nlarge,,{large},\n");
    fs::write(&file, [lines.as_bytes(), b"\xff,,,\ne,,\"two\nlines\",\nf\ng,,,7\n"].concat()).unwrap();
    let output = store.run(&["records", "import", file.to_str().unwrap()]).ends_with(1);
    assert_eq!(output.text(), "3 stored, 7 refused\n");
    for expected in [
        "refused: line 3: it has no field for `visits`",
        "refused: line 4: there is no id",
        "refused: line 5: expires_at is not a time in milliseconds: soon",
        "refused: line 6: it has 5 fields for 4 columns",
        "refused: number 6, large: a record has at most",
        "refused: line 8: it is not UTF-8 text",
        "refused: line 11: it has no field for `expires_at`, `city`, `visits`",
    ] {
        assert!(output.stderr.contains(expected), "{expected}: {}", output.stderr);
    }
    assert_eq!(store.run(&["records", "get", "g", "--json"]).ends_with(0).json(), json!({"visits": "7"}));
    // Without a column of ids there is no record at all.
    fs::write(&file, "name,city\na,Ulm\n").unwrap();
    store.run(&["records", "import", file.to_str().unwrap()]).ends_with(2);
}

#[test]
fn a_line_that_is_too_long_or_no_text_is_named_and_those_behind_it_are_stored() {
    let (store, folder) = (TestStore::vacant(), tempfile::tempdir().unwrap());
    let file = folder.path().join("in.ndjson");
    let long = json!({"id": "long", "text": "x".repeat(1 << 20)}).to_string();
    let lines: [&[u8]; 4] = [
        b"{\"id\":\"a\",\"text\":\"t\"}\n",
        long.as_bytes(),
        b"\n\n{\"id\":\"b\",\"text\":\"\xff\"}\n",
        b"{\"id\":\"c\",\"text\":\"t\"}",
    ];
    fs::write(&file, lines.concat()).unwrap();
    let import = ["records", "import", file.to_str().unwrap()];
    let output = store.run(&import).ends_with(1);
    assert_eq!(output.text(), "2 stored, 2 refused\n");
    for expected in [
        "refused: line 2: as a line of JSON it has more than 1048576 bytes (--line-max)",
        "refused: line 4: it is not UTF-8 text",
    ] {
        assert!(output.stderr.contains(expected), "{expected}: {}", output.stderr);
    }
    assert_eq!(store.run(&["records", "get", "c"]).ends_with(0).text(), "t\n");

    // The server reads nothing behind a line that is longer than it takes, so that is sent again.
    let other = TestStore::vacant();
    let output = other.run(&[&import[..], &["--line-max", "2MiB"]].concat()).ends_with(1);
    assert_eq!(output.text(), "2 stored, 2 refused\n");
    let expected = "refused: number 2, ?: the body is larger than 1048576 bytes";
    assert!(output.stderr.contains(expected), "{}", output.stderr);
    assert_eq!(other.run(&["records", "get", "c"]).ends_with(0).text(), "t\n");

    let csv = folder.path().join("in.csv");
    fs::write(&csv, format!("id,a\na,{}\nb,1\n", "x".repeat(1_000))).unwrap();
    let output = store.run(&["records", "import", csv.to_str().unwrap(), "--line-max", "1000"]).ends_with(1);
    assert_eq!(output.text(), "1 stored, 1 refused\n");
    assert!(output.stderr.contains("refused: line 2: as a line of JSON it has more than 1000 bytes"));
}

#[test]
fn csv_has_each_column_once_and_says_how_many_expiries_it_leaves_out() {
    let (store, folder) = (TestStore::vacant(), tempfile::tempdir().unwrap());
    let [lines, file] = ["in.ndjson", "in.csv"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    // The attributes are named as the columns of CSV are, and expire in the year 2100.
    let expiring = json!({"value": "x", "expires_at": 4_102_444_800_000_u64});
    let record = json!({"id": "a", "attributes": {"id": "42", "expires_at": "1", "b": expiring, "c": expiring}});
    fs::write(&lines, record.to_string()).unwrap();
    store.run(&["records", "import", &lines]).ends_with(0);
    let export = |names: &str| store.run(&["records", "export", "--format", "csv", "--attributes", names]);
    for (names, twice) in [("b,id", "`id`"), ("expires_at", "`expires_at`"), ("b,c,b", "`b`")] {
        let refused = export(names).ends_with(2);
        assert!(refused.stderr.contains(&format!("the column {twice} twice")), "{}", refused.stderr);
        assert!(refused.stderr.contains("--format ndjson"), "{}", refused.stderr);
        assert_eq!(refused.text(), "");
    }
    let exported = export("b,c,d").ends_with(0);
    assert_eq!(exported.text(), "id,expires_at,b,c,d\na,,x,x,\n");
    assert!(exported.stderr.contains("expiries of attributes, which CSV does not have: 2"), "{}", exported.stderr);
    assert_eq!(export("d").ends_with(0).stderr, "");

    for (header, twice) in [("id,expires_at,id", "`id`"), ("expires_at,id,expires_at", "`expires_at`")] {
        fs::write(&file, format!("{header}\n1,2,3\n")).unwrap();
        let refused = store.run(&["records", "import", &file]).ends_with(2);
        assert!(refused.stderr.contains(&format!("the column {twice} twice")), "{}", refused.stderr);
    }
    assert_eq!(store.run(&["records", "scan"]).ends_with(0).text(), "a\n");
}

#[test]
fn commands_give_the_server_more_time_than_it_gives_others() {
    let (store, folder) = (TestStore::vacant(), tempfile::tempdir().unwrap());
    let file = folder.path().join("in.csv").to_str().unwrap().to_owned();
    fs::write(&file, "id,x\nb,2\nc,3\n").unwrap();
    // Nothing is done in that time.
    let _server = store.serve(&["--set=records.deadline=1ns", "--set=records.deadline_max=20s"]);
    store.run(&["records", "set", "a", "x=1"]).ends_with(0);
    assert_eq!(store.run(&["records", "import", &file]).ends_with(0).text(), "2 stored, 0 refused\n");
    assert_eq!(store.run(&["records", "get", "a", "--json"]).ends_with(0).json(), json!({"x": "1"}));
    assert_eq!(store.run(&["records", "export"]).ends_with(0).json_lines().len(), 3);
    assert_eq!(store.run(&["records", "scan", "--deadline", "20s"]).ends_with(0).text().lines().count(), 3);
    let refused = store.run(&["records", "scan", "--deadline", "21s"]).ends_with(2);
    assert!(refused.stderr.contains("milliseconds from 1 to 20000"), "{}", refused.stderr);
}

#[test]
fn a_plan_has_a_line_for_each_store_and_computes_with_the_costs_that_it_prints() {
    let plan = ["records", "plan", "--records", "1e6", "--reads", "100", "--writes", "100"];
    let output = Ran::of(penates(&plan)).ends_with(0);
    assert!(output.text().contains("data folder") && output.text().contains("Cassandra, fast"), "{}", output.text());
    let lines = Ran::of(penates(&[&plan[..], &["--json"]].concat())).ends_with(0).json_lines();
    assert_eq!(lines.len(), 3);
    assert!(output.text().contains("FROM CLIENTS") && output.text().contains("BETWEEN NODES"), "{}", output.text());
    let to_clients: Vec<_> = lines.iter().map(|line| &line["network"]["to_clients_bytes_per_second"]).collect();
    // An answer to a read has a record of 400 bytes; each answer has 100 bytes besides.
    assert_eq!(to_clients, [&json!(60_000.0); 3]);
    // The deadline is judged by the measurement of as many reads as writes.
    let judged: Vec<_> = lines.iter().map(|line| &line["p99"]["writes_percent"]).collect();
    assert_eq!(judged, [&json!(50.0); 3]);
    assert!(output.text().contains("50/50 reads and writes, Zipf"), "{}", output.text());
    assert!(output.text().contains("a read asks 2 of 3 copies"), "{}", output.text());
    let one_copy = Ran::of(penates(&[&plan[..], &["--json", "--read-copies", "1"]].concat())).ends_with(0).json_lines();
    for (all, one) in lines.iter().zip(&one_copy).skip(1) {
        assert!(one["cores"].as_f64() < all["cores"].as_f64(), "{one} {all}");
    }
    Ran::of(penates(&[&plan[..], &["--read-copies", "4"]].concat())).ends_with(2);
    let folder = tempfile::tempdir().unwrap();
    let costs = folder.path().join("costs.toml");
    let shown = Ran::of(penates(&[&plan[..], &["--show-costs"]].concat())).ends_with(0);
    std::fs::write(&costs, shown.text()).unwrap();
    let same = [&plan[..], &["--json", "--costs", costs.to_str().unwrap()]].concat();
    assert_eq!(Ran::of(penates(&same)).ends_with(0).json_lines(), lines);
    std::fs::write(&costs, "record_bytes = 400").unwrap();
    let refused = Ran::of(penates(&same)).ends_with(2);
    assert!(refused.stderr.contains("the costs:"), "{}", refused.stderr);
}
