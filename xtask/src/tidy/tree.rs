//! The files that the rules look at.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Directories that hold what programs made, not what people wrote.
const MADE: [&str; 6] = ["target", ".git", "out", "__pycache__", "corpus", "artifacts"];
/// Ends of the names of files that are read.
const TEXT: [&str; 4] = ["rs", "md", "toml", "py"];

/// A text file.
#[derive(Debug)]
pub struct File {
    /// From the root.
    pub path: PathBuf,
    /// All of it.
    pub text: String,
}

impl File {
    /// The lines, counted from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        // Not `str::lines`, which hides a carriage return.
        (1..).zip(self.text.split('\n'))
    }

    /// Whether the name of the file ends in `.extension`.
    pub fn is(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|end| end == extension)
    }
}

/// The text files below a root, in order of their paths.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    files: Vec<File>,
}

impl Tree {
    /// Reads all text files below `root`.
    ///
    /// # Errors
    /// When a file cannot be read or is not UTF-8.
    pub fn read(root: &Path) -> Result<Self> {
        let mut tree = Self { root: root.to_path_buf(), files: Vec::new() };
        tree.read_below(root)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn read_below(&mut self, directory: &Path) -> Result<()> {
        let cannot_read = || format!("cannot read {}", directory.display());
        for entry in fs::read_dir(directory).with_context(cannot_read)? {
            let entry = entry.with_context(cannot_read)?;
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().with_context(cannot_read)?;
            if kind.is_dir() {
                if !MADE.iter().any(|made| name == *made) {
                    self.read_below(&path)?;
                }
            } else if kind.is_file() && is_text(&path) {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let path = path.strip_prefix(&self.root).unwrap_or(&path).to_path_buf();
                self.files.push(File { path, text });
            }
        }
        Ok(())
    }

    /// How many files were read.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// The files whose names end in `.extension`.
    pub fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.is(extension))
    }

    /// All files.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// The text file at `path`.
    pub fn file(&self, path: &Path) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a file or directory lies at `path`, read or not.
    pub fn contains(&self, path: &Path) -> bool {
        self.root.join(path).exists()
    }
}

fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|end| TEXT.iter().any(|text| end == *text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_made_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        for path in ["b/a.rs", "a.md", "target/a.rs", "fuzz/corpus/a.md", "b/a.bin"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "one\r\ntwo").unwrap();
        }
        let tree = Tree::read(root.path()).unwrap();
        let paths: Vec<_> = tree.files().map(|file| file.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["a.md", "b/a.rs"]);
        assert!(tree.contains(Path::new("b/a.bin")));
        let lines: Vec<_> = tree.file(Path::new("a.md")).unwrap().lines().collect();
        assert_eq!(lines, [(1, "one\r"), (2, "two")]);
    }
}
