//! Names of the files of a run: `<prefix>_run000123_20261121T021000Z_f0000.<ext>`.
//!
//! The time is that at which the file was begun, for the first file that of the run, so that the names
//! sort in the order in which the files were written, and DUNE's tools find in them when their data were
//! taken. A file that is being written carries `.part` behind its name; without it a file is complete
//! and on the disk.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{directory_of, run_of};

/// Extension of a chunk log.
pub const EXTENSION: &str = "glog";

/// Suffix of a file that is not finished.
pub const PART: &str = ".part";

/// What the name of a file begins with that was begun at `start_unix_s`, in seconds since 1970-01-01
/// UTC.
pub fn run_stem(prefix: &str, run: u32, start_unix_s: u64) -> String {
    format!("{prefix}_run{run:06}_{}", utc(start_unix_s))
}

/// Name of file `index` of a run that begins with `stem`, with the extension `extension`.
pub fn file_name(stem: &str, index: u32, extension: &str) -> String {
    format!("{stem}_f{index:04}.{extension}")
}

/// The finished files of the same kind beside the file `path`, of all runs of its prefix and number, by
/// their number in the run; nothing but regular files, or links to them. None when the name of `path` does not follow the
/// pattern, or its directory cannot be read.
pub fn siblings(path: &Path) -> Vec<PathBuf> {
    let finished = finished_path(path);
    let path = finished.as_deref().unwrap_or(path);
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let Some((run, _, ending)) = name(path).and_then(|name| parts(&name)) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(directory_of(path)) else { return Vec::new() };
    let index = |entry: fs::DirEntry| {
        let file_name = entry.file_name();
        let (its_run, index, its_ending) = parts(file_name.to_str()?)?;
        let sibling = path.with_file_name(&file_name);
        let is_sibling = its_run == run && its_ending == ending;
        // A pipe would be waited for, and a device read without end.
        let is_file = is_sibling && fs::metadata(&sibling).is_ok_and(|there| there.is_file());
        is_file.then_some((index, sibling))
    };
    let mut found: Vec<_> = entries.filter_map(|entry| index(entry.ok()?)).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The run, the number in it and what stands behind that, in `<run>_<time>_f0000<ending>`.
fn parts(name: &str) -> Option<(String, u32, String)> {
    let run = run_of(name)?;
    let (_, rest) = name[run.len()..].rsplit_once("_f")?;
    let end = rest.find(|digit: char| !digit.is_ascii_digit())?;
    Some((run.to_owned(), rest[..end].parse().ok()?, rest[end..].to_owned()))
}

/// Name of the unfinished file that will become `finished`.
pub fn part_path(finished: &Path) -> PathBuf {
    let mut name = finished.as_os_str().to_owned();
    name.push(PART);
    name.into()
}

/// Name that the unfinished file `part` will get; `None` when `part` does not end in `.part`.
pub fn finished_path(part: &Path) -> Option<PathBuf> {
    let name = part.file_name()?.to_str()?.strip_suffix(PART)?;
    (!name.is_empty()).then(|| part.with_file_name(name))
}

/// Time as `20261121T021000Z` (ISO 8601, basic form).
pub fn utc(unix_s: u64) -> String {
    let (year, month, day) = civil_date(unix_s / 86_400);
    let second = unix_s % 86_400;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{:02}Z", second % 60)
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
///
/// Counts in eras of 400 years that begin on 1 March, so that the leap day comes last
/// (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn civil_date(days: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_pattern() {
        let stem = run_stem("demo", 123, 1_795_227_000);
        assert_eq!(file_name(&stem, 0, EXTENSION), "demo_run000123_20261121T021000Z_f0000.glog");
        assert_eq!(file_name(&stem, 12_345, "hdf5"), format!("{stem}_f12345.hdf5"));
    }

    #[test]
    fn the_files_of_a_run_are_found_from_any_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        // The second file is begun later, and the clock may go back.
        let of_run = [
            "a_f_run000001_20261121T021000Z_f0000.glog",
            "a_f_run000001_20261121T031000Z_f0001.glog",
            "a_f_run000001_20261121T011000Z_f12345.glog",
        ]
        .map(at);
        let others = [
            "a_f_run000001_20261121T021000Z_f0000.hdf5",
            "a_f_run000001_20261121T041000Z_f0002.glog.part",
            "a_f_run000002_20261121T021000Z_f0000.glog",
            "b_run000001_20261121T021000Z_f0000.glog",
        ]
        .map(at);
        of_run.iter().chain(&others).for_each(|path| fs::write(path, "").unwrap());
        fs::create_dir(at("a_f_run000001_20261121T021000Z_f0003.glog")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("a_f_run000001_x_f0004.glog")).unwrap();
        for path in of_run.iter().chain(&others[1..2]) {
            assert_eq!(siblings(path), of_run);
        }
        for name in ["a.glog", "a_run000001_f", "a_run000001_fx1.glog", "a_run000001_x_f00ü.glog"]
        {
            assert_eq!(siblings(&at(name)), [""; 0].map(PathBuf::from), "{name}");
        }
    }

    #[test]
    fn part_and_finished_names_belong_together() {
        let finished = Path::new("/data/a_f0000.glog");
        let part = part_path(finished);
        assert_eq!(part, Path::new("/data/a_f0000.glog.part"));
        assert_eq!(finished_path(&part).as_deref(), Some(finished));
        assert_eq!(finished_path(finished), None);
        assert_eq!(finished_path(Path::new("/data/.part")), None);
    }

    #[test]
    fn calendar_matches_known_dates() {
        for (unix_s, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_800, "20000301T000000Z"),
            (1_735_689_599, "20241231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(utc(unix_s), text);
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let month_days = |year: u64, month| match month {
            2 if year.is_multiple_of(4)
                && (!year.is_multiple_of(100) || year.is_multiple_of(400)) =>
            {
                29
            }
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(civil_date(days), (year, month, day));
            day += 1;
            if day > month_days(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
