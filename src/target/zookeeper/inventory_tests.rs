//! Written answers of servers in, an inventory out.

use super::*;
use crate::{model::Limit, target::zookeeper::settings::DEFAULT};

fn server(name: &str) -> Server {
    let spec = serde_json::from_value(serde_json::json!({"servers": [name]})).unwrap();
    Server { source: None, ..Server::all(&spec, &[]).remove(0) }
}

fn silent(condition: Condition) -> AskError {
    AskError::Silent { condition, text: "it said so".to_owned() }
}

fn looked<'a>(server: &'a Server, conf: &str) -> Looked<'a> {
    Looked {
        server,
        srvr: Ok(Srvr { mode: "follower".to_owned(), ..Srvr::default() }),
        conf: Ok((parse_conf(conf), "conf")),
        stats: Err(silent(Condition::Refused)),
        properties: None,
        environment: None,
        dirs: Dirs::default(),
        host: None,
        other_connections: None,
    }
}

const CONF_38: &str = "clientPort=21999\nsecureClientPort=-1\ndataDir=/d/version-2\ntickTime=3000\nmaxClientCnxns=60\n\
    minSessionTimeout=6000\nmaxSessionTimeout=60000\nclientPortListenBacklog=-1\nserverId=0\n";

#[test]
fn limits_and_settings_name_their_source() {
    let a = server("127.0.0.1:1");
    let mut inventory = Inventory::default();
    limits_and_settings(&[looked(&a, CONF_38)], &mut inventory);
    assert_eq!(inventory.limit("maxClientCnxns"), Some(60));
    let limit = Limit { name: "maxClientCnxns".to_owned(), value: Some(60), source: "conf".to_owned() };
    assert_eq!(inventory.limits, [limit], "what cannot be read is not guessed");
    let settings: Vec<_> = inventory.settings.iter().map(|s| (s.name.as_str(), s.value.as_str())).collect();
    assert_eq!(settings, [("tickTime", "3000"), ("minSessionTimeout", "6000"), ("maxSessionTimeout", "60000")]);
}

#[test]
fn no_limit_is_known_to_be_none_and_the_tightest_counts() {
    let (a, b) = (server("127.0.0.1:1"), server("127.0.0.1:2"));
    let mut inventory = Inventory::default();
    limits_and_settings(&[looked(&a, "maxClientCnxns=0")], &mut inventory);
    assert_eq!(inventory.limits[0].value, None);
    let mut inventory = Inventory::default();
    let both = [looked(&a, "maxClientCnxns=0"), looked(&b, "maxClientCnxns=1000")];
    limits_and_settings(&both, &mut inventory);
    assert_eq!(inventory.limit("maxClientCnxns"), Some(1_000));
    let remark = "maxClientCnxns differs between servers: 0 on 127.0.0.1:1, 1000 on 127.0.0.1:2";
    assert_eq!(inventory.remarks, [remark]);
}

#[test]
fn defaults_are_named_as_such_where_properties_are_known() {
    let a = server("127.0.0.1:1");
    let mut each = looked(&a, "");
    let json = serde_json::json!({"jute.maxbuffer": "0x400000", "java.version": "17.0.15"});
    each.properties = json.as_object().cloned();
    let mut inventory = Inventory::default();
    limits_and_settings(&[each], &mut inventory);
    assert_eq!(inventory.limit("jute.maxbuffer"), Some(4 << 20));
    let setting = |name: &str| inventory.settings.iter().find(|setting| setting.name == name).unwrap();
    assert_eq!((setting("snapCount").value.as_str(), setting("snapCount").source.as_str()), ("100000", DEFAULT));
    assert_eq!(setting("java_version").value, "17.0.15");
}

#[test]
fn a_target_without_a_serving_server_is_an_error_that_says_why() {
    let (a, b) = (server("127.0.0.1:1"), server("127.0.0.1:2"));
    let failing = |server, condition| Looked { srvr: Err(silent(condition)), ..looked(server, "") };
    let error = serving(&[failing(&a, Condition::Unreachable), failing(&b, Condition::NotServing)]).unwrap_err();
    assert!(matches!(&error, TargetError::NotServing { address, .. } if address == "127.0.0.1:2"), "{error}");
    let error = serving(&[failing(&a, Condition::Unreachable)]).unwrap_err();
    assert!(matches!(error, TargetError::Unreachable { .. }));
    let error = serving(&[failing(&a, Condition::Empty)]).unwrap_err();
    assert!(error.to_string().contains("maxClientCnxns"), "{error}");
    assert!(serving(&[failing(&a, Condition::Unreachable), looked(&b, "")]).is_ok());
    assert!(serving(&[]).is_err());
}

#[test]
fn refused_commands_are_remarks() {
    let a = server("127.0.0.1:1");
    let each = Looked { conf: Err(silent(Condition::Refused)), ..looked(&a, "") };
    let mut remarks = Vec::new();
    remark_refusals(&each, &mut remarks);
    assert_eq!(remarks.len(), 2);
    assert!(remarks[0].contains("limits are not known") && remarks[1].contains("watches"), "{remarks:?}");
}

#[test]
fn a_tunnel_is_not_taken_for_the_server() {
    assert_eq!(pid_of_java(Some((7, "java".to_owned()))), Ok(7));
    assert!(pid_of_java(Some((7, "ssh".to_owned()))).unwrap_err().contains("ssh"));
    assert!(pid_of_java(None).is_err());
}

#[test]
fn the_interface_stands_in_only_for_old_servers_of_this_machine() {
    let node = |version: &str, local| NodeInfo { version: version.to_owned(), local, ..NodeInfo::default() };
    assert!(uses_interface(&node("3.4.14-4c25d480", true)));
    assert!(uses_interface(&node("3.5.10", true)));
    assert!(!uses_interface(&node("3.5.10", false)));
    assert!(!uses_interface(&node("3.6.0", true)));
    assert!(!uses_interface(&node("3.10.0", true)));
    assert!(!uses_interface(&node("", true)));
}

#[test]
fn several_versions_in_one_ensemble_are_a_remark() {
    let node =
        |name: &str, version: &str| NodeInfo { name: name.into(), version: version.into(), ..NodeInfo::default() };
    assert_eq!(mixed_versions(&[node("a", "3.8.0"), node("b", "3.8.0"), node("c", "")]), None);
    let remark = mixed_versions(&[node("a", "3.9.4"), node("b", "3.8.0"), node("c", "3.9.4")]).unwrap();
    assert_eq!(remark, "the servers run different versions: 3.8.0 on b; 3.9.4 on a, c");
}

#[test]
fn each_server_is_listed_with_what_it_is_sampled_by() {
    let (a, b) = (server("127.0.0.1:1"), server("127.0.0.2:2"));
    let by = |server, source| Looked { stats: Ok((Stats::default(), source)), ..looked(server, "") };
    let both = [by(&a, Source::Mntr), by(&b, Source::Prometheus)];
    let nodes = [NodeInfo::default(), NodeInfo::default()];
    let lines = sampling(&both, &nodes);
    assert!(
        lines.iter().any(|line| line.starts_with("mntr every 10 s") && line.ends_with("; 127.0.0.1:1")),
        "{lines:?}"
    );
    let other = |line: &String| line.starts_with("Prometheus provider every") && line.ends_with("; 127.0.0.2:2");
    assert!(lines.iter().any(other), "{lines:?}");
}

#[test]
fn a_provider_that_answers_is_a_setting_since_it_costs_the_server() {
    let a = server("127.0.0.1:1");
    let mut inventory = Inventory::default();
    let each = Looked { stats: Ok((Stats::default(), Source::Prometheus)), ..looked(&a, "") };
    limits_and_settings(&[each], &mut inventory);
    assert!(
        inventory.settings.iter().any(|setting| setting.name == "metricsProvider" && setting.value == "Prometheus")
    );
}
