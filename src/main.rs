//! The `rampart` command.

fn main() -> std::process::ExitCode {
    rampart::cli::main()
}
