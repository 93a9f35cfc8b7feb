//! Policies in the report: they are not applied, because access is granted by tokens here.

use preservation::dspace::{Manifest, Policy};
use serde_json::{Value, json};

use super::super::report::{Report, What};

/// Reports the policies of an object and its files, which have these names.
pub(super) fn note(report: &Report, path: &str, manifest: &Manifest, names: &[String]) {
    note_of(report, path, &manifest.policies, None);
    for bundle in &manifest.bundles {
        note_of(report, path, &bundle.policies, Some(&bundle.name));
    }
    for (bitstream, name) in manifest.bitstreams.iter().zip(names) {
        note_of(report, &format!("{path}/{name}"), &bitstream.policies, None);
    }
}

fn note_of(report: &Report, path: &str, policies: &[Policy], bundle: Option<&str>) {
    // What everyone may read, and nothing more, needs no line.
    if policies.iter().all(Policy::is_public_reading) {
        return;
    }
    let more = json!({"bundle": bundle, "policies": policies.iter().map(written).collect::<Vec<_>>()});
    match policies.iter().any(Policy::is_public_reading) {
        true => report.more(What::Policy, path, "they are not applied: access is granted by tokens here", more),
        false => report.more(What::Restricted, path, "not everyone could read it: grant access to it by tokens", more),
    }
}

fn written(policy: &Policy) -> Value {
    let Policy { class, who, is_in_effect, from, until, permits } = policy;
    json!({"class": class, "who": who, "in_effect": is_in_effect, "from": from, "until": until, "permits": permits})
}
