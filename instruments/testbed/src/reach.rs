//! How a candidate is reached: where it answers, whom connections trust, and which header fields all
//! requests have. Header fields are often secrets: records name where they come from, and nothing
//! prints them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::inputs::{Inputs, inside};
use crate::plan::{PlanError, invalid};
use crate::tls::Trust;

/// Variables of the environment that plans may name begin so: a plan of somebody else must not send
/// other secrets to an address that it names.
pub const VARIABLES: &str = "TESTBED_";
/// The most bytes of a file with a header field.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// What the protocol itself sets.
const OF_PROTOCOL: [HeaderName; 5] = [CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE];

/// Where the value of a header field comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FieldSource {
    /// It is this text, which is no secret.
    Text(String),
    /// A file beside the plan or in the folder of the candidate.
    File(String),
    /// A variable of the environment whose name begins with [`VARIABLES`].
    Variable(String),
}

/// Header fields by name.
pub type Fields = BTreeMap<String, FieldSource>;

/// A text that nothing prints.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// How a candidate is reached.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reach {
    /// Its addresses. Workers take them in turn.
    pub urls: Vec<String>,
    /// Header fields of all requests over HTTP.
    pub headers: Vec<(String, Secret)>,
    /// Whom connections over TLS trust.
    pub trust: Trust,
}

impl Reach {
    /// An address, without anything else.
    pub fn at(url: &str) -> Self {
        Self { urls: vec![url.to_owned()], ..Self::default() }
    }

    /// What the plan says about an address.
    ///
    /// # Errors
    /// [`PlanError`] names the header field or the file.
    pub fn of_plan(inputs: &Inputs, url: &str) -> Result<Self, PlanError> {
        let path = |name: &str| inside(&inputs.folder, name);
        let tls = &inputs.plan.connections.tls;
        let ca = tls.ca.as_deref().map(path).transpose()?.unwrap_or_default();
        Ok(Self {
            urls: vec![url.to_owned()],
            headers: values("plan: headers", &inputs.plan.headers, path)?,
            trust: tls.trust("plan: connections.tls", |_| ca)?,
        })
    }

    /// This, with what the plan says besides. What the candidate says itself comes first.
    ///
    /// # Errors
    /// [`PlanError`] names the header field or the file.
    pub fn with_plan(mut self, inputs: &Inputs) -> Result<Self, PlanError> {
        let of_plan = Self::of_plan(inputs, "")?;
        for (name, value) in of_plan.headers {
            if !self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
                self.headers.push((name, value));
            }
        }
        if self.trust == Trust::System {
            self.trust = of_plan.trust;
        }
        Ok(self)
    }

    /// The address that answers first.
    pub fn url(&self) -> &str {
        self.urls.first().map_or("", String::as_str)
    }

    /// The address of a worker.
    pub fn url_of(&self, worker: u32) -> &str {
        let index = worker as usize % self.urls.len().max(1);
        self.urls.get(index).map_or("", String::as_str)
    }

    /// The header fields, ready to be sent.
    ///
    /// # Errors
    /// A value has characters that no header field may have. The error does not show it.
    pub fn fields(&self) -> Result<Vec<(HeaderName, HeaderValue)>, PlanError> {
        let field = |(name, Secret(value)): &(String, Secret)| {
            let refuse = |message: &str| invalid(format!("headers: {name}"), message);
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refuse("no name of a header field"))?;
            let value = HeaderValue::from_str(value);
            let mut value = value.map_err(|_| refuse("its value has characters that no header field may have"))?;
            value.set_sensitive(true);
            Ok((name, value))
        };
        self.headers.iter().map(field).collect()
    }

    /// What it is, for the record: addresses besides the first, names of header fields, whom it trusts.
    pub fn facts(&self) -> Vec<(String, String)> {
        let further = self.urls.iter().skip(1).map(|url| ("further address".to_owned(), url.clone()));
        let headers = self.headers.iter().map(|(name, _)| (format!("header {name}"), "(hidden)".to_owned()));
        let is_secure = self.urls.iter().any(|url| url.starts_with("https:"));
        let trust = is_secure.then(|| ("TLS".to_owned(), self.trust.fact()));
        further.chain(headers).chain(trust).collect()
    }
}

/// The values of header fields.
pub(crate) fn values(
    place: &str,
    fields: &Fields,
    path: impl Fn(&str) -> Result<PathBuf, PlanError>,
) -> Result<Vec<(String, Secret)>, PlanError> {
    let value = |(name, source): (&String, &FieldSource)| {
        let refuse = |message: String| invalid(format!("{place}: {name}"), message);
        let known = HeaderName::from_bytes(name.as_bytes());
        let known = known.map_err(|_| refuse("no name of a header field".to_owned()))?;
        if OF_PROTOCOL.contains(&known) {
            return Err(refuse("the protocol sets it".to_owned()));
        }
        let value = match source {
            FieldSource::Text(text) => text.clone(),
            FieldSource::File(name) => {
                let file = path(name)?;
                let refuse = |message: String| refuse(format!("{name}: {message}"));
                let metadata = fs::metadata(&file).map_err(|error| refuse(error.to_string()))?;
                if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
                    return Err(refuse("a file of at most 64 KiB with the value".to_owned()));
                }
                fs::read_to_string(&file).map_err(|error| refuse(error.to_string()))?
            }
            FieldSource::Variable(variable) if !variable.starts_with(VARIABLES) => {
                return Err(refuse(format!("the name of a variable begins with {VARIABLES}")));
            }
            FieldSource::Variable(variable) => {
                std::env::var(variable).map_err(|_| refuse(format!("the variable {variable} is not set")))?
            }
        };
        Ok((name.clone(), Secret(value.trim().to_owned())))
    };
    fields.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plan::Plan;

    fn reach(headers: &str, tls: &str, folder: &std::path::Path) -> Result<Reach, PlanError> {
        let plan = format!(
            "name = \"x\"\nscenarios = [{{ scenario = \"get\" }}]\n\
             load = {{ shape = \"constant\", rate = 1, duration = \"1s\" }}\n\
             [headers]\n{headers}\n[connections]\ntls = {{ {tls} }}\n"
        );
        let inputs = Inputs::of_plan(Plan::parse(&plan).unwrap(), folder).unwrap();
        assert!(!format!("{inputs:?}{}", inputs.plan.to_toml()).contains("s3cret"));
        Reach::of_plan(&inputs, "https://127.0.0.1")
    }

    #[test]
    fn a_header_field_comes_from_a_file_and_nothing_shows_its_value() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("authorization"), "Basic s3cret\n").unwrap();
        let reach = reach("Authorization = { file = \"authorization\" }", "insecure = true", folder.path()).unwrap();
        let fields = reach.fields().unwrap();
        assert_eq!((fields[0].0.as_str(), fields[0].1.to_str().unwrap()), ("authorization", "Basic s3cret"));
        let shown = format!("{reach:?} {fields:?} {:?}", reach.facts());
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(reach.facts().contains(&("TLS".to_owned(), "the certificate is not checked".to_owned())));
    }

    #[test]
    fn a_plan_names_no_variable_or_file_that_is_not_meant_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |headers: &str, tls: &str| reach(headers, tls, folder.path()).unwrap_err().to_string();
        let error = refused("Authorization = { variable = \"HOME\" }", "");
        assert_eq!(error, "plan: headers: Authorization: the name of a variable begins with TESTBED_");
        assert!(refused("A = { variable = \"TESTBED_NOT_SET\" }", "").contains("TESTBED_NOT_SET is not set"));
        assert!(refused("A = { file = \"../a\" }", "").contains("below the folder"));
        assert!(refused("A = { file = \"none\" }", "").contains("none: "));
        assert!(refused("\"a b\" = { text = \"x\" }", "").contains("no name of a header field"));
        assert!(refused("Host = { text = \"x\" }", "").contains("the protocol sets it"));
        assert!(refused("", "ca = \"none.pem\"").contains("none.pem"));
        assert!(refused("", "ca = \"none.pem\", insecure = true").contains("either `ca` or `insecure`"));
        fs::write(folder.path().join("empty.pem"), "").unwrap();
        assert!(refused("", "ca = \"empty.pem\"").contains("no certificate"));
    }

    #[test]
    fn a_value_that_cannot_be_sent_is_refused_without_being_shown() {
        let reach = Reach { headers: vec![("A".to_owned(), Secret("s3cret\n".to_owned()))], ..Reach::default() };
        let error = reach.fields().unwrap_err().to_string();
        assert!(error.contains("headers: A") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn workers_take_the_addresses_in_turn() {
        let urls = ["http://a", "http://b"].map(str::to_owned).to_vec();
        let reach = Reach { urls, ..Reach::default() };
        assert_eq!([0, 1, 2].map(|worker| reach.url_of(worker)), ["http://a", "http://b", "http://a"]);
        assert_eq!(Reach::default().url_of(3), "");
    }
}
