//! The report of a load: what could not be taken over, or became something else. Lines of JSON, and
//! counts for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use crate::exit::full_message;

/// What a line reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// An object that is not whole, or not readable. It is left out.
    Damaged,
    /// An object that Fedora did not write. It is left out.
    Foreign,
    /// A resource with a name that Penates cannot have. It is left out.
    Name,
    /// A resource of which not all versions were loaded.
    Failed,
    /// A resource that is not here as it is there.
    Differs,
    /// A version that has another time here.
    Time,
    /// An object that has changed since it was read.
    Changed,
    /// An ACL. It is kept as a file, and the line has its statements.
    Acl,
    /// An archival group.
    Group,
    /// A container that Fedora does not have, or that is left out. An empty one is in its place.
    Container,
    /// A resource with bytes that are stored elsewhere.
    Elsewhere,
    /// A deleted resource of which Fedora keeps no version.
    Tombstone,
    /// A deleted volume, in a store that keeps no versions of volumes. It is left out.
    Deleted,
    /// A state that Fedora had not made a version of. It became one.
    Unversioned,
    /// Statements that the server states itself. They are left out.
    Statements,
    /// Who created and changed a resource.
    People,
    /// An object that a package of DSpace names as in it, and that no package has.
    Missing,
    /// A bitstream of which no package has the bytes.
    Bytes,
    /// A file of a package that its METS does not name. It is left out.
    Unnamed,
    /// A resource that not everyone could read. The line has its policies.
    Restricted,
    /// An object whose package does not say who could read it.
    Unstated,
    /// Further policies of a resource. The line has them.
    Policy,
    /// A withdrawn item. It is loaded elsewhere.
    Withdrawn,
    /// An object in one that no package has.
    Parent,
    /// An object that is in another no longer, and has no package: it seems to be deleted.
    Gone,
    /// Groups and people.
    Roles,
    /// Fields that are shown to administrators only. They are in the METS alone.
    Hidden,
    /// A template for new items. It is in the METS alone.
    Template,
}

impl What {
    /// Whether something is missing that the load is for.
    fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Damaged
                | Self::Foreign
                | Self::Name
                | Self::Failed
                | Self::Differs
                | Self::Time
                | Self::Changed
                | Self::Missing
                | Self::Bytes
                | Self::Unnamed
        )
    }

    /// Whether it is about something that perhaps not everyone could read.
    fn is_restricted(self) -> bool {
        matches!(self, Self::Acl | Self::Restricted | Self::Unstated | Self::Withdrawn)
    }

    /// For people, behind a number.
    fn words(self) -> &'static str {
        match self {
            Self::Damaged => "damaged objects left out",
            Self::Foreign => "objects of other programs left out",
            Self::Name => "resources left out because of their names",
            Self::Failed => "resources of which not all versions are loaded",
            Self::Differs => "resources that are not here as they are there",
            Self::Time => "versions with another time than there",
            Self::Changed => "objects that have changed meanwhile: run the same command again",
            Self::Acl => "ACLs not applied",
            Self::Group => "archival groups whose contents have versions of their own",
            Self::Container => "containers that are empty because there is no resource for them",
            Self::Elsewhere => "resources with bytes stored elsewhere, which need ldp.external",
            Self::Tombstone => "deleted resources without any version left out",
            Self::Deleted => "deleted volumes left out, because history.volumes keeps no versions",
            Self::Unversioned => "states that were no version yet and are one here",
            Self::Statements => "resources with statements that the server makes itself",
            Self::People => "resources whose creator and last editor are not kept",
            Self::Missing => "objects of which there is no package",
            Self::Bytes => "bitstreams without their bytes",
            Self::Unnamed => "files of packages left out because no mets.xml names them",
            Self::Restricted => "resources that not everyone could read there: no policy is applied here",
            Self::Unstated => "objects whose packages do not say who could read them",
            Self::Policy => "resources with further policies that are not applied",
            Self::Withdrawn => "withdrawn items that are below /withdrawn here",
            Self::Parent => "objects in others of which there is no package",
            Self::Gone => "objects kept here that DSpace seems to have deleted",
            Self::Roles => "packages with groups and people that are not taken over",
            Self::Hidden => "resources with fields for administrators that only their mets.xml has",
            Self::Template => "templates for new items that only a mets.xml has",
        }
    }
}

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    what: What,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    why: &'a str,
    #[serde(flatten)]
    more: Value,
}

/// A report that is being written.
pub struct Report(Mutex<Inner>);

struct Inner {
    file: Option<BufWriter<File>>,
    /// The first failure to write it.
    error: Option<std::io::Error>,
    counts: BTreeMap<What, u64>,
    /// Counts that are not for people.
    omitted: BTreeSet<What>,
}

impl Report {
    /// Begins a report in a file; without one, only the counts are kept.
    pub fn create(path: Option<&Path>) -> anyhow::Result<Self> {
        let create = |path: &Path| File::create(path).with_context(|| path.display().to_string());
        let file = path.map(create).transpose()?.map(BufWriter::new);
        Ok(Self(Mutex::new(Inner { file, error: None, counts: BTreeMap::new(), omitted: BTreeSet::new() })))
    }

    /// Reports a resource.
    pub fn resource(&self, what: What, path: &str, why: &str) {
        self.more(what, path, why, Value::Null);
    }

    /// Reports a resource, with further fields.
    pub fn more(&self, what: What, path: &str, why: &str, more: Value) {
        self.line(&Line { what, resource: Some(&format!("/{path}")), object: None, why, more });
    }

    /// Reports a folder or file of what is loaded.
    pub fn object(&self, what: What, place: &Path, why: &str) {
        self.line(&Line { what, resource: None, object: Some(place.display().to_string()), why, more: Value::Null });
    }

    /// Reports a folder or file that is left out, here and on standard error.
    pub fn left_out(&self, what: What, place: &Path, error: &anyhow::Error) {
        let why = full_message(error.as_ref());
        note!("{}: {}", place.display(), without_place(&why, place));
        self.object(what, place, &why);
    }

    fn line(&self, line: &Line<'_>) {
        let mut inner = self.0.lock();
        *inner.counts.entry(line.what).or_default() += 1;
        let Inner { file: Some(file), error: error @ None, .. } = &mut *inner else { return };
        let written = serde_json::to_writer(&mut *file, line).map_err(std::io::Error::from);
        *error = written.and_then(|()| file.write_all(b"\n")).err();
    }

    /// Leaves out a count that the load prints itself.
    pub fn omit_count(&self, what: What) {
        self.0.lock().omitted.insert(what);
    }

    /// Writes the rest of it. Returns the counts for people, failures first, without those of the
    /// resources that failed: the load counts them itself.
    ///
    /// # Errors
    /// If any of it could not be written.
    pub fn finish(&self) -> anyhow::Result<Vec<String>> {
        let mut inner = self.0.lock();
        let written = match inner.error.take() {
            Some(error) => Err(error),
            None => inner.file.as_mut().map_or(Ok(()), |file| file.flush().and_then(|()| file.get_ref().sync_all())),
        };
        written.context("the report")?;
        let is_shown = |what: &What| *what != What::Failed && !inner.omitted.contains(what);
        let counts = inner.counts.iter().filter(|(what, _)| is_shown(what));
        Ok(counts.map(|(what, count)| format!("{count} {}", what.words())).collect())
    }

    /// Whether something is loaded that perhaps not everyone could read where it comes from.
    pub fn has_restricted(&self) -> bool {
        self.0.lock().counts.keys().any(|what| what.is_restricted())
    }

    /// Whether something is missing that the load is for.
    pub fn has_failures(&self) -> bool {
        self.0.lock().counts.keys().any(|what| what.is_failure())
    }
}

/// A reason without the place at its beginning, for lines that begin with the place.
fn without_place<'a>(why: &'a str, place: &Path) -> &'a str {
    why.strip_prefix(&place.display().to_string()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(why)
}
