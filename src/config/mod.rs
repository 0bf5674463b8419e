//! The server's own configuration file: where it listens and stores, which targets and recipes exist.
//! Targets and what may be launched come from here, never from a request alone.
