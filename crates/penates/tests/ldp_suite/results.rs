//! The report of TestNG (`testng-results.xml`).

use serde::Deserialize;

use crate::judge::{Level, Outcome, Status};

/// Tests that a person must do.
const BY_HAND: &str = "org.w3.ldp.testsuite.exception.SkipNotTestableException";

/// The contents of a report.
#[derive(Debug)]
pub struct Results {
    /// Each test.
    pub outcomes: Vec<Outcome>,
    /// Failed set-ups, with the reasons.
    pub broken_setups: Vec<String>,
}

impl Results {
    /// Parses a report.
    pub fn parse(xml: &str) -> Self {
        let report: Report = quick_xml::de::from_str(xml).unwrap();
        let (mut outcomes, mut broken_setups) = (Vec::new(), Vec::new());
        for suite in report.suite {
            let groups = suite.groups.unwrap_or_default().group;
            let methods = suite.test.into_iter().flat_map(|test| test.class).flat_map(|class| class.methods);
            for method in methods {
                if method.is_config {
                    if method.status == "FAIL" {
                        broken_setups.push(format!("{}: {}", method.name, method.message()));
                    }
                    continue;
                }
                let status = match method.status.as_str() {
                    "PASS" => Status::Passed,
                    "SKIP" if method.exception_class() == Some(BY_HAND) => Status::ByHand,
                    "SKIP" => Status::Skipped(method.message()),
                    _ => Status::Failed(method.message()),
                };
                let class = method.class();
                let level = Level::ALL.into_iter().find(|level| {
                    let in_group = |group: &&Group| group.name == level.name();
                    groups.iter().filter(in_group).any(|group| group.holds(&method.name, &class))
                });
                outcomes.push(Outcome { test: format!("{class}.{}", method.name), level, status });
            }
        }
        Self { outcomes, broken_setups }
    }
}

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    suite: Vec<Suite>,
}

#[derive(Deserialize)]
struct Suite {
    groups: Option<Groups>,
    #[serde(default)]
    test: Vec<Test>,
}

#[derive(Default, Deserialize)]
struct Groups {
    #[serde(default)]
    group: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(rename = "@name")]
    name: String,
    #[serde(default)]
    method: Vec<GroupMethod>,
}

impl Group {
    fn holds(&self, name: &str, class: &str) -> bool {
        self.method.iter().any(|method| method.name == name && class_of(&method.signature) == class)
    }
}

#[derive(Deserialize)]
struct GroupMethod {
    #[serde(rename = "@name")]
    name: String,
    #[serde(rename = "@signature")]
    signature: String,
}

#[derive(Deserialize)]
struct Test {
    #[serde(default)]
    class: Vec<Class>,
}

#[derive(Deserialize)]
struct Class {
    #[serde(rename = "test-method", default)]
    methods: Vec<Method>,
}

#[derive(Deserialize)]
struct Method {
    #[serde(rename = "@name")]
    name: String,
    #[serde(rename = "@signature")]
    signature: String,
    #[serde(rename = "@status")]
    status: String,
    #[serde(rename = "@is-config", default)]
    is_config: bool,
    exception: Option<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "@class")]
    class: String,
    message: Option<String>,
}

impl Method {
    /// The class that ran the test (it may inherit it).
    fn class(&self) -> String {
        class_of(&self.signature)
    }

    fn exception_class(&self) -> Option<&str> {
        self.exception.as_ref().map(|exception| exception.class.as_str())
    }

    /// Why it failed, in one line.
    fn message(&self) -> String {
        match &self.exception {
            None => "a dependency failed".to_owned(),
            Some(Exception { class, message: None }) => class.clone(),
            Some(Exception { message: Some(message), .. }) => message.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}

/// The simple name of the class in `name()[pri:0, instance:org.example.Class@1a2b3c]`.
fn class_of(signature: &str) -> String {
    let instance = signature.split_once("instance:").map_or(signature, |(_, instance)| instance);
    let class = instance.split('@').next().unwrap_or(instance);
    class.rsplit('.').next().unwrap_or(class).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testng-results total="4" passed="1" failed="1" skipped="2">
  <reporter-output> </reporter-output>
  <suite started-at="x" name="basic">
    <groups>
      <group name="MUST">
        <method signature="CommonTest.a()[pri:0, instance:org.w3.BasicContainerTest@1]" name="a" class="org.w3.CommonTest"/>
        <method signature="CommonTest.b()[pri:0, instance:org.w3.BasicContainerTest@1]" name="b" class="org.w3.CommonTest"/>
      </group> <!-- MUST -->
      <group name="MANUAL">
        <method signature="CommonTest.c()[pri:0, instance:org.w3.BasicContainerTest@1]" name="c" class="org.w3.CommonTest"/>
      </group>
      <group name="SHOULD">
        <method signature="CommonTest.a()[pri:0, instance:org.w3.MemberResourceTest@2]" name="a" class="org.w3.CommonTest"/>
        <method signature="CommonTest.c()[pri:0, instance:org.w3.BasicContainerTest@1]" name="c" class="org.w3.CommonTest"/>
      </group>
    </groups>
    <test name="basic">
      <class name="org.w3.CommonTest">
        <test-method status="FAIL" signature="tearDown()[pri:0, instance:org.w3.MemberResourceTest@2]" name="tearDown" is-config="true">
          <exception class="java.lang.IllegalArgumentException"><message><![CDATA[path cannot be null]]></message></exception>
        </test-method>
        <test-method status="PASS" signature="a()[pri:0, instance:org.w3.BasicContainerTest@1]" name="a"> </test-method>
        <test-method status="FAIL" signature="b()[pri:0, instance:org.w3.BasicContainerTest@1]" name="b">
          <exception class="java.lang.AssertionError">
            <message>
              <![CDATA[1 expectation failed.
Expected <204>]]>
            </message>
            <full-stacktrace> <![CDATA[at x]]> </full-stacktrace>
          </exception>
        </test-method>
      </class>
      <class name="org.w3.OtherTest">
        <test-method status="SKIP" signature="a()[pri:0, instance:org.w3.MemberResourceTest@2]" name="a"> </test-method>
        <test-method status="SKIP" signature="c()[pri:0, instance:org.w3.BasicContainerTest@1]" name="c">
          <exception class="org.w3.ldp.testsuite.exception.SkipNotTestableException"><message><![CDATA[by hand]]></message></exception>
        </test-method>
      </class>
    </test>
  </suite>
</testng-results>"#;

    #[test]
    fn a_report_is_read_with_the_class_that_ran_each_test_and_its_level() {
        let results = Results::parse(REPORT);
        assert_eq!(results.broken_setups, ["tearDown: path cannot be null"]);
        let outcome = |test: &str, level, status| Outcome { test: test.to_owned(), level: Some(level), status };
        assert_eq!(
            results.outcomes,
            [
                outcome("BasicContainerTest.a", Level::Must, Status::Passed),
                outcome(
                    "BasicContainerTest.b",
                    Level::Must,
                    Status::Failed("1 expectation failed. Expected <204>".to_owned())
                ),
                outcome("MemberResourceTest.a", Level::Should, Status::Skipped("a dependency failed".to_owned())),
                outcome("BasicContainerTest.c", Level::Should, Status::ByHand),
            ]
        );
    }
}
