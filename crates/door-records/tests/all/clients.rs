//! Clients of Redis, as people use them.

use std::path::Path;
use std::process::Command;

use crate::support::python::{self, run};
use crate::support::{Subject, java, keyspace, node, not_run, runtime};
use records::Mode;

/// The tests of redis-benchmark that work, as the document has them.
const BENCHMARKS: &str = "ping,set,get,incr,hset,mset";

/// A door, and the address of its listener.
fn listening() -> (Subject, std::net::SocketAddr) {
    runtime().block_on(async {
        let subject = Subject::start().await;
        let address = subject.listen().await;
        (subject, address)
    })
}

#[test]
fn redis_py_works_in_both_versions_of_the_protocol() {
    let python = match python::with("redis==8.1.0", "redis") {
        Ok(python) => python,
        Err(reason) => return not_run("redis-py as a client of records", &reason),
    };
    let (_subject, address) = listening();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/redis_client.py");
    let said = run(Command::new(python).arg(script).arg(address.to_string())).unwrap();
    assert_eq!(said, "RESP2 works\nRESP3 works\n");
}

#[test]
fn ioredis_works() {
    let folder = match node::with("ioredis@6.0.0") {
        Ok(folder) => folder,
        Err(reason) => return not_run("ioredis as a client of records", &reason),
    };
    let (_subject, address) = listening();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/ioredis_client.mjs");
    let said = run(Command::new("node").arg(script).arg(folder).arg(address.to_string())).unwrap();
    assert_eq!(said, "ioredis works\n");
}

#[test]
fn jedis_works_in_both_versions_of_the_protocol() {
    let jars = match java::with("jedis-6.2.0") {
        Ok(jars) => jars,
        Err(reason) => return not_run("Jedis as a client of records", &reason),
    };
    let (_subject, address) = listening();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/JedisClient.java");
    let mut client = Command::new("java");
    // It runs for a moment: optimizing it would take longer than it runs.
    client.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]).arg(jars.join("*"));
    let said = run(client.arg(program).arg(address.to_string())).unwrap();
    assert_eq!(said, "RESP2 works\nRESP3 works\n");
}

#[test]
#[ignore = "Go builds it for a minute: `cargo xtask proofs` runs it"]
fn go_redis_works_in_both_versions_of_the_protocol() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("goredis-client");
    let mut build = Command::new("go");
    build.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(".");
    build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/goredis"));
    // With the Go that is here, and the packages whose digests are known.
    build.env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=readonly");
    if let Err(reason) = run(&mut build) {
        return not_run("go-redis as a client of records", &format!("go: {reason}"));
    }
    let (_subject, address) = listening();
    let said = run(Command::new(program).arg(address.to_string())).unwrap();
    assert_eq!(said, "RESP2 works\nRESP3 works\n");
}

#[test]
fn redis_cli_and_redis_benchmark_work() {
    if let Err(reason) = run(Command::new("redis-cli").arg("--version")) {
        return not_run("redis-cli and redis-benchmark as clients of records", &reason);
    }
    let (_subject, address) = listening();
    let port = address.port().to_string();
    let cli = |words: &[&str]| run(Command::new("redis-cli").args(["-p", &port]).args(words)).unwrap();
    assert_eq!(cli(&["HSET", "user:1", "city", "Ulm", "visits", "1"]), "2\n");
    assert_eq!(cli(&["-3", "HGETALL", "user:1"]), "city Ulm\nvisits 1\n");
    assert_eq!(cli(&["PENATES.DEADLINE", "20"]), "OK\n");
    let mut benchmark = Command::new("redis-benchmark");
    benchmark.args(["-p", &port, "-t", BENCHMARKS, "-n", "200", "-c", "5", "-P", "8", "-r", "50", "-q"]);
    let report = run(&mut benchmark).unwrap();
    let documented = format!("\nredis-benchmark -t {BENCHMARKS}\n");
    assert!(include_str!("../../../../docs/records.md").contains(&documented), "{documented}");
    for command in ["PING_INLINE", "SET", "GET", "INCR", "HSET", "MSET"] {
        assert!(report.contains(command), "{report}");
    }
    assert!(!report.contains("Error"), "{report}");
    assert_ne!(cli(&["DBSIZE"]), "0\n");
}

#[test]
fn redis_cli_works_in_mode_fast() {
    if let Err(reason) = run(Command::new("redis-cli").arg("--version")) {
        return not_run("redis-cli as a client of records in mode fast", &reason);
    }
    let Some(options) = runtime().block_on(keyspace()) else { return };
    let subject = runtime().block_on(Subject::in_mode(options, Mode::Fast));
    let port = runtime().block_on(subject.listen()).port().to_string();
    let cli = |words: &[&str]| run(Command::new("redis-cli").args(["-p", &port]).args(words)).unwrap();
    assert_eq!(cli(&["HSET", "user:1", "city", "Ulm", "visits", "1"]), "2\n");
    assert_eq!(cli(&["HEXPIREAT", "user:1", "9000000000", "FIELDS", "1", "city"]), "1\n");
    assert_eq!(cli(&["HEXPIRETIME", "user:1", "FIELDS", "1", "city"]), "9000000000\n");
    assert_eq!(cli(&["HGETALL", "user:1"]), "city\nUlm\nvisits\n1\n");
    assert!(cli(&["HINCRBY", "user:1", "visits", "1"]).contains("mode fast"));
    assert_eq!(cli(&["DEL", "user:1"]), "1\n");
    assert_eq!(cli(&["HGETALL", "user:1"]), "\n");
}
