//! Enums of the numbers that a format stores.

/// Makes an enum whose values have a stored number and a name, and which keeps the numbers that
/// it does not know, so that what was read is written back unchanged.
///
/// Each line is `Variant = number => "Name"`, with `| "Alias"` for names of other versions.
macro_rules! numbered {
    (
        $(#[$meta:meta])*
        pub enum $name:ident: $number:ty {
            $($(#[$note:meta])* $variant:ident = $value:literal => $text:literal $(| $alias:literal)*,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(
                #[doc = concat!("`", $text, "`, stored as ", $value, ".")]
                $(#[$note])*
                $variant,
            )*
            /// A number that has no name here. Make it with `from_number` only, so that a named
            /// number has one form.
            Other($number),
        }

        impl $name {
            /// Every named value, in the order of the numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value of a stored number; every number is accepted.
            pub const fn from_number(number: $number) -> Self {
                match number {
                    $($value => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// The stored number.
            pub const fn number(self) -> $number {
                match self {
                    $(Self::$variant => $value,)*
                    Self::Other(number) => number,
                }
            }

            /// The name; `Unknown` for a number that has none.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(_) => "Unknown",
                }
            }

            /// The value of a name, spelled as `name` gives it or as another version did.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text $(| $alias)* => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        /// Prints the name, with the number where there is no name.
        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self {
                    Self::Other(number) => write!(f, "Unknown({number})"),
                    named => f.pad(named.name()),
                }
            }
        }
    };
}

pub(crate) use numbered;

#[cfg(test)]
mod tests {
    numbered! {
        /// Birds.
        pub enum Bird: u16 {
            Gannet = 1 => "Gannet" | "Solan",
            Puffin = 7 => "Puffin",
        }
    }

    #[test]
    fn numbers_names_and_values_agree() {
        for bird in Bird::ALL {
            assert_eq!(Bird::from_number(bird.number()), *bird);
            assert_eq!(Bird::from_name(bird.name()), Some(*bird));
        }
        assert_eq!(Bird::from_name("Solan"), Some(Bird::Gannet));
        assert_eq!(Bird::from_name("Unknown"), None);
    }

    #[test]
    fn a_number_without_a_name_is_kept() {
        let bird = Bird::from_number(300);
        assert_eq!(bird.number(), 300);
        assert_eq!(bird.name(), "Unknown");
        assert_eq!(bird.to_string(), "Unknown(300)");
        assert_eq!(format!("{:<8}|", Bird::Puffin), "Puffin  |");
    }
}
