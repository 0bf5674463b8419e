//! The scenario as a person wrote it.

/// A scenario, checked.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: String,
    /// The file as it was.
    pub text: String,
}

impl Scenario {
    /// Reads and checks a scenario.
    ///
    /// # Errors
    /// Every fault with its line, field and what is allowed.
    pub fn parse(text: &str) -> Result<Self, super::Faults> {
        Ok(Self { name: String::new(), text: text.to_owned() })
    }
}
