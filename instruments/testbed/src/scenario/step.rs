//! A step that is ready to be sent.

use std::time::Duration;

use bytes::Bytes;

use super::Protocol;
use super::check::{Answer, Check, Source};
use super::feed::Feed;
use super::request::{Outgoing, RequestTemplate};
use super::spec::StepSpec;
use super::template::{Names, Template};
use crate::plan::DURATION_MAX;

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// How long the user waits before it.
    pub pause: Duration,
    /// How often it is sent.
    pub repeat: u32,
    /// For so long it is sent again while its check fails.
    pub again_within: Option<Duration>,
    /// Whether the body of its answer is needed, and not only its length.
    pub keeps_body: bool,
    /// The graph that the body of its answer must be.
    pub(super) graph: Option<Template>,
    request: RequestTemplate,
    check: Check,
    save: Vec<(usize, Source)>,
}

impl Step {
    /// Makes a step ready. Names that it saves are known to later steps only.
    pub(super) fn new(spec: &StepSpec, feeds: &[(String, Feed)], names: &mut Names) -> Result<Self, String> {
        if spec.repeat == 0 {
            return Err("repeat: at least 1".to_owned());
        }
        if spec.pause > DURATION_MAX {
            return Err("pause: a year at most".to_owned());
        }
        if spec.again_within.is_some_and(|within| within > DURATION_MAX) {
            return Err("again_within: a year at most".to_owned());
        }
        let request = RequestTemplate::new(spec, feeds, names)?;
        let protocol = request.protocol();
        let check = Check::new(&spec.check, protocol, names)?;
        let save = spec.save.iter().map(|(name, source)| Ok((names.add(name), Source::new(source, protocol)?)));
        let save = save.collect::<Result<Vec<_>, String>>()?;
        let keeps_body = check.needs_body() || save.iter().any(|(_, source)| source.needs_body());
        let (name, pause, repeat, again_within) = (spec.name.clone(), spec.pause, spec.repeat, spec.again_within);
        Ok(Self { name, pause, repeat, again_within, keeps_body, graph: None, request, check, save })
    }

    /// The protocol that it speaks.
    pub fn protocol(&self) -> Protocol {
        self.request.protocol()
    }

    pub(super) fn outgoing<'a>(&'a self, values: &'a [String], bodies: &[Option<Bytes>]) -> Outgoing<'a> {
        self.request.filled(values, bodies)
    }

    /// Whether its request met a conflict with another user, which the step allows.
    pub(crate) fn met_conflict(&self, answer: &Answer) -> bool {
        self.check.is_conflict(answer)
    }

    pub(super) fn take(&self, answer: &Answer, values: &mut [String]) -> Result<(), String> {
        self.check.check(answer, values)?;
        for (number, source) in &self.save {
            let found = source.find(answer).ok_or_else(|| format!("check: nothing to save as value {number}"))?;
            values[*number] = found;
        }
        Ok(())
    }
}
