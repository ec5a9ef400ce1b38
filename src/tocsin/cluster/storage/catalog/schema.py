"""The tables, written once for both databases.

Foreign keys are declared where the referring column is indexed (else every drop would scan the table), and not on
the two tables with millions of rows, where they would double the cost; the store looks after those itself.
"""

from __future__ import annotations

from tocsin.database import Layout

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value {int} NOT NULL) {keyed};
INSERT INTO meta (name, value) VALUES ('id', 0);
CREATE TABLE definitions (
    id {int} PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, spec TEXT NOT NULL, UNIQUE (kind, name)
) {plain};
CREATE TABLE heads (
    dataset {int} PRIMARY KEY REFERENCES definitions (id) ON DELETE CASCADE, head {int} NOT NULL
) {plain};
CREATE TABLE segments (
    path TEXT PRIMARY KEY, dataset {int} NOT NULL REFERENCES definitions (id) ON DELETE CASCADE,
    first {int} NOT NULL, last {int} NOT NULL, kind TEXT NOT NULL, rows {int} NOT NULL, bytes {int} NOT NULL
) {plain};
CREATE INDEX segments_dataset ON segments (dataset, first);
CREATE TABLE idempotency (
    feed {int} NOT NULL REFERENCES definitions (id) ON DELETE CASCADE, key TEXT NOT NULL, receipt {bytes} NOT NULL,
    time {real} NOT NULL, ordinal {int}, PRIMARY KEY (feed, key)
) {keyed};
CREATE INDEX idempotency_time ON idempotency (time);
CREATE TABLE feed_batches (
    feed {int} PRIMARY KEY REFERENCES definitions (id) ON DELETE CASCADE, batch {int} NOT NULL
) {plain};
CREATE TABLE subscriptions (
    id {int} PRIMARY KEY, channel {int} NOT NULL, args TEXT NOT NULL
) {plain};
CREATE INDEX subscriptions_channel ON subscriptions (channel, id);
CREATE TABLE subscription_brokers (
    subscription {int} NOT NULL, broker {int} NOT NULL, PRIMARY KEY (subscription, broker)
) {keyed};
CREATE TABLE ended_subscriptions (
    id {int} PRIMARY KEY, channel {int} NOT NULL REFERENCES definitions (id) ON DELETE CASCADE,
    digest {bytes} NOT NULL, execution {int} NOT NULL
) {plain};
CREATE INDEX ended_subscriptions_channel ON ended_subscriptions (channel, execution);
CREATE TABLE progress (
    channel {int} PRIMARY KEY REFERENCES definitions (id) ON DELETE CASCADE, last {int} NOT NULL
) {plain};
CREATE TABLE positions (
    channel {int} NOT NULL REFERENCES definitions (id) ON DELETE CASCADE,
    dataset {int} NOT NULL REFERENCES definitions (id) ON DELETE CASCADE,
    ordinal {int} NOT NULL, PRIMARY KEY (channel, dataset)
) {keyed};
CREATE INDEX positions_dataset ON positions (dataset);
CREATE TABLE executions (
    channel {int} NOT NULL REFERENCES definitions (id) ON DELETE CASCADE, number {int} NOT NULL,
    time {real} NOT NULL, finished {real} NOT NULL, rows {int} NOT NULL, subscriptions {int} NOT NULL,
    bytes {int} NOT NULL, path TEXT, PRIMARY KEY (channel, number)
) {keyed};
CREATE TABLE outbox (
    broker {int} NOT NULL REFERENCES definitions (id) ON DELETE CASCADE,
    channel {int} NOT NULL REFERENCES definitions (id) ON DELETE CASCADE,
    execution {int} NOT NULL, PRIMARY KEY (broker, channel, execution)
) {keyed};
CREATE INDEX outbox_channel ON outbox (channel);
CREATE TABLE schedules (
    id {int} PRIMARY KEY, procedure {int} NOT NULL REFERENCES definitions (id) ON DELETE CASCADE,
    args TEXT NOT NULL, started {real} NOT NULL
) {plain};
CREATE INDEX schedules_procedure ON schedules (procedure);
INSERT INTO definitions (id, kind, name, spec) VALUES
    (-1, 'role', 'anonymous', '{{"id":-1,"name":"anonymous"}}'), (-2, 'role', 'user', '{{"id":-2,"name":"user"}}');
CREATE TABLE grants (
    id {int} PRIMARY KEY, role {int} NOT NULL REFERENCES definitions (id) ON DELETE CASCADE, privilege TEXT NOT NULL,
    object {int} REFERENCES definitions (id) ON DELETE CASCADE, conditions TEXT NOT NULL
) {plain};
CREATE INDEX grants_role ON grants (role);
CREATE INDEX grants_object ON grants (object);
"""

LAYOUT = Layout(
    what="catalog",
    who="data cluster",
    version=4,
    tables=TABLES,
    schema="tocsin",
    lock=0x746F6373696E,  # "tocsin"; advisory locks are numbers that all programs of a database share
    arrays={
        **dict.fromkeys(("path", "kind", "name", "spec", "key", "args", "privilege", "conditions"), "text"),
        **dict.fromkeys(("time", "finished", "started"), "double precision"),
        **dict.fromkeys(("receipt", "digest"), "bytea"),
    },
    elsewhere="another home or catalog",
)
