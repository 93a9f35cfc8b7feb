//! The priority of threads that work for nobody in particular.

use rustix::process::nice;

/// A thread of this niceness gets a third of the processor time of one that serves requests.
const NICER_BY: i32 = 5;

/// Lets threads that serve requests have the processors first, where they need them all at the
/// same time. Holds for this thread and for those that it starts from now on.
///
/// Work that falls behind is not starved: writes wait for it then, and leave it the processors.
pub(crate) fn lower() {
    // A system that refuses this lets both have the same share, as before.
    _ = nice(NICER_BY);
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::NICER_BY;

    /// The niceness of this process.
    fn own() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    /// Whether a thread of this name has the lower priority. Other tests may start further ones.
    pub(crate) fn is_lower(name: &str) -> bool {
        let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        // A thread may end meanwhile.
        let read = |path: std::path::PathBuf| fs::read_to_string(path).unwrap_or_default();
        let of_name = tasks.filter(|task| read(task.join("comm")).trim() == name);
        // Field 19, of which the second may have spaces.
        let niceness = |stat: String| stat.rsplit(')').next()?.split_whitespace().nth(16)?.parse::<i32>().ok();
        let mut found = of_name.filter_map(|task| niceness(read(task.join("stat"))));
        found.any(|niceness| niceness == (own() + NICER_BY).min(19))
    }
}
