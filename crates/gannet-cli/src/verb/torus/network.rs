//! The network of a machine: how the addresses of its hosts begin.

/// The first byte of all addresses of a machine, from the command line.
///
/// # Errors
/// When no host has addresses that begin with it.
pub fn first_byte(text: &str) -> Result<u8, String> {
    match text.trim().parse() {
        Ok(byte @ (1..=126 | 128..=223)) => Ok(byte),
        _ => Err("no host has addresses that begin with it: write 1 to 223, and not 127".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_begin_as_those_of_hosts_do() {
        for byte in [1, 10, 126, 128, 223] {
            assert_eq!(first_byte(&byte.to_string()), Ok(byte));
        }
        for text in ["0", "127", "224", "256", "-1", "ten", ""] {
            assert!(first_byte(text).is_err(), "{text}");
        }
    }
}
