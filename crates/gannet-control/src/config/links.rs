//! Links of a front end as a table in a file: what replaces a hundred sources that differ in name,
//! address and streams.
//!
//! Comma-separated values with a line of names. A line is a stream; lines with the same name are one
//! source, which listens at all their addresses.

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;

use serde::Deserialize;

use super::document::{Document, Problem};
use super::model::{Config, SourceConfig, StreamPlace, Tables};

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// What a file has to look like.
const WANTED: &str = "write a line `name,address,crate,slot,stream`, and one such as \
                      `card 1,10.73.139.17:17476,1,0,64` for each stream";

/// A line of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    address: SocketAddr,
    #[serde(rename = "crate")]
    crate_id: u16,
    slot: u16,
    stream: u16,
}

/// What the lines of one name say.
struct Link {
    name: String,
    addresses: Vec<SocketAddr>,
    places: Vec<StreamPlace>,
}

impl<T: Tables> Config<T> {
    /// Puts in the place of each source with `links` the sources that its file lists.
    ///
    /// # Errors
    /// When a file cannot be used, or a source has addresses of its own besides.
    pub fn expand_links(&mut self, document: &Document<'_>) -> Result<(), Problem> {
        let mut sources = Vec::new();
        for (index, source) in std::mem::take(&mut self.sources).into_iter().enumerate() {
            match &source.links {
                None => sources.push(source),
                Some(path) => {
                    let path = path.clone();
                    let place = format!("source[{index}]");
                    let listen = source.udp.as_ref().map_or(0, |udp| udp.listen.len());
                    let others = [
                        source.xdp.is_some(),
                        source.roce.is_some(),
                        source.fabric.is_some(),
                        source.capture.is_some(),
                    ];
                    if listen > 0 || others.contains(&true) {
                        let cause = "the file lists the addresses, and others are given too";
                        let problem = document.problem(&place, cause.into(), "remove these".into());
                        return Err(problem);
                    }
                    let links = read(&path).map_err(|failure| match failure {
                        Failure::File(error) => document.problem(
                            &format!("{place}.links"),
                            format!("{}: {error}", path.display()),
                            WANTED.into(),
                        ),
                        Failure::Line(problem) => problem,
                    })?;
                    sources.extend(links.into_iter().map(|link| link.source::<T>(&source)));
                }
            }
        }
        self.sources = sources;
        Ok(())
    }
}

impl Link {
    /// The source of this link, with all else as in `shared`.
    fn source<T: Tables>(self, shared: &SourceConfig<T::Streams>) -> SourceConfig<T::Streams> {
        let mut udp = shared.udp.clone().unwrap_or_default();
        udp.listen = self.addresses;
        let streams = T::at(&shared.streams, &self.places);
        SourceConfig { name: self.name, links: None, streams, udp: Some(udp), ..shared.clone() }
    }
}

/// Why a file cannot be used: as a whole, or in one of its lines.
enum Failure {
    File(io::Error),
    Line(Problem),
}

fn read(path: &Path) -> Result<Vec<Link>, Failure> {
    let mut text = String::new();
    let file = gannet_log::files::open_input(path).map_err(Failure::File)?;
    File::take(file, FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(Failure::File)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let error = io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes"));
        return Err(Failure::File(error));
    }
    parse(&path.display().to_string(), &text).map_err(Failure::Line)
}

/// The links that `text` of `file` lists, in the order in which their names come first.
fn parse(file: &str, text: &str) -> Result<Vec<Link>, Problem> {
    let refused = |line: usize, cause: String| Problem {
        file: file.to_owned(),
        line,
        column: 1,
        cause,
        suggestion: WANTED.into(),
    };
    let mut reader = csv::ReaderBuilder::new();
    let reader = reader.comment(Some(b'#')).trim(csv::Trim::All);
    let mut links: Vec<Link> = Vec::new();
    for line in reader.from_reader(text.trim_start_matches('\u{feff}').as_bytes()).deserialize() {
        let line: Line = line.map_err(|error: csv::Error| {
            let number = error.position().map_or(1, |position| position.line() as usize);
            let cause = match error.kind() {
                csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
                _ => error.to_string(),
            };
            refused(number, cause)
        })?;
        let place = StreamPlace { crate_id: line.crate_id, slot: line.slot, stream: line.stream };
        match links.iter_mut().find(|link| link.name == line.name) {
            None => {
                let (addresses, places) = (vec![line.address], vec![place]);
                links.push(Link { name: line.name, addresses, places });
            }
            Some(link) => {
                link.places.push(place);
                if !link.addresses.contains(&line.address) {
                    link.addresses.push(line.address);
                }
            }
        }
    }
    if links.is_empty() { Err(refused(1, "it lists no links".into())) } else { Ok(links) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: &str = "name, address, crate, slot, stream\n\
                         # two fibres of one board\n\
                         card 1, 10.0.0.1:7000, 1, 0, 0\ncard 1, 10.0.0.1:7001, 1, 0, 64\n\
                         \"card 2, left\", 10.0.0.2:7000, 1, 1, 0\ncard 1, 10.0.0.1:7000, 2, 0, 0\n";

    #[test]
    fn lines_of_one_name_are_one_link() {
        let links = parse("a.csv", LINKS).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(links.len(), 2);
        assert_eq!((links[0].name.as_str(), links[0].addresses.len()), ("card 1", 2));
        let place = |crate_id, slot, stream| StreamPlace { crate_id, slot, stream };
        assert_eq!(links[0].places, [place(1, 0, 0), place(1, 0, 64), place(2, 0, 0)]);
        assert_eq!(links[1].name, "card 2, left");
    }

    #[test]
    fn what_is_no_link_is_refused_by_its_line() {
        let told = |text: &str| {
            let Err(problem) = parse("a.csv", text) else { panic!("{text}") };
            (problem.line, problem.cause)
        };
        let (line, cause) = told(&LINKS.replace("2, 0, 0\n", "crate, 0, 0\n"));
        assert_eq!(line, 6, "{cause}");
        let (line, cause) = told(&LINKS.replace("10.0.0.2:7000", "10.0.0.2"));
        assert!(line == 5 && cause.contains("socket address"), "{line} {cause}");
        let (line, cause) = told(&LINKS.replace("1, 0, 64", "1, 0"));
        assert!(line == 4 && cause.contains("fields"), "{line} {cause}");
        assert!(told("name,address,crate,slot,stream\n").1.contains("no links"));
        assert!(told("name,address,crate,slot\na,10.0.0.1:1,1,1\n").1.contains("stream"));
    }
}
