from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tocsin.cluster.ops.metrics import Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = metrics.read()[0].decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_page_is_in_prometheus_format():
    metrics = Metrics()
    metrics.records_accepted.labels("Reports").inc(3)
    assert samples(metrics)["tocsin_records_accepted_total", (("dataset", "Reports"),)] == 3
    assert metrics.read()[1].startswith("text/plain")


def test_two_clusters_in_one_process_do_not_share_a_registry():
    first, second = Metrics(), Metrics()
    first.notifications.labels("ok").inc()
    assert ("tocsin_notifications_total", (("outcome", "ok"),)) not in samples(second)


def test_the_metrics_show_one_state_of_spark():
    metrics = Metrics()
    metrics.spark("up")
    states = {key[1][0][1]: value for key, value in samples(metrics).items() if key[0] == "tocsin_spark_state"}
    assert states == {"starting": 0, "up": 1, "dead": 0, "stopped": 0}


def test_gauges_are_set_when_the_page_is_read():
    metrics = Metrics()
    metrics.on_read(lambda: metrics.notifications_pending.set(7))
    assert samples(metrics)["tocsin_notifications_pending", ()] == 7


def test_a_failing_gauge_does_not_affect_the_others(caplog):
    metrics = Metrics()
    metrics.on_read(lambda: 1 / 0)
    assert samples(metrics)["tocsin_notifications_pending", ()] == 0
    assert "a gauge could not be set" in caplog.text


def test_metrics_of_a_dropped_channel_disappear():
    metrics = Metrics()
    for channel in ("a", "b"):
        metrics.executions.labels(channel, "ok").inc()
        metrics.execution_seconds.labels(channel).observe(1)
        metrics.channel_lag.labels(channel).set(1)
    metrics.forget("channel", "a")
    channels = {dict(labels).get("channel") for _, labels in samples(metrics)} - {None}
    assert channels == {"b"}


def test_metrics_of_a_dropped_dataset_disappear():
    metrics = Metrics()
    metrics.commits.labels("d").inc()
    metrics.forget("dataset", "d")
    assert not [labels for _, labels in samples(metrics) if ("dataset", "d") in labels]
