//! What test programs print of tests that fail. A log of thousands of lines is often shown only by
//! its end, so this is printed once more there.

use std::collections::VecDeque;

/// Lines that are kept of what one test printed when it failed.
const LINES_OF_TEST: usize = 30;

/// Lines that are kept of all tests. The latest ones are kept, which name the programs that failed.
const LINES: usize = 300;

/// What is kept of the output of `cargo test`, which is passed in line by line.
#[derive(Debug, Default)]
pub struct Failures {
    /// The line that names the test program.
    program: String,
    place: Place,
    kept: VecDeque<String>,
}

/// Where the last line was.
#[derive(Debug, Default)]
enum Place {
    /// Outside of what failed tests printed.
    #[default]
    Outside,
    /// In the list of failed tests and their output.
    Listed,
    /// In the message with which a test ended, and how many more lines of it are kept.
    Message(usize),
}

impl Failures {
    /// Looks at the next line of the output.
    pub fn read(&mut self, line: &str) {
        let words = line.trim_start();
        if words.starts_with("Running ") || words.starts_with("Doc-tests ") {
            self.place = Place::Outside;
            words.clone_into(&mut self.program);
        } else if line == "failures:" {
            if matches!(self.place, Place::Outside) {
                self.keep(self.program.clone());
            }
            self.place = Place::Listed;
        } else if line.starts_with("test result:") {
            self.place = Place::Outside;
        } else {
            self.read_within(line);
        }
    }

    fn read_within(&mut self, line: &str) {
        let begins = line.contains("panicked at ") || line.starts_with("Error: ");
        match self.place {
            // Of programs that a limit kills, and Cargo's list of the programs that failed.
            Place::Outside => {
                if ["timeout: ", "error: ", "error[", "    `-p "].iter().any(|start| line.starts_with(start)) {
                    self.keep(line.to_owned());
                }
            }
            // The name of a test, above its output or in the list at the end.
            Place::Listed if line.starts_with("---- ") || line.starts_with("    ") => self.keep(line.to_owned()),
            Place::Listed | Place::Message(_) if begins => {
                self.place = Place::Message(LINES_OF_TEST);
                self.keep(line.to_owned());
            }
            Place::Listed => {}
            Place::Message(_) if line.starts_with("---- ") => {
                self.place = Place::Listed;
                self.keep(line.to_owned());
            }
            Place::Message(0) => self.place = Place::Listed,
            Place::Message(_) if line == "stack backtrace:" => self.place = Place::Listed,
            Place::Message(left) => {
                self.place = Place::Message(left - 1);
                self.keep(line.to_owned());
            }
        }
    }

    fn keep(&mut self, line: String) {
        if self.kept.len() == LINES {
            self.kept.pop_front();
        }
        self.kept.push_back(line);
    }

    /// What failed, if something did.
    pub fn summary(&self) -> Option<String> {
        let lines = self.kept.iter().map(String::as_str).collect::<Vec<_>>();
        (!lines.is_empty()).then(|| format!("What failed, in short:\n{}", lines.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Failures {
        let mut failures = Failures::default();
        text.lines().for_each(|line| failures.read(line));
        failures
    }

    #[test]
    fn a_run_without_a_failure_has_no_summary() {
        let text = "     Running tests/all/main.rs (target/debug/deps/all-1)\n\nrunning 1 test\n\
                    test holds ... ok\n\ntest result: ok. 1 passed; 0 failed\n";
        assert_eq!(read(text).summary(), None);
    }

    #[test]
    fn a_summary_has_the_program_the_message_of_each_test_and_cargos_list() {
        let text = "     Running tests/all/main.rs (target/debug/deps/all-1)\n\nrunning 2 tests\n\
                    test panics ... FAILED\ntest errs ... FAILED\n\nfailures:\n\n\
                    ---- panics stdout ----\nmuch that it printed\n\n\
                    thread 'panics' (1) panicked at tests/all/main.rs:1:2:\nassertion failed: a == b\n  left: 1\n\
                    stack backtrace:\n   0: std::panicking\n\n---- errs stdout ----\nError: no such file\n\n\
                    failures:\n    errs\n    panics\n\ntest result: FAILED. 0 passed; 2 failed\n\n\
                    error: test failed, to rerun pass `-p one --test all`\n\
                    error: 1 target failed:\n    `-p one --test all`\n";
        let summary = read(text).summary().unwrap_or_default();
        for kept in [
            "Running tests/all/main.rs",
            "---- panics stdout ----",
            "panicked at tests/all/main.rs:1:2:\nassertion failed: a == b\n  left: 1\n",
            "---- errs stdout ----\nError: no such file",
            "error: 1 target failed:\n    `-p one --test all`",
        ] {
            assert!(summary.contains(kept), "{kept}: {summary}");
        }
        assert!(!summary.contains("much that it printed") && !summary.contains("std::panicking"), "{summary}");
    }

    #[test]
    fn the_summary_of_many_failures_is_bounded_and_keeps_the_end() {
        let long = (0..1000).map(|line| format!("line {line}\n")).collect::<String>();
        let test = format!("---- fails stdout ----\nthread 'fails' panicked at a.rs:1:2:\n{long}");
        let text = format!("failures:\n{}test result: FAILED\nerror: 1 target failed:\n", test.repeat(100));
        let summary = read(&text).summary().unwrap_or_default();
        assert_eq!(summary.lines().count(), LINES + 1);
        assert!(summary.ends_with("error: 1 target failed:"), "{summary}");
        assert!(summary.contains("line 29\n") && !summary.contains("line 30\n"), "{summary}");
    }
}
