//! Policies in the report: they are not applied, because access is granted by tokens here.

use preservation::dspace::{Kind, Manifest, Policy};
use serde_json::{Value, json};

use super::super::report::{Report, What};

/// Reports the policies of an object and its files, which have these names.
pub(super) fn note(report: &Report, path: &str, manifest: &Manifest, names: &[String]) {
    // DSpace writes none for a site.
    if manifest.kind != Kind::Site && !manifest.has_policies() {
        report.resource(What::Unstated, path, "its mets.xml has no policies: grant access to it by tokens");
    }
    note_of(report, path, manifest.policies.as_deref(), None);
    for bundle in &manifest.bundles {
        note_of(report, path, bundle.policies.as_deref(), Some(&bundle.name));
    }
    for (bitstream, name) in manifest.bitstreams.iter().zip(names) {
        note_of(report, &format!("{path}/{name}"), bitstream.policies.as_deref(), None);
    }
}

fn note_of(report: &Report, path: &str, policies: Option<&[Policy]>, bundle: Option<&str>) {
    let Some(policies) = policies else { return };
    // What everyone may read, and nothing more, needs no line. Without any policy only
    // administrators may read.
    if !policies.is_empty() && policies.iter().all(Policy::is_public_reading) {
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
