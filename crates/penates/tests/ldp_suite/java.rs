//! The jars of the suite, fetched once, and how they are run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::kinds::Kind;
use crate::results::Results;

/// The folder of the project's own Java sources and of the list of jars.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ldp_suite/java");

/// The suite, ready to run.
pub struct Suite {
    /// The jars, kept from run to run.
    jars: PathBuf,
    /// Everything else, for this run.
    folder: TempDir,
    /// Options of the virtual machine.
    options: Vec<String>,
}

/// The target of a run of the suite.
pub struct TestedResource<'a> {
    pub kind: Kind,
    /// Address of a container of that kind.
    pub container: &'a str,
    /// Address of a resource that was created as a plain RDF source.
    pub plain_source: &'a str,
    /// A property that only the server may change.
    pub read_only_property: &'a str,
}

impl Suite {
    /// Fetches and compiles what is missing. The error says what this machine lacks.
    pub fn provide() -> Result<Self, String> {
        for program in ["java", "javac", "mvn"] {
            if cluster::program(program).is_none() {
                return Err(format!("{program} is not installed"));
            }
        }
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ldp-testsuite-0.1.1");
        let jars = cache.join("jars");
        fs::create_dir_all(&cache).unwrap();
        if !jars.is_dir() {
            fetch_jars(&cache, &jars)?;
        }
        let folder = tempfile::tempdir_in(&cache).unwrap();
        let suite = Self { jars, folder, options: open_modules() };
        suite.compile();
        Ok(suite)
    }

    fn compile(&self) {
        let sources =
            ["MemberResourceSuite.java", "NonRdfSourceSuite.java"].map(|source| Path::new(SOURCES).join(source));
        let mut command = Command::new("javac");
        command.arg("-cp").arg(self.jars.join("*")).arg("-d").arg(self.classes()).args(sources);
        run(&mut command).unwrap();
    }

    fn classes(&self) -> PathBuf {
        self.folder.path().join("classes")
    }

    fn class_path(&self) -> String {
        format!("{}:{}", self.classes().display(), self.jars.join("*").display())
    }

    /// Runs one part of the suite.
    pub fn run(&self, target: &TestedResource<'_>) -> Results {
        let folder = self.folder.path().join(format!("{:?}", target.kind));
        let report = folder.join("report");
        fs::create_dir_all(&report).unwrap();
        let suite_file = folder.join("suite.xml");
        fs::write(&suite_file, suite_xml(target, &folder)).unwrap();
        let mut command = Command::new("java");
        command.args(&self.options).arg("-cp").arg(self.class_path()).args([
            "org.testng.TestNG",
            "-usedefaultlisteners",
            "false",
        ]);
        command.args(["-listener", "org.testng.reporters.XMLReporter"]).arg("-d").arg(&report).arg(&suite_file);
        // The exit code only says whether all tests passed, and so does the report.
        let output = command.current_dir(&folder).stdin(Stdio::null()).output().unwrap();
        let xml = fs::read_to_string(report.join("testng-results.xml"));
        let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        Results::parse(&xml.unwrap_or_else(|error| panic!("the suite left no report ({error}): {}", said())))
    }
}

/// All of the jars or none: they are fetched into another folder and then moved.
fn fetch_jars(cache: &Path, jars: &Path) -> Result<(), String> {
    let fetched = tempfile::tempdir_in(cache).unwrap();
    let mut command = Command::new("mvn");
    command.args(["--quiet", "--batch-mode", "--file"]).arg(Path::new(SOURCES).join("pom.xml"));
    command.arg("org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies");
    command.arg(format!("-DoutputDirectory={}", fetched.path().display()));
    run(&mut command).map_err(|error| format!("Maven could not fetch the suite: {error}"))?;
    if fs::rename(fetched.path(), jars).is_err() {
        // Another run was faster.
        assert!(jars.is_dir());
    }
    Ok(())
}

/// The suite's old libraries access Java's own classes, which must be allowed explicitly.
fn open_modules() -> Vec<String> {
    let described = run(Command::new("java").args(["--describe-module", "java.base"])).unwrap();
    let package = |line: &str| {
        let mut words = line.split_whitespace();
        match words.next()? {
            "exports" | "contains" => words.next().map(str::to_owned),
            "qualified" => words.nth(1).map(str::to_owned),
            _ => None,
        }
    };
    let packages: Vec<_> = described.lines().filter_map(package).collect();
    assert!(packages.len() > 50, "{described}");
    packages.into_iter().map(|package| format!("--add-opens=java.base/{package}=ALL-UNNAMED")).collect()
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(said) } else { Err(said + &String::from_utf8_lossy(&output.stderr)) }
}

/// The configuration of TestNG, with the groups and parameters that the suite's own command line
/// would set.
fn suite_xml(target: &TestedResource<'_>, folder: &Path) -> String {
    let parameter = |name: &str, value: &str| format!("<parameter name=\"{name}\" value=\"{value}\"/>\n");
    let parameters = [
        parameter("output", &folder.display().to_string()),
        parameter(target.kind.container_parameter(), target.container),
        parameter("containerAsResource", target.plain_source),
        parameter("readOnlyProp", target.read_only_property),
    ];
    let groups = ["MUST", "SHOULD", "MAY", "ldpMember"].map(|group| format!("<include name=\"{group}\"/>"));
    let classes: String = target.kind.classes().iter().map(|class| format!("<class name=\"{class}\"/>")).collect();
    format!(
        "<!DOCTYPE suite SYSTEM \"http://testng.org/testng-1.0.dtd\">
<suite name=\"LDP\">
{}<listeners><listener class-name=\"org.w3.ldp.testsuite.transformer.MethodEnabler\"/></listeners>
<test name=\"LDP\"><groups><run>{}</run></groups><classes>{classes}</classes></test>
</suite>",
        parameters.concat(),
        groups.concat()
    )
}
