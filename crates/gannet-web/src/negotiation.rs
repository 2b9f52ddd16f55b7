//! Which text format of metrics a client takes.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use gannet_control::metrics::TextFormat;

/// The format that `headers` ask for: OpenMetrics where it is named and not ranked below plain
/// text, the format of Prometheus otherwise.
pub(crate) fn text_format(headers: &HeaderMap) -> TextFormat {
    let (mut plain, mut open) = (0.0, 0.0);
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for range in accepted.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let rank = match parts.next().unwrap_or_default() {
            "application/openmetrics-text" => &mut open,
            "text/plain" => &mut plain,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        *rank = weight.unwrap_or(1.0).max(*rank);
    }
    if open > 0.0 && open >= plain { TextFormat::OpenMetrics } else { TextFormat::Prometheus }
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
}
