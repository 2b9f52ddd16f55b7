//! Arbitrary bytes as the configuration space of a PCI device.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(pci_config_space);
