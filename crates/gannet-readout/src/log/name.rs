//! Names of the files of a run: `<prefix>_run000123_20261121T021000Z_f0000.<ext>`.
//!
//! The time is that of the start of recording, the same for all files of a run, so that the names
//! sort in the order in which the files were written. A file that is being written carries `.part`
//! behind its name; without it a file is complete and on the disk.

use std::path::{Path, PathBuf};

/// Extension of a chunk log.
pub const EXTENSION: &str = "glog";

/// Suffix of a file that is not finished.
pub const PART: &str = ".part";

/// What the names of all files of a run begin with.
///
/// `start_unix_s` is the start of recording in seconds since 1970-01-01 UTC.
pub fn run_stem(prefix: &str, run: u32, start_unix_s: u64) -> String {
    format!("{prefix}_run{run:06}_{}", utc(start_unix_s))
}

/// Name of file `index` of the run `stem` with the extension `extension`.
pub fn file_name(stem: &str, index: u32, extension: &str) -> String {
    format!("{stem}_f{index:04}.{extension}")
}

/// Path of file `index` of the run whose file `path` is another, both finished; `None` when the
/// name of `path` does not follow the pattern.
pub fn sibling(path: &Path, index: u32) -> Option<PathBuf> {
    let finished = finished_path(path);
    let path = finished.as_deref().unwrap_or(path);
    let (stem, rest) = path.file_name()?.to_str()?.rsplit_once("_f")?;
    let (digits, extension) = rest.split_once('.')?;
    let is_index = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_index.then(|| path.with_file_name(file_name(stem, index, extension)))
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
fn utc(unix_s: u64) -> String {
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
        let first = Path::new("/data/a_f_run000001_f0000.glog");
        for name in ["a_f_run000001_f0012.glog", "a_f_run000001_f12345.glog.part"] {
            assert_eq!(sibling(&Path::new("/data").join(name), 0).as_deref(), Some(first));
        }
        for name in ["a.glog", "a_f.glog", "a_fx1.glog", "a_f0001", "a_f00ü.glog"] {
            assert_eq!(sibling(Path::new(name), 0), None, "{name}");
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
