//! The command line of a node.

use std::net::SocketAddr;
use std::path::Path;

use crate::jars::Jars;
use crate::plan::NodePlan;
use crate::spec::Settings;

/// The main class of a node.
const NODE: &str = "org.apache.cassandra.service.CassandraDaemon";

/// The main class of `nodetool`, which uses JMX.
const NODETOOL: &str = "org.apache.cassandra.tools.NodeTool";

/// Parts of the Java library that Cassandra uses although they are not public (Cassandra's
/// `jvm17-server.options`).
const EXPORTS: [&str; 9] = [
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.attach/sun.tools.attach",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.unsupported/sun.misc",
];

/// The same, for reflection.
const OPENS: [&str; 14] = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.util",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.compiler/com.sun.tools.javac",
    "jdk.management/com.sun.management.internal",
];

/// Options that make a node start fast and small. Cassandra's delays are for clusters whose nodes
/// do not all know their tokens. The bytes of a row's overhead are what Cassandra 5.0 otherwise
/// measures at each start, which takes seconds.
const QUICK: [&str; 9] = [
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:+PerfDisableSharedMem",
    "-Xss256k",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra.memtable.row_overhead_size=181",
];

/// How long a node waits for the others when it joins. A seed finds nobody. Any other node ends if no
/// seed answers within this time, and seeds of a busy machine answer late.
const RING_DELAY_OF_SEEDS_MS: u32 = 1_000;
/// See [`RING_DELAY_OF_SEEDS_MS`].
const RING_DELAY_MS: u32 = 6_000;

/// What the node's own address replaces in options of Java, which all nodes share.
pub(crate) const ADDRESS: &str = "{address}";

/// Java's arguments for a node.
pub(crate) fn node(plan: &NodePlan, settings: &Settings, heap_mib: u32, jars: &Jars) -> Vec<String> {
    let mut arguments = modules();
    arguments.extend(QUICK.map(str::to_owned));
    let ring_delay_ms = if plan.is_seed() { RING_DELAY_OF_SEEDS_MS } else { RING_DELAY_MS };
    arguments.extend([
        format!("-Dcassandra.ring_delay_ms={ring_delay_ms}"),
        format!("-Xms{heap_mib}m"),
        format!("-Xmx{heap_mib}m"),
        format!("-javaagent:{}", jars.jamm.display()),
        format!("-Dcassandra.config={}", file_url(&plan.config_folder().join("cassandra.yaml"))),
        format!("-Dcassandra.storagedir={}", plan.folder.display()),
        format!("-Dcassandra.logdir={}", plan.log_folder().display()),
        format!("-Djava.io.tmpdir={}", plan.folder.join("tmp").display()),
        // Otherwise Cassandra closes its outputs, and with them the lock that shows that it is
        // still running.
        "-Dcassandra-foreground=yes".to_owned(),
    ]);
    arguments.extend(jmx(plan));
    let own = plan.address.to_string();
    arguments.extend(settings.jvm_options.iter().map(|option| option.replace(ADDRESS, &own)));
    arguments.extend(["-cp".to_owned(), class_path(&plan.config_folder(), jars), NODE.to_owned()]);
    arguments
}

/// Java's arguments for Cassandra's `nodetool`, which asks a node. `config` has its `logback.xml`,
/// and `own` is a folder for its own files.
pub(crate) fn nodetool(jmx: SocketAddr, command: &[&str], [config, own]: [&Path; 2], jars: &Jars) -> Vec<String> {
    let mut arguments = modules();
    let target =
        ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &class_path(config, jars), NODETOOL];
    let node = ["-h".to_owned(), jmx.ip().to_string(), "-p".to_owned(), jmx.port().to_string()];
    // It finds `logback.xml` too. It must not write into the node's own log, nor into the current
    // folder.
    arguments.push(format!("-Dcassandra.logdir={}", own.display()));
    arguments.extend(target.map(str::to_owned).into_iter().chain(node));
    arguments.extend(command.iter().map(|&word| word.to_owned()));
    arguments
}

/// JMX on the node's own address. Cassandra's own option for it would bind the loopback address
/// that all nodes share.
fn jmx(plan: &NodePlan) -> Vec<String> {
    let settings = [
        ("host", plan.address.to_string()),
        ("port", plan.ports.jmx.to_string()),
        ("rmi.port", plan.ports.jmx.to_string()),
        ("authenticate", "false".to_owned()),
        ("ssl", "false".to_owned()),
    ];
    let settings = settings.map(|(name, value)| format!("-Dcom.sun.management.jmxremote.{name}={value}"));
    settings.into_iter().chain([format!("-Djava.rmi.server.hostname={}", plan.address)]).collect()
}

fn modules() -> Vec<String> {
    let to_all = |option: &str, module: &str| format!("{option}={module}=ALL-UNNAMED");
    let exports = EXPORTS.iter().map(|module| to_all("--add-exports", module));
    exports.chain(OPENS.iter().map(|module| to_all("--add-opens", module))).collect()
}

/// The folder of the configuration comes first: `logback.xml` and `cassandra-rackdc.properties` are
/// found along the class path.
fn class_path(config: &Path, jars: &Jars) -> String {
    format!("{}:{}/*", config.display(), jars.folder.display())
}

fn file_url(path: &Path) -> String {
    format!("file://{}", path.display())
}
