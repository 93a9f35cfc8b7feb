//! A report of tests in JUnit's form, as build servers read it: the verdict and each step is a test.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::record::RunRecord;
use crate::results::{Judgement, Summary, Tally, Verdict};

/// A text with signs that XML can have (XML 1.0, section 2.2). What a command has printed may have others,
/// and no build server could read the file.
fn readable(text: &str) -> String {
    let is_of_xml = |sign: char| matches!(sign, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    text.chars().map(|sign| if is_of_xml(sign) { sign } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// The report of a run.
///
/// # Errors
/// None in practice: it is written to memory.
pub fn report(record: &RunRecord, judgement: &Judgement, summary: &Summary) -> io::Result<Vec<u8>> {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    // A run that holds has failures only where its plan tolerates them.
    let is_step_failed = |tally: &Tally| tally.done < tally.due && judgement.verdict != Verdict::Held;
    let failed_steps = summary.steps.iter().filter(|step| is_step_failed(&step.tally)).count();
    let is_judged = judgement.verdict != Verdict::Void;
    let failures = failed_steps + usize::from(is_judged && judgement.verdict != Verdict::Held);
    let duration = format!("{:.3}", summary.duration_s);
    xml.create_element("testsuite")
        .with_attributes([
            ("name", record.id.as_str()),
            ("tests", (summary.steps.len() + 1).to_string().as_str()),
            ("failures", failures.to_string().as_str()),
            // A void run has judged nothing: it is an error of the test and no failure of the candidate.
            ("errors", usize::from(!is_judged).to_string().as_str()),
            ("time", duration.as_str()),
            ("timestamp", record.started_at.strftime("%Y-%m-%dT%H:%M:%S").to_string().as_str()),
        ])
        .write_inner_content(|xml| {
            let verdict = xml.create_element("testcase").with_attributes([
                ("classname", readable(&record.candidate.program.name).as_str()),
                ("name", "holds the load"),
                ("time", duration.as_str()),
            ]);
            let kind = if is_judged { "failure" } else { "error" };
            match judgement.verdict {
                Verdict::Held => verdict.write_empty()?,
                _ => verdict.write_inner_content(|xml| {
                    let message = format!("{:?}", judgement.verdict).to_lowercase();
                    let reasons = readable(&judgement.reasons.join("\n"));
                    let element = xml.create_element(kind).with_attribute(("message", message.as_str()));
                    element.write_text_content(BytesText::new(&reasons))?;
                    Ok(())
                })?,
            };
            for step in &summary.steps {
                let tally = &step.tally;
                let time = format!("{:.6}", tally.response.mean_ms / 1e3);
                let case = xml.create_element("testcase").with_attributes([
                    ("classname", readable(&step.scenario).as_str()),
                    ("name", readable(&step.step).as_str()),
                    ("time", time.as_str()),
                ]);
                if !is_step_failed(tally) {
                    case.write_empty()?;
                    continue;
                }
                let message = format!("{} of {} requests were not done", tally.due - tally.done, tally.due);
                case.write_inner_content(|xml| {
                    xml.create_element("failure").with_attribute(("message", message.as_str())).write_empty()?;
                    Ok(())
                })?;
            }
            Ok(())
        })?;
    Ok(xml.into_inner())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::record::{CandidateRecord, FORMAT, Program};
    use crate::results::StepTally;

    fn record() -> RunRecord {
        RunRecord {
            format: FORMAT,
            id: "2026-01-01T000000Z-x".to_owned(),
            who: String::new(),
            started_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            ended_at: "2026-01-01T00:01:00Z".parse().unwrap(),
            testbed: Program::default(),
            candidate: CandidateRecord::default(),
            inputs: Vec::new(),
            seed: 1,
            workers: Vec::new(),
            machines: Vec::new(),
            preparation: String::new(),
            missing: Vec::new(),
            beside: crate::beside::Beside::default(),
        }
    }

    fn reported(verdict: Verdict, reason: &str) -> String {
        let tally = |done| Tally { due: 10, done, ..Tally::default() };
        let step = |step: &str, done| StepTally { scenario: "s".to_owned(), step: step.to_owned(), tally: tally(done) };
        let summary = Summary { steps: vec![step("one", 10), step("two", 7)], ..Summary::default() };
        let judgement = Judgement { verdict, reasons: vec![reason.to_owned()] };
        String::from_utf8(report(&record(), &judgement, &summary).unwrap()).unwrap()
    }

    #[test]
    fn a_verdict_is_a_failure_and_a_void_run_an_error() {
        let failed = reported(Verdict::Failed, "a < b & \"c\"");
        assert!(failed.contains("tests=\"3\" failures=\"2\" errors=\"0\""), "{failed}");
        assert!(failed.contains("<failure message=\"failed\">a &lt; b &amp;"), "{failed}");
        assert!(failed.contains("<failure message=\"3 of 10 requests were not done\"/>"), "{failed}");
        let void = reported(Verdict::Void, "late");
        assert!(void.contains("failures=\"1\" errors=\"1\"") && void.contains("<error message=\"void\">"), "{void}");
        assert!(reported(Verdict::Held, "").contains("failures=\"0\" errors=\"0\""), "what failed is tolerated");
    }

    #[test]
    fn signs_that_no_file_of_xml_may_have_are_replaced() {
        let void = reported(Verdict::Void, "it says: \u{1b}[31mno\u{0}\u{ffff}\tnode\nü\u{1f600}");
        assert!(void.contains("it says: \u{fffd}[31mno\u{fffd}\u{fffd}\tnode\nü\u{1f600}"), "{void}");
    }
}
