//! Compresses the files of the pages, and lists them for `src/assets.rs`.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

fn main() -> Result<(), Box<dyn Error>> {
    let pages = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("pages");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", pages.display());
    let mut files = fs::read_dir(&pages)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    files.sort();
    let mut list = "static ASSETS: &[Asset] = &[\n".to_owned();
    for path in files {
        let Some(kind) = kind(&path) else { continue };
        let name =
            path.file_name().and_then(|name| name.to_str()).ok_or("a name that is no text")?;
        let bytes = fs::read(&path)?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&bytes)?;
        let compressed = out.join(format!("{name}.gz"));
        fs::write(&compressed, encoder.finish()?)?;
        let etag: String =
            Sha256::digest(&bytes)[..12].iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(
            list,
            "Asset {{ name: {name:?}, kind: {kind:?}, etag: \"\\\"{etag}\\\"\", \
             plain: include_bytes!({path:?}), compressed: include_bytes!({compressed:?}) }},"
        )?;
    }
    fs::write(out.join("assets.rs"), list + "];\n")?;
    Ok(())
}

/// The kind of a file, if it is one that is served.
fn kind(path: &Path) -> Option<&'static str> {
    Some(match path.extension()?.to_str()? {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}
