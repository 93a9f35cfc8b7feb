//! The plans that come with the program.

use include_dir::{Dir, include_dir};

static PLANS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/plans");

/// The text of a plan.
pub fn text(name: &str) -> Option<&'static str> {
    PLANS.get_file(format!("{name}.toml"))?.contents_utf8()
}

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    PLANS.files().filter_map(|file| file.path().to_str()?.strip_suffix(".toml"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use crate::inputs::Inputs;
    use crate::plan::Plan;

    #[test]
    fn every_shipped_plan_can_be_run() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ids.txt"), "a\nb\n").unwrap();
        std::fs::write(folder.path().join("access.log"), "").unwrap();
        let names: Vec<_> = super::names().collect();
        assert!(names.contains(&"ingest") && names.contains(&"records-90-10"), "{names:?}");
        for name in names {
            let plan = Plan::parse(super::text(name).unwrap()).unwrap();
            assert_eq!(plan.name, name);
            assert!(!plan.description.is_empty(), "{name}");
            Inputs::of_plan(plan, folder.path()).unwrap().compiled().unwrap();
        }
    }

    #[test]
    fn a_name_finds_a_plan_where_there_is_no_such_file() {
        let inputs = Inputs::read(Path::new("mixed-90-10")).unwrap();
        assert_eq!(inputs.plan.name, "mixed-90-10");
        let error = Inputs::read(Path::new("mixed-80-20")).unwrap_err().to_string();
        assert!(error.starts_with("mixed-80-20: ") && error.contains("mixed-70-30"), "{error}");
    }

    #[test]
    fn a_plan_of_records_in_a_closed_loop_has_500_clients_of_which_a_tenth_writes() {
        for name in ["records-clients-90-10", "records-http-90-10"] {
            let plan = Plan::parse(super::text(name).unwrap()).unwrap();
            assert_eq!(plan.load.closed_users(plan.workers), 500, "{name}");
            assert_eq!(plan.scenarios.iter().map(|of| of.share).collect::<Vec<_>>(), [90.0, 10.0], "{name}");
        }
    }

    #[test]
    fn the_plan_of_the_study_has_its_numbers() {
        let plan = Plan::parse(super::text("ingest").unwrap()).unwrap();
        assert_eq!(plan.load.arrivals(0, plan.workers, plan.seed).count(), 2_000);
        assert_eq!(plan.load.duration().as_secs(), 200);
    }
}
