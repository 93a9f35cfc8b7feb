//! Objects of Fedora that were read last, so that one that has several versions, or resources, is
//! not read again for each.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use parking_lot::Mutex;
use preservation::archived::ArchivedVersion;
use preservation::bagit::text::Algorithm;
use preservation::fedora::FedoraObject;
use preservation::ocfl::Object;

/// The most versions of resources that are kept, if there are more than one object.
const VERSIONS_MAX: usize = 10_000;

/// Objects that were read last, newest last.
#[derive(Default)]
pub struct Opened(Mutex<VecDeque<Arc<Read>>>);

/// An object.
struct Read {
    folder: Arc<Path>,
    algorithm: Algorithm,
    resources: HashMap<String, Vec<ArchivedVersion>>,
    count: usize,
}

impl Opened {
    /// The versions of a resource in an object, and the algorithm of its digests.
    pub fn versions(&self, folder: &Arc<Path>, path: &str) -> anyhow::Result<(Algorithm, Vec<ArchivedVersion>)> {
        let known = self.0.lock().iter().find(|read| read.folder == *folder).cloned();
        let read = match known {
            Some(read) => read,
            None => self.keep(Read::of(folder)?),
        };
        let versions = read.resources.get(path).context("it has changed since it was checked")?;
        Ok((read.algorithm, versions.clone()))
    }

    fn keep(&self, read: Read) -> Arc<Read> {
        let read = Arc::new(read);
        let mut kept = self.0.lock();
        kept.push_back(read.clone());
        let mut count: usize = kept.iter().map(|read| read.count).sum();
        while kept.len() > 1 && count > VERSIONS_MAX {
            count -= kept.pop_front().map_or(0, |oldest| oldest.count);
        }
        read
    }
}

impl Read {
    fn of(folder: &Arc<Path>) -> anyhow::Result<Self> {
        let object = Object::open_with_mutable_head(folder)?;
        let resources = FedoraObject::read(&object)?.resources;
        let resources: HashMap<_, _> =
            resources.into_iter().map(|resource| (resource.path, resource.versions)).collect();
        let count = resources.values().map(Vec::len).sum::<usize>() + 1;
        Ok(Self { folder: folder.clone(), algorithm: object.algorithm(), resources, count })
    }
}
