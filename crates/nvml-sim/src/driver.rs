//! Driver generations: which symbols a library of that age has, and installing a library that looks that old.
//!
//! A symbol that a generation lacks is really absent: its name in the copied library's symbol table is changed, so that
//! `dlsym` does not find it. Nothing is installed outside the directory that the caller names.
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::foreign;

/// Declares the generations, oldest first, each with its driver version and its CUDA version.
macro_rules! generations {
    ($($(#[$doc:meta])* $name:ident = $version:literal, $cuda:literal;)*) => {
        /// A driver branch whose library differs from others in a way that clients notice, oldest first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Generation { $($(#[$doc])* $name,)* }

        impl Generation {
            pub const ALL: [Generation; [$($cuda),*].len()] = [$(Generation::$name,)*];

            /// Returns the driver version that a library of this generation reports, unless the scenario sets another.
            pub fn version(self) -> &'static str {
                match self { $(Generation::$name => $version,)* }
            }

            /// Returns the CUDA version of this generation, as the driver counts: 12040 is 12.4.
            pub fn cuda_version(self) -> i32 {
                match self { $(Generation::$name => $cuda,)* }
            }
        }
    };
}

generations! {
    /// v1 process lists, no MIG, no second fan.
    R390 = "390.157", 9010;
    R418 = "418.226.00", 10010;
    /// The first with MIG and v2 process lists.
    R450 = "450.248.02", 11000;
    R470 = "470.256.02", 11040;
    /// The first with v3 process lists and the second memory record.
    R525 = "525.147.05", 12000;
    /// 535.43 to 535.86: the v3 lists have 32-byte records under the same name.
    R535_54 = "535.54.03", 12020;
    /// From 535.98: no v3 lists at all.
    R535_104 = "535.104.05", 12020;
    /// v3 lists are back, with 24-byte records.
    R535_261 = "535.261.03", 12020;
    R550 = "550.163.01", 12040;
    R580 = "580.95.05", 13000;
}

impl Generation {
    pub const LATEST: Generation = Generation::R580;

    /// Reports whether a library of this generation exports the function.
    pub fn has(self, function: &str) -> bool {
        // Observed in real libraries: 535.98 removed the v3 lists, because 535.43 had changed their record.
        if self == Generation::R535_104 && function.ends_with("RunningProcesses_v3") {
            return false;
        }
        crate::functions().any(|known| known.name == function && known.since <= self)
    }

    /// Returns our functions that this generation lacks.
    pub fn missing(self) -> Vec<&'static str> {
        crate::functions()
            .map(|function| function.name)
            .filter(|name| !self.has(name))
            .collect()
    }

    /// Returns the generation that this library was installed as.
    pub(crate) fn installed() -> Generation {
        let number = foreign::as_installed(&STAMP)[NUMBER];
        let found = Generation::ALL.get(usize::from(number));
        found.copied().unwrap_or(Generation::LATEST)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.version())
    }
}

impl FromStr for Generation {
    type Err = String;

    /// Parses `latest`, or the beginning of a version such as `470` or `535.54`; the newest match is used.
    fn from_str(text: &str) -> Result<Generation, String> {
        if text == "latest" {
            return Ok(Generation::LATEST);
        }
        let wanted: Vec<&str> = text
            .trim_start_matches(['R', 'r'])
            .split(['.', '_'])
            .collect();
        let found = Generation::ALL.iter().rev().find(|generation| {
            let have: Vec<&str> = generation.version().split('.').collect();
            have.starts_with(&wanted)
        });
        found.copied().ok_or_else(|| {
            let known: Vec<_> = Generation::ALL.iter().map(|one| one.version()).collect();
            let known = known.join(", ");
            format!("no driver generation `{text}`; known generations: latest, {known}")
        })
    }
}

/// File name under which programs look for the driver's library.
pub const LIBRARY_NAME: &str = "libnvidia-ml.so.1";

/// Writes `DIR/libnvidia-ml.so.1` as a library of this generation, and returns its path.
pub fn install(directory: impl AsRef<Path>, generation: Generation) -> io::Result<PathBuf> {
    install_from(&crate::library_path()?, directory.as_ref(), generation)
}

/// As [`install`], from a library file that the caller has found.
pub fn install_from(built: &Path, directory: &Path, generation: Generation) -> io::Result<PathBuf> {
    let mut bytes = std::fs::read(built)?;
    let missing = generation.missing();
    let mut is_ours = false;
    // Names in a library's string tables lie between zero bytes, as the stamp does.
    for text in bytes.split_mut(|byte| *byte == 0) {
        if text == &STAMP[1..STAMP.len() - 1] {
            text[NUMBER - 1] = generation as u8;
            is_ours = true;
        } else if text.starts_with(b"nvml") && missing.iter().any(|name| name.as_bytes() == text) {
            // The loader's hash table still has the symbol, but the comparison of the names fails.
            text[0] = b'x';
        }
    }
    if !is_ours {
        let message = format!("`{}` is not the simulated library", built.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    std::fs::create_dir_all(directory)?;
    let path = directory.join(LIBRARY_NAME);
    let fresh = directory.join(format!("{LIBRARY_NAME}.{}.new", std::process::id()));
    std::fs::write(&fresh, bytes)?;
    std::fs::rename(&fresh, &path)?;
    Ok(path)
}

/// A text that only the simulated library contains. The byte at [`NUMBER`] is the generation, which `install` sets in the
/// library file; a library that was not installed is the latest.
static STAMP: [u8; 23] = *b"\0nvml-sim generation:\xff\0";
const NUMBER: usize = STAMP.len() - 2;

#[cfg(test)]
mod tests {
    use super::Generation::*;
    use super::*;

    #[test]
    fn a_generation_is_read_from_the_beginning_of_its_version() {
        for (text, expected) in [
            ("390", R390),
            ("470", R470),
            ("535.54", R535_54),
            ("R535_104", R535_104),
            ("535", R535_261),
            ("latest", R580),
            ("550.163.01", R550),
        ] {
            assert_eq!(text.parse(), Ok(expected));
        }
        assert!("53".parse::<Generation>().is_err());
        assert!("".parse::<Generation>().is_err());
    }

    #[test]
    fn the_lists_are_where_the_real_drivers_had_them() {
        let lists = |version: &str| -> Vec<Generation> {
            let name = format!("nvmlDeviceGetComputeRunningProcesses{version}");
            Generation::ALL
                .into_iter()
                .filter(|generation| generation.has(&name))
                .collect()
        };
        assert_eq!(lists(""), Generation::ALL);
        assert_eq!(
            lists("_v2"),
            [R450, R470, R525, R535_54, R535_104, R535_261, R550, R580]
        );
        assert_eq!(lists("_v3"), [R525, R535_54, R535_261, R550, R580]);
    }
}
