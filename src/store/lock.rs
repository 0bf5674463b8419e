//! One writer a database: an advisory lock beside the file, which the system lets go when its holder dies.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
};

use super::StoreError;

/// Takes `<database>.lock` and writes this process's id into it. The lock lives as long as the file is open.
pub(super) fn take(database: &Path) -> Result<File, StoreError> {
    let path = beside(database);
    let failed = |source: std::io::Error| StoreError::Open { path: path.clone(), source: source.into() };
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // The lock is what counts; a holder that has not written its name yet is only unnamed.
            let _ = file.read_to_string(&mut text);
            let pid = text.trim();
            let holder =
                if pid.is_empty() { "another process".to_owned() } else { format!("the process with pid {pid}") };
            return Err(StoreError::Held { path: database.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.set_len(0).map_err(failed)?;
    file.rewind().map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
