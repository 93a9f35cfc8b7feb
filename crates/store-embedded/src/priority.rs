//! The priority of threads that work for nobody in particular.

use rustix::process::nice;

/// A thread of this niceness gets a third of the processor time of one that serves requests.
const NICER_BY: i32 = 5;

/// Lets threads that serve requests have the processors first, where they need them all at the
/// same time. Holds for this thread and for those that it starts from now on.
///
/// It is not starved: it gets a third of their share, and writes wait for it when it falls behind.
pub(crate) fn lower() {
    // A system that refuses this gives both the same share.
    _ = nice(NICER_BY);
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::NICER_BY;

    /// The niceness of this thread.
    fn own() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    /// Waits until a thread of this name has the lower priority. Other tests may start further ones.
    pub(crate) fn until_lower(name: &str) {
        let begun = Instant::now();
        while !is_lower(name) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{name} has the priority of others");
            thread::yield_now();
        }
    }

    fn is_lower(name: &str) -> bool {
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
