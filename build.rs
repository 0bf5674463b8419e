//! Tells cargo that the migrations are part of the program.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
