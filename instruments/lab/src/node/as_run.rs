//! What a run ran with, kept beside its figures: the node's configuration, its command line, its table
//! and its jars.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use cluster::NodeId;
use serde_json::json;
use sha2::{Digest, Sha256};

/// The node's configuration, below its folder.
const YAML: &str = "conf/cassandra.yaml";

/// The name of a file of a run that each node has. That of the first one has no number.
pub(super) fn name(stem: &str, node: NodeId, extension: &str) -> String {
    match node {
        NodeId(1) => format!("{stem}.{extension}"),
        other => format!("{stem}-{other}.{extension}"),
    }
}

/// Writes `cassandra.yaml`, and `node.json` with the command line and the Java that runs it, into the
/// folder of a run.
pub(super) fn keep(
    run: &Path,
    node: NodeId,
    folder: &Path,
    command: &[String],
    java: &BTreeMap<String, String>,
) -> io::Result<()> {
    fs::copy(folder.join(YAML), run.join(name("cassandra", node, "yaml")))?;
    let kept = json!({"command": command, "java": java});
    fs::write(run.join(name("node", node, "json")), serde_json::to_vec_pretty(&kept)?)
}

/// Writes the statement that makes the table, `table.cql`.
pub(super) fn keep_table(run: &Path, table: &str) -> io::Result<()> {
    fs::write(run.join("table.cql"), table)
}

/// A digest over the names and contents of all jars of a folder.
pub(super) fn digest(jars: &Path) -> io::Result<String> {
    let mut paths: Vec<_> = fs::read_dir(jars)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jar"));
    paths.sort_unstable();
    let mut all = Sha256::new();
    for path in paths {
        all.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        all.update(Sha256::digest(fs::read(&path)?));
    }
    let digits: String = all.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{digits}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_run_keeps_the_nodes_file_its_command_line_and_its_java() {
        let (node, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(node.path().join("conf")).unwrap();
        fs::write(node.path().join(YAML), "{}").unwrap();
        let java = BTreeMap::from([("java.home".to_owned(), "/opt/jdk-17".to_owned())]);
        keep(run.path(), NodeId(2), node.path(), &["java".to_owned(), "-Xmx512m".to_owned()], &java).unwrap();
        assert_eq!(fs::read_to_string(run.path().join("cassandra-2.yaml")).unwrap(), "{}");
        let kept = fs::read(run.path().join("node-2.json")).unwrap();
        let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
        assert_eq!(kept, json!({"command": ["java", "-Xmx512m"], "java": {"java.home": "/opt/jdk-17"}}));
    }

    #[test]
    fn another_jar_or_another_name_is_another_digest_and_other_files_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("a.jar", "one");
        let first = digest(folder.path()).unwrap();
        write("contents.json", "{}");
        assert_eq!(digest(folder.path()).unwrap(), first);
        write("a.jar", "two");
        let second = digest(folder.path()).unwrap();
        fs::rename(folder.path().join("a.jar"), folder.path().join("b.jar")).unwrap();
        assert!(second != first && digest(folder.path()).unwrap() != second);
    }
}
