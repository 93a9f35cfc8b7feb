//! The places that pages of the server name.

use std::sync::Arc;

use door_http::{MayRead, Place};

/// Where the places are.
#[derive(Clone)]
pub(crate) struct Places {
    /// The path of the repository, from the root of the server and with a slash at the end:
    /// `/rest/`.
    pub(crate) repository: Arc<str>,
    /// Whether an index for the search is kept.
    pub(crate) has_search: bool,
}

impl Places {
    /// The places, seen from a page at which `to_root` is the way to the root.
    pub(crate) fn named(&self, to_root: &str, volumes: &str, sign_in: Option<&str>) -> Vec<Place> {
        let mut places = vec![Place::new("Volumes", volumes), Place::new("Repository", self.of_repository(to_root))];
        places.extend(self.has_search.then(|| Place::new("Search", self.of_search(to_root))));
        places.extend(sign_in.map(|sign_in| Place::new("Account", sign_in)));
        places
    }

    /// The address of the search for the box in the header, if the client may read.
    pub(crate) fn search(&self, to_root: &str, may_read: Option<&MayRead>) -> Option<String> {
        may_read.filter(|_| self.has_search).map(|_| self.of_search(to_root))
    }

    fn of_repository(&self, to_root: &str) -> String {
        format!("{to_root}{}", self.repository.trim_start_matches('/'))
    }

    fn of_search(&self, to_root: &str) -> String {
        format!("{}fcr:search", self.of_repository(to_root))
    }
}
