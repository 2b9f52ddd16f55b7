//! Which kind of an answer a client takes.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use gannet_control::metrics::TextFormat;

use crate::arrow;

/// The format that `headers` ask for: OpenMetrics where it is named and not ranked below plain
/// text, the format of Prometheus otherwise.
pub(crate) fn text_format(headers: &HeaderMap) -> TextFormat {
    match prefers(headers, "application/openmetrics-text", "text/plain") {
        true => TextFormat::OpenMetrics,
        false => TextFormat::Prometheus,
    }
}

/// Whether `headers` ask for Arrow rather than for JSON.
pub(crate) fn wants_arrow(headers: &HeaderMap) -> bool {
    prefers(headers, arrow::KIND, "application/json")
}

/// Whether `headers` name the kind `special`, and do not rank it below `usual`.
fn prefers(headers: &HeaderMap, special: &str, usual: &str) -> bool {
    let rank = |kind: &str| {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let weights = accepted.flat_map(|value| value.split(',')).filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_it = parts.next()?.eq_ignore_ascii_case(kind);
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
            is_it.then_some(weight.unwrap_or(1.0))
        });
        weights.fold(0.0, f32::max)
    };
    let special = rank(special);
    special > 0.0 && special >= rank(usual)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn chosen(accept: &'static str) -> TextFormat {
        text_format(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]))
    }

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        // What Prometheus 2.42 and 3 send.
        let of_prometheus = [
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
             version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
             text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            "application/openmetrics-text",
        ];
        for accept in of_prometheus {
            assert_eq!(chosen(accept), TextFormat::OpenMetrics, "{accept}");
        }
        let of_others = [
            "*/*",
            "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8",
            "text/plain;version=0.0.4",
            "text/plain;q=0.9,application/openmetrics-text;q=0.1",
            "application/openmetrics-text;q=0",
            "",
        ];
        for accept in of_others {
            assert_eq!(chosen(accept), TextFormat::Prometheus, "{accept}");
        }
        assert_eq!(text_format(&HeaderMap::new()), TextFormat::Prometheus);
    }

    #[test]
    fn arrow_is_for_those_who_name_it() {
        let wants = |accept: &'static str| {
            wants_arrow(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]))
        };
        assert!(wants("application/vnd.apache.arrow.stream"));
        assert!(wants("application/vnd.apache.arrow.stream, application/json;q=0.9"));
        assert!(!wants("application/json, application/vnd.apache.arrow.stream;q=0.9"));
        assert!(!wants("*/*") && !wants("application/json") && !wants("application/*"));
    }
}
