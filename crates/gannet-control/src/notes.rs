//! Notes of people on shift, in a file beside the logs: a line of JSON each, which is only ever appended to.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gannet_log::files;
use rustix::fs::OFlags;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the file in the directory of the logs.
pub const FILE: &str = "gannet_notes.jsonl";

/// Longest note, in characters.
pub const TEXT_MAX: usize = 2000;

/// Longest name of who wrote it, in characters.
pub const NAME_MAX: usize = 64;

/// Notes that are shown; older ones stay in the file.
pub const SHOWN_MAX: usize = 200;

/// Most bytes of the file that are read, and that it may have.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most bytes of the file that are read to show its last notes.
const READ_BYTES_MAX: u64 = 4 << 20;

/// A note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// When it was written, in seconds since 1970.
    pub at: f64,
    /// Number of the run that it is about; absent where it is about none.
    pub run: Option<u32>,
    /// Who wrote it.
    pub by: String,
    /// What it says.
    pub text: String,
}

/// Why a note is not kept.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// It says nothing, or too much.
    #[error("a note has 1 to {TEXT_MAX} characters, and a name at most {NAME_MAX}")]
    Length,
    /// A character of it would not be shown as it is, or change how others are.
    #[error("U+{:04X} cannot be in a note: it is not seen, or changes how the rest is shown", *.0 as u32)]
    Character(char),
    /// There is no directory for it.
    #[error(
        "{} is not there, so notes have no place; make it, or correct `directory` in [recorder]",
        .0.display()
    )]
    Nowhere(PathBuf),
    /// There is no room for more.
    #[error("{} has {} MiB already; move it away", .0.display(), FILE_BYTES_MAX >> 20)]
    Full(PathBuf),
    /// The file cannot be written.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
}

/// The notes of a directory.
#[derive(Clone, Debug)]
pub struct Notes {
    path: PathBuf,
}

impl Notes {
    /// Those in the `directory` of the logs.
    pub fn of(directory: &Path) -> Self {
        Self { path: directory.join(FILE) }
    }

    /// Writes a note.
    ///
    /// # Errors
    /// Why it is not kept.
    pub fn write(&self, run: Option<u32>, by: &str, text: &str) -> Result<Note, NotKept> {
        let (by, text) = (by.trim(), text.trim());
        let fits = |text: &str, most: usize| text.chars().count() <= most;
        if text.is_empty() || !fits(text, TEXT_MAX) || !fits(by, NAME_MAX) {
            return Err(NotKept::Length);
        }
        let names_lines = by.contains('\n').then_some('\n');
        if let Some(odd) = odd_character(text).or(odd_character(by)).or(names_lines) {
            return Err(NotKept::Character(odd));
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |it| it.as_secs_f64());
        let note = Note { at, run, by: by.into(), text: text.into() };
        let failed = |cause| NotKept::File { path: self.path.clone(), cause };
        let mut line = serde_json::to_vec(&note).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let opened = self.open(OpenOptions::new().append(true).create(true).mode(files::MODE));
        let mut file = opened.map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => NotKept::Nowhere(files::directory_of(&self.path).into()),
            _ => failed(cause),
        })?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.len() + line.len() as u64 > FILE_BYTES_MAX {
            return Err(NotKept::Full(self.path.clone()));
        }
        // In one piece, so that those of several programs do not mix.
        file.write_all(&line).and_then(|()| file.sync_data()).map_err(failed)?;
        Ok(note)
    }

    /// The last notes, oldest first. Lines that are no notes are left out.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn last(&self) -> io::Result<VecDeque<Note>> {
        let mut file = match self.open(OpenOptions::new().read(true)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(VecDeque::new()),
            file => file?,
        };
        let skipped = file.metadata()?.len().saturating_sub(READ_BYTES_MAX);
        file.seek(SeekFrom::Start(skipped))?;
        let mut notes = VecDeque::new();
        for line in BufReader::new(file.take(READ_BYTES_MAX)).split(b'\n') {
            let Ok(note) = serde_json::from_slice(&line?) else { continue };
            if notes.len() == SHOWN_MAX {
                notes.pop_front();
            }
            notes.push_back(note);
        }
        Ok(notes)
    }

    /// Whether a file of run `number` lies beside them.
    pub fn lie_beside(&self, number: u32) -> bool {
        let files = fs::read_dir(files::directory_of(&self.path)).into_iter().flatten().flatten();
        files.filter_map(|file| files::number_of(file.file_name().to_str()?)).any(|it| it == number)
    }

    /// Opens the file itself, not what a link in its place names, nor a pipe.
    fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        let file = options
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(&self.path)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file")),
        }
    }
}

/// The first character of a text that people would not see, or that turns what follows it round. Lines and tabs are none.
pub fn odd_character(text: &str) -> Option<char> {
    text.chars().find(|it| {
        let is_layout = matches!(it, '\n' | '\r' | '\t');
        it.is_control() && !is_layout
            || matches!(it, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn notes() -> (tempfile::TempDir, Notes) {
        let directory = tempfile::tempdir().unwrap();
        let notes = Notes::of(directory.path());
        (directory, notes)
    }

    #[test]
    fn notes_are_read_back_as_they_were_written() {
        let (_directory, notes) = notes();
        assert!(notes.last().unwrap().is_empty());
        let text = "<script>alert(1)</script>\nsecond \"line\" \u{2600}\tשלום";
        let first = notes.write(Some(7), " Ada ", text).unwrap();
        assert_eq!((first.by.as_str(), first.text.as_str()), ("Ada", text));
        let second = notes.write(None, "", "no run").unwrap();
        assert_eq!(notes.last().unwrap(), [first, second]);
    }

    #[test]
    fn the_time_of_a_note_is_read_back_to_the_last_bit() {
        let (directory, notes) = notes();
        // Read without care, this number comes out as its neighbour.
        let at = 1_795_705_996.960_048_7;
        let line = format!("{{\"at\":{at},\"run\":null,\"by\":\"\",\"text\":\"t\"}}\n");
        fs::write(directory.path().join(FILE), line).unwrap();
        assert_eq!(notes.last().unwrap()[0].at, at);
    }

    #[test]
    fn what_is_no_note_is_refused_or_left_out() {
        let (directory, notes) = notes();
        for (by, text) in [("", ""), ("", " \n"), ("", &*"x".repeat(2001)), (&*"x".repeat(65), "a")]
        {
            assert!(matches!(notes.write(None, by, text), Err(NotKept::Length)));
        }
        for (by, text) in [("", "a\0b"), ("", "\u{202e}b"), ("A\u{2066}", "a"), ("A\nB", "a")] {
            assert!(
                matches!(notes.write(None, by, text), Err(NotKept::Character(_))),
                "{by}{text}"
            );
        }
        assert!(!directory.path().join(FILE).exists());
        notes.write(None, "", "a").unwrap();
        let mode = fs::metadata(directory.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o137, 0, "as the files of runs");
        let mut file = OpenOptions::new().append(true).open(directory.path().join(FILE)).unwrap();
        file.write_all(b"no note\n{\"at\": 1}\n\xff\n").unwrap();
        notes.write(None, "", "b").unwrap();
        let texts: Vec<_> = notes.last().unwrap().into_iter().map(|note| note.text).collect();
        assert_eq!(texts, ["a", "b"]);
    }

    #[test]
    fn only_the_last_are_shown_and_a_file_does_not_grow_for_ever() {
        let (directory, notes) = notes();
        let line = |at| format!("{{\"at\":{at},\"run\":null,\"by\":\"\",\"text\":\"t\"}}\n");
        let many: String = (0..SHOWN_MAX + 3).map(line).collect();
        fs::write(directory.path().join(FILE), many).unwrap();
        let last = notes.last().unwrap();
        assert_eq!((last.len(), last[0].at), (SHOWN_MAX, 3.0));
        let file = OpenOptions::new().write(true).open(directory.path().join(FILE)).unwrap();
        file.set_len(FILE_BYTES_MAX).unwrap();
        assert!(matches!(notes.write(None, "", "more"), Err(NotKept::Full(_))));
        assert!(notes.last().is_ok());
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let (directory, notes) = notes();
        std::os::unix::fs::symlink("/etc/hostname", directory.path().join(FILE)).unwrap();
        assert!(matches!(notes.write(None, "", "a"), Err(NotKept::File { .. })));
        assert!(notes.last().is_err());
    }

    #[test]
    fn notes_know_the_runs_whose_files_lie_beside_them() {
        let (directory, notes) = notes();
        assert!(!notes.lie_beside(7));
        let file = directory.path().join("a_run000007_20261121T021000Z_f0000.glog");
        fs::write(file, "").unwrap();
        assert!(notes.lie_beside(7) && !notes.lie_beside(8));
        let nowhere = Notes::of(&directory.path().join("gone"));
        let refused = nowhere.write(None, "", "a").unwrap_err();
        assert!(refused.to_string().contains("gone is not there"), "{refused}");
        assert!(!nowhere.lie_beside(7) && nowhere.last().unwrap().is_empty());
    }
}
