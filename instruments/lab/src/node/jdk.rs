//! The Javas among which a plan chooses: the values of the factor `jdk`.

use std::path::{Path, PathBuf};

use cluster::{ClusterError, Java};

use crate::catalogue;
use crate::plan::Plan;

/// A Java that a plan names.
#[derive(Debug)]
pub(super) struct Jdk {
    /// The value of the factor.
    value: String,
    /// Its program, with links resolved, as a process has it.
    program: PathBuf,
    /// Its build, if it reports one.
    build: Option<String>,
}

/// The Javas that a plan names. Each is asked for its version, so the call blocks.
///
/// # Errors
/// One is missing, nodes do not run on it, or it is there twice: under two names, or as the Java that
/// is found where the plan names none.
pub(super) fn of_plan(plan: &Plan) -> Result<Vec<Jdk>, ClusterError> {
    // If there is none, a node says so when it starts.
    beside(plan, || Java::find().ok())
}

/// The same, beside the Java that is found.
fn beside(plan: &Plan, found: impl FnOnce() -> Option<Java>) -> Result<Vec<Jdk>, ClusterError> {
    let Some(factor) = plan.factor(catalogue::JDK) else { return Ok(Vec::new()) };
    let resolved = |java: Java| java.program.canonicalize().unwrap_or(java.program);
    let usual = if factor.default.is_none() { found().map(resolved) } else { None };
    let mut all: Vec<Jdk> = Vec::new();
    for value in factor.values.iter().chain(&factor.default) {
        let java = Java::in_home(&Java::home_named(value))?;
        let build = java.build();
        let program = resolved(java);
        if usual.as_ref() == Some(&program) {
            let (name, program) = (catalogue::JDK, program.display());
            let what = "that is what nodes run on by themselves: name another one, or say it as the default";
            return Err(ClusterError::BadSpec(format!("{name}: {value} is {program}, and {what}")));
        }
        if let Some(Jdk { value: other, .. }) = all.iter().find(|other| other.program == program) {
            let (name, program) = (catalogue::JDK, program.display());
            return Err(ClusterError::BadSpec(format!("{name}: {other} and {value} are both {program}; name it once")));
        }
        all.push(Jdk { value: value.clone(), program, build });
    }
    Ok(all)
}

/// The Java of a process by its program: as the plan names it, or else its home.
pub(super) fn named(all: &[Jdk], program: &Path) -> String {
    match all.iter().find(|jdk| jdk.program == program) {
        Some(jdk) => jdk.value.clone(),
        None => program.parent().and_then(Path::parent).unwrap_or(program).display().to_string(),
    }
}

/// Their builds, as facts of a study, which does not go on with others.
pub(super) fn facts(all: &[Jdk]) -> impl Iterator<Item = (String, String)> {
    all.iter().filter_map(|jdk| Some((format!("{} {}", catalogue::JDK, jdk.value), jdk.build.clone()?)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::Command;

    use super::*;

    /// A home whose Java reports a version. A shell writes that program: this process could still hold
    /// it open.
    fn home(folder: &Path, version: &str) -> String {
        let home = folder.join(version).display().to_string();
        let script = format!(
            "#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n\
             echo 'OpenJDK Runtime Environment (build {version})' >&2\n"
        );
        let mut write = Command::new("sh");
        write.args(["-c", r#"mkdir -p "$2/bin" && printf %s "$1" > "$2/bin/java" && chmod +x "$2/bin/java""#, "sh"]);
        assert!(write.args([&script, &home]).status().unwrap().success());
        home
    }

    fn plan(values: &[&str]) -> Plan {
        let head = r#"
            name = "x"
            design = { kind = "one-at-a-time" }
            workloads = [{ name = "w", mix = { write = 1 }, rate = 10, duration = "1s" }]
            [[factors]]
            name = "jdk"
        "#;
        Plan::parse(&format!("{head}values = {values:?}")).unwrap()
    }

    #[test]
    fn the_java_that_runs_is_named_as_the_plan_names_it_and_any_other_by_its_home() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (home(folder.path(), "11.0.1"), home(folder.path(), "17.0.1"));
        let link = folder.path().join("usual");
        std::os::unix::fs::symlink(&new, &link).unwrap();
        let link = link.to_str().unwrap();
        let all = of_plan(&plan(&[&old, link])).unwrap();
        let program = |home: &str| Path::new(home).join("bin/java").canonicalize().unwrap();
        assert_eq!(named(&all, &program(&new)), link, "a process has no link");
        assert_eq!(named(&all, &program(&old)), old);
        assert_eq!(named(&all, Path::new("/opt/other/bin/java")), "/opt/other");
        let builds: Vec<_> = facts(&all).collect();
        let expected = |home: &str, version: &str| {
            (format!("jdk {home}"), format!("OpenJDK Runtime Environment (build {version})"))
        };
        assert_eq!(builds, [expected(&old, "11.0.1"), expected(link, "17.0.1")]);
        let twice = of_plan(&plan(&[&new, link])).unwrap_err().to_string();
        assert!(twice.starts_with("jdk: ") && twice.contains("name it once"), "{twice}");
        // The default is the one that is found.
        let found = || Some(Java { program: program(&new) });
        let same = beside(&plan(&[&old, link]), found).unwrap_err().to_string();
        assert!(same.contains(link) && same.contains("nodes run on by themselves"), "{same}");
        let mut said = plan(&[&old]);
        said.factors[0].default = Some(link.to_owned());
        assert_eq!(beside(&said, found).unwrap().len(), 2, "the plan says it");
    }

    #[test]
    fn a_java_that_is_missing_or_runs_no_node_is_refused_before_a_node_starts() {
        let folder = tempfile::tempdir().unwrap();
        let newer = home(folder.path(), "25.0.3");
        let refused = |home: &str| of_plan(&plan(&[home])).unwrap_err().to_string();
        assert!(refused(&newer).contains("is Java 25"), "{}", refused(&newer));
        let empty = folder.path().to_str().unwrap();
        assert!(refused(empty).contains("has no bin/java"), "{}", refused(empty));
        assert!(refused("no-such-java").contains("/usr/lib/jvm/no-such-java has no bin/java"));
    }
}
