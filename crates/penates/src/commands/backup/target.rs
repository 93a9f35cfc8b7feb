//! What `penates backup create` writes to.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use ::backup::{Access, Backups, Options, Source, Summary, sync_folder, write_stream};
use anyhow::Context;
use tempfile::NamedTempFile;

use super::create::CreateArgs;
use super::{failed, is_archive, is_pipe};
use crate::exit::CliError;

/// What a backup is written to.
pub(super) enum Target {
    Folder(Backups),
    Pipe,
    /// A file, under another name in its folder until it is whole.
    File {
        file: NamedTempFile,
        folder: PathBuf,
        path: PathBuf,
    },
}

impl Target {
    pub(super) fn open(args: &CreateArgs) -> anyhow::Result<Self> {
        let path = &args.folder;
        if !is_archive(path) {
            return Ok(Self::Folder(Backups::open(path, Access::Add).map_err(failed)?));
        }
        if args.link {
            return Err(CliError::Usage("an archive has no links to files of the store".to_owned()).into());
        }
        if is_pipe(path) {
            if std::io::stdout().is_terminal() {
                return Err(CliError::Usage("a backup is no text: pipe it into a program or a file".to_owned()).into());
            }
            return Ok(Self::Pipe);
        }
        if path.exists() {
            return Err(CliError::Usage(format!("{} is there already", path.display())).into());
        }
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        let file = tempfile::Builder::new().prefix(".penates.").suffix(".tar.unfinished").tempfile_in(&folder);
        let file = file.with_context(|| format!("making a file in {}", folder.display()))?;
        Ok(Self::File { file, folder, path: path.clone() })
    }

    pub(super) fn create(
        self,
        source: &Source,
        options: &Options,
        took: &mut dyn FnMut(u64),
    ) -> anyhow::Result<Summary> {
        match self {
            Self::Folder(backups) => backups.create(source, options, took).map_err(failed),
            Self::Pipe => {
                let mut stdout = std::io::stdout().lock();
                write_stream(source, options, &mut stdout, &std::env::temp_dir(), took).map_err(failed)
            }
            Self::File { mut file, folder, path } => {
                let summary = write_stream(source, options, file.as_file_mut(), &folder, took).map_err(failed)?;
                file.as_file().sync_all().with_context(|| format!("syncing {}", file.path().display()))?;
                file.persist_noclobber(&path).with_context(|| format!("moving to {}", path.display()))?;
                sync_folder(&folder).map_err(failed)?;
                Ok(summary)
            }
        }
    }
}
