//! How much memory the frames of a thread take, by size or by the cache that they should fit.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use gannet_measure::quantity::{Bytes, ParseQuantityError};

/// Where Linux tells of the caches of the first core.
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";
/// Most entries of that directory that are looked at; machines have four.
const CACHES_MAX: usize = 16;
/// Taken for the second-level cache where the system does not tell.
const L2_DEFAULT: Bytes = Bytes::mib(1);
/// Smallest working set that counts as memory.
const MEMORY_MIN: Bytes = Bytes::mib(512);

/// How much memory the frames of a thread take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkingSet {
    /// Half of the second-level cache of a core: the state of the chains needs room there too.
    L2,
    /// At least 512 MiB, and twice what all caches hold.
    Memory,
    /// So much.
    Size(Bytes),
}

impl WorkingSet {
    /// The size on this machine.
    pub fn bytes(self) -> Bytes {
        match self {
            Self::L2 => Bytes(cache(2).unwrap_or(L2_DEFAULT).0 / 2),
            Self::Memory => {
                let last = (2..=4).filter_map(cache).max().unwrap_or_default();
                MEMORY_MIN.max(Bytes(2 * last.0))
            }
            Self::Size(bytes) => bytes,
        }
    }
}

impl FromStr for WorkingSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "l2" => Ok(Self::L2),
            "memory" => Ok(Self::Memory),
            _ => text
                .parse()
                .map(Self::Size)
                .map_err(|error: ParseQuantityError| format!("{error}; or use L2 or memory")),
        }
    }
}

/// Size of the cache of a level that the first core uses.
fn cache(level: u32) -> Option<Bytes> {
    cache_in(Path::new(CACHES), level)
}

fn cache_in(caches: &Path, level: u32) -> Option<Bytes> {
    let told = |cache: &Path, what: &str| {
        fs::read_to_string(cache.join(what)).map(|text| text.trim().to_owned()).ok()
    };
    let caches = fs::read_dir(caches).ok()?.take(CACHES_MAX).filter_map(Result::ok);
    let of_level = |cache: &PathBuf| told(cache, "level") == Some(level.to_string());
    let size = told(&caches.map(|entry| entry.path()).find(of_level)?, "size")?;
    let kib: u64 = size.strip_suffix('K')?.parse().ok()?;
    Some(Bytes(kib.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_names_are_read() {
        assert_eq!("512MiB".parse(), Ok(WorkingSet::Size(Bytes::mib(512))));
        assert_eq!("L2".parse(), Ok(WorkingSet::L2));
        assert_eq!("l2".parse(), Ok(WorkingSet::L2));
        assert_eq!("memory".parse(), Ok(WorkingSet::Memory));
        let refused = "512".parse::<WorkingSet>().unwrap_err();
        assert!(refused.ends_with("or use L2 or memory"), "{refused}");
    }

    #[test]
    fn a_named_set_has_a_size_on_every_machine() {
        let (l2, memory) = (WorkingSet::L2.bytes(), WorkingSet::Memory.bytes());
        assert!(l2 >= Bytes(1 << 14) && memory >= MEMORY_MIN && l2 < memory, "{l2} {memory}");
    }

    #[test]
    fn the_cache_of_a_level_is_found() {
        let root = std::env::temp_dir().join(format!("gannet-caches-{}", std::process::id()));
        for (name, level, size) in [("index0", "1", "48K"), ("index2", "2", "2048K")] {
            fs::create_dir_all(root.join(name)).unwrap();
            fs::write(root.join(name).join("level"), format!("{level}\n")).unwrap();
            fs::write(root.join(name).join("size"), format!("{size}\n")).unwrap();
        }
        let found = (cache_in(&root, 2), cache_in(&root, 3));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, (Some(Bytes::mib(2)), None));
    }
}
