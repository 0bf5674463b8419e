//! A campaign: scenarios that follow one another, each at the load that an earlier one found. Does no I/O.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Scenario;
use crate::{
    config::Document,
    model::{Fault, Faults, Status, Verdict},
};

/// The most parts.
const PARTS_MAX: usize = 20;
/// What stands before the name of an earlier part.
const CAPACITY_OF: &str = "capacity of ";

/// A campaign, checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Campaign {
    pub name: String,
    pub description: String,
    pub parts: Vec<Part>,
}

/// One scenario of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Part {
    /// The scenario's own name.
    pub name: String,
    /// The scenario as it was, before its load was put in.
    pub text: String,
    /// Absent: the scenario's own loads.
    pub load: Option<Wanted>,
}

/// A load that an earlier part finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Wanted {
    /// The name of the part whose capacity is taken.
    pub of: String,
    /// How much of it: 1 is all.
    pub share: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    part: Vec<PartInFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartInFile {
    /// A file, as a path from the campaign's own.
    #[serde(default)]
    scenario: Option<String>,
    /// The scenario itself.
    #[serde(default)]
    text: Option<String>,
    /// `capacity of NAME`.
    #[serde(default)]
    load: Option<String>,
    #[serde(default = "whole")]
    share: f64,
}

const fn whole() -> f64 {
    1.0
}

impl Campaign {
    /// Reads and checks a campaign. `open` gives the text of a scenario file, or says in words why it cannot.
    ///
    /// # Errors
    /// Every fault with its line, field and what is allowed; those of a scenario below `part[n].scenario`.
    pub fn parse(text: &str, open: &dyn Fn(&str) -> Result<String, String>) -> Result<Self, Faults> {
        let document = Document::parse(text)?;
        let file: File = document.read()?;
        let mut faults = Vec::new();
        if file.name.trim().is_empty() || file.name.len() > 100 || file.name.chars().any(char::is_control) {
            faults.push(Fault::new("name", "must have 1 to 100 characters on one line"));
        }
        if file.part.is_empty() || file.part.len() > PARTS_MAX {
            faults.push(Fault::new("part", format!("has {} entries; allowed: 1 to {PARTS_MAX}", file.part.len())));
        }
        let mut parts: Vec<Part> = Vec::new();
        for (at, part) in file.part.into_iter().enumerate() {
            match read_part(at, part, &parts, open) {
                Ok(part) => parts.push(part),
                Err(found) => faults.extend(found),
            }
        }
        if faults.is_empty() {
            return Ok(Self { name: file.name, description: file.description, parts });
        }
        Err(Faults(faults.into_iter().map(|fault| document.locate(fault)).collect()))
    }
}

fn read_part(
    at: usize,
    part: PartInFile,
    before: &[Part],
    open: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Part, Vec<Fault>> {
    let field = |name: &str| format!("part[{at}].{name}");
    let one = |name: &str, message: String| vec![Fault::new(field(name), message)];
    let (text, place) = match (part.scenario, part.text) {
        (Some(path), None) => {
            let opened = open(&path).map_err(|why| one("scenario", format!("is {path:?}, which {why}")))?;
            (opened, field("scenario"))
        }
        (None, Some(text)) => (text, field("text")),
        (Some(_), Some(_)) => return Err(one("text", "stands beside `scenario`; allowed: one of them".to_owned())),
        (None, None) => {
            return Err(vec![Fault::new(
                format!("part[{at}]"),
                "names no scenario; add `scenario = \"a file\"` or `text = \"\"\"...\"\"\"`",
            )]);
        }
    };
    let scenario = Scenario::parse(&text).map_err(|faults| {
        let below = |fault: Fault| {
            let line = fault.line.map_or_else(String::new, |line| format!("line {line}: "));
            Fault::new(place.clone(), format!("{line}{}: {}", fault.field, fault.message))
        };
        faults.0.into_iter().map(below).collect::<Vec<_>>()
    })?;
    if before.iter().any(|other| other.name == scenario.name) {
        return Err(vec![Fault::new(place, format!("is named {:?}, as an earlier part is", scenario.name))]);
    }
    let load = part.load.map(|load| wanted(&load, part.share, before)).transpose();
    let load = load.map_err(|message| one("load", message))?;
    if !(0.01..=10.0).contains(&part.share) {
        return Err(one("share", format!("is {}; allowed: 0.01 to 10", part.share)));
    }
    if load.is_some() && !matches!(scenario.ladder, crate::analysis::Ladder::Levels(_)) {
        return Err(one("load", "needs a scenario of `kind = \"levels\"`, whose levels it becomes".to_owned()));
    }
    Ok(Part { name: scenario.name, text, load })
}

fn wanted(load: &str, share: f64, before: &[Part]) -> Result<Wanted, String> {
    let known = || {
        let names: Vec<String> = before.iter().map(|part| format!("\"{CAPACITY_OF}{}\"", part.name)).collect();
        if names.is_empty() { "nothing in the first part".to_owned() } else { names.join(", ") }
    };
    let of = load.strip_prefix(CAPACITY_OF).map(str::trim);
    match of.filter(|of| before.iter().any(|part| part.name == *of)) {
        Some(of) => Ok(Wanted { of: of.to_owned(), share }),
        None => Err(format!("is {load:?}; allowed: {}", known())),
    }
}

impl Part {
    /// The scenario with its load put in. `verdict_of` gives what an earlier part found, if it has found anything.
    ///
    /// # Errors
    /// Why there is no load, in words.
    pub fn resolve(&self, verdict_of: impl Fn(&str) -> Option<Verdict>) -> Result<String, String> {
        let Some(Wanted { of, share }) = &self.load else { return Ok(self.text.clone()) };
        let verdict = verdict_of(of).ok_or_else(|| format!("{of} has no verdict, and so no capacity"))?;
        let answered = matches!(verdict.status, Status::CapacityFound | Status::NotReached);
        let capacity = verdict.last_good.filter(|good| answered && *good > 0);
        let capacity = capacity.ok_or_else(|| format!("{of} found no capacity: {}", verdict.sentence))?;
        #[expect(clippy::cast_possible_truncation, reason = "a checked share of a load; a float cast saturates")]
        let load = ((capacity as f64 * share).floor() as i64).max(1);
        let mut document: toml_edit::DocumentMut =
            self.text.parse().map_err(|error| format!("its scenario is not TOML: {error}"))?;
        let levels = &mut document["load"]["levels"];
        let mut list = toml_edit::Value::from(toml_edit::Array::from_iter([load]));
        // What stands behind it in its line stays.
        if let Some(old) = levels.as_value() {
            *list.decor_mut() = old.decor().clone();
        }
        *levels = toml_edit::Item::Value(list);
        Ok(document.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analysis::{
            Ladder,
            arms::tests::{arm, result},
        },
        model::StopCode,
    };

    fn scenario(name: &str, load: &str) -> String {
        format!(
            "name = \"{name}\"\n[target]\nkind = \"zookeeper\"\nlaunch = \"local\"\n[load]\nworkload = \"zookeeper.domains\"\n{load} # as it was\n"
        )
    }

    fn open(path: &str) -> Result<String, String> {
        match path {
            "ramp.toml" => Ok(scenario("ramp", "kind = \"ramp\"\nstart = 1\nstep = 1\nmax = 3")),
            "levels.toml" => Ok(scenario("levels", "kind = \"levels\"\nlevels = [700]")),
            "wrong.toml" => Ok(scenario("wrong", "kind = \"levels\"\nlevels = []")),
            _ => Err("cannot be read: no such file".to_owned()),
        }
    }

    fn parse(parts: &str) -> Result<Campaign, String> {
        Campaign::parse(&format!("name = \"c\"\n{parts}"), &open).map_err(|faults| faults.to_string())
    }

    const TWO: &str =
        "[[part]]\nscenario = \"ramp.toml\"\n[[part]]\nscenario = \"levels.toml\"\nload = \"capacity of ramp\"\n";

    #[test]
    fn a_part_takes_the_load_that_an_earlier_one_found_and_keeps_the_rest_of_its_text() {
        let verdict =
            result(arm(0, "", 1), &[(0, &[("get", 900.0)]), (35, &[("get", 800.0)])], StopCode::MaxLoad).verdict;
        for (more, load) in [("", 35), ("share = 0.9\n", 31), ("share = 0.01\n", 1)] {
            let campaign = parse(&format!("{TWO}{more}")).unwrap();
            let text = campaign.parts[1].resolve(|of| (of == "ramp").then(|| verdict.clone())).unwrap();
            assert_eq!(Scenario::parse(&text).unwrap().ladder, Ladder::Levels(vec![load]), "{text}");
            assert!(text.contains("# as it was"), "{text}");
        }
        assert_eq!(parse(TWO).unwrap().parts[0].resolve(|_| None).unwrap(), open("ramp.toml").unwrap());
    }

    #[test]
    fn without_a_capacity_there_is_no_load() {
        let campaign = parse(TWO).unwrap();
        let dead = result(arm(0, "", 1), &[], StopCode::TargetUnhealthy).verdict;
        let error = campaign.parts[1].resolve(|_| Some(dead.clone())).unwrap_err();
        assert!(error.starts_with("ramp found no capacity: The run failed"), "{error}");
        assert!(campaign.parts[1].resolve(|_| None).unwrap_err().contains("has no verdict"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_field() {
        for (parts, said) in [
            ("", "part: has 0 entries; allowed: 1 to 20"),
            ("[[part]]\n", "part[0]: names no scenario"),
            ("[[part]]\nscenario = \"no.toml\"\n", "line 3: part[0].scenario: is \"no.toml\", which cannot be read"),
            ("[[part]]\nscenario = \"a\"\ntext = \"b\"\n", "stands beside `scenario`"),
            ("[[part]]\nscenario = \"wrong.toml\"\n", "part[0].scenario: line 8: load.levels: is missing or empty"),
            ("[[part]]\nscenario = \"ramp.toml\"\nload = \"capacity of ramp\"\n", "allowed: nothing in the first part"),
            (&TWO.replace("of ramp", "of other"), "is \"capacity of other\"; allowed: \"capacity of ramp\""),
            (&TWO.replace("\"capacity of ramp\"", "\"700\""), "is \"700\"; allowed: \"capacity of ramp\""),
            (&format!("{TWO}share = 0.0\n"), "share: is 0; allowed: 0.01 to 10"),
            (&format!("{TWO}[[part]]\nscenario = \"ramp.toml\"\n"), "is named \"ramp\", as an earlier part is"),
            (
                "[[part]]\nscenario = \"levels.toml\"\n[[part]]\nscenario = \"ramp.toml\"\nload = \"capacity of levels\"\n",
                "needs a scenario of `kind = \"levels\"`",
            ),
            ("[[part]]\nscenarios = \"ramp.toml\"\n", "unknown field `scenarios`"),
        ] {
            let error = parse(parts).unwrap_err();
            assert!(error.contains(said), "{parts}: {error}");
        }
    }
}
